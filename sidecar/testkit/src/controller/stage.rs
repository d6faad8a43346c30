//! A cluster and a driver, and the program between them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Effect, PATIENCE, Program, Running};
use crate::api::Served;
use crate::driver::{ControllerRpc, NodeRpc};
use crate::{CallFault, FakeApi, FakeDriver, Fault, Gate};

/// A cluster and a driver. A program without driver ignores the latter.
#[derive(Debug)]
pub struct Stage {
    /// The program under test.
    pub program: &'static Program,
    /// The cluster.
    pub api: FakeApi,
    /// The driver, which is listening.
    pub driver: FakeDriver,
    served: Served,
}

impl Stage {
    /// An empty cluster, and a driver without volumes.
    pub async fn new(program: &'static Program) -> Self {
        let api = FakeApi::new();
        let served = api.serve_plain().await;
        Self::with(program, api, served)
    }

    /// The same behind TLS, like every real API server.
    pub async fn over_tls(program: &'static Program) -> Self {
        let api = FakeApi::new();
        let served = api.serve().await;
        Self::with(program, api, served)
    }

    fn with(program: &'static Program, api: FakeApi, served: Served) -> Self {
        let driver = FakeDriver::new(program.driver);
        driver.start();
        Self {
            program,
            api,
            driver,
            served,
        }
    }

    /// A stage prepared for this many pieces of work.
    pub async fn prepared(program: &'static Program, pieces: usize) -> Self {
        let stage = Self::new(program).await;
        (program.work.prepare)(&stage, pieces);
        stage
    }

    /// Adds a capability of the driver's controller service.
    pub fn can(&self, rpc: ControllerRpc) {
        self.driver.configure(|model| model.controller.push(rpc));
    }

    /// Adds a capability of the driver's node service.
    pub fn node_can(&self, rpc: NodeRpc) {
        self.driver.configure(|model| model.node.push(rpc));
    }

    /// The certificate authority as a PEM file, which the program reads.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.served.ca_file()
    }

    /// The flag that names the kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        format!("--kubeconfig={}", self.served.kubeconfig().display())
    }

    /// The flag that names the driver's socket.
    #[must_use]
    pub fn csi_address(&self) -> String {
        format!("--csi-address={}", self.driver.socket().display())
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let address = self.program.has_driver().then(|| self.csi_address());
        let usual = self.program.arguments.iter();
        let more = usual.chain(more).map(|one| (*one).to_owned());
        let mut all = vec![self.kubeconfig()];
        all.extend(address);
        all.extend(more);
        all
    }

    /// Starts the program on this stage, with further arguments.
    #[must_use]
    pub fn start(&self, arguments: &[&str]) -> Running {
        self.start_in(arguments, &[])
    }

    /// The same with further environment variables.
    #[must_use]
    pub fn start_in(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Running {
        let all = self.arguments(arguments);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        Running::start(self.program, &all, environment)
    }

    /// Starts the program and waits until it works.
    pub async fn started(&self, arguments: &[&str]) -> Running {
        let running = self.start(arguments);
        running.logs(self.program.ready).await;
        running
    }

    /// The command that [`start`](Self::start) would run.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let all = self.arguments(arguments);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        self.program.command(&all)
    }

    /// Waits until `condition` holds, checked after each request to API server or driver.
    ///
    /// # Panics
    /// If it does not in time.
    pub async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let until = async {
            tokio::select! {
                () = self.api.until(|_| condition()) => {}
                () = self.driver.until(|_| condition()) => {}
            }
        };
        if timeout(PATIENCE, until).await.is_err() {
            panic!("it does not come: {what}\n{}", self.history().join("\n"));
        }
    }

    /// Number of calls of this method.
    #[must_use]
    pub fn calls(&self, method: &str) -> usize {
        self.driver.calls_to(method).len()
    }

    /// The methods of all calls, in order.
    #[must_use]
    pub fn methods(&self) -> Vec<&'static str> {
        let calls = self.driver.calls();
        calls.iter().map(|call| call.method).collect()
    }

    /// Waits for this many calls of a method.
    pub async fn until_calls(&self, method: &str, count: usize) {
        let what = format!("{count} {method}");
        self.until(&what, || self.calls(method) >= count).await;
    }

    /// Waits for this many requests with a response.
    pub async fn until_written(&self, method: &str, path: &str, count: usize) {
        let enough = || self.api.answered(method, path) >= count;
        self.until(&format!("{count} {method} {path}"), enough)
            .await;
    }

    /// Messages of the events with this reason.
    #[must_use]
    pub fn events(&self, reason: &str) -> Vec<String> {
        let all = self.api.objects("events");
        let fitting = all.iter().filter(|event| event["reason"] == reason);
        fitting
            .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Waits for this many events with a reason.
    pub async fn until_events(&self, reason: &str, count: usize) {
        self.until(reason, || self.events(reason).len() >= count)
            .await;
    }

    /// The program's lease; `Null` if there is none.
    #[must_use]
    pub fn lease(&self) -> Value {
        let lease = self.api.object("leases", &self.program.lease());
        lease.unwrap_or_default()
    }

    /// The holder of the program's lease.
    #[must_use]
    pub fn holder(&self) -> Value {
        self.lease()["spec"]["holderIdentity"].clone()
    }

    /// Gives the lease to another replica, which never renews it.
    pub fn foreign_lease(&self, seconds: u32) {
        self.api.insert(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": super::NAMESPACE, "name": self.program.lease},
            "spec": {
                "holderIdentity": "another", "leaseDurationSeconds": seconds,
                "leaseTransitions": 7, "acquireTime": "2020-01-01T00:00:00.000000Z",
                "renewTime": "2020-01-01T00:00:00.000000Z",
            },
        }));
    }

    /// Requests a piece of work.
    pub fn ask(&self, number: usize) {
        (self.program.work.ask)(self, number);
    }

    /// Whether a piece of work is done.
    #[must_use]
    pub fn is_done(&self, number: usize) -> bool {
        (self.program.work.is_done)(self, number)
    }

    /// Waits until a piece of work is done.
    pub async fn until_done(&self, number: usize) {
        let what = format!("the piece of work {number}");
        self.until(&what, || self.is_done(number)).await;
    }

    /// Number of the calls or requests that the program makes once per piece of work.
    #[must_use]
    pub fn effects(&self) -> usize {
        match self.program.work.effect {
            Effect::Call(method) => self.calls(method),
            Effect::Request(method, path) => self.api.requests_to(method, path).len(),
        }
    }

    /// Waits for this many effects.
    pub async fn until_effects(&self, count: usize) {
        self.until(&format!("{count} effects"), || self.effects() >= count)
            .await;
    }

    /// Holds the responses of effects until the gate opens.
    pub fn hold_effects(&self, gate: &Gate) {
        match self.program.work.effect {
            Effect::Call(method) => {
                self.driver.fault(CallFault::on(method).hold(gate));
            }
            Effect::Request(method, path) => {
                self.api.fault(Fault::on(method, path).hold(gate));
            }
        }
    }

    /// All requests to API server and driver, in order of start.
    #[must_use]
    pub fn history(&self) -> Vec<String> {
        let requests = self.api.requests().into_iter();
        let requests =
            requests.map(|request| (request.at, format!("{request} {:?}", request.status)));
        let calls = self.driver.calls().into_iter();
        let calls = calls.map(|call| (call.started, format!("{} {:?}", call.method, call.code)));
        let mut all: Vec<_> = requests.chain(calls).collect();
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, text)| text).collect()
    }

    /// Clears the recorded requests.
    pub fn clear(&self) {
        self.api.clear_requests();
        self.driver.clear_calls();
    }
}
