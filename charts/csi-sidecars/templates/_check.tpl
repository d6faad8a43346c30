{{/* What a schema cannot say: values that contradict each other. */}}
{{- define "csi-sidecars.check" -}}
{{- $controller := .Values.controller -}}
{{- $provisioner := .Values.provisioner -}}
{{- if not .Values.driver.name -}}
{{- fail "driver.name is required: the name that the driver answers GetPluginInfo with, such as my.driver.example.com" -}}
{{- end -}}
{{- if and (gt (int $controller.replicas) 1) (not $controller.leaderElection.enabled) -}}
{{- fail "controller.replicas is more than 1: controller.leaderElection.enabled must be true, or all of them would work on the same volumes" -}}
{{- end -}}
{{- if and $controller.create (not $controller.hostPath) (not $controller.driver) (not $controller.extraContainers) -}}
{{- fail "controller: nobody would serve the socket; give the driver's container in controller.driver (or in controller.extraContainers), or in controller.hostPath the directory in which a driver that runs already has its socket, or set controller.create=false and include the sidecars in your own pod" -}}
{{- end -}}
{{- if and $controller.hostPath $controller.driver -}}
{{- fail "controller.hostPath and controller.driver exclude each other: the driver's container would not see the socket of the driver that runs already" -}}
{{- end -}}
{{- if and $controller.driver (not $controller.driver.image) -}}
{{- fail "controller.driver.image is required: the driver's container needs an image" -}}
{{- end -}}
{{- $node := ternary (printf "node.pools[%s]" .Values.node.pool) "node" (not (empty .Values.node.pool)) -}}
{{- /* With pools, each of them is checked in its own scope. */}}
{{- if and .Values.node.driver (not .Values.node.driver.image) (not .Values.node.pools) -}}
{{- fail (printf "%s.driver.image is required: the driver's container needs an image" $node) -}}
{{- end -}}
{{- include "csi-sidecars.pools.check" . -}}
{{- if and .Values.features.capacity (not $provisioner.enabled) -}}
{{- fail "features.capacity needs provisioner.enabled: csi-provisioner writes the CSIStorageCapacity objects" -}}
{{- end -}}
{{- if and .Values.features.volumeHealth (not .Values.healthMonitor.enabled) -}}
{{- fail "features.volumeHealth needs healthMonitor.enabled: csi-external-health-monitor-controller writes it to the claims" -}}
{{- end -}}
{{- if and .Values.features.groupSnapshots (not .Values.snapshotter.enabled) -}}
{{- fail "features.groupSnapshots needs snapshotter.enabled: csi-snapshotter takes them" -}}
{{- end -}}
{{- if and .Values.features.nodeDeployment .Values.features.groupSnapshots -}}
{{- fail "features.nodeDeployment and features.groupSnapshots exclude each other: no content of a group says which node's csi-snapshotter shall act" -}}
{{- end -}}
{{- if and .Values.features.nodeDeployment (not .Values.features.topology) -}}
{{- fail "features.nodeDeployment needs features.topology: volumes belong to the node that made them" -}}
{{- end -}}
{{- if and (eq .Values.secrets.access "named") (not .Values.secrets.names) -}}
{{- fail "secrets.access is \"named\": list the Secrets in secrets.names, as {namespace: ..., name: ...}" -}}
{{- end -}}
{{- if and .Values.secrets.names (ne .Values.secrets.access "named") -}}
{{- fail (printf "secrets.names is given, but secrets.access is %q: set it to \"named\"" .Values.secrets.access) -}}
{{- end -}}
{{- if and .Values.csiDriver.create .Values.csiDriver.serviceAccountTokenInSecrets (not .Values.csiDriver.tokenRequests) -}}
{{- fail "csiDriver.serviceAccountTokenInSecrets needs csiDriver.tokenRequests: the API server refuses it without" -}}
{{- end -}}
{{- range $place := list "controller" "node" -}}
{{- $it := index $.Values $place -}}
{{- $at := ternary $node $place (eq $place "node") -}}
{{- if not $it.pools -}}
{{- if and $it.create (not $it.hostNetwork) (include "csi-sidecars.probeHost" (dict "root" $ "place" $place)) -}}
{{- fail (printf "%s.bindAddress is %s: kubelet's probes come from outside of the pod's network; leave it empty, or set %s.hostNetwork" $at $it.bindAddress $at) -}}
{{- end -}}
{{- $names := list -}}
{{- with $it.driver -}}
{{- $names = append $names (default "driver" .name) -}}
{{- end -}}
{{- range concat $it.initContainers $it.extraContainers -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- if and $it.driverOutlives (semverCompare "<1.29-0" $.Capabilities.KubeVersion.Version) -}}
{{- fail (printf "%s.driverOutlives: init containers that restart are in Kubernetes 1.29 and later, and this is %s" $at $.Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if and $it.create $it.hostNetwork -}}
{{- include "csi-sidecars.check.declaredTwice" (dict "root" $ "place" $place "at" $at) -}}
{{- end -}}
{{- include "csi-sidecars.leftover" (dict "root" $ "place" $place "at" $at) -}}
{{- range $name := $it.tokenFor -}}
{{- if not (has $name $names) -}}
{{- fail (printf "%s.tokenFor: there is no container %q; our own sidecars have a token where they need one, and there are: %s" $at $name (join ", " $names)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled -}}
{{- fail "metrics.serviceMonitor and metrics.podMonitor exclude each other: everything would be scraped twice" -}}
{{- end -}}
{{- include "csi-sidecars.check.secure" . -}}
{{- if .Values.tracing.enabled -}}
{{- include "csi-sidecars.check.upstream" (dict "root" . "setting" "tracing.enabled" "flag" "--enable-otel-tracing" "names" (list "attacher" "provisioner" "resizer" "snapshotter") "off" "tracing.enabled=false") -}}
{{- end -}}
{{- range $place := list "controller" "node" -}}
{{- $declared := (include "csi-sidecars.placed" (list $ $place) | fromJson).Values.livenessprobe.declarePort -}}
{{- if and $.Values.metrics.podMonitor.enabled (not $declared) -}}
{{- fail "metrics.podMonitor finds ports by name, and with livenessprobe.declarePort=false no container of ours has that one: use metrics.serviceMonitor" -}}
{{- end -}}
{{- end -}}
{{- if include "csi-sidecars.startupTaints" . | fromJsonArray -}}
{{- include "csi-sidecars.check.startupTaint" . -}}
{{- end -}}
{{- $together := include "csi-sidecars.together" . -}}
{{- range $place := list "controller" "node" -}}
{{- if and $.Values.livenessprobe.enabled (not (include "csi-sidecars.healthPort" (list $ $place))) -}}
{{- fail "livenessprobe.port is required: kubelet asks the livenessprobe there; switch it off with livenessprobe.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- include "csi-sidecars.check.hostPorts" . -}}
{{- $ports := dict -}}
{{- with .Values.snapshotMetadata -}}
{{- if and .enabled (not .tls.secretName) -}}
{{- fail "snapshotMetadata.tls.secretName is required: csi-snapshot-metadata answers over TLS alone; name a Secret of type kubernetes.io/tls" -}}
{{- end -}}
{{- if and .advertise.address (not (and .advertise.caCert .audience)) -}}
{{- fail "snapshotMetadata.advertise.address needs snapshotMetadata.advertise.caCert and snapshotMetadata.audience: clients must know whom to trust, and for whom their tokens must be" -}}
{{- end -}}
{{- if and .enabled .port (eq (int .port) (int .grpcPort)) -}}
{{- fail (printf "snapshotMetadata.port and snapshotMetadata.grpcPort are both %d" (int .port)) -}}
{{- end -}}
{{- end -}}
{{- $listening := list "attacher" "provisioner" "resizer" "snapshotter" "healthMonitor" "registrar" "livenessprobe" "snapshotMetadata" -}}
{{- range $name := ternary (list "snapshotMetadata") $listening (not (empty $together)) -}}
{{- $sidecar := index $.Values $name -}}
{{- if and $sidecar.enabled $sidecar.port -}}
{{- $own := list (toString (int $sidecar.port)) -}}
{{- if eq $name "livenessprobe" -}}
{{- $own = list (include "csi-sidecars.healthPort" (list $ "controller")) (include "csi-sidecars.healthPort" (list $ "node")) | uniq -}}
{{- end -}}
{{- range $port := $own -}}
{{- if hasKey $ports $port -}}
{{- fail (printf "%s.port and %s.port are both %s: they may share a pod" (get $ports $port) $name $port) -}}
{{- end -}}
{{- $_ := set $ports $port $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "csi-sidecars.check.why" . -}}
{{- end -}}

{{/* Upstream's programs end at a flag that they do not know. An image of a sidecar's own is upstream's by its registry, or by a folder
     whose name copies keep; a registry for all images only by itself, since such a folder there may have images of ours. dict root,
     setting, flag, names (the sidecars that get the flag), off (how the setting is switched off). */}}
{{- define "csi-sidecars.check.upstream" -}}
{{- if not (include "csi-sidecars.together" .root) -}}
{{- $registries := "registry\\.k8s\\.io|k8s\\.gcr\\.io|gke\\.gcr\\.io" -}}
{{- $folders := "sig-storage|k8s-staging-sig-storage|k8scsi|kubernetes-csi|csi-components" -}}
{{- $values := .root.Values -}}
{{- $global := (default dict $values.global).imageRegistry -}}
{{- range $name := .names -}}
{{- $sidecar := get $values $name -}}
{{- $program := printf "csi-%s" (ternary "external-health-monitor-controller" $name (eq $name "healthMonitor")) -}}
{{- $reference := include "csi-sidecars.image.own" $sidecar -}}
{{- $key := printf "%s.%s" $name (ternary "repository" "image" (empty $sidecar.image)) -}}
{{- $upstream := printf "(^|/)(%s|%s)/" $registries $folders -}}
{{- if not $reference -}}
{{- $reference = default $values.image.registry $global -}}
{{- $key = ternary "image.registry" "global.imageRegistry" (empty $global) -}}
{{- $upstream = printf "^(%s)/" $registries -}}
{{- end -}}
{{- if and $sidecar.enabled (regexMatch $upstream (printf "%s/" $reference)) -}}
{{- fail (printf "%s with %s=%s: upstream's %s has no flag %s, and would not start; name an image of ours there, or set %s and put %s into extraArgs of the sidecars that are ours" $.setting $key $reference $program $.flag $.off $.flag) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The sidecars that answer questions. All containers of a pod share the loopback address: a port that another one has is refused. */}}
{{- define "csi-sidecars.check.why" -}}
{{- $names := include "csi-sidecars.why.names" . | fromJsonArray -}}
{{- include "csi-sidecars.check.upstream" (dict "root" . "setting" "why.endpoint.port" "flag" "--why-endpoint" "names" $names "off" "why.endpoint.port=null") -}}
{{- $taken := include "csi-sidecars.hostPorts" (dict "root" . "place" "controller") | fromJsonArray -}}
{{- range $name := $names -}}
{{- $port := include "csi-sidecars.why.port" (list $ $name) -}}
{{- if has $port $taken -}}
{{- fail (printf "why.endpoint.port: %s would answer on port %s, which a container of the controller's pods has already; choose another port" $name $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The registrar has a client of the API server in csi-node-sidecars alone. */}}
{{- define "csi-sidecars.check.startupTaint" -}}
{{- $key := ternary "repository" "image" (empty .Values.registrar.image) -}}
{{- $reference := get .Values.registrar $key -}}
{{- if and $reference (not (include "csi-sidecars.together" .)) (ne (include "csi-sidecars.image.name" $reference) "csi-node-sidecars") -}}
{{- fail (printf "registrar.%s is %q: node.startupTaint runs csi-node-sidecars in csi-node-driver-registrar's place; name an image of csi-node-sidecars, leave registrar.image and registrar.repository empty, or set node.startupTaint.enabled=false" $key $reference) -}}
{{- end -}}
{{- range $pool := .Values.node.pools -}}
{{- if hasKey ($pool.startupTaint | default dict) "policy" -}}
{{- fail (printf "node.pools[%s].startupTaint.policy: the pools share one account and its ValidatingAdmissionPolicy: set node.startupTaint.policy" $pool.name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.node.startupTaint.policy (semverCompare "<1.30-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "node.startupTaint.policy: ValidatingAdmissionPolicies are in Kubernetes 1.30 and later, and this is %s: set node.startupTaint.policy=false" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end -}}

{{/* Ports of the node that a pod takes there with hostNetwork, such as 9808, 111/UDP and "7000 of 127.0.0.1", as a JSON list: dict root, place. */}}
{{- define "csi-sidecars.hostPorts" -}}
{{- $it := get .root.Values .place -}}
{{- $ports := list -}}
{{- range $port := include "csi-sidecars.listening" . | fromJsonArray -}}
{{- $ports = append $ports (toString (int $port)) -}}
{{- end -}}
{{- range $container := concat (ternary list (list $it.driver) (empty $it.driver)) $it.extraContainers -}}
{{- range $port := $container.ports -}}
{{- $protocol := ternary "" (printf "/%s" $port.protocol) (has $port.protocol (list nil "" "TCP")) -}}
{{- $address := ternary "" (printf " of %s" $port.hostIP) (empty $port.hostIP) -}}
{{- $ports = append $ports (printf "%d%s%s" (int $port.containerPort) $protocol $address) -}}
{{- end -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}

{{/* A pod in the network of the node declares each port once, or the API server refuses it: the workload is there and has no pods.
     dict root, place, at (how messages call the place). */}}
{{- define "csi-sidecars.check.declaredTwice" -}}
{{- $values := (include "csi-sidecars.placed" (list .root .place) | fromJson).Values -}}
{{- $elsewhere := ternary "" (include "csi-sidecars.healthPort" (list .root .place)) $values.livenessprobe.declarePort -}}
{{- $seen := list -}}
{{- range $port := include "csi-sidecars.hostPorts" (dict "root" .root "place" .place) | fromJsonArray -}}
{{- if and (has $port $seen) (ne $port $elsewhere) -}}
{{- fail (printf "%s.hostNetwork: two containers declare port %s, and the API server would refuse the pods; remove it from the driver's container, or set livenessprobe.declarePort=false if it is the livenessprobe's" $.at $port) -}}
{{- end -}}
{{- $seen = append $seen $port -}}
{{- end -}}
{{- end -}}

{{/* The pods of the nodes are on every node: a pod of the controller that wants one of their ports has none to go to. */}}
{{- define "csi-sidecars.check.hostPorts" -}}
{{- $controller := .Values.controller -}}
{{- $node := .Values.node -}}
{{- if and $controller.create $controller.hostNetwork $node.create $node.hostNetwork (not $node.pools) -}}
{{- $at := ternary (printf "node.pools[%s]" $node.pool) "node" (not (empty $node.pool)) -}}
{{- $taken := include "csi-sidecars.hostPorts" (dict "root" . "place" "node") | fromJsonArray -}}
{{- $health := include "csi-sidecars.healthPort" (list . "controller") -}}
{{- range $port := include "csi-sidecars.hostPorts" (dict "root" . "place" "controller") | fromJsonArray -}}
{{- if has $port $taken -}}
{{- $way := "give one of the two containers another port" -}}
{{- if eq $port $health -}}
{{- $way = "set controller.livenessprobe.port to another one" -}}
{{- end -}}
{{- fail (printf "controller.hostNetwork and %s.hostNetwork: both kinds of pods would want port %s of the node, and no controller could be scheduled where a node's pod is; %s" $at $port $way) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A container of one sidecar that was left beside the ones of this chart, at the same socket: dict root,
     place, at (how messages call the place). Two attachers in one pod have one host name, by which leases
     tell their holders. */}}
{{- define "csi-sidecars.leftover" -}}
{{- $chosen := include "csi-sidecars.chosen" (dict "root" .root "place" .place) | fromJsonArray -}}
{{- $programs := dict "node-driver-registrar" "registrar" "csi-node-driver-registrar" "registrar" "driver-registrar" "registrar"
    "livenessprobe" "livenessprobe" "liveness-probe" "livenessprobe"
    "csi-external-health-monitor-controller" "healthMonitor" "external-health-monitor-controller" "healthMonitor" -}}
{{- range $name := list "attacher" "provisioner" "resizer" "snapshotter" -}}
{{- $_ := set $programs (printf "csi-%s" $name) $name -}}
{{- $_ := set $programs (printf "external-%s" $name) $name -}}
{{- end -}}
{{- range $name := list "csi-sidecars" "csi-node-sidecars" -}}
{{- $_ := set $programs $name $name -}}
{{- end -}}
{{- $it := get .root.Values .place -}}
{{- range $list := list "initContainers" "extraContainers" -}}
{{- range $container := get $it $list -}}
{{- $names := list $container.name (include "csi-sidecars.image.name" $container.image) -}}
{{- with $container.command -}}
{{- $names = append $names (base (first .)) -}}
{{- end -}}
{{- $mounts := list -}}
{{- range $container.volumeMounts -}}
{{- $mounts = append $mounts .name -}}
{{- end -}}
{{- range $name := $names -}}
{{- $program := get $programs $name -}}
{{- $all := hasPrefix "csi-" $program -}}
{{- if and (has (include "csi-sidecars.named" (list $.root "socket-dir")) $mounts) (or (has $program $chosen) (and $all $chosen)) -}}
{{- if $all -}}
{{- fail (printf "%s.%s: %q runs %s beside the sidecars of this chart, in the same pod and for the same driver: both would do the same work; remove it, and let sidecars=together bring it" $.at $list $container.name $name) -}}
{{- else if include "csi-sidecars.together" $.root -}}
{{- fail (printf "%s.%s: %q runs %s beside the process that does its work already (sidecars=together), in the same pod and for the same driver: one of them would hold the lease and the other wait for ever; remove it, or set %s.enabled=false" $.at $list $container.name $name $program) -}}
{{- else -}}
{{- fail (printf "%s.%s: %q runs %s, which %s.enabled brings already, in the same pod and for the same driver: both would work at once, since leases tell their holders by the host name; remove it, or set %s.enabled=false" $.at $list $container.name $name $program $program) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
