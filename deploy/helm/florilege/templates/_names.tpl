{{/* At most 46 characters: a CronJob's name may have 52, a Service's 63. The chart's name stays: alerts know jobs by it. */}}
{{- define "florilege.name" -}}
{{- $name := .Release.Name }}
{{- if not (contains .Chart.Name $name) }}
{{- $name = printf "%s-%s" $name .Chart.Name }}
{{- end }}
{{- if gt (len $name) 46 }}
{{- $name = printf "%s-%s-%s" (trunc 27 .Release.Name | trimSuffix "-") (sha256sum .Release.Name | trunc 8) .Chart.Name }}
{{- end }}
{{- $name }}
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
