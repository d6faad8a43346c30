{{/* What each program may do: exactly the requests it makes with the features that are enabled.
     Each template gives the rules of a ClusterRole; *.namespaced those of a Role in the release's
     namespace, *.leases those of one where its Leases are. A test takes them away one by one, see docs/rbac-mutations.md. */}}

{{/* A leader's lease: dict root, prefix of its name. Creating cannot be limited to a name. */}}
{{- define "csi-sidecars.rules.lease" -}}
{{- if .root.Values.controller.leaderElection.enabled }}
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["create"]
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  resourceNames: [{{ printf "%s%s" .prefix (regexReplaceAll "[^A-Za-z0-9-]" .root.Values.driver.name "-") | quote }}]
  verbs: ["get", "update"]
{{- end }}
{{- end -}}

{{- define "csi-sidecars.rules.secrets" -}}
{{- if eq .Values.secrets.access "all" }}
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["get"]
{{- end }}
{{- end -}}

{{- define "csi-sidecars.rules.attacher" -}}
- apiGroups: ["storage.k8s.io"]
  resources: ["volumeattachments"]
  verbs: ["get", "list", "watch", "patch"]
- apiGroups: ["storage.k8s.io"]
  resources: ["volumeattachments/status"]
  verbs: ["patch"]
{{- if .Values.driver.publishes }}
- apiGroups: [""]
  resources: ["persistentvolumes"]
  verbs: ["get", "list", "watch", "patch"]
- apiGroups: ["storage.k8s.io"]
  resources: ["csinodes"]
  verbs: ["list", "watch"]
{{- include "csi-sidecars.rules.secrets" . }}
{{- end }}
{{- end -}}

{{- define "csi-sidecars.rules.attacher.namespaced" -}}{{- end -}}

{{- define "csi-sidecars.rules.attacher.leases" -}}
{{- include "csi-sidecars.rules.lease" (dict "root" . "prefix" "external-attacher-leader-") }}
{{- /* Its event; the others may write events everywhere. */}}
{{- if .Values.controller.leaderElection.enabled }}
- apiGroups: [""]
  resources: ["events"]
  verbs: ["create"]
{{- end }}
{{- end -}}

{{- define "csi-sidecars.rules.provisioner" -}}
{{- $it := .Values.provisioner -}}
{{- $features := .Values.features -}}
- apiGroups: [""]
  resources: ["persistentvolumes"]
  verbs: ["get", "list", "watch", "create", "patch", "delete"]
- apiGroups: [""]
  resources: ["persistentvolumeclaims"]
  verbs: [{{ if or $features.topology $features.cloning $features.nodeDeployment }}"get", "update", {{ end }}"list", "watch"]
- apiGroups: ["storage.k8s.io"]
  resources: ["storageclasses"]
  verbs: ["list", "watch"]
- apiGroups: [""]
  resources: ["events"]
  verbs: ["create", "patch"]
{{- include "csi-sidecars.rules.secrets" . }}
{{- if and (not $features.nodeDeployment) (or $features.topology $features.capacity) }}
- apiGroups: ["storage.k8s.io"]
  resources: ["csinodes"]
  verbs: ["list", "watch"]
- apiGroups: [""]
  resources: ["nodes"]
  verbs: ["list", "watch"]
{{- end }}
{{- /* Journals of nodes that are gone are told of. */}}
{{- if and $features.nodeDeployment (ne $it.protection "off") }}
- apiGroups: [""]
  resources: ["nodes"]
  verbs: ["get"]
{{- end }}
{{- if .Values.driver.publishes }}
- apiGroups: ["storage.k8s.io"]
  resources: ["volumeattachments"]
  verbs: ["list", "watch"]
{{- end }}
{{- if $features.volumeAttributesClass }}
- apiGroups: ["storage.k8s.io"]
  resources: ["volumeattributesclasses"]
  verbs: ["get"]
{{- end }}
{{- if $features.snapshots }}
- apiGroups: ["snapshot.storage.k8s.io"]
  resources: ["volumesnapshotcontents"]
  verbs: ["get"]
- apiGroups: ["snapshot.storage.k8s.io"]
  resources: ["volumesnapshots"]
  verbs: ["get", "update"{{ if not (regexMatch "^0[a-zµ]*$" $it.snapshotOrphanSweepInterval) }}, "list", "watch"{{ end }}]
{{- end }}
{{- if $features.crossNamespaceDataSource }}
- apiGroups: ["gateway.networking.k8s.io"]
  resources: ["referencegrants"]
  verbs: ["list", "watch"]
{{- end }}
{{- end -}}

{{- define "csi-sidecars.rules.provisioner.leases" -}}
{{- if ne .Values.provisioner.protection "off" }}
{{- /* The journal is in Leases that are numbered as they are needed, beside the one of the election. */}}
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["get", "create", "update"{{ if .Values.features.nodeDeployment }}, "list", "delete"{{ end }}]
{{- else if not .Values.features.nodeDeployment }}
{{- include "csi-sidecars.rules.lease" (dict "root" . "prefix" "") }}
{{- end }}
{{- end -}}

{{- define "csi-sidecars.rules.provisioner.namespaced" -}}
{{- if .Values.features.capacity }}
{{- $level := int (include "csi-sidecars.capacityOwnerLevel" .) }}
- apiGroups: ["storage.k8s.io"]
  resources: ["csistoragecapacities"]
  verbs: ["list", "watch", "create", "update", "delete"]
{{- if ge $level 0 }}
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["get"]
{{- end }}
{{- if ge $level 2 }}
- apiGroups: ["apps"]
  resources: ["replicasets"]
  verbs: ["get"]
{{- end }}
{{- end }}
{{- end -}}

{{- define "csi-sidecars.rules.resizer" -}}
- apiGroups: [""]
  resources: ["persistentvolumes"]
  verbs: ["get", "list", "watch", "patch"]
- apiGroups: [""]
  resources: ["persistentvolumeclaims"]
  verbs: ["get", "list", "watch"]
- apiGroups: [""]
  resources: ["persistentvolumeclaims/status"]
  verbs: ["patch"]
- apiGroups: [""]
  resources: ["events"]
  verbs: ["create", "patch"]
{{- if .Values.resizer.handleVolumeInUseError }}
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["list", "watch"]
{{- end }}
{{- if .Values.features.volumeAttributesClass }}
- apiGroups: ["storage.k8s.io"]
  resources: ["volumeattributesclasses"]
  verbs: ["list", "watch"]
{{- end }}
{{- include "csi-sidecars.rules.secrets" . }}
{{- end -}}

{{- define "csi-sidecars.rules.resizer.namespaced" -}}{{- end -}}

{{- define "csi-sidecars.rules.resizer.leases" -}}
{{- include "csi-sidecars.rules.lease" (dict "root" . "prefix" "external-resizer-") }}
{{- end -}}

{{- define "csi-sidecars.rules.snapshotter" -}}
{{- /* Contents are patched, and neither created nor deleted. */}}
- apiGroups: ["snapshot.storage.k8s.io"]
  resources: ["volumesnapshotcontents"]
  verbs: ["get", "list", "watch", "patch"]
- apiGroups: ["snapshot.storage.k8s.io"]
  resources: ["volumesnapshotcontents/status"]
  verbs: ["patch"]
- apiGroups: ["snapshot.storage.k8s.io"]
  resources: ["volumesnapshotclasses"]
  verbs: ["list", "watch"]
{{- if .Values.features.groupSnapshots }}
- apiGroups: ["groupsnapshot.storage.k8s.io"]
  resources: ["volumegroupsnapshotcontents"]
  verbs: ["get", "list", "watch", "patch"]
- apiGroups: ["groupsnapshot.storage.k8s.io"]
  resources: ["volumegroupsnapshotcontents/status"]
  verbs: ["patch"]
- apiGroups: ["groupsnapshot.storage.k8s.io"]
  resources: ["volumegroupsnapshotclasses"]
  verbs: ["list", "watch"]
{{- end }}
{{- include "csi-sidecars.rules.secrets" . }}
{{- end -}}

{{- define "csi-sidecars.rules.healthMonitor" -}}
- apiGroups: [""]
  resources: ["persistentvolumes", "persistentvolumeclaims"]
  verbs: ["list", "watch"]
{{- if .Values.features.volumeHealth }}
- apiGroups: [""]
  resources: ["persistentvolumeclaims/status"]
  verbs: ["patch"]
{{- else }}
- apiGroups: [""]
  resources: ["events"]
  verbs: ["list", "create", "patch"]
{{- end }}
{{- end -}}

{{- define "csi-sidecars.rules.healthMonitor.namespaced" -}}{{- end -}}

{{- define "csi-sidecars.rules.healthMonitor.leases" -}}
{{- include "csi-sidecars.rules.lease" (dict "root" . "prefix" "external-health-monitor-leader-") }}
{{- /* Its event; without features.volumeHealth it may write events everywhere. */}}
{{- if and .Values.controller.leaderElection.enabled .Values.features.volumeHealth }}
- apiGroups: [""]
  resources: ["events"]
  verbs: ["create"]
{{- end }}
{{- end -}}

{{/* RBAC cannot limit it to the pod's own Node, nor to a taint; the policy in startup-taint.yaml does. */}}
{{- define "csi-sidecars.rules.startupTaint" -}}
- apiGroups: [""]
  resources: ["nodes"]
  verbs: ["get", "patch"]
- apiGroups: ["storage.k8s.io"]
  resources: ["csinodes"]
  verbs: ["get"]
{{- end -}}

{{- define "csi-sidecars.rules.snapshotMetadata" -}}
- apiGroups: ["authentication.k8s.io"]
  resources: ["tokenreviews"]
  verbs: ["create"]
- apiGroups: ["authorization.k8s.io"]
  resources: ["subjectaccessreviews"]
  verbs: ["create"]
- apiGroups: ["snapshot.storage.k8s.io"]
  resources: ["volumesnapshots", "volumesnapshotcontents"]
  verbs: ["get"]
- apiGroups: ["snapshot.storage.k8s.io"]
  resources: ["volumesnapshotclasses"]
  verbs: ["get", "list"]
{{- if not .Values.snapshotMetadata.audience }}
- apiGroups: ["cbt.storage.k8s.io"]
  resources: ["snapshotmetadataservices"]
  verbs: ["get"]
{{- end }}
{{- include "csi-sidecars.rules.secrets" . }}
{{- end -}}

{{- define "csi-sidecars.rules.snapshotMetadata.namespaced" -}}{{- end -}}
{{- define "csi-sidecars.rules.snapshotMetadata.leases" -}}{{- end -}}

{{- define "csi-sidecars.rules.snapshotter.namespaced" -}}{{- end -}}

{{- define "csi-sidecars.rules.snapshotter.leases" -}}
{{- if not .Values.features.nodeDeployment }}
{{- include "csi-sidecars.rules.lease" (dict "root" . "prefix" "external-snapshotter-leader-") }}
{{- /* Its event; those about contents are in "default". */}}
{{- if .Values.controller.leaderElection.enabled }}
- apiGroups: [""]
  resources: ["events"]
  verbs: ["create"]
{{- end }}
{{- end }}
{{- end -}}
