//! `/statusz` and `/flagz` of the HTTP server with TLS.

use jiff::Timestamp;

use super::super::super::{ELECTION, Program, Stage, get};
use super::{GOOD, NO_TOKEN, OTHER, STRANGER, Secured, WRONG};
use crate::http::Answer;

const PAGES: [&str; 2] = ["/statusz", "/flagz"];

/// The line of Kubernetes' own components.
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// Version and flags, for clients that may get these paths.
pub async fn statusz_and_flagz(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    // The right to get metrics is none to get these.
    stage.api.grant_path(STRANGER, "get", "/metrics");
    let labels = "--leader-election-labels=a_token:SECRET1";
    // The snapshot-controller has no flag for labels, like upstream's.
    let secrets = { program.has_driver().then_some(labels) }.into_iter();
    let secrets = secrets.chain(["--vmodule=password=7"]);
    let flags: Vec<&str> = ELECTION.into_iter().chain(secrets).collect();
    let secured = Secured::start(&stage, &flags).await;
    secured.running.logs(program.ready).await;
    let metrics = secured.get("/metrics", Some(OTHER)).await;
    assert_eq!(metrics.status, 200, "O-73: {}", metrics.body);
    for page in PAGES {
        let (status, body) = get(&secured.plain, page).await;
        assert_eq!(status, 404, "O-73, without TLS: {body}");
        let right = format!("get nonResourceURLs {page};");
        for (token, status, text) in [
            (None, 401, NO_TOKEN),
            (Some(WRONG), 401, "the token is not accepted\n"),
            (Some(OTHER), 403, STRANGER),
            (Some(OTHER), 403, &*right),
            (Some(GOOD), 200, WARNING),
        ] {
            let answer = secured.get(page, token).await;
            let body = &answer.body;
            assert_eq!(answer.status, status, "O-73, {page} {token:?}: {body}");
            assert!(body.contains(text), "O-73, {page} {token:?}: {body}");
        }
        formats(&secured, page).await;
    }
    let file = program.path();
    let name = file.rsplit('/').next().unwrap_or_default();
    let version = program.run(&["--version"]).await.stdout;
    let version = version.trim_end().rsplit(' ').next().unwrap_or_default();
    let body = secured.read("/statusz").await.body;
    let start = status_page(&body, name, version);
    assert_eq!(start, process_start(&metrics), "O-73: {body}");
    flag_page(&secured, name).await;
}

/// Text is the only form.
async fn formats(secured: &Secured, page: &str) {
    for (accept, status) in [
        ("text/plain", 200),
        ("*/*", 200),
        ("application/json, */*", 200),
        ("application/json", 406),
        ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", 406),
    ] {
        let headers = format!("authorization: Bearer {GOOD}\r\naccept: {accept}\r\n");
        let client = secured.client();
        let answer = client.get_with(&secured.address, page, &headers).await;
        let answer = answer.expect("an answer over TLS");
        assert_eq!(answer.status, status, "O-73, {page} {accept}: {answer:?}");
        let is_text = answer
            .head
            .contains("\r\ncontent-type: text/plain; charset=utf-8\r\n");
        assert!(is_text, "O-73, {page} {accept}: {answer:?}");
        let is_page = answer.body.contains(WARNING);
        assert_eq!(is_page, status == 200, "O-73, {page} {accept}: {answer:?}");
    }
}

/// The start of the process, from the header that a scrape has.
fn process_start(scrape: &Answer) -> String {
    let mut header = scrape.head.split("\r\nprocess-start-time-unix: ");
    let value = header.nth(1).and_then(|rest| rest.split("\r\n").next());
    let seconds = value.and_then(|value| value.parse::<i64>().ok());
    let start = Timestamp::from_second(seconds.expect("a number")).expect("a time");
    start.strftime("%a %b %e %H:%M:%S UTC %Y").to_string()
}

/// The start of the process that the page shows.
fn status_page<'a>(body: &'a str, name: &str, version: &str) -> &'a str {
    let lines: Vec<&str> = body.split('\n').collect();
    let [
        first,
        title,
        warning,
        gap,
        start,
        age,
        compiler,
        build,
        emulation,
        paths,
        end,
    ] = *lines
    else {
        panic!("O-73: {body}");
    };
    assert_eq!([first, gap, emulation, end], [""; 4], "O-73: {body}");
    assert_eq!(title, format!("{name} statusz"), "O-73: {body}");
    assert_eq!(warning, WARNING, "O-73: {body}");
    assert!(age.starts_with("Up: 0 hr 0"), "O-73: {body}");
    assert!(age.ends_with(" sec"), "O-73: {body}");
    assert!(compiler.starts_with("Rust version: 1."), "O-73: {body}");
    assert_eq!(build, format!("Binary version: {version}"), "O-73: {body}");
    let paths = paths.strip_prefix("Paths: ").expect("O-73, the paths");
    let paths: Vec<&str> = paths.split(' ').collect();
    for path in ["/flagz", "/healthz", "/metrics", "/readyz", "/statusz"] {
        assert!(paths.contains(&path), "O-73, {path}: {body}");
    }
    assert!(paths.is_sorted(), "O-73: {body}");
    start.strip_prefix("Started: ").expect("O-73, the start")
}

async fn flag_page(secured: &Secured, name: &str) {
    let body = secured.read("/flagz").await.body;
    let lines: Vec<&str> = body.lines().collect();
    let [first, title, warning, flags @ ..] = &*lines else {
        panic!("O-73: {body}");
    };
    assert_eq!((*first, *warning), ("", WARNING), "O-73: {body}");
    assert_eq!(*title, format!("{name} flagz"), "O-73: {body}");
    let names = { flags.iter() }.map(|flag| flag.split_once('=').map(|(name, _)| name));
    let names: Option<Vec<&str>> = names.collect();
    let names = names.expect("O-73, each flag with a value");
    let is_new = |pair: &[&str]| pair[0] < pair[1];
    assert!(names.windows(2).all(is_new), "O-73: {body}");
    for flag in [
        // Given, on its default, empty, and one that looks like a secret.
        &*format!("secure-http-endpoint={}", secured.address),
        &*format!("http-endpoint={}", secured.plain),
        "leader-election=true",
        "logging-format=text",
        "tls-min-version=",
        "vmodule=password=***",
    ] {
        let is_there = flags.contains(&flag);
        assert!(is_there, "O-73, {flag}: {body}");
    }
    assert!(!body.contains("SECRET1"), "O-73: {body}");
}
