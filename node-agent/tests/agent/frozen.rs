//! FR-2: a dead storage system, modelled by a mount on which every access hangs for ever.
//!
//! The program runs as a process: its only thread would hang.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use registrar::registration::Plugin;
use registrar::serve::serve;
use registrar::socket::RegistrationSocket;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;
use sidecar_testkit::process::{Process, must_not_skip, within};

use crate::stage::{D, N, Stage};

pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_csi-node-agent");
/// Limit for operations that take a moment unless they hang, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A FUSE file system whose server never answers.
struct Frozen {
    path: PathBuf,
    _server: File,
}

impl Frozen {
    fn mount(path: &Path) -> Option<Self> {
        let mut options = File::options();
        let server = options.read(true).write(true).open("/dev/fuse").ok()?;
        fcntl_setfd(&server, FdFlags::empty()).unwrap();
        let fd = server.as_raw_fd();
        let mounted = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o"])
            .arg(format!("fd={fd},rootmode=40000,user_id=0,group_id=0"))
            .arg("frozen")
            .arg(path)
            .status();
        fcntl_setfd(&server, FdFlags::CLOEXEC).unwrap();
        mounted.is_ok_and(|it| it.success()).then(|| Self {
            path: path.to_path_buf(),
            _server: server,
        })
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

fn agent(stage: &Stage, kubeconfig: &Path) -> Process {
    let mut command = Command::new(AGENT);
    command
        .arg(format!("--node-name={N}"))
        .arg(format!("--kubelet-root-dir={}", stage.root().display()))
        .arg(format!("--kubeconfig={}", kubeconfig.display()));
    Process::start(command)
}

/// Answers on a registration socket like the driver's registrar, for as long as the test runs.
fn introduce(driver: &Path, registry: &Path) {
    let plugin = Arc::new(Plugin::new(D, driver.to_str().unwrap()));
    let path = registrar::socket::path(registry.to_str().unwrap(), D).unwrap();
    let mut socket = RegistrationSocket::create(path).unwrap();
    tokio::spawn(async move { serve(&mut socket, &plugin).await });
}

async fn until_runs(stage: &Stage, pod: &str) {
    within(LIMIT, &format!("pod {pod} to run"), async || {
        stage.phase(pod) == "Running"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fr_2_a_mount_that_answers_no_look_holds_up_nothing_else() {
    let stage = Stage::set();
    let registry = stage.make_root().join("plugins_registry");
    std::fs::create_dir(&registry).unwrap();
    introduce(&stage.driver.socket(), &registry);
    let served = stage.api.serve_plain().await;

    let first = agent(&stage, &served.kubeconfig());
    for name in ["c", "d"] {
        stage.claimed(name);
        stage.attach(name);
    }
    stage.pod("p", &["c"]);
    until_runs(&stage, "p").await;
    first.signal(Signal::KILL);
    drop(first);

    let Some(frozen) = Frozen::mount(&stage.staging("c")) else {
        must_not_skip("a FUSE mount");
        return;
    };
    stage.driver.clear_calls();
    let mut second = agent(&stage, &served.kubeconfig());
    // After the restart the driver stages again, at the path that nobody can look at.
    within(LIMIT, "staging to be repeated", async || {
        !stage.driver.calls_to("NodeStageVolume").is_empty()
    })
    .await;
    stage.pod("q", &["d"]);
    until_runs(&stage, "q").await;
    second.signal(Signal::TERM);
    second.ended().await.with_code(0);
    drop(frozen);
}
