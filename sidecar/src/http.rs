//! The HTTP server for health and metrics.
//!
//! Four fixed routes need no framework. Listener and route errors are values: the program decides
//! how to end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Content type of everything but metrics.
pub const TEXT: &str = "text/plain; charset=utf-8";
const PROCESS_START: HeaderName = HeaderName::from_static("process-start-time-unix");
/// Connections served at the same time; the next one waits.
const CONNECTIONS: usize = 128;
/// How long a client may take to send a request, also on a connection that is kept open.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Room for the head of a request.
const BUFFER: usize = 16 << 10;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: StatusCode,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Body; a HEAD request gets its length only.
    pub body: String,
    /// `Process-Start-Time-Unix`, in seconds.
    pub process_start: Option<u64>,
}

impl Reply {
    /// Plain text.
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: TEXT,
            body: body.into(),
            process_start: None,
        }
    }

    /// 200 `ok`.
    pub fn ok() -> Self {
        Self::text(StatusCode::OK, "ok")
    }

    /// What Go answers for a path without handler.
    pub fn not_found() -> Self {
        Self::text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    /// Health of a process that takes part in leader election; `unhealthy` says why not.
    pub fn leader_health(unhealthy: Option<String>) -> Self {
        match unhealthy {
            None => Self::ok(),
            Some(why) => Self::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("internal server error: {why}"),
            ),
        }
    }

    /// A scrape; the header with the start of the process tells a restart from a reset.
    pub fn metrics(text: String) -> Self {
        Self {
            status: StatusCode::OK,
            content_type: crate::metrics::CONTENT_TYPE,
            body: text,
            process_start: crate::metrics::process_start(),
        }
    }
}

type Handler = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

/// Paths and what answers there, for every method.
#[derive(Clone, Default)]
pub struct Routes {
    handlers: BTreeMap<String, Handler>,
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.handlers.keys()).finish()
    }
}

/// A path cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Not a path.
    #[error("HTTP path {0:?} must begin with a slash and have no space in it")]
    Malformed(String),
    /// Two handlers for one path.
    #[error("HTTP path {0:?} is served already")]
    Taken(String),
}

impl Routes {
    /// Nothing is served.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves `path`; one that ends in a slash stands for everything below it.
    ///
    /// # Errors
    /// The path is malformed or taken.
    pub fn add<F, Fut>(&mut self, path: &str, handler: F) -> Result<(), RouteError>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Reply> + Send + 'static,
    {
        if !path.starts_with('/') || path.contains(char::is_whitespace) {
            return Err(RouteError::Malformed(path.to_owned()));
        }
        if self.handlers.contains_key(path) {
            return Err(RouteError::Taken(path.to_owned()));
        }
        let handler: Handler = Arc::new(move || Box::pin(handler()));
        self.handlers.insert(path.to_owned(), handler);
        Ok(())
    }

    /// Serves the text of `registry`.
    ///
    /// # Errors
    /// The path is malformed or taken.
    pub fn add_metrics(
        &mut self,
        path: &str,
        registry: &crate::metrics::Registry,
    ) -> Result<(), RouteError> {
        let registry = registry.clone();
        self.add(path, move || {
            std::future::ready(Reply::metrics(registry.render()))
        })
    }

    fn find(&self, path: &str) -> Option<&Handler> {
        let below = |pattern: &str| pattern.ends_with('/') && path.starts_with(pattern);
        let prefix = || {
            let matching = self.handlers.iter().filter(|(pattern, _)| below(pattern));
            matching
                .max_by_key(|(pattern, _)| pattern.len())
                .map(|(_, handler)| handler)
        };
        self.handlers.get(path).or_else(prefix)
    }

    async fn reply(&self, path: &str) -> Reply {
        match self.find(path) {
            Some(handler) => handler().await,
            None => Reply::not_found(),
        }
    }
}

/// The server cannot listen; the wording is Go's.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Not an address.
    #[error("listen tcp: address {address}: {reason}")]
    Address {
        /// The address as given.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The operating system refuses.
    #[error("listen tcp {address}")]
    Listen {
        /// The address as given.
        address: String,
        /// Its reason.
        #[source]
        source: io::Error,
    },
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Listens on `host:port`; without host on all interfaces.
    ///
    /// # Errors
    /// The address is malformed, taken, or not this machine's.
    pub async fn bind(address: &str) -> Result<Self, ListenError> {
        let (host, port) = split(address).map_err(|reason| ListenError::Address {
            address: address.to_owned(),
            reason,
        })?;
        let listener = match host {
            // Both families, or the old one alone where the new one is switched off.
            "" => match TcpListener::bind(("::", port)).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind(("0.0.0.0", port)).await
                }
                listener => listener,
            },
            host => TcpListener::bind((host, port)).await,
        };
        let listener = listener.map_err(|source| ListenError::Listen {
            address: address.to_owned(),
            source,
        })?;
        Ok(Self { listener })
    }

    /// Where the server listens, with the actual port.
    ///
    /// # Errors
    /// The operating system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until dropped.
    pub async fn serve(self, routes: Routes) {
        let routes = Arc::new(routes);
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let routes = Arc::clone(&routes);
                    tokio::spawn(async move {
                        converse(stream, routes).await;
                        drop(permit);
                    });
                }
                // Out of file descriptors, or a client that went away: neither ends the server.
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept an HTTP connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn converse(stream: TcpStream, routes: Arc<Routes>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let routes = Arc::clone(&routes);
        async move { Ok::<_, Infallible>(response(routes.reply(request.uri().path()).await)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "HTTP connection ended");
    }
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = reply.status;
    let content_type = HeaderValue::from_static(reply.content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    if let Some(seconds) = reply.process_start {
        response
            .headers_mut()
            .insert(PROCESS_START, HeaderValue::from(seconds));
    }
    response
}

/// Splits `host:port`; brackets hold an IPv6 address.
fn split(address: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = address.rsplit_once(':').ok_or("missing port in address")?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or("missing ']' in address")?,
        None if host.contains(':') => return Err("too many colons in address"),
        None => host,
    };
    // Go takes an empty port for zero, and names of services, which no manifest uses.
    if port.is_empty() {
        return Ok((host, 0));
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("unknown port");
    }
    port.parse()
        .map(|port| (host, port))
        .map_err(|_| "invalid port")
}

#[cfg(test)]
mod tests;
