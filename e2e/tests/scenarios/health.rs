//! The health monitor reports the health of a driver's volumes on their claims.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, text};
use e2e::cluster::{Cluster, Options};
use e2e::controller::{Controller, HEALTH_MONITOR, LONG_LEASE, Route};
use e2e::node::Seat;
use e2e::process::Process;
use e2e::suite::{Scenario, Verdict};
use e2e::{manifest, object, program, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "health_monitor_h_20_shows_a_fault_on_the_claim_until_it_is_gone",
        run: status_of_a_claim,
    },
    Scenario {
        name: "health_monitor_h_41_says_that_the_api_server_drops_the_field",
        run: dropped,
    },
    Scenario {
        name: "health_monitor_h_60_writes_events_for_older_drivers",
        run: events,
    },
];

/// Time limit of a step.
const SOON: Duration = Duration::from_secs(60);

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const FLAGS: &[&str] = &[
    "--leader-election",
    "--monitor-interval=1s",
    "--list-volumes-interval=1s",
    "-v=2",
];

/// The feature gate of `status.healthStatus`, an alpha field.
const GATE: &str = "--feature-gates=CSIVolumeHealth=true";
/// The first minor version of Kubernetes with that field.
const SINCE: u32 = 37;

/// A driver with two bound volumes, and a health monitor for it.
struct Scene<'a> {
    api: Api,
    seat: Seat<'a>,
    monitor: Controller<'a>,
    /// Names of the claims.
    names: [String; 2],
    handles: Vec<String>,
    _driver: Process,
}

impl<'a> Scene<'a> {
    /// Prepares the scene without starting the monitor, whose account has the chart's permissions with these values.
    fn new(cluster: &'a Cluster, name: &str, values: &[&str]) -> Result<Self> {
        let api = cluster.api()?;
        let seat = Seat::controller(cluster, &format!("{name}.health.test"))?;
        let driver = seat.start_driver(&["--enable-topology=false", "--sync=false"])?;
        let names = [format!("{name}-ill"), format!("{name}-well")];
        let handles = seat.control().make_volumes(&names, 1 << 20)?;
        for (name, handle) in names.iter().zip(&handles) {
            api.create(
                VOLUMES,
                &object::persistent_volume(name, &seat.driver, handle),
            )?;
            api.create(CLAIMS, &object::claim_of(name, name))?;
        }
        let monitor = Controller::powerless(cluster, HEALTH_MONITOR, &seat)?;
        for object in monitor.charts_permissions(values)? {
            manifest::create(&api, &object)?;
        }
        monitor.until_permitted(&api, "", "persistentvolumes", "list")?;
        monitor.until_permitted(&api, "coordination.k8s.io", "leases", "create")?;
        let scene = Self {
            api,
            seat,
            monitor,
            names,
            handles,
            _driver: driver,
        };
        wait::until_true(SOON, "the claims are bound", || {
            let claims = scene.names.iter().map(|name| scene.claim(name));
            let claims = claims.collect::<Result<Vec<_>>>()?;
            Ok({ claims.iter() }.all(|claim| text(claim, "/status/phase") == Some("Bound")))
        })?;
        Ok(scene)
    }

    fn start(&self) -> Result<Process> {
        let flags = [FLAGS, &LONG_LEASE].concat();
        self.monitor.start("0", Route::Direct, &flags)
    }

    fn claim(&self, name: &str) -> Result<Value> {
        self.api.get(&format!("{CLAIMS}/{name}"))
    }

    /// The claim whose volume falls ill.
    fn ill(&self) -> &str {
        let [ill, _] = &self.names;
        ill
    }

    /// Sets the driver's answer about the first volume's health.
    fn suffers(&self, ailments: &Value) -> Result<()> {
        let handle = self.handles.first().context("a volume")?;
        let health = json!({ "health": { handle: ailments } });
        self.seat.control().set(&health)?;
        Ok(())
    }

    /// Waits until `is` holds, while the monitor runs.
    fn until(
        &self,
        monitor: &mut Process,
        what: &str,
        mut is: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let done = wait::until_true(SOON, what, || {
            monitor.must_run()?;
            is()
        });
        done.with_context(|| format!("{:#}", self.claim(self.ill()).unwrap_or_default()))
            .with_context(|| self.api.events("default", self.ill()))
            .with_context(|| monitor.tail())
    }
}

/// csi-driver-host-path cannot report health on demand.
fn skipped() -> Option<Verdict> {
    program::driver_is_foreign()
        .then(|| Verdict::Skipped("another driver does not say what it is told to".to_owned()))
}

fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

fn status_of_a_claim(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let version = cluster.state("/version")?;
    if minor(version).is_none_or(|minor| minor < SINCE) {
        return Ok(Verdict::Skipped(format!(
            "Kubernetes {version} has no status.healthStatus"
        )));
    }
    // A cluster of its own: with the gate the kubelets of other scenarios would ask their drivers about health, too.
    let gated = Cluster::up(&Options {
        flags: vec!["--apiserver-arg".to_owned(), GATE.to_owned()],
        ..Options::default()
    })?;
    shown_and_cleared(&gated)?;
    gated.down()?;
    Ok(Verdict::Passed)
}

fn shown_and_cleared(cluster: &Cluster) -> Result<()> {
    let values = ["features.volumeHealth=true"];
    let scene = Scene::new(cluster, "shown", &values)?;
    let mut monitor = scene.start()?;
    scene.suffers(&json!([{
        "status": "inaccessible", "reason": "NoPath", "message": "no path to the array",
    }]))?;
    let conditions = "/status/healthStatus/healthConditions";
    let expected = json!([{
        "status": "Inaccessible", "reason": "NoPath", "message": "no path to the array",
    }]);
    let ill = scene.ill();
    scene.until(&mut monitor, "the claim shows the fault", || {
        Ok(scene.claim(ill)?.pointer(conditions) == Some(&expected))
    })?;
    let shown = scene.claim(ill)?;
    let time = |claim: &Value| {
        let time = text(claim, "/status/healthStatus/lastTransitionTime");
        time.map(str::to_owned)
    };
    ensure!(time(&shown).is_some(), "{shown:#}");
    for name in &scene.names {
        let claim = scene.claim(name)?;
        let is_ill = claim.pointer("/status/healthStatus").is_some();
        ensure!(is_ill == (name == ill), "{claim:#}");
    }
    // Three further lists report the same.
    wait::stays(Duration::from_secs(3), "nothing is written", || {
        monitor.must_run()?;
        Ok(scene.claim(ill)? == shown)
    })?;
    scene.suffers(&json!([]))?;
    scene.until(&mut monitor, "the claim is healthy again", || {
        let claim = scene.claim(ill)?;
        Ok(claim.pointer(conditions).is_none() && time(&claim).is_some())
    })?;
    ensure!(time(&scene.claim(ill)?) != time(&shown), "the time moves");
    monitor.signal(Signal::TERM)?;
    let code = monitor.exit_code(SOON)?;
    ensure!(code == 0, "exit code {code}\n{}", monitor.tail());
    let lease = "external-health-monitor-leader-shown-health-test";
    let holder = scene.monitor.holder(&scene.api, lease)?;
    ensure!(holder.as_deref() == Some(""), "{lease} of {holder:?}");
    Ok(())
}

fn dropped(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let values = ["features.volumeHealth=true"];
    let scene = Scene::new(cluster, "dropped", &values)?;
    let mut monitor = scene.start()?;
    scene.suffers(
        &json!([{"status": "degraded", "reason": "Slow", "message": "one disk of two"}]),
    )?;
    monitor.logs(SOON, "The API server drops status.healthStatus of claims")?;
    let before = scene.claim(scene.ill())?;
    ensure!(before.pointer("/status/healthStatus").is_none());
    wait::stays(Duration::from_secs(3), "nothing more is written", || {
        monitor.must_run()?;
        Ok(scene.claim(scene.ill())? == before)
    })?;
    let log = monitor.log();
    ensure!(log.matches("The API server drops").count() == 1, "{log}");
    Ok(Verdict::Passed)
}

fn events(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "older", &[])?;
    let handle = scene.handles.first().context("a volume")?;
    let control = scene.seat.control();
    // VOLUME_CONDITION had the number 11.
    let older = json!({
        "capabilities": {"controller": ["CREATE_DELETE_VOLUME", "LIST_VOLUMES", 11]},
        "conditions": { handle: "disk gone" },
    });
    control.set(&older)?;
    let mut monitor = scene.start()?;
    let ill = scene.ill();
    let says = |parts: [&str; 2]| {
        let events = scene.api.events("default", ill);
        parts.iter().all(|part| events.contains(part))
    };
    let abnormal = ["VolumeConditionAbnormal", "disk gone"];
    scene.until(&mut monitor, "the claim has a Warning", || {
        Ok(says(abnormal))
    })?;
    control.set(&json!({ "conditions": {} }))?;
    let normal = [
        "VolumeConditionNormal",
        "The Volume returns to the healthy state",
    ];
    scene.until(&mut monitor, "the claim has the recovery", || {
        Ok(says(normal))
    })?;
    let claim = scene.claim(ill)?;
    ensure!(claim.pointer("/status/healthStatus").is_none(), "{claim:#}");
    Ok(Verdict::Passed)
}
