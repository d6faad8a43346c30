{{/* Containers of the sidecars. Public: controller.containers, node.containers, all.containers, controller.livenessProbe,
     node.livenessProbe, and one template per program; each takes the scope of this chart, see the README. */}}

{{/* The user of a controller that is not root. */}}
{{- define "csi-sidecars.user" -}}
runAsNonRoot: true
{{- with .Values.controller.user }}
runAsUser: {{ int . }}
runAsGroup: {{ int . }}
{{- end }}
{{- end -}}

{{/* Whether the sidecars of a place run as root: on nodes always, since the registration socket
     lies in a directory of root's, and so does the driver's. */}}
{{- define "csi-sidecars.securityContext" -}}
{{- $root := or (eq .place "node") .root.Values.controller.runAsRoot .root.Values.controller.hostPath -}}
{{- $user := dict "runAsUser" 0 "runAsGroup" 0 "runAsNonRoot" false -}}
{{- if not $root -}}
{{- $user = include "csi-sidecars.user" .root | fromYaml -}}
{{- end -}}
{{- toYaml (mergeOverwrite $user (deepCopy .root.Values.securityContext) (deepCopy .sidecar.securityContext)) -}}
{{- end -}}

{{/* Where the HTTP servers of a place listen: dict root, place. */}}
{{- define "csi-sidecars.bindAddress" -}}
{{- $address := (index .root.Values .place).bindAddress -}}
{{- ternary (printf "[%s]" $address) $address (contains ":" $address) -}}
{{- end -}}

{{/* kubelet asks a pod's address; who listens on the loopback of the node is found there alone. */}}
{{- define "csi-sidecars.probeHost" -}}
{{- $address := (index .root.Values .place).bindAddress -}}
{{- if or (hasPrefix "127." $address) (eq $address "::1") -}}
{{- $address -}}
{{- end -}}
{{- end -}}

{{/* dict root, sidecar (values), program, name (if it is another), flags (template), place, api (talks to the
     API server), probe, ready, env, mounts, ports (beside that of HTTP) */}}
{{- define "csi-sidecars.container" -}}
{{- $root := include "csi-sidecars.placed" (list .root .place) | fromJson | merge (omit .root "Values") -}}
{{- $secure := include "csi-sidecars.secure" (list .root .portName (default .place .pod)) -}}
{{- $port := include "csi-sidecars.named" (list .root (ternary (include "csi-sidecars.secure.portName" .portName) .portName (not (empty $secure)))) -}}
{{- $declared := or (not (has .portName (list "healthz" "sidecars"))) $root.Values.livenessprobe.declarePort -}}
- name: {{ include "csi-sidecars.named" (list .root (default (default .program .name) .sidecar.containerName)) }}
  image: {{ include "csi-sidecars.image" (dict "root" .root "program" .program "sidecar" .sidecar) | quote }}
  imagePullPolicy: {{ default .root.Values.image.pullPolicy .sidecar.pullPolicy }}
  {{- if and .root.Values.image.multiCall (not (include "csi-sidecars.image.own" .sidecar)) }}
  command: [{{ printf "/%s" .program | quote }}]
  {{- end }}
  args:
    {{- include .flags $root | trim | nindent 4 }}
    {{- with .sidecar.port }}
    - {{ printf "--%s=%s:%d" (ternary "secure-http-endpoint" "http-endpoint" (not (empty $secure))) (include "csi-sidecars.bindAddress" $) (int .) | quote }}
    {{- if $secure }}
    {{- include "csi-sidecars.secure.flags" $root | trim | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- with .sidecar.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with concat (default list .env) .sidecar.env }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .sidecar.envFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- $ports := default list .ports }}
  {{- if and .sidecar.port $declared }}
  {{- $ports = prepend $ports (dict "name" $port "containerPort" (int .sidecar.port) "protocol" "TCP") }}
  {{- end }}
  {{- with $ports }}
  ports:
    {{- range . }}
    - name: {{ .name }}
      containerPort: {{ int .containerPort }}
      protocol: {{ .protocol }}
    {{- end }}
  {{- end }}
  {{- $host := include "csi-sidecars.probeHost" . }}
  {{- /* kubelet looks a name up in this container alone. */}}
  {{- $asked := ternary $port (.sidecar.port | int) $declared }}
  {{- if .probe }}
  {{- $get := dict "path" .probe "port" $asked }}
  {{- if $secure }}{{ $_ := set $get "scheme" "HTTPS" }}{{ end }}
  {{- if $host }}{{ $_ := set $get "host" $host }}{{ end }}
  livenessProbe:
    {{- toYaml (mergeOverwrite (dict "httpGet" $get "initialDelaySeconds" 10 "timeoutSeconds" 10 "periodSeconds" 20 "failureThreshold" 3) (deepCopy .sidecar.livenessProbe)) | nindent 4 }}
  {{- end }}
  {{- $ready := dict }}
  {{- if .ready }}
  {{- $get := dict "path" .ready "port" $asked }}
  {{- if $secure }}{{ $_ := set $get "scheme" "HTTPS" }}{{ end }}
  {{- if $host }}{{ $_ := set $get "host" $host }}{{ end }}
  {{- $ready = dict "httpGet" $get "periodSeconds" 5 }}
  {{- end }}
  {{- with mergeOverwrite $ready (deepCopy (default dict .sidecar.readinessProbe)) }}
  readinessProbe:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .sidecar.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "csi-sidecars.securityContext" . | nindent 4 }}
  terminationMessagePolicy: FallbackToLogsOnError
  volumeMounts:
    - name: {{ include "csi-sidecars.named" (list .root "socket-dir") }}
      mountPath: {{ $root.Values.socket.directory }}
      {{- /* Who connects to a socket writes nothing into its directory. */}}
      readOnly: true
    {{- if .api }}
    - {{- include "csi-sidecars.apiToken.mount" .root | nindent 6 }}
    {{- end }}
    {{- if and $secure .sidecar.port }}
    - {{- include "csi-sidecars.secure.mount" .root | nindent 6 }}
    {{- end }}
    {{- with concat (default list .mounts) .sidecar.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* One sidecar's container, asked for by name: list scope, name. */}}
{{- define "csi-sidecars.single" -}}
{{- if include "csi-sidecars.together" (index . 0) -}}
{{- fail (printf "csi-sidecars.%s.container is a container of one sidecar, and sidecars is \"together\": include csi-sidecars.controller.containers, node.containers or all.containers instead, or set sidecars=separate" (index . 1)) -}}
{{- end -}}
{{- end -}}

{{- define "csi-sidecars.leaderProbe" -}}
{{- if and .root.Values.controller.leaderElection.enabled .sidecar.port -}}
/healthz/leader-election
{{- end -}}
{{- end -}}

{{/* Where traces go, for a sidecar that makes some: list root, sidecar (values), whose own variables are not given twice. */}}
{{- define "csi-sidecars.tracing.env" -}}
{{- $root := index . 0 -}}
{{- $it := $root.Values.tracing -}}
{{- $env := list -}}
{{- if $it.enabled -}}
{{- $env = append $env (dict "name" "POD_UID" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.uid"))) -}}
{{- with $it.endpoint -}}
{{- $env = append $env (dict "name" "OTEL_EXPORTER_OTLP_ENDPOINT" "value" .) -}}
{{- end -}}
{{- if not (kindIs "invalid" $it.samplingRatio) -}}
{{- $env = concat $env (list (dict "name" "OTEL_TRACES_SAMPLER" "value" "traceidratio") (dict "name" "OTEL_TRACES_SAMPLER_ARG" "value" (toString $it.samplingRatio))) -}}
{{- end -}}
{{- with $it.headersSecret.name -}}
{{- $env = append $env (dict "name" "OTEL_EXPORTER_OTLP_HEADERS" "valueFrom" (dict "secretKeyRef" (dict "name" . "key" $it.headersSecret.key))) -}}
{{- end -}}
{{- end -}}
{{- $given := list -}}
{{- range (index . 1).env -}}
{{- $given = append $given .name -}}
{{- end -}}
{{- $kept := list -}}
{{- range $env -}}
{{- if not (has .name $given) -}}
{{- $kept = append $kept . -}}
{{- end -}}
{{- end -}}
{{- toYaml $kept -}}
{{- end -}}

{{- define "csi-sidecars.attacher.container" -}}
{{- include "csi-sidecars.single" (list . "attacher") -}}
{{- include "csi-sidecars.container" (dict "root" . "sidecar" .Values.attacher "program" "csi-attacher" "flags" "csi-sidecars.flags.attacher" "portName" "attacher" "place" "controller" "api" true
  "probe" (include "csi-sidecars.leaderProbe" (dict "root" . "sidecar" .Values.attacher))
  "env" (include "csi-sidecars.tracing.env" (list . .Values.attacher) | fromYamlArray)) -}}
{{- end -}}

{{- define "csi-sidecars.resizer.container" -}}
{{- include "csi-sidecars.single" (list . "resizer") -}}
{{- include "csi-sidecars.container" (dict "root" . "sidecar" .Values.resizer "program" "csi-resizer" "flags" "csi-sidecars.flags.resizer" "portName" "resizer" "place" "controller" "api" true
  "probe" (include "csi-sidecars.leaderProbe" (dict "root" . "sidecar" .Values.resizer))
  "env" (include "csi-sidecars.tracing.env" (list . .Values.resizer) | fromYamlArray)) -}}
{{- end -}}

{{- define "csi-sidecars.snapshotter.env" -}}
{{- include "csi-sidecars.fieldEnv" (ternary (dict "NODE_NAME" "spec.nodeName") dict .Values.features.nodeDeployment) -}}
{{- end -}}

{{- define "csi-sidecars.snapshotter.container" -}}
{{- include "csi-sidecars.single" (list . "snapshotter") -}}
{{- $onNodes := .Values.features.nodeDeployment -}}
{{- $probe := ternary "" (include "csi-sidecars.leaderProbe" (dict "root" . "sidecar" .Values.snapshotter)) $onNodes -}}
{{- include "csi-sidecars.container" (dict "root" . "sidecar" .Values.snapshotter "program" "csi-snapshotter" "flags" "csi-sidecars.flags.snapshotter" "portName" "snapshotter" "api" true
  "place" (ternary "node" "controller" $onNodes) "probe" $probe
  "env" (concat (include "csi-sidecars.snapshotter.env" . | fromYamlArray) (include "csi-sidecars.tracing.env" (list . .Values.snapshotter) | fromYamlArray))) -}}
{{- end -}}

{{- define "csi-sidecars.healthMonitor.container" -}}
{{- include "csi-sidecars.single" (list . "healthMonitor") -}}
{{- include "csi-sidecars.container" (dict "root" . "sidecar" .Values.healthMonitor "program" "csi-external-health-monitor-controller" "flags" "csi-sidecars.flags.healthMonitor" "portName" "monitor" "place" "controller" "api" true
  "probe" (include "csi-sidecars.leaderProbe" (dict "root" . "sidecar" .Values.healthMonitor))) -}}
{{- end -}}

{{- define "csi-sidecars.metadata.mount" -}}
name: {{ include "csi-sidecars.named" (list . "metadata-tls") }}
mountPath: /tls
readOnly: true
{{- end -}}

{{/* No part of csi-sidecars: it works in every replica, and its port is another one. */}}
{{- define "csi-sidecars.snapshotMetadata.container" -}}
{{- $it := .Values.snapshotMetadata -}}
{{- $grpc := dict "name" (include "csi-sidecars.named" (list . "metadata-grpc")) "containerPort" $it.grpcPort "protocol" "TCP" -}}
{{- include "csi-sidecars.container" (dict "root" . "sidecar" $it "program" "csi-snapshot-metadata" "flags" "csi-sidecars.flags.snapshotMetadata" "portName" "metadata" "place" "controller" "api" true
  "ready" (ternary "/health" "" (not (empty $it.port))) "ports" (list $grpc) "mounts" (list (include "csi-sidecars.metadata.mount" . | fromYaml))) -}}
{{- end -}}

{{- define "csi-sidecars.fieldEnv" -}}
{{- $env := list -}}
{{- range $name, $path := . -}}
{{- $env = append $env (dict "name" $name "valueFrom" (dict "fieldRef" (dict "fieldPath" $path))) -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}

{{- define "csi-sidecars.provisioner.env" -}}
{{- $features := .Values.features -}}
{{- $fields := dict -}}
{{- if $features.capacity }}{{ $_ := set $fields "NAMESPACE" "metadata.namespace" }}{{ $_ := set $fields "POD_NAME" "metadata.name" }}{{ end -}}
{{- if $features.nodeDeployment }}{{ $_ := set $fields "NODE_NAME" "spec.nodeName" }}{{ end -}}
{{- include "csi-sidecars.fieldEnv" $fields -}}
{{- end -}}

{{- define "csi-sidecars.provisioner.container" -}}
{{- include "csi-sidecars.single" (list . "provisioner") -}}
{{- $features := .Values.features -}}
{{- $probe := ternary "" (include "csi-sidecars.leaderProbe" (dict "root" . "sidecar" .Values.provisioner)) $features.nodeDeployment -}}
{{- include "csi-sidecars.container" (dict "root" . "sidecar" .Values.provisioner "program" "csi-provisioner" "flags" "csi-sidecars.flags.provisioner" "portName" "provisioner" "api" true
  "place" (ternary "node" "controller" $features.nodeDeployment) "probe" $probe
  "env" (concat (include "csi-sidecars.provisioner.env" . | fromYamlArray) (include "csi-sidecars.tracing.env" (list . .Values.provisioner) | fromYamlArray))) -}}
{{- end -}}

{{- define "csi-sidecars.registrar.mount" -}}
name: {{ include "csi-sidecars.named" (list . "registration-dir") }}
mountPath: /registration
{{- end -}}

{{- define "csi-sidecars.registrar.env" -}}
{{- include "csi-sidecars.fieldEnv" (ternary (dict "NODE_NAME" "spec.nodeName") dict (not (empty (include "csi-sidecars.startupTaint" .)))) -}}
{{- end -}}

{{- define "csi-sidecars.registrar.container" -}}
{{- include "csi-sidecars.single" (list . "registrar") -}}
{{- $it := .Values.registrar -}}
{{- $taint := not (empty (include "csi-sidecars.startupTaint" .)) -}}
{{- /* Removing a taint takes a client of the API server: csi-node-sidecars has one, csi-node-driver-registrar has none. */}}
{{- include "csi-sidecars.container" (dict "root" . "sidecar" $it "name" "csi-node-driver-registrar" "program" (ternary "csi-node-sidecars" "csi-node-driver-registrar" $taint)
  "flags" (ternary "csi-sidecars.flags.registrarTogether" "csi-sidecars.flags.registrar" $taint) "portName" "registrar" "place" "node" "api" $taint
  "probe" (ternary "/healthz" "" (not (empty $it.port))) "ready" (ternary "/registration" "" (and $it.readiness (not (empty $it.port))))
  "env" (include "csi-sidecars.registrar.env" . | fromYamlArray) "mounts" (list (include "csi-sidecars.registrar.mount" . | fromYaml))) -}}
{{- end -}}

{{/* dict root, place: a pod of the controller has the controller's user, and each place its own patience. */}}
{{- define "csi-sidecars.livenessprobe.container" -}}
{{- $it := (include "csi-sidecars.placed" (list .root .place) | fromJson).Values.livenessprobe -}}
{{- include "csi-sidecars.container" (dict "root" .root "sidecar" $it "program" "livenessprobe" "flags" "csi-sidecars.flags.livenessprobe" "portName" "healthz" "place" .place) -}}
{{- end -}}

{{/* What belongs into the driver's container: the livenessprobe sidecar answers for the driver. By
     number, since kubelet looks a port's name up in the probed container alone: list root, place. */}}
{{- define "csi-sidecars.livenessProbe" -}}
{{- $root := index . 0 -}}
{{- $place := index . 1 -}}
httpGet:
  path: /healthz
  port: {{ include "csi-sidecars.healthPort" (list $root $place) }}
  {{- with include "csi-sidecars.probeHost" (dict "root" $root "place" $place) }}
  host: {{ . | quote }}
  {{- end }}
  {{- if and (include "csi-sidecars.together" $root) (include "csi-sidecars.secure" (list $root "sidecars" $place)) }}
  scheme: HTTPS
  {{- end }}
initialDelaySeconds: 10
timeoutSeconds: 5
periodSeconds: 10
failureThreshold: 5
{{- end -}}

{{- define "csi-sidecars.controller.livenessProbe" -}}
{{- include "csi-sidecars.livenessProbe" (list . "controller") -}}
{{- end -}}

{{- define "csi-sidecars.node.livenessProbe" -}}
{{- include "csi-sidecars.livenessProbe" (list . "node") -}}
{{- end -}}

{{/* All enabled sidecars of a controller's pod. */}}
{{- define "csi-sidecars.controller.containers" -}}
{{- include "csi-sidecars.check" . -}}
{{- if include "csi-sidecars.together" . }}
{{ include "csi-sidecars.together.container" (dict "root" . "place" "controller" "pod" "controller") }}
{{- else }}
{{- if and .Values.provisioner.enabled (not .Values.features.nodeDeployment) }}
{{ include "csi-sidecars.provisioner.container" . }}
{{- end }}
{{- if .Values.attacher.enabled }}
{{ include "csi-sidecars.attacher.container" . }}
{{- end }}
{{- if .Values.resizer.enabled }}
{{ include "csi-sidecars.resizer.container" . }}
{{- end }}
{{- if and .Values.snapshotter.enabled (not .Values.features.nodeDeployment) }}
{{ include "csi-sidecars.snapshotter.container" . }}
{{- end }}
{{- if .Values.healthMonitor.enabled }}
{{ include "csi-sidecars.healthMonitor.container" . }}
{{- end }}
{{- if .Values.livenessprobe.enabled }}
{{ include "csi-sidecars.livenessprobe.container" (dict "root" . "place" "controller") }}
{{- end }}
{{- end }}
{{- if .Values.snapshotMetadata.enabled }}
{{ include "csi-sidecars.snapshotMetadata.container" . }}
{{- end }}
{{- end -}}

{{/* All enabled sidecars of a pod on each node. */}}
{{- define "csi-sidecars.node.containers" -}}
{{- include "csi-sidecars.check" . -}}
{{- if include "csi-sidecars.together" . }}
{{ include "csi-sidecars.together.container" (dict "root" . "place" "node" "pod" "node") }}
{{- else }}
{{- if .Values.registrar.enabled }}
{{ include "csi-sidecars.registrar.container" . }}
{{- end }}
{{- if and .Values.provisioner.enabled .Values.features.nodeDeployment }}
{{ include "csi-sidecars.provisioner.container" . }}
{{- end }}
{{- if and .Values.snapshotter.enabled .Values.features.nodeDeployment }}
{{ include "csi-sidecars.snapshotter.container" . }}
{{- end }}
{{- if .Values.livenessprobe.enabled }}
{{ include "csi-sidecars.livenessprobe.container" (dict "root" . "place" "node") }}
{{- end }}
{{- end }}
{{- end -}}

{{/* For drivers that have controller and node in one pod: everything, with the livenessprobe and the socket of
     the nodes' pods. */}}
{{- define "csi-sidecars.all.containers" -}}
{{- include "csi-sidecars.check" . -}}
{{- $values := deepCopy .Values -}}
{{- range $name := list "socket" "livenessprobe" -}}
{{- $_ := set $values.controller $name (get $values.node $name) -}}
{{- end -}}
{{- with merge (dict "Values" $values) (omit . "Values") -}}
{{- if include "csi-sidecars.together" . }}
{{ include "csi-sidecars.together.container" (dict "root" . "place" "node" "pod" "all") }}
{{- else }}
{{ include "csi-sidecars.node.containers" . }}
{{- if and .Values.provisioner.enabled (not .Values.features.nodeDeployment) }}
{{ include "csi-sidecars.provisioner.container" . }}
{{- end }}
{{- if .Values.attacher.enabled }}
{{ include "csi-sidecars.attacher.container" . }}
{{- end }}
{{- if .Values.resizer.enabled }}
{{ include "csi-sidecars.resizer.container" . }}
{{- end }}
{{- if and .Values.snapshotter.enabled (not .Values.features.nodeDeployment) }}
{{ include "csi-sidecars.snapshotter.container" . }}
{{- end }}
{{- if .Values.healthMonitor.enabled }}
{{ include "csi-sidecars.healthMonitor.container" . }}
{{- end }}
{{- end }}
{{- if .Values.snapshotMetadata.enabled }}
{{ include "csi-sidecars.snapshotMetadata.container" . }}
{{- end }}
{{- end -}}
{{- end -}}
