//! FS-9: patches that may still be on their way when a call is repeated.

use super::*;

const TAKEN_OVER: &str = concat!(
    r#"cs {"metadata":{"resourceVersion":"1"},"status":{"$setElementOrder/conditions":[{"type":"Resizing"}],"#,
    r#""conditions":[{"lastProbeTime":"2026-01-02T03:04:05Z","type":"Resizing"}]}}"#
);

/// An earlier process may have requested 2Gi.
fn begun() -> Bench {
    let mut bench = grown("2Gi");
    bench.claim.allocated = Some(size("2Gi"));
    bench.claim.resize = Some(ResizeStatus::ControllerInProgress);
    bench.claim.conditions = [condition(RESIZING, "")].into();
    bench
}

#[test]
fn fs_9_what_a_predecessor_sent_fits_no_more_when_its_call_is_repeated() {
    let unknown = Reply::Error(Code::DeadlineExceeded, "late");
    let mut bench = begun().replies(&[unknown, Reply::Done(false)]);
    let lines = run(&mut bench);
    assert_eq!(
        only(&lines, &["cs", "Exp"]),
        [TAKEN_OVER, "Exp h1 2147483648"]
    );
    let lines = run(&mut bench);
    assert_eq!(only(&lines, &["cs", "Exp"])[0], "Exp h1 2147483648", "once");
    assert_eq!(bench.claim.capacity, Some(size("2Gi")));
}

#[test]
fn fs_9_two_processes_in_one_second_make_two_versions() {
    let unknown = Reply::Error(Code::DeadlineExceeded, "late");
    let mut bench = begun().replies(&[unknown, unknown]);
    run(&mut bench);
    let first = bench.claim.clone();
    bench.restart();
    run(&mut bench);
    let condition = |claim: &ClaimDetail| claim.condition(RESIZING).cloned();
    assert_ne!(condition(&bench.claim), condition(&first));
}

#[test]
fn fs_9_a_patch_of_our_own_without_answer_fits_no_more_either() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(false), Reply::Done(false)]);
    bench.troubles.insert(2, Trouble::Lost);
    let before = bench.claim.clone();
    run(&mut bench);
    // The last patch is still on its way.
    bench.change(|claim| {
        let (allocated, resize) = (claim.allocated, Some(ResizeStatus::ControllerInProgress));
        *claim = ClaimDetail {
            allocated,
            resize,
            conditions: [condition(RESIZING, "")].into(),
            version: claim.version.clone(),
            ..before.clone()
        };
    });
    let lines = run(&mut bench);
    let lines = only(&lines, &["get", "cs", "Exp"]);
    assert_eq!(lines[0], "get claim");
    assert!(lines[1].contains("lastProbeTime"), "{lines:?}");
    assert_eq!(lines[2], "Exp h1 2147483648");
}
