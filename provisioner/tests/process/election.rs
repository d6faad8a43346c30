//! Rows 18, 19, 21, 22 and leaders that fail: one leader among replicas.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::election::succeed_while_stopped;
use sidecar_testkit::http::attack::Target;

use super::stage::{ANNOTATION, DRIVER, PV, READY, Stage, claim, free_address, get, settle};

const ELECTION: [&str; 2] = ["--leader-election", "--leader-election-namespace=ns"];

fn foreign_lease(stage: &Stage, seconds: u32) {
    stage.api.insert(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "ns", "name": "test-driver"},
        "spec": {
            "holderIdentity": "another", "leaseDurationSeconds": seconds, "leaseTransitions": 3,
            "acquireTime": "2020-01-01T00:00:00.000000Z",
            "renewTime": "2020-01-01T00:00:00.000000Z",
        },
    }));
}

#[tokio::test]
async fn rows_21_and_22_a_standby_waits_and_is_scraped() {
    let stage = Stage::new().await;
    foreign_lease(&stage, 3600);
    for (flag, health) in [("--http-endpoint", 200), ("--metrics-address", 404)] {
        let address = free_address();
        let endpoint = format!("{flag}={address}");
        let program = stage.start(&[ELECTION[0], ELECTION[1], &endpoint]);
        program.logs("Attempting to acquire leader lease").await;
        stage.api.clear_requests();
        settle().await;
        assert_eq!(
            get(&address, "/healthz/leader-election").await.0,
            health,
            "{flag}"
        );
        assert_eq!(get(&address, "/metrics").await.0, 200, "{flag}");
        let lists = stage.api.requests_to("GET", "*/persistentvolume*");
        assert!(lists.is_empty(), "{lists:?}");
        program.terminate();
        assert_eq!(program.end().await.code, Some(0));
    }
}

#[tokio::test]
async fn rows_18_and_19_the_lease() {
    let stage = Stage::new().await;
    let labels = "--leader-election-labels=a:b,c:d";
    let program = stage.start_in(&[ELECTION[0], labels], &[("POD_NAMESPACE", "podns")]);
    program.logs(READY).await;
    let lease = stage.api.object("leases", "podns/test-driver").unwrap();
    let expected = json!({"a": "b", "c": "d"});
    assert_eq!(lease["metadata"]["labels"], expected, "row 19");
    drop(program);
    stage
        .driver
        .configure(|model| model.name = "org/drv.x_".into());
    let program = stage.start(&ELECTION);
    program.logs("Attempting to acquire leader lease").await;
    let path = "*/namespaces/ns/leases/org-drv-x-X";
    stage
        .until("row 18", |stage| {
            !stage.api.requests_to("GET", path).is_empty()
        })
        .await;
}

#[tokio::test]
async fn a_silent_leader_is_succeeded_and_the_lease_released_at_the_end() {
    let stage = Stage::new().await;
    foreign_lease(&stage, 2);
    let program = stage.start(&[
        ELECTION[0],
        ELECTION[1],
        "--leader-election-lease-duration=60s",
        "--leader-election-renew-deadline=45s",
        "--leader-election-retry-period=1s",
    ]);
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    program.terminate();
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let lease = stage.api.object("leases", "ns/test-driver").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "", "row 30");
    assert_eq!(lease["spec"]["leaseTransitions"], 4);
}

#[tokio::test]
async fn a_leader_that_cannot_renew_ends() {
    let stage = Stage::new().await;
    let program = stage.start(&[
        ELECTION[0],
        ELECTION[1],
        "--leader-election-lease-duration=8s",
        "--leader-election-renew-deadline=6s",
        "--leader-election-retry-period=1s",
    ]);
    program.logs(READY).await;
    stage.api.set_down(true);
    let ended = program.end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("Stopped leading"), "{}", ended.log);
}

#[tokio::test]
async fn fs_9_a_leader_that_was_stopped_changes_nothing_when_it_goes_on() {
    let stage = Stage::new().await;
    let program = stage.start(&[
        ELECTION[0],
        ELECTION[1],
        "--leader-election-lease-duration=8s",
        "--leader-election-renew-deadline=6s",
        "--leader-election-retry-period=1s",
        "--kube-api-qps=-1",
    ]);
    program.logs(READY).await;
    for number in 0..400 {
        let claim = build::claim(&format!("ns1/many-{number}"));
        let claim = claim.class("sc1").mode("RWO").uid(&format!("uid-{number}"));
        stage.api.insert(claim.annotation(ANNOTATION, DRIVER));
    }
    stage.until_calls("CreateVolume", 20).await;
    let over = Duration::from_millis(7500);
    let lease = "ns/test-driver";
    let later = succeed_while_stopped(&stage.api, &stage.driver, program.id(), lease, over).await;
    let ended = program.end().await;
    settle().await;
    assert_eq!(later.effects(), [""; 0]);
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("Stopped leading"), "{}", ended.log);
    let volumes = stage.api.objects("persistentvolumes").len();
    assert!(volumes < 400, "it was not at work");
}

#[tokio::test]
async fn fs_11_health_is_answered_under_attack() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let mut program = stage.start(&[ELECTION[0], ELECTION[1], &endpoint]);
    program.logs(READY).await;
    let target = Target {
        id: program.id(),
        address,
        health: "/healthz/leader-election",
        large: "/metrics",
    };
    target.withstands().await;
    assert!(program.is_running(), "{}", program.log());
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
