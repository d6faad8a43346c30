//! One connection of a gRPC server on a unix socket.
//!
//! hyper serves it directly: tonic's own server would add a router and an HTTP/1 half without any client here, and it
//! has no hook for [`AnyAuthority`].

use std::convert::Infallible;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::net::UnixStream;
use tonic::body::Body;
use tower::Service;

use crate::authority::AnyAuthority;

/// Serves the calls of one peer until it hangs up.
///
/// # Errors
/// The peer broke off, or does not speak HTTP/2.
pub async fn serve<S>(stream: UnixStream, service: S) -> hyper::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let stream = TokioIo::new(AnyAuthority::new(stream));
    http2::Builder::new(TokioExecutor::new())
        .serve_connection(stream, TowerToHyperService::new(service))
        .await
}
