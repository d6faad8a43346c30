package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pauseImage holds the namespaces of a pod; whoever imports images provides it.
const pauseImage = "registry.k8s.io/pause:3.10.2"

// containerdConfig is in the format that containerd 1.6 reads and 2.x converts.
func containerdConfig(l layout, runtime, socket string) string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
[grpc]
address = %q
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %q
stream_server_address = "127.0.0.1"
disable_apparmor = true
# Without CAP_SYS_RESOURCE a container may not be made less likely to be killed than we are.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = %q
conf_dir = %q
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = %q
SystemdCgroup = false
`, l.at("containerd"), l.at("run", "containerd"), socket, pauseImage,
		filepath.Join(runtime, "cni"), l.at("cni"), filepath.Join(runtime, "bin", "runc"))
}

// networkConfig gives each pod a pair of interfaces to the node. There is nothing outside to reach.
const networkConfig = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    }
  ]
}
`

// kubeletConfig is that of a kubelet on a machine that gives it neither cgroups of its own nor more privileges.
func kubeletConfig(l layout, node, socket, gates string) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupsPerQOS: false
cgroupRoot: /%s
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
evictionHard: {}
imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
maxPods: 250
clusterDNS: [10.0.0.10]
clusterDomain: cluster.local
resolvConf: %s
podLogsDir: %s
volumePluginDir: %s
# Attaching waits for what only a status update carries, expansion for the next sync of the pod.
nodeStatusUpdateFrequency: 1s
syncFrequency: 10s
featureGates: {%s}
`, firstServiceIP, socket, cgroupName(os.Getenv(envEnclosure)), l.at("resolv.conf"), l.podLogs(node), l.at("tmp", node+"-flexvolume"), gates)
}

// gatesYAML is --feature-gates as it stands in a configuration file.
func (o options) gatesYAML() string {
	return strings.ReplaceAll(o.FeatureGates, "=", ": ")
}
