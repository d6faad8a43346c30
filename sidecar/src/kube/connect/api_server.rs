//! One set of connections to the API server, shared by clients that each have their own rate limit and
//! user agent.

use std::time::Duration;

use ::kube::Client;
use ::kube::client::{Body, ClientBuilder};
use http::{HeaderValue, Request, header};
use tower::{ServiceBuilder, service_fn};
use tower_service::Service as _;

use super::transport::Transport;
use super::{ConnectError, Options, transport};
use crate::election::Fence;
use crate::kube::rate::{HostMetrics, Limiter, Rate, RateMetrics};
use crate::outage::Outage;

/// The connections to the API server; clones share them. With HTTP/2 that is one connection, made for
/// the first request, and more where the server does not accept all requests on one.
#[derive(Clone)]
pub struct ApiServer {
    transport: Transport,
    namespace: String,
    timeout: Duration,
    requests: Option<HostMetrics>,
}

/// A client's rate limit, user agent, metrics and fence.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The rate limit. Clients do not share it.
    pub rate: Rate,
    /// The `User-Agent`.
    pub user_agent: String,
    /// Metrics of the client's requests.
    pub metrics: Option<RateMetrics>,
    /// Blocks this client's requests, and no others, once another process may lead. It is checked when a
    /// request goes to the connection, whose own fence checks each write, and once more when the
    /// request's body does.
    pub fence: Fence,
}

impl ApiServer {
    /// Reads the credentials. Nothing is sent yet.
    ///
    /// # Errors
    /// One line that names the flag or file at fault and the fix.
    pub async fn new(options: &Options) -> Result<Self, ConnectError> {
        let (transport, namespace) = transport(options).await?;
        let requests = options.requests.as_ref();
        Ok(Self {
            requests: requests.map(|requests| requests.to(transport.host())),
            transport,
            namespace,
            timeout: options.timeout,
        })
    }

    /// Makes a client whose requests report to `server` whether they are answered.
    pub fn client(&self, budget: Budget, server: &Outage) -> Client {
        let Budget {
            rate,
            user_agent,
            metrics,
            fence,
        } = budget;
        let limiter = Limiter::new(rate, self.timeout, metrics)
            .counting(self.requests.clone())
            .reporting_to(server);
        let agent = HeaderValue::from_str(&user_agent).ok();
        let named = move |mut request: Request<Body>| {
            if let Some(agent) = &agent {
                let headers = request.headers_mut();
                headers.insert(header::USER_AGENT, agent.clone());
            }
            request
        };
        let mut transport = self.transport.clone();
        let fenced = service_fn(move |mut request: Request<Body>| {
            request.extensions_mut().insert(fence.clone());
            transport.call(request)
        });
        let service = ServiceBuilder::new()
            .map_request(named)
            .service(limiter.limit(fenced));
        ClientBuilder::new(service, self.namespace.clone()).build()
    }
}
