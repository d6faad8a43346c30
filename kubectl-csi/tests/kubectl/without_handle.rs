//! `kubectl csi audit` and objects that may mean a volume or snapshot without naming it.

use crate::objects::{
    CALLS, CALLS_FOR_IT, EPHEMERAL, EPHEMERAL_STRAY, FROM_CALL, FROM_GONE, GROUP_NEW, HAND_MADE,
    HEADERLESS, HEADLESS, INSTALLED, LOST, MANUAL, NOBODY, ORPHAN, RESTORED, SELECTED, SNAP,
    SNAPSHOT, STRAY, TAKING, TAKING_NEW, TWIN_CALLS, TWIN_KNOWS, TWIN_WANTED, VGS, WAITS, WANTED,
};
use crate::world::{Case, World, check, stored, told};

const CASES: &[Case<'_>] = &[
    (
        "W-51 a claim of a class without a provisioner whose volume is gone",
        &[
            LOST,
            MANUAL,
            r#"pvc shop/lost spec.storageClassName = "manual""#,
        ],
        &[STRAY],
        &["? unknownVolume vol-9 | claim shop/lost names the PersistentVolume gone"],
        1,
    ),
    (
        "W-51 a claim that another driver provisioned whose volume is gone",
        &[
            LOST,
            r#"pvc shop/lost metadata.annotations = {"volume.kubernetes.io/storage-provisioner":"other.example.com"}"#,
        ],
        &[STRAY],
        &["? unknownVolume vol-9 | claim shop/lost names the PersistentVolume gone"],
        1,
    ),
    (
        "W-51 a claim that gets its volume from another name of the storage",
        &[TWIN_KNOWS, INSTALLED, TWIN_WANTED],
        &[STRAY],
        &["? unknownVolume vol-9 | claim shop/new has no PersistentVolume yet"],
        1,
    ),
    (
        "W-51 a snapshot that is being taken under another name of the storage",
        &[
            TWIN_KNOWS,
            INSTALLED,
            TAKING,
            r#"volumesnapshotcontent taking spec.driver = "twin.example.com""#,
        ],
        &[SNAPSHOT],
        &["? unknownSnapshot s-9 | snapshot content taking has no handle yet"],
        1,
    ),
    (
        "W-79 another driver's journal that serves the same storage",
        &[TWIN_KNOWS, INSTALLED, TWIN_CALLS],
        &[STRAY],
        &[
            "? unknownVolume vol-9 | claim with UID u-7",
            "mayExist twin-journal-0 u-7",
        ],
        1,
    ),
    (
        "W-51 a claim whose snapshot is gone",
        &[FROM_GONE],
        &[SNAPSHOT],
        &[
            "? unknownSnapshot s-9 | claim shop/restored is to be filled from the VolumeSnapshot gone, which does not exist",
        ],
        1,
    ),
    (
        "W-51 a claim of another driver whose snapshot is gone",
        &[
            FROM_GONE,
            r#"pvc shop/restored metadata.annotations = {"volume.kubernetes.io/storage-provisioner":"other.example.com"}"#,
        ],
        &[SNAPSHOT],
        &["unknownSnapshot s-9"],
        3,
    ),
    (
        "W-79 a call that is filled from a snapshot",
        &[FROM_CALL],
        &[SNAPSHOT],
        &[
            "? unknownSnapshot s-9 | an open call for the claim with UID u-6, which is to be filled from a snapshot",
            "mayExist csi-example-com-journal-6 u-6",
        ],
        1,
    ),
    (
        "W-79 an entry in a Lease without a header",
        &[HEADERLESS],
        &[STRAY],
        &[
            "? unknownVolume vol-9 | claim with UID u-5",
            "mayExist x-journal-5 u-5",
        ],
        1,
    ),
    (
        "W-51 a pod that is not yet running, or of which nobody knows, with a claim that is gone",
        &[ORPHAN, r#"pod shop/orphan status.phase = "Unknown""#],
        &[STRAY],
        &["? unknownVolume vol-9 | pod shop/orphan runs with the claim gone, which does not exist"],
        1,
    ),
    (
        "W-51 a pod that is over",
        &[ORPHAN, r#"pod shop/orphan status.phase = "Succeeded""#],
        &[STRAY],
        &["unknownVolume vol-9"],
        3,
    ),
    (
        "W-50 what kubelet calls a pod's own volume, and no pod",
        &[],
        &[EPHEMERAL_STRAY],
        &[
            "? unknownVolume csi-e6184ce10e266134fdcfa401e8f1a95005bcd4f18d16b62b757323e2833fe9a9: kubelet names a pod's own volume so, which may still run on a node that does not answer",
        ],
        1,
    ),
    (
        "W-50 a known volume attached to a node of another cluster",
        &[],
        &[
            "- volume vol-1",
            "+ volume vol-1 10 worker-2 elsewhere",
            STRAY,
        ],
        &[
            "? unknownVolume vol-9: another cluster uses the same storage: it has a volume attached to elsewhere, which is no node of this one",
            "? publishedWithoutAttachment vol-1: elsewhere is no node of this cluster: another one uses the same storage, or the driver has two spellings for a node",
        ],
        1,
    ),
    (
        "W-50 what another name of the driver has, and nobody lists",
        &[
            TWIN_KNOWS,
            INSTALLED,
            r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"unlisted"},"spec":{"csi":{"driver":"twin.example.com","volumeHandle":"t-1"}},"status":{"phase":"Bound"}}"#,
        ],
        &[STRAY],
        &[
            "? unknownVolume vol-9: the driver does not list what volume unlisted names: this may be it",
        ],
        1,
    ),
    (
        "W-50 what another driver has, and nobody lists",
        &[
            r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"unlisted"},"spec":{"csi":{"driver":"twin.example.com","volumeHandle":"t-1"}},"status":{"phase":"Bound"}}"#,
            INSTALLED,
        ],
        &[STRAY],
        &["unknownVolume vol-9"],
        3,
    ),
    (
        "W-50 a pod's own volume in a folder, and no pod",
        &[],
        &["+ volume pool/csi-e6184ce10e266134fdcfa401e8f1a95005bcd4f18d16b62b757323e2833fe9a9 1"],
        &["? unknownVolume pool/csi-e6184ce1 | kubelet names a pod's own volume so"],
        1,
    ),
    (
        "W-50 the same with a share before it and something behind it",
        &[],
        &[
            "+ volume nas#share#csi-e6184ce10e266134fdcfa401e8f1a95005bcd4f18d16b62b757323e2833fe9a9#old 1",
        ],
        &["? unknownVolume nas#share#csi-e6184ce1 | kubelet names a pod's own volume so"],
        1,
    ),
    (
        "W-50 contents in a version that is not looked at",
        &["!volumesnapshotcontents"],
        &[STRAY, "- snapshot s-1", "- snapshot kept-s"],
        &[
            "? unknownVolume vol-9: the API server does not serve volumesnapshotcontents in a version that is looked at",
        ],
        1,
    ),
    (
        "W-50 contents of groups in a version that is not looked at",
        &["!volumegroupsnapshotcontents"],
        &[STRAY],
        &[
            "? unknownVolume vol-9: the API server does not serve volumegroupsnapshotcontents in a version that is looked at",
        ],
        1,
    ),
    (
        "W-50 a cluster without snapshots",
        &[
            "!volumesnapshots",
            "!volumesnapshotcontents",
            "!volumegroupsnapshots",
            "!volumegroupsnapshotcontents",
        ],
        &[STRAY, "- snapshot s-1", "- snapshot kept-s"],
        &["unknownVolume vol-9"],
        3,
    ),
    (
        "W-58 contents of groups in a version that is not looked at",
        &["!volumegroupsnapshotcontents"],
        &[SNAPSHOT],
        &["? unknownSnapshot s-9 | does not serve volumegroupsnapshotcontents"],
        1,
    ),
    (
        "W-58 a cluster without groups, and a driver with them",
        &["!volumegroupsnapshotcontents", "!volumegroupsnapshots"],
        &["+ snapshot s-9 1 group=g-1"],
        &["? unknownSnapshot s-9 | does not serve volumegroupsnapshotcontents"],
        1,
    ),
    (
        "W-58 a cluster without groups",
        &["!volumegroupsnapshotcontents", "!volumegroupsnapshots"],
        &[SNAPSHOT],
        &["unknownSnapshot s-9"],
        3,
    ),
];

#[test]
fn w_50_w_51_w_58_w_79_what_may_be_meant_is_not_called_unknown() {
    check(CASES);
}

const UNKNOWN_VOLUME: &str = "unknownVolume vol-9";
const UNKNOWN_SNAPSHOT: &str = "unknownSnapshot s-9";

/// Objects at the first look, objects at the second, and which volumes and snapshots may still be called unknown.
type Looks<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str]);

const LOOKS: &[Looks<'_>] = &[
    (
        &[],
        &[WANTED, SNAP, TAKING_NEW, VGS, GROUP_NEW],
        &[UNKNOWN_VOLUME, UNKNOWN_SNAPSHOT],
    ),
    (
        &[],
        &[WAITS, CALLS_FOR_IT],
        &[UNKNOWN_VOLUME, UNKNOWN_SNAPSHOT],
    ),
    (&[WANTED], &[], &[UNKNOWN_VOLUME, UNKNOWN_SNAPSHOT]),
    (
        &[SNAP, TAKING_NEW],
        &[],
        &[UNKNOWN_VOLUME, UNKNOWN_SNAPSHOT],
    ),
    // Gone at the second look, and possibly about an old volume or snapshot.
    (&[TAKING], &[], &[UNKNOWN_VOLUME]),
    (&[HEADLESS], &[], &[UNKNOWN_SNAPSHOT]),
    (&[EPHEMERAL], &[], &[UNKNOWN_SNAPSHOT]),
    (&[CALLS], &[], &[UNKNOWN_SNAPSHOT]),
    // New, but the object that they are for does not exist.
    (&[], &[CALLS], &[UNKNOWN_SNAPSHOT]),
    (&[], &[TAKING_NEW], &[UNKNOWN_VOLUME]),
    (&[], &[GROUP_NEW], &[UNKNOWN_VOLUME]),
    // An entry restored from a backup, alone and together with a current entry.
    (
        &[],
        &[WAITS, r#"pvc shop/waits metadata.uid = "u-8""#, RESTORED],
        &[UNKNOWN_SNAPSHOT],
    ),
    (
        &[],
        &[
            WAITS,
            r#"pvc shop/waits metadata.uid = "u-8""#,
            RESTORED,
            r#"lease storage/csi-example-com-journal-node-1 metadata.annotations = {"csi-sidecars.io/journal":"{\"version\":1,\"driver\":\"csi.example.com\"}","restored.csi-sidecars.io/u-8":"{}","intent.csi-sidecars.io/u-8":"{}"}"#,
        ],
        &[UNKNOWN_SNAPSHOT],
    ),
    // Deleted and created again.
    (
        &[WANTED],
        &[WANTED, r#"pvc shop/new metadata.uid = "n2""#],
        &[UNKNOWN_VOLUME, UNKNOWN_SNAPSHOT],
    ),
    // New objects, which may refer to something old.
    (&[], &[LOST], &[UNKNOWN_SNAPSHOT]),
    (&[], &[HEADLESS], &[UNKNOWN_SNAPSHOT]),
    (&[], &[EPHEMERAL], &[UNKNOWN_SNAPSHOT]),
    (&[], &[ORPHAN], &[UNKNOWN_SNAPSHOT]),
    (&[], &[HAND_MADE], &[UNKNOWN_SNAPSHOT]),
    (&[], &[FROM_CALL], &[]),
    (&[], &[FROM_GONE], &[UNKNOWN_VOLUME]),
    (
        &[],
        &[r#"vs shop/snap status.boundVolumeSnapshotContentName = "gone""#],
        &[UNKNOWN_VOLUME],
    ),
    (
        &[],
        &[TAKING, "volumesnapshotcontent taking spec.source = {}"],
        &[UNKNOWN_VOLUME],
    ),
    // One object counts at the first look, another at the second.
    (&[LOST], &[ORPHAN], &[UNKNOWN_SNAPSHOT]),
    // Old objects; only the second look shows that something is being created for them.
    (&[WAITS], &[WAITS, SELECTED], &[UNKNOWN_SNAPSHOT]),
    (&[SNAP], &[SNAP, TAKING_NEW], &[UNKNOWN_VOLUME]),
    (&[VGS], &[VGS, GROUP_NEW], &[UNKNOWN_VOLUME]),
    (&[WAITS], &[WAITS, CALLS_FOR_IT], &[UNKNOWN_SNAPSHOT]),
    // Without a UID the object may be new or old.
    (
        &[],
        &[WANTED, "pvc shop/new metadata.uid"],
        &[UNKNOWN_SNAPSHOT],
    ),
    (&[], &[TAKING], &[UNKNOWN_VOLUME]),
];

/// A volume that is being created for a new object cannot be one that existed before. But a new object may refer to an
/// old volume, and an old object to any.
#[test]
fn w_51_what_says_nothing_of_its_handle_counts_unless_it_is_made_for_a_new_object() {
    let world = |edits: &[&str]| {
        let mut world = World::two();
        edits.iter().for_each(|edit| world.edit(edit));
        world
    };
    let storage = stored(&[STRAY, SNAPSHOT]);
    for (first, second, expected) in LOOKS {
        let before = world(first).audited(&storage, "", None).0;
        let audit = world(second).again(&storage, "", &before);
        let told = told(&audit);
        let told: Vec<&String> = { told.iter() }
            .filter(|one| one.starts_with("unknown"))
            .collect();
        assert_eq!(told, *expected, "{first:?} {second:?}");
        assert_eq!(audit.undecided.len(), 2 - expected.len(), "{second:?}");
    }
    // A reason against it at one look still holds at the other.
    let first = world(&["!pods"]).audited(&storage, "", None).0;
    let audit = world(&[]).again(&storage, "", &first);
    assert_eq!(audit.code(), 3, "the snapshot");
    assert_eq!(audit.undecided.len(), 1, "{:?}", told(&audit));
    // The second look shows that the driver belongs to another cluster.
    let first = world(&[]).audited(&storage, "", None).0;
    let audit = world(NOBODY).again(&storage, "", &first);
    assert!(
        audit.differences.is_empty() && audit.code() == 4,
        "{:?}",
        told(&audit)
    );
}
