//! The built program between a model API server and a model driver, with the fixture of the
//! acceptance table: claim `ns/c1` of 1Gi, bound to `pv1`, whose volume handle is `h1`.

use std::ops::Deref;

use csi_proto::csi::{ControllerExpandVolumeRequest, ControllerModifyVolumeRequest};
use serde_json::{Value, json};
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::controller::{self, Dialect, Effect, Program, Work};
use sidecar_testkit::driver::{ControllerRpc, NodeRpc};

pub(crate) use sidecar_testkit::controller::{PATIENCE, Running, free_address, get, settle};

pub(crate) const DRIVER: &str = "test.csi.driver";
pub(crate) const GI: i64 = 1 << 30;
pub(crate) const READY: &str = "Starting external resizer";
pub(crate) const EXPAND: &str = "ControllerExpandVolume";
pub(crate) const MODIFY: &str = "ControllerModifyVolume";
pub(crate) const CLAIM: &str = "ns/c1";
pub(crate) const PRE_RESIZE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
pub(crate) const NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";
/// The first retry comes soon; so do the next ones.
pub(crate) const QUICK: &str = "--retry-interval-start=100ms";
/// A back-off longer than a test.
pub(crate) const NEVER_AGAIN: &str = "--retry-interval-start=5m";

pub(crate) static PROGRAM: Program = Program {
    built: env!("CARGO_BIN_EXE_csi-resizer"),
    variable: "CSI_RESIZER_BINARY",
    ready: READY,
    dialect: Dialect::Go,
    fatal: 1,
    driver: DRIVER,
    lease: "external-resizer-test-csi-driver",
    workers: "--workers",
    arguments: &[],
    environment: &[],
    work: Work {
        prepare,
        ask: |stage, number| {
            let name = format!("ns/many{number}");
            stage.api.edit("persistentvolumeclaims", &name, |claim| {
                claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
            });
        },
        is_done: |stage, number| {
            let name = format!("ns/many{number}");
            let claim = stage.api.object("persistentvolumeclaims", &name);
            let claim = claim.unwrap_or_default();
            claim["status"]["capacity"]["storage"] == "2Gi"
                && claim["status"]["conditions"].is_null()
        },
        effect: Effect::Call(EXPAND),
        subject: "claims/ns/many",
    },
    permissions: &[
        ("", "persistentvolumes", "get,list,watch,patch"),
        ("", "persistentvolumeclaims", "get,list,watch"),
        ("", "persistentvolumeclaims/status", "patch"),
        ("", "pods", "list,watch"),
    ],
    withheld: ("", "persistentvolumes", "patch"),
};

/// Claims `ns/manyN` of 1Gi, on a driver that expands volumes without the node.
fn prepare(stage: &controller::Stage, pieces: usize) {
    stage
        .driver
        .configure(|model| model.controller = vec![ControllerRpc::ExpandVolume]);
    for number in 0..pieces {
        let (key, pv, handle) = (
            format!("ns/many{number}"),
            format!("many{number}"),
            format!("hm{number}"),
        );
        stage.driver.volume(&handle);
        stage.api.insert(volume(&pv, &handle, &key));
        stage.api.insert(claim(&key, &pv));
    }
}

/// A bound claim of 1Gi, with a UID made from its name.
pub(crate) fn claim(name: &str, volume: &str) -> build::Claim {
    build::claim(name)
        .mode("RWO")
        .bound_to(volume)
        .uid(&uid(name))
        .with("/status/capacity/storage", "1Gi")
}

/// The volume of that claim.
pub(crate) fn volume(name: &str, handle: &str, claim: &str) -> build::Volume {
    build::volume(name)
        .csi(DRIVER, handle)
        .mode("RWO")
        .bound_to(claim)
        .with("/spec/claimRef/uid", uid(claim))
}

fn uid(claim: &str) -> String {
    format!("uid-{}", claim.replace('/', "-"))
}

pub(crate) fn condition(kind: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "lastProbeTime": null,
        "lastTransitionTime": build::LONG_AGO, "message": message})
}

/// The shared stage, with the fixture.
pub(crate) struct Stage(controller::Stage);

impl Deref for Stage {
    type Target = controller::Stage;

    fn deref(&self) -> &controller::Stage {
        &self.0
    }
}

impl Stage {
    /// A stage with the fixture; the driver expands volumes without the node.
    pub(crate) async fn new() -> Self {
        let stage = Self(controller::Stage::prepared(&PROGRAM, 0).await);
        stage.driver.volume("h1");
        stage.api.insert(volume("pv1", "h1", CLAIM));
        stage.api.insert(claim(CLAIM, "pv1"));
        for (name, iops) in [("a", "5"), ("b", "9"), ("c", "11")] {
            stage.class(name, DRIVER, iops);
        }
        stage
    }

    /// A stage whose driver modifies volumes too; the claim has class `a`.
    pub(crate) async fn modifying() -> Self {
        let stage = Self::new().await;
        stage.can(ControllerRpc::ModifyVolume);
        stage.edit_claim(|claim| {
            claim["spec"]["volumeAttributesClassName"] = "a".into();
            claim["status"]["currentVolumeAttributesClassName"] = "a".into();
        });
        stage.api.edit("persistentvolumes", "pv1", |volume| {
            volume["spec"]["volumeAttributesClassName"] = "a".into();
        });
        stage
    }

    pub(crate) fn class(&self, name: &str, driver: &str, iops: &str) {
        self.api.insert(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
            "metadata": {"name": name}, "driverName": driver, "parameters": {"iops": iops},
        }));
    }

    /// The driver's expansion needs the node, too.
    pub(crate) fn node(&self) {
        self.node_can(NodeRpc::ExpandVolume);
    }

    pub(crate) fn edit_claim(&self, change: impl FnOnce(&mut Value)) {
        self.api.edit("persistentvolumeclaims", CLAIM, change);
    }

    pub(crate) fn edit_volume(&self, change: impl FnOnce(&mut Value)) {
        self.api.edit("persistentvolumes", "pv1", change);
    }

    /// Sets the claim's requested size, as its user does.
    pub(crate) fn grow(&self, size: &str) {
        self.edit_claim(|claim| claim["spec"]["resources"]["requests"]["storage"] = size.into());
    }

    /// Sets or removes the claim's VolumeAttributesClass, as its user does.
    pub(crate) fn reclass(&self, class: Option<&str>) {
        let class = class.map_or(Value::Null, Value::from);
        self.edit_claim(|claim| claim["spec"]["volumeAttributesClassName"] = class);
    }

    /// Sets the state of an expansion: `status.allocatedResourceStatuses` and `allocatedResources`.
    pub(crate) fn expanding(&self, status: &str, allocated: &str) {
        self.edit_claim(|claim| {
            claim["status"]["allocatedResourceStatuses"]["storage"] = status.into();
            claim["status"]["allocatedResources"]["storage"] = allocated.into();
        });
    }

    /// Sets the claim's capacity, as kubelet does after it has expanded the file system.
    pub(crate) fn node_expanded(&self, size: &str) {
        self.edit_claim(|claim| {
            claim["status"]["capacity"]["storage"] = size.into();
            claim["status"]["allocatedResourceStatuses"] = Value::Null;
            claim["status"]["conditions"] = Value::Null;
        });
    }

    pub(crate) fn claim(&self) -> Value {
        self.claim_named(CLAIM)
    }

    pub(crate) fn claim_named(&self, name: &str) -> Value {
        self.api
            .object("persistentvolumeclaims", name)
            .unwrap_or_default()
    }

    pub(crate) fn volume(&self) -> Value {
        self.api
            .object("persistentvolumes", "pv1")
            .unwrap_or_default()
    }

    /// `spec.capacity.storage` of the volume.
    pub(crate) fn size(&self) -> Value {
        self.volume()["spec"]["capacity"]["storage"].clone()
    }

    pub(crate) fn pre_resize(&self) -> Value {
        self.volume()["metadata"]["annotations"][PRE_RESIZE].clone()
    }

    /// `status.capacity.storage` of the claim.
    pub(crate) fn capacity(&self) -> Value {
        self.claim()["status"]["capacity"]["storage"].clone()
    }

    pub(crate) fn allocated(&self) -> Value {
        self.claim()["status"]["allocatedResources"]["storage"].clone()
    }

    /// `status.allocatedResourceStatuses.storage`, abbreviated as in the table.
    pub(crate) fn state(&self) -> &'static str {
        let state = &self.claim()["status"]["allocatedResourceStatuses"]["storage"];
        match state.as_str() {
            Some("ControllerResizeInProgress") => "CRIP",
            Some("ControllerResizeInfeasible") => "CRI",
            Some("NodeResizePending") => "NRP",
            Some("NodeResizeInProgress") => "NRIP",
            Some("NodeResizeInfeasible") => "NRI",
            Some(_) => "?",
            None => "",
        }
    }

    /// Types of the claim's conditions, sorted.
    pub(crate) fn conditions(&self) -> Vec<String> {
        let claim = self.claim();
        let list = claim["status"]["conditions"].as_array().cloned();
        let list = list.unwrap_or_default();
        let mut kinds: Vec<String> = { list.iter() }
            .map(|condition| condition["type"].as_str().unwrap().to_owned())
            .collect();
        kinds.sort();
        kinds
    }

    /// A condition of the claim; `Null` if there is none.
    pub(crate) fn condition(&self, kind: &str) -> Value {
        let claim = self.claim();
        let list = claim["status"]["conditions"].as_array().cloned();
        let mut found = list.unwrap_or_default().into_iter();
        { found.find(|condition| condition["type"] == kind) }.unwrap_or_default()
    }

    /// Status and target of the modification, such as `InProgress/b`.
    pub(crate) fn modification(&self) -> String {
        let status = &self.claim()["status"]["modifyVolumeStatus"];
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        if status.is_null() {
            String::new()
        } else {
            format!(
                "{}/{}",
                text("status"),
                text("targetVolumeAttributesClassName")
            )
        }
    }

    pub(crate) fn current_class(&self) -> Value {
        self.claim()["status"]["currentVolumeAttributesClassName"].clone()
    }

    /// Waits until `condition` holds.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        self.0.until(what, || condition(self)).await;
    }

    pub(crate) async fn until_capacity(&self, size: &str) {
        self.until(size, |stage| stage.capacity() == size).await;
    }

    pub(crate) async fn until_state(&self, state: &str) {
        self.until(state, |stage| stage.state() == state).await;
    }

    pub(crate) async fn until_class(&self, class: &str) {
        let done = |stage: &Self| stage.current_class() == class && stage.modification().is_empty();
        self.until(class, done).await;
    }

    /// Waits for so many events of a reason.
    pub(crate) async fn until_events(&self, reason: &str, count: usize) {
        self.until(reason, |stage| stage.events_of(reason) >= count)
            .await;
    }

    /// Number of events with this reason, repetitions included.
    pub(crate) fn events_of(&self, reason: &str) -> usize {
        let all = self.api.objects("events");
        let fitting = all.iter().filter(|event| event["reason"] == reason);
        let counts = fitting.map(|event| event["count"].as_u64().unwrap_or(1));
        usize::try_from(counts.sum::<u64>()).unwrap()
    }

    /// The posted events, `N Reason message`.
    pub(crate) fn posted(&self) -> Vec<String> {
        let posts = self.api.requests_to("POST", "*/events");
        let text = |event: &Value| {
            let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            let kind = &field("type")[..1];
            format!("{kind} {} {}", field("reason"), field("message"))
        };
        posts.iter().map(|request| text(&request.body)).collect()
    }

    /// The sizes in the ControllerExpandVolume requests.
    pub(crate) fn asked(&self) -> Vec<i64> {
        let calls = self.driver.calls_to(EXPAND);
        { calls.iter() }
            .map(|call| call.request::<ControllerExpandVolumeRequest>().unwrap())
            .map(|request| request.capacity_range.unwrap().required_bytes)
            .collect()
    }

    /// The first ControllerExpandVolume request.
    pub(crate) fn request(&self) -> ControllerExpandVolumeRequest {
        let calls = self.driver.calls_to(EXPAND);
        calls[0]
            .request::<ControllerExpandVolumeRequest>()
            .unwrap()
            .clone()
    }

    /// The ControllerModifyVolume requests.
    pub(crate) fn modifications(&self) -> Vec<ControllerModifyVolumeRequest> {
        let calls = self.driver.calls_to(MODIFY);
        { calls.iter() }
            .map(|call| {
                call.request::<ControllerModifyVolumeRequest>()
                    .unwrap()
                    .clone()
            })
            .collect()
    }

    /// `iops` in the ControllerModifyVolume requests.
    pub(crate) fn iops(&self) -> Vec<String> {
        let all = self.modifications();
        all.iter()
            .map(|request| request.mutable_parameters["iops"].clone())
            .collect()
    }

    /// All requests about claims and volumes and all calls, in order, without versions and times:
    /// `cs(rv)` and `pp` with their bodies, `secret`, `Exp`, `Mod`.
    pub(crate) fn trace(&self) -> Vec<String> {
        let mut all = Vec::new();
        for request in self.api.requests() {
            let last = request.path.rsplit('/').next().unwrap_or_default();
            let about = |kind: &str| request.path.contains(&format!("/{kind}/"));
            let text = match request.method.as_str() {
                "PATCH" if last == "status" && about("persistentvolumeclaims") => {
                    let rv = !request.body["metadata"]["resourceVersion"].is_null();
                    let body = timeless(&request.body);
                    format!("cs{} {body}", if rv { "(rv)" } else { "" })
                }
                "PATCH" if about("persistentvolumes") => format!("pp {}", timeless(&request.body)),
                "GET" if about("secrets") => format!("secret {last}"),
                "GET" if about("persistentvolumeclaims") || about("persistentvolumes") => {
                    format!("GET {last}")
                }
                "PUT" | "DELETE" if !about("leases") => format!("{} {last}", request.method),
                _ => continue,
            };
            all.push((request.at, text));
        }
        for call in self.driver.calls() {
            if let Some(request) = call.request::<ControllerExpandVolumeRequest>() {
                let bytes = request.capacity_range.unwrap().required_bytes;
                all.push((call.started, format!("Exp {} {bytes}", request.volume_id)));
            }
            if let Some(request) = call.request::<ControllerModifyVolumeRequest>() {
                let iops = &request.mutable_parameters["iops"];
                all.push((call.started, format!("Mod {} {iops}", request.volume_id)));
            }
        }
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, text)| text).collect()
    }

    /// Compares the trace, ignoring spaces that only make a test readable.
    #[track_caller]
    pub(crate) fn traced(&self, row: &str, expected: &[&str]) {
        let trace = self.trace();
        assert_eq!(trace, expected, "{row}");
    }
}

/// The body without resource version and times, with sorted lists.
fn timeless(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(metadata) = body["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        if metadata.is_empty() {
            body.as_object_mut().unwrap().remove("metadata");
        }
    }
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|_, value| !value.is_null() || value.is_object());
    }
    if let Some(status) = body["status"].as_object_mut() {
        status.remove("$setElementOrder/conditions");
        for condition in status
            .get_mut("conditions")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let condition = condition.as_object_mut().unwrap();
            condition.remove("lastTransitionTime");
            condition.remove("lastProbeTime");
        }
    }
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    body
}
