//! Common parts of the scenarios: a driver without attach, a resizer beside it, and the counts of
//! requests.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use csi_test_driver::invariants::Options;
use e2e::api::{Api, text};
use e2e::calls::Calls;
use e2e::cluster::Cluster;
use e2e::controller::{Controller, LONG_LEASE, RESIZER, Route};
use e2e::deployment::Deployment;
use e2e::object::Binding;
use e2e::process::Process;
use e2e::requests::{AuditLog, Requests};
use e2e::suite::Verdict;
use e2e::{object, program, wait};
use serde_json::{Value, json};

/// A wait beyond this means that something hangs.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// The limit for scenarios with a lot of work.
pub(super) const LONG: Duration = Duration::from_secs(180);

pub(super) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(super) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(super) const EXPAND: &str = "ControllerExpandVolume";
pub(super) const MODIFY: &str = "ControllerModifyVolume";

/// A driver that needs no node to expand.
pub(super) const ALONE: &[&str] = &["--disable-node-expansion=true"];

/// Initial size of a volume, as a quantity and in bytes.
const SMALL: (&str, i64) = ("32Mi", 32 << 20);

/// Flags of all processes of the driver.
const FLAGS: [&str; 3] = [
    "--enable-topology=false",
    "--sync=false",
    "--fs-images=true",
];

/// One driver, a StorageClass of the driver's name, and a resizer.
pub(super) struct Scene<'a> {
    pub(super) api: Api,
    pub(super) deployment: Deployment<'a>,
    pub(super) resizer: Controller<'a>,
    audit: RefCell<AuditLog<'a>>,
    name: &'static str,
}

impl<'a> Scene<'a> {
    /// The driver is `<name>.expand.test`, with these additional flags; neither it nor the resizer
    /// runs yet.
    pub(super) fn new(cluster: &'a Cluster, name: &'static str, flags: &[&str]) -> Result<Self> {
        let api = cluster.api()?;
        let driver = format!("{name}.expand.test");
        let all: Vec<&str> = FLAGS.iter().chain(flags).copied().collect();
        let deployment = Deployment::new(cluster, &api, &driver, &all)?;
        let resizer = Controller::install(cluster, RESIZER, &deployment.controller)?;
        let audit = AuditLog::of(cluster, &resizer.user())?;
        let class = object::storage_class(&driver, &driver, Binding::Immediate);
        api.create("/apis/storage.k8s.io/v1/storageclasses", &class)?;
        resizer.until_permitted(&api, "", "persistentvolumeclaims/status", "patch")?;
        resizer.until_permitted(&api, "coordination.k8s.io", "leases", "create")?;
        Ok(Self {
            api,
            deployment,
            resizer,
            audit: RefCell::new(audit),
            name,
        })
    }

    pub(super) fn start_resizer(&self, flags: &[&str]) -> Result<Process> {
        let all = [&["--leader-election", "-v=2"][..], &LONG_LEASE, flags].concat();
        self.resizer.start("0", Route::Direct, &all)
    }

    /// Starts the resizer with its usual flags, behind the fault proxy.
    pub(super) fn start_resizer_behind_proxy(&self) -> Result<Process> {
        let [lease, deadline] = LONG_LEASE;
        let flags = ["--leader-election", "-v=2", lease, deadline];
        self.resizer.start("0", Route::Proxy, &flags)
    }

    /// Creates volumes with claims that are bound to them. Returns their names, which both share.
    pub(super) fn volumes(&self, number: usize) -> Result<Vec<String>> {
        let names: Vec<_> = (0..number)
            .map(|index| format!("{}-{index}", self.name))
            .collect();
        let control = self.deployment.controller.control();
        let handles = control.make_volumes(&names, SMALL.1)?;
        let class = self.deployment.driver();
        let volume = |(name, handle): (&String, &String)| {
            let volume = object::persistent_volume(name, class, handle);
            let spec = json!({
                "capacity": { "storage": SMALL.0 }, "storageClassName": class,
                "claimRef": { "namespace": "default", "name": name },
            });
            object::with(volume, &json!({ "spec": spec }))
        };
        let volumes: Vec<_> = names.iter().zip(&handles).map(volume).collect();
        self.api.create_all(VOLUMES, &volumes)?;
        let claim = |name: &String| {
            let spec = json!({
                "storageClassName": class,
                "resources": { "requests": { "storage": SMALL.0 } },
            });
            object::with(object::claim_of(name, name), &json!({ "spec": spec }))
        };
        let claims: Vec<_> = names.iter().map(claim).collect();
        self.api.create_all(CLAIMS, &claims)?;
        self.until_all(&names, "bound", |claim| {
            text(claim, "/status/phase") == Some("Bound")
        })?;
        Ok(names)
    }

    /// Raises the claim's requested size, as its owner does.
    pub(super) fn grow(&self, claim: &str, size: &str) -> Result<()> {
        let patch = json!({ "spec": { "resources": { "requests": { "storage": size } } } });
        self.api.merge(&format!("{CLAIMS}/{claim}"), &patch)?;
        Ok(())
    }

    pub(super) fn claim(&self, name: &str) -> Result<Value> {
        self.api.get(&format!("{CLAIMS}/{name}"))
    }

    /// Waits until the condition holds for all these claims.
    pub(super) fn until_all(
        &self,
        names: &[String],
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        wait::until_true(LONG, &format!("{} claims are {what}", names.len()), || {
            if names.len() > 10 {
                // Long lists cost the API server more than the requests that are counted.
                std::thread::sleep(Duration::from_millis(300));
            }
            let list = self.api.get(&format!("{CLAIMS}?resourceVersion=0"))?;
            let items = list.pointer("/items").and_then(Value::as_array);
            let ours = items.into_iter().flatten().filter(|claim| {
                let name = text(claim, "/metadata/name").unwrap_or_default();
                names.iter().any(|it| it == name) && is(claim)
            });
            Ok(ours.count() == names.len())
        })
    }

    /// Waits until the condition holds for the claim.
    pub(super) fn until(
        &self,
        resizer: &mut Process,
        name: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let done = wait::until_true(SOON, &format!("claim {name} is {what}"), || {
            resizer.must_run()?;
            Ok(is(&self.claim(name)?))
        });
        done.with_context(|| format!("{:#}", self.claim(name).unwrap_or_default()))
            .with_context(|| self.api.events("default", name))
            .with_context(|| resizer.tail())
    }

    /// Waits until the claim has this size and no expansion is running.
    pub(super) fn until_size(&self, resizer: &mut Process, name: &str, size: &str) -> Result<()> {
        self.until(resizer, name, size, |claim| has_size(claim, size))
    }

    /// Waits for an event about the claim.
    pub(super) fn until_event(&self, name: &str, part: &str) -> Result<()> {
        wait::until_true(SOON, &format!("an event of {name} says {part:?}"), || {
            Ok(self.api.events("default", name).contains(part))
        })
    }

    /// Adds a rule that changes the driver's reaction to some calls.
    pub(super) fn rule(&self, rule: &Value) -> Result<()> {
        let control = self.deployment.controller.control();
        control.add_rule(&serde_json::from_value(rule.clone())?)?;
        Ok(())
    }

    pub(super) fn calls(&self) -> Result<Calls> {
        Calls::read(&self.deployment.controller.record())
    }

    pub(super) fn phase(&self) -> Result<Requests> {
        self.audit.borrow_mut().phase()
    }

    /// The record must be clean, and the counts become a row of the table.
    pub(super) fn finish(&self) -> Result<Verdict> {
        self.phase()?;
        let calls = self.calls()?;
        calls.check(&Options::default())?;
        let audit = self.audit.borrow();
        let requests = audit.total();
        let number = |number: u64| number.to_string();
        let count = |method| calls.of(method).count().to_string();
        Ok(Verdict::Counted(vec![
            (
                "PATCH claim/status",
                number(requests.on("patch", "persistentvolumeclaims/status")),
            ),
            (
                "PATCH PV",
                number(requests.on("patch", "persistentvolumes")),
            ),
            (
                "events",
                number(requests.count(|it| it.resource == "events")),
            ),
            ("GET", number(requests.verb("get"))),
            ("LIST", number(requests.verb("list"))),
            ("WATCH", number(requests.verb("watch"))),
            ("lease", number(requests.leases())),
            ("expand", count(EXPAND)),
            ("modify", count(MODIFY)),
        ]))
    }
}

/// Whether the claim has this size and no expansion is running.
pub(super) fn has_size(claim: &Value, size: &str) -> bool {
    let pending = claim.pointer("/status/allocatedResourceStatuses");
    let pending = pending.and_then(Value::as_object);
    text(claim, "/status/capacity/storage") == Some(size)
        && pending.is_none_or(serde_json::Map::is_empty)
}

/// `status.allocatedResourceStatuses.storage`.
pub(super) fn state(claim: &Value) -> &str {
    text(claim, "/status/allocatedResourceStatuses/storage").unwrap_or_default()
}

/// Asserts a count of ours; another resizer's is only printed.
pub(super) fn at_most(what: &str, is: u64, most: u64, requests: &Requests) -> Result<()> {
    if program::is_foreign(&program::resizer()?)? {
        return Ok(());
    }
    ensure!(is <= most, "{what}: {is}, more than {most}: {requests}");
    Ok(())
}

/// Asserts that our resizer sends no more requests than upstream's for so many expansions, of which
/// `on_node` need the node.
pub(super) fn no_more_than_upstream(scene: &Scene<'_>, all: u64, on_node: u64) -> Result<()> {
    let requests = scene.phase()?;
    let claims = requests.on("patch", "persistentvolumeclaims/status");
    at_most("PATCH of claims", claims, 2 * all, &requests)?;
    let volumes = requests.on("patch", "persistentvolumes");
    at_most("PATCH of PVs", volumes, all + on_node, &requests)?;
    let read =
        requests.on("get", "persistentvolumeclaims") + requests.on("get", "persistentvolumes");
    at_most("GET", read, 0, &requests)?;
    at_most(
        "calls",
        scene.calls()?.of(EXPAND).count() as u64,
        all,
        &requests,
    )
}

/// Skips where the embedded driver's record is needed but another driver runs.
pub(super) fn skipped() -> Option<Verdict> {
    program::driver_is_foreign()
        .then(|| Verdict::Skipped("needs the record of the embedded driver".to_owned()))
}
