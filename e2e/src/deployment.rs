//! A driver as its vendor deploys it: one pod with the controller service, one pod on each node.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::api::{Api, text};
use crate::cluster::Cluster;
use crate::node::Seat;
use crate::process::Process;
use crate::{object, wait};

/// Where the pods of one driver run. They share one storage and one record.
#[derive(Debug)]
pub struct Deployment<'a> {
    cluster: &'a Cluster,
    /// The controller's pod; sidecars use its socket.
    pub controller: Seat<'a>,
    flags: Vec<String>,
}

impl<'a> Deployment<'a> {
    /// Creates the CSIDriver object; nothing runs yet. The driver processes get `flags`.
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

    /// Starts the pod on a node of the cluster: node service and registrar; waits until the kubelet
    /// has registered it. `--topology=KEY=VALUE` among the flags puts the node into a zone.
    pub fn start_node(&self, index: usize, more: &[&str]) -> Result<NodePod<'a>> {
        let seat = Seat::new(self.cluster, index, self.driver())?;
        self.start_on(seat, more)
    }

    /// As [`Deployment::start_node`], on a node that is added for it.
    pub fn start_new_node(&self, name: &str, more: &[&str]) -> Result<NodePod<'a>> {
        let kubelet_dir = self.cluster.add_node(name)?;
        let seat = Seat::on(self.cluster, name, kubelet_dir, self.driver())?;
        self.start_on(seat, more)
    }

    fn start_on(&self, seat: Seat<'a>, more: &[&str]) -> Result<NodePod<'a>> {
        let seat = seat.sharing(&self.controller);
        let mut flags = self.flags(more);
        flags.push("--role=node");
        let driver = seat.start_driver(&flags)?;
        let mut registrar = seat.start_registrar(&[])?;
        let entry = seat.until_registered(&self.cluster.api()?, &mut registrar)?;
        Ok(NodePod {
            seat,
            entry,
            driver,
            registrar,
        })
    }
}

/// The pod of a driver on a node; it ends when it is dropped.
#[derive(Debug)]
pub struct NodePod<'a> {
    /// Where it runs.
    pub seat: Seat<'a>,
    /// Its entry in CSINode.
    pub entry: Value,
    /// The node service.
    pub driver: Process,
    /// The registrar.
    pub registrar: Process,
}

/// A workload whose volume is mounted.
#[derive(Debug)]
pub struct Pod {
    /// Its path at the API server.
    pub path: String,
    /// The node that the scheduler chose.
    pub node: String,
    uid: String,
}

impl Pod {
    /// Creates a pod with the claim's volume, on `node` or wherever the scheduler likes.
    pub fn create(api: &Api, name: &str, node: Option<&str>, claim: &str) -> Result<Self> {
        let pods = "/api/v1/namespaces/default/pods";
        let mut pod = object::pod(
            name,
            node.unwrap_or_default(),
            &object::claimed_volume(claim),
        );
        if let (None, Some(spec)) = (node, pod.get_mut("spec").and_then(Value::as_object_mut)) {
            spec.remove("nodeSelector");
        }
        let pod = api.create(pods, &pod)?;
        let uid = text(&pod, "/metadata/uid").context("uid of the pod")?;
        Ok(Self {
            path: format!("{pods}/{name}"),
            node: String::new(),
            uid: uid.to_owned(),
        })
    }

    /// Waits until it runs; its containers start only when its volumes are mounted.
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

    /// Where the kubelet of `seat` mounts the persistent volume for this pod.
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

    /// Reads it again.
    pub fn read(&self, seat: &Seat<'_>, volume: &str) -> Result<String> {
        let file = self.target(seat, volume).join("file");
        seat.run("/bin/cat", &[&file.to_string_lossy()])
    }
}
