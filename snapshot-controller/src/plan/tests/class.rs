//! The class of a VolumeSnapshot.

use serde_json::{Value, json};

use super::*;
use crate::testing::bench::Bench;
use crate::testing::objects::{
    class, classless, default_class, handmade, of_content, ready, snapshot,
};
use crate::testing::server::Kind;

fn without_class(change: impl FnOnce(&mut Bench)) -> (Bench, Vec<String>) {
    let mut bench = Bench::new();
    change(&mut bench);
    bench.add(Kind::Snapshot, classless("s1", "U1"));
    let lines = bench.run();
    (bench, lines)
}

fn no_default(error: &str) -> [String; 2] {
    let message = format!("Failed to set default snapshot class with error {error}");
    complains_only("SetDefaultSnapshotClassFailed", &message)
}

const CHOSEN: &str = "PATCH snapshot ns/s1 {\"spec\":{\"volumeSnapshotClassName\":\"d1\"}}";
const MISSING: &str = "Failed to get snapshot class with error \
                       volumesnapshotclass.snapshot.storage.k8s.io \"c1\" not found";

#[test]
fn c_44_the_default_of_the_driver_is_taken() {
    let (_, lines) = without_class(|bench| {
        bench.add(Kind::Class, default_class("d1", "T"));
        bench.add(Kind::Class, default_class("d2", "T2"));
    });
    shows("C-44", &lines, &[&[CHOSEN], BEGUN].concat());
}

#[test]
fn c_45_c_46_c_47_there_is_not_one_default() {
    type Change = fn(&mut Bench);
    let none: Change = |_| {};
    let two: Change = |bench| {
        bench.add(Kind::Class, default_class("d1", "T"));
        bench.add(Kind::Class, default_class("d2", "T"));
    };
    let of_another: Change = |bench| bench.add(Kind::Class, default_class("d1", "T2"));
    let capital: Change = |bench| {
        let mut class = class("d1", "T");
        class["metadata"]["annotations"] =
            json!({"snapshot.storage.kubernetes.io/is-default-class": "True"});
        bench.add(Kind::Class, class);
    };
    let missing = "cannot find default snapshot class";
    for (row, change, error) in [
        ("C-45", none, missing),
        ("C-46", two, "2 default snapshot classes were found"),
        ("C-47", of_another, missing),
        ("C-47", capital, missing),
    ] {
        let (mut bench, lines) = without_class(change);
        let [status, event] = no_default(error);
        shows(row, &lines, &[&status, &event]);
        let snapshot = bench.server.get(Kind::Snapshot, "ns/s1").unwrap();
        assert_eq!(snapshot["metadata"]["finalizers"], Value::Null);
        assert!(bench.retries());
        shows(row, &bench.retry(), &[]);
        // A change that may help requeues at once.
        for name in ["d1", "d2"] {
            bench.server.strip(Kind::Class, name);
        }
        bench.run();
        bench.add(Kind::Class, default_class("d1", "T"));
        let lines = bench.run();
        shows(row, &lines[..4], &[CHOSEN, PROTECTED, CLAIMED, POSTED]);
    }
}

#[test]
fn c_48_only_volumes_of_csi_drivers_have_a_default() {
    let (_, lines) = without_class(|bench| {
        bench.edit(Kind::Volume, "pv1", |volume| {
            volume["spec"]["csi"] = Value::Null
        });
    });
    let [status, event] =
        no_default("snapshotting non-CSI volumes is not supported, snapshot:ns/s1");
    shows("C-48", &lines, &[&status, &event]);
}

#[test]
fn what_the_default_cannot_be_found_for() {
    type Change = fn(&mut Bench);
    let no_claim: Change = |bench| bench.server.strip(Kind::Claim, "ns/p1");
    let pending: Change = |bench| {
        bench.edit(Kind::Claim, "ns/p1", |c| {
            c["status"]["phase"] = "Pending".into()
        })
    };
    let no_volume: Change = |bench| bench.server.strip(Kind::Volume, "pv1");
    let others: Change = |bench| {
        bench.edit(Kind::Volume, "pv1", |v| {
            v["spec"]["claimRef"]["name"] = "x".into()
        })
    };
    for (change, error) in [
        (
            no_claim,
            "failed to retrieve PVC p1 from the lister: \"persistentvolumeclaim \\\"p1\\\" not found\"",
        ),
        (
            pending,
            "the PVC p1 is not yet bound to a PV, will not attempt to take a snapshot",
        ),
        (
            no_volume,
            "failed to retrieve PV pv1 from the API server: \"persistentvolumes \\\"pv1\\\" not \
             found\"",
        ),
        (others, "claim in dataSource not bound or invalid"),
    ] {
        let (_, lines) = without_class(change);
        let [status, event] = no_default(error);
        shows("4.3", &lines, &[&status, &event]);
    }
}

#[test]
fn c_49_c_50_a_class_that_is_not_there_is_waited_for() {
    let mut bench = Bench::new();
    bench.delete(Kind::Class, "c1");
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    let [status, event] = complains_only("GetSnapshotClassFailed", MISSING);
    shows("C-49", &bench.run(), &[&status, &event]);
    bench.add(Kind::Class, class("c1", "T"));
    let lines = bench.run();
    let shown = "PATCH snapshot/status ns/s1 {\"status\":{\"boundVolumeSnapshotContentName\":\
                 \"snapcontent-U1\",\"error\":null,\"readyToUse\":false}}";
    shows(
        "C-50",
        &lines,
        &[PROTECTED, CLAIMED, POSTED, WAITING, shown, BOUND],
    );
}

#[test]
fn c_49_c_51_what_has_its_content_does_not_need_its_class() {
    let mut bench = Bench::new();
    bench.delete(Kind::Class, "c1");
    let (snapshot, content) = ready("s1", "U1");
    bench.add(Kind::Snapshot, snapshot);
    bench.add(Kind::Content, content);
    shows("C-49", &bench.run(), &[]);
    bench.delete(Kind::Snapshot, "ns/s1");
    let lines = bench.run();
    let [marked, deleted] = [
        "PATCH content snapcontent-U1 …",
        "DELETE content snapcontent-U1",
    ];
    let left = "PATCH snapshot ns/s1 {\"metadata\":{\"finalizers\":[\"F-bound\"]}}";
    shows("C-51", &lines, &[marked, deleted, left]);
    bench.sidecar_lets_go("snapcontent-U1");
    let gone = "PATCH snapshot ns/s1 {\"metadata\":{\"finalizers\":null}}";
    shows("C-51", &bench.run(), &[gone]);
    assert!(bench.server.get(Kind::Snapshot, "ns/s1").is_none());
}

#[test]
fn c_52_what_an_administrator_made_needs_no_class() {
    let mut bench = Bench::new();
    bench.add(Kind::Class, default_class("d1", "T"));
    bench.add(Kind::Content, handmade("pp", "s1"));
    let mut snapshot = of_content("s1", "U1", "pp");
    snapshot["spec"]
        .as_object_mut()
        .unwrap()
        .remove("volumeSnapshotClassName");
    bench.add(Kind::Snapshot, snapshot);
    let lines = bench.run();
    assert!(
        !lines
            .iter()
            .any(|line| line.contains("volumeSnapshotClassName")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.contains("\"uid\":\"U1\"")),
        "{lines:?}"
    );
}

#[test]
fn c_53_nothing_goes_on_without_the_class_that_could_not_be_written() {
    let (mut bench, lines) = without_class(|bench| {
        bench.add(Kind::Class, default_class("d1", "T"));
        bench.refuse("PATCH snapshot ns/s1 {\"spec\"", broken(), 1);
    });
    shows("C-53", &lines, &[CHOSEN]);
    assert!(bench.retries());
    shows("C-53", &bench.retry(), &[&[CHOSEN], BEGUN].concat());
}
