//! The registrar with real kubelet code: registration, restarts, and removal.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::node::{Seat, http_get};
use e2e::suite::{Scenario, Verdict};
use e2e::{program, wait};
use rustix::process::Signal;
use sidecar_testkit::{free_address, leave_dead_socket};

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "kubelet_registers_the_driver",
        run: registers,
    },
    Scenario {
        name: "sigterm_deregisters",
        run: sigterm,
    },
    Scenario {
        name: "sigkill_keeps_registration_and_restart_renews_it",
        run: sigkill,
    },
    Scenario {
        name: "stale_socket_of_a_dead_registrar_is_replaced",
        run: stale_socket,
    },
    Scenario {
        name: "deleted_socket_comes_back_and_is_registered_again",
        run: deleted_socket,
    },
    Scenario {
        name: "kubelet_restart_finds_the_driver_again",
        run: kubelet_restart,
    },
    Scenario {
        name: "wrong_registration_path_ends_the_registrar",
        run: wrong_path,
    },
    Scenario {
        name: "driver_may_come_late",
        run: late_driver,
    },
    Scenario {
        name: "driver_restart_is_survived",
        run: driver_restart,
    },
    Scenario {
        name: "driver_that_comes_back_with_another_name_ends_it",
        run: renamed_driver,
    },
];

const SOON: Duration = Duration::from_secs(20);

fn registers(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "plain.example.com")?;
    let _driver = seat.start_driver(&["--enable-topology=true", "--maxvolumespernode=7"])?;
    let address = free_address();
    let mut registrar = seat.start_registrar(&[&format!("--http-endpoint={address}")])?;

    let entry = seat.until_registered(&api, &mut registrar)?;
    ensure!(
        text(&entry, "/nodeID") == Some(&seat.node),
        "node id in {entry}"
    );
    let count = entry
        .pointer("/allocatable/count")
        .and_then(serde_json::Value::as_u64);
    ensure!(count == Some(7), "allocatable count in {entry}");

    let node = api.get(&format!("/api/v1/nodes/{}", seat.node))?;
    let annotations = node
        .pointer("/metadata/annotations")
        .context("annotations of the node")?;
    let ids = annotations
        .get("csi.volume.kubernetes.io/nodeid")
        .and_then(|ids| ids.as_str());
    let ids = ids.context("the node has no annotation with node ids")?;
    ensure!(ids.contains("plain.example.com"), "node ids: {ids}");

    let (status, body) = http_get(&address, "/healthz")?;
    ensure!(
        (status, body.as_str()) == (200, "ok"),
        "/healthz: {status} {body}"
    );
    Ok(Verdict::Passed)
}

fn sigterm(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "sigterm.example.com")?;
    let _driver = seat.start_driver(&[])?;
    let mut registrar = seat.start_registrar(&[])?;
    seat.until_registered(&api, &mut registrar)?;

    registrar.signal(Signal::TERM)?;
    let code = registrar.exit_code(SOON)?;
    ensure!(code == 0, "exit code {code}\n{}", registrar.tail());
    ensure!(
        !seat.registration_socket().exists(),
        "the registration socket is still there"
    );
    seat.until_unregistered(&api)?;
    Ok(Verdict::Passed)
}

fn sigkill(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "sigkill.example.com")?;
    let _driver = seat.start_driver(&[])?;
    let mut first = seat.start_registrar(&[])?;
    seat.until_registered(&api, &mut first)?;
    drop(first);
    wait::stays(
        Duration::from_secs(2),
        "the driver stays in CSINode",
        || Ok(seat.csinode_entry(&api)?.is_some()),
    )?;

    let mut second = seat.start_registrar(&[])?;
    second.logs(SOON, "egistered")?;
    seat.until_registered(&api, &mut second)?;
    Ok(Verdict::Passed)
}

fn stale_socket(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "stale.example.com")?;
    let _driver = seat.start_driver(&[])?;
    // As after a reboot of the node.
    leave_dead_socket(&seat.registration_socket());
    let mut registrar = seat.start_registrar(&[])?;
    seat.until_registered(&api, &mut registrar)?;
    Ok(Verdict::Passed)
}

fn deleted_socket(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "deleted.example.com")?;
    let _driver = seat.start_driver(&[])?;
    let mut registrar = seat.start_registrar(&[])?;
    seat.until_registered(&api, &mut registrar)?;

    fs::remove_file(seat.registration_socket())?;
    wait::until_true(SOON, "the registration socket is back", || {
        Ok(seat.registration_socket().exists())
    })?;
    seat.until_registered(&api, &mut registrar)?;
    wait::stays(
        Duration::from_secs(3),
        "the driver stays registered",
        || {
            registrar.must_run()?;
            Ok(true)
        },
    )?;
    seat.until_registered(&api, &mut registrar)?;
    Ok(Verdict::Passed)
}

fn kubelet_restart(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "restart.example.com")?;
    let _driver = seat.start_driver(&[])?;
    let mut registrar = seat.start_registrar(&[])?;
    seat.until_registered(&api, &mut registrar)?;

    let before = seat.calls("NodeGetInfo")?;
    cluster.restart(&seat.node)?;
    if program::driver_is_foreign() {
        return Ok(Verdict::Skipped(
            "needs the record of the embedded driver".to_owned(),
        ));
    }
    wait::until_true(SOON, "the new kubelet asks the driver for its node", || {
        registrar.must_run()?;
        Ok(seat.calls("NodeGetInfo")? > before)
    })?;
    seat.until_registered(&api, &mut registrar)?;
    Ok(Verdict::Passed)
}

fn wrong_path(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "wrongpath.example.com")?;
    let _driver = seat.start_driver(&[])?;
    let mut registrar = seat.start_registrar(&["--kubelet-registration-path=/nowhere/csi.sock"])?;
    let code = registrar.exit_code(SOON)?;
    ensure!(code == 1, "exit code {code}\n{}", registrar.tail());
    let log = registrar.log();
    ensure!(
        log.contains("/nowhere/csi.sock"),
        "the reason names the path\n{}",
        registrar.tail()
    );
    ensure!(
        seat.csinode_entry(&api)?.is_none(),
        "the driver is in CSINode"
    );
    Ok(Verdict::Passed)
}

fn late_driver(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "late.example.com")?;
    let mut registrar = seat.start_registrar(&[])?;
    wait::stays(
        Duration::from_secs(3),
        "the registrar waits for its driver",
        || {
            registrar.must_run()?;
            Ok(!seat.registration_socket().exists())
        },
    )?;
    let _driver = seat.start_driver(&[])?;
    seat.until_registered(&api, &mut registrar)?;
    Ok(Verdict::Passed)
}

fn driver_restart(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "again.example.com")?;
    let driver = seat.start_driver(&[])?;
    let mut registrar = seat.start_registrar(&[])?;
    seat.until_registered(&api, &mut registrar)?;
    drop(driver);
    registrar.logs(SOON, "onnection")?;
    let _driver = seat.start_driver(&[])?;
    wait::stays(Duration::from_secs(3), "the registrar stays", || {
        registrar.must_run()?;
        Ok(seat.registration_socket().exists())
    })?;
    seat.until_registered(&api, &mut registrar)?;
    Ok(Verdict::Passed)
}

fn renamed_driver(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "before.example.com")?;
    let driver = seat.start_driver(&[])?;
    let mut registrar = seat.start_registrar(&[])?;
    seat.until_registered(&api, &mut registrar)?;
    drop(driver);
    // Go's flag package takes the last of several values.
    let _driver = seat.start_driver(&["--drivername=after.example.com"])?;
    let code = registrar.exit_code(SOON)?;
    ensure!(code == 1, "exit code {code}\n{}", registrar.tail());
    let log = registrar.log();
    ensure!(
        log.contains("before.example.com") && log.contains("after.example.com"),
        "the reason names both\n{}",
        registrar.tail()
    );
    Ok(Verdict::Passed)
}
