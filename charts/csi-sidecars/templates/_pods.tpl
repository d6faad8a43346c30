{{/* Volumes, and the driver's container in the pods of this chart. Public: controller.volumes,
     node.volumes. */}}

{{- define "csi-sidecars.controller.volumes" -}}
- name: socket-dir
  {{- if .Values.controller.hostPath }}
  hostPath:
    path: {{ .Values.controller.hostPath }}
    type: DirectoryOrCreate
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end -}}

{{- define "csi-sidecars.node.volumes" -}}
- name: socket-dir
  hostPath:
    path: {{ include "csi-sidecars.node.socketDirectory" . }}
    type: DirectoryOrCreate
- name: registration-dir
  hostPath:
    path: {{ .Values.node.kubeletDir }}/plugins_registry
    type: DirectoryOrCreate
{{- end -}}

{{/* The driver's container: dict root, container, mounts, privileged. What it says itself stays. */}}
{{- define "csi-sidecars.driver.container" -}}
{{- $root := .root -}}
{{- $container := tpl (toYaml .container) $root | fromYaml -}}
{{- $defaults := dict "name" "driver" "imagePullPolicy" $root.Values.image.pullPolicy -}}
{{- if $root.Values.livenessprobe.enabled -}}
{{- $_ := set $defaults "livenessProbe" (include "csi-sidecars.driver.livenessProbe" $root | fromYaml) -}}
{{- end -}}
{{- if .privileged -}}
{{- $_ := set $defaults "securityContext" (dict "privileged" true "runAsUser" 0 "runAsNonRoot" false) -}}
{{- end -}}
{{- $endpoint := dict "name" "CSI_ENDPOINT" "value" (printf "unix://%s" (include "csi-sidecars.socket" $root)) -}}
{{- $node := dict "name" "NODE_NAME" "valueFrom" (dict "fieldRef" (dict "fieldPath" "spec.nodeName")) -}}
{{- $env := concat (list $endpoint $node) (default list $container.env) -}}
{{- $mount := dict "name" "socket-dir" "mountPath" $root.Values.socket.directory -}}
{{- $mounts := concat (list $mount) (default list .mounts) (default list $container.volumeMounts) -}}
{{- toYaml (list (mergeOverwrite $defaults $container (dict "env" $env "volumeMounts" $mounts))) -}}
{{- end -}}

{{/* Everything of a pod's specification that both kinds of pods have: dict root, place (values),
     account, containers, volumes, security, api. */}}
{{- define "csi-sidecars.podSpec" -}}
{{- $place := .place -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: {{ .api }}
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
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with $place.priorityClassName }}
priorityClassName: {{ . }}
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
{{- with $place.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $place.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $place.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  {{- with .driver }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- .containers | trim | nindent 2 }}
  {{- with $place.extraContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
  {{- .volumes | nindent 2 }}
  {{- with $place.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
