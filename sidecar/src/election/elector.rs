//! The shell around the election's decisions: sends requests, waits, logs, counts.
//!
//! It has its own client, so that a controller that is throttled or floods the API server cannot starve
//! the renewals, and each of its requests has its own time limit.

use std::fmt;
use std::future::poll_fn;
use std::time::Instant;

use ::kube::Client;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::decide::{Claim, Election, Lost, Step, Timing};
use super::fence::Fence;
use super::health::Health;
use super::lease::{self, Labels};
use crate::clock::now;
use crate::error::Chain;
use crate::metrics::ElectionMetrics;
use crate::rt::unit_random;

/// A Lease is about a kilobyte; a much larger response is none.
const ANSWER_BYTES: usize = 1 << 20;

/// Settings of an elector.
pub struct Config {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease, sanitized.
    pub name: String,
    /// The holder identity, sanitized; must differ between replicas.
    pub identity: String,
    /// Holders whose names end with this have lost the right to work; the lease is taken from them at
    /// once.
    pub succeeds: Option<String>,
    /// Name of the lease in the health check; client-go leaves it empty.
    pub shown: String,
    /// The durations of the election.
    pub timing: Timing,
    /// Labels to merge into the Lease's.
    pub labels: Labels,
    /// The election's metrics, if any.
    pub metrics: Option<ElectionMetrics>,
    /// The fence that is opened while the lease is held; it must not guard the elector's own requests.
    pub fence: Fence,
    /// Called with the text of each `LeaderElection` event. Must not block.
    pub on_event: Box<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Takes part in one election: [`acquire`](Self::acquire), then [`lead`](Self::lead) beside the
/// controllers, then [`release`](Self::release) if leadership should be handed over.
pub struct Elector {
    client: Client,
    config: Config,
    election: Election,
    /// The Lease as last seen, on which an update is based.
    seen: Value,
    health: Health,
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

enum Answer {
    Lease(Value),
    NotFound,
    Conflict,
    /// The API server returned another error.
    Refused(String),
    /// There is no response, or an unreadable one.
    Failed(String),
}

impl Elector {
    /// Creates a standby. `client` should be used for nothing else.
    pub fn new(client: Client, config: Config) -> Self {
        let health = Health::new(config.timing.unhealthy_after(), &config.shown);
        let election = standby(&config);
        let elector = Self {
            client,
            config,
            election,
            seen: Value::Null,
            health,
        };
        elector.show();
        elector
    }

    /// The state behind `/healthz/leader-election`.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Waits until this process leads. May be dropped at any point; a request in flight may then still
    /// take effect, and the lease is free again only when it expires.
    pub async fn acquire(&mut self) {
        tracing::info!(lease = self.name(), "Attempting to acquire leader lease...");
        while self.election.leading_since_renewal().is_none() {
            if self.step().await.is_err() {
                // Leadership was lost before: start again as a standby without memory.
                self.election = standby(&self.config);
            }
        }
        tracing::info!(lease = self.name(), "Successfully acquired lease");
        self.event("became leader");
    }

    /// Renews the lease until leadership is lost, and returns after that: all work that needs leadership
    /// must stop at once. After a time in which nothing ran, the loss is noticed as soon as this is
    /// polled.
    pub async fn lead(&mut self) -> Lost {
        let fence = self.config.fence.clone();
        loop {
            let step = tokio::select! {
                biased;
                // The next step finds the loss, too.
                () = poll_fn(|context| fence.poll_over(context)) => self.step().await,
                step = self.step() => step,
            };
            if let Err(lost) = step {
                fence.close();
                self.show();
                tracing::error!(lease = self.name(), reason = %lost, "Stopped leading");
                self.event("stopped leading");
                return lost;
            }
        }
    }

    /// Releases the lease, if it was held, so that another replica can take it at once. Failures are
    /// logged.
    pub async fn release(mut self) {
        if self.election.leading_since_renewal().is_none() {
            return;
        }
        self.config.fence.close();
        let limit = self.config.timing.request();
        if timeout(limit, self.try_release()).await.is_err() {
            tracing::warn!(lease = self.name(), "Could not release the lease in time");
        }
        self.event("stopped leading");
    }

    async fn try_release(&mut self) {
        for _ in 0..2 {
            let Some(claim) = self.election.release() else {
                return;
            };
            match self.write(Method::PUT, &claim).await {
                Answer::Lease(_) => {
                    tracing::info!(lease = self.name(), "Released the lease");
                    return;
                }
                Answer::Failed(error) | Answer::Refused(error) => {
                    tracing::warn!(lease = self.name(), error, "Could not release the lease");
                    return;
                }
                Answer::NotFound => return,
                // A renewal whose response was not awaited may have been written first.
                Answer::Conflict => {
                    if let Answer::Lease(found) = self.request(Method::GET, None).await {
                        self.election.observe(lease::read(&found), now());
                        self.seen = found;
                    }
                }
            }
        }
    }

    async fn step(&mut self) -> Result<(), Lost> {
        let started = now();
        match self.election.next(started) {
            Step::Wait(until) => sleep(until.saturating_duration_since(started)).await,
            Step::Get => match self.request(Method::GET, None).await {
                Answer::Lease(found) => self.found(found),
                Answer::NotFound => self.election.not_found(),
                Answer::Conflict => self.failed("the API server answered a conflict to a read"),
                Answer::Refused(error) => self.refused(error),
                Answer::Failed(error) => self.failed(&error),
            },
            Step::Create(claim) => {
                self.seen = lease::new(&self.config.namespace, &self.config.name);
                match self.write(Method::POST, &claim).await {
                    Answer::NotFound => {
                        let namespace = &self.config.namespace;
                        self.refused(format!("there is no namespace {namespace}"));
                    }
                    answer @ (Answer::Lease(_)
                    | Answer::Conflict
                    | Answer::Refused(_)
                    | Answer::Failed(_)) => self.written(answer, started),
                }
            }
            Step::Update(claim) => {
                let answer = self.write(Method::PUT, &claim).await;
                self.written(answer, started);
            }
            Step::StepDown(lost) => return Err(lost),
        }
        Ok(())
    }

    fn found(&mut self, found: Value) {
        let record = lease::read(&found);
        if self.election.holder() != Some(record.holder.as_str()) && !record.holder.is_empty() {
            tracing::info!(
                lease = self.name(),
                holder = record.holder,
                since = record.acquired,
                "Leader lease is held"
            );
        }
        if self.election.leading_since_renewal().is_none() {
            self.config.fence.follow(renewed(&found, &record.renewed));
        }
        self.seen = found;
        self.health.set_refused(None);
        self.health.set_seen(self.name(), &record);
        self.election.found(record, now(), unit_random());
    }

    fn written(&mut self, answer: Answer, started: Instant) {
        match answer {
            Answer::Lease(written) => {
                let record = lease::read(&written);
                self.seen = written;
                self.health.set_refused(None);
                self.health.set_seen(self.name(), &record);
                self.election.written(record, started, now());
                self.show();
            }
            Answer::Conflict | Answer::NotFound => {
                let slow = self.election.conflict(now(), unit_random());
                if let (true, Some(metrics)) = (slow, &self.config.metrics) {
                    metrics.slow_path();
                }
            }
            Answer::Refused(error) => self.refused(error),
            Answer::Failed(error) => self.failed(&error),
        }
    }

    fn refused(&mut self, error: String) {
        self.failed(&error);
        self.health.set_refused(Some(error));
    }

    fn failed(&mut self, error: &str) {
        let lease = self.name();
        tracing::error!(lease, error, "Could not get or renew the leader lease");
        self.election.failed(now(), unit_random());
    }

    fn show(&self) {
        let renewed = self.election.leading_since_renewal();
        if let Some(end) = self.election.deadline() {
            self.config.fence.hold_until(end);
        }
        self.health.set(renewed);
        if let Some(metrics) = &self.config.metrics {
            metrics.set_leading(renewed.is_some());
        }
    }

    fn event(&self, what: &str) {
        (self.config.on_event)(&format!("{} {what}", self.config.identity));
    }

    fn name(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }

    async fn write(&self, method: Method, claim: &Claim) -> Answer {
        let now = Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
            .to_string();
        let lease = lease::with_claim(&self.seen, claim, &self.config.labels, &now);
        self.request(method, Some(lease.to_string())).await
    }

    /// Takes at most one attempt's time limit, and ends no later than leadership.
    async fn request(&self, method: Method, body: Option<String>) -> Answer {
        let mut limit = self.config.timing.request();
        if let Some(deadline) = self.election.deadline() {
            limit = limit.min(deadline.saturating_duration_since(now()));
        }
        let answer = timeout(limit, self.send(method, body)).await;
        answer.unwrap_or_else(|_elapsed| Answer::Failed(format!("no answer within {limit:?}")))
    }

    async fn send(&self, method: Method, body: Option<String>) -> Answer {
        let Config {
            namespace, name, ..
        } = &self.config;
        let mut uri = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        if method != Method::POST {
            uri.push('/');
            uri.push_str(name);
        }
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::ACCEPT, "application/json")
            .body(body.unwrap_or_default().into_bytes().into());
        let request = match request {
            Ok(request) => request,
            Err(error) => return Answer::Failed(Chain(&error).to_string()),
        };
        let response = match self.client.send(request).await {
            Ok(response) => response,
            Err(error) => return Answer::Failed(Chain(&error).to_string()),
        };
        let status = response.status();
        let body = match Limited::new(response.into_body(), ANSWER_BYTES)
            .collect()
            .await
        {
            Ok(body) => body.to_bytes(),
            Err(error) => return Answer::Failed(Chain(&*error).to_string()),
        };
        answer(status, &body)
    }
}

impl Drop for Elector {
    /// Nobody renews the lease any more, whether it was released or not.
    fn drop(&mut self) {
        self.config.fence.close();
        self.health.set(None);
        self.health.set_refused(None);
        if let Some(metrics) = &self.config.metrics {
            metrics.set_leading(false);
        }
    }
}

/// The time of the last renewal, in seconds since 1970: by the API server's clock from `managedFields`, otherwise as
/// the holder wrote it by its own clock.
fn renewed(lease: &Value, written: &str) -> Option<i64> {
    let seconds = |text: &str| Some(text.parse::<Timestamp>().ok()?.as_second());
    let managers = lease.pointer("/metadata/managedFields");
    let managers = { managers.and_then(Value::as_array) }.into_iter().flatten();
    let times = managers.filter_map(|manager| manager.get("time")?.as_str());
    times.filter_map(seconds).max().or_else(|| seconds(written))
}

fn standby(config: &Config) -> Election {
    let election = Election::new(config.identity.clone(), config.timing, now());
    match &config.succeeds {
        Some(mark) => election.succeeding(mark),
        None => election,
    }
}

fn answer(status: StatusCode, body: &[u8]) -> Answer {
    match status {
        StatusCode::NOT_FOUND => Answer::NotFound,
        StatusCode::CONFLICT => Answer::Conflict,
        status if status.is_success() => match serde_json::from_slice::<Value>(body) {
            Ok(lease) if lease.is_object() => Answer::Lease(lease),
            Ok(_) => Answer::Failed("the API server's response is not an object".to_owned()),
            Err(error) => Answer::Failed(format!("the API server's answer is unreadable: {error}")),
        },
        status => {
            let status_object: Value = serde_json::from_slice(body).unwrap_or_default();
            let message = status_object
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or_default();
            Answer::Refused(format!("the API server answered {status}: {message}"))
        }
    }
}

#[cfg(test)]
mod tests;
