{{/* What is scraped, and how. */}}

{{/* The name of a sidecar's port, which has room for a suffix: 15 characters are allowed. */}}
{{- define "csi-sidecars.portName" -}}
{{- ternary "monitor" . (eq . "healthMonitor") -}}
{{- end -}}

{{/* Ports of a kind of pod with metrics, as a JSON list of name, port, and target (the number where no container of ours
     declares it): dict root, place. */}}
{{- define "csi-sidecars.ports" -}}
{{- $root := .root -}}
{{- $place := .place -}}
{{- $onNodes := .root.Values.features.nodeDeployment -}}
{{- $health := include "csi-sidecars.healthPort" (list .root .place) -}}
{{- $ports := list -}}
{{- if include "csi-sidecars.together" .root -}}
{{- if and $health (include "csi-sidecars.chosen" (dict "root" .root "place" .place) | fromJsonArray) -}}
{{- $ports = list (dict "name" "sidecars" "port" (int $health)) -}}
{{- end -}}
{{- else -}}
{{- $sidecars := ternary (list "attacher" "resizer" "healthMonitor") list (eq .place "controller") -}}
{{- if eq .place (ternary "node" "controller" $onNodes) -}}
{{- $sidecars = concat $sidecars (list "provisioner" "snapshotter") -}}
{{- end -}}
{{- range $name := $sidecars -}}
{{- $it := index $root.Values $name -}}
{{- if and $it.enabled $it.port -}}
{{- $ports = append $ports (dict "name" (include "csi-sidecars.portName" $name) "port" (int $it.port)) -}}
{{- end -}}
{{- end -}}
{{- if .root.Values.livenessprobe.enabled -}}
{{- $ports = append $ports (dict "name" "healthz" "port" (int $health)) -}}
{{- end -}}
{{- end -}}
{{- $metadata := .root.Values.snapshotMetadata -}}
{{- if and (eq .place "controller") $metadata.enabled $metadata.port -}}
{{- $ports = append $ports (dict "name" "metadata" "port" (int $metadata.port)) -}}
{{- end -}}
{{- $declared := (include "csi-sidecars.placed" (list $root $place) | fromJson).Values.livenessprobe.declarePort -}}
{{- range $port := $ports -}}
{{- $named := or $declared (ne (toString $port.port) $health) -}}
{{- if include "csi-sidecars.secure" (list $root $port.name $place) -}}
{{- $_ := set $port "secure" true -}}
{{- $_ := set $port "name" (include "csi-sidecars.secure.portName" $port.name) -}}
{{- end -}}
{{- $_ := set $port "name" (include "csi-sidecars.named" (list $root $port.name)) -}}
{{- $_ := set $port "target" (ternary $port.name $port.port $named) -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}

{{/* Numbers of all ports of a kind of pod: the registrar has no metrics that matter; JSON: dict root, place. */}}
{{- define "csi-sidecars.listening" -}}
{{- $numbers := list -}}
{{- range $port := include "csi-sidecars.ports" . | fromJsonArray -}}
{{- $numbers = append $numbers (int $port.port) -}}
{{- end -}}
{{- $registrar := .root.Values.registrar -}}
{{- if and (eq .place "node") (not (include "csi-sidecars.together" .root)) $registrar.enabled $registrar.port -}}
{{- $numbers = append $numbers (int $registrar.port) -}}
{{- end -}}
{{- toJson $numbers -}}
{{- end -}}

{{/* Kinds of pods that are scraped, as a JSON list. */}}
{{- define "csi-sidecars.scraped.places" -}}
{{- toJson (ternary (list "controller" "node") (list "controller") .Values.metrics.nodes) -}}
{{- end -}}

{{/* Names of all ports that are scraped, and whether they speak TLS, as a JSON object. */}}
{{- define "csi-sidecars.scraped" -}}
{{- $names := dict -}}
{{- range $place := include "csi-sidecars.scraped.places" . | fromJsonArray -}}
{{- range $port := include "csi-sidecars.ports" (dict "root" $ "place" $place) | fromJsonArray -}}
{{- $_ := set $names $port.name (default false $port.secure) -}}
{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* An endpoint of a ServiceMonitor or PodMonitor: dict root, it (values of the monitor), port (its name), secure. */}}
{{- define "csi-sidecars.endpoint" -}}
- port: {{ .port }}
  {{- if .secure }}
  {{- include "csi-sidecars.secure.endpoint" .root | nindent 2 }}
  {{- end }}
  path: /metrics
  interval: {{ .it.interval }}
  {{- with .it.scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  relabelings:
    - targetLabel: csi_driver
      replacement: {{ .root.Values.driver.name | quote }}
    {{- with .it.relabelings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .it.metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
