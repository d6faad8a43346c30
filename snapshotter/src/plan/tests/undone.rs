//! Writes that the API server accepts but that do not show in the content: a definition without the field
//! drops it, or an admission webhook reverts it.

use sidecar::snapshot::CONTENT_BOUND;

use super::{CREATE, TAKEN, lines};
use crate::model::Content;
use crate::plan::Settings;
use crate::testing::{Bench, listed, pre_provisioned, status};

const GOES: fn(&mut Content) = |content| {
    (content.deleting, content.being_deleted) = (true, true);
    content.status = Some(status(true));
};

/// Row S-123, and the same for every other write.
#[test]
fn s_123_what_does_not_show_is_not_written_again() {
    type Undo = fn(&Content, &mut Content);
    type Row = (
        &'static str,
        Undo,
        fn(&mut Content),
        &'static [&'static str],
    );
    let rows: [Row; 5] = [
        (
            "the mark",
            |_, content| content.being_created = false,
            |_| {},
            &["bc+", "st ", "E SnapshotCreationFailed: "],
        ),
        (
            "the finalizer",
            |before, content| content.finalizers = before.finalizers.clone(),
            |content| content.finalizers = [].into(),
            &["bc+ F+", "st ", "E SnapshotCreationFailed: "],
        ),
        (
            "the mark that stays",
            |before, content| content.being_created |= before.being_created,
            |_| {},
            &["bc+", CREATE, TAKEN, "bc-"],
        ),
        (
            "the status that is not cleared",
            |before, content| content.status = before.status.clone(),
            GOES,
            &[
                "Delete snap-1 {}",
                super::CLEARED,
                "E SnapshotDeleteError: ",
            ],
        ),
        (
            "the finalizer that stays",
            |_, content| content.finalizers = [CONTENT_BOUND.into()].into(),
            GOES,
            &[
                "Delete snap-1 {}",
                super::CLEARED,
                "F-",
                "E SnapshotDeleteError: ",
            ],
        ),
    ];
    for (row, undo, given, expected) in rows {
        let mut bench = Bench::new();
        bench.content(given);
        bench.server.undo = Some(undo);
        let trace = bench.run();
        let fits = |(line, expected): (&String, &&str)| line.starts_with(*expected);
        let all = trace.iter().zip(expected).all(fits);
        assert!(all && trace.len() == expected.len(), "{row}: {trace:#?}");
        assert!(!bench.rests(), "{row}: it is tried again after a back-off");
        for expected in [1, 2, 4] {
            let (waited, trace) = bench.next();
            assert_eq!(waited, expected, "{row}");
            let writes = trace.iter().filter(|line| !line.starts_with("E "));
            assert!(writes.count() <= 4, "{row}: {trace:#?}");
        }
        // The webhook or definition is fixed.
        bench.server.undo = None;
        bench.next();
        bench.run();
        assert!(bench.rests(), "{row}");
    }
}

/// Definitions from before group snapshots drop the handle of a snapshot's group: nothing else is wrong
/// with it.
#[test]
fn s_123_the_oldest_definitions() {
    const FOUND: &str = r#"st {"creationTime":1767323045000000000,"readyToUse":true,"restoreSize":5,"snapshotHandle":"snap-9","volumeGroupSnapshotHandle":"g1"}"#;
    let mut bench = Bench::empty(Settings::default());
    bench.server.undo = Some(|_, content| content.status.as_mut().unwrap().group = None);
    bench.server.put(&"pp".into(), Some(pre_provisioned()));
    let answer = |ready| {
        listed(&["snap-9"], "", move |found| {
            found.group_snapshot_id = "g1".into();
            found.ready_to_use = ready;
        })
    };
    bench.answers([false, false, true].map(answer));
    let unready = FOUND.replace("true", "false");
    assert_eq!(bench.run(), lines(&["List snap-9 {}", &unready]));
    let group = r#"st {"volumeGroupSnapshotHandle":"g1"}"#;
    assert_eq!(bench.next(), (1, lines(&["List snap-9 {}", group])));
    let ready = r#"st {"readyToUse":true,"volumeGroupSnapshotHandle":"g1"}"#;
    assert_eq!(bench.next(), (2, lines(&["List snap-9 {}", ready])));
    assert!(bench.rests() && bench.resync().is_empty());
}
