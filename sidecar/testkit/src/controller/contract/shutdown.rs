//! A signal ends the process gracefully, and no work is lost.

use super::super::{ELECTION, Program, Stage, settle};
use crate::Gate;
use crate::process::Signal;

const TOLD: &str = "Signal received, shutting down";

/// Generates the tests of shutdown.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_shutdowns {
    ($program:path) => {
        #[tokio::test]
        async fn a_signal_ends_an_idle_process_and_gives_the_lease_back() {
            $crate::controller::contract::shutdown::idle(&$program).await;
        }

        #[tokio::test]
        async fn running_calls_finish_and_are_recorded_and_nothing_new_begins() {
            $crate::controller::contract::shutdown::at_work(&$program).await;
        }

        #[tokio::test]
        async fn a_second_signal_ends_it_at_once() {
            $crate::controller::contract::shutdown::twice(&$program).await;
        }
    };
}

/// There is no work. The value of upstream's gate makes no difference.
pub async fn idle(program: &'static Program) {
    for (signal, gate) in [(Signal::TERM, "true"), (Signal::INT, "false")] {
        let stage = Stage::prepared(program, 0).await;
        let gate = format!("--feature-gates=ReleaseLeaderElectionOnExit={gate}");
        for election in [&[][..], &ELECTION] {
            let arguments: Vec<&str> = election.iter().copied().chain([gate.as_str()]).collect();
            let running = stage.started(&arguments).await;
            running.signal(signal);
            running.end().await.well();
        }
        assert_eq!(stage.holder(), "", "{gate}");
        assert_eq!(stage.lease()["spec"]["leaseDurationSeconds"], 1, "{gate}");
    }
}

/// More work is requested than it does at once.
pub async fn at_work(program: &'static Program) {
    let stage = Stage::prepared(program, 5).await;
    let gate = Gate::new();
    stage.hold_effects(&gate);
    let workers = format!("{}=2", program.workers);
    // They end when the gate opens, and not before.
    let timeout = program.has_driver().then_some("--timeout=5m");
    let arguments: Vec<&str> = ELECTION
        .into_iter()
        .chain([workers.as_str()])
        .chain(timeout)
        .collect();
    let mut running = stage.started(&arguments).await;
    (0..5).for_each(|number| stage.ask(number));
    stage.until_effects(2).await;
    running.terminate();
    running.logs(TOLD).await;
    settle().await;
    assert!(running.is_running(), "{}", running.log());
    gate.open();
    let ended = running.end().await;
    ended.well();
    ended.says("the end", 0, "All running operations have ended");
    let done = (0..5).filter(|number| stage.is_done(*number)).count();
    let history = stage.history().join("\n");
    assert_eq!((done, stage.effects()), (2, 2), "{history}");
    assert_eq!(stage.holder(), "");
    // The program's successor does the rest, and nothing twice.
    let _successor = stage.started(&ELECTION).await;
    for number in 0..5 {
        stage.until_done(number).await;
    }
    assert_eq!(stage.effects(), 5);
}

/// A second signal ends the process at once.
pub async fn twice(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    stage.hold_effects(&Gate::new());
    let running = stage.started(&[]).await;
    stage.ask(0);
    stage.until_effects(1).await;
    running.terminate();
    running.logs(TOLD).await;
    running.terminate();
    running.end().await.says("a second signal", 1, TOLD);
}
