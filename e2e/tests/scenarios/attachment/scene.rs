//! Common parts of the scenarios: a driver's controller, an attacher beside it, and the counts of
//! requests.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use csi_test_driver::control::client::Client;
use csi_test_driver::invariants::Options;
use e2e::api::Api;
use e2e::calls::Calls;
use e2e::cluster::Cluster;
use e2e::controller::{ATTACHER, Controller, LONG_LEASE, Route};
use e2e::deployment::Deployment;
use e2e::process::Process;
use e2e::requests::{AuditLog, Request, Requests};
use e2e::suite::Verdict;
use e2e::{object, program, wait};
use serde_json::{Value, json};

pub(super) const STORAGE: &str = "/apis/storage.k8s.io/v1";
pub(super) const PUBLISH: &str = "ControllerPublishVolume";
pub(super) const UNPUBLISH: &str = "ControllerUnpublishVolume";

/// Flags of all processes of the driver.
const FLAGS: [&str; 3] = [
    "--enable-attach=true",
    "--enable-topology=false",
    "--sync=false",
];

/// A wait beyond this means that something hangs.
pub(super) const SOON: Duration = Duration::from_secs(90);

/// A volume that exists in the storage and in Kubernetes.
#[derive(Debug, Clone)]
pub(super) struct Volume {
    /// Name of the PersistentVolume; its VolumeAttachment has the same one.
    pub(super) name: String,
    /// The driver's handle.
    pub(super) handle: String,
}

impl Volume {
    pub(super) fn path(&self) -> String {
        format!("/api/v1/persistentvolumes/{}", self.name)
    }

    pub(super) fn attachment(&self) -> String {
        format!("{STORAGE}/volumeattachments/{}", self.name)
    }
}

/// One driver with its controller pod and an attacher in it.
pub(super) struct Scene<'a> {
    pub(super) api: Api,
    pub(super) deployment: Deployment<'a>,
    pub(super) attacher: Controller<'a>,
    audit: RefCell<AuditLog<'a>>,
    /// How often an attacher had to be restarted; only other projects' may be.
    restarts: Cell<u32>,
    name: &'static str,
}

impl<'a> Scene<'a> {
    /// The driver is `<name>.attach.test`; neither it nor the attacher runs yet.
    pub(super) fn new(cluster: &'a Cluster, name: &'static str) -> Result<Self> {
        let api = cluster.api()?;
        let driver = format!("{name}.attach.test");
        let deployment = Deployment::new(cluster, &api, &driver, &FLAGS)?;
        let attacher = Controller::install(cluster, ATTACHER, &deployment.controller)?;
        let audit = AuditLog::of(cluster, &attacher.user())?;
        attacher.until_permitted(&api, "storage.k8s.io", "volumeattachments/status", "patch")?;
        attacher.until_permitted(&api, "coordination.k8s.io", "leases", "create")?;
        Ok(Self {
            api,
            deployment,
            attacher,
            audit: RefCell::new(audit),
            restarts: Cell::new(0),
            name,
        })
    }

    /// Starts the driver's controller process; volumes can be attached to nodes that no driver runs
    /// on.
    pub(super) fn start_driver(&self) -> Result<Process> {
        self.deployment
            .start_controller(&["--accept-any-node=true"])
    }

    /// Name of the driver.
    pub(super) fn driver(&self) -> &str {
        self.deployment.driver()
    }

    pub(super) fn control(&self) -> Client {
        self.deployment.controller.control()
    }

    /// Starts an attacher with a leader's lease, as drivers deploy it.
    pub(super) fn start_attacher(&self, flags: &[&str]) -> Result<Running<'_, 'a>> {
        Running::start(self, "0", Route::Direct, flags)
    }

    /// Creates volumes and their PersistentVolumes.
    pub(super) fn volumes(&self, number: usize) -> Result<Vec<Volume>> {
        let names: Vec<_> = (0..number)
            .map(|index| format!("{}-{index}", self.name))
            .collect();
        let handles = self.control().make_volumes(&names, 1 << 20)?;
        let volumes = names.into_iter().zip(handles);
        let volumes: Vec<_> = volumes
            .map(|(name, handle)| Volume { name, handle })
            .collect();
        let objects: Vec<_> = volumes
            .iter()
            .map(|it| object::persistent_volume(&it.name, self.driver(), &it.handle))
            .collect();
        self.api.create_all("/api/v1/persistentvolumes", &objects)?;
        Ok(volumes)
    }

    /// A node without kubelet on which the driver is registered.
    pub(super) fn pretend_node(&self, name: &str) -> Result<()> {
        self.api.create("/api/v1/nodes", &object::node(name))?;
        self.register(name)
    }

    pub(super) fn register(&self, node: &str) -> Result<()> {
        let csinode = object::csi_node(node, self.driver(), &format!("id-of-{node}"));
        self.api.create(&format!("{STORAGE}/csinodes"), &csinode)?;
        Ok(())
    }

    /// Creates a VolumeAttachment, as kube-controller-manager does.
    pub(super) fn attach(&self, volume: &Volume, node: &str) -> Result<()> {
        let object = object::volume_attachment(&volume.name, self.driver(), &volume.name, node);
        self.api
            .create(&format!("{STORAGE}/volumeattachments"), &object)?;
        Ok(())
    }

    /// Deletes the VolumeAttachment.
    pub(super) fn detach(&self, volume: &Volume) -> Result<()> {
        self.api.delete(&volume.attachment())
    }

    pub(super) fn attached(&self, volume: &Volume) -> Result<bool> {
        let object = self.api.get(&volume.attachment())?;
        Ok(object.pointer("/status/attached") == Some(&Value::Bool(true)))
    }

    pub(super) fn gone(&self, volume: &Volume) -> Result<bool> {
        Ok(self.api.find(&volume.attachment())?.is_none())
    }

    /// The calls so far to all processes of the driver.
    pub(super) fn calls(&self) -> Result<Calls> {
        Calls::read(&self.deployment.controller.record())
    }

    /// Number of publish and unpublish calls for the volume.
    pub(super) fn asked(&self, volume: &Volume) -> Result<(usize, usize)> {
        let calls = self.calls()?.about(&volume.handle);
        Ok((calls.of(PUBLISH).count(), calls.of(UNPUBLISH).count()))
    }

    /// Makes the driver hold calls of a method for the volume, before or after the work.
    pub(super) fn hold(&self, rule: &str, method: &str, volume: &Volume, at: &str) -> Result<()> {
        let rule = json!({
            "id": rule,
            "match": { "method": method, "volume": volume.handle },
            "action": { "hold": true, "at": at },
        });
        self.control().add_rule(&serde_json::from_value(rule)?)?;
        Ok(())
    }

    /// Waits until the driver holds that many calls by the rule.
    pub(super) fn until_held(&self, rule: &str, number: u64) -> Result<()> {
        wait::until_true(
            SOON,
            &format!("the driver holds {number} of {rule}"),
            || {
                let rules = self.control().rules()?;
                let held = rules.iter().find(|it| it.rule.id == rule);
                Ok(held.is_some_and(|it| it.applied == number))
            },
        )
    }

    /// The attacher's requests to the API server since the last phase.
    pub(super) fn phase(&self) -> Result<Requests> {
        self.audit.borrow_mut().phase()
    }

    /// Asserts the attacher's number of PATCH requests since the last phase. An object is gone
    /// before the last request about it, so this waits for them; any further request is counted in
    /// the next phase.
    pub(super) fn patches(&self, what: &str, number: u64) -> Result<()> {
        let what = format!("PATCH requests, {what}");
        let mut sent = 0;
        let mut last = Requests::default();
        let enough = wait::until_true(SOON, &what, || {
            last = self.phase()?;
            // While a volume is deleted, another controller removes its finalizer too; the second
            // one's patch is based on an older list, is refused, and is repeated.
            sent += last.verb("patch") - last.count(|it| it.code == 422);
            Ok(sent >= number)
        });
        enough.with_context(|| format!("{sent} instead of {number}"))?;
        exactly(&what, sent, number).with_context(|| last.to_string())
    }

    /// Ends the scenario: the record must be clean, and the counts become a row of the table.
    pub(super) fn finish(&self, options: &Options) -> Result<Verdict> {
        self.phase()?;
        let calls = self.calls()?;
        calls.check(options)?;
        let audit = self.audit.borrow();
        let requests = audit.total();
        let [pv, va, status] = [
            "persistentvolumes",
            "volumeattachments",
            "volumeattachments/status",
        ]
        .map(|path| requests.on("patch", path));
        let known = ["patch", "get", "list", "watch"];
        let other = |it: &Request| !known.contains(&it.verb.as_str()) && it.resource != "leases";
        let number = |number: u64| number.to_string();
        Ok(Verdict::Counted(vec![
            ("PATCH", number(requests.verb("patch"))),
            ("pv + va + va/status", format!("{pv} + {va} + {status}")),
            ("GET", number(requests.verb("get"))),
            ("LIST", number(requests.verb("list"))),
            ("WATCH", number(requests.verb("watch"))),
            ("other", number(requests.count(other))),
            ("lease", number(requests.leases())),
            ("publish", calls.of(PUBLISH).count().to_string()),
            ("unpublish", calls.of(UNPUBLISH).count().to_string()),
            ("restarts", self.restarts.get().to_string()),
        ]))
    }

    /// Asserts that no request was refused for want of permission, except for events, which
    /// upstream's manifest does not grant.
    pub(super) fn permitted(&self) -> Result<()> {
        let audit = self.audit.borrow();
        let requests = audit.total();
        let refused = requests.count(|it| it.code == 403 && it.resource != "events");
        ensure!(refused == 0, "{refused} requests refused: {requests}");
        Ok(())
    }

    /// Asserts that the driver has no attached volume.
    pub(super) fn nothing_attached(&self) -> Result<()> {
        let state = self.control().state()?;
        let attachments = state.pointer("/left_over/attachments");
        ensure!(
            attachments == Some(&json!(0)),
            "attachments left in the driver: {attachments:?}"
        );
        Ok(())
    }
}

/// A running replica.
pub(super) struct Running<'s, 'a> {
    scene: &'s Scene<'a>,
    pub(super) process: Process,
    replica: &'static str,
    route: Route,
    flags: Vec<String>,
}

impl<'s, 'a> Running<'s, 'a> {
    pub(super) fn start(
        scene: &'s Scene<'a>,
        replica: &'static str,
        route: Route,
        flags: &[&str],
    ) -> Result<Self> {
        // A call that the driver holds does not time out on a machine that stalls.
        let usual = ["--leader-election", "-v=2", "--timeout=5m"];
        let all = [&usual[..], &LONG_LEASE, flags].concat();
        let all: Vec<_> = all.into_iter().map(str::to_owned).collect();
        Ok(Self {
            process: launch(scene, replica, route, &all)?,
            scene,
            replica,
            route,
            flags: all,
        })
    }

    /// Fails if our attacher has exited. Another one is restarted, as the kubelet would.
    fn keep(&mut self) -> Result<()> {
        let ended = self.process.must_run();
        if ended.is_err() && program::is_foreign(&program::attacher()?)? {
            self.process = launch(self.scene, self.replica, self.route, &self.flags)?;
            self.scene.restarts.set(self.scene.restarts.get() + 1);
            return Ok(());
        }
        ended
    }

    /// Waits for an effect of the attacher.
    pub(super) fn until(
        &mut self,
        what: &str,
        mut probe: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let done = wait::until(SOON, what, || match self.keep() {
            Ok(()) => Ok(probe()?.then_some(Ok(()))),
            // Waiting longer for an attacher that has exited would only hide the cause.
            Err(ended) => Ok(Some(Err(ended))),
        });
        done.with_context(|| self.process.tail())?
    }

    pub(super) fn until_attached(&mut self, volumes: &[&Volume]) -> Result<()> {
        self.until_each(volumes, "attached", Scene::attached)
    }

    pub(super) fn until_gone(&mut self, volumes: &[&Volume]) -> Result<()> {
        self.until_each(volumes, "detached", Scene::gone)
    }

    fn until_each(
        &mut self,
        volumes: &[&Volume],
        state: &str,
        probe: fn(&Scene<'a>, &Volume) -> Result<bool>,
    ) -> Result<()> {
        for volume in volumes {
            let scene = self.scene;
            self.until(&format!("{} is {state}", volume.name), || {
                probe(scene, volume)
            })
            .with_context(|| {
                format!(
                    "{:#}",
                    scene.api.get(&volume.attachment()).unwrap_or_default()
                )
            })?;
        }
        Ok(())
    }
}

fn launch(
    scene: &Scene<'_>,
    replica: &'static str,
    route: Route,
    flags: &[String],
) -> Result<Process> {
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    scene.attacher.start(replica, route, &flags)
}

/// Asserts a count of ours. Another attacher's is only printed: upstream sometimes repeats calls
/// and requests where one is enough.
pub(super) fn exactly<T: PartialEq + std::fmt::Debug>(what: &str, is: T, must_be: T) -> Result<()> {
    if program::is_foreign(&program::attacher()?)? {
        return Ok(());
    }
    ensure!(is == must_be, "{what}: {is:?} instead of {must_be:?}");
    Ok(())
}

/// Skips where the embedded driver's record is needed but another driver runs.
pub(super) fn skipped() -> Option<Verdict> {
    program::driver_is_foreign().then(|| {
        Verdict::Skipped("needs the faults and the record of the embedded driver".to_owned())
    })
}
