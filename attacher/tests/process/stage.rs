//! The built program between a model API server and a model driver.
//!
//! `CSI_ATTACHER_BINARY=path` runs the same tests against another build.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sidecar_testkit::api::Served;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::{FakeApi, FakeDriver};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

pub(crate) const DRIVER: &str = "test.csi.driver";
pub(crate) const F: &str = "external-attacher/test-csi-driver";
pub(crate) const N: &str = "csi.alpha.kubernetes.io/node-id";

/// Longer than anything takes that works, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) fn program() -> String {
    std::env::var("CSI_ATTACHER_BINARY")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_csi-attacher").to_owned())
}

/// A program that was started; killed when dropped.
pub(crate) struct Attacher {
    child: Child,
    log: Arc<Mutex<String>>,
    pub(crate) started: Instant,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) log: String,
    pub(crate) took: Duration,
}

impl Attacher {
    /// Starts the program with these arguments in an environment without any cluster.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(arguments, &[])
    }

    pub(crate) fn start_in(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program());
        command.args(arguments).env_clear().kill_on_drop(true);
        command.envs(environment.iter().copied());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let mut stderr = child.stderr.take().unwrap();
        let sink = Arc::clone(&log);
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count) = stderr.read(&mut buffer).await
                && count > 0
            {
                let text = String::from_utf8_lossy(&buffer[..count]);
                sink.lock().unwrap().push_str(&text);
            }
        });
        Self {
            child,
            log,
            started: Instant::now(),
        }
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pid = self.id().to_string();
        let status = std::process::Command::new("kill")
            .args([format!("-{signal}"), pid])
            .status();
        assert!(status.unwrap().success());
    }

    /// Processor time it has used so far.
    pub(crate) fn busy(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.child.id().expect("it runs"));
        let stat = std::fs::read_to_string(path).unwrap();
        // The name in parentheses may have spaces; user and system time are the 14th and 15th field,
        // in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
        Duration::from_millis((ticks(11) + ticks(12)) * 10)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        let status = timeout(PATIENCE, self.child.wait()).await;
        let status = status
            .unwrap_or_else(|_| panic!("it does not end:\n{}", self.log()))
            .unwrap();
        let took = self.started.elapsed();
        let mut stdout = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut stdout)
            .await
            .unwrap();
        // The reader of the log may be a moment behind.
        sleep(Duration::from_millis(50)).await;
        Ended {
            code: status.code(),
            signal: status.signal(),
            stdout,
            log: self.log(),
            took,
        }
    }

    /// Waits until the log has this text.
    pub(crate) async fn logs(&self, text: &str) {
        self.logs_times(text, 1).await;
    }

    /// Waits until the log has this text so many times.
    pub(crate) async fn logs_times(&self, text: &str, times: usize) {
        let has = async {
            while self.log().matches(text).count() < times {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(PATIENCE, has).await.is_err() {
            panic!("no {text:?} in the log:\n{}", self.log());
        }
    }
}

/// Runs the program to its end.
pub(crate) async fn run(arguments: &[&str]) -> Ended {
    Attacher::start(arguments).end().await
}

/// A cluster and a driver.
pub(crate) struct Stage {
    pub(crate) api: FakeApi,
    pub(crate) driver: FakeDriver,
    served: Served,
    started: AtomicBool,
}

impl Stage {
    /// With `pv1` on `h-pv1`, protected already, and `node1` known as `NID1`.
    pub(crate) async fn new() -> Self {
        let api = FakeApi::new();
        let served = api.serve_plain().await;
        Self::with(api, served)
    }

    /// The same behind TLS, as every real API server.
    pub(crate) async fn over_tls() -> Self {
        let api = FakeApi::new();
        let served = api.serve().await;
        Self::with(api, served)
    }

    fn with(api: FakeApi, served: Served) -> Self {
        let driver = FakeDriver::new(DRIVER);
        driver.start();
        let stage = Self {
            api,
            driver,
            served,
            started: AtomicBool::new(false),
        };
        stage
            .api
            .insert(build::csinode("node1").driver(DRIVER, "NID1"));
        stage.volume("pv1", Some(json!([F])));
        stage
    }

    /// A volume `NAME` on handle `h-NAME`.
    pub(crate) fn volume(&self, name: &str, finalizers: Option<Value>) {
        // The watches are not in step: an attachment could come before its volume, which costs a
        // failed attempt, and the requests would not be those that the test counts.
        assert!(
            !self.started.load(Ordering::SeqCst),
            "volumes come before the program is started, or are meant to be late"
        );
        self.late_volume(name, finalizers);
    }

    /// The same while the program runs, which may see it after the attachment that names it.
    pub(crate) fn late_volume(&self, name: &str, finalizers: Option<Value>) {
        let handle = format!("h-{name}");
        self.driver.volume(&handle);
        let volume = build::volume(name).csi(DRIVER, &handle).mode("RWO");
        self.api.insert(match finalizers {
            Some(list) => volume.with("/metadata/finalizers", list),
            None => volume,
        });
    }

    /// An attachment `NAME` of `volume` to `node1`.
    pub(crate) fn attach(&self, name: &str, volume: &str) {
        self.api
            .insert(build::attachment(name).by(DRIVER).on("node1").of(volume));
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

    pub(crate) fn kubeconfig(&self) -> String {
        format!("--kubeconfig={}", self.served.kubeconfig().display())
    }

    pub(crate) fn csi_address(&self) -> String {
        format!("--csi-address={}", self.driver.socket().display())
    }

    /// Starts the program on this stage, with more arguments.
    pub(crate) fn start(&self, arguments: &[&str]) -> Attacher {
        self.start_in(arguments, &[])
    }

    pub(crate) fn start_in(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Attacher {
        let (kubeconfig, address) = (self.kubeconfig(), self.csi_address());
        let mut all = vec![kubeconfig.as_str(), address.as_str()];
        all.extend(arguments);
        self.started.store(true, Ordering::SeqCst);
        Attacher::start_in(&all, environment)
    }

    pub(crate) fn attachment(&self, name: &str) -> Value {
        self.api
            .object("volumeattachments", name)
            .unwrap_or_default()
    }

    /// Waits until the API server is as `condition` says.
    pub(crate) async fn until_api(&self, condition: impl Fn(&FakeApi) -> bool) {
        let until = self.api.until(|api| condition(api));
        if timeout(PATIENCE, until).await.is_err() {
            panic!("it does not come:\n{}", self.trace().join("\n"));
        }
    }

    /// Waits until the attachment is as `condition` says.
    pub(crate) async fn until(&self, name: &str, condition: impl Fn(&Value) -> bool) {
        let until = self.api.until(|_| condition(&self.attachment(name)));
        if timeout(PATIENCE, until).await.is_err() {
            panic!(
                "{name} is {:#}\n{}",
                self.attachment(name),
                self.trace().join("\n")
            );
        }
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

    /// Waits for so many calls of a method.
    pub(crate) async fn until_calls(&self, method: &str, count: usize) {
        let until = self
            .driver
            .until(|driver| driver.calls_to(method).len() >= count);
        if timeout(PATIENCE, until).await.is_err() {
            panic!("no {count} {method}:\n{}", self.trace().join("\n"));
        }
    }

    /// Waits for a write that fits.
    pub(crate) async fn until_written(&self, method: &str, path: &str, count: usize) {
        let until = self.api.until(|api| {
            let answered =
                |request: &&sidecar_testkit::api::record::Request| request.status.is_some();
            api.requests_to(method, path)
                .iter()
                .filter(answered)
                .count()
                >= count
        });
        if timeout(PATIENCE, until).await.is_err() {
            panic!("no {count} {method} {path}:\n{}", self.trace().join("\n"));
        }
    }

    /// Waits for a message in the attachment's error `field`, and returns the error.
    pub(crate) async fn error(&self, name: &str, field: &str) -> Value {
        self.until_error(name, field).await;
        self.attachment(name)["status"][field].clone()
    }

    /// Everything that was asked of API server and driver about volumes, in order.
    pub(crate) fn trace(&self) -> Vec<String> {
        self.trace_of(|_| true, |_| true)
    }

    /// The same of the attachment `va-NAME` and the volume `NAME` alone.
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

/// The body of a patch without the UID, which all patches of attachments have.
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

/// Long enough for whatever should not happen.
pub(crate) async fn settle() {
    sleep(Duration::from_millis(700)).await;
}

pub(crate) fn prepare_patch() -> String {
    format!(
        "md {}",
        json!({ "metadata": { "annotations": { N: "NID1" }, "finalizers": [F] } })
    )
}

pub(crate) const ATTACHED: &str = r#"st {"status":{"attached":true}}"#;
