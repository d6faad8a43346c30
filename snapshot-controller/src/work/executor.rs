//! Carries out the controller's steps, each one request, tells users, and logs.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use sidecar::controller::Seat;
use sidecar::controller::engine::{self, Shell};
use sidecar::error::Chain;
use sidecar::kube::api::Api;
use sidecar::kube::cache::{Cache, Record};
use sidecar::kube::events::{Recorder, Reference, Severity};
use sidecar::kube::key::Key as ObjectKey;
use sidecar::kube::lean::{Parts, nullable, own};
use sidecar::kube::patch::{self, Part, Patch};
use sidecar::kube::reflect::Resource;
use sidecar::metrics::RegisterError;
use sidecar::queue::{Config as QueueConfig, Queue};
use sidecar::snapshot::VERSION;
use tokio::time::Instant;

use super::api::{CLAIMS, CONTENTS, GROUP_CONTENTS, GROUP_SNAPSHOTS, SNAPSHOTS, VOLUMES};
use super::informers::Informers;
use super::metrics::Metrics;
use crate::args::Config;
use crate::model::Text;
use crate::plan::in_flight::Key;
use crate::plan::reactor::{Event, Failed, Notice};
use crate::plan::step::{Answer, ApiError, Exactly, Object, Refusal, Step};
use crate::plan::{self, Controller};

/// The controller, driven.
pub type Engine = engine::Engine<Controller, Executor>;

/// What steps are carried out with.
pub struct Executor {
    /// What decisions look at.
    pub informers: Informers,
    api: Api,
    /// Where users are told.
    events: Recorder,
    metrics: Metrics,
}

/// Names out of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamesWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    items: Vec<Parts<'a, IgnoredAny>>,
}

/// A request that changes an object.
enum Write<'a> {
    Patch(Part, &'a Value),
    Create(&'a Value),
    Delete(&'a Exactly),
}

/// A controller with empty caches.
///
/// # Errors
/// When the metrics refuse the queues' names, which they do for no text.
pub fn engine(
    seat: &Seat,
    config: &Config,
    events: Recorder,
    metrics: &Metrics,
) -> Result<Arc<Engine>, RegisterError> {
    let queue = |name: &'static str| {
        Queue::new(QueueConfig {
            metrics: Some(seat.queues().clone()),
            ..QueueConfig::new(name, config.pacing.workers, config.pacing.delay())
        })
    };
    // In the order of `plan::reactor::SNAPSHOTS` and the following.
    let queues = vec![
        queue("snapshot-controller-snapshot")?,
        queue("snapshot-controller-content")?,
        queue("snapshot-controller-claim")?,
        queue("snapshot-controller-group-snapshot")?,
        queue("snapshot-controller-group-content")?,
    ];
    Ok(Engine::new(Controller::default(), queues, |engine| {
        Executor {
            informers: Informers::new(engine, config.settings),
            api: seat.api(),
            events,
            metrics: metrics.clone(),
        }
    }))
}

impl Shell<Controller> for Executor {
    fn informers(&self) -> &(dyn plan::Informers + 'static) {
        &self.informers
    }

    async fn execute(&self, mut step: Step) -> (Step, Answer) {
        let answer = self.carry_out(&mut step).await;
        (step, answer)
    }

    fn note(&self, notice: Notice) {
        match notice {
            Notice::Event(event) => self.tell(*event),
            Notice::Sample(sample) => self.metrics.observe(&sample, Instant::now().into_std()),
            Notice::InFlight(number) => self.metrics.in_flight(number),
        }
    }

    fn failed(&self, key: &Key, failed: &Failed, failures: u32, wait: Duration) {
        let (kind, key) = match key {
            Key::Snapshot(key) => ("VolumeSnapshot", key),
            Key::Content(name) => ("VolumeSnapshotContent", name),
            Key::Claim(key) => ("PersistentVolumeClaim", key),
            Key::Group(key) => ("VolumeGroupSnapshot", key),
            Key::GroupContent(name) => ("VolumeGroupSnapshotContent", name),
        };
        tracing::error!(
            kind,
            key = &**key,
            what = failed.what,
            failures,
            retry_after = ?wait,
            err = failed.error,
            "Error processing"
        );
    }
}

impl Executor {
    async fn carry_out(&self, step: &mut Step) -> Answer {
        let caches = &self.informers;
        let result = match step {
            Step::Read(object) => return self.read(object).await,
            Step::Patch(of, patch) => self.write(of, Write::Patch(Part::Main, patch)).await,
            Step::PatchStatus(of, patch) => self.write(of, Write::Patch(Part::Status, patch)).await,
            Step::Create(of, body) => self.write(of, Write::Create(body)).await,
            Step::Delete(of, exactly) => self.write(of, Write::Delete(exactly)).await,
            Step::UpdateClaim(key, json) => {
                let body = RawValue::from_string(json.to_string());
                let update = async |key: ObjectKey| {
                    let body = body.map_err(|error| ApiError::local(error.to_string()))?;
                    self.api.update(&CLAIMS, &key, &body).await
                };
                take(&caches.claims, key, update).await
            }
        };
        match result {
            Ok(_) => Answer::Done,
            Err(error) => Answer::Refused(error),
        }
    }

    async fn read(&self, object: &Object) -> Answer {
        let caches = &self.informers;
        let get = async |resource: Resource, key: ObjectKey| self.api.get(&resource, &key).await;
        let result = match object {
            Object::Snapshot(key) => {
                take(&caches.snapshots, key, async |key| {
                    get(SNAPSHOTS, key).await
                })
                .await
            }
            Object::Content(name) => {
                take(&caches.contents, name, async |key| get(CONTENTS, key).await).await
            }
            Object::Volume(name) => {
                take(&caches.volumes, name, async |key| get(VOLUMES, key).await).await
            }
            Object::Group(key) => {
                take(&caches.groups, key, async |key| {
                    get(GROUP_SNAPSHOTS, key).await
                })
                .await
            }
            Object::GroupContent(name) => {
                take(&caches.group_contents, name, async |key| {
                    get(GROUP_CONTENTS, key).await
                })
                .await
            }
            Object::Claims(namespace, selector) => {
                let names = self.names_of_claims(namespace, selector).await;
                return names
                    .map_or_else(Answer::Refused, |names| Answer::Read(Some(names.into())));
            }
            Object::Claim(key) => {
                let claim = take(&caches.claims, key, async |key| get(CLAIMS, key).await).await;
                return claim.map_or_else(Answer::Refused, |json| Answer::Read(Some(json.into())));
            }
        };
        result.map_or_else(Answer::Refused, |_| Answer::Read(None))
    }

    async fn write(&self, of: &Object, write: Write<'_>) -> Result<String, ApiError> {
        let caches = &self.informers;
        match of {
            Object::Snapshot(key) => self.send(&caches.snapshots, &SNAPSHOTS, key, write).await,
            Object::Content(name) => self.send(&caches.contents, &CONTENTS, name, write).await,
            Object::Group(key) => {
                self.send(&caches.groups, &GROUP_SNAPSHOTS, key, write)
                    .await
            }
            Object::GroupContent(name) => {
                let cache = &caches.group_contents;
                self.send(cache, &GROUP_CONTENTS, name, write).await
            }
            Object::Claim(_) | Object::Volume(_) | Object::Claims(..) => Err(ApiError::local(
                "bug: objects of this kind are read-only here",
            )),
        }
    }

    async fn send<R: Record>(
        &self,
        cache: &Cache<R>,
        resource: &Resource,
        key: &Text,
        write: Write<'_>,
    ) -> Result<String, ApiError> {
        let send = async |key: ObjectKey| match write {
            Write::Patch(part, patch) => {
                let patch = Patch::Merge(patch.clone());
                let json = self.api.patch(resource, &key, part, &patch).await?;
                Ok(json.get().to_owned())
            }
            Write::Create(body) => self.api.create(resource, key.namespace(), body).await,
            Write::Delete(Exactly { uid, version }) => {
                let same = (&**uid, &**version);
                let json = self.api.delete_unchanged(resource, &key, same).await?;
                // What nothing held is gone, and the answer is none.
                if names(&json, key.name()) {
                    Ok(json)
                } else {
                    Err(missing())
                }
            }
        };
        take(cache, key, send).await
    }

    /// The names of the claims that a label selector selects, one a line.
    async fn names_of_claims(&self, namespace: &str, selector: &str) -> Result<String, ApiError> {
        let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let path = patch::collection(&CLAIMS, Some(namespace));
        let json = self
            .api
            .read(&format!("{path}?labelSelector={selector}"))
            .await?;
        let list: NamesWire<'_> =
            serde_json::from_str(&json).map_err(|error| ApiError::unreadable(&Chain(&error)))?;
        let names = list.items.iter().map(|item| own(&item.metadata.name));
        Ok(names.collect::<Vec<_>>().join("\n"))
    }

    fn tell(&self, event: Event) {
        let about = Reference {
            api_version: format!("{}/{VERSION}", event.about.kind.group).into(),
            kind: event.about.kind.kind.into(),
            namespace: event.about.namespace.to_string(),
            name: event.about.name.to_string(),
            uid: event.about.uid.to_string(),
            resource_version: event.about.version.to_string(),
        };
        let severity = if event.warning {
            Severity::Warning
        } else {
            Severity::Normal
        };
        self.events
            .record(&about, severity, event.reason, event.message);
    }
}

/// Sends a request about an object, and takes the object that is the answer into the cache.
async fn take<R: Record>(
    cache: &Cache<R>,
    key: &Text,
    send: impl AsyncFnOnce(ObjectKey) -> Result<String, ApiError>,
) -> Result<String, ApiError> {
    let (namespace, name) = match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, &**key),
    };
    let key = ObjectKey::new(namespace, name)
        .ok_or_else(|| ApiError::local(format!("{key:?} is no object name")))?;
    let own = cache.begin_write(&key);
    let json = send(key).await?;
    own.answered(&json)
        .map_err(|error| ApiError::unreadable(&Chain(&error)))?;
    Ok(json)
}

/// Whether an answer is the object of this name.
fn names(json: &str, name: &str) -> bool {
    let object: Result<Value, _> = serde_json::from_str(json);
    object.is_ok_and(|object| {
        object.get("kind").and_then(Value::as_str) != Some("Status")
            && object.pointer("/metadata/name").and_then(Value::as_str) == Some(name)
    })
}

fn missing() -> ApiError {
    ApiError {
        message: "it is gone".to_owned(),
        refusal: Refusal::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_delete_is_the_object_or_none() {
        for (json, expected) in [
            (
                r#"{"kind":"VolumeSnapshotContent","metadata":{"name":"v"}}"#,
                true,
            ),
            (
                r#"{"kind":"VolumeSnapshotContent","metadata":{"name":"w"}}"#,
                false,
            ),
            (
                r#"{"kind":"Status","metadata":{},"status":"Success","details":{"name":"v"}}"#,
                false,
            ),
            ("", false),
        ] {
            assert_eq!(names(json, "v"), expected, "{json}");
        }
    }
}
