{{/* Where controllers answer questions about objects: ports of the loopback address, one for each container. */}}

{{/* The port of a sidecar in controller pods: list root, name. Empty if it does not answer. */}}
{{- define "csi-sidecars.why.port" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $first := $root.Values.why.endpoint.port -}}
{{- /* On nodes pods of several drivers would want the same port. */}}
{{- $onNodes := and $root.Values.features.nodeDeployment (has $name (list "provisioner" "snapshotter")) -}}
{{- if and $first (not $onNodes) (get $root.Values $name).enabled -}}
{{- if include "csi-sidecars.together" $root -}}
{{- int $first -}}
{{- else -}}
{{- add (int $first) (get (dict "attacher" 0 "provisioner" 1 "resizer" 2 "snapshotter" 3 "healthMonitor" 4) $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The sidecars in controller pods that answer, as a JSON list. */}}
{{- define "csi-sidecars.why.names" -}}
{{- $names := list -}}
{{- range $name := list "attacher" "provisioner" "resizer" "snapshotter" "healthMonitor" -}}
{{- if include "csi-sidecars.why.port" (list $ $name) -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* The address of a sidecar: list root, name. */}}
{{- define "csi-sidecars.why.address" -}}
{{- with include "csi-sidecars.why.port" . -}}
localhost:{{ . }}
{{- end -}}
{{- end -}}

{{/* The annotation by which kubectl csi why finds the ports of a controller pod. */}}
{{- define "csi-sidecars.why.annotations" -}}
{{- $ports := list -}}
{{- range $name := include "csi-sidecars.why.names" . | fromJsonArray -}}
{{- $ports = append $ports (include "csi-sidecars.why.port" (list $ $name)) | uniq -}}
{{- end -}}
{{- with $ports -}}
csi-sidecars.io/why: {{ join "," . | quote }}
{{- end -}}
{{- end -}}
