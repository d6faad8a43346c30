//! `helm test`: a pod that queries the ports of the sidecars, and of snapshot-controller.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::node::Seat;
use e2e::suite::{Scenario, Verdict};
use e2e::{image, real, stand_in, wait};
use oci_archive::Archive;
use serde_json::Value;

use crate::helm::Helm;
use crate::together;

/// Scenarios of this file.
pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "helm_test_passes_while_the_driver_answers",
        run: passes_while_the_driver_answers,
    },
    Scenario {
        name: "helm_test_passes_while_snapshot_controller_works",
        run: passes_while_snapshot_controller_works,
    },
];

const DRIVER: &str = "asked.csi.example.com";
/// With this value /readyz reports that the driver can do more than its sidecars may.
const CLONING: &str = "features.cloning=true";
const CONTROLLER: &str = "snapshot-controller";
const REGISTRY: &str = "image.registry=registry.example.com/storage";
const PODS: &str = "/api/v1/namespaces/storage/pods";
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
    load_wget(cluster)?;
    // Nothing here resolves names of Services. The pods stay, and so do their addresses.
    let mut settings = vec![CLONING.to_owned(), format!("test.image={WGET}")];
    let pods = api.get(PODS)?;
    for (index, kind) in ["controller", "node"].into_iter().enumerate() {
        let label = format!("/metadata/labels/csi-sidecars~1csi-sidecars.{kind}");
        let service = format!("beside-csi-sidecars-{kind}-test");
        settings.extend(alias(&pods, &label, index, &service)?);
    }
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let helm = together::release(cluster, &seat, DRIVER, &settings)?;
    together::roll(&helm, "upgrade")?;
    helm.test().with_context(|| helm.pods())?;
    drop(driver);
    wait::until_true(LONG, "helm test fails without the driver", || {
        Ok(helm.test().is_err())
    })?;
    remove(&helm, cluster)
}

/// The chart of snapshot-controller in containers: installed with its definitions, tested, and tested again without pods.
fn passes_while_snapshot_controller_works(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let release = |more: &[&str]| {
        let settings = [&[REGISTRY, "replicas=1"], more].concat();
        Helm::new(cluster, CONTROLLER, CONTROLLER, &settings)
    };
    let helm = release(&[])?;
    for name in helm.images()? {
        let found = stand_in::load(cluster, &name)?;
        ensure!(found, "the chart wants {name}, and there is none of ours");
    }
    together::roll(&helm, "install")?;
    load_wget(cluster)?;
    let label = "/metadata/labels/app.kubernetes.io~1name";
    let mut settings = vec![format!("test.image={WGET}")];
    let service = format!("{CONTROLLER}-tested");
    settings.extend(alias(&api.get(PODS)?, label, 0, &service)?);
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let helm = release(&settings)?;
    together::roll(&helm, "upgrade")?;
    // The program answers before it stands for election.
    let passes = || Ok(helm.test().is_ok());
    wait::until_true(LONG, "helm test passes", passes).with_context(|| helm.pods())?;
    let none = ["scale", "deployment", CONTROLLER, "--replicas=0"];
    helm.kubectl(&[&none[..], &["--namespace", "storage"]].concat())?;
    wait::until_true(LONG, "helm test fails without the controller", || {
        Ok(helm.test().is_err())
    })?;
    remove(&helm, cluster)
}

/// Loads the image of test pods.
fn load_wget(cluster: &Cluster) -> Result<()> {
    let mut images = Archive::new();
    image::wget(&mut images, WGET, &real::busybox())?;
    real::load(cluster, &images)
}

/// Values that give the test pod the address of the first pod with a label under the name of a Service.
fn alias(pods: &Value, label: &str, index: usize, service: &str) -> Result<[String; 2]> {
    let pods = pods.pointer("/items").and_then(Value::as_array);
    let mut pods = pods.context("a list of pods")?.iter();
    let pod = pods.find(|pod| text(pod, label).is_some());
    let address = pod.and_then(|pod| text(pod, "/status/podIP"));
    let address = address.with_context(|| format!("no pod for {service}"))?;
    let at = format!("test.hostAliases[{index}]");
    Ok([
        format!("{at}.ip={address}"),
        format!("{at}.hostnames={{{service}}}"),
    ])
}

/// Removes the release, and what a failed test has left of its pod.
fn remove(helm: &Helm, cluster: &Cluster) -> Result<Verdict> {
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
