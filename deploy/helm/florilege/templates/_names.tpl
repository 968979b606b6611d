{{- define "florilege.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{/* What selects pods. Takes (dict "root" $ "component" …). */}}
{{- define "florilege.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .worker }}
florilege/worker: {{ . }}
{{- end }}
{{- end }}

{{- define "florilege.labels" -}}
{{ include "florilege.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* Takes (dict "root" $ "image" .Values.image.gateway). */}}
{{- define "florilege.image" -}}
{{ .root.Values.image.registry }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "florilege.claim" -}}
{{ .Values.weights.existingClaim | default (printf "%s-weights" (include "florilege.name" .)) }}
{{- end }}

{{/* A worker with what it does not say itself. Takes (dict "root" $ "worker" …). */}}
{{- define "florilege.worker" -}}
{{- mergeOverwrite (deepCopy .root.Values.workerDefaults) .worker | toYaml }}
{{- end }}

{{/* The id of what --model takes: a hub id as it is, a directory's last element; without =ALIAS. */}}
{{- define "florilege.modelId" -}}
{{- $source := regexReplaceAll "=[^=]*$" . "" -}}
{{- if regexMatch "^[/.~]" $source }}{{ base $source }}{{ else }}{{ $source }}{{ end }}
{{- end }}
