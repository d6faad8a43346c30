use super::*;

const CREATED: u32 = 1_800_000_000;

fn claim() -> ClaimSeen<'static> {
    ClaimSeen {
        uid: "u1",
        created: CREATED,
        ours: true,
        phase: ClaimPhase::Pending,
        ..ClaimSeen::default()
    }
}

fn volume(phase: VolumePhase) -> VolumeSeen<'static> {
    VolumeSeen {
        uid: "v1",
        created: Some(time(1)),
        ours: true,
        deletable: true,
        held: true,
        claim: "u1",
        class: "fast",
        reclaim: Reclaim::Delete,
        phase,
        changed: Some(time(2)),
        ..VolumeSeen::default()
    }
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(i64::from(CREATED) + second).unwrap()
}

fn open(since: Since) -> Progress {
    Progress::Open { since, moves: true }
}

fn done(second: Option<i64>, end: End) -> Progress {
    Progress::Done {
        at: second.map(time),
        end,
    }
}

/// What `provisioned` and `bound` report, if anything.
fn both(steps: &[Step<'_>]) -> Option<(Progress, Progress)> {
    let of = |stage| steps.iter().find(|step| step.stage == stage);
    let (provisioned, bound) = (of(Stage::Provisioned)?, of(Stage::Bound)?);
    assert_eq!(
        (provisioned.object, bound.object),
        (Id::of("u1"), Id::of("u1"))
    );
    Some((provisioned.progress, bound.progress))
}

#[test]
fn o_80_to_85_what_a_claim_says() {
    let created = open(Since::At(CREATED));
    let begun = Progress::Begun(CREATED);
    let gone = Some((Progress::Dropped, Progress::Dropped));
    let bound = ClaimSeen {
        volume: "pvc-u1",
        phase: ClaimPhase::Bound,
        ..claim()
    };
    let chosen = ClaimSeen {
        node: "n1",
        ..claim()
    };
    let rows = [
        ("O-80", claim(), Some((created, created))),
        ("O-83 bound", bound, Some((begun, begun))),
        (
            "its volume is known",
            ClaimSeen {
                volume: "pvc-u1",
                ..claim()
            },
            Some((begun, begun)),
        ),
        (
            "O-84",
            chosen,
            Some((open(Since::Chosen), Progress::Dropped)),
        ),
        (
            "O-84 bound",
            ClaimSeen {
                node: "n1",
                ..bound
            },
            Some((Progress::Begun(0), Progress::Passed)),
        ),
        (
            "O-85",
            ClaimSeen {
                deleting: true,
                ..claim()
            },
            gone,
        ),
        (
            "O-86 of another driver",
            ClaimSeen {
                ours: false,
                ..claim()
            },
            None,
        ),
    ];
    for (row, claim, expected) in rows {
        assert_eq!(
            both(&of_claim(&claim, Look::First, None)),
            expected,
            "{row}"
        );
        assert_eq!(both(&of_claim(&claim, Look::Gone, None)), gone, "{row}");
    }
    // In a node deployment each process measures the claims of its node.
    for (node, expected) in [("n1", rows[3].2), ("n2", gone)] {
        assert_eq!(both(&of_claim(&chosen, Look::First, Some(node))), expected);
    }
    assert_eq!(both(&of_claim(&claim(), Look::First, Some("n1"))), None);
}

/// Its annotation has changed, or the scheduler is to select a node anew.
#[test]
fn o_86_a_claim_that_is_not_ours_any_more_is_dropped() {
    let gone = Some((Progress::Dropped, Progress::Dropped));
    let others = ClaimSeen {
        ours: false,
        ..claim()
    };
    assert_eq!(both(&of_claim(&others, Look::Again, None)), gone);
    for look in [Look::Again, Look::Gone] {
        assert_eq!(both(&of_claim(&claim(), look, Some("n1"))), gone);
    }
}

#[test]
fn o_80_to_83_what_a_volume_says_of_its_claim() {
    use VolumePhase::{Available, Bound, Pending, Released};
    let saved = done(Some(1), End::Another);
    let bound = done(Some(2), End::Another);
    for (phase, expected) in [
        (Pending, None),
        (Available, None),
        (Bound, Some((saved, bound))),
        (Released, None),
    ] {
        let steps = of_volume(&volume(phase), Look::First, None);
        assert_eq!(both(&steps), expected, "{phase:?}");
        assert_eq!((steps[0].progress, steps[0].class), (saved, "fast"));
    }
    // The API server does not say yet since when.
    let silent = VolumeSeen {
        changed: None,
        ..volume(Bound)
    };
    let now = Some((saved, done(None, End::Another)));
    assert_eq!(both(&of_volume(&silent, Look::Again, None)), now);
}

#[test]
fn o_88_a_static_volume_is_no_sample_and_a_migrated_one_is() {
    let of_plugin = VolumeSeen {
        deletable: false,
        ..volume(VolumePhase::Bound)
    };
    let steps = of_volume(&of_plugin, Look::First, None);
    let ended = (done(Some(1), End::Another), done(Some(2), End::Another));
    assert_eq!(both(&steps), Some(ended));
    assert_eq!(steps.len(), 2);
    let by_hand = VolumeSeen {
        ours: false,
        ..of_plugin
    };
    let steps = of_volume(&by_hand, Look::First, None);
    assert_eq!(both(&steps), Some((Progress::Dropped, Progress::Dropped)));
    let unbound = VolumeSeen {
        phase: VolumePhase::Available,
        ..by_hand
    };
    assert_eq!(of_volume(&unbound, Look::First, None), []);
    assert_eq!(of_volume(&by_hand, Look::Gone, None), []);
}

#[test]
fn o_80_a_volume_leaves_from_its_release_until_its_finalizer_goes() {
    use VolumePhase::{Available, Bound, Released};
    let at = |second: u32| open(Since::At(CREATED + second));
    let released = volume(Released);
    let deleting = |volume| VolumeSeen {
        deleted: CREATED + 9,
        ..volume
    };
    let freed = |volume| VolumeSeen {
        held: false,
        ..volume
    };
    let rows = [
        ("bound", volume(Bound), Progress::Dropped),
        (
            "deleted while bound",
            deleting(volume(Bound)),
            Progress::Dropped,
        ),
        ("released", released, at(2)),
        ("released, without finalizer", freed(released), at(2)),
        ("its object is being deleted", deleting(released), at(2)),
        ("never bound", deleting(volume(Available)), at(9)),
        (
            "nobody says since when",
            VolumeSeen {
                changed: None,
                ..released
            },
            open(Since::Seen),
        ),
        (
            "without the time of its release",
            VolumeSeen {
                changed: None,
                ..deleting(released)
            },
            at(9),
        ),
        (
            "others still hold it",
            freed(deleting(released)),
            done(None, End::Own),
        ),
        (
            "to be kept",
            VolumeSeen {
                reclaim: Reclaim::Retain,
                ..deleting(released)
            },
            Progress::Dropped,
        ),
    ];
    for (row, volume, expected) in rows {
        let of = |look| {
            let steps = of_volume(&volume, look, None);
            let mut steps = steps.into_iter();
            steps.find(|step| step.stage == Stage::Deleted)
        };
        let step = of(Look::Again).unwrap();
        assert_eq!((step.progress, step.class), (expected, "fast"), "{row}");
        assert_eq!(step.object, Id::of("v1"));
        assert_eq!(
            of(Look::Gone).unwrap().progress,
            done(None, End::Own),
            "{row}"
        );
    }
    let elsewhere = of_volume(&released, Look::Again, Some("n1"));
    assert!(elsewhere.iter().all(|step| step.stage != Stage::Deleted));
}
