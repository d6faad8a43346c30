//! Verifies the API server's certificate against the certificate authority's file.
//!
//! Like client-go, and more permissive than webpki by itself: a certificate that is in the file is trusted as
//! it is, whoever signed it, and a certificate marked as an authority may serve, too. `openssl req -x509`
//! makes such certificates. webpki still checks dates, purpose and names in each case, and that the server has
//! the key.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, ServerName,
    SignatureVerificationAlgorithm, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::time::Instant;

/// Interval after which a handshake re-reads the file: kubelet replaces a pod's within about a minute.
const READ_EVERY: Duration = Duration::from_secs(60);

/// The same interval once a server was refused: somebody may have fixed the file by now.
const READ_AFTER_REFUSAL: Duration = Duration::from_secs(5);

/// The certificate authority of a kubeconfig or a pod's service account.
#[derive(Clone)]
pub(crate) enum Named {
    /// A file, which may be replaced.
    File(PathBuf),
    /// The decoded `certificate-authority-data`.
    Inline(Vec<u8>),
}

impl Named {
    /// Decodes `certificate-authority-data`.
    ///
    /// # Errors
    /// The data is not base64.
    #[cfg_attr(
        not(feature = "kube"),
        expect(dead_code, reason = "kubeconfigs have it, and pods a file")
    )]
    pub(crate) fn decode(data: &str) -> Result<Self, String> {
        let data: String = data.split_ascii_whitespace().collect();
        let pem = STANDARD.decode(data).map_err(|error| {
            format!("certificate authority: certificate-authority-data is no base64: {error}")
        })?;
        Ok(Self::Inline(pem))
    }

    /// The current PEM text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::File(path) => {
                let path_and =
                    |error| format!("certificate authority: {}: {error}", path.display());
                fs::read(path).map_err(path_and)
            }
            Self::Inline(pem) => Ok(pem.clone()),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Inline(_) => f.write_str("certificate-authority-data"),
        }
    }
}

/// Verifies that a server is the API server.
pub(crate) struct Authority {
    named: Named,
    algorithms: WebPkiSupportedAlgorithms,
    held: Mutex<(Arc<Trusted>, Instant)>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({})", self.named)
    }
}

impl Authority {
    /// Reads the named certificates.
    ///
    /// # Errors
    /// There is no certificate.
    pub(crate) fn new(named: Named) -> Result<Self, String> {
        let trusted = Arc::new(Trusted::read(&named)?);
        Ok(Self {
            named,
            algorithms: algorithms(),
            held: Mutex::new((trusted, Instant::now())),
        })
    }

    /// The certificates trusted now. While a file cannot be read, its previous contents count.
    fn current(&self, every: Duration) -> Arc<Trusted> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(self.named, Named::File(_)) && held.1.elapsed() >= every {
            held.1 = Instant::now();
            match Trusted::read(&self.named) {
                Ok(fresh) => held.0 = Arc::new(fresh),
                Err(problem) => {
                    tracing::warn!(problem, "Keeping the last certificate authority");
                }
            }
        }
        held.0.clone()
    }
}

impl ServerCertVerifier for Authority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let known = self.algorithms.all;
        let trusted = self.current(READ_EVERY);
        let verify = |by: &Trusted| by.verify(end_entity, intermediates, now, known);
        verify(&trusted).or_else(|refused| {
            let fresh = self.current(READ_AFTER_REFUSAL);
            if Arc::ptr_eq(&fresh, &trusted) {
                return Err(refused);
            }
            verify(&fresh)
        })?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The algorithms that verify signatures of certificates and handshakes.
#[cfg(not(fips))]
use super::curves::algorithms;
#[cfg(fips)]
fn algorithms() -> WebPkiSupportedAlgorithms {
    super::cryptography().signature_verification_algorithms
}

/// The certificates of a file, both as authorities and as server certificates.
struct Trusted {
    authorities: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

impl Trusted {
    /// Skips unreadable certificates, as client-go does, but logs them.
    fn read(named: &Named) -> Result<Self, String> {
        let pem = named.read()?;
        let mut trusted = Self {
            authorities: RootCertStore::empty(),
            certificates: Vec::new(),
        };
        let mut unreadable = Vec::new();
        for (number, der) in (1..).zip(blocks(&pem)) {
            let Some(der) = der.filter(|der| trusted.read_one(der)) else {
                unreadable.push(number);
                continue;
            };
            trusted.certificates.push(der);
        }
        if trusted.certificates.is_empty() {
            return Err(format!(
                "certificate authority: {named}: there is no certificate that can be read; \
                 the certificate authority's belongs there, in PEM"
            ));
        }
        if !unreadable.is_empty() && is_news(format!("{named} {unreadable:?}")) {
            tracing::warn!(
                file = %named,
                certificates = ?unreadable,
                "Skipped certificates of the certificate authority that cannot be parsed"
            );
        }
        Ok(trusted)
    }

    /// Whether `der` is a certificate. Like client-go, adds it as an authority only if it is marked as one, or
    /// is of version 1, which has no such mark.
    fn read_one(&mut self, der: &CertificateDer<'_>) -> bool {
        if ParsedCertificate::try_from(der).is_ok() && authority_mark(der).is_none() {
            return true;
        }
        self.authorities.add(der.clone().into_owned()).is_ok()
    }

    /// Verifies everything but the server's name.
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        known: &[&'static dyn SignatureVerificationAlgorithm],
    ) -> Result<(), Error> {
        let server = Server::new(end_entity);
        let signatures: Vec<_> = { known.iter() }
            .map(|&algorithm| Signatures {
                algorithm,
                server: &server,
            })
            .collect();
        let signatures: Vec<_> = { signatures.iter() }
            .map(|algorithm| algorithm as &dyn SignatureVerificationAlgorithm)
            .collect();
        let read = CertificateDer::from(server.read.as_slice());
        let read = ParsedCertificate::try_from(&read)?;
        if !self.certificates.contains(end_entity) {
            return verify_server_cert_signed_by_trust_anchor(
                &read,
                &self.authorities,
                intermediates,
                now,
                &signatures,
            );
        }
        // The certificate itself is trusted. webpki checks dates and purpose first, so with an empty set of
        // authorities an unknown issuer is the only error left.
        let nobody = RootCertStore::empty();
        match verify_server_cert_signed_by_trust_anchor(&read, &nobody, &[], now, &signatures) {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => Ok(()),
            result => result,
        }
    }
}

/// Whether this text differs from the last one: a process reads the same bundle for several connections, again
/// and again.
fn is_news(text: String) -> bool {
    static SAID: Mutex<String> = Mutex::new(String::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let is_news = *said != text;
    *said = text;
    is_news
}

/// A server's certificate. webpki accepts no server certificate that is marked as an authority, so it gets a
/// copy whose mark is cleared and that is otherwise the same.
#[derive(Debug)]
struct Server<'a> {
    /// The certificate as sent by the server.
    sent: &'a [u8],
    /// The copy that webpki reads.
    read: Vec<u8>,
    /// Offset of the signed part.
    signed_from: usize,
}

impl<'a> Server<'a> {
    fn new(sent: &'a [u8]) -> Self {
        let mut read = sent.to_vec();
        if let Some(mark) = authority_mark(sent).and_then(|at| read.get_mut(at)) {
            *mark = 0;
        }
        // After tag and length of the certificate's outer sequence.
        let signed_from = match sent.get(1) {
            Some(&length) if length > 0x80 => 2 + usize::from(length & 0x7f),
            Some(_) | None => 2,
        };
        Self {
            sent,
            read,
            signed_from,
        }
    }
}

/// Offset of `cA` in the first `basicConstraints` extension that sets it. Other bytes that look alike are
/// signed by the same authority, and keep a mark that no verifier accepts.
fn authority_mark(der: &[u8]) -> Option<usize> {
    const BASIC_CONSTRAINTS: [u8; 5] = [0x06, 0x03, 0x55, 0x1d, 0x13];
    const TRUE: [u8; 3] = [0x01, 0x01, 0xff];
    let begin =
        { der.windows(BASIC_CONSTRAINTS.len()) }.position(|window| window == BASIC_CONSTRAINTS)?;
    let rest = der.get(begin + BASIC_CONSTRAINTS.len()..)?;
    let value = rest.strip_prefix(&TRUE).unwrap_or(rest);
    // An octet string with a sequence, both of short length.
    let [0x04, _, 0x30, _, fields @ ..] = value else {
        return None;
    };
    let last = fields.starts_with(&TRUE).then_some(TRUE.len() - 1)?;
    Some(der.len() - fields.len() + last)
}

/// An algorithm that verifies a certificate's signature over the bytes that were signed.
#[derive(Debug)]
struct Signatures<'a> {
    algorithm: &'static dyn SignatureVerificationAlgorithm,
    server: &'a Server<'a>,
}

impl SignatureVerificationAlgorithm for Signatures<'_> {
    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.signature_alg_id()
    }

    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let Server {
            sent,
            read,
            signed_from,
        } = self.server;
        let part = *signed_from..signed_from.saturating_add(message.len());
        let is_server = read.get(part.clone()) == Some(message);
        let signed = sent.get(part).filter(|_| is_server).unwrap_or(message);
        self.algorithm
            .verify_signature(public_key, signed, signature)
    }

    fn fips(&self) -> bool {
        self.algorithm.fips()
    }
}

/// The certificates of a bundle, `None` for one that is not base64. The text between them is comment.
fn blocks(pem: &[u8]) -> impl Iterator<Item = Option<CertificateDer<'static>>> {
    let text = String::from_utf8_lossy(pem).into_owned();
    let parts: Vec<_> = { text.split("-----BEGIN CERTIFICATE-----").skip(1) }
        .map(|part| {
            let (body, _) = part.split_once("-----END CERTIFICATE-----")?;
            let body: String = body.split_ascii_whitespace().collect();
            STANDARD.decode(body).ok().map(CertificateDer::from)
        })
        .collect();
    parts.into_iter()
}

#[cfg(test)]
#[cfg(feature = "kube")]
mod tests;
