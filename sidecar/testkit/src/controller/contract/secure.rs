//! The HTTP server with TLS and authentication: section 3 of `docs/spec/observability.md`.

pub mod connections;
pub mod pages;
pub mod rights;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::super::{ELECTION, PATIENCE, Program, Running, Stage, free_address, get};
use crate::Fault;
use crate::api::access::AUDIENCE;
use crate::http::Answer;
use crate::http::tls::{Client, Pair, mount};
use crate::process::within;

/// Generates the tests of the HTTP server with TLS.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_secure_servers {
    ($program:path) => {
        #[tokio::test]
        async fn o_41_a_server_with_tls_that_cannot_be() {
            $crate::controller::contract::secure::impossible(&$program).await;
        }

        #[tokio::test]
        async fn o_42_to_45_and_48_and_50_and_57_who_may_read_what_over_tls() {
            $crate::controller::contract::secure::tokens(&$program).await;
        }

        #[tokio::test]
        async fn o_73_version_and_flags_for_those_who_may_read_them() {
            $crate::controller::contract::secure::pages::statusz_and_flagz(&$program).await;
        }

        #[tokio::test]
        async fn o_56_who_may_not_make_reviews_says_so() {
            $crate::controller::contract::secure::rights::not_permitted(&$program).await;
        }

        #[tokio::test]
        async fn o_56_a_standby_that_may_not_make_reviews_says_so_too() {
            $crate::controller::contract::secure::rights::not_permitted_on_a_standby(&$program)
                .await;
        }
    };
}

const READER: &str = "system:serviceaccount:monitoring:prometheus";
const STRANGER: &str = "system:serviceaccount:default:default";
/// Tokens, which no log may contain.
const GOOD: &str = "token-of-reader";
const OTHER: &str = "token-of-stranger";
const WRONG: &str = "token-of-nobody";
const UNKNOWN: &str = "token-while-nobody-answers";

/// The program with a TLS server.
pub struct Secured {
    /// The program.
    pub running: Running,
    /// The TLS server's address.
    pub address: String,
    /// The plain server's address.
    pub plain: String,
    /// The server's certificate and key.
    pub pair: Pair,
    /// The directory of their files.
    pub directory: tempfile::TempDir,
}

impl Secured {
    /// Starts the program on `stage`, where one account may read everything and another nothing.
    ///
    /// # Panics
    ///
    /// If the operating system refuses.
    pub async fn start(stage: &Stage, more: &[&str]) -> Self {
        stage.api.issue_token(GOOD, READER, &[AUDIENCE]);
        stage.api.issue_token(OTHER, STRANGER, &[AUDIENCE]);
        for path in ["/metrics", "/statusz", "/flagz", "/unknown"] {
            stage.api.grant_path(READER, "get", path);
        }
        let (pair, directory) = (Pair::make(), tempfile::tempdir().expect("a directory"));
        mount(directory.path(), &pair.certificate, &pair.key);
        let (address, plain) = (free_address(), free_address());
        let file = |name: &str| directory.path().join(name).display().to_string();
        let flags = [
            format!("--secure-http-endpoint={address}"),
            format!("--tls-cert-file={}", file("tls.crt")),
            format!("--tls-private-key-file={}", file("tls.key")),
            format!("--http-endpoint={plain}"),
        ];
        let flags = flags.iter().map(String::as_str);
        let all: Vec<&str> = flags.chain(more.iter().copied()).collect();
        let running = stage.start(&all);
        within(PATIENCE, &address, async || {
            TcpStream::connect(&address).await.is_ok()
        })
        .await;
        Self {
            running,
            address,
            plain,
            pair,
            directory,
        }
    }

    /// A client that trusts the server's certificate.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(&self.pair)
    }

    /// The response to a client with this token.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub async fn get(&self, path: &str, token: Option<&str>) -> Answer {
        let answer = self.client().get(&self.address, path, token).await;
        answer.expect("an answer over TLS")
    }

    /// The response to the account that may read everything.
    pub async fn read(&self, path: &str) -> Answer {
        self.get(path, Some(GOOD)).await
    }

    /// The response to a scraper with a good token.
    pub async fn scrape(&self) -> Answer {
        self.read("/metrics").await
    }
}

fn families(text: &str) -> Vec<&str> {
    let types = text.lines().filter(|line| line.starts_with("# TYPE "));
    types.collect()
}

/// Series with labels, without values.
fn series(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| Some(line.rsplit_once(' ')?.0))
        .collect()
}

/// TokenReviews and SubjectAccessReviews so far.
#[must_use]
pub fn reviews(stage: &Stage) -> (usize, usize) {
    let count = |path| stage.api.requests_to("POST", path).len();
    (count("*/tokenreviews"), count("*/subjectaccessreviews"))
}

/// Invalid flags or files.
pub async fn impossible(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (one, other) = (Pair::make(), Pair::make());
    for (name, text) in [
        ("one.crt", &*one.certificate),
        ("one.key", &*one.key),
        ("other.key", &*other.key),
        ("text", "no certificate"),
    ] {
        std::fs::write(path(name), text).expect("write a file");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address");
    for (flags, named) in rows(&path, taken) {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let ended = stage.start(&flags).end().await;
        ended.says("O-41", program.fatal, &named);
        let last = ended.log.lines().last().unwrap_or_default();
        assert!(last.contains(&named), "O-74, the last line: {}", ended.log);
        assert!(!ended.log.contains("PRIVATE KEY"), "{}", ended.log);
    }
}

/// Flags, and text in the error.
fn rows(path: &impl Fn(&str) -> String, taken: SocketAddr) -> Vec<(Vec<String>, String)> {
    let endpoint = format!("--secure-http-endpoint={}", free_address());
    let certificate = |name: &str| format!("--tls-cert-file={}", path(name));
    let key = |name: &str| format!("--tls-private-key-file={}", path(name));
    let authority = |name: &str| format!("--client-ca-file={}", path(name));
    let (good, good_key) = (certificate("one.crt"), key("one.key"));
    vec![
        (
            vec![endpoint.clone()],
            "--tls-cert-file must name".to_owned(),
        ),
        (
            vec![endpoint.clone(), good.clone()],
            "--tls-private-key-file must name".to_owned(),
        ),
        (
            vec![endpoint.clone(), good_key.clone()],
            "--tls-cert-file must name".to_owned(),
        ),
        (vec![good.clone()], good.clone()),
        (
            vec![endpoint.clone(), certificate("gone"), good_key.clone()],
            certificate("gone"),
        ),
        (
            vec![endpoint.clone(), good.clone(), key("gone")],
            key("gone"),
        ),
        (
            vec![endpoint.clone(), certificate("text"), good_key.clone()],
            certificate("text"),
        ),
        (
            vec![endpoint.clone(), good.clone(), key("text")],
            key("text"),
        ),
        (
            vec![endpoint.clone(), good.clone(), key("other.key")],
            key("other.key"),
        ),
        (
            vec![
                endpoint.clone(),
                good.clone(),
                good_key.clone(),
                authority("text"),
            ],
            authority("text"),
        ),
        (
            vec![
                endpoint,
                good.clone(),
                good_key.clone(),
                "--tls-min-version=1".to_owned(),
            ],
            "--tls-min-version=1".to_owned(),
        ),
        (
            vec![format!("--secure-http-endpoint={taken}"), good, good_key],
            "--secure-http-endpoint: cannot start".to_owned(),
        ),
    ]
}

/// The response to a client without a valid token.
const NO_TOKEN: &str = "a bearer token is needed\n";

/// Clients with a token, and without.
pub async fn tokens(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let flags: Vec<&str> = ELECTION.into_iter().chain(["-v=10"]).collect();
    let secured = Secured::start(&stage, &flags).await;
    secured.running.logs(program.ready).await;
    for (row, path, token, status, body) in [
        ("O-42", "/metrics", None, 401, NO_TOKEN),
        (
            "O-42",
            "/metrics",
            Some(WRONG),
            401,
            "the token is not accepted\n",
        ),
        ("O-43", "/metrics", Some(OTHER), 403, STRANGER),
        (
            "O-43",
            "/metrics",
            Some(OTHER),
            403,
            "get nonResourceURLs /metrics",
        ),
        ("O-50", "/healthz/leader-election", None, 200, "ok"),
        ("O-50", "/readyz", None, 200, "ok"),
        ("O-50", "/readyz?x", None, 200, "ok"),
        ("O-50", "//metrics", None, 401, NO_TOKEN),
        ("O-50", "/%6detrics", None, 401, NO_TOKEN),
        ("O-50", "/readyz/../metrics", None, 401, NO_TOKEN),
        ("O-50", "http://x/metrics", None, 401, NO_TOKEN),
        ("O-50", "/debug/pprof/", None, 401, NO_TOKEN),
        ("O-50", "/why", None, 401, NO_TOKEN),
        ("O-50", "/unknown", None, 401, NO_TOKEN),
        ("O-50", "/unknown", Some(OTHER), 403, STRANGER),
        ("O-50", "/unknown", Some(GOOD), 404, "404 page not found\n"),
    ] {
        let answer = secured.get(path, token).await;
        assert_eq!(answer.status, status, "{row} {path}: {}", answer.body);
        assert!(answer.body.contains(body), "{row} {path}: {}", answer.body);
        let challenges = answer.head.contains("\r\nwww-authenticate: bearer");
        assert_eq!(challenges, status == 401, "{row} {path}: {}", answer.head);
    }
    remembered(&stage, &secured).await;
    let log = secured.running.log();
    for token in [GOOD, OTHER, WRONG, UNKNOWN] {
        assert!(!log.contains(token), "O-57: {token}");
    }
}

/// A known client is served, with and without the API server.
async fn remembered(stage: &Stage, secured: &Secured) {
    let (_, before) = get(&secured.plain, "/metrics").await;
    let answer = secured.scrape().await;
    assert_eq!(answer.status, 200, "O-44");
    let (_, plain) = get(&secured.plain, "/metrics").await;
    assert_eq!(families(&answer.body), families(&plain), "O-44");
    // Further series may have appeared meanwhile.
    let shown = series(&answer.body);
    assert!(series(&before).is_subset(&shown), "O-44");
    assert!(shown.is_subset(&series(&plain)), "O-44");
    assert!(
        answer
            .head
            .contains("content-type: text/plain; version=0.0.4"),
        "O-44"
    );
    stage.api.clear_requests();
    let mut refused = 0;
    for _ in 0..60 {
        refused += usize::from(secured.scrape().await.status != 200);
    }
    let (of_tokens, of_access) = reviews(stage);
    assert!(
        of_tokens <= 2 && of_access <= 1,
        "O-45: {of_tokens} {of_access}"
    );
    assert_eq!(refused, 0, "O-45");
    // Without the API server no new client is authenticated, and health is still served.
    let broken = stage
        .api
        .fault(Fault::on("POST", "*/tokenreviews").answer(500));
    assert_eq!(secured.scrape().await.status, 200, "O-48");
    let unknown = secured.get("/metrics", Some(UNKNOWN)).await;
    assert_eq!(unknown.status, 503, "O-48: {}", unknown.body);
    assert_eq!(secured.get("/readyz", None).await.status, 200, "O-48");
    broken.remove();
}
