//! Explains TLS failures of the API server that last until somebody fixes the certificates, and names
//! the fix.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// The problem with the certificates, on one line, if it is the cause of `error`.
pub(crate) fn problem(error: &(dyn StdError + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<Error>() {
        return explain(error);
    }
    // The error inside an I/O error is not its `source`.
    let inner = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    if let Some(inner) = inner {
        return problem(inner);
    }
    error.source().and_then(problem)
}

fn explain(error: &Error) -> Option<String> {
    if let Error::InvalidCertificate(error) = error {
        return Some(explain_certificate(error));
    }
    let nothing_in_common = matches!(
        error,
        Error::AlertReceived(AlertDescription::HandshakeFailure) | Error::PeerIncompatible(_)
    );
    nothing_in_common.then(|| {
        format!(
            "the API server and this program cannot agree on TLS parameters: {error}; \
             docs/platforms.md lists the keys and certificates that can be used"
        )
    })
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's errors may become more; its own text serves for those without advice"
)]
fn explain_certificate(error: &CertificateError) -> String {
    use CertificateError as E;
    let advice = match error {
        E::UnknownIssuer => {
            "certificate-authority of the kubeconfig, in a pod ca.crt of its service account, must name the \
             authority that signed the API server's certificate, or that certificate"
        }
        E::BadSignature => {
            "the certificate authority that is named has the right name and another key, or its RSA key has less \
             than 2048 bits"
        }
        // The library's message lists all algorithms that it knows, byte for byte.
        E::UnsupportedSignatureAlgorithmContext { .. }
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            return "the API server's certificate, or that of an authority above it, is signed with an algorithm \
                    that this program does not know; docs/platforms.md says which it knows, and how to see which \
                    one it is"
                .to_owned();
        }
        E::Expired | E::ExpiredContext { .. } => "renew the API server's certificate",
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "compare this node's clock with the API server's"
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            "make the certificate for that name or address too, or set tls-server-name in the kubeconfig"
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            "make a certificate whose extended key usage is serverAuth, or that has none"
        }
        _ => "docs/platforms.md says which certificates are accepted",
    };
    format!("the API server's certificate is not accepted: {error}; {advice}")
}
