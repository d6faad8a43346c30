//! A model of a trace collector: accepts OpenTelemetry's protocol over gRPC, and responds as the test
//! configures.

mod tree;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use csi_proto::otlp::{
    EXPORT, ExportTraceServiceRequest, ExportTraceServiceResponse, KeyValue, Span, Value,
};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tonic::Status;
use tonic::body::Body;

use crate::api::listen::this_host;
use crate::controller::PATIENCE;

pub use tree::tree;

/// A collector's response to an export.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Responds with this message and keeps the spans.
    Taken(ExportTraceServiceResponse),
    /// Responds with this status and keeps nothing.
    Refused(Status),
    /// Never responds.
    Never,
}

/// A received span.
#[derive(Clone, Debug)]
pub struct Received {
    /// The span's instrumentation scope: the controller that made it.
    pub scope: String,
    /// The resource attributes of the process.
    pub resource: Vec<KeyValue>,
    /// The span.
    pub span: Span,
}

impl Received {
    /// The trace id in hexadecimal digits.
    #[must_use]
    pub fn trace(&self) -> String {
        hex(&self.span.trace_id)
    }

    /// The span id in hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        hex(&self.span.span_id)
    }

    /// The parent span's id; empty for a root.
    #[must_use]
    pub fn parent(&self) -> String {
        hex(&self.span.parent_span_id)
    }

    /// An attribute as text; empty if absent.
    #[must_use]
    pub fn attribute(&self, key: &str) -> String {
        attribute(&self.span.attributes, key)
    }

    /// The program that made the span: `service.name` of its resource.
    #[must_use]
    pub fn program(&self) -> String {
        attribute(&self.resource, "service.name")
    }

    /// The traces and spans that the span links to, in hexadecimal digits.
    #[must_use]
    pub fn links(&self) -> Vec<(String, String)> {
        let links = self.span.links.iter();
        let links = links.map(|link| (hex(&link.trace_id), hex(&link.span_id)));
        links.collect()
    }

    /// The span's error message, if any.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.span.status.as_ref().map(|status| &*status.message)
    }
}

/// An attribute as text; empty if absent.
#[must_use]
pub fn attribute(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|one| one.key == key);
    let value = found.and_then(|one| one.value.as_ref()?.value.as_ref());
    match value {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::Int(value)) => value.to_string(),
    }
}

/// Hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Default)]
struct State {
    spans: Vec<Received>,
    bodies: Vec<Bytes>,
    headers: Vec<HeaderMap>,
    connections: usize,
    /// Certificates that clients presented.
    certificates: Vec<Vec<u8>>,
    /// Responses in turn; the last one is repeated.
    answers: Vec<Answer>,
    /// The spans to keep, and nothing else of exports; `None` keeps all.
    keeps: Option<fn(&Received) -> bool>,
}

/// A listening collector, stopped when dropped.
#[derive(Debug)]
pub struct Collector {
    endpoint: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Collector {
    /// A collector that accepts every export.
    ///
    /// # Panics
    /// No port is free.
    pub async fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").await;
        Self::on(port.expect("a port"), None)
    }

    /// A collector behind TLS, and its certificate in PEM.
    ///
    /// # Panics
    /// No port is free.
    pub async fn over_tls() -> (Self, String) {
        let port = TcpListener::bind("127.0.0.1:0").await;
        let (acceptor, certificate) = this_host();
        let this = Self::on(port.expect("a port"), Some(acceptor));
        (this, certificate)
    }

    fn on(listener: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        let address: SocketAddr = listener.local_addr().expect("an address");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changes: watch::Sender::new(0),
        });
        let of_task = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            // Dropped with this task, which ends the connections.
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                of_task.state().connections += 1;
                of_task.changes.send_modify(|count| *count += 1);
                let (shared, tls) = (Arc::clone(&of_task), tls.clone());
                connections.spawn(async move {
                    let Some(tls) = tls else {
                        return converse(shared, stream).await;
                    };
                    let Ok(stream) = tls.accept(stream).await else {
                        return;
                    };
                    let presented = stream.get_ref().1.peer_certificates();
                    let presented = presented.and_then(|all| all.first());
                    let presented = presented.map(|one| one.to_vec());
                    shared.state().certificates.extend(presented);
                    converse(shared, stream).await;
                });
            }
        });
        Self {
            endpoint: format!("{scheme}://{address}"),
            shared,
            task,
        }
    }

    /// The endpoint URL for the environment.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// The certificates that clients presented, in DER.
    #[must_use]
    pub fn certificates(&self) -> Vec<Vec<u8>> {
        self.shared.state().certificates.clone()
    }

    /// Sets the next responses; the last one is repeated.
    pub fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        // The next one is popped from the end.
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        self.shared.state().answers = answers;
    }

    /// From now on keeps only the spans for which `keeps` returns true, and neither bodies nor headers: an API server
    /// sends thousands a second.
    pub fn keep_only(&self, keeps: fn(&Received) -> bool) {
        self.shared.state().keeps = Some(keeps);
    }

    /// The accepted spans, in order of arrival.
    #[must_use]
    pub fn spans(&self) -> Vec<Received> {
        self.shared.state().spans.clone()
    }

    /// The spans with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<Received> {
        let mut spans = self.spans();
        spans.retain(|one| one.span.name == name);
        spans
    }

    /// Waits for a span with this name, and returns the first.
    ///
    /// # Panics
    ///
    /// If none comes.
    pub async fn until_named(&self, name: &str) -> Received {
        self.until(name, |collector| !collector.named(name).is_empty())
            .await;
        self.named(name).swap_remove(0)
    }

    /// The bodies of all exports.
    #[must_use]
    pub fn bodies(&self) -> Vec<Bytes> {
        self.shared.state().bodies.clone()
    }

    /// The headers of all exports.
    #[must_use]
    pub fn headers(&self) -> Vec<HeaderMap> {
        self.shared.state().headers.clone()
    }

    /// Number of exports.
    #[must_use]
    pub fn exports(&self) -> usize {
        self.shared.state().headers.len()
    }

    /// Number of connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.state().connections
    }

    /// Waits until `condition` holds.
    ///
    /// # Panics
    /// If it does not hold in time.
    pub async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        let holds = async {
            while !condition(self) {
                // The sender lives in `self`, so waiting cannot fail.
                let _ = changes.changed().await;
            }
        };
        let limit: Duration = PATIENCE;
        if tokio::time::timeout(limit, holds).await.is_err() {
            let names = self.spans().into_iter().map(|one| one.span.name);
            panic!("no {what}: {:?}", names.collect::<Vec<_>>());
        }
    }
}

async fn converse(
    shared: Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(&shared, request).await) }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ended = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    if head.uri.path() != EXPORT {
        return Status::unimplemented("unknown method").into_http();
    }
    let Ok(body) = body.collect().await else {
        return Status::internal("the request broke off").into_http();
    };
    // The message follows a compression flag and a length.
    let message = body.to_bytes().slice(5..);
    let Ok(export) = ExportTraceServiceRequest::decode(message.clone()) else {
        return Status::invalid_argument("not an export").into_http();
    };
    let answer = {
        let mut state = shared.state();
        let keeps = state.keeps;
        if keeps.is_none() {
            state.headers.push(head.headers);
            state.bodies.push(message);
        }
        let next = if state.answers.len() > 1 {
            state.answers.pop()
        } else {
            state.answers.first().cloned()
        };
        let next = next.unwrap_or_else(|| Answer::Taken(ExportTraceServiceResponse::default()));
        if matches!(next, Answer::Taken(_)) {
            for of_process in export.resource_spans {
                let resource = of_process.resource.unwrap_or_default().attributes;
                for of_scope in of_process.scope_spans {
                    let scope = of_scope.scope.unwrap_or_default().name;
                    let spans = of_scope.spans.into_iter().map(|span| Received {
                        scope: scope.clone(),
                        resource: resource.clone(),
                        span,
                    });
                    let kept = spans.filter(|one| keeps.is_none_or(|keeps| keeps(one)));
                    state.spans.extend(kept);
                }
            }
        }
        next
    };
    shared.changes.send_modify(|count| *count += 1);
    match answer {
        Answer::Taken(response) => respond(&response),
        Answer::Refused(status) => status.into_http(),
        Answer::Never => std::future::pending().await,
    }
}

fn respond(response: &ExportTraceServiceResponse) -> Response<Body> {
    let message = response.encode_to_vec();
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("a short message"));
    frame.put_slice(&message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let trailers = std::future::ready(Some(Ok(trailers)));
    let body = Full::new(frame.freeze()).with_trailers(trailers);
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(Body::new(body)).expect("a header")
}
