"""What the manifests of docker/kubernetes promise, apart from ojs-init itself: each function returns what is wrong."""

import functools
import json
import re
from itertools import chain
from pathlib import Path

import jsonschema
import yaml
from kubernetes_validate import utils

from kustomize import KINDS, Wrong, all_containers, apply, build, load, load_one

# The versions of Kubernetes that the manifests are for. 1.29 is the first with native sidecars.
VERSIONS = [f"1.{minor}" for minor in range(29, 38)]

CUSTOM_KINDS = json.loads(Path(__file__).with_name("custom-resources.schema.json").read_text(encoding="utf-8"))

PROGRAM = "/ojs-init"

# `prestop` without `--for`, in seconds.
DEFAULT_HOOK = 5

# What the limit has to be above the grace period, besides the hook: the specification's recommendation.
ABOVE_GRACE = 10

# The longest that the cluster autoscaler waits for a pod, in seconds: the default of its max-graceful-termination-sec.
LONGEST_SCALE_DOWN = 600

# OJS_QUEUES where it is not set.
DEFAULT_QUEUES = "default"

# The components that decide the number of workers.
SCALERS = ["hpa", "keda"]

# Default of ojs-init; sequence.py holds it against the binary.
HEALTH_PORT = 8081

# The queue's depth is known to the backend alone: the specification's gauge, as Prometheus spells it.
METRIC_OF_THE_BACKEND = "ojs_queue_depth"

# These read files at each call otherwise.
utils.schema_contents = functools.cache(utils.schema_contents)
utils.all_versions = functools.cache(utils.all_versions)


class Variant:
    """A way to use the base: what kustomize makes of it."""

    def __init__(self, name, resources):
        self.name = name
        self.resources = resources

    def all(self, kind):
        return [resource for resource in self.resources if resource["kind"] == kind]

    @property
    def deployment(self):
        return self.all("Deployment")[0]

    @property
    def pod(self):
        return self.deployment["spec"]["template"]["spec"]

    @property
    def worker(self):
        return next(container for container in self.pod["containers"] if container["name"] == "worker")

    @property
    def environment(self):
        return {entry["name"]: entry["value"] for entry in self.worker["env"] if "valueFrom" not in entry}


def components(root):
    return sorted(folder.name for folder in (root / "components").iterdir())


def variants(root):
    """The base, with each component, with all that go together, and the overlays, with each autoscaler too."""
    base = root / "base"
    yield Variant("base", build(base))
    for name in components(root):
        yield Variant(name, apply(root / "components" / name, build(base)))
    together = build(base)
    for name in components(root):
        if name not in ("keda", "pod-monitor", "without-token"):
            together = apply(root / "components" / name, together)
    yield Variant("all together", together)
    for name, folder, said in overlays(root):
        yield Variant(f"overlays/{name}", build(folder, said))


def overlays(root):
    """The name, folder and kustomization of each overlay, and of a copy with each autoscaler where it has none."""
    for folder in sorted((root / "overlays").iterdir()):
        said = load_one(folder / "kustomization.yaml")
        yield folder.name, folder, said
        named = [Path(component).name for component in said["components"]]
        for scaler in SCALERS if not set(SCALERS) & set(named) else []:
            added = [f"../../components/{scaler}", *said["components"]]
            yield f"{folder.name}-with-{scaler}", folder, said | {"components": added}


def each_file_is_used(root):
    """A manifest that no kustomization names is never applied, and nobody notices."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_dir() or path.name in ("kustomization.yaml", "README.md"):
            continue
        home = load_one(path.with_name("kustomization.yaml"))
        named = home.get("resources", []) + [entry.get("path") for entry in home.get("patches", [])]
        if path.name not in named:
            found.append(f"{path.relative_to(root)}: no kustomization names it")
    readme = (root / "README.md").read_text(encoding="utf-8")
    missing = [name for name in components(root) if f"\n| `{name}` |" not in readme]
    found += [f"README.md: says nothing of components/{name}" for name in missing]
    for path in root.rglob("*.yaml"):
        kinds = [document["kind"] for document in load(path)]
        if path.name == "kustomization.yaml" and kinds not in ([kind] for kind in KINDS):
            found.append(f"{path.relative_to(root)}: is no kustomization")
    return found


def schema_errors(variant, versions=VERSIONS):
    """Against the schemas of Kubernetes, in which unknown fields are errors; custom resources against ours."""
    for resource in variant.resources:
        name = f"{variant.name}: {resource['kind']}"
        if resource["kind"] in CUSTOM_KINDS:
            validator = jsonschema.Draft202012Validator(CUSTOM_KINDS[resource["kind"]])
            yield from (f"{name}: {error.json_path}: {error.message}" for error in validator.iter_errors(resource))
            resource = behind(resource)
        for version in versions if resource else []:
            error = schema_error(json.dumps(resource), version)
            if error:
                yield f"{name}: {version}: {error}"


@functools.cache
def schema_error(resource, version):
    """Of a resource as JSON: most of them are the same in every variant."""
    try:
        utils.validate(json.loads(resource), version, strict=True)
    except utils.ValidationError as error:
        return f"{error.json_path}: {error.message}"
    except utils.SchemaNotFoundError as error:
        return error.message
    return None


def page_errors(text, versions=VERSIONS):
    """The manifests in a page: against the same schemas, and their times as those of the base."""
    resources = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.S | re.M)]
    for resource in resources:
        yield from schema_errors(Variant("docs/scale-from-zero.md", [resource]), versions)
        job = behind(resource) if resource["kind"] == "ScaledJob" else resource
        pod = job["spec"]["template"]["spec"]
        environment = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}
        limit = environment.get("OJS_TERMINATION_GRACE_PERIOD", "none")
        if limit != f"{pod['terminationGracePeriodSeconds']}s":
            yield f"docs/scale-from-zero.md: {resource['kind']}: OJS_TERMINATION_GRACE_PERIOD is {limit}"
        if not is_restricted(pod):
            yield f"docs/scale-from-zero.md: {resource['kind']}: the profile restricted refuses the pod"
    if sorted(resource["kind"] for resource in resources) != ["Job", "ScaledJob"]:
        yield "docs/scale-from-zero.md: not one Job and one ScaledJob"


def is_restricted(pod):
    """Whether the profile "restricted" of the Pod Security Standards admits the pod."""
    context = pod.get("securityContext", {})
    if not context.get("runAsNonRoot") or context.get("seccompProfile") != {"type": "RuntimeDefault"}:
        return False
    wanted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return all(wanted.items() <= container.get("securityContext", {}).items() for container in pod["containers"])


def behind(resource):
    """What becomes of a custom resource in Kubernetes' own words, as far as that can be said."""
    if resource["kind"] == "ScaledJob":
        job = resource["spec"]["jobTargetRef"]
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": job}
    config = resource["spec"].get("advanced", {}).get("horizontalPodAutoscalerConfig")
    if config is None:
        return None
    target = resource["spec"]["scaleTargetRef"]
    spec = {"scaleTargetRef": target, "maxReplicas": resource["spec"]["maxReplicaCount"], **config}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": spec}


def seconds(text):
    """Of 45s, or 45."""
    matched = re.fullmatch(r"(\d+)s?", text)
    if matched is None:
        raise Wrong(f"{text}: these files have times in seconds")
    return int(matched[1])


def hook_seconds(command):
    """How much of the limit a preStop hook takes away from the drain. Until it is idle, jobs go on as in a drain."""
    if command[:2] != [PROGRAM, "prestop"]:
        raise Wrong(f"preStop: {command} is not ojs-init prestop")
    if "--until-idle" in command:
        return 0
    return seconds(command[command.index("--for") + 1]) if "--for" in command else DEFAULT_HOOK


def time_errors(variant):
    limit = variant.pod["terminationGracePeriodSeconds"]
    environment = variant.environment
    if seconds(environment["OJS_TERMINATION_GRACE_PERIOD"]) != limit:
        yield f"OJS_TERMINATION_GRACE_PERIOD is not terminationGracePeriodSeconds, {limit}"
    needed = seconds(environment["OJS_SHUTDOWN_GRACE_PERIOD"]) + ABOVE_GRACE
    needed += hook_seconds(variant.worker["lifecycle"]["preStop"]["exec"]["command"])
    if limit < needed:
        yield f"terminationGracePeriodSeconds is {limit}, and grace period + hook + {ABOVE_GRACE} is {needed}"
    if limit > LONGEST_SCALE_DOWN:
        yield f"terminationGracePeriodSeconds is {limit}, and the cluster autoscaler waits {LONGEST_SCALE_DOWN} s"


def file_errors(variant):
    """Mounts, volumes and the paths that the environment names."""
    volumes = {volume["name"]: volume for volume in variant.pod["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in variant.worker["volumeMounts"]}
    used = {mount["name"] for mount in chain(*(c.get("volumeMounts", []) for c in all_containers(variant.deployment)))}
    yield from (f"volume {name}: nobody mounts it" for name in sorted(set(volumes) - used))
    yield from (f"volumeMount {name}: there is no such volume" for name in sorted(used - set(volumes)))
    if "OJS_AUTH_TOKEN_FILE" not in variant.environment and "token" not in {volume["name"] for volume in variant.pod["volumes"]}:
        return
    folder, _, name = variant.environment["OJS_AUTH_TOKEN_FILE"].rpartition("/")
    secret = volumes.get(mounts.get(folder, {}).get("name"), {}).get("secret", {})
    if name not in [item["path"] for item in secret.get("items", [])]:
        yield f"OJS_AUTH_TOKEN_FILE: no Secret is mounted as {folder}/{name}"
    elif not mounts[folder].get("readOnly") or "subPath" in mounts[folder]:
        yield "the token's mount must be read-only and no subPath"
    elif secret["defaultMode"] != 0o440 or "fsGroup" not in variant.pod["securityContext"]:
        yield "the token must be readable for fsGroup, and for nobody else"
    runtime = variant.environment["OJS_RUNTIME_DIR"]
    if volumes.get(mounts.get(runtime, {}).get("name"), {}).get("emptyDir", {}).get("medium") != "Memory":
        yield f"OJS_RUNTIME_DIR: no emptyDir in memory is mounted at {runtime}"
    on_disk = [name for name, volume in volumes.items() if volume.get("emptyDir", {}).get("medium") != "Memory"]
    limited = [name for name in on_disk if "sizeLimit" in volumes[name].get("emptyDir", {})]
    yield from (f"volume {name}: on disk, and the kubelet evicts who is above its limit, at once" for name in limited)
    if variant.worker["terminationMessagePath"] != "/dev/termination-log":
        yield "terminationMessagePath is not where ojs-init writes by default"
    secrets = [name for name in variant.environment if "TOKEN" in name and not name.endswith("_FILE")]
    yield from (f"{name}: a secret in the environment" for name in secrets)


def probe_errors(variant):
    ports = {port["name"]: port["containerPort"] for port in variant.worker["ports"]}
    if ports.get("health") != HEALTH_PORT:
        yield f"port health is not {HEALTH_PORT}, on which ojs-init listens"
    for kind, path, word in (("livenessProbe", "/livez", "live"), ("readinessProbe", "/readyz", "ready")):
        probe = variant.worker[kind]
        how = {"httpGet", "exec", "tcpSocket", "grpc"} & set(probe)
        if how == {"httpGet"} and probe["httpGet"] != {"path": path, "port": "health"}:
            yield f"{kind}: {probe['httpGet']} is not {path} on the port health"
        elif how == {"exec"} and probe["exec"]["command"] != [PROGRAM, "health", word]:
            yield f"{kind}: {probe['exec']['command']} is not ojs-init health {word}"
        elif how not in ({"httpGet"}, {"exec"}):
            yield f"{kind}: {sorted(how)} is not one of httpGet and exec"
        if "terminationGracePeriodSeconds" in probe:
            yield f"{kind}: a grace period of its own is one that ojs-init does not know of"
    if "startupProbe" in variant.worker:
        yield "startupProbe: /livez needs none"


def label_errors(variant):
    labels = variant.deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [variant.deployment["spec"]["selector"]]
    selectors += [constraint["labelSelector"] for constraint in variant.pod["topologySpreadConstraints"]]
    others = variant.all("PodDisruptionBudget") + variant.all("PodMonitor")
    selectors += [other["spec"]["selector"] for other in others]
    for selector in selectors:
        wanted = selector.get("matchLabels", {})
        if not wanted or not wanted.items() <= labels.items():
            yield f"a selector does not find the pods: {selector}"
    accounts = [account["metadata"]["name"] for account in variant.all("ServiceAccount")]
    if variant.pod["serviceAccountName"] not in accounts:
        yield f"serviceAccountName: {variant.pod['serviceAccountName']} is not there"
    placed = [resource["metadata"] for resource in variant.resources if resource["kind"] != "Namespace"]
    namespaces = {metadata.get("namespace") for metadata in placed}
    if len(namespaces) != 1:
        yield f"several namespaces: {sorted(map(str, namespaces))}"


def security_errors(variant):
    """The profile "restricted" of the Pod Security Standards, and a read-only root besides."""
    pod = variant.pod["securityContext"]
    is_somebody = pod.get("runAsNonRoot") and pod.get("runAsUser")
    if not is_somebody or pod.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "the pod's securityContext is not restricted"
    of_the_host = [field for field in ("hostNetwork", "hostPID", "hostIPC") if field in variant.pod]
    yield from (f"{field}: not in a restricted pod" for field in of_the_host)
    kept_out = [variant.pod.get(field) for field in ("automountServiceAccountToken", "enableServiceLinks")]
    if kept_out != [False, False]:
        yield "a token of the API, or variables of Services, are in the pod"
    wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    for container in all_containers(variant.deployment):
        if container.get("securityContext") != wanted:
            yield f"{container['name']}: its securityContext is not {wanted}"
        if "memory" not in container["resources"]["limits"] or "cpu" in container["resources"]["limits"]:
            yield f"{container['name']}: needs a limit of memory, and none of cpu"


def count_errors(variant):
    """Disruption budget, rollout and autoscaler."""
    spec = variant.deployment["spec"]
    scalers = variant.all("HorizontalPodAutoscaler") + variant.all("ScaledObject")
    if len(scalers) > 1:
        yield "two autoscalers for one Deployment"
    if bool(scalers) == ("replicas" in spec):
        yield "replicas belong to the autoscaler, and where there is none to the Deployment"
    budgets = variant.all("PodDisruptionBudget")
    fewest = min([spec.get("replicas", 2)] + [lower_bound(scaler) for scaler in scalers])
    if [budget["spec"]["maxUnavailable"] for budget in budgets] != [1] or fewest < 2:
        yield "the disruption budget leaves no worker"
    if budgets[0]["spec"].get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
        yield "a worker that is not ready keeps a node from being drained"
    if spec["strategy"] != {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}:
        yield "the rollout takes workers away before others are ready"
    for scaler in scalers:
        yield from scaler_errors(variant, scaler)


def lower_bound(scaler):
    return scaler["spec"].get("minReplicas", scaler["spec"].get("minReplicaCount", 0))


def scaler_errors(variant, scaler):
    spec = scaler["spec"]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": variant.deployment["metadata"]["name"]}
    if spec["scaleTargetRef"] != target:
        yield f"scaleTargetRef is not {target}"
    if lower_bound(scaler) >= spec.get("maxReplicas", spec.get("maxReplicaCount")):
        yield "the autoscaler has no room"
    behaviour = spec.get("behavior") or spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    limit = variant.pod["terminationGracePeriodSeconds"]
    periods = [policy["periodSeconds"] for policy in behaviour["scaleDown"]["policies"]]
    # With long-jobs one worker after the other still begins to drain each minute.
    if variant.name != "all together" and periods != [limit]:
        yield f"scaleDown: {periods} is not terminationGracePeriodSeconds, {limit}"
    busy = [goal for metric, goal in goals(scaler) if metric != METRIC_OF_THE_BACKEND]
    # With the component gateway only the SDK knows how many jobs a worker takes.
    most = float(variant.environment.get("OJS_CONCURRENCY", "inf"))
    if not all(0 < goal < most for goal in busy) or not busy:
        yield f"as many active jobs as {busy} for each worker never happen, or all the time"


def queue_errors(variant):
    """The autoscaler looks at the queues that the workers serve."""
    served = set(variant.environment.get("OJS_QUEUES", DEFAULT_QUEUES).split(","))
    for scaler in variant.all("HorizontalPodAutoscaler") + variant.all("ScaledObject"):
        asked = list(queues_of(scaler))
        if asked != [served]:
            yield f"the autoscaler asks for the queues {[sorted(queues) for queues in asked]}, not OJS_QUEUES"


def queues_of(scaler):
    """For each time that the depth is measured, of which queues."""
    for metric in scaler["spec"].get("metrics", []):
        if metric.get("external", {}).get("metric", {}).get("name") == METRIC_OF_THE_BACKEND:
            selector = metric["external"]["metric"].get("selector", {})
            queues = {value for key, value in selector.get("matchLabels", {}).items() if key == "queue"}
            for wanted in selector.get("matchExpressions", []):
                if (wanted["key"], wanted["operator"]) == ("queue", "In"):
                    queues |= set(wanted["values"])
            yield queues
    for trigger in scaler["spec"].get("triggers", []):
        query = trigger["metadata"]["query"]
        if METRIC_OF_THE_BACKEND in query:
            matched = re.search(r'\bqueue=(~?)"([^"]*)"', query)
            yield set(matched[2].split("|") if matched[1] else [matched[2]]) if matched else set()


def prometheus_errors(variant):
    """What KEDA makes of a Prometheus that has nothing, and of one that has several namespaces."""
    for scaler in variant.all("ScaledObject"):
        if scaler["spec"]["fallback"].get("behavior") != "currentReplicasIfHigher":
            yield "the fallback takes workers away where there are more"
        namespace = scaler["metadata"].get("namespace")
        for trigger in scaler["spec"]["triggers"]:
            query = trigger["metadata"]["query"]
            if trigger["metadata"].get("ignoreNullValues") != "false":
                yield f"{query}: no series would be 0"
            asked = re.search(r'\bnamespace="([^"]+)"', query)
            if namespace and not asked:
                yield f"{query}: is the sum of all namespaces"
            elif namespace and METRIC_OF_THE_BACKEND not in query and asked[1] != namespace:
                yield f"{query}: the worker is in the namespace {namespace}"


def goals(scaler):
    """What is measured, with what each worker may have of it."""
    for metric in scaler["spec"].get("metrics", []):
        source = metric.get("external") or metric["pods"]
        yield source["metric"]["name"], int(source["target"]["averageValue"])
    for trigger in scaler["spec"].get("triggers", []):
        names = re.findall(r"ojs_\w+", trigger["metadata"]["query"])
        yield from ((name, int(trigger["metadata"]["threshold"])) for name in names)


def scrape_errors(variant, known):
    """Names and places of metrics. `known`: the text of docs/metrics.md."""
    ports = {port["name"]: port["containerPort"] for port in variant.worker["ports"]}
    for monitor in variant.all("PodMonitor"):
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            if endpoint["port"] not in ports or endpoint["path"] != "/metrics":
                yield f"PodMonitor: there is no {endpoint['path']} on a port {endpoint['port']}"
            if seconds(endpoint["scrapeTimeout"]) >= seconds(endpoint["interval"]):
                yield "PodMonitor: the timeout is not below the interval"
    annotations = variant.deployment["spec"]["template"]["metadata"].get("annotations", {})
    wanted = {"scrape": "true", "port": str(ports["health"]), "path": "/metrics"}
    if annotations and annotations != {f"prometheus.io/{name}": value for name, value in wanted.items()}:
        yield f"annotations: {annotations} are not {wanted}"
    for scaler in variant.all("HorizontalPodAutoscaler") + variant.all("ScaledObject"):
        for name, _goal in goals(scaler):
            row, own = f"\n| `{name}` |", name.startswith(("ojs_init_", "ojs_worker_"))
            if not (row in known if own else name == METRIC_OF_THE_BACKEND and "`ojs.queue.depth`" in known):
                yield f"the metric {name} is not in docs/metrics.md"
        for trigger in scaler["spec"].get("triggers", []):
            pods = re.findall(r'pod=~"([^"]+)"', trigger["metadata"]["query"])
            yield from (f"{pod}: finds no pod" for pod in pods if pod != f"{variant.deployment['metadata']['name']}-.*")


def value_errors(variant, known):
    """Everything in which the values of a variant have to agree with each other."""
    checks = (time_errors, file_errors, probe_errors, label_errors, security_errors, count_errors)
    checks += (queue_errors, prometheus_errors)
    found = chain(*(check(variant) for check in checks), scrape_errors(variant, known))
    return (f"{variant.name}: {error}" for error in found)
