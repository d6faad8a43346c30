//! Z-34 to Z-58: ordinary expansion.

use csi_proto::csi::ControllerExpandVolumeResponse;
use serde_json::json;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::{CallFault, Fault};

use super::stage::{
    CLAIM, EXPAND, GI, NOT_REQUIRED, PRE_RESIZE, QUICK, Stage, claim, condition, settle, volume,
};

const BEGIN: &str = r#"cs(rv) {"status":{"allocatedResourceStatuses":{"storage":"ControllerResizeInProgress"},"allocatedResources":{"storage":"2Gi"},"conditions":[{"status":"True","type":"Resizing"}]}}"#;
const GROW: &str = r#"pp {"spec":{"capacity":{"storage":"2Gi"}}}"#;
const READ_CLAIM: &str = "/api/v1/namespaces/ns/persistentvolumeclaims/c1";
const FINISH: &str = r#"cs(rv) {"metadata":{"annotations":{"volume.kubernetes.io/node-expansion-not-required":"true"}},"status":{"allocatedResourceStatuses":null,"capacity":{"storage":"2Gi"},"conditions":null}}"#;
const GROW_ON_NODE: &str = r#"pp {"metadata":{"annotations":{"volume.alpha.kubernetes.io/pre-resize-capacity":"1Gi"}},"spec":{"capacity":{"storage":"2Gi"}}}"#;
const PENDING: &str = r#"cs(rv) {"status":{"allocatedResourceStatuses":{"storage":"NodeResizePending"},"conditions":[{"message":"Waiting for user to (re-)start a pod to finish file system resize of volume on node.","status":"True","type":"FileSystemResizePending"}]}}"#;

#[tokio::test]
async fn z_34_and_35_without_node_expansion() {
    let stage = Stage::new().await;
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_events("VolumeResizeSuccessful", 1).await;
    settle().await;
    let asked = format!("Exp h1 {}", 2 * GI);
    stage.traced("Z-34, Z-129", &[BEGIN, &asked, GROW, FINISH]);
    let told = [
        "N Resizing External resizer is resizing volume pv1",
        "N VolumeResizeSuccessful Resize volume succeeded",
    ];
    assert_eq!(stage.posted(), told, "Z-34");
    let event = &stage.api.objects("events")[0];
    assert_eq!(
        event["source"]["component"],
        "external-resizer test.csi.driver"
    );
    assert_eq!(event["involvedObject"]["uid"], "uid-ns-c1");
    assert_eq!(
        (stage.capacity(), stage.allocated(), stage.state()),
        (json!("2Gi"), json!("2Gi"), ""),
        "Z-35"
    );
    assert_eq!(stage.conditions(), [""; 0], "Z-35");
    assert_eq!(
        stage.claim()["metadata"]["annotations"][NOT_REQUIRED],
        "true",
        "Z-35"
    );
    assert_eq!(
        (stage.size(), stage.pre_resize()),
        (json!("2Gi"), json!(null)),
        "Z-35"
    );
    let writes = stage.api.requests();
    let patches = writes.iter().filter(|request| request.method == "PATCH");
    for patch in patches {
        assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    }
}

#[tokio::test]
async fn z_36_and_37_with_node_expansion() {
    let stage = Stage::new().await;
    stage.node();
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_events("FileSystemResizeRequired", 1).await;
    settle().await;
    let asked = format!("Exp h1 {}", 2 * GI);
    stage.traced("Z-36", &[BEGIN, &asked, GROW_ON_NODE, PENDING]);
    let told = [
        "N Resizing External resizer is resizing volume pv1",
        "N FileSystemResizeRequired Require file system resize of volume on node",
    ];
    assert_eq!(stage.posted(), told, "Z-36");
    assert_eq!(
        stage.conditions(),
        ["FileSystemResizePending", "Resizing"],
        "Z-36"
    );
    assert_eq!(
        (stage.capacity(), stage.state()),
        (json!("1Gi"), "NRP"),
        "Z-36"
    );
    stage.clear();
    stage.node_expanded("2Gi");
    stage
        .until("annotation removed", |stage| stage.pre_resize().is_null())
        .await;
    settle().await;
    let trace = stage.trace();
    assert_eq!(trace.len(), 1, "Z-37: {trace:?}");
    assert!(trace[0].starts_with("pp "), "Z-37: {trace:?}");
    let read = stage.api.requests_to("GET", READ_CLAIM).len();
    assert_eq!(read, 0, "a claim that was worked on stays known");
    assert_eq!(stage.size(), "2Gi", "Z-37");
}

#[tokio::test]
async fn z_38_without_the_annotation() {
    let stage = Stage::new().await;
    stage.node();
    let _program = stage
        .started(&["--feature-gates=AnnotateFsResize=false"])
        .await;
    stage.grow("2Gi");
    stage.until_state("NRP").await;
    let asked = format!("Exp h1 {}", 2 * GI);
    stage.traced("Z-38", &[BEGIN, &asked, GROW, PENDING]);
}

#[tokio::test]
async fn z_39_an_annotation_of_an_earlier_expansion() {
    for (row, capacity, expected) in [("Z-39", "1Gi", "512Mi"), ("Z-39 Q18", "2Gi", "2Gi")] {
        let stage = Stage::new().await;
        stage.node();
        stage.edit_volume(|volume| {
            volume["spec"]["capacity"]["storage"] = "2Gi".into();
            volume["metadata"]["annotations"][PRE_RESIZE] = "512Mi".into();
        });
        stage.edit_claim(|claim| claim["status"]["capacity"]["storage"] = capacity.into());
        match capacity {
            "1Gi" => stage.expanding("NodeResizeInfeasible", "2Gi"),
            _ => stage.grow("3Gi"),
        }
        if capacity == "1Gi" {
            stage.grow("2Gi");
        }
        let _program = stage.started(&[]).await;
        stage.until_state("NRP").await;
        assert_eq!(stage.pre_resize(), expected, "{row}");
    }
}

#[tokio::test]
async fn z_40_and_41_a_wish_while_the_node_is_at_it() {
    let stage = Stage::new().await;
    stage.node();
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_state("NRP").await;
    stage.until_events("FileSystemResizeRequired", 1).await;
    stage.clear();
    stage.grow("3Gi");
    settle().await;
    stage.traced("Z-40", &[]);
    stage.node_expanded("2Gi");
    stage
        .until("Z-41", |stage| {
            stage.state() == "NRP" && stage.size() == "3Gi"
        })
        .await;
    assert_eq!(stage.asked(), [3 * GI], "Z-41");
    assert_eq!(stage.allocated(), "3Gi", "Z-41");
    assert_eq!(stage.pre_resize(), "2Gi", "Z-41, Q18");
}

#[tokio::test]
async fn z_42_the_node_is_needed_this_time() {
    let stage = Stage::new().await;
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    stage.node();
    stage.grow("3Gi");
    stage.until_state("NRP").await;
    assert!(stage.claim()["metadata"]["annotations"][NOT_REQUIRED].is_null());
    assert_eq!(stage.pre_resize(), "2Gi");
    let second = &stage.trace()[4];
    assert!(
        second.contains(r#""volume.kubernetes.io/node-expansion-not-required":null"#),
        "{second}"
    );
}

#[tokio::test]
async fn z_43_and_44_sizes_are_what_was_written_and_answered() {
    let stage = Stage::new().await;
    let _program = stage.started(&[]).await;
    stage.grow("2500M");
    stage.until_events("VolumeResizeSuccessful", 1).await;
    assert_eq!(
        (stage.asked(), stage.allocated()),
        (vec![2_500_000_000], json!("2500M")),
        "Z-43"
    );
    assert_eq!(stage.size(), "2500000000", "Z-43");

    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(EXPAND).answer(answer(3_221_225_473)));
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_capacity("3221225473").await;
    assert_eq!(
        (stage.size(), stage.allocated()),
        (json!("3221225473"), json!("2Gi")),
        "Z-44, Q20"
    );
    settle().await;
    assert_eq!(stage.calls(EXPAND), 1, "Z-44");
}

fn answer(capacity_bytes: i64) -> ControllerExpandVolumeResponse {
    ControllerExpandVolumeResponse {
        capacity_bytes,
        node_expansion_required: false,
    }
}

#[tokio::test]
async fn z_45_an_answer_without_size_is_as_asked() {
    let stage = Stage::new().await;
    stage.driver.fault(CallFault::on(EXPAND).answer(answer(0)));
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    settle().await;
    assert_eq!((stage.size(), stage.calls(EXPAND)), (json!("2Gi"), 1));
}

#[tokio::test]
async fn z_46_less_than_asked_is_told_once_and_retried_with_back_off() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(EXPAND).answer(answer(3 * GI / 2)));
    let _program = stage.started(&["--retry-interval-start=5m"]).await;
    stage.grow("2Gi");
    stage.until_events("VolumeResizeFailed", 1).await;
    settle().await;
    assert_eq!(
        (stage.calls(EXPAND), stage.events_of("VolumeResizeFailed")),
        (1, 1)
    );
}

#[tokio::test]
async fn z_47_48_and_58_what_is_somebody_elses() {
    let stage = Stage::new().await;
    let foreign = volume("pv2", "h2", "ns/c2").with("/spec/csi/driver", "other");
    stage.api.insert(foreign.annotation(PRE_RESIZE, "1Gi"));
    stage.api.insert(claim("ns/c2", "pv2"));
    stage.edit_volume(|volume| volume["spec"]["claimRef"]["uid"] = "another".into());
    let program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.api.edit("persistentvolumeclaims", "ns/c2", |claim| {
        claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
    });
    settle().await;
    stage.traced("Z-47, Z-48, Z-58", &[]);
    assert!(
        !program.log().contains("Error processing"),
        "Q16: {}",
        program.log()
    );
}

#[tokio::test]
async fn z_49_a_volume_that_is_not_there_yet() {
    let stage = Stage::new().await;
    let late = stage.volume();
    stage.api.remove("persistentvolumes", "pv1");
    let program = stage.started(&[QUICK]).await;
    stage.edit_claim(|claim| {
        claim["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"] =
            "test.csi.driver".into();
    });
    stage.grow("2Gi");
    program.logs(r"not found").await;
    let log = program.log();
    assert!(log.contains("pv1") && log.contains("ns/c1"), "{log}");
    stage.traced("Z-49", &[]);
    stage.api.insert(late);
    stage.until_capacity("2Gi").await;
}

#[tokio::test]
async fn z_50_and_53_what_calls_for_nothing() {
    let stage = Stage::new().await;
    stage.api.insert(build::claim("ns/pending").size("2Gi"));
    stage.api.insert(
        build::claim("ns/named")
            .size("2Gi")
            .with("/spec/volumeName", "pv1"),
    );
    let _program = stage.started(&[]).await;
    stage.edit_claim(|claim| claim["metadata"]["labels"]["a"] = "b".into());
    settle().await;
    stage.traced("Z-50, Z-53", &[]);
}

#[tokio::test]
async fn z_51_and_52_claims_that_are_expanded_all_the_same() {
    let stage = Stage::new().await;
    stage.edit_claim(|claim| {
        claim["metadata"]["deletionTimestamp"] = build::LONG_AGO.into();
        claim["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    });
    stage.grow("2Gi");
    let _program = stage.started(&[]).await;
    stage.until_capacity("2Gi").await;
}

#[tokio::test]
async fn z_54_a_bound_claim_without_capacity() {
    let stage = Stage::new().await;
    stage.edit_claim(|claim| claim["status"]["capacity"] = json!(null));
    stage.grow("2Gi");
    let mut program = stage.started(&[]).await;
    stage.until_capacity("2Gi").await;
    assert!(program.is_running());
}

#[tokio::test]
async fn z_55_kubelet_does_it_all() {
    let stage = Stage::new().await;
    stage.node();
    stage
        .driver
        .configure(|model| model.controller = Vec::new());
    let _program = stage.started(&[]).await;
    let before = stage.driver.calls().len();
    stage.grow("2Gi");
    stage.until_events("FileSystemResizeRequired", 1).await;
    stage.traced("Z-55", &[BEGIN, GROW_ON_NODE, PENDING]);
    assert_eq!(stage.events_of("Resizing"), 1);
    assert_eq!(
        stage.driver.calls().len(),
        before,
        "no call after the start"
    );
}

#[tokio::test]
async fn z_56_conditions_of_others_stay() {
    for fails in [false, true] {
        let stage = Stage::new().await;
        stage.edit_claim(|claim| claim["status"]["conditions"] = json!([condition("Other", "m")]));
        if fails {
            stage
                .driver
                .fault(CallFault::on(EXPAND).fail(tonic::Code::Internal, "boom"));
        }
        let _program = stage.started(&["--retry-interval-start=5m"]).await;
        stage.grow("2Gi");
        if fails {
            stage.until_events("VolumeResizeFailed", 1).await
        } else {
            stage.until_capacity("2Gi").await
        }
        assert_eq!(stage.condition("Other")["message"], "m", "fails: {fails}");
    }
}

#[tokio::test]
async fn z_57_an_annotation_that_has_done_its_duty() {
    let stage = Stage::new().await;
    stage.edit_volume(|volume| volume["metadata"]["annotations"][PRE_RESIZE] = "1Gi".into());
    let _program = stage.started(&[]).await;
    stage
        .until("Z-57", |stage| stage.pre_resize().is_null())
        .await;
    let trace = stage.trace();
    // The program keeps nothing of a claim that needs no work.
    assert!(trace.len() == 2 && trace[0] == "GET c1", "{trace:?}");
}

#[tokio::test]
async fn a_claim_of_which_nothing_is_kept_is_read_until_that_succeeds() {
    let stage = Stage::new().await;
    stage.edit_volume(|volume| volume["metadata"]["annotations"][PRE_RESIZE] = "1Gi".into());
    let fails = Fault::on("GET", READ_CLAIM).times(2).answer(500);
    let fails = stage.api.fault(fails);
    let _program = stage.started(&[QUICK]).await;
    stage
        .until("it goes", |stage| stage.pre_resize().is_null())
        .await;
    assert_eq!(fails.hits(), 2);
    let trace = stage.trace();
    let read = ["GET c1", "GET c1", "GET c1"];
    assert!(trace.len() == 4 && trace[..3] == read, "{trace:?}");
}

#[tokio::test]
async fn a_claim_that_was_read_is_followed_from_then_on() {
    let stage = Stage::new().await;
    // kubelet was told, and has not expanded yet: the user asks for less meanwhile.
    stage.edit_volume(|volume| {
        volume["metadata"]["annotations"][PRE_RESIZE] = "1Gi".into();
        volume["spec"]["capacity"]["storage"] = "2Gi".into();
    });
    let _program = stage.started(&[]).await;
    stage
        .until("read", |stage| {
            stage.api.requests_to("GET", READ_CLAIM).len() == 1
        })
        .await;
    settle().await;
    stage.traced("the node is waited for", &["GET c1"]);
    stage.node_expanded("2Gi");
    stage
        .until("it goes", |stage| stage.pre_resize().is_null())
        .await;
    assert_eq!(stage.api.requests_to("GET", READ_CLAIM).len(), 1);
}

#[tokio::test]
async fn the_fixture_is_what_it_says() {
    let stage = Stage::new().await;
    assert_eq!(
        (stage.capacity(), stage.size()),
        (json!("1Gi"), json!("1Gi"))
    );
    assert_eq!(stage.claim_named(CLAIM)["status"]["phase"], "Bound");
}
