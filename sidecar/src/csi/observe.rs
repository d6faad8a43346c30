//! Deadline, log lines and metrics of every call to the driver.
//!
//! A service around tonic's channel. Calls are unary, so the response is read to its end here, where
//! deadline, outcome and duration are known together.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use csi_proto::sanitize::Method;
use http::{HeaderMap, Request, Response};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tower_service::Service;

use super::stream::State;
use super::{Deadline, Migrated, exchange};
use crate::election::{Fence, Guarded};
use crate::log::{self, NIL};
use crate::metrics::{CsiOperations, Labels};
use crate::rpc_code;
use crate::text;
#[cfg(feature = "kube")]
use crate::trace;
use crate::verbose;

/// Settings for the log and the metrics of calls.
#[derive(Clone, Debug, Default)]
pub struct Observer {
    /// Methods whose messages are logged at level 5; other calls are logged without messages.
    pub methods: &'static [&'static [Method]],
    /// Longest text of a response in the log, in bytes; `None` for no limit.
    pub response_limit: Option<usize>,
    /// The controller that makes the calls, for the log of a process with several controllers.
    pub controller: Option<&'static str>,
    /// The metrics that record durations.
    pub operations: Option<CsiOperations>,
}

impl Observer {
    fn method(&self, path: &str) -> Option<&'static Method> {
        let methods = self.methods.iter().copied().flatten();
        methods.into_iter().find(|method| method.path == path)
    }
}

/// A channel to the driver whose calls are observed; clients are built on it.
#[derive(Clone)]
pub struct Channel {
    transport: tonic::transport::Channel,
    observer: Observer,
    state: watch::Receiver<State>,
    /// Blocks calls once another process may lead.
    fence: Fence,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}

impl Channel {
    pub(super) fn new(
        transport: tonic::transport::Channel,
        observer: Observer,
        state: watch::Receiver<State>,
    ) -> Self {
        Self {
            transport,
            observer,
            state,
            fence: Fence::default(),
        }
    }

    /// The same connection with another observer.
    pub fn observed_by(&self, observer: Observer) -> Self {
        Self {
            observer,
            ..self.clone()
        }
    }

    /// The same connection, whose calls `fence` may block up to the last moment, in addition to the
    /// connection's own fence.
    pub fn guarded_by(&self, fence: Fence) -> Self {
        Self {
            fence,
            ..self.clone()
        }
    }

    async fn observe(mut self, request: Request<Body>) -> Response<Body> {
        let start = Instant::now();
        let path = request.uri().path().to_owned();
        let migrated = request.extensions().get::<Migrated>().copied();
        let labels = request.extensions().get::<Labels>().cloned();
        let deadline = request.extensions().get::<Deadline>().copied();
        let method = self.observer.method(&path);
        let controller = self.observer.controller;
        let request = log_request(&path, method, controller, request).await;
        #[cfg(feature = "kube")]
        let (asked, request) = trace_request(&path, migrated, request);
        let outcome = match deadline {
            Some(deadline) => tokio::select! {
                // A deadline of zero has passed: the driver is not called.
                biased;
                () = tokio::time::sleep_until(deadline.instant()) => {
                    Err(Status::deadline_exceeded("context deadline exceeded"))
                }
                outcome = self.exchange(request) => outcome,
            },
            None => self.exchange(request).await,
        };
        log_response(method, &self.observer, &outcome);
        #[cfg(feature = "kube")]
        if let Some(asked) = asked {
            asked.called(outcome.as_ref().map(|_| ()));
        }
        if let Some(operations) = &self.observer.operations {
            let code = outcome.as_ref().map_or_else(Status::code, |_| Code::Ok);
            let migrated = migrated.is_some_and(|migrated| migrated.0);
            let labels = labels.unwrap_or_default();
            operations.observe(
                &path,
                rpc_code::name(code),
                migrated,
                &labels,
                start.elapsed(),
            );
        }
        match outcome {
            Ok(answer) => answer.into_response(),
            Err(status) => status.into_http(),
        }
    }

    async fn exchange(&mut self, request: Request<Body>) -> Result<exchange::Answer, Status> {
        let largest = exchange::largest(request.uri().path());
        let ready = poll_fn(|cx| self.transport.poll_ready(cx)).await;
        let sent = match ready {
            Ok(()) => {
                poll_fn(|_| self.fence.poll_send()).await;
                let fence = self.fence.clone();
                let request = request.map(|body| Body::new(Guarded::new(body, fence)));
                self.transport.call(request).await
            }
            Err(error) => Err(error),
        };
        match sent {
            Ok(response) => exchange::read(response, largest, || self.is_lost()).await,
            Err(error) => Err(exchange::transport_status(error.into(), self.is_lost())),
        }
    }

    fn is_lost(&self) -> bool {
        !self.state.borrow().connected
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Self::Error>> + Send>>;

    /// Always ready: a broken connection becomes the status of the call.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { Ok(this.observe(request).await) })
    }
}

/// Passes the span of a traced caller to the driver.
#[cfg(feature = "kube")]
fn trace_request(
    path: &str,
    migrated: Option<Migrated>,
    mut request: Request<Body>,
) -> (Option<trace::Asked>, Request<Body>) {
    let migrated = migrated.is_some_and(|migrated| migrated.0);
    let asked = trace::call(path, migrated);
    if let Some(header) = asked.as_ref().and_then(trace::Asked::header) {
        request.headers_mut().insert(trace::TRACEPARENT, header);
    }
    (asked, request)
}

async fn log_request(
    path: &str,
    method: Option<&'static Method>,
    controller: Option<&'static str>,
    request: Request<Body>,
) -> Request<Body> {
    if !log::enabled(5, file!()) {
        return request;
    }
    let (head, body) = request.into_parts();
    // Reading a request that is in memory cannot fail; the driver would refuse an empty body.
    let frame = exchange::collect(body).await.unwrap_or_default();
    let text = method.and_then(|method| (method.request)(exchange::message(&frame)));
    verbose!(
        5,
        method = path,
        request = text.as_deref().unwrap_or("{}"),
        controller,
        "GRPC call"
    );
    Request::from_parts(head, exchange::full(frame, HeaderMap::new()))
}

fn log_response(
    method: Option<&'static Method>,
    observer: &Observer,
    outcome: &Result<exchange::Answer, Status>,
) {
    let (limit, controller) = (observer.response_limit, observer.controller);
    if !log::enabled(5, file!()) {
        return;
    }
    match outcome {
        Ok(answer) => {
            let message = exchange::message(&answer.frame);
            let text = method.and_then(|method| (method.response)(message));
            let text = capped(text.unwrap_or_else(|| "{}".to_owned()), limit);
            verbose!(
                5,
                response = text.as_str(),
                err = NIL,
                controller,
                "GRPC response"
            );
        }
        Err(status) => {
            let err = rpc_code::text(status);
            let err = err.as_str();
            verbose!(5, response = "{}", err, controller, "GRPC response");
        }
    }
}

/// Cuts a text after `limit` bytes, or before the character that would cross it.
fn capped(mut text: String, limit: Option<usize>) -> String {
    let Some(limit) = limit.filter(|limit| text.len() > *limit) else {
        return text;
    };
    text.truncate(text::truncated(&text, limit).len());
    text.push_str(&format!(
        " [response body too large, log capped to {limit} chars]"
    ));
    text
}

#[cfg(test)]
mod tests;
