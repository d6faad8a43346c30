//! The cluster and everything that claims need: a driver, accounts, classes, nodes, namespaces.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::controller::{
    ATTACHER, Controller, PROVISIONER, RESIZER, Route, SNAPSHOT_CONTROLLER, SNAPSHOTTER, Sidecar,
    TOGETHER,
};
use e2e::deployment::Deployment;
use e2e::link::Link;
use e2e::object::{self, Binding};
use e2e::process::Process;
use e2e::{program, snapshots, wait};
use serde_json::{Value, json};

use crate::schedule::Who;
use crate::users::{NAMESPACES, NODES};

/// Name of the driver.
pub(crate) const DRIVER: &str = "chaos.csi.test";

/// Name of the StorageClass.
pub(crate) const CLASS: &str = "chaos";

/// Names and policies of the VolumeSnapshotClasses.
pub(crate) const SNAPSHOT_CLASSES: [(&str, &str); 2] =
    [("chaos-delete", "Delete"), ("chaos-retain", "Retain")];

/// Name of the VolumeSnapshot in each namespace.
pub(crate) const SNAPSHOT: &str = "taken";

/// Size of that snapshot in bytes.
const SNAPSHOT_BYTES: i64 = 1 << 20;

/// The volume and the snapshot that exist before anything happens.
pub(crate) struct Preexisting {
    /// Handle of the volume without a claim.
    pub(crate) volume: String,
    /// Handle of its snapshot.
    pub(crate) snapshot: String,
}

const STORAGE: &str = "/apis/storage.k8s.io/v1";

/// Name of a namespace of users.
pub(crate) fn namespace(number: u64) -> String {
    format!("users-{number}")
}

/// Name of a node without kubelet.
pub(crate) fn node(number: u64) -> String {
    format!("chaos-node-{number}")
}

/// The driver's ID for a node.
pub(crate) fn node_id(node: &str) -> String {
    format!("id-of-{node}")
}

/// The part of a run that faults do not touch.
pub(crate) struct Stage<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) api: Api,
    pub(crate) deployment: Deployment<'a>,
    /// The controllers in each program. The one whose lease decides comes first.
    pub(crate) programs: Vec<(&'static [Who], Controller<'a>)>,
}

impl<'a> Stage<'a> {
    /// Creates the administrators' objects; no program runs yet.
    pub(crate) fn build(cluster: &'a Cluster) -> Result<Self> {
        let api = cluster.api()?;
        let flags = [
            "--enable-attach=true",
            "--enable-topology=false",
            "--disable-node-expansion=true",
            "--mounts=fake",
            "--sync=false",
        ];
        let deployment = Deployment::new(cluster, &api, DRIVER, &flags)?;
        snapshots::install(cluster, &api)?;
        let mut programs = Vec::new();
        for (serves, sidecar) in kinds()? {
            let controller = Controller::install(cluster, sidecar, &deployment.controller)?;
            if serves.contains(&Who::Provisioner) && controller.is_under_upstreams_rules()? {
                // Upstream's manifest leaves these rights to drivers with such classes; without
                // them its provisioner never starts.
                let classes = json!([{
                    "apiGroups": ["storage.k8s.io"], "resources": ["volumeattributesclasses"],
                    "verbs": ["get", "list", "watch"],
                }]);
                controller.allow(&api, &classes)?;
            }
            if serves.contains(&Who::SnapshotController) && controller.is_under_upstreams_rules()? {
                // Without them upstream's controller waits half a minute for kinds that it cannot
                // list.
                controller.allow(&api, &snapshots::group_rules())?;
            }
            controller.until_permitted(&api, "coordination.k8s.io", "leases", "create")?;
            programs.push((serves, controller));
        }
        for (name, policy) in SNAPSHOT_CLASSES {
            let classes = format!("{}/volumesnapshotclasses", snapshots::GROUP);
            api.create(&classes, &object::snapshot_class(name, DRIVER, policy))?;
        }
        let class = object::storage_class(CLASS, DRIVER, Binding::Immediate);
        api.create(&format!("{STORAGE}/storageclasses"), &class)?;
        for number in 0..NODES {
            let name = node(number);
            api.create("/api/v1/nodes", &object::node(&name))?;
            let csinode = object::csi_node(&name, DRIVER, &node_id(&name));
            api.create(&format!("{STORAGE}/csinodes"), &csinode)?;
        }
        Ok(Self {
            cluster,
            api,
            deployment,
            programs,
        })
    }

    /// Starts the driver and waits for its socket.
    pub(crate) fn start_driver(&self) -> Result<Process> {
        self.deployment
            .start_controller(&["--accept-any-node=true"])
    }

    /// Creates the namespaces, each with a snapshot.
    pub(crate) fn create_namespaces(&self) -> Result<Preexisting> {
        let control = self.deployment.controller.control();
        let volumes = control.make_volumes(&["original".to_owned()], SNAPSHOT_BYTES)?;
        let volume = volumes.into_iter().next().context("a volume")?;
        let taken = control.take_snapshot(SNAPSHOT, &volume)?;
        for number in 0..NAMESPACES {
            let name = namespace(number);
            let body = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
            });
            self.api.create("/api/v1/namespaces", &body)?;
            let bytes = SNAPSHOT_BYTES.unsigned_abs();
            let mut snapshot = object::snapshot_in(&name, &name, DRIVER, &taken, bytes);
            rename(&mut snapshot);
            snapshots::store(&self.api, &snapshot)?;
        }
        Ok(Preexisting {
            volume,
            snapshot: taken,
        })
    }

    /// The namespace of accounts and leases.
    pub(crate) fn namespace(&self) -> String {
        DRIVER.replace('.', "-")
    }

    /// A connection of a replica's own to the API server, and the kubeconfig that uses it.
    pub(crate) fn link(
        &self,
        controller: &Controller<'_>,
        replica: &str,
    ) -> Result<(Link, PathBuf)> {
        let url = self.cluster.state("/proxy")?;
        let address = url.trim_start_matches("https://").trim_end_matches('/');
        let link = Link::to(address)?;
        let shared = controller.kubeconfig(Route::Proxy)?;
        let own = shared.with_extension(format!("{replica}.kubeconfig"));
        let new = format!("https://127.0.0.1:{}", link.port());
        let config = fs::read_to_string(&shared)?;
        anyhow::ensure!(config.contains(url), "{} has no {url}", shared.display());
        fs::write(&own, config.replace(url, &new))?;
        Ok((link, own))
    }

    /// Waits until the API server responds.
    pub(crate) fn until_served(&self) -> Result<()> {
        let limit = Duration::from_secs(120);
        wait::until_true(limit, "the API server answers", || {
            Ok(self.api.get("/api").is_ok())
        })
    }
}

/// The programs under test, and the controllers in each.
fn kinds() -> Result<Vec<(&'static [Who], Sidecar)>> {
    if program::are_together()? {
        return Ok(vec![
            (&Who::OF_DRIVER, TOGETHER),
            (&[Who::SnapshotController], SNAPSHOT_CONTROLLER),
        ]);
    }
    Ok(vec![
        (&[Who::Provisioner], PROVISIONER),
        (&[Who::Attacher], ATTACHER),
        (&[Who::Resizer], RESIZER),
        (&[Who::Snapshotter], SNAPSHOTTER),
        (&[Who::SnapshotController], SNAPSHOT_CONTROLLER),
    ])
}

/// A content's name is unique in the cluster; the VolumeSnapshot has the same name in each
/// namespace.
fn rename(snapshot: &mut object::Snapshot) {
    let place = "/metadata/name";
    let own = text(&snapshot.object, place).map(|_| json!(SNAPSHOT));
    if let (Some(name), Some(own)) = (snapshot.object.pointer_mut(place), own) {
        *name = own;
    }
    let reference = "/spec/volumeSnapshotRef/name";
    if let Some(name) = snapshot.content.pointer_mut(reference) {
        *name = Value::from(SNAPSHOT);
    }
}
