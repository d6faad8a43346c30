//! Plain manifests for kustomize: the charts rendered with the values beside them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::chart::{self, Release};
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use e2e::{process, program};
use serde_json::json;

use super::server;

/// Each name is a folder of `deploy/`, a chart, and its release.
const BASES: [&str; 2] = ["csi-sidecars", "snapshot-controller"];

fn deploy() -> PathBuf {
    program::root().join("deploy")
}

pub(super) fn current(_: &Cluster) -> Result<Verdict> {
    for base in BASES {
        let values = format!("../../deploy/{base}/values.yaml");
        let release = Release {
            chart: base,
            namespace: "storage",
            file: &values,
            set: &[],
        };
        let mut rendered =
            format!("# charts/{base} with values.yaml, written by `make manifests`.\n");
        for line in release.yaml_as(base)?.lines() {
            // These manifests are not installed with helm.
            let is_helms = ["helm.sh/chart: ", "app.kubernetes.io/managed-by: "];
            if !is_helms.iter().any(|it| line.trim().starts_with(it)) {
                rendered.push_str(line.trim_end());
                rendered.push('\n');
            }
        }
        let file = deploy().join(base).join("manifests.yaml");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&file, &rendered)?;
        }
        ensure!(
            fs::read_to_string(&file).unwrap_or_default() == rendered,
            "{} is not what the chart renders now: make manifests",
            file.display()
        );
    }
    Ok(Verdict::Passed)
}

/// The example changes every name that users must change, and an API server accepts the objects.
pub(super) fn accepted(cluster: &Cluster) -> Result<Verdict> {
    let mut kustomize = Command::new(program::cluster()?);
    kustomize.args(["kubectl", "kustomize"]);
    kustomize.arg(deploy().join("example"));
    let yaml = process::output(&mut kustomize)?;
    for line in yaml.lines() {
        ensure!(!line.contains("example.com"), "not changed: {line}");
        ensure!(!line.contains("driver-example"), "not changed: {line}");
    }
    let objects = chart::objects(&yaml)?;
    for kind in ["CustomResourceDefinition", "Deployment", "DaemonSet"] {
        let found = objects.iter().find(|it| text(it, "/kind") == Some(kind));
        found.with_context(|| format!("no {kind}"))?;
    }
    let (api, namespaces) = (cluster.api()?, "/api/v1/namespaces");
    if api.find(&format!("{namespaces}/storage"))?.is_none() {
        let storage =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "storage"}});
        api.create(namespaces, &storage)?;
    }
    server::apply(
        cluster,
        &json!({"apiVersion": "v1", "kind": "List", "items": objects}),
    )?;
    Ok(Verdict::Passed)
}
