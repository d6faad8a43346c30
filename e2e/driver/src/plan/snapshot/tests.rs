use super::*;
use crate::model::state::Change;
use crate::plan::testing::{put, segments, state, topology_requirement, volume};

const FRESH: Fresh<'_> = Fresh {
    id: "fresh",
    now: 17,
};

fn request(name: &str, source: &str) -> csi::CreateSnapshotRequest {
    csi::CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: source.to_owned(),
        ..Default::default()
    }
}

fn two_volumes() -> State {
    state([put(volume("v1", 1)), put(volume("v2", 2))])
}

fn made(state: &State, name: &str, source: &str) -> Snapshot {
    match create(state, &request(name, source), FRESH).unwrap() {
        Creation::Make(snapshot, _) => snapshot,
        Creation::Exists(snapshot) => panic!("{} exists", snapshot.id),
    }
}

#[test]
fn a_snapshot_is_made_once_per_name() {
    let mut state = two_volumes();
    let mut snapshot = made(&state, "s", "v1");
    assert_eq!(
        (snapshot.sequence, snapshot.size, snapshot.created_seconds),
        (3, 1 << 20, 17)
    );
    assert!(
        !snapshot.message(true).ready_to_use,
        "not before the copy is there"
    );
    state.apply(Change::PutSnapshot(snapshot.clone()));
    assert_eq!(made(&state, "s", "v1"), snapshot, "goes on after a crash");
    snapshot.phase = Phase::Ready;
    state.apply(Change::PutSnapshot(snapshot.clone()));
    let again = create(&state, &request("s", "v1"), FRESH).unwrap();
    assert_eq!(again, Creation::Exists(snapshot.clone()));
    assert!(snapshot.message(true).ready_to_use);
    assert!(!snapshot.message(false).ready_to_use);
    let code = |name: &str, source: &str| {
        create(&state, &request(name, source), FRESH)
            .unwrap_err()
            .code
    };
    assert_eq!(code("s", "v2"), Code::AlreadyExists);
    assert_eq!(code("other", "gone"), Code::NotFound);
    assert_eq!(code("", "v1"), Code::InvalidArgument);
    assert_eq!(code("other", ""), Code::InvalidArgument);
}

#[test]
fn a_snapshot_is_where_its_volume_is() {
    let mut placed = volume("v1", 1);
    placed.topology = vec![segments("zone=a")];
    let state = state([put(placed)]);
    assert_eq!(made(&state, "s", "v1").topology, [segments("zone=a")]);
    let mut elsewhere = request("s", "v1");
    elsewhere.accessibility_requirements = Some(topology_requirement(&["zone=b"], &[]));
    let refused = create(&state, &elsewhere, FRESH).unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
}

#[test]
fn lists_filter_by_snapshot_and_source() {
    let mut state = two_volumes();
    for (name, source) in [("a", "v1"), ("b", "v2")] {
        let snapshot = made(&state, name, source);
        state.apply(Change::PutSnapshot(Snapshot {
            id: name.to_owned(),
            ..snapshot
        }));
    }
    let ids = |snapshot: &str, source: &str| {
        let request = csi::ListSnapshotsRequest {
            snapshot_id: snapshot.to_owned(),
            source_volume_id: source.to_owned(),
            ..Default::default()
        };
        let ids = matching(&state, &request).map(|(_, snapshot)| snapshot.id.clone());
        ids.collect::<Vec<String>>()
    };
    assert_eq!(ids("", ""), ["a", "b"]);
    assert_eq!(ids("b", ""), ["b"]);
    assert_eq!(ids("", "v1"), ["a"]);
    assert!(ids("a", "v2").is_empty());
}

#[test]
fn groups_hold_their_members() {
    let mut state = two_volumes();
    let ask = |name: &str, sources: &[&str]| csi::CreateVolumeGroupSnapshotRequest {
        name: name.to_owned(),
        source_volume_ids: sources.iter().map(|id| (*id).to_owned()).collect(),
        ..Default::default()
    };
    let made = create_group(&state, &ask("g", &["v2", "v1"]), FRESH).unwrap();
    let GroupCreation::Make(group, copies) = made else {
        panic!("exists")
    };
    assert_eq!(group.snapshots, ["fresh-0", "fresh-1"]);
    for (snapshot, _) in copies {
        state.apply(Change::PutSnapshot(Snapshot {
            phase: Phase::Ready,
            ..snapshot
        }));
    }
    state.apply(Change::PutGroup(group.clone()));
    let again = create_group(&state, &ask("g", &["v1", "v2"]), FRESH).unwrap();
    assert_eq!(again, GroupCreation::Exists(group.clone()));
    let code = |name: &str, sources: &[&str]| {
        create_group(&state, &ask(name, sources), FRESH)
            .unwrap_err()
            .code
    };
    assert_eq!(code("g", &["v1"]), Code::AlreadyExists);
    assert_eq!(code("h", &["v1", "gone"]), Code::NotFound);
    assert_eq!(code("h", &[]), Code::InvalidArgument);
    assert_eq!(
        delete(&state, "fresh-0").unwrap_err().code,
        Code::InvalidArgument
    );
    let message = group_message(&state, &group);
    assert_eq!((message.snapshots.len(), message.ready_to_use), (2, true));
    let strangers = group_of(&state, "fresh", "nope");
    assert_eq!(strangers, Err(Code::InvalidArgument));
    assert_eq!(group_of(&state, "gone", "nope"), Ok(false));
}

fn group_of(state: &State, id: &str, member: &str) -> Result<bool, Code> {
    let found = group(state, id, &[member.to_owned()]);
    found
        .map(|group| group.is_some())
        .map_err(|error| error.code)
}
