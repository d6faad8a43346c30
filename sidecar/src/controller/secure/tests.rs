use std::time::{Duration, Instant, SystemTime};

use sidecar_testkit::FakeApi;
use sidecar_testkit::http::tls::{self, Authority, Pair};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::*;
use crate::clock::testing::in_small_steps;
use crate::flags::standard::{HTTP_ENDPOINT, LEADER_ELECTION, METRICS, SECURE_HTTP};
use crate::flags::{Dialect, Spec, parse, retired};
use crate::http::{Routes, Server};
use crate::secure::handshakes;

const SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[HTTP_ENDPOINT, LEADER_ELECTION, METRICS, SECURE_HTTP],
    retired: &retired::NONE,
};

static ALL: Spec = SPEC;

fn read(arguments: &[&str]) -> Result<Option<Secure>, String> {
    let line = std::iter::once("csi-test").chain(arguments.iter().copied());
    Secure::from_flags(&parse(&ALL, line.map(str::to_owned)).unwrap())
}

const ENDPOINT_FLAG: &str = "--secure-http-endpoint=:8443";
const BOTH: [&str; 3] = [
    ENDPOINT_FLAG,
    "--tls-cert-file=/tls/tls.crt",
    "--tls-private-key-file=/tls/tls.key",
];

#[test]
fn o_40_without_the_flags_there_is_nothing() {
    for arguments in [
        &[][..],
        &["--http-endpoint=:8080"],
        &[
            "--secure-http-endpoint=",
            "--tls-cert-file=",
            "--client-ca-file=",
        ],
    ] {
        assert_eq!(read(arguments), Ok(None), "{arguments:?}");
    }
    static BARE: Spec = Spec {
        tables: &[HTTP_ENDPOINT],
        ..SPEC
    };
    let values = parse(&BARE, ["csi-test".to_owned()]).unwrap();
    assert_eq!(
        Secure::from_flags(&values),
        Ok(None),
        "a program that has none"
    );
}

#[test]
fn o_41_what_contradicts_itself_names_its_flag() {
    for (arguments, named) in [
        (&[ENDPOINT_FLAG][..], "--tls-cert-file must name"),
        (&[BOTH[0], BOTH[1]], "--tls-private-key-file must name"),
        (&[BOTH[0], BOTH[2]], "--tls-cert-file must name"),
        (
            &[BOTH[1]],
            "--tls-cert-file=/tls/tls.crt: has no effect without",
        ),
        (
            &["--client-ca-file=/ca"],
            "--client-ca-file=/ca: has no effect without",
        ),
        (
            &["--tls-min-version=nonsense"],
            "--tls-min-version=nonsense: has no effect without",
        ),
        (
            &["--authorization-always-allow-paths=/x"],
            "--authorization-always-allow-paths=/x: has no effect without",
        ),
        (
            &[BOTH[0], BOTH[1], BOTH[2], "--tls-min-version=1.2"],
            "--tls-min-version=1.2",
        ),
    ] {
        let problem = read(arguments).unwrap_err();
        assert!(problem.contains(named), "{arguments:?}: {problem}");
    }
}

#[test]
fn what_the_flags_ask_for() {
    let asked = read(&BOTH).unwrap().unwrap();
    assert_eq!((&*asked.http.address, asked.http.health), (":8443", false));
    assert_eq!(asked.open.len(), 4);
    let more = [
        BOTH[0],
        BOTH[1],
        BOTH[2],
        "--leader-election",
        "--metrics-path=/m",
        "--client-ca-file=/ca",
        "--tls-min-version=VersionTLS13",
        "--authorization-always-allow-paths= /a ,,/b/*",
    ];
    let asked = read(&more).unwrap().unwrap();
    assert_eq!(asked.http.metrics_path.as_deref(), Some("/m"));
    assert!(asked.http.health && asked.files.authority.is_some());
    assert_eq!(asked.tls.version, Version::Tls13);
    assert_eq!(asked.open, ["/a", "/b/*"]);
}

const READER: &str = "prometheus";

/// A running server whose reader may get metrics; dropping it stops the server.
struct Served {
    guard: TlsGuard,
    pair: Pair,
    address: String,
    directory: tempfile::TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(authority: Option<&Authority>) -> Served {
    let (pair, directory) = (Pair::make(), tempfile::tempdir().unwrap());
    tls::mount(directory.path(), &pair.certificate, &pair.key);
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut flags = vec![
        "--secure-http-endpoint=127.0.0.1:0".to_owned(),
        format!("--tls-cert-file={}", path("tls.crt")),
        format!("--tls-private-key-file={}", path("tls.key")),
    ];
    if let Some(authority) = authority {
        std::fs::write(path("ca.crt"), &authority.certificate).unwrap();
        flags.push(format!("--client-ca-file={}", path("ca.crt")));
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let secure = read(&flags).unwrap().unwrap();
    let api = FakeApi::new();
    api.grant_path(READER, "get", "/metrics");
    let shown = shown(&Registry::new()).unwrap();
    let guard = secure.guard(Api::new(api.client()), shown).unwrap();
    let server = Server::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    let mut routes = Routes::new();
    for path in ["/metrics", "/readyz"] {
        routes.add(path, || async { Reply::ok() }).unwrap();
    }
    let task = tokio::spawn(server.serve_guarded(routes, guard.clone()));
    Served {
        guard,
        pair,
        address,
        directory,
        task,
    }
}

/// The status of the answer to a GET; keeps the connection open.
async fn get(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str, more: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap();
    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn o_54_what_a_client_sends_before_it_is_known_is_bounded() {
    tokio::spawn(in_small_steps());
    for authority in [None, Some(Authority::make())] {
        let served = serve(authority.as_ref()).await;
        let mut stream = TcpStream::connect(&served.address).await.unwrap();
        // A ClientHello of 65,500 bytes, in records of 16 KiB.
        let mut greeting = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xdc];
        greeting.resize(5 + (16 << 10), 0);
        let begun = tokio::time::Instant::now();
        let _closed = stream.write_all(&greeting).await;
        let _reset = stream.read_to_end(&mut Vec::new()).await;
        let took = begun.elapsed();
        assert!(
            took < handshakes::LONGEST / 2,
            "nobody waits for the rest: {took:?}"
        );
        // Requests may follow one another without limit.
        let client = tls::Client::new(&served.pair);
        let mut stream = client.connect(&served.address).await.unwrap();
        let more = format!("x: {}\r\n", "x".repeat(8 << 10));
        for _ in 0..10 {
            assert_eq!(get(&mut stream, "/readyz", &more).await, 200);
        }
        let more = format!("x: {}\r\n", "x".repeat(17 << 10));
        assert_eq!(get(&mut stream, "/readyz", &more).await, 431);
    }
}

/// Waits until a client that was admitted is refused.
async fn until_refused(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let begun = Instant::now();
    while get(stream, "/metrics", "").await != 401 {
        assert!(begun.elapsed() < Duration::from_secs(120), "still accepted");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "a certificate ends by the clock of whoever checks it"
)]
async fn o_46_o_49_a_certificate_counts_no_longer_than_it_is_accepted() {
    let authority = Authority::make();
    let served = serve(Some(&authority)).await;
    let end = SystemTime::now() + Duration::from_secs(30);
    let connect = async |own| {
        let client = tls::Client {
            own: Some(own),
            ..tls::Client::new(&served.pair)
        };
        client.connect(&served.address).await.unwrap()
    };
    let mut soon_over = connect(authority.sign_until(READER, "", end)).await;
    assert_eq!(get(&mut soon_over, "/metrics", "").await, 200);
    until_refused(&mut soon_over).await;
    // A token does not help a client that presents a certificate.
    let token = "authorization: Bearer token\r\n";
    assert_eq!(get(&mut soon_over, "/metrics", token).await, 401);
    assert_eq!(get(&mut soon_over, "/readyz", "").await, 200);
    let mut valid = connect(authority.sign(READER, "")).await;
    assert_eq!(get(&mut valid, "/metrics", "").await, 200);
    let file = served.directory.path().join("ca.crt");
    std::fs::write(file, Authority::make().certificate).unwrap();
    until_refused(&mut valid).await;
}

#[tokio::test]
async fn o_49_sessions_are_resumed_where_no_certificate_of_a_client_counts() {
    let authority = Authority::make();
    for (authority, resumes) in [(None, true), (Some(&authority), false)] {
        let served = serve(authority).await;
        let config = served.guard.0.certificates.current();
        assert_eq!(config.session_storage.can_cache(), resumes);
        assert_eq!(config.send_tls13_tickets > 0, resumes);
        assert!(!config.ticketer.enabled());
    }
}

/// Each read of the key finds the next one; the certificate is replaced before the second.
#[tokio::test(start_paused = true)]
async fn o_52_files_that_are_replaced_while_they_are_read_are_read_again() {
    let (old, new) = (Pair::make(), Pair::make());
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (certificate, key) = (path("tls.crt"), path("tls.key"));
    let later = [path("second.key"), path("third.key")];
    let mut make = std::process::Command::new("mkfifo");
    let made = make.arg(&key).args(&later).status();
    assert!(made.unwrap().success());
    std::fs::write(&certificate, &old.certificate).unwrap();
    let named = |flag, path: &PathBuf| Named {
        flag,
        path: path.clone(),
    };
    let files = Files {
        certificate: named("--tls-cert-file", &certificate),
        key: named("--tls-private-key-file", &key),
        authority: None,
    };
    let writing = std::thread::spawn(move || {
        use std::io::Write as _;
        let mut later = later.iter();
        for turn in 0..3 {
            let mut pipe = std::fs::File::options().write(true).open(&key).unwrap();
            // Each read has a pipe of its own: a slow one would find two keys in the same.
            if let Some(next) = later.next() {
                std::fs::rename(next, &key).unwrap();
            }
            if turn == 1 {
                std::fs::write(&certificate, &new.certificate).unwrap();
            }
            let key = if turn == 0 { &old.key } else { &new.key };
            pipe.write_all(key.as_bytes()).unwrap();
        }
    });
    let shown = shown(&Registry::new()).unwrap();
    let failures = shown.failures.clone().unwrap();
    let certificates = Certificates::new(files, Tls::default(), "http/1.1", shown).unwrap();
    let before = certificates.current();
    sleep(Duration::from_millis(1100)).await;
    let after = certificates.current();
    writing.join().unwrap();
    assert!(!Arc::ptr_eq(&before, &after), "the new pair is taken");
    assert_eq!(failures.get(), 0);
}
