"""Checks docker/kubernetes and docker/helm. Prints what is wrong, one finding a line, and exits with 1 if there is any.

check.py files|schemas|values|queries|real-kustomize    the manifests alone
check.py has-kustomize                                  whether real-kustomize can be asked
check.py chart BINARY                                   the chart in docker/helm, its faults, and what it asks of ojs-init
check.py has-helm                                       whether chart can be asked
check.py binary BINARY                                  what they ask of ojs-init
check.py faults BINARY                                  each check finds what faults.py breaks

Needs kubernetes-validate (PyPI), which brings PyYAML and jsonschema; `queries` needs promtool.
"""

import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

import chart
import kustomize
import scaling
from faults import unnoticed
from kustomize import MERGE_KEYS, found_by, identity
from promises import each_file_is_used, overlays, page_errors, schema_errors, value_errors, variants
from sequence import sequence_errors, setting_errors

REPOSITORY = Path(__file__).resolve().parents[2]
MANIFESTS = REPOSITORY / "docker/kubernetes"
CHART = REPOSITORY / "docker/helm/ojs-worker"
PAGE = (REPOSITORY / "docs/scale-from-zero.md").read_text(encoding="utf-8")
SCALING = (REPOSITORY / "docs/scaling.md").read_text(encoding="utf-8")
METRICS = (REPOSITORY / "docs/metrics.md").read_text(encoding="utf-8")
ALERTS = (REPOSITORY / "docs/alert-rules.yaml").read_text(encoding="utf-8")


def files(root):
    return each_file_is_used(root)


def schemas(root):
    yield from (error for variant in variants(root) for error in schema_errors(variant))
    yield from page_errors(PAGE)
    yield from scaling.page_errors(SCALING, METRICS, ALERTS)


def values(root):
    return (error for variant in variants(root) for error in value_errors(variant, METRICS))


def rule_errors(page, alerts):
    """The command of the page makes a PrometheusRule of the rules, as they are."""
    command = next(block for block in re.findall(r"^```sh\n(.*?)^```$", page, re.S | re.M) if "PrometheusRule" in block)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "docs").mkdir()
        Path(folder, "docs/alert-rules.yaml").write_text(alerts, encoding="utf-8")
        script = f"kubectl() {{ cat; }}\n{command}"
        said = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, text=True)
    try:
        rule = yaml.safe_load(said.stdout)
    except yaml.YAMLError as wrong:
        return [f"docs/metrics.md: the PrometheusRule is no YAML: {wrong}"]
    kind = rule["apiVersion"], rule["kind"]
    is_right = kind == ("monitoring.coreos.com/v1", "PrometheusRule") and rule["spec"] == yaml.safe_load(alerts)
    return [] if is_right else [f"docs/metrics.md: not the rules, or no PrometheusRule: {kind} {said.stderr}"]


def unnoticed_rules():
    """Broken commands that were not found."""
    for old, new in (("s/^/  /", "s/^//"), ("metadata: {", "metadata: "), ("spec:\n", ""), ("kind: PrometheusRule\n", "kind: PrometheusRules\n")):
        if old not in METRICS or not rule_errors(METRICS.replace(old, new, 1), ALERTS):
            yield f"docs/metrics.md: {new!r} instead of {old!r} is not noticed"


def queries(root):
    """Prometheus' own tool reads what the autoscalers ask."""
    asked = {
        trigger["metadata"]["query"]
        for variant in variants(root)
        for scaler in variant.all("ScaledObject")
        for trigger in scaler["spec"]["triggers"]
    }
    asked |= scaling.asked(SCALING)
    rules = [{"record": "a:b", "expr": query} for query in sorted(asked)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump({"groups": [{"name": "a", "rules": rules}]}, file)
        file.flush()
        said = subprocess.run(["promtool", "check", "rules", "--lint=none", file.name], capture_output=True, text=True)
    found = rule_errors(METRICS, ALERTS)
    return found if asked and said.returncode == 0 else [*found, f"promtool: {said.stdout}{said.stderr}"]


# What builds a kustomization with components: the command, how it tells its version, and the first one that can.
TOOLS = [
    (["kustomize", "build"], ["kustomize", "version"], (4, 0)),
    (["kubectl", "kustomize"], ["kubectl", "version", "--client"], (1, 21)),
]
NO_TOOL = "neither kustomize 4 or later nor kubectl 1.21 or later is installed"


def kustomize_tools():
    """Those that are installed and new enough."""
    for build, ask, first in TOOLS:
        said = subprocess.run(ask, capture_output=True, text=True).stdout if shutil.which(ask[0]) else ""
        version = re.search(r"\bv(\d+)\.(\d+)", said)
        if version and (int(version[1]), int(version[2])) >= first:
            yield build


def has_kustomize(_root):
    return [] if any(kustomize_tools()) else [NO_TOOL]


def real_kustomize(root):
    """kustomize, or the one in kubectl, builds the same."""
    tools = list(kustomize_tools())
    if not tools:
        return [NO_TOOL]
    # A copy, because kustomize wants each component in a kustomization.
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "kubernetes")
        shutil.copytree(root, copy)
        for component in (root / "components").iterdir():
            place = copy / "overlays" / f"component-{component.name}"
            place.mkdir()
            head = {"apiVersion": kustomize.KINDS["Kustomization"], "kind": "Kustomization"}
            parts = {"resources": ["../../base"], "components": [f"../../components/{component.name}"]}
            (place / "kustomization.yaml").write_text(yaml.safe_dump(head | parts), encoding="utf-8")
        for name, overlay, said in overlays(root):
            place = copy / "overlays" / name
            shutil.copytree(overlay, place, dirs_exist_ok=True)
            (place / "kustomization.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
        return [error for place in sorted((copy / "overlays").iterdir()) for error in compare(tools[0], place)]


def compare(tool, place):
    said = subprocess.run([*tool, str(place)], capture_output=True, text=True)
    if said.returncode != 0:
        return [f"{' '.join(tool)}: {said.stderr}"]
    real = sorted((ordered(resource) for resource in yaml.safe_load_all(said.stdout)), key=identity)
    own = sorted((ordered(resource) for resource in kustomize.build(place)), key=identity)
    if len(real) != len(own):
        return [f"{place.name}: {' '.join(tool)} has {len(real)} resources, not {len(own)}"]
    return [f"{place.name}: {' '.join(tool)}: {one} is not {other}" for one, other in zip(real, own) if one != other]


def ordered(value, name=None):
    """Lists with a key have no order."""
    if isinstance(value, dict):
        return {key: ordered(item, key) for key, item in value.items()}
    if isinstance(value, list):
        items = [ordered(item) for item in value]
        return sorted(items, key=lambda item: str(item[MERGE_KEYS[name]])) if name in MERGE_KEYS else items
    return value


def binary(path, root):
    """Of the first variant with which something is wrong: each costs some time."""
    for variant in variants(root):
        found = list(setting_errors(path, variant))
        if not found and variant.name in ("base", "exec-probes", "hpa", "all together", "overlays/example", "overlays/gateway"):
            found = list(sequence_errors(path, variant))
        if found:
            return found
    return []


def chart_and_faults(path, root):
    base = root / "base"
    yield from chart.chart_errors(CHART, base, METRICS)
    yield from chart.refusal_errors(CHART)
    yield from chart.fault_errors(CHART, base, METRICS)
    yield from chart.binary_errors(CHART, path)


def main():
    checks = {"files": files, "schemas": schemas, "values": values, "queries": queries}
    if len(sys.argv) > 2:
        checks["binary"] = functools.partial(binary, sys.argv[2])
    if sys.argv[1] == "faults":
        found = [*unnoticed(MANIFESTS, checks), *scaling.unnoticed(SCALING, METRICS, ALERTS), *unnoticed_rules()]
    else:
        of_tools = {"real-kustomize": real_kustomize, "has-kustomize": has_kustomize, "has-helm": chart.has_helm}
        if len(sys.argv) > 2:
            of_tools["chart"] = functools.partial(chart_and_faults, sys.argv[2])
        found = list(found_by((checks | of_tools)[sys.argv[1]], MANIFESTS))
    sys.stdout.writelines(f"{finding}\n" for finding in found)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
