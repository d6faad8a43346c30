//! Rows about the HTTP server.

use std::time::{Duration, Instant};

use sidecar_testkit::http::attack::Target;
pub(crate) use sidecar_testkit::http::get;
use sidecar_testkit::http::request;
use sidecar_testkit::leave_dead_socket;

use crate::driver::{Driver, Impostor, NAME};
use crate::kubelet;
use crate::process::{Process, Seat, until};
use crate::program;

/// A driver, and a registrar with a socket and an HTTP server.
pub(crate) async fn running(seat: &Seat, flags: &[&str]) -> (Driver, Process, String) {
    let endpoint = "--http-endpoint=127.0.0.1:0";
    let (driver, process) = seat.running(&[&[endpoint], flags].concat()).await;
    let address = address(&process).await;
    (driver, process, address)
}

/// Address of the HTTP server, from the log.
async fn address(process: &Process) -> String {
    let line = "\"HTTP server is listening\" address=\"";
    process.says(line).await;
    let log = process.log();
    let (_, rest) = log.split_once(line).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn r_38_healthy() {
    let seat = Seat::new();
    let (_driver, _process, address) = running(&seat, &[]).await;
    for (method, body) in [("GET", "ok"), ("POST", "ok"), ("HEAD", "")] {
        let answer = request(&address, method, "/healthz").await;
        assert_eq!(answer.head_and_body(), (200, body), "{method}");
        assert!(
            answer
                .head
                .contains("content-type: text/plain; charset=utf-8"),
            "{}",
            answer.head
        );
    }
}

#[tokio::test]
async fn health_port_listens_everywhere() {
    let seat = Seat::new();
    // With this flag the system cannot choose the port.
    let free = sidecar_testkit::free_address();
    let (_, port) = free.rsplit_once(':').unwrap();
    let (_driver, process) = seat.running(&["--health-port", port]).await;
    address(&process).await;
    for host in ["127.0.0.1", "127.0.0.2", "[::1]"] {
        let address = format!("{host}:{port}");
        if host.starts_with('[') && std::net::TcpListener::bind("[::1]:0").is_err() {
            continue;
        }
        assert_eq!(get(&address, "/healthz").await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn r_40_replaced_by_a_file() {
    let seat = Seat::new();
    let (_driver, mut process, address) = running(&seat, &[]).await;
    std::fs::write(seat.path("mine"), "mine").unwrap();
    seat.take_place("mine");
    let answer = get(&address, "/healthz").await;
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("not a socket"), "{}", answer.body);
    process.says("\"Health check failed\" err=").await;
    // The process must not remove another program's file.
    process
        .says("not the socket of this process any more")
        .await;
    process.signal(rustix::process::Signal::TERM);
    process.ended().await.with_code(0);
    assert_eq!(std::fs::read(seat.socket()).unwrap(), b"mine");
}

#[tokio::test]
async fn r_41_fr_12_replaced_by_another_server() {
    let seat = Seat::new();
    let (_driver, process, address) = running(&seat, &[]).await;
    let _other = Impostor::start(&seat.socket(), "other", Duration::ZERO);
    let answer = get(&address, "/healthz").await;
    assert_eq!(answer.head_and_body(), (500, "invalid driver name other"));
    let line = "\"Health check failed\" err=\"invalid driver name other\" status=500";
    process.says(line).await;
}

#[tokio::test]
async fn r_42_replaced_by_a_silent_server() {
    let silence = Duration::from_secs(60);
    let prefix = "error getting info from node-registrar socket:";
    // Long enough for the driver's name, which this thread answers.
    for timeout in [4_u64, 8] {
        let seat = Seat::new();
        let flag = format!("--timeout={timeout}s");
        let (_driver, _process, address) = running(&seat, &[&flag]).await;
        let _other = Impostor::start(&seat.socket(), NAME, silence);
        let start = Instant::now();
        let answer = get(&address, "/healthz").await;
        assert_eq!(answer.status, 500);
        assert!(answer.body.starts_with(prefix), "{}", answer.body);
        assert!(answer.body.contains("DeadlineExceeded"), "{}", answer.body);
        let took = start.elapsed().as_secs_f32();
        let timeout = timeout as f32;
        assert!(
            (timeout * 0.9..timeout + 25.0).contains(&took),
            "took {took} s"
        );
    }
    // A listener that does not even speak HTTP/2.
    let seat = Seat::new();
    let (_driver, _process, address) = running(&seat, &["--timeout=4s"]).await;
    let _mute = std::os::unix::net::UnixListener::bind(seat.path("mute")).unwrap();
    seat.take_place("mute");
    let start = Instant::now();
    assert_eq!(get(&address, "/healthz").await.status, 500);
    // Upstream takes thirty seconds.
    assert!(
        start.elapsed() < Duration::from_secs(29),
        "took {:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_socket_without_server_is_an_error() {
    let seat = Seat::new();
    let (_driver, _process, address) = running(&seat, &[]).await;
    let mut body = String::new();
    // Five seconds later the process has its own again.
    until("an error", async || {
        leave_dead_socket(&seat.path("dead"));
        seat.take_place("dead");
        let answer = get(&address, "/healthz").await;
        body = answer.body;
        answer.status == 500
    })
    .await;
    let path = seat.socket();
    let prefix = format!(
        "error connecting to node-registrar socket {}: ",
        path.display()
    );
    assert!(body.starts_with(&prefix), "{body}");
}

#[tokio::test]
async fn r_43_other_paths() {
    let seat = Seat::new();
    let (_driver, _process, address) = running(&seat, &[]).await;
    for path in ["/", "/healthz/", "/metrics", "/registration/", "/healthzz"] {
        let answer = get(&address, path).await;
        assert_eq!(
            answer.head_and_body(),
            (404, "404 page not found\n"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn r_44_pprof() {
    let paths = ["", "cmdline", "profile", "symbol", "trace", "heap"];
    for (flags, statuses) in [
        (&[][..], [404, 404, 404, 404, 404, 404]),
        (&["--enable-pprof"], [200, 200, 501, 501, 501, 200]),
    ] {
        let seat = Seat::new();
        let (_driver, _process, address) = running(&seat, flags).await;
        for (path, status) in paths.iter().zip(statuses) {
            let answer = get(&address, &format!("/debug/pprof/{path}")).await;
            assert_eq!(answer.status, status, "{flags:?} {path}");
        }
    }
}

#[tokio::test]
async fn r_45_an_address_that_cannot_be_had() {
    let seat = Seat::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("--http-endpoint={}", taken.local_addr().unwrap());
    for flag in [
        &taken,
        "--http-endpoint=:99999",
        "--http-endpoint=foo",
        "--health-port=99999",
    ] {
        let _driver = Driver::start(&seat.csi());
        let end = seat.start(&[flag]).ended().await;
        end.failed_naming(&[&program::flag(flag)]);
        assert!(seat.socket().exists(), "{flag}");
        std::fs::remove_file(seat.socket()).unwrap();
    }
}

#[tokio::test]
async fn r_46_no_flags_no_listener() {
    let seat = Seat::new();
    let (_driver, process) = seat.running(&["--enable-pprof"]).await;
    process.says("No HTTP server").await;
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap();
    let sockets: Vec<String> = descriptors
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter_map(|target| {
            let target = target
                .to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?;
            Some(target.to_owned())
        })
        .collect();
    assert!(!sockets.is_empty());
    for family in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/net/{family}")).unwrap();
        for line in table.lines().skip(1) {
            let inode = line.split_whitespace().nth(9).unwrap();
            assert!(!sockets.iter().any(|own| own == inode), "{line}");
        }
    }
}

#[tokio::test]
async fn the_registration_path_follows_kubelet() {
    let seat = Seat::new();
    let (_driver, _process, address) = running(&seat, &[]).await;
    assert_eq!(
        get(&address, "/healthz").await.status,
        200,
        "asks the socket, and is not kubelet"
    );
    let answer = get(&address, "/registration").await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.body.contains("kubelet has not asked yet"),
        "{}",
        answer.body
    );
    kubelet::ask(&seat.socket()).await;
    let answer = get(&address, "/registration").await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.body.contains("has not confirmed yet"),
        "{}",
        answer.body
    );
    kubelet::notify(&seat.socket(), true, "").await.unwrap();
    let answer = get(&address, "/registration").await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with("registered"), "{}", answer.body);
}

#[tokio::test]
async fn fs_11_health_is_answered_under_attack() {
    let seat = Seat::new();
    let (_driver, mut process, address) = running(&seat, &[]).await;
    let target = Target {
        id: process.id(),
        address,
        health: "/healthz",
        large: "/registration",
    };
    target.withstands().await;
    process.must_run();
}

#[tokio::test]
async fn fs_9_a_log_that_nobody_reads_does_not_stop_it() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    let address = sidecar_testkit::free_address();
    let command = seat.command(&[&format!("--http-endpoint={address}")]);
    let (mut process, stderr) = Process::start_unread(command);
    process.listening(&seat.socket()).await;
    kubelet::ask(&seat.socket()).await;
    kubelet::notify(&seat.socket(), true, "").await.unwrap();
    assert_eq!(get(&address, "/healthz").await.status, 200);
    // At its end the process waits two seconds for somebody to read what is left, which this thread might miss.
    process.read(stderr);
    process.signal(rustix::process::Signal::TERM);
    let end = process.ended().await;
    end.with_code(0);
    for text in ["\"Starting\"", "Signal received, shutting down"] {
        assert!(end.stderr.contains(text), "no {text}: {}", end.stderr);
    }
}
