//! Events and status after writes that the API server refuses, in upstream's words.

use super::group::{members, stage, take, usable};
use super::*;
use crate::testing::bench::Bench;
use crate::testing::objects::{group, snapshot, taken, taken_group};
use crate::testing::server::Kind;

fn has_event(row: &str, lines: &[String], event: &str) {
    let reported = lines.iter().any(|line| line == event);
    assert!(reported, "{row}: {event}\n{lines:#?}");
}

#[test]
fn c_34_c_42_refused_writes_are_told_of_with_what_they_were_to_write() {
    let of = "snapshot controller failed to update";
    for (line, event) in [
        (
            "PATCH snapshot ns/s1",
            format!(
                "SnapshotFinalizerError Failed to check and update snapshot: {of} ns/s1 on API \
                 server: forbidden"
            ),
        ),
        (
            "PUT claim ns/p1",
            format!(
                "SnapshotContentCreationFailed Failed to create snapshot content with error {of} \
                 p1 on API server: forbidden"
            ),
        ),
        (
            "POST content",
            format!(
                "SnapshotContentCreationFailed Failed to create snapshot content with error {of} \
                 ns/s1 on API server: forbidden"
            ),
        ),
        (
            "PATCH snapshot/status ns/s1 {\"status\":{\"bound",
            format!(
                "SnapshotStatusUpdateFailed Snapshot status update failed, {of} ns/s1 on API \
                 server: forbidden"
            ),
        ),
    ] {
        let mut bench = Bench::new();
        bench.refuse(line, forbidden(), 1);
        bench.add(Kind::Snapshot, snapshot("s1", "U1"));
        let event = format!("E: ns/s1 Warning {event}");
        has_event(line, &bench.run(), &event);
        bench.retry();
        bench.edit(Kind::Content, "snapcontent-U1", |content| {
            content["status"] = taken(true);
        });
        bench.run();
        let snapshot = bench.server.get(Kind::Snapshot, "ns/s1").unwrap();
        assert_eq!(snapshot["status"]["readyToUse"], true, "{line}");
    }
}

#[test]
fn g_1_refused_writes_of_groups_are_told_of_with_what_they_were_to_write() {
    let of = "snapshot controller failed to update ns/v1 on API server: forbidden";
    for (line, event) in [
        (
            "PATCH group ns/v1",
            format!("GroupSnapshotFinalizerError Failed to check and update group snapshot: {of}"),
        ),
        (
            "POST groupcontent",
            format!(
                "GroupSnapshotContentCreationFailed failed to create group snapshot content with \
                 error {of}"
            ),
        ),
        (
            "PATCH group/status ns/v1 {\"status\":{\"bound",
            format!("GroupSnapshotStatusUpdateFailed GroupSnapshot status update failed, {of}"),
        ),
    ] {
        let mut bench = stage();
        bench.refuse(line, forbidden(), 1);
        bench.add(Kind::Group, group("v1", "V1"));
        let event = format!("E: ns/v1 Warning {event}");
        has_event(line, &bench.run(), &event);
        bench.retry();
        take(&mut bench, taken_group(true));
        let group = bench.server.get(Kind::Group, "ns/v1").unwrap();
        assert_eq!(group["status"]["readyToUse"], true, "{line}");
    }
}

#[test]
fn g_21_a_member_that_may_not_be_deleted_is_named() {
    let mut bench = usable();
    bench.refuse("DELETE snapshot", forbidden(), 1);
    bench.delete(Kind::Group, "ns/v1");
    let lines = bench.run();
    let reported = |key: &str| {
        format!(
            "E: ns/v1 Warning SnapshotDeleteError failed to delete snapshot API object {key} part \
             of group snapshot ns/v1: forbidden"
        )
    };
    let named = members()
        .into_iter()
        .any(|(key, _)| lines.contains(&reported(&key)));
    assert!(named, "{lines:#?}");
}
