//! A driver as its vendor deploys it: one pod with the controller service, one pod on each node.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::api::{Api, text};
use crate::cluster::Cluster;
use crate::node::Seat;
use crate::process::Process;
use crate::{object, wait};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The places of one driver's pods, which share one storage and one record.
#[derive(Debug)]
pub struct Deployment<'a> {
    cluster: &'a Cluster,
    /// The controller's pod, whose socket the sidecars use.
    pub controller: Seat<'a>,
    flags: Vec<String>,
}

impl<'a> Deployment<'a> {
    /// Creates the CSIDriver object; no process runs yet. The driver's processes get `flags`.
    pub fn new(cluster: &'a Cluster, api: &Api, driver: &str, flags: &[&str]) -> Result<Self> {
        let controller = Seat::controller(cluster, driver)?;
        let attach = flags.contains(&"--enable-attach=true");
        let object = object::csi_driver(driver, attach);
        api.create("/apis/storage.k8s.io/v1/csidrivers", &object)?;
        Ok(Self {
            cluster,
            controller,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        })
    }

    /// The driver's name.
    pub fn driver(&self) -> &str {
        &self.controller.driver
    }

    fn flags<'f>(&'f self, more: &[&'f str]) -> Vec<&'f str> {
        let own = self.flags.iter().map(String::as_str);
        own.chain(more.iter().copied()).collect()
    }

    /// Starts the controller service.
    pub fn start_controller(&self, more: &[&str]) -> Result<Process> {
        let mut flags = self.flags(more);
        flags.push("--role=controller");
        self.controller.start_driver(&flags)
    }

    /// Starts the pod on a node of the cluster, with node service and registrar, and waits until
    /// kubelet has registered the driver. The flag `--topology=KEY=VALUE` puts the node into a
    /// zone, `--role=all` serves the controller service there too.
    pub fn start_node(&self, index: usize, more: &[&str]) -> Result<NodePod<'a>> {
        let seat = Seat::new(self.cluster, index, self.driver())?;
        self.start_on(seat, more)
    }

    /// Like [`Deployment::start_node`], on a new node.
    pub fn start_new_node(&self, name: &str, more: &[&str]) -> Result<NodePod<'a>> {
        let kubelet_dir = self.cluster.add_node(name)?;
        let seat = Seat::on(self.cluster, name, kubelet_dir, self.driver())?;
        self.start_on(seat, more)
    }

    /// Starts the pods on the first node and on new nodes for the others, all at once; each node
    /// has its own flags.
    pub fn start_nodes(&self, nodes: &[(&str, Vec<&str>)]) -> Result<Vec<NodePod<'a>>> {
        let Some(((_, first), new)) = nodes.split_first() else {
            return Ok(Vec::new());
        };
        let names: Vec<_> = new.iter().map(|(name, _)| *name).collect();
        let dirs = self.cluster.add_nodes(&names)?;
        let seat = Seat::new(self.cluster, 0, self.driver())?;
        let mut pods = vec![self.launch(seat, first)?];
        for ((name, flags), dir) in new.iter().zip(dirs) {
            let seat = Seat::on(self.cluster, name, dir, self.driver())?;
            pods.push(self.launch(seat, flags)?);
        }
        let api = self.cluster.api()?;
        for pod in &mut pods {
            pod.until_registered(&api)?;
        }
        Ok(pods)
    }

    fn start_on(&self, seat: Seat<'a>, more: &[&str]) -> Result<NodePod<'a>> {
        let mut pod = self.launch(seat, more)?;
        pod.until_registered(&self.cluster.api()?)?;
        Ok(pod)
    }

    fn launch(&self, seat: Seat<'a>, more: &[&str]) -> Result<NodePod<'a>> {
        let seat = seat.sharing(&self.controller);
        let mut flags = self.flags(more);
        if !more.iter().any(|flag| flag.starts_with("--role=")) {
            flags.push("--role=node");
        }
        let driver = seat.start_driver(&flags)?;
        let registrar = seat.start_registrar(&[])?;
        Ok(NodePod {
            seat,
            entry: Value::Null,
            driver,
            registrar,
        })
    }
}

/// The pod of a driver on a node; dropping it ends the pod.
#[derive(Debug)]
pub struct NodePod<'a> {
    /// Its place.
    pub seat: Seat<'a>,
    /// The driver's entry in CSINode.
    pub entry: Value,
    /// The node service.
    pub driver: Process,
    /// The registrar.
    pub registrar: Process,
}

impl NodePod<'_> {
    fn until_registered(&mut self, api: &Api) -> Result<()> {
        self.entry = self.seat.until_registered(api, &mut self.registrar)?;
        Ok(())
    }
}

/// A workload with a mounted volume.
#[derive(Debug)]
pub struct Pod {
    /// Its path on the API server.
    pub path: String,
    /// The node that the scheduler selected.
    pub node: String,
    uid: String,
}

impl Pod {
    /// Creates a pod with the claim's volume, on `node` or on any node.
    pub fn create(api: &Api, name: &str, node: Option<&str>, claim: &str) -> Result<Self> {
        let volume = object::claimed_volume(claim);
        Self::send(
            api,
            &match node {
                Some(node) => object::pod(name, node, &volume),
                None => object::free_pod(name, &volume),
            },
        )
    }

    /// Like [`Pod::create`], on any node, but preferably on `node`.
    pub fn create_near(api: &Api, name: &str, node: &str, claim: &str) -> Result<Self> {
        let pod = object::free_pod(name, &object::claimed_volume(claim));
        Self::send(api, &object::with(pod, &object::preferring(node)))
    }

    fn send(api: &Api, pod: &Value) -> Result<Self> {
        Self::of(&api.create(PODS, pod)?)
    }

    /// A pod that another program creates; waits until it exists.
    pub fn find(api: &Api, name: &str) -> Result<Self> {
        let limit = std::time::Duration::from_secs(30);
        let pod = wait::until(limit, &format!("pod {name} is created"), || {
            api.find(&format!("{PODS}/{name}"))
        });
        Self::of(&pod?)
    }

    fn of(pod: &Value) -> Result<Self> {
        let name = text(pod, "/metadata/name").context("name of the pod")?;
        let uid = text(pod, "/metadata/uid").context("uid of the pod")?;
        Ok(Self {
            path: format!("{PODS}/{name}"),
            node: String::new(),
            uid: uid.to_owned(),
        })
    }

    /// Whether it is the same pod, and not another one with its name.
    pub fn is(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    /// Waits until it runs; its containers start only after its volumes are mounted.
    pub fn until_running(&mut self, api: &Api) -> Result<()> {
        let limit = std::time::Duration::from_secs(30);
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let what = format!("pod {name} runs");
        self.node = wait::until(limit, &what, || {
            let pod = api.get(&self.path)?;
            let running = text(&pod, "/status/phase") == Some("Running");
            Ok(running.then(|| text(&pod, "/spec/nodeName").unwrap_or_default().to_owned()))
        })
        .with_context(|| api.events("default", name))?;
        Ok(())
    }

    /// The path where kubelet on `seat` mounts the persistent volume for this pod.
    pub fn target(&self, seat: &Seat<'_>, volume: &str) -> std::path::PathBuf {
        let pods = seat.kubelet_dir().join("pods").join(&self.uid);
        pods.join("volumes/kubernetes.io~csi")
            .join(volume)
            .join("mount")
    }

    /// Fails unless the volume is mounted for this pod.
    pub fn must_be_mounted(&self, seat: &Seat<'_>, volume: &str) -> Result<()> {
        let target = self.target(seat, volume);
        let mounts = seat.mounts_below(&target)?;
        anyhow::ensure!(
            !mounts.is_empty(),
            "nothing is mounted at {}",
            target.display()
        );
        Ok(())
    }

    /// Writes a file into the volume, as the pod's container would.
    pub fn write(&self, seat: &Seat<'_>, volume: &str, text: &str) -> Result<()> {
        let file = self.target(seat, volume).join("file");
        let script = "printf '%s' \"$1\" > \"$0\"";
        seat.run("/bin/sh", &["-c", script, &file.to_string_lossy(), text])?;
        Ok(())
    }

    /// Reads that file.
    pub fn read(&self, seat: &Seat<'_>, volume: &str) -> Result<String> {
        let file = self.target(seat, volume).join("file");
        seat.run("/bin/cat", &[&file.to_string_lossy()])
    }
}
