{{- define "volery-worker.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Short enough for the longest suffix that a template appends. */}}
{{- define "volery-worker.fullname" -}}
{{- $name := include "volery-worker.name" . }}
{{- $joined := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- .Values.fullnameOverride | default $joined | trunc 45 | trimSuffix "-" }}
{{- end }}

{{- define "volery-worker.selectorLabels" -}}
app.kubernetes.io/name: {{ include "volery-worker.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "volery-worker.labels" -}}
{{ include "volery-worker.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "volery-worker.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "volery-worker.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "volery-worker.image" -}}
{{- $repository := required "set image.repository to where the image of Volery is" .Values.image.repository }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* A value as the worker reads it: whole numbers without an exponent, booleans as true or false. */}}
{{- define "volery-worker.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/*
Every setting under `worker`, false ones too: a setting someName is BATCH_PIPELINE_SOME_NAME.
Only null ones are left out, and the schema admits null only where the worker knows "unset".
Workers leave the audit to the referee's Deployment, where there is one.
*/}}
{{- define "volery-worker.settings" -}}
{{- $_ := required "set worker.artifactsUrl to where results go, such as gs://bucket/prefix" .Values.worker.artifactsUrl }}
{{- $worker := deepCopy .Values.worker }}
{{- if .Values.referee.enabled }}{{ $_ := set $worker "refereeSampleRate" 0 }}{{ end }}
{{- include "volery-worker.settingsOf" $worker }}
{{- end }}

{{- define "volery-worker.settingsOf" -}}
{{- range $name, $value := . }}
{{- if not (kindIs "invalid" $value) }}
- name: BATCH_PIPELINE_{{ regexReplaceAll "([A-Z])" $name "_${1}" | upper }}
  value: {{ include "volery-worker.text" $value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "volery-worker.databaseUrl" -}}
- name: BATCH_PIPELINE_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ required "set database.secretName to the Secret with the job store's URL" .Values.database.secretName }}
      key: {{ .Values.database.secretKey }}
{{- end }}

{{/* The settings that the chart sets, by name: an older image takes one that it does not know for no slip. */}}
{{- define "volery-worker.declared" -}}
{{- $names := list "BATCH_PIPELINE_DATABASE_URL" }}
{{- range fromYamlArray (include "volery-worker.settings" .) }}{{ $names = append $names .name }}{{ end }}
- name: VOLERY_DECLARED_SETTINGS
  value: {{ join " " $names | quote }}
{{- end }}

{{/* Libraries write below the home folder and ask for the name of the user, who need not be in /etc/passwd. */}}
{{- define "volery-worker.home" -}}
- name: HOME
  value: /home/volery
- name: LOGNAME
  value: volery
{{- end }}

{{/* The image asks for every GPU of its node; a pod that was given none must see none. */}}
{{- define "volery-worker.noGpu" -}}
- name: NVIDIA_VISIBLE_DEVICES
  value: void
{{- end }}

{{/* Where models of the hub are kept, and the token for those that ask for one. */}}
{{- define "volery-worker.modelHub" -}}
- name: HF_HOME
  value: /models
{{- with .Values.hubToken.secretName }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.hubToken.secretKey }}
{{- end }}
{{- end }}

{{- define "volery-worker.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "volery-worker.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* A drain may end in a quarantine, which lingers to be scraped; then refunds need a moment. */}}
{{- define "volery-worker.graceSeconds" -}}
{{- add (ceil .Values.worker.drainSeconds) (ceil .Values.worker.quarantineLingerSeconds) 30 }}
{{- end }}

{{/* How many of `total` a whole number or a percentage is; a percentage of any is at least one. */}}
{{- define "volery-worker.share" -}}
{{- $share := toString .share }}
{{- if hasSuffix "%" $share }}
{{- $percent := trimSuffix "%" $share | int }}
{{- if $percent }}{{ max 1 (div (mul .total $percent) 100) }}{{ else }}0{{ end }}
{{- else }}
{{- int $share }}
{{- end }}
{{- end }}

{{/* The most workers that there can be. */}}
{{- define "volery-worker.mostReplicas" -}}
{{- .Values.autoscaling.enabled | ternary .Values.autoscaling.maxReplicas .Values.replicas | int | max 1 }}
{{- end }}

{{/* How many waves a roll takes. */}}
{{- define "volery-worker.waves" -}}
{{- $total := include "volery-worker.mostReplicas" . | int }}
{{- $surge := include "volery-worker.share" (dict "share" .Values.rollout.maxSurge "total" $total) | int }}
{{- $unavailable := include "volery-worker.share" (dict "share" .Values.rollout.maxUnavailable "total" $total) | int }}
{{- $at_once := add $surge $unavailable | int }}
{{- if not $at_once }}{{ fail "rollout.maxSurge and rollout.maxUnavailable are both zero: no pod could ever be replaced" }}{{ end }}
{{- div (add $total $at_once -1) $at_once }}
{{- end }}

{{/* Seconds that a wave of a roll may take: to drain, and to start anew. */}}
{{- define "volery-worker.waveSeconds" -}}
{{- add (include "volery-worker.graceSeconds" .) .Values.probes.startupSeconds }}
{{- end }}

{{/* Seconds after which a changed switch is in force in every pod, at the latest. */}}
{{- define "volery-worker.secondsToEffect" -}}
{{- mul (include "volery-worker.waves" .) (include "volery-worker.waveSeconds" .) }}
{{- end }}

{{/* Where an alert's page is: (list runbookUrl page). */}}
{{- define "volery-worker.runbook" -}}
{{- $page := printf "%s.md" (last .) }}
{{- with first . -}}
runbook_url: {{ . }}/{{ $page }}
{{- else -}}
runbook: docs/operating/alerts/{{ $page }}
{{- end }}
{{- end }}

{{/* Where a pod that has a GPU may run. */}}
{{- define "volery-worker.gpuPlacement" -}}
{{- with .Values.gpu.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.gpu.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.gpu.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The folders of a container that opens models, and the volumes of its pod. */}}
{{- define "volery-worker.volumeMounts" -}}
- {name: models, mountPath: /models}
- {name: home, mountPath: /home/volery}
- {name: tmp, mountPath: /tmp}
{{- with .Values.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- define "volery-worker.volumes" -}}
- name: models
  {{- if .Values.modelCache.existingClaim }}
  persistentVolumeClaim:
    claimName: {{ .Values.modelCache.existingClaim }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .Values.modelCache.sizeLimit }}
  {{- end }}
- name: home
  emptyDir:
    sizeLimit: {{ .Values.scratch.sizeLimit }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.scratch.sizeLimit }}
{{- with .Values.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
