use super::*;

const CREATED: u32 = 1_800_000_000;

fn snapshot() -> SnapshotSeen<'static> {
    SnapshotSeen {
        uid: "u1",
        created: CREATED,
        held: true,
        dynamic: true,
        class: "fast",
        ..SnapshotSeen::default()
    }
}

fn open(second: u32) -> Progress {
    Progress::Open {
        since: Since::At(CREATED + second),
        moves: true,
    }
}

fn done(at: Option<Timestamp>) -> Progress {
    Progress::Done { at, end: End::Own }
}

fn named_steps(snapshot: &SnapshotSeen<'_>, look: Look) -> Vec<(&'static str, Progress)> {
    let steps = of_snapshot(snapshot, look);
    assert!(steps.iter().all(|step| step.object == Id::of("u1")));
    let named = steps.iter().map(|step| (step.stage.name(), step.progress));
    named.collect()
}

#[test]
fn o_90_a_snapshot_is_cut_gets_ready_and_goes() {
    let taken = Timestamp::from_second(i64::from(CREATED) + 3).unwrap();
    let cut = SnapshotSeen {
        taken: Some(taken),
        ..snapshot()
    };
    let ready = SnapshotSeen { ready: true, ..cut };
    let by_hand = SnapshotSeen {
        dynamic: false,
        ..snapshot()
    };
    let deleted = SnapshotSeen {
        deleted: CREATED + 9,
        ..ready
    };
    let freed = SnapshotSeen {
        held: false,
        ..deleted
    };
    let (a, b, c) = ("snapshot_cut", "snapshot_ready", "snapshot_deleted");
    let over = |last| vec![(a, Progress::Dropped), (b, Progress::Dropped), (c, last)];
    let rows = [
        (snapshot(), Look::First, vec![(a, open(0)), (b, open(0))]),
        (snapshot(), Look::Again, vec![]),
        // Seen for the first time, it may have been cut while nobody led.
        (
            cut,
            Look::First,
            vec![(a, open(0)), (a, done(Some(taken))), (b, open(0))],
        ),
        (cut, Look::Again, vec![(a, done(Some(taken)))]),
        (
            ready,
            Look::Again,
            vec![(a, done(Some(taken))), (b, done(None))],
        ),
        (by_hand, Look::First, vec![(b, open(0))]),
        (deleted, Look::Again, over(open(9))),
        (freed, Look::Again, over(done(None))),
        (deleted, Look::Gone, over(done(None))),
        (snapshot(), Look::Gone, over(done(None))),
    ];
    for (snapshot, look, expected) in rows {
        assert_eq!(
            named_steps(&snapshot, look),
            expected,
            "{snapshot:?}, {look:?}"
        );
    }
    let steps = of_snapshot(&snapshot(), Look::First);
    assert_eq!(steps[0].owners, ["", "fast"]);
}
