//! S-24: one leader among replicas.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::stage::{CREATE, NAME, Stage, content};

const LEASE: &str = "external-snapshotter-leader-test-csi-driver";
const ELECTION: [&str; 2] = ["--leader-election", "--leader-election-namespace=ns"];

#[tokio::test]
async fn s_24_a_standby_asks_for_the_lease_and_nothing_else() {
    let stage = Stage::new().await;
    stage.api.insert(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "ns", "name": LEASE},
        "spec": {
            "holderIdentity": "another", "leaseDurationSeconds": 3600, "leaseTransitions": 3,
            "acquireTime": "2020-01-01T00:00:00.000000Z",
            "renewTime": "2020-01-01T00:00:00.000000Z",
        },
    }));
    stage.api.insert(content("u1"));
    let program = stage.start(&ELECTION);
    program.logs("Attempting to acquire leader lease").await;
    sleep(Duration::from_secs(2)).await;
    let requests = stage.api.requests();
    let foreign: Vec<_> = { requests.iter() }
        .filter(|request| !request.path.contains("/leases/"))
        .map(ToString::to_string)
        .collect();
    // Whether there are groups is settled before the lease, by one object at most.
    let groups = "GET /apis/groupsnapshot.storage.k8s.io/v1/volumegroupsnapshotcontents";
    assert_eq!(foreign, [groups]);
    assert_eq!(stage.calls("ControllerGetCapabilities"), 1);
    assert_eq!(stage.calls(CREATE), 0);
}

#[tokio::test]
async fn s_24_a_leader_works() {
    let stage = Stage::new().await;
    stage.api.insert(content("u1"));
    let _program = stage.started(&ELECTION).await;
    stage.until_ready(NAME).await;
    let lease = stage.api.object("leases", &format!("ns/{LEASE}")).unwrap();
    assert_ne!(lease["spec"]["holderIdentity"], "");
}
