//! Spans below an attempt: calls to the driver, requests to the API server, and steps that contain several of them.

use std::sync::Arc;

use csi_proto::otlp::{self, KeyValue, SpanKind, Value};
use tonic::Status;

use super::attempt::{Attempt, CURRENT};
use super::ids::{SpanId, traceparent};
use super::subject::{pair, text as attribute};
use super::tracer::{Moment, error};
use crate::refusal::{ApiError, Refusal};
use crate::rpc_code;

/// The span of a call, request or step. If dropped before its response, its outcome is unknown.
pub(crate) struct Asked {
    attempt: Arc<Attempt>,
    name: String,
    id: SpanId,
    begun: Moment,
    kind: SpanKind,
    attributes: Vec<KeyValue>,
    status: Option<otlp::Status>,
    answered: bool,
}

impl Asked {
    /// Begins a span of the task's attempt; `None` without traces.
    fn new(
        name: impl FnOnce() -> String,
        attributes: impl FnOnce() -> Vec<KeyValue>,
    ) -> Option<Self> {
        let attempt = CURRENT.try_with(Arc::clone).ok()?;
        attempt.seen().asked = true;
        Some(Self {
            name: name(),
            id: SpanId::random(),
            begun: Moment::now(),
            kind: SpanKind::Client,
            attributes: attributes(),
            status: None,
            answered: false,
            attempt,
        })
    }

    /// The request's header `traceparent`.
    pub(crate) fn header(&self) -> Option<http::HeaderValue> {
        let header = traceparent(self.attempt.place.trace, self.id, self.attempt.sampled);
        header.try_into().ok()
    }

    fn failed(&mut self, why: String) -> Option<String> {
        self.status = Some(error(Some(why.clone())));
        Some(why)
    }

    /// Ends the span of a call with the driver's response. The driver's message may repeat anything that it was sent,
    /// Secrets and parameters included, in any form, so it is not exported.
    pub(crate) fn called(mut self, answer: Result<(), &Status>) {
        self.answered = true;
        let code = answer.map_or_else(Status::code, |()| tonic::Code::Ok);
        let code = attribute("rpc.response.status_code", rpc_code::upper(code));
        self.attributes.push(code);
        let refused = answer.err().and_then(|status| {
            self.failed(format!("{}: {}", self.name, rpc_code::name(status.code())))
        });
        let mut seen = self.attempt.seen();
        (seen.refused, seen.failure) = (refused, None);
    }

    /// Ends the span of a request. The API server's message may quote the object, so it is not exported.
    pub(crate) fn requested<T>(mut self, answer: &Result<T, ApiError>, writes: bool) {
        self.answered = true;
        match answer {
            Ok(_) => {
                let mut seen = self.attempt.seen();
                seen.wrote |= writes;
                // An expected failure, for example if the object does not exist yet.
                seen.failure = None;
            }
            Err(error) => {
                let refusal = match error.refusal {
                    Refusal::NotFound => "NotFound",
                    Refusal::Forbidden => "Forbidden",
                    Refusal::Conflict => "Conflict",
                    Refusal::AlreadyExists => "AlreadyExists",
                    Refusal::Unknown => "Unknown",
                    Refusal::Other => "Refused",
                };
                self.attributes.push(attribute("error.type", refusal));
                let failure = self.failed(format!("API server: {refusal}"));
                self.attempt.seen().failure = failure;
            }
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.attempt.sampled {
            return;
        }
        let mut attributes = std::mem::take(&mut self.attributes);
        if !self.answered {
            attributes.push(attribute("csi.answer", "unknown"));
        }
        let times = (self.begun.nanos(), self.begun.until_now());
        self.attempt.tracer.emit(otlp::Span {
            span_id: self.id.0.to_vec(),
            kind: self.kind.into(),
            attributes,
            status: self.status.take(),
            ..self.attempt.child(&self.name, times)
        });
    }
}

/// Runs `work` as a step of this task's attempt, if it is traced.
pub async fn step<T>(name: &'static str, work: impl Future<Output = T>) -> T {
    let step = Asked::new(|| name.to_owned(), Vec::new);
    let done = work.await;
    if let Some(mut step) = step {
        step.kind = SpanKind::Internal;
        step.answered = true;
    }
    done
}

/// Links this task's attempt, if it is traced, to the trace of the object with this UID.
pub fn link(uid: &str) {
    // Without traces there is no attempt.
    let _untraced = CURRENT.try_with(|attempt| attempt.seen().found.link(uid));
}

/// Begins a call to the driver; `path` is that of the method.
pub(crate) fn call(path: &str, migrated: bool) -> Option<Asked> {
    let method = path.trim_start_matches('/');
    let asked = Asked::new(
        || method.to_owned(),
        || {
            let migrated = migrated.then(|| pair("csi.migrated", Value::Bool(true)));
            let attributes = [
                attribute("rpc.system.name", "grpc"),
                attribute("rpc.method", method),
            ];
            attributes.into_iter().chain(migrated).collect()
        },
    );
    if let Some(asked) = &asked {
        asked.attempt.seen().found.migrated |= migrated;
    }
    asked
}

/// Begins a request to the API server. The path of a Secret is not exported: it contains parameters of a class.
pub(crate) fn request(method: &http::Method, path: &str) -> Option<Asked> {
    let path = path.split('?').next().unwrap_or_default();
    Asked::new(
        || format!("{method} {}", kind(path)),
        || {
            let shown = (kind(path) != "secrets").then(|| attribute("url.path", path));
            let method = attribute("http.request.method", method.as_str());
            std::iter::once(method).chain(shown).collect()
        },
    )
}

/// The resource in an API path: the plural of the kind, with the subresource if there is one.
fn kind(path: &str) -> String {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    // The path of the core group has no group name.
    let skipped = if parts.next() == Some("apis") { 2 } else { 1 };
    let mut parts: Vec<_> = parts.skip(skipped).collect();
    if matches!(&*parts, ["namespaces", _, _, ..]) {
        parts.drain(..2);
    }
    match &*parts {
        [plural, _name, part] => format!("{plural}/{part}"),
        [plural, ..] => (*plural).to_owned(),
        [] => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_called_by_what_they_are_about() {
        for (path, name) in [
            ("/api/v1/persistentvolumes/pv", "persistentvolumes"),
            (
                "/api/v1/namespaces/ns/persistentvolumeclaims/c/status",
                "persistentvolumeclaims/status",
            ),
            ("/api/v1/namespaces/ns/events", "events"),
            ("/api/v1/namespaces/ns", "namespaces"),
            (
                "/apis/storage.k8s.io/v1/volumeattachments/va/status",
                "volumeattachments/status",
            ),
            (
                "/apis/snapshot.storage.k8s.io/v1/namespaces/ns/volumesnapshots/s",
                "volumesnapshots",
            ),
            ("/version", "/version"),
        ] {
            assert_eq!(kind(path), name);
        }
    }
}
