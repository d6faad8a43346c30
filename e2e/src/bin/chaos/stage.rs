//! The cluster with everything that claims need: a driver, accounts, classes, nodes, namespaces.

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

/// Bytes of that snapshot.
const SNAPSHOT_BYTES: i64 = 1 << 20;

/// What each namespace has of the storage before anything happens.
pub(crate) struct Preexisting {
    /// Handle of the volume that belongs to no claim.
    pub(crate) volume: String,
    /// Handle of the snapshot of it.
    pub(crate) snapshot: String,
}

const STORAGE: &str = "/apis/storage.k8s.io/v1";

/// A namespace of users.
pub(crate) fn namespace(number: u64) -> String {
    format!("users-{number}")
}

/// A node without kubelet.
pub(crate) fn node(number: u64) -> String {
    format!("chaos-node-{number}")
}

/// What the driver calls a node.
pub(crate) fn node_id(node: &str) -> String {
    format!("id-of-{node}")
}

/// Everything that stays where it is while things go wrong.
pub(crate) struct Stage<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) api: Api,
    pub(crate) deployment: Deployment<'a>,
    /// What each program serves. The head of its leases comes first.
    pub(crate) programs: Vec<(&'static [Who], Controller<'a>)>,
}

impl<'a> Stage<'a> {
    /// Creates what administrators create; nothing runs yet.
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
                // Upstream's manifest leaves these to drivers that have such classes; without them
                // its provisioner never starts.
                let classes = json!([{
                    "apiGroups": ["storage.k8s.io"], "resources": ["volumeattributesclasses"],
                    "verbs": ["get", "list", "watch"],
                }]);
                controller.allow(&api, &classes)?;
            }
            if serves.contains(&Who::SnapshotController) && controller.is_under_upstreams_rules()? {
                // Without them upstream's waits half a minute for kinds that it cannot list.
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

    /// Starts the driver and waits until it serves its socket.
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

    /// A way of a replica's own to the API server, and the kubeconfig that leads over it.
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

    /// Waits until there is an API server that answers.
    pub(crate) fn until_served(&self) -> Result<()> {
        let limit = Duration::from_secs(120);
        wait::until_true(limit, "the API server answers", || {
            Ok(self.api.get("/api").is_ok())
        })
    }
}

/// The programs that are tried, and what each serves.
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

/// Contents need names of their own in the cluster; the snapshot has the same one everywhere.
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
