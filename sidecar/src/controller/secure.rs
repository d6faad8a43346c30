//! The HTTP server of a process that speaks TLS: it shows the same to those who may see it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use http::request::Parts;
use prometheus::{IntCounter, IntGauge};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::flags::Http;
use crate::flags::Values;
use crate::http::{Guard, Reply, Socket};
use crate::kube::api::Api;
use crate::metrics::{RegisterError, Registry};
use crate::secure::access::{Access, Client};
use crate::secure::certificates::{Certificates, Files, Named, Shown};
use crate::secure::settings::{Tls, Version};

const ENDPOINT: &str = "secure-http-endpoint";
const CERTIFICATE: &str = "tls-cert-file";
const KEY: &str = "tls-private-key-file";
const AUTHORITY: &str = "client-ca-file";

/// For a client's part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What the flags ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secure {
    pub(super) http: Http,
    files: Files,
    tls: Tls,
    open: Vec<String>,
}

impl Secure {
    /// From the flags of [`SECURE_HTTP`](crate::flags::standard::SECURE_HTTP); `None` if there is to be no such
    /// server.
    ///
    /// # Errors
    /// A line that names the flag at fault.
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
            let without_effect = [CERTIFICATE, KEY, AUTHORITY].map(|flag| (flag, file(flag)));
            let mut given = without_effect.iter();
            return match given.find_map(|(flag, path)| Some((flag, path.as_ref()?))) {
                Some((flag, path)) => Err(format!(
                    "--{flag}={}: has no effect without --{ENDPOINT}, which says where to listen",
                    path.display()
                )),
                None => Ok(None),
            };
        }
        let needed = |flag: &'static str, dashed, what: &str| {
            let missing =
                format!("--{ENDPOINT}={address}: --{flag} must name the file of its {what}");
            let path = file(flag).ok_or(missing)?;
            Ok::<_, String>(Named { flag: dashed, path })
        };
        let open = values.string("authorization-always-allow-paths").split(',');
        let open = open.map(str::trim).filter(|path| !path.is_empty());
        Ok(Some(Self {
            http: Http {
                address: address.to_owned(),
                flag: "--secure-http-endpoint",
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
                version: Version::from_flag(values.string("tls-min-version"))?,
                ..Tls::default()
            },
            open: open.map(str::to_owned).collect(),
        }))
    }

    /// Reads the files; `api` says who clients are.
    ///
    /// # Errors
    /// A line that names flag and file.
    pub(super) fn guard(self, api: Api, shown: Shown) -> Result<TlsGuard, String> {
        let certificates = Certificates::new(self.files, self.tls, "http/1.1", shown)?;
        Ok(TlsGuard(Arc::new(State {
            certificates,
            access: Access::new(api, self.open),
        })))
    }
}

/// What is shown of the certificate.
///
/// # Errors
/// The registry has it already.
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

/// Lets in who may read what it asks for, over TLS; clones are the same.
#[derive(Clone)]
pub(super) struct TlsGuard(Arc<State>);

struct State {
    certificates: Certificates,
    access: Access,
}

impl fmt::Debug for TlsGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsGuard").finish_non_exhaustive()
    }
}

impl TlsGuard {
    /// Looks at the files now and then, for ever.
    pub(super) async fn watch(&self) -> std::convert::Infallible {
        self.0.certificates.watch().await
    }
}

impl Guard for TlsGuard {
    type Stream = TlsStream<Socket>;
    type Client = Client;

    async fn greet(&self, socket: Socket, peer: IpAddr) -> io::Result<(Self::Stream, Client)> {
        let acceptor = TlsAcceptor::from(self.0.certificates.current());
        let accepted = timeout(HANDSHAKE, acceptor.accept(socket)).await;
        let stream = accepted.map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))??;
        let certificates = stream.get_ref().1.peer_certificates();
        let certificate = certificates.and_then(<[_]>::first);
        let client = Client::new(peer, certificate.map(AsRef::as_ref));
        Ok((stream, client))
    }

    fn is_open(&self, path: &str) -> bool {
        self.0.access.is_open(path)
    }

    async fn admit(&self, client: &Client, request: &Parts) -> Result<(), Reply> {
        self.0.access.admit(client, request).await
    }
}

#[cfg(test)]
mod tests;
