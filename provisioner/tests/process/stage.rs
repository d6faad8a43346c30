//! The built program between a model API server and a model driver, with the fixture of the
//! acceptance tables.

use std::ops::Deref;

use csi_proto::csi::CreateVolumeRequest;
use serde_json::{Value, json};
use sidecar_testkit::api::record::Request;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::controller::{self, Dialect, Effect, Program, Work};
use sidecar_testkit::driver::ControllerRpc;
use tokio::task::{JoinSet, LocalSet};

pub(crate) use sidecar_testkit::controller::{
    PATIENCE, Running, free_address, get, settle, until_answer,
};

pub(crate) const DRIVER: &str = "test-driver";
pub(crate) const U: &str = "11111111-2222-3333-4444-555555555555";
pub(crate) const PV: &str = "pvc-11111111-2222-3333-4444-555555555555";
pub(crate) const GI: i64 = 1 << 30;
pub(crate) const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
pub(crate) const PROTECTION: &str = "kubernetes.io/pv-protection";
/// The Lease of the provisioning journal.
pub(crate) const JOURNAL: &str = "csi/test-driver-journal-0";
const INTENT: &str = "intent.csi-sidecars.io/";
pub(crate) const ANNOTATION: &str = "volume.kubernetes.io/storage-provisioner";
pub(crate) const READY: &str = "Starting CSI provisioner";
/// The shared flags, in the namespace of the journal.
pub(crate) const ELECTION: [&str; 4] = [
    controller::ELECTION[0],
    "--leader-election-namespace=csi",
    controller::ELECTION[2],
    controller::ELECTION[3],
];

pub(crate) static PROGRAM: Program = Program {
    built: env!("CARGO_BIN_EXE_csi-provisioner"),
    variable: "CSI_PROVISIONER_BINARY",
    ready: READY,
    dialect: Dialect::Pflag,
    fatal: 255,
    driver: DRIVER,
    lease: DRIVER,
    workers: "--worker-threads",
    arguments: &[],
    environment: &[("POD_NAMESPACE", "csi")],
    work: Work {
        prepare: |stage, _| {
            let can = vec![ControllerRpc::CreateDeleteVolume];
            stage.driver.configure(|model| model.controller = can);
            stage.api.insert(class());
        },
        ask: |stage, number| {
            stage.api.insert(many(number));
        },
        is_done: |stage, number| {
            let name = format!("pvc-uid-{number}");
            stage.api.object("persistentvolumes", &name).is_some()
        },
        effect: Effect::Call("CreateVolume"),
        subject: "claims/ns1/many-",
    },
    permissions: &[
        (
            "",
            "persistentvolumes",
            "get,list,watch,create,patch,delete",
        ),
        ("", "persistentvolumeclaims", "get,list,watch,update"),
        ("storage.k8s.io", "storageclasses", "list,watch"),
        ("coordination.k8s.io", "leases", "get,create,update"),
    ],
    withheld: ("", "persistentvolumes", "create"),
};

/// One of many claims: `ns1/many-N`.
pub(crate) fn many(number: usize) -> build::Claim {
    build::claim(&format!("ns1/many-{number}"))
        .class("sc1")
        .mode("RWO")
        .uid(&format!("uid-{number}"))
        .annotation(ANNOTATION, DRIVER)
}

/// The shared stage, with the fixture.
pub(crate) struct Stage(controller::Stage);

impl Deref for Stage {
    type Target = controller::Stage;

    fn deref(&self) -> &controller::Stage {
        &self.0
    }
}

/// The fixture's claim `ns1/c1` for 1Gi of class `sc1`.
pub(crate) fn claim() -> build::Claim {
    build::claim("ns1/c1")
        .class("sc1")
        .mode("RWO")
        .uid(U)
        .annotation(ANNOTATION, DRIVER)
}

/// The fixture's class.
pub(crate) fn class() -> build::Class {
    build::class("sc1").of(DRIVER)
}

/// A released volume `name` with handle `vol-NAME` and policy Delete.
pub(crate) fn released(name: &str) -> build::Volume {
    build::volume(name)
        .csi(DRIVER, &format!("vol-{name}"))
        .mode("RWO")
        .class("sc1")
        .bound_to("ns1/c1")
        .phase("Released")
        .uid(&format!("uid-{name}"))
        .annotation("pv.kubernetes.io/provisioned-by", DRIVER)
        .finalizer(PROTECTION)
        .finalizer(FINALIZER)
}

impl Stage {
    /// A stage with the fixture's driver and class.
    pub(crate) async fn new() -> Self {
        Self(controller::Stage::prepared(&PROGRAM, 0).await)
    }

    pub(crate) fn volume(&self, name: &str) -> Value {
        self.api
            .object("persistentvolumes", name)
            .unwrap_or_default()
    }

    pub(crate) fn claim(&self, name: &str) -> Value {
        self.api
            .object("persistentvolumeclaims", name)
            .unwrap_or_default()
    }

    /// UIDs of the claims whose intents are in the journal.
    pub(crate) fn intents(&self) -> Vec<String> {
        self.intents_in(JOURNAL)
    }

    pub(crate) fn intents_in(&self, lease: &str) -> Vec<String> {
        let lease = self.api.object("leases", lease).unwrap_or_default();
        let annotations = lease["metadata"]["annotations"].as_object().cloned();
        let names = annotations.into_iter().flatten().map(|(name, _)| name);
        names
            .filter_map(|name| name.strip_prefix(INTENT).map(str::to_owned))
            .collect()
    }

    /// Waits until the journal has no intents.
    pub(crate) async fn until_settled(&self) {
        self.until("the intents go", |stage| stage.intents().is_empty())
            .await;
    }

    /// Waits until `condition` holds.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        self.0.until(what, || condition(self)).await;
    }

    pub(crate) async fn until_volume(&self, name: &str) {
        self.until(name, |stage| !stage.volume(name).is_null())
            .await;
    }

    pub(crate) async fn until_volume_gone(&self, name: &str) {
        self.until(name, |stage| stage.volume(name).is_null()).await;
    }

    pub(crate) fn creations(&self) -> Vec<CreateVolumeRequest> {
        let calls = self.driver.calls_to("CreateVolume");
        calls
            .iter()
            .map(|call| call.request::<CreateVolumeRequest>().unwrap().clone())
            .collect()
    }

    /// Handles of the driver's volumes.
    pub(crate) fn handles(&self) -> Vec<String> {
        let mut handles = Vec::new();
        self.driver
            .configure(|model| handles = model.volumes.keys().cloned().collect());
        handles
    }

    /// Binds the claim to the volume, as kube-controller-manager does.
    pub(crate) fn bind(&self, claim: &str, volume: &str) {
        self.api.edit("persistentvolumes", volume, |object| {
            object["status"]["phase"] = "Bound".into();
        });
        self.api.edit("persistentvolumeclaims", claim, |object| {
            object["spec"]["volumeName"] = volume.into();
            object["status"]["phase"] = "Bound".into();
        });
    }

    /// Writes of the program to objects other than the journal, as `METHOD kind`, in order.
    pub(crate) fn writes(&self) -> Vec<String> {
        let name = |request: &Request| {
            let parts: Vec<&str> = request.path.split('/').collect();
            let kinds = ["events", "persistentvolumes", "persistentvolumeclaims"];
            let others = ["volumesnapshots", "leases", "selfsubjectaccessreviews"];
            let known = |part: &&&str| kinds.contains(part) || others.contains(part);
            let kind = parts.iter().find(known).copied().unwrap_or("?");
            let reason = request.body["reason"].as_str().unwrap_or_default();
            format!("{} {kind} {reason}", request.method)
                .trim_end()
                .to_owned()
        };
        let mut writes = self.api.writes();
        writes.retain(|write| !is_journal(write));
        { writes.iter().map(name) }
            .filter(|write| !write.contains("selfsubjectaccessreviews"))
            .collect()
    }
}

/// Whether a request concerns the provisioning journal.
pub(crate) fn is_journal(request: &Request) -> bool {
    let body = &request.body["metadata"]["annotations"];
    request.path.contains("-journal-") || !body["csi-sidecars.io/journal"].is_null()
}

pub(crate) fn finalizers(object: &Value) -> Value {
    let list = &object["metadata"]["finalizers"];
    if list.is_null() {
        json!([])
    } else {
        list.clone()
    }
}

/// Runs all rows of a table at the same time: most of each is waiting.
pub(crate) async fn together<R, F>(rows: impl IntoIterator<Item = R>, run: impl Fn(R) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let all = LocalSet::new();
    let mut running = JoinSet::new();
    for row in rows {
        running.spawn_local_on(run(row), &all);
    }
    all.run_until(running.join_all()).await;
}
