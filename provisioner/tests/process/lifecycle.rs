//! How long users wait, for service levels: rows of `docs/spec/observability.md`.

use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::build::Object;
use sidecar_testkit::controller::until_metrics;
use tonic::Code;

use super::stage::{
    DRIVER, ELECTION, PV, READY, Running, Stage, U, claim, free_address, get, settle,
};

const CREATE: &str = "CreateVolume";

/// So many seconds ago, as the API server writes it.
fn ago(seconds: i64) -> Value {
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

fn count(stage: &str, samples: u32) -> String {
    format!(
        "csi_sidecar_lifecycle_seconds_count{{class=\"sc1\",driver_name=\"{DRIVER}\",stage=\"{stage}\"}} {samples}\n"
    )
}

/// The only sample of the stage took at most `most` seconds, and more than `least`.
fn took(text: &str, stage: &str, least: u32, most: u32) {
    let labels = format!("class=\"sc1\",driver_name=\"{DRIVER}\",stage=\"{stage}\"");
    for (bound, samples) in [(least, 0), (most, 1)] {
        let line =
            format!("csi_sidecar_lifecycle_seconds_bucket{{{labels},le=\"{bound}\"}} {samples}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}

async fn start(stage: &Stage, more: &[&str]) -> (Running, String) {
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let running = stage.start(&[&[&*endpoint], more].concat());
    running.logs(READY).await;
    (running, address)
}

#[tokio::test]
async fn o_80_and_o_81_attempts_and_a_successor_are_one_sample_from_the_claims_creation() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(CREATE).fail(Code::Internal, "no").times(2));
    stage
        .driver
        .fault(CallFault::on(CREATE).lose_reply().times(1));
    let retry = "--retry-interval-start=50ms";
    let (first, address) = start(&stage, &[retry]).await;
    let created = claim().with("/metadata/creationTimestamp", ago(40));
    stage.api.insert(created);
    stage.until_calls(CREATE, 3).await;
    let open = "csi_sidecar_lifecycle_unfinished{stage=\"provisioned\"} 1\n";
    let text = until_metrics(&address, open).await;
    let oldest = "csi_sidecar_lifecycle_oldest_unfinished_seconds{stage=\"provisioned\"} ";
    let age = text.lines().find_map(|line| line.strip_prefix(oldest));
    let age: f64 = age.unwrap().parse().unwrap();
    assert!((40.0..400.0).contains(&age), "{text}");
    first.kill().await;

    let (_second, address) = start(&stage, &[retry]).await;
    stage.until_volume(PV).await;
    let text = until_metrics(&address, &count("provisioned", 1)).await;
    took(&text, "provisioned", 30, 120);
    assert!(!text.contains(&count("bound", 1)), "{text}");
    stage.bind("ns1/c1", PV);
    let text = until_metrics(&address, &count("bound", 1)).await;
    took(&text, "bound", 30, 120);
    // Whatever else happens to the two.
    stage.api.edit("persistentvolumes", PV, |volume| {
        volume["metadata"]["labels"] = json!({ "a": "b" });
    });
    settle().await;
    let (_, text) = get(&address, "/metrics").await;
    assert!(text.contains(&count("provisioned", 1)), "{text}");
    assert!(text.contains(&count("bound", 1)), "{text}");
    assert!(text.contains("csi_sidecar_lifecycle_unfinished{stage=\"bound\"} 0\n"));
}

/// A lease that its holder has given back so many seconds ago.
fn released(seconds: i64) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": DRIVER, "namespace": "csi" },
        "spec": {
            "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1,
            "acquireTime": ago(500), "renewTime": ago(seconds),
        },
    })
}

#[tokio::test]
async fn o_82_and_o_83_what_was_bound_while_nobody_led_is_counted_by_the_next_leader_alone() {
    let stage = Stage::new().await;
    stage.api.insert(released(60));
    let bound = claim().with("/metadata/creationTimestamp", ago(50));
    stage.api.insert(bound);
    stage.api.insert(
        super::stage::released(PV)
            .with("/spec/claimRef/uid", json!(U))
            .with("/metadata/creationTimestamp", ago(30)),
    );
    stage.bind("ns1/c1", PV);
    stage.api.edit("persistentvolumes", PV, |volume| {
        volume["status"]["lastPhaseTransitionTime"] = ago(25);
    });
    let (first, address) = start(&stage, &ELECTION).await;
    let text = until_metrics(&address, &count("bound", 1)).await;
    took(&text, "bound", 15, 30);
    took(&text, "provisioned", 15, 30);
    // It gives the lease back: what its successor finds was counted.
    first.terminated().await.well();
    let (_second, address) = start(&stage, &ELECTION).await;
    settle().await;
    let (_, text) = get(&address, "/metrics").await;
    assert!(!text.contains("csi_sidecar_lifecycle_seconds"), "{text}");
    assert!(text.contains("csi_sidecar_clock_skew_seconds "), "{text}");
}

#[tokio::test]
async fn o_84_a_pod_that_came_late_is_not_waited_for() {
    let stage = Stage::new().await;
    let (_running, address) = start(&stage, &[]).await;
    let waits = super::stage::class().with("/volumeBindingMode", json!("WaitForFirstConsumer"));
    stage.api.insert(waits);
    let created = claim().with("/metadata/creationTimestamp", ago(86_400));
    stage.api.insert(created);
    // A claim that had its node when the program first saw it counts from its creation.
    let waiting = "csi_sidecar_lifecycle_unfinished{stage=\"provisioned\"} 1\n";
    until_metrics(&address, waiting).await;
    let node = "volume.kubernetes.io/selected-node";
    stage.api.edit("persistentvolumeclaims", "ns1/c1", |claim| {
        claim["metadata"]["annotations"][node] = json!("n1");
    });
    stage.until_volume(PV).await;
    let text = until_metrics(&address, &count("provisioned", 1)).await;
    let quick = format!(
        "csi_sidecar_lifecycle_seconds_bucket{{class=\"sc1\",driver_name=\"{DRIVER}\",stage=\"provisioned\",le=\"60\"}} 1\n"
    );
    assert!(text.contains(&quick), "{text}");
    stage.bind("ns1/c1", PV);
    settle().await;
    let (_, text) = get(&address, "/metrics").await;
    assert!(!text.contains(&count("bound", 1)), "{text}");
}

#[tokio::test]
async fn o_85_and_o_86_a_claim_that_cannot_be_provisioned_ages_until_it_goes() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(CREATE).fail(Code::InvalidArgument, "no"));
    let (_running, address) = start(&stage, &[]).await;
    let created = claim().with("/metadata/creationTimestamp", ago(3600));
    stage.api.insert(created);
    stage.until_calls(CREATE, 1).await;
    let oldest = "csi_sidecar_lifecycle_oldest_unfinished_seconds{stage=\"bound\"} 36";
    until_metrics(&address, oldest).await;
    stage.api.delete("persistentvolumeclaims", "ns1/c1");
    let none = "csi_sidecar_lifecycle_unfinished{stage=\"provisioned\"} 0\n";
    let text = until_metrics(&address, none).await;
    assert!(text.contains("csi_sidecar_lifecycle_unfinished{stage=\"bound\"} 0\n"));
    assert!(!text.contains("csi_sidecar_lifecycle_seconds"), "{text}");
}

#[tokio::test]
async fn o_80_a_deletion_takes_from_the_release_to_the_end() {
    let stage = Stage::new().await;
    let (_running, address) = start(&stage, &[]).await;
    let released = super::stage::released("pv1");
    stage
        .api
        .insert(released.with("/status/lastPhaseTransitionTime", ago(40)));
    // Others' finalizers hold the object still.
    let text = until_metrics(&address, &count("deleted", 1)).await;
    took(&text, "deleted", 30, 120);
}
