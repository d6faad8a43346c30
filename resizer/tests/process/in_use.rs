//! Z-90 to Z-95: drivers that expand unused volumes only.

use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use tonic::Code;

use super::stage::{EXPAND, NEVER_AGAIN, QUICK, Stage, settle};

fn pod(namespace: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": "p1"},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c1"}}]},
        "status": {"phase": phase},
    })
}

/// A stage whose driver refuses the first call.
async fn refusing(pod: Value) -> Stage {
    let stage = Stage::new().await;
    stage.driver.fault(
        CallFault::on(EXPAND)
            .fail(Code::FailedPrecondition, "in use")
            .times(1),
    );
    stage.api.insert(pod);
    stage
}

const BLOCKED: &str = "Unable to expand ns/c1 because CSI driver test.csi.driver only supports offline expansion and volume is currently in-use";

#[tokio::test]
async fn z_90_and_91_the_driver_is_left_alone_until_the_pod_is_gone() {
    for deleted in [true, false] {
        let stage = refusing(pod("ns", "Running")).await;
        // The retry after the first one, which finds the volume in use, comes 40 s later.
        let _program = stage.started(&["--retry-interval-start=20s"]).await;
        stage.grow("2Gi");
        stage
            .until("blocked", |stage| {
                stage
                    .events("VolumeResizeFailed")
                    .iter()
                    .any(|text| text == BLOCKED)
            })
            .await;
        assert_eq!(stage.calls(EXPAND), 1, "Z-90");
        let before = tokio::time::Instant::now();
        if deleted {
            stage.api.delete("pods", "ns/p1")
        } else {
            stage.api.insert(pod("ns", "Succeeded"));
        }
        stage.until_capacity("2Gi").await;
        assert!(
            before.elapsed().as_secs_f64() < 30.0,
            "Z-91, Q7: {:?}",
            before.elapsed()
        );
        assert_eq!(stage.calls(EXPAND), 2, "Z-91");
    }
}

#[tokio::test]
async fn z_90_fr_16_each_retry_tells_that_the_volume_is_in_use() {
    let stage = refusing(pod("ns", "Running")).await;
    let _program = stage.started(&["--retry-interval-start=300ms"]).await;
    stage.grow("2Gi");
    let times = |stage: &Stage| {
        let all = stage.api.objects("events");
        let blocked = all.iter().find(|event| event["message"] == BLOCKED);
        blocked.map_or(0, |event| event["count"].as_u64().unwrap_or(1))
    };
    stage.until("blocked", |stage| times(stage) >= 3).await;
    assert_eq!((stage.calls(EXPAND), stage.capacity()), (1, json!("1Gi")));
    assert_eq!(
        (
            stage.state(),
            stage.conditions().contains(&"Resizing".to_owned())
        ),
        ("CRIP", true)
    );
}

#[tokio::test]
async fn z_92_and_93_pods_that_do_not_use_it() {
    for (row, pod) in [
        ("Z-92", pod("ns", "Succeeded")),
        ("Z-93", pod("other", "Running")),
    ] {
        let stage = refusing(pod).await;
        let _program = stage.started(&[QUICK]).await;
        stage.grow("2Gi");
        stage.until_capacity("2Gi").await;
        assert_eq!(stage.calls(EXPAND), 2, "{row}");
        assert!(
            !stage
                .events("VolumeResizeFailed")
                .contains(&BLOCKED.to_owned()),
            "{row}"
        );
    }
}

#[tokio::test]
async fn z_94_without_looking_at_pods() {
    let stage = refusing(pod("ns", "Running")).await;
    let _program = stage
        .started(&[QUICK, "--handle-volume-inuse-error=false"])
        .await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    assert_eq!(stage.calls(EXPAND), 2);
    assert!(
        !stage
            .events("VolumeResizeFailed")
            .contains(&BLOCKED.to_owned())
    );
}

#[tokio::test]
async fn z_95_online() {
    let stage = Stage::new().await;
    stage.api.insert(pod("ns", "Running"));
    let _program = stage.started(&[NEVER_AGAIN]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    assert_eq!(stage.calls(EXPAND), 1);
}

#[tokio::test]
async fn q_19_a_blocked_attempt_does_not_write_for_the_sake_of_a_time() {
    let stage = refusing(pod("ns", "Running")).await;
    let _program = stage.started(&["--retry-interval-start=300ms"]).await;
    stage.grow("2Gi");
    stage
        .until("blocked twice", |stage| {
            stage.events_of("VolumeResizeFailed") >= 3
        })
        .await;
    settle().await;
    let empty = stage
        .trace()
        .iter()
        .any(|entry| entry == "cs(rv) {}" || entry == "cs {}");
    assert!(!empty, "{:?}", stage.trace());
}
