//! Drivers' own charts, as their projects publish them, tested in two ways: with our chart included in place of their
//! sidecars, and with only the images changed. `make driver-charts CHARTS=folder` looks for them below that folder;
//! none of them is kept here.
//!
//! The test edits a copy as the README tells a chart's author, with the templates as text: it removes the chart's
//! sidecars and includes ours. Then the API server must accept every object, and the scheduler find nodes for the pods,
//! which shows more: the API server checks the ports of a pod in the node's network only when it sees the pod.

mod edit;
mod table;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use e2e::api::{Api, text};
use e2e::chart::{self, title};
use e2e::cluster::Cluster;
use e2e::suite::{self, Verdict};
use e2e::{process, program, snapshots};
use serde_json::{Value, json};

use super::rendered::{SIDECARS, items};
use super::{command_line, scheduled, server};
use table::{CHARTS, Chart};

/// The registry that the values of a swap name.
const REGISTRY: &str = "registry.example.com/storage/";

/// Whether the environment names a folder with drivers' charts: then only these are tested.
pub(super) fn asked() -> bool {
    env::var_os("DRIVER_CHARTS").is_some_and(|folder| !folder.is_empty())
}

pub(super) fn all(cluster: &Cluster) -> Result<Verdict> {
    let folder = PathBuf::from(env::var_os("DRIVER_CHARTS").unwrap_or_default());
    let api = cluster.api()?;
    snapshots::install(cluster, &api)?;
    let storage = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "storage"}});
    api.create("/api/v1/namespaces", &storage)?;
    let mut found = Vec::new();
    charts_below(&folder, &mut found).with_context(|| format!("CHARTS={}", folder.display()))?;
    let mut failed = Vec::new();
    let tried = scheduled::on_nodes(&api, || {
        for (chart, folder) in &found {
            let version = field(&fs::read_to_string(folder.join("Chart.yaml"))?, "version");
            for (how, try_it) in [("included", included as Way), ("swapped", swapped)] {
                let name = chart.name;
                match try_it(cluster, &api, chart, folder) {
                    Ok(said) => suite::say(&format!("    {name} {version}, {how}: {said}")),
                    Err(error) => failed.push(format!("{name} {version}, {how}: {error:#}")),
                }
            }
        }
        Ok(())
    });
    tried?;
    ensure!(failed.is_empty(), "{}", failed.join("\n    "));
    let names: Vec<_> = CHARTS.iter().map(|chart| chart.name).collect();
    ensure!(!found.is_empty(), "no chart of {}", names.join(", "));
    Ok(Verdict::Passed)
}

type Way = fn(&Cluster, &Api, &Chart, &Path) -> Result<String>;

fn charts_below(folder: &Path, found: &mut Vec<(&'static Chart, PathBuf)>) -> Result<()> {
    let own = folder.join("Chart.yaml");
    if own.is_file() {
        let name = field(&fs::read_to_string(own)?, "name");
        let known = CHARTS.iter().find(|chart| chart.name == name);
        found.extend(known.map(|chart| (chart, folder.to_owned())));
        return Ok(());
    }
    let mut below: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    below.sort_by_key(fs::DirEntry::path);
    for entry in below {
        if entry.file_type()?.is_dir() {
            charts_below(&entry.path(), found)?;
        }
    }
    Ok(())
}

/// A top-level field of a Chart.yaml.
fn field(yaml: &str, name: &str) -> String {
    let mut lines = yaml.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = value.unwrap_or_default().split('#').next();
    value
        .unwrap_or_default()
        .trim()
        .trim_matches('"')
        .to_owned()
}

/// Tests the chart with our chart in place of its sidecars.
fn included(cluster: &Cluster, api: &Api, chart: &Chart, folder: &Path) -> Result<String> {
    let copy = tempfile::tempdir()?;
    let copy = copy.path().join(chart.name);
    process::output(Command::new("cp").arg("-r").arg(folder).arg(&copy))?;
    fs::create_dir_all(copy.join("charts"))?;
    std::os::unix::fs::symlink(
        chart::folder("csi-sidecars"),
        copy.join("charts/csi-sidecars"),
    )?;
    edit::dependency(&copy)?;
    for pod in &chart.pods {
        let path = copy.join("templates").join(pod.file);
        let template = fs::read_to_string(&path).with_context(|| pod.file)?;
        fs::write(&path, edit::pod(&template, pod).with_context(|| pod.file)?)?;
    }
    let objects = render(&copy, &[chart.theirs, chart.ours])?;
    let names = workloads(&objects).filter(|it| !on_windows(it));
    let names = names.flat_map(|it| sidecars(it).map(|(name, _)| name).collect::<Vec<_>>());
    let names: Vec<_> = names.collect();
    for name in chart.programs {
        let count = names.iter().filter(|it| it == name).count();
        ensure!(count == 1, "{count} containers run {name}");
    }
    tried(cluster, api, &objects)
}

/// Tests the chart with only the images changed.
fn swapped(cluster: &Cluster, api: &Api, chart: &Chart, folder: &Path) -> Result<String> {
    let objects = render(folder, &[chart.theirs, chart.swap])?;
    let mut count = 0;
    let mut windows = Vec::new();
    for workload in workloads(&objects) {
        let on_windows = on_windows(workload);
        for (name, container) in sidecars(workload) {
            let image = text(container, "/image").unwrap_or_default();
            let ours = image.starts_with(REGISTRY);
            if on_windows && ours {
                windows.push(format!("{} of {}", name, title(workload)));
            } else if !on_windows {
                ensure!(ours, "{} has {image}", title(workload));
                let arguments = items(container, "/args").filter_map(Value::as_str);
                command_line::ask(&name, &arguments.collect::<Vec<_>>())?;
                count += 1;
            }
        }
    }
    ensure!(count > 0, "nothing has another image");
    let mut said = tried(cluster, api, &objects)?;
    said.push_str(&format!(", {count} command lines are understood"));
    if !windows.is_empty() {
        said.push_str(&format!("; the values also change {}", windows.join(", ")));
    }
    Ok(said)
}

fn render(folder: &Path, values: &[&str]) -> Result<Vec<Value>> {
    let mut helm = Command::new(program::helm()?);
    helm.args(["template", "demo", "--namespace", "storage", "--skip-tests"]);
    // Some charts render csi-snapshotter only if the cluster has the API.
    helm.args(["--api-versions", "snapshot.storage.k8s.io/v1"]);
    helm.arg(folder).env_remove("KUBECONFIG");
    let files = tempfile::tempdir()?;
    for (index, yaml) in values.iter().enumerate() {
        let file = files.path().join(format!("{index}.yaml"));
        fs::write(&file, yaml)?;
        helm.arg("--values").arg(file);
    }
    chart::objects(&process::output(&mut helm)?)
}

fn workloads(objects: &[Value]) -> impl Iterator<Item = &Value> {
    objects
        .iter()
        .filter(|it| it.pointer("/spec/template/spec/containers").is_some())
}

fn on_windows(workload: &Value) -> bool {
    let os = "/spec/template/spec/nodeSelector/kubernetes.io~1os";
    text(workload, os) == Some("windows")
}

/// Containers that run one of our programs, or upstream's of that name, by the image.
fn sidecars(workload: &Value) -> impl Iterator<Item = (String, &Value)> {
    items(workload, "/spec/template/spec/containers").filter_map(|container| {
        let image = text(container, "/image")?.rsplit('/').next()?;
        let name = image.split([':', '@']).next()?;
        SIDECARS
            .contains(&name)
            .then(|| (name.to_owned(), container))
    })
}

fn tried(cluster: &Cluster, api: &Api, objects: &[Value]) -> Result<String> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    server::apply(cluster, &list)?;
    let pods = scheduled::pods(objects);
    let waiting = scheduled::placed(api, &pods)?;
    if !waiting.is_empty() {
        bail!("{}", waiting.join("; "));
    }
    Ok(format!(
        "{} objects are accepted, {} pods have a node",
        objects.len(),
        pods.len()
    ))
}
