//! Emits the spans of an attempt when it ends, and the span of the work that it completes.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use csi_proto::otlp::{self, KeyValue, SpanKind, Value};
use jiff::Timestamp;

use super::ids::{SpanId, TraceId};
use super::memory::Memory;
use super::subject::{Found, Goal, Over, Place, Subject, pair};
use super::tracer::{Moment, Tracer, error, nanos};
use crate::mutex::lock;
use crate::text::Text;

tokio::task_local! {
    /// The attempt that this task runs.
    pub(super) static CURRENT: Arc<Attempt>;
}

/// Results of an attempt's calls and requests so far.
#[derive(Default)]
pub(super) struct Seen {
    /// The driver's response to its last call, if that failed. Writes after it, such as that of a status, may succeed.
    pub(super) refused: Option<String>,
    /// The API server's response to the last request since then, if that failed.
    pub(super) failure: Option<String>,
    pub(super) asked: bool,
    pub(super) wrote: bool,
    /// What this attempt and earlier ones on the same work have found out.
    pub(super) found: Found,
}

/// One attempt.
pub(super) struct Attempt {
    pub(super) tracer: Tracer,
    subject: Subject,
    pub(super) place: Place,
    span: SpanId,
    pub(super) sampled: bool,
    begun: Moment,
    waited: Duration,
    earlier: Option<Pending>,
    number: u32,
    seen: Mutex<Seen>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing is left to do.
    Done,
    /// The work goes on later, without a failure.
    Later,
    /// The attempt failed and will be retried.
    Failed,
}

/// The attempts of an engine.
pub(crate) struct Traces<K> {
    tracer: Tracer,
    /// Work that is not done yet.
    pending: Mutex<Memory<K, Pending>>,
    /// Work on objects whose root span is still open, by UID.
    parts: Mutex<Memory<Text, Part>>,
    /// Work whose span was emitted as done: later changes to it get their own spans, and that span stays.
    told: Mutex<Memory<(TraceId, SpanId), ()>>,
}

/// Earlier attempts on the same work.
struct Pending {
    /// Start of the first attempt.
    first: u64,
    /// End of the last attempt, if it failed.
    failed: Option<u64>,
    found: Found,
}

/// Emitted work that is a part of an object's trace.
struct Part {
    work: &'static str,
    since: u64,
    /// When the work was done.
    done: Option<u64>,
    found: Found,
}

/// The error of an attempt that failed although no call or request did, for example because a class lacks a parameter.
/// The exact reason may quote objects.
const DECIDED: &str = "the controller refused it: see its log";

/// A running attempt. If dropped without [`Traces::ended`], it was cut off.
pub(crate) struct Running<K> {
    attempt: Arc<Attempt>,
    key: K,
    ended: bool,
}

impl<K: Clone + Eq + Hash> Traces<K> {
    pub(crate) fn new(tracer: Tracer) -> Self {
        Self {
            tracer,
            pending: Mutex::default(),
            parts: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Begins an attempt on a key that has failed `failures` times in a row, and has waited for a worker for `waited`.
    pub(crate) fn begin(
        &self,
        key: &K,
        subject: Subject,
        failures: u32,
        waited: Duration,
    ) -> Running<K> {
        let earlier = lock(&self.pending).remove(key);
        let first = earlier.as_ref().map(|earlier| earlier.first.into());
        let first = first.and_then(|first| Timestamp::from_nanosecond(first).ok());
        let due = subject.since.or(first);
        let attempt = Attempt {
            waited,
            earlier,
            number: failures.saturating_add(1),
            ..Attempt::new(&self.tracer, subject, due, Moment::now())
        };
        if let Some(earlier) = &attempt.earlier {
            attempt.seen().found.clone_from(&earlier.found);
        }
        Running {
            attempt: Arc::new(attempt),
            key: key.clone(),
            ended: false,
        }
    }

    /// Forgets a key whose object is gone.
    pub(crate) fn forget(&self, key: &K) {
        lock(&self.pending).remove(key);
    }

    /// Ends an attempt; `left` is its subject after it, unless the object is gone.
    pub(crate) fn ended(&self, mut running: Running<K>, ending: Ending, left: Option<Subject>) {
        running.ended = true;
        let attempt = &running.attempt;
        let open = left.as_ref().is_some_and(|left| left.open);
        for uid in left.iter().flat_map(|left| &left.links) {
            attempt.seen().found.link(uid);
        }
        let now = attempt.begun.until_now();
        if ending != Ending::Done || open {
            let pending = Pending {
                first: attempt.first(),
                failed: (ending == Ending::Failed).then_some(now),
                found: attempt.seen().found.clone(),
            };
            lock(&self.pending).insert(running.key.clone(), pending);
        }
        let done = attempt.tell(Some(ending), open, |trace, work| {
            lock(&self.told).insert((trace, work), ())
        });
        let subject = &attempt.subject;
        if subject.goal == Goal::Part && attempt.is_told(Some(ending)) {
            let mut parts = lock(&self.parts);
            let known = parts.remove(&subject.uid);
            let mut part = known.unwrap_or_else(|| Part {
                work: subject.work,
                since: attempt.since(),
                done: None,
                found: Found::default(),
            });
            part.done = part.done.or(done);
            part.found.add(&attempt.seen().found);
            parts.insert(subject.uid.clone(), part);
        }
    }

    /// Emits the root span of an object's trace, which is complete.
    pub(crate) fn over(&self, over: Over) {
        let now = Moment::now();
        let Over {
            subject,
            last,
            failure,
        } = over;
        let part = lock(&self.parts).remove(&subject.uid);
        let found = part.as_ref().map(|part| part.found.clone());
        let found = found.unwrap_or_default();
        let (uid, since) = (subject.uid.clone(), subject.since);
        // Without a due time, so that a late end stays in the object's trace.
        let attempt = Attempt::new(&self.tracer, subject, None, now);
        let status = failure.map(|failure| error(Some(failure.to_owned())));
        let now = now.nanos();
        let place = &attempt.place;
        if let (Some(root), Some(since), true) = (place.work, since, attempt.sampled) {
            match part {
                Some(Part {
                    done: Some(done), ..
                }) if failure.is_none() => self.tracer.emit(attempt.beside(last, (done, now))),
                // Its attempts were emitted, and are below it.
                Some(Part {
                    work,
                    since,
                    done: None,
                    ..
                }) => self.tracer.emit(otlp::Span {
                    span_id: place.trace.span(work).0.to_vec(),
                    status: status.clone(),
                    ..attempt.beside(work, (since, now))
                }),
                Some(_) | None => {}
            }
            self.tracer.emit(otlp::Span {
                status,
                ..attempt.done(place, root, (nanos(since), now), &found)
            });
            tracing::debug!(%uid, "The trace of this object is complete");
        }
    }
}

impl<K> Drop for Running<K> {
    fn drop(&mut self) {
        if !self.ended {
            self.attempt.tell(None, true, |_, _| false);
        }
    }
}

/// Runs `work` as part of the attempt.
pub(crate) async fn within<K, T>(running: Option<&Running<K>>, work: impl Future<Output = T>) -> T {
    match running {
        Some(running) => CURRENT.scope(Arc::clone(&running.attempt), work).await,
        None => work.await,
    }
}

impl Attempt {
    /// The results so far.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// An attempt on something that has been due since `due`.
    fn new(tracer: &Tracer, subject: Subject, due: Option<Timestamp>, begun: Moment) -> Self {
        let place = Place::of(&subject, due, begun.world);
        Self {
            // The object decides on sampling, so that all traces of an object are recorded or none.
            sampled: { tracer.exporter.sampler() }.takes(subject.object().0),
            tracer: tracer.clone(),
            subject,
            place,
            span: SpanId::random(),
            begun,
            waited: Duration::ZERO,
            earlier: None,
            number: 1,
            seen: Mutex::default(),
        }
    }

    pub(super) fn child(&self, name: &str, (start, end): (u64, u64)) -> otlp::Span {
        otlp::Span {
            trace_id: self.place.trace.0.to_vec(),
            span_id: SpanId::random().0.to_vec(),
            parent_span_id: self.span.0.to_vec(),
            name: name.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: start,
            end_time_unix_nano: end,
            flags: 1,
            ..otlp::Span::default()
        }
    }

    /// Emits the spans of the attempt, of its waits, and of the work if that is done. Returns when the work was done.
    /// Calls `is_first` to learn whether the work's span was not emitted before.
    fn tell(
        &self,
        ending: Option<Ending>,
        open: bool,
        is_first: impl FnOnce(TraceId, SpanId) -> bool,
    ) -> Option<u64> {
        if !self.is_told(ending) {
            return None;
        }
        let seen = self.seen();
        let (begun, now) = (self.begun.nanos(), self.begun.until_now());
        let ready = self.begun.before(self.waited);
        let failed = self.earlier.as_ref().and_then(|earlier| earlier.failed);
        if let Some(failed) = failed.filter(|failed| *failed < ready) {
            self.tracer.emit(self.beside("backoff", (failed, ready)));
        }
        if !self.waited.is_zero() {
            self.tracer.emit(self.beside("queue", (ready, begun)));
        }
        let mut attempt = otlp::Span {
            span_id: self.span.0.to_vec(),
            ..self.beside("attempt", (begun, now))
        };
        attempt.attributes = self.attributes(&seen.found);
        let number = pair("csi.attempt", Value::Int(self.number.into()));
        attempt.attributes.push(number);
        if self.place.work.is_none() {
            attempt.parent_span_id.clear();
            attempt.links = self.place.links(&seen.found);
        }
        match ending {
            Some(Ending::Failed) => {
                let why = seen.failure.as_ref().or(seen.refused.as_ref());
                let why = why.map_or(DECIDED, String::as_str);
                attempt.status = Some(error(Some(why.to_owned())));
            }
            Some(Ending::Done | Ending::Later) => {}
            None => {
                let fenced = self.tracer.fence.poll_send().is_pending();
                let fenced = pair("csi.fenced", Value::Bool(fenced));
                attempt.attributes.push(fenced);
            }
        }
        self.tracer.emit(attempt);
        // For an object that was attached or ready before, later work is no longer the subject of its root span.
        let was_open = self.subject.open || self.subject.goal != Goal::Root;
        let is_done = ending == Some(Ending::Done) && seen.wrote && was_open && !open;
        // Without a due time, so that a late attempt completes the work in the trace of earlier ones.
        let place = Place::of(&self.subject, None, self.begun.world);
        if let (Some(work), true) = (place.work, is_done)
            && is_first(place.trace, work)
        {
            let since = self.since();
            if let Some((name, before)) = self.subject.waited {
                let times = (nanos(before).min(since), since);
                let parent = place.root.unwrap_or(work);
                self.tracer.emit(otlp::Span {
                    trace_id: place.trace.0.to_vec(),
                    parent_span_id: parent.0.to_vec(),
                    ..self.child(name, times)
                });
            }
            self.tracer
                .emit(self.done(&place, work, (since, now), &seen.found));
        }
        is_done.then_some(now)
    }

    /// Whether to emit spans: a resync without requests is not worth any.
    fn is_told(&self, ending: Option<Ending>) -> bool {
        self.sampled && (ending == Some(Ending::Failed) || self.seen().asked)
    }

    /// When the work became due.
    fn since(&self) -> u64 {
        let first = self.first();
        // Objects' times have whole seconds, and clocks differ.
        let since = self.subject.since.map(nanos);
        since.map_or(first, |since| since.min(first))
    }

    /// When the first attempt on the work became due.
    fn first(&self) -> u64 {
        let ready = self.begun.before(self.waited);
        let earlier = self.earlier.as_ref();
        earlier.map_or(ready, |earlier| earlier.first)
    }

    /// A sibling span of the attempt: below the work, or below the attempt if it is a trace of its own.
    fn beside(&self, name: &str, times: (u64, u64)) -> otlp::Span {
        otlp::Span {
            parent_span_id: self.place.work.unwrap_or(self.span).0.to_vec(),
            ..self.child(name, times)
        }
    }

    /// The attributes of the object.
    fn attributes(&self, found: &Found) -> Vec<KeyValue> {
        let attributes = self.subject.attributes.iter().cloned();
        attributes.chain(found.attribute()).collect()
    }

    /// The span of the work, at this place.
    fn done(&self, place: &Place, work: SpanId, times: (u64, u64), found: &Found) -> otlp::Span {
        let root = place.root.map(|root| root.0.to_vec());
        otlp::Span {
            trace_id: place.trace.0.to_vec(),
            span_id: work.0.to_vec(),
            parent_span_id: root.unwrap_or_default(),
            attributes: self.attributes(found),
            links: place.links(found),
            ..self.child(self.subject.work, times)
        }
    }
}

#[cfg(test)]
mod tests;
