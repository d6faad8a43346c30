{{/* Names, labels and images. Public: controller.labels, node.labels, *.serviceAccountName. */}}

{{- define "csi-sidecars.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Room for "-controller" and what a StatefulSet appends. */}}
{{- define "csi-sidecars.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "csi-sidecars.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "csi-sidecars.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Objects of the cluster are named after the namespace too: two releases may have one name. */}}
{{- define "csi-sidecars.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "csi-sidecars.fullname" .) -}}
{{- end -}}

{{- define "csi-sidecars.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "csi-sidecars.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "csi-sidecars.controller.selectorLabels" -}}
app.kubernetes.io/name: {{ include "csi-sidecars.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end -}}

{{- define "csi-sidecars.node.selectorLabels" -}}
app.kubernetes.io/name: {{ include "csi-sidecars.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: node
{{- end -}}

{{- define "csi-sidecars.controller.serviceAccountName" -}}
{{- default (ternary (printf "%s-controller" (include "csi-sidecars.fullname" .)) "default" .Values.controller.serviceAccount.create) .Values.controller.serviceAccount.name -}}
{{- end -}}

{{- define "csi-sidecars.node.serviceAccountName" -}}
{{- default (ternary (printf "%s-node" (include "csi-sidecars.fullname" .)) "default" .Values.node.serviceAccount.create) .Values.node.serviceAccount.name -}}
{{- end -}}

{{/* The image of a program: dict root, program, override. */}}
{{- define "csi-sidecars.image" -}}
{{- $image := .root.Values.image -}}
{{- $registry := default $image.registry (default dict .root.Values.global).imageRegistry -}}
{{- if .override -}}
{{- .override -}}
{{- else if not $registry -}}
{{- fail "image.registry is required: registry and folder of the sidecars' images, such as registry.example.com/storage; `make images` in the source makes images to push there, see docs/images.md" -}}
{{- else -}}
{{- $name := ternary $image.multiCallName .program (or $image.multiCall (eq .program "csi-sidecars")) -}}
{{- $reference := printf "%s/%s:%s" (trimSuffix "/" $registry) $name (default .root.Chart.AppVersion $image.tag) -}}
{{- with get $image.digests $name -}}
{{- $reference = printf "%s@%s" $reference . -}}
{{- end -}}
{{- $reference -}}
{{- end -}}
{{- end -}}

{{- define "csi-sidecars.imagePullSecrets" -}}
{{- range .Values.image.pullSecrets }}
- name: {{ . }}
{{- end }}
{{- end -}}

{{- define "csi-sidecars.socket" -}}
{{- printf "%s/%s" (trimSuffix "/" .Values.socket.directory) .Values.socket.file -}}
{{- end -}}

{{- define "csi-sidecars.node.socketDirectory" -}}
{{- default (printf "%s/plugins/%s" .Values.node.kubeletDir .Values.driver.name) .Values.node.socketDirectory -}}
{{- end -}}

{{/* Ports of the controller's pod that the ServiceMonitor scrapes, as a JSON list. */}}
{{- define "csi-sidecars.scraped" -}}
{{- $ports := list }}
{{- if include "csi-sidecars.together" . }}
{{- if include "csi-sidecars.together.port" . }}
{{- $ports = list "sidecars" }}
{{- end }}
{{- else }}
{{- range $port, $sidecar := dict "attacher" .Values.attacher "provisioner" .Values.provisioner "resizer" .Values.resizer "snapshotter" .Values.snapshotter "healthz" .Values.livenessprobe }}
{{- if and $sidecar.enabled $sidecar.port }}
{{- $ports = append $ports $port }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $ports }}
{{- end -}}

{{/* The page about an alert: list address, name. */}}
{{- define "csi-sidecars.runbook" -}}
{{- with index . 0 }}
            runbook_url: {{ printf "%s#%s" . (lower (index $ 1)) | quote }}
{{- end }}
{{- end -}}
