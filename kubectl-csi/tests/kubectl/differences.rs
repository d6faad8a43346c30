//! The differences that `kubectl csi audit` finds, as a table of worlds and storages.

use crate::world::{Case, World, check, stored, told};
use kubectl_csi::model::Kind;

const JOURNAL: &str = r#"+ {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"csi-example-com-journal-0","namespace":"storage","annotations":{"csi-sidecars.io/journal":"{}","intent.csi-sidecars.io/u-1":"{}"}},"spec":{}}"#;
const MEMBER: &str = r#"+ {"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshotContent","metadata":{"name":"member"},"spec":{"driver":"csi.example.com","source":{"volumeHandle":"vol-1"},"volumeSnapshotRef":{"namespace":"shop","name":"member"}},"status":{"snapshotHandle":"s-2","volumeGroupSnapshotHandle":"g-1"}}"#;
const FOREIGN: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"foreign"},"spec":{"csi":{"driver":"gone.example.com","volumeHandle":"x"}},"status":{"phase":"Bound"}}"#;
/// Gives a volume the node affinity of the healthy world's volume: the driver sees that part of the storage.
const ZONE_A: &str = r#"pv pvc-k spec.nodeAffinity = {"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"topology.example.com/zone","operator":"In","values":["a"]}]}]}}"#;
const SAME: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"same"},"spec":{"csi":{"driver":"csi.example.com","volumeHandle":"vol-1"}},"status":{"phase":"Bound"}}"#;
const SAME_ATTACHED: &str = r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"same"},"spec":{"attacher":"twin.example.com","nodeName":"worker-1","source":{"persistentVolumeName":"same"}},"status":{"attached":true}}"#;
const TWIN_KNOWS: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"twin"},"spec":{"csi":{"driver":"twin.example.com","volumeHandle":"kept-1"}},"status":{"phase":"Bound"}}"#;
const TWIN_INSTALLED: &str = r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"twin.example.com"},"spec":{}}"#;
const USER: &str = r#"+ {"apiVersion":"v1","kind":"Pod","metadata":{"name":"user","namespace":"shop","uid":"u2"},"spec":{"nodeName":"worker-1","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data-db-0"}}]},"status":{"phase":"Running"}}"#;
const INLINE: &str = r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"inline"},"spec":{"attacher":"csi.example.com","nodeName":"worker-1","source":{"inlineVolumeSpec":{"csi":{"driver":"csi.example.com","volumeHandle":"vol-1"}}}}}"#;
const STATIC: &str = r#"+ {"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshotContent","metadata":{"name":"static"},"spec":{"driver":"csi.example.com","source":{"snapshotHandle":"s-9"}}}"#;

const CASES: &[Case<'_>] = &[
    ("W-50 nothing", &[], &[], &[], 0),
    (
        "W-50 unknown",
        &[],
        &["+ volume vol-9 5"],
        &["unknownVolume vol-9"],
        3,
    ),
    (
        "W-50 lost",
        &["- va csi-c4", "- pod shop/db-0", ZONE_A],
        &["- volume vol-1"],
        &["lostVolume vol-1"],
        3,
    ),
    (
        "W-50 lost, and attached",
        &[ZONE_A],
        &["- volume vol-1", "x volume vol-1"],
        &[
            "? lostVolume vol-1 | attachment csi-ffdaad03ba65c0273b452bfb60922c9f475ab4de47ee85f23955e0c1794651c0 has it attached or in use",
        ],
        1,
    ),
    (
        "W-50 lost, and in use on a node",
        &[
            "- va csi-c4",
            "- pod shop/db-0",
            ZONE_A,
            r#"node worker-2 status.volumesInUse = ["kubernetes.io/csi/csi.example.com^vol-1"]"#,
        ],
        &["- volume vol-1"],
        &["? lostVolume vol-1: node worker-2 has it attached or in use"],
        1,
    ),
    (
        "W-50 lost, and a pod runs with it",
        &["- va csi-c4", ZONE_A],
        &["- volume vol-1", "x volume vol-1"],
        &["? lostVolume vol-1: pod shop/db-0 has it attached or in use"],
        1,
    ),
    (
        "W-50 lost, and the pod is over",
        &[
            "- va csi-c4",
            ZONE_A,
            r#"pod shop/db-0 status.phase = "Succeeded""#,
        ],
        &["- volume vol-1", "x volume vol-1"],
        &["lostVolume vol-1"],
        3,
    ),
    (
        "W-50 lost, and of a part of the storage of which nothing is listed",
        &["- va csi-c4", "- pod shop/db-0"],
        &["- volume vol-1", "x volume vol-1"],
        &[
            "? lostVolume vol-1: the driver has no volume that the same nodes reach, and may see another part of the storage",
        ],
        1,
    ),
    (
        "W-53 asked for, and of another part of the storage",
        &["- va csi-c4", "- pod shop/db-0"],
        &["?volumes vol-1"],
        &[
            "? lostVolume vol-1: the driver has no volume that the same nodes reach, and may see another part of the storage",
            "unseen: volumes that this cluster does not know",
        ],
        1,
    ),
    (
        "W-50 both",
        &["- va csi-c4", "- pod shop/db-0", ZONE_A],
        &["- volume vol-1", "x volume vol-1", "+ volume vol-9 1"],
        &["unknownVolume vol-9", "lostVolume vol-1"],
        3,
    ),
    (
        "W-51 being deleted",
        &[r#"pv pvc-1 metadata.deletionTimestamp = "2026-11-27T14:00:00Z""#],
        &["- volume vol-1"],
        &[],
        0,
    ),
    (
        "W-51 released, about to be deleted",
        &[r#"pv pvc-1 status.phase = "Released""#],
        &["- volume vol-1"],
        &[],
        0,
    ),
    (
        "W-50 released, kept, and lost",
        &[
            r#"pv pvc-1 status.phase = "Released""#,
            r#"pv pvc-1 spec.persistentVolumeReclaimPolicy = "Retain""#,
            "- va csi-c4",
            "- pod shop/db-0",
            ZONE_A,
        ],
        &["- volume vol-1"],
        &["lostVolume vol-1", "kept pvc-1"],
        3,
    ),
    (
        "5.1 another size",
        &[],
        &["- volume vol-1", "+ volume vol-1 11 worker-2"],
        &["otherSize vol-1"],
        3,
    ),
    (
        "5.1 a driver that says no size",
        &[],
        &["- volume vol-1", "+ volume vol-1 0 worker-2"],
        &[],
        0,
    ),
    (
        "W-53 no list, asked for each",
        &["- va csi-c4", "- pod shop/db-0", ZONE_A],
        &["?volumes vol-1"],
        &[
            "lostVolume vol-1",
            "unseen: volumes that this cluster does not know",
        ],
        3,
    ),
    (
        "W-53 no list, all there",
        &[],
        &["?volumes vol-0"],
        &["unseen: volumes that this cluster does not know"],
        1,
    ),
    (
        "W-53 neither",
        &[],
        &["!volumes"],
        &["refused: the driver does not list them"],
        4,
    ),
    (
        "W-55 published elsewhere, too",
        &[],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &["publishedWithoutAttachment vol-1 worker-1"],
        3,
    ),
    (
        "W-55 published where another PersistentVolume of the volume is attached",
        &[SAME, SAME_ATTACHED],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &[],
        0,
    ),
    (
        "W-55 published where another driver's PersistentVolume of the volume is attached",
        &[
            SAME,
            r#"pv same spec.csi.driver = "twin.example.com""#,
            r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"twin.example.com"},"spec":{}}"#,
            SAME_ATTACHED,
        ],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &[],
        0,
    ),
    (
        "W-55 published where a volume without a PersistentVolume is attached",
        &[INLINE],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &[],
        0,
    ),
    (
        "W-55 published where an attachment has lost its PersistentVolume",
        &[
            r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"headless"},"spec":{"attacher":"csi.example.com","nodeName":"worker-1","source":{"persistentVolumeName":"gone"}}}"#,
        ],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &[],
        0,
    ),
    (
        "W-55 published elsewhere, and two PersistentVolumes of the volume",
        &[SAME],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &["publishedWithoutAttachment vol-1 worker-1"],
        3,
    ),
    (
        "W-55 published where another PersistentVolume is attached whose handle is not listed",
        &[
            SAME,
            r#"pv same spec.csi.volumeHandle = "pool/vol-1""#,
            r#"pv same status.phase = "Failed""#,
            r#"pv same spec.persistentVolumeReclaimPolicy = "Delete""#,
            SAME_ATTACHED,
            r#"va same spec.attacher = "csi.example.com""#,
        ],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &[],
        0,
    ),
    (
        "W-55 published where a driver's other name has an attachment whose handle is not listed",
        &[
            TWIN_KNOWS,
            TWIN_INSTALLED,
            SAME,
            r#"pv same spec.csi = {"driver":"twin.example.com","volumeHandle":"t-1"}"#,
            SAME_ATTACHED,
        ],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &[],
        0,
    ),
    (
        "W-55 published where another driver has an attachment whose handle is not listed",
        &[
            TWIN_INSTALLED,
            SAME,
            r#"pv same spec.csi = {"driver":"twin.example.com","volumeHandle":"t-1"}"#,
            SAME_ATTACHED,
        ],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &["publishedWithoutAttachment vol-1 worker-1"],
        3,
    ),
    (
        "W-55 published under the name that a node has for the driver's other name",
        &[
            TWIN_KNOWS,
            TWIN_INSTALLED,
            r#"csinode worker-1 spec.drivers = [{"name":"twin.example.com","nodeID":"t-worker-1"}]"#,
        ],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 t-worker-1"],
        &["publishedWithoutAttachment vol-1 t-worker-1"],
        3,
    ),
    (
        "W-55 published, and the driver's volumes are not attached",
        &["csidriver csi.example.com spec.attachRequired = false"],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &[],
        0,
    ),
    (
        "W-55 published where a node has it in use",
        &[r#"node worker-1 status.volumesInUse = ["kubernetes.io/csi/csi.example.com^vol-1"]"#],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &["? publishedWithoutAttachment vol-1: node worker-1 has it attached or in use"],
        1,
    ),
    (
        "W-55 published where a node has it attached",
        &[
            r#"node worker-1 status.volumesAttached = [{"name":"kubernetes.io/csi/csi.example.com^vol-1","devicePath":""}]"#,
        ],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &["? publishedWithoutAttachment vol-1: node worker-1 has it attached or in use"],
        1,
    ),
    (
        "W-55 published where a pod runs with it",
        &[USER],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &["? publishedWithoutAttachment vol-1: pod shop/user has it attached or in use"],
        1,
    ),
    (
        "W-55 published where a pod ran with it",
        &[USER, r#"pod shop/user status.phase = "Failed""#],
        &["- volume vol-1", "+ volume vol-1 10 worker-2 worker-1"],
        &["publishedWithoutAttachment vol-1 worker-1"],
        3,
    ),
    (
        "W-55 not published there, but to a node that nobody knows",
        &[],
        &["- volume vol-1", "+ volume vol-1 10 WORKER-2"],
        &[
            "? publishedWithoutAttachment vol-1: WORKER-2 is no node | ",
            "? attachmentNotPublished vol-1: the storage has it attached to WORKER-2, which is no node of this cluster: the driver may have two spellings for a node",
        ],
        1,
    ),
    (
        "W-55 not published",
        &[],
        &["- volume vol-1", "+ volume vol-1 10"],
        &["attachmentNotPublished vol-1 worker-2"],
        3,
    ),
    (
        "W-55 being attached",
        &["va csi-c4 status.attached = false"],
        &["- volume vol-1", "+ volume vol-1 10"],
        &[],
        0,
    ),
    (
        "W-55 being detached",
        &[r#"va csi-c4 metadata.deletionTimestamp = "2026-11-27T14:00:00Z""#],
        &["- volume vol-1", "+ volume vol-1 10"],
        &[],
        0,
    ),
    (
        "W-55 a node whose id nobody knows",
        &["- csinode worker-2"],
        &["- volume vol-1", "+ volume vol-1 10 i-2"],
        &[],
        0,
    ),
    (
        "W-58 unknown",
        &[],
        &["+ snapshot s-9"],
        &["unknownSnapshot s-9"],
        3,
    ),
    (
        "W-58 lost",
        &[],
        &["- snapshot s-1"],
        &["lostSnapshot s-1"],
        3,
    ),
    (
        "W-58 lost, and its volume is not listed",
        &["volumesnapshotcontent snapcontent-1 spec.source.volumeHandle = \"gone\""],
        &["- snapshot s-1"],
        &[
            "? lostSnapshot s-1: the driver does not list the volume that it is taken of, and may see another part of the storage",
        ],
        1,
    ),
    (
        "W-58 lost, and no volumes are listed",
        &[],
        &["- snapshot s-1", "?volumes vol-0"],
        &[
            "? lostSnapshot s-1: the driver does not list its volumes, and may see another part of the storage",
            "unseen: volumes that this cluster does not know",
        ],
        1,
    ),
    ("W-58 made by hand", &[STATIC], &["+ snapshot s-9"], &[], 0),
    (
        "W-58 made by hand, lost",
        &[STATIC],
        &[],
        &[
            "? lostSnapshot s-9 | a person wrote its handle, and the driver may have it under another one",
        ],
        1,
    ),
    (
        "W-58 being made",
        &["volumesnapshotcontent snapcontent-1 status.readyToUse = false"],
        &["- snapshot s-1"],
        &["? lostSnapshot s-1: its content is not ready to use: it may still be in the making"],
        1,
    ),
    (
        "W-58 being made, asked for each",
        &["volumesnapshotcontent snapcontent-1 status.readyToUse = false"],
        &["?snapshots s-1"],
        &["? lostSnapshot s-1: its content is not ready to use: it may still be in the making"],
        1,
    ),
    (
        "W-58 being deleted",
        &[
            r#"volumesnapshotcontent snapcontent-1 metadata.deletionTimestamp = "2026-11-27T14:00:00Z""#,
        ],
        &["- snapshot s-1"],
        &[],
        0,
    ),
    (
        "W-58 no list, asked for each",
        &[],
        &["?snapshots s-1"],
        &["lostSnapshot s-1"],
        3,
    ),
    (
        "W-58 no list",
        &[],
        &["!snapshots"],
        &["unseen: snapshots"],
        1,
    ),
    (
        "W-58 no list and no snapshots",
        &[
            "- volumesnapshotcontent snapcontent-1",
            "- volumesnapshotcontent content-k",
        ],
        &["!snapshots"],
        &[],
        0,
    ),
    (
        "W-58 a cluster without snapshots",
        &["!volumesnapshotcontents", "!volumegroupsnapshotcontents"],
        &["- snapshot s-1", "- snapshot kept-s"],
        &[],
        0,
    ),
    (
        "W-79 a member of a group counts once",
        &[MEMBER],
        &["+ snapshot s-2"],
        &[],
        0,
    ),
    (
        "W-79 an unknown group is its members",
        &[],
        &["+ snapshot s-2", "+ snapshot s-3"],
        &["unknownSnapshot s-2", "unknownSnapshot s-3"],
        3,
    ),
    (
        "W-79 an open intent",
        &[JOURNAL],
        &["+ volume pvc-u-1 1", "+ volume vol-9 1"],
        &[
            "? unknownVolume pvc-u-1 | its handle has a name or the UID of lease storage/csi-example-com-journal-0 in it",
            "? unknownVolume vol-9 | csi-provisioner's journal has an open call for the claim with UID u-1",
            "mayExist csi-example-com-journal-0 u-1",
        ],
        1,
    ),
    (
        "5.2 a driver that is gone",
        &[FOREIGN],
        &[],
        &["driverless foreign gone.example.com"],
        0,
    ),
    (
        "5.2 a node that is gone",
        &["- node worker-2"],
        &[],
        &["nodeless csi-ffdaad03ba65c0273b452bfb60922c9f475ab4de47ee85f23955e0c1794651c0 worker-2"],
        0,
    ),
    (
        "5.2 a claim that nobody uses",
        &[
            r#"pvc shop/data-db-0 status.conditions = [{"type":"Unused","status":"True","lastTransitionTime":"2026-01-02T00:00:00Z"}]"#,
        ],
        &[],
        &["unused data-db-0"],
        0,
    ),
];

#[test]
fn w_50_w_51_w_53_w_55_w_58_w_79_what_differs_is_told_and_nothing_else() {
    check(CASES);
}

/// A missing permission never makes a volume unknown, lost or published without an attachment.
#[test]
fn w_25_w_50_without_a_permission_nothing_differs() {
    let storage = stored(&[
        "- volume vol-1",
        "+ volume vol-1 10 worker-2 worker-1",
        "+ volume vol-9 1",
        "+ snapshot s-9",
    ]);
    let published = "publishedWithoutAttachment vol-1";
    let (volume, snapshot) = ("unknownVolume vol-9", "unknownSnapshot s-9");
    // With all permissions, all three differ.
    let all = World::two().audit(&storage, "");
    assert_eq!(all.differences.len(), 3, "{volume}: {all:?}");
    // The differences that remain when objects of that kind cannot be read.
    let rows: [(Kind, &[&str], u8); 9] = [
        (Kind::Driver, &[volume, snapshot], 3),
        (Kind::Pod, &[snapshot], 3),
        (Kind::Volume, &[], 4),
        (Kind::Attachment, &[snapshot], 3),
        (Kind::CsiNode, &[], 1),
        (Kind::Content, &[published], 3),
        (Kind::Lease, &[published], 3),
        (Kind::Node, &[snapshot], 3),
        (Kind::Claim, &[published], 3),
    ];
    for (kind, expected, code) in rows {
        let mut world = World::two();
        world.forbidden.insert(kind);
        let audit = world.audit(&storage, "");
        let found = audit.differences.iter();
        let found = found.map(|one| format!("{} {}", one.kind.word(), one.handle));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{kind:?}: {audit:?}");
        assert_eq!(audit.code(), code, "{kind:?}: {audit:?}");
        let named = audit
            .unseen
            .iter()
            .any(|(what, _)| what.contains(kind.plural()) || what.starts_with(kind.name()));
        assert!(named, "{kind:?}: {:?}", audit.unseen);
    }
}

#[test]
fn w_51_only_what_differs_twice_is_a_finding() {
    let world = World::two();
    let looks = [
        (&["+ volume a 1"][..], &["+ volume b 1"][..], &[][..]),
        (&["+ volume a 1"], &[], &[]),
        (&[], &["+ volume a 1"], &[]),
        (&["+ volume a 1"], &["+ volume a 2"], &["unknownVolume a"]),
    ];
    for (first, second, expected) in looks {
        let first = world.audit(&stored(first), "");
        let audit = world.audit(&stored(second), "").confirms(&first);
        assert_eq!(told(&audit), expected);
    }
}

#[test]
fn handles_of_others_are_counted_and_not_listed() {
    let edits = [
        "+ volume prod-1 1",
        "+ volume test-1 1",
        "+ snapshot test-2",
    ];
    let audit = World::two().audit(&stored(&edits), "prod-");
    assert_eq!(told(&audit), ["unknownVolume prod-1"]);
    assert_eq!(audit.others, 2);
}

/// The number of objects that a comparison iterates over: each kind once or twice, not once per volume.
#[test]
fn w_56_the_work_grows_with_the_volumes_and_no_faster() {
    let visited = [50, 100, 200].map(|copies| {
        let mut world = World::two().times(copies);
        let mut edits = Vec::new();
        for copy in 0..copies {
            let handle = format!("vol-1-{copy}");
            world.edit(&format!(
                "pv pvc-1-{copy} spec.csi.volumeHandle = \"{handle}\""
            ));
            edits.push(format!("+ volume {handle} 10 worker-2"));
            edits.push(format!("+ volume stray-{copy} 1"));
        }
        let edits: Vec<&str> = edits.iter().map(String::as_str).collect();
        let (audit, visited) = world.audited(&stored(&edits), "", None);
        // Every stray, and vol-1, whose PersistentVolume now names another volume.
        let unknown = audit.differences.len() + audit.undecided.len();
        assert_eq!(unknown, copies + 1, "{audit:?}");
        visited
    });
    let [first, second, third] = visited;
    assert!(
        (third - second) * 10 <= (second - first) * 22,
        "{visited:?}"
    );
}
