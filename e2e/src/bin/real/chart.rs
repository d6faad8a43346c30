//! The chart as a user installs it: real helm, this project's images, and the whole life of a
//! volume.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::suite::{self, Scenario, Verdict};
use e2e::{image, object, process, program, stand_in, wait};
use serde_json::{Value, json};

use crate::helm::Helm;

/// Scenarios of this file.
pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "a_file_outlives_its_pod_on_a_volume_of_the_chart",
        run: a_file_outlives_its_pod_on_a_volume_of_the_chart,
    },
    Scenario {
        name: "one_image_is_every_sidecar_of_the_chart",
        run: one_image_is_every_sidecar_of_the_chart,
    },
];

const LONG: Duration = Duration::from_secs(90);
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const POD: &str = "/api/v1/namespaces/default/pods/keeper-0";
const CLAIM: &str = "/api/v1/namespaces/default/persistentvolumeclaims/data-keeper-0";

fn a_file_outlives_its_pod_on_a_volume_of_the_chart(cluster: &Cluster) -> Result<Verdict> {
    life_of_a_volume(&demo(cluster, &[])?, cluster)?;
    Ok(Verdict::Passed)
}

/// The program chooses its role by its name: here the names are links in a container.
fn one_image_is_every_sidecar_of_the_chart(cluster: &Cluster) -> Result<Verdict> {
    let Ok(program) = program::all_in_one() else {
        let required = std::env::var("CI").is_ok_and(|value| value == "true");
        ensure!(!required, "csi-sidecars is not built");
        return Ok(Verdict::Skipped(
            "`make images` or `make unit` builds csi-sidecars".to_owned(),
        ));
    };
    let helm = demo(cluster, &["csi-sidecars.image.multiCall=true"])?;
    let images = helm.images()?;
    let names: BTreeSet<_> = images.iter().map(|image| stand_in::base(image)).collect();
    ensure!(
        names == ["csi-sidecars", "hostpathplugin"].into(),
        "the chart wants {images:?}"
    );
    suite::say(&format!("    all sidecars are {}", program.display()));
    life_of_a_volume(&helm, cluster)?;
    Ok(Verdict::Passed)
}

/// The chart of a driver author as in the README, with further values.
fn demo(cluster: &Cluster, more: &[&str]) -> Result<Helm> {
    let registry = "csi-sidecars.image.registry=registry.example.com/storage";
    let settings = [&[registry], more].concat();
    Helm::new(cluster, "demo", "csi-driver-host-path-demo", &settings)
}

fn life_of_a_volume(helm: &Helm, cluster: &Cluster) -> Result<()> {
    let api = cluster.api()?;
    for name in helm.images()? {
        let found = stand_in::load(cluster, &name)?;
        ensure!(found, "the chart wants {name}, and there is none of ours");
    }
    helm.run(&["install", "--create-namespace", "--wait", "--timeout=90s"])
        .with_context(|| helm.pods())?;
    api.create(SETS, &keeper())?;
    let first = until_ready(&api, "")?;
    ensure!(read(cluster)? == first, "the pod has not written its uid");
    api.delete(POD)?;
    until_ready(&api, &first)?;
    ensure!(read(cluster)? == first, "the second pod finds another file");
    let claim = api.get(CLAIM)?;
    let volume = text(&claim, "/spec/volumeName").context("the claim is not bound")?;
    let volume = format!("/api/v1/persistentvolumes/{volume}");
    api.delete(&format!("{SETS}/keeper"))?;
    api.delete(CLAIM)?;
    api.until_gone(LONG, POD)?;
    api.until_gone(LONG, &volume)?;
    nothing_left(&api)?;
    helm.uninstall()?;
    helm.nothing_left(cluster)
}

/// A StatefulSet whose pod writes its own name into a file, unless the file exists.
fn keeper() -> Value {
    let mut set = object::stateful_set("keeper", 1, "csi-hostpath", "1Mi");
    let script = "[ -e /data/file ] || echo $POD > /data/file; exec sleep 100000";
    if let Some(container) = set
        .pointer_mut("/spec/template/spec/containers/0")
        .and_then(Value::as_object_mut)
    {
        container.insert("image".to_owned(), json!(image::SHELL));
        container.insert("command".to_owned(), json!(["/bin/sh", "-c", script]));
        let uid = json!({ "fieldRef": { "fieldPath": "metadata.uid" } });
        container.insert(
            "env".to_owned(),
            json!([{ "name": "POD", "valueFrom": uid }]),
        );
    }
    set
}

/// Waits until a pod other than `other` is ready; returns its UID.
fn until_ready(api: &Api, other: &str) -> Result<String> {
    let uid = wait::until(LONG, "pod keeper-0 is ready", || {
        let Some(pod) = api.find(POD)? else {
            return Ok(None);
        };
        let uid = text(&pod, "/metadata/uid").unwrap_or_default();
        let ready = pod.pointer("/status/containerStatuses/0/ready") == Some(&json!(true));
        Ok((ready && uid != other).then(|| uid.to_owned()))
    });
    uid.with_context(|| api.events("default", "keeper-0"))
}

/// The file's content, read in the container.
fn read(cluster: &Cluster) -> Result<String> {
    let mut kubectl = Command::new(program::cluster()?);
    kubectl.args(["kubectl", "--dir"]).arg(cluster.dir());
    let exec = ["exec", "keeper-0", "--", "cat", "/data/file"];
    Ok(process::output(kubectl.args(exec))?.trim().to_owned())
}

fn nothing_left(api: &Api) -> Result<()> {
    for kind in ["persistentvolumes", "volumeattachments"] {
        let group = match kind {
            "persistentvolumes" => "/api/v1",
            _ => "/apis/storage.k8s.io/v1",
        };
        wait::until_true(LONG, &format!("no {kind} are left"), || {
            let list = api.get(&format!("{group}/{kind}"))?;
            Ok(list
                .pointer("/items")
                .and_then(Value::as_array)
                .is_some_and(Vec::is_empty))
        })?;
    }
    Ok(())
}
