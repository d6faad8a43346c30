//! Section 16.7 and the modifications of 16.9.

use tonic::Code;

use super::*;
use crate::keys::{MODIFY_VOLUME_ERROR, MODIFYING_VOLUME};
use crate::model::{ClaimPhase, Condition, Modify, Source};
use crate::plan::Task;
use crate::plan::in_flight::Next;
use crate::testing::bench::{Bench, Reply, Trouble, only};
use crate::testing::{claim, class, condition, csi, in_tree, kind};

const NOTHING: [&str; 0] = [];

/// A claim with the class `current` that requests `wanted`.
fn wants(current: &str, wanted: &str) -> Bench {
    let mut bench = Bench::new(ClaimDetail {
        class: wanted.into(),
        current_class: current.into(),
        ..claim()
    });
    kind(bench.volume.as_mut().unwrap()).class = Some(current)
        .filter(|name| !name.is_empty())
        .map(Text::from);
    bench
}

fn run(bench: &mut Bench) -> Vec<String> {
    bench.run(Kind::Modify).0
}

fn modify(phase: ModifyPhase, target: &str) -> Option<Modify> {
    Some(Modify {
        phase,
        target: target.into(),
    })
}

fn task() -> Task {
    Task::new(Kind::Modify, &"ns/c1".into())
}

#[test]
fn z_100_101_130_the_whole_of_a_modification() {
    for current in ["a", ""] {
        let mut bench = wants(current, "b").replies(&[Reply::Done(false)]);
        let (lines, next) = bench.run(Kind::Modify);
        assert_eq!(
            lines,
            [
                concat!(
                    r#"cs {"metadata":{"resourceVersion":"1"},"status":{"conditions":[{"lastProbeTime":"2026-01-02T03:04:05Z","lastTransitionTime":"2026-01-02T03:04:05Z","#,
                    r#""message":"Modifying volume to \"b\" is in progress.","status":"True","type":"ModifyingVolume"}],"#,
                    r#""modifyVolumeStatus":{"status":"InProgress","targetVolumeAttributesClassName":"b"}}}"#
                ),
                "N VolumeModify external resizer is modifying volume c1 with vac b",
                r#"Mod h1 {"iops": "9"}"#,
                r#"pp {"spec":{"volumeAttributesClassName":"b"}}"#,
                r#"cs {"metadata":{"resourceVersion":"2"},"status":{"conditions":null,"currentVolumeAttributesClassName":"b","modifyVolumeStatus":null}}"#,
                "N VolumeModifySuccessful external resizer modified volume c1 with vac b successfully",
            ]
        );
        assert_eq!(next, Next::Forget);
        assert_eq!(
            (&*bench.claim.current_class, &bench.claim.modify),
            ("b", &None)
        );
        assert_eq!(run(&mut bench), NOTHING);
    }
}

#[test]
fn z_102_names_among_the_parameters() {
    let mut bench = wants("a", "b").replies(&[Reply::Done(false)]);
    bench.settings.extra_modify_metadata = true;
    let parameters = &mut bench.classes.get_mut("b").unwrap().parameters;
    *parameters = [("iops", "9"), ("csi.storage.k8s.io/pvc/name", "mine")]
        .into_iter()
        .collect();
    let lines = run(&mut bench);
    assert_eq!(
        only(&lines, &["Mod"]),
        [
            r#"Mod h1 {"csi.storage.k8s.io/pv/name": "pv1", "csi.storage.k8s.io/pvc/name": "c1", "csi.storage.k8s.io/pvc/namespace": "ns", "iops": "9"}"#
        ]
    );
}

/// The fixture with the Secrets `es` and `ms`; the volume references these.
fn secretive(expand: Option<&str>, modify: Option<&str>) -> Bench {
    let mut bench = wants("a", "b").replies(&[Reply::Done(false)]);
    bench.secrets = [("es", "e"), ("ms", "m")].into();
    let reference = |name: &str| SecretRef {
        namespace: "ns".into(),
        name: name.into(),
    };
    let volume = kind(bench.volume.as_mut().unwrap());
    volume.modify_secret = modify.map(reference);
    volume.source = Source::Csi(CsiSource {
        driver: "test.csi.driver".into(),
        expand_secret: expand.map(reference),
        ..CsiSource::default()
    });
    bench
}

#[test]
fn z_103_104_which_secret() {
    let rows = [
        ("z_103", Some("es"), Some("ms"), "ms", "m"),
        ("z_104", Some("es"), None, "es", "e"),
        ("modify alone", None, Some("ms"), "ms", "m"),
    ];
    for (row, expand, modify, name, user) in rows {
        let lines = run(&mut secretive(expand, modify));
        let call = format!(r#"Mod h1 {{"iops": "9"}} with {{"user": "{user}"}}"#);
        assert_eq!(
            only(&lines, &["secret", "Mod"]),
            [format!("secret ns/{name}"), call],
            "{row}"
        );
    }
}

#[test]
fn z_105_a_missing_secret_is_told() {
    let mut bench = secretive(None, Some("nope"));
    let (lines, next) = bench.run(Kind::Modify);
    assert_eq!(
        only(&lines, &["N", "W", "Mod"]),
        [
            "N VolumeModify external resizer is modifying volume c1 with vac b",
            r#"W VolumeModifyFailed error getting secret nope in namespace ns: secrets "nope" not found"#,
        ],
        "Q13"
    );
    assert_eq!(next, Next::Backoff);
    assert!(bench.claim.is_changing());
    // The driver was not called: another class is started at once.
    bench.change(|claim| claim.class = "c".into());
    kind(bench.volume.as_mut().unwrap()).modify_secret = None;
    assert_eq!(
        only(&run(&mut bench), &["Mod"]),
        [r#"Mod h1 {"iops": "11"}"#]
    );
}

#[test]
fn z_106_107_a_class_that_is_not_there() {
    let mut bench = wants("a", "z").replies(&[Reply::Done(false)]);
    let (lines, next) = bench.run(Kind::Modify);
    assert_eq!(
        lines,
        [
            r#"cs {"metadata":{"resourceVersion":"1"},"status":{"modifyVolumeStatus":{"status":"Pending"}}}"#,
            r#"W VolumeModifyFailed VAC "z" does not exist."#,
        ],
        "z_106"
    );
    assert_eq!(next, Next::Forget);
    assert!(bench.claim.conditions.is_empty());
    bench.classes.insert("z", class("7"));
    let woken = bench
        .in_flight
        .class_changed(&"z".into(), None, Some(&class("7")));
    assert_eq!(woken, [task()], "Q2");
    let lines = run(&mut bench);
    assert_eq!(only(&lines, &["Mod"]), [r#"Mod h1 {"iops": "7"}"#], "z_107");
    assert_eq!(
        (&*bench.claim.current_class, &bench.claim.modify),
        ("z", &None)
    );
}

#[test]
fn z_107_a_class_that_comes_during_the_attempt_is_not_missed() {
    let bench = &mut wants("a", "z");
    let shown = Claim::new(bench.claim.clone());
    bench.in_flight.begin(&task(), &shown, bench.now).unwrap();
    assert_eq!(
        bench
            .in_flight
            .class_changed(&"z".into(), None, Some(&class("7"))),
        [task()]
    );
    assert!(
        bench
            .in_flight
            .class_changed(&"z".into(), Some(&class("7")), Some(&class("7")))
            .is_empty()
    );
}

#[test]
fn z_108_134_to_149_codes() {
    use Code::{
        Aborted, AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, FailedPrecondition,
        Internal, InvalidArgument, NotFound, OutOfRange, PermissionDenied, ResourceExhausted,
        Unauthenticated, Unavailable, Unimplemented, Unknown,
    };
    const STILL: &str = "is still in progress.";
    const FAILED: &str = "failed. Waiting for retry.";
    let rows = [
        ("z_134", Cancelled, STILL),
        ("z_135", Unknown, FAILED),
        ("z_136", InvalidArgument, FAILED),
        ("z_137", DeadlineExceeded, STILL),
        ("z_138", NotFound, FAILED),
        ("z_139", AlreadyExists, FAILED),
        ("z_140", PermissionDenied, FAILED),
        ("z_141", ResourceExhausted, STILL),
        ("z_142", FailedPrecondition, FAILED),
        ("z_143", Aborted, STILL),
        ("z_144", OutOfRange, FAILED),
        ("z_145", Unimplemented, FAILED),
        ("z_146", Internal, FAILED),
        ("z_147", Unavailable, STILL),
        ("z_148", DataLoss, FAILED),
        ("z_149", Unauthenticated, FAILED),
    ];
    for (row, code, how) in rows {
        let mut bench = wants("a", "b").replies(&[Reply::Error(code, "msg"), Reply::Done(false)]);
        let (lines, next) = bench.run(Kind::Modify);
        let infeasible = code == InvalidArgument;
        let phase = if infeasible {
            ModifyPhase::Infeasible
        } else {
            ModifyPhase::InProgress
        };
        assert_eq!(bench.claim.modify, modify(phase, "b"), "{row}");
        let name = sidecar::rpc_code::name(code);
        let text = |kind: &str| {
            bench
                .claim
                .condition(kind)
                .map(|held| (held.reason.to_string(), held.message.to_string()))
        };
        let expected = (String::new(), format!("Modifying volume to \"b\" {how}"));
        assert_eq!(text(MODIFYING_VOLUME), Some(expected), "{row}");
        assert_eq!(
            text(MODIFY_VOLUME_ERROR),
            Some((name.to_owned(), "msg".to_owned())),
            "{row}"
        );
        let suffix = if how == STILL {
            ". Still modifying to VAC b"
        } else {
            ""
        };
        let event = format!("W VolumeModifyFailed rpc error: code = {name} desc = msg{suffix}");
        assert_eq!(only(&lines, &["W"]), [event], "{row}");
        let wait = Next::After(bench.settings.infeasible_wait);
        assert_eq!(next, if infeasible { wait } else { Next::Backoff }, "{row}");
        // An unknown outcome is settled first (z_114); anything else is dropped for a new request
        // (z_113).
        bench.change(|claim| claim.class = "c".into());
        let asked = if how == STILL { "9" } else { "11" };
        assert_eq!(
            only(&run(&mut bench), &["Mod"]),
            [format!("Mod h1 {{\"iops\": \"{asked}\"}}")],
            "{row}"
        );
    }
}

#[test]
fn z_108_the_patch_of_an_infeasible_class() {
    let mut bench = wants("a", "b").replies(&[Reply::Error(Code::InvalidArgument, "no such iops")]);
    let lines = run(&mut bench);
    assert_eq!(
        lines[3],
        concat!(
            r#"cs {"metadata":{"resourceVersion":"2"},"status":{"$setElementOrder/conditions":[{"type":"ModifyingVolume"},{"type":"ModifyVolumeError"}],"#,
            r#""conditions":[{"message":"Modifying volume to \"b\" failed. Waiting for retry.","type":"ModifyingVolume"},"#,
            r#"{"lastProbeTime":"2026-01-02T03:04:05Z","lastTransitionTime":"2026-01-02T03:04:05Z","message":"no such iops","reason":"InvalidArgument","status":"True","type":"ModifyVolumeError"}],"#,
            r#""modifyVolumeStatus":{"status":"Infeasible"}}}"#
        )
    );
}

#[test]
fn z_109_at_most_one_call_in_the_retry_interval() {
    let no = Reply::Error(Code::InvalidArgument, "no");
    let mut bench = wants("a", "b").replies(&[no, no, no]);
    run(&mut bench);
    for _ in 0..2 {
        bench.wait(299);
        let (lines, next) = bench.run(Kind::Modify);
        assert_eq!(lines, NOTHING);
        assert_eq!(next, Next::After(std::time::Duration::from_secs(1)), "Q14");
        bench.wait(1);
        let lines = run(&mut bench);
        assert_eq!(only(&lines, &["Mod"]).len(), 1);
        assert_eq!(
            only(&lines, &["cs"]).len(),
            2,
            "in progress, then infeasible again"
        );
    }
    // A class that was recreated with other parameters is another one.
    bench.replies.push_back(Reply::Done(false));
    bench.classes.insert("b", class("12"));
    assert_eq!(
        only(&run(&mut bench), &["Mod"]),
        [r#"Mod h1 {"iops": "12"}"#]
    );
}

#[test]
fn z_110_back_to_the_current_class() {
    let no = Reply::Error(Code::InvalidArgument, "no");
    let mut bench = wants("a", "b").replies(&[no, Reply::Done(false)]);
    run(&mut bench);
    bench.change(|claim| claim.class = "a".into());
    let lines = run(&mut bench);
    assert_eq!(
        only(&lines, &["Mod", "pp"]),
        [r#"Mod h1 {"iops": "5"}"#],
        "the volume says so already"
    );
    assert!(bench.claim.modify.is_none() && bench.claim.conditions.is_empty());
}

#[test]
fn z_111_132_a_wish_that_is_taken_back() {
    let no = Reply::Error(Code::InvalidArgument, "no");
    let mut bench = wants("", "b").replies(&[no]);
    run(&mut bench);
    bench.change(|claim| claim.class = "".into());
    bench.restart();
    let lines = run(&mut bench);
    assert_eq!(
        lines,
        [
            concat!(
                r#"cs {"metadata":{"resourceVersion":"4"},"status":{"$setElementOrder/conditions":[{"type":"ModifyVolumeError"}],"#,
                r#""conditions":[{"$patch":"delete","type":"ModifyingVolume"}]}}"#
            ),
            "N VolumeModifyCanceled Cancelled modify.",
        ]
    );
    assert_eq!(bench.claim.modify, modify(ModifyPhase::Infeasible, "b"));
    assert!(bench.claim.has_condition(MODIFY_VOLUME_ERROR));
    assert_eq!(run(&mut bench), NOTHING);
}

#[test]
fn z_112_errors_that_pass() {
    let boom = Reply::Error(Code::Internal, "boom");
    let mut bench = wants("a", "b").replies(&[boom, boom, Reply::Done(false)]);
    for _ in 0..2 {
        let lines = run(&mut bench);
        assert_eq!(only(&lines, &["N"]).len(), 1);
        assert_eq!(bench.claim.modify, modify(ModifyPhase::InProgress, "b"));
        assert_eq!(
            &*bench.claim.condition(MODIFY_VOLUME_ERROR).unwrap().message,
            "boom"
        );
    }
    run(&mut bench);
    assert!(bench.claim.conditions.is_empty());
    assert_eq!(&*bench.claim.current_class, "b");
}

#[test]
fn z_114_a_target_in_doubt_is_finished_first() {
    let busy = Reply::Error(Code::ResourceExhausted, "busy");
    let mut bench = wants("a", "b").replies(&[busy, busy, Reply::Done(false), Reply::Done(false)]);
    run(&mut bench);
    bench.change(|claim| claim.class = "c".into());
    let lines = run(&mut bench);
    assert_eq!(
        only(&lines, &["N", "Mod", "W"]),
        [
            r#"Mod h1 {"iops": "9"}"#,
            "W VolumeModifyFailed rpc error: code = ResourceExhausted desc = busy. Still modifying to VAC b"
        ]
    );
    let (lines, next) = bench.run_all(Kind::Modify);
    assert_eq!(
        only(&lines, &["Mod", "N"]),
        [
            r#"Mod h1 {"iops": "9"}"#,
            "N VolumeModifySuccessful external resizer modified volume c1 with vac b successfully",
            "N VolumeModify external resizer is modifying volume c1 with vac c",
            r#"Mod h1 {"iops": "11"}"#,
            "N VolumeModifySuccessful external resizer modified volume c1 with vac c successfully",
        ]
    );
    assert_eq!((&*bench.claim.current_class, next), ("c", Next::Forget));
}

#[test]
fn z_115_116_what_a_new_process_finds() {
    for (row, wanted, calls) in [("z_115", "c", 2), ("z_116", "", 1)] {
        let mut bench = wants("a", wanted).replies(&[Reply::Done(false), Reply::Done(false)]);
        bench.claim.modify = modify(ModifyPhase::InProgress, "b");
        let (lines, _) = bench.run_all(Kind::Modify);
        assert_eq!(
            only(&lines, &["N", "Mod"])[..2],
            [
                r#"Mod h1 {"iops": "9"}"#,
                "N VolumeModifySuccessful external resizer modified volume c1 with vac b successfully",
            ],
            "{row}"
        );
        assert_eq!(only(&lines, &["Mod"]).len(), calls, "{row}");
        let current = if wanted.is_empty() { "b" } else { wanted };
        assert_eq!(&*bench.claim.current_class, current, "{row}");
    }
}

#[test]
fn a_class_that_went_while_it_was_applied() {
    let mut bench = wants("a", "b");
    bench.claim.modify = modify(ModifyPhase::InProgress, "z");
    let (lines, next) = bench.run(Kind::Modify);
    assert_eq!(lines[1], r#"W VolumeModifyFailed VAC "z" does not exist."#);
    assert!(
        lines[2].starts_with("failed get VAC with vac name z in VACInformer cache failed"),
        "{}",
        lines[2]
    );
    assert_eq!(next, Next::Backoff);
    assert_eq!(
        bench
            .in_flight
            .class_changed(&"z".into(), None, Some(&class("7"))),
        [task()]
    );
}

#[test]
fn z_117_a_class_of_another_driver_is_refused() {
    let mut bench = wants("a", "b");
    bench.classes.get_mut("b").unwrap().driver = "other".into();
    let (lines, next) = bench.run(Kind::Modify);
    assert_eq!(only(&lines, &["Mod"]), NOTHING, "Q15");
    assert!(
        lines[1].starts_with(r#"W VolumeModifyFailed VAC "b" is for the driver "other""#),
        "{}",
        lines[1]
    );
    assert_eq!(
        (next, &bench.claim.modify),
        (Next::Forget, &modify(ModifyPhase::Infeasible, "b")),
        "as after a refusal by the driver, which Kubernetes' storage suite waits for"
    );
    bench.change(|claim| claim.class = "c".into());
    bench.replies.push_back(Reply::Done(false));
    run(&mut bench);
    assert_eq!(&*bench.claim.current_class, "c");
}

#[test]
fn z_11_118_121_claims_that_are_not_modified() {
    type Change = fn(&mut Bench);
    let rows: [(&str, Change); 8] = [
        ("z_118", |bench| {
            kind(bench.volume.as_mut().unwrap()).source = csi("other")
        }),
        ("z_118 in-tree", |bench| {
            kind(bench.volume.as_mut().unwrap()).source = in_tree("test.csi.driver", Ok(()))
        }),
        ("z_121", |bench| bench.driver.abilities.modify = false),
        ("z_11", |bench| {
            bench.settings.gates.attributes_class = false
        }),
        ("pending", |bench| bench.claim.phase = ClaimPhase::Other),
        ("the same", |bench| bench.claim.class = "a".into()),
        ("none asked", |bench| bench.claim.class = "".into()),
        ("another claim's", |bench| {
            bench.volume.as_mut().unwrap().claim.as_mut().unwrap().uid = crate::model::Uid::new("x")
        }),
    ];
    for (row, change) in rows {
        let mut bench = wants("a", "b");
        change(&mut bench);
        assert_eq!(bench.run(Kind::Modify), (Vec::new(), Next::Forget), "{row}");
    }
}

#[test]
fn z_119_the_volume_cannot_be_written() {
    let mut bench = wants("a", "b").replies(&[Reply::Done(false), Reply::Done(false)]);
    bench.troubles.insert(1, Trouble::Refused("boom"));
    let (lines, next) = bench.run(Kind::Modify);
    assert_eq!(
        only(&lines, &["W"]),
        ["W VolumeModifyFailed setting the volume attributes class of PV \"pv1\" failed: boom"],
        "Q13"
    );
    assert_eq!((&*bench.claim.current_class, next), ("a", Next::Backoff));
    let lines = run(&mut bench);
    assert_eq!(&*bench.claim.current_class, "b");
    assert_eq!(only(&lines, &["N VolumeModify "]), NOTHING, "fr_16");
}

#[test]
fn fr_18_nothing_is_in_doubt_before_the_driver_is_asked() {
    for wanted in ["b", "c"] {
        let mut bench = wants("a", "b").replies(&[Reply::Done(false)]);
        bench.troubles.insert(0, Trouble::Lost);
        run(&mut bench);
        bench.change(|claim| claim.class = wanted.into());
        let lines = run(&mut bench);
        let iops = if wanted == "b" { 9 } else { 11 };
        assert_eq!(
            only(&lines, &["N", "Mod"])[..2],
            [
                format!("N VolumeModify external resizer is modifying volume c1 with vac {wanted}"),
                format!("Mod h1 {{\"iops\": \"{iops}\"}}"),
            ]
        );
        assert_eq!(&*bench.claim.current_class, wanted);
    }
}

#[test]
fn conflicts_are_nobodys_business() {
    let mut bench = wants("a", "b").replies(&[Reply::Done(false)]);
    bench.troubles = [(0, Trouble::Conflict), (3, Trouble::Conflict)].into();
    let lines = run(&mut bench);
    assert_eq!(
        only(&lines, &["get", "Mod", "W"]),
        ["get claim", r#"Mod h1 {"iops": "9"}"#, "get claim"]
    );
    assert_eq!(&*bench.claim.current_class, "b");
}

#[test]
fn the_time_of_a_condition_is_that_of_its_last_change() {
    let mut bench = wants("a", "b").replies(&[Reply::Error(Code::Internal, "boom")]);
    bench.claim.conditions = [
        Condition {
            reason: "Aborted".into(),
            ..condition(MODIFY_VOLUME_ERROR, "boom")
        },
        condition(MODIFYING_VOLUME, "earlier"),
    ]
    .into();
    run(&mut bench);
    let changed = |kind: &str| bench.claim.condition(kind).unwrap().changed.as_deref();
    assert_eq!(changed(MODIFYING_VOLUME), Some("2026-01-01T00:00:00Z"));
    assert_eq!(changed(MODIFY_VOLUME_ERROR), Some(crate::testing::NOW));
}

#[test]
fn z_120_both_wishes_in_one_update() {
    let mut bench = wants("a", "b").replies(&[Reply::Done(false), Reply::Done(false)]);
    bench.claim.request = Some(crate::testing::size("2Gi"));
    let expand = Task::new(Kind::Expand, &"ns/c1".into());
    let shown = Claim::new(bench.claim.clone());
    let start = bench.in_flight.begin(&expand, &shown, bench.now).unwrap();
    assert!(
        bench.in_flight.begin(&task(), &shown, bench.now).is_none(),
        "one at a time"
    );
    let attempt = crate::plan::attempt::Attempt::new(&expand, &shown, start);
    let ended = bench
        .in_flight
        .end(&expand, &attempt, &End::Done, bench.now);
    assert_eq!(ended.woken, [task()], "then the other");
    let mut lines = bench.run(Kind::Expand).0;
    lines.extend(run(&mut bench));
    assert_eq!(only(&lines, &["W", "get"]), NOTHING);
    assert_eq!(only(&lines, &["cs"]).len(), 4);
    let claim = &bench.claim;
    assert_eq!(
        (claim.capacity, &*claim.current_class),
        (Some(crate::testing::size("2Gi")), "b")
    );
    assert!(claim.conditions.is_empty() && claim.resize.is_none() && claim.modify.is_none());
}

#[test]
fn a_volume_that_outlives_its_claim_says_which_class_it_has() {
    let mut bench = wants("a", "b").replies(&[Reply::Done(false)]);
    bench.meanwhile = Some(|claim| claim.uid = crate::model::Uid::new("another"));
    let (lines, next) = bench.run(Kind::Modify);
    let last = lines.last().unwrap();
    assert_eq!(last, r#"pp {"spec":{"volumeAttributesClassName":"b"}}"#);
    assert_eq!(next, Next::Again);
}

#[test]
fn fs_9_what_a_predecessor_sent_fits_no_more_when_its_call_is_repeated() {
    let unknown = Reply::Error(Code::DeadlineExceeded, "late");
    let mut bench = wants("a", "b").replies(&[unknown, Reply::Done(false)]);
    bench.claim.modify = modify(ModifyPhase::InProgress, "b");
    bench.claim.conditions = [condition(MODIFYING_VOLUME, "message")].into();
    let (lines, _) = bench.run(Kind::Modify);
    let taken_over = concat!(
        r#"cs {"metadata":{"resourceVersion":"1"},"status":{"$setElementOrder/conditions":[{"type":"ModifyingVolume"}],"#,
        r#""conditions":[{"lastProbeTime":"2026-01-02T03:04:05Z","type":"ModifyingVolume"}]}}"#
    );
    let call = r#"Mod h1 {"iops": "9"}"#;
    assert_eq!(only(&lines, &["cs", "Mod"])[..2], [taken_over, call]);
    let (lines, _) = bench.run(Kind::Modify);
    assert_eq!(only(&lines, &["cs", "Mod"])[0], call, "once");
    assert_eq!(&*bench.claim.current_class, "b");
}
