//! How long users wait, for service levels: rows of `docs/spec/observability.md`.

use serde_json::Value;
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};
use tonic::Code;

use super::stage::{DRIVER, PROGRAM, Stage, free_address, until_metrics};

/// The time `seconds` ago, as the API server writes it.
fn ago(seconds: i64) -> Value {
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

/// The only sample of the stage took at most two minutes, and more than half of one.
fn took(text: &str, stage: &str) {
    let labels = format!("class=\"\",driver_name=\"{DRIVER}\",stage=\"{stage}\"");
    for (bound, samples) in [(30, 0), (120, 1)] {
        let line =
            format!("csi_sidecar_lifecycle_seconds_bucket{{{labels},le=\"{bound}\"}} {samples}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}

#[tokio::test]
async fn o_87_attach_and_detach_count_from_the_objects_times_through_a_restart() {
    let stage = Stage::new().await;
    let refused = CallFault::on("ControllerPublishVolume").fail(Code::Internal, "no");
    stage.driver.fault(refused);
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let arguments = [&*endpoint, "--retry-interval-start=100ms"];
    let first = stage.start(&arguments);
    first.logs(PROGRAM.ready).await;
    let attachment = build::attachment("va1").by(DRIVER).on("node1").of("pv1");
    let created = attachment.with("/metadata/creationTimestamp", ago(40));
    stage.api.insert(created);
    stage.until_calls("ControllerPublishVolume", 1).await;
    let open = "csi_sidecar_lifecycle_unfinished{stage=\"attached\"} 1\n";
    until_metrics(&address, open).await;
    first.kill().await;
    stage.driver.clear_faults();

    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _second = stage.start(&[&endpoint]);
    stage.until_attached("va1").await;
    let count = |name: &str| {
        format!(
            "csi_sidecar_lifecycle_seconds_count{{class=\"\",driver_name=\"{DRIVER}\",stage=\"{name}\"}} 1\n"
        )
    };
    let text = until_metrics(&address, &count("attached")).await;
    took(&text, "attached");
    stage.api.delete("volumeattachments", "va1");
    let text = until_metrics(&address, &count("detached")).await;
    let none = "csi_sidecar_lifecycle_unfinished{stage=\"detached\"} 0\n";
    assert!(text.contains(none), "{text}");
}
