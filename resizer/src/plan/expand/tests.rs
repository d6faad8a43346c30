//! The specification's rows on expansion, in its order.

use csi_proto::csi::ControllerExpandVolumeRequest;
use tonic::Code;

use super::*;
use crate::keys::RESIZING;
use crate::model::{ClaimPhase, CsiSource, Quantity, ResizeStatus, Source};
use crate::plan::in_flight::Next;
use crate::plan::outcome::RpcError;
use crate::testing::bench::{Bench, Reply, Trouble, only};
use crate::testing::{NOW, claim, condition, csi, in_tree, kind, list, pre_resize, pv, size};

mod call;
mod late;
mod recover;

const GI: i64 = 1 << 30;

/// The fixture with S = `request`.
fn grown(request: &str) -> Bench {
    Bench::new(ClaimDetail {
        request: Some(size(request)),
        ..claim()
    })
}

fn run(bench: &mut Bench) -> Vec<String> {
    bench.run(Kind::Expand).0
}

const NOTHING: [&str; 0] = [];

#[test]
fn z_34_35_129_the_whole_of_an_expansion_without_the_node() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(false)]);
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!(
        lines,
        [
            concat!(
                r#"cs {"metadata":{"resourceVersion":"1"},"status":{"allocatedResourceStatuses":{"storage":"ControllerResizeInProgress"},"#,
                r#""allocatedResources":{"storage":"2Gi"},"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z","#,
                r#""status":"True","type":"Resizing"}]}}"#
            ),
            "N Resizing External resizer is resizing volume pv1",
            "Exp h1 2147483648",
            r#"pp {"spec":{"capacity":{"storage":"2Gi"}}}"#,
            concat!(
                r#"cs {"metadata":{"annotations":{"volume.kubernetes.io/node-expansion-not-required":"true"},"resourceVersion":"2"},"#,
                r#""status":{"allocatedResourceStatuses":null,"capacity":{"storage":"2Gi"},"conditions":null}}"#
            ),
            "N VolumeResizeSuccessful Resize volume succeeded",
        ]
    );
    assert_eq!(next, Next::Forget);
    let (claim, volume) = (&bench.claim, bench.volume.as_ref().unwrap());
    assert_eq!(
        (claim.capacity, claim.allocated, claim.resize),
        (Some(size("2Gi")), Some(size("2Gi")), None)
    );
    assert!(claim.conditions.is_empty());
    assert_eq!(claim.node_expansion_not_required.as_deref(), Some("true"));
    assert_eq!(
        (volume.capacity, &volume.pre_resize),
        (Some(size("2Gi")), &None)
    );
    assert_eq!(run(&mut bench), NOTHING);
}

#[test]
fn z_36_the_node_has_its_part() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(true)]);
    let lines = run(&mut bench);
    assert_eq!(
        lines[3..],
        [
            r#"pp {"metadata":{"annotations":{"volume.alpha.kubernetes.io/pre-resize-capacity":"1Gi"}},"spec":{"capacity":{"storage":"2Gi"}}}"#,
            concat!(
                r#"cs {"metadata":{"resourceVersion":"2"},"status":{"$setElementOrder/conditions":[{"type":"Resizing"},{"type":"FileSystemResizePending"}],"#,
                r#""allocatedResourceStatuses":{"storage":"NodeResizePending"},"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z","#,
                r#""message":"Waiting for user to (re-)start a pod to finish file system resize of volume on node.","status":"True","type":"FileSystemResizePending"}]}}"#
            ),
            "N FileSystemResizeRequired Require file system resize of volume on node",
        ]
    );
    assert_eq!(bench.claim.capacity, Some(size("1Gi")));
    assert!(bench.claim.has_condition(RESIZING), "Q10: kept");
    assert!(bench.claim.is_file_system_pending());
    assert_eq!(run(&mut bench), NOTHING);
}

/// kubelet has expanded the file system.
fn by_kubelet(claim: &mut ClaimDetail, capacity: &str) {
    claim.capacity = Some(size(capacity));
    claim.resize = None;
    claim.conditions = [].into();
}

#[test]
fn z_37_the_annotation_goes_when_the_node_is_done() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(true)]);
    run(&mut bench);
    bench.change(|claim| by_kubelet(claim, "2Gi"));
    let volume = bench.volume.clone();
    let woken = bench
        .in_flight
        .volume_changed(&"pv1".into(), None, volume.as_ref(), &bench.driver);
    assert_eq!(
        woken,
        [crate::plan::Task::new(Kind::Expand, &"ns/c1".into())]
    );
    let gone = r#"pp {"metadata":{"annotations":{"volume.alpha.kubernetes.io/pre-resize-capacity":null}}}"#;
    assert_eq!(run(&mut bench), [gone]);
    assert_eq!(bench.volume.as_ref().unwrap().pre_resize, None);
    assert_eq!(run(&mut bench), NOTHING);
}

#[test]
fn z_38_no_annotation_without_the_gate() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(true)]);
    bench.settings.gates.annotate = false;
    let lines = run(&mut bench);
    assert_eq!(
        only(&lines, &["pp"]),
        [r#"pp {"spec":{"capacity":{"storage":"2Gi"}}}"#]
    );
}

#[test]
fn z_39_an_annotation_of_an_unfinished_expansion_is_kept() {
    let mut bench = grown("3Gi").replies(&[Reply::Done(true)]);
    bench.claim.resize = Some(ResizeStatus::NodeInfeasible);
    bench.claim.allocated = Some(size("2Gi"));
    let volume = bench.volume.as_mut().unwrap();
    volume.capacity = Some(size("2Gi"));
    volume.pre_resize = pre_resize("512Mi");
    let lines = run(&mut bench);
    assert_eq!(
        only(&lines, &["Exp", "pp"]),
        ["Exp h1 2147483648"],
        "nothing to change"
    );
    assert_eq!(bench.volume.unwrap().pre_resize, pre_resize("512Mi"));
}

#[test]
fn z_40_41_a_larger_wish_waits_for_the_node_and_is_annotated_anew() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(true), Reply::Done(true)]);
    run(&mut bench);
    bench.change(|claim| claim.request = Some(size("3Gi")));
    assert_eq!(run(&mut bench), NOTHING, "z_40");
    bench.change(|claim| by_kubelet(claim, "2Gi"));
    let lines = run(&mut bench);
    assert_eq!(
        only(&lines, &["pp", "Exp"]),
        [
            r#"pp {"metadata":{"annotations":{"volume.alpha.kubernetes.io/pre-resize-capacity":null}}}"#,
            "Exp h1 3221225472",
            r#"pp {"metadata":{"annotations":{"volume.alpha.kubernetes.io/pre-resize-capacity":"2Gi"}},"spec":{"capacity":{"storage":"3Gi"}}}"#,
        ],
        "Q18"
    );
}

#[test]
fn z_42_the_claims_annotation_is_taken_back() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(false), Reply::Done(true)]);
    run(&mut bench);
    bench.change(|claim| claim.request = Some(size("3Gi")));
    let lines = run(&mut bench);
    assert!(
        lines[0]
            .contains(r#""annotations":{"volume.kubernetes.io/node-expansion-not-required":null}"#),
        "{}",
        lines[0]
    );
    assert!(
        lines[3].contains(r#""volume.alpha.kubernetes.io/pre-resize-capacity":"2Gi""#),
        "{}",
        lines[3]
    );
    assert_eq!(bench.claim.node_expansion_not_required, None);
}

#[test]
fn z_43_44_sizes_as_written_and_as_answered() {
    // Requested bytes, returned bytes, request, allocated, capacity.
    let rows = [
        (
            "z_43",
            "2500M",
            2_500_000_000,
            2_500_000_000,
            "2500M",
            "2500000000",
        ),
        ("z_44", "2Gi", 3 * GI + 1, 2 * GI, "2Gi", "3221225473"),
        (
            "rounded up",
            "1610612736500m",
            1_610_612_737,
            1_610_612_737,
            "1610612736500m",
            "1610612737",
        ),
    ];
    for (row, asked, answered, request, allocated, capacity) in rows {
        let mut bench = grown(asked).replies(&[Reply::Bytes(answered, false)]);
        let lines = run(&mut bench);
        assert_eq!(
            only(&lines, &["Exp"]),
            [format!("Exp h1 {request}")],
            "{row}"
        );
        let expected = format!(r#"pp {{"spec":{{"capacity":{{"storage":"{capacity}"}}}}}}"#);
        assert_eq!(only(&lines, &["pp"]), [expected], "{row}");
        assert_eq!(
            bench.claim.allocated.unwrap().to_string(),
            allocated,
            "{row}"
        );
        assert_eq!(bench.claim.capacity, Some(size(capacity)), "{row}");
    }
}

#[test]
fn z_45_a_driver_that_names_no_size_has_done_what_it_was_asked() {
    for answer in [0, -1] {
        let mut bench = grown("2Gi").replies(&[Reply::Bytes(answer, false)]);
        let lines = run(&mut bench);
        assert_eq!(bench.claim.capacity, Some(size("2Gi")), "Q6");
        assert_eq!(
            only(&lines, &["W", "N VolumeResize"]),
            [
                "N VolumeResizeSuccessful Resize volume succeeded",
                "W VolumeResizeCapacityUnknown the driver did not report the volume's new size; assuming 2Gi"
            ]
        );
    }
}

#[test]
fn z_46_a_driver_that_gives_less_is_asked_again_after_a_while() {
    let less = GI + GI / 2;
    let mut bench = grown("2Gi").replies(&[Reply::Bytes(less, false), Reply::Bytes(less, false)]);
    for _ in 0..2 {
        let (lines, next) = bench.run(Kind::Expand);
        assert_eq!(next, Next::Backoff);
        assert_eq!(
            only(&lines, &["W", "Exp", "N VolumeResize"]),
            [
                "Exp h1 2147483648",
                "W VolumeResizeFailed resize volume \"pv1\" by resizer \"test.csi.driver\" failed: the driver made the volume 1610612736 bytes large, 2147483648 were asked for"
            ]
        );
        assert_eq!(bench.claim.capacity, Some(size("1536Mi")), "what there is");
        assert_eq!(
            bench.volume.as_ref().unwrap().capacity,
            Some(size("1536Mi"))
        );
    }
    // The node expands to the volume's size; then the driver is called again.
    let mut bench = grown("2Gi").replies(&[Reply::Bytes(less, true)]);
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!(next, Next::Forget);
    assert_eq!(bench.claim.resize, Some(ResizeStatus::NodePending));
    assert_eq!(only(&lines, &["W"]).len(), 1);
}

#[test]
fn an_answer_below_what_there_was_lowers_nothing() {
    let mut bench = grown("2Gi").replies(&[Reply::Bytes(GI / 2, false)]);
    run(&mut bench);
    assert_eq!(bench.claim.capacity, Some(size("1Gi")));
    assert_eq!(bench.volume.unwrap().capacity, Some(size("1Gi")));
}

#[test]
fn z_47_to_53_and_58_claims_that_are_not_expanded() {
    let foreign = |volume: &mut Volume| {
        kind(volume).source = csi("other");
    };
    type Change = fn(&mut Bench);
    let rows: [(&str, Change); 9] = [
        ("z_48", |bench| {
            bench.volume.as_mut().unwrap().claim.as_mut().unwrap().uid = crate::model::Uid::new("x")
        }),
        ("z_48 namespace", |bench| {
            bench
                .volume
                .as_mut()
                .unwrap()
                .claim
                .as_mut()
                .unwrap()
                .namespace = "other".into()
        }),
        ("no claimRef", |bench| {
            bench.volume.as_mut().unwrap().claim = None
        }),
        ("z_50 pending", |bench| {
            bench.claim.phase = ClaimPhase::Other
        }),
        ("z_50 no volume", |bench| bench.claim.volume = "".into()),
        ("z_53", |bench| bench.claim.request = Some(size("1Gi"))),
        ("smaller", |bench| bench.claim.request = Some(size("512Mi"))),
        ("other source", |bench| {
            kind(bench.volume.as_mut().unwrap()).source = Source::Other
        }),
        ("in-tree, not asked for", |bench| {
            kind(bench.volume.as_mut().unwrap()).source = in_tree(GCE, Ok(()))
        }),
    ];
    for (row, change) in rows {
        let mut bench = grown("2Gi");
        change(&mut bench);
        let (lines, next) = bench.run(Kind::Expand);
        assert_eq!((lines, next), (Vec::new(), Next::Forget), "{row}");
    }
    let mut bench = grown("2Gi");
    foreign(bench.volume.as_mut().unwrap());
    assert_eq!(run(&mut bench), NOTHING, "z_47");
    let mut bench = Bench::new(claim());
    let volume = bench.volume.as_mut().unwrap();
    volume.pre_resize = pre_resize("512Mi");
    let mut ours = Some(volume.clone());
    foreign(volume);
    let other = bench.volume.clone();
    assert!(
        bench
            .in_flight
            .volume_changed(&"pv1".into(), None, other.as_ref(), &bench.driver)
            .is_empty(),
        "z_58"
    );
    assert_eq!(run(&mut bench), NOTHING, "z_58, Q3");
    std::mem::swap(&mut bench.volume, &mut ours);
    let woken =
        bench
            .in_flight
            .volume_changed(&"pv1".into(), None, bench.volume.as_ref(), &bench.driver);
    assert_eq!(woken.len(), 1, "z_57");
    assert_eq!(only(&run(&mut bench), &["pp"]).len(), 1, "z_57");
}

#[test]
fn the_annotation_of_another_claims_volume_stays() {
    let mut bench = Bench::new(claim());
    let volume = bench.volume.as_mut().unwrap();
    volume.pre_resize = pre_resize("512Mi");
    volume.claim.as_mut().unwrap().uid = crate::model::Uid::new("earlier");
    let volume = bench.volume.clone();
    assert_eq!(
        bench
            .in_flight
            .volume_changed(&"pv1".into(), None, volume.as_ref(), &bench.driver)
            .len(),
        1
    );
    assert_eq!(run(&mut bench), NOTHING);
}

#[test]
fn z_49_a_missing_volume_is_waited_for() {
    let mut bench = grown("2Gi");
    bench.volume = None;
    let (lines, next) = bench.run(Kind::Expand);
    let missing = r#"failed PV "pv1" bound to pvc "ns/c1" not found"#;
    assert_eq!(lines, [missing]);
    assert_eq!(next, Next::Backoff);
    let task = crate::plan::Task::new(Kind::Expand, &"ns/c1".into());
    let woken = bench
        .in_flight
        .volume_changed(&"pv1".into(), None, Some(&pv()), &bench.driver);
    assert_eq!(woken, std::slice::from_ref(&task));
    // Q16: other drivers report their own claims.
    for foreign in [true, false] {
        let mut bench = grown("2Gi");
        bench.volume = None;
        if foreign {
            bench.claim.provisioner = Some("other".into())
        } else {
            bench.claim.resizer = Some("other".into())
        }
        assert_eq!(bench.run(Kind::Expand), (Vec::new(), Next::Forget));
        let woken = bench
            .in_flight
            .volume_changed(&"pv1".into(), None, Some(&pv()), &bench.driver);
        assert_eq!(woken, std::slice::from_ref(&task), "all the same");
    }
}

#[test]
fn z_54_a_claim_without_capacity_grows() {
    let mut bench = Bench::new(ClaimDetail {
        capacity: None,
        ..claim()
    })
    .replies(&[Reply::Done(false)]);
    let lines = run(&mut bench);
    assert_eq!(only(&lines, &["Exp", "pp"]), ["Exp h1 1073741824"], "Q4");
    assert_eq!(bench.claim.capacity, Some(size("1Gi")));
    let mut bench = Bench::new(ClaimDetail {
        capacity: None,
        request: Some(size("2Gi")),
        ..claim()
    })
    .replies(&[Reply::Done(true)]);
    run(&mut bench);
    assert_eq!(
        bench.volume.unwrap().pre_resize,
        None,
        "there is no size to go back to"
    );
}

#[test]
fn z_55_without_the_driver_the_node_does_it_all() {
    for (asked, capacity) in [("2Gi", "2Gi"), ("2500M", "2500M")] {
        let mut bench = grown(asked);
        bench.driver.abilities.expansion = Who::NodeOnly;
        let (lines, next) = bench.run(Kind::Expand);
        let expected = format!(
            r#"pp {{"metadata":{{"annotations":{{"volume.alpha.kubernetes.io/pre-resize-capacity":"1Gi"}}}},"spec":{{"capacity":{{"storage":"{capacity}"}}}}}}"#
        );
        assert_eq!(lines[2], expected);
        assert_eq!(lines.len(), 5);
        assert_eq!(
            lines[4],
            "N FileSystemResizeRequired Require file system resize of volume on node"
        );
        assert_eq!(bench.claim.resize, Some(ResizeStatus::NodePending));
        assert_eq!(next, Next::Forget);
        assert_eq!(run(&mut bench), NOTHING);
    }
}

#[test]
fn z_56_conditions_of_others_survive() {
    let mut bench = grown("2Gi").replies(&[Reply::Error(Code::Internal, "x"), Reply::Done(false)]);
    bench.claim.conditions = [condition("Other", "kept")].into();
    run(&mut bench);
    assert!(bench.claim.has_condition("Other") && bench.claim.conditions.len() == 3);
    let lines = run(&mut bench);
    assert_eq!(*bench.claim.conditions, [condition("Other", "kept")]);
    let last = only(&lines, &["cs"]).pop().unwrap().to_owned();
    assert!(
        last.contains(r#""$setElementOrder/conditions":[{"type":"Other"}],"#)
            && last.contains(r#""conditions":[{"$patch":"delete","type":"Resizing"},{"$patch":"delete","type":"ControllerResizeError"}]"#),
        "{last}"
    );
}

#[test]
fn a_driver_that_only_modifies_expands_nothing() {
    let mut bench = grown("2Gi");
    bench.driver.abilities.expansion = Who::None;
    assert_eq!(run(&mut bench), NOTHING, "z_24");
}

const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";

/// An in-tree volume that `driver` has taken over, with a claim that names `resizer`.
fn migrated(driver: &'static str, resizer: Option<&str>) -> Bench {
    let mut bench = grown("2Gi");
    bench.driver.name = EBS.into();
    bench.driver.migrated = true;
    bench.claim.resizer = resizer.map(Into::into);
    kind(bench.volume.as_mut().unwrap()).source = in_tree(driver, Ok(()));
    bench
}

#[test]
fn m_133_and_134_and_143_to_145_whose_volumes_are_expanded() {
    let mut bench = migrated(EBS, Some(EBS)).replies(&[Reply::Done(false)]);
    let lines = run(&mut bench);
    assert_eq!(only(&lines, &["Exp"]), ["Exp h1 2147483648"], "M-133");
    assert_eq!(only(&lines, &["cs", "pp"]).len(), 3, "M-133: {lines:#?}");
    for named in [None, Some("kubernetes.io/aws-ebs"), Some("other")] {
        let mut bench = migrated(EBS, named);
        let (lines, next) = bench.run(Kind::Expand);
        assert_eq!(
            (lines, next),
            (Vec::new(), Next::Forget),
            "M-134: {named:?}"
        );
    }
    let mut bench = migrated(EBS, Some("T"));
    bench.driver.name = "T".into();
    bench.driver.migrated = false;
    assert_eq!(run(&mut bench), NOTHING, "M-143");
    let mut bench = migrated(EBS, Some(EBS));
    kind(bench.volume.as_mut().unwrap()).source = csi("other");
    assert_eq!(run(&mut bench), NOTHING, "M-144");
    let mut bench = migrated(GCE, Some(EBS));
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!(next, Next::After(bench.settings.infeasible_wait), "M-145");
    assert_eq!(only(&lines, &["cs", "pp", "Exp"]), NOTHING, "M-145");
    assert!(
        lines[0].starts_with("W VolumeResizeFailed resize volume \"pv1\"")
            && lines[0].contains(GCE),
        "M-145: {lines:?}"
    );
}

#[test]
fn m_138_and_142_what_cannot_be_translated_is_no_matter_to_the_node() {
    let untranslatable = || {
        let mut bench = migrated(EBS, Some(EBS));
        kind(bench.volume.as_mut().unwrap()).source = in_tree(EBS, Err("no"));
        bench
    };
    let mut bench = untranslatable();
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!(next, Next::Backoff, "M-138");
    assert_eq!(
        only(&lines, &["cs", "pp", "Exp"]).len(),
        1,
        "M-138: {lines:#?}"
    );
    let expected = "W VolumeResizeFailed resize volume \"pv1\" by resizer \"ebs.csi.aws.com\" failed: \
                    failed to translate persistent volume: no";
    assert!(
        lines.iter().any(|line| line == expected),
        "M-138: {lines:#?}"
    );
    let mut bench = untranslatable();
    bench.driver.abilities.expansion = Who::NodeOnly;
    let lines = run(&mut bench);
    assert_eq!(only(&lines, &["Exp"]), NOTHING, "M-142");
    assert!(
        lines.iter().all(|line| !line.starts_with("W ")),
        "M-142: {lines:#?}"
    );
}

#[test]
fn m_141_the_annotation_of_an_in_tree_volume_goes_when_its_node_is_done() {
    let mut bench = migrated(EBS, Some(EBS));
    bench.claim = claim();
    bench.volume.as_mut().unwrap().pre_resize = pre_resize("512Mi");
    let after = bench.volume.clone();
    let woken = bench
        .in_flight
        .volume_changed(&"pv1".into(), None, after.as_ref(), &bench.driver);
    assert_eq!(woken.len(), 1);
    assert_eq!(only(&run(&mut bench), &["pp"]).len(), 1);
}

/// B-1: sizes of 0.1Gi to 3Gi are not whole numbers of bytes, but requests and responses of drivers are.
#[test]
fn b_1_sizes_with_a_fraction_are_reached() {
    for tenths in 1..=30_i64 {
        let text = format!("{}.{}Gi", tenths / 10, tenths % 10);
        let bytes = ((tenths << 30) + 9) / 10;
        // The starting size is what the driver reached for a tenth less.
        let had = Some(Quantity::from_bytes((((tenths - 1) << 30) + 9) / 10));
        let begun = |text: &str, reply| {
            let mut bench = grown(text).replies(&[reply]);
            bench.claim.capacity = had;
            bench.volume.as_mut().unwrap().capacity = had;
            let lines = run(&mut bench);
            (bench, lines)
        };
        for by_node in [false, true] {
            let (mut bench, lines) = begun(&text, Reply::Done(by_node));
            let row = format!("{text} from {had:?}: {lines:#?}");
            assert_eq!(only(&lines, &["Exp"]), [format!("Exp h1 {bytes}")], "{row}");
            let volume = bench.volume.as_ref().unwrap().capacity;
            assert_eq!(volume, Some(Quantity::from_bytes(bytes)), "{row}");
            if by_node {
                reached(&mut bench);
            }
            // Nor is more due for a user who requests it in bytes.
            for again in [text.clone(), bytes.to_string()] {
                bench.change(|claim| claim.request = Some(size(&again)));
                assert_eq!(run(&mut bench), NOTHING, "{row}");
            }
        }
        // One byte less does not satisfy the request.
        let (_, lines) = begun(&text, Reply::Bytes(bytes - 1, false));
        assert_eq!(only(&lines, &["failed"]).len(), 1, "{lines:#?}");
    }
}

/// kubelet does its part.
fn reached(bench: &mut Bench) {
    let capacity = bench.volume.as_ref().unwrap().capacity;
    bench.change(|claim| {
        claim.capacity = capacity;
        claim.resize = None;
        claim.conditions = Default::default();
    });
}

/// B-1: the same if the node does everything, and the claim records the fraction on the way.
#[test]
fn b_1_sizes_with_a_fraction_are_left_to_the_node() {
    for tenths in 1..=30_i64 {
        let text = format!("{}.{}Gi", tenths / 10, tenths % 10);
        let bytes = ((tenths << 30) + 9) / 10;
        let mut bench = grown(&text);
        bench.driver.abilities.expansion = Who::NodeOnly;
        let had = Some(size("1Mi"));
        bench.claim.capacity = had;
        bench.volume.as_mut().unwrap().capacity = had;
        for wanted in [text, bytes.to_string()] {
            bench.change(|claim| claim.request = Some(size(&wanted)));
            run(&mut bench);
            let volume = bench.volume.as_ref().unwrap().capacity;
            assert_eq!(volume, Some(size(&wanted)), "{wanted}");
            reached(&mut bench);
            assert_eq!(run(&mut bench), NOTHING, "{wanted}");
        }
    }
}
