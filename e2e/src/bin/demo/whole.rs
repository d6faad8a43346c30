//! The whole life of volumes, on a test cluster of the demonstration's own.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use csi_test_driver::control::client::Client;
use csi_test_driver::invariants::Options as Rules;
use e2e::api::Api;
use e2e::calls::Calls;
use e2e::cluster::{Cluster, Options};
use e2e::deployment::Pod;
use e2e::node::{Seat, http_get};
use e2e::requests::AuditLog;
use e2e::story::Story;
use e2e::suite::{reasons, say};
use e2e::traces::Traces;
use e2e::{program, wait};
use serde_json::json;

use crate::SOON;
use crate::container::Node;
use crate::pods::{self, Programs};
use crate::release::{self, CONTROLLERS, NAMESPACE, Release, Sidecars};
use crate::tally::{self, Tally};
use crate::workload::{self, LARGE, Member};
use crate::{begin, snapshot, stuck};

/// Runs the story in the form that `SIDECARS` names: a program for each sidecar (the default), one process for all of a
/// pod, or both in turn. Always takes everything down.
pub(crate) fn tell() -> Result<()> {
    if program::driver_is_foreign() {
        bail!("HOSTPATHPLUGIN is set, but the nodes of this story share their storage: unset it");
    }
    let (tellings, is_traced) = (wanted()?, is_traced()?);
    let mut told = Vec::new();
    for (index, sidecars) in tellings.iter().enumerate() {
        if index > 0 {
            say("\nThe same once more, with one process for all sidecars of a pod:\n");
        }
        told.push(told_once(*sidecars, is_traced)?);
    }
    for (tally, ..) in &told {
        tally.print();
    }
    if let [(separate, ..), (together, ..)] = told.as_slice() {
        together.print_beside(separate);
    }
    if !program::ships() {
        say(
            "\nThese programs are compiled for tests. The released ones need less memory: `make demo SHIPPED=1` compiles them first.",
        );
    }
    let steps: usize = told.iter().map(|(_, steps, _)| steps).sum();
    let took: Duration = told.iter().map(|(.., took)| *took).sum();
    let took = took.as_secs_f64();
    say(&format!("\ndemo: PASSED, {steps} steps in {took:.1} s"));
    Ok(())
}

/// # Errors
/// `SIDECARS` has an unknown value.
fn wanted() -> Result<&'static [Sidecars]> {
    match std::env::var("SIDECARS").as_deref() {
        Err(_) | Ok("" | "separate") => Ok(&[Sidecars::Separate]),
        Ok("together") => Ok(&[Sidecars::Together]),
        Ok("both") => Ok(&[Sidecars::Separate, Sidecars::Together]),
        Ok(other) => bail!("SIDECARS={other}: must be separate, together or both"),
    }
}

/// Whether all programs export traces, of which one is shown.
///
/// # Errors
/// `TRACES` has an unknown value.
pub(crate) fn is_traced() -> Result<bool> {
    match std::env::var("TRACES").as_deref() {
        Err(_) | Ok("" | "0") => Ok(false),
        Ok("1") => Ok(true),
        Ok(other) => bail!("TRACES={other}: must be 0 or 1"),
    }
}

/// Runs the story once, on a cluster of its own.
fn told_once(sidecars: Sidecars, is_traced: bool) -> Result<(Tally, usize, Duration)> {
    let mut story = Story::default();
    let traces = is_traced.then(Traces::start).transpose()?;
    let what = format!(
        "etcd, kube-apiserver, controllers, scheduler and {} kubelets are up",
        pods::NODES
    );
    let cluster = story.step(&what, || {
        Cluster::up(&Options {
            nodes: pods::NODES,
            flags: traces.as_ref().map(Traces::flags).unwrap_or_default(),
        })
    })?;
    let told = on(&mut story, &cluster, sidecars, traces.as_ref());
    // The programs ended with the story; only the cluster is left.
    let is_down = match &told {
        Ok(_) => story.step(
            "the cluster is down; no process, mount or loop device is left",
            || cluster.down(),
        ),
        Err(_) => cluster.down(),
    };
    match (told, is_down) {
        (Ok(tally), Ok(())) => {
            let (steps, took) = story.total();
            Ok((tally, steps, took))
        }
        (Ok(_), Err(left)) => Err(left),
        (Err(error), Ok(())) => {
            say("\n  everything is down: no process, mount or loop device is left");
            say("  (all logs are gone, too, unless KEEP_LOGS names a directory for them)");
            Err(error)
        }
        (Err(error), Err(left)) => {
            say(&format!(
                "\n  taking everything down failed, too:\n{}",
                reasons(&left)
            ));
            Err(error)
        }
    }
}

/// Everything between the start and the end of the cluster.
fn on(
    story: &mut Story,
    cluster: &Cluster,
    sidecars: Sidecars,
    traces: Option<&Traces>,
) -> Result<Tally> {
    let api = cluster.api()?;
    let nodes = pods::nodes(cluster)?;
    let places = nodes
        .iter()
        .map(|it| format!("{} in zone {}", it.name, it.zone));
    story.note(&places.collect::<Vec<_>>().join(", "));

    let snapshots = Release::of_snapshots(cluster, traces)?;
    let kubelet_dir = pods::kubelet_dir(cluster);
    let (release, health) = Release::of_driver(cluster, &kubelet_dir, sidecars, traces)?;
    let mut audit = AuditLog::of(cluster, CONTROLLERS)?;
    let what = "helm install snapshot-controller charts/snapshot-controller";
    story.step(&format!("{what} --namespace {NAMESPACE}"), || {
        snapshots.install()
    })?;
    let mut programs = deploy(story, cluster, &api, &nodes, (&release, &health))?;
    live(story, (cluster, traces), &api, &nodes, &mut programs)?;
    let home = cluster.dir().join("run");
    nothing_left(story, cluster, &nodes, &mut programs, &home)?;

    let calls = Calls::read(&release::record(&home))?;
    story.step(
        "the driver's record of its calls breaks no rule of CSI",
        || calls.check(&Rules::default()),
    )?;
    audit.phase()?;
    let tally = Tally::new(sidecars, &programs.memory()?, audit.total(), &calls);

    story.step("all sidecars ended in order on SIGTERM", || {
        programs.stop_sidecars()
    })?;
    story.step("the kubelets took the driver out of their CSINodes", || {
        pods::until_unregistered(&api, &nodes)
    })?;
    drop(programs);
    story.step(
        "helm uninstall demo snapshot-controller: no object of the charts is left",
        || {
            release.uninstall(&api)?;
            snapshots.uninstall(&api)
        },
    )?;
    Ok(tally)
}

/// From the chart to a driver that is registered on every node.
fn deploy(
    story: &mut Story,
    cluster: &Cluster,
    api: &Api,
    nodes: &[Node],
    (release, health): (&Release, &str),
) -> Result<Programs> {
    let kinds = story.step("helm template demo charts/csi-sidecars", || {
        release.render()
    })?;
    story.note(&kinds);
    story.step(
        &format!(
            "helm install demo charts/csi-sidecars --namespace {NAMESPACE}{}",
            release.shown()
        ),
        || release.install(),
    )?;
    let pods = story.step(
        "the charts' pods have nodes, volumes and tokens of their accounts",
        || pods::until_prepared(api),
    )?;
    let mut programs = story.step("the programs of the charts' containers are started", || {
        Programs::start(cluster, nodes, &pods)
    })?;
    story.note(&format!(
        "{} programs with the charts' arguments, mounts and tokens; sidecars in empty, read-only root directories",
        programs.count()
    ));
    story.step(
        "csi-node-driver-registrar: every kubelet has entered the driver",
        || pods::until_registered(api, nodes, &mut programs),
    )?;
    for node in nodes {
        let entry = pods::entry(api, node)?.unwrap_or_default();
        story.note(&entry.to_string());
    }
    story.step("livenessprobe: the driver is healthy", || {
        programs.until("GET /healthz: 200", || {
            let (status, _) = http_get(health, "/healthz")?;
            Ok((status == 200).then_some(()))
        })
    })?;
    Ok(programs)
}

/// The life of the volumes.
fn live(
    story: &mut Story,
    (cluster, traces): (&Cluster, Option<&Traces>),
    api: &Api,
    nodes: &[Node],
    programs: &mut Programs,
) -> Result<()> {
    let (members, mut running) = begin::members(story, api, nodes, programs, traces)?;
    story.step("data is written to both volumes", || {
        for (member, (node, pod)) in members.iter().zip(&running) {
            let seat = workload::seat(cluster, node)?;
            pod.must_be_mounted(&seat, &member.volume)?;
            pod.write(&seat, &member.volume, &member.name)?;
        }
        Ok(())
    })?;
    // Only this zone has a second node.
    let roomy = members.iter().position(|member| member.zone == "north");
    let roomy = roomy.context("no volume is in zone north")?;
    let (node, pod) = running.swap_remove(roomy);
    let member = members.get(roomy).context("a member")?;
    let seat = workload::seat(cluster, node)?;
    grow(story, api, programs, member, (&seat, &pod))?;
    let size = workload::file_system(&pod, &seat, member)?;
    snapshot::take(story, api, programs, member)?;
    let (other, new) = move_on(story, api, programs, nodes, member, (node, &pod))?;
    story.step("its data and its size are still there", || {
        let seat = workload::seat(cluster, other)?;
        has_data(&new, &seat, member)?;
        let now = workload::file_system(&new, &seat, member)?;
        ensure!(
            now == size,
            "the file system had {size} bytes and has {now}"
        );
        Ok(())
    })?;
    let seat = workload::seat(cluster, other)?;
    let database = (member, &seat, &new);
    snapshot::restore(story, cluster, api, programs, nodes, database)?;
    stuck::explain(story, cluster, api, programs)?;
    story.step(
        "the StatefulSet and its claims are deleted, the pods are gone",
        || workload::delete(api, programs, &members),
    )?;
    story.step(
        "the VolumeSnapshot is deleted; no VolumeSnapshotContent is left",
        || snapshot::delete(api, programs),
    )?;
    story.step(
        "no PersistentVolume and no VolumeAttachment is left",
        || workload::until_forgotten(api, programs),
    )
}

fn has_data(pod: &Pod, seat: &Seat<'_>, member: &Member) -> Result<()> {
    let data = pod.read(seat, &member.volume)?;
    ensure!(data == member.name, "other data came back: {data:?}");
    Ok(())
}

/// Expands a volume while its pod runs.
fn grow(
    story: &mut Story,
    api: &Api,
    programs: &mut Programs,
    member: &Member,
    (seat, pod): (&Seat<'_>, &Pod),
) -> Result<()> {
    let before = workload::file_system(pod, seat, member)?;
    story.step(
        &format!(
            "csi-resizer: {} asks for {LARGE} while its pod runs, and the volume grows",
            member.claim
        ),
        || workload::enlarge(api, programs, member),
    )?;
    story.step(
        "the kubelet had the driver grow the file system (it looks every 10 to 15 s)",
        || workload::until_grown(api, programs, member),
    )?;
    let after = workload::file_system(pod, seat, member)?;
    ensure!(
        after > 2 * before,
        "the file system had {before} bytes and has {after}"
    );
    has_data(pod, seat, member)?;
    let (before, after) = (tally::mebibytes(before), tally::mebibytes(after));
    story.note(&format!(
        "the file system in it had {before:.1} MiB and has {after:.1} MiB, with its data"
    ));
    Ok(())
}

/// The pod loses its node and continues where its volume is accessible.
fn move_on<'n>(
    story: &mut Story,
    api: &Api,
    programs: &mut Programs,
    nodes: &'n [Node],
    member: &Member,
    (node, pod): (&Node, &Pod),
) -> Result<(&'n Node, Pod)> {
    let what = format!(
        "{} is cordoned and pod {} deleted; it runs again",
        node.name, member.name
    );
    let (other, new) = story.step(&what, || {
        workload::cordon(api, node)?;
        api.delete(&pod.path)?;
        workload::until_running(api, programs, nodes, member, Some(pod))
    })?;
    ensure!(other.name != node.name, "it came back to {}", node.name);
    story.note(&format!(
        "on {}, the other node of zone {}",
        other.name, other.zone
    ));
    Ok((other, new))
}

/// Checks that neither the driver nor a node keeps anything of the volumes.
fn nothing_left(
    story: &mut Story,
    cluster: &Cluster,
    nodes: &[Node],
    programs: &mut Programs,
    home: &Path,
) -> Result<()> {
    story.step(
        "no node has a mount of the driver, its storage is empty",
        || {
            let control = Client::new(release::control(home));
            programs.must_run()?;
            wait::until_true(SOON, "the driver's storage is empty", || {
                let state = control.state()?;
                let left = state.pointer("/left_over").and_then(|it| it.as_object());
                let left = left.context("the driver does not say what is left")?;
                let mut left = left.iter().filter(|(_, number)| *number != &json!(0));
                match left.next() {
                    None => Ok(true),
                    Some((kind, number)) => bail!("{number} {kind}"),
                }
            })?;
            for node in nodes {
                let seat = workload::seat(cluster, node)?;
                let mut mounts = seat.mounts_below(&node.kubelet_dir)?;
                mounts.retain(|mount| {
                    mount.contains("kubernetes.io~csi") || mount.contains("kubernetes.io/csi")
                });
                ensure!(mounts.is_empty(), "{} has mounts: {mounts:?}", node.name);
            }
            Ok(())
        },
    )
}
