//! Each kind of damage is seen, in made-up states, and nothing else.

use super::*;

/// A claim with its volume of 4 MiB, attached to a node.
fn sound() -> State {
    State {
        namespaces: vec![Namespace {
            name: "a".to_owned(),
            terminating: false,
        }],
        claims: vec![Claim {
            name: "a/data".to_owned(),
            uid: "u1".to_owned(),
            bound: true,
            requested: 4 << 20,
            capacity: 4 << 20,
            ..Claim::default()
        }],
        volumes: vec![Volume {
            name: "pvc-u1".to_owned(),
            handle: "h1".to_owned(),
            claim: "u1".to_owned(),
            claim_name: "a/data".to_owned(),
            capacity: 4 << 20,
            terminating: false,
        }],
        attachments: vec![Attachment {
            name: "va".to_owned(),
            volume: "pvc-u1".to_owned(),
            node: "n1".to_owned(),
            attached: true,
            terminating: false,
        }],
        stored: vec![Stored {
            handle: "h1".to_owned(),
            name: "pvc-u1".to_owned(),
            claim: "a/data".to_owned(),
            capacity: 4 << 20,
            nodes: vec!["n1".to_owned()],
        }],
    }
}

fn damage(expected: Expected, change: impl FnOnce(&mut State)) -> Vec<Damage> {
    let mut state = sound();
    change(&mut state);
    { audit(&state, expected).into_iter() }
        .map(|it| it.damage)
        .collect()
}

fn settled(change: impl FnOnce(&mut State)) -> Vec<Damage> {
    damage(Expected::Settled, change)
}

#[test]
fn a_sound_state_has_no_damage() {
    assert_eq!(settled(|_| {}), []);
    assert_eq!(damage(Expected::Empty, |it| *it = State::default()), []);
}

#[test]
fn a_leaked_volume_is_seen() {
    let leak = Stored {
        handle: "h2".to_owned(),
        name: "pvc-u2".to_owned(),
        claim: "a/gone".to_owned(),
        ..Stored::default()
    };
    assert_eq!(
        settled(|it| it.stored.push(leak)),
        [Damage::VolumeWithoutPv]
    );
}

#[test]
fn a_lost_volume_is_seen() {
    let lost = settled(|it| {
        it.stored.clear();
        it.attachments.clear();
    });
    assert_eq!(lost, [Damage::PvWithoutVolume]);
}

#[test]
fn two_volumes_of_one_claim_are_seen() {
    let second = Stored {
        handle: "h2".to_owned(),
        name: "pvc-u1-again".to_owned(),
        claim: "a/data".to_owned(),
        ..Stored::default()
    };
    let both = [Damage::VolumeWithoutPv, Damage::TwoVolumes];
    assert_eq!(settled(|it| it.stored.push(second)), both);
}

#[test]
fn attachments_of_one_side_only_are_seen() {
    let cleared = settled(|it| it.attachments.clear());
    assert_eq!(cleared, [Damage::AttachedWithoutObject]);
    let other_node = settled(|it| it.stored[0].nodes = vec!["n2".to_owned()]);
    let both = [Damage::AttachedWithoutObject, Damage::ObjectWithoutAttached];
    assert_eq!(other_node, both);
    let none = settled(|it| it.stored[0].nodes.clear());
    assert_eq!(none, [Damage::ObjectWithoutAttached]);
}

#[test]
fn attachments_that_do_not_come_or_go_are_seen() {
    let waits = settled(|it| it.attachments[0].attached = false);
    assert_eq!(waits, [Damage::NotAttached]);
    let stays = settled(|it| it.attachments[0].terminating = true);
    assert_eq!(stays, [Damage::AttachmentStays]);
}

#[test]
fn a_pending_claim_is_seen_unless_its_source_cannot_be_copied() {
    let open = |source: Option<&str>| Claim {
        name: "a/new".to_owned(),
        source: source.map(str::to_owned),
        ..Claim::default()
    };
    for (source, damage) in [
        (None, vec![Damage::ClaimPending]),
        (Some("a/data"), vec![Damage::ClaimPending]),
        (Some("a/gone"), vec![]),
    ] {
        assert_eq!(settled(|it| it.claims.push(open(source))), damage);
    }
}

#[test]
fn what_stays_terminating_is_seen() {
    let claim = settled(|it| it.claims[0].terminating = true);
    assert_eq!(claim, [Damage::ClaimStays]);
    let volume = settled(|it| it.volumes[0].terminating = true);
    assert_eq!(volume, [Damage::PvStays]);
    let released = settled(|it| it.claims.clear());
    assert_eq!(released, [Damage::PvStays]);
    let namespace = settled(|it| it.namespaces[0].terminating = true);
    assert_eq!(namespace, [Damage::NamespaceStays]);
}

#[test]
fn sizes_that_differ_are_seen() {
    for change in [
        |it: &mut State| it.claims[0].requested = 5 << 20,
        |it: &mut State| it.claims[0].capacity = 5 << 20,
        |it: &mut State| it.volumes[0].capacity = 5 << 20,
        |it: &mut State| it.stored[0].capacity = 5 << 20,
        |it: &mut State| it.claims[0].growing = true,
    ] {
        assert_eq!(settled(change), [Damage::Size]);
    }
    assert_eq!(settled(|it| it.claims[0].requested = 1 << 20), []);
}

#[test]
fn all_that_is_left_is_seen() {
    let all = damage(Expected::Empty, |_| {});
    let kinds = [
        Damage::AttachmentStays,
        Damage::ClaimStays,
        Damage::PvStays,
        Damage::NamespaceStays,
    ];
    assert_eq!(all, kinds);
}
