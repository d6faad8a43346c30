//! The built program between a model API server and a model driver, with the fixture of the
//! acceptance tables.

use std::process::Command;
use std::time::Duration;

use csi_proto::csi::CreateVolumeRequest;
use rustix::process::Signal;
use serde_json::{Value, json};
use sidecar_testkit::api::Served;
use sidecar_testkit::api::record::Request;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::process::{Process, within};
use sidecar_testkit::{FakeApi, FakeDriver};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

/// Longer than anything takes that works, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const DRIVER: &str = "test-driver";
pub(crate) const U: &str = "11111111-2222-3333-4444-555555555555";
pub(crate) const PV: &str = "pvc-11111111-2222-3333-4444-555555555555";
pub(crate) const GI: i64 = 1 << 30;
pub(crate) const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
pub(crate) const PROTECTION: &str = "kubernetes.io/pv-protection";
/// The Lease that has the provisioning journal.
pub(crate) const JOURNAL: &str = "csi/test-driver-journal-0";
const INTENT: &str = "intent.csi-sidecars.io/";
pub(crate) const ANNOTATION: &str = "volume.kubernetes.io/storage-provisioner";
pub(crate) const READY: &str = "Starting CSI provisioner";

pub(crate) fn program() -> String {
    std::env::var("CSI_PROVISIONER_BINARY")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_csi-provisioner").to_owned())
}

/// The program while it runs; killed when dropped.
pub(crate) struct Program(Process);

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) log: String,
    pub(crate) took: Duration,
}

impl Program {
    /// Starts it in an environment of nothing else.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program());
        command.args(arguments).env_clear();
        command.envs(environment.iter().copied());
        Self(Process::start(command))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn log(&self) -> String {
        self.0.log()
    }

    /// How many TCP ports it listens on.
    pub(crate) fn listeners(&self) -> usize {
        let process = format!("/proc/{}", self.0.id());
        let held: Vec<String> = std::fs::read_dir(format!("{process}/fd"))
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .map(|target| target.to_string_lossy().into_owned())
            .collect();
        let sockets = ["tcp", "tcp6"].map(|table| {
            let path = format!("{process}/net/{table}");
            std::fs::read_to_string(path).unwrap_or_default()
        });
        let lines = sockets.iter().flat_map(|table| table.lines().skip(1));
        let listens = |line: &&str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields[3] == "0A" && held.contains(&format!("socket:[{}]", fields[9]))
        };
        lines.filter(listens).count()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.is_running()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.0.signal(signal);
    }

    pub(crate) fn terminate(&self) {
        self.0.signal(Signal::TERM);
    }

    /// Kills it, so that nothing is done any more.
    pub(crate) async fn kill(mut self) {
        self.0.signal(Signal::KILL);
        self.0.ended_within(PATIENCE).await;
    }

    pub(crate) async fn logs(&self, text: &str) {
        let what = format!("{text:?} in the log");
        within(PATIENCE, &what, async || self.log().contains(text)).await;
    }

    pub(crate) async fn end(mut self) -> Ended {
        let end = self.0.ended_within(PATIENCE).await;
        Ended {
            code: end.status.code(),
            stdout: end.stdout,
            log: end.stderr,
            took: end.took,
        }
    }
}

/// An address of this machine where nobody listens at the moment.
pub(crate) fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Status and body of a GET.
pub(crate) async fn get(address: &str, path: &str) -> (u16, String) {
    let answer = sidecar_testkit::http::get(address, path).await;
    (answer.status, answer.body)
}

/// A cluster and a driver.
pub(crate) struct Stage {
    pub(crate) api: FakeApi,
    pub(crate) driver: FakeDriver,
    served: Served,
}

/// The fixture's claim `ns1/c1` for 1Gi of class `sc1`.
pub(crate) fn claim() -> build::Claim {
    build::claim("ns1/c1")
        .class("sc1")
        .mode("RWO")
        .uid(U)
        .annotation(ANNOTATION, DRIVER)
}

/// The fixture's class.
pub(crate) fn class() -> build::Class {
    build::class("sc1").of(DRIVER)
}

/// A volume `name` on handle `vol-NAME` that is to be deleted.
pub(crate) fn released(name: &str) -> build::Volume {
    build::volume(name)
        .csi(DRIVER, &format!("vol-{name}"))
        .mode("RWO")
        .class("sc1")
        .bound_to("ns1/c1")
        .phase("Released")
        .uid(&format!("uid-{name}"))
        .annotation("pv.kubernetes.io/provisioned-by", DRIVER)
        .finalizer(PROTECTION)
        .finalizer(FINALIZER)
}

impl Stage {
    /// With the fixture's driver and class.
    pub(crate) async fn new() -> Self {
        let api = FakeApi::new();
        let served = api.serve_plain().await;
        let driver = FakeDriver::new(DRIVER);
        driver.configure(|model| model.controller = vec![ControllerRpc::CreateDeleteVolume]);
        driver.start();
        api.insert(class());
        Self {
            api,
            driver,
            served,
        }
    }

    pub(crate) fn can(&self, rpc: ControllerRpc) {
        self.driver.configure(|model| model.controller.push(rpc));
    }

    pub(crate) fn kubeconfig(&self) -> String {
        format!("--kubeconfig={}", self.served.kubeconfig().display())
    }

    /// Starts the program on this stage, with more arguments.
    pub(crate) fn start(&self, arguments: &[&str]) -> Program {
        self.start_in(arguments, &[])
    }

    pub(crate) fn start_in(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Program {
        let kubeconfig = self.kubeconfig();
        let address = format!("--csi-address={}", self.driver.socket().display());
        let mut all = vec![kubeconfig.as_str(), address.as_str()];
        all.extend(arguments);
        let mut more = vec![("POD_NAMESPACE", "csi")];
        more.extend(environment);
        Program::start(&all, &more)
    }

    pub(crate) fn volume(&self, name: &str) -> Value {
        self.api
            .object("persistentvolumes", name)
            .unwrap_or_default()
    }

    pub(crate) fn claim(&self, name: &str) -> Value {
        self.api
            .object("persistentvolumeclaims", name)
            .unwrap_or_default()
    }

    /// UIDs of the claims whose intents are in the journal.
    pub(crate) fn intents(&self) -> Vec<String> {
        self.intents_in(JOURNAL)
    }

    pub(crate) fn intents_in(&self, lease: &str) -> Vec<String> {
        let lease = self.api.object("leases", lease).unwrap_or_default();
        let annotations = lease["metadata"]["annotations"].as_object().cloned();
        let names = annotations.into_iter().flatten().map(|(name, _)| name);
        names
            .filter_map(|name| name.strip_prefix(INTENT).map(str::to_owned))
            .collect()
    }

    /// Waits until nothing is owed to the driver.
    pub(crate) async fn until_settled(&self) {
        self.until("the intents go", |stage| stage.intents().is_empty())
            .await;
    }

    /// Waits until the stage is as `condition` says.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let until = self.api.until(|_| condition(self));
        if timeout(PATIENCE, until).await.is_err() {
            panic!("{what}:\n{}", self.trace().join("\n"));
        }
    }

    pub(crate) async fn until_volume(&self, name: &str) {
        self.until(name, |stage| !stage.volume(name).is_null())
            .await;
    }

    pub(crate) async fn until_volume_gone(&self, name: &str) {
        self.until(name, |stage| stage.volume(name).is_null()).await;
    }

    /// Waits for so many events of a reason.
    pub(crate) async fn until_events(&self, reason: &str, count: usize) {
        self.until(reason, |stage| stage.events(reason).len() >= count)
            .await;
    }

    /// Waits for so many calls of a method.
    pub(crate) async fn until_calls(&self, method: &str, count: usize) {
        let until = self
            .driver
            .until(|driver| driver.calls_to(method).len() >= count);
        if timeout(PATIENCE, until).await.is_err() {
            panic!("no {count} {method}:\n{}", self.trace().join("\n"));
        }
    }

    /// Messages of the events with this reason.
    pub(crate) fn events(&self, reason: &str) -> Vec<String> {
        let all = self.api.objects("events");
        let fitting = all.iter().filter(|event| event["reason"] == reason);
        fitting
            .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    pub(crate) fn creations(&self) -> Vec<CreateVolumeRequest> {
        let calls = self.driver.calls_to("CreateVolume");
        calls
            .iter()
            .map(|call| call.request::<CreateVolumeRequest>().unwrap().clone())
            .collect()
    }

    /// Ids of the volumes that the driver has.
    pub(crate) fn handles(&self) -> Vec<String> {
        let mut handles = Vec::new();
        self.driver
            .configure(|model| handles = model.volumes.keys().cloned().collect());
        handles
    }

    pub(crate) fn calls(&self, method: &str) -> usize {
        self.driver.calls_to(method).len()
    }

    /// Binds the claim to the volume, as kube-controller-manager does.
    pub(crate) fn bind(&self, claim: &str, volume: &str) {
        self.api.edit("persistentvolumes", volume, |object| {
            object["status"]["phase"] = "Bound".into();
        });
        self.api.edit("persistentvolumeclaims", claim, |object| {
            object["spec"]["volumeName"] = volume.into();
            object["status"]["phase"] = "Bound".into();
        });
    }

    /// Writes of the program to objects but the journal, as `METHOD kind`, in order.
    pub(crate) fn writes(&self) -> Vec<String> {
        let name = |request: &Request| {
            let parts: Vec<&str> = request.path.split('/').collect();
            let kinds = ["events", "persistentvolumes", "persistentvolumeclaims"];
            let others = ["volumesnapshots", "leases", "selfsubjectaccessreviews"];
            let known = |part: &&&str| kinds.contains(part) || others.contains(part);
            let kind = parts.iter().find(known).copied().unwrap_or("?");
            let reason = request.body["reason"].as_str().unwrap_or_default();
            format!("{} {kind} {reason}", request.method)
                .trim_end()
                .to_owned()
        };
        let mut writes = self.api.writes();
        writes.retain(|write| !is_journal(write));
        { writes.iter().map(name) }
            .filter(|write| !write.contains("selfsubjectaccessreviews"))
            .collect()
    }

    /// Everything that was asked of API server and driver, in order of start.
    pub(crate) fn trace(&self) -> Vec<String> {
        let requests = self.api.requests();
        let mut all: Vec<_> = { requests.iter() }
            .filter(|request| !request.path.contains("selfsubjectaccessreviews"))
            .map(|request| {
                let (method, path, status) = (&request.method, &request.path, request.status);
                (
                    request.at,
                    format!("{method} {path} {status:?} {}", request.body),
                )
            })
            .collect();
        for call in self.driver.calls() {
            all.push((call.started, format!("{} {:?}", call.method, call.code)));
        }
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, text)| text).collect()
    }
}

/// Whether a request is about the provisioning journal.
pub(crate) fn is_journal(request: &Request) -> bool {
    let body = &request.body["metadata"]["annotations"];
    request.path.contains("-journal-") || !body["csi-sidecars.io/journal"].is_null()
}

pub(crate) fn finalizers(object: &Value) -> Value {
    let list = &object["metadata"]["finalizers"];
    if list.is_null() {
        json!([])
    } else {
        list.clone()
    }
}

/// Long enough for whatever should not happen.
pub(crate) async fn settle() {
    sleep(Duration::from_millis(700)).await;
}

/// Runs all rows of a table at the same time: most of each is waiting.
pub(crate) async fn together<R, F>(rows: impl IntoIterator<Item = R>, run: impl Fn(R) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let all = LocalSet::new();
    let mut running = JoinSet::new();
    for row in rows {
        running.spawn_local_on(run(row), &all);
    }
    all.run_until(running.join_all()).await;
}
