//! Rows 74 to 83: failures, retries, and concurrent calls.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::api::fault::Gate;
use sidecar_testkit::build;
use sidecar_testkit::driver::record::Call;
use sidecar_testkit::{CallFault, Fault};
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::stage::{DRIVER, Stage, settle};

const PUBLISH: &str = "ControllerPublishVolume";

fn starts(stage: &Stage, method: &str) -> Vec<Instant> {
    let calls = stage.driver.calls_to(method);
    calls.iter().map(|call| call.started).collect()
}

/// The most calls that ran at the same time.
fn most_at_once(calls: &[Call]) -> usize {
    let beside = |call: &Call| {
        let runs = |other: &&Call| {
            other.started <= call.started && other.ended.is_none_or(|ended| ended > call.started)
        };
        calls.iter().filter(runs).count()
    };
    calls.iter().map(beside).max().unwrap_or_default()
}

fn gaps(starts: &[Instant]) -> Vec<f64> {
    starts
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs_f64())
        .collect()
}

#[tokio::test]
async fn rows_74_76_77_79_errors_on_the_object() {
    let stage = Stage::new().await;
    let fault = |code, text| CallFault::on(PUBLISH).fail(code, text);
    let first = stage
        .driver
        .fault(fault(Code::ResourceExhausted, "too many"));
    stage.volume("pv2", None);
    let attacher = stage.start(&["--retry-interval-start=5m", "--timeout=2s"]);
    attacher.logs("Starting CSI attacher").await;
    stage.attach("va1", "pv1");
    stage.until_error("va1", "attachError").await;
    let object = stage.attachment("va1");
    let error = &object["status"]["attachError"];
    assert_eq!(
        error["message"], "rpc error: code = ResourceExhausted desc = too many",
        "row 74"
    );
    assert_eq!(error["errorCode"], 8, "row 74");
    assert!(!object["metadata"]["finalizers"].is_null(), "row 74");
    // No second call may come meanwhile.
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(
        starts(&stage, PUBLISH).len(),
        1,
        "row 79: its own patch is no reason to retry"
    );
    first.remove();

    stage
        .driver
        .fault(CallFault::on(PUBLISH).volume("h-pv2").hang());
    stage.attach("va2", "pv2");
    stage.until_error("va2", "attachError").await;
    let error = stage.attachment("va2")["status"]["attachError"].clone();
    let text = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";
    assert_eq!(
        (error["message"].as_str(), &error["errorCode"]),
        (Some(text), &json!(4)),
        "row 76"
    );

    let stage = Stage::new().await;
    stage.driver.fault(fault(Code::Internal, "boom"));
    let _attacher = stage.start(&["--feature-gates=MutableCSINodeAllocatableCount=false"]);
    stage.attach("va1", "pv1");
    stage.until_error("va1", "attachError").await;
    let error = stage.attachment("va1")["status"]["attachError"].clone();
    assert_eq!(
        error["message"], "rpc error: code = Internal desc = boom",
        "row 77"
    );
    assert!(error["errorCode"].is_null(), "row 77");
}

#[tokio::test]
async fn row_80_a_status_that_cannot_be_written() {
    let stage = Stage::new().await;
    let status = Fault::on("PATCH", "*/volumeattachments/va1/status");
    stage.api.fault(status.answer(403).times(2));
    let _attacher = stage.start(&["--retry-interval-start=200ms"]);
    stage.attach("va1", "pv1");
    stage.until_attached("va1").await;
    let trace = stage.trace();
    assert_eq!(starts(&stage, PUBLISH).len(), 3, "{trace:#?}");
    assert_eq!(
        trace.iter().filter(|line| line.starts_with("st ")).count(),
        3,
        "{trace:#?}"
    );
    assert!(
        !trace.iter().any(|line| line.contains("attachError")),
        "{trace:#?}"
    );
}

/// The log shows the chosen back-off; the calls show that the program waited for it. A busy machine
/// makes pauses longer, nothing makes them shorter.
#[tokio::test]
async fn row_81_back_off_doubles_up_to_its_cap() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(PUBLISH).fail(Code::Internal, "no"));
    let attacher = stage.start(&["--retry-interval-start=500ms", "--retry-interval-max=2s"]);
    stage.attach("va1", "pv1");
    stage.until_calls(PUBLISH, 6).await;
    let log = attacher.log();
    let decided: Vec<&str> = { log.split("retry_after=").skip(1) }
        .map(|rest| rest.split_whitespace().next().unwrap().trim_matches('"'))
        .collect();
    assert_eq!(decided[..5], ["500ms", "1s", "2s", "2s", "2s"], "{log}");
    let gaps = gaps(&starts(&stage, PUBLISH));
    for (gap, expected) in gaps.iter().zip([0.5, 1.0, 2.0, 2.0, 2.0]) {
        assert!(*gap >= expected, "{gaps:?}");
    }
}

#[tokio::test]
async fn row_82_a_resync_retries_what_waits() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(PUBLISH).fail(Code::Internal, "no"));
    let _attacher = stage.start(&["--resync=2s", "--retry-interval-start=5m"]);
    let begun = Instant::now();
    stage.attach("va1", "pv1");
    stage.until_calls(PUBLISH, 4).await;
    // The first resync may come at once, the next two come after two seconds each.
    let two_rounds = (starts(&stage, PUBLISH)[3] - begun).as_secs_f64();
    assert!(two_rounds > 3.9, "{two_rounds}");
}

#[tokio::test]
async fn row_83_ten_at_once_and_four_more() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on(PUBLISH).hold(&gate));
    for index in 0..14 {
        stage.volume(&format!("pv-{index}"), None);
        stage.attach(&format!("va-{index}"), &format!("pv-{index}"));
    }
    let _attacher = stage.start(&["--timeout=5m"]);
    stage.until_calls(PUBLISH, 10).await;
    settle().await;
    assert_eq!(stage.driver.calls_to(PUBLISH).len(), 10);
    gate.open();
    for index in 0..14 {
        stage.until_attached(&format!("va-{index}")).await;
    }
    assert_eq!(stage.driver.calls_to(PUBLISH).len(), 14);
    assert_eq!(stage.driver.peak(PUBLISH), 10);
}

/// With this burst alone the rate would be five requests a second.
#[tokio::test]
async fn row_139_no_limit_for_requests() {
    const MANY: usize = 100;
    let stage = Stage::new().await;
    for index in 0..MANY {
        stage.volume(&format!("pv-{index}"), None);
        stage.attach(&format!("va-{index}"), &format!("pv-{index}"));
    }
    let _attacher = stage.start(&["--kube-api-qps=-1", "--kube-api-burst=1"]);
    for index in 0..MANY {
        stage.until_attached(&format!("va-{index}")).await;
    }
    let writes = stage.api.writes();
    assert_eq!(writes.len(), 3 * MANY);
    let took = (writes[3 * MANY - 1].at - writes[0].at).as_secs_f64();
    // A minute; it takes a second or two.
    assert!(took < 299.0 / 5.0, "{took}");
}

#[tokio::test]
async fn one_worker_thread_is_one_call_at_a_time() {
    let stage = Stage::new().await;
    let slow = Duration::from_millis(150);
    stage
        .driver
        .fault(CallFault::on("Controller*Volume").delay(slow));
    for index in 0..3 {
        stage.volume(&format!("pv-{index}"), None);
        stage.attach(&format!("va-{index}"), &format!("pv-{index}"));
        stage.volume(&format!("old-{index}"), None);
        stage.attached(&format!("gone-{index}"), &format!("old-{index}"));
        stage
            .api
            .delete("volumeattachments", &format!("gone-{index}"));
    }
    let _attacher = stage.start(&["--worker-threads=1"]);
    for index in 0..3 {
        stage.until_attached(&format!("va-{index}")).await;
        stage.until_gone(&format!("gone-{index}")).await;
    }
    let mut calls = stage.driver.calls();
    calls.retain(|call| call.method.ends_with("ublishVolume"));
    assert_eq!(calls.len(), 6, "{calls:?}");
    for pair in calls.windows(2) {
        assert!(pair[0].ended.unwrap() <= pair[1].started, "{pair:?}");
    }
}

/// A driver whose calls take 8 s is slow, but does not hang: whatever a call takes, the storage
/// system sees at most `--worker-threads` of them.
#[tokio::test]
async fn fs_1_worker_threads_cap_what_the_storage_sees() {
    let stage = Stage::new().await;
    let slow = Duration::from_secs(8);
    let calls = "Controller*Volume";
    stage.driver.fault(CallFault::on(calls).delay(slow));
    let node = |index: usize| format!("n{}", index % 7);
    for index in 0..7 {
        let id = node(index);
        stage.api.insert(build::csinode(&id).driver(DRIVER, &id));
    }
    stage
        .driver
        .configure(|model| model.node_id = String::new());
    for index in 0..15 {
        stage.volume(&format!("pv-{index}"), None);
        stage.volume(&format!("old-{index}"), None);
        stage.attached(&format!("gone-{index}"), &format!("old-{index}"));
        let gone = format!("gone-{index}");
        stage.api.delete("volumeattachments", &gone);
        let attachment = build::attachment(&format!("va-{index}")).by(DRIVER);
        let attachment = attachment.on(&node(index));
        stage.api.insert(attachment.of(&format!("pv-{index}")));
    }
    let _attacher = stage.start(&["--timeout=5m"]);
    for index in 0..15 {
        stage.until_attached(&format!("va-{index}")).await;
        stage.until_gone(&format!("gone-{index}")).await;
    }
    let mut calls = stage.driver.calls();
    calls.retain(|call| call.method.ends_with("ublishVolume"));
    assert_eq!(most_at_once(&calls), 10);
}

/// No attach waits for one of many detaches to end. `plan::fairness` measures the delay of a burst in
/// virtual time, `lanes` in real time.
#[tokio::test]
async fn a_burst_of_slow_detaches_does_not_starve_attaches() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    let unpublish = "ControllerUnpublishVolume";
    stage.driver.fault(CallFault::on(unpublish).hold(&gate));
    for index in 0..60 {
        stage.volume(&format!("old-{index}"), None);
        stage.attached(&format!("gone-{index}"), &format!("old-{index}"));
        stage
            .api
            .delete("volumeattachments", &format!("gone-{index}"));
    }
    for index in 0..20 {
        stage.volume(&format!("pv-{index}"), None);
    }
    let attacher = stage.start(&["--timeout=5m"]);
    attacher.logs("Starting CSI attacher").await;
    stage.until_calls(unpublish, 8).await;
    for index in 0..20 {
        stage.attach(&format!("va-{index}"), &format!("pv-{index}"));
    }
    for index in 0..20 {
        stage.until_attached(&format!("va-{index}")).await;
    }
    let calls = stage.driver.calls_to(unpublish);
    assert!(
        calls.iter().all(Call::is_running),
        "no detach has ended: {calls:?}"
    );
    assert_eq!(
        calls.len(),
        8,
        "a fifth of --worker-threads is for attaches"
    );
    gate.open();
    for index in 0..60 {
        stage.until_gone(&format!("gone-{index}")).await;
    }
}

/// Once the program knows that a node's calls hang, it keeps half of the workers for others.
#[tokio::test]
async fn a_node_whose_calls_hang_holds_up_others_once_at_most() {
    let stage = Stage::new().await;
    stage
        .api
        .insert(build::csinode("bad").driver(DRIVER, "BAD"));
    stage
        .driver
        .fault(CallFault::on(PUBLISH).node("BAD").hang());
    for index in 0..25 {
        stage.volume(&format!("bad-{index}"), None);
        let attachment = build::attachment(&format!("bad-{index}"))
            .by(DRIVER)
            .on("bad");
        stage.api.insert(attachment.of(&format!("bad-{index}")));
    }
    for index in 0..5 {
        stage.volume(&format!("pv-{index}"), None);
    }
    let timeout = Duration::from_secs(10);
    let attacher = stage.start(&["--timeout=10s"]);
    attacher.logs("Starting CSI attacher").await;
    // Ten time out; only five of the next ones begin.
    stage.until_calls(PUBLISH, 13).await;
    for index in 0..5 {
        stage.attach(&format!("va-{index}"), &format!("pv-{index}"));
    }
    for index in 0..5 {
        stage.until_attached(&format!("va-{index}")).await;
    }
    let mut calls = stage.driver.calls_to(PUBLISH);
    let attached = calls.iter().filter(|call| call.node() == "NID1");
    let attached = attached.map(|call| call.started).max().unwrap();
    calls.retain(|call| call.node() == "BAD" && call.started < attached);
    // The driver may learn of an expired deadline after its client.
    for call in &mut calls {
        let expires = call.started + timeout;
        call.ended = Some(call.ended.map_or(expires, |ended| ended.min(expires)));
    }
    let first = calls.drain(..10).filter_map(|call| call.ended).max();
    calls.retain(|call| Some(call.started) > first);
    assert!(most_at_once(&calls) <= 5, "{calls:#?}");
}

#[tokio::test]
async fn what_may_have_been_written_is_read_before_anything_is_done() {
    let stage = Stage::new().await;
    stage.volume("pv2", None);
    let status = Fault::on("PATCH", "*/volumeattachments/va1/status");
    stage.api.fault(status.lose_reply().times(1));
    let attacher = stage.start(&["--retry-interval-start=300ms"]);
    attacher.logs("Starting CSI attacher").await;
    stage.attach("va1", "pv2");
    stage.until_api(|api| !api.writes().is_empty()).await;
    stage.api.hold_watches("volumeattachments");
    stage.until_attached("va1").await;
    stage
        .until_written("GET", "*/volumeattachments/va1", 1)
        .await;
    stage.api.release_watches("volumeattachments");
    settle().await;
    assert_eq!(starts(&stage, PUBLISH).len(), 1, "{:#?}", stage.trace());
}

#[tokio::test]
async fn lasting_failures_are_events_on_the_volume() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(PUBLISH).fail(Code::Internal, "boom"));
    let _attacher = stage.start(&["--retry-interval-start=100ms", "--retry-interval-max=300ms"]);
    stage.attach("va1", "pv1");
    stage
        .until_api(|api| !api.objects("events").is_empty())
        .await;
    let event = stage.api.objects("events").remove(0);
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("FailedAttachVolume"))
    );
    assert_eq!(event["involvedObject"]["kind"], "PersistentVolume");
    assert_eq!(event["involvedObject"]["name"], "pv1");
    let uid = stage.api.object("persistentvolumes", "pv1").unwrap()["metadata"]["uid"].clone();
    assert_eq!(event["involvedObject"]["uid"], uid);
    let message = event["message"].as_str().unwrap();
    assert!(
        message.contains("node1") && message.contains("boom"),
        "{message}"
    );
    // Further events would come meanwhile.
    sleep(Duration::from_secs(2)).await;
    let posts = stage.api.requests_to("POST", "*/events").len();
    assert!(posts <= 2, "{posts} events for one failure");
}

#[tokio::test]
async fn a_detach_that_keeps_failing_is_an_event_too() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    let fault = CallFault::on("ControllerUnpublishVolume");
    stage.driver.fault(fault.fail(Code::Internal, "boom"));
    let attacher = stage.start(&["--retry-interval-start=100ms", "--retry-interval-max=300ms"]);
    attacher.logs("Starting CSI attacher").await;
    stage.api.delete("volumeattachments", "va1");
    stage
        .until_api(|api| !api.objects("events").is_empty())
        .await;
    let event = stage.api.objects("events").remove(0);
    assert_eq!(event["reason"], "FailedDetachVolume");
    assert_eq!(event["involvedObject"]["name"], "pv1");
}

#[tokio::test]
async fn without_permission_for_events_nothing_is_said() {
    use sidecar_testkit::api::access::Allow;
    let stage = Stage::new().await;
    stage.api.allow_only([
        Allow::new(
            "storage.k8s.io",
            "volumeattachments",
            "get,list,watch,patch",
        ),
        Allow::new("storage.k8s.io", "volumeattachments/status", "patch"),
        Allow::new("storage.k8s.io", "csinodes", "get,list,watch"),
        Allow::new("", "persistentvolumes", "get,list,watch,patch"),
    ]);
    stage
        .driver
        .fault(CallFault::on(PUBLISH).fail(Code::Internal, "boom"));
    let attacher = stage.start(&["--retry-interval-start=100ms", "--retry-interval-max=200ms"]);
    stage.attach("va1", "pv1");
    stage.until_calls(PUBLISH, 6).await;
    assert!(stage.api.requests_to("POST", "*/events").is_empty());
    assert!(!attacher.log().contains("events"), "{}", attacher.log());
    // The line about the start-up contains these numbers as well.
    let log = attacher.log();
    let mut others = log.lines().filter(|line| !line.contains("Ready to work"));
    assert!(!others.any(|line| line.contains("permission")), "{log}");
}
