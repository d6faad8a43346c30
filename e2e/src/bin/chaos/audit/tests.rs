//! The audit finds each kind of damage in a constructed state, and nothing else.

use super::*;

/// A claim with a volume of 4 MiB that is attached to a node.
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
            retained: false,
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
        snapshots: vec![Snapshot {
            name: "a/snap".to_owned(),
            uid: "u5".to_owned(),
            source: Origin::Claim("a/data".to_owned()),
            ready: true,
            terminating: false,
        }],
        contents: vec![Content {
            name: "snapcontent-u5".to_owned(),
            snapshot_uid: "u5".to_owned(),
            handle: Some("s1".to_owned()),
            ready: true,
            ..Content::default()
        }],
        taken: vec![Taken {
            handle: "s1".to_owned(),
            name: "snapshot-u5".to_owned(),
        }],
        known: Known::default(),
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
        source: source.map(|it| Origin::Claim(it.to_owned())),
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
fn a_claim_of_a_volume_that_nobody_has_made_may_wait() {
    for (volume, damage) in [("pvc-u1", vec![Damage::ClaimPending]), ("made-2", vec![])] {
        let waits = settled(|it| {
            it.claims.push(Claim {
                name: "a/made".to_owned(),
                made_for: Some(volume.to_owned()),
                ..Claim::default()
            });
        });
        assert_eq!(waits, damage);
    }
}

#[test]
fn a_claim_stays_for_no_copy_of_it() {
    for bound in [false, true] {
        let stays = settled(|it| {
            it.claims[0].terminating = true;
            it.claims.push(Claim {
                name: "a/new".to_owned(),
                source: Some(Origin::Claim("a/data".to_owned())),
                bound,
                ..Claim::default()
            });
        });
        assert_eq!(stays, [Damage::ClaimStays], "{bound}");
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
        Damage::SnapshotStays,
        Damage::SnapshotStays,
    ];
    assert_eq!(all, kinds);
}

#[test]
fn a_retained_volume_may_wait_for_its_claim_and_outlive_it() {
    let released = settled(|it| {
        it.claims[0].uid = "u9".to_owned();
        it.volumes[0].retained = true;
    });
    assert_eq!(released, []);
    let unclaimed = settled(|it| {
        it.claims.clear();
        it.volumes[0].claim.clear();
        it.volumes[0].claim_name.clear();
        let other = Volume {
            name: "made-2".to_owned(),
            handle: "h2".to_owned(),
            ..Volume::default()
        };
        it.volumes.push(other);
        let stored = Stored {
            handle: "h2".to_owned(),
            ..Stored::default()
        };
        it.stored.push(stored);
    });
    assert_eq!(unclaimed, []);
    let going = settled(|it| {
        it.volumes[0].retained = true;
        it.volumes[0].terminating = true;
    });
    assert_eq!(going, [Damage::PvStays]);
}

#[test]
fn what_was_given_up_or_freed_is_not_leaked_and_what_was_kept_has_to_be_there() {
    let open = |it: &mut State| {
        it.stored.push(Stored {
            handle: "h2".to_owned(),
            name: "pvc-u2".to_owned(),
            ..Stored::default()
        });
        it.taken.push(Taken {
            handle: "s2".to_owned(),
            name: "made-2".to_owned(),
        });
    };
    let both = [Damage::VolumeWithoutPv, Damage::SnapshotWithoutContent];
    assert_eq!(settled(open), both);
    let known = |change: fn(&mut Known)| {
        settled(|it| {
            open(it);
            change(&mut it.known);
        })
    };
    let given_up = known(|it| it.given_up.extend(["u2".to_owned()]));
    assert_eq!(given_up, [Damage::SnapshotWithoutContent]);
    let free = known(|it| it.free.extend(["h2".to_owned(), "s2".to_owned()]));
    assert_eq!(free, []);
    let kept = known(|it| it.kept.extend(["h2".to_owned(), "s2".to_owned()]));
    assert_eq!(kept, []);
    for gone in ["h3", "s3"] {
        let gone = settled(|it| it.known.kept.extend([gone.to_owned()]));
        assert_eq!(gone, [Damage::KeptGone]);
    }
}

#[test]
fn snapshots_of_one_side_only_are_seen() {
    let leaked = settled(|it| {
        it.snapshots.clear();
        it.contents.clear();
    });
    assert_eq!(leaked, [Damage::SnapshotWithoutContent]);
    assert_eq!(
        settled(|it| it.taken.clear()),
        [Damage::ContentWithoutSnapshot]
    );
    // The driver was called, and its response has not been written.
    let asked = settled(|it| {
        it.contents[0].handle = None;
        it.contents[0].retained = true;
        it.snapshots.clear();
    });
    assert_eq!(asked, []);
    let second = settled(|it| {
        let mut second = it.contents[0].clone();
        second.name = "content-2".to_owned();
        it.contents.push(second);
    });
    assert_eq!(second, [Damage::TwoContents]);
}

#[test]
fn a_content_that_waits_for_people_is_no_damage_and_one_that_is_to_stay_does_not_wait() {
    let deleted = |retained: bool, free: bool| {
        settled(|it| {
            it.snapshots.clear();
            it.contents[0].terminating = true;
            it.contents[0].retained = retained;
            let handle = it.contents[0].handle.clone().filter(|_| free);
            it.known.free.extend(handle);
        })
    };
    assert_eq!(deleted(false, true), []);
    assert_eq!(deleted(false, false), [Damage::SnapshotStays]);
    assert_eq!(deleted(true, true), [Damage::SnapshotStays]);
}

#[test]
fn a_snapshot_that_is_not_ready_is_seen_unless_its_source_is_gone() {
    let waits = |change: fn(&mut State)| {
        settled(|it| {
            it.snapshots[0].ready = false;
            change(it);
        })
    };
    assert_eq!(waits(|_| {}), [Damage::SnapshotPending]);
    let of = |name: &str| Origin::Claim(name.to_owned());
    assert_eq!(
        waits(|it| it.snapshots[0].source = Origin::Claim("a/gone".to_owned())),
        []
    );
    assert_eq!(of("a/data"), sound().snapshots[0].source);
    let by_hand = |it: &mut State| {
        it.snapshots[0].source = Origin::Snapshot("snapcontent-u5".to_owned());
        it.contents[0].made_by_hand = true;
    };
    let shown = settled(|it| {
        by_hand(it);
        it.snapshots[0].ready = false;
    });
    assert_eq!(shown, [Damage::SnapshotPending]);
    // Nor is a content without a VolumeSnapshot.
    let alone = settled(|it| {
        by_hand(it);
        it.snapshots.clear();
        it.contents[0].snapshot_uid.clear();
        it.contents[0].ready = false;
    });
    assert_eq!(alone, [Damage::SnapshotPending]);
}

#[test]
fn snapshots_that_do_not_go_are_seen() {
    let snapshot = settled(|it| it.snapshots[0].terminating = true);
    assert_eq!(snapshot, [Damage::SnapshotStays]);
    let content = settled(|it| {
        it.snapshots.clear();
        it.contents[0].terminating = true;
    });
    assert_eq!(content, [Damage::SnapshotStays]);
    let orphan = settled(|it| it.snapshots.clear());
    assert_eq!(orphan, [Damage::SnapshotStays]);
    let retained = settled(|it| {
        it.snapshots.clear();
        it.contents[0].retained = true;
    });
    assert_eq!(retained, []);
    // A claim that waits for an unusable snapshot keeps it.
    let awaited = settled(|it| {
        it.snapshots[0].terminating = true;
        it.claims.push(Claim {
            name: "a/restored".to_owned(),
            source: Some(Origin::Snapshot("a/snap".to_owned())),
            ..Claim::default()
        });
    });
    assert_eq!(awaited, []);
}

#[test]
fn a_snapshot_that_was_never_ready_waits_for_nobody() {
    let stays = settled(|it| {
        it.claims[0].terminating = true;
        it.snapshots[0].terminating = true;
        it.snapshots[0].ready = false;
        it.claims.push(Claim {
            name: "a/restored".to_owned(),
            source: Some(Origin::Snapshot("a/snap".to_owned())),
            ..Claim::default()
        });
    });
    assert_eq!(stays, [Damage::ClaimStays, Damage::SnapshotStays]);
}
