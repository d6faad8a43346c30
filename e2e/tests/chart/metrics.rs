//! The programs export every metric that alerts and dashboard read.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, text};
use e2e::chart::{self, Release};
use e2e::cluster::Cluster;
use e2e::controller::{
    ATTACHER, Controller, HEALTH_MONITOR, LONG_LEASE, PROVISIONER, Route, SNAPSHOT_CONTROLLER,
};
use e2e::node::{Seat, http_get};
use e2e::object::{self, Binding};
use e2e::process::Process;
use e2e::suite::{self, Verdict};
use e2e::{process, program, snapshots, wait};
use serde_json::{Value, json};
use sidecar_testkit::free_address;

use super::rendered::{dashboard, items};

const SOON: Duration = Duration::from_secs(30);
const CLAIM: &str = "/api/v1/namespaces/default/persistentvolumeclaims/measured";
const SNAPSHOT: &str =
    "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots/measured";

pub(super) fn exist(cluster: &Cluster) -> Result<Verdict> {
    let exported = exported(cluster)?;
    let mut objects = Vec::new();
    for (chart, file) in [
        ("csi-sidecars", "ci/everything-values.yaml"),
        ("csi-sidecars", "ci/together-values.yaml"),
        ("snapshot-controller", "ci/everything-values.yaml"),
    ] {
        let release = Release {
            chart,
            namespace: "storage",
            file,
            set: &[],
        };
        objects.extend(release.objects()?);
    }
    let mut expressions = Vec::new();
    for object in objects {
        if text(&object, "/kind") == Some("PrometheusRule") {
            let groups = items(&object, "/spec/groups");
            for rule in groups.flat_map(|group| items(group, "/rules")) {
                expressions.push(text(rule, "/expr").context("an expression")?.to_owned());
            }
        }
        if let Some(dashboard) = dashboard(&object) {
            expressions.extend(expressions_of(&serde_json::from_str(dashboard)?)?);
        }
    }
    let mut used = metrics(&expressions)?;
    // Prometheus' own metric.
    used.remove("up");
    if program::all_in_one().is_err() {
        suite::say("    csi-sidecars is not built: csi_sidecar_controller_up was not looked for");
        used.remove("csi_sidecar_controller_up");
    }
    ensure!(used.len() > 15, "only {used:?}");
    let absent: Vec<_> = used.difference(&exported).collect();
    ensure!(
        absent.is_empty(),
        "nobody exports {absent:?}; there are {exported:?}"
    );
    Ok(Verdict::Passed)
}

/// the dashboard is also a file, for users without the chart. It selects by a label that the programs set
/// themselves, shows snapshots, and is the same as the chart's.
pub(super) fn dashboard_file(_: &Cluster) -> Result<Verdict> {
    let files = chart::folder("csi-sidecars").join("files");
    let ours = fs::read_to_string(files.join("dashboard.json"))?;
    let file = program::root().join("docs/dashboard.json");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, &ours)?;
    }
    ensure!(
        fs::read_to_string(&file).unwrap_or_default() == ours,
        "docs/dashboard.json is not the chart's: make chart ONLY=dashboard UPDATE=1"
    );
    ensure!(!ours.contains("csi_driver"), "only our monitors set it");
    let dashboard: Value = serde_json::from_str(&ours)?;
    let mut snapshots = 0;
    for panel in items(&dashboard, "/panels") {
        let title = text(panel, "/title").context("a title")?;
        ensure!(
            text(panel, "/description").is_some(),
            "{title}: says nothing"
        );
        snapshots += usize::from(title.contains("napshot"));
        let ended = title.contains("time that users wait") || title.contains("share within");
        let empty = text(panel, "/fieldConfig/defaults/noValue");
        ensure!(!ended || empty.is_some(), "{title}: says \"No data\"");
        for target in items(panel, "/targets") {
            let expr = text(target, "/expr").context("an expression")?;
            // snapshot-controller counts what is open for all drivers together, without the label.
            let [of_driver, of_any] = ["\"", "|\""].map(|it| format!("driver_name=~\"$driver{it}"));
            let of_any = expr.contains(&of_any);
            ensure!(of_any || expr.contains(&of_driver), "{title}: {expr}");
            // Its counters have a driver's label only once something of that driver has ended, and then it is too late.
            let open = expr.contains("unfinished") && title.starts_with("snapshot_");
            ensure!(!open || of_any, "{title}: {expr}");
        }
    }
    metrics(&expressions_of(&dashboard)?)?;
    ensure!(snapshots >= 3, "{snapshots} panels about snapshots");
    Ok(Verdict::Passed)
}

/// The queries of a dashboard, with a value in place of each Grafana variable.
fn expressions_of(dashboard: &Value) -> Result<Vec<String>> {
    let panels = items(dashboard, "/panels");
    { panels.flat_map(|panel| items(panel, "/targets")) }
        .map(|target| {
            let expr = text(target, "/expr").context("an expression")?;
            Ok(expr.replace("$__rate_interval", "5m"))
        })
        .collect()
}

/// The metric names in expressions, read by Prometheus' own parser; an expression that it refuses is an error.
pub(super) fn metrics(expressions: &[String]) -> Result<BTreeSet<String>> {
    let parser = program::root().join("build/promql");
    ensure!(parser.is_file(), "build/promql is missing: make promql");
    let names = process::output(Command::new(parser).args(expressions))?;
    Ok(names.lines().map(str::to_owned).collect())
}

/// All series of a provisioner with successes and failures, an attacher, a livenessprobe, a health monitor and a
/// snapshot-controller.
fn exported(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let api = cluster.api()?;
    let driver = "measured.chart.test";
    let seat = Seat::controller(cluster, driver)?;
    let _driver = seat.start_driver(&["--enable-topology=false", "--enable-attach=true"])?;
    fail_once(&seat)?;
    let class = object::storage_class("measured", driver, Binding::Immediate);
    api.create("/apis/storage.k8s.io/v1/storageclasses", &class)?;

    snapshots::install(cluster, &api)?;
    let (mut names, mut running) = (BTreeSet::new(), Vec::new());
    for (sidecar, flags) in [
        (ATTACHER, &[][..]),
        (
            PROVISIONER,
            &["--enable-capacity", "--capacity-ownerref-level=-1"],
        ),
        (
            SNAPSHOT_CONTROLLER,
            &["--feature-gates=CSIVolumeGroupSnapshot=false"],
        ),
    ] {
        let controller = Controller::install(cluster, sidecar, &seat)?;
        controller.until_permitted(&api, "coordination.k8s.io", "leases", "create")?;
        let address = free_address();
        let endpoint = format!("--http-endpoint={address}");
        let mut all = vec!["--leader-election", endpoint.as_str()];
        all.extend(LONG_LEASE.iter().chain(flags));
        let namespace = [("NAMESPACE", controller.namespace())];
        if sidecar.name == ATTACHER.name {
            running.extend(standby_of_several(&controller)?);
        }
        running.push((
            controller.start_in("0", Route::Direct, &all, &namespace)?,
            address,
        ));
    }
    let address = free_address();
    let mut probe = seat.command(program::livenessprobe()?);
    probe.arg(format!("--csi-address={}", seat.socket().display()));
    probe.arg(format!("--http-endpoint={address}"));
    running.push((Process::start("livenessprobe", probe, &seat.dir)?, address));

    let claims = CLAIM.trim_end_matches("/measured");
    api.create(claims, &object::claim("measured", "measured", "1Mi"))?;
    let bound = wait::until_true(SOON, "the claim is bound", || {
        Ok(text(&api.get(CLAIM)?, "/status/phase") == Some("Bound"))
    });
    bound.with_context(|| api.events("default", "measured"))?;
    names.extend(of_health(cluster, &seat, &api)?);
    abandoned_snapshot(&api)?;
    api.delete(CLAIM)?;
    wait::until_true(SOON, "the volume is gone", || {
        let volumes = api.get("/api/v1/persistentvolumes")?;
        let mut drivers = items(&volumes, "/items").filter_map(|it| text(it, "/spec/csi/driver"));
        Ok(!drivers.any(|it| it == driver))
    })?;

    for (process, address) in &mut running {
        process.must_run()?;
        let page = wait::until(SOON, "metrics are served", || {
            http_get(address, "/healthz")?;
            Ok(Some(http_get(address, "/metrics")?.1))
        });
        names.extend(series(&page.with_context(|| process.tail())?));
    }
    Ok(names)
}

/// The names of the series of a scrape.
fn series(page: &str) -> BTreeSet<String> {
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let series = samples.filter_map(|line| line.split(['{', ' ']).next());
    series.map(str::to_owned).collect()
}

/// The series of a health monitor once the driver reports the claim's volume as ill.
fn of_health(cluster: &Cluster, seat: &Seat<'_>, api: &Api) -> Result<BTreeSet<String>> {
    let claim = api.get(CLAIM)?;
    let volume = text(&claim, "/spec/volumeName").context("the claim's volume")?;
    let volume = api.get(&format!("/api/v1/persistentvolumes/{volume}"))?;
    let handle = text(&volume, "/spec/csi/volumeHandle").context("the volume's handle")?;
    let ill = json!({"health": {handle: [{"status": "degraded", "reason": "Slow"}]}});
    seat.control().set(&ill)?;
    let monitor = Controller::install(cluster, HEALTH_MONITOR, seat)?;
    monitor.until_permitted(api, "coordination.k8s.io", "leases", "create")?;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let flags = ["--leader-election", "--monitor-interval=1s", &endpoint];
    let flags = [&flags[..], &LONG_LEASE].concat();
    let process = monitor.start("0", Route::Direct, &flags)?;
    let page = wait::until(SOON, "a volume is counted", || {
        let page = http_get(&address, "/metrics")?.1;
        let counts = page.contains("csi_controller_volume_health_status{");
        Ok(counts.then_some(page))
    });
    Ok(series(&page.with_context(|| process.tail())?))
}

/// Makes the first creation and the first deletion fail.
fn fail_once(seat: &Seat<'_>) -> Result<()> {
    let control = seat.control();
    for method in ["CreateVolume", "DeleteVolume"] {
        let rule = json!({
            "match": {"method": method, "times": 1},
            "action": {"outcome": {"fail": {"code": "INTERNAL", "message": "once"}}},
        });
        control.add_rule(&serde_json::from_value(rule)?)?;
    }
    Ok(())
}

/// A process of several controllers, for the metrics that only such a process has; it is a standby of the running
/// attacher.
fn standby_of_several(attacher: &Controller<'_>) -> Result<Option<(Process, String)>> {
    if program::all_in_one().is_err() {
        return Ok(None);
    }
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let flags = ["--controllers=attacher", "--leader-election", &endpoint];
    let flags = [&flags[..], &LONG_LEASE].concat();
    let together = attacher.of(program::all_in_one);
    let process = together.start("1", Route::Direct, &flags)?;
    Ok(Some((process, address)))
}

/// A VolumeSnapshot whose content never comes, so that it ends with its deletion.
fn abandoned_snapshot(api: &Api) -> Result<()> {
    let snapshot = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": "measured"},
        "spec": {"source": {"volumeSnapshotContentName": "absent"}},
    });
    api.create(SNAPSHOT.trim_end_matches("/measured"), &snapshot)?;
    wait::until_true(SOON, "the snapshot is protected", || {
        let snapshot = api.get(SNAPSHOT)?;
        Ok(items(&snapshot, "/metadata/finalizers").next().is_some())
    })?;
    api.delete(SNAPSHOT)?;
    api.until_gone(SOON, SNAPSHOT)
}
