//! Executes the steps of a script.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use registrar::kubelet::plan::keys::clip;
use registrar::kubelet::plan::schedule::CSI_TIMEOUT;
use registrar::kubelet::work::api;
use registrar::kubelet::work::metrics::CsiOperations;
use registrar::kubelet::work::plugin::CsiPlugin;
use serde_json::{Value, json};
use sidecar::csi::Deadline;
use sidecar::error::Chain;
use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::key::Key;
use sidecar::kube::patch::{Part, Patch};
use sidecar::kube::reflect::Resource;

use super::{calls, disk, pods};
use crate::model::claim::Claim;
use crate::model::driver::{CsiDriver, TokenRequest};
use crate::model::volume::{ClaimUse, PodRef, SecretRef};
use crate::plan::files;
use crate::plan::growth::Growth;
use crate::plan::layout::Layout;
use crate::plan::script::{Answer, Changes, Failure, Next, Reply, Step};
use crate::plan::world::Task;

/// The PersistentVolume resource.
pub const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");
/// The PersistentVolumeClaim resource.
pub const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims");
const DRIVERS: Resource = Resource::new("storage.k8s.io", "v1", "csidrivers");
const ATTACHMENTS: Resource = Resource::new("storage.k8s.io", "v1", "volumeattachments");

/// Clients and settings that steps need.
#[derive(Clone)]
pub struct Actor {
    /// API requests for single objects.
    pub objects: Api,
    /// API requests that otherwise only kubelet makes.
    pub kubelet: api::Api,
    /// The drivers of this node.
    pub plugin: Arc<CsiPlugin>,
    /// Durations of calls.
    pub operations: CsiOperations,
    /// Kubelet's directory.
    pub layout: Layout,
}

impl Actor {
    /// Runs a script to its end. All its driver calls together have two minutes, as in kubelet.
    pub async fn run(&self, task: &Task) -> (Changes, Result<(), String>) {
        let deadline = Deadline::after(CSI_TIMEOUT);
        let mut replies = Vec::new();
        loop {
            match task.next(&replies) {
                Next::Do(step) => replies.push(self.step(step, deadline).await),
                Next::End { changes, result } => return (changes, result),
            }
        }
    }

    async fn step(&self, step: Step, deadline: Deadline) -> Reply {
        match step {
            Step::Driver(name) => self.driver(&name).await.map(Answer::Driver),
            Step::Registered(name) => self.endpoint(&name).map(|_| Answer::Done),
            Step::Attachment(name) => self.attachment(&name).await.map(Answer::Context),
            Step::Secret(secret) => self.secret(&secret).await.map(Answer::Secret),
            Step::Token(pod, request) => self.token(&pod, &request).await,
            Step::Call { driver, call } => {
                let endpoint = self.endpoint(&driver)?;
                let limit = deadline.remaining();
                calls::call(&driver, &endpoint, &call, limit, &self.operations).await
            }
            Step::MakeDirectory(path) => change(&files::make_directory(path)),
            Step::Write(path, metadata) => change(&files::write(&path, &metadata)),
            Step::Read(path) => at(&path, disk::read(&path)).map(Answer::Metadata),
            Step::Link { link, target } => change(&files::link(link, target)),
            Step::IsMounted(path) => at(&path, disk::is_mounted(&path)).map(Answer::Is),
            Step::References(path) => {
                let within = self.layout.pods();
                at(&path, disk::references(&path, &within)).map(Answer::Paths)
            }
            Step::Remove(paths) => change(&files::remove(paths)),
            Step::Tidy(paths) => {
                disk::tidy(&paths);
                Ok(Answer::Done)
            }
            Step::Own {
                path,
                group,
                on_root_mismatch,
            } => own(path, group, on_root_mismatch).await,
            Step::Claim(namespace, name) => self.claim(&namespace, &name).await,
            Step::ReportGrowth { claim, growth } => self.report_growth(&claim, &growth).await,
        }
    }

    fn endpoint(&self, driver: &str) -> Result<String, Failure> {
        let registered = self.plugin.driver(driver);
        registered.map(|driver| driver.endpoint).ok_or_else(|| {
            Failure::local(format!(
                "driver name {} not found in the list of registered CSI drivers",
                clip(driver)
            ))
        })
    }

    /// The CSIDriver object, if there is one.
    pub(super) async fn driver(&self, name: &str) -> Result<Option<CsiDriver>, Failure> {
        let key = key(None, name)?;
        match self.objects.get(&DRIVERS, &key).await {
            Ok(json) => CsiDriver::read(&json)
                .map(Some)
                .map_err(|error| Failure::local(format!("CSIDriver {name}: {error}"))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(refused("CSIDriver", name, &error)),
        }
    }

    async fn attachment(&self, name: &str) -> Result<BTreeMap<String, String>, Failure> {
        let answer = self.objects.get(&ATTACHMENTS, &key(None, name)?).await;
        let json = answer.map_err(|error| refused("VolumeAttachment", name, &error))?;
        let object: Value = serde_json::from_str(&json)
            .map_err(|error| Failure::local(format!("VolumeAttachment {name}: {error}")))?;
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            let why = format!("VolumeAttachment {name} is being deleted");
            return Err(Failure::local(why));
        }
        if object.pointer("/status/attached") != Some(&Value::Bool(true)) {
            let reason = object.pointer("/status/attachError/message");
            let reason = reason.and_then(Value::as_str).unwrap_or("not attached yet");
            return Err(Failure::local(format!(
                "VolumeAttachment {name}: {}",
                clip(reason)
            )));
        }
        let metadata = object.pointer("/status/attachmentMetadata").cloned();
        Ok(serde_json::from_value(metadata.unwrap_or_default()).unwrap_or_default())
    }

    async fn secret(&self, secret: &SecretRef) -> Result<BTreeMap<String, String>, Failure> {
        let SecretRef { namespace, name } = secret;
        let answer = self.objects.secret(namespace, name).await;
        let values = answer.map_err(|error| Failure::local(clip(&error.message)))?;
        let text = |(key, value): (String, Vec<u8>)| match String::from_utf8(value) {
            Ok(value) => Ok((key, value)),
            // The UTF-8 error would quote the value.
            Err(_) => Err(Failure::local(format!(
                "the value of {key} is not text, which is all that CSI can carry"
            ))),
        };
        values.into_iter().map(text).collect()
    }

    async fn token(&self, pod: &PodRef, request: &TokenRequest) -> Reply {
        key(Some(&pod.namespace), &pod.service_account)?;
        let audience = request.audience.as_str();
        let audiences = if audience.is_empty() {
            json!([])
        } else {
            json!([audience])
        };
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": audiences,
                "expirationSeconds": request.expiration_seconds,
                "boundObjectRef": {
                    "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid,
                },
            },
        });
        let (namespace, account) = (&pod.namespace, &pod.service_account);
        let answer = self.kubelet.create_token(namespace, account, &body).await;
        let answer = answer.map_err(|error| Failure::local(Chain(&error).to_string()))?;
        let text = |pointer| answer.pointer(pointer).and_then(Value::as_str);
        match (text("/status/token"), text("/status/expirationTimestamp")) {
            (Some(token), Some(expires)) => Ok(Answer::Token(token.to_owned(), expires.to_owned())),
            _ => Err(Failure::local("the API server answered without a token")),
        }
    }

    async fn claim(&self, namespace: &str, name: &str) -> Reply {
        let key = key(Some(namespace), name)?;
        let answer = self.objects.get(&CLAIMS, &key).await;
        let json = answer.map_err(|error| refused("claim", key.as_str(), &error))?;
        claim(namespace, name, &json)
    }

    async fn report_growth(&self, it: &ClaimUse, growth: &Growth) -> Reply {
        let key = key(Some(&it.namespace), &it.name)?;
        let patch = Patch::Strategic(growth.patch(it, &pods::wall_clock()));
        let sent = self.objects.patch(&CLAIMS, &key, Part::Status, &patch);
        let json = sent.await;
        let json = json.map_err(|error| refused("claim", key.as_str(), &error))?;
        claim(&it.namespace, &it.name, json.get())
    }
}

fn claim(namespace: &str, name: &str, json: &str) -> Reply {
    match Claim::read(json) {
        Ok(claim) if claim.name == name => Ok(Answer::Claim(claim.usage(namespace))),
        Ok(_) => Err(Failure::local("the answer is another claim")),
        Err(error) => Err(Failure::local(format!("claim {}: {error}", clip(name)))),
    }
}

/// Key of an object whose name comes from outside.
pub(super) fn key(namespace: Option<&str>, name: &str) -> Result<Key, Failure> {
    Key::new(namespace, name)
        .ok_or_else(|| Failure::local(format!("{:?} is not the name of an object", clip(name))))
}

pub(super) fn refused(kind: &str, name: &str, error: &ApiError) -> Failure {
    Failure::local(format!("{kind} {}: {}", clip(name), clip(&error.message)))
}

fn change(sequence: &files::Sequence) -> Reply {
    match disk::execute(sequence) {
        Ok(()) => Ok(Answer::Done),
        // The error names the path.
        Err(error) => Err(Failure::local(error.to_string())),
    }
}

fn at<T>(path: &std::path::Path, result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::local(format!("{}: {}", path.display(), Chain(&error))))
}

/// Runs in a blocking thread: a large volume takes long.
async fn own(path: PathBuf, group: u32, on_root_mismatch: bool) -> Reply {
    let name = path.display().to_string();
    let work = move || disk::own(&path, group, on_root_mismatch);
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(())) => Ok(Answer::Done),
        Ok(Err(error)) => Err(Failure::local(format!(
            "applying fsGroup to {name}: {error}"
        ))),
        Err(error) => Err(Failure::local(format!(
            "applying fsGroup to {name}: {error}"
        ))),
    }
}
