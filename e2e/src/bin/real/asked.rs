//! `helm test`: a pod that queries the sidecars' ports.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::node::Seat;
use e2e::suite::{Scenario, Verdict};
use e2e::{image, real, stand_in, wait};
use oci_archive::Archive;
use serde_json::Value;

use crate::together;

/// Scenarios of this file.
pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[Scenario {
    name: "helm_test_passes_while_the_driver_answers",
    run: passes_while_the_driver_answers,
}];

const DRIVER: &str = "asked.csi.example.com";
/// With this value /readyz reports that the driver can do more than its sidecars may.
const CLONING: &str = "features.cloning=true";
const WGET: &str = "registry.example.com/wget:1";
const LONG: Duration = Duration::from_secs(90);

fn passes_while_the_driver_answers(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, DRIVER)?;
    let driver = seat.start_driver(&["--enable-attach=true", "--enable-topology=false"])?;
    let helm = together::release(cluster, &seat, DRIVER, &[CLONING])?;
    for name in helm.images()? {
        let found = stand_in::load(cluster, &name)?;
        ensure!(found, "the chart wants {name}, and there is none of ours");
    }
    together::roll(&helm, "install")?;
    let mut images = Archive::new();
    image::wget(&mut images, WGET, &real::busybox())?;
    real::load(cluster, &images)?;
    // Nothing here resolves names of Services. The pods stay, and so do their addresses.
    let mut settings = vec![CLONING.to_owned(), format!("test.image={WGET}")];
    let pods = api.get("/api/v1/namespaces/storage/pods")?;
    let pods = pods.pointer("/items").and_then(Value::as_array);
    let pods = pods.context("a list of pods")?;
    for (index, kind) in ["controller", "node"].into_iter().enumerate() {
        let label = format!("/metadata/labels/csi-sidecars~1csi-sidecars.{kind}");
        let pod = pods.iter().find(|pod| text(pod, &label).is_some());
        let address = pod.and_then(|pod| text(pod, "/status/podIP"));
        let address = address.with_context(|| format!("no pod of {kind}"))?;
        let at = format!("test.hostAliases[{index}]");
        settings.push(format!("{at}.ip={address}"));
        settings.push(format!(
            "{at}.hostnames={{beside-csi-sidecars-{kind}-test}}"
        ));
    }
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let helm = together::release(cluster, &seat, DRIVER, &settings)?;
    together::roll(&helm, "upgrade")?;
    helm.test().with_context(|| helm.pods())?;
    drop(driver);
    wait::until_true(LONG, "helm test fails without the driver", || {
        Ok(helm.test().is_err())
    })?;
    helm.kubectl(&[
        "delete",
        "pods,services",
        "--namespace",
        "storage",
        "-l",
        "app.kubernetes.io/component=test",
    ])?;
    helm.uninstall()?;
    helm.nothing_left(cluster)?;
    Ok(Verdict::Passed)
}
