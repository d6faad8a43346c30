//! The driver: at the start, lost, back, and replaced.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::Code;

use super::super::{ELECTION, Program, Stage, free_address, settle, until_metrics};
use crate::driver::{Memory, Probe};
use crate::{CallFault, Gate};

/// Generates the tests of programs with a driver.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_drivers {
    ($program:path) => {
        #[tokio::test]
        async fn common_4_a_socket_that_never_appears() {
            $crate::controller::contract::driver::no_socket(&$program).await;
        }

        #[tokio::test]
        async fn a_socket_that_appears_late() {
            $crate::controller::contract::driver::late_socket(&$program).await;
        }

        #[tokio::test]
        async fn common_15_16_and_18_probes() {
            $crate::controller::contract::driver::probes(&$program).await;
        }

        #[tokio::test]
        async fn common_20_a_driver_that_does_not_say_who_it_is() {
            $crate::controller::contract::driver::no_name(&$program).await;
        }

        #[tokio::test]
        async fn before_there_is_a_driver_a_signal_ends_it_at_once() {
            $crate::controller::contract::driver::signal_before(&$program).await;
        }

        #[tokio::test]
        async fn the_drivers_restart_does_not_end_the_process_and_work_waits() {
            $crate::controller::contract::driver::restarts(&$program).await;
        }

        #[tokio::test]
        async fn o_66_o_71_a_driver_that_comes_back_with_another_version() {
            $crate::controller::contract::driver::upgraded(&$program).await;
        }

        #[tokio::test]
        async fn fs_7_a_driver_killed_during_a_call_is_asked_again_when_it_is_back() {
            $crate::controller::contract::driver::killed(&$program).await;
        }

        #[tokio::test]
        async fn a_driver_that_came_back_under_another_name_ends_the_process() {
            $crate::controller::contract::driver::another(&$program).await;
        }

        #[tokio::test]
        async fn fs_16_what_failed_while_the_api_server_was_away_does_not_wait_out_its_back_off() {
            $crate::controller::contract::driver::api_server_away(&$program).await;
        }
    };
}

/// The program gives up after thirty seconds, like upstream.
pub async fn no_socket(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    stage.driver.stop();
    let ended = stage.start(&[]).end().await;
    ended.says("row 4", 1, "context deadline exceeded");
    let took = ended.took.as_secs_f64();
    assert!((29.0..45.0).contains(&took), "row 4: {took}");
    let said = ended.log.matches("Still connecting").count();
    // Twice, unless the machine stood still at that moment.
    assert!((1..=2).contains(&said), "row 4: {}", ended.log);
    let socket = stage.driver.socket().display().to_string();
    assert!(ended.log.contains(&socket), "row 4: {}", ended.log);
}

/// The driver's container starts later.
pub async fn late_socket(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    stage.driver.stop();
    let running = stage.start(&[]);
    sleep(Duration::from_secs(4)).await;
    stage.driver.start();
    running.logs(program.ready).await;
}

/// A driver that is not ready yet, and one whose probe fails.
pub async fn probes(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    stage.driver.configure(|model| {
        let late = || Probe::Fail(Code::DeadlineExceeded, "late".into());
        model.probes = [
            late(),
            late(),
            Probe::NotReady,
            Probe::NotReady,
            Probe::Unset,
        ]
        .into();
    });
    let begun = Instant::now();
    let running = stage.started(&[]).await;
    let methods = stage.methods();
    assert_eq!(methods[..5], ["Probe"; 5], "rows 15 and 16");
    assert_eq!(methods[5], "GetPluginInfo", "rows 15 and 16");
    // Four pauses, from start to start. A driver that hears late of the first probe would see a shorter one.
    let pauses = stage.driver.calls()[4].started - begun;
    assert!(pauses >= Duration::from_secs(4), "row 15: {pauses:?}");
    drop(running);
    for code in [Code::Unknown, Code::Unavailable] {
        // Calls of the process before may still be running at its driver.
        let stage = Stage::prepared(program, 0).await;
        stage.driver.configure(|model| {
            model.probes = [Probe::NotReady, Probe::Fail(code, "mock error".into())].into();
        });
        let ended = stage.start(&[]).end().await;
        ended.says("row 18", 1, "CSI driver probe failed");
        assert_eq!(stage.methods(), ["Probe"; 2], "row 18");
    }
}

/// The driver returns no name, or no response.
pub async fn no_name(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    stage.driver.configure(|model| model.name = String::new());
    let ended = stage.start(&[]).end().await;
    ended.says("row 20", program.fatal, "driver name is empty");
    let fails = CallFault::on("GetPluginInfo").fail(Code::Internal, "no");
    stage.driver.fault(fails);
    stage.driver.clear_calls();
    let ended = stage.start(&[]).end().await;
    ended.says("row 20", program.fatal, "GetPluginInfo");
    assert_eq!(stage.calls("GetPluginInfo"), 1, "no retry");
}

/// A signal ends the wait for a driver.
pub async fn signal_before(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    stage.driver.stop();
    let running = stage.start(&[]);
    running.logs("Connection attempt failed").await;
    // When its patience with the driver ends, it does not end well.
    running.terminated().await.well();
}

/// The driver goes away and comes back, and work waits meanwhile.
pub async fn restarts(program: &'static Program) {
    let stage = Stage::prepared(program, 3).await;
    let mut running = stage.started(&[]).await;
    for round in 0..3 {
        stage.driver.stop();
        let lost = "Lost the connection to the CSI driver";
        running.logs_times(lost, round + 1).await;
        stage
            .driver
            .configure(|model| model.probes = [Probe::NotReady].into());
        stage.ask(round);
        sleep(Duration::from_millis(300)).await;
        stage.driver.start();
        stage.until_done(round).await;
    }
    assert!(running.is_running());
    assert_eq!(stage.effects(), 3, "it waited");
    running.logs_times("The CSI driver is back", 3).await;
}

/// The driver comes back unchanged, and then as a newer version.
pub async fn upgraded(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let running = stage.started(&[&endpoint]).await;
    let series = |version: &str| {
        let name = program.driver;
        format!("csi_sidecar_driver_info{{driver_name=\"{name}\",driver_version=\"{version}\"}} 1")
    };
    until_metrics(&address, &series("1.0.0")).await;
    for (round, version) in ["1.0.0", "2.0.0"].into_iter().enumerate() {
        stage.driver.stop();
        let lost = "Lost the connection to the CSI driver";
        running.logs_times(lost, round + 1).await;
        stage
            .driver
            .configure(|model| model.vendor_version = version.to_owned());
        stage.driver.start();
        running
            .logs_times("The CSI driver is back", round + 1)
            .await;
        let text = until_metrics(&address, &series(version)).await;
        let shown = text.matches("csi_sidecar_driver_info{").count();
        assert_eq!(shown, 1, "O-66: the old series goes");
        running.logs_times("\"Ready to work\"", round + 1).await;
    }
    let log = running.log();
    let said: Vec<&str> = { log.lines() }
        .filter(|line| line.contains("\"Ready to work\""))
        .collect();
    assert_eq!(said.len(), 2, "O-71, where something differs: {log}");
    for (line, version) in said.into_iter().zip(["1.0.0", "2.0.0"]) {
        let field = format!("driver_version={version:?}");
        assert!(line.contains(&field), "O-71: {line}, not {field}");
    }
}

/// The driver dies during a call. No retry is due within the test.
pub async fn killed(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    stage.hold_effects(&Gate::new());
    let arguments = ["--retry-interval-start=5m", "--timeout=10m"];
    let mut running = stage.started(&arguments).await;
    stage.ask(0);
    stage.until_effects(1).await;
    stage.driver.stop();
    running.logs("Lost the connection to the CSI driver").await;
    settle().await;
    assert!(!stage.is_done(0));
    stage.driver.clear_faults();
    stage.driver.start();
    stage.until_done(0).await;
    assert_eq!(stage.effects(), 2);
    assert!(running.is_running());
}

/// Another driver takes over the socket.
pub async fn another(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let running = stage.started(&ELECTION).await;
    let other = "another.driver";
    stage.driver.configure(|model| model.name = other.into());
    stage.driver.restart(Memory::Kept);
    let ended = running.end().await;
    let last = ended.log.lines().last().unwrap_or_default();
    assert!(ended.code.is_some_and(|code| code != 0), "{}", ended.log);
    assert!(last.contains(other), "{}", ended.log);
    settle().await;
    assert_eq!(stage.holder(), "", "others may go on");
}

/// The call returns while its outcome cannot be recorded.
pub async fn api_server_away(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    let gate = Gate::new();
    stage.hold_effects(&gate);
    let arguments = ["--retry-interval-start=10m", "--retry-interval-max=20m"];
    let running = stage.started(&arguments).await;
    stage.ask(0);
    stage.until_effects(1).await;
    stage.api.set_down(true);
    gate.open();
    // Long enough to count as an outage, and for the program's watches to be in their own back-off.
    sleep(Duration::from_secs(4)).await;
    stage.api.set_down(false);
    // No retry is due within the test.
    stage.until_done(0).await;
    running.logs("The API server answers again").await;
}
