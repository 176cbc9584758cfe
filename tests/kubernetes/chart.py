"""The Helm chart in docker/helm, rendered by helm: held against the schemas, against the base of docker/kubernetes, against
ojs-init, and against values and templates that are broken on purpose.
"""

import copy
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kustomize import Wrong, apply, build, parse
from promises import Variant, schema_errors, value_errors
from sequence import sequence_errors, setting_errors

NO_HELM = "helm is not installed"

LEAST = {
    "image": {"repository": "registry.example.com/mail-worker", "tag": "1.0.0"},
    "backend": {"url": "http://ojs-backend:8080"},
}

# With these the chart is the base of docker/kubernetes.
AS_THE_BASE = {
    "image": {"repository": "registry.example.com/ojs-worker", "tag": "1.0.0"},
    "backend": {"url": "http://ojs-backend:8080", "tokenSecret": "ojs-worker-token"},
}

# With these it is the base with the component gateway.
AS_THE_GATEWAY = {**AS_THE_BASE, "mode": "gateway"}

EVERY_VALUE = {
    "image": {
        "repository": "registry.example.com:5000/mail/worker",
        "digest": "sha256:" + 64 * "a",
        "pullPolicy": "Always",
        "pullSecrets": ["registry"],
    },
    "args": ["python3", "worker.py"],
    "replicas": 4,
    "backend": {"url": "https://jobs.example.com/tenant-a", "tokenSecret": "secrets", "tokenKey": "ojs"},
    "mode": "gateway",
    "queues": ["critical", "default"],
    "concurrency": 10000,
    "shutdown": {"gracePeriodSeconds": 570, "prestopUntil": "time", "prestopSeconds": 20},
    "env": [
        {"name": "OJS_LOG_LEVEL", "value": "debug"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ],
    "envFrom": [{"secretRef": {"name": "mail"}}],
    "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    "tmpSize": "1Gi",
    "user": 1000,
    "group": 2000,
    "podAnnotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8081", "prometheus.io/path": "/metrics"},
    "nodeSelector": {"kubernetes.io/arch": "arm64"},
    "tolerations": [{"key": "jobs", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
}

# With an autoscaler beside the chart: that of the component hpa.
AUTOSCALED = {**AS_THE_BASE, "replicas": None}

CASES = {"least": LEAST, "as the base": AS_THE_BASE, "as the gateway": AS_THE_GATEWAY, "every value": EVERY_VALUE, "with hpa": AUTOSCALED}

# The component of docker/kubernetes that a case has.
COMPONENTS = {"as the base": [], "as the gateway": ["gateway"], "with hpa": ["hpa"]}

# Values beside LEAST that have to be refused, and a part of what helm says. helm 4 writes /backend/url, and helm 3 backend.url.
REFUSED = [
    ({"replcas": 3}, "replcas"),
    ({"image": {"repository": ""}}, "name your image"),
    ({"image": {"tag": ""}}, "name the version of your image"),
    ({"backend": {"url": ""}}, "the address of the backend"),
    ({"backend": {"url": "backend:8080"}}, "backend.url"),
    ({"replicas": "3"}, "replicas"),
    ({"mode": "none"}, "mode"),
    ({"queues": ["a,b"]}, "queues"),
    ({"concurrency": -1}, "concurrency"),
    ({"shutdown": {"prestopUntil": "--until-idle"}}, "shutdown.prestopUntil"),
    ({"shutdown": {"gracePeriodSeconds": "45s"}}, "shutdown.gracePeriodSeconds"),
    ({"shutdown": {"grace": 45}}, "grace"),
    ({"shutdown": {"gracePeriodSeconds": None}}, "gracePeriodSeconds"),
    ({"mode": None}, "mode"),
    ({"env": [{"name": "OJS_TERMINATION_GRACE_PERIOD", "value": "60s"}]}, "env.0.name"),
    ({"env": [{"name": "OJS_AUTH_TOKEN", "value": "secret"}]}, "env.0.name"),
    ({"user": 0}, "user"),
    ({"tmpSize": "64"}, "tmpSize"),
]

# A file of the chart, what stands there, what is put in its place, and a part of the finding.
FAULTS = [
    ("templates/_helpers.tpl", ".Values.shutdown.prestopSeconds) 10", ".Values.shutdown.prestopSeconds) 5", "grace period + hook + 10"),
    ("templates/deployment.yaml", "path: /livez", "path: /healthz", "livenessProbe"),
    ("templates/deployment.yaml", "preStop:", "prestop:", "prestop"),
    ("templates/deployment.yaml", "OJS_RUNTIME_DIR", "OJS_RUN_DIR", "OJS_RUNTIME_DIR"),
    ("templates/deployment.yaml", "minReadySeconds: 10", "minReadySeconds: 9", "differs from docker/kubernetes/base"),
    ("templates/deployment.yaml", "name: {{ .Release.Name", "name: {{ .Release.Nam", "helm"),
    ("templates/deployment.yaml", "if not (kindIs \"invalid\" .Values.replicas)", "if true", "replicas belong to the autoscaler"),
    ("templates/deployment.yaml", "if not (kindIs \"invalid\" .Values.replicas)", "if false", "as the base: differs from docker/kubernetes/base"),
    ("templates/pod-disruption-budget.yaml", "maxUnavailable: 1", "maxUnavailable: 0", "leaves no worker"),
    ("values.yaml", "tmpSize: 64Mi", "tmpSize: 64Mi\ntmpSiz: 1Mi", "helm lint"),
    ("values.yaml", "concurrency: 0", "concurrency: 11", "as the base: differs from docker/kubernetes/base"),
    ("values.yaml", "concurrency: 0", "concurrency: 10", "as the gateway: differs from docker/kubernetes/base"),
    ("values.yaml", "queues: []", "queues: [default]", "as the gateway: differs from docker/kubernetes/base"),
    ("values.yaml", 'prestopUntil: ""', "prestopUntil: time", "as the gateway: differs from docker/kubernetes/base"),
    ("templates/_helpers.tpl", "ternary \"idle\" \"time\"", "ternary \"idle\" \"idle\"", "as the base: differs from docker/kubernetes/base"),
    ("values.schema.json", '"concurrency"', '"concurency"', "helm lint"),
    ("README.md", "| `tmpSize` |", "| `tmpSpace` |", "says nothing of tmpSize"),
]


def has_helm(_root):
    return [] if shutil.which("helm") else [NO_HELM]


def helm(arguments, values):
    """What helm says of a chart with these values."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "values.json")
        file.write_text(json.dumps(values), encoding="utf-8")
        environment = {"PATH": os.environ["PATH"], "HOME": folder}
        command = ["helm", *arguments, "--values", str(file)]
        return subprocess.run(command, env=environment, capture_output=True, text=True)


def rendered(chart, name, values):
    said = helm(["template", "ojs-worker", str(chart), "--namespace", "jobs"], values)
    if said.returncode != 0:
        raise Wrong(f"chart, {name}: helm: {said.stderr}")
    return Variant(f"chart, {name}", copy.deepcopy(parse(said.stdout)))


def chart_errors(chart, base, metrics):
    """Everything that needs no ojs-init."""
    yield from page_errors(chart)
    for name, values in CASES.items():
        said = helm(["lint", "--strict", str(chart)], values)
        if said.returncode != 0:
            yield f"chart, {name}: helm lint: {said.stdout}{said.stderr}"
        variant = rendered(chart, name, values)
        variant.resources.extend(autoscaler(base) if values is AUTOSCALED else [])
        yield from schema_errors(variant)
        yield from value_errors(variant, metrics)
        if name in COMPONENTS:
            manifests = build(base)
            for component in COMPONENTS[name]:
                manifests = apply(base.parent / "components" / component, manifests)
            if comparable(variant.resources) != comparable(manifests):
                yield f"{variant.name}: differs from docker/kubernetes/base: {comparable(variant.resources)}"


def autoscaler(base):
    return parse((base.parent / "components/hpa/horizontal-pod-autoscaler.yaml").read_text(encoding="utf-8"))


def page_errors(chart):
    """The page of the chart lists each value with its default."""
    page = (chart / "README.md").read_text(encoding="utf-8")
    for name, value in leaves(parse((chart / "values.yaml").read_text(encoding="utf-8"))[0]):
        row = f"\n| `{name}` | `{json.dumps(value)}` |"
        if f"\n| `{name}` |" not in page:
            yield f"README.md: says nothing of {name}"
        elif row not in page:
            yield f"README.md: has no row {row.strip()}"


def leaves(values, prefix=""):
    for key, value in values.items():
        if isinstance(value, dict) and value and key != "resources":
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def comparable(resources):
    """Without what only one of the two has: labels of the release, OJS_MODE=socket and OJS_CONCURRENCY=10, which are the defaults of
    ojs-init, the order of variables, and the time of the hook, which is that of `prestop` without an option.
    """
    found = copy.deepcopy(resources)
    for resource in found:
        strip(resource)
    return sorted(found, key=lambda resource: resource["kind"])


def strip(value):
    if isinstance(value, list):
        for item in value:
            strip(item)
    if not isinstance(value, dict):
        return
    for label in ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"):
        value.pop(label, None)
    if "env" in value:
        is_gateway = {"name": "OJS_MODE", "value": "gateway"} in value["env"]
        defaults = [{"name": "OJS_MODE", "value": "socket"}]
        # In mode gateway there is no default: a number caps the SDK.
        defaults += [] if is_gateway else [{"name": "OJS_CONCURRENCY", "value": "10"}]
        value["env"] = sorted((entry for entry in value["env"] if entry not in defaults), key=lambda entry: entry["name"])
    if value.get("command") == ["/ojs-init", "prestop", "--for", "5s"]:
        value["command"] = ["/ojs-init", "prestop"]
    for item in value.values():
        strip(item)


def refusal_errors(chart):
    for values, words in REFUSED:
        merged = copy.deepcopy(LEAST)
        for key, value in values.items():
            merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
        said = helm(["template", "ojs-worker", str(chart)], merged)
        if said.returncode == 0 or words not in said.stderr.replace("/", "."):
            yield f"chart: {values} is not refused with {words!r}: {said.stderr}"


def fault_errors(chart, base, metrics):
    """The faults that were not found."""
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder, "ojs-worker")
        shutil.copytree(chart, broken)
        for file, old, new, finding in FAULTS:
            text = (chart / file).read_text(encoding="utf-8")
            if old not in text:
                yield f"{file}: has no {old!r} to break"
                continue
            (broken / file).write_text(text.replace(old, new, 1), encoding="utf-8")
            found = []
            try:
                found.extend(chart_errors(broken, base, metrics))
            except (Wrong, KeyError) as wrong:
                found.append(str(wrong))
            if not any(finding in error for error in found):
                yield f"{file}: {new!r} instead of {old!r}: {finding!r} is not in {found}"
            (broken / file).write_text(text, encoding="utf-8")


def binary_errors(chart, binary):
    for name, values in CASES.items():
        variant = rendered(chart, name, values)
        yield from setting_errors(binary, variant)
        if name in ("least", "as the gateway"):
            yield from sequence_errors(binary, variant)
