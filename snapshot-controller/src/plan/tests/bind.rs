//! Pre-provisioned contents.

use serde_json::{Value, json};

use super::*;
use crate::testing::bench::Bench;
use crate::testing::objects::{content, handmade, of_content, taken};
use crate::testing::server::Kind;

fn begin(change: impl FnOnce(&mut Bench)) -> (Bench, Vec<String>) {
    let mut bench = Bench::new();
    change(&mut bench);
    bench.add(Kind::Snapshot, of_content("s1", "U1", "pp"));
    let lines = bench.run();
    (bench, lines)
}

const BINDS: &str = "PATCH content pp {\"spec\":{\"volumeSnapshotClassName\":\"c1\",\
                     \"volumeSnapshotRef\":{\"uid\":\"U1\"}}}";
const SHOWN: &str = "PATCH snapshot/status ns/s1 {\"status\":{\"boundVolumeSnapshotContentName\":\
                     \"pp\",\"readyToUse\":false}}";
const HELD: &str = "PATCH content pp {\"metadata\":{\"finalizers\":[\"F-content\"]}}";

#[test]
fn c_54_a_content_that_is_there_is_bound() {
    let (_, lines) = begin(|bench| bench.add(Kind::Content, handmade("pp", "s1")));
    shows("C-54", &lines, &[PROTECTED, BINDS, SHOWN, BOUND, HELD]);
    let (_, lines) = begin(|bench| {
        let mut content = handmade("pp", "s1");
        content["spec"]["deletionPolicy"] = "Retain".into();
        bench.add(Kind::Content, content);
    });
    shows("C-54", &lines, &[PROTECTED, BINDS, SHOWN, HELD]);
}

#[test]
fn c_55_a_content_that_is_not_there_is_waited_for() {
    let (mut bench, lines) = begin(|_| {});
    let [status, event] = complains("SnapshotContentMissing", "VolumeSnapshotContent is missing");
    shows("C-55", &lines, &[PROTECTED, &status, &event]);
    bench.add(Kind::Content, handmade("pp", "s1"));
    let shown = "PATCH snapshot/status ns/s1 {\"status\":{\"boundVolumeSnapshotContentName\":\
                 \"pp\",\"error\":null}}";
    shows("C-55", &bench.run(), &[BINDS, shown, BOUND, HELD]);
}

/// The snapshot goes with the content, by a sidecar that may have seen it unbound.
#[test]
fn a_content_that_is_being_deleted_is_not_bound_any_more() {
    let (mut bench, lines) = begin(|bench| {
        let mut content = handmade("pp", "s1");
        content["metadata"]["finalizers"] = json!(["x/y"]);
        bench.add(Kind::Content, content);
        bench.delete(Kind::Content, "pp");
    });
    let message = "VolumeSnapshotContent [pp] is being deleted";
    let [status, event] = complains("SnapshotBindFailed", message);
    shows("going", &lines, &[PROTECTED, &status, &event]);
    // Another content of the same name will do.
    bench.edit(Kind::Content, "pp", |content| {
        content["metadata"]["finalizers"] = json!([]);
    });
    bench.run();
    bench.add(Kind::Content, handmade("pp", "s1"));
    let lines = bench.run();
    assert!(lines.iter().any(|line| line == BINDS), "{lines:?}");
}

#[test]
fn c_56_c_57_a_content_that_is_not_for_it_is_left_alone() {
    let dynamic =
        "VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one";
    let bound = "VolumeSnapshotContent [pp] is bound to a different snapshot";
    let reference = |field: &str| format!("/spec/volumeSnapshotRef/{field}");
    for (row, pointer, value, reason, message) in [
        (
            "C-56",
            "/spec/source".to_owned(),
            json!({"volumeHandle": "vol-1"}),
            "SnapshotContentMismatch",
            dynamic,
        ),
        (
            "C-57",
            reference("name"),
            json!("s2"),
            "SnapshotContentMisbound",
            bound,
        ),
        (
            "C-57",
            reference("namespace"),
            json!("x"),
            "SnapshotContentMisbound",
            bound,
        ),
        (
            "C-57",
            reference("uid"),
            json!("U2"),
            "SnapshotContentMisbound",
            bound,
        ),
    ] {
        let (bench, lines) = begin(|bench| {
            let mut content = handmade("pp", "s1");
            content["spec"]["volumeSnapshotRef"]["uid"] = "".into();
            content["metadata"]["finalizers"] =
                json!(["snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"]);
            *content.pointer_mut(&pointer).unwrap() = value;
            bench.add(Kind::Content, content);
        });
        let [status, event] = complains(reason, message);
        shows(row, &lines, &[&status, &event]);
        let content = bench.server.get(Kind::Content, "pp").unwrap();
        assert_eq!(content["metadata"]["resourceVersion"], "4");
    }
}

#[test]
fn c_58_the_class_of_the_snapshot_counts() {
    let (bench, lines) = begin(|bench| {
        let mut content = handmade("pp", "s1");
        content["spec"]["volumeSnapshotClassName"] = "x".into();
        bench.add(Kind::Content, content);
    });
    shows("C-58", &lines, &[PROTECTED, BINDS, SHOWN, BOUND, HELD]);
    let content = bench.server.get(Kind::Content, "pp").unwrap();
    assert_eq!(content["spec"]["volumeSnapshotClassName"], "c1");
}

#[test]
fn c_59_without_a_class_there_is_one_write() {
    let mut bench = Bench::new();
    bench.add(Kind::Content, handmade("pp", "s1"));
    let mut snapshot = of_content("s1", "U1", "pp");
    snapshot["spec"]
        .as_object_mut()
        .unwrap()
        .remove("volumeSnapshotClassName");
    bench.add(Kind::Snapshot, snapshot);
    let binds = "PATCH content pp {\"spec\":{\"volumeSnapshotRef\":{\"uid\":\"U1\"}}}";
    shows(
        "C-59",
        &bench.run(),
        &[PROTECTED, binds, SHOWN, BOUND, HELD],
    );
    assert!(bench.resync().is_empty());
}

#[test]
fn c_60_ready_in_the_first_status() {
    let (_, lines) = begin(|bench| {
        let mut content = handmade("pp", "s1");
        content["status"] = taken(true);
        bench.add(Kind::Content, content);
    });
    let shown = "PATCH snapshot/status ns/s1 {\"status\":{\"boundVolumeSnapshotContentName\":\
                 \"pp\",\"creationTime\":\"2026-01-02T03:04:05Z\",\"readyToUse\":true,\
                 \"restoreSize\":\"1Gi\"}}";
    shows(
        "C-60",
        &lines,
        &[PROTECTED, BINDS, shown, TAKEN, READY, BOUND, HELD],
    );
}

#[test]
fn a_binding_that_fails_is_told_of() {
    let (mut bench, lines) = begin(|bench| {
        bench.add(Kind::Content, handmade("pp", "s1"));
        bench.refuse("PATCH content", forbidden(), 1);
    });
    let [status, event] = complains(
        "SnapshotBindFailed",
        "Snapshot failed to bind VolumeSnapshotContent, forbidden",
    );
    shows("4.6 #5", &lines, &[PROTECTED, BINDS, &status, &event]);
    let shown = "PATCH snapshot/status ns/s1 {\"status\":{\"boundVolumeSnapshotContentName\":\
                 \"pp\",\"error\":null}}";
    shows("4.6 #5", &bench.retry(), &[BINDS, shown, BOUND, HELD]);
}

/// The attempt goes on after its binding failed with an unknown outcome, since the VolumeSnapshot is deleted
/// before the failure is reported: its earlier read of the content proves nothing.
#[test]
fn a_binding_of_which_nobody_has_heard_is_looked_for_before_the_snapshot_goes() {
    let (_, lines) = begin(|bench| {
        bench.shows_reads = true;
        bench.add(Kind::Content, handmade("pp", "s1"));
        // After these the attempt reads the content.
        bench.refuse("PATCH content", conflict(), 1);
        bench.refuse("PATCH content", broken(), 1);
        bench.overtake("PATCH snapshot/status", |server| {
            server.delete(Kind::Snapshot, "ns/s1", None).unwrap();
        });
    });
    let [status, _] = complains(
        "SnapshotBindFailed",
        "Snapshot failed to bind VolumeSnapshotContent, internal error",
    );
    let (of_content, of_snapshot) = ("GET content pp", "GET snapshot ns/s1");
    let freed = "PATCH snapshot ns/s1 {\"metadata\":{\"finalizers\":null}}";
    let first = [PROTECTED, BINDS, of_content, BINDS, &status, of_snapshot];
    let last = [of_content, freed];
    shows("unheard", &lines, &[&first[..], &last[..]].concat());
}

#[test]
fn c_63_an_unbound_content_is_left_alone() {
    let mut bench = Bench::new();
    bench.add(Kind::Content, handmade("pp", "s1"));
    shows("C-63", &bench.run(), &[]);
}

#[test]
fn c_64_a_bound_content_is_held() {
    for (held, expected) in [
        (Value::Null, "[\"F-content\"]"),
        (json!(["x/y"]), "[\"x/y\",\"F-content\"]"),
    ] {
        let mut bench = Bench::new();
        let mut content = handmade("pp", "s1");
        content["spec"]["volumeSnapshotRef"]["uid"] = "U1".into();
        content["metadata"]["finalizers"] = held;
        bench.add(Kind::Content, content);
        let patch = format!("PATCH content pp {{\"metadata\":{{\"finalizers\":{expected}}}}}");
        shows("C-64", &bench.run(), &[&patch]);
    }
}

#[test]
fn c_65_c_66_a_content_is_not_deleted_for_want_of_its_snapshot() {
    for (row, other) in [("C-65", false), ("C-66", true)] {
        let mut bench = Bench::new();
        bench.add(Kind::Content, content("s1", "U1"));
        if other {
            // The VolumeSnapshot has a content of its own, so nothing is left to do.
            let (snapshot, content) = crate::testing::objects::ready("s1", "U2");
            bench.add(Kind::Content, content);
            bench.add(Kind::Snapshot, snapshot);
        }
        shows(row, &bench.run(), &[]);
        assert!(bench.resync().is_empty());
        bench.delete(Kind::Content, "snapcontent-U1");
        let warning = "E: snapcontent-U1 Warning SnapshotContentOrphaned VolumeSnapshot ns/s1 of \
                       this content is gone, so nothing will delete its snapshot. …";
        shows(row, &bench.run(), &[warning]);
        assert!(!bench.retries() && bench.resync().is_empty());
        let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
        assert_eq!(content["metadata"]["annotations"], Value::Null);
    }
}

/// Found by chaos: somebody removes the finalizers of a VolumeSnapshot and deletes it before the controller has
/// added them again.
#[test]
fn c_103_a_retained_content_whose_snapshot_is_gone_can_be_deleted() {
    for from_the_start in [true, false] {
        let row = format!("C-103 {from_the_start}");
        let mut bench = Bench::new();
        let retain = |content: &mut Value| content["spec"]["deletionPolicy"] = "Retain".into();
        let mut content = content("s1", "U1");
        if from_the_start {
            retain(&mut content);
        }
        bench.add(Kind::Content, content);
        bench.run();
        bench.delete(Kind::Content, "snapcontent-U1");
        if !from_the_start {
            bench.run();
            bench.edit(Kind::Content, "snapcontent-U1", retain);
        }
        let freed = r#"PATCH content snapcontent-U1 {"metadata":{"finalizers":null}}"#;
        shows(&row, &bench.run(), &[freed]);
        assert!(!bench.retries() && bench.resync().is_empty(), "{row}");
    }
}

#[test]
fn a_content_without_one_source_is_told_of() {
    let mut bench = Bench::new();
    let mut content = handmade("pp", "s1");
    content["spec"]["source"] = json!({});
    bench.add(Kind::Content, content);
    let warning = "E: pp Warning ContentValidationError Exactly one of VolumeHandle and \
                   SnapshotHandle should be specified";
    shows("4.12 #1", &bench.run(), &[warning]);
}
