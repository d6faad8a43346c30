{{/* Names, labels and images. Public: *.selectorLabels, *.serviceAccountName, *.socket. */}}

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

{{/* By which pods are found, also those of other charts, whose selectors have the usual labels with values of their
     own. One label for each kind of pod and each driver, so that a pod can be of several: list root, place. */}}
{{- define "csi-sidecars.selectorLabels" -}}
{{ printf "csi-sidecars/%s.%s" (include "csi-sidecars.name" (index . 0)) (index . 1) }}: {{ (index . 0).Release.Name }}
{{- end -}}

{{- define "csi-sidecars.controller.selectorLabels" -}}
{{- include "csi-sidecars.selectorLabels" (list . "controller") -}}
{{- end -}}

{{- define "csi-sidecars.node.selectorLabels" -}}
{{- include "csi-sidecars.selectorLabels" (list . "node") -}}
{{- end -}}

{{/* Of the pods of this chart: list root, place. */}}
{{- define "csi-sidecars.podLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "csi-sidecars.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- with (index $root.Values (index . 1)).podLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The key of the start-up taint that the pods of this scope remove; empty if they remove none. */}}
{{- define "csi-sidecars.startupTaint" -}}
{{- if and .Values.node.startupTaint.enabled .Values.registrar.enabled -}}
{{- default (printf "%s/agent-not-ready" .Values.driver.name) .Values.node.startupTaint.key -}}
{{- end -}}
{{- end -}}

{{/* The keys of the start-up taints of all pools, as a JSON list. */}}
{{- define "csi-sidecars.startupTaints" -}}
{{- $keys := list -}}
{{- range $pool := default (list dict) .Values.node.pools -}}
{{- $key := include "csi-sidecars.startupTaint" (include "csi-sidecars.pool" (list $ $pool) | fromJson) -}}
{{- if $key -}}{{- $keys = append $keys $key | uniq -}}{{- end -}}
{{- end -}}
{{- toJson $keys -}}
{{- end -}}

{{/* A name within a pod, which two drivers of one pod must not share: list root, name. */}}
{{- define "csi-sidecars.named" -}}
{{- index . 1 }}{{ with (index . 0).Values.nameSuffix }}-{{ . }}{{ end -}}
{{- end -}}

{{/* The scope of a kind of pod: what "controller" or "node" says of socket and livenessprobe is over what is said of
     both, and the livenessprobe's port is the one that answers there: list root, place; JSON. */}}
{{- define "csi-sidecars.placed" -}}
{{- $values := deepCopy (index . 0).Values -}}
{{- $it := get $values (index . 1) -}}
{{- if include "csi-sidecars.together" (index . 0) -}}
{{- $_ := set $values.livenessprobe "port" (default $values.livenessprobe.port $values.together.port) -}}
{{- end -}}
{{- range $name := list "socket" "livenessprobe" -}}
{{- $_ := set $values $name (include "csi-sidecars.over" (list (get $values $name) (default dict (get $it $name))) | fromJson) -}}
{{- end -}}
{{- toJson (dict "Values" $values) -}}
{{- end -}}

{{/* Where a kind of pod answers for its driver; with "together" all of its HTTP server; empty: nowhere: list root, place. */}}
{{- define "csi-sidecars.healthPort" -}}
{{- with (include "csi-sidecars.placed" . | fromJson).Values.livenessprobe.port -}}
{{- int . -}}
{{- end -}}
{{- end -}}

{{- define "csi-sidecars.controller.serviceAccountName" -}}
{{- default (ternary (printf "%s-controller" (include "csi-sidecars.fullname" .)) "default" .Values.controller.serviceAccount.create) (tpl (default "" .Values.controller.serviceAccount.name) .) -}}
{{- end -}}

{{- define "csi-sidecars.node.serviceAccountName" -}}
{{- default (ternary (printf "%s-node" (include "csi-sidecars.fullname" .)) "default" .Values.node.serviceAccount.create) (tpl (default "" .Values.node.serviceAccount.name) .) -}}
{{- end -}}

{{/* Whether a sidecar has an image of its own, which is not the one of all programs; of its values. */}}
{{- define "csi-sidecars.image.own" -}}
{{- or .image .repository -}}
{{- end -}}

{{/* The last part of an image's name, of a reference with or without tag and digest. */}}
{{- define "csi-sidecars.image.name" -}}
{{- regexFind "[^/:@]+$" (regexReplaceAll "(:[^/]*)?(@.*)?$" . "") -}}
{{- end -}}

{{/* The image of a program: dict root, program, sidecar (values). */}}
{{- define "csi-sidecars.image" -}}
{{- $image := .root.Values.image -}}
{{- $registry := default $image.registry (default dict .root.Values.global).imageRegistry -}}
{{- $tag := default (default .root.Chart.AppVersion $image.tag) .sidecar.tag -}}
{{- if .sidecar.image -}}
{{- .sidecar.image -}}
{{- else if .sidecar.repository -}}
{{- printf "%s:%s" .sidecar.repository $tag -}}
{{- else if not $registry -}}
{{- fail "image.registry is required: registry and folder of the sidecars' images, such as registry.example.com/storage; `make images` in the source makes images to push there, see docs/images.md" -}}
{{- else -}}
{{- $name := ternary $image.multiCallName .program (or $image.multiCall (eq .program "csi-sidecars")) -}}
{{- $reference := printf "%s/%s:%s" (trimSuffix "/" $registry) $name $tag -}}
{{- /* They are of the tag of all. */}}
{{- with ternary "" (get $image.digests $name) (not (empty .sidecar.tag)) -}}
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

{{/* Of the scope of a kind of pod. */}}
{{- define "csi-sidecars.socket" -}}
{{- printf "%s/%s" (trimSuffix "/" .Values.socket.directory) .Values.socket.file -}}
{{- end -}}

{{- define "csi-sidecars.controller.socket" -}}
{{- include "csi-sidecars.placed" (list . "controller") | fromJson | include "csi-sidecars.socket" -}}
{{- end -}}

{{- define "csi-sidecars.node.socket" -}}
{{- include "csi-sidecars.placed" (list . "node") | fromJson | include "csi-sidecars.socket" -}}
{{- end -}}

{{- define "csi-sidecars.node.socketDirectory" -}}
{{- default (printf "%s/plugins/%s" .Values.node.kubeletDir .Values.driver.name) .Values.node.socketDirectory -}}
{{- end -}}

{{/* The page about an alert: list address, name. */}}
{{- define "csi-sidecars.runbook" -}}
{{- with index . 0 }}
            runbook_url: {{ printf "%s#%s" . (lower (index $ 1)) | quote }}
{{- end }}
{{- end -}}
