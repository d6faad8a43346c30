//! `kubectl csi audit`: what differs, as a table of worlds and storages, and the built program between a model API server and a model driver.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong here is a failed test"
)]

#[path = "worlds/world.rs"]
mod world;

use std::process::{Command, Output};

use kubectl_csi::model::Kind;
use serde_json::{Value, json};
use sidecar_testkit::api::FakeApi;
use sidecar_testkit::api::fault::{Fault, Gate};
use sidecar_testkit::driver::fault::CallFault;
use sidecar_testkit::driver::{ControllerRpc, FakeDriver};
use tonic::Code;
use world::{Case, World, check, stored, told};

const DRIVER: &str = "csi.example.com";

const JOURNAL: &str = r#"+ {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"csi-example-com-journal-0","namespace":"storage","annotations":{"csi-sidecars.io/journal":"{}","intent.csi-sidecars.io/u-1":"{}"}},"spec":{}}"#;
const MEMBER: &str = r#"+ {"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshotContent","metadata":{"name":"member"},"spec":{"driver":"csi.example.com","source":{"volumeHandle":"vol-1"},"volumeSnapshotRef":{"namespace":"shop","name":"member"}},"status":{"snapshotHandle":"s-2","volumeGroupSnapshotHandle":"g-1"}}"#;
const FOREIGN: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"foreign"},"spec":{"csi":{"driver":"gone.example.com","volumeHandle":"x"}},"status":{"phase":"Bound"}}"#;
/// A volume that the same nodes reach as that of the healthy world: the driver sees that part of the storage.
const ZONE_A: &str = r#"pv pvc-k spec.nodeAffinity = {"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"topology.example.com/zone","operator":"In","values":["a"]}]}]}}"#;
const SAME: &str = r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"same"},"spec":{"csi":{"driver":"csi.example.com","volumeHandle":"vol-1"}},"status":{"phase":"Bound"}}"#;
const SAME_ATTACHED: &str = r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"same"},"spec":{"attacher":"twin.example.com","nodeName":"worker-1","source":{"persistentVolumeName":"same"}},"status":{"attached":true}}"#;
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
        &["- va csi-c4", ZONE_A],
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
            ZONE_A,
            r#"node worker-2 status.volumesInUse = ["kubernetes.io/csi/csi.example.com^vol-1"]"#,
        ],
        &["- volume vol-1"],
        &["? lostVolume vol-1: node worker-2 has it attached or in use"],
        1,
    ),
    (
        "W-50 lost, and of a part of the storage of which nothing is listed",
        &["- va csi-c4"],
        &["- volume vol-1", "x volume vol-1"],
        &[
            "? lostVolume vol-1: the driver has no volume that the same nodes reach, and may see another part of the storage",
        ],
        1,
    ),
    (
        "W-53 asked for, and of another part of the storage",
        &["- va csi-c4"],
        &["?volumes vol-1"],
        &[
            "? lostVolume vol-1: the driver has no volume that the same nodes reach, and may see another part of the storage",
            "unseen: volumes that this cluster does not know",
        ],
        1,
    ),
    (
        "W-50 both",
        &["- va csi-c4", ZONE_A],
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
        &["- va csi-c4", ZONE_A],
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
    ("W-58 made by hand", &[STATIC], &["+ snapshot s-9"], &[], 0),
    (
        "W-58 made by hand, lost",
        &[STATIC],
        &[],
        &[
            "? lostSnapshot s-9 | a person wrote its handle, and the driver may list it under another one",
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

/// Nothing is unknown, lost or published on its own because somebody may not look.
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
    // With all permissions all three differ.
    let all = World::two().audit(&storage, "");
    assert_eq!(all.differences.len(), 3, "{volume}: {all:?}");
    // What differs whatever the objects of a kind are.
    let rows: [(Kind, &[&str], u8); 7] = [
        (Kind::Volume, &[], 4),
        (Kind::Attachment, &[snapshot], 3),
        (Kind::CsiNode, &[], 1),
        (Kind::Content, &[published], 3),
        (Kind::Lease, &[published], 3),
        (Kind::Node, &[published, snapshot], 3),
        (Kind::Claim, &[published], 3),
    ];
    for (kind, expected, code) in rows {
        let mut world = World::two();
        world.forbidden.insert(kind);
        let audit = world.audit(&storage, "");
        let found = audit.differences.iter();
        let found = found.map(|one| format!("{} {}", one.what.word(), one.handle));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{kind:?}: {audit:?}");
        assert_eq!(audit.code(), code, "{kind:?}: {audit:?}");
        let named = audit
            .unseen
            .iter()
            .any(|(what, _)| what.contains(kind.plural()));
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

/// What a comparison goes over, each kind once or twice and not once for each volume.
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
        // Each of the strays, and vol-1, whose PersistentVolume is another one's now.
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

fn volume(number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": format!("pv-{number}"), "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{number}")},
        },
        "status": {"phase": "Bound"},
    })
}

/// A driver and a cluster that have the same volumes and snapshots.
fn same(volumes: usize, snapshots: usize) -> (FakeApi, FakeDriver) {
    let (api, driver) = (FakeApi::new(), FakeDriver::new(DRIVER));
    (0..volumes).for_each(|number| {
        api.insert(volume(number));
    });
    for number in 0..snapshots {
        api.insert(json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": {"name": format!("content-{number}")},
            "spec": {"driver": DRIVER, "deletionPolicy": "Delete", "source": {}, "volumeSnapshotRef": {}},
            "status": {"snapshotHandle": format!("snap-{number}"), "readyToUse": true},
        }));
    }
    driver.configure(|model| {
        model.controller = vec![
            ControllerRpc::ListVolumes,
            ControllerRpc::GetVolume,
            ControllerRpc::ListVolumesPublishedNodes,
            ControllerRpc::ListSnapshots,
        ];
        for number in 0..volumes {
            model.add(&format!("vol-{number}"));
        }
        for number in 0..snapshots {
            let id = format!("snap-{number}");
            let snapshot = csi_proto::csi::Snapshot {
                snapshot_id: id.clone(),
                ..Default::default()
            };
            model.snapshots.insert(id, snapshot);
        }
    });
    driver.start();
    (api, driver)
}

/// Runs the program between both.
async fn audited(
    api: &FakeApi,
    driver: &FakeDriver,
    flags: &[&str],
) -> (Option<i32>, String, String) {
    let server = api.serve().await;
    let mut arguments = vec![
        "audit".to_owned(),
        format!("--kubeconfig={}", server.kubeconfig().display()),
        format!("--csi-address={}", driver.address()),
    ];
    if !flags.iter().any(|flag| flag.starts_with("--grace")) {
        arguments.push("--grace=0s".to_owned());
    }
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let run = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-csi"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", "/nonexistent");
        command.output().unwrap()
    };
    let Output {
        status,
        stdout,
        stderr,
    } = tokio::task::spawn_blocking(run).await.unwrap();
    drop(server);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// The differences of `-o json`.
fn differences(stdout: &str) -> Vec<String> {
    let answer: Value = serde_json::from_str(stdout).unwrap_or_else(|_| panic!("{stdout}"));
    let all = answer["differences"].as_array().unwrap().iter();
    let text = |one: &Value| format!("{} {}", one["what"], one["handle"]).replace('"', "");
    all.map(text).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_50_w_54_w_58_w_60_a_thousand_volumes_page_by_page_and_nothing_is_written() {
    let (api, driver) = same(1000, 250);
    let (code, out, error) = audited(&api, &driver, &[]).await;
    assert_eq!(code, Some(0), "{out} {error}");
    assert!(out.starts_with("Nothing differs between the cluster and csi.example.com, which lists 1000 volumes and 250 snapshots\n"), "{out}");
    // What is the same at the first look is not looked at again.
    assert_eq!(driver.calls_to("ListVolumes").len(), 10);
    driver.clear_calls();
    driver.configure(|model| {
        for gone in [3, 500, 999] {
            model.volumes.remove(&format!("vol-{gone}"));
        }
        (0..5).for_each(|number| model.add(&format!("made-{number}")));
        model.snapshots.remove("snap-7");
        let snapshot = csi_proto::csi::Snapshot {
            snapshot_id: "stray".to_owned(),
            ..Default::default()
        };
        model.snapshots.insert("stray".to_owned(), snapshot);
    });
    let (code, out, error) = audited(&api, &driver, &["-o", "json", "--driver", DRIVER]).await;
    assert_eq!(code, Some(3), "{out} {error}");
    let mut expected: Vec<_> = (0..5)
        .map(|number| format!("unknownVolume made-{number}"))
        .collect();
    expected.extend(["3", "500", "999"].map(|gone| format!("lostVolume vol-{gone}")));
    expected.extend(["unknownSnapshot stray", "lostSnapshot snap-7"].map(str::to_owned));
    assert_eq!(differences(&out), expected);
    assert!(
        error.contains("10 differences at the first look"),
        "{error}"
    );
    assert!(api.writes().is_empty(), "W-60");
    let reads = [
        "GetPluginInfo",
        "ControllerGetCapabilities",
        "ListVolumes",
        "ListSnapshots",
        "ControllerGetVolume",
    ];
    for call in driver.calls() {
        assert!(reads.contains(&call.method), "W-60: {}", call.method);
    }
    for call in driver.calls_to("ListVolumes") {
        let request = call
            .request::<csi_proto::csi::ListVolumesRequest>()
            .unwrap();
        assert_eq!(request.max_entries, 100);
    }
    let (_, out, _) = audited(&api, &driver, &["-o", "name"]).await;
    assert!(out.starts_with("unknownVolume made-0\n"), "{out}");
}

/// Between the two looks, while the driver's second list waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_51_what_comes_and_goes_during_an_audit_is_no_finding() {
    let (api, driver) = same(300, 0);
    driver.configure(|model| {
        (0..200).for_each(|number| model.add(&format!("new-{number}")));
        (0..100).for_each(|number| {
            model.volumes.remove(&format!("vol-{number}"));
        });
        model.add("stray");
    });
    let gate = Gate::new();
    // Pages of the first look: 401 volumes.
    driver.fault(CallFault::on("ListVolumes").skip(5).hold(&gate));
    let flags = ["-o", "json"];
    let run = audited(&api, &driver, &flags);
    let settle = async {
        driver
            .until(|driver| driver.calls_to("ListVolumes").len() > 5)
            .await;
        for number in 0..200 {
            let mut one = volume(number);
            one["metadata"]["name"] = format!("new-{number}").into();
            one["spec"]["csi"]["volumeHandle"] = format!("new-{number}").into();
            api.insert(one);
        }
        (0..100).for_each(|number| api.remove("persistentvolumes", &format!("pv-{number}")));
        gate.open();
    };
    let ((code, out, error), ()) = tokio::join!(run, settle);
    assert_eq!(code, Some(3), "{out} {error}");
    assert_eq!(differences(&out), ["unknownVolume stray"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_52_w_54_a_list_that_breaks_off_begins_anew_or_is_none() {
    for (fault, code, calls) in [
        (
            CallFault::on("ListVolumes")
                .skip(2)
                .times(1)
                .fail(Code::Aborted, "the token has expired"),
            Some(0),
            6,
        ),
        (
            CallFault::on("ListVolumes")
                .skip(1)
                .times(1)
                .fail(Code::Unavailable, "starting"),
            Some(0),
            5,
        ),
        (
            CallFault::on("ListVolumes")
                .skip(1)
                .fail(Code::Aborted, "the token has expired"),
            Some(1),
            4,
        ),
        (
            CallFault::on("ListVolumes")
                .skip(1)
                .fail(Code::Internal, "password=planted"),
            Some(1),
            2,
        ),
    ] {
        let (api, driver) = same(250, 0);
        driver.configure(|model| {
            model.volumes.remove("vol-249");
            model.add("vol-249");
        });
        let what = format!("{fault:?}");
        driver.fault(fault);
        let (got, out, error) = audited(&api, &driver, &[]).await;
        assert_eq!(got, code, "{what}: {out} {error}");
        assert_eq!(driver.calls_to("ListVolumes").len(), calls, "{what}");
        if code == Some(1) {
            assert!(
                out.is_empty()
                    && error.contains("ListVolumes failed, so that nothing can be compared"),
                "{what}: {out} {error}"
            );
            assert!(!error.contains("planted"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_52_another_driver_and_nobody_are_said() {
    let (api, driver) = same(1, 0);
    let (code, out, error) = audited(&api, &driver, &["--driver", "other.example.com"]).await;
    assert_eq!((code, &*out), (Some(1), ""));
    assert_eq!(
        error,
        "the driver at --csi-address is csi.example.com, not other.example.com\n"
    );
    driver.stop();
    let (code, out, error) = audited(&api, &driver, &["--csi-timeout=1s"]).await;
    assert_eq!((code, &*out), (Some(1), ""));
    assert!(
        error.starts_with("--csi-address: cannot connect to the CSI driver at "),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_53_a_driver_without_a_list_is_asked_for_each_volume_or_named() {
    let (api, driver) = same(3, 2);
    driver.configure(|model| {
        model.controller = vec![ControllerRpc::GetVolume, ControllerRpc::GetSnapshot];
        model.volumes.remove("vol-1");
        model.snapshots.remove("snap-1");
    });
    let (code, out, error) = audited(&api, &driver, &["-o", "json"]).await;
    assert_eq!(code, Some(3), "{out} {error}");
    assert_eq!(
        differences(&out),
        ["lostVolume vol-1", "lostSnapshot snap-1"]
    );
    driver.configure(|model| model.controller = Vec::new());
    let (code, out, _) = audited(&api, &driver, &[]).await;
    assert_eq!(code, Some(4), "{out}");
    let text = out.replace('\n', " ");
    assert!(text.contains("csi.example.com cannot be audited: the driver does not list its volumes: it has neither LIST_VOLUMES nor GET_VOLUME"), "{out}");
}

/// A driver may list a volume once for each node: it is one volume, at all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_55_a_volume_that_is_listed_twice_is_at_the_nodes_of_both() {
    use csi_proto::csi::list_volumes_response::{Entry, VolumeStatus};
    use csi_proto::csi::{ListVolumesResponse, Volume};
    let entry = |node: &str| Entry {
        volume: Some(Volume {
            volume_id: "vol-0".to_owned(),
            ..Volume::default()
        }),
        status: Some(VolumeStatus {
            published_node_ids: vec![node.to_owned()],
            ..VolumeStatus::default()
        }),
    };
    let (api, driver) = same(1, 0);
    driver.fault(CallFault::on("ListVolumes").answer(ListVolumesResponse {
        entries: vec![entry("b"), entry("a"), entry("b")],
        next_token: String::new(),
    }));
    let (code, out, error) = audited(&api, &driver, &["-o", "json"]).await;
    assert_eq!(code, Some(3), "{out} {error}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    let nodes: Vec<&Value> = { answer["differences"].as_array().unwrap().iter() }
        .map(|one| &one["node"])
        .collect();
    assert_eq!(nodes, ["a", "b"], "{out}");
}

/// A driver that fails for each is not asked a hundred times, and nothing is called lost for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_50_a_driver_that_fails_when_it_is_asked_is_left_in_peace() {
    let (api, driver) = same(20, 0);
    driver.configure(|model| {
        (0..8).for_each(|number| drop(model.volumes.remove(&format!("vol-{number}"))));
    });
    driver.fault(CallFault::on("ControllerGetVolume").fail(Code::Internal, "broken"));
    let (code, out, error) = audited(&api, &driver, &[]).await;
    assert_eq!(code, Some(1), "{out} {error}");
    assert_eq!(
        driver.calls_to("ControllerGetVolume").len(),
        10,
        "two looks"
    );
    let text = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("was not asked for 3 more"), "{out}");
    assert!(
        text.contains("PersistentVolumes without a volume: 8"),
        "{out}"
    );
    assert!(
        error.contains("8 differences at the first look"),
        "looks again, too, if nobody can tell: {error}"
    );
    assert!(
        error.contains("--grace is shorter than --csi-timeout"),
        "{error}"
    );
    let flags = ["--csi-timeout=1s", "--grace=1s"];
    let (_, _, error) = audited(&api, &driver, &flags).await;
    assert!(!error.contains("--grace is shorter"), "{error}");
}

/// Programs get the handle, people what a terminal can show of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_50_json_has_handles_as_they_are() {
    let (api, driver) = same(3, 0);
    let handle = "stray\u{7}\u{202e}x";
    driver.configure(|model| model.add(handle));
    let (code, out, _) = audited(&api, &driver, &["-o", "json"]).await;
    assert_eq!(code, Some(3), "{out}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["differences"][0]["handle"], handle, "{out}");
    let (_, out, _) = audited(&api, &driver, &[]).await;
    assert!(!out.contains('\u{7}') && !out.contains('\u{202e}'), "{out}");
}

/// A driver that repeats a token has no last page, be it the next one or one long before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_54_a_list_that_goes_round_in_a_circle_is_none() {
    use csi_proto::csi::{ListSnapshotsResponse, ListVolumesResponse};
    for method in ["ListVolumes", "ListSnapshots"] {
        for circle in [&["a"][..], &["a", "b", "c"]] {
            let (api, driver) = same(3, 3);
            // The first rule that is not used up answers.
            let tokens: Vec<_> = circle.iter().cycle().take(20).collect();
            for token in tokens {
                let fault = CallFault::on(method).times(1);
                let next_token = (*token).to_owned();
                driver.fault(match method {
                    "ListVolumes" => fault.answer(ListVolumesResponse {
                        next_token,
                        ..Default::default()
                    }),
                    _ => fault.answer(ListSnapshotsResponse {
                        next_token,
                        ..Default::default()
                    }),
                });
            }
            let (code, out, error) = audited(&api, &driver, &[]).await;
            assert_eq!((code, &*out), (Some(1), ""), "{method} {circle:?}: {error}");
            let expected = format!(
                "{method}: the driver's list has no end: it gave a token for the next page twice"
            );
            assert!(error.starts_with(&expected), "{error}");
            assert_eq!(
                driver.calls_to(method).len(),
                circle.len() + 1,
                "{circle:?}"
            );
        }
    }
}

/// A driver without pages answers with all it has: more than the 4 MiB that gRPC takes unless told otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_56_lists_of_eight_mebibytes_are_read_and_larger_ones_than_32_named() {
    use csi_proto::csi::{ListSnapshotsResponse, ListVolumesResponse, Snapshot, Volume};
    use csi_proto::csi::{list_snapshots_response, list_volumes_response};
    let volumes = |count: usize| ListVolumesResponse {
        entries: { 0..count }
            .map(|number| list_volumes_response::Entry {
                volume: Some(Volume {
                    volume_id: format!("vol-{number}"),
                    volume_context: [("a".to_owned(), "x".repeat(1000))].into(),
                    ..Volume::default()
                }),
                status: None,
            })
            .collect(),
        next_token: String::new(),
    };
    let snapshots = |count: usize| ListSnapshotsResponse {
        entries: { 0..count }
            .map(|number| list_snapshots_response::Entry {
                snapshot: Some(Snapshot {
                    snapshot_id: format!("snap-{number}"),
                    source_volume_id: "x".repeat(1000),
                    ..Snapshot::default()
                }),
            })
            .collect(),
        next_token: String::new(),
    };
    let (api, driver) = same(2, 2);
    driver.fault(CallFault::on("ListVolumes").times(2).answer(volumes(8000)));
    driver.fault(
        CallFault::on("ListSnapshots")
            .times(2)
            .answer(snapshots(8000)),
    );
    let (code, out, error) = audited(&api, &driver, &["-o", "json"]).await;
    assert_eq!(code, Some(3), "{error}");
    assert_eq!(differences(&out).len(), 2 * 7998);
    for method in ["ListVolumes", "ListSnapshots"] {
        driver.fault(match method {
            "ListVolumes" => CallFault::on(method).times(1).answer(volumes(40_000)),
            _ => CallFault::on(method).times(1).answer(snapshots(40_000)),
        });
        let (code, out, error) = audited(&api, &driver, &[]).await;
        assert_eq!((code, &*out), (Some(1), ""), "{error}");
        let expected = format!("{method} failed, so that nothing can be compared: ");
        assert!(
            error.starts_with(&expected) && error.contains("larger than max"),
            "{error}"
        );
    }
}

/// Who may not list pods learns which permission is missing, and is told of no unknown volume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_25_w_50_a_permission_that_is_missing_is_named() {
    let (api, driver) = same(3, 0);
    driver.configure(|model| model.add("stray"));
    let (_, out, _) = audited(&api, &driver, &["-o", "name"]).await;
    assert_eq!(out, "unknownVolume stray\n");
    api.fault(Fault::on("GET", "/api/v1/pods*").answer(403));
    let (code, out, error) = audited(&api, &driver, &["-o", "name"]).await;
    assert_eq!((code, &*out), (Some(1), ""), "{error}");
    let (code, out, _) = audited(&api, &driver, &[]).await;
    assert_eq!(code, Some(1));
    let text = out.replace('\n', " ");
    for expected in [
        "Nothing is known to differ between the cluster and csi.example.com",
        "Cannot tell whether these are volumes that this cluster does not know: 1   stray",
        "Why: pods could not be listed: no permission. Keep them.",
    ] {
        assert!(text.contains(expected), "{out}");
    }
}

/// The kubeconfig of one cluster and the socket of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_50_another_clusters_driver_is_refused() {
    let (_, driver) = same(5, 5);
    let api = FakeApi::new();
    let (code, out, _) = audited(&api, &driver, &[]).await;
    assert_eq!(code, Some(4), "{out}");
    assert!(
        out.contains("cannot be audited: no PersistentVolume and no CSINode"),
        "{out}"
    );
    let (api, _) = same(0, 0);
    for number in 5..9 {
        api.insert(volume(number));
    }
    for format in ["human", "name", "json"] {
        let (code, out, _) = audited(&api, &driver, &["-o", format]).await;
        assert_eq!(code, Some(4), "{out}");
        assert!(!out.contains("vol-") && !out.contains("snap-"), "{out}");
    }
}
