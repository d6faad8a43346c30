//! The server's certificate, as it is in its files now.
//!
//! kubelet swaps both files at once behind a link, and other tools write one after the other. A pair is
//! taken once key and certificate belong together; until then the last good pair serves. Files are
//! compared at handshakes, at most once a second, so that a new client gets the new certificate however
//! quiet the directory is, and every ten seconds besides for the metric.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::IntGauge;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{CipherSuite, NamedGroup, ServerConfig};
use sidecar::error::Chain;
use sidecar::flags::Exit;
use sidecar::in_cluster::cryptography;
use tokio::time::{Instant, sleep};

use crate::plan::certificate;
use crate::plan::tls::{Curve, Suite, Tls, Version};

/// Between two comparisons of the files.
const LOOK: Duration = Duration::from_secs(1);
/// The same without handshakes.
const QUIET: Duration = Duration::from_secs(10);
/// Before its end a certificate is warned of.
const SOON: i64 = 7 * 24 * 3600;
/// Larger files hold no certificate.
const LARGEST: u64 = 1 << 20;

/// The pair of files.
#[derive(Debug)]
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    tls: Tls,
    not_after: IntGauge,
    state: Mutex<State>,
}

struct State {
    config: Arc<ServerConfig>,
    leaf: CertificateDer<'static>,
    /// What was read last, whether or not it was taken.
    read: Result<Pair, String>,
    looked: Instant,
    /// The end of the certificate has been warned of.
    is_warned: bool,
    /// The address that was compared last.
    address: String,
}

impl std::fmt::Debug for State {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("State").finish_non_exhaustive()
    }
}

/// What the files hold.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Certificates {
    /// Reads the files; the metric says when the certificate ends.
    ///
    /// # Errors
    /// Exit code 1 and a line that names the file at fault.
    pub fn new(
        (certificate, key): (PathBuf, PathBuf),
        tls: Tls,
        not_after: IntGauge,
    ) -> Result<Self, Exit> {
        let failed = |problem| Exit::failure(1, problem);
        let pair = read(&certificate, &key).map_err(failed)?;
        let (config, leaf) = usable(&pair, &tls).map_err(|problem| {
            let (certificate, key) = (certificate.display(), key.display());
            failed(format!(
                "--tls-cert={certificate}, --tls-key={key}: {problem}"
            ))
        })?;
        let this = Self {
            certificate,
            key,
            tls,
            not_after,
            state: Mutex::new(State {
                config,
                leaf,
                read: Ok(pair),
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

    /// For the next handshake.
    pub fn current(&self) -> Arc<ServerConfig> {
        let mut state = self.lock();
        if state.looked.elapsed() >= LOOK {
            self.look(&mut state);
        }
        Arc::clone(&state.config)
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
        let read = read(&self.certificate, &self.key);
        if read != state.read {
            state.read = read;
            let taken = match &state.read {
                Ok(pair) => usable(pair, &self.tls),
                Err(problem) => Err(problem.clone()),
            };
            match taken {
                Ok((config, leaf)) => {
                    (state.config, state.leaf) = (config, leaf);
                    (state.is_warned, state.address) = (false, String::new());
                    tracing::info!("The server has a new certificate");
                }
                Err(problem) => tracing::error!(
                    problem,
                    "Cannot use the new certificate or key, still serving with the previous one"
                ),
            }
        }
        self.consider_end(state);
    }

    fn consider_end(&self, state: &mut State) {
        let Some(end) = certificate::not_after(&state.leaf) else {
            return;
        };
        self.not_after.set(end);
        let now = jiff::Timestamp::now().as_second();
        if end - now < SOON && !std::mem::replace(&mut state.is_warned, true) {
            let hours = (end - now) / 3600;
            tracing::warn!(hours, "The server's certificate ends soon, or has ended");
        }
    }

    /// Warns, once, if clients that connect to this `host:port` would not accept the certificate.
    pub fn compare(&self, address: &str) {
        let mut state = self.lock();
        if state.address == address {
            return;
        }
        address.clone_into(&mut state.address);
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_covered = ServerName::try_from(host).is_ok_and(|name| {
            ParsedCertificate::try_from(&state.leaf)
                .is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
        });
        if !is_covered {
            tracing::warn!(
                address,
                "The server's certificate is not for the address of the SnapshotMetadataService: \
                 clients will refuse it"
            );
        }
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Pair, String> {
    let file = |flag: &str, path: &Path| {
        let small = std::fs::metadata(path).and_then(|file| {
            if file.len() > LARGEST {
                return Err(io::Error::other("too large"));
            }
            std::fs::read(path)
        });
        small.map_err(|error| format!("{flag}={}: {error}", path.display()))
    };
    Ok(Pair {
        certificate: file("--tls-cert", certificate)?,
        key: file("--tls-key", key)?,
    })
}

/// What serves with this pair.
fn usable(pair: &Pair, tls: &Tls) -> Result<(Arc<ServerConfig>, CertificateDer<'static>), String> {
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(&pair.certificate).collect();
    let chain = chain.map_err(|_error| "the certificate is not PEM")?;
    let leaf = chain.first().cloned();
    let leaf = leaf.ok_or("there is no certificate in the file")?;
    let key = PrivateKeyDer::from_pem_slice(&pair.key);
    // The library's words could quote the key.
    let key = key.map_err(|_error| "there is no private key in PEM in the file")?;
    let versions: &[_] = match tls.version {
        Version::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        Version::Tls13 => &[&rustls::version::TLS13],
    };
    let explain = |error: rustls::Error| Chain(&error).to_string();
    let builder = ServerConfig::builder_with_provider(Arc::new(provider(tls)));
    let builder = builder.with_protocol_versions(versions).map_err(explain)?;
    let builder = builder.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).map_err(explain)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((Arc::new(config), leaf))
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
