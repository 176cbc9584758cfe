{{/* Labels that find the pods. They never change: the selector of a Deployment cannot. */}}
{{- define "ojs-worker.selector" -}}
app.kubernetes.io/name: ojs-worker
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "ojs-worker.labels" -}}
{{ include "ojs-worker.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{/* What Kubernetes allows: the grace period, the hook, and 10 s, of which 5 are the stop margin and 5 are spare. */}}
{{- define "ojs-worker.limit" -}}
{{- add (int .Values.shutdown.gracePeriodSeconds) (int .Values.shutdown.prestopSeconds) 10 -}}
{{- end }}

{{/* The preStop hook: docs/control.md#prestop compares the two. */}}
{{- define "ojs-worker.hook" -}}
{{- $until := .Values.shutdown.prestopUntil | default (ternary "idle" "time" (eq .Values.mode "gateway")) -}}
{{- if eq $until "idle" -}}
["/ojs-init", "prestop", "--until-idle"]
{{- else -}}
["/ojs-init", "prestop", "--for", {{ printf "%ds" (int .Values.shutdown.prestopSeconds) | quote }}]
{{- end -}}
{{- end }}

{{- define "ojs-worker.image" -}}
{{- $repository := required "image.repository: name your image, without its tag" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (required "image.tag: name the version of your image, or set image.digest" .Values.image.tag) -}}
{{- end -}}
{{- end }}
