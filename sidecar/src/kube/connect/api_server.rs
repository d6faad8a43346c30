//! One way to the API server, and clients that share its connections, each with a budget and a name of
//! its own.

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

/// The way to the API server; clones are the same. With HTTP/2 that is one connection, made with the
/// first request, and more where the server does not take all requests on one.
#[derive(Clone)]
pub struct ApiServer {
    transport: Transport,
    namespace: String,
    timeout: Duration,
    requests: Option<HostMetrics>,
}

/// What a client may ask for, and as whom.
#[derive(Clone, Debug)]
pub struct Budget {
    /// How much. Clients do not draw on one another's.
    pub rate: Rate,
    /// How it introduces itself.
    pub user_agent: String,
    /// Where its requests are counted.
    pub metrics: Option<RateMetrics>,
    /// What holds its requests back, and no others, once they are another leader's to make. It is looked
    /// at when a request goes to the connection, whose own fence looks at each byte, and once more when
    /// its body does.
    pub fence: Fence,
}

impl ApiServer {
    /// Reads the credentials. Nothing is sent yet.
    ///
    /// # Errors
    /// One line that names the flag or file at fault and the way out.
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

    /// A client, whose requests tell `server` whether they are answered.
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
