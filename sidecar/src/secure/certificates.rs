//! The server's certificate, reloaded when its files change.
//!
//! kubelet swaps both files at once through a symlink, and other tools write one after the other. A new pair
//! is used once key and certificate match; until then the last good pair serves. Files are compared at
//! handshakes, at most once a second, so that a new client gets the new certificate even from a quiet
//! directory, and every ten seconds for the metric.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::{IntCounter, IntGauge};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    NoClientAuth, NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier,
};
use rustls::{CipherSuite, NamedGroup, RootCertStore, ServerConfig};
use tokio::time::{Instant, sleep};

use super::der;
use super::settings::{Curve, Suite, Tls, Version};
use crate::error::Chain;
use crate::in_cluster::cryptography;

/// Minimum pause between two comparisons of the files.
const LOOK: Duration = Duration::from_secs(1);
/// Interval of comparisons without handshakes.
const QUIET: Duration = Duration::from_secs(10);
/// Time before a certificate's expiry, in seconds, at which a warning is logged.
const SOON: i64 = 7 * 24 * 3600;
/// Maximum size of a certificate file.
const LARGEST: u64 = 1 << 20;

/// A file, and the flag that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The flag, with its dashes.
    pub flag: &'static str,
    /// The file.
    pub path: PathBuf,
}

/// The files of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The server's certificate with its intermediates.
    pub certificate: Named,
    /// The certificate's key.
    pub key: Named,
    /// The authority of client certificates, if those are accepted.
    pub authority: Option<Named>,
}

/// Metrics of a server's certificate.
#[derive(Debug)]
pub struct Shown {
    /// The certificate's expiry.
    pub not_after: IntGauge,
    /// Number of times that changed files could not be used.
    pub failures: Option<IntCounter>,
}

/// A server's certificate and its reload.
#[derive(Debug)]
pub struct Certificates {
    files: Files,
    tls: Tls,
    /// The protocol above TLS (ALPN).
    protocol: &'static str,
    shown: Shown,
    state: Mutex<State>,
}

struct State {
    usable: Usable,
    /// The last contents read, whether used or not.
    read: Result<Contents, String>,
    looked: Instant,
    /// The warning about the coming expiry was logged.
    is_warned: bool,
    /// The address that was compared last.
    address: String,
}

impl std::fmt::Debug for State {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("State").finish_non_exhaustive()
    }
}

/// The TLS configuration made from the files.
struct Usable {
    config: Arc<ServerConfig>,
    leaf: CertificateDer<'static>,
    /// Verifies certificates of clients.
    clients: Arc<dyn ClientCertVerifier>,
}

/// The contents of the files.
#[derive(Clone, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Option<Vec<u8>>,
}

impl Certificates {
    /// Reads the files and sets the metric of the expiry.
    ///
    /// # Errors
    /// A line that names the flag and file at fault.
    pub fn new(
        files: Files,
        tls: Tls,
        protocol: &'static str,
        shown: Shown,
    ) -> Result<Self, String> {
        let contents = files.read()?;
        let usable = usable(&files, &contents, &tls, protocol)?;
        let this = Self {
            files,
            tls,
            protocol,
            shown,
            state: Mutex::new(State {
                usable,
                read: Ok(contents),
                looked: Instant::now(),
                is_warned: false,
                address: String::new(),
            }),
        };
        this.consider_end(&mut this.lock());
        Ok(this)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The TLS configuration for the next handshake.
    pub fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.fresh().usable.config)
    }

    /// Whether this client's chain, its own certificate first, is still accepted: it may have expired since
    /// the handshake, or its authority may have been removed.
    pub fn accepts(&self, client: &[CertificateDer<'_>]) -> bool {
        let clients = Arc::clone(&self.fresh().usable.clients);
        client.split_first().is_some_and(|(own, others)| {
            let verified = clients.verify_client_cert(own, others, UnixTime::now());
            verified.is_ok()
        })
    }

    fn fresh(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.looked.elapsed() >= LOOK {
            self.look(&mut state);
        }
        state
    }

    /// Keeps the metric up to date.
    pub async fn watch(&self) -> Infallible {
        loop {
            sleep(QUIET).await;
            self.look(&mut self.lock());
        }
    }

    fn look(&self, state: &mut State) {
        state.looked = Instant::now();
        let mut read = self.files.read();
        if read != state.read {
            let mut taken = self.usable(&read);
            if taken.is_err() {
                // The files may have been replaced while they were being read.
                read = self.files.read();
                taken = self.usable(&read);
            }
            state.read = read;
            match taken {
                Ok(usable) => {
                    state.usable = usable;
                    (state.is_warned, state.address) = (false, String::new());
                    tracing::info!("The server has a new certificate");
                }
                Err(problem) => {
                    if let Some(failures) = &self.shown.failures {
                        failures.inc();
                    }
                    tracing::error!(
                        problem,
                        "Cannot use the new certificate or key, still serving with the previous one"
                    );
                }
            }
        }
        self.consider_end(state);
    }

    fn usable(&self, read: &Result<Contents, String>) -> Result<Usable, String> {
        let contents = read.as_ref().map_err(Clone::clone)?;
        usable(&self.files, contents, &self.tls, self.protocol)
    }

    fn consider_end(&self, state: &mut State) {
        let Some(end) = der::not_after(&state.usable.leaf) else {
            return;
        };
        self.shown.not_after.set(end);
        let now = jiff::Timestamp::now().as_second();
        if end - now < SOON && !std::mem::replace(&mut state.is_warned, true) {
            let hours = (end - now) / 3600;
            tracing::warn!(hours, "The server's certificate ends soon, or has ended");
        }
    }

    /// Logs `warning` once if clients that connect to this `host:port` would reject the certificate.
    pub fn compare(&self, address: &str, warning: &'static str) {
        let mut state = self.lock();
        if state.address == address {
            return;
        }
        address.clone_into(&mut state.address);
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_covered = ServerName::try_from(host).is_ok_and(|name| {
            ParsedCertificate::try_from(&state.usable.leaf)
                .is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
        });
        if !is_covered {
            tracing::warn!(address, "{warning}");
        }
    }
}

impl Named {
    fn is(&self, problem: impl std::fmt::Display) -> String {
        format!("{}={}: {problem}", self.flag, self.path.display())
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        let read = |path: &Path| {
            if std::fs::metadata(path)?.len() > LARGEST {
                return Err(io::Error::other("too large"));
            }
            std::fs::read(path)
        };
        read(&self.path).map_err(|error| self.is(error))
    }
}

impl Files {
    fn read(&self) -> Result<Contents, String> {
        Ok(Contents {
            certificate: self.certificate.read()?,
            key: self.key.read()?,
            authority: { self.authority.as_ref() }.map(Named::read).transpose()?,
        })
    }

    fn pair_is(&self, problem: impl std::fmt::Display) -> String {
        let Named { flag, path } = &self.certificate;
        format!("{flag}={}, {}", path.display(), self.key.is(problem))
    }
}

/// Makes the TLS configuration from the files' contents.
fn usable(files: &Files, contents: &Contents, tls: &Tls, protocol: &str) -> Result<Usable, String> {
    let chain = certificates(&files.certificate, &contents.certificate)?;
    let leaf = chain.first().cloned();
    let none = || files.certificate.is("there is no certificate in the file");
    let leaf = leaf.ok_or_else(none)?;
    let key = PrivateKeyDer::from_pem_slice(&contents.key);
    // The library's message could quote the key.
    let none = |_error| files.key.is("there is no private key in PEM in the file");
    let key = key.map_err(none)?;
    let versions: &[_] = match tls.version {
        Version::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        Version::Tls13 => &[&rustls::version::TLS13],
    };
    let explain = |error: rustls::Error| files.pair_is(Chain(&error));
    let provider = Arc::new(provider(tls));
    let clients: Arc<dyn ClientCertVerifier> = match (&files.authority, &contents.authority) {
        (Some(named), Some(pem)) => clients(named, pem, &provider)?,
        (_, _) => Arc::new(NoClientAuth),
    };
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(versions).map_err(explain)?;
    let builder = builder.with_client_cert_verifier(Arc::clone(&clients));
    let mut config = builder.with_single_cert(chain, key).map_err(explain)?;
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    if files.authority.is_some() {
        // Nobody would verify the client certificate of a resumed session again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Usable {
        config: Arc::new(config),
        leaf,
        clients,
    })
}

fn certificates(named: &Named, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.map_err(|_error| named.is("the certificate is not PEM"))
}

/// Accepts client certificates that these authorities have signed, and clients without one.
fn clients(
    named: &Named,
    pem: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates(named, pem)? {
        roots.add(root).map_err(|error| named.is(Chain(&error)))?;
    }
    let (roots, provider) = (Arc::new(roots), Arc::clone(provider));
    WebPkiClientVerifier::builder_with_provider(roots, provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| named.is(Chain(&error)))
}

fn provider(tls: &Tls) -> CryptoProvider {
    let mut provider = cryptography();
    if let Some(suites) = &tls.suites {
        let is_wanted = |suite: CipherSuite| {
            let wanted = suites
                .iter()
                .any(|wanted| number_of_suite(*wanted) == suite);
            wanted || !is_of_tls_12(suite)
        };
        provider
            .cipher_suites
            .retain(|suite| is_wanted(suite.suite()));
    }
    if let Some(curves) = &tls.curves {
        let is_wanted = |group| {
            curves
                .iter()
                .any(|wanted| number_of_curve(*wanted) == group)
        };
        provider.kx_groups.retain(|group| is_wanted(group.name()));
    }
    provider
}

fn is_of_tls_12(suite: CipherSuite) -> bool {
    const ALL: [Suite; 6] = [
        Suite::EcdsaAes128,
        Suite::EcdsaAes256,
        Suite::EcdsaChacha,
        Suite::RsaAes128,
        Suite::RsaAes256,
        Suite::RsaChacha,
    ];
    ALL.iter().any(|one| number_of_suite(*one) == suite)
}

fn number_of_suite(suite: Suite) -> CipherSuite {
    match suite {
        Suite::EcdsaAes128 => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        Suite::EcdsaAes256 => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        Suite::EcdsaChacha => CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        Suite::RsaAes128 => CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        Suite::RsaAes256 => CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        Suite::RsaChacha => CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    }
}

fn number_of_curve(curve: Curve) -> NamedGroup {
    match curve {
        Curve::P256 => NamedGroup::secp256r1,
        Curve::P384 => NamedGroup::secp384r1,
        Curve::X25519 => NamedGroup::X25519,
    }
}
