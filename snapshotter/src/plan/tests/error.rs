//! Section 10.3: snapshots that fail.

use std::time::Duration;

use tonic::Code;

use super::{CLEARED, CREATE, CUT, TAKEN, joined, lines, told_first, told_later};
use crate::model::Text;
use crate::plan::outcome::Refusal;
use crate::testing::Answer;
use crate::testing::{Bench, created, fails, pairs, snapshot};

fn message(code: &str, text: &str) -> String {
    format!(
        "failed to take snapshot of the volume vol-1: \"rpc error: code = {code} desc = {text}\""
    )
}

fn with(answers: impl IntoIterator<Item = Answer>) -> Bench {
    let mut bench = Bench::new();
    bench.answers(answers);
    bench
}

fn is_marked(bench: &Bench) -> bool {
    bench.server.contents[&Text::from("snapcontent-U1")]
        .1
        .being_created
}

/// The status patch of a success after an error.
fn taken() -> String {
    TAKEN.replace(r#","readyToUse""#, r#","error":null,"readyToUse""#)
}

#[test]
fn s_60_s_61_two_events_then_silence() {
    let mut bench = with((0..4).map(|_| fails(Code::InvalidArgument, "x")));
    let text = message("InvalidArgument", "x");
    let first = joined(&[&lines(&["bc+", CREATE, "bc-"]), &told_first(&text)]);
    assert_eq!(bench.run(), first, "S-60");
    let second = joined(&[&lines(&["bc+", CREATE, "bc-"]), &told_later(&text)]);
    assert_eq!(bench.next().1, second, "S-61");
    assert_eq!(bench.next().1, lines(&["bc+", CREATE, "bc-"]), "S-61");
    assert_eq!(bench.next().1, lines(&["bc+", CREATE, "bc-"]), "S-61");
}

#[test]
fn s_62_s_63_whether_the_mark_stays() {
    for (row, code, name, stays) in [
        ("S-62", Code::Unknown, "Unknown", false),
        ("S-62", Code::NotFound, "NotFound", false),
        ("S-62", Code::AlreadyExists, "AlreadyExists", false),
        ("S-62", Code::PermissionDenied, "PermissionDenied", false),
        (
            "S-62",
            Code::FailedPrecondition,
            "FailedPrecondition",
            false,
        ),
        ("S-62", Code::OutOfRange, "OutOfRange", false),
        ("S-62", Code::Unimplemented, "Unimplemented", false),
        ("S-62", Code::Internal, "Internal", false),
        ("S-62", Code::DataLoss, "DataLoss", false),
        ("S-62", Code::Unauthenticated, "Unauthenticated", false),
        ("S-63", Code::Cancelled, "Canceled", true),
        ("S-63", Code::DeadlineExceeded, "DeadlineExceeded", true),
        ("S-63", Code::Unavailable, "Unavailable", true),
        ("S-63", Code::ResourceExhausted, "ResourceExhausted", true),
        ("S-63", Code::Aborted, "Aborted", true),
    ] {
        let mut bench = with([fails(code, "x")]);
        let calls: &[&str] = if stays {
            &["bc+", CREATE]
        } else {
            &["bc+", CREATE, "bc-"]
        };
        let expected = joined(&[&lines(calls), &told_first(&message(name, "x"))]);
        assert_eq!(bench.run(), expected, "{row} {name}");
        assert_eq!(is_marked(&bench), stays, "{row} {name}");
    }
}

#[test]
fn s_65_s_67_waits() {
    for (row, start, max, expected) in [
        ("S-65", 1, 300, [1, 2, 4, 8]),
        ("S-67", 5, 10, [5, 10, 10, 10]),
    ] {
        let mut bench = with((0..4).map(|_| fails(Code::Internal, "x")));
        bench.retry_start = Duration::from_secs(start);
        bench.set(|settings| settings.retry_max = Duration::from_secs(max));
        bench.run();
        let waits: Vec<(u64, Vec<String>)> = (0..4).map(|_| bench.next()).collect();
        let times: Vec<u64> = waits.iter().map(|(waited, _)| *waited).collect();
        assert_eq!(times, expected, "{row}");
        assert_eq!(
            waits[3].1,
            lines(&["bc+", CREATE, &taken(), "bc-"]),
            "{row}"
        );
        assert!(bench.rests(), "{row}");
    }
}

#[test]
fn s_66_a_snapshot_that_fails_while_it_is_processed() {
    let mut bench = with([
        created(snapshot(false)),
        fails(Code::Internal, "x"),
        created(snapshot(true)),
    ]);
    assert_eq!(bench.run(), lines(&["bc+", CREATE, CUT, "bc-"]));
    let expected = joined(&[&lines(&[CREATE]), &told_later(&message("Internal", "x"))]);
    assert_eq!(bench.next().1, expected);
    let content = bench.server.contents[&Text::from("snapcontent-U1")]
        .1
        .clone();
    assert_eq!(
        content.handle().map(|handle| &**handle),
        Some("snap-1"),
        "the handle is kept"
    );
    let ready = r#"st {"error":null,"readyToUse":true}"#;
    assert_eq!(bench.next().1, lines(&[CREATE, ready]));
}

#[test]
fn s_68_texts_that_differ_in_an_id_alone() {
    let answers = (0..4).map(|n| {
        let text = format!("request 0123abcd-4567-89ab-cdef-01234567890{n} failed");
        fails(Code::Internal, &text)
    });
    let mut bench = with(answers);
    bench.run();
    let (_, second) = bench.next();
    assert_eq!(second.len(), 5, "another prefix: {second:?}");
    for _ in 0..2 {
        assert_eq!(bench.next().1, lines(&["bc+", CREATE, "bc-"]));
    }
}

#[test]
fn s_69_what_the_driver_calls_impossible_waits_longer() {
    for code in [
        Code::InvalidArgument,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::AlreadyExists,
    ] {
        let mut bench = with((0..8).map(|_| fails(code, "x")));
        bench.run();
        let waits: Vec<u64> = (0..6).map(|_| bench.next().0).collect();
        assert_eq!(waits, [30, 60, 120, 240, 300, 300], "{code:?}");
        // Another class may make it feasible: the content is requeued at once, and its waits start over.
        bench.class(|class| class.parameters = pairs(&[("a", "c")]));
        let trace = bench.run();
        let call = "Create snapshot-U1 vol-1 {a: c} {}";
        assert_eq!(trace, lines(&["bc+", call, "bc-"]), "{code:?}");
        assert_eq!(bench.next().0, 30, "{code:?}");
    }
}

/// The VolumeSnapshot is deleted while the driver works.
fn deleted_in_doubt(answers: impl IntoIterator<Item = Answer>) -> Bench {
    let mut bench = with([fails(Code::DeadlineExceeded, "x")]);
    bench.run();
    bench.content(|content| (content.deleting, content.being_deleted) = (true, true));
    bench.answers(answers);
    bench
}

#[test]
fn s_70_deletion_waits_for_what_is_in_doubt() {
    let mut bench = deleted_in_doubt([fails(Code::Aborted, "busy")]);
    let later = told_later(&message("Aborted", "busy"));
    assert_eq!(
        bench.run(),
        joined(&[&lines(&[CREATE]), &later]),
        "no DeleteSnapshot"
    );
    let expected = [CREATE, &taken(), "bc-", "Delete snap-1 {}", CLEARED, "F-"];
    assert_eq!(bench.next().1, lines(&expected));
    assert!(bench.server.contents.is_empty() && bench.rests());
}

#[test]
fn s_70_what_is_not_ready_is_deleted_too() {
    let mut bench = deleted_in_doubt([created(snapshot(false))]);
    let cut = CUT.replace(r#""readyToUse":false,"#, "");
    let expected = [CREATE, &cut, "bc-", "Delete snap-1 {}", CLEARED, "F-"];
    assert_eq!(bench.run(), lines(&expected));
}

#[test]
fn s_71_deletion_after_a_final_error() {
    let mut bench = deleted_in_doubt([fails(Code::Internal, "x")]);
    // The driver's final response is reported, although no status is left for it.
    let event = "E SnapshotContentCheckandUpdateFailed: Failed to check and update snapshot content: \
                 failed to take snapshot of the volume vol-1: \"rpc error: code = Internal desc = x\"";
    assert_eq!(bench.run(), lines(&[CREATE, "bc-", event, "F-"]));
    assert!(bench.server.contents.is_empty() && bench.rests());
}

#[test]
fn s_73_s_74_the_first_parameters_are_kept_while_in_doubt() {
    let mut bench = with([
        fails(Code::DeadlineExceeded, "x"),
        fails(Code::Aborted, "x"),
    ]);
    bench.run();
    bench.server.put_class(&"c1".into(), None);
    assert_eq!(bench.next().1[0], CREATE, "S-73");
    let other = crate::model::Class {
        parameters: pairs(&[("a", "c")]),
        ..crate::testing::class()
    };
    bench.server.put_class(&"c1".into(), Some(other));
    assert_eq!(bench.next().1[0], CREATE, "S-74");
    assert!(bench.rests());
}

/// Quirk 9: if this process knows that no call followed its mark, it removes the mark, so that the
/// VolumeSnapshot can be deleted.
#[test]
fn a_mark_without_a_call_goes() {
    let mut bench = Bench::new();
    // The mark is applied, its response is lost, and the class disappears.
    bench.refusals.push_back((false, Refusal::Unknown));
    assert_eq!(bench.run(), lines(&["bc+", "refused Unknown"]));
    bench.server.put_class(&"c1".into(), None);
    bench.content(|content| content.being_created = true);
    let trace = bench.run();
    assert_eq!(trace[..2], lines(&["read", "bc-"]), "{trace:?}");
}

/// A write that is refused once is not reported; one that is refused repeatedly is, once for each of the
/// two prefixes of status errors.
#[test]
fn s_57_s_59_a_write_that_keeps_failing_is_told_once() {
    let first = "E SnapshotCreationFailed: Failed to create snapshot";
    let later =
        "E SnapshotContentCheckandUpdateFailed: Failed to check and update snapshot content";
    for (status, prefixes, text) in [
        (
            true,
            &[first][..],
            "error updating status for volume snapshot content snapcontent-U1: simulated",
        ),
        (
            false,
            &[first, later],
            "failed to add VolumeSnapshotBeingCreated annotation on the content snapcontent-U1: \
             \"simulated\"",
        ),
    ] {
        let mut bench = Bench::new();
        let refusals = (0..20).map(|_| (status, Refusal::Unknown));
        bench.refusals.extend(refusals);
        let mut trace = bench.run();
        let waits = [(); 6].map(|()| {
            let (waited, more) = bench.next();
            trace.extend(more);
            waited
        });
        assert_eq!(waits, [1, 2, 4, 8, 16, 32]);
        let events: Vec<&String> = trace.iter().filter(|line| line.starts_with("E ")).collect();
        let expected = prefixes.iter().map(|prefix| format!("{prefix}: {text}"));
        assert!(
            events.into_iter().eq(&expected.collect::<Vec<_>>()),
            "{trace:#?}"
        );
        // The success leaves no trace of it.
        bench.refusals.clear();
        bench.next();
        let (_, content) = &bench.server.contents[&Text::from("snapcontent-U1")];
        assert!(content.is_ready() && !content.being_created && bench.rests());
    }
}
