"""The container image for all architectures: an OCI image layout that is a docker archive, too.

Usage: image.py WORK DIST
WORK has a folder with binary, LICENSE and NOTICES for each architecture. DIST has the SBOMs and the
file .buildinfo, and gets the image.
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

PLATFORMS = {"x86_64": "amd64", "aarch64": "arm64"}

# As in docker/Dockerfile.
LABELS = {
    "title": "ojs-init",
    "description": "A container init that is also the Open Job Spec worker: one small static binary for ENTRYPOINT",
    "licenses": "Apache-2.0",
    "source": "https://openjobspec.org",
}
CONFIG = {"User": "65532:65532", "Entrypoint": ["/ojs-init"], "Cmd": ["--help"]}
SECOND = 10**9
HEALTHCHECK = {"Test": ["CMD", "/ojs-init", "health", "live"], "Interval": 10 * SECOND, "Timeout": 3 * SECOND}

INDEX = "application/vnd.oci.image.index.v1+json"
# Types of manifest, configuration and layer. OCI's format has no health check: Podman reads one
# from Docker's format alone.
OCI = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.oci.image.layer.v1.tar+gzip",
)
DOCKER = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.container.image.v1+json",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
)
ATTESTATION = "application/vnd.docker.attestation.manifest.v1+json"


def build_information(file: Path) -> dict[str, str]:
    """The lines of .buildinfo; of several lines with one name the first."""
    fields: dict[str, str] = {}
    for line in file.read_text().splitlines():
        name, value = line.split(": ", 1)
        fields.setdefault(name, value)
    return fields


def archive(files: dict[str, bytes], time: int) -> bytes:
    """A tar file that depends on nothing else. A name with a slash at its end is that of a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name.rstrip("/"))
            is_folder = name.endswith("/")
            entry.type = tarfile.DIRTYPE if is_folder else tarfile.REGTYPE
            entry.mode = 0o755 if is_folder or name == "ojs-init" else 0o644
            entry.size, entry.mtime = len(content), time
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def sha256(content: bytes) -> str:
    """The digest, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


class Layout:
    """The files of the layout."""

    def __init__(self, info: dict[str, str]) -> None:
        self.time = int(info["SOURCE_DATE_EPOCH"])
        self.created = datetime.fromtimestamp(self.time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        labels = {**LABELS, "version": info["version"], "revision": info["revision"], "created": self.created}
        self.labels = {f"org.opencontainers.image.{name}": value for name, value in labels.items()}
        self.blobs: dict[str, bytes] = {}
        self.tags: list[dict] = []  # of index.json
        self.loaded: list[dict] = []  # of manifest.json, for a docker archive

    def add(self, media_type: str, content: bytes | dict) -> dict:
        """Keeps a blob. Returns its descriptor."""
        data = json.dumps(content, separators=(",", ":")).encode() if isinstance(content, dict) else content
        digest = sha256(data)
        self.blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def image(self, types: tuple[str, str, str], settings: dict, platform: str, tree: Path, tag: str) -> dict:
        """The image for one platform, of the tree of its archive. /licenses is where checks of images expect the licences."""
        files = {"licenses/": b"", **{f"licenses/{name}": (tree / name).read_bytes() for name in ("LICENSE", "NOTICES")}}
        tar = archive(files | {"ojs-init": (tree / "ojs-init").read_bytes()}, self.time)
        layer = self.add(types[2], subprocess.run(["gzip", "-9n"], input=tar, stdout=subprocess.PIPE, check=True).stdout)
        place = {"architecture": platform, "os": "linux"}
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{sha256(tar)}"]}
        settings = {**settings, "Labels": self.labels}
        config = self.add(types[1], {"created": self.created, **place, "config": settings, "rootfs": rootfs})
        manifest = {"schemaVersion": 2, "mediaType": types[0], "config": config, "layers": [layer]}
        config_file, layer_file = (f"blobs/{blob['digest'].replace(':', '/')}" for blob in (config, layer))
        # An engine that reads manifest.json knows one architecture for each name.
        self.loaded.append({"Config": config_file, "RepoTags": [f"ojs-init:{tag}-{platform}"], "Layers": [layer_file]})
        return {**self.add(types[0], manifest), "platform": place}

    def attestations(self, image: dict, predicates: dict[str, dict]) -> dict:
        """The statements about one image, where BuildKit puts them, and as a referrer of OCI 1.1."""
        subject = {key: image[key] for key in ("mediaType", "digest", "size")}
        digest = image["digest"].removeprefix("sha256:")
        layers = []
        for kind, predicate in predicates.items():
            statement = {"_type": "https://in-toto.io/Statement/v1", "predicateType": kind}
            statement |= {"subject": [{"name": "ojs-init", "digest": {"sha256": digest}}], "predicate": predicate}
            layer = self.add("application/vnd.in-toto+json", statement)
            layers.append({**layer, "annotations": {"in-toto.io/predicate-type": kind}})
        place = {"architecture": "unknown", "os": "unknown"}
        rootfs = {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}
        config = self.add(OCI[1], {**place, "config": {}, "rootfs": rootfs})
        manifest = {"schemaVersion": 2, "mediaType": OCI[0], "artifactType": ATTESTATION}
        manifest |= {"config": config, "layers": layers, "subject": subject}
        notes = {"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": image["digest"]}
        return {**self.add(OCI[0], manifest), "platform": place, "annotations": notes}

    def tag(self, tag: str, manifests: list[dict]) -> None:
        """Names an index of images and attestations: for most tools, and for containerd with Docker."""
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": self.labels}
        names = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": f"docker.io/library/ojs-init:{tag}"}
        self.tags.append({**self.add(INDEX, index), "annotations": names})

    def file(self) -> bytes:
        """The layout as a tar file."""
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": self.tags}
        top = {"oci-layout": {"imageLayoutVersion": "1.0.0"}, "index.json": index, "manifest.json": self.loaded}
        files = {name: json.dumps(content, separators=(",", ":")).encode() for name, content in top.items()}
        return archive(files | dict(sorted(self.blobs.items())), self.time)


def provenance(info: dict[str, str], arch: str) -> dict:
    """How the binary was built. No builder is named, because the same bytes come from any machine."""
    lock = Path(__file__).parent.parent / "Cargo.lock"
    materials: list[dict] = [{"name": "Cargo.lock", "digest": {"sha256": sha256(lock.read_bytes())}}]
    commit, _, modified = info["revision"].partition("-")
    if commit != "unknown":
        source: dict = {"name": "sources", "digest": {"gitCommit": commit}}
        materials.insert(0, source | ({"annotations": {"modified": True}} if modified else {}))
    parameters = ("version", "revision", "SOURCE_DATE_EPOCH")
    tools = {name: value for name, value in info.items() if name not in parameters}
    return {
        "buildDefinition": {
            "buildType": f"pkg:generic/ojs-init@{info['version']}#docs/release.md",
            "externalParameters": {"command": "make dist", "architecture": arch, "revision": info["revision"]},
            "internalParameters": {"SOURCE_DATE_EPOCH": info["SOURCE_DATE_EPOCH"]},
            "resolvedDependencies": materials,
        },
        "runDetails": {"builder": {"id": "", "version": tools}},
    }


def main() -> None:
    """Writes the image."""
    work, dist = (Path(argument) for argument in sys.argv[1:])
    [information] = dist.glob("ojs-init-*.buildinfo")
    info = build_information(information)
    version = info["version"]
    layout = Layout(info)
    checked = {**CONFIG, "Healthcheck": HEALTHCHECK}
    for tag, types, settings in ((version, OCI, CONFIG), (f"{version}-healthcheck", DOCKER, checked)):
        images, attestations = [], []
        for arch, platform in PLATFORMS.items():
            name = f"ojs-init-{version}-linux-{arch}"
            if not (work / name).exists():
                continue
            sbom = json.loads((dist / f"{name}.cdx.json").read_text())
            predicates = {"https://cyclonedx.org/bom": sbom, "https://slsa.dev/provenance/v1": provenance(info, arch)}
            images.append(layout.image(types, settings, platform, work / name, tag))
            attestations.append(layout.attestations(images[-1], predicates))
        layout.tag(tag, images + attestations)
    (dist / f"ojs-init-{version}-oci.tar").write_bytes(layout.file())


main()
