//! Common parts of the scenarios: a driver without attach, a provisioner beside it, and the counts
//! of requests.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use csi_test_driver::invariants::Options;
use e2e::api::{Api, text};
use e2e::calls::Calls;
use e2e::cluster::Cluster;
use e2e::controller::{Controller, LONG_LEASE, PROVISIONER, Route};
use e2e::deployment::Deployment;
use e2e::process::Process;
use e2e::requests::{AuditLog, Request, Requests};
use e2e::suite::Verdict;
use e2e::{object, program, wait};
use serde_json::{Value, json};

/// A wait beyond this means that something hangs.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// The limit for scenarios with a lot of work.
pub(super) const LONG: Duration = Duration::from_secs(120);

pub(super) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

pub(super) const VOLUMES: &str = "/api/v1/persistentvolumes";

pub(super) const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// One driver, one StorageClass of the driver's name, and a provisioner.
pub(super) struct Scene<'a> {
    pub(super) api: Api,
    pub(super) deployment: Deployment<'a>,
    pub(super) provisioner: Controller<'a>,
    audit: RefCell<AuditLog<'a>>,
}

impl<'a> Scene<'a> {
    /// The driver is `<name>.provision.test`; neither it nor the provisioner runs yet.
    pub(super) fn new(
        cluster: &'a Cluster,
        name: &'static str,
        binding: object::Binding,
        flags: &[&str],
    ) -> Result<Self> {
        Self::with_class(cluster, name, binding, flags, &json!({}))
    }

    /// Like [`Scene::new`], with changes to the class.
    pub(super) fn with_class(
        cluster: &'a Cluster,
        name: &'static str,
        binding: object::Binding,
        flags: &[&str],
        changes: &Value,
    ) -> Result<Self> {
        let api = cluster.api()?;
        let driver = format!("{name}.provision.test");
        let deployment = Deployment::new(cluster, &api, &driver, flags)?;
        let provisioner = Controller::install(cluster, PROVISIONER, &deployment.controller)?;
        if provisioner.is_under_upstreams_rules()? {
            // Upstream's manifest leaves this to drivers that have such classes; without it the
            // informers of upstream's provisioner never sync.
            let classes = json!([{
                "apiGroups": ["storage.k8s.io"], "resources": ["volumeattributesclasses"],
                "verbs": ["get", "list", "watch"],
            }]);
            provisioner.allow(&api, &classes)?;
        }
        let audit = AuditLog::of(cluster, &provisioner.user())?;
        let class = object::storage_class(&driver, &driver, binding);
        api.create(CLASSES, &object::with(class, changes))?;
        provisioner.until_permitted(&api, "storage.k8s.io", "volumeattributesclasses", "get")?;
        provisioner.until_permitted(&api, "coordination.k8s.io", "leases", "create")?;
        Ok(Self {
            api,
            deployment,
            provisioner,
            audit: RefCell::new(audit),
        })
    }

    pub(super) fn start_provisioner(&self, flags: &[&str]) -> Result<Process> {
        self.start_replica("0", flags)
    }

    pub(super) fn start_replica(&self, replica: &str, flags: &[&str]) -> Result<Process> {
        let all = [&["--leader-election", "-v=2"][..], &LONG_LEASE, flags].concat();
        self.provisioner.start(replica, Route::Direct, &all)
    }

    /// Waits until the replica of that host name leads.
    pub(super) fn until_leader(&self, name: &str) -> Result<()> {
        let lease = self.deployment.driver().replace('.', "-");
        wait::until_true(SOON, &format!("{name} leads"), || {
            let holder = self.provisioner.holder(&self.api, &lease)?;
            Ok(holder.as_deref() == Some(name))
        })
    }

    /// The Lease with the provisioning journal.
    pub(super) fn journal(&self) -> Result<Value> {
        let lease = self.deployment.driver().replace('.', "-");
        self.provisioner
            .lease(&self.api, &format!("{lease}-journal-0"))
    }

    /// Creates a claim of the scene's class.
    pub(super) fn claim(&self, name: &str) -> Result<()> {
        self.create_claim(&object::claim(name, self.deployment.driver(), "1Mi"))
    }

    pub(super) fn create_claim(&self, claim: &Value) -> Result<()> {
        self.api.create(CLAIMS, claim).map(drop)
    }

    /// Waits for an event about the claim, or the volume.
    pub(super) fn until_event(
        &self,
        provisioner: &mut Process,
        about: &str,
        part: &str,
    ) -> Result<()> {
        let what = format!("an event of {about} says {part:?}");
        let said = wait::until_true(SOON, &what, || {
            provisioner.must_run()?;
            Ok(self.api.events("default", about).contains(part))
        });
        said.with_context(|| provisioner.tail())
    }

    pub(super) fn until_claim_gone(&self, provisioner: &mut Process, name: &str) -> Result<()> {
        let gone = self.api.until_gone(SOON, &format!("{CLAIMS}/{name}"));
        gone.with_context(|| provisioner.tail())
    }

    pub(super) fn release(&self, name: &str) -> Result<()> {
        self.api.delete(&format!("{CLAIMS}/{name}"))
    }

    /// Waits until the claim is bound. Returns its PersistentVolume.
    pub(super) fn until_bound(&self, provisioner: &mut Process, name: &str) -> Result<Value> {
        let path = format!("{CLAIMS}/{name}");
        let volume = wait::until(SOON, &format!("claim {name} is bound"), || {
            provisioner.must_run()?;
            let claim = self.api.get(&path)?;
            let bound = text(&claim, "/status/phase") == Some("Bound");
            let volume = text(&claim, "/spec/volumeName").unwrap_or_default();
            Ok(bound.then(|| volume.to_owned()))
        });
        let volume = volume
            .with_context(|| self.api.events("default", name))
            .with_context(|| provisioner.tail())?;
        self.api.get(&format!("{VOLUMES}/{volume}"))
    }

    /// Asserts that the claim has no volume.
    pub(super) fn must_be_open(&self, name: &str) -> Result<()> {
        let claim = self.api.get(&format!("{CLAIMS}/{name}"))?;
        let phase = text(&claim, "/status/phase");
        ensure!(phase == Some("Pending"), "claim {name} is {phase:?}");
        Ok(())
    }

    /// Adds a rule that changes the driver's reaction to some calls.
    pub(super) fn rule(&self, rule: &Value) -> Result<()> {
        let control = self.deployment.controller.control();
        control.add_rule(&serde_json::from_value(rule.clone())?)?;
        Ok(())
    }

    /// The storage's state at `pointer`.
    pub(super) fn stored(&self, pointer: &str) -> Result<Value> {
        let state = self.deployment.controller.control().state()?;
        let part = state.pointer(pointer);
        part.cloned()
            .with_context(|| format!("the driver's state has no {pointer}"))
    }

    /// Waits until no volume is staged on any node.
    pub(super) fn until_unstaged(&self) -> Result<()> {
        wait::until_true(SOON, "no volume is staged", || {
            Ok(self.stored("/left_over/staged")? == json!(0))
        })
    }

    /// Waits until no PersistentVolume and nothing in the driver's storage is left, not even for
    /// claims that are gone.
    pub(super) fn until_nothing_is_left(&self, provisioner: &mut Process) -> Result<()> {
        let mut left = Value::Null;
        let gone = wait::until_true(LONG, "no volume is left", || {
            provisioner.must_run()?;
            let list = self.api.get(VOLUMES)?;
            let items = list.pointer("/items").and_then(Value::as_array);
            let mut items = items.into_iter().flatten();
            let ours = |it: &Value| text(it, "/spec/csi/driver") == Some(self.deployment.driver());
            left = self.stored("/left_over")?;
            let mut numbers = left.as_object().into_iter().flatten();
            Ok(!items.any(ours) && numbers.all(|(_, number)| number == &json!(0)))
        });
        gone.with_context(|| format!("left over at the driver: {left}"))
            .with_context(|| provisioner.tail())
    }

    pub(super) fn calls(&self) -> Result<Calls> {
        Calls::read(&self.deployment.controller.record())
    }

    pub(super) fn phase(&self) -> Result<Requests> {
        self.audit.borrow_mut().phase()
    }

    /// Ends the scenario: the record must be clean, and the counts become a row of the table.
    pub(super) fn finish(&self) -> Result<Verdict> {
        self.phase()?;
        let calls = self.calls()?;
        calls.check(&Options::default())?;
        let audit = self.audit.borrow();
        let requests = audit.total();
        let number = |number: u64| number.to_string();
        let count = |method| calls.of(method).count().to_string();
        Ok(Verdict::Counted(vec![
            ("writes", number(writes(requests))),
            (
                "PV POST + PATCH + DELETE",
                ["create", "patch", "delete"]
                    .map(|verb| number(requests.on(verb, "persistentvolumes")))
                    .join(" + "),
            ),
            (
                "events",
                number(requests.count(|it| it.resource == "events")),
            ),
            ("GET", number(requests.verb("get"))),
            ("LIST", number(requests.verb("list"))),
            ("WATCH", number(requests.verb("watch"))),
            ("lease", number(requests.leases())),
            ("create", count("CreateVolume")),
            ("delete", count("DeleteVolume")),
        ]))
    }
}

/// Number of requests that change something for users: all but leases, events and access reviews.
pub(super) fn writes(requests: &Requests) -> u64 {
    let reads = ["get", "list", "watch"];
    let aside = ["leases", "events", "selfsubjectaccessreviews"];
    requests.count(|it: &Request| {
        !reads.contains(&it.verb.as_str()) && !aside.contains(&it.resource.as_str())
    })
}

/// Asserts a count of ours; another provisioner's is only printed.
pub(super) fn at_most(what: &str, is: u64, most: u64, requests: &Requests) -> Result<()> {
    if program::is_foreign(&program::provisioner()?)? {
        return Ok(());
    }
    ensure!(is <= most, "{what}: {is}, more than {most}: {requests}");
    Ok(())
}

/// Skips where the embedded driver's record is needed but another driver runs.
pub(super) fn skipped() -> Option<Verdict> {
    program::driver_is_foreign()
        .then(|| Verdict::Skipped("needs the record of the embedded driver".to_owned()))
}
