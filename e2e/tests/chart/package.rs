//! The chart as a file, as `make chart-package` makes it.

use std::process::Command;

use anyhow::{Result, ensure};
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use e2e::{process, program};

const REGISTRY: &str = "registry.example.com:5000/packaged";

/// Whoever packages the chart has pushed the images, and says where to.
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
    Ok(Verdict::Passed)
}
