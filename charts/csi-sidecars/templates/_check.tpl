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
{{- range $name := $it.tokenFor -}}
{{- if not (has $name $names) -}}
{{- fail (printf "%s.tokenFor: there is no container %q; our own sidecars have a token where they need one, and there are: %s" $at $name (join ", " $names)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.livenessprobe.enabled (not .Values.livenessprobe.port) -}}
{{- fail "livenessprobe.port is required: kubelet asks the livenessprobe there; switch it off with livenessprobe.enabled=false" -}}
{{- end -}}
{{- $ports := dict -}}
{{- range $name := list "attacher" "provisioner" "resizer" "snapshotter" "registrar" "livenessprobe" -}}
{{- $sidecar := index $.Values $name -}}
{{- if and $sidecar.enabled $sidecar.port -}}
{{- $port := toString (int $sidecar.port) -}}
{{- if hasKey $ports $port -}}
{{- fail (printf "%s.port and %s.port are both %s: they may share a pod" (get $ports $port) $name $port) -}}
{{- end -}}
{{- $_ := set $ports $port $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
