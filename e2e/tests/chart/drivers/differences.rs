//! Differences from the drivers' own charts, with their reasons.

/// A line that only one side has.
pub(super) struct Difference {
    /// Names of the drivers; empty means all.
    pub(super) drivers: &'static [&'static str],
    /// `+` only ours has it, `-` only theirs; `*` is any text.
    pub(super) line: &'static str,
    pub(super) why: &'static str,
}

const fn any(line: &'static str, why: &'static str) -> Difference {
    let drivers = &[];
    Difference { drivers, line, why }
}

const fn of(drivers: &'static [&'static str], line: &'static str, why: &'static str) -> Difference {
    Difference { drivers, line, why }
}

const EBS: &[&str] = &["aws-ebs"];
const CEPH: &[&str] = &["ceph-rbd"];
const DEMOCRATIC: &[&str] = &["democratic"];
const HARDENED: &str = "sidecars need no capabilities, no writable root file system, and no way to more, whatever the driver's chart says";
const SMALL: &str = "the driver's chart says none; ours are limited, since they are small";
const SOCKET: &str = "the containers of a pod have one directory for the socket; CSI_ENDPOINT and --csi-address, a path, say it to all";
const FLAG: &str = "the flag says it, without a variable";
const UNASKED: &str = "no program of ours asks it, docs/rbac-mutations.md; a driver that does has it in serviceAccount.rules";
const CONTROLLERS: &str = "snapshot-controller's, of which a cluster has one, or a user's";
const NODE_DRIVER: &str = "its socket is root's, whatever user its image says";
const WHOLE: &str = "the kubelet's directory is given to the driver as a whole";

#[rustfmt::skip]
pub(super) const DIFFERENCES: &[Difference] = &[
    // Command lines.
    any("+ * csi-*: argument --http-endpoint=:*", "health and metrics of every sidecar"),
    any("+ * livenessprobe: argument --http-endpoint=:9808", "the default of the program, said"),
    of(EBS, "- DaemonSet csi-node-driver-registrar: argument --http-endpoint=0.0.0.0:9809", "the same port of IPv6 too: controller.bindAddress, node.bindAddress"),
    of(EBS, "+ * livenessprobe: argument --v=2", "log.level is for all programs"),
    of(CEPH, "- Deployment csi-provisioner: argument --feature-gates=HonorPVReclaimPolicy=true", "has been so without the gate for long; ours takes it without effect, and warns"),
    of(CEPH, "- Deployment csi-snapshotter: argument --enable-volume-group-snapshots=false", "ours takes it without effect, and warns; the gate says it"),
    any("+ Deployment csi-snapshotter: argument --feature-gates=CSIVolumeGroupSnapshot=false", "a driver without group snapshots needs no permission for them"),
    of(DEMOCRATIC, "- Deployment csi-*: argument --leader-election-namespace=democratic-csi", "the namespace of the pod is the default"),
    of(EBS, "- Deployment livenessprobe: argument --csi-address=/csi/csi.sock", SOCKET),
    of(EBS, "+ Deployment livenessprobe: argument --csi-address=/var/lib/csi/sockets/pluginproxy/csi.sock", SOCKET),
    of(CEPH, "- Deployment *: argument *=unix:///csi/csi-provisioner.sock", SOCKET),
    of(EBS, "- DaemonSet ebs-plugin: argument --endpoint=unix:/csi/csi.sock", SOCKET),
    of(EBS, "+ DaemonSet ebs-plugin: argument --endpoint=unix:///csi/csi.sock", SOCKET),
    of(CEPH, "+ Deployment csi-*: argument --csi-address=/csi/csi-provisioner.sock", SOCKET),

    // Environment variables.
    of(&["aws-ebs", "ceph-rbd"], "- * environment ADDRESS *", FLAG),
    of(EBS, "- * environment DRIVER_REG_SOCK_PATH *", FLAG),
    of(EBS, "- Deployment csi-* environment ENABLE_VAC_FALLBACK *", "for Kubernetes 1.31 to 1.33, which has such classes as v1beta1; ours read v1"),
    of(&["aws-ebs", "ceph-rbd"], "- * environment CSI_ENDPOINT *", SOCKET),
    any("+ * environment CSI_ENDPOINT *", SOCKET),
    any("+ * environment NODE_NAME *", "every driver's container is told its node"),
    of(&["ceph-rbd", "democratic"], "- DaemonSet csi-node-driver-registrar: environment KUBE_NODE_NAME *", "no registrar reads it, upstream's neither"),
    of(DEMOCRATIC, "- Deployment csi-provisioner: environment *", "read with features.capacity or features.nodeDeployment alone, and given then"),
    of(DEMOCRATIC, "- Deployment csi-resizer: environment *", "no resizer reads it, upstream's neither"),
    of(DEMOCRATIC, "- Deployment csi-snapshotter: environment *", "NODE_NAME is read with features.nodeDeployment alone, and given then"),

    // Mounts.
    any("+ * readOnly true", "who connects to a socket writes nothing into its directory"),
    of(EBS, "- Deployment livenessprobe: mount /csi of {\"emptyDir\":{}}", SOCKET),
    of(EBS, "+ Deployment livenessprobe: mount /var/lib/csi/sockets/pluginproxy of {\"emptyDir\":{}}", SOCKET),
    of(&["aws-ebs", "ceph-rbd"], "- DaemonSet csi-node-driver-registrar: mount /registration is a Directory", "kubelet makes it if it is not there yet"),
    of(&["aws-ebs", "ceph-rbd"], "+ DaemonSet csi-node-driver-registrar: mount /registration is a DirectoryOrCreate", "kubelet makes it if it is not there yet"),
    of(EBS, "- DaemonSet csi-node-driver-registrar: mount /var/lib/kubelet/plugins/ebs.csi.aws.com of *", "for a file by which upstream's probe knows the registration; ours answers /registration"),
    of(DEMOCRATIC, "- DaemonSet csi-node-driver-registrar: mount /var/lib/kubelet *", "for the same file"),
    of(CEPH, "- DaemonSet csi-rbdplugin: mount /var/lib/kubelet/*", WHOLE),
    of(CEPH, "+ DaemonSet csi-rbdplugin: mount /var/lib/kubelet *", WHOLE),

    // Accounts and tokens.
    any("- * csi-node-driver-registrar: API token", "it asks the API server nothing"),
    of(EBS, "- * livenessprobe: API token", "it asks the API server nothing"),
    of(CEPH, "- * liveness-prometheus: API token", "it asks the API server nothing"),
    of(DEMOCRATIC, "- * csi-proxy: API token", "it asks the API server nothing"),
    of(DEMOCRATIC, "- DaemonSet cleanup: API token", "it asks the API server nothing"),
    any("+ * pod: automountServiceAccountToken false", "who needs the token mounts it: controller.tokenFor, node.tokenFor"),
    any("+ Deployment csi-attacher: securityContext/*", HARDENED),
    any("+ Deployment csi-provisioner: securityContext/*", HARDENED),
    any("+ Deployment csi-resizer: securityContext/*", HARDENED),
    any("+ Deployment csi-snapshotter: securityContext/*", HARDENED),
    any("+ DaemonSet csi-node-driver-registrar: securityContext/*", HARDENED),
    of(EBS, "+ * livenessprobe: securityContext/*", HARDENED),
    of(CEPH, "- DaemonSet csi-node-driver-registrar: securityContext/*", "privileged for SELinux: registrar.securityContext.seLinuxOptions is enough, see the README"),
    of(DEMOCRATIC, "+ DaemonSet csi-driver: securityContext/runAs*", NODE_DRIVER),
    of(&["aws-ebs", "ceph-rbd"], "+ DaemonSet *plugin: securityContext/runAs*", NODE_DRIVER),
    any("+ * pod: securityContext/seccompProfile/type \"RuntimeDefault\"", HARDENED),

    // Defaults that one side spells out.
    any("+ * pod: terminationGracePeriodSeconds 30", "Kubernetes' default, said"),
    any("+ CSIDriver: storageCapacity false", "Kubernetes' default, said"),
    of(&["ceph-rbd", "democratic"], "+ * csi-*: resources/*", SMALL),

    // Permissions.
    of(EBS, "- Deployment may * volumegroupsnapshot*", "given with features.groupSnapshots, which is off there"),
    any("- Deployment may update volumesnapshotcontents*", UNASKED),
    any("- Deployment may get volumesnapshotclasses.snapshot.storage.k8s.io", UNASKED),
    of(&["ceph-rbd", "democratic"], "- Deployment may create volumesnapshotcontents*", CONTROLLERS),
    of(&["ceph-rbd", "democratic"], "- Deployment may delete volumesnapshotcontents*", CONTROLLERS),
    of(&["ceph-rbd", "democratic"], "- Deployment may patch volumesnapshots.snapshot.storage.k8s.io", CONTROLLERS),
    of(&["ceph-rbd", "democratic"], "- Deployment may * volumesnapshots/status.snapshot.storage.k8s.io", CONTROLLERS),
    of(DEMOCRATIC, "- Deployment may * volumesnapshotcontents/status.snapshot.storage.k8s.io", UNASKED),
    of(DEMOCRATIC, "- Deployment may create volumesnapshots.snapshot.storage.k8s.io", CONTROLLERS),
    of(DEMOCRATIC, "- Deployment may delete volumesnapshots.snapshot.storage.k8s.io", CONTROLLERS),
    of(CEPH, "+ Deployment may update volumesnapshots.snapshot.storage.k8s.io", "a snapshot that is being restored keeps a finalizer, as with newer provisioners of upstream"),
    of(CEPH, "+ Deployment may watch volumesnapshots.snapshot.storage.k8s.io", "finalizers of deleted claims are removed: provisioner.snapshotOrphanSweepInterval"),
    any("- Deployment may list events", UNASKED),
    any("- Deployment may watch events", UNASKED),
    any("- Deployment may update events", UNASKED),
    any("- Deployment may get csinodes.storage.k8s.io", UNASKED),
    any("- Deployment may get storageclasses.storage.k8s.io", UNASKED),
    any("- Deployment may delete leases*", UNASKED),
    any("- Deployment may list leases*", UNASKED),
    any("- Deployment may watch leases*", UNASKED),
    of(&["aws-ebs", "democratic"], "- Deployment may get pods", UNASKED),
    of(EBS, "- Deployment may list pods", "given with resizer.handleVolumeInUseError, which is off there"),
    of(EBS, "- Deployment may watch pods", "given with resizer.handleVolumeInUseError, which is off there"),
    of(CEPH, "- Deployment may * configmaps in ceph-csi", "leases of leader election were ConfigMaps once; the driver's get is in serviceAccount.rules"),
    of(CEPH, "- Deployment may * endpoints", "leases of leader election were Endpoints once"),
    of(&["ceph-rbd", "democratic"], "- Deployment may update volumeattachments.storage.k8s.io", UNASKED),
    of(&["ceph-rbd", "democratic"], "- Deployment may * persistentvolumeclaims/status", UNASKED),
    of(DEMOCRATIC, "- Deployment may patch persistentvolumeclaims", UNASKED),
    of(DEMOCRATIC, "- Deployment may update persistentvolumes", UNASKED),
    of(DEMOCRATIC, "- Deployment may list secrets", UNASKED),
    of(DEMOCRATIC, "- Deployment may * leases.coordination.k8s.io", "in the namespace of the Leases alone"),
    of(DEMOCRATIC, "+ Deployment may * leases.coordination.k8s.io in democratic-csi", "in the namespace of the Leases alone"),
    of(DEMOCRATIC, "- Deployment may * csistoragecapacities.storage.k8s.io", "given with features.capacity, which is off there"),
    of(DEMOCRATIC, "- Deployment may get *.apps", "given with features.capacity, which is off there"),
    of(DEMOCRATIC, "- Deployment may * csidrivers.csi.storage.k8s.io", "a group that Kubernetes has not had since 1.13"),
    of(DEMOCRATIC, "- Deployment may * csinodeinfos.csi.storage.k8s.io", "a group that Kubernetes has not had since 1.13"),
    any("+ Deployment may * leases.coordination.k8s.io external-*", "theirs may have every Lease of the namespace"),
    any("+ Deployment may * events in *", "theirs may write events everywhere, which ours limit for the attacher"),
];
