//! Sidecars in pods of other charts, written as the README says, in charts whose Deployments have their own selectors.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::chart;
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use e2e::{process, program, wait};
use serde_json::{Value, json};

use super::pages;
use super::rendered::{items, pods_of};
use super::server::apply;

const NAMESPACE: &str = "included";
const SOON: Duration = Duration::from_secs(30);

/// Pod selectors of the Deployments in drivers' own charts, with `demo` as the release.
const SELECTORS: &[(&str, &[(&str, &str)])] = &[
    (
        "aws-ebs-csi-driver",
        &[
            ("app", "ebs-csi-controller"),
            ("app.kubernetes.io/name", "aws-ebs-csi-driver"),
            ("app.kubernetes.io/instance", "demo"),
        ],
    ),
    (
        "democratic-csi",
        &[
            ("app.kubernetes.io/name", "democratic-csi"),
            ("app.kubernetes.io/instance", "demo"),
            ("app.kubernetes.io/managed-by", "Helm"),
            ("app.kubernetes.io/csi-role", "controller"),
            ("app.kubernetes.io/component", "controller-linux"),
        ],
    ),
    (
        "hcloud-csi",
        &[
            ("app.kubernetes.io/name", "hcloud-csi"),
            ("app.kubernetes.io/instance", "demo"),
            ("app.kubernetes.io/component", "controller"),
        ],
    ),
    (
        "topolvm",
        &[
            ("app.kubernetes.io/component", "controller"),
            ("app.kubernetes.io/name", "topolvm"),
            ("app.kubernetes.io/instance", "demo"),
        ],
    ),
];

/// A chart that includes ours, as the README shows it.
struct Parent<'a> {
    name: &'a str,
    /// `dependencies` of its Chart.yaml.
    dependencies: &'a str,
    values: &'a str,
    /// A pod's template that includes ours.
    pod: &'a str,
    labels: &'a [(&'a str, &'a str)],
}

impl Parent<'_> {
    /// Renders a Deployment that selects its pods by its own labels.
    fn render(&self, cluster: &Cluster, set: &[&str]) -> Result<String> {
        let folder = cluster.dir().join("run").join(self.name);
        fs::create_dir_all(folder.join("templates"))?;
        fs::create_dir_all(folder.join("charts"))?;
        let link = folder.join("charts/csi-sidecars");
        if !link.exists() {
            std::os::unix::fs::symlink(chart::folder("csi-sidecars"), link)?;
        }
        let (name, dependencies) = (self.name, self.dependencies);
        fs::write(
            folder.join("Chart.yaml"),
            format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n{dependencies}"),
        )?;
        fs::write(folder.join("values.yaml"), self.values)?;
        fs::write(folder.join("templates/controller.yaml"), self.template()?)?;
        let mut helm = Command::new(program::helm()?);
        helm.args(["template", "demo"]).arg(PathBuf::from(&folder));
        helm.args(["--namespace", NAMESPACE])
            .env_remove("KUBECONFIG");
        for value in set {
            helm.args(["--set", value]);
        }
        process::output(&mut helm)
    }

    fn template(&self) -> Result<String> {
        let labels: String = { self.labels.iter() }
            .map(|(name, value)| format!("\n    {name}: {value}"))
            .collect();
        let (head, rest) = (self.pod.split_once("metadata:")).context("a pod with metadata")?;
        let (before, behind) = rest.split_once("  labels:").context("labels")?;
        let name = self.name;
        Ok(format!(
            "{{{{- define \"their.pod\" }}}}\n{head}metadata:{before}  labels:{labels}{behind}{{{{- end }}}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: {{{{ .Release.Namespace }}}}
spec:
  selector:
    matchLabels:{selector}
  template:
    {{{{- include \"their.pod\" . | nindent 4 }}}}
",
            selector = labels.replace("\n    ", "\n      "),
        ))
    }
}

/// The README's YAML blocks that begin with this line, without it.
fn blocks(first: &str) -> Result<Vec<String>> {
    let found: Vec<_> = { pages::blocks(&pages::read(pages::README)?).into_iter() }
        .filter(|block| block.starts_with(first))
        .collect();
    ensure!(!found.is_empty(), "the README has no block {first:?}");
    Ok(found)
}

fn block(first: &str) -> Result<String> {
    blocks(first)?.pop().context("a block")
}

/// the API server accepts the Deployment, and selectors for our pods find its pods.
pub(super) fn selectors(cluster: &Cluster) -> Result<Verdict> {
    namespace(cluster)?;
    let values = block("csi-sidecars:\n")?;
    let pod = block("{{- $sidecars := ")?;
    for (name, labels) in SELECTORS {
        let parent = Parent {
            name,
            dependencies: "dependencies: [{name: csi-sidecars, version: \">=0\"}]\n",
            values: &values,
            pod: &pod,
            labels,
        };
        let set = [
            "csi-sidecars.metrics.service=true",
            "csi-sidecars.controller.podDisruptionBudget.enabled=true",
            "csi-sidecars.networkPolicy.enabled=true",
        ];
        let yaml = parent.render(cluster, &set)?;
        accepted(cluster, &yaml).with_context(|| (*name).to_owned())?;
        let objects = chart::objects(&yaml)?;
        for (kind, path) in [
            ("Service", "/spec/selector"),
            ("PodDisruptionBudget", "/spec/selector/matchLabels"),
            ("NetworkPolicy", "/spec/podSelector/matchLabels"),
        ] {
            let mut of_kind = { objects.iter() }.filter(|it| {
                let component = "/metadata/labels/app.kubernetes.io~1component";
                text(it, "/kind") == Some(kind) && text(it, component) == Some("controller")
            });
            let object = of_kind
                .next()
                .with_context(|| format!("{name}: no {kind}"))?;
            let found = pods_of(&objects, object.pointer(path)).count();
            ensure!(found == 1, "{name}: {kind} finds {found}");
        }
    }
    Ok(Verdict::Passed)
}

/// where the driver's container declares the livenessprobe's port, as in upstream's examples, a pod in the node's
/// network must not declare it a second time. The API server checks only pods: the Deployment would exist and have
/// none.
pub(super) fn declared_once(cluster: &Cluster) -> Result<Verdict> {
    namespace(cluster)?;
    let image = "      image: registry.example.com/my-driver:v1\n";
    let ports = "      ports: [{name: healthz, containerPort: 9808}]\n";
    let pod = block("{{- $sidecars := ")?
        .replacen(image, &format!("{image}{ports}"), 1)
        .replacen("  containers:\n", "  hostNetwork: true\n  containers:\n", 1);
    let parent = Parent {
        name: "host-network",
        dependencies: "dependencies: [{name: csi-sidecars, version: \">=0\"}]\n",
        values: &block("csi-sidecars:\n")?,
        pod: &pod,
        labels: &[("app", "host-network")],
    };
    for mode in ["separate", "together"] {
        for declare in [true, false] {
            let set = [
                format!("csi-sidecars.sidecars={mode}"),
                format!("csi-sidecars.livenessprobe.declarePort={declare}"),
                // The parent's own account, named after its release.
                "csi-sidecars.controller.serviceAccount.create=false".to_owned(),
                "csi-sidecars.controller.serviceAccount.name=of-{{ .Release.Name }}".to_owned(),
            ];
            let set: Vec<_> = set.iter().map(String::as_str).collect();
            let objects = chart::objects(&parent.render(cluster, &set)?)?;
            let bound = objects
                .iter()
                .filter(|it| text(it, "/subjects/0/name") == Some("of-demo"));
            ensure!(bound.count() >= 2, "{objects:?}");
            let selector = json!({"app": "host-network"});
            let pod = pods_of(&objects, Some(&selector)).next();
            let mut spec = pod.and_then(|it| it.get("spec")).context("a pod")?.clone();
            let fields = spec.as_object_mut().context("fields")?;
            fields.insert("serviceAccountName".to_owned(), json!("default"));
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "spec": spec,
                "metadata": {"name": "host-network", "namespace": NAMESPACE},
            });
            let list = json!({"apiVersion": "v1", "kind": "List", "items": [pod]});
            match apply(cluster, &list) {
                Ok(()) => ensure!(!declare, "{mode}: both declare it, and the pod is accepted"),
                Err(error) => {
                    let error = format!("{error:#}");
                    ensure!(
                        declare && error.contains("Duplicate value"),
                        "{mode}: {error}"
                    );
                }
            }
        }
    }
    Ok(Verdict::Passed)
}

/// sidecars of two drivers in one pod.
pub(super) fn two_drivers(cluster: &Cluster) -> Result<Verdict> {
    namespace(cluster)?;
    let parent = Parent {
        name: "two-drivers",
        dependencies: &block("# Chart.yaml\n")?,
        values: &block("# values.yaml\n")?,
        pod: &block("{{- $blocks := ")?,
        labels: &[("app", "two-drivers")],
    };
    for mode in ["separate", "together"] {
        let set = ["blocks", "files"].map(|driver| format!("{driver}.sidecars={mode}"));
        let set: Vec<_> = set.iter().map(String::as_str).collect();
        let yaml = parent.render(cluster, &set)?;
        accepted(cluster, &yaml).context(mode)?;
        let objects = chart::objects(&yaml)?;
        let pod = { objects.iter() }
            .find(|it| text(it, "/kind") == Some("Deployment"))
            .context("a Deployment")?;
        let spec = pod.pointer("/spec/template/spec").context("a pod")?;
        let mut ports = Vec::new();
        for container in items(spec, "/containers") {
            ports.extend(items(container, "/ports").cloned());
        }
        for field in ["/name", "/containerPort"] {
            let mut seen: Vec<_> = ports.iter().map(|it| it.pointer(field)).collect();
            seen.sort_by_key(|it| format!("{it:?}"));
            seen.dedup();
            ensure!(seen.len() == ports.len(), "{mode}: {field} of {ports:?}");
        }
        let names: Vec<_> = { items(spec, "/containers") }
            .filter_map(|it| text(it, "/name"))
            .collect();
        let expected = match mode {
            "together" => ["csi-sidecars", "csi-sidecars-fs"],
            _ => ["csi-attacher", "csi-attacher-fs"],
        };
        for name in expected {
            ensure!(names.contains(&name), "{mode}: no {name} in {names:?}");
        }
    }
    Ok(Verdict::Passed)
}

fn namespace(cluster: &Cluster) -> Result<()> {
    let api = cluster.api()?;
    let account = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default");
    let path = format!("/api/v1/namespaces/{NAMESPACE}");
    if api.find(&path)?.is_none() {
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
        });
        api.create("/api/v1/namespaces", &object)?;
    }
    wait::until_true(SOON, "the namespace has an account", || {
        Ok(api.find(&account)?.is_some())
    })
}

/// With two equal keys kubectl takes one, and other YAML parsers refuse the file.
fn accepted(cluster: &Cluster, yaml: &str) -> Result<()> {
    let mut labels = Vec::new();
    for line in yaml.split("\n      labels:").skip(1) {
        let of_pod = line.lines().skip(1);
        labels = of_pod
            .take_while(|it| it.starts_with("        "))
            .filter_map(|it| it.split_once(':'))
            .map(|(key, _)| key.trim().to_owned())
            .collect();
        let count = labels.len();
        labels.sort();
        labels.dedup();
        ensure!(labels.len() == count, "a label twice: {line}");
    }
    ensure!(!labels.is_empty(), "no labels of a pod: {yaml}");
    let objects: Vec<Value> = chart::objects(yaml)?;
    apply(
        cluster,
        &json!({"apiVersion": "v1", "kind": "List", "items": objects}),
    )
}
