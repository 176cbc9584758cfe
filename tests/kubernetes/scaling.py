"""The autoscalers in docs/scaling.md, and the metrics and alerts that the page names."""

import re

import yaml

from promises import METRIC_OF_THE_BACKEND, Variant, schema_errors

PAGE = "docs/scaling.md"

# The Deployment of docker/kubernetes/base, and its terminationGracePeriodSeconds.
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ojs-worker"}
LIMIT = 60

# What stands in the page, what is put in its place, and a part of the finding.
FAULTS = [
    ("averageValue: \"50\"", "averageVale: \"50\"", "averageVale"),
    ("averageUtilization: 80", "averageUtilization: \"80\"", "is not of type"),
    ("container: worker", "contaner: worker", "'container' is a required property"),
    ("threshold: \"50\"", "threshold: 50", "is not of type 'string'"),
    ("scaleUp: {", "scalesUp: {", "scalesUp"),
    ("name: ojs_worker_active_jobs", "name: ojs_worker_jobs", "ojs_worker_jobs is not in docs/metrics.md"),
    ("`ojs_init_free_credit`", "`ojs_init_credit`", "ojs_init_credit is not in docs/metrics.md"),
    ("`OjsInitHeartbeatsFail`", "`OjsInitHeartbeats`", "OjsInitHeartbeats is not in docs/alert-rules.yaml"),
    ("name: ojs-worker }\n  minReplicas", "name: worker }\n  minReplicas", "scaleTargetRef"),
    ("value: 10, periodSeconds: 60", "value: 10, periodSeconds: 15", "periodSeconds"),
    ("kind: ScaledObject", "kind: ScaledJob", "not one HorizontalPodAutoscaler and one ScaledObject"),
]


def manifests(text):
    """The whole manifests; a block without a kind is a part of one."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.S | re.M)
    return [resource for resource in map(yaml.safe_load, blocks) if "kind" in resource]


def asked(text):
    """The queries of the ScaledObject."""
    scalers = [resource for resource in manifests(text) if resource["kind"] == "ScaledObject"]
    return {trigger["metadata"]["query"] for scaler in scalers for trigger in scaler["spec"]["triggers"]}


def page_errors(text, metrics, alerts):
    resources = manifests(text)
    if [resource["kind"] for resource in resources] != ["HorizontalPodAutoscaler", "ScaledObject"]:
        yield f"{PAGE}: not one HorizontalPodAutoscaler and one ScaledObject"
        return
    for resource in resources:
        yield from schema_errors(Variant(PAGE, [resource]))
        yield from scaler_errors(resource["kind"], resource["spec"])
    for name in sorted(set(re.findall(r"\bojs_\w+", text)) - {METRIC_OF_THE_BACKEND}):
        if f"\n| `{name}` |" not in metrics:
            yield f"{PAGE}: {name} is not in docs/metrics.md"
    for name in sorted(set(re.findall(r"\bOjsInit\w+", text))):
        if f"- alert: {name}\n" not in alerts:
            yield f"{PAGE}: {name} is not in docs/alert-rules.yaml"


def scaler_errors(kind, spec):
    if spec["scaleTargetRef"] != TARGET:
        yield f"{PAGE}: {kind}: scaleTargetRef is not {TARGET}"
    behaviour = spec.get("behavior") or spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    periods = [policy["periodSeconds"] for policy in behaviour["scaleDown"]["policies"]]
    if periods != [LIMIT]:
        yield f"{PAGE}: {kind}: periodSeconds {periods} is not terminationGracePeriodSeconds, {LIMIT}"


def unnoticed(text, metrics, alerts):
    """The faults that were not found."""
    for old, new, finding in FAULTS:
        if old not in text:
            yield f"{PAGE}: has no {old!r} to break"
            continue
        found = list(page_errors(text.replace(old, new, 1), metrics, alerts))
        if not any(finding in error for error in found):
            yield f"{PAGE}: {new!r} instead of {old!r}: {finding!r} is not in {found}"
