//! The model server on a socket, for tests of whole programs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};

use super::FakeApi;
use super::certificate::AnyClient;
use super::record::Peer;

/// A listening server; dropping it closes the listener and all connections.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    url: String,
    directory: tempfile::TempDir,
    _task: AbortOnDrop,
}

#[derive(Debug)]
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Served {
    /// The listen address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://127.0.0.1:PORT` or `http://…`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig file with one context for this server.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// The certificate authority as a PEM file; absent without TLS.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }
}

impl FakeApi {
    /// Listens with TLS on a free port of the loopback address and writes a kubeconfig. Offers HTTP/2, and requests a
    /// client certificate, as a real API server does.
    ///
    /// # Panics
    ///
    /// If the machine refuses.
    pub async fn serve(&self) -> Served {
        self.listen(Some(this_host())).await
    }

    /// Like [`serve`](Self::serve), but presents `certificate`, signs with `key` whether or not that belongs to it, and
    /// writes `authority` to the kubeconfig's file.
    ///
    /// # Panics
    ///
    /// If the machine refuses.
    pub async fn serve_as(
        &self,
        certificate: &CertificateDer<'static>,
        key: Arc<dyn SigningKey>,
        authority: &str,
    ) -> Served {
        let acceptor = acceptor(certificate, key);
        self.listen(Some((acceptor, authority.to_owned()))).await
    }

    /// Listens without TLS on a free port of the loopback address and writes a kubeconfig.
    ///
    /// # Panics
    ///
    /// If the machine refuses.
    pub async fn serve_plain(&self) -> Served {
        self.listen(None).await
    }

    async fn listen(&self, tls: Option<(TlsAcceptor, String)>) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("bind a loopback port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let directory = tempfile::tempdir().expect("make a temporary directory");
        let (acceptor, ca) = tls.unzip();
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{address}");
        write(
            &directory.path().join("kubeconfig"),
            &kubeconfig(&url, ca.as_deref()),
        );
        if let Some(ca) = &ca {
            write(&directory.path().join("ca.crt"), ca);
        }
        let task = tokio::spawn(accept(self.clone(), listener, acceptor));
        Served {
            address,
            url,
            directory,
            _task: AbortOnDrop(task),
        }
    }
}

/// A TLS acceptor with a new self-signed certificate of the loopback addresses, and that certificate in PEM.
pub(crate) fn this_host() -> (TlsAcceptor, String) {
    let names = ["127.0.0.1", "::1", "localhost"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).expect("make a certificate");
    let key = signing(made.signing_key.serialize_der());
    (acceptor(made.cert.der(), key), made.cert.pem())
}

fn acceptor(certificate: &CertificateDer<'static>, key: Arc<dyn SigningKey>) -> TlsAcceptor {
    let shown = CertifiedKey::new(vec![certificate.clone()], key);
    let shown = SingleCertAndKey::from(shown);
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and 1.3")
        .with_client_cert_verifier(Arc::new(AnyClient::new(provider)))
        .with_cert_resolver(Arc::new(shown));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// A signing key for ring.
///
/// # Panics
///
/// If the key is not in PKCS #8.
#[must_use]
pub fn signing(pkcs8: Vec<u8>) -> Arc<dyn SigningKey> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8));
    any_supported_type(&key).expect("a key in PKCS #8")
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("write to a temporary directory");
}

/// Writes a kubeconfig in JSON, which every client accepts as YAML.
fn kubeconfig(url: &str, ca: Option<&str>) -> String {
    let mut cluster = json!({ "server": url });
    if ca.is_some() {
        cluster["certificate-authority"] = "ca.crt".into();
    }
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": "test-token"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })
    .to_string()
}

async fn accept(api: FakeApi, listener: TcpListener, acceptor: Option<TlsAcceptor>) {
    // Dropped with this task, which ends the connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(connection(api.clone(), stream, acceptor.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(api: FakeApi, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
    // An error means that the client went away or a fault broke the connection.
    let Some(acceptor) = acceptor else {
        let service = TowerToHyperService::new(api.service());
        let io = TokioIo::new(stream);
        let _ = http1::Builder::new().serve_connection(io, service).await;
        return;
    };
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let session = stream.get_ref().1;
    let certificate = session.peer_certificates().and_then(<[_]>::first);
    let peer = Peer {
        certificate: certificate.map(|certificate| certificate.to_vec()),
        http2: session.alpn_protocol() == Some(b"h2"),
    };
    let http2 = peer.http2;
    let service = TowerToHyperService::new(api.service().of(peer));
    let io = TokioIo::new(stream);
    if http2 {
        let mut server = http2::Builder::new(TokioExecutor::new());
        if let Some(limit) = api.lock().streams {
            server.max_concurrent_streams(limit);
        }
        let _ = server.serve_connection(io, service).await;
    } else {
        let _ = http1::Builder::new().serve_connection(io, service).await;
    }
}
