//! Responses about groups and snapshots that do not match the request; and calls that time out
//! repeatedly.

use csi_proto::csi::VolumeGroupSnapshot;
use tonic::Code;

use super::{CREATE as CREATE_SINGLE, TAKEN, joined, lines, told, told_first, told_later};
use crate::model::Text;
use crate::plan::Settings;
use crate::testing::{
    Bench, GROUP, fails, got, group, group_created, group_got, pre_provisioned,
    pre_provisioned_group, snapshot,
};

const CREATE: &str = "CreateGroup groupsnapshot-V1 vol-1+vol-2 {a: b} {}";
const GET: &str = "GetGroup grp-9 snap-8+snap-9 {}";

type Change = fn(&mut VolumeGroupSnapshot);

fn is_marked(bench: &Bench) -> bool {
    bench.server.contents[&Text::from(GROUP)].1.being_created
}

/// The mark keeps the content until a response has everything that a deletion needs.
#[test]
fn g_20_answers_about_other_snapshots_than_asked_for() {
    let rows: [(Change, &str); 6] = [
        (
            |answer| drop(answer.snapshots.pop()),
            "no snapshot of the volume vol-2",
        ),
        (
            |answer| {
                let mut third = snapshot(true);
                (third.snapshot_id, third.source_volume_id) = ("snap-3".into(), "vol-3".into());
                answer.snapshots.push(third);
            },
            "the snapshot snap-3 of the volume vol-3, which was not asked for",
        ),
        (
            |answer| answer.snapshots[1].source_volume_id = "vol-1".into(),
            "several snapshots of the volume vol-1",
        ),
        (
            |answer| answer.snapshots[1].snapshot_id = "snap-1".into(),
            "the snapshot snap-1 more than once",
        ),
        (
            |answer| answer.snapshots[1].source_volume_id.clear(),
            "the snapshot snap-2 of the volume , which was not asked for",
        ),
        (
            |answer| answer.snapshots[1].group_snapshot_id = "grp-2".into(),
            "the snapshot snap-2 of another group, grp-2",
        ),
    ];
    for (change, what) in rows {
        let mut answer = group(true);
        change(&mut answer);
        let mut bench = Bench::of_group();
        bench.answers([group_created(answer)]);
        let text = format!(
            "Failed to create group snapshot: failed to take group snapshot of the volumes [vol-1 \
             vol-2]: \"the driver answered about the group grp-1 with {what}\""
        );
        let failed = told("GroupSnapshotCreationFailed", &text);
        let expected = joined(&[&lines(&["bc+", CREATE]), &failed]);
        assert_eq!(bench.run(), expected, "{what}");
        assert!(is_marked(&bench), "{what}");
        // It is deleted before its members were known.
        bench.group(|content| (content.deleting, content.being_deleted) = (true, true));
        let trace = bench.run();
        let deleted = "DeleteGroup grp-1 snap-1+snap-2 {}";
        assert!(trace.contains(&deleted.to_owned()), "{what}: {trace:?}");
        assert!(bench.server.contents.is_empty(), "{what}");
    }
}

#[test]
fn g_18_an_answer_that_does_not_fit_changes_nothing_of_what_is_known() {
    let mut half = group(true);
    half.snapshots.pop();
    let mut bench = Bench::of_group();
    bench.answers([group_created(group(false)), group_created(half)]);
    bench.run();
    let (_, trace) = bench.next();
    assert_eq!(trace[0], CREATE);
    assert!(trace[1].starts_with("st {\"error\""), "{trace:?}");
    let content = &bench.server.contents[&Text::from(GROUP)].1;
    assert!(!content.is_ready());
    assert_eq!(content.status.as_ref().unwrap().members.len(), 2);
    bench.next();
    let content = &bench.server.contents[&Text::from(GROUP)].1;
    assert!(content.is_ready());
}

/// The ready group is another one, or has other members.
#[test]
fn g_18_a_later_answer_about_other_snapshots_makes_no_group_ready() {
    let changes: [(Change, &str); 2] = [
        (
            |answer| {
                answer.group_snapshot_id = "grp-2".into();
                let members = answer.snapshots.iter_mut();
                members.for_each(|one| one.group_snapshot_id.clear());
            },
            "grp-2, and with grp-1 before",
        ),
        (
            |answer| answer.snapshots[1].snapshot_id = "snap-7".into(),
            "snap-7, and with snap-2 before",
        ),
    ];
    for (change, named) in changes {
        let mut other = group(true);
        change(&mut other);
        let mut bench = Bench::of_group();
        bench.answers([group(false), other, group(true)].map(group_created));
        bench.run();
        let known = |bench: &Bench| bench.server.contents[&Text::from(GROUP)].1.status.clone();
        let first = known(&bench).unwrap();
        let (_, trace) = bench.next();
        let text = format!(
            "failed to take group snapshot of the volumes [vol-1 vol-2]: \"the driver answered with \
             {named}\""
        );
        assert_eq!(trace[0], CREATE);
        assert!(trace[1].starts_with("st {\"error\""), "{trace:#?}");
        assert!(trace[2].starts_with("E "), "{trace:#?}");
        assert!(trace[2].ends_with(&text), "{trace:#?}");
        assert_eq!(trace.len(), 3, "{trace:#?}");
        let second = known(&bench).unwrap();
        assert_eq!(second.ready, Some(false));
        assert_eq!(
            (second.handle, second.members),
            (first.handle, first.members)
        );
        bench.next();
        assert_eq!(
            known(&bench).unwrap().ready,
            Some(true),
            "it answers as it did"
        );
    }
}

/// A driver may spell the handles of all snapshots differently (row S-124), or none.
#[test]
fn g_27_s_124_answers_about_another_group_or_other_snapshots() {
    let rows: [(Change, Option<&str>); 7] = [
        (|_| {}, None),
        (|answer| answer.snapshots.clear(), None),
        (|answer| answer.group_snapshot_id = "/grp-9".into(), None),
        (
            |answer| {
                for one in &mut answer.snapshots {
                    one.snapshot_id.insert(0, '/');
                }
            },
            None,
        ),
        (
            |answer| {
                answer.snapshots.pop();
                answer.snapshots[0].snapshot_id = "snap-7".into();
            },
            Some(
                "the driver answered about the group grp-9 with the snapshot snap-7, which was not \
                 asked for",
            ),
        ),
        (
            |answer| drop(answer.snapshots.pop()),
            Some("the driver answered about the group grp-9 with no snapshot snap-9"),
        ),
        (
            |answer| answer.snapshots[1].snapshot_id = "snap-7".into(),
            Some(
                "the driver answered about the group grp-9 with the snapshot snap-7, which was not \
                 asked for",
            ),
        ),
    ];
    for (change, why) in rows {
        let mut answer = group(true);
        answer.group_snapshot_id = "grp-9".into();
        for (snapshot, id) in answer.snapshots.iter_mut().zip(["snap-8", "snap-9"]) {
            snapshot.snapshot_id = id.into();
        }
        change(&mut answer);
        let mut bench = Bench::empty(Settings::default());
        bench
            .server
            .put(&"gp".into(), Some(pre_provisioned_group()));
        bench.answers([group_got(answer)]);
        let trace = bench.run();
        assert_eq!(trace[0], GET);
        let Some(why) = why else {
            assert!(trace[1].contains("\"readyToUse\":true"), "{trace:?}");
            continue;
        };
        let text = format!(
            "Failed to check and update group snapshot content: failed to list group snapshot for \
             group snapshot content gp: \"{why}\""
        );
        let failed = told("GroupSnapshotContentCheckandUpdateFailed", &text);
        assert_eq!(trace, joined(&[&lines(&[GET]), &failed]));
    }
}

#[test]
fn s_119_s_124_an_answer_with_another_handle() {
    let mut bench = Bench::empty(Settings {
        get_snapshot: true,
        ..Settings::default()
    });
    (bench.driver.abilities.list, bench.driver.abilities.get) = (false, true);
    bench.server.put(&"pp".into(), Some(pre_provisioned()));
    bench.answers([got(snapshot(true))]);
    assert_eq!(bench.run(), lines(&["Get snap-9 {}", TAKEN]));
}

/// Quirk 26: a hint about the flag.
#[test]
fn s_64_calls_that_run_out_of_time_again_and_again_name_the_flag() {
    let late = || fails(Code::DeadlineExceeded, "x");
    let text = |hint: &str| {
        format!(
            "failed to take snapshot of the volume vol-1: \"rpc error: code = DeadlineExceeded desc = \
             x{hint}\""
        )
    };
    let hint = " (the last 3 calls or more ran out of time: if the storage system takes that long, \
                --timeout should be longer)";
    let mut bench = Bench::new();
    bench.answers((0..5).map(|_| late()));
    let first = joined(&[&lines(&["bc+", CREATE_SINGLE]), &told_first(&text(""))]);
    assert_eq!(bench.run(), first);
    let second = joined(&[&lines(&[CREATE_SINGLE]), &told_later(&text(""))]);
    assert_eq!(bench.next().1, second);
    let third = joined(&[&lines(&[CREATE_SINGLE]), &told_later(&text(hint))]);
    assert_eq!(bench.next().1, third);
    assert_eq!(bench.next().1, lines(&[CREATE_SINGLE]), "said once");
    // Any other result of a call resets the count.
    let mut bench = Bench::new();
    bench.answers([late(), late(), fails(Code::Aborted, "y"), late(), late()]);
    let mut trace = bench.run();
    (0..4).for_each(|_| trace.extend(bench.next().1));
    let told = |line: &String| line.contains("--timeout");
    assert!(!trace.iter().any(told), "{trace:#?}");
}
