//! The model as a tower service, which HTTP clients and servers call.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::FakeApi;
use super::record::Peer;

/// A response body; its error means that the connection broke in the middle.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Broken>;

/// The connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection closed before message completed")
    }
}

impl std::error::Error for Broken {}

impl From<Infallible> for Broken {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// [`FakeApi`] as a tower service.
#[derive(Clone, Debug)]
pub struct Service {
    api: FakeApi,
    peer: Peer,
}

impl Service {
    pub(super) fn new(api: &FakeApi) -> Self {
        Self {
            api: api.clone(),
            peer: Peer::default(),
        }
    }

    /// The service for the requests of one connection.
    pub(super) fn of(self, peer: Peer) -> Self {
        Self { peer, ..self }
    }
}

impl<B> tower_service::Service<http::Request<B>> for Service
where
    B: http_body_util::BodyExt<Data = Bytes> + Send + 'static,
    B::Error: fmt::Debug,
{
    type Response = http::Response<Body>;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Broken>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let Self { api, peer } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
            api.answer(&parts, &peer, body).await
        })
    }
}
