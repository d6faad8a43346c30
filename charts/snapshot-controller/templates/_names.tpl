{{/* Names, labels, the image, and values that contradict each other. */}}

{{- define "snapshot-controller.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "snapshot-controller.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "snapshot-controller.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "snapshot-controller.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Objects of the cluster are named after the namespace too: two releases may have one name. */}}
{{- define "snapshot-controller.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "snapshot-controller.fullname" .) -}}
{{- end -}}

{{- define "snapshot-controller.selectorLabels" -}}
app.kubernetes.io/name: {{ include "snapshot-controller.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Of the pod of helm test, which no selector of the controller's pods may find. */}}
{{- define "snapshot-controller.test.labels" -}}
app.kubernetes.io/name: {{ include "snapshot-controller.name" . | trunc 45 | trimSuffix "-" }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "snapshot-controller.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "snapshot-controller.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "snapshot-controller.serviceAccountName" -}}
{{- default (ternary (include "snapshot-controller.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "snapshot-controller.image" -}}
{{- $image := .Values.image -}}
{{- $registry := default $image.registry (default dict .Values.global).imageRegistry -}}
{{- if not $registry -}}
{{- fail "image.registry is required: registry and folder of the image, such as registry.example.com/storage; `make images` in the source makes images to push there, see docs/images.md" -}}
{{- end -}}
{{- $name := ternary $image.multiCallName "snapshot-controller" $image.multiCall -}}
{{- $reference := printf "%s/%s:%s" (trimSuffix "/" $registry) $name (default .Chart.AppVersion $image.tag) -}}
{{- with get $image.digests $name -}}
{{- $reference = printf "%s@%s" $reference . -}}
{{- end -}}
{{- $reference -}}
{{- end -}}

{{- define "snapshot-controller.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) -}}
{{- fail "replicas is more than 1: leaderElection.enabled must be true, or all of them would work on the same snapshots" -}}
{{- end -}}
{{- if and (not .Values.port) (or .Values.metrics.service .Values.metrics.serviceMonitor.enabled) -}}
{{- fail "metrics.service and metrics.serviceMonitor need port: there would be nothing to ask" -}}
{{- end -}}
{{- if and (not .Values.port) .Values.test.image -}}
{{- fail "test.image needs port: there would be nothing to ask; leave it empty" -}}
{{- end -}}
{{- if and .Values.port (eq (toString .Values.why.endpoint.port) (toString .Values.port)) -}}
{{- fail (printf "why.endpoint.port: port has %v already; choose another port" .Values.port) -}}
{{- end -}}
{{- /* An upgrade goes on, with a warning: whoever may create one could stop it else. */}}
{{- if and .Release.IsInstall (include "snapshot-controller.groupsForgotten" .) -}}
{{- fail "the cluster has VolumeGroupSnapshots, which nobody would take or delete, nor their members: set features.groupSnapshots=true, or delete them with the controller that has made them" -}}
{{- end -}}
{{- end -}}

{{/* Whether the cluster has VolumeGroupSnapshots that nobody would work on. */}}
{{- define "snapshot-controller.groupsForgotten" -}}
{{- if and (not .Values.features.groupSnapshots) (.Capabilities.APIVersions.Has "groupsnapshot.storage.k8s.io/v1/VolumeGroupSnapshot") -}}
{{- if get (lookup "groupsnapshot.storage.k8s.io/v1" "VolumeGroupSnapshot" "" "") "items" -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The user, for container and pod. */}}
{{- define "snapshot-controller.user" -}}
runAsNonRoot: true
{{- with .Values.user }}
runAsUser: {{ int . }}
runAsGroup: {{ int . }}
{{- end }}
{{- end -}}

{{/* The page about an alert: list address, name. */}}
{{- define "snapshot-controller.runbook" -}}
{{- with index . 0 }}
            runbook_url: {{ printf "%s#%s" . (lower (index $ 1)) | quote }}
{{- end }}
{{- end -}}
