//! Expands a claim's volume while a container uses it, and between two pods.
//!
//! Volumes are XFS images: the kernel grows these while mounted, wherever root may mount.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::controller::{ATTACHER, Controller, PROVISIONER, RESIZER, Route, Sidecar};
use e2e::node::Seat;
use e2e::object::Binding;
use e2e::process::Process;
use e2e::suite::{Scenario, Verdict, say};
use e2e::{image, object, process, program, wait};
use serde_json::{Value, json};

/// Scenarios of this file.
pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[Scenario {
    name: "a_file_system_grows_under_a_container_and_between_two",
    run: a_file_system_grows_under_a_container_and_between_two,
}];

const DRIVER: &str = "growing.csi.example.com";
const LONG: Duration = Duration::from_secs(90);
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIM: &str = "/api/v1/namespaces/default/persistentvolumeclaims/growing";
const STORAGE: &str = "/apis/storage.k8s.io/v1";

/// mkfs.xfs needs at least 300 MiB.
const SIZES: [&str; 3] = ["320Mi", "480Mi", "640Mi"];

/// Growth that rounding cannot explain; the sizes are 160 MiB apart.
const GROWN: u64 = 100 << 20;

fn a_file_system_grows_under_a_container_and_between_two(cluster: &Cluster) -> Result<Verdict> {
    if program::driver_is_foreign() {
        let why = "csi-driver-host-path's volumes are folders, which have no size";
        return Ok(Verdict::Skipped(why.to_owned()));
    }
    let api = cluster.api()?;
    let mut system = System::start(cluster, &api)?;
    let [small, medium, large] = SIZES;
    let claims = CLAIM.trim_end_matches("/growing");
    api.create(claims, &object::claim("growing", DRIVER, small))?;

    let first = start_pod(&api, "first")?;
    shell(cluster, "first", "echo kept > /data/file")?;
    let begin = size(cluster, "first")?;
    ask_for(&api, medium)?;
    until_larger(cluster, "first", begin)?;
    until_capacity(&api, medium)?;
    let online = size(cluster, "first")?;
    ensure!(start_pod(&api, "first")? == first, "the pod was replaced");

    stop_pod(&api, "first")?;
    ask_for(&api, large)?;
    wait::until_true(LONG, "the node has to grow the file system", || {
        let state = "/status/allocatedResourceStatuses/storage";
        Ok(text(&api.get(CLAIM)?, state) == Some("NodeResizePending"))
    })
    .with_context(|| api.events("default", "growing"))?;
    start_pod(&api, "second")?;
    until_larger(cluster, "second", online)?;
    until_capacity(&api, large)?;
    let kept = shell(cluster, "second", "cat /data/file")?;
    ensure!(kept.trim() == "kept", "the file says {kept:?}");
    let end = size(cluster, "second")?;
    say(&format!(
        "    df in the container: {} MiB, {} MiB after growing online, {} MiB after growing offline",
        begin >> 20,
        online >> 20,
        end >> 20,
    ));

    stop_pod(&api, "second")?;
    system.remove(&api)?;
    Ok(Verdict::Passed)
}

/// The driver and its sidecars, which run beside the containers with the chart's permissions.
struct System {
    processes: Vec<Process>,
}

impl System {
    fn start(cluster: &Cluster, api: &Api) -> Result<Self> {
        let driver = object::csi_driver(DRIVER, true);
        api.create(&format!("{STORAGE}/csidrivers"), &driver)?;
        let class = object::with(
            object::storage_class(DRIVER, DRIVER, Binding::Immediate),
            &json!({ "parameters": { "csi.storage.k8s.io/fstype": "xfs" } }),
        );
        api.create(&format!("{STORAGE}/storageclasses"), &class)?;
        let seat = Seat::new(cluster, 0, DRIVER)?;
        let driver = seat.start_driver(&[
            "--enable-attach=true",
            "--enable-topology=false",
            "--enable-volume-expansion=true",
            "--fs-images=true",
        ])?;
        let mut registrar = seat.start_registrar(&[])?;
        seat.until_registered(api, &mut registrar)?;
        let mut processes = vec![driver, registrar];
        for sidecar in [ATTACHER, PROVISIONER, RESIZER] {
            processes.push(start(cluster, api, &seat, sidecar)?);
        }
        Ok(Self { processes })
    }

    /// Deletes the claim and everything else, and ends the programs.
    fn remove(&mut self, api: &Api) -> Result<()> {
        let claim = api.get(CLAIM)?;
        let volume = text(&claim, "/spec/volumeName").context("the claim is not bound")?;
        api.delete(CLAIM)?;
        api.until_gone(LONG, &format!("/api/v1/persistentvolumes/{volume}"))?;
        wait::until_true(LONG, "nothing is attached", || {
            let list = api.get(&format!("{STORAGE}/volumeattachments"))?;
            let items = list.pointer("/items").and_then(Value::as_array);
            Ok(items.is_some_and(Vec::is_empty))
        })?;
        self.processes.iter_mut().try_for_each(Process::must_run)?;
        self.processes.clear();
        api.delete(&format!("{STORAGE}/storageclasses/{DRIVER}"))?;
        api.delete(&format!("{STORAGE}/csidrivers/{DRIVER}"))
    }
}

fn start(cluster: &Cluster, api: &Api, seat: &Seat<'_>, sidecar: Sidecar) -> Result<Process> {
    let controller = Controller::install(cluster, sidecar, seat)?;
    controller.until_permitted(api, "", "persistentvolumes", "list")?;
    controller.start("0", Route::Direct, &["-v=4"])
}

/// Creates a pod with the claim, unless it exists, and waits until it is ready; returns its UID.
fn start_pod(api: &Api, name: &str) -> Result<String> {
    let path = format!("{PODS}/{name}");
    if api.find(&path)?.is_none() {
        let mut pod = object::pod(name, "node-0", &object::claimed_volume("growing"));
        let container = pod.pointer_mut("/spec/containers/0");
        let container = container.and_then(Value::as_object_mut);
        let container = container.context("a pod without containers")?;
        container.insert("image".to_owned(), json!(image::SHELL));
        container.insert("command".to_owned(), json!(["/bin/sleep", "100000"]));
        api.create(PODS, &pod)?;
    }
    let uid = wait::until(LONG, &format!("pod {name} is ready"), || {
        let pod = api.get(&path)?;
        let status = pod.pointer("/status/containerStatuses/0");
        let ready = status.is_some_and(|it| {
            it.get("ready") == Some(&json!(true)) && it.get("restartCount") == Some(&json!(0))
        });
        let uid = text(&pod, "/metadata/uid").unwrap_or_default();
        Ok(ready.then(|| uid.to_owned()))
    });
    uid.with_context(|| api.events("default", name))
        .with_context(|| api.events("default", "growing"))
}

fn stop_pod(api: &Api, name: &str) -> Result<()> {
    let path = format!("{PODS}/{name}");
    api.delete(&path)?;
    api.until_gone(LONG, &path)
}

/// Requests a larger size for the claim.
fn ask_for(api: &Api, size: &str) -> Result<()> {
    let patch = json!({ "spec": { "resources": { "requests": { "storage": size } } } });
    api.merge(CLAIM, &patch).map(drop)
}

fn until_capacity(api: &Api, size: &str) -> Result<()> {
    let what = format!("the claim has {size}");
    wait::until_true(LONG, &what, || {
        Ok(text(&api.get(CLAIM)?, "/status/capacity/storage") == Some(size))
    })
    .with_context(|| api.events("default", "growing"))
}

fn until_larger(cluster: &Cluster, pod: &str, than: u64) -> Result<()> {
    wait::until_true(LONG, "the container sees a larger file system", || {
        Ok(size(cluster, pod)? > than + GROWN)
    })
}

/// Size of the volume's file system in bytes, as the container sees it.
fn size(cluster: &Cluster, pod: &str) -> Result<u64> {
    let said = shell(cluster, pod, "df -P -k /data")?;
    let line = said.lines().last().unwrap_or_default();
    let kib = line.split_whitespace().nth(1);
    let kib = kib.with_context(|| format!("df says {said:?}"))?;
    Ok(kib.parse::<u64>().with_context(|| said.clone())? << 10)
}

/// Runs a shell script in the container; returns its output.
fn shell(cluster: &Cluster, pod: &str, script: &str) -> Result<String> {
    let mut kubectl = Command::new(program::cluster()?);
    kubectl.args(["kubectl", "--dir"]).arg(cluster.dir());
    process::output(kubectl.args(["exec", pod, "--", "/bin/sh", "-c", script]))
}
