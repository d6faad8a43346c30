//! Common parts of the scenarios: a driver that replaced an in-tree plugin, a class of the plugin,
//! and all three controllers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use csi_test_driver::invariants::Options;
use e2e::api::{Api, text};
use e2e::calls::Calls;
use e2e::cluster::Cluster;
use e2e::controller::{ATTACHER, Controller, LONG_LEASE, PROVISIONER, RESIZER, Route};
use e2e::deployment::{Deployment, NodePod};
use e2e::object::Binding;
use e2e::process::Programs;
use e2e::suite::Verdict;
use e2e::{object, program, wait};
use serde_json::{Value, json};

/// A wait beyond this means that something hangs.
pub(super) const SOON: Duration = Duration::from_secs(60);

pub(super) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(super) const VOLUMES: &str = "/api/v1/persistentvolumes";
const STORAGE: &str = "/apis/storage.k8s.io/v1";

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

/// A plugin and its translation.
#[derive(Clone, Copy)]
pub(super) struct Plugin {
    pub(super) name: &'static str,
    pub(super) driver: &'static str,
    /// Field of its source in a PersistentVolume.
    pub(super) source: &'static str,
    /// The driver's topology key for zones, the zone, and its region.
    pub(super) zone: (&'static str, &'static str, &'static str),
    /// Beginning of the driver's volume handles.
    pub(super) ids: &'static str,
    pub(super) parameters: &'static [(&'static str, &'static str)],
}

/// The driver of a plugin, a class `NAME` of the plugin, and the controllers.
pub(super) struct Scene<'a> {
    pub(super) api: Api,
    pub(super) plugin: Plugin,
    pub(super) name: &'static str,
    pub(super) deployment: Deployment<'a>,
    controllers: [Controller<'a>; 3],
}

impl<'a> Scene<'a> {
    /// Neither driver nor sidecars run yet.
    pub(super) fn new(cluster: &'a Cluster, name: &'static str, plugin: Plugin) -> Result<Self> {
        let api = cluster.api()?;
        let ids = format!("--volume-id-prefix={}", plugin.ids);
        let flags = [
            "--enable-attach=true",
            "--fs-images=true",
            "--sync=false",
            &ids,
        ];
        let deployment = Deployment::new(cluster, &api, plugin.driver, &flags)?;
        let install = |sidecar| Controller::install(cluster, sidecar, &deployment.controller);
        let controllers = [install(PROVISIONER)?, install(ATTACHER)?, install(RESIZER)?];
        let [provisioner, attacher, resizer] = &controllers;
        if provisioner.is_under_upstreams_rules()? {
            allow_upstreams(&api, provisioner)?;
        }
        let leases = "coordination.k8s.io";
        for controller in &controllers {
            controller.until_permitted(&api, leases, "leases", "create")?;
        }
        provisioner.until_permitted(&api, "", "persistentvolumes", "delete")?;
        attacher.until_permitted(&api, "storage.k8s.io", "volumeattachments/status", "patch")?;
        resizer.until_permitted(&api, "", "persistentvolumeclaims/status", "patch")?;
        let parameters: serde_json::Map<String, Value> = { plugin.parameters.iter() }
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        let class = object::storage_class(name, plugin.name, Binding::Immediate);
        let class = object::with(class, &json!({ "parameters": parameters }));
        api.create(&format!("{STORAGE}/storageclasses"), &class)?;
        Ok(Self {
            api,
            plugin,
            name,
            deployment,
            controllers,
        })
    }

    /// Starts the driver's pod on the first node, which gets the labels that a cloud gives to its
    /// nodes.
    pub(super) fn start_node(&self) -> Result<NodePod<'a>> {
        let (key, zone, region) = self.plugin.zone;
        let node = self
            .deployment
            .start_node(0, &[&format!("--topology={key}={zone}")])?;
        self.label(&node, &json!({ ZONE: zone, REGION: region }))?;
        Ok(node)
    }

    /// Removes the labels.
    pub(super) fn unlabel(&self, node: &NodePod<'_>) -> Result<()> {
        self.label(node, &json!({ ZONE: null, REGION: null }))
    }

    fn label(&self, node: &NodePod<'_>, labels: &Value) -> Result<()> {
        let path = format!("/api/v1/nodes/{}", node.seat.node);
        let patch = json!({ "metadata": { "labels": labels } });
        self.api.merge(&path, &patch).map(drop)
    }

    /// Starts the controllers under test.
    pub(super) fn start(&self) -> Result<Programs> {
        let programs: [fn() -> Result<_>; 3] =
            [program::provisioner, program::attacher, program::resizer];
        self.start_programs(programs)
    }

    /// Starts other programs in their place.
    pub(super) fn start_programs(
        &self,
        programs: [fn() -> Result<std::path::PathBuf>; 3],
    ) -> Result<Programs> {
        let [lease, deadline] = LONG_LEASE;
        let flags = ["--leader-election", "-v=2", lease, deadline];
        let started = self
            .controllers
            .iter()
            .zip(programs)
            .map(|(it, program)| it.of(program).start("0", Route::Direct, &flags));
        Ok(Programs::of(started.collect::<Result<_>>()?))
    }

    /// Grants the permissions that upstream's programs need beyond ours.
    pub(super) fn allow_upstreams(&self) -> Result<()> {
        let [provisioner, ..] = &self.controllers;
        allow_upstreams(&self.api, provisioner)
    }

    /// Waits for an effect of the sidecars.
    pub(super) fn until<T>(
        &self,
        sidecars: &mut Programs,
        what: &str,
        mut probe: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let found = wait::until(SOON, what, || {
            sidecars.must_run()?;
            probe()
        });
        found.with_context(|| sidecars.tails())
    }

    pub(super) fn claim(&self, name: &str) -> Result<Value> {
        self.api.get(&format!("{CLAIMS}/{name}"))
    }

    pub(super) fn volume(&self, name: &str) -> Result<Value> {
        self.api.get(&format!("{VOLUMES}/{name}"))
    }

    /// Waits until the claim is bound. Returns the name of its PersistentVolume.
    pub(super) fn until_bound(&self, sidecars: &mut Programs, claim: &str) -> Result<String> {
        let bound = self.until(sidecars, &format!("claim {claim} is bound"), || {
            let claim = self.claim(claim)?;
            let bound = text(&claim, "/status/phase") == Some("Bound");
            let volume = text(&claim, "/spec/volumeName").unwrap_or_default();
            Ok(bound.then(|| volume.to_owned()))
        });
        bound.with_context(|| self.api.events("default", claim))
    }

    /// The VolumeAttachment that matches `is`.
    pub(super) fn attachment(&self, is: impl Fn(&Value) -> bool) -> Result<Option<Value>> {
        let list = self.api.get(&format!("{STORAGE}/volumeattachments"))?;
        let items = list.pointer("/items").and_then(Value::as_array);
        Ok(items.into_iter().flatten().find(|it| is(it)).cloned())
    }

    pub(super) fn calls(&self) -> Result<Calls> {
        Calls::read(&self.deployment.controller.record())
    }

    /// Waits until the driver has nothing left but so many volumes.
    pub(super) fn until_left(&self, sidecars: &mut Programs, volumes: u64) -> Result<()> {
        let control = self.deployment.controller.control();
        let mut left = Value::Null;
        let what = format!("{volumes} volumes are left, and nothing else");
        let done = self.until(sidecars, &what, || {
            left = control
                .state()?
                .pointer("/left_over")
                .cloned()
                .unwrap_or_default();
            let mut others = left.as_object().into_iter().flatten();
            let number = |key: &str| if key == "volumes" { volumes } else { 0 };
            let done = others.all(|(key, count)| *count == json!(number(key)));
            Ok(done.then_some(()))
        });
        done.with_context(|| format!("left over at the driver: {left}"))
    }

    /// Ends the scenario: the record must be clean.
    pub(super) fn finish(&self, node: &NodePod<'_>) -> Result<Verdict> {
        self.unlabel(node)?;
        self.calls()?.check(&Options::default())?;
        Ok(Verdict::Passed)
    }
}

/// Without this permission the informers of upstream's provisioner never sync.
fn allow_upstreams(api: &Api, provisioner: &Controller<'_>) -> Result<()> {
    let group = "storage.k8s.io";
    let classes = json!([{
        "apiGroups": [group], "resources": ["volumeattributesclasses"],
        "verbs": ["get", "list", "watch"],
    }]);
    provisioner.allow(api, &classes)?;
    provisioner.until_permitted(api, group, "volumeattributesclasses", "list")
}

/// The value of an annotation.
pub(super) fn annotation<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// Fails unless the object has the finalizer.
pub(super) fn must_have(object: &Value, finalizer: &str) -> Result<()> {
    let finalizers = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array);
    let has = finalizers.is_some_and(|held| held.iter().any(|held| held == finalizer));
    ensure!(has, "{finalizer} is missing: {object:#}");
    Ok(())
}

/// Skips where the embedded driver's record is needed but another driver runs.
pub(super) fn skipped() -> Option<Verdict> {
    program::driver_is_foreign()
        .then(|| Verdict::Skipped("needs a driver whose ids can be chosen".to_owned()))
}
