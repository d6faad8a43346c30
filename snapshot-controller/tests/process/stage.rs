//! The built program beside a model API server.

use serde_json::{Value, json};
use sidecar::snapshot::{BEING_DELETED, CONTENT_BOUND, GROUP_SNAPSHOT_GROUP};
use sidecar_testkit::FakeApi;
use sidecar_testkit::api::Served;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::controller::{Dialect, Effect, Program, Work};
use sidecar_testkit::process::{Process, within};

pub(crate) use sidecar_testkit::controller::{PATIENCE, free_address, get, until_metrics};

pub(crate) static PROGRAM: Program = Program {
    built: env!("CARGO_BIN_EXE_snapshot-controller"),
    variable: "SNAPSHOT_CONTROLLER_BINARY",
    ready: "Starting snapshot controller",
    dialect: Dialect::Go,
    fatal: 1,
    driver: "",
    lease: "snapshot-controller-leader",
    workers: "--worker-threads",
    arguments: &[],
    environment: &[],
    work: Work {
        prepare: |stage, _| {
            for kind in ["s", "contents", "classes"] {
                stage.api.forget_kind(&format!("volumegroupsnapshot{kind}"));
            }
            prepare(&stage.api);
        },
        ask: |stage, number| {
            snapshot(&stage.api, &format!("s{number}"));
        },
        is_done: |stage, number| {
            let name = format!("ns/s{number}");
            let snapshot = stage.api.object("volumesnapshots", &name);
            let uid = snapshot.unwrap_or_default()["metadata"]["uid"].clone();
            let content = format!("snapcontent-{}", uid.as_str().unwrap_or_default());
            { stage.api.object("volumesnapshotcontents", &content) }.is_some()
        },
        effect: Effect::Request("POST", "*/volumesnapshotcontents"),
        subject: "snapshots/ns/s",
    },
    permissions: &[
        (GROUP, "volumesnapshots", "get,list,watch,patch"),
        (GROUP, "volumesnapshots/status", "patch"),
        (
            GROUP,
            "volumesnapshotcontents",
            "get,list,watch,create,patch,delete",
        ),
        (GROUP, "volumesnapshotclasses", "list,watch"),
        ("", "persistentvolumeclaims", "get,list,watch,update"),
        ("", "persistentvolumes", "get,list,watch"),
    ],
    withheld: (GROUP, "volumesnapshotcontents", "create"),
};

const GROUP: &str = "snapshot.storage.k8s.io";

fn prepare(api: &FakeApi) {
    class(api, "c1", "test.csi.driver");
    claim(api, "p1", "pv1");
}

fn class(api: &FakeApi, name: &str, driver: &str) {
    api.insert(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": name}, "driver": driver, "deletionPolicy": "Delete",
    }));
}

/// A claim `ns/NAME` that is bound to a volume.
pub(crate) fn claim(api: &FakeApi, name: &str, volume: &str) {
    let claim = api.insert(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "namespace": "ns", "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {"volumeName": volume}, "status": {"phase": "Bound"},
    }));
    let bound = json!({
        "namespace": "ns", "name": name, "uid": claim["metadata"]["uid"],
    });
    let handle = format!("h-{volume}");
    let object = build::volume(volume).csi("test.csi.driver", &handle);
    api.insert(
        object
            .with("/spec/claimRef", bound)
            .with("/spec/volumeMode", "Filesystem"),
    );
}

fn snapshot(api: &FakeApi, name: &str) -> String {
    let snapshot = api.insert(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "source": {"persistentVolumeClaimName": "p1"}, "volumeSnapshotClassName": "c1",
        },
    }));
    snapshot["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// A cluster with the class `c1` and the claim `ns/p1` on the volume `pv1`.
pub(crate) struct Stage {
    pub(crate) api: FakeApi,
    served: Served,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let api = FakeApi::new();
        api.forget_group(GROUP_SNAPSHOT_GROUP);
        Self::of(api).await
    }

    /// The cluster with the kinds of group snapshots.
    pub(crate) async fn with_groups() -> Self {
        Self::of(FakeApi::new()).await
    }

    async fn of(api: FakeApi) -> Self {
        let served = api.serve_plain().await;
        let stage = Self { api, served };
        prepare(&stage.api);
        stage
    }

    /// Inserts a VolumeSnapshot `ns/NAME` of the claim `p1`. Returns its UID.
    pub(crate) fn snapshot(&self, name: &str) -> String {
        snapshot(&self.api, name)
    }

    /// Fills the content's status, as the sidecar does.
    pub(crate) fn take(&self, content: &str, ready: bool) {
        self.api.edit("volumesnapshotcontents", content, |content| {
            content["status"] = json!({
                "snapshotHandle": "snap-1", "creationTime": 1_767_323_045_000_000_000_i64,
                "restoreSize": 1_073_741_824, "readyToUse": ready,
            });
        });
    }

    /// Plays the sidecar's deletion of the snapshot of a content that is marked.
    pub(crate) async fn lets_go(&self, content: &str) {
        self.until(&format!("the deletion of {content}"), |api| {
            let content = api.object("volumesnapshotcontents", content).unwrap();
            let metadata = &content["metadata"];
            !metadata["deletionTimestamp"].is_null()
                && metadata["annotations"][BEING_DELETED] == "yes"
        })
        .await;
        let content = self.api.object("volumesnapshotcontents", content).unwrap();
        assert_eq!(content["metadata"]["finalizers"], json!([CONTENT_BOUND]));
        self.api.remove(
            "volumesnapshotcontents",
            content["metadata"]["name"].as_str().unwrap(),
        );
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        self.start_in(arguments, &[])
    }

    pub(crate) fn start_in(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Process {
        let kubeconfig = format!("--kubeconfig={}", self.served.kubeconfig().display());
        let mut all = vec![kubeconfig.as_str()];
        all.extend(arguments);
        let mut command = PROGRAM.command(&all);
        command.envs(variables.iter().copied());
        Process::start(command)
    }

    /// Starts the program and waits until it works.
    pub(crate) async fn working(&self, arguments: &[&str]) -> Process {
        let process = self.start(arguments);
        process.says("Starting snapshot controller").await;
        process
    }

    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&FakeApi) -> bool) {
        within(PATIENCE, what, async || condition(&self.api)).await;
    }

    pub(crate) async fn until_snapshot(&self, name: &str, condition: impl Fn(&Value) -> bool) {
        let what = format!("VolumeSnapshot {name}");
        self.until(&what, |api| {
            let snapshot = api.object("volumesnapshots", &format!("ns/{name}"));
            condition(&snapshot.unwrap_or_default())
        })
        .await;
    }

    /// Reasons and objects of the events so far.
    pub(crate) fn events(&self) -> Vec<String> {
        let events = self.api.objects("events").into_iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events
            .map(|event| {
                let about = &event["involvedObject"];
                let parts = [
                    &event["type"],
                    &event["reason"],
                    &about["kind"],
                    &about["name"],
                ];
                parts.map(text).join(" ")
            })
            .collect()
    }
}

impl Stage {
    /// Takes the snapshot, as the sidecar does, as soon as the content exists.
    pub(crate) async fn take_when_there(&self, content: &str) {
        self.until("the content", |api| {
            api.object("volumesnapshotcontents", content).is_some()
        })
        .await;
        self.take(content, true);
    }
}
