//! Drivers that misbehave.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sidecar_testkit::driver::Probe;
use sidecar_testkit::http::attack::Target;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tonic::Code;

use crate::process::{self, Process, Serving, is_foreign};
use crate::program;

/// A listener at the driver's socket that answers every connection with the same bytes.
struct Impostor {
    serving: JoinHandle<()>,
    /// Greatest number of connections that were open at the same time.
    peak: Arc<AtomicUsize>,
}

impl Impostor {
    fn at(socket: &Path, bytes: &'static [u8], hangs_up: bool) -> Self {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let peak = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&peak);
        let serving = tokio::spawn(async move {
            let mut peers = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        peers.spawn(converse(accepted.unwrap().0, bytes, hangs_up));
                        seen.fetch_max(peers.len(), Ordering::SeqCst);
                    }
                    Some(_) = peers.join_next() => {}
                }
            }
        });
        Self { serving, peak }
    }
}

/// Ends when the peer hangs up, or at once.
async fn converse(mut stream: UnixStream, bytes: &[u8], hangs_up: bool) {
    // The peer may have gone already.
    let _ = stream.write_all(bytes).await;
    if !hangs_up {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[tokio::test]
async fn whoever_speaks_no_grpc_is_not_healthy() {
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    let goodbye = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";
    for (what, bytes, hangs_up) in [
        ("silence", &b""[..], false),
        ("hangs up", b"", true),
        (
            "garbage",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            false,
        ),
        (
            "HTTP/1",
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            true,
        ),
        ("settings and nothing else", settings, false),
        ("goodbye", goodbye, false),
    ] {
        let driver = process::driver();
        let serving = Serving::beside(&driver, &["--probe-timeout=1s"]).await;
        serving.becomes_healthy().await;
        let impostor = Impostor::at(&driver.socket(), bytes, hangs_up);
        let answer = serving.health().await;
        assert_eq!(answer.status, 500, "{what}: {}", answer.body);
        drop(impostor);
        driver.start();
        serving.becomes_healthy().await;
    }
}

/// Requests share the attempt to connect to a listener that cannot serve one.
#[tokio::test]
async fn requests_do_not_pile_up_connections() {
    if is_foreign() {
        return;
    }
    let driver = process::driver();
    // Both rounds together must be shorter than an attempt to connect, which takes twenty seconds.
    let serving = Serving::beside(&driver, &["--probe-timeout=6s"]).await;
    let impostor = Impostor::at(&driver.socket(), b"", false);
    for _ in 0..2 {
        for answer in serving.crowd(60).await {
            Serving::must_be(&answer, 500, "context deadline exceeded");
        }
    }
    assert_eq!(impostor.peak.load(Ordering::SeqCst), 1);
    // Nor do they block the next driver.
    driver.start();
    for answer in serving.crowd(60).await {
        Serving::must_be(&answer, 200, "ok");
    }
}

#[tokio::test]
async fn texts_of_any_kind() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &[]).await;
    let long = "lines\nof \u{1b}[31m \u{2028} \"text\" ".repeat(50);
    for text in ["", "\r\n\r\nHTTP/1.1 200 OK", "\0", &long] {
        let fail = Probe::Fail(Code::Internal, text.to_owned());
        driver.configure(|model| model.probes.push_back(fail));
        let answer = serving.health().await;
        let body = format!("rpc error: code = Internal desc = {text}");
        Serving::must_be(&answer, 500, &body);
    }
    // A forbidden line would have come by then.
    tokio::time::sleep(Duration::from_millis(200)).await;
    if !is_foreign() {
        // Text of the driver stays within its line.
        for line in serving.process.log().lines() {
            let severity = line.chars().next();
            assert!(matches!(severity, Some('I' | 'W' | 'E')), "{line}");
        }
    }
    serving.is_healthy().await;
}

#[tokio::test]
async fn fs_11_health_is_answered_under_attack() {
    if is_foreign() {
        return;
    }
    let driver = process::driver();
    // Only the server has to answer in time: the driver is part of this process, whose clients keep it busy.
    let mut serving = Serving::beside(&driver, &["--probe-timeout=1m"]).await;
    let target = Target {
        id: serving.process.id(),
        address: serving.address.clone(),
        health: "/healthz",
        large: "/metrics",
    };
    target.withstands().await;
    serving.process.must_run();
}

/// Every failed check writes a line.
#[tokio::test]
async fn fs_9_a_log_that_nobody_reads_does_not_stop_it() {
    if is_foreign() {
        return;
    }
    let driver = process::driver();
    let address = process::free_address();
    let mut command = Command::new(process::program());
    command.args(process::usual_flags(&driver));
    command.arg(program::flag(&format!("--http-endpoint={address}")));
    let (mut process, stderr) = Process::start_unread(command);
    process::listening(&mut process, &address).await;
    for count in 0..20 {
        let fail = Probe::Fail(Code::Internal, format!("failure {count}"));
        driver.configure(|model| model.probes.push_back(fail));
        assert_eq!(process::get(&address, "/healthz").await.status, 500);
        assert_eq!(process::get(&address, "/healthz").await.status, 200);
    }
    process.read(stderr);
    process.says("failure 19").await;
    let log = process.log();
    for text in ["\"Version\"", "HTTP server is listening", "failure 0\""] {
        assert!(log.contains(text), "no {text}: {log}");
    }
}
