{{/* The command line of each program. Values that are empty are left to the program. */}}

{{/* One line for each value that is given: list of pairs. */}}
{{- define "csi-sidecars.flags" -}}
{{- range . -}}
{{- $value := index . 1 -}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
{{- if kindIs "float64" $value -}}
{{- $value = ternary (int64 $value) $value (eq (float64 (int64 $value)) $value) -}}
{{- end }}
- {{ printf "--%s=%v" (index . 0) $value | quote }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is said of one sidecar, or else of all: dict here, all, key. */}}
{{- define "csi-sidecars.own" -}}
{{- $own := get (default dict .here) .key -}}
{{- $all := get .all .key -}}
{{- $value := ternary $all $own (or (kindIs "invalid" $own) (eq (toString $own) "")) -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $value -}}
{{- end -}}
{{- end -}}

{{/* What all programs have: dict root, sidecar. */}}
{{- define "csi-sidecars.flags.common" -}}
{{- $log := .root.Values.log -}}
{{- $format := include "csi-sidecars.own" (dict "here" .sidecar.log "all" $log "key" "format") -}}
{{- $format = ternary "" $format (eq $format "text") -}}
{{- include "csi-sidecars.flags" (list
  (list "csi-address" (include "csi-sidecars.socket" .root))
  (list "v" (include "csi-sidecars.own" (dict "here" .sidecar.log "all" $log "key" "level")))
  (list "logging-format" $format)
) }}
{{- end -}}

{{/* What all controllers have: dict root, name, sidecar, elects, gates (Name: bool), untraced (it makes no traces). */}}
{{- define "csi-sidecars.flags.controller" -}}
{{- $sidecar := .sidecar -}}
{{- $election := .root.Values.controller.leaderElection -}}
{{- $gates := list -}}
{{- range $name, $on := merge (deepCopy $sidecar.featureGates) .gates -}}
{{- $gates = append $gates (printf "%s=%t" $name $on) -}}
{{- end -}}
{{- $kube := .root.Values.kubeApi -}}
{{- include "csi-sidecars.flags.common" . }}
{{- include "csi-sidecars.flags" (list
  (list "kube-api-qps" (include "csi-sidecars.own" (dict "here" $sidecar.kubeApi "all" $kube "key" "qps")))
  (list "kube-api-burst" (include "csi-sidecars.own" (dict "here" $sidecar.kubeApi "all" $kube "key" "burst")))
  (list "timeout" $sidecar.timeout)
  (list "retry-interval-start" $sidecar.retryIntervalStart)
  (list "retry-interval-max" $sidecar.retryIntervalMax)
  (list "feature-gates" (join "," $gates))
  (list "enable-otel-tracing" (ternary true "" (and .root.Values.tracing.enabled (not .untraced))))
  (list "why-endpoint" (include "csi-sidecars.why.address" (list .root .name)))
) }}
{{- if .elects }}
{{- include "csi-sidecars.flags" (list
  (list "leader-election" true)
  (list "leader-election-namespace" $election.namespace)
  (list "leader-election-lease-duration" $election.leaseDuration)
  (list "leader-election-renew-deadline" $election.renewDeadline)
  (list "leader-election-retry-period" $election.retryPeriod)
) }}
{{- end }}
{{- end -}}

{{- define "csi-sidecars.flags.attacher" -}}
{{- $it := .Values.attacher -}}
{{- include "csi-sidecars.flags.controller" (dict "root" . "name" "attacher" "sidecar" $it "gates" dict "elects" .Values.controller.leaderElection.enabled) }}
{{- include "csi-sidecars.flags" (list
  (list "worker-threads" $it.workerThreads)
  (list "resync" $it.resync)
  (list "reconcile-sync" $it.reconcileSync)
  (list "max-entries" $it.maxEntries)
  (list "default-fstype" $it.defaultFsType)
) }}
{{- end -}}

{{/* In a pod of a Deployment the way to it leads over a ReplicaSet. */}}
{{- define "csi-sidecars.capacityOwnerLevel" -}}
{{- $given := .Values.provisioner.capacity.ownerRefLevel -}}
{{- if not (kindIs "invalid" $given) -}}
{{- int $given -}}
{{- else if or .Values.features.nodeDeployment (eq .Values.controller.kind "StatefulSet") -}}
1
{{- else -}}
2
{{- end -}}
{{- end -}}

{{- define "csi-sidecars.flags.provisioner" -}}
{{- $it := .Values.provisioner -}}
{{- $features := .Values.features -}}
{{- $gates := dict -}}
{{- if not $features.topology }}{{ $_ := set $gates "Topology" false }}{{ end -}}
{{- if $features.crossNamespaceDataSource }}{{ $_ := set $gates "CrossNamespaceVolumeDataSource" true }}{{ end -}}
{{- $elects := and .Values.controller.leaderElection.enabled (not $features.nodeDeployment) -}}
{{- include "csi-sidecars.flags.controller" (dict "root" . "name" "provisioner" "sidecar" $it "gates" $gates "elects" $elects) }}
{{- include "csi-sidecars.flags" (list
  (list "worker-threads" $it.workerThreads)
  (list "volume-name-prefix" $it.volumeNamePrefix)
  (list "volume-name-uuid-length" $it.volumeNameUuidLength)
  (list "strict-topology" $it.strictTopology)
  (list "immediate-topology" $it.immediateTopology)
  (list "extra-create-metadata" (ternary true "" $it.extraCreateMetadata))
  (list "default-fstype" $it.defaultFsType)
  (list "controller-publish-readonly" $it.publishReadonly)
  (list "prevent-volume-mode-conversion" $it.preventVolumeModeConversion)
  (list "cloning-protection-threads" $it.cloningProtectionThreads)
  (list "provisioning-protection" $it.protection)
  (list "snapshot-orphan-sweep-interval" $it.snapshotOrphanSweepInterval)
) }}
{{- if $features.capacity }}
{{- include "csi-sidecars.flags" (list
  (list "enable-capacity" true)
  (list "capacity-ownerref-level" (include "csi-sidecars.capacityOwnerLevel" .))
  (list "capacity-poll-interval" $it.capacity.pollInterval)
  (list "capacity-for-immediate-binding" $it.capacity.forImmediateBinding)
  (list "capacity-threads" $it.capacity.threads)
) }}
{{- end }}
{{- if $features.nodeDeployment }}
{{- include "csi-sidecars.flags" (list
  (list "node-deployment" true)
  (list "node-deployment-immediate-binding" $it.nodeDeployment.immediateBinding)
  (list "node-deployment-base-delay" $it.nodeDeployment.baseDelay)
  (list "node-deployment-max-delay" $it.nodeDeployment.maxDelay)
) }}
{{- end }}
{{- end -}}

{{- define "csi-sidecars.flags.resizer" -}}
{{- $it := .Values.resizer -}}
{{- include "csi-sidecars.flags.controller" (dict "root" . "name" "resizer" "sidecar" $it "gates" dict "elects" .Values.controller.leaderElection.enabled) }}
{{- include "csi-sidecars.flags" (list
  (list "workers" $it.workers)
  (list "resize-timeout" $it.resizeTimeout)
  (list "modify-timeout" $it.modifyTimeout)
  (list "resync-period" $it.resyncPeriod)
  (list "handle-volume-inuse-error" (ternary "" false $it.handleVolumeInUseError))
  (list "extra-modify-metadata" (ternary true "" $it.extraModifyMetadata))
) }}
{{- end -}}

{{- define "csi-sidecars.flags.snapshotter" -}}
{{- $it := .Values.snapshotter -}}
{{- $features := .Values.features -}}
{{- $gates := dict -}}
{{- if not $features.groupSnapshots }}{{ $_ := set $gates "CSIVolumeGroupSnapshot" false }}{{ end -}}
{{- $elects := and .Values.controller.leaderElection.enabled (not $features.nodeDeployment) -}}
{{- include "csi-sidecars.flags.controller" (dict "root" . "name" "snapshotter" "sidecar" $it "gates" $gates "elects" $elects) }}
{{- include "csi-sidecars.flags" (list
  (list "worker-threads" $it.workerThreads)
  (list "resync-period" $it.resyncPeriod)
  (list "snapshot-name-prefix" $it.snapshotNamePrefix)
  (list "snapshot-name-uuid-length" $it.snapshotNameUuidLength)
  (list "groupsnapshot-name-prefix" $it.groupSnapshotNamePrefix)
  (list "groupsnapshot-name-uuid-length" $it.groupSnapshotNameUuidLength)
  (list "extra-create-metadata" (ternary true "" $it.extraCreateMetadata))
  (list "node-deployment" (ternary true "" $features.nodeDeployment))
) }}
{{- end -}}

{{- define "csi-sidecars.flags.healthMonitor" -}}
{{- $it := .Values.healthMonitor -}}
{{- include "csi-sidecars.flags.controller" (dict "root" . "name" "healthMonitor" "sidecar" $it "gates" dict "elects" .Values.controller.leaderElection.enabled "untraced" true) }}
{{- include "csi-sidecars.flags" (list
  (list "monitor-interval" $it.interval)
  (list "list-volumes-interval" $it.listVolumesInterval)
  (list "worker-threads" $it.workerThreads)
) }}
{{- end -}}

{{- define "csi-sidecars.flags.snapshotMetadata" -}}
{{- $it := .Values.snapshotMetadata -}}
{{- $kube := .Values.kubeApi -}}
{{- include "csi-sidecars.flags.common" (dict "root" . "sidecar" $it) }}
{{- include "csi-sidecars.flags" (list
  (list "kube-api-qps" (include "csi-sidecars.own" (dict "here" $it.kubeApi "all" $kube "key" "qps")))
  (list "kube-api-burst" (include "csi-sidecars.own" (dict "here" $it.kubeApi "all" $kube "key" "burst")))
  (list "timeout" $it.timeout)
  (list "port" $it.grpcPort)
  (list "tls-cert" "/tls/tls.crt")
  (list "tls-key" "/tls/tls.key")
  (list "tls-min-version" $it.tls.minVersion)
  (list "tls-cipher-suites" (join "," $it.tls.cipherSuites))
  (list "tls-curve-preferences" (join "," $it.tls.curvePreferences))
  (list "audience" $it.audience)
  (list "max-streaming-duration-min" $it.maxStreamingMinutes)
  (list "max-streams" $it.maxStreams)
  (list "shutdown-grace" $it.shutdownGrace)
) }}
{{- if not $it.port }}
{{- /* Otherwise it would listen where upstream's does. */}}
- "--http-endpoint="
{{- end }}
{{- end -}}

{{- define "csi-sidecars.flags.registrar" -}}
{{- $it := .Values.registrar -}}
{{- include "csi-sidecars.flags.common" (dict "root" . "sidecar" $it) }}
{{- include "csi-sidecars.flags" (list
  (list "kubelet-registration-path" (printf "%s/%s" (include "csi-sidecars.node.socketDirectory" .) .Values.socket.file))
  (list "timeout" $it.timeout)
  (list "remove-taint" (include "csi-sidecars.startupTaint" .))
) }}
{{- end -}}

{{/* The same for csi-node-sidecars, which contains the registrar. */}}
{{- define "csi-sidecars.flags.registrarTogether" -}}
{{- include "csi-sidecars.flags" (list (list "controllers" "node-driver-registrar")) }}
{{- include "csi-sidecars.flags.registrar" . }}
{{- end -}}

{{- define "csi-sidecars.flags.livenessprobe" -}}
{{- $it := .Values.livenessprobe -}}
{{- include "csi-sidecars.flags.common" (dict "root" . "sidecar" $it) }}
{{- include "csi-sidecars.flags" (list
  (list "probe-timeout" $it.probeTimeout)
) }}
{{- end -}}
