//! How long users wait, for service levels: rows of `docs/spec/observability.md`.

use sidecar_testkit::CallFault;
use sidecar_testkit::controller::until_metrics;

use super::stage::{EXPAND, Stage, free_address};

fn count(stage: &str) -> String {
    format!(
        "csi_sidecar_lifecycle_seconds_count{{class=\"\",driver_name=\"test.csi.driver\",stage=\"{stage}\"}} 1\n"
    )
}

#[tokio::test]
async fn o_89_an_expansion_counts_from_when_it_is_asked_for() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let first = stage.started(&[&endpoint]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    for name in ["expanded_storage", "expanded_node"] {
        let text = until_metrics(&address, &count(name)).await;
        let none = format!("csi_sidecar_lifecycle_unfinished{{stage=\"{name}\"}} 0\n");
        assert!(text.contains(&none), "{text}");
    }
    // A successor finds it under way, and the condition says since when.
    stage
        .driver
        .fault(CallFault::on(EXPAND).lose_reply().times(1));
    stage.grow("3Gi");
    stage.until_calls(EXPAND, 2).await;
    first.kill().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _second = stage.started(&[&endpoint]).await;
    stage.until_capacity("3Gi").await;
    let text = until_metrics(&address, &count("expanded_storage")).await;
    assert!(!text.contains("_unmeasured_total{"), "{text}");
}
