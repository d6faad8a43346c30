//! VolumeSnapshots and VolumeGroupSnapshots whose content no sidecar begins with.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use sidecar_testkit::sim::rest::remembered;

use crate::model::{Content, Group, GroupContent, Snapshot};
use crate::plan::unhandled::UnhandledContents;
use crate::testing::bench::{Bench, record};
use crate::testing::objects::{content, group, handmade_group, snapshot};
use crate::testing::server::Kind;

const MINUTE: u64 = 60;

#[test]
fn nobody_answers_and_that_is_said_once_an_hour() {
    let of: Snapshot = record(&snapshot("s1", "U1").to_string()).unwrap();
    let mut object = content("s1", "U1");
    object["metadata"]["creationTimestamp"] = "2026-01-02T03:00:00Z".into();
    let waiting: Content = record(&object.to_string()).unwrap();
    let start: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
    let mut unhandled = UnhandledContents::default();
    for (minute, reported, again) in [
        (0, false, 5),
        (4, false, 1),
        (5, true, 60),
        (6, false, 59),
        (65, true, 60),
        (100, false, 25),
    ] {
        let now = start + Duration::from_secs(minute * MINUTE);
        let reaction = unhandled
            .look(&of.head(), Some(waiting.head()), now)
            .unwrap();
        assert_eq!(reaction.event.is_some(), reported, "{minute}");
        assert_eq!(
            reaction.after,
            Duration::from_secs(again * MINUTE),
            "{minute}"
        );
        if let Some(event) = reaction.event {
            assert_eq!(event.reason, "SnapshotNotHandled");
            assert!(event.message.contains("snapcontent-U1") && event.message.contains("driver T"));
        }
    }
    let now = start + Duration::from_secs(200 * MINUTE);
    let mark = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
    object["metadata"]["annotations"] = json!({mark: "yes"});
    let begun: Content = record(&object.to_string()).unwrap();
    assert!(
        unhandled
            .look(&of.head(), Some(begun.head()), now)
            .is_none()
    );
    assert!(remembered(&unhandled, &UnhandledContents::default(), &[]).is_empty());
    object["metadata"]["annotations"] = json!({});
    object["status"] = json!({"readyToUse": false});
    let answered: Content = record(&object.to_string()).unwrap();
    assert!(
        unhandled
            .look(&of.head(), Some(answered.head()), now)
            .is_none()
    );
}

/// S-10 of the findings: a sidecar without the feature gate serves no groups, and nothing else would
/// report it.
#[test]
fn a_group_that_no_sidecar_begins_with_is_told_of() {
    let mut of = group("v1", "V1");
    of["spec"] = json!({"source": {"volumeGroupSnapshotContentName": "gp"}});
    let mut object = handmade_group("gp", "v1");
    object["metadata"]["creationTimestamp"] = "2026-01-02T02:59:00Z".into();
    let reported = "E: ns/v1 Warning GroupSnapshotNotHandled No csi-snapshotter has started on \
        VolumeGroupSnapshotContent gp for five minutes: check that the csi-snapshotter of driver T runs, \
        has --feature-gates=CSIVolumeGroupSnapshot=true and has its permissions";
    let mark = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created";
    for (path, value, expected) in [
        ("/metadata/labels", json!({}), Some(reported)),
        ("/metadata/annotations", json!({mark: "yes"}), None),
        ("/status", json!({"readyToUse": false}), None),
        (
            "/metadata/creationTimestamp",
            "2026-01-02T03:04:00Z".into(),
            None,
        ),
    ] {
        let mut object = object.clone();
        let (parent, field) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        let mut bench = Bench::new();
        bench.add(Kind::GroupContent, object);
        bench.add(Kind::Group, of.clone());
        let lines = bench.run();
        let found = lines.iter().find(|line| line.contains("NotHandled"));
        assert_eq!(found.map(String::as_str), expected, "{path}: {lines:#?}");
    }
    let mut ending = of.clone();
    ending["metadata"]["deletionTimestamp"] = "2026-01-02T03:00:00Z".into();
    object["spec"]["volumeGroupSnapshotRef"]["uid"] = "V1".into();
    let content: GroupContent = record(&object.to_string()).unwrap();
    for (group, waits) in [(of, true), (ending, false), (group("v1", "V2"), false)] {
        let group: Group = record(&group.to_string()).unwrap();
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let reaction = UnhandledContents::default().look(&group.head(), Some(content.head()), now);
        assert_eq!(reaction.is_some(), waits);
    }
}
