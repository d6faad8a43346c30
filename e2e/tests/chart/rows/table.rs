//! The rows.

use super::Expect::{Absent, Has, Is, Lacks};
use super::{Row, row};

const MINIMAL: &str = "ci/minimal-values.yaml";
const BESIDE: &str = "ci/beside-values.yaml";
const LIBRARY: &str = "ci/library-values.yaml";
const EVERYTHING: &str = "ci/everything-values.yaml";
const ONE_IMAGE: &str = "ci/one-image-values.yaml";
const ON_NODES: &str = "ci/node-deployment-values.yaml";
const REGISTRAR_ALONE: &str = "ci/registrar-values.yaml";
const POOLS: &str = "ci/pools-values.yaml";
const OPENSHIFT: &str = "ci/openshift-values.yaml";
const HOST_NETWORK: &str = "ci/host-network-values.yaml";
const IPV6: &str = "ci/ipv6-values.yaml";

const CONTROLLER: &str = "Deployment/test-csi-sidecars-controller";
const NODE: &str = "DaemonSet/test-csi-sidecars-node";
const GENERAL: &str = "DaemonSet/test-csi-sidecars-node-general";
const FAST: &str = "DaemonSet/test-csi-sidecars-node-fast";
const SET: &str = "StatefulSet/everything-controller";
const EVERY_NODE: &str = "DaemonSet/everything-node";

const NAMED: &[&str] = &[
    "secrets.access=named",
    "secrets.names[0].name=key",
    "secrets.names[0].namespace=storage",
];
const NAMED_AND_RESIZED: &[&str] = &[
    "secrets.access=named",
    "secrets.names[0].name=key",
    "secrets.names[0].namespace=storage",
    "resizer.enabled=true",
];
/// The sidecars of a control plane that is hosted elsewhere.
const HOSTED: &[&str] = &[
    "controller.extraVolumes[0].name=kubeconfig",
    "controller.extraVolumes[0].secret.secretName=hosted",
    "attacher.volumeMounts[0].name=kubeconfig",
    "attacher.volumeMounts[0].mountPath=/etc/hosted",
    "attacher.volumeMounts[0].readOnly=true",
    "attacher.extraArgs={--kubeconfig=/etc/hosted/kubeconfig}",
];
const CLOSED: &[&str] = &["networkPolicy.enabled=true"];

macro_rules! under {
    ($base:literal, $rest:literal) => {
        concat!("/spec/template/spec/containers/[", $base, "]", $rest)
    };
}

#[rustfmt::skip]
pub(super) const TABLE: &[Row] = &[
    // A DaemonSet for each kind of nodes.
    row(POOLS, &[], NODE, "", Absent),
    row(POOLS, &[], GENERAL, "/spec/selector/matchLabels/csi-sidecars~1pool", Is(r#""general""#)),
    row(POOLS, &[], FAST, "/spec/selector/matchLabels/csi-sidecars~1pool", Is(r#""fast""#)),
    row(POOLS, &[], GENERAL, "/spec/template/spec/nodeSelector", Is(r#"{"kubernetes.io/os": "linux", "example.com/pool": "general"}"#)),
    row(POOLS, &[], FAST, "/spec/template/spec/nodeSelector", Is(r#"{"kubernetes.io/os": "linux", "example.com/pool": "fast"}"#)),
    row(POOLS, &[], GENERAL, "/spec/template/spec/tolerations", Is(r#"[{"operator": "Exists"}]"#)),
    row(POOLS, &[], FAST, "/spec/template/spec/tolerations", Is(r#"[{"key": "example.com/fast", "operator": "Exists"}]"#)),
    row(POOLS, &["node.pools[1].driver.securityContext=null"], FAST, under!("driver", "/securityContext/privileged"), Is("true")),
    row(POOLS, &[], GENERAL, "/spec/template/spec/hostNetwork", Is("true")),
    row(POOLS, &[], FAST, "/spec/template/spec/hostNetwork", Absent),
    row(POOLS, &[], GENERAL, under!("csi-node-driver-registrar", "/args"), Has("--kubelet-registration-path=/var/lib/kubelet/plugins/pools.example.com/csi.sock")),
    row(POOLS, &[], FAST, under!("csi-node-driver-registrar", "/args"), Has("--kubelet-registration-path=/data/kubelet/plugins/pools.example.com/csi.sock")),
    row(POOLS, &[], FAST, "/spec/template/spec/volumes/[registration-dir]/hostPath/path", Is(r#""/data/kubelet/plugins_registry""#)),
    row(POOLS, &[], FAST, under!("driver", "/volumeMounts/[kubelet-dir]"), Is(r#"{"name": "kubelet-dir", "mountPath": "/data/kubelet", "mountPropagation": "HostToContainer"}"#)),
    row(POOLS, &[], GENERAL, under!("driver", "/image"), Is(r#""registry.example.com/driver:v1""#)),
    row(POOLS, &[], FAST, under!("driver", "/image"), Is(r#""registry.example.com/driver:v1-fast""#)),
    row(POOLS, &[], GENERAL, under!("driver", "/args"), Is(r#"["--endpoint=$(CSI_ENDPOINT)"]"#)),
    row(POOLS, &[], FAST, under!("driver", "/args"), Has("--queues=8")),
    row(POOLS, &[], GENERAL, under!("driver", "/securityContext/privileged"), Is("true")),
    row(POOLS, &[], FAST, under!("driver", "/securityContext/privileged"), Is("false")),
    row(POOLS, &[], GENERAL, under!("csi-node-driver-registrar", "/resources/limits"), Is(r#"{"memory": "32Mi"}"#)),
    row(POOLS, &[], FAST, under!("csi-node-driver-registrar", "/resources/limits"), Is(r#"{"memory": "64Mi"}"#)),
    row(POOLS, &[], FAST, under!("livenessprobe", "/resources/limits"), Is(r#"{"memory": "32Mi"}"#)),
    row(POOLS, &["node.pools[0].affinity.nodeAffinity.x=1"], GENERAL, "/spec/template/spec/affinity", Is(r#"{"nodeAffinity": {"x": 1}}"#)),
    // Platforms.
    row(OPENSHIFT, &[], CONTROLLER, "/spec/template/spec/securityContext", Is(r#"{"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}"#)),
    row(OPENSHIFT, &[], CONTROLLER, under!("csi-attacher", "/securityContext/runAsUser"), Absent),
    row(OPENSHIFT, &[], CONTROLLER, under!("csi-attacher", "/securityContext/runAsGroup"), Absent),
    row(OPENSHIFT, &[], CONTROLLER, under!("livenessprobe", "/securityContext/runAsNonRoot"), Is("true")),
    row(OPENSHIFT, &["controller.user=1000"], CONTROLLER, under!("csi-attacher", "/securityContext/runAsUser"), Is("1000")),
    row(OPENSHIFT, &["controller.user=1000"], CONTROLLER, "/spec/template/spec/securityContext", Is(r#"{"runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}}"#)),
    row(OPENSHIFT, &[], NODE, "/spec/template/spec/securityContext/seLinuxOptions", Is(r#"{"type": "spc_t"}"#)),
    row(OPENSHIFT, &[], NODE, under!("livenessprobe", "/securityContext/runAsUser"), Is("0")),
    row(OPENSHIFT, &[], "ClusterRole/storage:test-csi-sidecars-node-driver", "/rules", Is(r#"[{"apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"], "resourceNames": ["privileged"], "verbs": ["use"]}]"#)),
    row("ci/k0s-values.yaml", &[], NODE, under!("csi-node-driver-registrar", "/args"), Has("--kubelet-registration-path=/var/lib/k0s/kubelet/plugins/k0s.example.com/csi.sock")),
    row("ci/k0s-values.yaml", &[], NODE, "/spec/template/spec/volumes/[registration-dir]/hostPath/path", Is(r#""/var/lib/k0s/kubelet/plugins_registry""#)),
    row("ci/microk8s-values.yaml", &[], NODE, under!("csi-node-driver-registrar", "/args"), Has("--kubelet-registration-path=/var/snap/microk8s/common/var/lib/kubelet/plugins/microk8s.example.com/csi.sock")),
    row("ci/microk8s-values.yaml", &[], NODE, under!("driver", "/volumeMounts/[kubelet-dir]/mountPath"), Is(r#""/var/snap/microk8s/common/var/lib/kubelet""#)),
    row("ci/rke2-values.yaml", &[], NODE, under!("csi-node-driver-registrar", "/args"), Has("--kubelet-registration-path=/var/lib/kubelet/plugins/rke2.example.com/csi.sock")),
    row(HOST_NETWORK, &[], CONTROLLER, under!("csi-attacher", "/args"), Has("--http-endpoint=127.0.0.1:29701")),
    row(HOST_NETWORK, &[], CONTROLLER, under!("csi-attacher", "/livenessProbe/httpGet/host"), Is(r#""127.0.0.1""#)),
    row(HOST_NETWORK, &[], NODE, under!("driver", "/livenessProbe/httpGet/host"), Is(r#""127.0.0.1""#)),
    row(HOST_NETWORK, &[], NODE, under!("driver", "/livenessProbe/httpGet/port"), Is("29704")),
    row(IPV6, &[], CONTROLLER, under!("csi-attacher", "/args"), Has("--http-endpoint=[::]:8081")),
    row(IPV6, &[], CONTROLLER, under!("csi-attacher", "/livenessProbe/httpGet/host"), Absent),
    row(IPV6, &[], NODE, under!("csi-node-driver-registrar", "/args"), Has("--http-endpoint=[::1]:9809")),
    row(IPV6, &[], NODE, under!("csi-node-driver-registrar", "/readinessProbe/httpGet/host"), Is(r#""::1""#)),
    // Where the socket is, and who serves it.
    row(MINIMAL, &[], CONTROLLER, "/spec/template/spec/volumes/[socket-dir]/emptyDir", Is("{}")),
    row(MINIMAL, &[], CONTROLLER, under!("driver", "/image"), Is(r#""registry.example.com/driver:v1""#)),
    row(MINIMAL, &[], CONTROLLER, under!("driver", "/env/[CSI_ENDPOINT]/value"), Is(r#""unix:///csi/csi.sock""#)),
    row(MINIMAL, &["socket.directory=/run/csi", "socket.file=socket"], CONTROLLER, under!("driver", "/env/[CSI_ENDPOINT]/value"), Is(r#""unix:///run/csi/socket""#)),
    row(MINIMAL, &["socket.directory=/run/csi", "socket.file=socket"], CONTROLLER, under!("csi-attacher", "/args"), Has("--csi-address=/run/csi/socket")),
    row(MINIMAL, &["socket.directory=/run/csi", "socket.file=socket"], CONTROLLER, under!("csi-attacher", "/volumeMounts/[socket-dir]/mountPath"), Is(r#""/run/csi""#)),
    row(MINIMAL, &[], CONTROLLER, under!("driver", "/livenessProbe/httpGet/port"), Is("9808")),
    row(MINIMAL, &["livenessprobe.enabled=false"], CONTROLLER, under!("driver", "/livenessProbe"), Absent),
    row(MINIMAL, &["livenessprobe.enabled=false"], CONTROLLER, under!("livenessprobe", ""), Absent),
    row(BESIDE, &[], CONTROLLER, "/spec/template/spec/volumes/[socket-dir]/hostPath/path", Is(r#""/var/lib/kubelet/plugins/beside.example.com""#)),
    row(BESIDE, &[], CONTROLLER, under!("driver", ""), Absent),
    row(MINIMAL, &[], NODE, under!("csi-node-driver-registrar", "/args"), Has("--kubelet-registration-path=/var/lib/kubelet/plugins/minimal.example.com/csi.sock")),
    row(MINIMAL, &["node.socketDirectory=/var/lib/kubelet/plugins/mine"], NODE, under!("csi-node-driver-registrar", "/args"), Has("--kubelet-registration-path=/var/lib/kubelet/plugins/mine/csi.sock")),
    row(EVERYTHING, &[], EVERY_NODE, "/spec/template/spec/volumes/[registration-dir]/hostPath/path", Is(r#""/data/kubelet/plugins_registry""#)),
    row(EVERYTHING, &[], EVERY_NODE, under!("driver", "/volumeMounts/[kubelet-dir]"), Is(r#"{"name": "kubelet-dir", "mountPath": "/data/kubelet", "mountPropagation": "Bidirectional"}"#)),
    row(EVERYTHING, &[], SET, under!("driver", "/args"), Has("--name=every.example.com")),
    row(EVERYTHING, &[], SET, under!("driver", "/env/[MODE]/value"), Is(r#""fast""#)),
    row(EVERYTHING, &[], EVERY_NODE, under!("driver", "/securityContext/privileged"), Is("true")),
    row(REGISTRAR_ALONE, &[], NODE, under!("driver", "/securityContext/privileged"), Is("false")),
    row(REGISTRAR_ALONE, &[], NODE, under!("driver", "/securityContext/runAsUser"), Is("1000")),
    row(REGISTRAR_ALONE, &[], CONTROLLER, "", Absent),
    row(LIBRARY, &[], CONTROLLER, "", Absent),
    row(LIBRARY, &[], NODE, "", Absent),
    row(LIBRARY, &[], "ClusterRoleBinding/storage:test-csi-sidecars-attacher", "/subjects", Is(r#"[{"kind": "ServiceAccount", "name": "library-driver", "namespace": "storage"}]"#)),
    // Which sidecars.
    row(MINIMAL, &[], CONTROLLER, under!("csi-resizer", ""), Absent),
    row(MINIMAL, &["resizer.enabled=true"], CONTROLLER, under!("csi-resizer", "/image"), Is(r#""registry.example.com/storage/csi-resizer:0.1.0""#)),
    row(MINIMAL, &["attacher.enabled=false"], CONTROLLER, under!("csi-attacher", ""), Absent),
    row(MINIMAL, &["attacher.enabled=false"], "ClusterRole/storage:test-csi-sidecars-attacher", "", Absent),
    row(MINIMAL, &["rbac.create=false"], "ClusterRole/storage:test-csi-sidecars-attacher", "", Absent),
    // Images.
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/image"), Is(r#""registry.example.com:5000/mirror/csi-attacher:v9""#)),
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/imagePullPolicy"), Is(r#""Always""#)),
    row(EVERYTHING, &[], SET, "/spec/template/spec/imagePullSecrets", Is(r#"[{"name": "mirror"}]"#)),
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/command"), Absent),
    row(ONE_IMAGE, &[], CONTROLLER, under!("csi-attacher", "/image"), Is(r#""registry.example.com/storage/csi-sidecars:0.1.0""#)),
    row(ONE_IMAGE, &[], CONTROLLER, under!("csi-attacher", "/command"), Is(r#"["/csi-attacher"]"#)),
    row(ONE_IMAGE, &[], CONTROLLER, under!("livenessprobe", "/command"), Is(r#"["/livenessprobe"]"#)),
    row(ONE_IMAGE, &[], CONTROLLER, under!("csi-resizer", "/command"), Absent),
    row(ONE_IMAGE, &[], CONTROLLER, under!("csi-resizer", "/image"), Is(r#""registry.example.com/upstream/csi-resizer@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef""#)),
    // Replicas and leaders.
    row(MINIMAL, &[], CONTROLLER, "/spec/replicas", Is("1")),
    row(MINIMAL, &["controller.replicas=2"], CONTROLLER, "/spec/replicas", Is("2")),
    row(MINIMAL, &[], CONTROLLER, "/spec/strategy", Absent),
    row(MINIMAL, &[], CONTROLLER, under!("csi-attacher", "/args"), Has("--leader-election=true")),
    row(MINIMAL, &[], CONTROLLER, under!("csi-attacher", "/livenessProbe/httpGet/path"), Is(r#""/healthz/leader-election""#)),
    row(ONE_IMAGE, &[], CONTROLLER, "/spec/strategy/type", Is(r#""Recreate""#)),
    row(ONE_IMAGE, &[], CONTROLLER, under!("csi-attacher", "/args"), Lacks("--leader-election")),
    row(ONE_IMAGE, &[], CONTROLLER, under!("csi-attacher", "/livenessProbe"), Absent),
    row(ONE_IMAGE, &[], "Role/test-csi-sidecars-attacher", "", Absent),
    row(EVERYTHING, &[], SET, "/spec/replicas", Is("3")),
    row(EVERYTHING, &[], SET, "/spec/serviceName", Is(r#""everything-controller""#)),
    row(EVERYTHING, &[], "Service/everything-controller", "/spec/clusterIP", Is(r#""None""#)),
    row(EVERYTHING, &[], SET, under!("csi-provisioner", "/args"), Has("--leader-election-lease-duration=30s")),
    row(EVERYTHING, &[], "PodDisruptionBudget/everything-controller", "/spec/maxUnavailable", Is("1")),
    row(EVERYTHING, &["controller.podDisruptionBudget.minAvailable=50%"], "PodDisruptionBudget/everything-controller", "/spec/minAvailable", Is(r#""50%""#)),
    row(EVERYTHING, &["controller.podDisruptionBudget.minAvailable=50%"], "PodDisruptionBudget/everything-controller", "/spec/maxUnavailable", Absent),
    row(MINIMAL, &[], "PodDisruptionBudget/test-csi-sidecars-controller", "", Absent),
    // Where pods run.
    row(EVERYTHING, &[], SET, "/spec/template/spec/topologySpreadConstraints/0/maxSkew", Is("1")),
    row(EVERYTHING, &[], SET, "/spec/template/spec/nodeSelector", Is(r#"{"kubernetes.io/os": "linux"}"#)),
    row(EVERYTHING, &[], SET, "/spec/template/spec/tolerations/0/operator", Is(r#""Exists""#)),
    row(EVERYTHING, &[], SET, "/spec/template/metadata/labels/tier", Is(r#""control""#)),
    row(EVERYTHING, &[], SET, "/metadata/labels/team", Is(r#""storage""#)),
    row(EVERYTHING, &[], EVERY_NODE, "/spec/template/spec/dnsPolicy", Is(r#""ClusterFirstWithHostNet""#)),
    row(EVERYTHING, &[], EVERY_NODE, "/spec/updateStrategy/rollingUpdate/maxUnavailable", Is(r#""10%""#)),
    row(MINIMAL, &[], CONTROLLER, "/spec/template/spec/priorityClassName", Is(r#""system-cluster-critical""#)),
    row(MINIMAL, &[], NODE, "/spec/template/spec/priorityClassName", Is(r#""system-node-critical""#)),
    row(MINIMAL, &[], NODE, "/spec/template/spec/tolerations", Is(r#"[{"operator": "Exists"}]"#)),
    row(MINIMAL, &["controller.priorityClassName="], CONTROLLER, "/spec/template/spec/priorityClassName", Absent),
    // Pods as a driver's own chart has them.
    row(MINIMAL, &["controller.schedulerName=mine"], CONTROLLER, "/spec/template/spec/schedulerName", Is(r#""mine""#)),
    row(MINIMAL, &["node.schedulerName=mine"], NODE, "/spec/template/spec/schedulerName", Is(r#""mine""#)),
    row(MINIMAL, &["controller.dnsPolicy=None", "controller.dnsConfig.nameservers={192.0.2.1}"], CONTROLLER, "/spec/template/spec/dnsPolicy", Is(r#""None""#)),
    row(MINIMAL, &["controller.dnsPolicy=None", "controller.dnsConfig.nameservers={192.0.2.1}"], CONTROLLER, "/spec/template/spec/dnsConfig", Is(r#"{"nameservers": ["192.0.2.1"]}"#)),
    row(MINIMAL, &[], CONTROLLER, "/spec/template/spec/dnsPolicy", Absent),
    row(MINIMAL, &["node.hostNetwork=true"], NODE, "/spec/template/spec/dnsPolicy", Is(r#""ClusterFirstWithHostNet""#)),
    row(MINIMAL, &["node.hostNetwork=true", "node.dnsPolicy=Default"], NODE, "/spec/template/spec/dnsPolicy", Is(r#""Default""#)),
    row(MINIMAL, &["node.hostAliases[0].ip=192.0.2.1", "node.hostAliases[0].hostnames={storage}"], NODE, "/spec/template/spec/hostAliases", Is(r#"[{"ip": "192.0.2.1", "hostnames": ["storage"]}]"#)),
    row(MINIMAL, &["node.hostPID=true"], NODE, "/spec/template/spec/hostPID", Is("true")),
    row(MINIMAL, &[], NODE, "/spec/template/spec/hostPID", Absent),
    // A driver's probe may need longer in the controller than on nodes.
    row(MINIMAL, &["controller.livenessprobe.probeTimeout=60s"], CONTROLLER, under!("livenessprobe", "/args"), Has("--probe-timeout=60s")),
    row(MINIMAL, &["controller.livenessprobe.probeTimeout=60s"], NODE, under!("livenessprobe", "/args"), Lacks("--probe-timeout")),
    row(MINIMAL, &["livenessprobe.probeTimeout=5s", "node.livenessprobe.probeTimeout=3s"], CONTROLLER, under!("livenessprobe", "/args"), Has("--probe-timeout=5s")),
    row(MINIMAL, &["livenessprobe.probeTimeout=5s", "node.livenessprobe.probeTimeout=3s"], NODE, under!("livenessprobe", "/args"), Has("--probe-timeout=3s")),
    row(MINIMAL, &["node.livenessprobe.resources.limits.memory=64Mi"], NODE, under!("livenessprobe", "/resources/limits"), Is(r#"{"memory": "64Mi"}"#)),
    row(MINIMAL, &["node.livenessprobe.resources.limits.memory=64Mi"], NODE, under!("livenessprobe", "/resources/requests"), Is(r#"{"cpu": "5m", "memory": "8Mi"}"#)),
    row(POOLS, &["node.pools[1].livenessprobe.probeTimeout=4s"], FAST, under!("livenessprobe", "/args"), Has("--probe-timeout=4s")),
    row(POOLS, &["node.pools[1].livenessprobe.probeTimeout=4s"], GENERAL, under!("livenessprobe", "/args"), Lacks("--probe-timeout")),
    row(MINIMAL, &["node.hostIPC=true"], NODE, "/spec/template/spec/hostIPC", Is("true")),
    row(MINIMAL, &[], NODE, "/spec/template/spec/hostIPC", Absent),
    row(MINIMAL, &["socket.emptyDir.medium=Memory"], CONTROLLER, "/spec/template/spec/volumes/[socket-dir]/emptyDir", Is(r#"{"medium": "Memory"}"#)),
    row(MINIMAL, &[], CONTROLLER, "/spec/template/spec/volumes/[socket-dir]/emptyDir", Is("{}")),
    row(MINIMAL, &["controller.annotations.note=text"], CONTROLLER, "/metadata/annotations", Is(r#"{"note": "text"}"#)),
    row(MINIMAL, &["controller.annotations.note=text"], CONTROLLER, "/spec/template/metadata/annotations", Absent),
    row(MINIMAL, &["node.annotations.note=text"], NODE, "/metadata/annotations", Is(r#"{"note": "text"}"#)),
    row(MINIMAL, &["controller.revisionHistoryLimit=0"], CONTROLLER, "/spec/revisionHistoryLimit", Is("0")),
    row(MINIMAL, &["node.revisionHistoryLimit=2"], NODE, "/spec/revisionHistoryLimit", Is("2")),
    row(MINIMAL, &[], CONTROLLER, "/spec/revisionHistoryLimit", Absent),
    // Replicas on different nodes.
    row(MINIMAL, &[], CONTROLLER, "/spec/template/spec/affinity", Absent),
    row(MINIMAL, &["controller.replicas=2"], CONTROLLER, "/spec/template/spec/affinity/podAntiAffinity", Is(r#"{"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "csi-sidecars", "app.kubernetes.io/instance": "test", "app.kubernetes.io/component": "controller"}}}}]}"#)),
    row(MINIMAL, &["controller.replicas=2", "controller.antiAffinity=required"], CONTROLLER, "/spec/template/spec/affinity/podAntiAffinity", Is(r#"{"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "csi-sidecars", "app.kubernetes.io/instance": "test", "app.kubernetes.io/component": "controller"}}}]}"#)),
    row(MINIMAL, &["controller.replicas=2", "controller.antiAffinity=required"], CONTROLLER, "/spec/strategy", Is(r#"{"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}"#)),
    row(MINIMAL, &["controller.replicas=2"], CONTROLLER, "/spec/strategy", Absent),
    row(MINIMAL, &["storageClasses[0].name=on"], "StorageClass/on", "/metadata/name", Is(r#""on""#)),
    row(MINIMAL, &["controller.replicas=2", "controller.antiAffinity="], CONTROLLER, "/spec/template/spec/affinity", Absent),
    row(MINIMAL, &["controller.replicas=2", "controller.affinity.nodeAffinity.x=1"], CONTROLLER, "/spec/template/spec/affinity", Is(r#"{"nodeAffinity": {"x": 1}}"#)),
    // One sidecar differs from the others.
    row(MINIMAL, &["attacher.log.level=5", "attacher.log.format=json"], CONTROLLER, under!("csi-attacher", "/args"), Has("--v=5")),
    row(MINIMAL, &["attacher.log.level=5", "attacher.log.format=json"], CONTROLLER, under!("csi-attacher", "/args"), Has("--logging-format=json")),
    row(MINIMAL, &["attacher.log.level=5", "attacher.log.format=json"], CONTROLLER, under!("csi-provisioner", "/args"), Has("--v=2")),
    row(MINIMAL, &["attacher.log.level=0"], CONTROLLER, under!("csi-attacher", "/args"), Has("--v=0")),
    row(MINIMAL, &["registrar.log.level=0"], NODE, under!("csi-node-driver-registrar", "/args"), Has("--v=0")),
    row(MINIMAL, &["log.format=json", "livenessprobe.log.format=text"], NODE, under!("livenessprobe", "/args"), Lacks("--logging-format")),
    row(MINIMAL, &["kubeApi.qps=20", "attacher.kubeApi.qps=5"], CONTROLLER, under!("csi-attacher", "/args"), Has("--kube-api-qps=5")),
    row(MINIMAL, &["kubeApi.qps=20", "attacher.kubeApi.qps=5"], CONTROLLER, under!("csi-provisioner", "/args"), Has("--kube-api-qps=20")),
    row(MINIMAL, &["resizer.enabled=true", "resizer.kubeApi.burst=7"], CONTROLLER, under!("csi-resizer", "/args"), Has("--kube-api-burst=7")),
    row(MINIMAL, &["attacher.kubeApi.burst=7"], CONTROLLER, under!("csi-provisioner", "/args"), Lacks("--kube-api")),
    row(MINIMAL, &["attacher.readinessProbe.httpGet.path=/healthz/leader-election", "attacher.readinessProbe.httpGet.port=8081"], CONTROLLER, under!("csi-attacher", "/readinessProbe"), Is(r#"{"httpGet": {"path": "/healthz/leader-election", "port": 8081}}"#)),
    row(MINIMAL, &["registrar.readinessProbe.periodSeconds=60"], NODE, under!("csi-node-driver-registrar", "/readinessProbe"), Is(r#"{"httpGet": {"path": "/registration", "port": "registrar"}, "periodSeconds": 60}"#)),
    row(MINIMAL, &["attacher.envFrom[0].configMapRef.name=proxy"], CONTROLLER, under!("csi-attacher", "/envFrom"), Is(r#"[{"configMapRef": {"name": "proxy"}}]"#)),
    row(MINIMAL, HOSTED, CONTROLLER, under!("csi-attacher", "/volumeMounts/[kubeconfig]"), Is(r#"{"name": "kubeconfig", "mountPath": "/etc/hosted", "readOnly": true}"#)),
    row(MINIMAL, HOSTED, CONTROLLER, under!("csi-attacher", "/volumeMounts/[socket-dir]/readOnly"), Is("true")),
    row(MINIMAL, HOSTED, CONTROLLER, under!("csi-provisioner", "/volumeMounts/[kubeconfig]"), Absent),
    row(MINIMAL, HOSTED, CONTROLLER, "/spec/template/spec/volumes/[kubeconfig]/secret/secretName", Is(r#""hosted""#)),
    row(MINIMAL, &["node.extraVolumes[0].name=ca", "registrar.volumeMounts[0].name=ca", "registrar.volumeMounts[0].mountPath=/ca"], NODE, under!("csi-node-driver-registrar", "/volumeMounts/[registration-dir]/mountPath"), Is(r#""/registration""#)),
    row(MINIMAL, &["node.extraVolumes[0].name=ca", "registrar.volumeMounts[0].name=ca", "registrar.volumeMounts[0].mountPath=/ca"], NODE, under!("csi-node-driver-registrar", "/volumeMounts/[ca]/mountPath"), Is(r#""/ca""#)),
    // Where images are.
    row(MINIMAL, &["global.imageRegistry=mirror.example.com/csi"], CONTROLLER, under!("csi-attacher", "/image"), Is(r#""mirror.example.com/csi/csi-attacher:0.1.0""#)),
    row(MINIMAL, &["image.digests.csi-attacher=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"], CONTROLLER, under!("csi-attacher", "/image"), Is(r#""registry.example.com/storage/csi-attacher:0.1.0@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef""#)),
    // Leases elsewhere.
    row(MINIMAL, &["controller.leaderElection.namespace=leases"], CONTROLLER, under!("csi-attacher", "/args"), Has("--leader-election-namespace=leases")),
    row(MINIMAL, &["controller.leaderElection.namespace=leases"], "Role/storage:test-csi-sidecars-attacher-leases", "/metadata/namespace", Is(r#""leases""#)),
    row(MINIMAL, &["controller.leaderElection.namespace=leases"], "Role/storage:test-csi-sidecars-provisioner-leases", "/rules/0/resources", Is(r#"["leases"]"#)),
    row(MINIMAL, &["controller.leaderElection.namespace=leases"], "RoleBinding/storage:test-csi-sidecars-provisioner-leases", "/subjects/0/namespace", Is(r#""storage""#)),
    row(MINIMAL, &["controller.leaderElection.namespace=leases"], "Role/test-csi-sidecars-attacher", "", Absent),
    row(MINIMAL, &["controller.leaderElection.namespace=leases", "features.capacity=true"], "Role/test-csi-sidecars-provisioner", "/rules/0/resources", Is(r#"["csistoragecapacities"]"#)),
    row(MINIMAL, &["controller.leaderElection.namespace=storage"], "Role/test-csi-sidecars-attacher", "/rules/0/resources", Is(r#"["leases"]"#)),
    row(ON_NODES, &["controller.leaderElection.namespace=leases"], "Role/test-csi-sidecars-provisioner", "/rules/0/resources", Is(r#"["leases"]"#)),
    // What the driver's own containers may do.
    row(MINIMAL, &["controller.serviceAccount.rules[0].apiGroups={example.com}", "controller.serviceAccount.rules[0].resources={pools}", "controller.serviceAccount.rules[0].verbs={get,list}"],
        "ClusterRole/storage:test-csi-sidecars-controller-driver", "/rules", Is(r#"[{"apiGroups": ["example.com"], "resources": ["pools"], "verbs": ["get", "list"]}]"#)),
    row(MINIMAL, &["node.serviceAccount.rules[0].verbs={get}"], "ClusterRoleBinding/storage:test-csi-sidecars-node-driver", "/subjects", Is(r#"[{"kind": "ServiceAccount", "name": "test-csi-sidecars-node", "namespace": "storage"}]"#)),
    row(MINIMAL, &["node.serviceAccount.rules[0].verbs={get}", "rbac.create=false"], "ClusterRole/storage:test-csi-sidecars-node-driver", "", Absent),
    row(MINIMAL, &[], "ClusterRole/storage:test-csi-sidecars-controller-driver", "", Absent),
    // Classes.
    row(MINIMAL, &["csiDriver.create=true", "csiDriver.serviceAccountTokenInSecrets=true", "csiDriver.tokenRequests[0].audience=a"], "CSIDriver/minimal.example.com", "/spec/serviceAccountTokenInSecrets", Is("true")),
    row(MINIMAL, &["csiDriver.create=true", "csiDriver.preventPodSchedulingIfMissing=true"], "CSIDriver/minimal.example.com", "/spec/preventPodSchedulingIfMissing", Is("true")),
    row(MINIMAL, &["csiDriver.create=true", "csiDriver.nodeAllocatableUpdatePeriodSeconds=2592000"], "CSIDriver/minimal.example.com", "/spec/nodeAllocatableUpdatePeriodSeconds", Is("2592000")),
    row(MINIMAL, &["csiDriver.create=true"], "CSIDriver/minimal.example.com", "/spec", Is(r#"{"attachRequired": true, "storageCapacity": false}"#)),
    row(MINIMAL, &["storageClasses[0].name=fast", "storageClasses[0].default=true", "storageClasses[0].parameters.tier=ssd"], "StorageClass/fast", "/metadata/annotations", Is(r#"{"storageclass.kubernetes.io/is-default-class": "true"}"#)),
    row(MINIMAL, &["storageClasses[0].name=fast", "storageClasses[0].default=true", "storageClasses[0].parameters.tier=ssd"], "StorageClass/fast", "/provisioner", Is(r#""minimal.example.com""#)),
    row(MINIMAL, &["storageClasses[0].name=fast", "storageClasses[0].default=true", "storageClasses[0].parameters.tier=ssd"], "StorageClass/fast", "/parameters", Is(r#"{"tier": "ssd"}"#)),
    row(MINIMAL, &["storageClasses[0].name=fast", "storageClasses[0].default=true", "storageClasses[0].parameters.tier=ssd"], "StorageClass/fast", "/default", Absent),
    row(MINIMAL, &["storageClasses[0].name=plain"], "StorageClass/plain", "/metadata/annotations", Absent),
    row(MINIMAL, &["volumeSnapshotClasses[0].name=daily", "volumeSnapshotClasses[0].deletionPolicy=Retain"], "VolumeSnapshotClass/daily", "/driver", Is(r#""minimal.example.com""#)),
    row(MINIMAL, &["volumeSnapshotClasses[0].name=daily", "volumeSnapshotClasses[0].deletionPolicy=Retain"], "VolumeSnapshotClass/daily", "/deletionPolicy", Is(r#""Retain""#)),
    // Users and tokens.
    row(MINIMAL, &[], CONTROLLER, "/spec/template/spec/securityContext/fsGroup", Is("65532")),
    row(MINIMAL, &[], CONTROLLER, under!("csi-attacher", "/securityContext/runAsUser"), Is("65532")),
    row(MINIMAL, &[], NODE, under!("csi-node-driver-registrar", "/securityContext/runAsUser"), Is("0")),
    row(BESIDE, &[], CONTROLLER, under!("csi-attacher", "/securityContext/runAsUser"), Is("0")),
    row(BESIDE, &[], CONTROLLER, "/spec/template/spec/securityContext/fsGroup", Absent),
    row(ONE_IMAGE, &[], CONTROLLER, under!("csi-attacher", "/securityContext/runAsUser"), Is("0")),
    row(MINIMAL, &["attacher.securityContext.runAsUser=7"], CONTROLLER, under!("csi-attacher", "/securityContext/runAsUser"), Is("7")),
    row(MINIMAL, &[], NODE, "/spec/template/spec/automountServiceAccountToken", Is("false")),
    row(ON_NODES, &[], NODE, under!("csi-provisioner", "/volumeMounts/[api-token]/readOnly"), Is("true")),
    row(ON_NODES, &[], NODE, under!("csi-node-driver-registrar", "/volumeMounts/[api-token]"), Absent),
    row(ON_NODES, &[], NODE, under!("driver", "/volumeMounts/[api-token]"), Absent),
    row(MINIMAL, &[], NODE, "/spec/template/spec/volumes/[api-token]", Absent),
    row(MINIMAL, &["node.tokenFor={driver}"], NODE, under!("driver", "/volumeMounts/[api-token]/mountPath"), Is(r#""/var/run/secrets/kubernetes.io/serviceaccount""#)),
    row(MINIMAL, &["node.tokenFor={driver}"], NODE, "/spec/template/spec/volumes/[api-token]/projected/sources/0/serviceAccountToken/path", Is(r#""token""#)),
    row(MINIMAL, &[], CONTROLLER, "/spec/template/spec/volumes/[api-token]/projected/sources/1/configMap/name", Is(r#""kube-root-ca.crt""#)),
    row(EVERYTHING, &[], SET, under!("csi-snapshotter", "/volumeMounts/[api-token]/readOnly"), Is("true")),
    row(EVERYTHING, &["controller.tokenFor={wait}"], SET, "/spec/template/spec/initContainers/[wait]/volumeMounts/[api-token]/readOnly", Is("true")),
    row(EVERYTHING, &[], "ServiceAccount/everything-controller", "/metadata/annotations/example.com~1role", Is(r#""storage""#)),
    row(EVERYTHING, &["controller.serviceAccount.name=mine"], SET, "/spec/template/spec/serviceAccountName", Is(r#""mine""#)),
    row(ONE_IMAGE, &[], "Role/storage:test-csi-sidecars-secrets", "/rules/0/resourceNames", Is(r#"["admin", "user"]"#)),
    // FA-12: Secrets by name are for the accounts whose programs read them.
    row(ONE_IMAGE, &[], "RoleBinding/storage:test-csi-sidecars-secrets", "/subjects", Is(r#"[{"kind": "ServiceAccount", "name": "test-csi-sidecars-controller", "namespace": "storage"}]"#)),
    row(ON_NODES, NAMED, "RoleBinding/storage:test-csi-sidecars-secrets", "/subjects", Is(r#"[{"kind": "ServiceAccount", "name": "test-csi-sidecars-node", "namespace": "storage"}]"#)),
    row(ON_NODES, NAMED_AND_RESIZED, "RoleBinding/storage:test-csi-sidecars-secrets", "/subjects/1/name", Is(r#""test-csi-sidecars-node""#)),
    row(ON_NODES, NAMED_AND_RESIZED, "RoleBinding/storage:test-csi-sidecars-secrets", "/subjects/0/name", Is(r#""test-csi-sidecars-controller""#)),
    row(REGISTRAR_ALONE, NAMED, "RoleBinding/storage:test-csi-sidecars-secrets", "", Absent),
    row(REGISTRAR_ALONE, NAMED, "Role/storage:test-csi-sidecars-secrets", "", Absent),
    // FA-12: who connects to a socket writes nothing into its directory.
    row(MINIMAL, &[], CONTROLLER, under!("csi-attacher", "/volumeMounts/[socket-dir]/readOnly"), Is("true")),
    row(MINIMAL, &[], NODE, under!("csi-node-driver-registrar", "/volumeMounts/[socket-dir]/readOnly"), Is("true")),
    row(MINIMAL, &[], NODE, under!("csi-node-driver-registrar", "/volumeMounts/[registration-dir]/readOnly"), Absent),
    row(MINIMAL, &[], NODE, under!("driver", "/volumeMounts/[socket-dir]/readOnly"), Absent),
    // FA-7: who can reach the ports.
    row(MINIMAL, &[], "NetworkPolicy/test-csi-sidecars-controller", "", Absent),
    row(MINIMAL, CLOSED, "NetworkPolicy/test-csi-sidecars-controller", "/spec/ingress", Is("[]")),
    row(MINIMAL, CLOSED, "NetworkPolicy/test-csi-sidecars-controller", "/spec/policyTypes", Is(r#"["Ingress"]"#)),
    row(MINIMAL, CLOSED, "NetworkPolicy/test-csi-sidecars-node", "/spec/podSelector/matchLabels/app.kubernetes.io~1component", Is(r#""node""#)),
    row(EVERYTHING, &[], "NetworkPolicy/everything-controller", "/spec/ingress/0/from", Is(r#"[{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]"#)),
    row(EVERYTHING, &[], "NetworkPolicy/everything-controller", "/spec/ingress/1", Is(r#"{"ports": [{"port": 9000}]}"#)),
    row(EVERYTHING, &[], "NetworkPolicy/everything-controller", "/spec/egress/0", Is(r#"{"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]}"#)),
    row(EVERYTHING, &[], "NetworkPolicy/everything-controller", "/spec/egress/1", Is(r#"{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}"#)),
    row(EVERYTHING, &[], EVERY_NODE, under!("csi-node-driver-registrar", "/args"), Has("--http-endpoint=127.0.0.1:9809")),
    row(EVERYTHING, &[], EVERY_NODE, under!("csi-node-driver-registrar", "/livenessProbe/httpGet/host"), Is(r#""127.0.0.1""#)),
    row(EVERYTHING, &[], EVERY_NODE, under!("csi-node-driver-registrar", "/readinessProbe/httpGet/host"), Is(r#""127.0.0.1""#)),
    row(EVERYTHING, &[], EVERY_NODE, under!("driver", "/livenessProbe/httpGet/host"), Is(r#""127.0.0.1""#)),
    row(EVERYTHING, &[], EVERY_NODE, under!("livenessprobe", "/args"), Has("--http-endpoint=127.0.0.1:9808")),
    row(EVERYTHING, &[], SET, under!("livenessprobe", "/args"), Has("--http-endpoint=:9808")),
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/livenessProbe/httpGet/host"), Absent),
    row(MINIMAL, &["node.bindAddress=::"], NODE, under!("livenessprobe", "/args"), Has("--http-endpoint=[::]:9808")),
    row(MINIMAL, &["node.bindAddress=::"], NODE, under!("driver", "/livenessProbe/httpGet/host"), Absent),
    // Flags.
    row(MINIMAL, &[], CONTROLLER, under!("csi-attacher", "/args"), Is(r#"["--csi-address=/csi/csi.sock", "--v=2", "--leader-election=true", "--http-endpoint=:8081"]"#)),
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/args"), Has("--timeout=1m30s")),
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/args"), Has("--worker-threads=25")),
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/args"), Has("--feature-gates=ReleaseLeaderElectionOnExit=true")),
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/args"), Has("--resync=5m")),
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/env/[RUST_BACKTRACE]/value"), Is(r#""1""#)),
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/args"), Has("--kube-api-qps=20.5")),
    row(EVERYTHING, &[], SET, under!("csi-attacher", "/args"), Has("--logging-format=json")),
    row(MINIMAL, &["attacher.port=null"], CONTROLLER, under!("csi-attacher", "/args"), Lacks("--http-endpoint")),
    row(MINIMAL, &["attacher.port=null"], CONTROLLER, under!("csi-attacher", "/ports"), Absent),
    row(MINIMAL, &["attacher.port=null"], CONTROLLER, under!("csi-attacher", "/livenessProbe"), Absent),
    row(MINIMAL, &["attacher.livenessProbe.periodSeconds=60"], CONTROLLER, under!("csi-attacher", "/livenessProbe/periodSeconds"), Is("60")),
    row(EVERYTHING, &[], SET, under!("csi-resizer", "/args"), Has("--workers=5")),
    row(ONE_IMAGE, &[], CONTROLLER, under!("csi-resizer", "/args"), Has("--handle-volume-inuse-error=false")),
    row(MINIMAL, &[], CONTROLLER, under!("csi-provisioner", "/args"), Has("--feature-gates=VolumeAttributesClass=false")),
    row(MINIMAL, &["features.topology=false"], CONTROLLER, under!("csi-provisioner", "/args"), Has("--feature-gates=Topology=false,VolumeAttributesClass=false")),
    row(EVERYTHING, &[], SET, under!("csi-provisioner", "/args"), Has("--feature-gates=CrossNamespaceVolumeDataSource=true")),
    row(EVERYTHING, &[], SET, under!("csi-provisioner", "/args"), Has("--volume-name-uuid-length=16")),
    row(EVERYTHING, &[], SET, under!("csi-provisioner", "/args"), Has("--immediate-topology=false")),
    row(EVERYTHING, &[], SET, under!("csi-provisioner", "/args"), Has("--provisioning-protection=journal")),
    // Capacity, and one provisioner for each node.
    row(EVERYTHING, &[], SET, under!("csi-provisioner", "/args"), Has("--capacity-ownerref-level=1")),
    row(MINIMAL, &["features.capacity=true"], CONTROLLER, under!("csi-provisioner", "/args"), Has("--capacity-ownerref-level=2")),
    row(MINIMAL, &["features.capacity=true"], CONTROLLER, under!("csi-provisioner", "/env/[NAMESPACE]/valueFrom/fieldRef/fieldPath"), Is(r#""metadata.namespace""#)),
    row(MINIMAL, &["features.capacity=true", "provisioner.capacity.ownerRefLevel=-1"], CONTROLLER, under!("csi-provisioner", "/args"), Has("--capacity-ownerref-level=-1")),
    row(MINIMAL, &[], CONTROLLER, under!("csi-provisioner", "/env"), Absent),
    row(ON_NODES, &[], NODE, under!("csi-provisioner", "/args"), Has("--node-deployment=true")),
    row(ON_NODES, &[], NODE, under!("csi-provisioner", "/args"), Has("--node-deployment-base-delay=5s")),
    row(ON_NODES, &[], NODE, under!("csi-provisioner", "/args"), Has("--capacity-ownerref-level=1")),
    row(ON_NODES, &[], NODE, under!("csi-provisioner", "/args"), Lacks("--leader-election")),
    row(ON_NODES, &[], NODE, under!("csi-provisioner", "/env/[NODE_NAME]/valueFrom/fieldRef/fieldPath"), Is(r#""spec.nodeName""#)),
    row(ON_NODES, &[], "ClusterRoleBinding/storage:test-csi-sidecars-provisioner", "/subjects/0/name", Is(r#""test-csi-sidecars-node""#)),
    row(ON_NODES, &[], "Service/test-csi-sidecars-node", "/spec/ports/[provisioner]/port", Is("8082")),
    // Registration.
    row(MINIMAL, &[], NODE, under!("csi-node-driver-registrar", "/readinessProbe/httpGet/path"), Is(r#""/registration""#)),
    row(MINIMAL, &["registrar.readiness=false"], NODE, under!("csi-node-driver-registrar", "/readinessProbe"), Absent),
    row(MINIMAL, &[], NODE, under!("csi-node-driver-registrar", "/livenessProbe/httpGet/path"), Is(r#""/healthz""#)),
    // Objects about the driver.
    row(EVERYTHING, &[], "CSIDriver/every.example.com", "/spec", Is(r#"{"attachRequired": true, "storageCapacity": true, "podInfoOnMount": true, "fsGroupPolicy": "File", "volumeLifecycleModes": ["Persistent", "Ephemeral"], "requiresRepublish": false, "seLinuxMount": false, "serviceAccountTokenInSecrets": true, "tokenRequests": [{"audience": "storage.example.com"}]}"#)),
    row(ON_NODES, &[], "CSIDriver/local.example.com", "/spec", Is(r#"{"attachRequired": false, "storageCapacity": true}"#)),
    row(MINIMAL, &[], "CSIDriver/minimal.example.com", "", Absent),
    // Monitoring.
    row(EVERYTHING, &[], "ServiceMonitor/everything", "/metadata/labels/release", Is(r#""prometheus""#)),
    row(EVERYTHING, &[], "ServiceMonitor/everything", "/spec/endpoints/0/relabelings/0", Is(r#"{"targetLabel": "csi_driver", "replacement": "every.example.com"}"#)),
    row(EVERYTHING, &[], "ServiceMonitor/everything", "/spec/endpoints/3/relabelings/1", Is(r#"{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}"#)),
    row(EVERYTHING, &[], "ServiceMonitor/everything", "/spec/endpoints/3/metricRelabelings", Is(r#"[{"sourceLabels": ["__name__"], "regex": "go_.*|process_open_fds", "action": "drop"}]"#)),
    row(EVERYTHING, &[], "ServiceMonitor/everything", "/spec/endpoints/3/scrapeTimeout", Is(r#""20s""#)),
    row(MINIMAL, &["metrics.serviceMonitor.enabled=true"], "ServiceMonitor/test-csi-sidecars", "/spec/endpoints/0/scrapeTimeout", Absent),
    row(MINIMAL, &["metrics.serviceMonitor.enabled=true"], "ServiceMonitor/test-csi-sidecars", "/spec/endpoints/0/metricRelabelings", Absent),
    row(EVERYTHING, &[], "PrometheusRule/everything", "/spec/groups/0/rules/1/alert", Is(r#""CSISidecarMissing""#)),
    row(EVERYTHING, &[], "PrometheusRule/everything", "/spec/groups/0/rules/1/expr", Is(r#""absent(up{csi_driver=\"every.example.com\", endpoint=\"attacher\"}) or absent(up{csi_driver=\"every.example.com\", endpoint=\"healthz\"}) or absent(up{csi_driver=\"every.example.com\", endpoint=\"provisioner\"}) or absent(up{csi_driver=\"every.example.com\", endpoint=\"resizer\"})""#)),
    row(EVERYTHING, &[], "PrometheusRule/everything", "/spec/groups/0/rules/1/annotations/runbook_url", Is(r#""https://runbooks.example.com/csi#csisidecarmissing""#)),
    row(MINIMAL, &["metrics.prometheusRule.enabled=true"], "PrometheusRule/test-csi-sidecars", "/spec/groups/0/rules/0/annotations/runbook_url", Absent),
    row(EVERYTHING, &[], "PrometheusRule/everything", "/metadata/labels/release", Is(r#""prometheus""#)),
    row(EVERYTHING, &[], "PrometheusRule/everything", "/spec/groups/0/rules/0/expr", Is(r#""up{csi_driver=\"every.example.com\"} == 0""#)),
    row(EVERYTHING, &[], "ConfigMap/everything-dashboard", "/metadata/labels/grafana_dashboard", Is(r#""1""#)),
    row(MINIMAL, &[], "ServiceMonitor/test-csi-sidecars", "", Absent),
    row(MINIMAL, &[], "Service/test-csi-sidecars-controller", "", Absent),
];

/// What each value adds to a program's permissions; [`ALWAYS`] is what it has anyway.
/// From the tables of the specification.
#[rustfmt::skip]
pub(super) const PERMISSIONS: &[(&[&str], &str, &[&str])] = &[
    (&["driver.attachRequired=true", "attacher.events=false"], "attacher", &[
        "get persistentvolumes", "list persistentvolumes", "watch persistentvolumes", "patch persistentvolumes",
        "list csinodes.storage.k8s.io", "watch csinodes.storage.k8s.io",
    ]),
    (&["driver.attachRequired=true"], "attacher", &[
        "get persistentvolumes", "list persistentvolumes", "watch persistentvolumes", "patch persistentvolumes",
        "list csinodes.storage.k8s.io", "watch csinodes.storage.k8s.io",
        "create events in default", "patch events in default",
    ]),
    (&["driver.attachRequired=true", "attacher.events=false", "secrets.access=all"], "attacher", &[
        "get persistentvolumes", "list persistentvolumes", "watch persistentvolumes", "patch persistentvolumes",
        "list csinodes.storage.k8s.io", "watch csinodes.storage.k8s.io", "get secrets",
    ]),
    (&["controller.leaderElection.enabled=true"], "attacher", &[
        "create leases.coordination.k8s.io in storage",
        "get leases.coordination.k8s.io external-attacher-leader-my-example-com in storage",
        "update leases.coordination.k8s.io external-attacher-leader-my-example-com in storage",
        "create events in storage",
    ]),
    (&["driver.attachRequired=true"], "provisioner", &[
        "list volumeattachments.storage.k8s.io", "watch volumeattachments.storage.k8s.io",
    ]),
    (&["features.topology=true"], "provisioner", &[
        "get persistentvolumeclaims", "update persistentvolumeclaims", "list nodes", "watch nodes",
        "list csinodes.storage.k8s.io", "watch csinodes.storage.k8s.io",
    ]),
    (&["features.topology=true", "features.nodeDeployment=true"], "provisioner", &[
        "get persistentvolumeclaims", "update persistentvolumeclaims",
    ]),
    (&["features.cloning=true"], "provisioner", &[
        "get persistentvolumeclaims", "update persistentvolumeclaims",
    ]),
    (&["provisioner.protection=journal"], "provisioner", &[
        "create leases.coordination.k8s.io in storage", "get leases.coordination.k8s.io in storage",
        "update leases.coordination.k8s.io in storage",
    ]),
    (&["features.snapshots=true"], "provisioner", &[
        "get volumesnapshotcontents.snapshot.storage.k8s.io",
        "get volumesnapshots.snapshot.storage.k8s.io", "update volumesnapshots.snapshot.storage.k8s.io",
        "list volumesnapshots.snapshot.storage.k8s.io", "watch volumesnapshots.snapshot.storage.k8s.io",
    ]),
    (&["features.snapshots=true", "provisioner.snapshotOrphanSweepInterval=0s"], "provisioner", &[
        "get volumesnapshotcontents.snapshot.storage.k8s.io",
        "get volumesnapshots.snapshot.storage.k8s.io", "update volumesnapshots.snapshot.storage.k8s.io",
    ]),
    (&["features.volumeAttributesClass=true"], "provisioner", &["get volumeattributesclasses.storage.k8s.io"]),
    (&["features.crossNamespaceDataSource=true"], "provisioner", &[
        "list referencegrants.gateway.networking.k8s.io", "watch referencegrants.gateway.networking.k8s.io",
    ]),
    (&["features.capacity=true", "provisioner.capacity.ownerRefLevel=-1"], "provisioner", &[
        "list nodes", "watch nodes", "list csinodes.storage.k8s.io", "watch csinodes.storage.k8s.io",
        "list csistoragecapacities.storage.k8s.io in storage", "watch csistoragecapacities.storage.k8s.io in storage",
        "create csistoragecapacities.storage.k8s.io in storage", "update csistoragecapacities.storage.k8s.io in storage",
        "delete csistoragecapacities.storage.k8s.io in storage",
    ]),
    (&["features.capacity=true"], "provisioner", &[
        "list nodes", "watch nodes", "list csinodes.storage.k8s.io", "watch csinodes.storage.k8s.io",
        "list csistoragecapacities.storage.k8s.io in storage", "watch csistoragecapacities.storage.k8s.io in storage",
        "create csistoragecapacities.storage.k8s.io in storage", "update csistoragecapacities.storage.k8s.io in storage",
        "delete csistoragecapacities.storage.k8s.io in storage",
        "get pods in storage", "get replicasets.apps in storage",
    ]),
    (&["features.capacity=true", "controller.kind=StatefulSet"], "provisioner", &[
        "list nodes", "watch nodes", "list csinodes.storage.k8s.io", "watch csinodes.storage.k8s.io",
        "list csistoragecapacities.storage.k8s.io in storage", "watch csistoragecapacities.storage.k8s.io in storage",
        "create csistoragecapacities.storage.k8s.io in storage", "update csistoragecapacities.storage.k8s.io in storage",
        "delete csistoragecapacities.storage.k8s.io in storage", "get pods in storage",
    ]),
    (&["secrets.access=all"], "provisioner", &["get secrets"]),
    (&["controller.leaderElection.enabled=true"], "provisioner", &[
        "create leases.coordination.k8s.io in storage",
        "get leases.coordination.k8s.io my-example-com in storage",
        "update leases.coordination.k8s.io my-example-com in storage",
    ]),
    (&["resizer.handleVolumeInUseError=true"], "resizer", &["list pods", "watch pods"]),
    (&["features.volumeAttributesClass=true"], "resizer", &[
        "list volumeattributesclasses.storage.k8s.io", "watch volumeattributesclasses.storage.k8s.io",
    ]),
    (&["secrets.access=all"], "resizer", &["get secrets"]),
    (&["controller.leaderElection.enabled=true"], "resizer", &[
        "create leases.coordination.k8s.io in storage",
        "get leases.coordination.k8s.io external-resizer-my-example-com in storage",
        "update leases.coordination.k8s.io external-resizer-my-example-com in storage",
    ]),
];

/// What each program has with all of that switched off.
#[rustfmt::skip]
pub(super) const ALWAYS: &[(&str, &[&str])] = &[
    ("attacher", &[
        "get volumeattachments.storage.k8s.io", "list volumeattachments.storage.k8s.io",
        "watch volumeattachments.storage.k8s.io", "patch volumeattachments.storage.k8s.io",
        "patch volumeattachments/status.storage.k8s.io",
    ]),
    ("provisioner", &[
        "get persistentvolumes", "list persistentvolumes", "watch persistentvolumes",
        "create persistentvolumes", "patch persistentvolumes", "delete persistentvolumes",
        "list persistentvolumeclaims", "watch persistentvolumeclaims",
        "list storageclasses.storage.k8s.io", "watch storageclasses.storage.k8s.io",
        "create events", "patch events",
    ]),
    ("resizer", &[
        "get persistentvolumes", "list persistentvolumes", "watch persistentvolumes",
        "patch persistentvolumes", "get persistentvolumeclaims", "list persistentvolumeclaims",
        "watch persistentvolumeclaims",
        "patch persistentvolumeclaims/status", "create events", "patch events",
    ]),
];
