//! livenessprobe and registrar in one process, beside a driver and a kubelet.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, which is what it is for"
)]

#[path = "../../../registrar/tests/registrar/kubelet.rs"]
mod kubelet;
mod startup_taint;

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use sidecar_testkit::http::get;
use sidecar_testkit::process::{Process, stay_away, until, within};
use sidecar_testkit::{CallFault, FakeDriver, Gate, free_address};

const NAME: &str = "d.example.com";
const ENDPOINT: &str = "/p/csi.sock";
/// Health requests fail after three seconds by default, which a busy machine exceeds.
const PATIENT: &str = "--probe-timeout=20s";

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_csi-node-sidecars")
}

/// A driver, and the process beside it.
struct Node {
    driver: FakeDriver,
    directory: tempfile::TempDir,
    process: Process,
    /// Address of the process's HTTP server.
    address: String,
}

impl Node {
    async fn start(driver: FakeDriver, controllers: &str, flags: &[String]) -> Self {
        Self::start_as(Command::new(program()), driver, controllers, flags).await
    }

    /// Starts the process; `command` runs the program with the added arguments.
    async fn start_as(
        mut command: Command,
        driver: FakeDriver,
        controllers: &str,
        flags: &[String],
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        command.arg(format!("--controllers={controllers}"));
        command.arg(format!("--csi-address={}", driver.socket().display()));
        command.arg(format!(
            "--plugin-registration-path={}",
            directory.path().display()
        ));
        command.arg(format!("--kubelet-registration-path={ENDPOINT}"));
        // The driver answers in the test's own thread, which may have to wait for a processor longer than the default
        // second. The last of equal flags counts.
        command.args(["--http-endpoint=127.0.0.1:0", "--timeout=1m"]);
        command.args(flags);
        let process = Process::start(command);
        let line = "\"HTTP server is listening\" address=\"";
        process.says(line).await;
        let log = process.log();
        let (_, rest) = log.split_once(line).unwrap();
        let address = rest.split('"').next().unwrap().to_owned();
        Self {
            driver,
            directory,
            process,
            address,
        }
    }

    /// Starts both programs with a running driver.
    async fn both(flags: &[String]) -> Self {
        let driver = FakeDriver::new(NAME);
        driver.start();
        let flags = [&[PATIENT.to_owned()][..], flags].concat();
        let mut node = Self::start(driver, "node-driver-registrar,livenessprobe", &flags).await;
        node.process.listening(&node.socket()).await;
        node
    }

    fn socket(&self) -> PathBuf {
        self.socket_of(NAME)
    }

    fn socket_of(&self, driver: &str) -> PathBuf {
        self.directory.path().join(format!("{driver}-reg.sock"))
    }

    #[track_caller]
    fn must_say(said: &sidecar_testkit::http::Answer, status: u16, words: &str) {
        assert_eq!(said.status, status, "{}", said.body);
        assert!(said.body.contains(words), "no {words:?} in {}", said.body);
    }

    async fn says(&self, path: &str, status: u16, words: &str) {
        Self::must_say(&get(&self.address, path).await, status, words);
    }

    async fn register(&self) {
        let info = kubelet::ask(&self.socket()).await;
        assert_eq!((&*info.name, &*info.endpoint), (NAME, ENDPOINT));
        kubelet::notify(&self.socket(), true, "").await.unwrap();
    }
}

#[tokio::test]
async fn a_66_a_57_the_driver_is_registered_and_its_health_told() {
    let node = Node::both(&[]).await;
    node.says("/healthz", 200, "ok").await;
    node.says("/livez", 200, "ok").await;
    node.says("/healthz/leader-election", 200, "ok").await;
    node.says("/readyz", 503, "not registered: kubelet has not asked yet")
        .await;
    node.says("/registration", 503, "not registered").await;
    node.register().await;
    node.says("/readyz", 200, "ok").await;
    node.says("/registration", 200, "registered").await;
    node.says("/metrics", 200, "method_name=\"/csi.v1.Identity/Probe\"")
        .await;
    node.says("/debug/pprof/", 404, "").await;
    node.process.says("Got the driver's name").await;
    // One connection to watch the driver and get its name, one for livenessprobe to get the name, one
    // for health.
    assert_eq!(node.driver.connections(), 3, "A-16");
    assert_eq!(node.driver.calls_to("GetPluginInfo").len(), 2);
}

#[tokio::test]
async fn a_57_a_registrar_alone_answers_for_its_socket() {
    let driver = FakeDriver::new(NAME);
    let mut node = Node::start(driver, "registrar", &["--enable-pprof".to_owned()]).await;
    node.says("/healthz", 404, "the driver's name is not known yet")
        .await;
    node.says("/livez", 200, "ok").await;
    node.says("/readyz", 503, "the driver's name is not known yet")
        .await;
    node.says("/registration", 503, "not registered").await;
    node.driver.start();
    node.process.listening(&node.socket()).await;
    node.says("/healthz", 200, "ok").await;
    assert_eq!(node.driver.calls_to("Probe").len(), 0);
    node.says("/debug/pprof/", 200, "").await;
    // In one step: a socket that is away is created again.
    let mine = node.driver.directory().join("mine");
    std::fs::write(&mine, "mine").unwrap();
    std::fs::rename(mine, node.socket()).unwrap();
    node.says("/healthz", 500, "is not a socket").await;
    node.says("/livez", 500, "is not a socket").await;
}

#[tokio::test]
async fn a_58_old_probes_have_their_own_listeners() {
    let (probe, registrar) = (free_address(), free_address());
    let node = Node::both(&[
        format!("--livenessprobe-http-endpoint={probe}"),
        format!("--node-driver-registrar-http-endpoint={registrar}"),
        "--metrics-path=/m".to_owned(),
    ])
    .await;
    for address in [&probe, &registrar] {
        until("a listener", async || {
            std::net::TcpStream::connect(address).is_ok()
        })
        .await;
    }
    for (address, path, status) in [
        (&probe, "/healthz", 200),
        (&probe, "/m", 200),
        (&probe, "/metrics", 404),
        (&probe, "/readyz", 404),
        (&registrar, "/healthz", 200),
        (&registrar, "/registration", 503),
        (&registrar, "/m", 404),
        (&registrar, "/livez", 404),
        (&node.address, "/healthz", 200),
        (&node.address, "/m", 200),
    ] {
        let answer = get(address, path).await;
        assert_eq!(answer.status, status, "{address} {path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_53_a_port_that_is_taken_ends_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let driver = FakeDriver::new(NAME);
    driver.start();
    for flag in ["--http-endpoint", "--livenessprobe-http-endpoint"] {
        let flag = format!("{flag}={taken}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_csi-node-sidecars"));
        command.arg("--controllers=livenessprobe").arg(&flag);
        command.arg(format!("--csi-address={}", driver.socket().display()));
        let end = Process::start(command).ended().await;
        end.failed_naming(&[&flag, "listen tcp"]);
    }
}

#[tokio::test]
async fn a_69_a_driver_that_hangs_is_sick_and_stays_registered() {
    let mut node = Node::both(&["--probe-timeout=1s".to_owned()]).await;
    node.register().await;
    node.driver.fault(CallFault::on("Probe").hang());
    node.says("/healthz", 500, "").await;
    node.says("/livez", 200, "ok").await;
    node.says("/readyz", 200, "ok").await;
    node.process.must_run();
    node.register().await;
}

#[tokio::test]
async fn a_70_a_driver_of_another_name_is_registered_anew() {
    let mut node = Node::both(&[]).await;
    node.register().await;
    node.driver.stop();
    node.says("/healthz", 500, "").await;
    node.driver
        .configure(|model| model.name = "other.example.com".to_owned());
    node.driver.start();
    let socket = node.directory.path().join("other.example.com-reg.sock");
    node.process.listening(&socket).await;
    assert_eq!(kubelet::ask(&socket).await.name, "other.example.com");
    node.says("/healthz", 200, "ok").await;
    let log = node.process.log();
    let ended = log.lines().find(|line| line.contains("restarting it"));
    let ended = ended.unwrap();
    assert!(
        ended.contains(NAME) && ended.contains("other.example.com"),
        "{ended}"
    );
    assert!(
        ended.contains("controller=\"node-driver-registrar\""),
        "{ended}"
    );
    node.process.signal(Signal::TERM);
    node.process.ended().await.with_code(0);
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_104_who_is_refused_by_kubelet_answers_for_the_driver_and_asks_again() {
    let mut node = Node::both(&[]).await;
    // A refusal is told until the registrar knows the driver's name again.
    node.process.says("Got the driver's name").await;
    let gate = Gate::new();
    let held = CallFault::on("GetPluginInfo").hold(&gate);
    let held = node.driver.fault(held);
    // The process may end the connection before it answers.
    let _ = kubelet::notify(&node.socket(), false, "a name that is taken").await;
    node.process.says("The registration ended").await;
    node.says("/healthz", 200, "ok").await;
    node.says("/livez", 200, "ok").await;
    node.says("/readyz", 503, "a name that is taken").await;
    node.says("/registration", 503, "a name that is taken")
        .await;
    held.remove();
    gate.open();
    let again = async || {
        let log = node.process.log();
        log.matches("Waiting for kubelet to register").count() == 2
    };
    until("another socket", again).await;
    node.process.listening(&node.socket()).await;
    node.register().await;
    node.says("/readyz", 200, "ok").await;
    node.process.signal(Signal::TERM);
    node.process.ended().await.with_code(0);
    assert!(!node.socket().exists());
}

/// The driver comes later than a single program would wait for it.
#[tokio::test]
async fn a_101_a_driver_that_comes_late_is_waited_for_and_its_health_told() {
    let driver = FakeDriver::new(NAME);
    let flags = [PATIENT.to_owned()];
    let mut node = Node::start(driver, "node-driver-registrar,livenessprobe", &flags).await;
    let minute = std::time::Duration::from_secs(60);
    let waits = async || {
        node.process
            .log()
            .contains("Cannot register the driver yet")
    };
    within(minute, "a program's patience", waits).await;
    stay_away().await;
    node.says("/healthz", 500, "").await;
    node.says("/readyz", 503, "the driver's name is not known yet")
        .await;
    node.process.must_run();
    node.driver.fault(
        CallFault::on("GetPluginInfo")
            .times(3)
            .fail(tonic::Code::Internal, "starting"),
    );
    node.driver.start();
    node.process.listening(&node.socket()).await;
    node.register().await;
    node.says("/healthz", 200, "ok").await;
    let is_ready = async || get(&node.address, "/readyz").await.status == 200;
    until("ready", is_ready).await;
}

#[tokio::test]
async fn a_71_sigterm_removes_the_socket() {
    let mut node = Node::both(&[]).await;
    node.register().await;
    node.process.signal(Signal::TERM);
    node.process.ended().await.with_code(0);
    assert!(!node.socket().exists());
}

#[tokio::test]
async fn a_59_each_line_says_whose_it_is() {
    let node = Node::both(&[]).await;
    node.register().await;
    node.process.says("kubelet has registered the driver").await;
    node.process.says("Got the driver's name").await;
    let log = node.process.log();
    for (message, controller) in [
        ("Starting", None),
        (
            "Waiting for kubelet to register the driver",
            Some("node-driver-registrar"),
        ),
        (
            "kubelet has registered the driver",
            Some("node-driver-registrar"),
        ),
        ("Got the driver's name", Some("livenessprobe")),
    ] {
        let line = log.lines().find(|line| line.contains(message)).unwrap();
        let said = line.split_once(" controller=\"").map(|(_, rest)| rest);
        let said = said.and_then(|rest| rest.split('"').next());
        assert_eq!(said, controller, "{line}");
    }
}

#[test]
fn version_and_help() {
    let run = |flag: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_csi-node-sidecars"));
        let output = command.arg(flag).output().unwrap();
        assert!(output.status.success(), "{flag}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run("--version").starts_with("csi-node-sidecars "), "A-13");
    assert!(
        run("--help").starts_with("Usage of csi-node-sidecars"),
        "A-13"
    );
}
