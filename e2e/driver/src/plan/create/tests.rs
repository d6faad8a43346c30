use std::collections::BTreeMap;

use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_content_source::{self, SnapshotSource, VolumeSource};

use super::*;
use crate::model::snapshot::Snapshot;
use crate::model::state::Change;
use crate::model::volume::Attachment;
use crate::plan::testing::{
    block, create as request, node, policy, put, segments, state, topology_requirement, volume,
};

fn made(state: &State, request: &csi::CreateVolumeRequest) -> Volume {
    match create(state, &policy(), request, "fresh").unwrap() {
        Creation::Make(volume) => *volume,
        Creation::Exists(volume) => panic!("{} exists", volume.id),
    }
}

fn code(state: &State, request: &csi::CreateVolumeRequest) -> Code {
    create(state, &policy(), request, "fresh").unwrap_err().code
}

fn one_node() -> Change {
    node("n1", "zone=a", 0)
}

#[test]
fn a_new_volume_has_what_was_asked_for() {
    let mut wanted = request("pvc-1", 5 << 20);
    wanted.parameters = BTreeMap::from([("kind".to_owned(), "fast".to_owned())]);
    let volume = made(&state([one_node()]), &wanted);
    assert_eq!((volume.id.as_str(), volume.capacity), ("fresh", 5 << 20));
    assert_eq!(volume.topology, [segments("zone=a")]);
    assert_eq!(volume.message().volume_context, wanted.parameters);
    assert_eq!(
        (volume.phase, volume.backing),
        (Phase::Creating, Backing::Directory)
    );
    wanted.volume_capabilities = vec![block(Mode::SingleNodeWriter)];
    assert_eq!(made(&state([one_node()]), &wanted).backing, Backing::Image);
}

#[test]
fn incomplete_requests_are_invalid() {
    let state = state([one_node()]);
    assert_eq!(code(&state, &request("", 1)), Code::InvalidArgument);
    let mut bare = request("pvc-1", 1);
    bare.volume_capabilities.clear();
    assert_eq!(code(&state, &bare), Code::InvalidArgument);
}

#[test]
fn repeating_a_call_gives_the_same_volume() {
    let mut first = made(&state([one_node()]), &request("pvc-1", 1 << 20));
    let creating = state([one_node(), put(first.clone())]);
    let again = create(&creating, &policy(), &request("pvc-1", 1 << 20), "other").unwrap();
    assert_eq!(
        again,
        Creation::Make(Box::new(first.clone())),
        "goes on after a crash"
    );
    first.phase = Phase::Ready;
    let ready = state([one_node(), put(first.clone())]);
    let again = create(&ready, &policy(), &request("pvc-1", 1 << 20), "other").unwrap();
    assert_eq!(again, Creation::Exists(Box::new(first)));
}

#[test]
fn the_same_name_for_something_else_already_exists() {
    let mut volume = made(&state([one_node()]), &request("pvc-1", 1 << 20));
    volume.phase = Phase::Ready;
    let ready = state([one_node(), put(volume)]);
    type Edit = fn(&mut csi::CreateVolumeRequest);
    let changes: [(&str, Edit); 5] = [
        ("size", |r| {
            r.capacity_range.as_mut().unwrap().required_bytes = 2 << 20
        }),
        ("kind", |r| {
            r.volume_capabilities = vec![block(Mode::SingleNodeWriter)]
        }),
        ("parameters", |r| {
            drop(r.parameters.insert("a".to_owned(), "b".to_owned()))
        }),
        ("source", |r| {
            r.volume_content_source = Some(from_volume("x"))
        }),
        ("topology", |r| {
            r.accessibility_requirements = Some(topology_requirement(&["zone=b"], &[]));
        }),
    ];
    for (what, change) in changes {
        let mut other = request("pvc-1", 1 << 20);
        change(&mut other);
        assert_eq!(code(&ready, &other), Code::AlreadyExists, "{what}");
    }
}

fn from_volume(id: &str) -> csi::VolumeContentSource {
    let source = VolumeSource {
        volume_id: id.to_owned(),
    };
    csi::VolumeContentSource {
        r#type: Some(volume_content_source::Type::Volume(source)),
    }
}

fn from_snapshot(id: &str) -> csi::VolumeContentSource {
    let source = SnapshotSource {
        snapshot_id: id.to_owned(),
    };
    csi::VolumeContentSource {
        r#type: Some(volume_content_source::Type::Snapshot(source)),
    }
}

fn snapshot(id: &str, phase: Phase) -> Change {
    Change::PutSnapshot(Snapshot {
        id: id.to_owned(),
        sequence: 7,
        name: format!("name-{id}"),
        source: "v1".to_owned(),
        size: 1 << 20,
        kind: Kind::Mount,
        backing: Backing::Directory,
        fs_type: String::new(),
        created_seconds: 1,
        group: String::new(),
        topology: Vec::new(),
        phase,
    })
}

#[test]
fn sources_must_exist_be_ready_fit_and_not_be_larger() {
    let state = state([
        one_node(),
        put(volume("v1", 1)),
        snapshot("s1", Phase::Ready),
        snapshot("s2", Phase::Creating),
    ]);
    let with = |source: csi::VolumeContentSource, bytes: i64| {
        let mut wanted = request("pvc-1", bytes);
        wanted.volume_content_source = Some(source);
        wanted
    };
    assert_eq!(
        code(&state, &with(from_volume("nope"), 1 << 20)),
        Code::NotFound
    );
    assert_eq!(
        code(&state, &with(from_snapshot("nope"), 1 << 20)),
        Code::NotFound
    );
    assert_eq!(
        code(&state, &with(from_snapshot("s2"), 1 << 20)),
        Code::Unavailable
    );
    assert_eq!(
        code(&state, &with(from_snapshot("s1"), 1)),
        Code::OutOfRange
    );
    let mut as_block = with(from_volume("v1"), 1 << 20);
    as_block.volume_capabilities = vec![block(Mode::SingleNodeWriter)];
    assert_eq!(code(&state, &as_block), Code::InvalidArgument);
    assert_eq!(made(&state, &with(from_volume("v1"), 0)).capacity, 1 << 20);
    let restored = made(&state, &with(from_snapshot("s1"), 2 << 20));
    assert_eq!(restored.message().content_source, Some(from_snapshot("s1")));
}

#[test]
fn a_volume_in_use_is_not_deleted() {
    let mut attached = volume("v1", 1);
    let attachment = Attachment {
        readonly: false,
        access_mode: 1,
    };
    attached.attachments.insert("n1".to_owned(), attachment);
    let state = state([put(attached), put(volume("v2", 2))]);
    let mut policy = policy();
    let code = |policy: &Policy, id: &str| delete(&state, policy, id).map_err(|e| e.code);
    assert_eq!(code(&policy, ""), Err(Code::InvalidArgument));
    assert_eq!(code(&policy, "gone"), Ok(None));
    assert_eq!(code(&policy, "v1"), Err(Code::FailedPrecondition));
    assert_eq!(code(&policy, "v2").unwrap().unwrap().phase, Phase::Deleting);
    policy.check_lifecycle = false;
    assert!(code(&policy, "v1").is_ok());
}
