//! Metrics, events and logs: rows CB-55 to CB-58.

use csi_proto::snapshot_metadata::GetMetadataAllocatedRequest;
use sidecar_testkit::api::access::Allow;
use tonic::Code;

use crate::stage::{
    CLASSES, CONTENTS, DRIVER, SNAPSHOTS, Stage, TOKEN, class, delta, get, request, secret, until,
    until_answer,
};

const FAMILY: &str = "snapshot_metadata_controller_operations_seconds_count";

fn sample(method: &str, code: &str, target: &str, base: &str) -> String {
    format!(
        "{FAMILY}{{base_snapshot=\"{base}\",driver_name=\"{DRIVER}\",grpc_status_code=\"{code}\",\
         method_name=\"{method}\",target_snapshot=\"{target}\"}} 1"
    )
}

async fn one_of_each(stage: &Stage, running: &crate::stage::Running) {
    assert!(running.allocated(request()).await.1.is_ok());
    let mut client = running.client().await;
    let mut stream = client
        .get_metadata_delta(delta())
        .await
        .unwrap()
        .into_inner();
    while stream.message().await.unwrap().is_some() {}
    let unknown = GetMetadataAllocatedRequest {
        security_token: "xx".to_owned(),
        snapshot_name: "secret-plans".to_owned(),
        ..request()
    };
    assert_eq!(running.refused(unknown).await.0, Code::Unauthenticated);
    assert_eq!(stage.driver.calls_to("GetMetadataDelta").len(), 1);
}

#[tokio::test]
async fn cb_55_metrics() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    one_of_each(&stage, &running).await;
    let mut text = String::new();
    for expected in [
        sample("MetadataAllocated", "OK", "", ""),
        sample("MetadataDelta", "OK", "", ""),
        sample("MetadataAllocated", "Unauthenticated", "", ""),
        "method_name=\"/csi.v1.Identity/Probe\"".to_owned(),
        "csi_snapshot_metadata_streams 0".to_owned(),
        "csi_snapshot_metadata_messages_total 6".to_owned(),
        "csi_snapshot_metadata_ranges_total 1536".to_owned(),
        "csi_snapshot_metadata_refused_total{reason=\"unauthenticated\"} 1".to_owned(),
        "process_start_time_seconds".to_owned(),
    ] {
        // A call counts after its client has the status.
        text = until_answer(&running.http, "/metrics", 200, &expected).await;
    }
    let line = { text.lines() }.find(|line| line.starts_with("csi_snapshot_metadata_certificate"));
    let seconds: f64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(seconds > 1e9, "{seconds}");
}

#[tokio::test]
async fn cb_55_metrics_with_the_labels_of_snapshots() {
    let stage = Stage::new().await;
    let running = stage.started(&["--metrics-snapshot-labels"]).await;
    one_of_each(&stage, &running).await;
    let mut text = String::new();
    for expected in [
        sample("MetadataAllocated", "OK", "default/s1", ""),
        sample("MetadataDelta", "OK", "default/s1", "snap-0"),
        sample("MetadataAllocated", "Unauthenticated", "", ""),
    ] {
        text = until_answer(&running.http, "/metrics", 200, &expected).await;
    }
    // Calls of unauthenticated clients make no series.
    assert!(!text.contains("secret-plans"), "{text}");
}

#[tokio::test]
async fn cb_56_without_metrics() {
    let stage = Stage::new().await;
    let running = stage.started(&["--disable-metrics"]).await;
    assert_eq!(get(&running.http, "/metrics").await.0, 404);
    assert_eq!(get(&running.http, "/health").await, (200, "ok".to_owned()));
    let running = stage.started(&["--metrics-path=/m"]).await;
    assert_eq!(get(&running.http, "/m").await.0, 200);
}

#[tokio::test]
async fn cb_57_upstream_s_role_lacks_rules() {
    let stage = Stage::new().await;
    stage.api.allow_only([
        Allow::new(
            "cbt.storage.k8s.io",
            "snapshotmetadataservices",
            "get,list,watch",
        ),
        Allow::new("authentication.k8s.io", "tokenreviews", "create,get"),
        Allow::new("authorization.k8s.io", "subjectaccessreviews", "create,get"),
        Allow::new("snapshot.storage.k8s.io", SNAPSHOTS, "get,list"),
        Allow::new("snapshot.storage.k8s.io", CONTENTS, "get,list"),
    ]);
    let running = stage.started(&[]).await;
    let rule = "- {apiGroups: [\"snapshot.storage.k8s.io\"], resources: [\"volumesnapshotclasses\"], \
                verbs: [\"get\", \"list\"]}";
    running.process.says(&rule.replace('"', "\\\"")).await;
    let (code, text) = running.refused(request()).await;
    assert_eq!(code, Code::Unavailable);
    assert!(
        text.starts_with("failed to get VolumeSnapshotClass 'c1': "),
        "{text}"
    );
    assert!(text.contains("forbidden"), "{text}");
}

#[tokio::test]
async fn cb_58_neither_tokens_nor_secrets_are_logged() {
    let stage = Stage::new().await;
    stage.api.insert(secret("sec-s1"));
    let named = serde_json::json!({
        "csi.storage.k8s.io/snapshotter-secret-name": "sec-${volumesnapshot.name}",
        "csi.storage.k8s.io/snapshotter-secret-namespace": "default",
    });
    stage.api.remove(CLASSES, "c1");
    stage.api.insert(class("c1", DRIVER, false, &named));
    let running = stage.started(&["-v=5"]).await;
    assert!(running.allocated(request()).await.1.is_ok());
    let missing = GetMetadataAllocatedRequest {
        snapshot_name: "missing".to_owned(),
        ..request()
    };
    assert_eq!(running.refused(missing).await.0, Code::NotFound);
    let unknown = GetMetadataAllocatedRequest {
        security_token: "another-token".to_owned(),
        ..request()
    };
    assert_eq!(running.refused(unknown).await.0, Code::Unauthenticated);
    until("two lines", async || {
        running.process.log().matches("\"Call failed\"").count() >= 2
    })
    .await;
    let log = running.process.log();
    for text in [TOKEN, "another-token", "hunter2", "aHVudGVyMg"] {
        assert!(!log.contains(text), "{text} in\n{log}");
    }
    // A failed call is logged in one line that names the call.
    let failures: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("\"Call failed\""))
        .collect();
    assert_eq!(failures.len(), 2, "{log}");
    for word in [
        "op=\"GetMetadataAllocated-1\"",
        "namespace=\"default\"",
        "snapshot=\"missing\"",
    ] {
        assert!(failures[0].contains(word), "no {word} in {}", failures[0]);
    }
}
