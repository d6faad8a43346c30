//! The setting of the component tests: a registry directory, a model API server with one Node, a model driver, scripted
//! registrars, and the loop under test.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use registrar::kubelet::plan::world::Incarnation;
use registrar::kubelet::run::{Config, Kubelet, RunError};
use registrar::kubelet::work::plugin::{CsiPlugin, Handlers};
use registrar::kubelet::work::refresher::Known;
use registrar::kubelet::work::register::World;
use serde_json::Value;
use sidecar::metrics::Registry;
use sidecar_testkit::api::record::Request;
use sidecar_testkit::build::node;
use sidecar_testkit::{FakeApi, FakeDriver};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::script::{Script, ScriptedRegistrar};

/// The driver's name.
pub(crate) const D: &str = "d.example.com";
/// The node's name.
pub(crate) const N: &str = "n1";
/// The driver's ID of the node.
pub(crate) const ID: &str = "id-1";

pub(crate) const NODE: &str = "/api/v1/nodes/n1";
pub(crate) const NODE_STATUS: &str = "/api/v1/nodes/n1/status";
pub(crate) const CSINODE: &str = "/apis/storage.k8s.io/v1/csinodes/n1";
pub(crate) const CSINODES: &str = "/apis/storage.k8s.io/v1/csinodes";

/// Longest wait of a test, in paused time.
const TEST_TIMEOUT: Duration = Duration::from_secs(1000);

pub(crate) struct Stage {
    pub(crate) api: FakeApi,
    pub(crate) driver: FakeDriver,
    directory: TempDir,
    handlers: Handlers,
    pub(crate) register_node: bool,
    running: Option<Running>,
}

/// The loop under test.
struct Running {
    task: JoinHandle<Result<(), RunError>>,
    world: Arc<World>,
    plugin: Arc<CsiPlugin>,
    known: Known,
    metrics: Registry,
    initialized: tokio::sync::watch::Receiver<bool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stage {
    /// A stage with a Node, a listening driver and an empty registry directory; the loop does not run.
    pub(crate) fn set() -> Self {
        let api = FakeApi::new();
        api.insert(node(N));
        let driver = FakeDriver::new(D);
        driver.configure(|model| model.node_id = ID.to_owned());
        driver.start();
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("registry")).unwrap();
        Self {
            api,
            driver,
            directory,
            handlers: Handlers::new(),
            register_node: false,
            running: None,
        }
    }

    /// A stage with the loop running and the CSINode initialized.
    pub(crate) async fn started() -> Self {
        let mut stage = Self::set();
        stage.start();
        stage
            .until("the CSINode is initialized", Self::is_initialized)
            .await;
        stage
    }

    pub(crate) fn add_handlers(&mut self, handlers: Handlers) {
        self.handlers.extend(handlers);
    }

    pub(crate) fn start(&mut self) {
        let config = Config {
            node: N.to_owned(),
            registry: self.registry(),
            register_node: self.register_node,
        };
        let metrics = Registry::new();
        let mut kubelet = Kubelet::new(config, self.api.client(), &metrics, || 0.0).unwrap();
        kubelet.handlers().extend(self.handlers.clone());
        let (world, plugin, known) = (kubelet.world(), kubelet.plugin(), kubelet.known());
        let initialized = kubelet.initialized();
        let task = tokio::spawn(kubelet.run());
        self.running = Some(Running {
            task,
            world,
            plugin,
            known,
            metrics,
            initialized,
        });
    }

    /// Ends the loop like a crash.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    /// Waits until the loop ends by itself.
    pub(crate) async fn end(&mut self) -> RunError {
        let task = &mut self.running.as_mut().unwrap().task;
        task.await.unwrap().unwrap_err()
    }

    pub(crate) fn plugin(&self) -> Arc<CsiPlugin> {
        Arc::clone(&self.running().plugin)
    }

    pub(crate) fn known(&self) -> Known {
        self.running().known.clone()
    }

    pub(crate) fn is_initialized(&self) -> bool {
        *self.running().initialized.borrow()
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.running().task.is_finished()
    }

    /// The text of a scrape.
    pub(crate) fn metrics(&self) -> String {
        self.running().metrics.render()
    }

    pub(crate) fn registry(&self) -> PathBuf {
        self.directory.path().join("registry")
    }

    /// A path beside the registry.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.registry().join(name)
    }

    /// A registrar of the stage's driver that will listen on `name`.
    pub(crate) fn script(&self, name: &str) -> Script {
        Script::new(self.socket(name)).endpoint(self.driver.socket().to_str().unwrap())
    }

    /// A registrar of the stage's driver that listens on `d-reg.sock`.
    pub(crate) fn registrar(&self) -> ScriptedRegistrar {
        self.script("d-reg.sock").listen()
    }

    /// The desired sockets.
    pub(crate) fn desired(&self) -> Vec<PathBuf> {
        let world = &self.running().world;
        world
            .desired()
            .sockets()
            .map(|(path, _)| path.to_path_buf())
            .collect()
    }

    /// The desired sockets with their incarnations.
    pub(crate) fn incarnations(&self) -> Vec<(PathBuf, Incarnation)> {
        let world = &self.running().world;
        world
            .desired()
            .sockets()
            .map(|(path, life)| (path.to_path_buf(), life))
            .collect()
    }

    /// The sockets that are registered or being registered.
    pub(crate) fn actual(&self) -> Vec<PathBuf> {
        let world = &self.running().world;
        world
            .actual()
            .plugins()
            .map(|(path, _)| path.to_path_buf())
            .collect()
    }

    /// The endpoint of the driver, if it is registered.
    pub(crate) fn endpoint(&self, driver: &str) -> Option<String> {
        self.plugin().driver(driver).map(|driver| driver.endpoint)
    }

    /// The entries of the CSINode, or `None` if it does not exist. An API server returns `null` instead of an empty
    /// list.
    fn entries(&self) -> Option<Vec<Value>> {
        let csinode = self.api.object("csinodes", N)?;
        Some(
            csinode["spec"]["drivers"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        )
    }

    /// Names of the drivers in the CSINode, or `None` if it does not exist.
    pub(crate) fn csinode_drivers(&self) -> Option<Vec<String>> {
        let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
        Some(self.entries()?.iter().map(name).collect())
    }

    /// The driver's entry in the CSINode.
    pub(crate) fn entry(&self, driver: &str) -> Option<Value> {
        self.entries()?
            .into_iter()
            .find(|entry| entry["name"] == driver)
    }

    /// The node IDs on the Node.
    pub(crate) fn annotation(&self) -> Option<String> {
        let node = self.api.object("nodes", N).unwrap();
        let value = &node["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"];
        value.as_str().map(str::to_owned)
    }

    pub(crate) fn label(&self, key: &str) -> Option<String> {
        let node = self.api.object("nodes", N).unwrap();
        node["metadata"]["labels"][key].as_str().map(str::to_owned)
    }

    /// Method and path of the writes to Node and CSINode.
    pub(crate) fn writes(&self) -> Vec<String> {
        let text = |request: &Request| format!("{} {}", request.method, request.path);
        self.api.writes().iter().map(text).collect()
    }

    pub(crate) fn node_get_infos(&self) -> usize {
        self.driver.calls_to("NodeGetInfo").len()
    }

    /// Waits until `condition` holds.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        until(what, || condition(self)).await;
    }

    /// Registers the stage's driver by a registrar on `d-reg.sock`.
    pub(crate) async fn registered(&self) -> ScriptedRegistrar {
        let registrar = self.registrar();
        registrar.confirmed().await;
        registrar
    }
}

/// Step of waiting tests. Paused time runs to the next timer whenever everything waits, even if a socket becomes
/// readable a moment later; a timer that is always near keeps it from running past a deadline.
const STEP: Duration = Duration::from_millis(10);

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let give_up = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < give_up, "it never came about that {what}");
        sleep(STEP).await;
    }
}

/// Lets `seconds` pass.
pub(crate) async fn pass(seconds: f64) {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        sleep_until(end.min(Instant::now() + STEP)).await;
    }
}

/// Measures how long `something` takes.
pub(crate) async fn timed<T>(something: impl Future<Output = T>) -> Duration {
    let begin = Instant::now();
    something.await;
    begin.elapsed()
}

/// Whether `took` is close to `seconds`, give or take the steps of waiting tests.
pub(crate) fn about(took: Duration, seconds: f64) -> bool {
    (took.as_secs_f64() - seconds).abs() < 0.1
}
