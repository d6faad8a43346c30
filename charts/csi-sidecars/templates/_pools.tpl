{{/* The DaemonSets of the nodes: one, or one for each of node.pools. */}}

{{/* A map over another: list below, above. Maps are merged, everything else is replaced, also by what
     is empty, and null takes away; JSON. */}}
{{- define "csi-sidecars.over" -}}
{{- $merged := deepCopy (index . 0) -}}
{{- range $key, $value := index . 1 -}}
{{- $below := get $merged $key -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $merged $key -}}
{{- else -}}
{{- if and (kindIs "map" $value) (kindIs "map" $below) -}}
{{- $value = include "csi-sidecars.over" (list $below $value) | fromJson -}}
{{- end -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $merged -}}
{{- end -}}

{{/* What a pool changes of the chart's scope: list root, pool; JSON. */}}
{{- define "csi-sidecars.pool" -}}
{{- $root := index . 0 -}}
{{- $pool := index . 1 -}}
{{- $values := deepCopy $root.Values -}}
{{- $node := include "csi-sidecars.over" (list (omit $values.node "pools") (omit $pool "name" "sidecarResources")) | fromJson -}}
{{- $_ := set $values "node" (merge (dict "pools" list "pool" (default "" $pool.name)) $node) -}}
{{- range $name, $resources := default dict $pool.sidecarResources -}}
{{- $_ := set (get $values $name) "resources" $resources -}}
{{- end -}}
{{- toJson (dict "Values" $values) -}}
{{- end -}}

{{- define "csi-sidecars.pool.selectorLabels" -}}
{{- include "csi-sidecars.node.selectorLabels" . }}
{{- with .Values.node.pool }}
csi-sidecars/pool: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Two pods on one node would serve and register one socket. */}}
{{- define "csi-sidecars.pools.check" -}}
{{- $pools := .Values.node.pools -}}
{{- if and $pools (not .Values.node.create) -}}
{{- fail "node.pools is given, but node.create is false: there would be no DaemonSet" -}}
{{- end -}}
{{- $seen := list -}}
{{- range $pool := $pools -}}
{{- $chosen := (include "csi-sidecars.pool" (list $ $pool) | fromJson).Values.node -}}
{{- range $other := $seen -}}
{{- if eq $other.pool $chosen.pool -}}
{{- fail (printf "node.pools: two pools are named %q" $chosen.pool) -}}
{{- end -}}
{{- $apart := or $chosen.affinity $other.affinity -}}
{{- $labels := default dict $other.nodeSelector -}}
{{- range $label, $value := $chosen.nodeSelector -}}
{{- if and (hasKey $labels $label) (ne (get $labels $label) $value) -}}
{{- $apart = true -}}
{{- end -}}
{{- end -}}
{{- if not $apart -}}
{{- fail (printf "node.pools: a node may belong to both %q and %q, and two pods would serve one socket there; give one label different values in their nodeSelector, or use affinity" $other.pool $chosen.pool) -}}
{{- end -}}
{{- end -}}
{{- $seen = append $seen $chosen -}}
{{- end -}}
{{- end -}}

{{/* Of the scope of a pool. */}}
{{- define "csi-sidecars.node.daemonSet" -}}
{{- $it := .Values.node -}}
{{- with include "csi-sidecars.startupTaint" . -}}
{{- $it = set (deepCopy $it) "tolerations" (append (default list $it.tolerations) (dict "key" . "operator" "Exists")) -}}
{{- end -}}
{{- $containers := include "csi-sidecars.node.containers" . | trim -}}
{{- if $containers }}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "csi-sidecars.fullname" . }}-node{{ with $it.pool }}-{{ . }}{{ end }}
  namespace: {{ .Release.Namespace }}
  {{- include "csi-sidecars.workload.metadata" (list . "node") | nindent 2 }}
spec:
  {{- with include "csi-sidecars.workload.spec" $it | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $it.updateStrategy }}
  updateStrategy:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "csi-sidecars.pool.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "csi-sidecars.pool.selectorLabels" . | nindent 8 }}
        {{- include "csi-sidecars.podLabels" (list . "node") | nindent 8 }}
      {{- with $it.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- $security := dict "seccompProfile" (dict "type" "RuntimeDefault") }}
      {{- $volumes := include "csi-sidecars.node.volumes" . }}
      {{- $driver := "" }}
      {{- if $it.driver }}
      {{- $privileged := dig "securityContext" "privileged" true $it.driver }}
      {{- $mounts := list (dict "name" "kubelet-dir" "mountPath" $it.kubeletDir "mountPropagation" (ternary "Bidirectional" "HostToContainer" $privileged)) }}
      {{- $volumes = printf "%s\n- name: kubelet-dir\n  hostPath:\n    path: %s\n    type: Directory" $volumes $it.kubeletDir }}
      {{- $driver = include "csi-sidecars.driver.container" (dict "root" . "place" "node" "container" $it.driver "mounts" $mounts "privileged" true) }}
      {{- end }}
      {{- include "csi-sidecars.podSpec" (dict "root" . "place" $it "account" (include "csi-sidecars.node.serviceAccountName" .) "security" $security
          "driver" $driver "containers" $containers "volumes" $volumes) | nindent 6 }}
{{- end }}
{{- end -}}
