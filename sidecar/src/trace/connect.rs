//! The connection to the collector, with the same TLS library and rules as the connection to the API server.

use std::sync::Arc;
use std::time::Duration;

use ::kube::Config;
use ::kube::client::ConfigExt as _;
use http::Uri;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::ClientConfig;
use tonic::transport::{Channel, Endpoint};

use super::settings::{Files, Settings};
use crate::in_cluster::authority::{Authority, Named};
use crate::in_cluster::user_agent;

/// Time limit of TCP and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why no connection can be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("cannot connect")]
    Endpoint(#[from] tonic::transport::Error),
    #[error("TLS: {0}")]
    Tls(String),
}

/// Connects. Reads the TLS files.
///
/// If dropped, it leaves no connection behind: a channel that connects at its first call has a task that goes on
/// after the call is cancelled, for as long as a handshake takes. A channel that lost its connection has such a task
/// as well, so connecting has a time limit.
pub(super) async fn connect(settings: &Settings, version: &str) -> Result<Channel, ConnectError> {
    let endpoint = Endpoint::from(settings.endpoint.clone());
    let endpoint = endpoint.user_agent(user_agent("csi-sidecars-otlp", version))?;
    let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT.min(settings.timeout));
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    if settings.endpoint.scheme_str() != Some("https") {
        return Ok(endpoint.connect_with_connector(tcp).await?);
    }
    let (uri, files) = (settings.endpoint.clone(), settings.files.clone());
    // The system's files may contain hundreds of authorities.
    let read = tokio::task::spawn_blocking(move || tls(uri, &files));
    let tls = match read.await {
        Ok(tls) => tls.map_err(ConnectError::Tls)?,
        Err(ended) => return Err(ConnectError::Tls(ended.to_string())),
    };
    let secured = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http2()
        .wrap_connector(tcp);
    Ok(endpoint.connect_with_connector(secured).await?)
}

fn tls(uri: Uri, files: &Files) -> Result<ClientConfig, String> {
    let shown = |path: &std::path::PathBuf| path.display().to_string();
    let mut config = Config::new(uri);
    config.auth_info.client_certificate = files.certificate.as_ref().map(shown);
    config.auth_info.client_key = files.key.as_ref().map(shown);
    if files.authority.is_some() {
        // Then the system's authorities do not count.
        config.root_cert = Some(Vec::new());
    }
    let mut tls = config
        .rustls_client_config()
        .map_err(|error| crate::error::Chain(&error).to_string())?;
    if let Some(authority) = &files.authority {
        let authority = Authority::new(Named::File(authority.clone()))?;
        let tls = &mut tls;
        tls.dangerous()
            .set_certificate_verifier(Arc::new(authority));
    }
    Ok(tls)
}
