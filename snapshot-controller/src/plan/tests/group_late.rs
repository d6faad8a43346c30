//! Members of groups that are created late or deleted early.

use serde_json::{Value, json};

use super::group::{CONTENT, is_usable, members, stage, take};
use crate::testing::bench::Bench;
use crate::testing::objects::{group, handmade_group, taken_group};
use crate::testing::server::Kind;

/// Somebody removes a member's finalizers by force before the group is ready.
#[test]
fn a_member_that_is_removed_by_force_is_made_again_with_its_content() {
    for restarts in [false, true] {
        let mut bench = stage();
        bench.add(Kind::Group, group("v1", "V1"));
        bench.run();
        take(&mut bench, taken_group(false));
        let [(key, _), _] = members();
        bench.server.strip(Kind::Snapshot, &key);
        if restarts {
            bench.restart();
        }
        bench.run();
        let lines = take(&mut bench, taken_group(true));
        let reported = |line: &String| line.contains("Misbound");
        assert!(!lines.iter().any(reported), "{lines:#?}");
        is_usable(&bench, "removed by force");
        assert!(!bench.retries());
    }
}

/// Somebody deletes a member's content or VolumeSnapshot before it is filled: finalizers hold both, and
/// the snapshot exists.
#[test]
fn w_23_a_member_that_is_deleted_while_it_is_made_is_filled_all_the_same() {
    let kinds = [Kind::Content, Kind::Snapshot];
    for (kind, writes) in kinds
        .into_iter()
        .flat_map(|kind| (2..5).map(move |n| (kind, n)))
    {
        let mut bench = stage();
        bench.add(Kind::Group, group("v1", "V1"));
        bench.run();
        bench.edit(Kind::GroupContent, CONTENT, |content| {
            content["status"] = taken_group(true)
        });
        // Both exist; the next write binds them.
        assert!(bench.run_until(writes));
        let [(key, name), _] = members();
        let deleted = if kind == Kind::Content { &*name } else { &*key };
        bench.delete(kind, deleted);
        bench.restart();
        bench.run();
        let content = bench.server.get(Kind::Content, &name).unwrap();
        let row = format!("W23 {kind:?} {writes}");
        assert_eq!(content["status"]["snapshotHandle"], "snap-1", "{row}");
        let member = bench.server.get(Kind::Snapshot, &key).unwrap();
        let ready = kind == Kind::Content;
        assert_eq!(member["status"]["readyToUse"] == true, ready, "{row}");
        // A member that is being deleted waits for its group.
        assert_eq!(bench.retries(), !ready, "{row}");
    }
}

/// A group with a half-made first member, before its deletion.
fn half(policy: &str) -> (Bench, Value) {
    let mut bench = stage();
    bench.edit(Kind::GroupClass, "g", |class| {
        class["deletionPolicy"] = policy.into();
    });
    bench.add(Kind::Group, group("v1", "V1"));
    bench.run();
    bench.edit(Kind::GroupContent, CONTENT, |content| {
        content["status"] = taken_group(true)
    });
    assert!(bench.run_until(1));
    let half = bench.server.all(Kind::Content).next().unwrap().1.clone();
    bench.delete(Kind::Group, "ns/v1");
    bench.restart();
    bench.run();
    (bench, half)
}

/// W24: a request of a crashed process arrives after everything is deleted.
#[test]
fn w_24_a_late_content_goes_although_the_group_is_kept() {
    let (mut bench, half) = half("Retain");
    assert!(bench.server.get(Kind::Group, "ns/v1").is_none());
    assert!(bench.server.get(Kind::GroupContent, CONTENT).is_some());
    bench.add(Kind::Content, half);
    bench.run();
    assert_eq!(bench.server.all(Kind::Content).count(), 0);
}

#[test]
fn w_24_a_late_content_goes_before_its_group_is_seen_to_be_gone() {
    let mut bench = stage();
    bench.edit(Kind::GroupClass, "g", |class| {
        class["deletionPolicy"] = "Retain".into();
    });
    bench.add(Kind::Group, group("v1", "V1"));
    bench.run();
    bench.edit(Kind::GroupContent, CONTENT, |content| {
        content["status"] = taken_group(true)
    });
    assert!(bench.run_until(1));
    let half = bench.server.all(Kind::Content).next().unwrap().1.clone();
    let name = half["metadata"]["name"].as_str().unwrap().to_owned();
    bench.server.strip(Kind::Content, &name);
    // Another finalizer holds the group, so that it still exists when the content comes.
    bench.edit(Kind::Group, "ns/v1", |group| {
        let held = &mut group["metadata"]["finalizers"];
        held.as_array_mut().unwrap().push("x/y".into());
    });
    bench.delete(Kind::Group, "ns/v1");
    bench.restart();
    bench.run();
    bench.add(Kind::Content, half);
    bench.run();
    bench.edit(Kind::Group, "ns/v1", |group| {
        group["metadata"]["finalizers"] = json!([]);
    });
    bench.run();
    assert!(bench.server.get(Kind::Group, "ns/v1").is_none());
    assert_eq!(bench.server.all(Kind::Content).count(), 0);
}

/// Somebody has made a content for the retained group, or another driver has a group with its handle.
#[test]
fn w_24_a_late_content_is_of_no_other_group_of_its_handle() {
    for driver in ["T", "T2"] {
        let (mut bench, half) = half("Delete");
        bench.edit(Kind::GroupContent, CONTENT, |content| {
            content["metadata"]["finalizers"] = json!([]);
        });
        let mut other = handmade_group("gp", "v2");
        other["spec"]["driver"] = driver.into();
        other["status"] = json!({"volumeGroupSnapshotHandle": "grp-1", "readyToUse": true});
        bench.add(Kind::GroupContent, other);
        let mut group = group("v2", "V2");
        group["spec"] = json!({"source": {"volumeGroupSnapshotContentName": "gp"}});
        bench.add(Kind::Group, group);
        bench.run();
        bench.add(Kind::Content, half);
        bench.run();
        assert_eq!(bench.server.all(Kind::Content).count(), 0, "{driver}");
        assert_eq!(bench.server.all(Kind::GroupContent).count(), 1, "{driver}");
    }
}

/// An invalid value would change the request for claims.
#[test]
fn g_13_labels_that_are_none_are_refused() {
    let labels = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    let term = |key: &str, operator: &str, values: Value| {
        json!({"matchExpressions": [
            {"key": "app", "operator": "Exists"},
            {"key": key, "operator": operator, "values": values},
        ]})
    };
    let long = "x".repeat(64);
    for (selector, field) in [
        (labels("app", "x,env!=prod"), "matchLabels[app]"),
        (labels("app", "-x"), "matchLabels[app]"),
        (labels("app", &long), "matchLabels[app]"),
        (labels("app in (x),b", "x"), "matchLabels"),
        (labels("", "x"), "matchLabels"),
        (labels("A/app", "x"), "matchLabels"),
        (labels("a/b/app", "x"), "matchLabels"),
        (labels(&long, "x"), "matchLabels"),
        (
            term("app", "In", json!(["x", "y)"])),
            "matchExpressions[1].values[1]",
        ),
        (
            term("!app", "Exists", json!(null)),
            "matchExpressions[1].key",
        ),
        (term("app", "In", json!([])), "matchExpressions[1].values"),
        (
            term("app", "Exists", json!(["x"])),
            "matchExpressions[1].values",
        ),
        (
            term("app", "Like", json!(["x"])),
            "matchExpressions[1].operator",
        ),
    ] {
        let mut bench = stage();
        bench.shows_reads = true;
        let mut group = group("v1", "V1");
        group["spec"]["source"]["selector"] = selector.clone();
        bench.add(Kind::Group, group);
        let lines = bench.run();
        let text = format!(
            "E: ns/v1 Warning GroupSnapshotContentCreationFailed failed to create group snapshot \
             content with error failed to get input parameters to create group snapshot v1: \
             \"VolumeGroupSnapshot ns/v1: spec.source.selector.{field}: "
        );
        let reported = lines.iter().filter(|line| line.starts_with(&text)).count();
        assert_eq!(reported, 1, "{selector} {lines:#?}");
        let asked = |line: &String| line.contains("claims");
        assert!(!lines.iter().any(asked), "{selector} {lines:#?}");
    }
}
