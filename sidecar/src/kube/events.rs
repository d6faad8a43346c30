//! Events for users: `kubectl describe` shows them under the object.
//!
//! Core events (`v1`), because the RBAC of the Go sidecars grants no others. Recording never blocks
//! and never fails: events are hints, and beyond a budget, a full queue or a missing permission they
//! are dropped. A recorder sees an object's name and a text, never a request or a secret.

mod correlate;
mod recent;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use ::kube::Client;
use http::{Method, Request, header};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::error::Chain;
use crate::kube::rate::bucket::Bucket;
use crate::retry::RetryPolicy;
use correlate::{Correlator, Now, Write};

/// Events that wait to be written, as many as client-go holds.
const QUEUE: usize = 1000;

/// The worker's pace: what many objects have to tell at once is written in the end, without taking
/// the API server's time from what they wait for.
const BURST: u32 = 50;
const RATE: f64 = 20.0;

/// After a refusal a namespace is left alone this long, in case the permission is granted later.
const QUIET: Duration = Duration::from_secs(600);

/// For a server that is away or overloaded.
const RETRIES: RetryPolicy = RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(8));
const ATTEMPTS: u32 = 4;

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// `apiVersion`.
    pub api_version: Cow<'static, str>,
    /// `kind`.
    pub kind: Cow<'static, str>,
    /// `metadata.namespace`, empty for an object of the cluster, whose events go to `default`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`, empty if unknown.
    pub resource_version: String,
}

/// How an event is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All is well.
    Normal,
    /// Something may need attention.
    Warning,
}

impl Severity {
    fn text(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Who reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// `source.component`.
    pub component: String,
    /// `source.host`.
    pub host: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    about: Reference,
    severity: Severity,
    reason: &'static str,
    message: String,
}

/// Takes events; clones share the queue.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: Option<mpsc::Sender<(Event, Now)>>,
}

impl Recorder {
    /// A recorder and the worker that writes what it takes. The worker must run.
    pub fn new(client: Client, source: Source) -> (Self, Worker) {
        let (queue, events) = mpsc::channel(QUEUE);
        let worker = Worker {
            client,
            events,
            correlator: Correlator::new(source),
            pace: Bucket::new(RATE, BURST),
            quiet: HashMap::new(),
            complained: false,
        };
        (Self { queue: Some(queue) }, worker)
    }

    /// A recorder that drops everything.
    pub fn disabled() -> Self {
        Self { queue: None }
    }

    /// Records an event. `reason` is in UpperCamelCase; users see `message`.
    pub fn record(
        &self,
        about: &Reference,
        severity: Severity,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let Some(queue) = &self.queue else { return };
        let event = Event {
            about: about.clone(),
            severity,
            reason,
            message: message.into(),
        };
        // Full, or the program is about to end.
        let now = Now {
            wall: jiff::Timestamp::now(),
            instant: Instant::now().into_std(),
        };
        if queue.try_send((event, now)).is_err() {
            crate::verbose!(2, reason, object = about.name, "Dropped an event");
        }
    }
}

/// Writes events, one after the other.
pub struct Worker {
    client: Client,
    events: mpsc::Receiver<(Event, Now)>,
    correlator: Correlator,
    pace: Bucket,
    /// Namespaces in which events are refused, and until when they are left alone.
    quiet: HashMap<String, Instant>,
    complained: bool,
}

/// What became of a write.
enum Sent {
    Done,
    Missing,
    Failed(::kube::Error),
}

impl Worker {
    /// Runs until all recorders are gone and what they recorded is written.
    pub async fn run(mut self) {
        while let Some((event, now)) = self.events.recv().await {
            if let Some(write) = self.correlator.take(&event, now) {
                while let Err(wait) = self.pace.take(Instant::now().into_std()) {
                    sleep(wait).await;
                }
                self.write(&write).await;
            }
        }
    }

    async fn write(&mut self, write: &Write) {
        let (Write::Create { namespace, .. } | Write::Count { namespace, .. }) = write;
        let now = Instant::now();
        self.quiet.retain(|_, until| *until > now);
        if self.quiet.contains_key(namespace) {
            return;
        }
        for attempt in 1..=ATTEMPTS {
            let Err(error) = self.attempt(write).await else {
                return;
            };
            let status = if let ::kube::Error::Api(status) = &error {
                status.code
            } else {
                0
            };
            if status == 403 {
                return self.refused(namespace, &error);
            }
            if (400..500).contains(&status) && status != 429 {
                crate::verbose!(2, error = %Chain(&error), "Server rejected event (will not retry!)");
                return;
            }
            if attempt == ATTEMPTS {
                crate::verbose!(2, error = %Chain(&error), "Unable to write event, giving up");
                return;
            }
            sleep(RETRIES.delay(attempt, 0.0)).await;
        }
    }

    fn refused(&mut self, namespace: &str, error: &::kube::Error) {
        self.quiet
            .insert(namespace.to_owned(), Instant::now() + QUIET);
        if !self.complained {
            self.complained = true;
            tracing::error!(error = %Chain(error), "Server rejected event (will not retry!)");
        }
    }

    async fn attempt(&self, write: &Write) -> Result<(), ::kube::Error> {
        let sent = match write {
            Write::Create { namespace, body } => self.create(namespace, body).await,
            Write::Count {
                namespace,
                name,
                patch,
                body,
            } => {
                let sent = self.count(namespace, name, patch).await;
                // Events live an hour, or the first one was never written.
                if matches!(sent, Sent::Missing) {
                    self.create(namespace, body).await
                } else {
                    sent
                }
            }
        };
        match sent {
            Sent::Done | Sent::Missing => Ok(()),
            Sent::Failed(error) => Err(error),
        }
    }

    async fn create(&self, namespace: &str, body: &Value) -> Sent {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        self.send(Method::POST, &path, "application/json", body)
            .await
    }

    async fn count(&self, namespace: &str, name: &str, patch: &Value) -> Sent {
        let path = format!("/api/v1/namespaces/{namespace}/events/{name}");
        self.send(Method::PATCH, &path, "application/merge-patch+json", patch)
            .await
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Sent {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .body(body.to_string().into_bytes());
        let request = match request {
            Ok(request) => request,
            Err(error) => return Sent::Failed(::kube::Error::HttpError(error)),
        };
        match self.client.request_text(request).await {
            Ok(_) => Sent::Done,
            Err(::kube::Error::Api(status)) if status.code == 404 => Sent::Missing,
            // An earlier attempt arrived though its answer did not.
            Err(::kube::Error::Api(status)) if status.reason == "AlreadyExists" => Sent::Done,
            Err(error) => Sent::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests;
