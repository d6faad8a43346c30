//! The program under test beside a model driver.

use std::process::Command;

use sidecar_testkit::FakeDriver;
pub(crate) use sidecar_testkit::free_address;
pub(crate) use sidecar_testkit::http::{Answer, get, request};
pub(crate) use sidecar_testkit::process::{End, PATIENCE, Process, as_init, signal_to, until};

use crate::program;

pub(crate) const NAME: &str = "d.example.com";

const OTHER: &str = "LIVENESSPROBE_BINARY";

pub(crate) fn program() -> String {
    std::env::var(OTHER).unwrap_or_else(|_| program::PROGRAM.to_owned())
}

/// Whether the program under test is not ours.
pub(crate) fn is_foreign() -> bool {
    std::env::var_os(OTHER).is_some()
}

pub(crate) fn driver() -> FakeDriver {
    let driver = FakeDriver::new(NAME);
    driver.start();
    driver
}

pub(crate) fn start(driver: &FakeDriver, flags: &[&str]) -> Process {
    let mut command = Command::new(program());
    command.args(usual_flags(driver));
    command.args(flags.iter().map(|flag| program::flag(flag)));
    Process::start(command)
}

/// The flags of every start. The driver answers in the test's own thread, which may have to wait for a processor longer
/// than the default three seconds; the last of equal flags counts.
pub(crate) fn usual_flags(driver: &FakeDriver) -> Vec<String> {
    let first = program::FIRST.iter().map(|it| (*it).to_owned());
    let address = format!("--csi-address={}", driver.socket().display());
    first
        .chain([address, "--probe-timeout=1m".to_owned()])
        .collect()
}

/// Runs a program without a driver to its end. One that tries to connect has none.
pub(crate) async fn run(flags: &[&str]) -> End {
    let mut command = Command::new(program());
    command.args(flags);
    Process::start(command).ended().await
}

pub(crate) fn port(address: &str) -> &str {
    address.rsplit_once(':').unwrap().1
}

/// Waits until there is a listener at `address`.
pub(crate) async fn listening(process: &mut Process, address: &str) {
    until("the HTTP server", async || {
        process.must_run();
        std::net::TcpStream::connect(address).is_ok()
    })
    .await;
}

/// A program that answers health requests.
pub(crate) struct Serving {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Serving {
    pub(crate) async fn beside(driver: &FakeDriver, flags: &[&str]) -> Self {
        let address = free_address();
        let endpoint = format!("--http-endpoint={address}");
        let mut process = start(driver, &[&[endpoint.as_str()], flags].concat());
        listening(&mut process, &address).await;
        Self { process, address }
    }

    pub(crate) async fn health(&self) -> Answer {
        get(&self.address, "/healthz").await
    }

    #[track_caller]
    pub(crate) fn must_be(answer: &Answer, status: u16, body: &str) {
        assert_eq!(answer.head_and_body(), (status, body));
    }

    /// Asserts that the driver is healthy now.
    pub(crate) async fn is_healthy(&self) {
        Self::must_be(&self.health().await, 200, "ok");
    }

    /// Waits until the driver is healthy, with a time limit for each probe that a busy machine may exceed.
    pub(crate) async fn becomes_healthy(&self) {
        until("health", async || {
            self.health().await.head_and_body() == (200, "ok")
        })
        .await;
    }

    /// Makes this number of health requests at the same time.
    pub(crate) async fn crowd(&self, count: usize) -> Vec<Answer> {
        let mut requests = tokio::task::JoinSet::new();
        for _ in 0..count {
            let address = self.address.clone();
            requests.spawn(async move { get(&address, "/healthz").await });
        }
        requests.join_all().await
    }
}
