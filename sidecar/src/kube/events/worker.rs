//! Writes events: a few at a time, as fast as the server accepts them.
//!
//! client-go writes one after the other. Several at once compensate for a server that is slow to answer, so
//! that the events of a thousand objects are written soon after they happened. [`crate::kube::rate`] decides
//! which budget these requests use.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::kube::Client;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http::{Method, Request, header};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::Source;
use super::backlog::Backlog;
use super::correlate::{Correlator, Write};
use super::id::Id;
use crate::error::Chain;
use crate::retry::RetryPolicy;

/// Number of concurrent writes while all succeed; one after a failure.
const AT_ONCE: usize = 4;

/// Pause of a namespace after a refusal, in case the permission is granted later.
pub(super) const QUIET: Duration = Duration::from_secs(600);

/// Back-off for a server that is away or overloaded.
const RETRIES: RetryPolicy = RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(8));
const ATTEMPTS: u32 = 4;

/// Writes the events of a recorder.
pub struct Worker {
    client: Client,
    backlog: Arc<Mutex<Backlog>>,
    woken: mpsc::Receiver<()>,
    correlator: Correlator,
    /// Objects with a write in flight.
    busy: Vec<Id>,
    at_once: usize,
    /// Namespaces that refuse events, and until when each is paused.
    quiet: HashMap<String, Instant>,
    complained: bool,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// The result of a write, retries included.
struct Written {
    object: Id,
    namespace: String,
    result: Result<(), ::kube::Error>,
}

impl Worker {
    pub(super) fn new(
        client: Client,
        backlog: Arc<Mutex<Backlog>>,
        woken: mpsc::Receiver<()>,
        source: Source,
    ) -> Self {
        Self {
            client,
            backlog,
            woken,
            correlator: Correlator::new(source),
            busy: Vec::new(),
            at_once: 1,
            quiet: HashMap::new(),
            complained: false,
        }
    }

    /// Runs until all recorders are dropped and their events are written.
    pub async fn run(mut self) {
        let mut running = FuturesUnordered::new();
        let mut open = true;
        loop {
            while running.len() < self.at_once
                && let Some((object, write)) = self.next()
            {
                self.busy.push(object);
                running.push(execute(self.client.clone(), object, write));
            }
            tokio::select! {
                Some(written) = running.next() => self.note(written),
                word = self.woken.recv(), if open => open = word.is_some(),
                // Nothing runs, so no event was left because its object was busy, and no recorder remains.
                else => return,
            }
        }
    }

    /// The next write, if any.
    fn next(&mut self) -> Option<(Id, Write)> {
        loop {
            let next = {
                let mut backlog = self.backlog.lock().unwrap_or_else(PoisonError::into_inner);
                backlog.take(&self.busy)?
            };
            if let Some(write) = self.correlator.take(&next.event, next.now)
                && !self.is_quiet(write.namespace())
            {
                return Some((next.object, write));
            }
        }
    }

    fn is_quiet(&mut self, namespace: &str) -> bool {
        let now = Instant::now();
        self.quiet.retain(|_, until| *until > now);
        self.quiet.contains_key(namespace)
    }

    fn note(&mut self, written: Written) {
        self.busy.retain(|object| *object != written.object);
        let Err(error) = written.result else {
            self.at_once = (self.at_once + 1).min(AT_ONCE);
            return;
        };
        self.at_once = 1;
        match status(&error) {
            403 if is_denied(&error) => self.refused(written.namespace, &error),
            400..500 => {
                crate::verbose!(2, error = %Chain(&error), "Server rejected event (will not retry!)");
            }
            _ => crate::verbose!(2, error = %Chain(&error), "Unable to write event, giving up"),
        }
    }

    fn refused(&mut self, namespace: String, error: &::kube::Error) {
        self.quiet.insert(namespace, Instant::now() + QUIET);
        if !self.complained {
            self.complained = true;
            tracing::error!(error = %Chain(error), "Server rejected event (will not retry!)");
        }
    }
}

/// Whether the permission is missing, which would refuse the next event as well. A quota, a policy or a
/// namespace that is being deleted may refuse one event and accept another.
fn is_denied(error: &::kube::Error) -> bool {
    // The API server's wording for all of its authorizers; the status code is the same for every refusal.
    matches!(error, ::kube::Error::Api(status) if status.message.contains(" is forbidden: User "))
}

/// The status code of a response, 0 if there was none.
fn status(error: &::kube::Error) -> u16 {
    if let ::kube::Error::Api(status) = error {
        status.code
    } else {
        0
    }
}

async fn execute(client: Client, object: Id, write: Write) -> Written {
    let mut attempt = 1;
    let result = loop {
        let result = try_once(&client, &write).await;
        let again = result.as_ref().is_err_and(|error| {
            let status = status(error);
            status == 429 || !(400..500).contains(&status)
        });
        if !again || attempt == ATTEMPTS {
            break result;
        }
        sleep(RETRIES.delay(attempt, 0.0)).await;
        attempt += 1;
    };
    Written {
        object,
        namespace: write.into_namespace(),
        result,
    }
}

async fn try_once(client: &Client, write: &Write) -> Result<(), ::kube::Error> {
    match write {
        Write::Create { namespace, body } => create(client, namespace, body).await,
        Write::Count {
            namespace,
            name,
            patch,
            body,
        } => {
            let path = format!("/api/v1/namespaces/{namespace}/events/{name}");
            let content_type = "application/merge-patch+json";
            let sent = send(client, Method::PATCH, &path, content_type, patch).await;
            match sent {
                // The event expired (events live an hour), or the first one was never written.
                Err(error) if status(&error) == 404 => create(client, namespace, body).await,
                sent => sent,
            }
        }
    }
}

async fn create(client: &Client, namespace: &str, body: &Value) -> Result<(), ::kube::Error> {
    let path = format!("/api/v1/namespaces/{namespace}/events");
    match send(client, Method::POST, &path, "application/json", body).await {
        // An earlier attempt succeeded although its response was lost.
        Err(::kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        sent => sent,
    }
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<(), ::kube::Error> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .body(body.to_string().into_bytes())
        .map_err(::kube::Error::HttpError)?;
    client.request_text(request).await.map(drop)
}
