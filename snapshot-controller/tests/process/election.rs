//! One leader among replicas.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::process::Signal;
use tokio::time::sleep;

use super::metrics::{free_port, get};
use super::stage::Stage;

const LEASE: &str = "ns/snapshot-controller-leader";
const ELECTION: [&str; 2] = ["--leader-election", "--leader-election-namespace=ns"];

#[tokio::test]
async fn c_12_the_leader_holds_the_lease() {
    let stage = Stage::new().await;
    let mut process = stage.working(&ELECTION).await;
    let lease = stage.api.object("leases", LEASE).unwrap();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap();
    assert!(!holder.is_empty());
    process.signal(Signal::TERM);
    process.ended().await;
    let lease = stage.api.object("leases", LEASE).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn a_standby_waits_and_is_healthy() {
    let stage = Stage::new().await;
    stage.api.insert(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "ns", "name": "snapshot-controller-leader"},
        "spec": {
            "holderIdentity": "another", "leaseDurationSeconds": 3600, "leaseTransitions": 3,
            "acquireTime": "2020-01-01T00:00:00.000000Z",
            "renewTime": "2020-01-01T00:00:00.000000Z",
        },
    }));
    let address = free_port();
    let endpoint = format!("--http-endpoint={address}");
    let mut process = stage.start(&[ELECTION[0], ELECTION[1], &endpoint]);
    process.says("Attempting to acquire leader lease").await;
    stage.snapshot("s1");
    sleep(Duration::from_secs(1)).await;
    assert!(stage.api.writes().is_empty(), "{:#?}", stage.api.writes());
    assert_eq!(stage.api.open_watches(), 0);
    assert_eq!(
        get(&address, "/healthz/leader-election").await,
        (200, "ok".into())
    );
    process.signal(Signal::TERM);
    process.ended().await.with_code(0);
}
