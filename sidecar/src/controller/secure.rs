//! The process's HTTP server with TLS: it serves the same pages, and `/statusz` and `/flagz`, to authorized clients.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use http::StatusCode;
use http::request::Parts;
use prometheus::{IntCounter, IntGauge};
use rustls::pki_types::CertificateDer;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::flags::Http;
use crate::flags::Values;
use crate::http::{Guard, Reply, Socket};
use crate::kube::api::Api;
use crate::metrics::{RegisterError, Registry};
use crate::secure::access::{Access, Client};
use crate::secure::certificates::{Certificates, Files, Named, Shown};
use crate::secure::handshakes::Handshakes;
use crate::secure::settings::{Tls, Version};

const ENDPOINT: &str = "secure-http-endpoint";
/// The flag with its dashes.
pub(super) const FLAG: &str = "--secure-http-endpoint";
const CERTIFICATE: &str = "tls-cert-file";
const KEY: &str = "tls-private-key-file";
const AUTHORITY: &str = "client-ca-file";
const VERSION: &str = "tls-min-version";
const OPEN: &str = "authorization-always-allow-paths";
/// Flags that have no effect without the endpoint.
const WITH_ENDPOINT: [&str; 5] = [CERTIFICATE, KEY, AUTHORITY, VERSION, OPEN];

/// Limits in bytes of a client's side of the handshake, without and with certificates: the client is unknown yet.
const GREETING: usize = 4 << 10;
const GREETING_WITH_CERTIFICATES: usize = 12 << 10;

/// Settings of the server with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secure {
    pub(super) http: Http,
    files: Files,
    tls: Tls,
    open: Vec<String>,
}

impl Secure {
    /// From the flags of [`SECURE_HTTP`](crate::flags::standard::SECURE_HTTP); `None` without such a
    /// server.
    ///
    /// # Errors
    /// A line that names the wrong flag.
    pub(super) fn from_flags(values: &Values) -> Result<Option<Self>, String> {
        if !values.has(ENDPOINT) {
            return Ok(None);
        }
        let address = values.string(ENDPOINT);
        let file = |flag: &str| {
            let path = values.string(flag);
            (!path.is_empty()).then(|| PathBuf::from(path))
        };
        if address.is_empty() {
            let is_given = |flag: &&&str| values.is_set(flag) && !values.string(flag).is_empty();
            return WITH_ENDPOINT.iter().find(is_given).map_or(Ok(None), |flag| {
                Err(format!(
                    "--{flag}={}: has no effect without --{ENDPOINT}, which says where to listen",
                    values.string(flag)
                ))
            });
        }
        let needed = |flag: &'static str, dashed, what: &str| {
            let missing =
                format!("--{ENDPOINT}={address}: --{flag} must name the file of its {what}");
            let path = file(flag).ok_or(missing)?;
            Ok::<_, String>(Named { flag: dashed, path })
        };
        let open = values.string(OPEN).split(',');
        let open = open.map(str::trim).filter(|path| !path.is_empty());
        Ok(Some(Self {
            http: Http {
                address: address.to_owned(),
                flag: FLAG,
                metrics_path: Some(values.string("metrics-path").to_owned()),
                health: values.bool("leader-election"),
            },
            files: Files {
                certificate: needed(CERTIFICATE, "--tls-cert-file", "certificate")?,
                key: needed(KEY, "--tls-private-key-file", "key")?,
                authority: file(AUTHORITY).map(|path| Named {
                    flag: "--client-ca-file",
                    path,
                }),
            },
            tls: Tls {
                version: Version::from_flag(values.string(VERSION))?,
                ..Tls::default()
            },
            open: open.map(str::to_owned).collect(),
        }))
    }

    /// Reads the files; `api` authenticates clients.
    ///
    /// # Errors
    /// A line that names the flag and the file.
    pub(super) fn guard(self, api: Api, shown: Shown) -> Result<TlsGuard, String> {
        let greeting = match self.files.authority {
            Some(_) => GREETING_WITH_CERTIFICATES,
            None => GREETING,
        };
        let certificates = Certificates::new(self.files, self.tls, "http/1.1", shown)?;
        Ok(TlsGuard(Arc::new(State {
            greeting,
            handshakes: Handshakes::default(),
            certificates,
            access: Access::new(api, self.open),
        })))
    }
}

/// Metrics of the certificate.
///
/// # Errors
/// The registry has them already.
pub(super) fn shown(registry: &Registry) -> Result<Shown, RegisterError> {
    let not_after = IntGauge::new(
        "csi_sidecar_tls_certificate_not_after_seconds",
        "[ALPHA] Unix time at which the certificate of --secure-http-endpoint ends.",
    )?;
    let failures = IntCounter::new(
        "csi_sidecar_tls_reload_failures_total",
        "[ALPHA] Times that --tls-cert-file, --tls-private-key-file or --client-ca-file changed and could not be \
         used.",
    )?;
    registry.register(Box::new(not_after.clone()))?;
    registry.register(Box::new(failures.clone()))?;
    Ok(Shown {
        not_after,
        failures: Some(failures),
    })
}

/// Admits clients over TLS that may read the path they request; clones share its state.
#[derive(Clone)]
pub(super) struct TlsGuard(Arc<State>);

struct State {
    /// Most bytes accepted from a client before its handshake is complete.
    greeting: usize,
    handshakes: Handshakes,
    certificates: Certificates,
    access: Access,
}

impl fmt::Debug for TlsGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsGuard").finish_non_exhaustive()
    }
}

impl TlsGuard {
    /// Reloads the files when they change, for ever.
    pub(super) async fn watch(&self) -> std::convert::Infallible {
        self.0.certificates.watch().await
    }
}

/// A client with the certificates that it presented, its own first.
pub(super) struct Greeted {
    client: Client,
    chain: Vec<CertificateDer<'static>>,
}

impl Guard for TlsGuard {
    type Stream = TlsStream<Socket>;
    type Client = Greeted;

    async fn greet(&self, mut socket: Socket, peer: IpAddr) -> io::Result<(Self::Stream, Greeted)> {
        let acceptor = TlsAcceptor::from(self.0.certificates.current());
        socket.greet_within(self.0.greeting);
        let handshake = acceptor.accept(socket);
        let mut stream = self.0.handshakes.carry_out(peer, handshake).await?;
        stream.get_mut().0.greeted();
        let chain = stream.get_ref().1.peer_certificates();
        let chain = chain.map(<[_]>::to_vec).unwrap_or_default();
        let client = Client::new(peer, chain.first().map(AsRef::as_ref));
        Ok((stream, Greeted { client, chain }))
    }

    fn is_open(&self, path: &str) -> bool {
        self.0.access.is_open(path)
    }

    async fn admit(&self, greeted: &Greeted, request: &Parts) -> Result<(), Reply> {
        let Greeted { client, chain } = greeted;
        if !chain.is_empty() && !self.0.certificates.accepts(chain) {
            let text = "the client's certificate is not accepted any more\n";
            return Err(Reply::text(StatusCode::UNAUTHORIZED, text));
        }
        self.0.access.admit(client, request).await
    }
}

#[cfg(test)]
mod tests;
