//! The built program: flags, exit codes, log, health and metrics. In real time.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::http::attack::Target;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::stage::{D, N, Stage, until};

/// The program under test; killed when dropped.
struct Program {
    child: Child,
    directory: TempDir,
}

impl Drop for Program {
    fn drop(&mut self) {
        // Killing fails if the program has ended, as intended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(arguments: &[String]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(directory.path().join(name)).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_csi-plugin-manager"))
            .args(arguments)
            .env_clear()
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        Self { child, directory }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    fn log(&self) -> String {
        self.read("stderr")
    }

    /// The port of the HTTP server.
    async fn port(&self) -> u16 {
        let port = || {
            let log = self.log();
            let line = log
                .lines()
                .find(|line| line.contains("HTTP server is listening"))?;
            line.split("127.0.0.1:")
                .nth(1)?
                .trim_end_matches('"')
                .parse()
                .ok()
        };
        until("the HTTP server listens", || port().is_some()).await;
        port().unwrap()
    }

    fn terminate(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
    }

    async fn end(&mut self) -> ExitStatus {
        for _ in 0..2000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            // The next check follows after this time.
            sleep(Duration::from_millis(10)).await;
        }
        panic!("it does not end: {}", self.log());
    }

    /// Waits for the end with code 1 and returns the last line of the log.
    async fn fails(&mut self) -> String {
        let status = self.end().await;
        let log = self.log();
        assert_eq!(status.code(), Some(1), "{log}");
        log.lines().last().unwrap().to_owned()
    }
}

fn arguments(arguments: &[&str]) -> Vec<String> {
    arguments
        .iter()
        .map(|&argument| argument.to_owned())
        .collect()
}

/// Status line and body of a GET; empty while the port has no listener.
fn get(port: u16, path: &str) -> (String, String) {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        stream.read_to_string(&mut answer).unwrap();
    }
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    (
        head.lines().next().unwrap_or_default().to_owned(),
        body.to_owned(),
    )
}

/// The usual flags for a stage whose API server is behind this kubeconfig.
fn flags(stage: &Stage, kubeconfig: PathBuf) -> Vec<String> {
    vec![
        format!("--node-name={N}"),
        format!("--plugin-registration-dir={}", stage.registry().display()),
        format!("--kubeconfig={}", kubeconfig.display()),
    ]
}

#[tokio::test]
async fn a_driver_comes_and_stays_when_the_program_ends() {
    let stage = Stage::set();
    let served = stage.api.serve().await;
    let mut arguments = flags(&stage, served.kubeconfig());
    arguments.push("--http-endpoint=127.0.0.1:0".to_owned());
    let mut program = Program::start(&arguments);
    let port = program.port().await;
    let registrar = stage.registrar();
    registrar.confirmed().await;
    until("it is healthy", || get(port, "/healthz").1 == "ok").await;
    let (_, metrics) = get(port, "/metrics");
    for family in [
        "plugin_manager_total_plugins{",
        "csi_operations_seconds_count{",
        "process_",
    ] {
        assert!(metrics.contains(family), "no {family} in {metrics}");
    }
    assert!(get(port, "/").0.contains("404"));
    program.terminate();
    let status = program.end().await;
    assert!(status.success(), "{status} {}", program.log());
    assert!(stage.entry(D).is_some());
    let agents = stage.api.requests();
    let ours = |agent: &str| agent.starts_with("csi-plugin-manager/");
    assert!(agents.iter().all(|request| ours(&request.user_agent)));
}

#[tokio::test]
async fn mistakes_on_the_command_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let in_file = format!("--plugin-registration-dir={}/x", file.path().display());
    let rows: [(&[&str], i32, &str); 8] = [
        (&[], 1, "--node-name is required"),
        (&["--node-name=A/B"], 1, "--node-name=\"A/B\""),
        (
            &["--node-name=n1", "--kubelet-root-dir=rel"],
            1,
            "--kubelet-root-dir=\"rel\"",
        ),
        (&["--node-name=n1"], 1, "--kubeconfig"),
        (
            &["--node-name=n1", "--kubeconfig=/nowhere/config"],
            1,
            "--kubeconfig=/nowhere/config",
        ),
        (&["--nope"], 2, "flag provided but not defined: -nope"),
        (&["--node-name"], 2, "flag needs an argument: -node-name"),
        (
            &["--node-name=n1", "--logging-format=xml"],
            1,
            "--logging-format",
        ),
    ];
    for (flags, code, expected) in rows {
        let mut program = Program::start(&arguments(flags));
        let status = program.end().await;
        let log = program.log();
        assert_eq!(status.code(), Some(code), "{flags:?} {log}");
        assert!(log.contains(expected), "{flags:?} {log}");
    }
    let stage = Stage::set();
    let served = stage.api.serve().await;
    let mut all = flags(&stage, served.kubeconfig());
    all.push(in_file);
    let last = Program::start(&all).fails().await;
    assert!(
        last.contains("cannot create the plugin registration directory"),
        "{last}"
    );
}

#[tokio::test]
async fn help_and_version() {
    let mut help = Program::start(&arguments(&["--help"]));
    assert!(help.end().await.success());
    let flags = [
        "node-name",
        "register-node",
        "kubelet-root-dir",
        "plugin-registration-dir",
        "kubeconfig",
        "kube-api-qps",
        "kube-api-burst",
        "http-endpoint",
        "version",
        "logging-format",
    ];
    for flag in flags {
        assert!(help.log().contains(&format!("-{flag}")), "{flag}");
    }
    let mut version = Program::start(&arguments(&["--version"]));
    assert!(version.end().await.success());
    assert!(
        version
            .read("stdout")
            .starts_with(env!("CARGO_BIN_EXE_csi-plugin-manager"))
    );
}

#[tokio::test]
async fn without_its_node_it_ends() {
    let stage = Stage::set();
    stage.api.delete("nodes", N);
    let served = stage.api.serve().await;
    let mut program = Program::start(&flags(&stage, served.kubeconfig()));
    let last = program.fails().await;
    assert!(last.contains("Node n1 does not exist"), "{last}");
    assert!(last.contains("--register-node"), "{last}");
}

#[tokio::test]
async fn without_a_permission_it_ends_and_names_the_rule() {
    let stage = Stage::set();
    stage.api.allow_only([
        Allow::new("", "nodes", "get"),
        Allow::new("storage.k8s.io", "csinodes", "get,create,update"),
    ]);
    let served = stage.api.serve().await;
    let mut program = Program::start(&flags(&stage, served.kubeconfig()));
    let last = program.fails().await;
    // The text format quotes the message.
    let rule = r#"- {apiGroups: [""], resources: ["nodes/status"], verbs: ["patch"]}"#;
    assert!(last.replace('\\', "").contains(rule), "{last}");
    assert!(
        !last.contains("csinodes"),
        "what is granted or optional is not among them: {last}"
    );
    let log = program.log();
    assert!(
        log.contains("csidrivers"),
        "the optional ones are warned about: {log}"
    );
}

#[tokio::test]
async fn an_api_server_that_is_away_is_waited_for() {
    let stage = Stage::set();
    let served = stage.api.serve().await;
    stage.api.set_down(true);
    let mut arguments = flags(&stage, served.kubeconfig());
    arguments.push("--http-endpoint=127.0.0.1:0".to_owned());
    let mut program = Program::start(&arguments);
    let port = program.port().await;
    until("it is unhealthy", || {
        get(port, "/healthz").0.contains("500")
    })
    .await;
    assert_eq!(get(port, "/healthz").1, "CSINode is not yet initialized");
    until("it says so", || {
        program.log().contains("API server does not answer")
    })
    .await;
    stage.api.set_down(false);
    until("it is healthy", || get(port, "/healthz").1 == "ok").await;
    program.terminate();
    assert!(program.end().await.success());
}

#[tokio::test]
async fn a_busy_port_ends_it() {
    let stage = Stage::set();
    let served = stage.api.serve().await;
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap();
    let mut arguments = flags(&stage, served.kubeconfig());
    arguments.push(format!("--http-endpoint={address}"));
    let last = Program::start(&arguments).fails().await;
    assert!(
        last.contains(&format!("--http-endpoint={address}")),
        "{last}"
    );
    assert!(last.contains("in use"), "{last}");
}

#[tokio::test]
async fn fs_11_health_is_answered_under_attack() {
    let stage = Stage::set();
    let served = stage.api.serve_plain().await;
    let mut arguments = flags(&stage, served.kubeconfig().to_path_buf());
    arguments.push("--http-endpoint=127.0.0.1:0".to_owned());
    let mut program = Program::start(&arguments);
    let port = program.port().await;
    until("it is healthy", || get(port, "/healthz").1 == "ok").await;
    let target = Target {
        id: program.child.id(),
        address: format!("127.0.0.1:{port}"),
        health: "/healthz",
        large: "/metrics",
    };
    target.withstands().await;
    let ended = program.child.try_wait().unwrap();
    assert!(ended.is_none(), "{}", program.log());
}

#[tokio::test]
async fn fa_6_no_core_file() {
    let stage = Stage::set();
    let served = stage.api.serve_plain().await;
    let mut arguments = flags(&stage, served.kubeconfig().to_path_buf());
    arguments.push("--http-endpoint=127.0.0.1:0".to_owned());
    let program = Program::start(&arguments);
    program.port().await;
    sidecar_testkit::process::keeps_no_core(program.child.id());
}
