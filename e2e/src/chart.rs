//! The charts, rendered by helm itself.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::api::text;
use crate::{process, program};

/// A release that is rendered but not installed.
#[derive(Debug, Clone, Copy)]
pub struct Release<'a> {
    /// Folder of the chart below `charts/`.
    pub chart: &'a str,
    /// Namespace of the release.
    pub namespace: &'a str,
    /// A values file, relative to the chart's folder; empty for none.
    pub file: &'a str,
    /// Single values for `--set`.
    pub set: &'a [&'a str],
}

impl Release<'_> {
    /// The chart's folder.
    pub fn folder(&self) -> PathBuf {
        folder(self.chart)
    }

    fn command(&self, verb: &[&str]) -> Result<Command> {
        let mut helm = Command::new(program::helm()?);
        helm.args(verb).arg(self.folder());
        helm.args(["--namespace", self.namespace]);
        if !self.file.is_empty() {
            helm.arg("--values").arg(self.folder().join(self.file));
        }
        for value in self.set {
            helm.args(["--set", value]);
        }
        // The environment of whoever runs the tests must have no effect.
        helm.env_remove("KUBECONFIG");
        Ok(helm)
    }

    /// The manifest.
    ///
    /// # Errors
    /// helm's message, for example which value is wrong.
    pub fn yaml(&self) -> Result<String> {
        self.yaml_as("test")
    }

    /// The manifest of a release with that name.
    ///
    /// # Errors
    /// Those of [`Self::yaml`].
    pub fn yaml_as(&self, name: &str) -> Result<String> {
        process::output(&mut self.command(&["template", name])?)
    }

    /// The objects of the manifest.
    pub fn objects(&self) -> Result<Vec<Value>> {
        objects(&self.yaml()?).with_context(|| format!("{self:?}"))
    }

    /// helm's own check, where warnings are errors.
    pub fn lint(&self) -> Result<()> {
        process::output(&mut self.command(&["lint", "--strict", "--quiet"])?).map(drop)
    }

    /// The manifest for a Kubernetes version such as 1.29.0.
    ///
    /// # Errors
    /// Those of [`Self::yaml`].
    pub fn yaml_on(&self, kubernetes: &str) -> Result<String> {
        let mut helm = self.command(&["template", "test"])?;
        process::output(helm.args(["--kube-version", kubernetes]))
    }

    /// helm's message if it refuses to render.
    pub fn refusal(&self) -> Result<String> {
        self.refused(self.yaml())
    }

    /// helm's message if it refuses to render for a Kubernetes version.
    pub fn refusal_on(&self, kubernetes: &str) -> Result<String> {
        self.refused(self.yaml_on(kubernetes))
    }

    fn refused(&self, yaml: Result<String>) -> Result<String> {
        match yaml {
            Ok(_) => bail!("helm renders {self:?}"),
            Err(error) => Ok(format!("{error:#}")),
        }
    }
}

/// The folder of a chart.
pub fn folder(chart: &str) -> PathBuf {
    program::root().join("charts").join(chart)
}

/// The values files of the chart's test matrix, relative to its folder, sorted.
pub fn matrix(chart: &str) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder(chart).join("ci"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        files.push(format!("ci/{name}"));
    }
    files.sort();
    Ok(files)
}

/// Parses YAML with kubectl; a patch without changes leaves the objects as they are.
pub fn objects(yaml: &str) -> Result<Vec<Value>> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(yaml.as_bytes())?;
    let mut kubectl = Command::new(program::cluster()?);
    kubectl.args(["kubectl", "patch", "--local", "-o", "json", "--type=merge"]);
    kubectl.args(["-p", "{}", "-f"]).arg(file.path());
    let json = process::output(&mut kubectl)?;
    let objects = serde_json::Deserializer::from_str(&json).into_iter::<Value>();
    Ok(objects.collect::<Result<_, _>>()?)
}

/// `Kind/name` of an object, for tests and messages.
pub fn title(object: &Value) -> String {
    let kind = text(object, "/kind").unwrap_or_default();
    let name = text(object, "/metadata/name").unwrap_or_default();
    format!("{kind}/{name}")
}

/// The RBAC objects of one program for a driver, bound to `account`: exactly those that the chart
/// renders with these values.
pub fn permissions(
    program: &str,
    namespace: &str,
    account: &str,
    driver: &str,
    values: &[&str],
) -> Result<Vec<Value>> {
    let driver = format!("driver.name={driver}");
    let place = if values.contains(&"features.nodeDeployment=true") {
        "node"
    } else {
        "controller"
    };
    let account = format!("{place}.serviceAccount.name={account}");
    let enabled = format!("{program}.enabled=true");
    let mut set = vec![
        driver.as_str(),
        account.as_str(),
        enabled.as_str(),
        "controller.create=false",
        "node.create=false",
    ];
    set.extend(values);
    let release = Release {
        chart: "csi-sidecars",
        namespace,
        file: "",
        set: &set,
    };
    let mut objects = release.objects()?;
    let component = "/metadata/labels/app.kubernetes.io~1component";
    // The value's name is in camel case, the label has a hyphen.
    let label = match program {
        "snapshotMetadata" => "snapshot-metadata",
        "healthMonitor" => "health-monitor",
        one => one,
    };
    objects.retain(|object| {
        let version = text(object, "/apiVersion").unwrap_or_default();
        version.starts_with("rbac.") && text(object, component) == Some(label)
    });
    Ok(objects)
}

/// The RBAC objects of the cluster's snapshot-controller, bound to `account`.
pub fn controller_permissions(
    namespace: &str,
    account: &str,
    values: &[&str],
) -> Result<Vec<Value>> {
    let account = format!("serviceAccount.name={account}");
    let mut set = vec!["image.registry=registry.example.com", account.as_str()];
    set.extend(values);
    let release = Release {
        chart: "snapshot-controller",
        namespace,
        file: "",
        set: &set,
    };
    let mut objects = release.objects()?;
    objects.retain(|object| {
        let version = text(object, "/apiVersion").unwrap_or_default();
        version.starts_with("rbac.")
    });
    Ok(objects)
}
