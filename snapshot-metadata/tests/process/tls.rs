//! TLS: rows CB-49 to CB-51.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rustls::ProtocolVersion;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stage::{Pair, Running, Stage, config, request, secured, until};

/// Replaces the files as kubelet does: a new directory, and a symbolic link that is swapped.
fn swap(directory: &Path, name: &str, pair: (&str, &str)) {
    let new = directory.join(name);
    std::fs::create_dir(&new).unwrap();
    std::fs::write(new.join("tls.crt"), pair.0).unwrap();
    std::fs::write(new.join("tls.key"), pair.1).unwrap();
    let link = directory.join("..data_tmp");
    symlink(&new, &link).unwrap();
    std::fs::rename(&link, directory.join("..data")).unwrap();
}

/// Whether a client that trusts this certificate alone can connect.
async fn serves(running: &Running, pair: &Pair) -> bool {
    secured(&running.address, config(&pair.der, &[b"h2"]))
        .await
        .is_ok()
}

#[tokio::test]
async fn cb_49_cb_50_certificates_are_replaced_without_a_restart() {
    let stage = Stage::new().await;
    let mount = tempfile::tempdir().unwrap();
    let directory = mount.path();
    let pairs = ["first", "second", "third"].map(Pair::new);
    let files = |pair: &Pair| (pair.certificate.clone(), pair.key.clone());
    let put = |name: &str, (certificate, key): (String, String)| {
        swap(directory, name, (&certificate, &key));
    };
    put("..1", files(&pairs[0]));
    for file in ["tls.crt", "tls.key"] {
        symlink(directory.join("..data").join(file), directory.join(file)).unwrap();
    }
    let flag = |flag: &str, file: &str| format!("--{flag}={}", directory.join(file).display());
    let (certificate, key) = (flag("tls-cert", "tls.crt"), flag("tls-key", "tls.key"));
    let mut running = stage.started(&[&certificate, &key]).await;
    assert!(serves(&running, &pairs[0]).await);
    assert!(!serves(&running, &pairs[1]).await);
    put("..2", files(&pairs[1]));
    until("the second certificate", async || {
        serves(&running, &pairs[1]).await
    })
    .await;
    // The certificate of one pair with the key of another.
    put("..3", (pairs[2].certificate.clone(), pairs[0].key.clone()));
    running
        .process
        .says("new certificate or key, still serving with the previous one")
        .await;
    assert!(serves(&running, &pairs[1]).await);
    put("..4", files(&pairs[2]));
    until("the third certificate", async || {
        serves(&running, &pairs[2]).await
    })
    .await;
    running.process.must_run();
}

#[tokio::test]
async fn cb_49_connections_stay_when_the_certificate_changes() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    let mut client = running.client().await;
    assert!(client.get_metadata_allocated(request()).await.is_ok());
    let next = Pair::new("second");
    next.write(stage.directory.path());
    until("the second certificate", async || {
        serves(&running, &next).await
    })
    .await;
    assert!(client.get_metadata_allocated(request()).await.is_ok());
}

/// The ClientHello of a client that knows TLS 1.1 at most.
const TLS_1_1: &[u8] = b"\x16\x03\x01\x00\x31\x01\x00\x00\x2d\x03\x02\
    \x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\
    \x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\
    \x00\x00\x06\xc0\x13\xc0\x09\x00\x2f\x01\x00";

#[tokio::test]
async fn cb_51_versions_and_protocols() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    // A TLS 1.1 client gets an alert that names the reason.
    let mut stream = TcpStream::connect(&running.address).await.unwrap();
    stream.write_all(TLS_1_1).await.unwrap();
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer).await;
    assert!(answer.starts_with(&[0x15, 3]), "{answer:?}");
    for (version, number) in [
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(stage.pair.der.clone()).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let builder = rustls::ClientConfig::builder_with_provider(provider.into());
        let builder = builder.with_protocol_versions(&[version]).unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        let stream = secured(&running.address, config).await.unwrap();
        let (_, session) = stream.get_ref();
        assert_eq!(session.protocol_version(), Some(number));
        assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));
    }
    // Without HTTP/2 the server answers no request.
    let mut stream = secured(&running.address, config(&stage.pair.der, &[]))
        .await
        .unwrap();
    let _closed = stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer));
    let _reset = read.await.expect("it is closed");
    assert!(answer.is_empty(), "{answer:?}");
}

#[tokio::test]
async fn only_what_the_flags_allow_is_spoken() {
    let stage = Stage::new().await;
    let running = stage
        .started(&[
            "--tls-min-version=VersionTLS13",
            "--tls-curve-preferences=CurveP384",
        ])
        .await;
    let stream = secured(&running.address, config(&stage.pair.der, &[b"h2"]))
        .await
        .unwrap();
    let (_, session) = stream.get_ref();
    assert_eq!(session.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    let group = session.negotiated_key_exchange_group().unwrap().name();
    assert_eq!(group, rustls::NamedGroup::secp384r1);
}

#[tokio::test]
async fn a_certificate_for_another_address_is_warned_of() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    assert!(running.allocated(request()).await.1.is_ok());
    stage
        .api
        .edit("snapshotmetadataservices", crate::stage::DRIVER, |object| {
            object["spec"]["address"] = "elsewhere.svc:6443".into();
        });
    let text = "The server's certificate is not for the address";
    assert!(!running.process.log().contains(text));
    until("the warning", async || {
        assert!(running.allocated(request()).await.1.is_ok());
        running.process.log().contains(text)
    })
    .await;
}
