//! The environment of the component tests: kubelet's directory, a model API server with one Node, a
//! registered model driver, and the agent under test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi;
use node_agent::plan::layout::{Layout, sha, unique_name};
use node_agent::run::{Agent, AgentError, Config};
use registrar::kubelet;
use registrar::kubelet::work::plugin::{CsiPlugin, PluginHandler as _};
use serde_json::{Value, json};
use sidecar::metrics::Registry;
use sidecar_testkit::build::{Object, attachment, claim, csidriver, node, volume};
use sidecar_testkit::driver::NodeRpc;
use sidecar_testkit::driver::record::Call;
use sidecar_testkit::{CallFault, FakeApi, FakeDriver, Gate};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

/// The driver's name.
pub(crate) const D: &str = "d.example.com";
/// The node's name.
pub(crate) const N: &str = "n1";

/// Longer than any operation takes, on the tests' own clock.
const TEST_TIMEOUT: Duration = Duration::from_secs(1000);
/// Paused time jumps to the next timer whenever everything waits, even for a socket that becomes
/// readable a moment later; a timer that is always near keeps it from jumping past a deadline.
const STEP: Duration = Duration::from_millis(25);

pub(crate) struct Stage {
    pub(crate) api: FakeApi,
    pub(crate) driver: FakeDriver,
    directory: TempDir,
    pub(crate) se_linux: bool,
    running: Option<Running>,
}

struct Running {
    task: JoinHandle<Result<(), AgentError>>,
    plugin: Arc<CsiPlugin>,
    metrics: Registry,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stage {
    /// A Node, a CSIDriver object and a listening driver that stages; the agent does not run.
    pub(crate) fn set() -> Self {
        let api = FakeApi::new();
        api.insert(node(N));
        api.insert(csidriver(D));
        let driver = FakeDriver::new(D);
        driver.configure(|model| model.node = vec![NodeRpc::StageUnstageVolume]);
        driver.start();
        Self {
            api,
            driver,
            directory: tempfile::tempdir().unwrap(),
            se_linux: false,
            running: None,
        }
    }

    /// The same, with the agent running and the driver registered.
    pub(crate) async fn started() -> Self {
        let mut stage = Self::set();
        stage.start().await;
        stage
    }

    /// Starts the agent and registers the driver.
    pub(crate) async fn start(&mut self) {
        self.start_unregistered().await;
        self.register().await;
    }

    /// Starts the agent.
    pub(crate) async fn start_unregistered(&mut self) {
        let mut initialized = self.begin();
        initialized.wait_for(|it| *it).await.unwrap();
    }

    /// Starts the agent, which may refuse; returns whether its CSINode is ready.
    pub(crate) fn begin(&mut self) -> watch::Receiver<bool> {
        let root = self.directory.path().join("kubelet");
        let config = Config {
            registration: kubelet::run::Config {
                node: N.to_owned(),
                registry: root.join("plugins_registry"),
                register_node: false,
            },
            root,
            run_pods: true,
            se_linux: self.se_linux,
        };
        let metrics = Registry::new();
        let agent = Agent::new(config, self.api.client(), &metrics, || 0.0).unwrap();
        let (plugin, initialized) = (agent.plugin(), agent.initialized());
        let task = tokio::spawn(agent.run());
        self.running = Some(Running {
            task,
            plugin,
            metrics,
        });
        initialized
    }

    /// Holds the driver's calls of this method until the gate opens.
    pub(crate) fn hold(&self, method: &'static str) -> Gate {
        let gate = Gate::new();
        self.driver.fault(CallFault::on(method).hold(&gate));
        gate
    }

    pub(crate) async fn register(&self) {
        let socket = self.driver.socket();
        let plugin = Arc::clone(&self.running.as_ref().unwrap().plugin);
        let version = ["1.0.0".to_owned()];
        plugin
            .register(D, socket.to_str().unwrap(), &version)
            .await
            .unwrap();
    }

    pub(crate) async fn deregister(&self) {
        let plugin = Arc::clone(&self.running.as_ref().unwrap().plugin);
        plugin.deregister(D, "").await;
    }

    /// Ends the agent as a crash would.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    /// Waits until the agent ends on its own.
    pub(crate) async fn end(&mut self) -> AgentError {
        let task = &mut self.running.as_mut().unwrap().task;
        task.await.unwrap().unwrap_err()
    }

    /// The response to a scrape.
    pub(crate) fn metrics(&self) -> String {
        self.running.as_ref().unwrap().metrics.render()
    }

    /// Kubelet's directory, without symbolic links.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory
            .path()
            .canonicalize()
            .unwrap()
            .join("kubelet")
    }

    /// Creates that directory, for a program that does not.
    pub(crate) fn make_root(&self) -> PathBuf {
        let root = self.root();
        std::fs::create_dir(&root).unwrap();
        root
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout {
            root: self.root(),
            node: N.to_owned(),
        }
    }

    /// A bound claim `default/NAME` with a volume `pv-NAME` whose handle is `h-NAME`.
    pub(crate) fn claimed(&self, name: &str) {
        self.claimed_with(name, |volume| volume.mode("RWO").fs_type("ext4"));
    }

    pub(crate) fn claimed_with(
        &self,
        name: &str,
        change: impl FnOnce(sidecar_testkit::build::Volume) -> sidecar_testkit::build::Volume,
    ) {
        let pv = format!("pv-{name}");
        let handle = handle(name);
        self.driver.volume(&handle);
        let claim = claim(&format!("default/{name}")).bound_to(&pv);
        let claim = claim.uid(&format!("uid-of-claim-{name}"));
        self.api
            .insert(claim.with("/status/capacity", json!({ "storage": "1Gi" })));
        let volume = volume(&pv).csi(D, &handle);
        let volume = volume.bound_to(&format!("default/{name}"));
        let volume = volume.with("/spec/claimRef/uid", format!("uid-of-claim-{name}"));
        self.api.insert(change(volume));
    }

    /// Does the part of the attacher and the controller: the volume is attached to the node.
    pub(crate) fn attach(&self, name: &str) {
        self.attach_with(name, &json!({}));
    }

    pub(crate) fn attach_with(&self, name: &str, metadata: &Value) {
        let object = attachment(&self.attachment(name)).by(D).on(N);
        let object = object.of(&format!("pv-{name}")).attached();
        let object = object.with("/status/attachmentMetadata", metadata.clone());
        self.api.insert(object);
        self.show_attached(name);
    }

    /// Puts the volume into the Node's `volumesAttached`.
    pub(crate) fn show_attached(&self, name: &str) {
        let entry = json!({ "name": unique_name(D, &handle(name)), "devicePath": "" });
        self.api.edit("nodes", N, |node| {
            let list = &mut node["status"]["volumesAttached"];
            match list.as_array_mut() {
                Some(list) => list.push(entry),
                None => *list = json!([entry]),
            }
        });
    }

    pub(crate) fn attachment(&self, name: &str) -> String {
        self.layout().attachment(D, &handle(name))
    }

    /// Creates a pod on the node, `default/NAME` with UID `uid-NAME`, whose container mounts these
    /// claims.
    pub(crate) fn pod(&self, name: &str, claims: &[&str]) {
        self.pod_with(name, claims, |_| {});
    }

    pub(crate) fn pod_with(&self, name: &str, claims: &[&str], change: impl FnOnce(&mut Value)) {
        let source = |claim: &&str| {
            json!({ "name": format!("v-{claim}"),
                    "persistentVolumeClaim": { "claimName": claim } })
        };
        let mount = |claim: &&str| json!({ "name": format!("v-{claim}"), "mountPath": "/data" });
        let volumes: Vec<_> = claims.iter().map(source).collect();
        let mounts: Vec<_> = claims.iter().map(mount).collect();
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "namespace": "default", "name": name, "uid": uid(name) },
            "spec": {
                "nodeName": N,
                "serviceAccountName": "builder",
                "volumes": volumes,
                "containers": [{ "name": "c", "volumeMounts": mounts }],
            },
            "status": { "phase": "Pending" },
        });
        change(&mut pod);
        self.api.insert(pod);
    }

    /// Like `kubectl delete pod`: the pod is being deleted until the node removes it.
    pub(crate) fn delete_pod(&self, name: &str) {
        self.api.edit("pods", &format!("default/{name}"), |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        });
    }

    pub(crate) fn phase(&self, pod: &str) -> String {
        let pod = self.api.object("pods", &format!("default/{pod}"));
        let pod = pod.unwrap_or_default();
        pod["status"]["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) async fn until_running(&self, pod: &str) {
        self.until(&format!("pod {pod} runs"), |stage| {
            stage.phase(pod) == "Running"
        })
        .await;
    }

    pub(crate) async fn until_gone(&self, pod: &str) {
        let name = format!("default/{pod}");
        self.until(&format!("pod {pod} is gone"), |stage| {
            stage.api.object("pods", &name).is_none()
        })
        .await;
    }

    /// A running pod with an attached volume.
    pub(crate) async fn mounted(&self, pod: &str, name: &str) {
        self.claimed(name);
        self.attach(name);
        self.pod(pod, &[name]);
        self.until_running(pod).await;
    }

    /// Names in the Node's `volumesInUse`.
    pub(crate) fn in_use(&self) -> Vec<String> {
        let node = self.api.object("nodes", N).unwrap();
        let list = node["status"]["volumesInUse"].as_array().cloned();
        let names = list.unwrap_or_default().into_iter();
        names.map(|it| it.as_str().unwrap().to_owned()).collect()
    }

    /// Staging path of a claim's volume.
    pub(crate) fn staging(&self, name: &str) -> PathBuf {
        let plugins = self.root().join("plugins/kubernetes.io/csi");
        plugins
            .join(D)
            .join(sha(&[&handle(name)]))
            .join("globalmount")
    }

    /// Publish path of a claim's volume for a pod.
    pub(crate) fn target(&self, pod: &str, name: &str) -> PathBuf {
        let pod = self.root().join("pods").join(uid(pod));
        let volumes = pod.join("volumes/kubernetes.io~csi");
        volumes.join(format!("pv-{name}")).join("mount")
    }

    /// Methods called so far, without NodeGetCapabilities and NodeGetInfo.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        let calls = self.driver.calls().into_iter().map(|call| call.method);
        let asks = ["NodeGetCapabilities", "NodeGetInfo"];
        calls.filter(|method| !asks.contains(method)).collect()
    }

    /// Methods called so far, with NodeGetCapabilities.
    pub(crate) fn all_calls(&self) -> Vec<&'static str> {
        let calls = self.driver.calls().into_iter().map(|call| call.method);
        calls.filter(|method| *method != "NodeGetInfo").collect()
    }

    pub(crate) fn stage_request(&self) -> csi::NodeStageVolumeRequest {
        last(&self.driver.calls_to("NodeStageVolume"))
    }

    pub(crate) fn publish_request(&self) -> csi::NodePublishVolumeRequest {
        last(&self.driver.calls_to("NodePublishVolume"))
    }

    /// Reasons and messages of a pod's events.
    pub(crate) fn events(&self, pod: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = self.api.objects("events").into_iter();
        events
            .filter(|it| it["involvedObject"]["name"] == pod)
            .map(|it| (text(&it["reason"]), text(&it["message"])))
            .collect()
    }

    /// Waits for an event of the pod with this reason and text.
    pub(crate) async fn until_event(&self, pod: &str, reason: &str, text: &str) {
        self.until(&format!("{reason} … {text} is told"), |stage| {
            let mut events = stage.events(pod).into_iter();
            events.any(|(why, message)| why == reason && message.contains(text))
        })
        .await;
    }

    /// Waits until `condition` holds.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let give_up = Instant::now() + TEST_TIMEOUT;
        while !condition(self) {
            assert!(
                Instant::now() < give_up,
                "it never came about that {what}: {:?} {:?}",
                self.driver.calls(),
                self.api.objects("events"),
            );
            // Checked again after this time.
            sleep(STEP).await;
        }
    }

    /// Waits until a method was called this many times.
    pub(crate) async fn until_called(&self, method: &str, times: usize) {
        self.until(&format!("{method} is called {times} times"), |stage| {
            stage.driver.calls_to(method).len() >= times
        })
        .await;
    }

    /// Waits until nothing of any volume is left: on disk, in the driver and in the Node's status.
    pub(crate) async fn until_clean(&self) {
        self.until("no volume is in use", |stage| stage.in_use().is_empty())
            .await;
        let left = below(&self.root().join("pods"));
        assert!(left.is_empty(), "{left:?}");
        let plugins = self.root().join("plugins/kubernetes.io/csi");
        let left: Vec<_> = below(&plugins)
            .into_iter()
            .filter(|it| !it.is_dir())
            .collect();
        assert!(left.is_empty(), "{left:?}");
        self.driver.configure(|model| {
            for (handle, volume) in &model.volumes {
                assert!(volume.targets.is_empty(), "{handle} is published");
                assert!(volume.staged.is_empty(), "{handle} is staged");
            }
        });
    }
}

/// Handle of a claim's volume.
pub(crate) fn handle(name: &str) -> String {
    format!("h-{name}")
}

/// UID of a pod.
pub(crate) fn uid(pod: &str) -> String {
    format!("uid-{pod}")
}

fn last<T: Clone + 'static>(calls: &[Call]) -> T {
    calls.last().unwrap().request::<T>().unwrap().clone()
}

/// Everything below a directory.
pub(crate) fn below(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            all.extend(below(&path));
        }
        all.push(path);
    }
    all
}

/// Lets `seconds` pass.
pub(crate) async fn pass(seconds: f64) {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        sleep_until(end.min(Instant::now() + STEP)).await;
    }
}
