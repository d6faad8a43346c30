//! Our chart as a user installs it: real helm, real API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::api::Api;
use e2e::cluster::Cluster;
use e2e::node::free_address;
use e2e::{chart, process, program, wait};
use serde_json::{Value, json};

use crate::container::items;
use crate::{DRIVER, SOON};

const RELEASE: &str = "demo";

/// Where the chart's objects are.
pub(crate) const NAMESPACE: &str = "storage";

/// The user that the API server sees in the controllers.
pub(crate) const CONTROLLERS: &str = "system:serviceaccount:storage:demo-csi-sidecars-controller";

/// Where objects of the chart were, and of their controllers.
const KINDS: [&str; 9] = [
    "/api/v1/namespaces/storage/pods",
    "/api/v1/namespaces/storage/serviceaccounts",
    "/apis/apps/v1/namespaces/storage/deployments",
    "/apis/apps/v1/namespaces/storage/daemonsets",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/storage.k8s.io/v1/csidrivers",
];

/// The chart `csi-sidecars` with the demonstration's driver.
#[derive(Debug)]
pub(crate) struct Release {
    helm: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    values: PathBuf,
    /// Where the livenessprobe beside the driver's controller answers.
    pub(crate) health: String,
}

impl Release {
    /// Writes the values. On the nodes the kubelet's directory is at `kubelet_dir`.
    pub(crate) fn new(cluster: &Cluster, kubelet_dir: &Path) -> Result<Self> {
        let home = cluster.dir().join("run");
        let values = home.join("values.json");
        // The controllers' pod has the machine's network, and no port may be taken.
        let mut ports = Vec::new();
        for _ in 0..4 {
            ports.push(free_address()?);
        }
        let port = |index: usize| {
            let port = ports.get(index).and_then(|it| it.rsplit(':').next());
            port.and_then(|port| port.parse::<u16>().ok())
        };
        let written = json!({
            "driver": { "name": DRIVER, "attachRequired": true },
            "image": { "registry": "registry.example.com/storage" },
            "features": { "topology": true },
            "csiDriver": { "create": true, "fsGroupPolicy": "File" },
            "attacher": { "port": port(0) },
            "provisioner": { "port": port(1) },
            "resizer": { "enabled": true, "port": port(2) },
            "livenessprobe": { "port": port(3) },
            "controller": {
                "hostNetwork": true,
                // The driver runs as root, and so its socket is root's.
                "runAsRoot": true,
                "driver": driver(&home, "controller"),
            },
            "node": {
                "kubeletDir": kubelet_dir,
                "driver": driver(&home, "node"),
            },
        });
        std::fs::write(&values, serde_json::to_vec_pretty(&written)?)?;
        Ok(Self {
            helm: program::helm()?,
            kubeconfig: cluster.kubeconfig()?,
            home,
            values,
            health: ports.pop().context("an address")?,
        })
    }

    fn command(&self, verb: &[&str]) -> Command {
        let mut command = Command::new(&self.helm);
        command.env("KUBECONFIG", &self.kubeconfig);
        for place in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(place, &self.home);
        }
        command.args(verb).args(["--namespace", NAMESPACE]);
        command
    }

    /// A verb that needs chart and values.
    fn with_chart(&self, verb: &str) -> Command {
        let mut command = self.command(&[verb, RELEASE]);
        command.arg(chart::folder("csi-sidecars"));
        command.arg("--values").arg(&self.values);
        command
    }

    /// Renders the chart; how many objects of each kind it has.
    pub(crate) fn render(&self) -> Result<String> {
        let rendered = process::output(&mut self.with_chart("template"))?;
        let mut kinds = BTreeMap::<&str, u32>::new();
        for kind in rendered
            .lines()
            .filter_map(|line| line.strip_prefix("kind: "))
        {
            *kinds.entry(kind).or_default() += 1;
        }
        ensure!(kinds.contains_key("Deployment"), "no Deployment: {kinds:?}");
        let listed = kinds
            .iter()
            .map(|(kind, number)| format!("{number} {kind}"));
        Ok(listed.collect::<Vec<_>>().join(", "))
    }

    /// Installs the release.
    pub(crate) fn install(&self) -> Result<()> {
        let mut helm = self.with_chart("install");
        process::output(helm.arg("--create-namespace")).map(drop)
    }

    /// Removes it, and waits until none of its objects is left.
    pub(crate) fn uninstall(&self, api: &Api) -> Result<()> {
        let mut helm = self.command(&["uninstall", RELEASE, "--wait", "--timeout=30s"]);
        process::output(&mut helm)?;
        for kind in KINDS {
            let path = format!("{kind}?labelSelector=app.kubernetes.io/instance={RELEASE}");
            wait::until_true(SOON, &format!("{path} is empty"), || {
                let list = api.get(&path)?;
                Ok(items(&list, "/items").next().is_none())
            })?;
        }
        Ok(())
    }
}

/// The driver's container. All its processes share one storage, as an array in a network would be.
fn driver(home: &Path, role: &str) -> Value {
    let (state, record) = (home.join("storage"), record(home));
    let mut args = vec![
        "--endpoint=$(CSI_ENDPOINT)".to_owned(),
        "--nodeid=$(NODE_NAME)".to_owned(),
        format!("--drivername={DRIVER}"),
        format!("--role={role}"),
        format!("--statedir={}", state.display()),
        format!("--record={}", record.display()),
        "--enable-attach=true".to_owned(),
        "--enable-topology=true".to_owned(),
        // File systems of their own behind loop devices: a volume that grows has more room.
        "--fs-images=true".to_owned(),
        "--sync=false".to_owned(),
    ];
    if role == "controller" {
        args.push(format!("--control=unix:{}", control(home).display()));
    }
    json!({ "image": "registry.example.com/csi-test-driver:v1", "args": args })
}

/// Where the driver writes down its calls.
pub(crate) fn record(home: &Path) -> PathBuf {
    home.join("calls.jsonl")
}

/// Where the driver's controller says what it has.
pub(crate) fn control(home: &Path) -> PathBuf {
    home.join("control.sock")
}
