//! Volume limits that change while a driver is registered: K-72 to K-78.

use std::time::Duration;

use registrar::kubelet::plan::exhausted::attachment_name;
use registrar::kubelet::work::api::Api;
use registrar::kubelet::work::exhausted::{Attachments, PodKey};
use serde_json::{Value, json};
use sidecar_testkit::build::{Object, attachment, csidriver};
use sidecar_testkit::{CallFault, Fault, Gate};
use tokio::time::Instant;
use tonic::Code;

use crate::stage::{CSINODE, D, N, NODE, NODE_STATUS, Stage, pass};

const PERIOD: &str = "/spec/nodeAllocatableUpdatePeriodSeconds";

/// A registered driver whose CSIDriver object has this period.
async fn refreshed_every(seconds: Option<i64>) -> Stage {
    let stage = Stage::started().await;
    let object = csidriver(D);
    stage.api.insert(match seconds {
        Some(seconds) => object.with(PERIOD, seconds),
        None => object,
    });
    stage
        .until("the CSIDriver is known", |stage| {
            stage.known().period(D).is_some()
        })
        .await;
    stage.registered().await;
    stage.driver.clear_calls();
    stage.api.clear_requests();
    stage
}

/// Seconds from `begin` of the calls of NodeGetInfo, to a tenth.
fn ticks(stage: &Stage, begin: Instant) -> Vec<f64> {
    let calls = stage.driver.calls_to("NodeGetInfo");
    let after = |start: Instant| (start - begin).as_secs_f64();
    calls
        .iter()
        .map(|call| (after(call.started) * 10.0).round() / 10.0)
        .collect()
}

fn set_period(stage: &Stage, period: Value) {
    stage.api.edit("csidrivers", D, |object| {
        object["spec"]["nodeAllocatableUpdatePeriodSeconds"] = period;
    });
}

#[tokio::test(start_paused = true)]
async fn k_72_the_limit_is_asked_for_every_period_and_written_when_it_changes() {
    let stage = refreshed_every(Some(10)).await;
    let begin = Instant::now();
    pass(25.0).await;
    assert_eq!(ticks(&stage, begin), [10.0, 20.0]);
    assert!(stage.writes().is_empty(), "nothing changed");
    stage.driver.configure(|model| model.max_volumes = 7);
    pass(10.0).await;
    assert_eq!(ticks(&stage, begin), [10.0, 20.0, 30.0]);
    assert_eq!(stage.writes(), [format!("PUT {CSINODE}")]);
    assert_eq!(stage.entry(D).unwrap()["allocatable"]["count"], 7);
    assert!(stage.api.requests_to("*", NODE).is_empty());
    assert!(stage.api.requests_to("*", NODE_STATUS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn k_73_a_failed_tick_is_followed_by_the_next() {
    let stage = refreshed_every(Some(10)).await;
    stage.driver.fault(
        CallFault::on("NodeGetInfo")
            .fail(Code::Internal, "boom")
            .times(1),
    );
    stage.driver.configure(|model| model.max_volumes = 7);
    let begin = Instant::now();
    pass(15.0).await;
    assert_eq!(ticks(&stage, begin), [10.0], "no attempt in between");
    assert!(stage.entry(D).unwrap().get("allocatable").is_none());
    pass(10.0).await;
    assert_eq!(ticks(&stage, begin), [10.0, 20.0]);
    assert_eq!(stage.entry(D).unwrap()["allocatable"]["count"], 7);
}

#[tokio::test(start_paused = true)]
async fn k_74_a_new_period_counts_from_its_own_beginning() {
    let stage = refreshed_every(Some(10)).await;
    pass(5.0).await;
    let begin = Instant::now();
    set_period(&stage, json!(20));
    pass(45.0).await;
    assert_eq!(ticks(&stage, begin), [20.0, 40.0]);
}

#[tokio::test(start_paused = true)]
async fn k_74_no_period_no_object_and_no_driver_end_it() {
    for end in ["unset", "zero", "delete", "deregister"] {
        let stage = refreshed_every(Some(10)).await;
        match end {
            "unset" => set_period(&stage, Value::Null),
            "zero" => set_period(&stage, json!(0)),
            "delete" => stage.api.delete("csidrivers", D),
            _ => std::fs::remove_file(stage.socket("d-reg.sock")).unwrap(),
        }
        pass(60.0).await;
        assert_eq!(stage.node_get_infos(), 0, "{end}");
    }
}

#[tokio::test(start_paused = true)]
async fn k_75_an_object_created_after_the_registration_starts_it() {
    let stage = Stage::started().await;
    stage.registered().await;
    stage.driver.clear_calls();
    pass(30.0).await;
    assert_eq!(stage.node_get_infos(), 0);
    let begin = Instant::now();
    stage.api.insert(csidriver(D).with(PERIOD, 10));
    pass(25.0).await;
    assert_eq!(ticks(&stage, begin), [10.0, 20.0]);
}

#[tokio::test(start_paused = true)]
async fn k_76_another_change_of_the_object_does_not_restart_it() {
    let stage = refreshed_every(Some(10)).await;
    let begin = Instant::now();
    for _ in 0..5 {
        pass(5.0).await;
        stage.api.edit("csidrivers", D, |object| {
            object["metadata"]["labels"]["at"] = json!(format!("{:?}", begin.elapsed().as_secs()));
        });
    }
    assert_eq!(ticks(&stage, begin), [10.0, 20.0]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_of_the_objects_does_not_restart_it() {
    let stage = refreshed_every(Some(10)).await;
    let begin = Instant::now();
    pass(5.0).await;
    stage.api.expire_watches();
    pass(20.0).await;
    assert_eq!(ticks(&stage, begin), [10.0, 20.0]);
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_while_the_watch_was_cut_ends_it() {
    let stage = refreshed_every(Some(10)).await;
    stage.api.hold_watches("csidrivers");
    stage.api.remove("csidrivers", D);
    stage.api.expire_watches();
    stage.api.release_watches("csidrivers");
    stage
        .until("the CSIDriver is gone", |stage| {
            stage.known().period(D).is_none()
        })
        .await;
    stage.driver.clear_calls();
    pass(60.0).await;
    assert_eq!(stage.node_get_infos(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_under_way_does_not_bring_a_driver_back() {
    let stage = refreshed_every(Some(10)).await;
    stage.driver.configure(|model| model.max_volumes = 7);
    let gate = Gate::new();
    stage
        .api
        .fault(Fault::on("PUT", CSINODE).hold(&gate).times(1));
    stage
        .until("the refresh writes", |_| gate.waiting() == 1)
        .await;
    std::fs::remove_file(stage.socket("d-reg.sock")).unwrap();
    pass(5.0).await;
    gate.open();
    stage
        .until("the annotation is removed", |stage| {
            stage.annotation().is_none()
        })
        .await;
    pass(60.0).await;
    assert!(stage.entry(D).is_none());
}

/// A pod that waits for a volume whose attachment failed with `code`.
async fn waiting(period: Option<i64>, code: i64, uid: &str) -> (Stage, bool) {
    let stage = refreshed_every(period).await;
    stage.driver.configure(|model| model.max_volumes = 7);
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": "default", "name": "p", "uid": uid },
        "status": { "phase": "Pending" },
    });
    stage.api.insert(pod);
    let name = attachment_name("vol-1", D, N);
    let failed = attachment(&name).by(D).on(N).of("pv1");
    stage
        .api
        .insert(failed.with("/status/attachError/errorCode", code));
    let api = Api::new(stage.api.client());
    let attachments = Attachments::new(api, N.to_owned(), stage.plugin(), stage.known());
    let pod = PodKey {
        uid: "uid-of-p".to_owned(),
        namespace: "default".to_owned(),
        name: "p".to_owned(),
    };
    let volumes = [
        (D.to_owned(), "vol-0".to_owned()),
        (D.to_owned(), "vol-1".to_owned()),
    ];
    let begin = Instant::now();
    let rejected = attachments
        .reject_if_exhausted(&pod, &volumes)
        .await
        .unwrap();
    assert!(begin.elapsed() < Duration::from_secs(1));
    (stage, rejected)
}

#[tokio::test(start_paused = true)]
async fn k_77_a_pod_whose_volume_finds_the_node_full_is_failed() {
    let (stage, rejected) = waiting(Some(60), 8, "uid-of-p").await;
    assert!(rejected);
    assert_eq!(stage.node_get_infos(), 1);
    assert_eq!(stage.entry(D).unwrap()["allocatable"]["count"], 7);
    let pod = stage.api.object("pods", "default/p").unwrap();
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(pod["status"]["reason"], "VolumeAttachmentLimitExceeded");
}

#[tokio::test(start_paused = true)]
async fn fr_5_the_successor_of_the_pod_is_not_failed() {
    let (stage, rejected) = waiting(Some(60), 8, "uid-of-another").await;
    assert!(!rejected);
    assert_eq!(stage.node_get_infos(), 1, "the limit is corrected");
    let pod = stage.api.object("pods", "default/p").unwrap();
    assert_eq!(pod["status"]["phase"], "Pending");
}

#[tokio::test(start_paused = true)]
async fn k_78_other_failures_and_drivers_without_a_period_leave_the_pod_waiting() {
    for (period, code) in [(None, 8), (Some(60), 13)] {
        let (stage, rejected) = waiting(period, code, "uid-of-p").await;
        assert!(!rejected, "{period:?} {code}");
        assert_eq!(stage.node_get_infos(), 0, "{period:?} {code}");
        let pod = stage.api.object("pods", "default/p").unwrap();
        assert_eq!(pod["status"]["phase"], "Pending", "{period:?} {code}");
        assert!(stage.writes().is_empty(), "{:?}", stage.writes());
    }
}

#[test]
fn attachments_are_named_as_the_controller_names_them() {
    let expected = "csi-4a58cb5cdd4fb40ded7f88295ed4e82690298bfa5df8defbb6776b8848734d94";
    assert_eq!(
        attachment_name("vol-0001", "hostpath.csi.k8s.io", "node1"),
        expected
    );
}
