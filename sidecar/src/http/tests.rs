//! Rows 64 to 66, 78, 80 and 81 of the common specification, and Go's behaviour for the rest.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::*;
use crate::metrics::Registry;

/// A server on a free port, stopped when dropped.
struct Running {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(routes: Routes) -> Running {
    let server = Server::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let task = tokio::spawn(server.serve(routes));
    Running { address, task }
}

impl Running {
    /// Sends `request` and returns everything until the server closes.
    async fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Returns status line, lower-case headers, body.
    async fn ask(&self, method: &str, path: &str) -> (u16, String, String) {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = self.raw(&head).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }
}

fn health() -> Routes {
    let mut routes = Routes::new();
    routes.add("/healthz", || async { Reply::ok() }).unwrap();
    routes
}

#[tokio::test]
async fn any_method_and_the_exact_path() {
    let server = serve(health()).await;
    for method in ["GET", "POST", "PUT", "DELETE"] {
        let (status, head, body) = server.ask(method, "/healthz").await;
        assert_eq!((status, body.as_str()), (200, "ok"));
        assert!(
            head.contains("content-type: text/plain; charset=utf-8"),
            "{head}"
        );
    }
    assert_eq!(server.ask("GET", "/healthz?verbose=1").await.0, 200);
    let (status, head, body) = server.ask("HEAD", "/healthz").await;
    assert_eq!((status, body.as_str()), (200, ""));
    assert!(head.contains("content-length: 2"), "{head}");
    for path in ["/", "/healthz/", "/metrics", "/debug/pprof/"] {
        let (status, head, body) = server.ask("GET", path).await;
        assert_eq!(
            (status, body.as_str()),
            (404, "404 page not found\n"),
            "{path}"
        );
        assert!(
            head.contains("content-type: text/plain; charset=utf-8"),
            "{head}"
        );
    }
}

#[tokio::test]
async fn row_80_metrics_under_another_path() {
    let mut routes = Routes::new();
    routes.add_metrics("/m", &Registry::new()).unwrap();
    let server = serve(routes).await;
    let (status, head, body) = server.ask("GET", "/m").await;
    assert_eq!(status, 200);
    assert!(
        head.contains(&format!("content-type: {}", crate::metrics::CONTENT_TYPE)),
        "{head}"
    );
    assert!(body.contains("process_start_time_seconds"));
    assert_eq!(server.ask("GET", "/metrics").await.0, 404);
}

#[tokio::test]
async fn a_path_with_a_slash_at_its_end_stands_for_all_below() {
    let mut routes = health();
    routes
        .add("/debug/", || async { Reply::text(StatusCode::OK, "below") })
        .unwrap();
    let server = serve(routes).await;
    for path in ["/debug/", "/debug/x/y"] {
        assert_eq!(server.ask("GET", path).await.2, "below");
    }
    assert_eq!(server.ask("GET", "/debug").await.0, 404);
    assert_eq!(server.ask("GET", "/healthz").await.2, "ok");
}

#[test]
fn row_81_paths_that_cannot_be() {
    let mut routes = health();
    for path in ["", "metrics", "/a b"] {
        let error = routes.add(path, || async { Reply::ok() }).unwrap_err();
        assert_eq!(error, RouteError::Malformed(path.to_owned()));
    }
    let error = routes
        .add_metrics("/healthz", &Registry::new())
        .unwrap_err();
    assert_eq!(error, RouteError::Taken("/healthz".to_owned()));
}

#[tokio::test]
async fn row_78_addresses_that_cannot_be() {
    for (address, expected) in [
        ("foo", "listen tcp: address foo: missing port in address"),
        ("", "listen tcp: address : missing port in address"),
        (
            "a:b:1",
            "listen tcp: address a:b:1: too many colons in address",
        ),
        (":99999", "listen tcp: address :99999: invalid port"),
        (":-1", "listen tcp: address :-1: unknown port"),
        (
            "[::1:80",
            "listen tcp: address [::1:80: missing ']' in address",
        ),
    ] {
        let error = Server::bind(address).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn a_taken_port_is_an_error_and_not_the_end() {
    let first = Server::bind("127.0.0.1:0").await.unwrap();
    let address = first.local_addr().unwrap();
    let error = Server::bind(&address.to_string()).await.unwrap_err();
    let text = crate::error::Chain(&error).to_string();
    assert_eq!(
        text,
        format!("listen tcp {address}: Address already in use (os error 98)")
    );
}

#[tokio::test]
async fn without_host_all_interfaces_are_served() {
    let server = Server::bind(":0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    let task = tokio::spawn(server.serve(health()));
    let running = Running {
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        task,
    };
    assert_eq!(running.ask("GET", "/healthz").await.2, "ok");
}

#[tokio::test]
#[allow(clippy::print_stderr, reason = "a test that shows nothing says so")]
async fn an_address_of_ipv6_is_served() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: the machine has no IPv6");
        return;
    }
    let server = Server::bind("[::1]:0").await.unwrap();
    let address = server.local_addr().unwrap();
    assert!(address.is_ipv6(), "{address}");
    let task = tokio::spawn(server.serve(health()));
    let running = Running { address, task };
    assert_eq!(running.ask("GET", "/healthz").await.2, "ok");
}

#[test]
fn rows_64_65_66_leader_health() {
    assert_eq!(Reply::leader_health(None), Reply::ok());
    let why = "failed election to renew leadership on lease ";
    let reply = Reply::leader_health(Some(why.to_owned()));
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(reply.body, format!("internal server error: {why}"));
}

#[tokio::test]
async fn what_is_not_http_ends_its_connection_only() {
    let server = serve(health()).await;
    for nonsense in [
        "\0\u{1}\u{2}\r\n\r\n",
        "GET\r\n\r\n",
        "GET /healthz HTTP/9.9\r\n\r\n",
    ] {
        let answer = server.raw(nonsense).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
    }
    let long = format!(
        "GET /healthz HTTP/1.1\r\nX: {}\r\n\r\n",
        "x".repeat(64 << 10)
    );
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // The server may close while this is still being written.
    let _ = stream.write_all(long.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(server.ask("GET", "/healthz").await.2, "ok");
}

#[tokio::test]
async fn a_connection_can_be_used_again() {
    let server = serve(health()).await;
    let one = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let last = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = server.raw(&format!("{one}{last}")).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2);
}

/// The bytes that the peer gets until the server closes or resets the connection.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

const ASK: &str = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";

fn large(bytes: usize) -> Routes {
    let mut routes = health();
    let reply = move || std::future::ready(Reply::text(StatusCode::OK, "x".repeat(bytes)));
    routes.insert("/large", true, reply).unwrap();
    routes
}

/// The clock is paused only once the server has received the bytes: data in the kernel does not keep a paused
/// clock from advancing.
#[tokio::test]
async fn fs_11_a_request_must_come_in_time() {
    for sent in ["", "GET /heal", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let server = serve(health()).await;
        let connects = tokio::time::Instant::now();
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        if sent.ends_with("\r\n\r\n") {
            stream.readable().await.unwrap();
        }
        // The server accepts it after the other one.
        assert_eq!(server.ask("GET", "/healthz").await.2, "ok");
        tokio::time::pause();
        let pauses = tokio::time::Instant::now();
        rest(&mut stream).await;
        let (least, most) = (pauses.elapsed().as_secs(), connects.elapsed().as_secs());
        assert!(least <= 31 && most >= 29, "{sent:?}: {least} to {most} s");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn fs_11_an_answer_must_be_read_in_time() {
    let server = serve(large(1 << 20)).await;
    let mut deaf = TcpStream::connect(server.address).await.unwrap();
    let asks = tokio::time::Instant::now();
    deaf.write_all(ASK.as_bytes()).await.unwrap();
    deaf.readable().await.unwrap();
    tokio::time::pause();
    // The server began to answer at some moment of this time.
    let late = asks.elapsed();
    sleep(Duration::from_secs(28).saturating_sub(late)).await;
    // The connection is still open.
    deaf.write_all(b" ").await.unwrap();
    sleep(Duration::from_secs(3) + late).await;
    let answer = rest(&mut deaf).await;
    assert!(answer.len() < 1 << 20, "{} bytes", answer.len());
}

#[tokio::test]
async fn fs_11_those_who_do_not_read_make_room_for_one_who_does() {
    let server = serve(large(1 << 20)).await;
    let mut deaf = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(ASK.as_bytes()).await.unwrap();
        deaf.push(stream);
    }
    let limit = Duration::from_secs(20);
    let answer = tokio::time::timeout(limit, server.ask("GET", "/large")).await;
    assert_eq!(answer.unwrap().2.len(), 1 << 20);
}

/// A response unread for a second loses its room to the next one: the test counts before that, and repeats
/// where it was scheduled too late.
#[tokio::test]
async fn fs_11_large_answers_at_the_same_time_are_bounded_and_all_come() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    loop {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut routes = Routes::new();
        let count = Arc::clone(&asked);
        let reply = move || {
            count.fetch_add(1, SeqCst);
            std::future::ready(Reply::text(StatusCode::OK, "x".repeat(1 << 20)))
        };
        routes.insert("/large", true, reply).unwrap();
        let server = serve(routes).await;
        let begun = std::time::Instant::now();
        let mut streams = Vec::new();
        for _ in 0..5 {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(ASK.as_bytes()).await.unwrap();
            streams.push(stream);
        }
        while asked.load(SeqCst) < 3 {
            sleep(Duration::from_millis(1)).await;
        }
        // Time for a response that should not be rendered.
        sleep(Duration::from_millis(100)).await;
        let made = asked.load(SeqCst);
        if begun.elapsed() >= Duration::from_secs(1) {
            continue;
        }
        assert_eq!(made, 3, "two that are held, one that waits for room");
        for stream in &mut streams {
            let mut answer = vec![0; 1 << 20];
            stream.read_exact(&mut answer).await.unwrap();
        }
        return;
    }
}

#[tokio::test]
async fn fs_11_answers_without_a_body_do_not_pile_up() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    let asked = Arc::new(AtomicUsize::new(0));
    let mut routes = Routes::new();
    let count = Arc::clone(&asked);
    let reply = move || {
        count.fetch_add(1, SeqCst);
        std::future::ready(Reply::ok())
    };
    routes.add("/healthz", reply).unwrap();
    let server = serve(routes).await;
    let mut deaf = TcpStream::connect(server.address).await.unwrap();
    let many = "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    let all = async {
        for _ in 0..1000 {
            deaf.write_all(many.as_bytes()).await.unwrap();
        }
    };
    tokio::select! {
        () = all => panic!("a million requests were taken"),
        taken = settled(&asked) => assert!(taken < 1_000_000, "{taken}"),
    }
}

/// The counter's value once it has not changed for a while and is not zero.
async fn settled(counter: &std::sync::atomic::AtomicUsize) -> usize {
    use std::sync::atomic::Ordering::SeqCst;
    const QUIET: usize = 10;
    let (mut last, mut quiet) = (0, 0);
    while quiet < QUIET {
        sleep(Duration::from_millis(100)).await;
        let now = counter.load(SeqCst);
        quiet = if now == last && now > 0 { quiet + 1 } else { 0 };
        last = now;
    }
    last
}

#[tokio::test]
async fn fs_11_more_than_there_may_be_and_a_probe() {
    let server = serve(health()).await;
    let mut idle = Vec::new();
    for _ in 0..server::LIMITS.per_peer + 10 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    // A probe comes from the same address after all of these have been idle for a while.
    sleep(admission::FRESH).await;
    assert_eq!(server.ask("GET", "/healthz").await.2, "ok");
    assert!(rest(&mut idle[0]).await.is_empty(), "the oldest is closed");
    let last = idle.last_mut().unwrap();
    last.write_all(b"GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(rest(last).await.ends_with(b"ok"), "the newest is served");
}

/// Go ignores `net.ipv6.bindv6only`.
#[tokio::test]
async fn fr_14_without_host_both_families_are_served() {
    let server = Server::bind(":0").await.unwrap();
    let address = server.local_addr().unwrap();
    if address.is_ipv6() {
        let socket = socket2::SockRef::from(&server.listener);
        assert!(!socket.only_v6().unwrap());
    }
    let task = tokio::spawn(server.serve(health()));
    let _running = Running { address, task };
    for host in ["127.0.0.1", "::1"] {
        if host == "::1" && !address.is_ipv6() {
            continue;
        }
        let ip = host.parse().unwrap();
        let stream = TcpStream::connect(SocketAddr::new(ip, address.port())).await;
        assert!(stream.is_ok(), "{host}");
    }
}
