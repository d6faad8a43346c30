//! One call from arrival to response: records it, and applies the rules.
//!
//! The work runs in a task of its own and continues when the caller goes away, as in most drivers;
//! the line of its end is written before the response is sent, so that a test which has seen the
//! response finds the line.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use tokio::sync::{oneshot, watch};
use tonic::body::Body;
use tonic::{Code, Status};

use super::facts::{self, Facts};
use super::random::Random;
use super::record::{Begin, Call, Recorder};
use super::rules::{Action, At, Outcome, Rules, code_name};
use super::unknown::Versions;
use super::wire;
use crate::clock;
use crate::server::connection::Connection;
use crate::server::dispatch::Dispatch;
use crate::service::busy::Busy;

/// Responses by method and code; `-` for calls without a response.
pub type Counters = BTreeMap<String, BTreeMap<String, u64>>;

/// Records calls and applies rules.
#[derive(Debug)]
pub struct Instrument {
    /// ID of this driver's node.
    node: String,
    instance: String,
    recorder: Option<Recorder>,
    rules: Mutex<Rules>,
    /// Counts changes of the rules; held calls check the rules again after each.
    rules_changed: watch::Sender<u64>,
    counters: Mutex<Counters>,
    /// Objects of delayed or held calls.
    pending: Arc<Busy>,
    in_flight: AtomicU64,
    seq: AtomicU64,
    random: Random,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call in progress.
struct Underway {
    instrument: Arc<Instrument>,
    call: Call,
    /// Its object; `None` if it changes nothing.
    object: Option<String>,
    /// Set to the time at which the caller went away.
    gone: watch::Receiver<Option<u64>>,
    connection: Connection,
}

/// The response; `None` if the caller gets none.
type Reply = Option<http::Response<Body>>;

impl Instrument {
    /// An instrument without rules.
    pub fn new(node: &str, recorder: Option<Recorder>, seed: u64) -> Self {
        Self {
            node: node.to_owned(),
            instance: format!("{node}/{}", std::process::id()),
            recorder,
            rules: Mutex::default(),
            rules_changed: watch::Sender::new(0),
            counters: Mutex::default(),
            pending: Arc::default(),
            in_flight: AtomicU64::new(0),
            seq: AtomicU64::new(0),
            random: Random::new(seed),
        }
    }

    /// Reads or changes the rules.
    pub fn rules<T>(&self, use_rules: impl FnOnce(&mut Rules) -> T) -> T {
        let result = use_rules(&mut lock(&self.rules));
        self.rules_changed.send_modify(|version| *version += 1);
        result
    }

    /// The responses so far.
    pub fn counters(&self) -> Counters {
        lock(&self.counters).clone()
    }

    /// Number of calls in progress.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Serves one call.
    pub async fn handle<B>(
        self: Arc<Self>,
        dispatch: Dispatch,
        connection: Connection,
        request: http::Request<B>,
    ) -> http::Response<Body>
    where
        B: BodyExt<Data = Bytes, Error: std::fmt::Display>,
    {
        let (head, body) = request.into_parts();
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return Status::internal(format!("broken request: {error}")).into_http(),
        };
        let method = head.uri.path().rsplit('/').next().unwrap_or_default();
        let mut facts = facts::read(method, wire::message(&body));
        if facts.node.is_empty() && method.starts_with("Node") {
            facts.node.clone_from(&self.node);
        }
        let object = facts.object();
        let call = self.begin(&head, &facts, &connection);
        let decision = lock(&self.rules).decide(&facts);
        let (gone_sender, gone) = watch::channel(None);
        let _caller = Caller(gone_sender);
        let underway = Underway {
            instrument: Arc::clone(&self),
            call,
            object,
            gone,
            connection,
        };
        let request = http::Request::from_parts(head, Full::new(body));
        let (reply_sender, reply) = oneshot::channel();
        tokio::spawn(async move {
            let reply = underway.perform(dispatch, request, decision).await;
            // The receiver is gone if the caller has gone away.
            let _ = reply_sender.send(reply);
        });
        match reply.await {
            Ok(Some(reply)) => reply,
            // The task sends nothing only after the caller has gone away or the connection is
            // closed.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    fn begin(&self, head: &http::request::Parts, facts: &Facts, connection: &Connection) -> Call {
        let call = Call {
            instance: self.instance.clone(),
            seq: self.seq.fetch_add(1, Ordering::Relaxed) + 1,
            method: facts.method.clone(),
            volume: facts.volume.clone(),
            name: facts.name.clone(),
            node: facts.node.clone(),
            target: facts.target.clone(),
            staging: facts.staging.clone(),
            authority: head
                .uri
                .authority()
                .map(ToString::to_string)
                .unwrap_or_default(),
            connection: connection.number(),
            caller: connection.caller(),
            start_ns: clock::now(),
            deadline_ms: head
                .headers
                .get("grpc-timeout")
                .and_then(|value| wire::timeout_ms(value.to_str().ok()?)),
            in_flight: self.in_flight.fetch_add(1, Ordering::Relaxed) + 1,
            request_hash: facts.request_hash.clone(),
            parameters_hash: facts.parameters_hash.clone(),
            secrets: facts.secrets,
            request: serde_json::from_str(&facts.request).unwrap_or_default(),
            ..Call::default()
        };
        if let Some(recorder) = &self.recorder {
            recorder.begin(Begin {
                instance: call.instance.clone(),
                seq: call.seq,
                begins: call.method.clone(),
                volume: call.volume.clone(),
                name: call.name.clone(),
                node: call.node.clone(),
                target: call.target.clone(),
                staging: call.staging.clone(),
                start_ns: call.start_ns,
                request_hash: call.request_hash.clone(),
                parameters_hash: call.parameters_hash.clone(),
            });
        }
        call
    }

    fn end(&self, call: Call) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let code = call.code.clone().unwrap_or_else(|| "-".to_owned());
        let mut counters = lock(&self.counters);
        *counters
            .entry(call.method.clone())
            .or_default()
            .entry(code)
            .or_default() += 1;
        drop(counters);
        tracing::debug!(
            method = call.method,
            volume = call.volume,
            code = call.code,
            "call"
        );
        if let Some(recorder) = &self.recorder {
            recorder.end(call);
        }
    }
}

/// Dropping it tells the work that the caller has gone away.
struct Caller(watch::Sender<Option<u64>>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.send_replace(Some(clock::now()));
    }
}

impl Underway {
    async fn perform(
        mut self,
        mut dispatch: Dispatch,
        request: http::Request<Full<Bytes>>,
        decision: Option<(String, Action)>,
    ) -> Reply {
        let (rule, action) = decision.unzip();
        self.call.rule.clone_from(&rule);
        let action = action.unwrap_or_default();
        let pending = Arc::clone(&self.instrument.pending);
        let slow = action.delay.is_some() || action.hold;
        let _guard = match &self.object {
            Some(object) if slow && !action.concurrent => match pending.take(object.clone()) {
                Ok(guard) => Some(guard),
                Err(refusal) => return self.refuse(refusal.into()),
            },
            Some(object) => {
                if let Err(refusal) = pending.check(object) {
                    return self.refuse(refusal.into());
                }
                None
            }
            None => None,
        };
        if let Some(latency) = &action.delay {
            tokio::time::sleep(latency.sample(self.instrument.random.unit())).await;
        }
        if action.at == At::Before {
            self.hold(&action, rule.as_deref()).await;
            if action.outcome != Outcome::Answer {
                return self.faulty(&action.outcome).await;
            }
        }
        let versions = dispatch.versions();
        let answer = dispatch.call(request).await;
        let reply = self.read_answer(answer, &versions).await;
        if action.at == At::After {
            self.hold(&action, rule.as_deref()).await;
            if action.outcome != Outcome::Answer {
                return self.faulty(&action.outcome).await;
            }
        }
        self.finish();
        Some(reply)
    }

    fn refuse(mut self, status: Status) -> Reply {
        self.note(&status);
        self.finish();
        Some(status.into_http())
    }

    /// Waits until the rule is removed.
    async fn hold(&self, action: &Action, rule: Option<&str>) {
        let (true, Some(rule)) = (action.hold, rule) else {
            return;
        };
        let mut changed = self.instrument.rules_changed.subscribe();
        while lock(&self.instrument.rules).contains(rule) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// The rule's outcome in place of the driver's response.
    async fn faulty(mut self, outcome: &Outcome) -> Reply {
        self.call.code = None;
        self.call.message.clear();
        match outcome {
            Outcome::Answer => None,
            Outcome::Fail { code, message } => {
                let message = if message.is_empty() {
                    "injected by a rule"
                } else {
                    message
                };
                self.refuse(Status::new(code.0, message))
            }
            Outcome::Hang => {
                let _ = self.gone.wait_for(Option::is_some).await;
                self.finish();
                None
            }
            Outcome::Disconnect => {
                self.connection.close();
                let _ = self.gone.wait_for(Option::is_some).await;
                self.finish();
                None
            }
            Outcome::Crash => {
                let myself = rustix::process::getpid();
                let _ = rustix::process::kill_process(myself, rustix::process::Signal::KILL);
                std::future::pending().await
            }
        }
    }

    fn finish(self) {
        let (mut call, now) = (self.call, clock::now());
        let gone = *self.gone.borrow();
        call.end_ns = Some(gone.unwrap_or(now));
        call.work_end_ns = gone.map(|_| now);
        call.caller_gone = gone.is_some();
        self.instrument.end(call);
    }

    /// Records code and handle of the response, and returns it.
    async fn read_answer(
        &mut self,
        answer: http::Response<Body>,
        versions: &Versions,
    ) -> http::Response<Body> {
        if self.call.method.starts_with("GetMetadata") {
            // For a stream only its beginning is recorded; nothing waits for its end.
            let status = Status::from_header_map(answer.headers());
            self.note(&status.unwrap_or_else(|| Status::new(Code::Ok, "")));
            return answer;
        }
        let (head, body) = answer.into_parts();
        let collected = match body.collect().await {
            Ok(collected) => collected,
            Err(status) => {
                self.note(&status);
                return status.into_http();
            }
        };
        let trailers = collected.trailers().cloned();
        let in_trailers = trailers.as_ref().and_then(Status::from_header_map);
        let status = in_trailers.or_else(|| Status::from_header_map(&head.headers));
        self.note(&status.unwrap_or_else(|| Status::unknown("no status")));
        let mut bytes = collected.to_bytes();
        if let Some(handle) = facts::created(&self.call.method, wire::message(&bytes)) {
            self.call.volume = handle;
        }
        if versions.any() && !bytes.is_empty() {
            bytes = wire::frame(&versions.add(&self.call.method, wire::message(&bytes)));
        }
        if bytes.is_empty() && trailers.is_none() {
            // With the status in the headers, the headers have to end the stream: Go clients treat
            // anything after them as a broken response.
            return http::Response::from_parts(head, Body::empty());
        }
        let body = Full::new(bytes).with_trailers(std::future::ready(trailers.map(Ok)));
        http::Response::from_parts(head, Body::new(body))
    }

    fn note(&mut self, status: &Status) {
        self.call.code = Some(code_name(status.code()).to_owned());
        if status.code() != Code::Ok {
            status.message().clone_into(&mut self.call.message);
        }
    }
}
