//! `make demo`: a real driver, registered through our registrar, seen from the outside.
//!
//! By default on the test cluster with real kubelet code. With `--kubeconfig FILE` on the cluster
//! that the file names: then a node object of the demonstration's own stands for the node, and
//! `csi-plugin-manager` does what a kubelet does; both are removed at the end.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::api::{Api, text};
use e2e::cluster::{Cluster, Options};
use e2e::node::Seat;
use e2e::process::Process;
use e2e::story::Story;
use e2e::suite::{reasons, say};
use e2e::{object, program, wait};
use rustix::process::Signal;

const DRIVER: &str = "demo.csi.example.com";
const SOON: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let told = match arguments() {
        Ok(None) => on_test_cluster(),
        Ok(Some(kubeconfig)) => on_existing_cluster(&kubeconfig),
        Err(error) => Err(error),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("\n{}\ndemo: FAILED", reasons(&error)));
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Option<PathBuf>> {
    let mut arguments = std::env::args().skip(1);
    match (
        arguments.next().as_deref(),
        arguments.next(),
        arguments.next(),
    ) {
        (None, ..) => Ok(None),
        (Some("--kubeconfig"), Some(file), None) if Path::new(&file).is_file() => {
            Ok(Some(file.into()))
        }
        (Some("--kubeconfig"), Some(file), None) => bail!("--kubeconfig {file}: no such file"),
        _ => bail!("usage: demo [--kubeconfig FILE]"),
    }
}

/// The programs of one driver on one node.
struct Pair {
    driver: Process,
    registrar: Process,
}

impl Pair {
    fn start(story: &mut Story, seat: &Seat<'_>) -> Result<Self> {
        let driver = story.step("the driver serves its socket", || seat.start_driver(&[]))?;
        let registrar = story.step("csi-node-driver-registrar started", || {
            seat.start_registrar(&[])
        })?;
        Ok(Self { driver, registrar })
    }

    fn registered(&mut self, story: &mut Story, api: &Api, seat: &Seat<'_>) -> Result<()> {
        let what = format!("{DRIVER} is in CSINode {}", seat.node);
        let registrar = &mut self.registrar;
        let entry = story.step(&what, || seat.until_registered(api, registrar))?;
        story.note(&entry.to_string());
        Ok(())
    }

    fn deregistered(&mut self, story: &mut Story, api: &Api, seat: &Seat<'_>) -> Result<()> {
        self.driver.must_run()?;
        let registrar = &mut self.registrar;
        story.step("the registrar got SIGTERM and took its socket away", || {
            registrar.signal(Signal::TERM)?;
            let code = registrar.exit_code(SOON)?;
            ensure!(code == 0, "exit code {code}\n{}", registrar.tail());
            Ok(())
        })?;
        let what = format!("{DRIVER} is out of CSINode {}", seat.node);
        story.step(&what, || seat.until_unregistered(api))
    }
}

fn close(story: &Story, memory: &[(&str, u64)], calls: &str) {
    let (steps, took) = story.total();
    say("");
    for (name, bytes) in memory {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let mebibytes = *bytes as f64 / f64::from(1 << 20);
        say(&format!(
            "  resident memory  {name:<28} {mebibytes:6.1} MiB"
        ));
    }
    say(&format!("  calls to driver  {calls}"));
    say(&format!(
        "\ndemo: PASSED, {steps} steps in {:.1} s",
        took.as_secs_f64()
    ));
}

fn on_test_cluster() -> Result<()> {
    let mut story = Story::default();
    let cluster = story.step(
        "etcd, kube-apiserver, controllers, scheduler and one kubelet are up",
        || Cluster::up(&Options::default()),
    )?;
    let api = cluster.api()?;
    let seat = Seat::new(&cluster, 0, DRIVER)?;
    let mut pair = Pair::start(&mut story, &seat)?;
    pair.registered(&mut story, &api, &seat)?;
    mount(&mut story, &api, &seat)?;
    let memory = [
        ("csi-node-driver-registrar", pair.registrar.resident()?),
        ("driver", pair.driver.resident()?),
    ];
    pair.deregistered(&mut story, &api, &seat)?;
    let calls = call_summary(&seat)?;
    drop(pair);
    story.step("everything is down, nothing is left", || cluster.down())?;
    close(&story, &memory, &calls);
    Ok(())
}

fn mount(story: &mut Story, api: &Api, seat: &Seat<'_>) -> Result<()> {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let driver = object::csi_driver(DRIVER, false);
    api.create("/apis/storage.k8s.io/v1/csidrivers", &driver)?;
    let volume = object::inline_volume(DRIVER);
    let pod = story.step("a pod with a volume of the driver is created", || {
        wait::until(SOON, "the pod is accepted", || {
            api.create(PODS, &object::pod("demo", &seat.node, &volume))
                .map(Some)
        })
    })?;
    let uid = text(&pod, "/metadata/uid").context("uid of the pod")?;
    let target = seat.kubelet_dir().join("pods").join(uid);
    let target = target.join("volumes/kubernetes.io~csi/data/mount");
    story.step("the kubelet had the driver mount the volume", || {
        wait::until_true(SOON, "a mount", || {
            Ok(!seat.mounts_below(&target)?.is_empty())
        })
    })?;
    story.note(&target.display().to_string());
    story.step("data was written to the volume and read back", || {
        let file = target.join("hello").to_string_lossy().into_owned();
        seat.run("/bin/sh", &["-c", &format!("echo hello > {file}")])?;
        ensure!(
            seat.run("/bin/cat", &[&file])?.trim() == "hello",
            "other data came back"
        );
        Ok(())
    })?;
    let path = format!("{PODS}/demo");
    story.step("the pod is deleted and the volume unmounted", || {
        api.delete(&path)?;
        api.until_gone(SOON, &path)?;
        wait::until_true(SOON, "no mount", || {
            Ok(seat.mounts_below(&target)?.is_empty())
        })
    })
}

fn call_summary(seat: &Seat<'_>) -> Result<String> {
    if program::driver_is_foreign() {
        return Ok("not recorded by this driver".to_owned());
    }
    let mut counted = Vec::new();
    for method in [
        "GetPluginInfo",
        "NodeGetInfo",
        "NodePublishVolume",
        "NodeUnpublishVolume",
    ] {
        counted.push(format!("{method} {}", seat.calls(method)?));
    }
    Ok(counted.join(", "))
}

/// Removes what the demonstration created in somebody's cluster, also when it failed.
struct Guest<'a> {
    api: &'a Api,
    node: String,
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        for path in [
            format!("/apis/storage.k8s.io/v1/csinodes/{}", self.node),
            format!("/api/v1/nodes/{}", self.node),
        ] {
            if let Err(error) = self.api.delete(&path) {
                say(&format!("  could not delete {path}: {error:#}"));
            }
        }
    }
}

fn on_existing_cluster(kubeconfig: &Path) -> Result<()> {
    let mut story = Story::default();
    let api = Api::from_kubeconfig(kubeconfig)?;
    let version = story.step("the API server answers", || api.get("/version"))?;
    story.note(&format!(
        "{}",
        version.get("gitVersion").unwrap_or(&version)
    ));
    let guest = Guest {
        api: &api,
        node: format!("csi-demo-{}", std::process::id()),
    };
    let what = format!(
        "node object {} is created (no kubelet stands behind it)",
        guest.node
    );
    story.step(&what, || {
        api.create("/api/v1/nodes", &object::node(&guest.node))
    })?;

    let dir = tempfile::Builder::new().prefix("csi").tempdir_in("/tmp")?;
    let seat = Seat::without_kubelet(dir.path(), &guest.node, DRIVER)?;
    let mut command = Command::new(program::plugin_manager()?);
    command
        .arg(format!("--node-name={}", seat.node))
        .arg(format!(
            "--kubelet-root-dir={}",
            seat.kubelet_dir().display()
        ))
        .arg(format!("--kubeconfig={}", kubeconfig.display()));
    let manager = story.step("csi-plugin-manager started in the kubelet's place", || {
        Process::start("plugin-manager", command, &seat.dir)
    })?;
    let mut pair = Pair::start(&mut story, &seat)?;
    pair.registered(&mut story, &api, &seat)
        .with_context(|| manager.tail())?;
    let memory = [
        ("csi-node-driver-registrar", pair.registrar.resident()?),
        ("csi-plugin-manager", manager.resident()?),
        ("driver", pair.driver.resident()?),
    ];
    pair.deregistered(&mut story, &api, &seat)?;
    let calls = call_summary(&seat)?;
    drop((pair, manager));
    story.step("the demonstration's objects are removed", || {
        drop(guest);
        Ok(())
    })?;
    close(&story, &memory, &calls);
    Ok(())
}
