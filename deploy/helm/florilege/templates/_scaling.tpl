{{/* Fails where there may be fewer than there must be. Takes (dict "of" WHAT "autoscaling" …). */}}
{{- define "florilege.replicaBounds" -}}
{{- if and .autoscaling.enabled (lt (int .autoscaling.maxReplicas) (int .autoscaling.minReplicas)) }}
{{- fail (printf "%s: autoscaling.maxReplicas %v is below minReplicas %v" .of .autoscaling.maxReplicas .autoscaling.minReplicas) }}
{{- end }}
{{- end }}

{{/*
Tokens of a model that wait or run, ÷ tokens a second of one worker. All gateways tell the same figure,
hence max by lane before the sum. Under an operator other releases are told apart by their namespace,
and by their job within it: the Service that is scraped.
*/}}
{{- define "florilege.waitingSeconds" -}}
{{- $scaling := .worker.autoscaling }}
{{- if le (float64 $scaling.tokensPerSecond) 0.0 }}
{{- fail (printf "worker %s: autoscaling needs autoscaling.tokensPerSecond, the measured speed of one worker" .worker.name) }}
{{- end }}
{{- $matchers := printf "model=%q" (include "florilege.modelId" .worker.model) }}
{{- if .root.Values.prometheus.serviceMonitor.enabled }}
{{- $matchers = printf "%s,namespace=%q,job=\"%s-gateway-admin\"" $matchers .root.Release.Namespace (include "florilege.name" .root) }}
{{- end }}
{{- printf "sum by (model) (max by (model, lane) (florilege_queue_tokens{%s})) / %s" $matchers (include "florilege.text" $scaling.tokensPerSecond) }}
{{- end }}
