//! Group snapshots of claims, until their members are ready.

use serde_json::{Value, json};

use super::*;
use crate::model::Text;
use crate::plan::group::members::Names;
use crate::testing::bench::Bench;
use crate::testing::objects::{group, group_class, labelled, snapshot, taken_group};
use crate::testing::server::Kind;

pub(super) const CONTENT: &str = "groupsnapcontent-V1";

/// Fixture G.
pub(super) fn stage() -> Bench {
    let mut bench = Bench::empty();
    bench.add(Kind::GroupClass, group_class("g", "T"));
    for (name, volume, handle) in [("p1", "pv1", "vol-1"), ("p2", "pv2", "vol-2")] {
        let (claim, volume) = labelled(name, volume, handle);
        bench.add(Kind::Claim, claim);
        bench.add(Kind::Volume, volume);
    }
    bench
}

/// Fixture G with `change` applied, then the VolumeGroupSnapshot `ns/v1` is created.
fn begin(change: impl FnOnce(&mut Bench)) -> (Bench, Vec<String>) {
    let mut bench = stage();
    change(&mut bench);
    bench.add(Kind::Group, group("v1", "V1"));
    let lines = bench.run();
    (bench, lines)
}

/// The sidecar takes the group and writes this status.
pub(super) fn take(bench: &mut Bench, status: Value) -> Vec<String> {
    bench.edit(Kind::GroupContent, CONTENT, |content| {
        content["status"] = status
    });
    bench.run()
}

/// Keys of the members and names of their contents.
pub(super) fn members() -> [(String, Text); 2] {
    ["vol-1", "vol-2"].map(|volume| {
        let names = Names::new("V1", volume);
        (format!("ns/{}", names.snapshot), names.content)
    })
}

/// A ready group.
pub(super) fn usable() -> Bench {
    let (mut bench, _) = begin(|_| {});
    take(&mut bench, taken_group(true));
    bench
}

/// Asserts that all members show this group.
pub(super) fn is_named(bench: &Bench, group: &str) {
    for (key, _) in members() {
        let member = bench.server.get(Kind::Snapshot, &key).unwrap();
        assert_eq!(member["status"]["volumeGroupSnapshotName"], group, "{key}");
    }
}

pub(super) fn is_usable(bench: &Bench, row: &str) {
    let group = bench.server.get(Kind::Group, "ns/v1").unwrap();
    assert_eq!(group["status"]["readyToUse"], true, "{row} {group}");
    is_named(bench, "v1");
    for ((key, name), (handle, size)) in members()
        .into_iter()
        .zip([("snap-1", "1Gi"), ("snap-2", "")])
    {
        let member = bench.server.get(Kind::Snapshot, &key).unwrap();
        let content = bench.server.get(Kind::Content, &name).unwrap();
        assert_eq!(member["status"]["readyToUse"], true, "{row} {member}");
        assert_eq!(member["status"]["boundVolumeSnapshotContentName"], *name);
        let shown = member["status"]["restoreSize"].as_str().unwrap_or_default();
        assert_eq!(shown, size, "{row}");
        let (bound, uid) = (
            &content["spec"]["volumeSnapshotRef"]["uid"],
            &member["metadata"]["uid"],
        );
        assert_eq!(bound, uid, "{row}");
        assert_eq!(content["status"]["snapshotHandle"], handle, "{row}");
    }
    assert_eq!(bench.server.all(Kind::GroupContent).count(), 1, "{row}");
    assert_eq!(bench.server.all(Kind::Content).count(), 2, "{row}");
    assert_eq!(bench.server.all(Kind::Snapshot).count(), 2, "{row}");
}

const PROTECTED: &str = "PATCH group ns/v1 {\"metadata\":{\"finalizers\":[\"F-gbound\"]}}";
const POSTED: &str = "POST groupcontent groupsnapcontent-V1 …";
const WAITING: &str = "E: ns/v1 Normal CreatingGroupSnapshot Waiting for a group snapshot ns/v1 to \
                       be created by the CSI driver.";
const SHOWN: &str = "PATCH group/status ns/v1 {\"status\":{\"boundVolumeGroupSnapshotContentName\":\
                     \"groupsnapcontent-V1\",\"readyToUse\":false}}";

#[test]
fn g_1_a_group_begins() {
    let (bench, lines) = begin(|_| {});
    shows("G-1", &lines, &[PROTECTED, POSTED, WAITING, SHOWN]);
    let content = bench.server.get(Kind::GroupContent, CONTENT).unwrap();
    let held = &content["metadata"]["finalizers"];
    let ours = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
    assert_eq!(*held, json!([ours]));
    assert_eq!(content["metadata"]["annotations"], Value::Null);
    let version = &content["spec"]["volumeGroupSnapshotRef"]["resourceVersion"];
    let expected = json!({
        "volumeGroupSnapshotRef": {
            "kind": "VolumeGroupSnapshot", "apiVersion": "groupsnapshot.storage.k8s.io/v1",
            "namespace": "ns", "name": "v1", "uid": "V1", "resourceVersion": version,
        },
        "source": {"volumeHandles": ["vol-1", "vol-2"]}, "volumeGroupSnapshotClassName": "g",
        "driver": "T", "deletionPolicy": "Delete",
    });
    assert_eq!(content["spec"], expected);
}

#[test]
fn g_3_members_are_made_and_filled() {
    let mut bench = usable();
    for (index, (key, name)) in members().into_iter().enumerate() {
        let number = index + 1;
        let member = bench.server.get(Kind::Snapshot, &key).unwrap();
        let owner = json!([{
            "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
            "name": "v1", "uid": "V1",
        }]);
        assert_eq!(member["metadata"]["ownerReferences"], owner);
        let held = crate::testing::server::finalizers(member);
        let in_group = "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection";
        assert!(held.iter().any(|one| one == in_group), "{held:?}");
        let source = &member["spec"]["source"];
        assert_eq!(
            *source,
            json!({"persistentVolumeClaimName": format!("p{number}")})
        );
        let content = bench.server.get(Kind::Content, &name).unwrap();
        let annotations = json!({
            "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle": "grp-1",
        });
        assert_eq!(content["metadata"]["annotations"], annotations);
        let expected = json!({
            "volumeSnapshotRef": {
                "kind": "VolumeSnapshot", "apiVersion": "snapshot.storage.k8s.io/v1",
                "namespace": "ns", "name": member["metadata"]["name"],
                "uid": member["metadata"]["uid"],
            },
            "source": {"volumeHandle": format!("vol-{number}")}, "driver": "T",
            "deletionPolicy": "Delete", "sourceVolumeMode": "Filesystem",
        });
        assert_eq!(content["spec"], expected);
        let status = &content["status"];
        assert_eq!(status["snapshotHandle"], format!("snap-{number}"));
        assert_eq!(status["volumeGroupSnapshotHandle"], "grp-1");
        assert_eq!(status["creationTime"], 1_767_323_045_000_000_000_i64);
        assert_eq!(status["readyToUse"], true);
        assert_eq!(status["restoreSize"].is_null(), number == 2);
    }
    is_usable(&bench, "G-3");
    shows("G-3", &bench.resync(), &[]);
}

#[test]
fn g_4_the_group_is_told_to_be_ready() {
    let (mut bench, _) = begin(|_| {});
    let lines = take(&mut bench, taken_group(true));
    let events: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("E: ns/v1 "))
        .collect();
    let expected = [
        "Normal GroupSnapshotCreated GroupSnapshot ns/v1 was successfully created by the CSI driver.",
        "Normal GroupSnapshotReady GroupSnapshot ns/v1 is ready to use.",
    ];
    assert_eq!(events, expected);
    let shown = "PATCH group/status ns/v1 {\"status\":{\"creationTime\":\"2026-01-02T03:04:05Z\",\
                 \"readyToUse\":true}}";
    assert!(lines.iter().any(|line| line == shown), "{lines:#?}");
    is_usable(&bench, "G-4");
}

#[test]
fn g_7_and_8_secrets_are_named_once_for_all() {
    for (name, expected) in [("sec", "sec"), ("${volumegroupsnapshot.name}-k", "v1-k")] {
        let (mut bench, _) = begin(|bench| {
            bench.edit(Kind::GroupClass, "g", |class| {
                class["parameters"] = json!({
                    "csi.storage.k8s.io/group-snapshotter-secret-name": name,
                    "csi.storage.k8s.io/group-snapshotter-secret-namespace":
                        "${volumegroupsnapshot.namespace}",
                });
            });
        });
        take(&mut bench, taken_group(true));
        let content = bench.server.get(Kind::GroupContent, CONTENT).unwrap();
        let annotations = json!({
            "groupsnapshot.storage.kubernetes.io/deletion-secret-name": expected,
            "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace": "ns",
        });
        assert_eq!(content["metadata"]["annotations"], annotations);
        for (_, member) in members() {
            let content = bench.server.get(Kind::Content, &member).unwrap();
            let annotations = &content["metadata"]["annotations"];
            let of = |what| {
                &annotations[format!("snapshot.storage.kubernetes.io/deletion-secret-{what}")]
            };
            assert_eq!(
                (of("name"), of("namespace")),
                (&json!(expected), &json!("ns"))
            );
        }
        is_usable(&bench, "G-7, G-8");
    }
}

/// The status patch that reports a VolumeGroupSnapshot's failure, and its events.
fn fails(reason: &str, message: &str, unready: bool) -> [String; 2] {
    let quoted = Value::from(message).to_string();
    let ready = if unready { ",\"readyToUse\":false" } else { "" };
    let status = format!(
        "PATCH group/status ns/v1 {{\"status\":{{\"error\":{{\"message\":{quoted},\
         \"time\":\"2026-01-02T03:04:05Z\"}}{ready}}}}}"
    );
    [status, format!("E: ns/v1 Warning {reason} {message}")]
}

const UNCREATED: &str = "failed to create group snapshot content with error";

#[test]
fn g_9_to_12_claims_of_which_nothing_can_be_taken() {
    let input = "failed to get input parameters to create group snapshot v1:";
    let unlabelled =
        format!("{input} \"label selector app=x for group snapshot not applied to any PVC\"");
    let pending = format!(
        "{input} \"the PVC p2 is not yet bound to a PV, will not attempt to take a group snapshot\""
    );
    let other = "Volume CSI driver (T2) mismatch with VolumeGroupSnapshotClass (T) ns/v1: pv2";
    let of_other = format!("snapshot controller failed to update ns/v1 on API server: {other}");
    let none = "Cannot snapshot a non-CSI volume: pv2";
    let of_none = "cannot snapshot a non-CSI volume for group snapshot ns/v1: pv2".to_owned();
    type Change = fn(&mut Bench);
    let rows: [(&str, Change, String, Option<&str>); 4] = [
        (
            "G-9",
            |bench| {
                for key in ["ns/p1", "ns/p2"] {
                    bench.edit(Kind::Claim, key, |claim| {
                        claim["metadata"]["labels"] = json!({"app": "y"})
                    });
                }
            },
            unlabelled,
            None,
        ),
        (
            "G-10",
            |bench| {
                bench.edit(Kind::Claim, "ns/p2", |claim| {
                    claim["status"]["phase"] = "Pending".into()
                });
            },
            pending,
            None,
        ),
        (
            "G-11",
            |bench| {
                bench.edit(Kind::Volume, "pv2", |volume| {
                    volume["spec"]["csi"]["driver"] = "T2".into()
                });
            },
            of_other,
            Some(other),
        ),
        (
            "G-12",
            |bench| {
                bench.edit(Kind::Volume, "pv2", |volume| {
                    volume["spec"]["csi"] = Value::Null
                })
            },
            of_none,
            Some(none),
        ),
    ];
    for (row, change, error, also) in rows {
        let (mut bench, lines) = begin(change);
        let message = format!("{UNCREATED} {error}");
        let [status, event] = fails("GroupSnapshotContentCreationFailed", &message, true);
        let more =
            also.map(|also| format!("E: ns/v1 Warning CreateGroupSnapshotContentFailed {also}"));
        let mut expected = vec![PROTECTED, &status];
        expected.extend(more.as_deref());
        expected.push(&event);
        shows(row, &lines, &expected);
        assert_eq!(bench.server.all(Kind::GroupContent).count(), 0, "{row}");
        // The same failure again is not written.
        shows(row, &bench.retry(), &[]);
        assert!(bench.retries(), "{row}");
    }
}

#[test]
fn g_10_a_claim_that_is_waited_for_is_heard_at_once() {
    let (mut bench, _) = begin(rows_pending);
    bench.edit(Kind::Claim, "ns/p2", |claim| {
        claim["status"]["phase"] = "Bound".into()
    });
    let lines = bench.run();
    assert!(
        lines.iter().any(|line| line.starts_with("POST group")),
        "{lines:#?}"
    );
}

fn rows_pending(bench: &mut Bench) {
    bench.edit(Kind::Claim, "ns/p2", |claim| {
        claim["status"]["phase"] = "Pending".into()
    });
}

fn choosing(classes: &[&str]) -> (Bench, Vec<String>) {
    let mut bench = stage();
    for name in classes {
        let mut class = group_class(name, "T");
        class["metadata"]["annotations"] =
            json!({"groupsnapshot.storage.kubernetes.io/is-default-class": "true"});
        bench.add(Kind::GroupClass, class);
    }
    let mut group = group("v1", "V1");
    let spec = group["spec"].as_object_mut().unwrap();
    spec.remove("volumeGroupSnapshotClassName");
    bench.add(Kind::Group, group);
    let lines = bench.run();
    (bench, lines)
}

#[test]
fn g_14_to_16_the_default_class() {
    let text = "Failed to set default group snapshot class with error";
    for (row, classes, error) in [
        ("G-14", &[][..], "cannot find default group snapshot class"),
        (
            "G-15",
            &["d1", "d2"],
            "2 default snapshot classes were found",
        ),
    ] {
        let (mut bench, lines) = choosing(classes);
        let message = format!("{text} {error}");
        let [status, event] = fails("SetDefaultGroupSnapshotClassFailed", &message, false);
        shows(row, &lines, &[&status, &event]);
        shows(row, &bench.retry(), &[]);
    }
    let (mut bench, lines) = choosing(&["d1"]);
    let chosen = "PATCH group ns/v1 {\"spec\":{\"volumeGroupSnapshotClassName\":\"d1\"}}";
    shows("G-16", &lines, &[chosen, PROTECTED, POSTED, WAITING, SHOWN]);
    take(&mut bench, taken_group(true));
    is_usable(&bench, "G-16");
}

#[test]
fn g_17_a_class_that_is_missing() {
    let mut bench = stage();
    bench.delete(Kind::GroupClass, "g");
    bench.add(Kind::Group, group("v1", "V1"));
    let message = "failed to get group snapshot class with error \
                   volumegroupsnapshotclass.groupsnapshot.storage.k8s.io \"g\" not found";
    let [status, event] = fails("GetGroupSnapshotClassFailed", message, false);
    shows("G-17", &bench.run(), &[&status, &event]);
    bench.add(Kind::GroupClass, group_class("g", "T"));
    let lines = bench.run();
    shows("G-17", &lines[..3], &[PROTECTED, POSTED, WAITING]);
}

#[test]
fn g_18_members_are_there_before_the_group_is_ready() {
    let (mut bench, _) = begin(|_| {});
    take(&mut bench, taken_group(false));
    for (key, _) in members() {
        let member = bench.server.get(Kind::Snapshot, &key).unwrap();
        assert_eq!(member["status"]["readyToUse"], true);
    }
    let of = bench.server.get(Kind::Group, "ns/v1").unwrap();
    assert_eq!(of["status"]["readyToUse"], false);
    take(&mut bench, taken_group(true));
    is_usable(&bench, "G-18");
}

#[test]
fn g_19_a_member_that_has_become_ready_stays_so() {
    let (mut bench, _) = begin(|_| {});
    let mut status = taken_group(false);
    status["volumeSnapshotInfoList"][1]["readyToUse"] = false.into();
    take(&mut bench, status.clone());
    let [_, (key, name)] = members();
    let ready = |bench: &Bench| {
        bench.server.get(Kind::Snapshot, &key).unwrap()["status"]["readyToUse"].clone()
    };
    assert_eq!(ready(&bench), false);
    bench.edit(Kind::Content, &name, |content| {
        content["status"]["readyToUse"] = true.into()
    });
    bench.run();
    assert_eq!(ready(&bench), true);
    // A resync keeps what the members got first.
    bench.resync();
    status["readyToUse"] = true.into();
    take(&mut bench, status);
    assert_eq!(ready(&bench), true);
    is_usable(&bench, "G-19");
}

#[test]
fn g_34_equal_names_do_not_matter() {
    let mut bench = stage();
    bench.add(Kind::Class, crate::testing::objects::class("c1", "T"));
    let mut single = crate::testing::objects::handmade(CONTENT, "s9");
    single["metadata"]["finalizers"] = json!([]);
    bench.add(Kind::Content, single);
    let mut same = snapshot("v1", "U9");
    same["spec"]["source"]["persistentVolumeClaimName"] = "p1".into();
    bench.add(Kind::Snapshot, same);
    bench.add(Kind::Group, group("v1", "V1"));
    bench.run();
    take(&mut bench, taken_group(true));
    let group = bench.server.get(Kind::Group, "ns/v1").unwrap();
    assert_eq!(group["status"]["readyToUse"], true);
    let single = bench.server.get(Kind::Content, CONTENT).unwrap();
    assert_eq!(single["spec"]["volumeSnapshotRef"]["uid"], Value::Null);
    let same = bench.server.get(Kind::Snapshot, "ns/v1").unwrap();
    assert_eq!(
        same["status"]["boundVolumeSnapshotContentName"],
        "snapcontent-U9"
    );
}

#[test]
fn g_36_a_crash_at_any_write_changes_nothing() {
    for before in 0..5 {
        for after in 0..20 {
            let row = format!("G-36 {before} {after}");
            let mut bench = stage();
            bench.add(Kind::Group, group("v1", "V1"));
            bench.run_until(before);
            bench.restart();
            bench.run();
            bench.edit(Kind::GroupContent, CONTENT, |content| {
                content["status"] = taken_group(true)
            });
            bench.run_until(after);
            bench.restart();
            let lines = bench.run();
            is_usable(&bench, &row);
            let posts = lines.iter().filter(|line| line.starts_with("POST"));
            assert!(posts.count() <= 4, "{row}");
            shows(&row, &bench.resync(), &[]);
        }
    }
}

#[test]
fn c_10_groups_begin_when_their_kinds_come() {
    let mut bench = stage();
    bench.without_groups();
    bench.add(Kind::Group, group("v1", "V1"));
    shows("C-10", &bench.run(), &[]);
    let lines = bench.with_groups();
    shows("C-10", &lines, &[PROTECTED, POSTED, WAITING, SHOWN]);
}
