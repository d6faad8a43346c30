//! The tower service that adds budgets, time limits and retries to the HTTP client.

use std::future::{Future, poll_fn};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::kube::client::Body;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout_at};
use tower_service::Service;

use super::Limiter;
use super::adaptive::{Object, Verdict};
use super::lane::{Lane, lane};
use super::requests::Running;
use crate::error::Chain;
use crate::in_cluster::{certificate, retry_after};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// As client-go: how often a refused request is repeated before its caller gets the error.
const RETRIES: u32 = 10;

/// Maximum wait for one retry; beyond that the caller's queue schedules better.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The API server did not answer in time. Whether it executed the request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer from the API server within {} s", .0.as_secs_f64())]
pub struct RequestTimeout(Duration);

/// A client behind budgets.
#[derive(Debug)]
pub struct Limited<S> {
    /// Locked only to start a request, never while one runs.
    inner: Arc<Mutex<S>>,
    limiter: Limiter,
}

impl<S> Limited<S> {
    pub(super) fn new(inner: S, limiter: Limiter) -> Self {
        Self {
            inner: Arc::new(Mutex::new(inner)),
            limiter,
        }
    }
}

impl<S, B> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Timed<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Requests wait inside their own futures, so that one lane cannot block another.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (inner, limiter) = (self.inner.clone(), self.limiter.clone());
        Box::pin(async move { limiter.run(&inner, request).await })
    }
}

impl Limiter {
    async fn run<S, B>(
        &self,
        inner: &Mutex<S>,
        mut request: Request<Body>,
    ) -> Result<Response<Timed<B>>, BoxError>
    where
        S: Service<Request<Body>, Response = Response<B>>,
        S::Error: Into<BoxError>,
    {
        let lane = lane(request.uri());
        let gate = self.gate(lane, request.uri());
        let object = object(&request);
        let method = request.method().clone();
        // A watch is one long request.
        let measured = self.requests.as_ref().filter(|_| lane != Lane::Watch);
        let mut measuring = measured.map(|requests| requests.begin(&method));
        for retry in 0_u32.. {
            let copy = copy(&request);
            let size = request.body().size_hint().exact();
            let waiting = Instant::now();
            let entered = gate.enter(object).await;
            if let Some(metrics) = &self.metrics {
                metrics.waited(lane, waiting.elapsed());
            }
            if let Some(requests) = measured {
                requests.waited(&method, waiting.elapsed());
            }
            let _running = self.metrics.as_ref().map(|metrics| metrics.running(lane));
            let sent = Instant::now();
            let deadline = sent + self.timeout;
            let answer = timeout_at(deadline, send(inner, request)).await;
            let answer = answer
                .map_err(|_| BoxError::from(RequestTimeout(self.timeout)))
                .and_then(|answer| answer);
            if let (Some(requests), Some(size)) = (measured, size) {
                requests.sent(&method, size);
            }
            if let Some(requests) = &self.requests {
                let status = answer.as_ref().ok().map(Response::status);
                requests.answered(&method, status, retry > 0);
            }
            match &answer {
                Ok(answer) => self.answered(answer.headers(), sent),
                Err(error) => self.unanswered(&**error),
            }
            let answer = answer?;
            // A server that is starting or stopping refuses requests that it will serve.
            if answer.status().is_success() && self.server.served() {
                tracing::info!("The API server answers again");
            }
            let refusal = refusal(&answer);
            entered.end(refusal.map_or(Verdict::Served, Verdict::Refused));
            if refusal.is_some()
                && let Some(metrics) = &self.metrics
            {
                metrics.refused(lane);
            }
            let pause = refusal.and_then(|asked| pause(lane, retry, asked));
            let (Some(pause), Some(copy)) = (pause, copy) else {
                let limit = (lane != Lane::Watch).then_some((deadline, self.timeout));
                let measuring = measuring.take();
                return Ok(answer.map(|body| Timed::new(body, limit, measuring)));
            };
            request = copy;
            sleep(pause).await;
        }
        Err(RequestTimeout(self.timeout).into())
    }

    fn answered(&self, headers: &HeaderMap, sent: Instant) {
        self.server.answered();
        if let Some(requests) = &self.requests {
            requests.dated(headers, sent.elapsed());
        }
    }

    fn unanswered(&self, error: &(dyn std::error::Error + 'static)) {
        self.server.unanswered(&Chain(error).to_string());
        if let Some(problem) = certificate::problem(error)
            && self.server.needs_mending(&problem)
        {
            tracing::error!(problem, "Cannot talk to the API server until this is fixed");
        }
    }
}

/// The object of the request. A status belongs to its object; an object being created has no name in the
/// path.
fn object(request: &Request<Body>) -> Object {
    let path = request.uri().path();
    let path = path.strip_suffix("/status").unwrap_or(path);
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    (request.method() != Method::POST).then(|| hasher.finish())
}

/// The pause before the request is repeated; `None` if it is not.
fn pause(lane: Lane, retry: u32, asked: Option<Duration>) -> Option<Duration> {
    // Leader election, lists and watches have their own retry schedules.
    let here = match lane {
        Lane::Object | Lane::Event | Lane::Review => true,
        Lane::Lease | Lane::List | Lane::Watch | Lane::Probe => false,
    };
    let pause = asked.unwrap_or(Duration::from_secs(1));
    (here && retry < RETRIES && pause <= LONGEST_RETRY).then_some(pause)
}

/// Whether the server refused a request without executing it, and its `Retry-After`.
///
/// 504 does not count: a request that timed out in the server may have been executed.
fn refusal<B>(answer: &Response<B>) -> Option<Option<Duration>> {
    let asked = retry_after(answer.headers());
    match answer.status() {
        StatusCode::TOO_MANY_REQUESTS => Some(asked),
        StatusCode::SERVICE_UNAVAILABLE if asked.is_some() => Some(asked),
        _ => None,
    }
}

fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    request.method().clone_into(copy.method_mut());
    request.uri().clone_into(copy.uri_mut());
    request.headers().clone_into(copy.headers_mut());
    request.extensions().clone_into(copy.extensions_mut());
    Some(copy)
}

async fn send<S, B>(inner: &Mutex<S>, request: Request<Body>) -> Result<Response<B>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    let mut request = Some(request);
    let answer = poll_fn(|context| {
        let mut service = inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = ready!(service.poll_ready(context)) {
            return Poll::Ready(Err(error.into()));
        }
        let request = request
            .take()
            .ok_or_else(|| BoxError::from("the request was sent already"));
        Poll::Ready(request.map(|request| service.call(request)))
    });
    answer.await?.await.map_err(Into::into)
}

/// A body that must be complete by the request's deadline.
#[derive(Debug)]
pub struct Timed<B> {
    body: Pin<Box<B>>,
    limit: Option<(Pin<Box<Sleep>>, Duration)>,
    measuring: Option<Running>,
}

impl<B> Timed<B> {
    fn new(body: B, limit: Option<(Instant, Duration)>, mut measuring: Option<Running>) -> Self {
        if let Some(running) = &mut measuring {
            running.receives(0);
        }
        Self {
            measuring,
            body: Box::pin(body),
            limit: limit.map(|(deadline, timeout)| (Box::pin(sleep_until(deadline)), timeout)),
        }
    }
}

impl<B> hyper::body::Body for Timed<B>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = this.body.as_mut().poll_frame(context) {
            match (&frame, &mut this.measuring) {
                (Some(Ok(frame)), Some(running)) => {
                    running.receives(frame.data_ref().map_or(0, Bytes::len));
                }
                (Some(Err(_)) | None, _) => this.measuring = None,
                (Some(Ok(_)), None) => {}
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some((sleep, timeout)) = &mut this.limit else {
            return Poll::Pending;
        };
        ready!(sleep.as_mut().poll(context));
        Poll::Ready(Some(Err(RequestTimeout(*timeout).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
