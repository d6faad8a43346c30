//! helm, as an administrator uses it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::cluster::Cluster;
use e2e::{process, program, wait};

const NAMESPACE: &str = "storage";
const LONG: Duration = Duration::from_secs(90);

/// A release of one of this project's charts in the namespace `storage` of this cluster.
pub(crate) struct Helm {
    /// Name of the release.
    release: &'static str,
    /// Folder of the chart below `charts/`.
    chart: &'static str,
    /// Values besides the chart's own.
    settings: Vec<String>,
    program: std::path::PathBuf,
    kubeconfig: std::path::PathBuf,
    kubectl: std::path::PathBuf,
    home: std::path::PathBuf,
}

impl Helm {
    /// A release that is not installed yet, with values for `--set`.
    pub(crate) fn new(
        cluster: &Cluster,
        release: &'static str,
        chart: &'static str,
        settings: &[&str],
    ) -> Result<Self> {
        Ok(Self {
            release,
            chart,
            settings: settings.iter().map(|it| format!("--set={it}")).collect(),
            program: program::find("helm", "HELM", "helm")?,
            kubeconfig: cluster.kubeconfig()?,
            kubectl: program::cluster()?,
            home: cluster.dir().join("run"),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("KUBECONFIG", &self.kubeconfig);
        for place in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(place, &self.home);
        }
        command
    }

    /// Runs a helm verb on the release, with its settings.
    pub(crate) fn run(&self, verb: &[&str]) -> Result<String> {
        let chart = program::root().join("charts").join(self.chart);
        let (first, rest) = verb.split_first().unwrap_or((&"version", &[]));
        let mut command = self.command();
        command.args([first, self.release]).arg(chart);
        command.args(["--namespace", NAMESPACE]).args(rest);
        command.args(&self.settings);
        process::output(&mut command)
    }

    /// The images in the rendered chart.
    pub(crate) fn images(&self) -> Result<BTreeSet<String>> {
        let rendered = self.run(&["template"])?;
        let fields = rendered.lines().filter_map(|line| {
            let line = line.trim_start().trim_start_matches("- ");
            line.strip_prefix("image:")
        });
        Ok(fields
            .map(|image| image.trim().trim_matches('"').to_owned())
            .collect())
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut kubectl = Command::new(&self.kubectl);
        kubectl
            .arg("kubectl")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig);
        process::output(kubectl.args(arguments))
    }

    /// Runs the tests of the installed release.
    pub(crate) fn test(&self) -> Result<String> {
        let verb = [
            "test",
            self.release,
            "--namespace",
            NAMESPACE,
            "--timeout=60s",
        ];
        process::output(self.command().args(verb))
    }

    /// Uninstalls the release.
    pub(crate) fn uninstall(&self) -> Result<()> {
        let verb = [
            "uninstall",
            self.release,
            "--wait",
            "--namespace",
            NAMESPACE,
        ];
        process::output(self.command().args(verb)).map(drop)
    }

    /// The description of the pods, for failed installations.
    pub(crate) fn pods(&self) -> String {
        let describe = ["describe", "pods", "--namespace", NAMESPACE];
        self.kubectl(&describe).unwrap_or_default()
    }

    /// Fails if the release leaves an object behind.
    pub(crate) fn nothing_left(&self, cluster: &Cluster) -> Result<()> {
        let kinds = "all,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,\
                     csidrivers,storageclasses,csistoragecapacities,volumeattachments";
        let label = format!("app.kubernetes.io/instance={}", self.release);
        let list = ["get", kinds, "--all-namespaces", "-l", &label, "-o", "name"];
        wait::until_true(LONG, "the release's objects are gone", || {
            let left = self.kubectl(&list)?;
            ensure!(left.trim().is_empty(), "left: {left}");
            Ok(true)
        })?;
        let volumes = Path::new("/var/lib/csi-hostpath-data/volumes");
        let left = std::fs::read_dir(volumes).map_or(0, Iterator::count);
        ensure!(left == 0, "the driver keeps {left} volumes");
        let (_, kubelet) = cluster.node(0)?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        let path = format!("{}/pods/", kubelet.display());
        let left: Vec<_> = mounts
            .lines()
            .filter(|line| line.contains(&path) && line.contains("kubernetes.io~csi"))
            .collect();
        ensure!(left.is_empty(), "mounts are left: {left:?}");
        Ok(())
    }
}
