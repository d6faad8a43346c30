//! TCP connections to the API server, directly or through a proxy's tunnel.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::{BoxError, ServiceExt as _};
use tower_service::Service;

use super::proxy::{Proxy, port};

/// Time limit of the proxy's response, which waits for its own connection to the API server.
const PROXY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of the proxy's response head, in bytes; Go allows a megabyte.
const LONGEST_HEAD: usize = 8 << 10;

/// Connects directly or through the proxy.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    proxy: Option<Arc<Proxy>>,
}

impl Connector {
    pub(super) fn new(tcp: HttpConnector, proxy: Option<Proxy>) -> Self {
        Self {
            tcp,
            proxy: proxy.map(Arc::new),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let Self { tcp, proxy } = self.clone();
        Box::pin(async move {
            let Some(proxy) = proxy else {
                return Ok(tcp.oneshot(server).await?);
            };
            let address = proxy.address.authority().map(ToString::to_string);
            let through = |error: BoxError| {
                let address = address.unwrap_or_default();
                BoxError::from(format!("proxy {address}: {error}"))
            };
            let connected = tcp.oneshot(proxy.address.clone()).await;
            let mut stream = match connected {
                Ok(stream) => stream.into_inner(),
                Err(error) => return Err(through(error.into())),
            };
            match timeout(PROXY_TIMEOUT, open(&mut stream, &proxy, &server)).await {
                Ok(Ok(())) => Ok(TokioIo::new(stream)),
                Ok(Err(error)) => Err(through(error.into())),
                Err(elapsed) => Err(through(elapsed.into())),
            }
        })
    }
}

/// Asks the proxy for a tunnel to the server.
async fn open(stream: &mut TcpStream, proxy: &Proxy, server: &Uri) -> io::Result<()> {
    let place = format!("{}:{}", server.host().unwrap_or_default(), port(server));
    let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n").into_bytes();
    if let Some(authorization) = &proxy.authorization {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(authorization.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await?;
    let mut head = Vec::new();
    // The API server sends nothing first: these bytes are the proxy's response.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > LONGEST_HEAD {
            return Err(io::Error::other("the head of its answer is too long"));
        }
        if stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    let mut words = line.split(' ');
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    if is_http && words.next() == Some("200") {
        return Ok(());
    }
    Err(io::Error::other(format!("it answered {line:?}")))
}

#[cfg(test)]
mod tests;
