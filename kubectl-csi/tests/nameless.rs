//! `kubectl csi audit` and objects that may mean a volume or snapshot without naming it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong here is a failed test"
)]

#[path = "worlds/objects.rs"]
mod objects;
#[path = "worlds/world.rs"]
mod world;

use objects::{
    CALLS, CALLS_FOR_IT, EPHEMERAL, EPHEMERAL_STRAY, FROM_CALL, FROM_GONE, GROUP_NEW, HAND_MADE,
    HEADERLESS, HEADLESS, INSTALLED, LOST, MANUAL, NOBODY, ORPHAN, SELECTED, SNAP, SNAPSHOT, STRAY,
    TAKING, TAKING_NEW, TWIN_CALLS, TWIN_KNOWS, TWIN_WANTED, VGS, WAITS, WANTED,
};
use world::{Case, World, check, stored, told};

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
            "publishedWithoutAttachment vol-1 elsewhere",
            "? unknownVolume vol-9: another cluster uses the same storage: it has a volume attached to elsewhere, which is no node of this one",
        ],
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

/// What is made for a new object is not what was there before it. But a new object may be about an old volume, and an old one about any.
#[test]
fn w_51_what_says_nothing_of_its_handle_counts_unless_it_is_made_for_a_new_object() {
    let world = |edits: &[&str]| {
        let mut world = World::two();
        edits.iter().for_each(|edit| world.edit(edit));
        world
    };
    let storage = stored(&[STRAY, SNAPSHOT]);
    let volume = "unknownVolume vol-9";
    let snapshot = "unknownSnapshot s-9";
    // Objects at the first look, at the second, and what may be unknown still.
    let looks: &[(&[&str], &[&str], &[&str])] = &[
        (&[], &[WANTED, TAKING_NEW, GROUP_NEW], &[volume, snapshot]),
        (&[], &[CALLS], &[volume, snapshot]),
        (
            &[WANTED, TAKING, HEADLESS, EPHEMERAL],
            &[],
            &[volume, snapshot],
        ),
        // Deleted, and made again.
        (
            &[WANTED],
            &[WANTED, r#"pvc shop/new metadata.uid = "n2""#],
            &[volume, snapshot],
        ),
        // New objects, which may be about something old.
        (&[], &[LOST], &[snapshot]),
        (&[], &[HEADLESS], &[snapshot]),
        (&[], &[EPHEMERAL], &[snapshot]),
        (&[], &[ORPHAN], &[snapshot]),
        (&[], &[HAND_MADE], &[snapshot]),
        (&[], &[FROM_CALL], &[volume]),
        (&[], &[FROM_GONE], &[volume]),
        (
            &[],
            &[r#"vs shop/snap status.boundVolumeSnapshotContentName = "gone""#],
            &[volume],
        ),
        (
            &[],
            &[TAKING, "volumesnapshotcontent taking spec.source = {}"],
            &[volume],
        ),
        // One object speaks at the first look, another one at the second.
        (&[LOST], &[ORPHAN], &[snapshot]),
        // Old objects, of which only the second look says that something is made for them.
        (&[WAITS], &[WAITS, SELECTED], &[snapshot]),
        (&[SNAP], &[SNAP, TAKING_NEW], &[volume]),
        (&[VGS], &[VGS, GROUP_NEW], &[volume]),
        (&[WAITS], &[WAITS, CALLS_FOR_IT], &[snapshot]),
        // Without a UID nobody knows.
        (&[], &[WANTED, "pvc shop/new metadata.uid"], &[snapshot]),
        (&[], &[TAKING], &[volume]),
    ];
    for (first, second, expected) in looks {
        let before = world(first).audited(&storage, "", None).0;
        let audit = world(second).again(&storage, "", &before);
        let told = told(&audit);
        let told: Vec<&String> = { told.iter() }
            .filter(|one| one.starts_with("unknown"))
            .collect();
        assert_eq!(told, *expected, "{first:?} {second:?}");
        assert_eq!(audit.undecided.len(), 2 - expected.len(), "{second:?}");
    }
    // What speaks against it at one look is not forgotten at the other.
    let first = world(&["!pods"]).audited(&storage, "", None).0;
    let audit = world(&[]).again(&storage, "", &first);
    assert_eq!(audit.code(), 3, "the snapshot");
    assert_eq!(audit.undecided.len(), 1, "{:?}", told(&audit));
    // The second look says that it is another cluster's driver.
    let first = world(&[]).audited(&storage, "", None).0;
    let audit = world(NOBODY).again(&storage, "", &first);
    assert!(
        audit.differences.is_empty() && audit.code() == 4,
        "{:?}",
        told(&audit)
    );
}
