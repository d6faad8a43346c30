//! Events for users: `kubectl describe` shows them under the object.
//!
//! Core events (`v1`), because the RBAC of the Go sidecars grants no others. Recording never blocks
//! and never fails: events are hints, and a spent budget, a full queue or a missing permission drops
//! them. A recorder gets an object's name and a text, never a request or a secret.

mod backlog;
mod correlate;
mod id;
mod recent;
mod worker;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use ::kube::Client;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::visible::visible;
use backlog::Backlog;
use correlate::{Now, cut};

pub use worker::Worker;

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// `apiVersion`.
    pub api_version: Cow<'static, str>,
    /// `kind`.
    pub kind: Cow<'static, str>,
    /// `metadata.namespace`, empty for a cluster-scoped object, whose events go to `default`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`, empty if unknown.
    pub resource_version: String,
}

/// The `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Information only.
    Normal,
    /// The user may have to act.
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

/// The reporter of an event.
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

/// Records events; clones share the queue.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: Option<Queue>,
}

#[derive(Clone, Debug)]
struct Queue {
    backlog: Arc<Mutex<Backlog>>,
    /// Holds one signal at most: there is something to write.
    wake: mpsc::Sender<()>,
}

impl Recorder {
    /// A recorder, and the worker that writes its events. The worker must run.
    pub fn new(client: Client, source: Source) -> (Self, Worker) {
        let (wake, woken) = mpsc::channel(1);
        let backlog = Arc::new(Mutex::new(Backlog::default()));
        let worker = Worker::new(client, Arc::clone(&backlog), woken, source);
        let queue = Some(Queue { backlog, wake });
        (Self { queue }, worker)
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
        let message: String = message.into();
        let event = Event {
            about: about.clone(),
            severity,
            reason,
            // Usually the driver's message, which people read in a terminal.
            message: cut(&visible(&message)).to_owned(),
        };
        let now = Now {
            wall: jiff::Timestamp::now(),
            instant: Instant::now().into_std(),
        };
        let kept = {
            let mut backlog = queue.backlog.lock().unwrap_or_else(PoisonError::into_inner);
            backlog.put(event, now)
        };
        if !kept {
            crate::verbose!(2, reason, object = about.name, "Dropped an event");
        }
        // Full: the worker is about to look anyway. Closed: the program is about to exit.
        let _ = queue.wake.try_send(());
    }
}

#[cfg(test)]
mod tests;
