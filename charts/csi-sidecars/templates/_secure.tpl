{{/* Ports of the controllers that speak TLS and ask who reads them: metrics.secure. */}}

{{/* Whether a port, by the name without suffix, speaks TLS: list root, name, place. One process of several speaks TLS if a
     controller is in it. */}}
{{- define "csi-sidecars.secure" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- if $root.Values.metrics.secure.enabled -}}
{{- if has $name (list "attacher" "resizer" "provisioner" "snapshotter" "monitor") -}}
true
{{- else if eq $name "sidecars" -}}
{{- range $one := include "csi-sidecars.chosen" (dict "root" $root "place" (index . 2)) | fromJsonArray -}}
{{- if has $one (list "attacher" "resizer" "provisioner" "snapshotter" "healthMonitor") -}}
true
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name of a port that speaks TLS: one process has the name without TLS on nodes. */}}
{{- define "csi-sidecars.secure.portName" -}}
{{- ternary "https-metrics" . (eq . "sidecars") -}}
{{- end -}}

{{/* The Secret of the certificate. */}}
{{- define "csi-sidecars.secure.secret" -}}
{{- default (printf "%s-metrics-tls" (include "csi-sidecars.fullname" .)) .Values.metrics.secure.secretName -}}
{{- end -}}

{{- define "csi-sidecars.secure.flags" -}}
{{- $secure := .Values.metrics.secure -}}
{{- include "csi-sidecars.flags" (list
  (list "tls-cert-file" "/metrics-tls/tls.crt")
  (list "tls-private-key-file" "/metrics-tls/tls.key")
  (list "tls-min-version" $secure.minVersion)
  (list "client-ca-file" (ternary (printf "/metrics-tls/%s" $secure.clientCaKey) "" (not (empty $secure.clientCaKey))))
) }}
{{- end -}}

{{- define "csi-sidecars.secure.mount" -}}
name: {{ include "csi-sidecars.named" (list . "metrics-tls") }}
mountPath: /metrics-tls
readOnly: true
{{- end -}}

{{- define "csi-sidecars.secure.volume" -}}
{{- if .Values.metrics.secure.enabled }}
- name: {{ include "csi-sidecars.named" (list . "metrics-tls") }}
  secret:
    secretName: {{ include "csi-sidecars.secure.secret" . }}
{{- end }}
{{- end -}}

{{/* Names of the Services, by which a certificate is checked, as a JSON list. */}}
{{- define "csi-sidecars.secure.names" -}}
{{- $names := list -}}
{{- range $place := list "controller" "node" -}}
{{- $service := printf "%s-%s.%s.svc" (include "csi-sidecars.fullname" $) $place $.Release.Namespace -}}
{{- $names = concat $names (list $service (printf "%s.cluster.local" $service)) -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* The pods for whose Service OpenShift makes the certificate: the first that have a port with TLS; empty without. */}}
{{- define "csi-sidecars.secure.openshift" -}}
{{- $places := list -}}
{{- if and .Values.metrics.secure.enabled .Values.metrics.secure.openshift -}}
{{- range $place := list "controller" "node" -}}
{{- range $port := include "csi-sidecars.ports" (dict "root" $ "place" $place) | fromJsonArray -}}
{{- if $port.secure -}}
{{- $places = append $places $place | uniq -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $places -}}
{{- first . -}}
{{- end -}}
{{- end -}}

{{/* The authority above the certificate, as a monitor names it. */}}
{{- define "csi-sidecars.secure.ca" -}}
{{- $made := dict "secret" (dict "name" (include "csi-sidecars.secure.secret" .) "key" "ca.crt") -}}
{{- $openshift := dict "configMap" (dict "name" "openshift-service-ca.crt" "key" "service-ca.crt") -}}
{{- toYaml (default (ternary $openshift $made .Values.metrics.secure.openshift) .Values.metrics.secure.ca) -}}
{{- end -}}

{{/* How a port that speaks TLS is scraped, in an endpoint of a monitor: root. */}}
{{- define "csi-sidecars.secure.endpoint" -}}
{{- $secure := .Values.metrics.secure -}}
{{- $place := default "controller" (include "csi-sidecars.secure.openshift" .) -}}
scheme: https
{{- if $secure.authorization }}
authorization:
  {{- toYaml $secure.authorization | nindent 2 }}
{{- else }}
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
tlsConfig:
  serverName: {{ default (printf "%s-%s.%s.svc" (include "csi-sidecars.fullname" .) $place .Release.Namespace) $secure.serverName }}
  ca:
    {{- include "csi-sidecars.secure.ca" . | nindent 4 }}
{{- end -}}

{{- define "csi-sidecars.check.secure" -}}
{{- $secure := .Values.metrics.secure -}}
{{- if $secure.enabled -}}
{{- if and .Values.metrics.podMonitor.enabled (not $secure.authorization) -}}
{{- fail "metrics.secure.enabled with metrics.podMonitor needs metrics.secure.authorization: a PodMonitor cannot name the token's file; or use metrics.serviceMonitor" -}}
{{- end -}}
{{- if and $secure.certManager.issuer $secure.openshift -}}
{{- fail "metrics.secure.certManager.issuer and metrics.secure.openshift exclude each other: both would write the certificate" -}}
{{- end -}}
{{- end -}}
{{- end -}}
