//! Z-120, Z-131, Z-133 and Z-150 to Z-152: races, and claims without work.

use std::time::Duration;

use sidecar_testkit::api::access::Allow;
use sidecar_testkit::controller::ELECTION;
use sidecar_testkit::{CallFault, Fault};

use super::stage::{EXPAND, MODIFY, NEVER_AGAIN, Stage, claim, settle, volume};

#[tokio::test]
async fn z_120_size_and_class_in_one_update() {
    for _ in 0..5 {
        let stage = Stage::modifying().await;
        let slow = |method| CallFault::on(method).delay(Duration::from_millis(50));
        stage.driver.fault(slow(EXPAND));
        stage.driver.fault(slow(MODIFY));
        let _program = stage.started(&[]).await;
        stage.edit_claim(|claim| {
            claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
            claim["spec"]["volumeAttributesClassName"] = "b".into();
        });
        stage.until_capacity("2Gi").await;
        stage.until_class("b").await;
        stage.until_events("VolumeModifySuccessful", 1).await;
        stage.until_events("VolumeResizeSuccessful", 1).await;
        settle().await;
        assert_eq!((stage.conditions().len(), stage.state()), (0, ""));
        assert_eq!((stage.calls(EXPAND), stage.calls(MODIFY)), (1, 1));
        let conflicts = stage.api.requests();
        let conflicts = conflicts
            .iter()
            .filter(|request| request.status == Some(409));
        assert_eq!(conflicts.count(), 0, "Q1: {:?}", stage.trace());
        assert_eq!(stage.trace().len(), 8, "{:?}", stage.trace());
        assert!(stage.driver.overlaps().is_empty());
    }
}

#[tokio::test]
async fn z_131_with_the_rules_of_the_manifest_alone() {
    let stage = Stage::modifying().await;
    stage.api.allow_only([
        Allow::new("", "persistentvolumes", "get,list,watch,patch"),
        Allow::new("", "persistentvolumeclaims", "get,list,watch"),
        Allow::new("", "persistentvolumeclaims/status", "patch"),
        Allow::new("", "pods", "get,list,watch"),
        Allow::new("", "events", "list,watch,create,update,patch"),
        Allow::new(
            "storage.k8s.io",
            "volumeattributesclasses",
            "get,list,watch",
        ),
        Allow::new(
            "coordination.k8s.io",
            "leases",
            "get,watch,list,delete,update,create",
        )
        .within("default"),
    ]);
    // In the namespace whose leases the rules name.
    let election = [ELECTION[0], ELECTION[2], ELECTION[3]];
    let program = stage.started(&election).await;
    stage.grow("2Gi");
    stage.reclass(Some("b"));
    stage.until_capacity("2Gi").await;
    stage.until_class("b").await;
    stage.until_events("VolumeModifySuccessful", 1).await;
    let requests = stage.api.requests();
    let forbidden: Vec<String> = { requests.iter() }
        .filter(|request| request.status == Some(403))
        .map(ToString::to_string)
        .collect();
    assert_eq!(forbidden, [""; 0], "{}", program.log());
    assert!(!program.log().contains("lacks"), "{}", program.log());
}

#[tokio::test]
async fn z_133_an_answer_that_comes_after_another_writers_event() {
    let stage = Stage::new().await;
    let late = Fault::on("PATCH", "*/c1/status").times(1);
    let held = stage.api.fault(late.late_reply(Duration::from_secs(1)));
    let _program = stage.started(&[NEVER_AGAIN]).await;
    stage.grow("2Gi");
    stage.until("marked", |stage| stage.state() == "CRIP").await;
    stage.edit_claim(|claim| claim["metadata"]["labels"]["a"] = "b".into());
    assert_eq!(held.hits(), 1);
    // Q1: no retry is due within the test.
    stage.until_capacity("2Gi").await;
}

#[tokio::test]
async fn z_150_many_claims_with_the_default_rate() {
    let stage = Stage::new().await;
    for index in 0..16 {
        let (key, pv, handle) = (
            format!("ns/m{index}"),
            format!("pv-m{index}"),
            format!("hm{index}"),
        );
        stage.api.insert(volume(&pv, &handle, &key));
        stage.api.insert(claim(&key, &pv));
        stage.driver.volume(&handle);
    }
    let _program = stage.started(&[]).await;
    for index in 0..16 {
        stage
            .api
            .edit("persistentvolumeclaims", &format!("ns/m{index}"), |claim| {
                claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
            });
    }
    let done = |stage: &Stage| {
        (0..16).all(|index| {
            let claim = stage.claim_named(&format!("ns/m{index}"));
            claim["status"]["capacity"]["storage"] == "2Gi"
        })
    };
    stage.until("all grown", done).await;
    stage.until_events("VolumeResizeSuccessful", 16).await;
    settle().await;
    let writes = stage.api.writes().len();
    assert!(writes <= 5 * 16, "{writes}");
    assert_eq!(stage.calls(EXPAND), 16);
}

#[tokio::test]
async fn z_151_a_claim_that_is_gone() {
    let stage = Stage::new().await;
    let gate = sidecar_testkit::api::fault::Gate::new();
    stage.driver.fault(CallFault::on(EXPAND).hold(&gate));
    stage.api.insert(volume("pv2", "h2", "ns/c2"));
    stage.api.insert(claim("ns/c2", "pv2"));
    let program = stage.started(&["--workers=1"]).await;
    stage.grow("2Gi");
    stage.until_calls(EXPAND, 1).await;
    stage.api.edit("persistentvolumeclaims", "ns/c2", |claim| {
        claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
    });
    settle().await;
    stage.api.remove("persistentvolumeclaims", "ns/c2");
    settle().await;
    gate.open();
    stage.until_capacity("2Gi").await;
    settle().await;
    assert_eq!(stage.calls(EXPAND), 1);
    assert!(
        !program.log().contains("Error processing"),
        "{}",
        program.log()
    );
}

#[tokio::test]
async fn z_152_a_resync_with_nothing_to_do() {
    let stage = Stage::modifying().await;
    let _program = stage.started(&["--resync-period=200ms"]).await;
    settle().await;
    let before = stage.api.requests().len();
    settle().await;
    settle().await;
    let requests = stage.api.requests();
    let since: Vec<String> = { requests[before..].iter() }
        .filter(|request| !request.path.contains("selfsubjectaccessreviews"))
        .map(ToString::to_string)
        .collect();
    assert_eq!(since, [""; 0]);
}

#[tokio::test]
async fn an_api_server_that_is_away_for_a_while() {
    let stage = Stage::modifying().await;
    let gate = sidecar_testkit::api::fault::Gate::new();
    stage.driver.fault(CallFault::on(EXPAND).hold(&gate));
    let _program = stage
        .started(&["--retry-interval-start=200ms", "--retry-interval-max=1s"])
        .await;
    stage.grow("2Gi");
    stage.until_calls(EXPAND, 1).await;
    stage.api.set_down(true);
    gate.open();
    settle().await;
    stage.reclass(Some("b"));
    settle().await;
    stage.api.set_down(false);
    stage.until_capacity("2Gi").await;
    stage.until_class("b").await;
    assert_eq!(stage.size(), "2Gi");
}

#[tokio::test]
async fn fs_18_a_claim_that_the_watch_brings_after_an_own_write_is_expanded() {
    let stage = Stage::new().await;
    stage.driver.volume("h2");
    stage.api.insert(volume("pv2", "h2", "ns/c2"));
    stage.api.insert(claim("ns/c2", "pv2"));
    let gate = sidecar_testkit::api::fault::Gate::new();
    let mark = Fault::on("PATCH", "*/c1/status").times(1);
    stage.api.fault(mark.hold(&gate));
    let _program = stage.started(&[NEVER_AGAIN]).await;
    stage.grow("2Gi");
    stage.until("marking", |_| gate.waiting() == 1).await;
    stage.api.hold_watches("persistentvolumeclaims");
    stage.api.edit("persistentvolumeclaims", "ns/c2", |claim| {
        claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
    });
    gate.open();
    stage.until_capacity("2Gi").await;
    stage.api.release_watches("persistentvolumeclaims");
    let grown =
        |stage: &Stage| stage.claim_named("ns/c2")["status"]["capacity"]["storage"] == "2Gi";
    stage.until("the other one grown", grown).await;
}
