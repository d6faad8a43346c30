//! The livenessprobe beside a real driver: the answers that kubelet would get when it probes the
//! driver's container.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::cluster::Cluster;
use e2e::node::{Seat, http_get};
use e2e::process::Process;
use e2e::suite::{Scenario, Verdict};
use e2e::{program, wait};
use rustix::process::Signal;
use sidecar_testkit::free_address;

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[Scenario {
    name: "dead_driver_is_unhealthy_until_it_is_back",
    run: dead_driver,
}];

const SOON: Duration = Duration::from_secs(20);

fn start(seat: &Seat<'_>, address: &str) -> Result<Process> {
    let mut command = seat.command(program::livenessprobe()?);
    command
        .arg(format!("--csi-address={}", seat.socket().display()))
        .arg(format!("--http-endpoint={address}"))
        .arg("--probe-timeout=1s")
        .arg("-v=5");
    Process::start("livenessprobe", command, &seat.dir)
}

fn dead_driver(cluster: &Cluster) -> Result<Verdict> {
    let seat = Seat::new(cluster, 0, "liveness.example.com")?;
    let address = free_address();
    // Containers of a pod start in any order.
    let mut probe = start(&seat, &address)?;
    wait::stays(
        Duration::from_secs(2),
        "the livenessprobe waits for its driver",
        || {
            probe.must_run()?;
            Ok(http_get(&address, "/healthz").is_err())
        },
    )?;
    let mut driver = seat.start_driver(&[])?;
    until_healthy(&mut probe, &address)?;
    for signal in [Signal::KILL, Signal::TERM] {
        driver.signal(signal)?;
        driver.exit_code(SOON)?;
        for _ in 0..2 {
            let (status, body) = http_get(&address, "/healthz")?;
            ensure!(
                (status, body.as_str()) == (500, "context deadline exceeded"),
                "after {signal:?}: {status} {body}\n{}",
                probe.tail()
            );
        }
        driver = seat.start_driver(&[])?;
        until_healthy(&mut probe, &address)?;
    }
    let (_, metrics) = http_get(&address, "/metrics")?;
    ensure!(
        metrics.contains("driver_name=\"liveness.example.com\",grpc_status_code=\"OK\""),
        "{metrics}"
    );
    Ok(Verdict::Passed)
}

fn until_healthy(probe: &mut Process, address: &str) -> Result<()> {
    wait::until_true(SOON, "the driver is healthy", || {
        probe.must_run()?;
        Ok(http_get(address, "/healthz")? == (200, "ok".to_owned()))
    })
}
