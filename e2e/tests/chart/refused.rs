//! Wrong values end with a message that names the value and the expected form.

use anyhow::{Context, Result, ensure};
use e2e::chart::Release;
use e2e::cluster::Cluster;
use e2e::suite::Verdict;

struct Row {
    set: &'static [&'static str],
    says: &'static [&'static str],
}

/// The image of a sidecar that was left in the driver's pod.
const LEFT: &str =
    "controller.extraContainers[0].image=registry.k8s.io:443/sig-storage/csi-attacher:v4.11.0";

/// Each row is applied on top of valid values.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(&["drivr.name=x"], &["additional properties 'drivr' not allowed"]),
    row(&["attacher.workerThread=3"], &["'/attacher'", "'workerThread' not allowed"]),
    row(&["driver.name=my_driver"], &["'/driver/name'", "does not match pattern"]),
    // B-8: CSI allows capitals, and names of objects do not.
    row(&["driver.name=Storage.example.com"], &["'/driver/name'", "does not match pattern"]),
    row(&["driver.name=a..b"], &["'/driver/name'", "does not match pattern"]),
    row(&["driver.name=a/b"], &["'/driver/name'", "does not match pattern"]),
    row(&["driver.name="], &["driver.name is required", "GetPluginInfo"]),
    row(&["provisioner.timeout=10"], &["'/provisioner/timeout'", "got number, want string"]),
    row(&["provisioner.timeout=10 seconds"], &["'/provisioner/timeout'", "does not match pattern"]),
    row(&["attacher.workerThreads=0"], &["'/attacher/workerThreads'", "minimum: got 0, want 1"]),
    row(&["attacher.workerThreads=many"], &["'/attacher/workerThreads'", "got string, want null or integer"]),
    row(&["provisioner.volumeNameUuidLength=37"], &["'/provisioner/volumeNameUuidLength'", "maximum: got 37, want 36"]),
    row(&["provisioner.protection=sometimes"], &["'/provisioner/protection'", "'journal', 'off'"]),
    row(&["attacher.featureGates.Topology=maybe"], &["'/attacher/featureGates/Topology'", "got string, want boolean"]),
    row(&["attacher.extraArgs={resync=5m}"], &["'/attacher/extraArgs/0'", "does not match pattern"]),
    row(&["attacher.volumeMounts[0].name=ca"], &["'/attacher/volumeMounts/0'", "missing property 'mountPath'"]),
    row(&["attacher.image=NoTag"], &["'/attacher/image'", "does not match pattern"]),
    row(&["image.registry="], &["image.registry is required", "registry.example.com/storage", "make images"]),
    row(&["image.registry=https://registry.example.com"], &["'/image/registry'", "does not match pattern"]),
    row(&["image.pullPolicy=always"], &["'/image/pullPolicy'", "'Always', 'IfNotPresent', 'Never'"]),
    row(&["metrics.serviceMonitor.relabelings[0].target=x"], &["'/metrics/serviceMonitor/relabelings/0'", "'target' not allowed"]),
    row(&["metrics.serviceMonitor.scrapeTimeout=10"], &["'/metrics/serviceMonitor/scrapeTimeout'", "got number, want string"]),
    row(&["metrics.prometheusRule.runbookUrl=wiki/csi"], &["'/metrics/prometheusRule/runbookUrl'", "does not match pattern"]),
    row(&["log.format=xml"], &["'/log/format'", "'text', 'json'"]),
    row(&["secrets.access=some"], &["'/secrets/access'", "'none', 'named', 'all'"]),
    row(&["secrets.access=named", "secrets.names[0].name=x"], &["'/secrets/names/0'", "missing property 'namespace'"]),
    row(&["secrets.access=named"], &["list the Secrets in secrets.names"]),
    row(&["secrets.names[0].name=x", "secrets.names[0].namespace=y"], &["secrets.access is \"none\""]),
    row(&["controller.kind=DaemonSet"], &["'/controller/kind'", "'Deployment', 'StatefulSet'"]),
    row(&["controller.replicas=-1"], &["'/controller/replicas'", "minimum: got -1, want 0"]),
    row(&["controller.replicas=2", "controller.leaderElection.enabled=false"], &["controller.leaderElection.enabled must be true"]),
    row(&["controller.driver=null"], &["nobody would serve the socket", "controller.hostPath", "controller.create=false"]),
    row(&["controller.driver.image="], &["'/controller/driver/image'", "minLength"]),
    row(&["controller.driver.image=null"], &["'/controller/driver/image'", "got null, want string"]),
    row(&["controller.hostPath=/run/driver"], &["controller.hostPath and controller.driver exclude each other"]),
    row(&["node.hostNetwork=true", "node.driver.image=x:1", "node.driver.ports[0].containerPort=9808"], &["node.hostNetwork: two containers declare port 9808", "livenessprobe.declarePort=false"]),
    row(&["controller.hostNetwork=true", "sidecars=together", "controller.driver.ports[0].containerPort=9808"], &["controller.hostNetwork: two containers declare port 9808", "livenessprobe.declarePort=false"]),
    row(&["metrics.podMonitor.enabled=true", "node.livenessprobe.declarePort=false"], &["metrics.podMonitor finds ports by name", "metrics.serviceMonitor"]),
    row(&["test.image=busybox"], &["'/test/image'", "does not match pattern"]),
    row(&["test.image=busybox:1", "controller.hostNetwork=true", "controller.bindAddress=127.0.0.1", "node.hostNetwork=true", "node.bindAddress=127.0.0.1", "controller.livenessprobe.port=9810"], &["test.image: there is nothing to ask"]),
    row(&["node.kubeletDir=/var/lib/kubelet/"], &["'/node/kubeletDir'", "does not match pattern"]),
    row(&["node.socketDirectory=plugins/mine"], &["'/node/socketDirectory'", "does not match pattern"]),
    row(&["node.driverOutlives=always"], &["'/node/driverOutlives'", "got string, want boolean"]),
    row(&["sidecars=both"], &["'/sidecars'", "'separate', 'together'"]),
    row(&["snapshotMetadata.enabled=true"], &["snapshotMetadata.tls.secretName is required"]),
    row(&["snapshotMetadata.enabled=true", "snapshotMetadata.tls.secretName=x", "snapshotMetadata.advertise.address=a:1"], &["needs snapshotMetadata.advertise.caCert and snapshotMetadata.audience"]),
    row(&["snapshotMetadata.enabled=true", "snapshotMetadata.tls.secretName=x", "snapshotMetadata.grpcPort=8086"], &["snapshotMetadata.port and snapshotMetadata.grpcPort are both 8086"]),
    row(&["snapshotMetadata.tls.minVersion=1.2"], &["'/snapshotMetadata/tls/minVersion'", "'VersionTLS12'"]),
    row(&["snapshotMetadata.advertise.address=host"], &["'/snapshotMetadata/advertise/address'", "does not match pattern"]),
    row(&["togetherOnNodes.port=9808"], &["'/togetherOnNodes'", "'port' not allowed"]),
    row(&["sidecars=together", "attacher.image=registry.k8s.io/sig-storage/csi-attacher:v4.11.0"], &["attacher.image", "together.image", "sidecars=separate"]),
    row(&["sidecars=together", "provisioner.log.level=5"], &["provisioner.log", "there is one log"]),
    row(&["sidecars=together", "registrar.securityContext.privileged=true"], &["registrar.securityContext", "together.securityContext"]),
    row(&["sidecars=together", "attacher.extraArgs={--kubeconfig=/etc/hosted/kubeconfig}"], &["attacher.extraArgs", "--kubeconfig=/etc/hosted/kubeconfig is said once", "together.extraArgs"]),
    row(&["sidecars=together", "attacher.extraArgs={-v=5}"], &["attacher.extraArgs", "-v=5 is said once"]),
    row(&["sidecars=together", "attacher.env[0].name=A", "attacher.env[0].value=x", "provisioner.env[0].name=A", "provisioner.env[0].value=y"], &["attacher.env", "another A already"]),
    row(&["sidecars=together", "livenessprobe.port=null"], &["livenessprobe.port is required"]),
    // a sidecar that was left in the same pod.
    row(&[LEFT, "controller.extraContainers[0].name=csi-attacher", "controller.extraContainers[0].volumeMounts[0].name=socket-dir"], &["controller.extraContainers", "\"csi-attacher\" runs csi-attacher", "attacher.enabled brings already", "both would work at once"]),
    row(&["sidecars=together", LEFT, "controller.extraContainers[0].name=csi-attacher", "controller.extraContainers[0].volumeMounts[0].name=socket-dir"], &["controller.extraContainers", "\"csi-attacher\" runs csi-attacher", "sidecars=together", "wait for ever", "attacher.enabled=false"]),
    row(&["sidecars=together", LEFT, "controller.extraContainers[0].name=old", "controller.extraContainers[0].volumeMounts[0].name=socket-dir"], &["\"old\" runs csi-attacher"]),
    row(&["sidecars=together", "controller.extraContainers[0].name=old", "controller.extraContainers[0].image=all:v1", "controller.extraContainers[0].command={/csi-provisioner}", "controller.extraContainers[0].volumeMounts[0].name=socket-dir"], &["\"old\" runs csi-provisioner"]),
    row(&["sidecars=together", "controller.extraContainers[0].name=all", "controller.extraContainers[0].image=r.example.com/csi-sidecars@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "controller.extraContainers[0].volumeMounts[0].name=socket-dir"], &["\"all\" runs csi-sidecars beside the sidecars of this chart"]),
    row(&["controller.extraContainers[0].name=csi-sidecars", "controller.extraContainers[0].image=r.example.com/s:v1", "controller.extraContainers[0].volumeMounts[0].name=socket-dir"], &["runs csi-sidecars beside the sidecars of this chart", "sidecars=together"]),
    row(&["sidecars=together", "node.extraContainers[0].name=node-driver-registrar", "node.extraContainers[0].image=r.example.com/x:v1", "node.extraContainers[0].volumeMounts[0].name=socket-dir"], &["node.extraContainers", "runs node-driver-registrar", "registrar.enabled=false"]),
    row(&["registrar.port=70000"], &["'/registrar/port'", "maximum: got 70,000, want 65,535"]),
    row(&["registrar.port=8081"], &["attacher.port and registrar.port are both 8081"]),
    row(&["controller.bindAddress=localhost"], &["'/controller/bindAddress'", "does not match pattern"]),
    row(&["controller.bindAddress=[::1]"], &["'/controller/bindAddress'"]),
    row(&["controller.bindAddress=127.0.0.1"], &["controller.bindAddress is 127.0.0.1", "set controller.hostNetwork"]),
    row(&["node.bindAddress=::1"], &["node.bindAddress is ::1", "set node.hostNetwork"]),
    row(&["controller.tokenFor={csi-attacher}"], &["controller.tokenFor: there is no container \"csi-attacher\"", "there are: driver"]),
    row(&["node.pools[0].name=a", "node.pools[0].nodeSelecter.zone=x"], &["'/node/pools/0'", "'nodeSelecter' not allowed"]),
    row(&["node.pools[0].nodeSelector.zone=x"], &["'/node/pools/0'", "missing property 'name'"]),
    row(&["node.pools[0].name=a.b"], &["'/node/pools/0/name'", "does not match pattern"]),
    row(&["node.pools[0].name=a-name-that-is-long"], &["'/node/pools/0/name'", "maxLength"]),
    row(&["node.pools[0].name=a", "node.pools[0].serviceAccount.name=b"], &["'/node/pools/0'", "'serviceAccount' not allowed"]),
    row(&["node.pools[0].name=a", "node.pools[0].sidecarResources.attacher.limits.cpu=1"], &["'/node/pools/0/sidecarResources'", "'attacher' not allowed"]),
    row(&["node.pools[0].name=a", "node.pools[1].name=a"], &["node.pools: two pools are named \"a\""]),
    row(&["node.pools[0].name=a", "node.pools[0].nodeSelector.zone=x", "node.pools[1].name=b"], &["a node may belong to both \"a\" and \"b\"", "different values in their nodeSelector"]),
    row(&["node.pools[0].name=a", "node.pools[0].nodeSelector.zone=x", "node.pools[1].name=b", "node.pools[1].nodeSelector.zone=x"], &["a node may belong to both \"a\" and \"b\""]),
    row(&["node.pools[0].name=a", "node.create=false"], &["node.pools is given, but node.create is false"]),
    row(&["node.pools[0].name=a", "node.pools[0].tokenFor={livenessprobe}"], &["node.pools[a].tokenFor: there is no container \"livenessprobe\""]),
    row(&["node.pools[0].name=a", "node.pools[0].bindAddress=127.0.0.1"], &["node.pools[a].bindAddress is 127.0.0.1", "set node.pools[a].hostNetwork"]),
    row(&["node.pools[0].name=a", "node.pools[0].driver.image=null"], &["'/node/pools/0/driver/image'", "got null, want string"]),
    row(&["controller.user=0"], &["'/controller/user'", "minimum: got 0, want 1"]),
    row(&["controller.user=root"], &["'/controller/user'", "got string, want null or integer"]),
    row(&["networkPolicy.enabled=true", "networkPolicy.metricsFrom[0].namespace=x"], &["'/networkPolicy/metricsFrom/0'", "'namespace' not allowed"]),
    row(&["networkPolicy.egress.apiServerPorts={https}"], &["'/networkPolicy/egress/apiServerPorts/0'", "got string, want integer"]),
    row(&["livenessprobe.port=null"], &["livenessprobe.port is required"]),
    row(&["features.nodeDeployment=true", "features.topology=false"], &["features.nodeDeployment needs features.topology"]),
    row(&["features.capacity=true", "provisioner.enabled=false"], &["features.capacity needs provisioner.enabled"]),
    row(&["controller.antiAffinity=always"], &["'/controller/antiAffinity'", "'preferred', 'required'"]),
    row(&["controller.hostPID=true"], &["'/controller'", "'hostPID' not allowed"]),
    row(&["controller.hostIPC=true"], &["'/controller'", "'hostIPC' not allowed"]),
    row(&["node.livenessprobe.timeout=1s"], &["'/node/livenessprobe'", "'timeout' not allowed"]),
    row(&["node.livenessprobe.port=8081"], &["attacher.port and livenessprobe.port are both 8081"]),
    row(&["controller.hostNetwork=true", "node.hostNetwork=true"], &["controller.hostNetwork and node.hostNetwork", "port 9808 of the node", "set controller.livenessprobe.port"]),
    row(&["controller.hostNetwork=true", "node.hostNetwork=true", "sidecars=together"], &["port 9808 of the node", "set controller.livenessprobe.port"]),
    row(&["controller.hostNetwork=true", "node.hostNetwork=true", "sidecars=together", "together.port=8080"], &["port 8080 of the node", "set controller.livenessprobe.port"]),
    row(&["controller.hostNetwork=true", "node.pools[0].name=a", "node.pools[0].hostNetwork=true"], &["node.pools[a].hostNetwork", "port 9808 of the node"]),
    row(&["controller.hostNetwork=true", "node.hostNetwork=true", "controller.livenessprobe.port=9810", "controller.driver.ports[0].containerPort=7000", "node.driver.ports[0].containerPort=7000"], &["port 7000 of the node", "give one of the two containers another port"]),
    row(&["nameSuffix=long"], &["'/nameSuffix'", "does not match pattern"]),
    row(&["controller.socket.path=/x"], &["'/controller/socket'", "'path' not allowed"]),
    row(&["metrics.secure.enabled=true", "metrics.podMonitor.enabled=true"], &["metrics.secure.enabled with metrics.podMonitor", "metrics.secure.authorization"]),
    row(&["metrics.secure.enabled=true", "metrics.secure.openshift=true", "metrics.secure.certManager.issuer.name=x"], &["metrics.secure.certManager.issuer and metrics.secure.openshift exclude each other"]),
    row(&["metrics.secure.minVersion=1.3"], &["'/metrics/secure/minVersion'"]),
    row(&["metrics.serviceMonitor.enabled=true", "metrics.podMonitor.enabled=true"], &["metrics.serviceMonitor and metrics.podMonitor exclude each other"]),
    row(&["attacher.pullPolicy=never"], &["'/attacher/pullPolicy'"]),
    row(&["sidecars=together", "attacher.tag=v1"], &["attacher.tag: with sidecars=together there is one image, together.tag"]),
    row(&["nameSuffix=b", "controller.extraContainers[0].name=csi-attacher", LEFT, "controller.extraContainers[0].volumeMounts[0].name=socket-dir-b"], &["runs csi-attacher, which attacher.enabled brings already"]),
    row(&["socket.emptyDir.medium=memory"], &["'/socket/emptyDir/medium'", "Memory"]),
    row(&["controller.leaderElection.namespace=My_Leases"], &["'/controller/leaderElection/namespace'", "does not match pattern"]),
    row(&["controller.serviceAccount.rules[0].resources={pools}"], &["'/controller/serviceAccount/rules/0'", "missing property 'verbs'"]),
    row(&["node.serviceAccount.rules[0].verb=get"], &["'/node/serviceAccount/rules/0'", "'verb' not allowed"]),
    row(&["image.digests.csi-attacher=latest"], &["'/image/digests/csi-attacher'", "does not match pattern"]),
    row(&["attacher.log.level=11"], &["'/attacher/log/level'", "maximum: got 11, want 10"]),
    row(&["livenessprobe.kubeApi.qps=1"], &["'/livenessprobe'", "'kubeApi' not allowed"]),
    row(&["storageClasses[0].parameters.tier=ssd"], &["'/storageClasses/0'", "missing property 'name'"]),
    row(&["storageClasses[0].name=fast", "storageClasses[0].reclaimPolicy=Recycle"], &["'/storageClasses/0/reclaimPolicy'", "'Delete', 'Retain'"]),
    row(&["features.groupSnapshots=true"], &["features.groupSnapshots needs snapshotter.enabled"]),
    row(&["features.groupSnapshots=true", "features.nodeDeployment=true", "snapshotter.enabled=true"], &["features.nodeDeployment and features.groupSnapshots exclude each other"]),
    row(&["snapshotter.snapshotNameUuidLength=0"], &["'/snapshotter/snapshotNameUuidLength'"]),
    row(&["snapshotter.snapshotNameUuidLength=33"], &["'/snapshotter/snapshotNameUuidLength'", "maximum: got 33, want 32"]),
    row(&["snapshotter.enabled=true", "snapshotter.port=8083", "resizer.enabled=true"], &["resizer.port and snapshotter.port are both 8083"]),
    row(&["features.volumeHealth=true"], &["features.volumeHealth needs healthMonitor.enabled"]),
    row(&["healthMonitor.enabled=true", "healthMonitor.port=8081"], &["attacher.port and healthMonitor.port are both 8081"]),
    row(&["healthMonitor.enabled=true", "controller.extraContainers[0].image=registry.k8s.io/sig-storage/csi-external-health-monitor-controller:v0.18.0", "controller.extraContainers[0].name=old", "controller.extraContainers[0].volumeMounts[0].name=socket-dir"], &["\"old\" runs csi-external-health-monitor-controller, which healthMonitor.enabled brings already"]),
    row(&["healthMonitor.interval=60"], &["'/healthMonitor/interval'", "got number, want string"]),
    row(&["healthMonitor.interval=0s"], &["'/healthMonitor/interval'", "does not match pattern"]),
    row(&["healthMonitor.listVolumesInterval=0"], &["'/healthMonitor/listVolumesInterval'"]),
    row(&["metrics.prometheusRule.lateClaims=0"], &["'/metrics/prometheusRule/lateClaims'", "minimum: got 0, want 1"]),
    row(&["metrics.prometheusRule.boundObjective=0"], &["'/metrics/prometheusRule/boundObjective'", "minimum: got 0, want 0.95"]),
    row(&["tracing.endpoint=http://collector:04317"], &["'/tracing/endpoint'", "does not match pattern"]),
    row(&["tracing.endpoint=collector:4317"], &["'/tracing/endpoint'", "does not match pattern"]),
    row(&["tracing.endpoint=http://collector"], &["'/tracing/endpoint'", "does not match pattern"]),
    row(&["tracing.samplingRatio=2"], &["'/tracing/samplingRatio'", "maximum: got 2, want 1"]),
    row(&["tracing.enabled=true", "attacher.image=registry.k8s.io/sig-storage/csi-attacher:v4.11.0"], &["tracing.enabled with attacher.image=registry.k8s.io/sig-storage/csi-attacher:v4.11.0", "upstream's csi-attacher has no flag --enable-otel-tracing", "set tracing.enabled=false"]),
    row(&["tracing.enabled=true", "resizer.enabled=true", "resizer.repository=mirror.example.com/sig-storage/csi-resizer"], &["tracing.enabled with resizer.repository=mirror.example.com/sig-storage/csi-resizer"]),
    row(&["tracing.enabled=true", "image.registry=registry.k8s.io/sig-storage"], &["tracing.enabled with image.registry=registry.k8s.io/sig-storage"]),
    row(&["tracing.enabled=true", "global.imageRegistry=registry.k8s.io/sig-storage"], &["tracing.enabled with global.imageRegistry=registry.k8s.io/sig-storage"]),
    row(&["why.endpoint.port=8095", "attacher.image=registry.k8s.io/sig-storage/csi-attacher:v4.11.0"], &["why.endpoint.port with attacher.image=registry.k8s.io/sig-storage/csi-attacher:v4.11.0", "upstream's csi-attacher has no flag --why-endpoint", "set why.endpoint.port=null"]),
    row(&["why.endpoint.port=8095", "healthMonitor.enabled=true", "healthMonitor.repository=mirror.example.com/sig-storage/monitor"], &["why.endpoint.port with healthMonitor.repository=mirror.example.com/sig-storage/monitor", "upstream's csi-external-health-monitor-controller has no flag"]),
    row(&["why.endpoint.port=8095", "image.registry=registry.k8s.io/sig-storage"], &["why.endpoint.port with image.registry=registry.k8s.io/sig-storage"]),
    row(&["why.endpoint.port=8095", "attacher.port=8095"], &["why.endpoint.port: attacher would answer on port 8095"]),
    row(&["why.endpoint.port=8095", "controller.driver.ports[0].containerPort=8096"], &["why.endpoint.port: provisioner would answer on port 8096"]),
    row(&["why.endpoint.port=9808", "sidecars=together"], &["why.endpoint.port: attacher would answer on port 9808"]),
    row(&["volumeSnapshotClasses[0].name=daily"], &["'/volumeSnapshotClasses/0'", "missing property 'deletionPolicy'"]),
    row(&["features.topology=yes"], &["'/features/topology'", "got string, want boolean"]),
    row(&["csiDriver.create=true", "csiDriver.serviceAccountTokenInSecrets=true"], &["csiDriver.serviceAccountTokenInSecrets needs csiDriver.tokenRequests"]),
    row(&["csiDriver.preventPodSchedulingIfMissing=maybe"], &["'/csiDriver/preventPodSchedulingIfMissing'", "got string, want null or boolean"]),
    row(&["node.startupTaint.key=no key"], &["'/node/startupTaint/key'", "does not match pattern"]),
    row(&["node.startupTaint.key=a..b/c"], &["'/node/startupTaint/key'", "does not match pattern"]),
    row(&["node.startupTaint.key=a/b/c"], &["'/node/startupTaint/key'", "does not match pattern"]),
    row(&["node.startupTaint.key=a/1234567890123456789012345678901234567890123456789012345678901234"], &["'/node/startupTaint/key'", "does not match pattern"]),
    row(&["node.startupTaint.policy=maybe"], &["'/node/startupTaint/policy'", "got string, want boolean"]),
    row(&["node.startupTaint.enabled=true", "registrar.image=registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.17.0"], &["registrar.image is \"registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.17.0\"", "name an image of csi-node-sidecars", "node.startupTaint.enabled=false"]),
    row(&["node.startupTaint.enabled=true", "registrar.repository=registry.example.com:5000/csi-node-driver-registrar"], &["registrar.repository is", "name an image of csi-node-sidecars"]),
    row(&["node.pools[0].name=a", "node.pools[0].startupTaint.enabled=true", "registrar.repository=r.example.com/csi-sidecars"], &["registrar.repository is", "name an image of csi-node-sidecars"]),
    row(&["node.pools[0].name=a", "node.pools[0].startupTaint.enabled=true", "node.pools[0].startupTaint.policy=false"], &["node.pools[a].startupTaint.policy", "set node.startupTaint.policy"]),
    row(&["node.startupTaint.effect=NoSchedule"], &["'/node/startupTaint'", "'effect' not allowed"]),
    row(&["csiDriver.fsGroupPolicy=Always"], &["'/csiDriver/fsGroupPolicy'", "'File'"]),
    row(&["metrics.prometheusRule.callErrorRatio=2"], &["'/metrics/prometheusRule/callErrorRatio'", "maximum: got 2, want 1"]),
];

/// Rows of the snapshot-controller chart.
#[rustfmt::skip]
const CONTROLLER_ROWS: &[Row] = &[
    row(&["image.registry="], &["image.registry is required", "registry.example.com/storage", "make images"]),
    row(&["driver.name=x"], &["additional properties 'driver' not allowed"]),
    row(&["replica=3"], &["additional properties 'replica' not allowed"]),
    row(&["leaderElection.enabled=false"], &["replicas is more than 1: leaderElection.enabled must be true"]),
    row(&["port=null", "metrics.service=true"], &["metrics.service and metrics.serviceMonitor need port"]),
    row(&["port=null", "test.image=busybox:1"], &["test.image needs port"]),
    row(&["why.endpoint.port=8080"], &["why.endpoint.port: port has 8080 already"]),
    row(&["retryCrdIntervalMax=30"], &["'/retryCrdIntervalMax'", "got number, want string"]),
    row(&["workerThreads=0"], &["'/workerThreads'", "minimum: got 0, want 1"]),
    row(&["image.digests.snapshot-controller=latest"], &["'/image/digests/snapshot-controller'", "does not match pattern"]),
    row(&["preventVolumeModeConversion=maybe"], &["'/preventVolumeModeConversion'", "got string, want null or boolean"]),
    row(&["metrics.prometheusRule.cutWithinSeconds=45"], &["'/metrics/prometheusRule/cutWithinSeconds'", "one of 1, 2.5"]),
    row(&["metrics.prometheusRule.callErrorRatio=1"], &["'/metrics/prometheusRule'", "'callErrorRatio' not allowed"]),
];

/// Features that a release of Kubernetes does not have yet.
const OLD_ROWS: &[(&str, Row)] = &[
    (
        "1.28.15",
        row(
            &["node.driver.image=x:1", "node.driverOutlives=true"],
            &["node.driverOutlives", "1.29 and later", "this is v1.28.15"],
        ),
    ),
    // O-119
    (
        "1.29.14",
        row(
            &["node.startupTaint.enabled=true"],
            &[
                "node.startupTaint.policy",
                "1.30 and later",
                "this is v1.29.14",
                "set node.startupTaint.policy=false",
            ],
        ),
    ),
];

const fn row(set: &'static [&'static str], says: &'static [&'static str]) -> Row {
    Row { set, says }
}

pub(super) fn all(_: &Cluster) -> Result<Verdict> {
    for row in ROWS {
        refused("csi-sidecars", "ci/minimal-values.yaml", row)?;
    }
    for row in CONTROLLER_ROWS {
        refused("snapshot-controller", "ci/minimal-values.yaml", row)?;
    }
    for (kubernetes, row) in OLD_ROWS {
        let refusal = release("csi-sidecars", "ci/minimal-values.yaml", row).refusal_on(kubernetes);
        says(row, &refusal.with_context(|| format!("{:?}", row.set))?)?;
    }
    let imageless = row(
        &["node.driver.args={x}"],
        &["node.driver.image is required"],
    );
    refused("csi-sidecars", "ci/beside-values.yaml", &imageless)?;
    for row in [
        row(
            &["driver.capacity={fast}"],
            &["'/driver/capacity/0'", "does not match pattern"],
        ),
        row(
            &["csi-sidecars.image.registry="],
            &["image.registry is required"],
        ),
        row(
            &["csi-sidecars.features.nodeDeployment=true"],
            &["csi-sidecars.driver.attachRequired=false"],
        ),
        row(
            &["csi-sidecars.features.speed=true"],
            &["csi-sidecars", "'speed' not allowed"],
        ),
    ] {
        refused("csi-driver-host-path-demo", "", &row)?;
    }
    Ok(Verdict::Passed)
}

fn release<'a>(chart: &'a str, file: &'a str, row: &Row) -> Release<'a> {
    Release {
        chart,
        namespace: "storage",
        file,
        set: row.set,
    }
}

fn refused(chart: &str, file: &str, row: &Row) -> Result<()> {
    let refusal = release(chart, file, row).refusal();
    says(row, &refusal.with_context(|| format!("{:?}", row.set))?)
}

fn says(row: &Row, refusal: &str) -> Result<()> {
    for part in row.says {
        ensure!(
            refusal.contains(part),
            "{:?}: no {part:?} in: {refusal}",
            row.set
        );
    }
    Ok(())
}
