//! Deletion of group snapshots.

use serde_json::{Value, json};

use super::group::{CONTENT, is_usable, members, stage, take, usable};
use super::*;
use crate::model::Text;
use crate::plan::operation::Operation;
use crate::testing::bench::Bench;
use crate::testing::objects::{claim, group, taken_group};
use crate::testing::server::{Kind, finalizers};

/// The sidecar has deleted the group and removes its finalizer.
fn sidecar_ends_group(bench: &mut Bench) {
    bench.edit(Kind::GroupContent, CONTENT, |content| {
        let mark = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";
        assert_eq!(content["metadata"]["annotations"][mark], "yes");
        assert!(!content["metadata"]["deletionTimestamp"].is_null());
        content["metadata"]["finalizers"] = json!([]);
    });
}

/// The sidecar is done with the members' contents and removes their finalizers.
fn sidecar_ends_members(bench: &mut Bench) {
    for (_, name) in members() {
        bench.sidecar_lets_go(&name);
    }
}

/// Claim `ns/r1`, which is being restored from this member.
fn restoring(key: &str) -> Value {
    let mut claim = claim("r1", "");
    claim["status"]["phase"] = "Pending".into();
    claim["spec"]["dataSource"] = json!({
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot",
        "name": key.trim_start_matches("ns/"),
    });
    claim
}

fn is_gone(bench: &Bench, row: &str) {
    for kind in [
        Kind::Group,
        Kind::GroupContent,
        Kind::Snapshot,
        Kind::Content,
    ] {
        let left: Vec<&Text> = bench.server.all(kind).map(|(key, _)| key).collect();
        assert!(left.is_empty(), "{row}: {left:?}");
    }
}

#[test]
fn g_21_a_group_goes_with_its_members() {
    let mut bench = usable();
    bench.delete(Kind::Group, "ns/v1");
    let lines = bench.run();
    let [(first, _), (second, _)] = members();
    let expected = [
        "PATCH groupcontent groupsnapcontent-V1 {\"metadata\":{\"annotations\":{\"gbd\":\"yes\"}}}"
            .to_owned(),
        "DELETE groupcontent groupsnapcontent-V1".to_owned(),
        format!("DELETE snapshot {}", first.clone().min(second.clone())),
        format!("DELETE snapshot {}", first.clone().max(second.clone())),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    shows("G-21", &lines, &expected);
    // Members wait for the group without an event or a back-off.
    assert!(!bench.retries());
    sidecar_ends_group(&mut bench);
    let lines = bench.run();
    assert_eq!(
        lines[0],
        "PATCH group ns/v1 {\"metadata\":{\"finalizers\":null}}"
    );
    assert!(bench.server.get(Kind::Group, "ns/v1").is_none());
    for (key, name) in members() {
        let content = bench.server.get(Kind::Content, &name).unwrap();
        assert!(!content["metadata"]["deletionTimestamp"].is_null());
        let mark = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
        assert_eq!(content["metadata"]["annotations"][mark], "yes");
        let member = bench.server.get(Kind::Snapshot, &key).unwrap();
        let bound = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
        assert_eq!(finalizers(member), [bound]);
    }
    assert!(
        lines.iter().all(|line| !line.starts_with("E:")),
        "{lines:#?}"
    );
    sidecar_ends_members(&mut bench);
    bench.run();
    is_gone(&bench, "G-21");
    assert!(!bench.retries());
}

#[test]
fn g_22_what_is_to_be_kept_stays() {
    let mut bench = stage();
    bench.edit(Kind::GroupClass, "g", |class| {
        class["deletionPolicy"] = "Retain".into()
    });
    bench.add(Kind::Group, group("v1", "V1"));
    bench.run();
    take(&mut bench, taken_group(true));
    is_usable(&bench, "G-22");
    bench.delete(Kind::Group, "ns/v1");
    let lines = bench.run();
    assert!(lines[0].contains("gbd"), "{lines:#?}");
    assert!(
        lines
            .iter()
            .all(|line| !line.contains("DELETE groupcontent"))
    );
    assert!(lines.iter().all(|line| !line.contains("DELETE content")));
    assert_eq!(bench.server.all(Kind::Group).count(), 0);
    assert_eq!(bench.server.all(Kind::Snapshot).count(), 0);
    for (kind, number) in [(Kind::GroupContent, 1), (Kind::Content, 2)] {
        let left: Vec<&Value> = bench.server.all(kind).map(|(_, object)| object).collect();
        assert_eq!(left.len(), number);
        let going = |object: &&&Value| !object["metadata"]["deletionTimestamp"].is_null();
        assert_eq!(left.iter().filter(going).count(), 0);
    }
}

#[test]
fn g_23_a_member_that_is_being_restored_holds_the_group() {
    let mut bench = usable();
    let [(key, _), _] = members();
    bench.add(Kind::Claim, restoring(&key));
    bench.run();
    bench.delete(Kind::Group, "ns/v1");
    let reported = format!(
        "E: ns/v1 Warning SnapshotDeletePending Snapshot {key} belonging to VolumeGroupSnapshot \
         ns/v1 is being used to restore a PVC: ns/r1"
    );
    shows("G-23", &bench.run(), &[&reported]);
    shows("G-23", &bench.retry(), &[&reported]);
    bench.edit(Kind::Claim, "ns/r1", |claim| {
        claim["status"]["phase"] = "Bound".into()
    });
    let lines = bench.run();
    assert_eq!(lines[1], "DELETE groupcontent groupsnapcontent-V1");
}

/// The member is deleted before the group's content: until then it could become ready and be
/// restored from.
#[test]
fn g_44_a_claim_does_not_hold_the_group_of_a_member_that_was_never_ready() {
    let mut bench = stage();
    bench.add(Kind::Group, group("v1", "V1"));
    bench.run();
    let mut unready = taken_group(false);
    for member in unready["volumeSnapshotInfoList"].as_array_mut().unwrap() {
        member["readyToUse"] = false.into();
    }
    take(&mut bench, unready);
    let [(key, _), (other, _)] = members();
    bench.add(Kind::Claim, restoring(&key));
    bench.run();
    bench.delete(Kind::Group, "ns/v1");
    let deleted = |key: &str| format!("DELETE snapshot {key}");
    let expected = [
        deleted(&key),
        "PATCH groupcontent groupsnapcontent-V1 {\"metadata\":{\"annotations\":{\"gbd\":\"yes\"}}}"
            .to_owned(),
        "DELETE groupcontent groupsnapcontent-V1".to_owned(),
        deleted(&other),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    shows("G-44", &bench.run(), &expected);
    sidecar_ends_group(&mut bench);
    bench.run();
    sidecar_ends_members(&mut bench);
    bench.run();
    is_gone(&bench, "G-44");
    assert!(!bench.retries());
}

#[test]
fn g_24_a_member_goes_with_its_group_alone() {
    let mut bench = usable();
    let [(key, name), _] = members();
    bench.delete(Kind::Snapshot, &key);
    let reported = format!(
        "E: {key} Warning SnapshotDeletePending deletion of the individual volume snapshot {key} is \
         not allowed as it belongs to group snapshot ns/v1. …"
    );
    shows("G-24", &bench.run(), &[&reported]);
    assert!(bench.server.get(Kind::Snapshot, &key).is_some());
    let content = bench.server.get(Kind::Content, &name).unwrap();
    assert_eq!(content["metadata"]["deletionTimestamp"], Value::Null);
    bench.delete(Kind::Group, "ns/v1");
    bench.run();
    sidecar_ends_group(&mut bench);
    bench.run();
    sidecar_ends_members(&mut bench);
    bench.run();
    is_gone(&bench, "G-24");
}

#[test]
fn g_25_a_group_that_was_never_bound_leaves_nothing() {
    let mut bench = stage();
    bench.add(Kind::Group, group("v1", "V1"));
    // The finalizer and the content: the status is not written.
    assert!(bench.run_until(2));
    assert_eq!(bench.server.all(Kind::GroupContent).count(), 1);
    bench.delete(Kind::Group, "ns/v1");
    bench.restart();
    bench.run();
    sidecar_ends_group(&mut bench);
    bench.run();
    is_gone(&bench, "G-25");
}

#[test]
fn g_26_a_content_that_is_gone_already() {
    let mut bench = usable();
    bench.delete(Kind::Group, "ns/v1");
    bench.server.strip(Kind::GroupContent, CONTENT);
    let lines = bench.run();
    assert!(
        lines.iter().all(|line| !line.starts_with("E: ns/v1")),
        "{lines:#?}"
    );
    assert!(bench.server.get(Kind::Group, "ns/v1").is_none());
    sidecar_ends_members(&mut bench);
    bench.run();
    is_gone(&bench, "G-26");
}

#[test]
fn g_35_members_of_any_version_are_the_groups() {
    for version in ["v1", "v1beta2", "v1beta1"] {
        let mut bench = usable();
        for (key, _) in members() {
            bench.edit(Kind::Snapshot, &key, |member| {
                let version = format!("groupsnapshot.storage.k8s.io/{version}");
                member["metadata"]["ownerReferences"][0]["apiVersion"] = version.into();
            });
        }
        shows("G-35", &bench.run(), &[]);
        bench.delete(Kind::Group, "ns/v1");
        bench.run();
        sidecar_ends_group(&mut bench);
        bench.run();
        sidecar_ends_members(&mut bench);
        bench.run();
        is_gone(&bench, version);
    }
}

#[test]
fn g_37_a_crash_at_any_write_of_the_deletion() {
    for (first, second) in (0..6).flat_map(|first| (0..10).map(move |second| (first, second))) {
        let row = format!("G-37 {first} {second}");
        let mut bench = usable();
        bench.delete(Kind::Group, "ns/v1");
        bench.run_until(first);
        bench.restart();
        bench.run();
        sidecar_ends_group(&mut bench);
        bench.run_until(second);
        bench.restart();
        bench.run();
        sidecar_ends_members(&mut bench);
        bench.run();
        is_gone(&bench, &row);
        assert!(!bench.retries(), "{row}");
    }
}

#[test]
fn g_37_half_of_a_member_goes_too() {
    // The finalizer, the content, its status; then only the first member's content.
    let mut bench = stage();
    bench.add(Kind::Group, group("v1", "V1"));
    bench.run();
    bench.edit(Kind::GroupContent, CONTENT, |content| {
        content["status"] = taken_group(true)
    });
    assert!(bench.run_until(1));
    assert_eq!(bench.server.all(Kind::Content).count(), 1);
    let half = bench.server.all(Kind::Content).next().unwrap().1.clone();
    bench.delete(Kind::Group, "ns/v1");
    bench.restart();
    bench.run();
    sidecar_ends_group(&mut bench);
    bench.run();
    is_gone(&bench, "W24");
    // A late POST arrives after everything is deleted.
    bench.add(Kind::Content, half);
    bench.run();
    is_gone(&bench, "W24");
}

#[test]
fn g_39_what_is_measured() {
    use Operation::{Create, CreateAndReady, Delete};
    let sample = |operation: Operation, status| (operation.name(true), status);
    let samples = |bench: &mut Bench| {
        let all = std::mem::take(&mut bench.samples).into_iter();
        let of_groups = all.filter(|sample| sample.group);
        of_groups
            .map(|sample| {
                assert_eq!((&*sample.driver, sample.kind), ("T", "dynamic"));
                (sample.operation.name(true), sample.status)
            })
            .collect::<Vec<_>>()
    };
    let mut bench = usable();
    let both = [sample(Create, "success"), sample(CreateAndReady, "success")];
    assert_eq!(samples(&mut bench), both);
    assert_eq!(
        both.map(|(name, _)| name),
        ["CreateGroupSnapshot", "CreateGroupSnapshotAndReady"]
    );
    assert_eq!(bench.in_flight, 0);
    bench.delete(Kind::Group, "ns/v1");
    bench.run();
    sidecar_ends_group(&mut bench);
    bench.run();
    sidecar_ends_members(&mut bench);
    bench.run();
    assert_eq!(samples(&mut bench), [sample(Delete, "success")]);
    assert_eq!(bench.in_flight, 0);
    let mut bench = stage();
    bench.add(Kind::Group, group("v1", "V1"));
    bench.run();
    assert_eq!(bench.in_flight, 2);
    bench.delete(Kind::Group, "ns/v1");
    bench.run();
    sidecar_ends_group(&mut bench);
    bench.run();
    let canceled = [
        sample(Delete, "success"),
        sample(Create, "cancel"),
        sample(CreateAndReady, "cancel"),
    ];
    assert_eq!(samples(&mut bench), canceled);
    assert_eq!(bench.in_flight, 0);
}

/// The group was removed by force: deleting its retained content loses no data.
#[test]
fn g_45_a_retained_content_whose_group_is_gone_can_be_deleted() {
    for from_the_start in [true, false] {
        let row = format!("G-45 {from_the_start}");
        let mut bench = usable();
        let retain = |content: &mut Value| content["spec"]["deletionPolicy"] = "Retain".into();
        if from_the_start {
            bench.edit(Kind::GroupContent, CONTENT, retain);
        }
        bench.server.strip(Kind::Group, "ns/v1");
        bench.run();
        bench.delete(Kind::GroupContent, CONTENT);
        if !from_the_start {
            bench.run();
            bench.edit(Kind::GroupContent, CONTENT, retain);
        }
        let reported = r#"PATCH groupcontent groupsnapcontent-V1 {"metadata":{"finalizers":null}}"#;
        shows(&row, &bench.run(), &[reported]);
        assert!(!bench.retries(), "{row}");
    }
}

/// The group was removed by force: nothing deletes what is left, and the controller reports it
/// once.
#[test]
fn g_43_a_content_whose_group_is_gone_is_told_of_when_it_is_deleted() {
    let reported = "E: groupsnapcontent-V1 Warning GroupSnapshotContentOrphaned VolumeGroupSnapshot \
                ns/v1 of this content is gone, so nothing will delete its group snapshot. To delete \
                the content and keep the group snapshot, …";
    for group_first in [true, false] {
        let row = format!("G-43 {group_first}");
        let mut bench = usable();
        if group_first {
            bench.server.strip(Kind::Group, "ns/v1");
            shows(&row, &bench.run(), &[]);
            bench.delete(Kind::GroupContent, CONTENT);
        } else {
            bench.delete(Kind::GroupContent, CONTENT);
            shows(&row, &bench.run(), &[]);
            bench.server.strip(Kind::Group, "ns/v1");
        }
        shows(&row, &bench.run(), &[reported]);
        assert!(!bench.retries(), "{row}");
        shows(&row, &bench.resync(), &[]);
        // Another group of the same name does not own this content either.
        bench.add(Kind::Group, group("v1", "V2"));
        bench.restart();
        let lines = bench.run();
        let again = lines
            .iter()
            .filter(|line| line.contains("GroupSnapshotContentOrphaned"));
        assert_eq!(again.count(), 1, "{row} {lines:#?}");
    }
}

/// One event for one cause, and no new snapshot is taken.
#[test]
fn a_group_whose_content_was_given_to_another_is_told_once() {
    let mut bench = usable();
    bench.edit(Kind::GroupContent, CONTENT, |content| {
        content["spec"]["volumeGroupSnapshotRef"]["uid"] = "V9".into();
    });
    let mut lines = bench.run();
    lines.extend(bench.retry());
    let of_group = lines.iter().filter(|line| line.starts_with("E: ns/v1"));
    let reported = "E: ns/v1 Warning GroupSnapshotMisbound VolumeGroupSnapshotContent is not bound to the \
                VolumeGroupSnapshot correctly";
    assert_eq!(of_group.collect::<Vec<_>>(), [reported], "{lines:#?}");
    let posts = lines.iter().filter(|line| line.starts_with("POST"));
    assert_eq!(posts.count(), 0, "{lines:#?}");
}
