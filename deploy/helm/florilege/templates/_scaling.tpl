{{/*
Tokens of a model that wait or run, ÷ tokens a second of one worker. All gateways tell the same figure,
hence max by lane before the sum. Under an operator other releases are told apart by their namespace.
*/}}
{{- define "florilege.waitingSeconds" -}}
{{- $scaling := .worker.autoscaling }}
{{- if le (float64 $scaling.tokensPerSecond) 0.0 }}
{{- fail (printf "worker %s: autoscaling needs autoscaling.tokensPerSecond, the measured speed of one worker" .worker.name) }}
{{- end }}
{{- $matchers := printf "model=%q" (include "florilege.modelId" .worker.model) }}
{{- if .root.Values.prometheus.serviceMonitor.enabled }}
{{- $matchers = printf "%s,namespace=%q" $matchers .root.Release.Namespace }}
{{- end }}
{{- printf "sum by (model) (max by (model, lane) (florilege_queue_tokens{%s})) / %s" $matchers (include "florilege.text" $scaling.tokensPerSecond) }}
{{- end }}
