//! Our verdicts beside client-go's (`x509.Certificate.Verify` of Go 1.26 with the same certificates).
//! `certificates.sh` makes the certificates.

use std::fs;

use p256::ecdsa::signature::hazmat::PrehashSigner as _;
use rustls::SignatureAlgorithm;
use rustls::sign::{Signer, SigningKey};
use sidecar_testkit::FakeApi;
use sidecar_testkit::api::{Served, signing};
use sidecar_testkit::build::{Object as _, node};

use super::*;
use crate::error::Chain;
use crate::in_cluster::certificate;
use crate::kube::connect::{NamedBy, Options, Source, connect};
use crate::kube::rate::Rate;

const PEM: &str = include_str!("certificates.pem");

fn pem(name: &str) -> &'static str {
    let mut entries = PEM.split("= ").filter_map(|entry| entry.split_once('\n'));
    let found = entries.find_map(|(entry, pem)| (entry == name).then_some(pem));
    found.unwrap_or_else(|| panic!("{name}"))
}

fn der(name: &str) -> CertificateDer<'static> {
    blocks(pem(name).as_bytes()).next().unwrap().unwrap()
}

fn authority(bundle: &str) -> Result<Authority, String> {
    Authority::new(Named::Inline(bundle.into()))
}

/// The time of a row.
#[derive(Clone, Copy)]
enum When {
    Now,
    Before,
    After,
}
use When::{After, Before, Now};

/// The verdicts of client-go and of this program.
enum Verdict {
    Accepted,
    /// Refused by both; our message contains this text.
    Refused(&'static str),
    /// Refused only by client-go, as `docs/platforms.md` says.
    Stricter(&'static str),
    /// Accepted only by us.
    Laxer,
}
use Verdict::{Accepted, Laxer, Refused, Stricter};

/// Chain, authority's file, name, moment, verdict.
type Row = (&'static str, &'static str, &'static str, When, Verdict);

const UNKNOWN: &str = "UnknownIssuer; certificate-authority of the kubeconfig";
const OTHER_KEY: &str = "another key";
const OTHER_NAME: &str = "set tls-server-name";
const EXPIRED: &str = "renew the API server's certificate";
const PURPOSE: &str = "serverAuth";
const ALGORITHM: &str = "docs/platforms.md says which it knows";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // One self-signed certificate as server and as authority: `openssl req -x509` makes such.
    ("self", "self", "api.test", Now, Accepted),
    ("self", "self", "127.0.0.1", Now, Accepted),
    ("self", "self", "other.test", Now, Refused(OTHER_NAME)),
    ("self", "self", "127.0.0.2", Now, Refused(OTHER_NAME)),
    ("self", "self", "api.test", After, Refused(EXPIRED)),
    ("self", "self", "api.test", Before, Refused("this node's clock")),
    ("self", "ca", "api.test", Now, Refused(UNKNOWN)),
    ("no-names", "no-names", "api.test", Now, Refused(OTHER_NAME)),
    // Signed again by the same authority: client-go counts it as the same certificate.
    ("self-again", "self", "api.test", Now, Laxer),
    // The same, but it may not sign: it is trusted, and certificates signed by its key are not.
    ("self-leaf", "self-leaf", "api.test", Now, Accepted),
    ("self-leaf", "self-leaf", "other.test", Now, Refused(OTHER_NAME)),
    ("self-leaf", "self-leaf", "api.test", After, Refused(EXPIRED)),
    ("self-leaf-again", "self-leaf", "api.test", Now, Refused(UNKNOWN)),
    ("by-self-leaf", "self-leaf", "api.test", Now, Refused(UNKNOWN)),
    // An authority's file that contains only the server's certificate.
    ("plain", "plain", "api.test", Now, Accepted),
    ("plain", "plain", "other.test", Now, Refused(OTHER_NAME)),
    ("plain", "plain", "api.test", After, Refused(EXPIRED)),
    ("plain", "plain", "api.test", Before, Refused("this node's clock")),
    ("plain", "ca-other plain", "api.test", Now, Accepted),
    ("for-clients", "for-clients", "api.test", Now, Refused(PURPOSE)),
    ("by-middle middle", "by-middle", "api.test", Now, Accepted),
    ("by-hash-sha1", "by-hash-sha1", "api.test", Now, Accepted),
    // Another certificate of the same authority is not trusted because of it.
    ("ca-true", "plain", "api.test", Now, Refused(UNKNOWN)),
    ("ca-true plain", "plain", "api.test", Now, Refused(UNKNOWN)),
    // An authority that signed the certificate.
    ("plain", "ca", "api.test", Now, Accepted),
    ("plain", "ca", "other.test", Now, Refused(OTHER_NAME)),
    ("plain", "ca", "api.test", After, Refused(EXPIRED)),
    ("plain", "ca-other", "api.test", Now, Refused(OTHER_KEY)),
    ("plain", "ca-other ca", "api.test", Now, Accepted),
    ("for-clients", "ca", "api.test", Now, Refused(PURPOSE)),
    ("for-any", "ca", "api.test", Now, Stricter(PURPOSE)),
    // A certificate that is marked as an authority itself.
    ("ca-true", "ca", "api.test", Now, Accepted),
    ("ca-true", "ca", "other.test", Now, Refused(OTHER_NAME)),
    ("ca-true", "ca", "api.test", After, Refused(EXPIRED)),
    ("ca-true", "ca-other", "api.test", Now, Refused(OTHER_KEY)),
    ("ca-true-0", "ca", "api.test", Now, Accepted),
    ("ca-true-by-middle middle", "ca", "api.test", Now, Accepted),
    ("ca-true-by-middle", "ca", "api.test", Now, Refused(UNKNOWN)),
    // Intermediate authorities.
    ("by-middle middle", "ca", "api.test", Now, Accepted),
    ("by-middle", "ca", "api.test", Now, Refused(UNKNOWN)),
    ("by-middle", "middle", "api.test", Now, Accepted),
    ("by-middle by-middle", "ca", "api.test", Now, Refused(UNKNOWN)),
    // Key types and hashes.
    ("sha512", "ca", "api.test", Now, Accepted),
    ("by-hash-sha1", "ca", "api.test", Now, Refused(ALGORITHM)),
    ("p521-key", "ca", "api.test", Now, Accepted),
    ("by-secp384r1-sha256", "ca-secp384r1", "api.test", Now, Accepted),
    ("by-secp384r1-sha384", "ca-secp384r1", "api.test", Now, Accepted),
    ("by-secp384r1-sha512", "ca-secp384r1", "api.test", Now, Accepted),
    ("by-secp521r1-sha256", "ca-secp521r1", "api.test", Now, Accepted),
    ("by-secp521r1-sha384", "ca-secp521r1", "api.test", Now, Accepted),
    ("by-secp521r1-sha512", "ca-secp521r1", "api.test", Now, Accepted),
    ("by-rsa-sha512", "ca-rsa2048", "api.test", Now, Accepted),
    ("by-rsa-pss", "ca-rsa2048", "api.test", Now, Accepted),
    ("by-ed25519", "ca-ed25519", "api.test", Now, Accepted),
    ("by-rsa1024", "ca-rsa1024", "api.test", Now, Stricter("less than 2048 bits")),
];

#[test]
fn row_94_what_the_authoritys_file_names_is_trusted_and_nothing_else() {
    for (chain, bundle, name, when, verdict) in ROWS {
        let row = format!("{chain} for {name}, trusting {bundle}");
        let chain: Vec<_> = chain.split(' ').map(der).collect();
        let bundle: String = bundle.split(' ').map(pem).collect();
        // Years have 365.25 days; the certificates are valid from 2026 to 2126.
        let years = Duration::from_secs(31_557_600);
        let now = match when {
            Now => UnixTime::now(),
            Before => UnixTime::since_unix_epoch(years * 30),
            After => UnixTime::since_unix_epoch(years * 200),
        };
        let (leaf, between) = chain.split_first().unwrap();
        let name = ServerName::try_from(*name).unwrap();
        let authority = authority(&bundle).unwrap();
        let result = authority.verify_server_cert(leaf, between, &name, &[], now);
        let result = result.map_err(|error| certificate::problem(&error).unwrap());
        match (verdict, result) {
            (Accepted | Laxer, Ok(_)) => {}
            (Refused(words) | Stricter(words), Err(problem)) => {
                assert!(problem.contains(words), "{row}: {problem}");
                assert!(!problem.contains('\n') && problem.len() < 600, "{problem}");
            }
            (_, result) => panic!("{row}: {result:?}"),
        }
    }
}

#[test]
fn row_94_no_byte_of_a_certificate_can_be_changed() {
    let now = UnixTime::now();
    let name = ServerName::try_from("api.test").unwrap();
    for (leaf, bundle) in [
        ("ca-true", "ca"),
        ("plain", "plain"),
        ("by-secp521r1-sha256", "ca-secp521r1"),
    ] {
        let authority = authority(pem(bundle)).unwrap();
        let leaf = der(leaf);
        let verify =
            |leaf: &CertificateDer<'_>| authority.verify_server_cert(leaf, &[], &name, &[], now);
        assert!(verify(&leaf).is_ok());
        let changed = (0..leaf.len()).filter(|&at| {
            let mut other = leaf.to_vec();
            other[at] ^= 1;
            verify(&other.into()).is_ok()
        });
        assert_eq!(changed.collect::<Vec<_>>(), [0_usize; 0]);
        // A server that presents the copy made for webpki is not accepted either.
        let cleared = Server::new(&leaf).read;
        assert_eq!(verify(&cleared.as_slice().into()).is_ok(), cleared == *leaf);
    }
}

#[test]
fn row_95_what_cannot_be_read_in_a_bundle_is_passed_over_and_told_once() {
    let log = crate::log::capture();
    let cut = pem("ca-other").replacen('M', "!", 1);
    let empty = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
    let open = "-----BEGIN CERTIFICATE-----\nMIIB\n";
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let bundle = ["the company's\n", &cut, empty, key, pem("ca"), open].concat();
    for _ in 0..2 {
        let authority = authority(&bundle).unwrap();
        assert_eq!(authority.current(READ_EVERY).certificates, [der("ca")]);
    }
    let lines = log.lines();
    let told: Vec<_> = { lines.iter() }
        .filter(|line| line.contains("Skipped certificates"))
        .collect();
    assert_eq!(told.len(), 1, "{lines:?}");
    assert!(
        told[0].starts_with('W') && told[0].contains("[1, 2, 4]"),
        "{told:?}"
    );
    for nothing in ["", "hello", empty, &cut, key] {
        let problem = authority(nothing).unwrap_err();
        assert!(
            problem.contains("no certificate that can be read"),
            "{problem}"
        );
    }
}

/// A server that presents `certificate` and signs with `key`.
async fn serving(
    certificate: &rcgen::Certificate,
    key: &rcgen::KeyPair,
    authority: &str,
) -> (FakeApi, Served) {
    let api = FakeApi::new();
    api.insert(node("n1").build());
    let key = signing(key.serialize_der());
    let served = api.serve_as(certificate.der(), key, authority).await;
    (api, served)
}

/// The key on P-521, with which ring cannot sign.
#[derive(Clone)]
struct OnP521(p521::ecdsa::SigningKey);

impl OnP521 {
    fn new() -> Self {
        let base64: String = { pem("p521-key.key").lines() }
            .filter(|line| !line.starts_with('-'))
            .collect();
        let sec1 = STANDARD.decode(base64).unwrap();
        // After three headers and a version.
        Self(p521::ecdsa::SigningKey::from_slice(&sec1[8..74]).unwrap())
    }
}

impl fmt::Debug for OnP521 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnP521")
    }
}

impl SigningKey for OnP521 {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_known = offered.contains(&self.scheme());
        is_known.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for OnP521 {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        use sha2::Digest as _;
        let hash = sha2::Sha512::digest(message);
        let signature: p521::ecdsa::Signature = self.0.sign_prehash(&hash).unwrap();
        Ok(signature.to_der().as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP521_SHA512
    }
}

#[tokio::test]
async fn row_94_a_server_whose_key_is_on_p_521_is_spoken_with() {
    for authority in ["ca", "p521-key"] {
        let api = FakeApi::new();
        api.insert(node("n1").build());
        let key = Arc::new(OnP521::new());
        let served = api.serve_as(&der("p521-key"), key, pem(authority)).await;
        assert_eq!(asked(&served).await, Ok(()));
    }
}

async fn asked(served: &Served) -> Result<(), String> {
    let source = Source::File {
        path: served.kubeconfig(),
        named_by: NamedBy::Flag,
        server: None,
    };
    let options = Options::new(source, Rate::Unlimited, "p", "v1");
    let client = connect(&options, None)
        .await
        .map_err(|error| error.to_string())?;
    let nodes: ::kube::Api<k8s_openapi::api::core::v1::Node> = ::kube::Api::all(client);
    let answer = nodes.get("n1").await;
    answer
        .map(|_| ())
        .map_err(|error| Chain(&error).to_string())
}

#[tokio::test]
async fn a_client_key_that_cannot_sign_is_refused_with_those_that_can() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let api = FakeApi::new();
    let served = api.serve().await;
    let text = fs::read_to_string(served.kubeconfig()).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["users"][0]["user"] = serde_json::json!({
        "client-certificate": file("tls.crt", pem("p521-key")),
        "client-key": file("tls.key", pem("p521-key.key")),
    });
    fs::write(served.kubeconfig(), config.to_string()).unwrap();
    let problem = asked(&served).await.unwrap_err();
    assert!(problem.contains("ECDSA on P-256 or P-384"), "{problem}");
}

fn made(is_ca: rcgen::IsCa) -> (rcgen::Certificate, rcgen::KeyPair) {
    let names = vec!["127.0.0.1".to_owned()];
    let mut parameters = rcgen::CertificateParams::new(names).unwrap();
    parameters.is_ca = is_ca;
    let key = rcgen::KeyPair::generate().unwrap();
    (parameters.self_signed(&key).unwrap(), key)
}

#[tokio::test]
async fn row_94_a_server_with_the_certificate_that_is_named_is_spoken_with_if_it_has_the_key() {
    let constraints = rcgen::BasicConstraints::Unconstrained;
    for is_ca in [rcgen::IsCa::Ca(constraints), rcgen::IsCa::ExplicitNoCa] {
        let (certificate, key) = made(is_ca);
        let (_api, served) = serving(&certificate, &key, &certificate.pem()).await;
        assert_eq!(asked(&served).await, Ok(()));
        let (_api, served) = serving(&certificate, &key, pem("ca")).await;
        assert!(asked(&served).await.unwrap_err().contains("UnknownIssuer"));
        // A man in the middle who has a copy of the certificate.
        let (_, other) = made(rcgen::IsCa::NoCa);
        let (api, served) = serving(&certificate, &other, &certificate.pem()).await;
        let error = asked(&served).await.unwrap_err();
        assert!(error.contains("BadSignature"), "{error}");
        assert!(api.requests().is_empty());
    }
}

#[tokio::test]
async fn an_authority_that_is_replaced_counts_within_a_minute_and_sooner_where_it_is_wrong() {
    let (certificate, key) = made(rcgen::IsCa::NoCa);
    let (_api, served) = serving(&certificate, &key, pem("ca")).await;
    let authority = Authority::new(Named::File(served.ca_file())).unwrap();
    let verify = || {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        authority.verify_server_cert(certificate.der(), &[], &name, &[], UnixTime::now())
    };
    tokio::time::pause();
    assert!(verify().is_err());
    fs::write(served.ca_file(), certificate.pem()).unwrap();
    assert!(verify().is_err(), "not read for each connection");
    tokio::time::advance(READ_AFTER_REFUSAL).await;
    assert!(verify().is_ok());
    fs::write(served.ca_file(), pem("ca")).unwrap();
    tokio::time::advance(READ_AFTER_REFUSAL).await;
    assert!(verify().is_ok(), "not read while it is right");
    tokio::time::advance(READ_EVERY).await;
    assert!(verify().is_err());
    fs::write(served.ca_file(), certificate.pem()).unwrap();
    tokio::time::advance(READ_AFTER_REFUSAL).await;
    assert!(verify().is_ok());
    for gone in ["", "hello"] {
        fs::write(served.ca_file(), gone).unwrap();
        tokio::time::advance(READ_EVERY).await;
        assert!(verify().is_ok(), "what it said last counts");
    }
}

#[test]
fn the_certificates_fields_are_found_where_they_are() {
    for (name, is_authority) in [("self", true), ("ca-true-0", true), ("plain", false)] {
        let der = der(name);
        let server = Server::new(&der);
        let differ: Vec<_> = { der.iter().zip(&server.read) }
            .enumerate()
            .filter_map(|(at, (sent, read))| (sent != read).then_some(at))
            .collect();
        assert_eq!(differ.is_empty(), !is_authority, "{name}");
        assert_eq!(differ.first().copied(), authority_mark(&der), "{name}");
        assert_eq!(der[server.signed_from], 0x30, "{name}");
    }
    assert_eq!(authority_mark(&[0x06, 0x03, 0x55, 0x1d, 0x13]), None);
}
