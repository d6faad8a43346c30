//! Rows about flags of the process: output, exit code, no side effects.

use std::process::Command;
use std::time::Duration;

use crate::driver::Driver;
use crate::http;
use crate::process::{ENDPOINT, End, PROGRAM, Process, Seat};

/// Waits less than the thirty seconds for which a process without a driver tries to connect.
async fn run(args: &[&str]) -> End {
    let mut command = Command::new(PROGRAM);
    command.args(args);
    Process::start(command).ended().await
}

const PATH: &str = "--kubelet-registration-path=/p";

#[tokio::test]
async fn r_1_version() {
    let end = run(&["--version"]).await;
    end.with_code(0);
    let version = end.stdout.strip_prefix(&format!("{PROGRAM} ")).unwrap();
    assert!(version.len() > 1 && version.ends_with('\n'), "{version:?}");
    assert_eq!(version.lines().count(), 1);
    assert_eq!(end.stderr, "");
}

#[tokio::test]
async fn r_2_r_3_the_registration_path_is_required() {
    for args in [&[][..], &["--mode=kubelet-registration-probe"]] {
        let end = run(args).await;
        end.failed_naming(&["--kubelet-registration-path"]);
        assert_eq!(end.stderr.lines().count(), 1, "{}", end.stderr);
    }
}

#[tokio::test]
async fn r_4_r_5_the_probe_does_nothing() {
    let seat = Seat::new();
    for extra in [&[][..], &["--health-port=1", "--http-endpoint=:2"]] {
        let flags = [&["--mode=kubelet-registration-probe"], extra].concat();
        let end = seat.start(&flags).ended().await;
        end.with_code(0);
        assert!(seat.is_clean());
    }
}

#[tokio::test]
async fn r_6_two_http_addresses() {
    let end = run(&[PATH, "--health-port=9809", "--http-endpoint=:8080"]).await;
    end.failed_naming(&["--health-port", "--http-endpoint"]);
    assert!(end.took < Duration::from_secs(25), "did it try to connect?");
}

#[tokio::test]
async fn o_114_who_has_no_client_of_the_api_server_names_the_program_that_has() {
    for taint in ["a.example.com/b:NoSchedule", "no taint"] {
        let end = run(&[PATH, &format!("--remove-taint={taint}"), "--node-name=n1"]).await;
        end.failed_naming(&["--remove-taint", "csi-node-sidecars"]);
    }
}

#[tokio::test]
async fn r_7_a_negative_port_is_none() {
    let seat = Seat::new();
    let (_driver, _process, address) = http::running(&seat, &["--health-port=-5"]).await;
    assert_eq!(
        http::get(&address, "/healthz").await.head_and_body(),
        (200, "ok")
    );
}

#[tokio::test]
async fn r_8_other_modes_register() {
    for mode in ["registration", "foo"] {
        let seat = Seat::new();
        let (_driver, _process) = seat.running(&["--mode", mode]).await;
        assert_eq!(crate::kubelet::ask(&seat.socket()).await.endpoint, ENDPOINT);
    }
}

#[tokio::test]
async fn r_9_r_10_r_52_what_go_refuses() {
    for arg in [
        "--nope",
        "--timeout=5",
        "--health-port=abc",
        "--automaxprocs=x",
        "-v=-1",
        "---v",
    ] {
        let end = run(&[PATH, arg]).await;
        end.with_code(2);
        assert!(
            end.stderr.contains(&format!("Usage of {PROGRAM}:")),
            "{arg}: {}",
            end.stderr
        );
        assert_eq!(end.stdout, "", "{arg}");
    }
    run(&[PATH, "--timeout"]).await.with_code(2);
}

#[tokio::test]
async fn r_9_a_flag_that_upstream_retired_has_no_effect_and_a_warning() {
    let seat = Seat::new();
    let (_driver, process) = seat.running(&["--logtostderr=true"]).await;
    let text = "was retired in csi-node-driver-registrar v2.11.0 and has no effect";
    process.says(text).await;
}

#[tokio::test]
async fn r_11_help() {
    for arg in ["--help", "-help", "-h"] {
        let end = run(&[arg]).await;
        end.with_code(0);
        assert_eq!(end.stdout, "");
        assert!(
            end.stderr.contains("-kubelet-registration-path"),
            "{}",
            end.stderr
        );
    }
}

#[tokio::test]
async fn r_12_single_dashes() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    let mut command = Command::new(PROGRAM);
    command.args(seat.flags().iter().map(|flag| flag.replacen("--", "-", 1)));
    Process::start(command).listening(&seat.socket()).await;
}

#[tokio::test]
async fn r_13_what_follows_a_stray_word_is_ignored() {
    let seat = Seat::new();
    let (_driver, process) = seat
        .running(&["stray", "--http-endpoint=127.0.0.1:0"])
        .await;
    process.says("No HTTP server").await;
    process.says(r#"Argument \"stray\" is not a flag"#).await;
}

#[tokio::test]
async fn r_14_log_configuration() {
    for arg in [
        "--logging-format=xml",
        "--log-flush-frequency=0s",
        "--log-text-split-stream=true",
        "--log-json-split-stream",
        "--log-text-info-buffer-size=1Ki",
    ] {
        // Checked before anything else.
        for other in [PATH, "--version"] {
            let end = run(&[other, arg]).await;
            end.failed_naming(&[arg.split('=').next().unwrap()]);
            assert_eq!(end.stdout, "", "{arg}");
        }
    }
}

#[tokio::test]
async fn r_15_json() {
    let seat = Seat::new();
    let (_driver, process) = seat.running(&["--logging-format=json", "-v=4"]).await;
    crate::kubelet::ask(&seat.socket()).await;
    process.says("Received GetInfo call").await;
    for (_, line) in process.lines() {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        for key in ["ts", "caller", "msg"] {
            assert!(!line[key].is_null(), "no {key} in {line}");
        }
    }
}

#[tokio::test]
async fn r_49_r_52_flags_without_effect() {
    let seat = Seat::new();
    let (_driver, mut process) = seat
        .running(&[
            "--connection-timeout=10s",
            "--automaxprocs",
            "--automaxprocs=false",
        ])
        .await;
    process.says("--connection-timeout has no effect").await;
    process.must_run();
}
