//! The built program between a model API server and a model driver, with the fixture of the
//! acceptance table: class `c1`, and `snapcontent-u1`, which wants a snapshot of `vol-1`.

use csi_proto::csi::{
    CreateSnapshotRequest, CreateVolumeGroupSnapshotRequest, DeleteSnapshotRequest,
    DeleteVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotRequest, ListSnapshotsRequest,
    Snapshot,
};
use serde_json::{Value, json};
use sidecar::snapshot::{ACCESSIBLE_TOPOLOGY, GROUP_SNAPSHOT_GROUP};
use sidecar_testkit::api::Served;
use sidecar_testkit::controller::{Dialect, Effect, Program, Work};
use sidecar_testkit::driver::{ControllerRpc, GroupRpc};
use sidecar_testkit::{FakeApi, FakeDriver};
use tokio::time::timeout;

pub(crate) use sidecar_testkit::controller::{PATIENCE, Running, free_address, get, settle};

pub(crate) const DRIVER: &str = "test.csi.driver";
pub(crate) const READY: &str = "Starting CSI snapshotter";
pub(crate) const CREATE: &str = "CreateSnapshot";
pub(crate) const DELETE: &str = "DeleteSnapshot";
pub(crate) const LIST: &str = "ListSnapshots";
pub(crate) const CONTENTS: &str = "volumesnapshotcontents";
pub(crate) const NAME: &str = "snapcontent-u1";
pub(crate) const MARK: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
pub(crate) const DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
pub(crate) const FINALIZER: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
pub(crate) const GROUP_CONTENTS: &str = "volumegroupsnapshotcontents";
pub(crate) const GROUP: &str = "groupsnapcontent-v1";
pub(crate) const GROUP_MARK: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created";
const GROUP_DELETED: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";
const GROUP_FINALIZER: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
/// The first retry comes soon; so do the next ones.
pub(crate) const QUICK: &str = "--retry-interval-start=100ms";

pub(crate) static PROGRAM: Program = Program {
    built: env!("CARGO_BIN_EXE_csi-snapshotter"),
    variable: "CSI_SNAPSHOTTER_BINARY",
    ready: READY,
    dialect: Dialect::Go,
    fatal: 1,
    driver: DRIVER,
    lease: "external-snapshotter-leader-test-csi-driver",
    workers: "--worker-threads",
    arguments: &[],
    environment: &[],
    work: Work {
        prepare: |stage, _| {
            for kind in ["", "contents", "classes"] {
                stage.api.forget_kind(&format!("volumegroupsnapshot{kind}"));
            }
            prepare(&stage.api, &stage.driver);
        },
        ask: |stage, number| {
            stage.api.insert(content(&number.to_string()));
        },
        is_done: |stage, number| is_ready(&stage.api, &format!("snapcontent-{number}")),
        effect: Effect::Call(CREATE),
        subject: "snapshotcontents/snapcontent-",
    },
    permissions: &[
        (
            "snapshot.storage.k8s.io",
            "volumesnapshotcontents",
            "get,list,watch,patch",
        ),
        (
            "snapshot.storage.k8s.io",
            "volumesnapshotcontents/status",
            "patch",
        ),
        (
            "snapshot.storage.k8s.io",
            "volumesnapshotclasses",
            "list,watch",
        ),
    ],
    withheld: ("snapshot.storage.k8s.io", "volumesnapshotcontents", "patch"),
};

/// The class, and a driver that takes and lists snapshots.
fn prepare(api: &FakeApi, driver: &FakeDriver) {
    driver.configure(|model| {
        model.controller = vec![
            ControllerRpc::CreateDeleteSnapshot,
            ControllerRpc::ListSnapshots,
        ];
    });
    driver.volume("vol-1");
    driver.configure(|model| {
        for volume in model.volumes.values_mut() {
            volume.capacity = 1 << 30;
        }
    });
    api.insert(class("c1", &json!({"a": "b"})));
}

fn is_ready(api: &FakeApi, name: &str) -> bool {
    let content = api.object(CONTENTS, name).unwrap_or_default();
    content["status"]["readyToUse"] == true && content["metadata"]["annotations"][MARK].is_null()
}

/// `snapcontent-<uid>`, which wants a snapshot of `vol-1` for `ns/s1`.
pub(crate) fn content(uid: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": format!("snapcontent-{uid}"), "finalizers": [FINALIZER]},
        "spec": {
            "deletionPolicy": "Delete",
            "driver": DRIVER,
            "source": {"volumeHandle": "vol-1"},
            "volumeSnapshotClassName": "c1",
            "volumeSnapshotRef": {
                "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                "name": "s1", "namespace": "ns", "uid": uid,
            },
        },
    })
}

/// `pp`, which names `snap-9`.
pub(crate) fn pre_provisioned() -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": "pp"},
        "spec": {
            "deletionPolicy": "Delete",
            "driver": DRIVER,
            "source": {"snapshotHandle": "snap-9"},
            "volumeSnapshotRef": {"name": "s9", "namespace": "ns"},
        },
    })
}

/// `groupsnapcontent-v1`, which wants snapshots of `vol-1` and `vol-2` for `ns/v1`.
pub(crate) fn group_content() -> Value {
    json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1",
        "kind": "VolumeGroupSnapshotContent",
        "metadata": {"name": GROUP, "finalizers": [GROUP_FINALIZER]},
        "spec": {
            "deletionPolicy": "Delete",
            "driver": DRIVER,
            "source": {"volumeHandles": ["vol-1", "vol-2"]},
            "volumeGroupSnapshotClassName": "g",
            "volumeGroupSnapshotRef": {
                "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
                "name": "v1", "namespace": "ns", "uid": "v1",
            },
        },
    })
}

/// Content of the pre-provisioned group with these handles.
pub(crate) fn pre_provisioned_group(group: &str, snapshots: &[&str]) -> Value {
    let mut content = group_content();
    let handles = json!({
        "volumeGroupSnapshotHandle": group,
        "volumeSnapshotHandles": snapshots,
    });
    content["spec"]["source"] = json!({ "groupSnapshotHandles": handles });
    content
}

pub(crate) fn class(name: &str, parameters: &Value) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": name},
        "driver": DRIVER,
        "deletionPolicy": "Delete",
        "parameters": parameters,
    })
}

pub(crate) fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "ns2"},
        "data": {"u": "cA=="},
    })
}

/// The answer of the specification's driver.
pub(crate) fn taken(ready: bool) -> Snapshot {
    Snapshot {
        size_bytes: 1 << 30,
        snapshot_id: "snap-1".into(),
        source_volume_id: "vol-1".into(),
        creation_time: Some(prost_types::Timestamp {
            seconds: 1_767_323_045,
            nanos: 0,
        }),
        ready_to_use: ready,
        ..Snapshot::default()
    }
}

/// A cluster and a driver.
pub(crate) struct Stage {
    pub(crate) api: FakeApi,
    pub(crate) driver: FakeDriver,
    served: Served,
}

impl Stage {
    /// A stage with the class; the driver takes and lists snapshots.
    pub(crate) async fn new() -> Self {
        let api = FakeApi::new();
        api.forget_group(GROUP_SNAPSHOT_GROUP);
        Self::of(api).await
    }

    async fn of(api: FakeApi) -> Self {
        let served = api.serve_plain().await;
        let driver = FakeDriver::new(DRIVER);
        prepare(&api, &driver);
        driver.start();
        Self {
            api,
            driver,
            served,
        }
    }

    /// A stage with the group kinds, their class `g`, and a driver that takes groups.
    pub(crate) async fn with_groups() -> Self {
        let stage = Self::of(FakeApi::new()).await;
        stage.driver.volume("vol-2");
        stage.driver.configure(|model| {
            model.group = Some(vec![GroupRpc::CreateDeleteGetVolumeGroupSnapshot]);
        });
        let mut class = class("g", &json!({"a": "b"}));
        class["apiVersion"] = "groupsnapshot.storage.k8s.io/v1".into();
        class["kind"] = "VolumeGroupSnapshotClass".into();
        stage.api.insert(class);
        stage
    }

    /// Adds `snap-9` to the driver.
    pub(crate) fn has_snap_9(&self) {
        self.driver.configure(|model| {
            let found = Snapshot {
                snapshot_id: "snap-9".into(),
                size_bytes: 5,
                ..taken(true)
            };
            model.snapshots.insert("snap-9".into(), found);
        });
    }

    pub(crate) fn kubeconfig(&self) -> String {
        format!("--kubeconfig={}", self.served.kubeconfig().display())
    }

    pub(crate) fn csi_address(&self) -> String {
        format!("--csi-address={}", self.driver.socket().display())
    }

    /// Starts the program on this stage with additional arguments.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        self.start_with(arguments, &[])
    }

    pub(crate) fn start_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Running {
        let (kubeconfig, address) = (self.kubeconfig(), self.csi_address());
        let mut all = vec![kubeconfig.as_str(), address.as_str()];
        all.extend(arguments);
        Running::start(&PROGRAM, &all, variables)
    }

    /// Starts the program and waits until it works.
    pub(crate) async fn started(&self, arguments: &[&str]) -> Running {
        let program = self.start(arguments);
        program.logs(READY).await;
        program
    }

    pub(crate) fn edit(&self, change: impl FnOnce(&mut Value)) {
        self.api.edit(CONTENTS, NAME, change);
    }

    /// The VolumeSnapshot is deleted, and the controller marks and deletes its content.
    pub(crate) fn forsake(&self) {
        self.edit(|content| content["metadata"]["annotations"][DELETED] = "yes".into());
        self.api.delete(CONTENTS, NAME);
    }

    /// The VolumeGroupSnapshot is deleted, and the controller marks and deletes its content.
    pub(crate) fn forsake_group(&self) {
        self.api.edit(GROUP_CONTENTS, GROUP, |content| {
            content["metadata"]["annotations"][GROUP_DELETED] = "yes".into();
        });
        self.api.delete(GROUP_CONTENTS, GROUP);
    }

    pub(crate) fn group(&self) -> Value {
        self.api.object(GROUP_CONTENTS, GROUP).unwrap_or_default()
    }

    pub(crate) async fn until_group_ready(&self) {
        self.until("the group is ready", |stage| {
            let group = stage.group();
            let marked = !group["metadata"]["annotations"][GROUP_MARK].is_null();
            group["status"]["readyToUse"] == true && !marked
        })
        .await;
    }

    pub(crate) async fn until_group_gone(&self) {
        self.until("the group is gone", |stage| stage.group().is_null())
            .await;
    }

    pub(crate) fn content(&self) -> Value {
        self.content_named(NAME)
    }

    pub(crate) fn content_named(&self, name: &str) -> Value {
        self.api.object(CONTENTS, name).unwrap_or_default()
    }

    pub(crate) fn is_ready(&self, name: &str) -> bool {
        is_ready(&self.api, name)
    }

    /// Waits until `condition` holds.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let until = async {
            tokio::select! {
                () = self.api.until(|_| condition(self)) => {}
                () = self.driver.until(|_| condition(self)) => {}
            }
        };
        if timeout(PATIENCE, until).await.is_err() {
            let mut contents = self.api.objects(CONTENTS);
            contents.extend(self.api.objects(GROUP_CONTENTS));
            panic!("{what}:\n{}\n{contents:#?}", self.trace().join("\n"));
        }
    }

    pub(crate) async fn until_ready(&self, name: &str) {
        self.until("ready", |stage| stage.is_ready(name)).await;
    }

    pub(crate) async fn until_gone(&self) {
        self.until("gone", |stage| stage.content().is_null()).await;
    }

    /// Waits for so many calls of a method.
    pub(crate) async fn until_calls(&self, method: &str, count: usize) {
        self.until(method, |stage| stage.calls(method) >= count)
            .await;
    }

    /// Waits for so many different events of a reason.
    pub(crate) async fn until_events(&self, reason: &str, count: usize) {
        self.until(reason, |stage| stage.events(reason).len() >= count)
            .await;
    }

    pub(crate) fn calls(&self, method: &str) -> usize {
        self.driver.calls_to(method).len()
    }

    pub(crate) fn events(&self, reason: &str) -> Vec<Value> {
        let all = self.api.objects("events").into_iter();
        all.filter(|event| event["reason"] == reason).collect()
    }

    /// The CreateSnapshot requests.
    pub(crate) fn asked(&self) -> Vec<CreateSnapshotRequest> {
        let calls = self.driver.calls_to(CREATE);
        let requests = calls
            .iter()
            .map(|call| call.request::<CreateSnapshotRequest>());
        requests.map(|request| request.unwrap().clone()).collect()
    }

    /// All requests about contents and all calls, in order: `bc+`, `bc-`, `F-`, `st` with its
    /// fields, `secret`, `GET`, and calls with their subject.
    pub(crate) fn trace(&self) -> Vec<String> {
        let mut all = Vec::new();
        for request in self.api.requests() {
            let last = request.path.rsplit('/').next().unwrap_or_default();
            let about = |kind: &str| request.path.contains(&format!("/{kind}/"));
            let about_content = about(CONTENTS) || about(GROUP_CONTENTS);
            let text = match request.method.as_str() {
                "PATCH" if last == "status" && about_content => {
                    format!("st {}", timeless(&request.body["status"]))
                }
                "PATCH" if about_content => metadata(&request.body["metadata"]),
                "GET" if about("secrets") => format!("secret {last}"),
                "GET" if about_content => format!("GET {last}"),
                "PUT" | "DELETE" if !about("leases") => format!("{} {last}", request.method),
                _ => continue,
            };
            all.push((request.at, text));
        }
        for call in self.driver.calls() {
            let text = if let Some(request) = call.request::<CreateSnapshotRequest>() {
                format!("Create {}", request.name)
            } else if let Some(request) = call.request::<DeleteSnapshotRequest>() {
                format!("Delete {}", request.snapshot_id)
            } else if let Some(request) = call.request::<ListSnapshotsRequest>() {
                format!("List {}", request.snapshot_id)
            } else if let Some(request) = call.request::<CreateVolumeGroupSnapshotRequest>() {
                let volumes = request.source_volume_ids.join("+");
                format!("CreateGroup {} {volumes}", request.name)
            } else if let Some(request) = call.request::<GetVolumeGroupSnapshotRequest>() {
                let snapshots = request.snapshot_ids.join("+");
                format!("GetGroup {} {snapshots}", request.group_snapshot_id)
            } else if let Some(request) = call.request::<DeleteVolumeGroupSnapshotRequest>() {
                let snapshots = request.snapshot_ids.join("+");
                format!("DeleteGroup {} {snapshots}", request.group_snapshot_id)
            } else {
                continue;
            };
            all.push((call.started, text));
        }
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, text)| text).collect()
    }
}

fn metadata(metadata: &Value) -> String {
    assert!(
        !metadata["resourceVersion"].is_null(),
        "which version: {metadata}"
    );
    let finalizers = metadata.get("finalizers");
    let annotations = &metadata["annotations"];
    if let Some(topology) = annotations.get(ACCESSIBLE_TOPOLOGY) {
        return format!("topology {}", topology.as_str().unwrap());
    }
    match annotations.get(MARK).or(annotations.get(GROUP_MARK)) {
        Some(Value::Null) => "bc-".to_owned(),
        Some(_) if finalizers.is_some() => "bc+ F+".to_owned(),
        Some(_) => "bc+".to_owned(),
        None => {
            assert!(finalizers.is_some(), "{metadata}");
            "F-".to_owned()
        }
    }
}

/// The status without the time of its error.
fn timeless(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(Value::Object(error)) = status.get_mut("error") {
        error.remove("time");
    }
    status
}
