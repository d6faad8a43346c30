//! Sends requests over connections that are replaced when they no longer answer, and when their
//! credentials have changed.
//!
//! A connection whose peer vanished silently looks like one whose peer is slow. HTTP/2's own PING
//! needs 45 s to tell them apart, longer than a lease is held, and until then every request of the
//! process would use the dead connection. So a request that was given up is reason enough: later
//! requests use a new connection, while running ones, watches above all, keep theirs until it proves
//! dead.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use ::kube::client::Body;
use ::kube::{Config, Error};
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, header};
use tokio::time::Instant;
use tower::{BoxError, ServiceExt as _};
use tower_service::Service;

use super::authority::Authority;
use super::bearer::Bearer;
use super::identity::Identity;
use super::proxy::Proxy;
use super::stack::{self, Answered, Connections, Dial};
use crate::election::Fence;

/// A request dropped sooner says nothing about the connection: its caller had its own reasons.
const SUSPECT_AFTER: Duration = Duration::from_millis(500);

/// Interval of comparing files with what was read from them; kube does the same with the certificate
/// authority. client-go checks at each handshake and every five minutes.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The same interval after a 401: there may be a new certificate then.
const LOOK_AFTER_REFUSAL: Duration = Duration::from_secs(5);

/// The connections to one API server; clones share them.
#[derive(Clone)]
pub(super) struct Transport {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    authority: Option<Arc<Authority>>,
    proxy: Option<Proxy>,
    bearer: Option<Bearer>,
    fence: Fence,
    state: Mutex<State>,
}

struct State {
    dial: Dial,
    connections: Connections,
    /// Number of times that `connections` was replaced.
    generation: u64,
    identity: Identity,
    looked: Instant,
    /// The API server has answered 401 since the files were read.
    unknown: bool,
}

impl Transport {
    /// Connects with the current credentials: reads files and runs exec plugins.
    pub(super) fn new(
        config: Config,
        authority: Option<Arc<Authority>>,
        proxy: Option<Proxy>,
        bearer: Option<Bearer>,
        fence: Fence,
    ) -> Result<Self, Error> {
        // Read before the connector reads the same files: a change in between is noticed next time.
        let identity = Identity::read(&config.auth_info);
        let dial = stack::dial(&config, authority.as_ref(), proxy.clone(), &fence)?;
        let state = State {
            connections: dial(),
            dial,
            generation: 0,
            identity,
            looked: Instant::now(),
            unknown: false,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                config,
                authority,
                proxy,
                bearer,
                fence,
                state: Mutex::new(state),
            }),
        })
    }
}

impl Transport {
    /// The host of the server's URL, with its port if it has one, without user and password.
    pub(super) fn host(&self) -> &str {
        let server = self.shared.config.cluster_url.authority();
        let host = server.and_then(|server| server.as_str().rsplit('@').next());
        host.unwrap_or("none")
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Answered>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.shared.clone();
        Box::pin(async move { shared.send(request).await })
    }
}

impl Shared {
    async fn send(
        self: Arc<Self>,
        mut request: Request<Body>,
    ) -> Result<Response<Answered>, BoxError> {
        self.renew().await;
        if let Some(bearer) = &self.bearer {
            request
                .headers_mut()
                .insert(header::AUTHORIZATION, bearer.header());
        }
        let (connections, generation) = {
            let state = self.lock();
            (state.connections.clone(), state.generation)
        };
        let mut waiting = Waiting {
            shared: &self,
            generation,
            since: Some(Instant::now()),
        };
        let answer = connections.oneshot(request).await;
        waiting.since = None;
        if let Ok(answer) = &answer
            && answer.status() == StatusCode::UNAUTHORIZED
        {
            self.lock().unknown = true;
            if let Some(bearer) = &self.bearer {
                bearer.doubt();
            }
        }
        answer
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the connections if the client certificate has changed.
    async fn renew(self: &Arc<Self>) {
        let auth = &self.config.auth_info;
        {
            let mut state = self.lock();
            let pause = if state.unknown {
                LOOK_AFTER_REFUSAL
            } else {
                LOOK_EVERY
            };
            if state.looked.elapsed() < pause {
                return;
            }
            state.looked = Instant::now();
            let refused = std::mem::take(&mut state.unknown);
            let identity = Identity::read(auth);
            // Only the API server knows when a plugin's credentials expire.
            if identity == state.identity && !(refused && auth.exec.is_some()) {
                return;
            }
        }
        let shared = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let Shared {
                config,
                authority,
                proxy,
                fence,
                ..
            } = &*shared;
            (
                Identity::read(&config.auth_info),
                stack::dial(config, authority.as_ref(), proxy.clone(), fence),
            )
        });
        match read.await {
            Ok((identity, Ok(dial))) => {
                tracing::info!("Reconnecting to the API server with new credentials");
                let mut state = self.lock();
                state.identity = identity;
                state.dial = dial;
                state.replace();
            }
            // Perhaps only half of a pair was replaced: the old pair is used until the other half
            // arrives.
            Ok((_, Err(error))) => {
                let error = super::explain_client(&error);
                tracing::warn!(error, "The new client certificate cannot be used");
            }
            Err(_ended) => {}
        }
    }

    /// Makes later requests use new connections, unless they do already.
    fn abandon(&self, generation: u64) {
        let mut state = self.lock();
        if state.generation == generation {
            tracing::debug!("The API server does not answer, reconnecting");
            state.replace();
        }
    }
}

impl State {
    fn replace(&mut self) {
        self.connections = (self.dial)();
        self.generation += 1;
    }
}

/// A request without a response yet. Dropped in this state, it was given up.
struct Waiting<'a> {
    shared: &'a Shared,
    generation: u64,
    since: Option<Instant>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self
            .since
            .is_some_and(|since| since.elapsed() >= SUSPECT_AFTER)
        {
            self.shared.abandon(self.generation);
        }
    }
}

#[cfg(test)]
mod tests;
