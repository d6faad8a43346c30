{{/* The command line. Values that are empty are left to the program. */}}

{{- define "snapshot-controller.flags" -}}
{{- $it := .Values -}}
{{- $gates := list -}}
{{- $own := dict -}}
{{- if not $it.features.groupSnapshots }}{{ $_ := set $own "CSIVolumeGroupSnapshot" false }}{{ end -}}
{{- range $name, $on := merge (deepCopy $it.featureGates) $own -}}
{{- $gates = append $gates (printf "%s=%t" $name $on) -}}
{{- end -}}
{{- $pairs := list
  (list "v" $it.log.level)
  (list "logging-format" (ternary "" $it.log.format (eq $it.log.format "text")))
  (list "kube-api-qps" $it.kubeApi.qps)
  (list "kube-api-burst" $it.kubeApi.burst)
  (list "worker-threads" $it.workerThreads)
  (list "retry-interval-start" $it.retryIntervalStart)
  (list "retry-interval-max" $it.retryIntervalMax)
  (list "resync-period" $it.resyncPeriod)
  (list "retry-crd-interval-max" $it.retryCrdIntervalMax)
  (list "prevent-volume-mode-conversion" $it.preventVolumeModeConversion)
  (list "enable-distributed-snapshotting" (ternary true "" $it.features.distributedSnapshotting))
  (list "feature-gates" (join "," $gates))
-}}
{{- if $it.leaderElection.enabled -}}
{{- $pairs = concat $pairs (list
  (list "leader-election" true)
  (list "leader-election-namespace" $it.leaderElection.namespace)
  (list "leader-election-lease-duration" $it.leaderElection.leaseDuration)
  (list "leader-election-renew-deadline" $it.leaderElection.renewDeadline)
  (list "leader-election-retry-period" $it.leaderElection.retryPeriod)) -}}
{{- end -}}
{{- if $it.port -}}
{{- $pairs = append $pairs (list "http-endpoint" (printf ":%d" (int $it.port))) -}}
{{- end -}}
{{- with $it.why.endpoint.port -}}
{{- $pairs = append $pairs (list "why-endpoint" (printf "localhost:%d" (int .))) -}}
{{- end -}}
{{- range $pairs -}}
{{- $value := index . 1 -}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
{{- if kindIs "float64" $value -}}
{{- $value = ternary (int64 $value) $value (eq (float64 (int64 $value)) $value) -}}
{{- end }}
- {{ printf "--%s=%v" (index . 0) $value | quote }}
{{- end -}}
{{- end -}}
{{- range $it.extraArgs }}
- {{ . | quote }}
{{- end -}}
{{- end -}}
