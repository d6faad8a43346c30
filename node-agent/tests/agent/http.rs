//! The program's HTTP port: the same server as in the other programs.

use std::path::Path;
use std::process::Command;

use sidecar_testkit::http::attack::Target;
use sidecar_testkit::http::get;
use sidecar_testkit::process::Process;

use crate::frozen::AGENT;
use crate::stage::{N, Stage};

async fn listening(stage: &Stage, kubeconfig: &Path) -> (Process, String) {
    let mut command = Command::new(AGENT);
    command
        .arg(format!("--node-name={N}"))
        .arg(format!("--kubelet-root-dir={}", stage.root().display()))
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg("--http-endpoint=127.0.0.1:0");
    let process = Process::start(command);
    let line = "\"HTTP server is listening\" address=\"";
    process.says(line).await;
    let log = process.log();
    let (_, rest) = log.split_once(line).unwrap();
    let address = rest.split('"').next().unwrap().to_owned();
    (process, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn fs_11_health_is_answered_under_attack() {
    let stage = Stage::set();
    std::fs::create_dir(stage.make_root().join("plugins_registry")).unwrap();
    let served = stage.api.serve_plain().await;
    let (mut process, address) = listening(&stage, &served.kubeconfig()).await;
    sidecar_testkit::process::until("it is healthy", async || {
        get(&address, "/healthz").await.head_and_body() == (200, "ok")
    })
    .await;
    let target = Target {
        id: process.id(),
        address,
        health: "/healthz",
        large: "/metrics",
    };
    target.withstands().await;
    process.must_run();
}
