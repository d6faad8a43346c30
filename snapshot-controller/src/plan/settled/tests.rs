use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Value, json};
use sidecar::controller::reactor::{Now, Reactor};
use sidecar::snapshot::{GROUP_HANDLE, SNAPSHOT_AS_SOURCE};

use super::*;
use crate::plan::Controller;
use crate::plan::in_flight::Key;
use crate::plan::reactor::{Change, Update};
use crate::testing::bench::record;
use crate::testing::known::Known;
use crate::testing::objects;

struct Pair {
    snapshot: Arc<Snapshot>,
    known: Known,
}

fn pair(change: impl FnOnce(&mut Value, &mut Value)) -> Pair {
    let (mut snapshot, mut content) = objects::ready("s1", "U1");
    change(&mut snapshot, &mut content);
    let snapshot: Arc<Snapshot> = Arc::new(record(&snapshot.to_string()).unwrap());
    let content: Content = record(&content.to_string()).unwrap();
    let mut known = Known::default();
    known
        .contents
        .insert(content.name.clone(), Arc::new(content));
    known
        .snapshots
        .insert(snapshot.key(), Arc::clone(&snapshot));
    Pair { snapshot, known }
}

/// Whether an attempt on the key asks for a first request.
fn steps(known: &Known, key: &Key) -> bool {
    let now = Now {
        instant: Instant::now(),
        timestamp: Timestamp::UNIX_EPOCH,
    };
    let mut controller = Controller::default();
    let mut attempt = controller.begin(key, known, now);
    controller.decide(&mut attempt, known, now).is_some()
}

/// Whether the events of both objects, in this order, put anything into the queue.
fn wakes(pair: &Pair, content_first: bool) -> bool {
    let mut controller = Controller::default();
    let contents: Vec<_> = pair.known.contents.values().cloned().collect();
    let mut known = Known::default();
    let mut woken = false;
    for turn in [content_first, !content_first] {
        let due = if turn {
            let content = contents.first().unwrap();
            { &mut known.contents }.insert(content.name.clone(), Arc::clone(content));
            let new = Some(&**content);
            let (old, own) = (None, false);
            controller.observe(Change::Content(Update { old, new, own }), &known)
        } else {
            let snapshot = &pair.snapshot;
            { &mut known.snapshots }.insert(snapshot.key(), Arc::clone(snapshot));
            let new = Some(&**snapshot);
            let (old, own) = (None, false);
            controller.observe(Change::Snapshot(Update { old, new, own }), &known)
        };
        woken |= !due.wakes.is_empty();
    }
    woken
}

#[test]
fn what_is_settled_needs_no_attempt_and_no_place_in_the_queue() {
    let retained = pair(|snapshot, content| {
        content["spec"]["deletionPolicy"] = json!("Retain");
        snapshot["metadata"]["finalizers"] = json!([SNAPSHOT_AS_SOURCE]);
    });
    for (row, pair) in [("ready", pair(|_, _| {})), ("retained", retained)] {
        let key = pair.snapshot.key();
        assert!(is_settled(&pair.snapshot, &pair.known), "{row}");
        assert!(!steps(&pair.known, &Key::Snapshot(key)), "{row}");
        let name = pair.snapshot.bound().unwrap().clone();
        assert!(!steps(&pair.known, &Key::Content(name)), "{row}");
        assert!(!wakes(&pair, true), "{row}");
        // A VolumeSnapshot whose content is not cached needs an attempt.
        assert!(wakes(&pair, false), "{row}");
    }
}

#[test]
fn what_is_not_is_looked_at() {
    type Row = (&'static str, fn(&mut Value, &mut Value));
    let rows: [Row; 10] = [
        ("deleted", |snapshot, _| {
            snapshot["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }),
        ("unready", |snapshot, _| {
            snapshot["status"]["readyToUse"] = json!(false);
        }),
        ("unprotected", |snapshot, _| {
            snapshot["metadata"]["finalizers"] = json!([]);
        }),
        ("unprotected against its content", |snapshot, _| {
            snapshot["metadata"]["finalizers"] = json!([SNAPSHOT_AS_SOURCE]);
        }),
        ("unbound", |snapshot, _| {
            snapshot["status"]["boundVolumeSnapshotContentName"] = json!("other");
        }),
        ("of a group", |snapshot, _| {
            snapshot["status"]["volumeGroupSnapshotName"] = json!("g");
        }),
        ("of another", |_, content| {
            content["spec"]["volumeSnapshotRef"]["uid"] = json!("U2");
        }),
        ("a content that is deleted", |_, content| {
            content["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }),
        ("an unprotected content", |_, content| {
            content["metadata"]["finalizers"] = json!([]);
        }),
        ("a member's content", |_, content| {
            content["metadata"]["annotations"] = json!({ GROUP_HANDLE: "g" });
        }),
    ];
    for (row, change) in rows {
        let pair = pair(change);
        assert!(!is_settled(&pair.snapshot, &pair.known), "{row}");
        assert!(wakes(&pair, true), "{row}");
    }
}
