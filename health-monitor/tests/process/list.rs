//! H-20 to H-37, H-46 to H-51 and H-56: lists, and the resulting changes to claims.

use csi_proto::csi::{
    ControllerListVolumeHealthRequest, ControllerListVolumeHealthResponse, VolumeHealth,
};
use serde_json::json;
use sidecar_testkit::CallFault;
use sidecar_testkit::driver::ControllerRpc;
use tonic::Code;

use super::stage::{
    CLAIMS, GET, LIST, Stage, claim, entry, free_address, settle, until_metrics, volume,
};

#[tokio::test]
async fn h_20_to_22_and_50_a_report_is_written_once() {
    let stage = Stage::listing().await;
    stage.suffers("h10", &[(2, "VolumeNotFound")]);
    let program = stage.started(&[]).await;
    stage
        .until_conditions(10, &["Inaccessible VolumeNotFound"])
        .await;
    let patches = stage.patches();
    assert_eq!(patches[0].content_type, "application/merge-patch+json");
    let time = &patches[0].body["status"]["healthStatus"]["lastTransitionTime"];
    assert!(time.is_string());
    let expected = json!({
        "metadata": {"uid": "uid-ns-c10"},
        "status": {"healthStatus": {
            "healthConditions": [{"status": "Inaccessible", "reason": "VolumeNotFound", "message": "m"}],
            "lastTransitionTime": time,
        }},
    });
    assert_eq!(patches[0].body, expected, "H-20");
    stage.cycles(5).await;
    let message = vec![entry(2, "VolumeNotFound", "another message")];
    stage.driver.configure(|model| {
        model.health.insert("h10".into(), message);
    });
    stage.cycles(2).await;
    assert_eq!(stage.patches().len(), 1, "H-21, H-22");
    program.terminated().await.well();
    let _program = stage.started(&[]).await;
    stage.cycles(2).await;
    assert_eq!(stage.patches().len(), 1, "H-50");
}

#[tokio::test]
async fn h_23_to_25_30_and_49_the_report_replaces_what_the_claim_has() {
    let stage = Stage::listing().await;
    let resizing = json!([{"type": "Resizing", "status": "True"}]);
    stage.api.edit(CLAIMS, "ns/c10", |claim| {
        claim["status"]["conditions"] = resizing.clone()
    });
    stage.suffers("h10", &[(1, "A"), (1, "B")]);
    let _program = stage.started(&[]).await;
    stage
        .until_conditions(10, &["Degraded A", "Degraded B"])
        .await;
    stage.has(10, &["Degraded A", "Degraded B"]);
    stage.suffers("h10", &[(1, "B"), (1, "A")]);
    stage.cycles(2).await;
    assert_eq!(stage.patches().len(), 1, "H-25");
    stage.suffers("h10", &[(1, "B")]);
    stage.until_conditions(10, &["Degraded B"]).await;
    let time = stage.health(10)["lastTransitionTime"].clone();
    assert_ne!(time, sidecar_testkit::build::LONG_AGO, "H-24");
    stage.has(10, &["Degraded B"]);
    stage.suffers("h10", &[]);
    stage.until_conditions(10, &[]).await;
    assert!(stage.health(10)["lastTransitionTime"].is_string(), "H-30");
    assert_eq!(stage.calls(GET), 0, "H-30");
    let claim = stage.api.object(CLAIMS, "ns/c10").unwrap();
    assert_eq!(claim["status"]["conditions"], resizing, "H-49");
}

#[tokio::test]
async fn h_26_27_and_51_a_volume_that_a_list_leaves_out_is_asked_about() {
    let stage = Stage::listing().await;
    stage.has(10, &["Degraded A"]);
    stage.has(11, &["Degraded A"]);
    stage.has(12, &["Degraded A"]);
    // A volume missing from the list, for which the driver still reports conditions when queried.
    let replaced = CallFault::on(GET).volume("h11");
    let answer = csi_proto::csi::ControllerGetVolumeHealthResponse {
        volume_health: Some(VolumeHealth {
            volume_id: "h11".into(),
            health_statuses: vec![entry(3, "B", "m")],
        }),
    };
    stage.driver.fault(replaced.answer(answer));
    stage
        .driver
        .fault(CallFault::on(GET).volume("h12").fail(Code::Internal, "no"));
    let _program = stage.started(&[]).await;
    stage.until_conditions(10, &[]).await;
    assert!(stage.health(10)["lastTransitionTime"].is_string(), "H-26");
    stage.until_conditions(11, &["DataLoss B"]).await;
    stage.cycles(3).await;
    let calls = stage.driver.calls_to(GET);
    assert_eq!(
        calls.iter().filter(|call| call.volume() == "h10").count(),
        1,
        "H-26"
    );
    assert_eq!(stage.conditions(12), ["Degraded A"], "H-27");
    assert_eq!(stage.patches().len(), 2);
}

#[tokio::test]
async fn h_28_and_29_without_that_call_two_complete_lists_clear() {
    let stage = Stage::new(&[ControllerRpc::ListVolumeHealth]).await;
    stage.has(10, &["Degraded A"]);
    // The volume is missing, listed, and missing again, in three consecutive lists.
    let answer = |entries: Vec<VolumeHealth>| ControllerListVolumeHealthResponse {
        entries,
        next_token: String::new(),
    };
    let there = || VolumeHealth {
        volume_id: "h10".into(),
        health_statuses: vec![entry(1, "A", "m")],
    };
    for entries in [vec![], vec![there()], vec![], vec![there()]] {
        let rule = CallFault::on(LIST).skip(0).times(1).answer(answer(entries));
        stage.driver.fault(rule);
    }
    let fails = stage
        .driver
        .fault(CallFault::on(LIST).skip(1).fail(Code::Internal, "no"));
    let _program = stage.started(&[]).await;
    stage
        .until("four lists and one that is complete", || fails.hits() >= 2)
        .await;
    settle().await;
    assert!(stage.patches().is_empty(), "H-29");
    assert_eq!(stage.conditions(10), ["Degraded A"], "H-28");
    fails.remove();
    stage.until_conditions(10, &[]).await;
    assert_eq!(stage.calls(GET), 0);
}

#[tokio::test]
async fn h_31_to_33_a_list_that_is_not_complete_clears_nothing() {
    for (row, code, lists) in [("H-31", Code::Internal, 1), ("H-32", Code::Aborted, 2)] {
        let stage = Stage::listing().await;
        stage.driver.configure(|model| model.health_page = 1);
        for handle in ["h10", "h11", "h12"] {
            stage.suffers(handle, &[(1, "A")]);
        }
        // Fails the second page of each list.
        stage
            .driver
            .fault(CallFault::on(LIST).skip(1).times(1).fail(code, "no"));
        let hold = sidecar_testkit::Gate::new();
        stage.driver.fault(
            CallFault::on(LIST)
                .skip(if lists == 1 { 1 } else { 4 })
                .hold(&hold),
        );
        let _program = stage.started(&[]).await;
        stage.until_conditions(10, &["Degraded A"]).await;
        // The one that is held.
        stage
            .until_calls(LIST, if lists == 1 { 3 } else { 6 })
            .await;
        settle().await;
        let calls = stage.driver.calls_to(LIST);
        let tokens: Vec<String> = { calls.iter() }
            .map(|call| {
                call.request::<ControllerListVolumeHealthRequest>()
                    .unwrap()
                    .starting_token
                    .clone()
            })
            .collect();
        if lists == 1 {
            assert_eq!(tokens[..3], ["", "h11", ""], "{row}");
            assert!(stage.conditions(11).is_empty(), "{row}");
        } else {
            assert_eq!(tokens[..5], ["", "h11", "", "h11", "h12"], "{row}");
            stage.until_conditions(12, &["Degraded A"]).await;
        }
        assert_eq!(stage.calls(GET), 0, "{row}");
    }
    let stage = Stage::listing().await;
    stage.has(11, &["Degraded A"]);
    let circle = ControllerListVolumeHealthResponse {
        entries: vec![],
        next_token: "again".into(),
    };
    stage.driver.fault(CallFault::on(LIST).answer(circle));
    let program = stage.started(&["--monitor-interval=1h"]).await;
    program
        .logs("returned next_token \\\"again\\\" twice")
        .await;
    assert_eq!((stage.calls(LIST), stage.calls(GET)), (2, 0), "H-33");
    assert_eq!(stage.conditions(11), ["Degraded A"], "H-33");
}

#[tokio::test]
async fn h_34_a_large_answer_is_used_as_a_whole() {
    let stage = Stage::listing().await;
    // 5,000 entries of more than 1 KiB each are more than 4 MiB.
    let entries = (0..5000).map(|number| VolumeHealth {
        volume_id: if number == 4999 {
            "h10".into()
        } else {
            format!("unknown-{number}")
        },
        health_statuses: vec![entry(1, "A", &"m".repeat(1000))],
    });
    let answer = ControllerListVolumeHealthResponse {
        entries: entries.collect(),
        next_token: String::new(),
    };
    stage.driver.fault(CallFault::on(LIST).answer(answer));
    let _program = stage.started(&[]).await;
    stage.until_conditions(10, &["Degraded A"]).await;
    assert_eq!(stage.patches().len(), 1);
}

#[tokio::test]
async fn h_35_to_37_statuses_on_the_wire() {
    let stage = Stage::listing().await;
    stage.suffers("h10", &[(1, "A"), (2, "B"), (3, "C")]);
    stage.suffers("h11", &[(0, "Zero"), (1, "A"), (7, "Seven")]);
    stage.has(12, &["Degraded A"]);
    stage.suffers("h12", &[(7, "Seven")]);
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let program = stage.started(&[&endpoint]).await;
    stage
        .until_conditions(10, &["Degraded A", "Inaccessible B", "DataLoss C"])
        .await;
    stage.until_conditions(11, &["Degraded A"]).await;
    stage.until_conditions(12, &[]).await;
    stage.cycles(2).await;
    let log = program.log();
    assert_eq!(
        log.matches("does not have; it is left out").count(),
        2,
        "{log}"
    );
    assert_eq!(stage.calls(GET), 0, "H-37: an entry is there");
    let metrics = until_metrics(&address, "csi_volume_health_unknown_statuses_total").await;
    let none = "csi_volume_health_unknown_statuses_total 0";
    assert!(!metrics.contains(none), "H-37: counted: {metrics}");
}

#[tokio::test]
async fn h_46_47_and_11_whose_claims_hear_of_a_volume() {
    let stage = Stage::listing().await;
    stage.api.insert(volume("pv10b", "h10", "ns/c10b"));
    stage.api.insert(claim("ns/c10b", "pv10b"));
    stage.suffers("h10", &[(1, "A")]);
    stage.suffers("h13", &[(1, "A")]);
    stage.suffers("h20", &[(1, "A")]);
    stage.suffers("unknown", &[(1, "A")]);
    let _program = stage.started(&[]).await;
    stage.until_written("PATCH", super::stage::STATUS, 2).await;
    stage.cycles(2).await;
    let mut paths: Vec<String> = stage
        .patches()
        .into_iter()
        .map(|request| request.path)
        .collect();
    paths.sort();
    let path = |name: &str| format!("/api/v1/namespaces/ns/persistentvolumeclaims/{name}/status");
    assert_eq!(paths, [path("c10"), path("c10b")], "H-46, H-47");
}

#[tokio::test]
async fn h_48_what_somebody_takes_away_is_written_again() {
    let stage = Stage::listing().await;
    stage.suffers("h10", &[(1, "A")]);
    let _program = stage.started(&[]).await;
    stage.until_conditions(10, &["Degraded A"]).await;
    stage.api.edit(CLAIMS, "ns/c10", |claim| {
        claim["status"]["healthStatus"] = serde_json::Value::Null
    });
    stage.until_conditions(10, &["Degraded A"]).await;
    assert_eq!(stage.patches().len(), 2);
}

#[tokio::test]
async fn h_56_a_driver_whose_lists_do_not_work_is_asked_about_each_volume() {
    let stage = Stage::listing().await;
    stage.suffers("h10", &[(1, "A")]);
    stage
        .driver
        .fault(CallFault::on(LIST).fail(Code::Unimplemented, "no"));
    let program = stage.started(&[]).await;
    program.logs("asking about each volume instead").await;
    stage.until_conditions(10, &["Degraded A"]).await;
    stage.until_calls(GET, 6).await;
    assert_eq!(stage.calls(LIST), 1);
    drop(program);
    // Three failed lists in a row have the same effect.
    let stage = Stage::listing().await;
    stage
        .driver
        .fault(CallFault::on(LIST).fail(Code::Internal, "no"));
    let _program = stage.started(&[]).await;
    stage.until_calls(GET, 3).await;
    assert_eq!(stage.calls(LIST), 3);
}
