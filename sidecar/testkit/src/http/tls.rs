//! A server's certificate, and TLS clients of the server.

use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};

use super::Answer;

/// A certificate and key for the server.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate that clients trust.
    pub der: CertificateDer<'static>,
    /// PEM.
    pub certificate: String,
    /// PEM.
    pub key: String,
}

impl Pair {
    /// A new certificate for the loopback address.
    ///
    /// # Panics
    ///
    /// If the system provides no randomness.
    #[must_use]
    pub fn make() -> Self {
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).expect("make a certificate");
        Self {
            der: made.cert.der().clone(),
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        }
    }
}

/// Puts `tls.crt` and `tls.key` into `directory` as kubelet does: in a new directory, and by replacing a
/// symlink.
///
/// # Panics
///
/// If the operating system refuses.
pub fn mount(directory: &Path, certificate: &str, key: &str) {
    let mut number = 0;
    let mut new = directory.join("..0");
    while new.exists() {
        number += 1;
        new = directory.join(format!("..{number}"));
    }
    std::fs::create_dir(&new).expect("make a directory");
    std::fs::write(new.join("tls.crt"), certificate).expect("write a file");
    std::fs::write(new.join("tls.key"), key).expect("write a file");
    let link = directory.join("..data_tmp");
    symlink(&new, &link).expect("make a link");
    std::fs::rename(&link, directory.join("..data")).expect("replace a link");
    for file in ["tls.crt", "tls.key"] {
        let link = directory.join(file);
        if !link.is_symlink() {
            symlink(directory.join("..data").join(file), link).expect("make a link");
        }
    }
}

/// The authority of client certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's certificate in PEM, for the server.
    pub certificate: String,
}

impl Authority {
    /// A new authority.
    ///
    /// # Panics
    ///
    /// If the system provides no randomness.
    #[must_use]
    pub fn make() -> Self {
        let key = KeyPair::generate().expect("make a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let made = parameters.self_signed(&key).expect("make a certificate");
        Self {
            certificate: made.pem(),
            issuer: Issuer::new(parameters, key),
        }
    }

    /// Issues a client certificate; returns it and its key in PEM.
    ///
    /// # Panics
    ///
    /// If the system provides no randomness.
    #[must_use]
    pub fn sign(&self, common_name: &str, organization: &str) -> (String, String) {
        let end = SystemTime::now() + Duration::from_hours(24);
        self.sign_until(common_name, organization, end)
    }

    /// Like [`sign`](Self::sign), valid until `end`.
    ///
    /// # Panics
    ///
    /// If the system provides no randomness.
    #[must_use]
    pub fn sign_until(
        &self,
        common_name: &str,
        organization: &str,
        end: SystemTime,
    ) -> (String, String) {
        let key = KeyPair::generate().expect("make a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
        parameters
            .distinguished_name
            .push(DnType::CommonName, common_name);
        parameters
            .distinguished_name
            .push(DnType::OrganizationName, organization);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        parameters.not_after = end.into();
        let made = parameters.signed_by(&key, &self.issuer);
        (made.expect("sign a certificate").pem(), key.serialize_pem())
    }
}

/// A TLS client.
#[derive(Clone, Debug)]
pub struct Client {
    /// The server certificate that it trusts.
    pub trusted: CertificateDer<'static>,
    /// Its own certificate and key in PEM, if any.
    pub own: Option<(String, String)>,
    /// The protocols that it offers above TLS (ALPN).
    pub protocols: Vec<&'static str>,
    /// The TLS versions that it offers.
    pub versions: Vec<&'static SupportedProtocolVersion>,
}

impl Client {
    /// A client that trusts this certificate alone.
    #[must_use]
    pub fn new(trusted: &Pair) -> Self {
        Self {
            trusted: trusted.der.clone(),
            own: None,
            protocols: vec!["http/1.1"],
            versions: vec![&version::TLS12, &version::TLS13],
        }
    }

    /// Connects to the server.
    ///
    /// # Errors
    ///
    /// One of the two refuses the handshake.
    ///
    /// # Panics
    ///
    /// If the client's settings are invalid.
    pub async fn connect(&self, address: &str) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusted.clone()).expect("a certificate");
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&self.versions)
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match &self.own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let chain: Result<Vec<_>, _> = chain.collect();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                let chain = chain.expect("a certificate");
                config.with_client_auth_cert(chain, key).expect("a pair")
            }
        };
        let protocols = self.protocols.iter();
        config.alpn_protocols = protocols.map(|it| it.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    /// The response to a GET on a new connection.
    ///
    /// # Errors
    ///
    /// There is no response.
    pub async fn get(&self, address: &str, path: &str, token: Option<&str>) -> io::Result<Answer> {
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        self.get_with(address, path, &token.unwrap_or_default())
            .await
    }

    /// Like [`get`](Self::get), with these header lines, each of which ends in CRLF.
    ///
    /// # Errors
    ///
    /// There is no response.
    pub async fn get_with(&self, address: &str, path: &str, headers: &str) -> io::Result<Answer> {
        let mut stream = self.connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer).await {
            Ok(_) => {}
            // The whole response is there, and its end is known.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => {}
            Err(error) => return Err(error),
        }
        let answer = String::from_utf8_lossy(&answer);
        Answer::read(&answer).ok_or_else(|| io::Error::other("no whole answer"))
    }
}
