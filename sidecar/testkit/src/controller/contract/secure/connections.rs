//! Connections of the HTTP server with TLS: floods, protocol versions, and its certificate.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::super::super::{ELECTION, PATIENCE, Program, Running, Stage, get};
use super::{READER, Secured, reviews};
use crate::http::tls::{Authority, Client, Pair, mount};
use crate::measure::{kept_waiting, kept_waiting_here, stood_still, usual_pause};
use crate::process::within;

/// Generates the tests of connections of the HTTP server with TLS.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_secure_connections {
    ($program:path) => {
        #[tokio::test]
        async fn o_47_o_54_a_flood_of_strangers_holds_nothing_up() {
            $crate::controller::contract::secure::connections::flood(&$program).await;
        }

        #[tokio::test]
        async fn o_49_o_53_certificates_of_clients_and_versions() {
            $crate::controller::contract::secure::connections::certificates(&$program).await;
        }

        #[tokio::test]
        async fn o_51_o_52_the_certificate_is_replaced_without_a_restart() {
            $crate::controller::contract::secure::connections::replaced(&$program).await;
        }
    };
}

/// Resident memory in bytes.
fn resident(running: &Running) -> u64 {
    let path = format!("/proc/{}/status", running.id());
    let status = std::fs::read_to_string(path).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        << 10
}

/// Many clients with unknown tokens, and many that send nothing.
pub async fn flood(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    // Renewed once a second, and not lost while a busy machine stalls.
    let more = [&ELECTION[..], &["--leader-election-retry-period=1s"]].concat();
    let secured = Secured::start(&stage, &more).await;
    secured.running.logs(program.ready).await;
    assert_eq!(secured.scrape().await.status, 200);
    let before = resident(&secured.running);
    stage.api.clear_requests();
    let begun = Instant::now();
    let client = secured.client();
    let flooding = (0..64).map(|who| {
        let (client, address) = (client.clone(), secured.address.clone());
        tokio::spawn(async move {
            let mut statuses = Vec::new();
            for number in 0.. {
                if begun.elapsed() > Duration::from_secs(5) {
                    break;
                }
                let token = format!("wrong-{who}-{number}");
                if let Ok(answer) = client.get(&address, "/metrics", Some(&token)).await {
                    statuses.push(answer.status);
                }
            }
            statuses
        })
    });
    let flooding: Vec<_> = flooding.collect();
    stage.ask(0);
    stage.until_done(0).await;
    let mut statuses = Vec::new();
    for one in flooding {
        statuses.extend(one.await.expect("statuses"));
    }
    let took = begun.elapsed().as_secs() + 1;
    let count = |status: u16| statuses.iter().filter(|it| **it == status).count();
    assert_eq!(
        count(401) + count(429),
        statuses.len(),
        "O-47: {statuses:?}"
    );
    assert!(count(429) > 0 && count(401) > 0, "O-47");
    let asked = reviews(&stage).0 as u64;
    assert!(
        asked <= 20 * (took + 1),
        "O-47: {asked} reviews in {took} s"
    );
    let lease = format!("*/leases/{}", program.lease);
    let mut renewed = vec![begun, Instant::now()];
    for method in ["PUT", "PATCH"] {
        let renewals = stage.api.requests_to(method, &lease);
        renewed.extend(renewals.iter().map(|renewal| renewal.at));
    }
    let pause = usual_pause(&renewed);
    assert!(pause < Duration::from_secs(3), "O-47: {renewed:?}");
    assert_eq!(
        secured.scrape().await.status,
        200,
        "O-47, who is known is served"
    );
    let grown = resident(&secured.running).saturating_sub(before);
    assert!(grown <= 9 << 20, "O-47, O-54: {grown} bytes more");
    let idle = answers_beside_idle_ones(&secured).await;
    let grown = resident(&secured.running).saturating_sub(before);
    assert!(grown <= 9 << 20, "O-54: {grown} bytes more");
    drop(idle);
}

/// Opens many connections, of which half send nothing, and half begin a handshake and stop.
async fn answers_beside_idle_ones(secured: &Secured) -> Vec<TcpStream> {
    let mut idle = Vec::new();
    for number in 0..512 {
        let mut stream = TcpStream::connect(&secured.address)
            .await
            .expect("a connection");
        if number % 2 == 0 {
            let _closed = stream.write_all(b"\x16\x03\x01").await;
        }
        idle.push(stream);
    }
    let start = std::time::Instant::now();
    let _none_yet = stood_still(start, start);
    let waits = || kept_waiting(secured.running.id()) + kept_waiting_here();
    let (asked, before) = (std::time::Instant::now(), waits());
    assert_eq!(secured.get("/readyz", None).await.status, 200, "O-54");
    let took = asked.elapsed();
    // Others may have had the processors meanwhile.
    let waited = waits().saturating_sub(before);
    let excused = waited.max(stood_still(asked, asked + took));
    let took = took.saturating_sub(excused);
    assert!(took < Duration::from_secs(3), "O-54: {took:?}");
    idle
}

/// The ClientHello of a client that supports at most TLS 1.1.
const TLS_1_1: &[u8] = b"\x16\x03\x01\x00\x31\x01\x00\x00\x2d\x03\x02\
    \x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\
    \x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\
    \x00\x00\x06\xc0\x13\xc0\x09\x00\x2f\x01\x00";

/// Users by client certificate, and the protocol versions.
pub async fn certificates(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let (authority, other) = (Authority::make(), Authority::make());
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &authority.certificate).expect("write a file");
    let flag = format!("--client-ca-file={}", file.path().display());
    let secured = Secured::start(&stage, &[&flag, "--tls-min-version=VersionTLS13"]).await;
    for (own, answer) in [
        (Some(authority.sign(READER, "monitoring")), Some(200)),
        (Some(authority.sign("somebody", "else")), Some(403)),
        (Some(other.sign(READER, "monitoring")), None),
        (None, Some(401)),
    ] {
        let shows = own.is_some();
        let client = Client {
            own,
            ..secured.client()
        };
        let got = client.get(&secured.address, "/metrics", None).await;
        let status = got.as_ref().ok().map(|answer| answer.status);
        assert_eq!(status, answer, "O-49, certificate {shows}: {got:?}");
    }
    assert_eq!(reviews(&stage).0, 0, "O-49: no token");
    assert_eq!(
        secured.scrape().await.status,
        200,
        "O-49: a token without a certificate"
    );
    use tokio_rustls::rustls::version::{TLS12, TLS13};
    for (versions, protocols, spoken) in [
        (vec![&TLS13], vec!["h2", "http/1.1"], true),
        (vec![&TLS13], vec![], true),
        (vec![&TLS12], vec!["http/1.1"], false),
        (vec![&TLS13], vec!["h2"], false),
    ] {
        let client = Client {
            versions,
            protocols,
            ..secured.client()
        };
        let connected = client.connect(&secured.address).await;
        assert_eq!(connected.is_ok(), spoken, "O-53: {client:?}");
        if let Ok(stream) = connected
            && !client.protocols.is_empty()
        {
            let spoken = stream.get_ref().1.alpn_protocol();
            assert_eq!(spoken, Some(&b"http/1.1"[..]), "O-53");
        }
    }
    refuses_tls_1_1(&secured).await;
}

async fn refuses_tls_1_1(secured: &Secured) {
    let mut stream = TcpStream::connect(&secured.address)
        .await
        .expect("a connection");
    stream.write_all(TLS_1_1).await.expect("it listens");
    let mut answer = Vec::new();
    let _reset = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(answer.starts_with(&[0x15, 3]), "O-53: {answer:?}");
}

/// The files change, first to a valid pair.
pub async fn replaced(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let secured = Secured::start(&stage, &[]).await;
    let trusts = async |pair: &Pair| Client::new(pair).connect(&secured.address).await.is_ok();
    assert!(trusts(&secured.pair).await);
    // Without the flag, the server speaks 1.2 and not 1.1.
    let old = Client {
        versions: vec![&tokio_rustls::rustls::version::TLS12],
        ..secured.client()
    };
    assert!(old.connect(&secured.address).await.is_ok(), "O-53");
    refuses_tls_1_1(&secured).await;
    let mut old = secured
        .client()
        .connect(&secured.address)
        .await
        .expect("a connection");
    let (second, third) = (Pair::make(), Pair::make());
    mount(secured.directory.path(), &second.certificate, &second.key);
    within(PATIENCE, "the second certificate", async || {
        trusts(&second).await
    })
    .await;
    assert!(!trusts(&secured.pair).await, "O-51");
    // The certificate of one pair, and the key of another.
    mount(secured.directory.path(), &third.certificate, &second.key);
    let said = "Cannot use the new certificate or key, still serving with the previous one";
    within(PATIENCE, "the error", async || {
        trusts(&second).await && secured.running.log().contains(said)
    })
    .await;
    sleep(Duration::from_secs(2)).await;
    assert!(trusts(&second).await && !trusts(&third).await, "O-52");
    assert_eq!(
        secured.running.log().matches(said).count(),
        1,
        "O-52: one line"
    );
    let (_, text) = get(&secured.plain, "/metrics").await;
    assert!(
        text.contains("\ncsi_sidecar_tls_reload_failures_total 1\n"),
        "O-52: {text}"
    );
    assert!(
        text.contains("\ncsi_sidecar_tls_certificate_not_after_seconds "),
        "O-52: {text}"
    );
    mount(secured.directory.path(), &third.certificate, &third.key);
    within(PATIENCE, "the third certificate", async || {
        trusts(&third).await
    })
    .await;
    // Existing connections live on.
    let request = b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    old.write_all(request).await.expect("it lives");
    let mut answer = [0; 12];
    old.read_exact(&mut answer).await.expect("it lives");
    assert!(answer.starts_with(b"HTTP/1.1 "), "O-51");
}
