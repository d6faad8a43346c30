//! Pre-provisioned group snapshots.

use serde_json::{Value, json};

use super::*;
use crate::testing::bench::Bench;
use crate::testing::objects::{
    group, group_class, handmade, handmade_group, of_content, taken_group,
};
use crate::testing::server::Kind;

/// The VolumeGroupSnapshot `ns/v1` of the pre-provisioned content `gp`, whose status the sidecar
/// has filled.
fn stage(change: impl FnOnce(&mut Value)) -> Bench {
    let mut bench = Bench::new();
    let mut content = handmade_group("gp", "v1");
    content["status"] = json!({
        "volumeGroupSnapshotHandle": "grp-9", "readyToUse": true,
        "creationTime": "2026-01-02T03:04:05Z",
    });
    bench.add(Kind::GroupContent, content);
    let mut group = group("v1", "V1");
    group["spec"] = json!({"source": {"volumeGroupSnapshotContentName": "gp"}});
    change(&mut group);
    bench.add(Kind::Group, group);
    bench
}

#[test]
fn g_27_a_content_that_is_there_is_bound() {
    let mut bench = stage(|_| {});
    let lines = bench.run();
    let expected = [
        "PATCH group ns/v1 {\"metadata\":{\"finalizers\":[\"F-gbound\"]}}",
        "PATCH groupcontent gp {\"spec\":{\"volumeGroupSnapshotRef\":{\"uid\":\"V1\"}}}",
        "PATCH group/status ns/v1 {\"status\":{\"boundVolumeGroupSnapshotContentName\":\"gp\",\
         \"creationTime\":\"2026-01-02T03:04:05Z\",\"readyToUse\":true}}",
        "E: ns/v1 Normal GroupSnapshotCreated GroupSnapshot ns/v1 was successfully created by the \
         CSI driver.",
        "E: ns/v1 Normal GroupSnapshotReady GroupSnapshot ns/v1 is ready to use.",
        "PATCH groupcontent gp {\"metadata\":{\"finalizers\":[\"F-gcontent\"]}}",
    ];
    shows("G-27", &lines, &expected);
    assert_eq!(bench.server.all(Kind::Snapshot).count(), 0);
    assert_eq!(bench.server.all(Kind::Content).count(), 0);
    shows("G-27", &bench.resync(), &[]);
}

/// The watch does not report again what another attempt has read.
#[test]
fn g_27_a_group_hears_of_what_the_attempt_on_its_content_has_read() {
    let mut bench = stage(|_| {});
    bench.edit(Kind::GroupContent, "gp", |content| {
        content["status"]["readyToUse"] = false.into();
    });
    let protects = "PATCH groupcontent gp {\"metadata\":{\"finalizers\"";
    bench.overtake(protects, |server| {
        server.edit(Kind::GroupContent, "gp", |content| {
            content["status"]["readyToUse"] = true.into();
        });
    });
    bench.run();
    let group = bench.server.get(Kind::Group, "ns/v1").unwrap();
    assert_eq!(group["status"]["readyToUse"], true);
}

/// A pre-provisioned pair whose content the sidecar has found in the group with this handle.
fn add_pair(bench: &mut Bench, handle: &str) {
    let mut content = handmade("pp", "s8");
    content["status"] = json!({
        "snapshotHandle": "snap-8", "readyToUse": true, "restoreSize": 5,
        "creationTime": 1_767_323_045_000_000_000_i64, "volumeGroupSnapshotHandle": handle,
    });
    bench.add(Kind::Content, content);
    let mut member = of_content("s8", "U8", "pp");
    let spec = member["spec"].as_object_mut().unwrap();
    spec.remove("volumeSnapshotClassName");
    member["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}]);
    bench.add(Kind::Snapshot, member);
}

fn has_joined(bench: &Bench) {
    let member = bench.server.get(Kind::Snapshot, "ns/s8").unwrap();
    assert_eq!(member["status"]["readyToUse"], true);
    assert_eq!(member["status"]["volumeGroupSnapshotName"], "v1");
    let owners = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"},
        {
            "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
            "name": "v1", "uid": "V1",
        },
    ]);
    assert_eq!(member["metadata"]["ownerReferences"], owners);
}

#[test]
fn g_28_a_pair_joins_the_group_of_its_handle() {
    let mut bench = stage(|_| {});
    bench.run();
    add_pair(&mut bench, "grp-9");
    bench.run();
    has_joined(&bench);
    shows("G-28", &bench.resync(), &[]);
    // The pair joins in the other order as well.
    let mut bench = Bench::new();
    add_pair(&mut bench, "grp-9");
    bench.run();
    let member = bench.server.get(Kind::Snapshot, "ns/s8").unwrap();
    assert_eq!(member["status"]["readyToUse"], true);
    bench.add(Kind::GroupContent, {
        let mut content = handmade_group("gp", "v1");
        content["status"] = json!({"volumeGroupSnapshotHandle": "grp-9", "readyToUse": true});
        content
    });
    let mut group = group("v1", "V1");
    group["spec"] = json!({"source": {"volumeGroupSnapshotContentName": "gp"}});
    bench.add(Kind::Group, group);
    bench.run();
    has_joined(&bench);
}

#[test]
fn g_29_a_pair_whose_group_nobody_knows_is_usable() {
    let mut bench = stage(|_| {});
    bench.run();
    add_pair(&mut bench, "grp-unknown");
    bench.run();
    let member = bench.server.get(Kind::Snapshot, "ns/s8").unwrap();
    assert_eq!(member["status"]["readyToUse"], true);
    assert_eq!(member["status"]["restoreSize"], "5");
    assert_eq!(member["status"]["volumeGroupSnapshotName"], Value::Null);
    assert!(!bench.retries());
}

#[test]
fn g_32_its_content_is_deleted_and_its_pair_freed() {
    let mut bench = stage(|_| {});
    bench.run();
    add_pair(&mut bench, "grp-9");
    bench.run();
    bench.delete(Kind::Group, "ns/v1");
    let lines = bench.run();
    let expected = [
        "PATCH groupcontent gp {\"metadata\":{\"annotations\":{\"gbd\":\"yes\"}}}",
        "DELETE groupcontent gp",
        "DELETE snapshot ns/s8",
    ];
    shows("G-32", &lines, &expected);
}

#[test]
fn g_33_a_binding_that_is_refused_is_told() {
    let mut bench = stage(|group| group["spec"]["volumeGroupSnapshotClassName"] = "g".into());
    bench.add(Kind::GroupClass, group_class("g", "T"));
    bench.edit(Kind::GroupContent, "gp", |content| {
        content["spec"]["volumeGroupSnapshotClassName"] = "other".into()
    });
    let invalid = error(
        Refusal::Other,
        "volumeGroupSnapshotClassName is immutable once set",
    );
    bench.refuse("PATCH groupcontent gp", invalid, 9);
    let lines = bench.run();
    let text = "GroupSnapshot failed to bind VolumeGroupSnapshotContent, \
                volumeGroupSnapshotClassName is immutable once set";
    let tried = "PATCH groupcontent gp {\"spec\":{\"volumeGroupSnapshotClassName\":\"g\",\
                 \"volumeGroupSnapshotRef\":{\"uid\":\"V1\"}}}";
    assert_eq!(lines[1], tried, "{lines:#?}");
    let reported = format!("E: ns/v1 Warning GroupSnapshotBindFailed {text}");
    assert_eq!(lines.last(), Some(&reported), "{lines:#?}");
}

/// The group goes with the content, by a sidecar that may have seen it unbound.
#[test]
fn a_content_that_is_being_deleted_is_not_bound_any_more() {
    let mut bench = stage(|_| {});
    bench.edit(Kind::GroupContent, "gp", |content| {
        content["metadata"]["finalizers"] = json!(["x/y"]);
    });
    bench.delete(Kind::GroupContent, "gp");
    let lines = bench.run();
    let bound = lines
        .iter()
        .any(|line| line.starts_with("PATCH groupcontent gp {\"spec\""));
    assert!(!bound, "{lines:#?}");
    let reported = "E: ns/v1 Warning GroupSnapshotBindFailed VolumeGroupSnapshotContent [gp] is being \
                deleted";
    assert!(lines.iter().any(|line| line == reported), "{lines:#?}");
}

#[test]
fn contents_that_do_not_fit_are_told() {
    type Change = fn(&mut Value);
    let rows: [(&str, Change, &str); 3] = [
        (
            "GroupSnapshotContentMismatch",
            |content| content["spec"]["source"] = json!({"volumeHandles": ["vol-1"]}),
            "VolumeGroupSnapshotContent is dynamically provisioned while expecting a \
             pre-provisioned one",
        ),
        (
            "GroupSnapshotContentMisbound",
            |content| content["spec"]["volumeGroupSnapshotRef"]["uid"] = "V0".into(),
            "VolumeGroupSnapshotContent [gp] is bound to a different group snapshot",
        ),
        (
            "GroupSnapshotContentMisbound",
            |content| content["spec"]["volumeGroupSnapshotRef"]["name"] = "v0".into(),
            "VolumeGroupSnapshotContent [gp] is bound to a different group snapshot",
        ),
    ];
    for (reason, change, text) in rows {
        let mut bench = stage(|_| {});
        bench.edit(Kind::GroupContent, "gp", change);
        let lines = bench.run();
        let reported = format!("E: ns/v1 Warning {reason} {text}");
        assert!(lines.contains(&reported), "{lines:#?}");
        let content = bench.server.get(Kind::GroupContent, "gp").unwrap();
        assert_ne!(content["spec"]["volumeGroupSnapshotRef"]["uid"], "V1");
    }
    let mut bench = stage(|_| {});
    bench.server.strip(Kind::GroupContent, "gp");
    let lines = bench.run();
    let reported =
        "E: ns/v1 Warning GroupSnapshotContentMissing VolumeGroupSnapshotContent is missing";
    assert!(lines.iter().any(|line| line == reported), "{lines:#?}");
    // The content requeues the group at once.
    bench.add(Kind::GroupContent, handmade_group("gp", "v1"));
    let lines = bench.run();
    assert!(lines[0].starts_with("PATCH groupcontent gp"), "{lines:#?}");
}

fn joins(bench: &Bench) -> bool {
    let member = bench.server.get(Kind::Snapshot, "ns/s8").unwrap();
    let owners = member["metadata"]["ownerReferences"].as_array().unwrap();
    !member["status"]["volumeGroupSnapshotName"].is_null() || owners.len() > 1
}

/// Handles belong to one driver, and an unbound content is nobody's group.
#[test]
fn g_28_a_pair_joins_no_other_group_of_its_handle() {
    let mut bench = stage(|_| {});
    bench.edit(Kind::GroupContent, "gp", |content| {
        content["spec"]["driver"] = "T2".into();
    });
    bench.run();
    add_pair(&mut bench, "grp-9");
    bench.run();
    assert!(!joins(&bench), "a group of another driver");

    let mut bench = Bench::new();
    bench.add(Kind::GroupContent, {
        let mut content = handmade_group("gp", "v1");
        content["status"] = json!({"volumeGroupSnapshotHandle": "grp-9", "readyToUse": true});
        content
    });
    add_pair(&mut bench, "grp-9");
    bench.run();
    assert!(!joins(&bench), "a content that no group has");

    // The group of that name is bound to another content.
    let mut bench = Bench::new();
    for (name, handle, uid) in [("gp", "grp-9", "V0"), ("gq", "grp-7", "V1")] {
        let mut content = handmade_group(name, "v1");
        content["spec"]["volumeGroupSnapshotRef"]["uid"] = uid.into();
        content["status"] = json!({"volumeGroupSnapshotHandle": handle, "readyToUse": true});
        bench.add(Kind::GroupContent, content);
    }
    let mut other = group("v1", "V1");
    other["spec"] = json!({"source": {"volumeGroupSnapshotContentName": "gq"}});
    bench.add(Kind::Group, other);
    bench.run();
    add_pair(&mut bench, "grp-9");
    bench.run();
    assert!(!joins(&bench), "a content of a group that was before");
}

/// The name in its status is that of an earlier group.
#[test]
fn g_28_a_group_made_anew_neither_owns_nor_holds_a_pair() {
    let mut bench = stage(|_| {});
    bench.edit(Kind::GroupContent, "gp", |content| {
        content["status"]["volumeGroupSnapshotHandle"] = "grp-7".into();
    });
    bench.run();
    add_pair(&mut bench, "grp-9");
    bench.edit(Kind::Content, "pp", |content| {
        content["spec"]["volumeSnapshotRef"]["uid"] = "U8".into();
    });
    bench.edit(Kind::Snapshot, "ns/s8", |member| {
        member["status"] = json!({
            "boundVolumeSnapshotContentName": "pp", "readyToUse": true, "restoreSize": "5",
            "creationTime": "2026-01-02T03:04:05Z", "volumeGroupSnapshotName": "v1",
        });
    });
    bench.run();
    let member = bench.server.get(Kind::Snapshot, "ns/s8").unwrap();
    let owners = member["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1, "{owners:?}");
    bench.delete(Kind::Snapshot, "ns/s8");
    let lines = bench.run();
    let held = |line: &String| line.contains("SnapshotDeletePending");
    assert!(!lines.iter().any(held), "{lines:#?}");
    let content = bench.server.get(Kind::Content, "pp").unwrap();
    assert!(
        !content["metadata"]["deletionTimestamp"].is_null(),
        "{lines:#?}"
    );
}

/// The VolumeGroupSnapshot `ns/v0` of a content that sorts first among those with the handle.
fn add_namesake(bench: &mut Bench, handle: &str) {
    let mut content = handmade_group("a", "v0");
    content["status"] = json!({"volumeGroupSnapshotHandle": handle, "readyToUse": true});
    bench.add(Kind::GroupContent, content);
    let mut other = group("v0", "V0");
    other["spec"] = json!({"source": {"volumeGroupSnapshotContentName": "a"}});
    bench.add(Kind::Group, other);
    bench.run();
}

#[test]
fn g_28_of_two_groups_of_its_handle_a_pair_names_the_one_that_owns_it() {
    let mut bench = stage(|_| {});
    bench.run();
    add_pair(&mut bench, "grp-9");
    bench.run();
    add_namesake(&mut bench, "grp-9");
    bench.edit(Kind::Snapshot, "ns/s8", |member| {
        member["status"]["volumeGroupSnapshotName"] = Value::Null;
    });
    bench.run();
    has_joined(&bench);
}

#[test]
fn g_4_a_member_shows_its_owner_although_another_group_has_its_handle() {
    let mut bench = group::stage();
    add_namesake(&mut bench, "grp-1");
    bench.add(Kind::Group, group("v1", "V1"));
    bench.run();
    group::take(&mut bench, taken_group(true));
    group::is_named(&bench, "v1");
}

/// It has the name alone: somebody has removed its owner.
#[test]
fn a_pair_that_goes_with_its_group_hears_of_its_end() {
    let mut bench = stage(|_| {});
    bench.run();
    add_pair(&mut bench, "grp-9");
    bench.run();
    bench.edit(Kind::Snapshot, "ns/s8", |member| {
        assert_eq!(member["status"]["volumeGroupSnapshotName"], "v1");
        member["metadata"]["ownerReferences"] = Value::Null;
    });
    bench.delete(Kind::Group, "ns/v1");
    bench.run();
    bench.delete(Kind::Snapshot, "ns/s8");
    bench.run();
    let content = bench.server.get(Kind::Content, "pp").unwrap();
    assert!(content["metadata"]["deletionTimestamp"].is_null());
    bench.edit(Kind::GroupContent, "gp", |content| {
        content["metadata"]["finalizers"] = json!([]);
    });
    let lines = bench.run();
    assert!(bench.server.get(Kind::Group, "ns/v1").is_none());
    let content = bench.server.get(Kind::Content, "pp").unwrap();
    let going = &content["metadata"]["deletionTimestamp"];
    assert!(!going.is_null(), "{lines:#?}");
}
