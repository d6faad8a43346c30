//! Objects as backup tools and administrators write them: copied with old annotations and finalizers,
//! stripped of finalizers, cut loose from their group, bound to contents of any name.

use serde_json::{Value, json};
use sidecar::snapshot::{
    BEING_CREATED, BEING_DELETED, CLAIM_AS_SOURCE, CONTENT_BOUND, GROUP_HANDLE, SNAPSHOT_AS_SOURCE,
    SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP,
};

use super::group::{CONTENT, is_usable, members, stage, take, usable};
use super::*;
use crate::testing::bench::Bench;
use crate::testing::objects::{content, group, handmade, of_content, ready, taken_group};
use crate::testing::server::{Kind, finalizers};

fn goes(bench: &Bench, kind: Kind, key: &str) -> bool {
    let object = bench.server.get(kind, key);
    object.is_none_or(|object| !object["metadata"]["deletionTimestamp"].is_null())
}

/// All subsets of `all`.
fn subsets<T: Copy>(all: &[T]) -> impl Iterator<Item = Vec<T>> {
    (0..1_usize << all.len()).map(|bits| {
        let chosen = all.iter().enumerate();
        let chosen = chosen.filter(|(index, _)| bits & (1 << index) != 0);
        chosen.map(|(_, one)| *one).collect()
    })
}

/// The part that a tool removes from a member so that it stays when its group goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Owner,
    GroupFinalizer,
    OtherFinalizers,
}

const CUTS: [Cut; 3] = [Cut::Owner, Cut::GroupFinalizer, Cut::OtherFinalizers];

fn cut(bench: &mut Bench, key: &str, cuts: &[Cut]) {
    bench.edit(Kind::Snapshot, key, |member| {
        let mut held = finalizers(member);
        for one in cuts {
            match one {
                Cut::Owner => member["metadata"]["ownerReferences"] = Value::Null,
                Cut::GroupFinalizer => held.retain(|one| one != SNAPSHOT_IN_GROUP),
                Cut::OtherFinalizers => held.retain(|one| one == SNAPSHOT_IN_GROUP),
            }
        }
        member["metadata"]["finalizers"] = held.into();
    });
}

fn keep_group(bench: &mut Bench) {
    bench.edit(Kind::GroupContent, CONTENT, |content| {
        content["spec"]["deletionPolicy"] = "Retain".into();
    });
}

#[test]
fn g_41_a_member_that_was_cut_loose_survives_its_group() {
    for cuts in subsets(&CUTS) {
        for restarts in [false, true] {
            let row = format!("G-41 {cuts:?} {restarts}");
            let mut bench = usable();
            let [(loose, loose_content), (other, _)] = members();
            cut(&mut bench, &loose, &cuts);
            if restarts {
                bench.restart();
            }
            bench.run();
            let lines = bench.resync();
            let member = bench.server.get(Kind::Snapshot, &loose).unwrap();
            let owned = !member["metadata"]["ownerReferences"].is_null();
            assert_eq!(owned, !cuts.contains(&Cut::Owner), "{row} {lines:#?}");
            keep_group(&mut bench);
            bench.delete(Kind::Group, "ns/v1");
            bench.run();
            assert!(bench.server.get(Kind::Group, "ns/v1").is_none(), "{row}");
            assert!(goes(&bench, Kind::Snapshot, &other), "{row}");
            assert_eq!(goes(&bench, Kind::Snapshot, &loose), owned, "{row}");
            if owned {
                continue;
            }
            shows(&row, &bench.resync(), &[]);
            assert!(!bench.retries(), "{row}");
            let member = bench.server.get(Kind::Snapshot, &loose).unwrap();
            assert_eq!(member["status"]["readyToUse"], true, "{row}");
            assert!(!goes(&bench, Kind::Content, &loose_content), "{row}");
            // The member's deletion is its owner's decision again.
            bench.delete(Kind::Snapshot, &loose);
            bench.run();
            assert!(goes(&bench, Kind::Content, &loose_content), "{row}");
            bench.sidecar_lets_go(&loose_content);
            bench.run();
            assert!(bench.server.get(Kind::Snapshot, &loose).is_none(), "{row}");
        }
    }
}

/// The tool cuts before the group, and perhaps the member, is ready.
#[test]
fn g_41_a_member_that_is_cut_loose_early_is_filled_and_not_made_again() {
    for cuts in subsets(&CUTS).filter(|cuts| cuts.contains(&Cut::Owner)) {
        // The writes for the first member: content, VolumeSnapshot, binding, status, content's status.
        for writes in 2..8 {
            let row = format!("G-41 {cuts:?} {writes}");
            let mut bench = stage();
            bench.add(Kind::Group, group("v1", "V1"));
            bench.run();
            bench.edit(Kind::GroupContent, CONTENT, |content| {
                content["status"] = taken_group(false);
            });
            assert!(bench.run_until(writes), "{row}");
            let [(loose, name), _] = members();
            let bound = bench.server.get(Kind::Content, &name).unwrap();
            if bound["spec"]["volumeSnapshotRef"]["uid"].is_null() {
                // Nothing yet shows that the two belong together.
                continue;
            }
            cut(&mut bench, &loose, &cuts);
            bench.restart();
            bench.run();
            take(&mut bench, taken_group(true));
            let lines = bench.retry();
            is_usable(&bench, &row);
            let member = bench.server.get(Kind::Snapshot, &loose).unwrap();
            let owners = &member["metadata"]["ownerReferences"];
            assert!(owners.is_null(), "{row} {lines:#?}");
            assert!(!bench.retries(), "{row} {lines:#?}");
        }
    }
}

/// A pre-provisioned content of the group `grp-9`, and its VolumeSnapshot.
fn pair() -> (Value, Value) {
    let mut content = handmade("pp", "s8");
    content["status"] = json!({
        "snapshotHandle": "snap-8", "readyToUse": true, "restoreSize": 5,
        "creationTime": 1_767_323_045_000_000_000_i64, "volumeGroupSnapshotHandle": "grp-9",
    });
    (of_content("s8", "U8", "pp"), content)
}

#[test]
fn g_41_an_owner_that_was_removed_from_a_pair_stays_removed() {
    for (policy, restarts) in [("Retain", false), ("Delete", false), ("Retain", true)] {
        let row = format!("G-41 {policy} {restarts}");
        let mut bench = Bench::new();
        let mut of = crate::testing::objects::handmade_group("gp", "v1");
        of["spec"]["deletionPolicy"] = policy.into();
        of["status"] = json!({"volumeGroupSnapshotHandle": "grp-9", "readyToUse": true});
        bench.add(Kind::GroupContent, of);
        let mut group = group("v1", "V1");
        group["spec"] = json!({"source": {"volumeGroupSnapshotContentName": "gp"}});
        bench.add(Kind::Group, group);
        let (snapshot, content) = pair();
        bench.add(Kind::Content, content);
        bench.add(Kind::Snapshot, snapshot);
        bench.run();
        let member = bench.server.get(Kind::Snapshot, "ns/s8").unwrap();
        assert_eq!(
            member["metadata"]["ownerReferences"][0]["name"], "v1",
            "{row}"
        );
        assert_eq!(member["status"]["volumeGroupSnapshotName"], "v1", "{row}");
        cut(&mut bench, "ns/s8", &CUTS);
        if restarts {
            bench.restart();
        }
        bench.run();
        bench.resync();
        bench.delete(Kind::Group, "ns/v1");
        bench.run();
        let member = bench.server.get(Kind::Snapshot, "ns/s8").unwrap();
        assert!(member["metadata"]["ownerReferences"].is_null(), "{row}");
        assert!(!goes(&bench, Kind::Snapshot, "ns/s8"), "{row}");
        assert!(!goes(&bench, Kind::Content, "pp"), "{row}");
    }
}

/// The content of a member whose reference a tool has cleared, beside a half-made content of the same
/// group.
#[test]
fn w_24_a_content_that_somebody_has_unbound_is_not_taken_for_one_left_over() {
    for (held, status) in [(true, true), (true, false), (false, true), (false, false)] {
        let row = format!("W24 {held} {status}");
        let mut bench = usable();
        let [(_, name), _] = members();
        let mut content = bench.server.get(Kind::Content, &name).unwrap().clone();
        content["metadata"] = json!({"name": &*name, "annotations": {GROUP_HANDLE: "grp-1"}});
        let reference = content["spec"]["volumeSnapshotRef"]
            .as_object_mut()
            .unwrap();
        reference.remove("uid");
        if held {
            content["metadata"]["finalizers"] = json!([CONTENT_BOUND]);
        }
        if !status {
            content.as_object_mut().unwrap().remove("status");
        }
        bench.delete(Kind::Group, "ns/v1");
        bench.server.strip(Kind::GroupContent, CONTENT);
        for (key, name) in members() {
            bench.server.strip(Kind::Snapshot, &key);
            bench.server.strip(Kind::Content, &name);
        }
        bench.run();
        bench.add(Kind::Content, content);
        bench.run();
        bench.resync();
        let left_over = !held && !status;
        assert_eq!(goes(&bench, Kind::Content, &name), left_over, "{row}");
    }
}

#[test]
fn c_98_what_has_lost_its_content_does_not_hold_its_claim() {
    for (restarts, number) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
        let row = format!("C-98 {restarts} {number}");
        let mut bench = Bench::new();
        for of in 1..=number {
            bench.add(Kind::Snapshot, snapshot(of));
            bench.run();
            bench.edit(Kind::Content, &format!("snapcontent-U{of}"), |content| {
                content["status"] = crate::testing::objects::taken(false);
            });
            bench.run();
        }
        // The VolumeSnapshot is being uploaded, so it needs its claim.
        assert!(is_held(&bench), "{row}");
        for of in 1..=number {
            assert!(is_held(&bench), "{row} {of}");
            bench
                .server
                .strip(Kind::Content, &format!("snapcontent-U{of}"));
            if restarts {
                bench.restart();
            }
            bench.run();
        }
        assert!(!is_held(&bench), "{row}");
        shows(&row, &bench.resync(), &[]);
        // The claim can be deleted.
        bench.delete(Kind::Claim, "ns/p1");
        bench.run();
        let claim = bench.server.get(Kind::Claim, "ns/p1").unwrap();
        assert_eq!(finalizers(claim), ["kubernetes.io/pvc-protection"], "{row}");
    }
}

/// The content belongs to another VolumeSnapshot by now.
#[test]
fn c_98_what_belongs_to_another_does_not_hold_the_claim() {
    let mut bench = Bench::new();
    bench.add(Kind::Snapshot, snapshot(1));
    bench.run();
    bench.edit(Kind::Content, "snapcontent-U1", |content| {
        content["status"] = crate::testing::objects::taken(false);
    });
    bench.run();
    bench.edit(Kind::Content, "snapcontent-U1", |content| {
        content["spec"]["volumeSnapshotRef"]["uid"] = "U9".into();
    });
    bench.run();
    assert!(!is_held(&bench));
}

fn snapshot(of: usize) -> Value {
    crate::testing::objects::snapshot(&format!("s{of}"), &format!("U{of}"))
}

fn is_held(bench: &Bench) -> bool {
    let claim = bench.server.get(Kind::Claim, "ns/p1").unwrap();
    finalizers(claim).iter().any(|one| one == CLAIM_AS_SOURCE)
}

/// A trace of the group that a VolumeSnapshot was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Owner,
    Name,
    Finalizer,
}

const MARKS: [Mark; 3] = [Mark::Owner, Mark::Name, Mark::Finalizer];

/// A ready VolumeSnapshot that was in the group `v1` with the UID `V1`, in a process that serves no
/// groups.
fn once_grouped(marks: &[Mark]) -> Bench {
    let mut bench = Bench::new();
    bench.without_groups();
    let (mut snapshot, mut content) = ready("s1", "U1");
    content["status"]["volumeGroupSnapshotHandle"] = "grp-1".into();
    for mark in marks {
        match mark {
            Mark::Owner => {
                snapshot["metadata"]["ownerReferences"] = json!([{
                    "apiVersion": "groupsnapshot.storage.k8s.io/v1",
                    "kind": "VolumeGroupSnapshot", "name": "v1", "uid": "V1",
                }]);
            }
            Mark::Name => snapshot["status"]["volumeGroupSnapshotName"] = "v1".into(),
            Mark::Finalizer => {
                let held = [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP];
                snapshot["metadata"]["finalizers"] = json!(held);
            }
        }
    }
    bench.add(Kind::Content, content);
    bench.add(Kind::Snapshot, snapshot);
    bench
}

fn ends(bench: &mut Bench, row: &str) {
    assert!(goes(bench, Kind::Content, "snapcontent-U1"), "{row}");
    bench.sidecar_lets_go("snapcontent-U1");
    bench.run();
    assert!(bench.server.get(Kind::Snapshot, "ns/s1").is_none(), "{row}");
}

#[test]
fn g_42_without_groups_what_was_in_a_group_goes_if_that_is_gone() {
    for marks in subsets(&MARKS) {
        let row = format!("G-42 {marks:?}");
        // The group or its kind is gone; or another group has its name.
        for other in [false, true] {
            let names = marks.contains(&Mark::Name) && !marks.contains(&Mark::Owner);
            if other && names {
                continue;
            }
            let mut bench = once_grouped(&marks);
            if other {
                bench.add(Kind::Group, group("v1", "V2"));
            }
            bench.run();
            bench.delete(Kind::Snapshot, "ns/s1");
            let lines = bench.run();
            let reported = |line: &String| line.starts_with("E:");
            assert!(!lines.iter().any(reported), "{row} {lines:#?}");
            ends(&mut bench, &row);
        }
    }
}

#[test]
fn g_42_without_groups_a_group_that_lives_holds_its_members() {
    let named = |marks: &Vec<Mark>| marks.iter().any(|mark| *mark != Mark::Finalizer);
    for marks in subsets(&MARKS).filter(named) {
        let row = format!("G-42 {marks:?}");
        let mut bench = once_grouped(&marks);
        bench.add(Kind::Group, group("v1", "V1"));
        bench.run();
        bench.delete(Kind::Snapshot, "ns/s1");
        let reported = "E: ns/s1 Warning SnapshotDeletePending deletion of the individual volume \
                    snapshot ns/s1 is not allowed as it belongs to group snapshot ns/v1. Group \
                    snapshots are not active in this controller: the volume snapshot stays until \
                    the group snapshot is gone";
        shows(&row, &bench.run(), &[reported]);
        assert!(!goes(&bench, Kind::Content, "snapcontent-U1"), "{row}");
        shows(&row, &bench.retry(), &[reported]);
        // Groups are not watched: the next attempt sees that the group is gone.
        bench.server.strip(Kind::Group, "ns/v1");
        bench.run();
        bench.retry();
        ends(&mut bench, &row);
    }
}

#[test]
fn g_42_a_group_that_may_not_be_read_holds_its_members() {
    let mut bench = once_grouped(&MARKS);
    bench.refuse("GET group ns/v1", forbidden(), 1);
    bench.run();
    bench.delete(Kind::Snapshot, "ns/s1");
    let reported = "E: ns/s1 Warning SnapshotDeletePending deletion of the individual volume snapshot \
                ns/s1 is not allowed as it belongs to group snapshot ns/v1. Group snapshots are not \
                active in this controller: the volume snapshot stays until the group snapshot is \
                gone; this controller cannot read the group snapshot: forbidden";
    shows("G-42", &bench.run(), &[reported]);
    assert!(!goes(&bench, Kind::Content, "snapcontent-U1"));
    bench.retry();
    ends(&mut bench, "G-42");
}

/// A field that a tool copies along with a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    Annotation(&'static str),
    Finalizer(&'static str),
    Status,
}

const COPIED: [Copied; 6] = [
    Copied::Annotation(BEING_CREATED),
    Copied::Annotation(BEING_DELETED),
    Copied::Annotation(GROUP_HANDLE),
    Copied::Finalizer(CONTENT_BOUND),
    Copied::Finalizer("x/y"),
    Copied::Status,
];

fn copy(content: &mut Value, copied: &[Copied]) {
    let mut held = Vec::new();
    for one in copied {
        match one {
            Copied::Annotation(name) => content["metadata"]["annotations"][*name] = "yes".into(),
            Copied::Finalizer(name) => held.push(*name),
            Copied::Status => content["status"] = crate::testing::objects::taken(true),
        }
    }
    content["metadata"]["finalizers"] = json!(held);
}

/// The controller binds, protects and shows a pre-provisioned content whatever was copied along, and
/// deletes it with its VolumeSnapshot.
#[test]
fn c_99_whatever_was_copied_along_a_content_is_bound_and_deleted() {
    for copied in subsets(&COPIED) {
        let row = format!("C-99 {copied:?}");
        let mut bench = Bench::new();
        let mut content = handmade("pp", "s1");
        copy(&mut content, &copied);
        bench.add(Kind::Content, content);
        bench.add(Kind::Snapshot, of_content("s1", "U1", "pp"));
        let lines = bench.run();
        assert!(
            !lines.iter().any(|line| line.starts_with("DELETE")),
            "{row} {lines:#?}"
        );
        let bound = bench.server.get(Kind::Content, "pp").unwrap();
        assert_eq!(bound["spec"]["volumeSnapshotRef"]["uid"], "U1", "{row}");
        assert!(
            finalizers(bound).iter().any(|one| one == CONTENT_BOUND),
            "{row}"
        );
        for one in &copied {
            match one {
                Copied::Annotation(name) => {
                    assert_eq!(bound["metadata"]["annotations"][*name], "yes", "{row}");
                }
                Copied::Finalizer(name) => {
                    assert!(finalizers(bound).iter().any(|one| one == name), "{row}");
                }
                Copied::Status => {}
            }
        }
        let ready = copied.contains(&Copied::Status);
        let shown = bench.server.get(Kind::Snapshot, "ns/s1").unwrap();
        assert_eq!(shown["status"]["readyToUse"], ready, "{row}");
        assert_eq!(
            shown["status"]["boundVolumeSnapshotContentName"], "pp",
            "{row}"
        );
        assert!(!bench.retries(), "{row}");
        bench.delete(Kind::Snapshot, "ns/s1");
        bench.run();
        assert!(goes(&bench, Kind::Content, "pp"), "{row}");
        bench.edit(Kind::Content, "pp", |content| {
            assert_eq!(
                content["metadata"]["annotations"][BEING_DELETED], "yes",
                "{row}"
            );
            content["metadata"]["finalizers"] = json!([]);
        });
        bench.run();
        assert!(bench.server.get(Kind::Snapshot, "ns/s1").is_none(), "{row}");
    }
}

/// The same for a dynamic content that is applied again beside its VolumeSnapshot: the controller
/// deletes nothing while the VolumeSnapshot lives, and makes no second content.
#[test]
fn c_99_whatever_was_copied_along_a_content_that_was_made_is_followed() {
    for copied in subsets(&COPIED) {
        let row = format!("C-99 {copied:?}");
        let mut bench = Bench::new();
        let mut made = content("s1", "U1");
        copy(&mut made, &copied);
        bench.add(Kind::Content, made);
        bench.add(Kind::Snapshot, snapshot(1));
        bench.run();
        bench.edit(Kind::Content, "snapcontent-U1", |content| {
            content["status"] = crate::testing::objects::taken(true);
        });
        let lines = bench.run();
        let wrong = |line: &String| line.starts_with("DELETE") || line.starts_with("POST");
        assert!(!lines.iter().any(wrong), "{row} {lines:#?}");
        let shown = bench.server.get(Kind::Snapshot, "ns/s1").unwrap();
        assert_eq!(shown["status"]["readyToUse"], true, "{row}");
        assert!(!bench.retries(), "{row}");
    }
}

/// A VolumeSnapshot that is applied again has old finalizers, perhaps the owner's UID, and no status.
/// The controller begins it as any other.
#[test]
fn c_100_whatever_was_copied_along_a_snapshot_is_begun() {
    let held = [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP, "x/y"];
    for (copied, named) in
        subsets(&held).flat_map(|copied| [(copied.clone(), false), (copied, true)])
    {
        let row = format!("C-100 {copied:?} {named}");
        let mut bench = Bench::new();
        let mut again = snapshot(1);
        again["metadata"]["finalizers"] = json!(copied);
        if named {
            again["metadata"]["name"] = "snapshot-0123".into();
        }
        let key = if named { "ns/snapshot-0123" } else { "ns/s1" };
        bench.add(Kind::Snapshot, again);
        bench.run();
        assert!(
            bench.server.get(Kind::Content, "snapcontent-U1").is_some(),
            "{row}"
        );
        bench.edit(Kind::Content, "snapcontent-U1", |content| {
            content["status"] = crate::testing::objects::taken(true);
        });
        bench.run();
        let shown = bench.server.get(Kind::Snapshot, key).unwrap();
        assert_eq!(shown["status"]["readyToUse"], true, "{row}");
        assert!(!is_held(&bench), "{row}");
        bench.delete(Kind::Snapshot, key);
        bench.run();
        bench.sidecar_lets_go("snapcontent-U1");
        bench.run();
        let left = bench.server.get(Kind::Snapshot, key);
        let left = left.map(finalizers).unwrap_or_default();
        let others = copied.iter().filter(|one| **one == "x/y");
        assert!(left.iter().eq(others), "{row} {left:?}");
    }
}

/// The same for a VolumeSnapshot of a pre-provisioned content.
#[test]
fn c_100_whatever_was_copied_along_a_snapshot_it_is_bound_to_its_content() {
    let held = [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP, "x/y"];
    for (copied, name) in
        subsets(&held).flat_map(|copied| [(copied.clone(), "s1"), (copied, "snapshot-0123")])
    {
        let row = format!("C-100 {copied:?} {name}");
        let mut bench = Bench::new();
        let mut content = handmade("pp", name);
        content["status"] = crate::testing::objects::taken(true);
        bench.add(Kind::Content, content);
        let mut again = of_content(name, "U1", "pp");
        again["metadata"]["finalizers"] = json!(copied);
        bench.add(Kind::Snapshot, again);
        bench.run();
        let key = format!("ns/{name}");
        let shown = bench.server.get(Kind::Snapshot, &key).unwrap();
        assert_eq!(shown["status"]["readyToUse"], true, "{row}");
        bench.delete(Kind::Snapshot, &key);
        bench.run();
        assert!(goes(&bench, Kind::Content, "pp"), "{row}");
    }
}

/// The status names a content of another name, which refers back.
#[test]
fn c_101_an_unready_snapshot_follows_the_content_that_it_is_bound_to() {
    for (source, taken) in [
        (json!({"volumeHandle": "vol-1"}), true),
        (json!({"volumeHandle": "vol-1"}), false),
        (json!({"snapshotHandle": "snap-1"}), true),
        (json!({"snapshotHandle": "snap-1"}), false),
    ] {
        let row = format!("C-101 {source} {taken}");
        let mut bench = Bench::new();
        let mut bound = content("s1", "U1");
        bound["metadata"]["name"] = "kept".into();
        bound["spec"]["source"] = source;
        bench.add(Kind::Content, bound);
        let mut unready = snapshot(1);
        unready["status"] = json!({"boundVolumeSnapshotContentName": "kept", "readyToUse": false});
        if taken {
            unready["status"]["creationTime"] = "2026-01-02T03:04:05Z".into();
        }
        bench.add(Kind::Snapshot, unready);
        let reported = |line: &String| line.starts_with("E:") || line.starts_with("POST");
        let lines = bench.run();
        assert!(!lines.iter().any(reported), "{row} {lines:#?}");
        bench.edit(Kind::Content, "kept", |content| {
            content["status"] = crate::testing::objects::taken(true);
        });
        bench.run();
        let shown = bench.server.get(Kind::Snapshot, "ns/s1").unwrap();
        assert_eq!(shown["status"]["readyToUse"], true, "{row}");
        bench.delete(Kind::Snapshot, "ns/s1");
        bench.run();
        assert!(goes(&bench, Kind::Content, "kept"), "{row}");
    }
}

/// The status names a content that is missing or refers elsewhere: the controller reports it once and
/// makes no other content, since its data would be of another moment.
#[test]
fn c_101_what_is_bound_to_another_content_is_told_so_once() {
    for (there, reason, message) in [
        (
            false,
            "SnapshotContentMissing",
            "VolumeSnapshotContent is missing",
        ),
        (
            true,
            "SnapshotMisbound",
            "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly",
        ),
    ] {
        for (ready, taken) in [(false, false), (false, true), (true, true)] {
            let row = format!("C-101 {there} {ready} {taken}");
            let mut bench = Bench::new();
            if there {
                let mut other = content("s2", "U2");
                other["metadata"]["name"] = "kept".into();
                bench.add(Kind::Content, other);
            }
            let mut again = snapshot(1);
            again["metadata"]["finalizers"] = json!([SNAPSHOT_AS_SOURCE]);
            again["status"] =
                json!({"boundVolumeSnapshotContentName": "kept", "readyToUse": ready});
            if taken {
                again["status"]["creationTime"] = "2026-01-02T03:04:05Z".into();
            }
            bench.add(Kind::Snapshot, again);
            let mut lines = bench.run();
            lines.extend(bench.retry());
            lines.extend(bench.resync());
            let event = format!("E: ns/s1 Warning {reason} {message}");
            let reported: Vec<&String> = lines.iter().filter(|it| it.starts_with("E:")).collect();
            assert_eq!(reported, [&event], "{row} {lines:#?}");
            let made = bench.server.get(Kind::Content, "snapcontent-U1");
            assert!(made.is_none(), "{row} {lines:#?}");
        }
    }
}
