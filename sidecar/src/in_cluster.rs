//! The API server of the cluster that the pod runs in.
//!
//! | module | contents |
//! |---|---|
//! | `server` | the URL of the API server |
//! | `authority`, `curves` | verification of its certificate |
//! | `certificate` | advice if its certificate is refused |
//! | here | a client with two requests: GET and JSON patch of an object |
//!
//! The client is for programs that send few requests, and that Kubernetes' library would make twice as large. It caches
//! nothing: it reads the certificate authority for each connection and the token for each request.

pub(crate) mod authority;
pub(crate) mod certificate;
#[cfg(not(fips))]
mod curves;
mod server;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::crypto::CryptoProvider;
use rustls::crypto::hash::{Hash, HashAlgorithm};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, SupportedCipherSuite};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::error::Chain;
use crate::refusal::{ApiError, Refusal};
use authority::{Authority, Named};

pub use server::{Nowhere, server};

/// Directory of a pod's credentials.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Time limit of connecting, and of each request with its response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a response in bytes. A Node has some kilobytes; etcd keeps no object above 1.5 MiB by default.
const LARGEST: usize = 4 << 20;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The API server cannot be reached, or does not answer in time.
    #[error("the API server does not answer: {0}")]
    Away(String),
    /// The pod has no token, or the API server's certificate is refused.
    #[error("{0}")]
    Unusable(String),
    /// The API server returned an error, or a body that is not the object.
    #[error("{error}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error in the response.
        error: ApiError,
        /// The `Retry-After` that the API server sent.
        retry_after: Option<Duration>,
    },
}

/// The address of the API server of the pod, and the pod's credentials.
#[derive(Clone, Debug)]
pub struct InCluster {
    /// `$KUBERNETES_SERVICE_HOST`
    pub host: Option<String>,
    /// `$KUBERNETES_SERVICE_PORT`
    pub port: Option<String>,
    /// Directory with the pod's credentials.
    pub service_account: PathBuf,
    /// The `User-Agent` of requests.
    pub user_agent: String,
}

impl InCluster {
    /// Reads the environment and uses the files that kubelet mounts into each pod.
    #[must_use]
    pub fn new(user_agent: &str) -> Self {
        Self {
            host: std::env::var("KUBERNETES_SERVICE_HOST").ok(),
            port: std::env::var("KUBERNETES_SERVICE_PORT").ok(),
            service_account: SERVICE_ACCOUNT.into(),
            user_agent: user_agent.to_owned(),
        }
    }

    /// Connects, trusting the certificate authority that the file has now.
    ///
    /// # Errors
    /// This is not a pod with a service account's token, the API server is unreachable, or its certificate is refused.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        let [host, port] = [&self.host, &self.port].map(|it| it.as_deref().unwrap_or_default());
        let server = server(host, port).map_err(|error| Failure::Unusable(error.to_string()))?;
        let unusable = |error: &dyn std::fmt::Display| {
            let text = format!("in-cluster configuration: {server}: {error}");
            Failure::Unusable(text)
        };
        let uri: Uri = server.parse().map_err(|error| unusable(&error))?;
        let host = uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(|error| unusable(&error))?;
        let port = uri.port_u16().unwrap_or(443);
        // Without a token, connecting is useless.
        self.token()?;
        let tls = self.tls()?;
        let connecting = async {
            let tcp = TcpStream::connect((bare, port)).await?;
            tcp.set_nodelay(true)?;
            TlsConnector::from(Arc::new(tls)).connect(name, tcp).await
        };
        let stream = within(connecting).await?.map_err(|error| broken(&error))?;
        let handshake = within(http1::handshake(TokioIo::new(stream))).await?;
        let (sender, driving) = handshake.map_err(|error| broken(&error))?;
        let driving = tokio::spawn(async move {
            // The request that waits for a response gets the error.
            let _ended = driving.await;
        });
        let authority = uri.authority().map_or(bare, |authority| authority.as_str());
        Ok(Connection {
            sender,
            driving,
            host: HeaderValue::from_str(authority).map_err(|error| unusable(&error))?,
            user_agent: HeaderValue::from_str(&self.user_agent)
                .map_err(|error| unusable(&error))?,
            pod: self.clone(),
        })
    }

    fn token(&self) -> Result<HeaderValue, Failure> {
        let path = self.service_account.join("token");
        let unusable = |problem: String| {
            let path = path.display();
            Failure::Unusable(format!("in-cluster configuration: {path}: {problem}"))
        };
        let token = std::fs::read_to_string(&path).map_err(|error| {
            unusable(format!(
                "{error}; is automountServiceAccountToken switched off?"
            ))
        })?;
        if token.trim().is_empty() {
            return Err(unusable("the file is empty".to_owned()));
        }
        let mut header = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| unusable("not a token: it has control characters".to_owned()))?;
        header.set_sensitive(true);
        Ok(header)
    }

    fn tls(&self) -> Result<ClientConfig, Failure> {
        let unusable =
            |problem: String| Failure::Unusable(format!("in-cluster configuration: {problem}"));
        let named = Named::File(self.service_account.join("ca.crt"));
        let authority = Authority::new(named).map_err(unusable)?;
        let config = ClientConfig::builder_with_provider(Arc::new(cryptography()))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(authority))
            .with_no_client_auth();
        Ok(config)
    }
}

/// The TLS cryptography of all programs: ring, or the FIPS module.
#[cfg(not(fips))]
#[must_use]
pub fn cryptography() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// The TLS cryptography of all programs: ring, or the FIPS module.
#[cfg(fips)]
#[must_use]
pub fn cryptography() -> CryptoProvider {
    rustls::crypto::default_fips_provider()
}

/// SHA-256 from the same library, so that a FIPS build has no other implementation. Each provider has it, for TLS 1.3.
pub fn sha256() -> Option<&'static dyn Hash> {
    static SHA256: OnceLock<Option<&'static dyn Hash>> = OnceLock::new();
    *SHA256.get_or_init(|| {
        let suites = cryptography().cipher_suites;
        let suites = suites.iter().filter_map(SupportedCipherSuite::tls13);
        let mut hashes = suites.map(|suite| suite.common.hash_provider);
        hashes.find(|hash| hash.algorithm() == HashAlgorithm::SHA256)
    })
}

async fn within<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    timeout(TIMEOUT, work)
        .await
        .map_err(|_| Failure::Away(format!("no answer within {TIMEOUT:?}")))
}

/// Classifies the error of a connection.
fn broken(error: &(dyn std::error::Error + 'static)) -> Failure {
    match certificate::problem(error) {
        Some(problem) => Failure::Unusable(problem),
        None => Failure::Away(Chain(error).to_string()),
    }
}

/// A connection that sends one request after the other.
#[derive(Debug)]
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driving: JoinHandle<()>,
    host: HeaderValue,
    user_agent: HeaderValue,
    pod: InCluster,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driving.abort();
    }
}

impl Connection {
    /// GETs the object at this path.
    ///
    /// # Errors
    /// The object does not exist, or the request failed.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, Failure> {
        let answer = self.send(Method::GET, path, None).await?;
        serde_json::from_slice(&answer).map_err(|error| Failure::Refused {
            status: 200,
            error: ApiError::unreadable(&error),
            retry_after: None,
        })
    }

    /// Applies the operations of a JSON patch: all of them or none.
    ///
    /// # Errors
    /// They were not applied, or no response says whether they were.
    pub async fn json_patch(&mut self, path: &str, operations: &Value) -> Result<(), Failure> {
        self.send(Method::PATCH, path, Some(operations)).await?;
        Ok(())
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.host.clone())
            .header(AUTHORIZATION, self.pod.token()?)
            .header(USER_AGENT, self.user_agent.clone())
            .header(ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json-patch+json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request
            .body(Full::from(body))
            .map_err(|error| Failure::Unusable(error.to_string()))?;
        let answering = async {
            let answer = self.sender.send_request(request).await;
            let (head, body) = answer.map_err(|error| broken(&error))?.into_parts();
            let body = Limited::new(body, LARGEST).collect().await;
            let body =
                body.map_err(|error| Failure::Away(Chain(&io::Error::other(error)).to_string()))?;
            Ok::<_, Failure>((head, body.to_bytes()))
        };
        let (head, body) = within(answering).await??;
        if head.status.is_success() {
            return Ok(body);
        }
        Err(refused(head.status, retry_after(&head.headers), &body))
    }
}

/// `Retry-After` in seconds, the only form that the API server sends.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse();
    seconds.ok().map(Duration::from_secs)
}

fn refused(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Failure {
    /// A `Status` object.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Said {
        message: String,
        reason: String,
    }
    let said: Said = serde_json::from_slice(body).unwrap_or_default();
    let message = match said.message.is_empty() {
        true => format!("the API server answers {status}"),
        false => said.message,
    };
    let status = status.as_u16();
    let refusal = Refusal::of(status, &said.reason);
    Failure::Refused {
        status,
        error: ApiError { message, refusal },
        retry_after,
    }
}

/// The `User-Agent` of a program, in client-go's format.
#[must_use]
pub fn user_agent(program: &str, version: &str) -> String {
    let (os, processor) = (std::env::consts::OS, architecture(std::env::consts::ARCH));
    format!("{program}/{version} ({os}/{processor})")
}

/// Go's name of the architecture, so that user agents of a mixed fleet sort together.
fn architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests;
