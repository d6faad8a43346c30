//! Sends spans to the collector: a bounded queue, batches, and their results.
//!
//! Exporting never delays other work. Spans that do not fit into the queue are dropped and counted, and while the
//! collector is away one batch waits for it.

use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use csi_proto::otlp::{
    self, ExportTraceServiceRequest, InstrumentationScope, Resource, ResourceSpans, ScopeSpans,
    Span,
};
use prometheus::{IntCounter, IntCounterVec, Opts};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tonic::Request;
use tonic::transport::Channel;

use super::connect::{ConnectError, connect};
use super::outcome::{Outcome, outcome};
use super::settings::Settings;
use super::subject::text as attribute;
use super::text;
use crate::error::Chain;
use crate::metrics::{RegisterError, Registry};
use crate::mutex::lock;
use crate::retry::RetryPolicy;

/// Back-off while the collector does not accept a batch.
const RETRIES: RetryPolicy = RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(30));

/// Time limit for the last spans when the process exits.
pub const LAST_SPANS: Duration = Duration::from_secs(3);

/// A queue of spans and the task that sends them; clones share the queue.
#[derive(Clone)]
pub struct Exporter(Arc<Shared>);

struct Shared {
    settings: Settings,
    version: &'static str,
    counts: Counts,
    queue: Mutex<Queue>,
    changed: Notify,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    spans: VecDeque<Waiting>,
    ending: bool,
}

/// A span, with the controller that made it.
struct Waiting {
    scope: &'static str,
    span: Span,
}

/// Metrics of the results of spans.
struct Counts {
    sent: IntCounter,
    dropped: IntCounter,
    refused: IntCounter,
}

impl Counts {
    fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let family = IntCounterVec::new(
            Opts::new(
                "csi_sidecar_otel_spans_total",
                "Spans by what became of them: sent, dropped because the queue was full or the process ended, \
                 refused by the collector.",
            ),
            &["result"],
        )?;
        registry.register(Box::new(family.clone()))?;
        let count = |result| family.with_label_values(&[result]);
        Ok(Self {
            sent: count("sent"),
            dropped: count("dropped"),
            refused: count("refused"),
        })
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

impl Exporter {
    /// Starts exporting, in a task of this runtime. Connects only when there is a span.
    ///
    /// # Errors
    /// The registry already has the metrics of spans.
    pub fn start(
        settings: Settings,
        version: &'static str,
        registry: &Registry,
    ) -> Result<Self, RegisterError> {
        let this = Self(Arc::new(Shared {
            settings,
            version,
            counts: Counts::new(registry)?,
            queue: Mutex::default(),
            changed: Notify::new(),
            task: Mutex::default(),
        }));
        let shared = Arc::clone(&this.0);
        let task = tokio::spawn(async move { shared.run().await });
        *lock(&this.0.task) = Some(task);
        Ok(this)
    }

    /// The sampler of traces.
    #[must_use]
    pub fn sampler(&self) -> super::Sampler {
        self.0.settings.sampler
    }

    /// Queues a span, if there is room.
    pub fn take(&self, scope: &'static str, span: Span) {
        let waiting = {
            let mut queue = self.0.queue();
            if queue.spans.len() >= self.0.settings.queue {
                self.0.counts.dropped.inc();
                return;
            }
            queue.spans.push_back(Waiting { scope, span });
            queue.spans.len()
        };
        if waiting == 1 || waiting >= self.0.settings.batch {
            self.0.changed.notify_one();
        }
    }

    /// Sends the queued spans within `limit` and drops the rest. Does not wait for a collector that does not answer at
    /// this time.
    pub async fn end(&self, limit: Duration) {
        self.0.queue().ending = true;
        self.0.changed.notify_one();
        let Some(task) = lock(&self.0.task).take() else {
            return;
        };
        let mut task = pin!(task);
        if timeout(limit, &mut task).await.is_err() {
            task.abort();
            // Its batch is counted when it is dropped.
            let _ = task.await;
        }
        let left = std::mem::take(&mut self.0.queue().spans).len();
        self.0.counts.dropped.inc_by(number(left));
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The collector's state as last logged.
#[derive(Default)]
struct Told {
    away: bool,
    refuses: bool,
}

/// Spans in flight, which count as dropped unless another result is recorded.
struct Batch<'a> {
    counts: &'a Counts,
    spans: u64,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.counts.dropped.inc_by(self.spans);
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    async fn run(&self) {
        let (mut channel, mut told) = (None, Told::default());
        while let Some((request, spans)) = self.batch().await {
            self.export(&request, spans, &mut channel, &mut told).await;
        }
    }

    /// The next batch, once it is full or its first span has waited long enough; `None` at the end.
    async fn batch(&self) -> Option<(ExportTraceServiceRequest, u64)> {
        let mut until = None;
        loop {
            {
                let mut queue = self.queue();
                let waiting = queue.spans.len();
                let due = until.is_some_and(|until| until <= Instant::now());
                if waiting > 0 && (due || queue.ending || waiting >= self.settings.batch) {
                    let batch = waiting.min(self.settings.batch);
                    let spans = queue.spans.drain(..batch).collect();
                    return Some((self.request(spans), number(batch)));
                }
                if queue.ending {
                    return None;
                }
                if waiting > 0 {
                    until.get_or_insert_with(|| Instant::now() + self.settings.delay);
                }
            }
            match until {
                Some(until) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(until) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    fn request(&self, spans: Vec<Waiting>) -> ExportTraceServiceRequest {
        let mut scopes: Vec<(&'static str, Vec<Span>)> = Vec::new();
        for Waiting { scope, span } in spans {
            match scopes.iter_mut().find(|(known, _)| *known == scope) {
                Some((_, spans)) => spans.push(span),
                None => scopes.push((scope, vec![span])),
            }
        }
        let scopes = scopes.into_iter().map(|(name, spans)| ScopeSpans {
            scope: Some(InstrumentationScope {
                name: name.to_owned(),
                version: self.version.to_owned(),
            }),
            spans,
        });
        let resource = self.settings.resource.iter();
        let attributes = resource.map(|(key, value)| attribute(key, value));
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource {
                    attributes: attributes.collect(),
                }),
                scope_spans: scopes.collect(),
            }],
        }
    }

    /// Sends a batch until its result is known.
    async fn export(
        &self,
        request: &ExportTraceServiceRequest,
        spans: u64,
        channel: &mut Option<Channel>,
        told: &mut Told,
    ) {
        let mut batch = Batch {
            counts: &self.counts,
            spans,
        };
        let mut failures = 0;
        loop {
            let outcome = self.send(request, spans, channel).await;
            if let Some((sent, refused)) = outcome.settled(spans) {
                batch.spans = 0;
                self.counts.sent.inc_by(sent);
                self.counts.refused.inc_by(refused);
            }
            self.tell(&outcome, told);
            let Outcome::Again { after, .. } = outcome else {
                return;
            };
            // Files may have been replaced, and another collector may have taken over.
            *channel = None;
            failures += 1;
            let ended = self.queue().ending;
            if ended {
                return;
            }
            // Never at once, whatever the collector asks for.
            let pause = after.unwrap_or_default().max(RETRIES.delay(failures, 0.0));
            let mut pause = pin!(sleep(pause));
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    () = self.changed.notified() => {}
                }
                if self.queue().ending {
                    break;
                }
            }
        }
    }

    async fn send(
        &self,
        request: &ExportTraceServiceRequest,
        spans: u64,
        channel: &mut Option<Channel>,
    ) -> Outcome {
        let sending = async {
            let channel = match channel {
                Some(channel) => channel.clone(),
                None => channel
                    .insert(connect(&self.settings, self.version).await?)
                    .clone(),
            };
            let mut request = Request::new(request.clone());
            request.set_timeout(self.settings.timeout);
            for (name, value) in &self.settings.headers.0 {
                let headers = request.metadata_mut().as_mut();
                headers.append(name, value.clone());
            }
            Ok::<_, ConnectError>(otlp::export(channel, request).await)
        };
        match timeout(self.settings.timeout, Box::pin(sending)).await {
            Ok(Ok(answer)) => outcome(answer, spans),
            Ok(Err(error)) => Outcome::Again {
                why: Chain(&error).to_string(),
                after: None,
            },
            Err(_elapsed) => Outcome::Again {
                why: format!("no answer within {:?}", self.settings.timeout),
                after: None,
            },
        }
    }

    /// Logs one line when the collector goes away, one when it is back, and one when it begins to refuse.
    fn tell(&self, outcome: &Outcome, told: &mut Told) {
        let endpoint = &self.settings.endpoint;
        let secrets = self.settings.headers.0.iter();
        let secrets: Vec<_> = secrets
            .filter_map(|(_, value)| value.to_str().ok())
            .collect();
        let shown = |why: &str| text::without(why, secrets.iter().copied());
        match outcome {
            Outcome::Again { why, .. } if !told.away => {
                let why = shown(why);
                tracing::warn!(%endpoint, err = why, "The collector does not take spans, trying again");
                told.away = true;
            }
            Outcome::Again { .. } => {}
            Outcome::Sent { refused, why } => {
                if told.away {
                    tracing::info!(%endpoint, "The collector takes spans again");
                }
                if *refused > 0 && !told.refuses {
                    let why = shown(why);
                    tracing::warn!(%endpoint, refused, err = why, "The collector refuses spans");
                }
                *told = Told {
                    away: false,
                    refuses: *refused > 0,
                };
            }
            Outcome::Refused { why } => {
                if !told.refuses {
                    let why = shown(why);
                    tracing::warn!(%endpoint, err = why, "The collector refuses spans");
                }
                *told = Told {
                    away: false,
                    refuses: true,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests;
