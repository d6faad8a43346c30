//! Objects that name a volume or snapshot, or that may mean one without naming it.

/// A volume in the storage that no object names.
pub(crate) const STRAY: &str = "+ volume vol-9 1";
/// A snapshot in the storage that no object names.
pub(crate) const SNAPSHOT: &str = "+ snapshot s-9";

pub(crate) const NOBODY: &[&str] = &[
    r#"pv pvc-1 spec.csi.driver = "csi.example.org""#,
    r#"pv pvc-k spec.csi.driver = "csi.example.org""#,
    "csinode worker-1 spec.drivers = []",
    "csinode worker-2 spec.drivers = []",
    "csinode worker-3 spec.drivers = []",
];
pub(crate) const TWIN: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"twin"},"spec":{"csi":{"driver":"twin.example.com","volumeHandle":"vol-9"}},"status":{"phase":"Bound"}}"#;
pub(crate) const INSTALLED: &str = r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"twin.example.com"},"spec":{}}"#;
pub(crate) const INLINE: &str = r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"inline"},"spec":{"attacher":"csi.example.com","nodeName":"worker-1","source":{"inlineVolumeSpec":{"csi":{"driver":"csi.example.com","volumeHandle":"vol-9"}}}}}"#;
pub(crate) const HEADLESS: &str = r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"headless","uid":"h"},"spec":{"attacher":"csi.example.com","nodeName":"worker-1","source":{"persistentVolumeName":"gone"}}}"#;
pub(crate) const IN_USE: &str =
    r#"node worker-1 status.volumesInUse = ["kubernetes.io/csi/csi.example.com^vol-9"]"#;
pub(crate) const ATTACHED: &str = r#"node worker-1 status.volumesAttached = [{"name":"kubernetes.io/csi/csi.example.com^vol-9","devicePath":""}]"#;
pub(crate) const EPHEMERAL: &str = r#"+ {"apiVersion":"v1","kind":"Pod","metadata":{"name":"e","namespace":"shop","uid":"u"},"spec":{"volumes":[{"name":"v","csi":{"driver":"csi.example.com"}}]}}"#;
/// Kubelet's handle for the inline volume `v` of the pod with UID `u`.
pub(crate) const EPHEMERAL_HANDLE: &str =
    "csi-e6184ce10e266134fdcfa401e8f1a95005bcd4f18d16b62b757323e2833fe9a9";
pub(crate) const WANTED: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"new","namespace":"shop","uid":"n","annotations":{"volume.kubernetes.io/storage-provisioner":"csi.example.com"}},"spec":{"storageClassName":"standard"},"status":{"phase":"Pending"}}"#;
pub(crate) const WAITS: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"waits","namespace":"shop","uid":"w"},"spec":{"storageClassName":"fast"},"status":{"phase":"Pending"}}"#;
pub(crate) const OTHERS: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"other","namespace":"shop","uid":"o","annotations":{"volume.kubernetes.io/storage-provisioner":"other.example.com"}},"spec":{"storageClassName":"standard"},"status":{"phase":"Pending"}}"#;
pub(crate) const ORPHAN: &str = r#"+ {"apiVersion":"v1","kind":"Pod","metadata":{"name":"orphan","namespace":"shop","uid":"o"},"spec":{"nodeName":"worker-1","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"gone"}}]},"status":{"phase":"Running"}}"#;
pub(crate) const NFS: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"nfs"},"spec":{"mountOptions":["hard"],"nfs":{"server":"10.0.0.1","path":"/exports/vol-9"}},"status":{"phase":"Bound"}}"#;
pub(crate) const POD_NFS: &str = r#"+ {"apiVersion":"v1","kind":"Pod","metadata":{"name":"nfs","namespace":"shop","uid":"o"},"spec":{"volumes":[{"name":"w","emptyDir":{}},{"name":"v","nfs":{"server":"10.0.0.1","path":"/exports/vol-9"}}]}}"#;
pub(crate) const LOST: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"lost","namespace":"shop","uid":"l"},"spec":{"storageClassName":"","volumeName":"gone"},"status":{"phase":"Lost"}}"#;
/// Gives a volume the node affinity of the healthy world's volume: the driver sees that part of the storage.
pub(crate) const ZONE_A: &str = r#"pv pvc-k spec.nodeAffinity = {"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"topology.example.com/zone","operator":"In","values":["a"]}]}]}}"#;
pub(crate) const MANUAL: &str = r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"manual"},"provisioner":"kubernetes.io/no-provisioner"}"#;
/// A PersistentVolume of another driver with a listed handle.
pub(crate) const TWIN_KNOWS: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"twin"},"spec":{"csi":{"driver":"twin.example.com","volumeHandle":"kept-1"}},"status":{"phase":"Bound"}}"#;
pub(crate) const TWIN_WANTED: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"new","namespace":"shop","uid":"n","annotations":{"volume.kubernetes.io/storage-provisioner":"twin.example.com"}},"spec":{"storageClassName":"standard"},"status":{"phase":"Pending"}}"#;
pub(crate) const TWIN_CALLS: &str = r#"+ {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"twin-journal-0","namespace":"storage","annotations":{"csi-sidecars.io/journal":"{\"version\":1,\"driver\":\"twin.example.com\"}","intent.csi-sidecars.io/u-7":"{}"}},"spec":{}}"#;
pub(crate) const FROM_CALL: &str = r#"+ {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"csi-example-com-journal-6","namespace":"storage","annotations":{"csi-sidecars.io/journal":"{\"version\":1,\"driver\":\"csi.example.com\"}","intent.csi-sidecars.io/u-6":"{\"source\":{\"snapshot\":\"sid\"}}"}},"spec":{}}"#;
pub(crate) const HEADERLESS: &str = r#"+ {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"x-journal-5","namespace":"storage","annotations":{"intent.csi-sidecars.io/u-5":"{}"}},"spec":{}}"#;
pub(crate) const FROM_GONE: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"restored","namespace":"shop","uid":"r"},"spec":{"storageClassName":"fast","dataSource":{"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"gone"}},"status":{"phase":"Pending"}}"#;
pub(crate) const EPHEMERAL_STRAY: &str =
    "+ volume csi-e6184ce10e266134fdcfa401e8f1a95005bcd4f18d16b62b757323e2833fe9a9 1";
pub(crate) const BY_NAME: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c","namespace":"shop","uid":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"},"spec":{"storageClassName":"fast"},"status":{"phase":"Pending"}}"#;
pub(crate) const TAKING: &str = r#"+ {"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshotContent","metadata":{"name":"taking","uid":"t"},"spec":{"driver":"csi.example.com","source":{"volumeHandle":"vol-1"}}}"#;
pub(crate) const GROUP: &str = r#"+ {"apiVersion":"groupsnapshot.storage.k8s.io/v1","kind":"VolumeGroupSnapshotContent","metadata":{"name":"g","uid":"g"},"spec":{"driver":"csi.example.com","source":{"volumeHandles":["vol-1"]}}}"#;
/// A new content of a new snapshot.
pub(crate) const TAKING_NEW: &str = r#"+ {"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshotContent","metadata":{"name":"taking","uid":"t"},"spec":{"driver":"csi.example.com","source":{"volumeHandle":"vol-1"},"volumeSnapshotRef":{"uid":"taken"}}}"#;
pub(crate) const SNAP: &str = r#"+ {"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshot","metadata":{"name":"taken","namespace":"shop","uid":"taken"},"spec":{"source":{"persistentVolumeClaimName":"data-db-0"}}}"#;
pub(crate) const GROUP_NEW: &str = r#"+ {"apiVersion":"groupsnapshot.storage.k8s.io/v1","kind":"VolumeGroupSnapshotContent","metadata":{"name":"g","uid":"g"},"spec":{"driver":"csi.example.com","source":{"volumeHandles":["vol-1"]},"volumeGroupSnapshotRef":{"uid":"vgs"}}}"#;
pub(crate) const VGS: &str = r#"+ {"apiVersion":"groupsnapshot.storage.k8s.io/v1","kind":"VolumeGroupSnapshot","metadata":{"name":"v","namespace":"shop","uid":"vgs"},"spec":{"source":{}}}"#;
pub(crate) const SELECTED: &str =
    r#"pvc shop/waits metadata.annotations = {"volume.kubernetes.io/selected-node":"worker-1"}"#;
pub(crate) const HAND_MADE: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"hand"},"spec":{"csi":{"driver":"csi.example.com","volumeHandle":"hand"}},"status":{"phase":"Available"}}"#;
pub(crate) const CALLS_FOR_IT: &str = r#"+ {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"csi-example-com-journal-7","namespace":"storage","annotations":{"csi-sidecars.io/journal":"{\"version\":1,\"driver\":\"csi.example.com\"}","intent.csi-sidecars.io/w":"{}"}},"spec":{}}"#;
pub(crate) const MEMBERS: &str = r#"+ {"apiVersion":"groupsnapshot.storage.k8s.io/v1","kind":"VolumeGroupSnapshotContent","metadata":{"name":"g"},"spec":{"driver":"csi.example.com","source":{}},"status":{"volumeSnapshotInfoList":[{"volumeHandle":"vol-1","snapshotHandle":"s-9"}]}}"#;
pub(crate) const PAIRS: &str = r#"+ {"apiVersion":"groupsnapshot.storage.k8s.io/v1beta1","kind":"VolumeGroupSnapshotContent","metadata":{"name":"g"},"spec":{"driver":"csi.example.com","source":{}},"status":{"volumeSnapshotHandlePairList":[{"volumeHandle":"vol-1","snapshotHandle":"s-9"}]}}"#;
pub(crate) const NAMED: &str = r#"+ {"apiVersion":"groupsnapshot.storage.k8s.io/v1","kind":"VolumeGroupSnapshotContent","metadata":{"name":"g"},"spec":{"driver":"csi.example.com","source":{"groupSnapshotHandles":{"volumeGroupSnapshotHandle":"x","volumeSnapshotHandles":["s-9"]}}}}"#;
pub(crate) const TWIN_SNAPSHOT: &str = r#"+ {"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshotContent","metadata":{"name":"twin"},"spec":{"driver":"twin.example.com","source":{"snapshotHandle":"s-9"}}}"#;
pub(crate) const OF_STRAY: &str = r#"+ {"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshotContent","metadata":{"name":"of"},"spec":{"driver":"csi.example.com","source":{"volumeHandle":"vol-9"}},"status":{"snapshotHandle":"s-1"}}"#;
pub(crate) const GROUP_OF_STRAY: &str = r#"+ {"apiVersion":"groupsnapshot.storage.k8s.io/v1","kind":"VolumeGroupSnapshotContent","metadata":{"name":"of"},"spec":{"driver":"csi.example.com","source":{"volumeHandles":["vol-9"]}},"status":{"volumeSnapshotInfoList":[{"snapshotHandle":"s-1"}]}}"#;
pub(crate) const CALLS: &str = r#"+ {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"csi-example-com-journal-7","namespace":"storage","annotations":{"csi-sidecars.io/journal":"{\"version\":1,\"driver\":\"csi.example.com\"}","intent.csi-sidecars.io/u-7":"{}"}},"spec":{}}"#;
pub(crate) const RESTORED: &str = r#"+ {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"csi-example-com-journal-node-1","namespace":"storage","annotations":{"csi-sidecars.io/journal":"{\"version\":1,\"driver\":\"csi.example.com\"}","restored.csi-sidecars.io/u-8":"{}"}},"spec":{}}"#;
pub(crate) const UNREAD: &str = r#"+ {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"x-journal-0","namespace":"storage","annotations":{"csi-sidecars.io/journal":"{","intent.csi-sidecars.io/u-9":"{"}},"spec":{}}"#;
pub(crate) const OTHER_CALLS: &str = r#"+ {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"other-journal-0","namespace":"storage","annotations":{"csi-sidecars.io/journal":"{\"version\":1,\"driver\":\"other.example.com\"}","intent.csi-sidecars.io/u-7":"{}"}},"spec":{}}"#;
