//! The built program between a model API server and a model driver.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use sidecar_testkit::FakeApi;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::controller::{self, Dialect, Effect, Program, Work};
use tokio::time::Instant;

pub(crate) use sidecar_testkit::controller::{
    PATIENCE, Running, free_address, get, settle, until_metrics,
};

pub(crate) const DRIVER: &str = "test.csi.driver";
pub(crate) const F: &str = "external-attacher/test-csi-driver";
pub(crate) const N: &str = "csi.alpha.kubernetes.io/node-id";

pub(crate) static PROGRAM: Program = Program {
    built: env!("CARGO_BIN_EXE_csi-attacher"),
    variable: "CSI_ATTACHER_BINARY",
    ready: "Starting CSI attacher",
    dialect: Dialect::Go,
    fatal: 1,
    driver: DRIVER,
    lease: "external-attacher-leader-test-csi-driver",
    workers: "--worker-threads",
    arguments: &[],
    environment: &[],
    work: Work {
        prepare,
        ask: |stage, number| attach(stage, &format!("va{number}"), &format!("v{number}")),
        is_done: |stage, number| {
            let name = format!("va{number}");
            let attachment = stage.api.object("volumeattachments", &name);
            attachment.unwrap_or_default()["status"]["attached"] == true
        },
        effect: Effect::Call("ControllerPublishVolume"),
        subject: "attachments/va",
    },
    permissions: &[
        (
            "storage.k8s.io",
            "volumeattachments",
            "get,list,watch,patch",
        ),
        ("storage.k8s.io", "volumeattachments/status", "patch"),
        ("storage.k8s.io", "csinodes", "get,list,watch"),
        ("", "persistentvolumes", "get,list,watch,patch"),
    ],
    withheld: ("", "persistentvolumes", "patch"),
};

/// `node1`, known as `NID1`, and volumes `vN`.
fn prepare(stage: &controller::Stage, pieces: usize) {
    stage
        .api
        .insert(build::csinode("node1").driver(DRIVER, "NID1"));
    for number in 0..pieces {
        volume(stage, &format!("v{number}"), None);
    }
}

fn volume(stage: &controller::Stage, name: &str, finalizers: Option<Value>) {
    let handle = format!("h-{name}");
    stage.driver.volume(&handle);
    let volume = build::volume(name).csi(DRIVER, &handle).mode("RWO");
    stage.api.insert(match finalizers {
        Some(list) => volume.with("/metadata/finalizers", list),
        None => volume,
    });
}

fn attach(stage: &controller::Stage, name: &str, volume: &str) {
    let attachment = build::attachment(name).by(DRIVER).on("node1").of(volume);
    stage.api.insert(attachment);
}

/// The shared stage, with the fixture.
pub(crate) struct Stage {
    shared: controller::Stage,
    started: AtomicBool,
}

impl Deref for Stage {
    type Target = controller::Stage;

    fn deref(&self) -> &controller::Stage {
        &self.shared
    }
}

impl Stage {
    /// A stage with `pv1` (handle `h-pv1`), which has the finalizer, and `node1`, which the driver
    /// knows as `NID1`.
    pub(crate) async fn new() -> Self {
        Self::with(controller::Stage::new(&PROGRAM).await)
    }

    /// The same stage behind TLS, as every real API server.
    pub(crate) async fn over_tls() -> Self {
        Self::with(controller::Stage::over_tls(&PROGRAM).await)
    }

    fn with(shared: controller::Stage) -> Self {
        prepare(&shared, 0);
        let started = AtomicBool::new(false);
        let stage = Self { shared, started };
        stage.volume("pv1", Some(json!([F])));
        stage
    }

    /// A volume `NAME` on handle `h-NAME`.
    pub(crate) fn volume(&self, name: &str, finalizers: Option<Value>) {
        // Watches arrive in any order: an attachment could come before its volume, which costs a
        // failed attempt, and the requests would differ from those that the test counts.
        assert!(
            !self.started.load(Ordering::SeqCst),
            "volumes come before the program is started, or are meant to be late"
        );
        self.late_volume(name, finalizers);
    }

    /// Inserts a volume while the program runs, which may see it after the attachment that names
    /// it.
    pub(crate) fn late_volume(&self, name: &str, finalizers: Option<Value>) {
        volume(self, name, finalizers);
    }

    /// An attachment `NAME` of `volume` to `node1`.
    pub(crate) fn attach(&self, name: &str, volume: &str) {
        attach(self, name, volume);
    }

    /// An attachment `NAME` of `volume`, attached by an earlier process.
    pub(crate) fn attached(&self, name: &str, volume: &str) {
        let attachment = build::attachment(name)
            .by(DRIVER)
            .on("node1")
            .of(volume)
            .attached();
        self.api.insert(
            attachment
                .with("/metadata/finalizers", json!([F]))
                .with("/metadata/annotations", json!({ N: "NID1" })),
        );
        self.driver
            .configure(|model| model.publish(&format!("h-{volume}"), "NID1"));
    }

    /// Starts the program on this stage with additional arguments.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        self.start_in(arguments, &[])
    }

    pub(crate) fn start_in(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Running {
        self.started.store(true, Ordering::SeqCst);
        self.shared.start_in(arguments, environment)
    }

    pub(crate) fn attachment(&self, name: &str) -> Value {
        self.api
            .object("volumeattachments", name)
            .unwrap_or_default()
    }

    /// Waits until `condition` holds for the API server.
    pub(crate) async fn until_api(&self, condition: impl Fn(&FakeApi) -> bool) {
        let holds = || condition(&self.api);
        self.shared.until("the condition", holds).await;
    }

    /// Waits until `condition` holds for the attachment.
    pub(crate) async fn until(&self, name: &str, condition: impl Fn(&Value) -> bool) {
        let holds = || condition(&self.attachment(name));
        self.shared.until(name, holds).await;
    }

    pub(crate) async fn until_attached(&self, name: &str) {
        self.until(name, |object| object["status"]["attached"] == true)
            .await;
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        self.until(name, Value::is_null).await;
    }

    pub(crate) async fn until_error(&self, name: &str, field: &str) {
        self.until(name, |object| !object["status"][field].is_null())
            .await;
    }

    /// Waits for a message in the attachment's error `field`, and returns the error.
    pub(crate) async fn error(&self, name: &str, field: &str) -> Value {
        self.until_error(name, field).await;
        self.attachment(name)["status"][field].clone()
    }

    /// All requests about volumes and attachments and all calls of the driver, in order.
    pub(crate) fn trace(&self) -> Vec<String> {
        self.trace_of(|_| true, |_| true)
    }

    /// The same for the attachment `va-NAME` and the volume `NAME` alone.
    pub(crate) fn trace_for(&self, name: &str) -> Vec<String> {
        let (attachment, status) = (
            format!("/volumeattachments/va-{name}"),
            format!("/volumeattachments/va-{name}/status"),
        );
        let volume = format!("/persistentvolumes/{name}");
        let ends = [attachment, status, volume];
        self.trace_of(
            |path| ends.iter().any(|end| path.ends_with(end)),
            |handle| handle == format!("h-{name}"),
        )
    }

    fn trace_of(&self, path: impl Fn(&str) -> bool, handle: impl Fn(&str) -> bool) -> Vec<String> {
        let mut all: Vec<(Instant, String)> = Vec::new();
        let mut requests = self.api.requests();
        requests.retain(|request| path(&request.path));
        for request in requests {
            let (kind, _) = match request.path.rsplit_once("/volumeattachments/") {
                Some((_, name)) if name.ends_with("/status") => ("st", name),
                Some((_, name)) => ("md", name),
                None if request.path.contains("/persistentvolumes/") => ("pvp", ""),
                None if request.path.contains("/secrets/") => ("secret", ""),
                None => continue,
            };
            let text = match request.method.as_str() {
                "PATCH" => format!("{kind} {}", without_uid(kind, &request.body)),
                "GET" if kind == "secret" => "secret".to_owned(),
                other => format!("{other} {}", request.path),
            };
            all.push((request.at, text));
        }
        let mut calls = self.driver.calls();
        calls.retain(|call| handle(call.volume()));
        for call in calls {
            let name = match call.method {
                "ControllerPublishVolume" => "pub",
                "ControllerUnpublishVolume" => "unpub",
                "ListVolumes" => "list",
                _ => continue,
            };
            let text = format!("{name} {} {}", call.volume(), call.node());
            all.push((call.started, text.trim_end().to_owned()));
        }
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, text)| text).collect()
    }
}

/// The body of a patch without the UID, which all patches of attachments contain.
fn without_uid(kind: &str, body: &Value) -> Value {
    let mut body = body.clone();
    if kind != "pvp" {
        let fields = body.as_object_mut().unwrap();
        let metadata = fields["metadata"].as_object_mut().unwrap();
        assert!(metadata.remove("uid").is_some(), "{kind} {metadata:?}");
        if metadata.is_empty() {
            fields.remove("metadata");
        }
    }
    body
}

pub(crate) fn prepare_patch() -> String {
    format!(
        "md {}",
        json!({ "metadata": { "annotations": { N: "NID1" }, "finalizers": [F] } })
    )
}

pub(crate) const ATTACHED: &str = r#"st {"status":{"attached":true}}"#;
