{{/* Of every pod. */}}
{{- define "florilege.pod" -}}
serviceAccountName: {{ include "florilege.name" . }}
{{ include "florilege.podAlone" . }}
{{- end }}

{{/* Without the chart's service account: a hook runs before that is there. */}}
{{- define "florilege.podAlone" -}}
automountServiceAccountToken: false
# A Service named florilege-… would add FLORILEGE_… variables, and an unknown one stops the start.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "florilege.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Where pods go. Takes a gateway's or worker's values. */}}
{{- define "florilege.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Flags as variables: max-queue-s is FLORILEGE_MAX_QUEUE_S. A list is joined by commas. */}}
{{- define "florilege.settings" -}}
{{- range $flag, $value := . }}
- name: FLORILEGE_{{ $flag | replace "-" "_" | upper }}
  value: {{ if kindIs "slice" $value }}{{ join "," $value | quote }}{{ else }}{{ include "florilege.text" $value | quote }}{{ end }}
{{- end }}
{{- end }}

{{/* Variables of no flag, such as an exporter's. Takes a gateway's or worker's values. */}}
{{- define "florilege.extraEnvironment" -}}
{{- with .extraEnv }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* A number without an exponent: Helm reads 1048576 as a float and would write 1.048576e+06. */}}
{{- define "florilege.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* Redis' URL, and its certificates, as files. */}}
{{- define "florilege.redisEnvironment" -}}
- name: FLORILEGE_REDIS_URL_FILE
  value: /etc/florilege/secrets/redis-url
{{- if .Values.secrets.sentinelPassword }}
- name: FLORILEGE_REDIS_SENTINEL_PASSWORD_FILE
  value: /etc/florilege/secrets/redis-sentinel-password
{{- end }}
{{- if .Values.secrets.redisTls.name }}
- name: FLORILEGE_REDIS_TLS_CA_FILE
  value: /etc/florilege/redis-tls/ca.crt
{{- if .Values.secrets.redisTls.clientCertificate }}
- name: FLORILEGE_REDIS_TLS_CERT_FILE
  value: /etc/florilege/redis-tls/tls.crt
- name: FLORILEGE_REDIS_TLS_KEY_FILE
  value: /etc/florilege/redis-tls/tls.key
{{- end }}
{{- end }}
{{- end }}

{{- define "florilege.keysEnvironment" -}}
- name: FLORILEGE_DATABASE_URL_FILE
  value: /etc/florilege/secrets/database-url
- name: FLORILEGE_PEPPER_FILE
  value: /etc/florilege/secrets/pepper
{{- end }}

{{/* Takes (dict "root" $ "secret" NAME "keys" (list …)): only the keys that are needed. */}}
{{- define "florilege.secretVolumes" -}}
- name: secrets
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      {{- range .keys }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
      {{- if and .root.Values.secrets.sentinelPassword (has "redis-url" .keys) }}
      - {key: redis-sentinel-password, path: redis-sentinel-password}
      {{- end }}
{{- if and .root.Values.secrets.redisTls.name (has "redis-url" .keys) }}
- name: redis-tls
  secret:
    secretName: {{ .root.Values.secrets.redisTls.name }}
    defaultMode: 0440
{{- end }}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- end }}

{{- define "florilege.secretMounts" -}}
- {name: secrets, mountPath: /etc/florilege/secrets, readOnly: true}
{{- if .Values.secrets.redisTls.name }}
- {name: redis-tls, mountPath: /etc/florilege/redis-tls, readOnly: true}
{{- end }}
- {name: tmp, mountPath: /tmp}
{{- end }}
