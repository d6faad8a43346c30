//! Manifests of other projects, from the pinned Kubernetes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::api::{Api, text};
use crate::cluster::Cluster;
use crate::{process, program};

/// The objects of a manifest, given by its path in the Kubernetes module. kubectl parses the YAML,
/// once for all scenarios of a cluster.
pub fn read(cluster: &Cluster, name: &str) -> Result<Vec<Value>> {
    let dir = cluster.dir().join("run").join("manifests");
    fs::create_dir_all(&dir)?;
    let parsed: PathBuf = dir.join(name.replace('/', "_")).with_extension("json");
    if !parsed.exists() {
        let program = program::cluster()?;
        let yaml = process::output(Command::new(&program).args(["manifests", "cat", name]))?;
        let file = parsed.with_extension("yaml");
        fs::write(&file, yaml)?;
        fs::write(&parsed, json(cluster, &file)?)?;
    }
    objects(&fs::read_to_string(&parsed)?, name)
}

/// The objects of another file.
pub fn read_file(cluster: &Cluster, file: &Path) -> Result<Vec<Value>> {
    objects(&json(cluster, file)?, &file.to_string_lossy())
}

fn json(cluster: &Cluster, yaml: &Path) -> Result<String> {
    let mut read = Command::new(program::cluster()?);
    read.args(["kubectl", "--dir"]).arg(cluster.dir());
    read.args(["create", "--dry-run=client", "-o", "json", "-f"]);
    process::output(read.arg(yaml))
}

fn objects(json: &str, name: &str) -> Result<Vec<Value>> {
    let objects = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let objects: Vec<_> = objects.collect::<Result<_, _>>()?;
    ensure!(!objects.is_empty(), "{name} has no objects");
    Ok(objects)
}

/// Creates an object in the collection of its kind and namespace.
pub fn create(api: &Api, object: &Value) -> Result<Value> {
    api.create(&collection(object)?, object)
}

/// Deletes such an object, and waits until it is gone.
pub fn delete(api: &Api, object: &Value) -> Result<()> {
    let name = text(object, "/metadata/name").context("an object without name")?;
    let path = format!("{}/{name}", collection(object)?);
    api.delete(&path)?;
    api.until_gone(Duration::from_secs(60), &path)
}

fn collection(object: &Value) -> Result<String> {
    let version = text(object, "/apiVersion").context("an object without apiVersion")?;
    let kind = text(object, "/kind").context("an object without kind")?;
    let base = match version {
        "v1" => "/api/v1".to_owned(),
        version => format!("/apis/{version}"),
    };
    let plural = plural(kind);
    Ok(match text(object, "/metadata/namespace") {
        Some(namespace) => format!("{base}/namespaces/{namespace}/{plural}"),
        None => format!("{base}/{plural}"),
    })
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if let Some(stem) = kind.strip_suffix('y') {
        format!("{stem}ies")
    } else if kind.ends_with('s') {
        format!("{kind}es")
    } else {
        format!("{kind}s")
    }
}
