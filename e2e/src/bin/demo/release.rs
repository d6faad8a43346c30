//! This project's charts as a user installs them: real helm, real API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use e2e::api::Api;
use e2e::cluster::Cluster;
use e2e::traces::Traces;
use e2e::{chart, process, program, wait};
use serde_json::{Value, json};
use sidecar_testkit::free_address;

use crate::container::items;
use crate::{DRIVER, SOON};

/// Namespace of the charts' objects.
pub(crate) const NAMESPACE: &str = "storage";

/// The controllers' users on the API server, as a regular expression.
pub(crate) const CONTROLLERS: &str =
    "system:serviceaccount:storage:(demo-csi-sidecars-controller|snapshot-controller)";

/// Collections that contain objects of the charts or of their controllers.
const KINDS: [&str; 10] = [
    "/api/v1/namespaces/storage/pods",
    "/api/v1/namespaces/storage/serviceaccounts",
    "/apis/apps/v1/namespaces/storage/deployments",
    "/apis/apps/v1/namespaces/storage/daemonsets",
    "/apis/policy/v1/namespaces/storage/poddisruptionbudgets",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/storage.k8s.io/v1/csidrivers",
];

/// The form of a pod's sidecars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sidecars {
    /// One container each.
    Separate,
    /// One process.
    Together,
}

impl Sidecars {
    /// The chart's value.
    fn value(self) -> &'static str {
        match self {
            Self::Separate => "separate",
            Self::Together => "together",
        }
    }
}

/// A release of one of this project's charts.
#[derive(Debug)]
pub(crate) struct Release {
    helm: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    name: &'static str,
    chart: &'static str,
    values: PathBuf,
    shown: String,
}

/// The port of an address.
fn port(address: &str) -> Option<u16> {
    address.rsplit(':').next()?.parse().ok()
}

impl Release {
    fn new(
        cluster: &Cluster,
        name: &'static str,
        chart: &'static str,
        values: &Value,
    ) -> Result<Self> {
        let home = cluster.dir().join("run");
        let file = home.join(format!("{chart}.json"));
        std::fs::write(&file, serde_json::to_vec_pretty(values)?)?;
        Ok(Self {
            helm: program::helm()?,
            kubeconfig: cluster.kubeconfig()?,
            home,
            name,
            chart,
            values: file,
            shown: String::new(),
        })
    }

    /// The chart `snapshot-controller`, once per cluster.
    pub(crate) fn of_snapshots(cluster: &Cluster, traces: Option<&Traces>) -> Result<Self> {
        let (arguments, variables) = match traces {
            None => (json!([]), json!([])),
            Some(traces) => (
                json!(["--enable-otel-tracing=true"]),
                json!([{ "name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": traces.endpoint() }]),
            ),
        };
        let values = json!({
            "extraArgs": arguments,
            "env": variables,
            "image": { "registry": "registry.example.com/storage" },
            "replicas": 1,
            "hostNetwork": true,
            "port": port(&free_address()),
        });
        Self::new(
            cluster,
            "snapshot-controller",
            "snapshot-controller",
            &values,
        )
    }

    /// The chart `csi-sidecars` with the demonstration's driver, and the address of the livenessprobe
    /// beside its controller. The nodes' kubelet directory is `kubelet_dir`.
    pub(crate) fn of_driver(
        cluster: &Cluster,
        kubelet_dir: &Path,
        sidecars: Sidecars,
        traces: Option<&Traces>,
    ) -> Result<(Self, String)> {
        let home = cluster.dir().join("run");
        // The controllers' pod uses the machine's network, where every port may be taken.
        let ports = [
            free_address(),
            free_address(),
            free_address(),
            free_address(),
            free_address(),
        ];
        let [attacher, provisioner, resizer, snapshotter, health] = ports;
        let values = json!({
            "driver": { "name": DRIVER, "attachRequired": true },
            "sidecars": sidecars.value(),
            "image": { "registry": "registry.example.com/storage" },
            "features": { "topology": true, "snapshots": true },
            "tracing": {
                "enabled": traces.is_some(),
                "endpoint": traces.map(Traces::endpoint).unwrap_or_default(),
            },
            "csiDriver": { "create": true, "fsGroupPolicy": "File" },
            "attacher": { "port": port(&attacher) },
            "provisioner": { "port": port(&provisioner) },
            "resizer": { "enabled": true, "port": port(&resizer) },
            "snapshotter": { "enabled": true, "port": port(&snapshotter) },
            "livenessprobe": { "port": port(&health) },
            "controller": {
                "hostNetwork": true,
                // The driver runs as root, so its socket belongs to root.
                "runAsRoot": true,
                "driver": driver(&home, "controller"),
            },
            "node": {
                "kubeletDir": kubelet_dir,
                "driver": driver(&home, "node"),
            },
        });
        let mut release = Self::new(cluster, "demo", "csi-sidecars", &values)?;
        if sidecars == Sidecars::Together {
            release.shown.push_str(" --set sidecars=together");
        }
        if let Some(traces) = traces {
            let endpoint = traces.endpoint();
            let set = format!(" --set tracing.enabled=true,tracing.endpoint={endpoint}");
            release.shown.push_str(&set);
        }
        Ok((release, health))
    }

    /// The flags that a user would add to the command.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
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

    /// A helm command with chart and values.
    fn with_chart(&self, verb: &str) -> Command {
        let mut command = self.command(&[verb, self.name]);
        command.arg(chart::folder(self.chart));
        command.arg("--values").arg(&self.values);
        command
    }

    /// Renders the chart; returns the number of objects of each kind.
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

    /// Uninstalls it, and waits until all of its objects are gone.
    pub(crate) fn uninstall(&self, api: &Api) -> Result<()> {
        let mut helm = self.command(&["uninstall", self.name, "--wait", "--timeout=30s"]);
        process::output(&mut helm)?;
        for kind in KINDS {
            let path = format!(
                "{kind}?labelSelector=app.kubernetes.io/instance={}",
                self.name
            );
            wait::until_true(SOON, &format!("{path} is empty"), || {
                let list = api.get(&path)?;
                Ok(items(&list, "/items").next().is_none())
            })?;
        }
        Ok(())
    }
}

/// The driver's container. All driver processes share one storage, like a network array.
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
        // Each volume has a file system on a loop device, so expansion has a visible effect.
        "--fs-images=true".to_owned(),
        "--sync=false".to_owned(),
    ];
    if role == "controller" {
        args.push(format!("--control=unix:{}", control(home).display()));
    }
    json!({ "image": "registry.example.com/csi-test-driver:v1", "args": args })
}

/// File with the driver's record of its calls.
pub(crate) fn record(home: &Path) -> PathBuf {
    home.join("calls.jsonl")
}

/// The control socket of the driver's controller.
pub(crate) fn control(home: &Path) -> PathBuf {
    home.join("control.sock")
}
