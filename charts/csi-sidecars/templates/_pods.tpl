{{/* Volumes, and the driver's container in the pods of this chart. Public: controller.volumes,
     node.volumes, all.volumes, apiToken.volume, apiToken.mount. */}}

{{/* What kubelet would mount into every container of the pod: here only those get it that talk to
     the API server. Clients look for these files at this path. */}}
{{- define "csi-sidecars.apiToken.volume" -}}
- name: {{ include "csi-sidecars.named" (list . "api-token") }}
  projected:
    sources:
      - serviceAccountToken: {expirationSeconds: 3600, path: token}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]
{{- end -}}

{{- define "csi-sidecars.apiToken.mount" -}}
name: {{ include "csi-sidecars.named" (list . "api-token") }}
mountPath: /var/run/secrets/kubernetes.io/serviceaccount
readOnly: true
{{- end -}}

{{- define "csi-sidecars.controller.volumes" -}}
- name: {{ include "csi-sidecars.named" (list . "socket-dir") }}
  {{- if .Values.controller.hostPath }}
  hostPath:
    path: {{ .Values.controller.hostPath }}
    type: DirectoryOrCreate
  {{- else }}
  emptyDir: {{ toJson .Values.socket.emptyDir }}
  {{- end }}
{{ include "csi-sidecars.apiToken.volume" . }}
{{- include "csi-sidecars.metadata.volume" . }}
{{- include "csi-sidecars.secure.volume" . }}
{{- end -}}

{{- define "csi-sidecars.metadata.volume" -}}
{{- with .Values.snapshotMetadata }}
{{- if .enabled }}
- name: {{ include "csi-sidecars.named" (list $ "metadata-tls") }}
  secret:
    secretName: {{ .tls.secretName }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "csi-sidecars.node.directories" -}}
- name: {{ include "csi-sidecars.named" (list . "socket-dir") }}
  hostPath:
    path: {{ include "csi-sidecars.node.socketDirectory" . }}
    type: DirectoryOrCreate
- name: {{ include "csi-sidecars.named" (list . "registration-dir") }}
  hostPath:
    path: {{ .Values.node.kubeletDir }}/plugins_registry
    type: DirectoryOrCreate
{{- end -}}

{{- define "csi-sidecars.node.volumes" -}}
{{ include "csi-sidecars.node.directories" . }}
{{- $clients := or .Values.provisioner.enabled .Values.snapshotter.enabled }}
{{- if or (and $clients .Values.features.nodeDeployment) .Values.node.tokenFor (include "csi-sidecars.startupTaint" .) }}
{{ include "csi-sidecars.apiToken.volume" . }}
{{- end }}
{{- if and $clients .Values.features.nodeDeployment }}
{{- include "csi-sidecars.secure.volume" . }}
{{- end }}
{{- end -}}

{{/* Of a pod with the containers of both. */}}
{{- define "csi-sidecars.all.volumes" -}}
{{ include "csi-sidecars.node.directories" . }}
{{ include "csi-sidecars.apiToken.volume" . }}
{{- include "csi-sidecars.metadata.volume" . }}
{{- include "csi-sidecars.secure.volume" . }}
{{- end -}}

{{/* Containers of a list that tokenFor names get the token: dict root, containers, names. */}}
{{- define "csi-sidecars.withToken" -}}
{{- $given := list -}}
{{- range $container := .containers -}}
{{- if has $container.name $.names -}}
{{- $mounts := append (default list $container.volumeMounts) (include "csi-sidecars.apiToken.mount" $.root | fromYaml) -}}
{{- $container = merge (dict "volumeMounts" $mounts) $container -}}
{{- end -}}
{{- $given = append $given $container -}}
{{- end -}}
{{- toYaml $given -}}
{{- end -}}

{{/* The driver's container: dict root, place, container, mounts, privileged. What it says itself
     stays. */}}
{{- define "csi-sidecars.driver.container" -}}
{{- $root := .root -}}
{{- $container := tpl (toYaml .container) $root | fromYaml -}}
{{- $defaults := dict "name" "driver" "imagePullPolicy" $root.Values.image.pullPolicy -}}
{{- if $root.Values.livenessprobe.enabled -}}
{{- $_ := set $defaults "livenessProbe" (include "csi-sidecars.livenessProbe" (list $root .place) | fromYaml) -}}
{{- end -}}
{{- if .privileged -}}
{{- $_ := set $defaults "securityContext" (dict "privileged" true "runAsUser" 0 "runAsNonRoot" false) -}}
{{- end -}}
{{- $placed := include "csi-sidecars.placed" (list $root .place) | fromJson -}}
{{- $endpoint := dict "name" "CSI_ENDPOINT" "value" (printf "unix://%s" (include "csi-sidecars.socket" $placed)) -}}
{{- $node := dict "name" "NODE_NAME" "valueFrom" (dict "fieldRef" (dict "fieldPath" "spec.nodeName")) -}}
{{- $env := concat (list $endpoint $node) (default list $container.env) -}}
{{- $mount := dict "name" (include "csi-sidecars.named" (list $root "socket-dir")) "mountPath" $placed.Values.socket.directory -}}
{{- $mounts := concat (list $mount) (default list .mounts) (default list $container.volumeMounts) -}}
{{- include "csi-sidecars.withToken" (dict "root" $root "names" (index $root.Values .place).tokenFor "containers" (list (mergeOverwrite $defaults $container (dict "env" $env "volumeMounts" $mounts)))) -}}
{{- end -}}

{{/* Labels, and annotations, of a workload, not of its pods: list root, place. */}}
{{- define "csi-sidecars.workload.metadata" -}}
{{- $root := index . 0 -}}
{{- $place := index $root.Values (index . 1) -}}
labels:
  {{- include "csi-sidecars.labels" $root | nindent 2 }}
  app.kubernetes.io/component: {{ index . 1 }}
  {{- with $place.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $place.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What both kinds of workloads say of their pods' changes: values of the place. */}}
{{- define "csi-sidecars.workload.spec" -}}
{{- range $name := list "revisionHistoryLimit" "minReadySeconds" }}
{{- if not (kindIs "invalid" (index $ $name)) }}
{{ $name }}: {{ int (index $ $name) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Everything of a pod's specification that both kinds of pods have: dict root, place (values),
     account, containers, volumes, security, affinity (the default). */}}
{{- define "csi-sidecars.podSpec" -}}
{{- $place := .place -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: false
{{- with include "csi-sidecars.imagePullSecrets" .root }}
imagePullSecrets:
  {{- . | trim | nindent 2 }}
{{- end }}
{{- with default .security $place.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $place.hostNetwork }}
hostNetwork: true
{{- end }}
{{- if $place.hostPID }}
hostPID: true
{{- end }}
{{- if $place.hostIPC }}
hostIPC: true
{{- end }}
{{- with default (ternary "ClusterFirstWithHostNet" "" $place.hostNetwork) $place.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with $place.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $place.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $place.schedulerName }}
schedulerName: {{ . | quote }}
{{- end }}
{{- with $place.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if not (kindIs "invalid" $place.enableServiceLinks) }}
enableServiceLinks: {{ $place.enableServiceLinks }}
{{- end }}
terminationGracePeriodSeconds: {{ int $place.terminationGracePeriodSeconds }}
{{- with $place.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $place.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with default .affinity $place.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $place.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- /* One that restarts is ended after all containers: the sidecars' last calls still find the driver. */}}
{{- $native := and .driver $place.driverOutlives }}
{{- if or $place.initContainers $native }}
initContainers:
  {{- with $place.initContainers }}
  {{- include "csi-sidecars.withToken" (dict "root" $.root "containers" . "names" $place.tokenFor) | nindent 2 }}
  {{- end }}
  {{- if $native }}
  {{- list (set (.driver | fromYamlArray | first) "restartPolicy" "Always") | toYaml | nindent 2 }}
  {{- end }}
{{- end }}
containers:
  {{- if and .driver (not $native) }}
  {{- .driver | nindent 2 }}
  {{- end }}
  {{- .containers | trim | nindent 2 }}
  {{- with $place.extraContainers }}
  {{- include "csi-sidecars.withToken" (dict "root" $.root "containers" . "names" $place.tokenFor) | nindent 2 }}
  {{- end }}
volumes:
  {{- .volumes | nindent 2 }}
  {{- with $place.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
