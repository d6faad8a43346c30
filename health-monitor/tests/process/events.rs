//! H-60 to H-71: drivers of CSI 1.12 and older, whose conditions become events.

use serde_json::{Value, json};
use sidecar_testkit::controller::contract::election::events_forbidden;
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{DRIVER, Stage, claim, settle, volume};

const ABNORMAL: &str = "VolumeConditionAbnormal";
const NORMAL: &str = "VolumeConditionNormal";
const LIST: &str = "ListVolumes";
const GET: &str = "ControllerGetVolume";

/// An event of an earlier process, about `ns/c10`.
fn earlier(component: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "ns", "name": "earlier"},
        "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": "ns", "name": "c10", "uid": "uid-ns-c10"},
        "reason": ABNORMAL, "type": "Warning", "message": "gone", "count": 1,
        "source": {"component": component},
    })
}

fn of(stage: &Stage, reason: &str) -> Vec<Value> {
    let mut all = stage.api.objects("events");
    all.retain(|event| event["reason"] == reason && event["metadata"]["name"] != "earlier");
    all
}

#[tokio::test]
async fn h_60_to_63_and_70_users_are_told_of_each_change() {
    for (rpc, call) in [
        (ControllerRpc::ListVolumes, LIST),
        (ControllerRpc::GetVolume, GET),
    ] {
        let stage = Stage::older(rpc).await;
        stage.has(11, &["Degraded A"]);
        stage.condition("h10", true, "disk gone");
        let program = stage.started(&[]).await;
        stage.until_events(ABNORMAL, 1).await;
        let event = of(&stage, ABNORMAL).remove(0);
        assert_eq!(event["type"], "Warning", "H-60");
        assert_eq!(event["message"], "disk gone", "H-60");
        assert_eq!(
            event["source"]["component"],
            format!("csi-pv-monitor-controller-{DRIVER}"),
            "H-60"
        );
        assert_eq!(event["involvedObject"]["name"], "c10", "H-60");
        assert_eq!(event["involvedObject"]["uid"], "uid-ns-c10", "H-60");
        let calls = stage.calls(call);
        stage.until_calls(call, calls + 9).await;
        settle().await;
        let told = of(&stage, ABNORMAL);
        assert_eq!((told.len(), &told[0]["count"]), (1, &json!(1)), "H-61");
        stage.condition("h10", true, "worse");
        stage.until_events(ABNORMAL, 2).await;
        assert_eq!(stage.events(ABNORMAL).len(), 2, "H-62");
        stage.condition("h10", false, "");
        stage.until_events(NORMAL, 1).await;
        let calls = stage.calls(call);
        stage.until_calls(call, calls + 9).await;
        settle().await;
        let told = of(&stage, NORMAL);
        assert_eq!((told.len(), &told[0]["count"]), (1, &json!(1)), "H-63");
        assert_eq!(
            told[0]["message"], "The Volume returns to the healthy state",
            "H-63"
        );
        assert_eq!(told[0]["type"], "Normal", "H-63");
        assert!(stage.patches().is_empty(), "H-70");
        assert_eq!(stage.conditions(11), ["Degraded A"], "H-70");
        drop(program);
    }
}

#[tokio::test]
async fn h_46_and_60_each_claim_of_a_volume_is_told() {
    let stage = Stage::older(ControllerRpc::ListVolumes).await;
    stage.condition("h10", true, "gone");
    let _program = stage.started(&[]).await;
    stage.until_events(ABNORMAL, 1).await;
    stage.api.insert(volume("pv10b", "h10", "ns/c10b"));
    stage.api.insert(claim("ns/c10b", "pv10b"));
    stage.until_events(ABNORMAL, 2).await;
    stage.condition("h10", false, "");
    stage.until_events(NORMAL, 2).await;
    settle().await;
    for reason in [ABNORMAL, NORMAL] {
        let events = of(&stage, reason).into_iter();
        let mut about: Vec<Value> = events
            .map(|one| one["involvedObject"]["name"].clone())
            .collect();
        about.sort_by_key(|name| name.to_string());
        assert_eq!(about, ["c10", "c10b"], "{reason}");
    }
}

#[tokio::test]
async fn h_64_to_66_a_recovery_is_told_if_users_were_told_of_the_fault() {
    let ours = format!("csi-pv-monitor-controller-{DRIVER}");
    for (row, event, told) in [
        ("H-64", None, 0),
        ("H-65", Some(earlier(&ours)), 1),
        (
            "H-66",
            Some(earlier("csi-pv-monitor-controller-another")),
            0,
        ),
    ] {
        let stage = Stage::older(ControllerRpc::ListVolumes).await;
        event.into_iter().for_each(|event| {
            stage.api.insert(event);
        });
        let _program = stage.started(&[]).await;
        stage.until_calls(LIST, 4).await;
        stage.until_events(NORMAL, told).await;
        settle().await;
        assert_eq!(of(&stage, NORMAL).len(), told, "{row}");
        let lists = stage.api.requests_to("GET", "*/events");
        assert_eq!(lists.len(), 1, "{row}");
        assert_eq!(
            lists[0].query["fieldSelector"], "reason=VolumeConditionAbnormal,type=Warning",
            "{row}"
        );
    }
}

#[tokio::test]
async fn h_67_to_69_what_cannot_be_understood_tells_nothing() {
    use csi_proto::volume_condition::{ListVolumesResponse, list_volumes_response::Entry};
    let stage = Stage::older(ControllerRpc::ListVolumes).await;
    stage.condition("h10", true, "gone");
    let odd = ListVolumesResponse {
        entries: vec![Entry::default()],
        next_token: String::new(),
    };
    stage.driver.fault(CallFault::on(LIST).times(1).answer(odd));
    stage
        .driver
        .fault(CallFault::on(LIST).times(1).fail(Code::Internal, "no"));
    let mut program = stage.started(&["--list-volumes-interval=1s"]).await;
    program
        .logs("Failed to list the health of all volumes")
        .await;
    assert!(of(&stage, ABNORMAL).is_empty(), "H-67, H-68");
    stage.until_events(ABNORMAL, 1).await;
    assert!(program.is_running());
    let stage = Stage::older(ControllerRpc::GetVolume).await;
    stage.condition("h10", true, "gone");
    stage
        .driver
        .fault(CallFault::on(GET).volume("h11").fail(Code::Internal, "no"));
    let _program = stage.started(&[]).await;
    stage.until_events(ABNORMAL, 1).await;
    stage.until_calls(GET, 9).await;
    assert_eq!(
        of(&stage, ABNORMAL).len() + of(&stage, NORMAL).len(),
        1,
        "H-69"
    );
}

#[tokio::test]
async fn h_71_without_the_permission_there_is_one_error_line_and_work_goes_on() {
    let stage = Stage::older(ControllerRpc::ListVolumes).await;
    stage.api.fault(events_forbidden());
    let list = stage.api.fault(Fault::on("GET", "*/events").answer(403));
    stage.condition("h10", true, "gone");
    let mut program = stage.started(&[]).await;
    program.logs("Server rejected event").await;
    stage.condition("h11", true, "gone");
    stage.until_calls(LIST, 6).await;
    settle().await;
    assert!(program.is_running());
    assert_eq!(list.hits(), 1);
    let log = program.log();
    let errors: Vec<&str> = { log.lines() }
        .filter(|line| line.starts_with('E'))
        .collect();
    assert_eq!(errors.len(), 1, "{log}");
    assert!(errors[0].contains("Server rejected event"), "{log}");
}
