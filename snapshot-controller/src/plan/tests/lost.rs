//! Ready snapshots that have lost their content.

use serde_json::json;

use super::*;
use crate::testing::bench::Bench;
use crate::testing::objects::{class, handmade, of_content, ready, taken};
use crate::testing::server::Kind;

#[test]
fn c_61_a_lost_snapshot_is_never_taken_anew() {
    let mut bench = Bench::new();
    let (snapshot, content) = ready("s1", "U1");
    bench.add(Kind::Snapshot, snapshot);
    bench.add(Kind::Content, content);
    shows("C-61", &bench.run(), &[]);
    bench.server.strip(Kind::Content, "snapcontent-U1");
    let [status, event] = complains("SnapshotContentMissing", "VolumeSnapshotContent is missing");
    shows("C-61", &bench.run(), &[&status, &event]);
    for _ in 0..3 {
        shows("C-61", &bench.retry(), &[]);
        shows("C-61", &bench.resync(), &[]);
    }
    bench.delete(Kind::Class, "c1");
    bench.add(Kind::Class, class("c1", "T"));
    bench.restart();
    shows("C-61", &bench.run(), &[]);
    assert_eq!(bench.server.all(Kind::Content).count(), 0);
}

#[test]
fn c_61_one_that_an_administrator_made_is_missed_as_well() {
    let mut bench = Bench::new();
    let mut content = handmade("pp", "s1");
    content["status"] = taken(true);
    bench.add(Kind::Content, content);
    bench.add(Kind::Snapshot, of_content("s1", "U1", "pp"));
    bench.run();
    bench.server.strip(Kind::Content, "pp");
    let [status, event] = complains("SnapshotContentMissing", "VolumeSnapshotContent is missing");
    shows("C-61", &bench.run(), &[&status, &event]);
}

#[test]
fn c_62_a_content_that_was_given_to_another() {
    let mut bench = Bench::new();
    let (snapshot, mut content) = ready("s1", "U1");
    bench.add(Kind::Snapshot, snapshot);
    content["spec"]["volumeSnapshotRef"]["uid"] = json!("U2");
    bench.add(Kind::Content, content);
    let [status, event] = complains(
        "SnapshotMisbound",
        "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly",
    );
    shows("C-62", &bench.run(), &[&status, &event]);
    shows("C-62", &bench.retry(), &[]);
    let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
    assert_eq!(content["metadata"]["resourceVersion"], "5");
}
