//! Common parts of the scenarios: a driver whose snapshots are copies, its provisioner and
//! snapshotter, and the cluster's snapshot-controller.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use csi_test_driver::invariants::Options;
use e2e::api::{Api, text};
use e2e::calls::Calls;
use e2e::cluster::Cluster;
use e2e::controller::{
    Controller, LONG_LEASE, PROVISIONER, Route, SNAPSHOT_CONTROLLER, SNAPSHOTTER,
};
use e2e::deployment::{Deployment, NodePod, Pod};
use e2e::object::Binding;
use e2e::process::{Process, Programs};
use e2e::requests::{AuditLog, Requests};
use e2e::suite::Verdict;
use e2e::{object, program, snapshots, wait};
use serde_json::{Value, json};

/// A wait beyond this means that something hangs.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// The limit for scenarios with a lot of work.
pub(super) const LONG: Duration = Duration::from_secs(180);

pub(super) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(super) const SNAPSHOTS: &str =
    "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";
pub(super) const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";
const CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// The finalizer of a claim while a snapshot is taken of it.
pub(super) const CLAIM_FINALIZER: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";

/// One driver, a StorageClass of its name, VolumeSnapshotClasses `delete.DRIVER` and `retain.DRIVER`.
pub(super) struct Scene<'a> {
    pub(super) api: Api,
    pub(super) deployment: Deployment<'a>,
    pub(super) provisioner: Controller<'a>,
    pub(super) snapshotter: Controller<'a>,
    pub(super) controller: Controller<'a>,
    audits: RefCell<[AuditLog<'a>; 2]>,
}

impl<'a> Scene<'a> {
    /// The driver is `<name>.snapshot.test`; nothing runs yet.
    pub(super) fn new(cluster: &'a Cluster, name: &str) -> Result<Self> {
        Self::with(cluster, name, "--enable-attach=false")
    }

    /// The same, with one more flag of the driver.
    pub(super) fn with(cluster: &'a Cluster, name: &str, flag: &str) -> Result<Self> {
        let api = cluster.api()?;
        snapshots::install(cluster, &api)?;
        let driver = format!("{name}.snapshot.test");
        let flags = ["--enable-topology=false", "--sync=false", flag];
        let deployment = Deployment::new(cluster, &api, &driver, &flags)?;
        let install = |sidecar| Controller::install(cluster, sidecar, &deployment.controller);
        let provisioner = install(PROVISIONER)?;
        let (snapshotter, controller) = (install(SNAPSHOTTER)?, install(SNAPSHOT_CONTROLLER)?);
        if provisioner.is_under_upstreams_rules()? {
            provisioner.allow(&api, &upstreams_provisioner())?;
        }
        // Without them upstream's controller waits half a minute for kinds that it cannot list.
        if controller.is_under_upstreams_rules()? {
            controller.allow(&api, &snapshots::group_rules())?;
        }
        let group = "snapshot.storage.k8s.io";
        provisioner.until_permitted(&api, group, "volumesnapshots", "get")?;
        snapshotter.until_permitted(&api, group, "volumesnapshotcontents/status", "patch")?;
        controller.until_permitted(&api, group, "volumesnapshotcontents", "create")?;
        for it in [&provisioner, &snapshotter, &controller] {
            it.until_permitted(&api, "coordination.k8s.io", "leases", "create")?;
        }
        let class = object::storage_class(&driver, &driver, Binding::Immediate);
        api.create("/apis/storage.k8s.io/v1/storageclasses", &class)?;
        for policy in ["Delete", "Retain"] {
            let name = format!("{}.{driver}", policy.to_lowercase());
            api.create(CLASSES, &object::snapshot_class(&name, &driver, policy))?;
        }
        let audits = [
            AuditLog::of(cluster, &controller.user())?,
            AuditLog::of(cluster, &snapshotter.user())?,
        ];
        Ok(Self {
            api,
            deployment,
            provisioner,
            snapshotter,
            controller,
            audits: RefCell::new(audits),
        })
    }

    /// Name of the class that deletes snapshots with their VolumeSnapshots.
    pub(super) fn deleting(&self) -> String {
        format!("delete.{}", self.deployment.driver())
    }

    /// Name of the class that retains snapshots.
    pub(super) fn retaining(&self) -> String {
        format!("retain.{}", self.deployment.driver())
    }

    /// Grants what upstream's programs need, which run under the same accounts.
    pub(super) fn allow_upstreams(&self) -> Result<()> {
        for it in [&self.snapshotter, &self.controller] {
            if !it.is_under_upstreams_rules()? {
                it.allow_as_upstream(&self.api)?;
            }
        }
        let group = "snapshot.storage.k8s.io";
        self.snapshotter
            .until_permitted(&self.api, group, "volumesnapshotcontents", "update")?;
        self.controller
            .until_permitted(&self.api, group, "volumesnapshots", "update")
    }

    pub(super) fn start_provisioner(&self) -> Result<Process> {
        self.provisioner.start("0", Route::Direct, &["-v=2"])
    }

    pub(super) fn start_snapshotter(&self, route: Route, flags: &[&str]) -> Result<Process> {
        start(&self.snapshotter, route, flags)
    }

    pub(super) fn start_controller(&self, route: Route, flags: &[&str]) -> Result<Process> {
        start(&self.controller, route, flags)
    }

    /// Starts all three programs.
    pub(super) fn start(&self) -> Result<Programs> {
        let [lease, deadline] = LONG_LEASE;
        let election = ["--leader-election", lease, deadline];
        Ok(Programs::of(vec![
            self.start_provisioner()?,
            self.start_controller(Route::Direct, &election)?,
            self.start_snapshotter(Route::Direct, &election)?,
        ]))
    }

    /// Creates a claim, and waits for its volume's name.
    pub(super) fn claim(&self, programs: &mut Programs, claim: &Value) -> Result<String> {
        let name = text(claim, "/metadata/name").unwrap_or_default().to_owned();
        self.api.create(CLAIMS, claim)?;
        let bound = self.until(programs, &format!("claim {name} is bound"), || {
            let claim = self.api.get(&format!("{CLAIMS}/{name}"))?;
            let bound = text(&claim, "/status/phase") == Some("Bound");
            let volume = text(&claim, "/spec/volumeName").unwrap_or_default();
            Ok(bound.then(|| volume.to_owned()))
        });
        bound.with_context(|| self.api.events("default", &name))
    }

    /// Creates a claim for an empty volume.
    pub(super) fn empty_claim(&self, programs: &mut Programs, name: &str) -> Result<String> {
        self.claim(
            programs,
            &object::claim(name, self.deployment.driver(), "1Mi"),
        )
    }

    /// Creates a claim for a copy of a VolumeSnapshot or claim.
    pub(super) fn claim_from(
        &self,
        programs: &mut Programs,
        name: &str,
        (kind, source): (&str, &str),
    ) -> Result<String> {
        let class = self.deployment.driver();
        let claim = object::claim_from(name, class, "1Mi", kind, source);
        self.claim(programs, &claim)
    }

    /// Creates claims that are bound to volumes which the storage's administrator made.
    pub(super) fn made_claims(&self, names: &[String]) -> Result<()> {
        let control = self.deployment.controller.control();
        let handles = control.make_volumes(names, 1 << 20)?;
        let driver = self.deployment.driver();
        for (name, handle) in names.iter().zip(&handles) {
            let volume = object::persistent_volume(name, driver, handle);
            self.api.create(VOLUMES, &volume)?;
            self.api.create(CLAIMS, &object::claim_of(name, name))?;
        }
        wait::until_true(SOON, "the claims are bound", || {
            names.iter().try_fold(true, |all, name| {
                let claim = self.api.get(&format!("{CLAIMS}/{name}"))?;
                Ok(all && text(&claim, "/status/phase") == Some("Bound"))
            })
        })
    }

    /// Removes those claims and volumes.
    pub(super) fn forget_claims(&self, names: &[String]) -> Result<()> {
        let control = self.deployment.controller.control();
        for name in names {
            let volume = self.api.get(&format!("{VOLUMES}/{name}"))?;
            let handle = text(&volume, "/spec/csi/volumeHandle");
            let forget = json!({ "volumes": [handle] });
            self.api.delete(&format!("{CLAIMS}/{name}"))?;
            self.api.until_gone(SOON, &format!("{CLAIMS}/{name}"))?;
            self.api.delete(&format!("{VOLUMES}/{name}"))?;
            control.ask("POST", "/forget", Some(&forget))?;
        }
        Ok(())
    }

    /// Creates a VolumeSnapshot of a claim.
    pub(super) fn snapshot(&self, name: &str, class: &str, claim: &str) -> Result<Value> {
        self.api
            .create(SNAPSHOTS, &object::snapshot_of(name, class, claim))
    }

    /// Waits until the VolumeSnapshot is ready. Returns it and its content.
    pub(super) fn until_ready(
        &self,
        programs: &mut Programs,
        name: &str,
    ) -> Result<(Value, Value)> {
        let what = format!("VolumeSnapshot {name} is ready");
        let snapshot = self.until(programs, &what, || {
            let snapshot = self.api.get(&format!("{SNAPSHOTS}/{name}"))?;
            Ok(is_ready(&snapshot).then_some(snapshot))
        });
        let snapshot = snapshot.with_context(|| self.api.events("default", name))?;
        let content = text(&snapshot, "/status/boundVolumeSnapshotContentName");
        let content = content.context("a ready VolumeSnapshot without content")?;
        let content = self.api.get(&format!("{CONTENTS}/{content}"))?;
        Ok((snapshot, content))
    }

    /// Deletes a VolumeSnapshot and waits until it is gone.
    pub(super) fn delete(&self, programs: &mut Programs, name: &str) -> Result<()> {
        let path = format!("{SNAPSHOTS}/{name}");
        self.api.delete(&path)?;
        let gone = self.until(programs, &format!("VolumeSnapshot {name} is gone"), || {
            Ok(self.api.find(&path)?.is_none().then_some(()))
        });
        gone.with_context(|| self.api.events("default", name))
    }

    /// Runs `story` while a pod on the node uses the claim's volume.
    pub(super) fn with_pod<T>(
        &self,
        programs: &mut Programs,
        node: &NodePod<'_>,
        (claim, volume): (&str, &str),
        story: impl FnOnce(&Pod) -> Result<T>,
    ) -> Result<T> {
        let mut pod = Pod::create(&self.api, claim, Some(&node.seat.node), claim)?;
        pod.until_running(&self.api)
            .with_context(|| programs.tails())?;
        pod.must_be_mounted(&node.seat, volume)?;
        let told = story(&pod)?;
        self.api.delete(&pod.path)?;
        self.api.until_gone(SOON, &pod.path)?;
        // Without attachments nothing keeps a volume that is still staged on a node.
        wait::until_true(SOON, "no volume is staged", || {
            Ok(self.stored("/left_over/staged")? == json!(0))
        })?;
        Ok(told)
    }

    /// Waits for an effect of the programs.
    pub(super) fn until<T>(
        &self,
        programs: &mut Programs,
        what: &str,
        mut probe: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let found = wait::until(SOON, what, || {
            programs.must_run()?;
            probe()
        });
        found.with_context(|| programs.tails())
    }

    /// The storage's state at `pointer`.
    pub(super) fn stored(&self, pointer: &str) -> Result<Value> {
        let state = self.deployment.controller.control().state()?;
        Ok(state.pointer(pointer).cloned().unwrap_or_default())
    }

    /// Handles of the snapshots in the storage that were taken for this VolumeSnapshot.
    pub(super) fn handles_for(&self, uid: &str) -> Result<Vec<String>> {
        let all = self.stored("/snapshots")?;
        let name = format!("snapshot-{uid}");
        let all = all.as_object().into_iter().flatten();
        let taken = all.filter(|(_, it)| text(it, "/name") == Some(&name));
        Ok(taken.map(|(handle, _)| handle.clone()).collect())
    }

    pub(super) fn calls(&self) -> Result<Calls> {
        Calls::read(&self.deployment.controller.record())
    }

    /// Waits until no object of this driver and nothing in its storage is left.
    pub(super) fn until_nothing_is_left(&self, programs: &mut Programs) -> Result<()> {
        let mut left = String::new();
        let done = self.until(programs, "nothing is left", || {
            left = self.left()?;
            Ok(left.is_empty().then_some(()))
        });
        done.with_context(|| format!("left over: {left}"))
    }

    /// Lists the snapshots and volumes that are left, as objects and in the storage; empty if there
    /// are none.
    fn left(&self) -> Result<String> {
        let driver = self.deployment.driver();
        let mut left = Vec::new();
        for (path, field) in [(CONTENTS, "/spec/driver"), (VOLUMES, "/spec/csi/driver")] {
            let ours = |it: &Value| text(it, field) == Some(driver);
            left.extend(self.named(path, ours)?);
        }
        let suffix = format!(".{driver}");
        let ours = |it: &Value| {
            text(it, "/spec/volumeSnapshotClassName").is_some_and(|it| it.ends_with(&suffix))
        };
        left.extend(self.named(SNAPSHOTS, ours)?);
        left.extend(self.named(CLAIMS, |it| {
            text(it, "/spec/storageClassName") == Some(driver)
                || it.to_string().contains(CLAIM_FINALIZER)
        })?);
        let counts = self.stored("/left_over")?;
        ensure!(counts.is_object(), "the driver does not say what is left");
        for (kind, number) in counts.as_object().into_iter().flatten() {
            if *number != json!(0) {
                left.push(format!("{number} {kind} in the storage"));
            }
        }
        for folder in ["snapshots", "volumes"] {
            let path = self.deployment.controller.dir.join("state").join(folder);
            for entry in std::fs::read_dir(path)? {
                left.push(entry?.path().display().to_string());
            }
        }
        Ok(left.join(", "))
    }

    /// Whether no content of this driver and no snapshot in its storage is left.
    pub(super) fn has_no_snapshot(&self) -> Result<bool> {
        let driver = self.deployment.driver();
        let contents = self.named(CONTENTS, |it| text(it, "/spec/driver") == Some(driver))?;
        let data = self.deployment.controller.dir.join("state/snapshots");
        let is_empty = std::fs::read_dir(data)?.next().is_none();
        Ok(contents.is_empty() && is_empty && self.stored("/left_over/snapshots")? == json!(0))
    }

    fn named(&self, path: &str, chosen: impl Fn(&Value) -> bool) -> Result<Vec<String>> {
        let list = self.api.get(path)?;
        let items = list.pointer("/items").and_then(Value::as_array);
        let chosen = items.into_iter().flatten().filter(|it| chosen(it));
        let name =
            |it: &Value| format!("{path}/{}", text(it, "/metadata/name").unwrap_or_default());
        Ok(chosen.map(name).collect())
    }

    /// Ends the scenario: the record must be clean, and the counts become a row of the table.
    pub(super) fn finish(&self) -> Result<Verdict> {
        let calls = self.calls()?;
        calls.check(&Options::default())?;
        let mut audits = self.audits.borrow_mut();
        let mut columns = Vec::new();
        let titles = [
            ["controller: writes", "reads", "events"],
            ["snapshotter: writes", "reads", "events"],
        ];
        for (audit, titles) in audits.iter_mut().zip(titles) {
            audit.phase()?;
            let counts = counts(audit.total());
            columns.extend(titles.into_iter().zip(counts));
        }
        for method in ["CreateSnapshot", "ListSnapshots", "DeleteSnapshot"] {
            columns.push((method, calls.of(method).count().to_string()));
        }
        Ok(Verdict::Counted(columns))
    }
}

fn start(controller: &Controller<'_>, route: Route, flags: &[&str]) -> Result<Process> {
    let mut all = vec!["-v=2"];
    all.extend(flags);
    controller.start("0", route, &all)
}

/// Counts of writes, reads (without watches) and events.
fn counts(requests: &Requests) -> [String; 3] {
    let aside = ["leases", "events", "selfsubjectaccessreviews"];
    let count = |verbs: &[&str]| {
        requests
            .count(|it| verbs.contains(&it.verb.as_str()) && !aside.contains(&it.resource.as_str()))
    };
    let writes = count(&["create", "update", "patch", "delete"]);
    let reads = count(&["get", "list"]);
    let events = requests.count(|it| it.resource == "events");
    [writes, reads, events].map(|number| number.to_string())
}

/// The rules that upstream's provisioner needs beyond its manifest.
fn upstreams_provisioner() -> Value {
    json!([{
        "apiGroups": ["storage.k8s.io"], "resources": ["volumeattributesclasses"],
        "verbs": ["get", "list", "watch"],
    }, {
        "apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshots"],
        "verbs": ["get", "list", "watch", "update", "patch"],
    }])
}

pub(super) fn is_ready(snapshot: &Value) -> bool {
    snapshot.pointer("/status/readyToUse") == Some(&Value::Bool(true))
}

/// Whether no snapshot holds the claim: its finalizer is removed after the snapshot is ready.
pub(super) fn is_free(scene: &Scene<'_>, claim: &str) -> Result<bool> {
    let claim = scene.api.get(&format!("{CLAIMS}/{claim}"))?;
    Ok(!claim.to_string().contains(CLAIM_FINALIZER))
}

/// Skips where the embedded driver's record is needed but another driver runs.
pub(super) fn skipped() -> Option<Verdict> {
    program::driver_is_foreign()
        .then(|| Verdict::Skipped("needs the storage and record of the embedded driver".to_owned()))
}
