//! Z-69 and Z-73 to Z-89: the next request after a failure, a restart, or a lost write.

use serde_json::json;
use sidecar_testkit::controller::contract::election::events_forbidden;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{EXPAND, GI, NEVER_AGAIN, QUICK, Stage, condition, settle};

#[tokio::test]
async fn z_73_what_is_impossible_is_asked_again_seldom() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(EXPAND).fail(Code::InvalidArgument, "too big"));
    let _program = stage.started(&["--retry-interval-max=3s", QUICK]).await;
    stage.grow("4Gi");
    stage.until_calls(EXPAND, 3).await;
    let calls = stage.driver.calls_to(EXPAND);
    let gaps: Vec<f64> = { calls.windows(2) }
        .map(|pair| (pair[1].started - pair[0].started).as_secs_f64())
        .collect();
    assert!(gaps.iter().all(|gap| *gap >= 2.9), "{gaps:?}");
}

#[tokio::test]
async fn z_69_and_74_a_smaller_wish_goes_at_once() {
    let stage = Stage::new().await;
    let too_big = stage
        .driver
        .fault(CallFault::on(EXPAND).fail(Code::InvalidArgument, "too big"));
    let _program = stage.started(&[NEVER_AGAIN]).await;
    stage.grow("4Gi");
    stage.until_state("CRI").await;
    stage.until_events("VolumeResizeFailed", 1).await;
    assert_eq!(
        stage.conditions(),
        ["ControllerResizeError", "Resizing"],
        "Z-69"
    );
    too_big.remove();
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    assert_eq!(stage.asked(), [4 * GI, 2 * GI]);
    assert_eq!(
        (stage.allocated(), stage.conditions().len()),
        (json!("2Gi"), 0)
    );
}

#[tokio::test]
async fn z_75_what_is_in_doubt_comes_first() {
    let stage = Stage::new().await;
    let hang = stage.driver.fault(CallFault::on(EXPAND).hang());
    let _program = stage.started(&["--timeout=5s", QUICK]).await;
    stage.grow("4Gi");
    stage.until_calls(EXPAND, 1).await;
    stage.grow("2Gi");
    stage.until_calls(EXPAND, 3).await;
    hang.remove();
    stage.until_capacity("4Gi").await;
    assert!(
        stage.asked().iter().all(|bytes| *bytes == 4 * GI),
        "{:?}",
        stage.asked()
    );
}

#[tokio::test]
async fn z_76_after_a_final_error_the_new_wish_counts() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(EXPAND).fail(Code::Internal, "no").times(1));
    let _program = stage.started(&[NEVER_AGAIN]).await;
    stage.grow("4Gi");
    stage.until_events("VolumeResizeFailed", 1).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    assert_eq!(stage.asked(), [4 * GI, 2 * GI]);
}

#[tokio::test]
async fn z_77_to_81_what_a_new_process_finds() {
    // Row, status, A, P, S; the size requested from the driver, and the capacity in the end.
    for (row, status, allocated, volume, wish, asked, capacity) in [
        (
            "Z-77",
            "ControllerResizeInProgress",
            "4Gi",
            "1Gi",
            "2Gi",
            &[4 * GI][..],
            "4Gi",
        ),
        (
            "Z-78",
            "ControllerResizeInfeasible",
            "4Gi",
            "1Gi",
            "2Gi",
            &[2 * GI],
            "2Gi",
        ),
        ("Z-79", "NodeResizePending", "2Gi", "2Gi", "2Gi", &[], "1Gi"),
        (
            "Z-79",
            "NodeResizeInProgress",
            "2Gi",
            "2Gi",
            "2Gi",
            &[],
            "1Gi",
        ),
        (
            "Z-80",
            "NodeResizePending",
            "3Gi",
            "3Gi",
            "10Gi",
            &[],
            "1Gi",
        ),
    ] {
        let stage = Stage::new().await;
        stage.expanding(status, allocated);
        stage.edit_volume(|object| object["spec"]["capacity"]["storage"] = volume.into());
        stage.grow(wish);
        let _program = stage.started(&[]).await;
        match asked {
            [] => settle().await,
            _ => stage.until_capacity(capacity).await,
        }
        assert_eq!(stage.asked(), asked, "{row}");
        assert_eq!(stage.capacity(), capacity, "{row}");
        if asked.is_empty() {
            stage.traced(row, &[]);
        }
    }
}

#[tokio::test]
async fn z_81_and_82_the_node_found_it_impossible() {
    let stage = Stage::new().await;
    stage.node();
    stage.edit_volume(|volume| volume["spec"]["capacity"]["storage"] = "2Gi".into());
    stage.expanding("NodeResizeInfeasible", "2Gi");
    stage.edit_claim(|claim| {
        claim["status"]["conditions"] = json!([condition("NodeResizeError", "no")]);
    });
    stage.grow("2Gi");
    let _program = stage.started(&[]).await;
    stage.until_state("NRP").await;
    assert_eq!(stage.asked(), [2 * GI], "Z-81");
    let first = &stage.trace()[0];
    assert!(
        !first.contains("allocatedResourceStatuses"),
        "Z-81: {first}"
    );
    assert!(first.contains("Resizing"), "Z-81: {first}");

    let stage = Stage::new().await;
    stage.node();
    stage
        .driver
        .configure(|model| model.controller = Vec::new());
    stage.edit_volume(|volume| volume["spec"]["capacity"]["storage"] = "10Gi".into());
    stage.expanding("NodeResizeInfeasible", "10Gi");
    stage.grow("5Gi");
    let _program = stage.started(&[]).await;
    stage.until_state("NRP").await;
    assert_eq!(stage.allocated(), "5Gi", "Z-82");
}

#[tokio::test]
async fn z_82_fr_17_what_the_node_refused_is_taken_back() {
    let stage = Stage::new().await;
    stage.node();
    stage
        .driver
        .configure(|model| model.controller = Vec::new());
    let _program = stage.started(&[]).await;
    stage.grow("10Gi");
    stage.until_state("NRP").await;
    assert_eq!(
        (stage.size(), stage.pre_resize()),
        (json!("10Gi"), json!("1Gi"))
    );
    stage.expanding("NodeResizeInfeasible", "10Gi");
    stage.grow("5Gi");
    stage
        .until("taken back", |stage| {
            stage.state() == "NRP" && stage.size() == "5Gi"
        })
        .await;
    assert_eq!(
        (stage.allocated(), stage.pre_resize()),
        (json!("5Gi"), json!("1Gi"))
    );
    stage.node_expanded("5Gi");
    stage
        .until("no annotation", |stage| stage.pre_resize().is_null())
        .await;
    assert_eq!(
        (stage.size(), stage.capacity()),
        (json!("5Gi"), json!("5Gi"))
    );
}

#[tokio::test]
async fn z_83_to_85_without_a_status() {
    for (row, pending, asked) in [("Z-83", false, &[2 * GI][..]), ("Z-84", true, &[])] {
        let stage = Stage::new().await;
        stage.edit_volume(|volume| volume["spec"]["capacity"]["storage"] = "2Gi".into());
        if pending {
            let condition = condition("FileSystemResizePending", "");
            stage.edit_claim(|claim| claim["status"]["conditions"] = json!([condition]));
        }
        stage.grow("2Gi");
        let _program = stage.started(&[]).await;
        if pending {
            settle().await
        } else {
            stage.until_capacity("2Gi").await
        }
        assert_eq!(stage.asked(), asked, "{row}");
    }
    let stage = Stage::new().await;
    stage.edit_volume(|volume| volume["spec"]["capacity"]["storage"] = "3Gi".into());
    stage.edit_claim(|claim| claim["status"]["allocatedResources"]["storage"] = "2Gi".into());
    stage.grow("3Gi");
    let _program = stage.started(&[]).await;
    stage.until_capacity("3Gi").await;
    assert_eq!(
        (stage.size(), stage.asked()),
        (json!("3Gi"), vec![3 * GI]),
        "Z-85, Q21"
    );
}

#[tokio::test]
async fn fr_18_a_size_that_was_never_asked_for_is_not_in_doubt() {
    let stage = Stage::new().await;
    let lost = stage
        .api
        .fault(Fault::on("PATCH", STATUS).times(1).lose_reply());
    let _program = stage.started(&["--retry-interval-start=2s"]).await;
    stage.grow("4Gi");
    stage.until("lost", |_| lost.hits() > 0).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    assert_eq!(stage.asked(), [2 * GI]);
}

#[tokio::test]
async fn fr_19_a_failure_that_cannot_be_recorded() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(EXPAND).fail(Code::Internal, "boom").times(1));
    let refused = Fault::on("PATCH", STATUS).skip(1).times(1);
    stage.api.fault(refused.answer_saying(403, "not you"));
    let _program = stage.started(&[QUICK]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    let messages = stage.events("VolumeResizeFailed");
    let [message] = &messages[..] else {
        panic!("{messages:?}");
    };
    let start = "resizing failed in controller with rpc error: code = Internal desc = boom but \
                 failed to update PVC ns/c1 with: mark PVC \"ns/c1\" as controller expansion \
                 failed, errored with: can't patch status of  PVC ns/c1 with ";
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with("not you"), "{message}");
}

#[tokio::test]
async fn fr_19_the_node_s_part_cannot_be_recorded() {
    let stage = Stage::new().await;
    stage.node();
    let refused = Fault::on("PATCH", STATUS).skip(1).times(1);
    stage.api.fault(refused.answer_saying(403, "not you"));
    let _program = stage.started(&[QUICK]).await;
    stage.grow("2Gi");
    stage.until_state("NRP").await;
    let message = &stage.events("VolumeResizeFailed")[0];
    let start = "mark PVC \"ns/c1\" as node expansion required failed: can't patch status of  \
                 PVC ns/c1 with ";
    assert!(message.starts_with(start), "{message}");
}

#[tokio::test]
async fn fr_19_the_last_event_says_how_it_ended() {
    for (node, last) in [
        (false, "VolumeResizeSuccessful"),
        (true, "FileSystemResizeRequired"),
    ] {
        let stage = Stage::new().await;
        if node {
            stage.node();
        }
        stage
            .api
            .fault(Fault::on("PATCH", STATUS).skip(1).times(1).lose_reply());
        let _program = stage.started(&[QUICK]).await;
        stage.grow("2Gi");
        stage.until_events(last, 1).await;
        assert_eq!(stage.calls(EXPAND), 1);
        let events = stage.posted();
        assert!(events.last().unwrap().contains(last), "{events:?}");
    }
}

const STATUS: &str = "*/persistentvolumeclaims/c1/status";
const VOLUME: &str = "*/persistentvolumes/pv1";

#[tokio::test]
async fn z_86_the_first_write_fails() {
    for code in [403, 409, 500] {
        let stage = Stage::new().await;
        stage
            .api
            .fault(Fault::on("PATCH", STATUS).answer(code).times(1));
        let program = stage.started(&[QUICK]).await;
        stage.grow("2Gi");
        stage.until_capacity("2Gi").await;
        settle().await;
        assert_eq!(stage.calls(EXPAND), 1, "{code}");
        assert_eq!(stage.events_of("VolumeResizeFailed"), 0, "{code}");
        let quiet = !program.log().contains("Error processing");
        assert_eq!(
            quiet,
            code != 403 && code != 500,
            "{code}: {}",
            program.log()
        );
    }
}

#[tokio::test]
async fn z_87_the_volume_cannot_be_written() {
    let stage = Stage::new().await;
    stage
        .api
        .fault(Fault::on("PATCH", VOLUME).answer(500).times(1));
    let _program = stage.started(&[QUICK]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    stage.until_events("VolumeResizeFailed", 1).await;
    let message = &stage.events("VolumeResizeFailed")[0];
    let start = r#"error updating pv "pv1" by resizer: updating capacity of PV "pv1" to 2Gi failed: update capacity of PV pv1 failed: "#;
    assert!(message.starts_with(start), "{message}");
    assert_eq!(stage.size(), "2Gi");
}

#[tokio::test]
async fn z_88_somebody_else_writes_meanwhile() {
    let stage = Stage::new().await;
    let gate = sidecar_testkit::api::fault::Gate::new();
    stage.driver.fault(CallFault::on(EXPAND).hold(&gate));
    // Only the watch could report it, and it does not.
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_calls(EXPAND, 1).await;
    stage.api.hold_watches("persistentvolumeclaims");
    stage.edit_claim(|claim| claim["metadata"]["labels"]["a"] = "b".into());
    gate.open();
    stage.until_capacity("2Gi").await;
    settle().await;
    assert_eq!(stage.events_of("VolumeResizeFailed"), 0, "Q8");
    assert_eq!(stage.calls(EXPAND), 1);
    assert_eq!(stage.claim()["metadata"]["labels"]["a"], "b");
}

#[tokio::test]
async fn z_89_without_events() {
    let stage = Stage::new().await;
    stage.api.fault(events_forbidden());
    let program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    program.logs("Server rejected event").await;
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_not_doubted_for_ever() {
    for path in [STATUS, VOLUME] {
        for skip in [0, 1] {
            let stage = Stage::new().await;
            stage
                .api
                .fault(Fault::on("PATCH", path).skip(skip).times(1).lose_reply());
            let _program = stage.started(&[QUICK]).await;
            stage.grow("2Gi");
            stage.until_capacity("2Gi").await;
            settle().await;
            assert_eq!(
                (stage.state(), stage.size()),
                ("", json!("2Gi")),
                "{path} {skip}"
            );
            assert!(stage.asked().iter().all(|bytes| *bytes == 2 * GI));
        }
    }
}

#[tokio::test]
async fn killed_before_and_after_every_step() {
    for node in [false, true] {
        for writes in 0..4 {
            let stage = Stage::new().await;
            if node {
                stage.node();
            }
            let program = stage.started(&[]).await;
            // The API server executes the writes after the first few, but does not answer them.
            let lost = stage.api.fault(
                Fault::on("PATCH", "*/persistentvolume*")
                    .skip(writes)
                    .lose_reply(),
            );
            stage.grow("2Gi");
            stage
                .until("cut off", |stage| {
                    lost.hits() > 0
                        || stage.events_of("VolumeResizeSuccessful") > 0
                        || stage.state() == "NRP"
                })
                .await;
            program.kill().await;
            lost.remove();
            let _successor = stage.started(&[]).await;
            if node {
                stage.until_state("NRP").await
            } else {
                stage.until_capacity("2Gi").await
            }
            settle().await;
            assert!(
                stage.asked().iter().all(|bytes| *bytes == 2 * GI),
                "{:?}",
                stage.asked()
            );
            assert!(stage.asked().len() <= 2, "{:?}", stage.asked());
            assert_eq!(stage.size(), "2Gi");
            assert!(
                stage.driver.overlaps().is_empty(),
                "{:?}",
                stage.driver.overlaps()
            );
        }
    }
}
