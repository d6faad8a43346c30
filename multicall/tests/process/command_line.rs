//! Rows.

use std::path::Path;
use std::process::Command;

use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::process::Process;
use sidecar_testkit::{CallFault, Gate};

use super::stage::{ALL, PATIENT, PROGRAM, Stage, THREE, free_address, get, settle};

#[tokio::test]
async fn a_1_the_invocation_of_the_proposal() {
    let stage = Stage::new().await;
    let running = stage.start(&[
        "--controllers=attacher,provisioner,resizer",
        "--leader-election",
        "--leader-election-namespace=ns",
        "--timeout=30s",
        "--attacher-timeout=20s",
        "--attacher-worker-threads=7",
        "--feature-gates=Topology=true",
    ]);
    stage.all_work(0).await;
    let limit = |method: &str| {
        let calls = stage.driver.calls_to(method);
        calls[0].deadline.expect("it has a deadline").as_secs_f64()
    };
    let about = |limit: f64, seconds: f64| limit > seconds - 5.0 && limit <= seconds;
    let attach = limit("ControllerPublishVolume");
    assert!(about(attach, 20.0), "{attach}");
    for method in ["CreateVolume", "ControllerExpandVolume"] {
        assert!(about(limit(method), 30.0), "{method}: {}", limit(method));
    }
    running.terminated().await.well();
}

#[tokio::test]
async fn a_3_without_controllers_it_says_which_there_are() {
    for arguments in [
        &["--csi-address=/x"][..],
        &["--controllers="],
        &["--controllers=atacher"],
    ] {
        let ended = PROGRAM.run(arguments).await;
        for name in ALL {
            ended.says("A-3", 2, name);
        }
    }
}

#[tokio::test]
async fn a_11_gates_reach_those_that_know_them_and_one_that_nobody_knows_is_refused() {
    let stage = Stage::new().await;
    let known =
        "--feature-gates=Topology=false,AnnotateFsResize=false,ReleaseLeaderElectionOnExit=true";
    let running = stage.three(&[known]);
    stage.all_work(0).await;
    running.terminated().await.well();
    let ended = stage.three(&["--feature-gates=Nonsense=true"]).end().await;
    ended.says("A-11", 255, "Nonsense");
    let own = "--provisioner-feature-gates=Topology=true";
    let both = stage.three(&["--feature-gates=Nonsense=true", own]);
    both.end().await.says("A-11", 255, "Nonsense");
}

#[tokio::test]
async fn a_13_version_and_help() {
    let ended = PROGRAM.run(&["--version"]).await;
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.stdout.starts_with("csi-sidecars "),
        "{}",
        ended.stdout
    );
    let ended = PROGRAM.run(&["--help"]).await;
    assert_eq!(ended.code, Some(0));
    let once = ended.stdout.find("--csi-address").unwrap();
    let section = ended.stdout.find("For attacher").unwrap();
    assert!(once < section);
}

#[tokio::test]
async fn a_2_it_is_found_through_path() {
    let stage = Stage::new().await;
    let here = stage.command(&[THREE]);
    let program = Path::new(here.get_program());
    let mut command = Command::new(program.file_name().unwrap());
    command.args(here.get_args()).env_clear();
    command.env("PATH", program.parent().unwrap());
    command.env("POD_NAMESPACE", "ns");
    let mut process = Process::start(command);
    stage.all_work(0).await;
    assert!(process.is_running());
}

#[tokio::test]
async fn a_14_a_program_is_chosen_by_its_name_as_ever() {
    let stage = Stage::new().await;
    let mut process = stage.single("csi-attacher", &[]);
    stage.attach(0);
    stage.until_done_by(0, &["attacher"]).await;
    assert!(process.is_running());
}

#[tokio::test]
async fn a_46_without_election_no_lease_is_touched() {
    let stage = Stage::new().await;
    let running = stage.start(&[THREE]);
    stage.all_work(0).await;
    let leases = stage.api.requests_to("*", "*/leases/*test-csi-driver");
    assert!(leases.is_empty(), "{leases:#?}");
    running.terminated().await.well();
}

#[tokio::test]
async fn a_4_what_the_star_means_is_left_out_if_the_driver_cannot_do_it() {
    let stage = Stage::new().await;
    stage.driver.configure(|model| {
        model
            .controller
            .retain(|rpc| *rpc != ControllerRpc::ExpandVolume);
    });
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let running = stage.start(&["--controllers=*,-resizer", &endpoint, PATIENT]);
    stage.ask_all(0);
    stage.until_done_by(0, &["provisioner", "attacher"]).await;
    assert_eq!(get(&address, "/healthz").await, (200, "ok".to_owned()));
    assert!(!running.log().contains("resizer"), "{}", running.log());
    running.terminated().await.well();
}

#[tokio::test]
async fn a_6_two_names_of_one_flag() {
    for (flag, attaches) in [
        ("--resizer-workers=3", 4),
        ("--resizer-worker-threads=3", 4),
        ("--worker-threads=3", 3),
    ] {
        let stage = Stage::new().await;
        let gate = Gate::new();
        for method in ["ControllerExpandVolume", "ControllerPublishVolume"] {
            stage.driver.fault(CallFault::on(method).hold(&gate));
        }
        // A call that has not ended in time would be made again.
        let running = stage.three(&[flag, "--timeout=5m"]);
        for number in 0..4 {
            stage.attach(number);
            stage.expand(number);
        }
        stage.until_calls("ControllerExpandVolume", 3).await;
        stage.until_calls("ControllerPublishVolume", attaches).await;
        settle().await;
        assert_eq!(stage.calls("ControllerExpandVolume"), 3, "{flag}");
        assert_eq!(stage.calls("ControllerPublishVolume"), attaches, "{flag}");
        gate.open();
        running.terminated().await.well();
    }
}

#[tokio::test]
async fn a_58_a_listener_that_old_probes_ask() {
    let stage = Stage::new().await;
    let (common, old) = (free_address(), free_address());
    let running = stage.start(&[
        "--controllers=attacher,livenessprobe",
        &format!("--http-endpoint={common}"),
        &format!("--livenessprobe-http-endpoint={old}"),
        PATIENT,
    ]);
    for address in [&common, &old] {
        assert_eq!(get(address, "/healthz").await, (200, "ok".to_owned()));
    }
    running.terminated().await.well();
}
