//! Rows: one link.

use std::time::Duration;

use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::process::stay_away;
use tokio::time::Instant;

use super::stage::{ALL, PATIENT, Stage, free_address, get, is_together, settle, until_answer};

const STARTS: [&str; 4] = [
    "Probe",
    "GetPluginInfo",
    "GetPluginCapabilities",
    "ControllerGetCapabilities",
];

#[tokio::test]
async fn a_15_the_driver_is_asked_once_for_all() {
    let stage = Stage::new().await;
    let running = stage.three(&[]);
    stage.all_work(0).await;
    for method in STARTS {
        assert_eq!(stage.calls(method), 1, "{method}: {:?}", stage.methods());
    }
    assert_eq!(stage.calls("NodeGetCapabilities"), 0);
    assert_eq!(stage.driver.connections(), 1);
    running.terminated().await.well();
}

#[tokio::test]
async fn a_16_health_has_a_connection_of_its_own() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let controllers = "--controllers=provisioner,attacher,livenessprobe";
    let running = stage.start(&[controllers, &endpoint, PATIENT]);
    stage.ask_all(0);
    stage.until_done_by(0, &["provisioner", "attacher"]).await;
    // As a new client, the livenessprobe asks once for the name.
    stage.until_calls("GetPluginInfo", 2).await;
    let before = stage.calls("Probe");
    for _ in 0..200 {
        assert_eq!(get(&address, "/healthz").await, (200, "ok".to_owned()));
    }
    assert_eq!(stage.calls("Probe"), before + 200);
    // One connection each for controllers, the livenessprobe's question for the name, and its probes.
    assert_eq!(stage.driver.connections(), 3);
    running.terminated().await.well();
}

#[tokio::test]
async fn a_17_one_line_when_the_driver_goes_and_one_when_it_is_back() {
    let stage = Stage::new().await;
    let running = stage.three(&["--retry-interval-start=5m"]);
    stage.all_work(0).await;
    stage.driver.stop();
    running.logs("Lost the connection to the CSI driver").await;
    stage.driver.clear_calls();
    stage.ask_all(1);
    settle().await;
    stage.driver.start();
    stage.until_done_by(1, &ALL).await;
    for method in STARTS {
        assert_eq!(stage.calls(method), 1, "{method}: {:?}", stage.methods());
    }
    let log = running.log();
    assert_eq!(log.matches("Lost the connection").count(), 1, "{log}");
    assert_eq!(log.matches("The CSI driver is back").count(), 1, "{log}");
    running.terminated().await.well();
}

#[tokio::test]
async fn a_18_back_under_another_name_it_ends_and_all_leases_are_free() {
    let stage = Stage::new().await;
    let running = stage.three_in_election(&[]);
    stage.until_held(&ALL, is_together).await;
    stage.all_work(0).await;
    stage.driver.stop();
    stage
        .driver
        .configure(|model| model.name = "other.csi.driver".into());
    stage.driver.start();
    let ended = running.end().await;
    ended.says("A-18", 1, "other.csi.driver");
    assert!(!ended.log.contains("driver is back"), "{}", ended.log);
    for controller in ALL {
        assert_eq!(stage.holder_of(controller), "", "{controller}");
    }
}

#[tokio::test]
async fn a_19_back_without_expansion_the_resizer_is_off_and_the_others_work_on() {
    let stage = Stage::new().await;
    let mut running = stage.three_in_election(&[]);
    stage.until_held(&ALL, is_together).await;
    stage.all_work(0).await;
    stage.driver.stop();
    stage.driver.configure(|model| {
        model
            .controller
            .retain(|rpc| *rpc != ControllerRpc::ExpandVolume);
    });
    stage.driver.start();
    running
        .logs("Controller switched off: it cannot work with this driver")
        .await;
    stage.until_held(&["resizer"], str::is_empty).await;
    stage.ask_all(1);
    stage.until_done_by(1, &["provisioner", "attacher"]).await;
    assert!(running.is_running());
    running.terminated().await.well();
}

#[tokio::test]
async fn a_20_a_driver_that_accepts_and_says_nothing() {
    let stage = Stage::new().await;
    stage.driver.stop();
    let _mute = std::os::unix::net::UnixListener::bind(stage.driver.socket()).unwrap();
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let controllers = "--controllers=provisioner,attacher,livenessprobe";
    let arguments = [controllers, &endpoint, "--probe-timeout=500ms"];
    let _running = stage.start(&arguments);
    let (status, text) = get(&address, "/healthz").await;
    assert_eq!((status, text.as_str()), (500, "context deadline exceeded"));
}

#[tokio::test]
async fn a_51_one_that_has_nothing_to_do_is_off_and_alone_it_ends() {
    let stage = Stage::new().await;
    let can = vec![ControllerRpc::CreateDeleteVolume];
    stage.driver.configure(|model| model.controller = can);
    let mut running = stage.start(&["--controllers=provisioner,resizer"]);
    stage.ask_all(0);
    stage.until_done_by(0, &["provisioner"]).await;
    running
        .logs("Controller switched off: it cannot work with this driver")
        .await;
    let log = running.log();
    assert!(running.is_running());
    running.terminated().await.well();

    let alone = stage.start(&["--controllers=resizer"]).end().await;
    assert_eq!(alone.code, Some(255), "{}", alone.log);
    // The single program's message.
    let said = alone.log.lines().last().unwrap_or_default();
    let said = said.split_once("] ").map_or(said, |(_, text)| text);
    let said = said.trim_matches('"');
    assert!(!said.is_empty() && log.contains(said), "{said}\n{log}");
}

#[tokio::test]
async fn a_52_a_driver_that_stays_away_costs_the_leases_and_not_the_process() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let controllers = "--controllers=provisioner,attacher,resizer,livenessprobe";
    let arguments = [
        controllers,
        &endpoint,
        "--leader-election",
        "--leader-election-namespace=ns",
        "--probe-timeout=500ms",
    ];
    let mut running = stage.start(&arguments);
    stage.all_work(0).await;
    let gone = Instant::now();
    stage.driver.stop();
    stage.until_held(&ALL, str::is_empty).await;
    assert!(gone.elapsed() > Duration::from_secs(50), "{gone:?}");
    until_answer(&address, "/healthz", 500, "").await;
    // Also longer than a single program waits for its driver at the start.
    let before = running.log().matches("Still connecting").count();
    running.logs_times("Still connecting", before + 4).await;
    stay_away().await;
    let why = until_answer(&address, "/readyz", 503, "not requesting a lease").await;
    assert_eq!(why, "not requesting a lease: waiting for the driver\n");
    assert!(running.is_running(), "{}", running.log());
    for controller in ALL {
        assert_eq!(stage.holder_of(controller), "", "{controller}");
    }
    stage.driver.start();
    stage.until_held(&ALL, is_together).await;
    stage.all_work(1).await;
    until_answer(&address, "/healthz", 200, "ok").await;
    running.terminated().await.well();
}

/// The driver comes later than a single program would wait for it.
#[tokio::test]
async fn a_101_a_driver_that_comes_late_is_waited_for() {
    let stage = Stage::new().await;
    stage.driver.stop();
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let controllers = "--controllers=provisioner,attacher,resizer,livenessprobe";
    let mut running = stage.start(&[controllers, &endpoint, "--probe-timeout=500ms"]);
    running.logs_times("Still connecting", 7).await;
    stay_away().await;
    assert_eq!(get(&address, "/healthz").await.0, 500);
    assert_eq!(get(&address, "/readyz").await.0, 503);
    assert!(running.is_running());
    stage.driver.start();
    stage.all_work(0).await;
    until_answer(&address, "/healthz", 200, "ok").await;
    running.terminated().await.well();
}
