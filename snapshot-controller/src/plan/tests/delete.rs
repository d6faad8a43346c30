//! Deletion of VolumeSnapshots.

use serde_json::{Value, json};
use sidecar::snapshot::{CLAIM_AS_SOURCE, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_USE};

use super::*;
use crate::model::MISSING;
use crate::testing::bench::Bench;
use crate::testing::objects::{claim, content, group, ready, snapshot};
use crate::testing::server::{Kind, finalizers};

const MARKED: &str =
    "PATCH content snapcontent-U1 {\"metadata\":{\"annotations\":{\"bd\":\"yes\"}}}";
const DELETED: &str = "DELETE content snapcontent-U1";
const LEFT: &str = "PATCH snapshot ns/s1 {\"metadata\":{\"finalizers\":[\"F-bound\"]}}";
const GONE: &str = "PATCH snapshot ns/s1 {\"metadata\":{\"finalizers\":null}}";

/// A ready VolumeSnapshot, changed, then deleted.
fn deleted(change: impl FnOnce(&mut Bench)) -> (Bench, Vec<String>) {
    let mut bench = Bench::new();
    let (snapshot, content) = ready("s1", "U1");
    bench.add(Kind::Snapshot, snapshot);
    bench.add(Kind::Content, content);
    change(&mut bench);
    bench.run();
    bench.delete(Kind::Snapshot, "ns/s1");
    let lines = bench.run();
    (bench, lines)
}

fn is_gone(bench: &Bench) -> bool {
    bench.server.get(Kind::Snapshot, "ns/s1").is_none()
}

fn retained(bench: &mut Bench) {
    bench.edit(Kind::Content, "snapcontent-U1", |content| {
        content["spec"]["deletionPolicy"] = "Retain".into();
    });
}

#[test]
fn c_67_snapshot_and_content_go() {
    let (mut bench, lines) = deleted(|_| {});
    shows("C-67", &lines, &[MARKED, DELETED, LEFT]);
    shows("C-67", &bench.resync(), &[]);
    bench.sidecar_lets_go("snapcontent-U1");
    shows("C-67", &bench.run(), &[GONE]);
    assert!(is_gone(&bench) && bench.server.all(Kind::Content).count() == 0);
}

#[test]
fn c_68_c_69_what_is_kept_stays() {
    for (row, bound) in [("C-68", false), ("C-69", true)] {
        let (bench, lines) = deleted(|bench| {
            retained(bench);
            if !bound {
                bench.edit(Kind::Snapshot, "ns/s1", |snapshot| {
                    snapshot["metadata"]["finalizers"] = json!([SNAPSHOT_AS_SOURCE]);
                });
            }
        });
        shows(row, &lines, &[MARKED, GONE]);
        assert!(is_gone(&bench));
        let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
        assert_eq!(content["metadata"]["deletionTimestamp"], Value::Null);
    }
}

#[test]
fn c_70_one_that_never_got_a_content() {
    let mut bench = Bench::new();
    bench.edit(Kind::Claim, "ns/p1", |claim| {
        claim["status"]["phase"] = "Pending".into()
    });
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    bench.run();
    bench.delete(Kind::Snapshot, "ns/s1");
    shows("C-70", &bench.run(), &[FREE, GONE]);
    assert!(is_gone(&bench));
}

#[test]
fn c_71_a_content_that_is_not_shown_yet_is_found_by_its_name() {
    let mut bench = Bench::new();
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    // After three writes the content exists, and the process crashes.
    assert!(bench.run_until(3));
    assert_eq!(bench.server.all(Kind::Content).count(), 1);
    bench.delete(Kind::Snapshot, "ns/s1");
    bench.restart();
    shows("C-71", &bench.run(), &[MARKED, DELETED, FREE, GONE]);
    let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
    assert!(!content["metadata"]["deletionTimestamp"].is_null());
    bench.sidecar_lets_go("snapcontent-U1");
    shows("C-71", &bench.run(), &[]);
    assert!(bench.server.all(Kind::Content).count() == 0);
}

fn restoring(namespace: &str, name: &str, source: Value, field: &str) -> Value {
    let mut claim = claim(name, "");
    claim["metadata"]["namespace"] = namespace.into();
    claim["status"]["phase"] = "Pending".into();
    claim["spec"] = json!({field: source});
    claim
}

#[test]
fn c_72_c_73_a_claim_that_reads_the_snapshot_is_waited_for() {
    let group = "snapshot.storage.k8s.io";
    let here = json!({"apiGroup": group, "kind": "VolumeSnapshot", "name": "s1"});
    let there =
        json!({"apiGroup": group, "kind": "VolumeSnapshot", "name": "s1", "namespace": "ns"});
    // The provisioner's finalizer holds its source, and in another namespace shows that there is a
    // grant.
    for (row, namespace, source, field, used) in [
        ("C-72", "ns", &here, "dataSource", false),
        ("C-72", "ns", &here, "dataSource", true),
        ("C-73", "ns2", &there, "dataSourceRef", true),
    ] {
        let key = format!("{namespace}/r1");
        let (mut bench, lines) = deleted(|bench| {
            bench.add(
                Kind::Claim,
                restoring(namespace, "r1", source.clone(), field),
            );
            bench.edit(Kind::Snapshot, "ns/s1", |snapshot| {
                let mut held = finalizers(snapshot);
                held.extend(used.then(|| SNAPSHOT_IN_USE.to_owned()));
                snapshot["metadata"]["finalizers"] = held.into();
            });
        });
        let warning = format!(
            "E: ns/s1 Warning SnapshotDeletePending Snapshot is being used to restore a PVC: {key}"
        );
        shows(row, &lines, &[&warning]);
        assert!(bench.retries());
        shows(row, &bench.retry(), &[&warning]);
        bench.edit(Kind::Claim, &key, |claim| {
            claim["status"]["phase"] = "Bound".into()
        });
        let lines = bench.run();
        shows(row, &lines[..2], &[MARKED, DELETED]);
    }
}

/// Without a grant it is never restored, and would hold another namespace's VolumeSnapshot.
#[test]
fn c_73_a_claim_of_another_namespace_counts_once_the_provisioner_has_begun() {
    let there = json!({
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s1",
        "namespace": "ns",
    });
    let (_, lines) = deleted(|bench| {
        bench.add(Kind::Claim, restoring("ns2", "r1", there, "dataSourceRef"));
    });
    shows("C-73", &lines, &[MARKED, DELETED, LEFT]);
}

#[test]
fn c_72_the_first_of_many_claims_are_named() {
    let here = json!({
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s1",
    });
    let (_, lines) = deleted(|bench| {
        for number in 1..=5 {
            let name = format!("r{number}");
            let claim = restoring("ns", &name, here.clone(), "dataSource");
            bench.add(Kind::Claim, claim);
        }
    });
    let warning = "E: ns/s1 Warning SnapshotDeletePending Snapshot is being used to restore a PVC: \
                   ns/r1, ns/r2, ns/r3 and 2 more";
    shows("C-72", &lines, &[warning]);
}

/// No provisioner restores from it, and the held VolumeSnapshot would in turn hold its source
/// claim.
#[test]
fn c_102_a_claim_does_not_hold_a_snapshot_that_was_never_ready() {
    type Change = fn(&mut Value);
    let here = json!({
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s1",
    });
    let warning =
        "E: ns/s1 Warning SnapshotDeletePending Snapshot is being used to restore a PVC: ns/r1";
    let changes: [(&str, Change, &[&str]); 3] = [
        ("C-102 never ready", |_| {}, &[MARKED, DELETED, LEFT]),
        (
            "C-102 held by the provisioner",
            |snapshot| {
                let mut held = finalizers(snapshot);
                held.push(SNAPSHOT_IN_USE.to_owned());
                snapshot["metadata"]["finalizers"] = held.into();
            },
            &[warning],
        ),
        (
            "C-102 ready until its content was lost",
            |snapshot| snapshot["status"]["error"] = json!({"message": MISSING}),
            &[warning],
        ),
    ];
    for (row, change, expected) in changes {
        let mut bench = Bench::new();
        let (mut snapshot, mut content) = ready("s1", "U1");
        content["status"]["readyToUse"] = false.into();
        snapshot["status"]["readyToUse"] = false.into();
        change(&mut snapshot);
        bench.add(Kind::Snapshot, snapshot);
        bench.add(Kind::Content, content);
        bench.add(
            Kind::Claim,
            restoring("ns", "r1", here.clone(), "dataSource"),
        );
        bench.delete(Kind::Snapshot, "ns/s1");
        shows(row, &bench.run(), expected);
    }
}

#[test]
fn c_74_a_claim_that_reads_something_else_is_not_waited_for() {
    let group = "snapshot.storage.k8s.io";
    for (namespace, source) in [
        ("ns", json!({"kind": "PersistentVolumeClaim", "name": "s1"})),
        (
            "ns",
            json!({"apiGroup": "x.io", "kind": "VolumeSnapshot", "name": "s1"}),
        ),
        (
            "ns2",
            json!({"apiGroup": group, "kind": "VolumeSnapshot", "name": "s1"}),
        ),
    ] {
        let (_, lines) = deleted(|bench| {
            bench.add(
                Kind::Claim,
                restoring(namespace, "r1", source, "dataSource"),
            );
        });
        shows("C-74", &lines, &[MARKED, DELETED, LEFT]);
    }
}

#[test]
fn c_75_a_content_that_is_gone_is_no_failure() {
    let missing = error(Refusal::NotFound, "not found");
    let (mut bench, lines) = deleted(|bench| bench.refuse("DELETE content", missing, 1));
    shows("C-75", &lines, &[MARKED, DELETED, DELETED, LEFT]);
    assert!(!bench.retries());
    // Somebody removes the finalizers by force.
    bench.server.strip(Kind::Content, "snapcontent-U1");
    shows("C-75", &bench.run(), &[GONE]);
}

#[test]
fn c_76_a_content_that_cannot_be_deleted_holds_its_snapshot() {
    let (mut bench, lines) = deleted(|bench| bench.refuse("DELETE content", forbidden(), 2));
    let warning = "E: ns/s1 Warning SnapshotContentObjectDeleteError Failed to delete snapshot \
                   content API object";
    shows("C-76", &lines, &[MARKED, DELETED, warning]);
    shows("C-76", &bench.retry(), &[DELETED, warning]);
    let snapshot = bench.server.get(Kind::Snapshot, "ns/s1").unwrap();
    assert_eq!(finalizers(snapshot), [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND]);
    shows("C-76", &bench.retry(), &[DELETED, LEFT]);
}

#[test]
fn c_77_the_content_of_another_is_left_alone() {
    let (bench, lines) = deleted(|bench| {
        bench.edit(Kind::Content, "snapcontent-U1", |content| {
            content["spec"]["volumeSnapshotRef"]["uid"] = "U2".into();
        });
    });
    shows("C-77", &lines, &[GONE]);
    let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
    assert_eq!(content["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(content["metadata"]["annotations"], Value::Null);
}

#[test]
fn c_78_finalizers_of_others_stay() {
    let (mut bench, lines) = deleted(|bench| {
        bench.edit(Kind::Snapshot, "ns/s1", |snapshot| {
            snapshot["metadata"]["finalizers"] =
                json!(["a/b", SNAPSHOT_AS_SOURCE, SNAPSHOT_IN_USE, SNAPSHOT_BOUND]);
        });
    });
    let left =
        "PATCH snapshot ns/s1 {\"metadata\":{\"finalizers\":[\"a/b\",\"F-use\",\"F-bound\"]}}";
    shows("C-78", &lines, &[MARKED, DELETED, left]);
    bench.sidecar_lets_go("snapcontent-U1");
    let left = "PATCH snapshot ns/s1 {\"metadata\":{\"finalizers\":[\"a/b\",\"F-use\"]}}";
    shows("C-78", &bench.run(), &[left]);
    assert!(!is_gone(&bench));
}

#[test]
fn c_79_a_content_that_was_deleted_first_waits_for_its_snapshot() {
    let mut bench = Bench::new();
    let (snapshot, content) = ready("s1", "U1");
    bench.add(Kind::Snapshot, snapshot);
    bench.add(Kind::Content, content);
    bench.run();
    bench.delete(Kind::Content, "snapcontent-U1");
    shows("C-79", &bench.run(), &[]);
    bench.delete(Kind::Snapshot, "ns/s1");
    shows("C-79", &bench.run(), &[MARKED, LEFT]);
}

#[test]
fn c_80_a_namespace_goes_with_claim_and_snapshot() {
    let mut bench = Bench::new();
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    bench.run();
    bench.delete(Kind::Claim, "ns/p1");
    bench.delete(Kind::Snapshot, "ns/s1");
    shows("C-80", &bench.run(), &[MARKED, DELETED, FREE, LEFT]);
    bench.sidecar_lets_go("snapcontent-U1");
    shows("C-80", &bench.run(), &[GONE]);
    let claim = bench.server.get(Kind::Claim, "ns/p1").unwrap();
    assert_eq!(finalizers(claim), ["kubernetes.io/pvc-protection"]);
}

#[test]
fn c_81_annotations_of_others_stay() {
    let (bench, _) = deleted(|bench| {
        bench.edit(Kind::Content, "snapcontent-U1", |content| {
            content["metadata"]["annotations"] = json!({"x": "y"});
        });
    });
    let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
    let annotations = &content["metadata"]["annotations"];
    assert_eq!(annotations["x"], "y");
    assert_eq!(
        annotations["snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"],
        "yes"
    );
}

#[test]
fn c_82_what_could_not_be_written_is_written_again() {
    let (mut bench, lines) = deleted(|bench| bench.refuse("PATCH content", broken(), 1));
    shows("C-82", &lines, &[MARKED]);
    shows("C-82", &bench.retry(), &[MARKED, DELETED, LEFT]);
}

#[test]
fn c_83_no_claim_is_held_for_ever() {
    // Somebody removed the VolumeSnapshot by force while no process ran.
    let mut bench = Bench::new();
    bench.edit(Kind::Claim, "ns/p1", |claim| {
        claim["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection", CLAIM_AS_SOURCE]);
    });
    bench.restart();
    shows("C-83", &bench.run(), &[FREE]);
    // Somebody removes it by force while the process runs.
    let mut bench = Bench::new();
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    bench.run();
    bench.server.strip(Kind::Snapshot, "ns/s1");
    shows("C-83", &bench.run(), &[FREE]);
    // Eight failed VolumeSnapshots are deleted together.
    let mut bench = Bench::new();
    bench.edit(Kind::Volume, "pv1", |volume| {
        volume["spec"]["csi"] = Value::Null
    });
    for number in 0..8 {
        bench.add(
            Kind::Snapshot,
            snapshot(&format!("s{number}"), &format!("U{number}")),
        );
    }
    bench.run();
    for number in 0..8 {
        bench.delete(Kind::Snapshot, &format!("ns/s{number}"));
    }
    let lines = bench.run();
    assert_eq!(
        lines.iter().filter(|line| **line == FREE).count(),
        1,
        "{lines:#?}"
    );
    assert_eq!(bench.server.all(Kind::Snapshot).count(), 0);
    let claim = bench.server.get(Kind::Claim, "ns/p1").unwrap();
    assert_eq!(finalizers(claim), ["kubernetes.io/pvc-protection"]);
}

#[test]
fn a_policy_that_changes_at_the_last_moment_counts() {
    // An administrator sets Retain between the mark and the DELETE.
    let mut bench = Bench::new();
    let (snapshot, content) = ready("s1", "U1");
    bench.add(Kind::Snapshot, snapshot);
    bench.add(Kind::Content, content);
    bench.run();
    bench.delete(Kind::Snapshot, "ns/s1");
    assert!(bench.run_until(1));
    retained(&mut bench);
    shows("W8", &bench.resync(), &[GONE]);
    let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
    assert_eq!(content["metadata"]["deletionTimestamp"], Value::Null);
}

#[test]
fn a_content_that_an_administrator_made_is_found_before_it_is_shown() {
    let mut bench = Bench::new();
    bench.add(Kind::Content, crate::testing::objects::handmade("pp", "s1"));
    bench.add(
        Kind::Snapshot,
        crate::testing::objects::of_content("s1", "U1", "pp"),
    );
    // Finalizer and binding; the status is not written any more.
    assert!(bench.run_until(2));
    bench.delete(Kind::Snapshot, "ns/s1");
    bench.restart();
    let lines = bench.run();
    assert!(
        lines.contains(&"DELETE content pp".to_owned()),
        "{lines:#?}"
    );
    bench.sidecar_lets_go("pp");
    bench.run();
    assert!(is_gone(&bench) && bench.server.all(Kind::Content).count() == 0);
}

#[test]
fn g_42_a_member_of_a_group_stays_with_its_group() {
    let (bench, lines) = deleted(|bench| {
        bench.without_groups();
        bench.add(Kind::Group, group("g1", "V1"));
        bench.edit(Kind::Snapshot, "ns/s1", |snapshot| {
            snapshot["status"]["volumeGroupSnapshotName"] = "g1".into();
        });
    });
    let warning = "E: ns/s1 Warning SnapshotDeletePending deletion of the individual volume \
                   snapshot ns/s1 is not allowed as it belongs to group snapshot ns/g1. …";
    shows("Q41", &lines, &[warning]);
    assert!(!is_gone(&bench));
    let untouched = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
    assert_eq!(
        untouched["metadata"]["annotations"],
        content("s1", "U1")["metadata"]["annotations"]
    );
}
