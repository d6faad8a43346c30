//! The layers between a client and the socket to the API server.
//!
//! Not kube's default HTTP stack: that one retries silently (the work queue retries visibly), and
//! logs every failed request as an error.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use ::kube::client::{AuthError, Body, ConfigExt as _};
use ::kube::{Config, Error};
use http::uri::Scheme;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower::util::BoxCloneService;
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use super::authority::Authority;
use super::fenced::fenced;
use super::pool::{PermitBody, Pool};
use super::proxy::Proxy;
use super::tunnel::Connector;
use crate::election::{Fence, Guarded};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A peer that vanished silently is noticed after about twice this, even on an idle watch.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The same as Go's transport.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// For a server with HTTP/1.1 only, which needs a connection per running request: as many as run at
/// once without a fixed rate. Connections above this number are closed once they are idle.
const IDLE_CONNECTIONS: usize = 32;

/// Bytes that the server may send ahead of the reader; all of them may end up in our memory. Only the
/// watch of a large cluster fills this.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// Connections to the API server: the first request makes one, later requests share it if the server
/// speaks HTTP/2, up to the server's limit.
pub(super) type Connections = BoxCloneService<Request<Body>, Response<Answered>, BoxError>;

/// The body of a response.
pub(super) type Answered = PermitBody<Incoming>;

/// Makes new, independent [`Connections`] with the same credentials.
pub(super) type Dial = Box<dyn Fn() -> Connections + Send + Sync>;

/// Reads certificates and runs exec plugins, which blocks. Nothing is sent to the API server yet, and
/// later nothing without the lease that `fence` tracks.
pub(super) fn dial(
    config: &Config,
    authority: Option<&Arc<Authority>>,
    proxy: Option<Proxy>,
    fence: &Fence,
) -> Result<Dial, Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE / 6));
    tcp.set_keepalive_retries(Some(6));
    let tcp = Connector::new(tcp, proxy);
    // Without TLS no certificate is needed: the file system may contain none.
    if config.cluster_url.scheme() == Some(&Scheme::HTTP) {
        let fence = fence.clone();
        let pool = move || {
            let (tcp, fence) = (tcp.clone(), fence.clone());
            Pool::new(move |limit| client(fenced(tcp.clone(), &fence, limit)))
        };
        return layered(config, pool);
    }
    let mut tls = config.rustls_client_config()?;
    if let Some(authority) = authority {
        tls.dangerous().set_certificate_verifier(authority.clone());
    }
    // A FIPS build must not silently get other cryptography.
    #[cfg(fips)]
    if !tls.fips() {
        return Err(Error::Service(
            "TLS does not come from the FIPS module".into(),
        ));
    }
    #[cfg(fips)]
    tracing::info!("TLS comes from the module AWS-LC FIPS");
    let mut secured = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only();
    if let Some(name) = config.tls_server_name.clone() {
        secured = secured.with_server_name_resolver(move |_: &Uri| name.clone().try_into());
    }
    let secured = secured.enable_all_versions().wrap_connector(tcp);
    let fence = fence.clone();
    layered(config, move || {
        let (secured, fence) = (secured.clone(), fence.clone());
        Pool::new(move |limit| client(fenced(secured.clone(), &fence, limit)))
    })
}

fn client<C>(connector: C) -> legacy::Client<C, Guarded<Body>>
where
    C: Connect + Clone,
{
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(KEEPALIVE)
        .http2_keep_alive_timeout(KEEPALIVE / 2)
        .build(connector)
}

fn layered<C>(
    config: &Config,
    pool: impl Fn() -> Pool<legacy::Client<C, Guarded<Body>>> + Send + Sync + 'static,
) -> Result<Dial, Error>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let layers = ServiceBuilder::new()
        .map_err(without_output)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from);
    // Layers are shared, so that an exec plugin runs once per token.
    Ok(Box::new(move || {
        BoxCloneService::new(layers.service(guarded(pool())))
    }))
}

/// The last check of a request, after all waits but that for the connection: its fence belongs to the
/// lease under which the request is made.
fn guarded<C>(
    pool: Pool<legacy::Client<C, Guarded<Body>>>,
) -> impl Service<
    Request<Body>,
    Response = Response<Answered>,
    Error = legacy::Error,
    Future = impl Future<Output = Result<Response<Answered>, legacy::Error>> + Send,
> + Clone
+ Send
where
    C: Connect + Clone + Send + Sync + 'static,
{
    service_fn(move |mut request: Request<Body>| {
        let pool = pool.clone();
        async move {
            let (client, permit) = pool.permit().await;
            let fence = request.extensions_mut().remove().unwrap_or_default();
            poll_fn(|_| Fence::poll_send(&fence)).await;
            let request = request.map(|body| Guarded::new(body, fence));
            let answer = client.request(request).await?;
            Ok(answer.map(|body| PermitBody::new(body, permit)))
        }
    })
}

fn without_output(error: BoxError) -> BoxError {
    match error.downcast_ref::<AuthError>().and_then(plugin_failure) {
        Some(text) => text.into(),
        None => error,
    }
}

/// The message about a failed exec plugin. The library's own message quotes the plugin's output,
/// which may be a token.
pub(super) fn plugin_failure(error: &AuthError) -> Option<String> {
    if let AuthError::AuthExecRun { out, .. } = error {
        // Its command line includes the variables that were set for it.
        return Some(format!("the exec plugin failed: {}", out.status));
    }
    let unreadable = matches!(error, AuthError::AuthExecParse(_));
    unreadable.then(|| "the exec plugin did not print an ExecCredential".to_owned())
}
