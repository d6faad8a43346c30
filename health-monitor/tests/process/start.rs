//! H-4 to H-12, H-72 and H-74: from the first call to the first work, and the choice of calls.

use std::time::Duration;

use sidecar_testkit::CallFault;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::controller::until_answer;
use sidecar_testkit::driver::{ControllerRpc, Memory, PluginService};
use tokio::time::sleep;

use super::stage::{CONDITION, ELECTION, GET, LIST, PROGRAM, Stage, free_address, settle};

const NOTHING: &str = "The driver reports no volume health";

#[tokio::test]
async fn h_4_a_driver_without_health_is_left_alone() {
    for (rpcs, older) in [
        (
            vec![ControllerRpc::ListVolumes, ControllerRpc::GetVolume],
            false,
        ),
        (vec![], true),
        (vec![], false),
    ] {
        let stage = Stage::new(&rpcs).await;
        stage
            .driver
            .configure(|model| model.older.extend(older.then_some(CONDITION)));
        let mut program = stage.started(&[]).await;
        program.logs(NOTHING).await;
        settle().await;
        assert!(program.is_running());
        let said = program.log();
        assert_eq!(said.matches(NOTHING).count(), 1, "{said}");
        for name in [
            "LIST_VOLUME_HEALTH",
            "GET_VOLUME_HEALTH",
            "VOLUME_CONDITION",
        ] {
            assert!(said.contains(name), "{name}: {said}");
        }
        assert_eq!(stage.methods().len(), 4, "{:?}", stage.methods());
    }
}

#[tokio::test]
async fn h_5_and_6_capabilities_choose_the_calls() {
    use ControllerRpc::{GetVolume, GetVolumeHealth, ListVolumeHealth, ListVolumes};
    for (rpcs, older, call) in [
        (vec![GetVolumeHealth, ListVolumeHealth], false, LIST),
        (vec![GetVolumeHealth], false, GET),
        (vec![ListVolumes], true, "ListVolumes"),
        (vec![GetVolume], true, "ControllerGetVolume"),
        (
            vec![ListVolumes, GetVolumeHealth, ListVolumeHealth],
            true,
            LIST,
        ),
    ] {
        let stage = Stage::new(&rpcs).await;
        if older {
            stage.driver.configure(|model| {
                model.older.push(CONDITION);
                model.conditions = Some([].into());
            });
        }
        let _program = stage.started(&[]).await;
        stage.until_calls(call, 3).await;
        let mut others = stage.methods();
        others.retain(|method| *method != call);
        assert_eq!(others.len(), 4, "{call}: {others:?}");
    }
}

#[tokio::test]
async fn h_7_a_driver_that_comes_back_with_other_calls_is_asked_those() {
    let stage = Stage::listing().await;
    stage.suffers("h10", &[(1, "A")]);
    let mut program = stage.started(&[]).await;
    stage.until_conditions(10, &["Degraded A"]).await;
    stage.driver.stop();
    stage.driver.configure(|model| model.controller = vec![]);
    stage.driver.start();
    program.logs(NOTHING).await;
    stage.clear();
    settle().await;
    assert!(
        stage
            .methods()
            .iter()
            .all(|method| *method != LIST && *method != GET)
    );
    assert_eq!(stage.conditions(10), ["Degraded A"]);
    stage
        .driver
        .configure(|model| model.controller = vec![ControllerRpc::GetVolumeHealth]);
    stage.driver.restart(Memory::Kept);
    stage.until_calls(GET, 3).await;
    assert_eq!(stage.conditions(10), ["Degraded A"]);
    stage.leaves_out("h10");
    stage.until_conditions(10, &[]).await;
    assert!(program.is_running());
}

#[tokio::test]
async fn h_7_calls_that_wait_for_the_driver_may_reach_another_one() {
    let stage = Stage::getting().await;
    let hold = sidecar_testkit::Gate::new();
    stage.driver.fault(CallFault::on(GET).hold(&hold));
    let program = stage.started(&[]).await;
    stage.until_calls(GET, 1).await;
    stage.driver.stop();
    stage.driver.configure(|model| {
        model.controller = vec![ControllerRpc::GetVolume];
        model.older.push(CONDITION);
        model.conditions = Some([("h10".to_owned(), (true, "gone".to_owned()))].into());
    });
    // A driver that implements none of the new calls.
    let unimplemented = CallFault::on(GET).fail(tonic::Code::Unimplemented, "no");
    stage.driver.fault(unimplemented);
    settle().await;
    stage.driver.start();
    stage.until_events("VolumeConditionAbnormal", 1).await;
    stage.until_calls("ControllerGetVolume", 9).await;
    assert!(!program.log().contains("answers Unimplemented"));
    assert!(stage.patches().is_empty(), "H-70");
}

#[tokio::test]
async fn h_7_the_permissions_that_readiness_asks_for_follow_the_drivers_calls() {
    let stage = Stage::listing().await;
    let rules = { PROGRAM.permissions.iter() }
        .map(|(group, resource, verbs)| Allow::new(group, resource, verbs));
    stage.api.allow_only(rules.collect::<Vec<_>>());
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _program = stage.started(&[&endpoint]).await;
    until_answer(&address, "/readyz", 200, "ok").await;
    let events = r#"{apiGroups: [""], resources: ["events"], verbs: ["list", "create", "patch"]} in a ClusterRole"#;
    for (rpcs, older, status, says) in [
        (
            vec![ControllerRpc::ListVolumes],
            vec![CONDITION],
            503,
            events,
        ),
        (vec![ControllerRpc::GetVolumeHealth], vec![], 200, "ok"),
        (vec![ControllerRpc::GetVolume], vec![CONDITION], 503, events),
        (vec![], vec![], 200, "ok"),
    ] {
        stage.driver.stop();
        stage.driver.configure(|model| {
            (model.controller, model.older) = (rpcs, older);
            model.conditions = Some([].into());
        });
        stage.driver.start();
        until_answer(&address, "/readyz", status, says).await;
    }
}

#[tokio::test]
async fn h_8_and_9_a_slow_driver_is_asked_once_what_it_is() {
    let stage = Stage::listing().await;
    let delay = CallFault::on("*").delay(Duration::from_millis(300));
    stage.driver.fault(delay);
    stage.suffers("h10", &[(1, "A")]);
    let _program = stage.started(&[]).await;
    stage.until_conditions(10, &["Degraded A"]).await;
    let first: Vec<_> = stage
        .methods()
        .into_iter()
        .take_while(|method| *method != LIST)
        .collect();
    let expected = [
        "Probe",
        "GetPluginInfo",
        "GetPluginCapabilities",
        "ControllerGetCapabilities",
    ];
    assert_eq!(first, expected);
}

#[tokio::test]
async fn h_10_11_and_74_only_the_leader_works_and_it_gives_the_lease_back() {
    let stage = Stage::listing().await;
    stage.suffers("h10", &[(1, "A")]);
    stage.foreign_lease(3600);
    let standby = stage.start(&ELECTION);
    sleep(Duration::from_secs(1)).await; // Long enough for a list, if it made any.
    assert_eq!((stage.calls(LIST), stage.patches().len()), (0, 0), "H-11");
    standby.terminated().await.well();
    let lease = "external-health-monitor-leader-test-csi-driver";
    stage.api.remove("leases", &format!("ns/{lease}"));
    for gate in ["true", "false"] {
        let gate = format!("--feature-gates=ReleaseLeaderElectionOnExit={gate}");
        let arguments: Vec<&str> = ELECTION.into_iter().chain([gate.as_str()]).collect();
        let leader = stage.started(&arguments).await;
        stage.until_conditions(10, &["Degraded A"]).await;
        assert_eq!(stage.lease()["metadata"]["name"], lease, "H-74");
        leader.terminated().await.well();
        assert_eq!(stage.holder(), "", "H-10");
    }
}

#[tokio::test]
async fn h_12_a_driver_without_controller_ends_the_process_with_a_reason() {
    let stage = Stage::new(&[]).await;
    stage.driver.configure(|model| {
        model
            .services
            .retain(|one| *one != PluginService::ControllerService)
    });
    stage
        .start(&[])
        .end()
        .await
        .says("H-12", 1, "CONTROLLER_SERVICE");
}

#[tokio::test]
async fn h_72_and_73_nodes_and_events_are_not_watched() {
    let stage = Stage::listing().await;
    let mut program = stage.started(&["--enable-node-watcher"]).await;
    program.logs("--enable-node-watcher has no effect").await;
    stage.until_calls(LIST, 2).await;
    for kind in ["nodes", "pods", "events"] {
        assert!(
            stage
                .api
                .requests_to("GET", &format!("*/{kind}"))
                .is_empty(),
            "{kind}"
        );
    }
    assert!(program.is_running());
}
