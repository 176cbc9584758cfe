"""Manifests that are broken on purpose: each fault has to be found, by its check and in these words."""

import shutil
import tempfile
from pathlib import Path

from kustomize import found_by

DEPLOYMENT = "base/deployment.yaml"
BUDGET = "base/pod-disruption-budget.yaml"
HPA = "components/hpa/horizontal-pod-autoscaler.yaml"
KEDA = "components/keda/scaled-object.yaml"
MONITOR = "components/pod-monitor/pod-monitor.yaml"
EXEC = "components/exec-probes/deployment.yaml"

# The check, the file, what stands there, what is put in its place, and a part of the finding.
FAULTS = [
    ("files", "base/kustomization.yaml", "  - pod-disruption-budget.yaml\n", "", "no kustomization names it"),
    ("files", "README.md", "| `keda` |", "| `kedo` |", "says nothing of components/keda"),
    ("schemas", "base/kustomization.yaml", "service-account.yaml", "account.yaml", "account.yaml is not there"),
    ("schemas", "base/kustomization.yaml", "resources:", "resource:", "['resource']"),
    ("schemas", EXEC, "  name: ojs-worker", "  name: ojs-worke", "which is not there"),
    ("schemas", EXEC, "- name: worker", "- name: workr", "patches the container workr"),
    ("schemas", "overlays/example/kustomization.yaml", "com/ojs-worker\n", "com/ojs-work\n", "no container has the image"),
    ("schemas", DEPLOYMENT, "  replicas: 2\n", "  replicas: 2\n  replicas: 4\n", "replicas twice"),
    ("schemas", DEPLOYMENT, "terminationGracePeriodSeconds: 60", "terminationGracePeriod: 60", "terminationGracePeriod"),
    ("schemas", DEPLOYMENT, 'value: "10"', "value: 10", "is not of type"),
    ("schemas", DEPLOYMENT, "            preStop:", "            prestop:", "prestop"),
    ("schemas", BUDGET, "policy/v1", "policy/v1beta9", "Couldn't find schema"),
    ("schemas", HPA, "averageValue: \"8\"", "averageVale: \"8\"", "averageVale"),
    ("schemas", KEDA, "threshold: \"8\"", "threshold: 8", "is not of type 'string'"),
    ("schemas", KEDA, "minReplicaCount", "minReplicasCount", "minReplicasCount"),
    ("schemas", KEDA, "stabilizationWindowSeconds", "stabilisationWindowSeconds", "stabilisationWindowSeconds"),
    ("schemas", MONITOR, "podMetricsEndpoints", "podMetricEndpoints", "podMetricEndpoints"),
    ("values", DEPLOYMENT, "value: 45s", "value: 50s", "grace period + hook + 10 is 65"),
    ("values", DEPLOYMENT, "value: 60s", "value: 90s", "OJS_TERMINATION_GRACE_PERIOD is not"),
    ("values", DEPLOYMENT, '"prestop"]', '"prestop", "--for", "20s"]', "grace period + hook + 10 is 75"),
    ("values", "components/long-jobs/deployment.yaml", "Seconds: 600", "Seconds: 60", "OJS_TERMINATION_GRACE_PERIOD is not"),
    ("values", "components/long-jobs/deployment.yaml", "Seconds: 600", "Seconds: 625", "the cluster autoscaler waits"),
    ("values", DEPLOYMENT, "- name: tmp\n          emptyDir:\n            medium: Memory", "- name: tmp\n          emptyDir:", "evicts"),
    ("values", DEPLOYMENT, "value: /run/secrets/ojs/token", "value: /run/secrets/ojs/tokens", "no Secret is mounted"),
    ("values", DEPLOYMENT, "OJS_AUTH_TOKEN_FILE\n", "OJS_AUTH_TOKEN\n", "OJS_AUTH_TOKEN_FILE is missing"),
    ("values", "components/without-token/deployment.yaml", "      volumes:\n        - name: token\n          $patch: delete\n", "", "OJS_AUTH_TOKEN_FILE is missing"),
    ("schemas", "components/without-token/deployment.yaml", "- name: OJS_AUTH_TOKEN_FILE", "- name: OJS_AUTH_TOKEN", "is to be removed, and is not there"),
    ("values", DEPLOYMENT, "mountPath: /run/secrets/ojs\n", "mountPath: /run/secrets/ojs\n              subPath: token\n", "no subPath"),
    ("values", DEPLOYMENT, "defaultMode: 0440", "defaultMode: 0444", "nobody else"),
    ("values", DEPLOYMENT, "mountPath: /run/ojs-init", "mountPath: /run/ojs", "no emptyDir in memory"),
    ("values", DEPLOYMENT, "medium: Memory", 'medium: ""', "no emptyDir in memory"),
    ("values", DEPLOYMENT, "- name: tmp\n              mountPath", "- name: temp\n              mountPath", "there is no such volume"),
    ("values", DEPLOYMENT, "Path: /dev/termination-log", "Path: /tmp/end", "not where ojs-init writes"),
    ("values", DEPLOYMENT, "containerPort: 8081", "containerPort: 8080", "port health is not 8081"),
    ("values", DEPLOYMENT, "path: /livez", "path: /healthz", "livenessProbe"),
    ("values", DEPLOYMENT, "path: /readyz\n              port: health", "path: /readyz\n              port: http", "readinessProbe"),
    ("values", EXEC, '"live"]', '"alive"]', "is not ojs-init health live"),
    ("values", EXEC, "httpGet: null", "tcpSocket: null", "is not one of httpGet and exec"),
    ("values", BUDGET, "      app.kubernetes.io/name: ojs-worker", "      app.kubernetes.io/name: worker", "does not find the pods"),
    ("values", MONITOR, "      app.kubernetes.io/name: ojs-worker", "      app: ojs-worker", "does not find the pods"),
    ("values", "base/service-account.yaml", "name: ojs-worker\n  labels", "name: worker\n  labels", "serviceAccountName"),
    ("values", DEPLOYMENT, "runAsNonRoot: true", "runAsNonRoot: false", "not restricted"),
    ("values", DEPLOYMENT, "RuntimeDefault", "Unconfined", "not restricted"),
    ("values", DEPLOYMENT, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "its securityContext is not"),
    ("values", "components/backend-proxy/deployment.yaml", 'drop: ["ALL"]', 'add: ["NET_ADMIN"]', "backend-proxy: its securityContext"),
    ("values", DEPLOYMENT, "enableServiceLinks: false", "enableServiceLinks: true", "variables of Services"),
    ("values", BUDGET, "maxUnavailable: 1", "maxUnavailable: 3", "leaves no worker"),
    ("values", BUDGET, "AlwaysAllow", "IfHealthyBudget", "keeps a node"),
    ("values", DEPLOYMENT, "maxUnavailable: 0", "maxUnavailable: 1", "takes workers away"),
    ("schemas", "components/gateway/deployment.yaml", "- name: OJS_CONCURRENCY", "- name: OJS_CONCURENCY", "is to be removed, and is not there"),
    ("binary", "components/gateway/deployment.yaml", "value: gateway", "value: gatewy", "config check"),
    ("values", "components/hpa/deployment.yaml", "replicas: null", "replicas: 3", "replicas belong to the autoscaler"),
    ("values", "overlays/first/worker.yaml", "spec:\n  template", "spec:\n  replicas: 2\n  template", "first-with-hpa: replicas belong to"),
    ("values", "overlays/gateway/worker.yaml", "spec:\n  template", "spec:\n  replicas: 2\n  template", "gateway-with-keda: replicas belong to"),
    ("values", "overlays/example/kustomization.yaml", "nents/keda", "nents/keda\n  - ../../components/hpa", "two autoscalers"),
    ("values", HPA, "    name: ojs-worker\n  minReplicas", "    name: worker\n  minReplicas", "scaleTargetRef"),
    ("values", HPA, "maxReplicas: 20", "maxReplicas: 2", "no room"),
    ("values", HPA, "          periodSeconds: 60", "          periodSeconds: 6", "scaleDown"),
    ("values", HPA, 'averageValue: "8"', 'averageValue: "10"', "never happen"),
    ("values", HPA, "name: ojs_worker_active_jobs", "name: ojs_worker_jobs", "is not in docs/metrics.md"),
    ("values", KEDA, "(ojs_queue_depth", "(ojs_queue_length", "is not in docs/metrics.md"),
    ("values", KEDA, "ojs-worker-.*", "worker-.*", "finds no pod"),
    ("values", "overlays/example/scaled-object.yaml", "critical|default", "default", "not OJS_QUEUES"),
    ("values", "overlays/example/worker.yaml", "critical,default", "critical", "not OJS_QUEUES"),
    ("values", KEDA, 'queue="default"', 'queue="defaults"', "not OJS_QUEUES"),
    ("values", KEDA, '{queue="default"}', "", "not OJS_QUEUES"),
    ("values", HPA, "queue: default", "queue: mail", "not OJS_QUEUES"),
    ("values", "overlays/example/scaled-object.yaml", 'namespace="jobs", ', "", "of all namespaces"),
    ("values", "overlays/example/scaled-object.yaml", 'namespace="ojs-backend", ', "", "of all namespaces"),
    ("values", "overlays/example/scaled-object.yaml", 'namespace="jobs"', 'namespace="job"', "is in the namespace jobs"),
    ("values", KEDA, 'ignoreNullValues: "false"', 'ignoreNullValues: "true"', "would be 0"),
    ("values", KEDA, "    behavior: currentReplicasIfHigher\n", "", "takes workers away"),
    ("values", MONITOR, "path: /metrics", "path: /metric", "PodMonitor: there is no"),
    ("values", MONITOR, "port: health", "port: metrics", "PodMonitor: there is no"),
    ("values", MONITOR, "interval: 15s", "interval: 5s", "not below the interval"),
    ("values", "components/prometheus-annotations/deployment.yaml", '"8081"', '"8080"', "annotations"),
    ("queries", KEDA, 'depth{queue="default"})', 'depth{queue="default"}', "promtool"),
    ("binary", DEPLOYMENT, "OJS_CONCURRENCY\n", "OJS_CONCURENCY\n", "OJS_CONCURENCY is no variable"),
    ("binary", DEPLOYMENT, 'value: "10"', 'value: "ten"', "config check"),
    ("binary", DEPLOYMENT, "value: 45s", "value: 58s", "is cut to 55s"),
    ("binary", DEPLOYMENT, "value: 60s", "value: 90s", "the kubelet sends it after 60"),
    ("binary", DEPLOYMENT, '"prestop"]', '"prestop", "--fro", "5s"]', "the hook ended with 2"),
    ("binary", DEPLOYMENT, "path: /readyz", "path: /ready", "readinessProbe: 404"),
    ("binary", DEPLOYMENT, "path: /livez", "path: /readyz", "livenessProbe: 503"),
    ("binary", EXEC, '"live"]', '"alive"]', "livenessProbe: exit status 2"),
    ("binary", HPA, "name: ojs_worker_active_jobs", "name: ojs_worker_jobs", "/metrics has no ojs_worker_jobs"),
]


def unnoticed(root, checks):
    """The faults that were not found, or not for the reason for which they have to be."""
    missed = [f"{name}: no fault is for it" for name in sorted(set(checks) - {fault[0] for fault in FAULTS})]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "kubernetes")
        shutil.copytree(root, copy)
        for name, file, old, new, finding in FAULTS:
            text = (root / file).read_text(encoding="utf-8")
            if old not in text:
                missed.append(f"{file}: has no {old!r} to break")
                continue
            (copy / file).write_text(text.replace(old, new, 1), encoding="utf-8")
            if not any(finding in error for error in found_by(checks[name], copy)):
                found = list(found_by(checks[name], copy))
                missed.append(f"{name}: {file}: {new!r} instead of {old!r}: {finding!r} is not in {found}")
            (copy / file).write_text(text, encoding="utf-8")
    return missed
