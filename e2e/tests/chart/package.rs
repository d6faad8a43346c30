//! The packaged chart, as `make chart-package` makes it.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use e2e::{chart, process, program};
use oci_archive::{Archive, Image};

use super::rendered::SIDECARS;

const REGISTRY: &str = "registry.example.com:5000/packaged";

/// Whoever packages the chart must name the registry with the pushed images.
pub(super) fn all(cluster: &Cluster) -> Result<Verdict> {
    let folder = cluster.dir().join("run").join("packaged");
    let package = |registry: &str| {
        let mut script = Command::new(program::root().join("charts/package.sh"));
        script.arg(program::helm()?).args(["1.2.3", registry]);
        process::output(script.arg(&folder))
    };
    for nobodys in ["", "registry.example.com/", "https://registry.example.com"] {
        let refusal = package(nobodys).map_or_else(|error| format!("{error:#}"), |_| String::new());
        ensure!(
            refusal.contains("chart-package needs IMAGE_REGISTRY"),
            "{nobodys:?}: {refusal:?}"
        );
    }
    package(REGISTRY)?;
    let mut helm = Command::new(program::helm()?);
    helm.args(["template", "test"])
        .arg(folder.join("csi-sidecars-1.2.3.tgz"));
    helm.args([
        "--set=driver.name=my.example.com",
        "--set=controller.hostPath=/run/driver",
    ]);
    let rendered = process::output(helm.env_remove("KUBECONFIG"))?;
    let image = format!("{REGISTRY}/csi-attacher:1.2.3");
    ensure!(rendered.contains(&image), "no {image} in {rendered}");
    let mut helm = Command::new(program::helm()?);
    helm.args(["template", "test"])
        .arg(folder.join("snapshot-controller-1.2.3.tgz"));
    let rendered = process::output(helm.env_remove("KUBECONFIG"))?;
    let image = format!("{REGISTRY}/snapshot-controller:1.2.3");
    ensure!(rendered.contains(&image), "no {image} in {rendered}");
    let definitions = rendered.matches("kind: CustomResourceDefinition").count();
    ensure!(definitions == 6, "{definitions} definitions");
    Ok(Verdict::Passed)
}

/// The metadata that Artifact Hub shows of a chart: its source, licence, changes and CRDs.
pub(super) fn described(cluster: &Cluster) -> Result<Verdict> {
    const SOURCE: &str = "https://git.example.com/storage";
    let folder = cluster.dir().join("run").join("described");
    let package = |source: &str| {
        let mut script = Command::new(program::root().join("charts/package.sh"));
        script.arg(program::helm()?).args(["1.2.3", REGISTRY]);
        process::output(script.arg(&folder).arg(source))
    };
    for nothing in ["git.example.com/storage", "https://a b", "https://a]"] {
        let refusal = package(nothing).map_or_else(|error| format!("{error:#}"), |_| String::new());
        ensure!(
            refusal.contains("IMAGE_SOURCE is the address"),
            "{nothing:?}: {refusal:?}"
        );
    }
    package(SOURCE)?;
    let shown = |chart: &str| {
        let mut helm = Command::new(program::helm()?);
        helm.args(["show", "chart"]);
        process::output(helm.arg(folder.join(format!("{chart}-1.2.3.tgz"))))
    };
    for chart in ["csi-sidecars", "snapshot-controller"] {
        let shown = shown(chart)?;
        for line in [
            "artifacthub.io/category: storage",
            "artifacthub.io/license: Apache-2.0",
            "artifacthub.io/changes: |",
            "home: https://git.example.com/storage",
            "- https://git.example.com/storage",
        ] {
            ensure!(shown.contains(line), "{chart}: no {line:?}: {shown}");
        }
    }
    let shown = shown("snapshot-controller")?;
    let definitions = chart::folder("snapshot-controller").join("definitions");
    let mut told = 0;
    for file in std::fs::read_dir(definitions)? {
        let file = file?.file_name().to_string_lossy().into_owned();
        // GROUP_PLURAL.yaml
        let Some((group, plural)) = file.trim_end_matches(".yaml").split_once('_') else {
            continue;
        };
        let name = format!("name: {plural}.{group},");
        ensure!(shown.contains(&name), "no {name:?}: {shown}");
        told += 1;
    }
    let listed = shown.matches("displayName: ").count();
    ensure!(told == listed, "{told} definitions, {listed} are listed");
    Ok(Verdict::Passed)
}

/// The result of `make bundle`: all images that the chart names, or a refusal.
pub(super) fn bundled(cluster: &Cluster) -> Result<Verdict> {
    let folder = cluster.dir().join("run").join("bundled");
    let images = folder.join("images");
    std::fs::create_dir_all(&images)?;
    let mut script = Command::new(program::root().join("charts/package.sh"));
    script.arg(program::helm()?).args(["1.2.3", REGISTRY]);
    process::output(script.arg(&folder))?;
    let bundle = || {
        let mut script = Command::new(program::root().join("images/bundle.sh"));
        script.arg(program::helm()?).arg(&images);
        script.arg(folder.join("csi-sidecars-1.2.3.tgz"));
        process::output(script.arg("amd64").arg(&folder))
    };
    for program in SIDECARS {
        empty_image(&images, program)?;
    }
    let said = bundle()?;
    ensure!(folder.join("csi-sidecars-1.2.3-amd64.tar").exists());
    for program in SIDECARS {
        let line = format!("{REGISTRY}/{program}:1.2.3@sha256:");
        ensure!(said.contains(&line), "no {program}: {said}");
    }
    std::fs::remove_file(images.join("csi-resizer-amd64.oci.tar"))?;
    let refusal = bundle().map_or_else(|error| format!("{error:#}"), |_| String::new());
    let missing = format!("names images that are not there: {REGISTRY}/csi-resizer:1.2.3");
    ensure!(refusal.contains(&missing), "{refusal:?}");
    Ok(Verdict::Passed)
}

fn empty_image(folder: &Path, program: &str) -> Result<()> {
    let mut archive = Archive::new();
    let name = format!("{REGISTRY}/{program}:1.2.3");
    archive.add(&[&name], Image::default())?;
    archive.write(&folder.join(format!("{program}-amd64.oci.tar")))?;
    std::fs::write(folder.join(format!("{program}-amd64.cdx.json")), "{}")?;
    Ok(())
}
