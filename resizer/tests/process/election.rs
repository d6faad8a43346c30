//! Z-24, Z-32 and section 14: one leader among replicas.

use std::time::Duration;

use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::api::fault::Gate;
use sidecar_testkit::election::succeed_while_stopped;
use sidecar_testkit::http::attack::Target;
use tokio::time::sleep;

use super::stage::{EXPAND, MODIFY, READY, Stage, claim, condition, free_address, get, volume};

const NAME: &str = "external-resizer-test-csi-driver";
const ELECTION: [&str; 2] = ["--leader-election", "--leader-election-namespace=ns"];

#[tokio::test]
async fn z_32_a_standby_asks_for_the_lease_and_nothing_else() {
    let stage = Stage::new().await;
    stage.api.insert(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "ns", "name": NAME},
        "spec": {
            "holderIdentity": "another", "leaseDurationSeconds": 3600, "leaseTransitions": 3,
            "acquireTime": "2020-01-01T00:00:00.000000Z",
            "renewTime": "2020-01-01T00:00:00.000000Z",
        },
    }));
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let program = stage.start(&[ELECTION[0], ELECTION[1], &endpoint]);
    program.logs("Attempting to acquire leader lease").await;
    stage.grow("2Gi");
    sleep(Duration::from_secs(2)).await;
    let requests = stage.api.requests();
    let foreign: Vec<_> = { requests.iter() }
        .filter(|request| !request.path.contains("/leases/"))
        .filter(|request| request.path != "/apis/storage.k8s.io/v1")
        .map(ToString::to_string)
        .collect();
    assert_eq!(foreign, [""; 0]);
    assert_eq!(
        get(&address, "/healthz/leader-election").await,
        (200, "ok".into())
    );
    let (_, text) = get(&address, "/metrics").await;
    assert!(
        text.contains(r#"leader_election_master_status{name=""} 0"#),
        "{text}"
    );
}

#[tokio::test]
async fn a_leader_says_so_and_works() {
    let stage = Stage::new().await;
    let program = stage.started(&ELECTION).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    let lease = stage.api.object("leases", &format!("ns/{NAME}")).unwrap();
    assert_ne!(lease["spec"]["holderIdentity"], "");
    stage.until_events("LeaderElection", 1).await;
    let events = stage.api.objects("events");
    let event = events
        .iter()
        .find(|event| event["reason"] == "LeaderElection")
        .unwrap();
    let component = event["source"]["component"].as_str().unwrap();
    assert!(
        component.starts_with(&format!("{NAME}/")),
        "section 14: {component}"
    );
    drop(program);
}

#[tokio::test]
async fn a_leader_that_cannot_renew_ends() {
    let stage = Stage::new().await;
    let program = stage
        .started(&[
            ELECTION[0],
            ELECTION[1],
            "--leader-election-lease-duration=8s",
            "--leader-election-renew-deadline=6s",
            "--leader-election-retry-period=1s",
        ])
        .await;
    stage.api.set_down(true);
    let ended = program.end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("Stopped leading"), "{}", ended.log);
}

#[tokio::test]
async fn fs_9_a_leader_that_was_stopped_changes_nothing_when_it_goes_on() {
    let stage = Stage::new().await;
    let claims: Vec<String> = (0..400).map(|number| format!("ns/many{number}")).collect();
    for (number, name) in claims.iter().enumerate() {
        let (pv, handle) = (format!("many{number}"), format!("hm{number}"));
        stage.driver.volume(&handle);
        stage.api.insert(volume(&pv, &handle, name));
        stage.api.insert(claim(name, &pv));
    }
    let program = stage
        .started(&[
            ELECTION[0],
            ELECTION[1],
            "--leader-election-lease-duration=8s",
            "--leader-election-renew-deadline=6s",
            "--leader-election-retry-period=1s",
            "--workers=100",
            "--kube-api-qps=-1",
        ])
        .await;
    for name in &claims {
        stage.api.edit("persistentvolumeclaims", name, |claim| {
            claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
        });
    }
    stage.until_calls(EXPAND, 20).await;
    let (lease, over) = (format!("ns/{NAME}"), Duration::from_millis(7500));
    let later = succeed_while_stopped(&stage.api, &stage.driver, program.id(), &lease, over).await;
    let ended = program.end().await;
    sleep(Duration::from_millis(700)).await;
    assert_eq!(later.effects(), [""; 0]);
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("Stopped leading"), "{}", ended.log);
    let grown = |name: &&String| stage.claim_named(name)["status"]["capacity"]["storage"] == "2Gi";
    assert!(
        claims.iter().filter(grown).count() < 400,
        "it was not at work"
    );
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
async fn fs_9_a_volume_that_another_made_larger_meanwhile_stays_so() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on(EXPAND).hold(&gate));
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_calls(EXPAND, 1).await;
    stage.api.hold_watches("persistentvolumes");
    stage.edit_volume(|volume| volume["spec"]["capacity"]["storage"] = "4Gi".into());
    gate.open();
    stage.until_capacity("2Gi").await;
    assert_eq!(stage.size(), "4Gi");
    assert_eq!(stage.events_of("VolumeResizeFailed"), 0);
}

/// What a predecessor sent for the claim as this process finds it is refused from the call on.
#[tokio::test]
async fn fs_9_a_claim_is_written_before_a_call_of_a_predecessor_is_repeated() {
    for method in [EXPAND, MODIFY] {
        let stage = Stage::modifying().await;
        let gate = Gate::new();
        stage.driver.fault(CallFault::on(method).hold(&gate));
        match method {
            EXPAND => {
                stage.grow("2Gi");
                stage.expanding("ControllerResizeInProgress", "2Gi");
                stage.edit_claim(|claim| {
                    claim["status"]["conditions"] = json!([condition("Resizing", "")]);
                });
            }
            _ => {
                stage.reclass(Some("b"));
                stage.edit_claim(|claim| {
                    claim["status"]["modifyVolumeStatus"] =
                        json!({"status": "InProgress", "targetVolumeAttributesClassName": "b"});
                    claim["status"]["conditions"] = json!([condition("ModifyingVolume", "")]);
                });
            }
        }
        let found = stage.claim();
        let _program = stage.started(&[]).await;
        stage.until_calls(method, 1).await;
        let version = |claim: &Value| claim["metadata"]["resourceVersion"].clone();
        assert_ne!(version(&stage.claim()), version(&found), "{method}");
        gate.open();
        match method {
            EXPAND => stage.until_capacity("2Gi").await,
            _ => stage.until_class("b").await,
        }
        assert_eq!(stage.calls(method), 1, "{method}");
    }
}
