//! What a request to the API server passes through, from the client down to the socket.
//!
//! The HTTP stack is put together here instead of taking kube's default: that one retries silently
//! (the work queue does that visibly), and logs every failed request as an error.

use std::time::Duration;

use ::kube::client::{Body, ClientBuilder, ConfigExt as _};
use ::kube::{Client, Config, Error};
use http::Uri;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower::ServiceBuilder;

use crate::kube::rate::Limiter;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A peer that vanished without a word is noticed after about twice this, also on a silent watch.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// As Go's transport.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Of a server that speaks HTTP/1.1 only, which needs a connection per running request: as many as
/// run at once without a fixed rate. Connections above this number are closed once they are idle.
const IDLE_CONNECTIONS: usize = 32;

/// What the server may send ahead of a reader, in bytes; all of it may end up in our memory. A watch
/// of a large cluster is the only thing that fills it.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// A client whose requests `limiter` lets pass. Nothing is sent to the API server yet.
pub(super) fn build(config: &Config, limiter: &Limiter) -> Result<Client, Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE / 6));
    connector.set_keepalive_retries(Some(6));
    let mut secured = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        secured = secured.with_server_name_resolver(move |_: &Uri| name.clone().try_into());
    }
    let connector = secured.enable_all_versions().wrap_connector(connector);
    let client: hyper_util::client::legacy::Client<_, Body> =
        hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(KEEPALIVE)
            .http2_keep_alive_timeout(KEEPALIVE / 2)
            .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(client);
    let service = limiter.limit(service);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}
