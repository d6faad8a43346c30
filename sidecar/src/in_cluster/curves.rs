//! Signatures that client-go verifies and ring does not: with keys on P-521, and over SHA-512 with keys on
//! P-256 and P-384. Companies' authorities issue both.
//!
//! Only others' signatures are verified here; no secret is involved.

use std::sync::LazyLock;

use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use rustls::SignatureScheme;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

type Algorithm = &'static dyn SignatureVerificationAlgorithm;

/// ring's algorithms together with those of this module.
pub(crate) fn algorithms() -> WebPkiSupportedAlgorithms {
    *ALL
}

static ALL: LazyLock<WebPkiSupportedAlgorithms> = LazyLock::new(|| {
    let ring = super::cryptography().signature_verification_algorithms;
    let here = HERE.iter().map(|algorithm| algorithm as Algorithm);
    // TLS 1.2 names no curve; TLS 1.3 does, and uses the first algorithm.
    let by = |scheme| -> Vec<Algorithm> {
        { HERE.iter().filter(|algorithm| algorithm.scheme == scheme) }
            .map(|algorithm| algorithm as Algorithm)
            .collect()
    };
    let mut mapping: Vec<_> = { ring.mapping.iter() }
        .map(|&(scheme, known)| (scheme, leak([known.to_vec(), by(scheme)].concat())))
        .collect();
    let scheme = SignatureScheme::ECDSA_NISTP521_SHA512;
    // After ring's ECDSA algorithms, which servers should prefer.
    mapping.insert(2, (scheme, leak(by(scheme))));
    WebPkiSupportedAlgorithms {
        all: leak(ring.all.iter().copied().chain(here).collect()),
        mapping: leak(mapping),
    }
});

/// Leaks a list that lives as long as the process; called once.
fn leak<T>(list: Vec<T>) -> &'static [T] {
    Vec::leak(list)
}

/// ECDSA with one curve and one hash.
#[derive(Debug)]
struct Ecdsa {
    key: AlgorithmIdentifier,
    signature: AlgorithmIdentifier,
    scheme: SignatureScheme,
    hash: fn(&[u8]) -> Vec<u8>,
    check: fn(key: &[u8], hash: &[u8], signature: &[u8]) -> bool,
}

/// P-521 first: TLS 1.3 means this one.
static HERE: [Ecdsa; 5] = [
    Ecdsa {
        key: alg_id::ECDSA_P521,
        signature: alg_id::ECDSA_SHA512,
        scheme: SignatureScheme::ECDSA_NISTP521_SHA512,
        hash: |message| Sha512::digest(message).to_vec(),
        check: p521,
    },
    Ecdsa {
        key: alg_id::ECDSA_P521,
        signature: alg_id::ECDSA_SHA384,
        scheme: SignatureScheme::ECDSA_NISTP384_SHA384,
        hash: |message| Sha384::digest(message).to_vec(),
        check: p521,
    },
    Ecdsa {
        key: alg_id::ECDSA_P521,
        signature: alg_id::ECDSA_SHA256,
        scheme: SignatureScheme::ECDSA_NISTP256_SHA256,
        hash: |message| Sha256::digest(message).to_vec(),
        check: p521,
    },
    Ecdsa {
        key: alg_id::ECDSA_P384,
        signature: alg_id::ECDSA_SHA512,
        scheme: SignatureScheme::ECDSA_NISTP521_SHA512,
        hash: |message| Sha512::digest(message).to_vec(),
        check: p384,
    },
    Ecdsa {
        key: alg_id::ECDSA_P256,
        signature: alg_id::ECDSA_SHA512,
        scheme: SignatureScheme::ECDSA_NISTP521_SHA512,
        hash: |message| Sha512::digest(message).to_vec(),
        check: p256,
    },
];

impl SignatureVerificationAlgorithm for Ecdsa {
    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.key
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }

    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let hash = (self.hash)(message);
        let is_valid = (self.check)(public_key, &hash, signature);
        is_valid.then_some(()).ok_or(InvalidSignature)
    }
}

fn p256(key: &[u8], hash: &[u8], signature: &[u8]) -> bool {
    use p256::ecdsa::{DerSignature, VerifyingKey};
    let (key, signature) = (
        VerifyingKey::from_sec1_bytes(key),
        DerSignature::from_bytes(signature),
    );
    matches!((key, signature), (Ok(key), Ok(signature)) if key.verify_prehash(hash, &signature).is_ok())
}

fn p384(key: &[u8], hash: &[u8], signature: &[u8]) -> bool {
    use p384::ecdsa::{DerSignature, VerifyingKey};
    let (key, signature) = (
        VerifyingKey::from_sec1_bytes(key),
        DerSignature::from_bytes(signature),
    );
    matches!((key, signature), (Ok(key), Ok(signature)) if key.verify_prehash(hash, &signature).is_ok())
}

fn p521(key: &[u8], hash: &[u8], signature: &[u8]) -> bool {
    use p521::ecdsa::{Signature, VerifyingKey};
    // The hash counts as a number; the library wants at least half the curve's length, which SHA-256 does
    // not have.
    let mut number = [0; 66];
    let Some(low) = number
        .len()
        .checked_sub(hash.len())
        .and_then(|at| number.get_mut(at..))
    else {
        return false;
    };
    low.copy_from_slice(hash);
    let (key, signature) = (
        VerifyingKey::from_sec1_bytes(key),
        Signature::from_der(signature),
    );
    matches!((key, signature), (Ok(key), Ok(signature)) if key.verify_prehash(&number, &signature).is_ok())
}
