//! Starts the program in a folder of its own and sends requests over gRPC and its control socket.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use csi_proto::csi;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_test_driver::cleanup;
use csi_test_driver::control::client::Client;
use csi_test_driver::instrument::record::{self, Call};
use csi_test_driver::instrument::rules::Rule;
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_csi-test-driver");

/// A folder that several drivers may share; removed at the end.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Starts a driver with fake mounts, which needs no root.
    pub(crate) fn start(&self, node: &str, flags: &[&str]) -> Driver {
        let all = [&["--mounts=fake"], flags].concat();
        self.start_real(node, &all)
    }

    pub(crate) fn start_real(&self, node: &str, flags: &[&str]) -> Driver {
        let mut driver = Driver {
            socket: self.path(&format!("{node}.sock")),
            control: Client::new(self.path(&format!("{node}.control"))),
            record: self.path(&format!("{node}.jsonl")),
            process: None,
            arguments: Vec::new(),
        };
        driver.arguments = vec![
            "--drivername=test.csi.example.com".to_owned(),
            format!("--nodeid={node}"),
            format!("--endpoint=unix://{}", driver.socket.display()),
            format!("--statedir={}", self.state().display()),
            format!("--record={}", driver.record.display()),
            format!("--control=unix:{}", driver.control.path().display()),
            "--sync=false".to_owned(),
        ];
        driver
            .arguments
            .extend(flags.iter().map(|flag| (*flag).to_owned()));
        driver.restart();
        driver
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The drivers are dead by now; a panic here would hide the test's own failure.
        if let Err(error) = cleanup::run(&self.state(), false) {
            eprintln!("cleanup: {error}");
        }
    }
}

/// A running driver; killed when dropped.
pub(crate) struct Driver {
    pub(crate) socket: PathBuf,
    pub(crate) control: Client,
    pub(crate) record: PathBuf,
    process: Option<Child>,
    arguments: Vec<String>,
}

impl Driver {
    /// Restarts it with the same command line.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let mut command = Command::new(PROGRAM);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        self.process = Some(command.spawn().unwrap());
        wait("the driver listens", || {
            // The socket may be a killed driver's until it is replaced.
            std::os::unix::net::UnixStream::connect(&self.socket).is_ok()
        });
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Waits until it has ended on its own.
    pub(crate) fn ended(&mut self) {
        let process = self.process.as_mut().unwrap();
        wait("the driver ends", || process.try_wait().unwrap().is_some());
        self.process = None;
    }

    pub(crate) fn terminate(&mut self) {
        let process = self.process.as_ref().unwrap();
        let pid = rustix::process::Pid::from_child(process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.ended();
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::try_from(format!("unix://{}", self.socket.display())).unwrap();
        endpoint.connect().await.unwrap()
    }

    pub(crate) async fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.channel().await)
    }

    pub(crate) async fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel().await)
    }

    pub(crate) async fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel().await)
    }

    /// All calls of a method, with or without a response.
    pub(crate) fn calls(&self, method: &str) -> Vec<Call> {
        let calls = record::read(&self.record).unwrap();
        calls
            .into_iter()
            .filter(|call| call.method == method)
            .collect()
    }

    pub(crate) fn rule(&self, rule: Value) -> String {
        let rule: Rule = serde_json::from_value(rule).unwrap();
        self.control.add_rule(&rule).unwrap()
    }

    /// Adds a rule for CreateVolume.
    pub(crate) fn on_create(&self, action: Value) -> String {
        self.rule(json!({"match": {"method": "CreateVolume"}, "action": action}))
    }

    pub(crate) fn left_over(&self, what: &str) -> u64 {
        self.control.state().unwrap()["left_over"][what]
            .as_u64()
            .unwrap()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Waits for an event that takes milliseconds, or much longer on a busy machine.
pub(crate) async fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(60), "in vain: {what}");
        // The client's connection runs on this thread too.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The same without an async runtime.
pub(crate) fn wait(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(60), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A request with a deadline.
pub(crate) fn within<T>(ms: u64, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(Duration::from_millis(ms));
    request
}

pub(crate) fn mount() -> csi::VolumeCapability {
    csi::VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter as i32,
        }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

pub(crate) fn block() -> csi::VolumeCapability {
    csi::VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..mount()
    }
}

pub(crate) fn create(name: &str) -> csi::CreateVolumeRequest {
    csi::CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(csi::CapacityRange {
            required_bytes: 1 << 20,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![mount()],
        ..Default::default()
    }
}

/// Creates a volume; returns its handle.
pub(crate) async fn created(driver: &Driver, request: csi::CreateVolumeRequest) -> String {
    let answer = driver
        .controller()
        .await
        .create_volume(request)
        .await
        .unwrap();
    answer.into_inner().volume.unwrap().volume_id
}

pub(crate) fn attach(volume: &str, node: &str) -> csi::ControllerPublishVolumeRequest {
    csi::ControllerPublishVolumeRequest {
        volume_id: volume.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(mount()),
        ..Default::default()
    }
}
