{{/* What helm test asks, by kind of pods: ports with name, port, target and path; JSON. Not where they listen on the loopback alone. */}}
{{- define "csi-sidecars.test.checks" -}}
{{- $checks := dict -}}
{{- range $place := ternary (list "controller" "node") (list "controller") .Values.test.nodes -}}
{{- $asked := list -}}
{{- if not (include "csi-sidecars.probeHost" (dict "root" $ "place" $place)) -}}
{{- $ports := include "csi-sidecars.ports" (dict "root" $ "place" $place) | fromJsonArray -}}
{{- range $port := $ports -}}
{{- $name := trimSuffix (printf "-%s" $.Values.nameSuffix) $port.name -}}
{{- $path := get (dict "healthz" "/healthz" "metadata" "/health") $name | default "/readyz" -}}
{{- /* An image of its own may be upstream's, which has no such path. */}}
{{- $sidecar := get $.Values (ternary "healthMonitor" $name (eq $name "monitor")) -}}
{{- if and (eq $path "/readyz") (not (has $name (list "sidecars" "https-metrics"))) (include "csi-sidecars.image.own" $sidecar) -}}
{{- $path = "/metrics" -}}
{{- end -}}
{{- $asked = append $asked (set $port "path" $path) -}}
{{- end -}}
{{- $registrar := $.Values.registrar -}}
{{- if and (eq $place "node") (not (include "csi-sidecars.together" $)) $registrar.enabled $registrar.port -}}
{{- $name := include "csi-sidecars.named" (list $ "registrar") -}}
{{- $asked = append $asked (dict "name" $name "target" $name "port" $registrar.port "path" (ternary "/registration" "/healthz" $registrar.readiness)) -}}
{{- end -}}
{{- end -}}
{{- if $asked -}}
{{- $_ := set $checks $place $asked -}}
{{- end -}}
{{- end -}}
{{- if not $checks -}}
{{- fail "test.image: there is nothing to ask, since all ports are off or on the loopback of a node; leave it empty" -}}
{{- end -}}
{{- toJson $checks -}}
{{- end -}}

{{- define "csi-sidecars.test.service" -}}
{{- printf "%s-%s-test" (include "csi-sidecars.fullname" (index . 0)) (index . 1) -}}
{{- end -}}

{{- define "csi-sidecars.test.labels" -}}
{{ printf "csi-sidecars/%s.test" (include "csi-sidecars.name" .) }}: {{ .Release.Name }}
{{- end -}}
