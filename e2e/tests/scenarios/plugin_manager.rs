//! The registrar with partners other than the kubelet and our driver.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::node::Seat;
use e2e::process::Process;
use e2e::suite::{Scenario, Verdict};
use e2e::{object, program, wait};
use rustix::process::Signal;

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "plugin_manager_registers_like_the_kubelet",
        run: plugin_manager,
    },
    Scenario {
        name: "plugin_manager_without_its_node_says_so",
        run: missing_node,
    },
    Scenario {
        name: "plugin_manager_without_permissions_names_the_rules",
        run: missing_permission,
    },
    Scenario {
        name: "mock_driver_of_kubernetes_is_registered",
        run: mock_driver,
    },
];

const SOON: Duration = Duration::from_secs(20);

fn manager(kubeconfig: &Path, seat: &Seat<'_>) -> Result<Process> {
    let mut command = Command::new(program::plugin_manager()?);
    command
        .arg(format!("--node-name={}", seat.node))
        .arg(format!(
            "--kubelet-root-dir={}",
            seat.kubelet_dir().display()
        ))
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg("-v=2");
    Process::start("plugin-manager", command, &seat.dir)
}

fn plugin_manager(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    api.create("/api/v1/nodes", &object::node("bare"))?;
    let seat = Seat::without_kubelet(&cluster.dir().join("run"), "bare", "bare.example.com")?;
    let _driver = seat.start_driver(&["--maxvolumespernode=3"])?;
    let mut manager = manager(&cluster.kubeconfig()?, &seat)?;
    let mut registrar = seat.start_registrar(&[])?;
    let entry = seat.until_registered(&api, &mut registrar)?;
    manager.must_run()?;
    ensure!(
        text(&entry, "/nodeID") == Some("bare"),
        "node id in {entry}"
    );
    let csinode = api.get("/apis/storage.k8s.io/v1/csinodes/bare")?;
    let owner = text(&csinode, "/metadata/ownerReferences/0/kind");
    ensure!(owner == Some("Node"), "owner of CSINode: {owner:?}");

    registrar.signal(Signal::TERM)?;
    ensure!(
        registrar.exit_code(SOON)? == 0,
        "exit code\n{}",
        registrar.tail()
    );
    seat.until_unregistered(&api)?;
    drop(manager);
    api.delete("/api/v1/nodes/bare")?;
    Ok(Verdict::Passed)
}

fn missing_node(cluster: &Cluster) -> Result<Verdict> {
    let seat = Seat::without_kubelet(&cluster.dir().join("run"), "ghost", "ghost.example.com")?;
    let mut manager = manager(&cluster.kubeconfig()?, &seat)?;
    let code = manager.exit_code(SOON)?;
    ensure!(code == 1, "exit code {code}\n{}", manager.tail());
    let log = manager.log();
    ensure!(
        log.contains("Node ghost does not exist") && log.contains("--register-node"),
        "the object and the way out\n{}",
        manager.tail()
    );
    Ok(Verdict::Passed)
}

fn missing_permission(cluster: &Cluster) -> Result<Verdict> {
    let kubeconfig = cluster.dir().join("run/nobody.kubeconfig");
    cluster.run(&[
        "kubeconfig",
        "--serviceaccount",
        "default/nobody",
        "--create",
        "-o",
        &kubeconfig.to_string_lossy(),
    ])?;
    let seat = Seat::without_kubelet(&cluster.dir().join("run"), "poor", "poor.example.com")?;
    let mut manager = manager(&kubeconfig, &seat)?;
    let code = manager.exit_code(SOON)?;
    ensure!(code == 1, "exit code {code}\n{}", manager.tail());
    let rule = r#"{apiGroups: ["storage.k8s.io"], resources: ["csinodes"], verbs: ["get", "create", "update"]}"#;
    let last = manager
        .log()
        .lines()
        .last()
        .unwrap_or_default()
        .replace("\\\"", "\"");
    ensure!(
        last.contains(rule),
        "the last line has the missing rule\n{}",
        manager.tail()
    );
    Ok(Verdict::Passed)
}

fn mock_driver(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "mock.example.com")?;
    let mut command = seat.command(program::cluster()?);
    command
        .arg("mock-driver")
        .arg(format!("--endpoint=unix://{}", seat.socket().display()))
        .arg(format!("--name={}", seat.driver))
        .arg(format!("--nodeid={}", seat.node));
    let mut mock = Process::start("mock-driver", command, &seat.dir)?;
    wait::until_true(SOON, "the mock driver's socket appears", || {
        mock.must_run()?;
        Ok(seat.socket().exists())
    })?;
    let mut registrar = seat.start_registrar(&[])?;
    let entry = seat.until_registered(&api, &mut registrar)?;
    ensure!(
        text(&entry, "/nodeID") == Some(&seat.node),
        "node id in {entry}"
    );
    Ok(Verdict::Passed)
}
