//! Sections 5, 16.4 to 16.6 and 16.9: errors, recovery, retry, volumes in use, the older path.

use super::*;
use crate::keys::{CONTROLLER_RESIZE_ERROR, FILE_SYSTEM_RESIZE_PENDING, NODE_RESIZE_ERROR};
use crate::model::{Claim, Pod, Text, Uid};
use crate::plan::Task;
use crate::plan::attempt::Attempt;

/// The state that a new process finds: st, A, P, S and C.
fn found(st: Option<ResizeStatus>, a: &str, p: &str, s: &str, c: &str) -> Bench {
    let mut bench = Bench::new(ClaimDetail {
        request: Some(size(s)),
        capacity: Some(size(c)),
        allocated: (!a.is_empty()).then(|| size(a)),
        resize: st,
        ..claim()
    });
    bench.volume.as_mut().unwrap().capacity = Some(size(p));
    bench
}

fn task() -> Task {
    Task::new(Kind::Expand, &"ns/c1".into())
}

/// st, settled, A, P, S; the target with a driver that expands, and with one that does not.
const TARGETS: &str = "
    -                           no   -    1Gi  2Gi   2Gi  2Gi
    -                           no   3Gi  1Gi  2Gi   2Gi  2Gi
    ControllerResizeInfeasible  no   4Gi  1Gi  2Gi   2Gi  2Gi
    Later                       no   4Gi  1Gi  2Gi   2Gi  2Gi
    ControllerResizeInProgress  yes  4Gi  1Gi  2Gi   2Gi  2Gi
    ControllerResizeInProgress  no   4Gi  1Gi  2Gi   4Gi  4Gi
    ControllerResizeInProgress  no   -    1Gi  2Gi   2Gi  2Gi
    NodeResizePending           no   3Gi  2Gi  5Gi   3Gi  3Gi
    NodeResizePending           no   -    2Gi  5Gi   5Gi  5Gi
    NodeResizePending           no   3Gi  3Gi  10Gi  -    -
    NodeResizeInProgress        no   3Gi  4Gi  10Gi  -    -
    NodeResizeInfeasible        no   2Gi  1Gi  3Gi   2Gi  2Gi
    NodeResizeInfeasible        no   -    1Gi  3Gi   3Gi  3Gi
    NodeResizePending           no   2Gi  2Gi  2Gi   -    -
    NodeResizeInProgress        no   2Gi  3Gi  2Gi   -    -
    NodeResizeInfeasible        no   5Gi  5Gi  3Gi   5Gi  3Gi
    NodeResizeInfeasible        no   -    5Gi  3Gi   3Gi  3Gi
    ControllerResizeInProgress  yes  3Gi  3Gi  2Gi   3Gi  3Gi
    ControllerResizeInfeasible  yes  3Gi  3Gi  2Gi   3Gi  3Gi
    ControllerResizeInfeasible  no   -    3Gi  2Gi   2Gi  2Gi
    -                           no   2Gi  2Gi  2Gi   2Gi  2Gi
    -                           no   2Gi  3Gi  3Gi   3Gi  3Gi
    -                           no   2Gi  5Gi  3Gi   3Gi  5Gi
    -                           no   -    5Gi  3Gi   3Gi  5Gi
    -                           no   3Gi  3Gi  2Gi   3Gi  3Gi
    -                           no   -    3Gi  3Gi   3Gi  3Gi
    Later                       no   4Gi  3Gi  3Gi   3Gi  3Gi
";

/// The cells of a table; `-` is an empty one.
fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = table.lines().filter(|row| !row.trim().is_empty());
    rows.map(|row| {
        { row.split_whitespace() }
            .map(|cell| cell.trim_matches('-'))
            .collect()
    })
}

#[test]
fn section_5_how_large_the_volume_is_to_be_made() {
    let mut count = 0;
    for row in rows(TARGETS) {
        let [st, settled, a, p, s, ours, trivial] = row[..] else {
            unreachable!("{row:?}");
        };
        let st = (!st.is_empty()).then(|| ResizeStatus::parse(st));
        let bench = found(st, a, p, s, "1Gi");
        for (controller, expected) in [(true, ours), (false, trivial)] {
            let target = target(&Facts {
                claim: &bench.claim,
                volume: bench.volume.as_ref().unwrap().capacity,
                settled: settled == "yes",
                controller,
            });
            let expected = (!expected.is_empty()).then(|| size(expected));
            assert_eq!(target, expected, "{row:?} {controller}");
            count += 1;
        }
    }
    assert_eq!(count, 54);
}

#[test]
fn z_70_71_72_and_134_to_149_codes() {
    use Code::{
        Aborted, AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, FailedPrecondition,
        Internal, InvalidArgument, NotFound, OutOfRange, PermissionDenied, ResourceExhausted,
        Unauthenticated, Unavailable, Unimplemented, Unknown,
    };
    // st, whether ControllerResizeError is set, whether a smaller size is requested next.
    const FINAL: (&str, bool, bool) = ("ControllerResizeInProgress", true, true);
    const IN_DOUBT: (&str, bool, bool) = ("ControllerResizeInProgress", false, false);
    const INFEASIBLE: (&str, bool, bool) = ("ControllerResizeInfeasible", true, true);
    let rows = [
        ("z_134", Cancelled, IN_DOUBT),
        ("z_135", Unknown, FINAL),
        ("z_136", InvalidArgument, INFEASIBLE),
        ("z_137", DeadlineExceeded, IN_DOUBT),
        ("z_138", NotFound, INFEASIBLE),
        ("z_139", AlreadyExists, FINAL),
        ("z_140", PermissionDenied, FINAL),
        ("z_141", ResourceExhausted, IN_DOUBT),
        ("z_142", FailedPrecondition, FINAL),
        ("z_143", Aborted, IN_DOUBT),
        ("z_144", OutOfRange, INFEASIBLE),
        ("z_145", Unimplemented, FINAL),
        ("z_146", Internal, FINAL),
        ("z_147", Unavailable, IN_DOUBT),
        ("z_148", DataLoss, FINAL),
        ("z_149", Unauthenticated, FINAL),
    ];
    for (row, code, (st, error, settled)) in rows {
        let mut bench = grown("4Gi").replies(&[Reply::Error(code, "msg"), Reply::Done(false)]);
        let (lines, next) = bench.run(Kind::Expand);
        let claim = &bench.claim;
        assert_eq!(claim.resize.map(ResizeStatus::name), Some(st), "{row}");
        let text = RpcError {
            code,
            message: "msg".into(),
        };
        let held = claim.condition(CONTROLLER_RESIZE_ERROR);
        let message = held.map(|held| held.message.to_string());
        let expected = error.then(|| format!("failed to expand pvc with {text}"));
        assert_eq!(message, expected, "{row}");
        assert!(claim.has_condition(RESIZING));
        let event = format!(
            "W VolumeResizeFailed resize volume \"pv1\" by resizer \"test.csi.driver\" failed: {text}"
        );
        assert_eq!(only(&lines, &["W"]), [event], "{row}");
        let slow = st == "ControllerResizeInfeasible";
        let wait = Next::After(bench.settings.infeasible_wait);
        assert_eq!(next, if slow { wait } else { Next::Backoff }, "{row}");
        bench.change(|claim| claim.request = Some(size("2Gi")));
        let lines = run(&mut bench);
        let asked = if settled { 2 * GI } else { 4 * GI };
        assert_eq!(only(&lines, &["Exp"]), [format!("Exp h1 {asked}")], "{row}");
    }
}

#[test]
fn z_68_the_error_goes_with_success() {
    let boom = Reply::Error(Code::Internal, "boom");
    let mut bench = grown("2Gi").replies(&[boom, boom, Reply::Done(false)]);
    let first = run(&mut bench);
    assert_eq!(only(&first, &["cs"]).len(), 2);
    let second = run(&mut bench);
    assert_eq!(only(&second, &["cs"]), NOTHING, "Q19: nothing new to write");
    run(&mut bench);
    assert!(bench.claim.conditions.is_empty());
    assert_eq!(
        (bench.claim.resize, bench.claim.capacity),
        (None, Some(size("2Gi")))
    );
}

#[test]
fn z_69_the_patch_of_an_infeasible_size() {
    let no = Reply::Error(Code::InvalidArgument, "too big");
    let mut bench = grown("2Gi").replies(&[no]);
    let lines = run(&mut bench);
    assert_eq!(
        lines[3],
        concat!(
            r#"cs {"metadata":{"resourceVersion":"2"},"status":{"$setElementOrder/conditions":[{"type":"Resizing"},{"type":"ControllerResizeError"}],"#,
            r#""allocatedResourceStatuses":{"storage":"ControllerResizeInfeasible"},"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z","#,
            r#""message":"failed to expand pvc with rpc error: code = InvalidArgument desc = too big","status":"True","type":"ControllerResizeError"}]}}"#
        )
    );
}

#[test]
fn z_73_at_most_one_call_in_the_retry_interval() {
    let no = Reply::Error(Code::InvalidArgument, "no");
    let mut bench = grown("2Gi").replies(&[no, no, no]);
    run(&mut bench);
    for _ in 0..2 {
        bench.wait(100);
        let (lines, next) = bench.run(Kind::Expand);
        assert_eq!(lines, NOTHING);
        assert_eq!(next, Next::After(std::time::Duration::from_secs(200)));
        bench.wait(200);
        let (lines, _) = bench.run(Kind::Expand);
        assert_eq!(only(&lines, &["Exp"]).len(), 1);
        assert_eq!(
            only(&lines, &["cs"]).len(),
            2,
            "in progress, then infeasible again"
        );
    }
    bench.restart();
    bench.replies.push_back(no);
    assert_eq!(
        only(&run(&mut bench), &["Exp"]).len(),
        1,
        "a new process learns it again"
    );
}

#[test]
fn z_74_a_smaller_size_is_taken_up_at_once() {
    let no = Reply::Error(Code::InvalidArgument, "no");
    let mut bench = grown("4Gi").replies(&[no, Reply::Done(false)]);
    run(&mut bench);
    bench.change(|claim| claim.request = Some(size("2Gi")));
    let (lines, next) = bench.run(Kind::Expand);
    assert!(
        lines[0].contains(r#"{"$patch":"delete","type":"ControllerResizeError"}"#),
        "{}",
        lines[0]
    );
    let status = concat!(
        r#""allocatedResourceStatuses":{"storage":"ControllerResizeInProgress"},"#,
        r#""allocatedResources":{"storage":"2Gi"}"#
    );
    assert!(lines[0].contains(status), "{}", lines[0]);
    assert_eq!(only(&lines, &["Exp"]), ["Exp h1 2147483648"]);
    assert_eq!(
        (bench.claim.capacity, next),
        (Some(size("2Gi")), Next::Forget)
    );
}

#[test]
fn z_75_76_what_is_in_doubt_is_finished_first() {
    let late = Reply::Error(Code::DeadlineExceeded, "context deadline exceeded");
    let mut bench = grown("4Gi").replies(&[late, late, Reply::Done(false)]);
    run(&mut bench);
    bench.change(|claim| claim.request = Some(size("2Gi")));
    assert_eq!(
        only(&run(&mut bench), &["Exp", "cs"]),
        ["Exp h1 4294967296"]
    );
    run(&mut bench);
    assert_eq!(bench.claim.capacity, Some(size("4Gi")), "z_75");
    // Final, unknown, final: the last response counts.
    let boom = Reply::Error(Code::Internal, "x");
    let mut bench = grown("4Gi").replies(&[boom, late, boom, Reply::Done(false)]);
    run(&mut bench);
    run(&mut bench);
    bench.change(|claim| claim.request = Some(size("2Gi")));
    assert_eq!(only(&run(&mut bench), &["Exp"]), ["Exp h1 4294967296"]);
    assert_eq!(
        only(&run(&mut bench), &["Exp"]),
        ["Exp h1 2147483648"],
        "z_76"
    );
}

#[test]
fn a_failure_before_the_call_leaves_no_doubt() {
    let boom = Reply::Error(Code::Internal, "x");
    let mut bench = grown("4Gi").replies(&[boom, Reply::Unreachable, Reply::Done(false)]);
    run(&mut bench);
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!((only(&lines, &["cs"]), next), (Vec::new(), Next::Backoff));
    bench.change(|claim| claim.request = Some(size("2Gi")));
    assert_eq!(bench.in_flight.driver_is_back(), [task()]);
    assert_eq!(only(&run(&mut bench), &["Exp"]), ["Exp h1 2147483648"]);
}

/// Row, st, A, P, S; requested Gi, PV and A afterwards.
const FOUND: &str = "
    z_77  ControllerResizeInProgress  4Gi  1Gi  2Gi   4  4Gi  4Gi
    z_78  ControllerResizeInfeasible  4Gi  1Gi  2Gi   2  2Gi  2Gi
    z_79  NodeResizePending           2Gi  2Gi  2Gi   -  2Gi  2Gi
    z_79  NodeResizeInProgress        2Gi  2Gi  2Gi   -  2Gi  2Gi
    z_80  NodeResizePending           3Gi  3Gi  10Gi  -  3Gi  3Gi
    z_81  NodeResizeInfeasible        2Gi  2Gi  2Gi   2  2Gi  2Gi
    z_83  -                           -    2Gi  2Gi   2  2Gi  2Gi
    z_85  -                           2Gi  3Gi  3Gi   3  3Gi  3Gi
    Q21   -                           2Gi  5Gi  3Gi   3  5Gi  3Gi
";

#[test]
fn z_77_to_85_what_a_new_process_finds() {
    for row in rows(FOUND) {
        let [id, st, a, p, s, asked, volume, allocated] = row[..] else {
            unreachable!("{row:?}");
        };
        let st = (!st.is_empty()).then(|| ResizeStatus::parse(st));
        let mut bench = found(st, a, p, s, "1Gi").replies(&[Reply::Done(false)]);
        let lines = run(&mut bench);
        let asked: Option<i64> = asked.parse().ok();
        let asked = asked.map(|asked| format!("Exp h1 {}", asked * GI));
        let expected: Vec<&str> = asked.as_deref().into_iter().collect();
        assert_eq!(only(&lines, &["Exp"]), expected, "{id}");
        if asked.is_none() {
            assert_eq!(lines, NOTHING, "{id}");
        }
        assert_eq!(bench.volume.unwrap().capacity, Some(size(volume)), "{id}");
        assert_eq!(bench.claim.allocated, Some(size(allocated)), "{id}");
    }
}

#[test]
fn z_81_a_refusal_of_the_node_is_tried_again_from_the_start() {
    let refused = Some(ResizeStatus::NodeInfeasible);
    let mut bench = found(refused, "2Gi", "2Gi", "2Gi", "1Gi").replies(&[Reply::Done(true)]);
    bench.claim.conditions = [condition(NODE_RESIZE_ERROR, "no")].into();
    let lines = run(&mut bench);
    assert_eq!(
        lines[0],
        concat!(
            r#"cs {"metadata":{"resourceVersion":"1"},"status":{"$setElementOrder/conditions":[{"type":"NodeResizeError"},{"type":"Resizing"}],"#,
            r#""conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z","status":"True","type":"Resizing"}]}}"#
        )
    );
    assert_eq!(only(&lines, &["Exp"]), ["Exp h1 2147483648"]);
    assert_eq!(only(&lines, &["pp"]).len(), 1);
    assert_eq!(bench.claim.resize, Some(ResizeStatus::NodePending));
    assert!(bench.claim.has_condition(NODE_RESIZE_ERROR));
}

#[test]
fn z_82_without_the_driver_a_smaller_size_replaces_the_refused_one() {
    let refused = Some(ResizeStatus::NodeInfeasible);
    let mut bench = found(refused, "10Gi", "10Gi", "5Gi", "1Gi");
    bench.driver.abilities.expansion = Who::NodeOnly;
    run(&mut bench);
    assert_eq!(bench.claim.allocated, Some(size("5Gi")));
    assert_eq!(bench.claim.resize, Some(ResizeStatus::NodePending));
    let held = bench.volume.as_ref().unwrap().capacity;
    assert_eq!(held, Some(size("5Gi")), "fr_17");
}

#[test]
fn fr_17_only_what_the_node_is_still_to_reach_is_taken_back() {
    // st, A, P, S, C; P and A afterwards, with a driver without controller expansion.
    const ROWS: &str = "
        NodeResizeInfeasible        10Gi  10Gi  5Gi  1Gi   5Gi   5Gi
        ControllerResizeInProgress  5Gi   10Gi  5Gi  1Gi   5Gi   5Gi
        NodeResizePending           10Gi  10Gi  5Gi  1Gi   10Gi  10Gi
        NodeResizeInProgress        10Gi  10Gi  5Gi  1Gi   10Gi  10Gi
        -                           2Gi   10Gi  5Gi  1Gi   10Gi  10Gi
        -                           -     10Gi  5Gi  1Gi   10Gi  10Gi
        ControllerResizeInProgress  4Gi   10Gi  5Gi  4Gi   10Gi  4Gi
    ";
    for row in rows(ROWS) {
        let [st, a, p, s, c, volume, allocated] = row[..] else {
            unreachable!("{row:?}");
        };
        let st = (!st.is_empty()).then(|| ResizeStatus::parse(st));
        let mut bench = found(st, a, p, s, c);
        bench.driver.abilities.expansion = Who::NodeOnly;
        run(&mut bench);
        let after = (
            bench.volume.as_ref().unwrap().capacity,
            bench.claim.allocated,
        );
        assert_eq!(
            after,
            (Some(size(volume)), Some(size(allocated))),
            "{row:?}"
        );
    }
}

#[test]
fn z_84_the_older_way_of_waiting_for_the_node() {
    let mut bench = found(None, "", "2Gi", "2Gi", "1Gi");
    bench.claim.conditions = [condition(FILE_SYSTEM_RESIZE_PENDING, "")].into();
    assert_eq!(run(&mut bench), NOTHING);
}

#[test]
fn z_86_a_first_patch_that_is_refused() {
    let mut bench = grown("2Gi");
    bench.troubles.insert(0, Trouble::Refused("forbidden"));
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!(
        lines[1..],
        [
            r#"failed marking pvc "ns/c1" as resizing failed: can't patch status of  PVC ns/c1 with forbidden"#
        ]
    );
    assert_eq!(next, Next::Backoff);
    // A conflict is no failure: the claim is read again.
    let mut bench = grown("2Gi").replies(&[Reply::Done(false)]);
    bench.troubles.insert(0, Trouble::Conflict);
    let lines = run(&mut bench);
    assert_eq!(
        only(&lines, &["get", "W", "Exp"]),
        ["get claim", "Exp h1 2147483648"],
        "Q8"
    );
    assert_eq!(bench.claim.capacity, Some(size("2Gi")));
}

#[test]
fn a_claim_that_changes_all_the_time_is_left_for_later() {
    let mut bench = grown("2Gi");
    bench.troubles = (0..20).map(|patch| (patch, Trouble::Conflict)).collect();
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!((only(&lines, &["W"]), next), (Vec::new(), Next::Backoff));
    assert_eq!(only(&lines, &["cs"]).len(), 9);
}

#[test]
fn z_87_the_volume_cannot_be_written() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(false), Reply::Done(false)]);
    bench.troubles.insert(1, Trouble::Refused("boom"));
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!(
        only(&lines, &["W"]),
        [
            r#"W VolumeResizeFailed error updating pv "pv1" by resizer: updating capacity of PV "pv1" to 2Gi failed: update capacity of PV pv1 failed: boom"#
        ]
    );
    assert_eq!(
        (bench.claim.capacity, next),
        (Some(size("1Gi")), Next::Backoff)
    );
    bench.change(|claim| claim.request = Some(size("1536Mi")));
    assert_eq!(
        only(&run(&mut bench), &["Exp"]),
        ["Exp h1 2147483648"],
        "the driver has done it"
    );
    assert_eq!(bench.claim.capacity, Some(size("2Gi")));
}

#[test]
fn z_88_133_the_claim_changes_during_the_call() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(false)]);
    bench.meanwhile = Some(|claim| {
        let mut conditions = claim.conditions.to_vec();
        conditions.push(condition("Other", ""));
        claim.conditions = conditions.into();
    });
    let before = bench.claim.clone();
    let lines = run(&mut bench);
    assert_eq!(only(&lines, &["W", "Exp"]), ["Exp h1 2147483648"], "once");
    assert_eq!(bench.claim.capacity, Some(size("2Gi")));
    assert!(bench.claim.has_condition("Other"));
    // The same with an outdated cache.
    let mut bench = grown("2Gi").replies(&[Reply::Done(false)]);
    bench.stale = Some(before);
    bench.change(|claim| claim.provisioner = Some("test.csi.driver".into()));
    let lines = run(&mut bench);
    assert_eq!(
        only(&lines, &["get", "W", "Exp"]),
        ["get claim", "Exp h1 2147483648"]
    );
}

#[test]
fn an_answer_that_is_lost_makes_the_next_attempt_read() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(false), Reply::Done(false)]);
    bench.troubles.insert(0, Trouble::Lost);
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!(
        (only(&lines, &["W", "Exp"]), next),
        (Vec::new(), Next::Backoff)
    );
    bench.troubles = [(2, Trouble::Lost)].into();
    let lines = run(&mut bench);
    assert_eq!(lines[0], "get claim");
    let told = only(&lines, &["cs", "W"]);
    assert_eq!(told.len(), 2, "the volume could not be written: {told:?}");
    let lines = run(&mut bench);
    assert_eq!(lines[0], "get pv1");
    assert_eq!(bench.claim.capacity, Some(size("2Gi")));
}

/// A pod that uses the claim.
fn user(claims: &[&str]) -> Pod {
    Pod {
        namespace: "ns".into(),
        claims: claims.iter().map(|name| Text::from(*name)).collect(),
    }
}

#[test]
fn z_90_91_a_volume_in_use_is_left_alone_until_it_is_free() {
    let refused = Reply::Error(Code::FailedPrecondition, "in use");
    let mut bench = grown("2Gi").replies(&[refused, Reply::Done(false)]);
    bench.in_use = true;
    let pod = user(&["c1"]);
    assert!(bench.in_flight.pod_changed(None, Some(&pod)).is_empty());
    run(&mut bench);
    for _ in 0..3 {
        let (lines, next) = bench.run(Kind::Expand);
        assert_eq!(
            lines[0],
            "W VolumeResizeFailed Unable to expand ns/c1 because CSI driver test.csi.driver only supports offline expansion and volume is currently in-use",
        );
        assert_eq!(
            (lines.len(), next),
            (2, Next::Backoff),
            "Q19: nothing is written"
        );
    }
    assert_eq!(
        bench.in_flight.pod_changed(Some(&pod), None),
        [task()],
        "Q7: at once"
    );
    bench.in_use = false;
    run(&mut bench);
    assert_eq!(bench.claim.capacity, Some(size("2Gi")), "z_91");
}

#[test]
fn z_92_94_95_who_is_not_stopped_by_users() {
    let refused = Reply::Error(Code::FailedPrecondition, "in use");
    let mut bench = grown("2Gi").replies(&[refused, Reply::Done(false)]);
    run(&mut bench);
    assert_eq!(
        only(&run(&mut bench), &["Exp"]).len(),
        1,
        "z_92, z_93: not in use"
    );
    let mut bench = grown("2Gi").replies(&[refused, Reply::Done(false)]);
    bench.in_use = true;
    bench.settings.handle_in_use = false;
    run(&mut bench);
    assert_eq!(only(&run(&mut bench), &["Exp"]).len(), 1, "z_94");
    let mut bench = grown("2Gi").replies(&[Reply::Done(false)]);
    bench.in_use = true;
    assert_eq!(only(&run(&mut bench), &["Exp"]).len(), 1, "z_95");
    let mut bench = grown("2Gi");
    let pod = user(&["c1"]);
    bench.in_flight.pod_changed(None, Some(&pod));
    assert!(
        bench.in_flight.pod_changed(Some(&pod), None).is_empty(),
        "nobody waited for it"
    );
}

#[test]
fn z_151_another_claim_of_the_name_or_none_ends_the_attempt() {
    let mut bench = grown("2Gi");
    let old = Claim::new(bench.claim.clone());
    let start = bench.in_flight.begin(&task(), &old, bench.now).unwrap();
    let attempt = Attempt::new(&task(), &old, start);
    bench.change(|claim| claim.uid = Uid::new("later"));
    let now = Claim::new(bench.claim.clone());
    let view = View {
        driver: &bench.driver,
        settings: &bench.settings,
        claim: Some(&now),
        volume: bench.volume.as_ref(),
        class: None,
        in_use: false,
        now: NOW,
    };
    assert!(matches!(attempt.decide(&view), Err(End::Again)));
    let gone = View {
        claim: None,
        ..view
    };
    assert!(matches!(attempt.decide(&gone), Err(End::Done)));
}
