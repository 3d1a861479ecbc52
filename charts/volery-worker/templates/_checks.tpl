{{/* Values that fit the schema, render, and could not work: refused here, before anything changes. */}}
{{- define "volery-worker.checks" -}}
{{- with .Values.autoscaling }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
{{- fail (printf "autoscaling.minReplicas is %d and autoscaling.maxReplicas only %d" (int .minReplicas) (int .maxReplicas)) }}
{{- end }}
{{- end }}
{{- if hasPrefix "file:" .Values.worker.artifactsUrl }}
{{- $path := (urlParse .Values.worker.artifactsUrl).path }}
{{- include "volery-worker.requireMount" (dict "value" "worker.artifactsUrl" "path" $path "written" true "mounts" .Values.extraVolumeMounts) }}
{{- end }}
{{- with .Values.worker.gcsKeyFile }}
{{- include "volery-worker.requireMount" (dict "value" "worker.gcsKeyFile" "path" . "written" false "mounts" $.Values.extraVolumeMounts) }}
{{- end }}
{{- end }}

{{/* Fails unless one of the mounts holds the path, writable where it is written to. */}}
{{- define "volery-worker.requireMount" -}}
{{- $held := false }}
{{- range .mounts }}
{{- $folder := printf "%s/" (trimSuffix "/" (.mountPath | default "")) }}
{{- if and (hasPrefix $folder (printf "%s/" $.path)) (not (and $.written .readOnly)) }}{{ $held = true }}{{ end }}
{{- end }}
{{- if not $held }}
{{- fail (printf "%s is %s in the pod, and no%s volume is mounted there: add one to extraVolumes and extraVolumeMounts" .value .path (ternary " writable" "" .written)) }}
{{- end }}
{{- end }}
