//! Row 18: one leader among replicas.

use sidecar_testkit::controller::ELECTION;

use super::stage::{READY, Stage, free_address, get};

#[tokio::test]
async fn row_18_the_name_of_the_lease() {
    let stage = Stage::new().await;
    stage
        .driver
        .configure(|model| model.name = "org/drv.x".into());
    let program = stage.start(&ELECTION);
    program.logs("Attempting to acquire leader lease").await;
    let path = "*/namespaces/ns/leases/org-drv-x";
    stage
        .until("row 18", |stage| {
            !stage.api.requests_to("GET", path).is_empty()
        })
        .await;
}

#[tokio::test]
async fn fp_14_scrapes_are_counted() {
    let stage = Stage::new().await;
    let address = free_address();
    let program = stage.start(&[&format!("--http-endpoint={address}")]);
    program.logs(READY).await;
    for scrapes in 0..2 {
        let (_, text) = get(&address, "/metrics").await;
        for line in [
            format!("promhttp_metric_handler_requests_total{{code=\"200\"}} {scrapes}"),
            "promhttp_metric_handler_requests_in_flight 1".to_owned(),
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }
}
