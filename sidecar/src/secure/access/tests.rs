use std::sync::Arc;
use std::time::Duration;

use http::Request;
use sidecar_testkit::{FakeApi, Fault};
use tokio::time::advance;

use super::*;

const ALICE: &str = "system:serviceaccount:monitoring:prometheus";
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn access(api: &FakeApi) -> Access {
    let open = ["/readyz", "/healthz", "/open/*"].map(str::to_owned);
    Access::new(Api::new(api.client()), open.into())
}

/// A cluster in which `token` belongs to Alice, who may get metrics.
fn cluster() -> FakeApi {
    let api = FakeApi::new();
    api.issue_token("token", ALICE, &[sidecar_testkit::api::access::AUDIENCE]);
    api.grant_path(ALICE, "get", "/metrics");
    api
}

async fn ask(access: &Access, peer: IpAddr, header: Option<&str>, path: &str) -> Result<(), u16> {
    let mut request = Request::get(path);
    if let Some(header) = header {
        request = request.header(AUTHORIZATION, header);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    let client = Client::new(peer, None);
    let answer = access.admit(&client, &head).await;
    answer.map_err(|reply| reply.status.as_u16())
}

async fn scrape(access: &Access) -> Result<(), u16> {
    ask(access, HERE, Some("Bearer token"), "/metrics").await
}

/// TokenReviews and SubjectAccessReviews so far.
fn reviews(api: &FakeApi) -> (usize, usize) {
    let count = |path| api.requests_to("POST", path).len();
    (count("*/tokenreviews"), count("*/subjectaccessreviews"))
}

#[tokio::test]
async fn o_50_paths_that_are_for_everybody() {
    let access = access(&FakeApi::new());
    for (path, open) in [
        ("/readyz", true),
        ("/healthz", true),
        ("/healthz/leader-election", false),
        ("/readyz/", false),
        ("/open/", true),
        ("/open/all", true),
        ("/open", false),
        ("/metrics", false),
    ] {
        assert_eq!(access.is_open(path), open, "{path}");
    }
}

#[tokio::test]
async fn o_42_o_43_o_44_who_is_let_in() {
    let api = cluster();
    let access = access(&api);
    for (header, path, answer) in [
        (None, "/metrics", Err(401)),
        (Some(""), "/metrics", Err(401)),
        (Some("Bearer"), "/metrics", Err(401)),
        (Some("Bearer "), "/metrics", Err(401)),
        (Some("Basic token"), "/metrics", Err(401)),
        (Some("Bearer other"), "/metrics", Err(401)),
        (Some("Bearer token"), "/metrics", Ok(())),
        (Some("bearer token"), "/metrics", Ok(())),
        (Some("Bearer token"), "/why", Err(403)),
    ] {
        assert_eq!(
            ask(&access, HERE, header, path).await,
            answer,
            "{header:?} {path}"
        );
    }
    let question = (User::default(), "get".to_owned(), "/metrics".to_owned());
    assert!(
        forbidden(&question)
            .body
            .contains("get nonResourceURLs /metrics")
    );
}

#[tokio::test(start_paused = true)]
async fn o_45_o_46_answers_count_for_their_time() {
    let api = cluster();
    let access = access(&api);
    for _ in 0..60 {
        assert_eq!(scrape(&access).await, Ok(()));
        advance(Duration::from_millis(990)).await;
    }
    assert_eq!(reviews(&api), (1, 1));
    advance(Duration::from_secs(1)).await;
    assert_eq!(scrape(&access).await, Ok(()));
    assert_eq!(reviews(&api), (2, 1), "a token counts for a minute");
    advance(Duration::from_secs(240)).await;
    assert_eq!(scrape(&access).await, Ok(()));
    assert_eq!(reviews(&api), (3, 2), "and a right for five");
    api.revoke_token("token");
    assert_eq!(scrape(&access).await, Ok(()));
    advance(life::TOKEN).await;
    assert_eq!(scrape(&access).await, Err(401));
    assert_eq!(scrape(&access).await, Err(401));
    assert_eq!(reviews(&api), (4, 2), "so does a refused one");
    // A new rule takes effect within half a minute.
    api.issue_token("token", ALICE, &[sidecar_testkit::api::access::AUDIENCE]);
    advance(life::TOKEN).await;
    let why = async || ask(&access, HERE, Some("Bearer token"), "/why").await;
    assert_eq!((why().await, why().await), (Err(403), Err(403)));
    api.grant_path(ALICE, "get", "/why");
    advance(life::DENIED - Duration::from_secs(1)).await;
    assert_eq!(why().await, Err(403));
    advance(Duration::from_secs(1)).await;
    assert_eq!(why().await, Ok(()));
    let (tokens, questions) = (access.tokens.memory(), access.questions.memory());
    let remembered = [
        tokens.accepted.count(),
        tokens.refused.count(),
        questions.accepted.count(),
        questions.refused.count(),
    ];
    assert!(
        remembered.iter().all(|count| *count <= MOST),
        "{remembered:?}"
    );
    let kept = hash("token");
    assert!(kept.len() >= 32 && !kept.starts_with(b"token"));
    assert!(tokens.accepted.knows(&kept, now()), "a hash is kept");
    assert!(!tokens.accepted.knows(&b"token".to_vec(), now()));
}

/// Clients of these addresses, each with ever new tokens, as long as the test runs.
fn flood(access: &Arc<Access>, peers: impl Iterator<Item = IpAddr>) -> Vec<Flood> {
    let one = |peer: IpAddr, number: u8| {
        let access = Arc::clone(access);
        let answers = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&answers);
        let asking = tokio::spawn(async move {
            for count in 0.. {
                let header = format!("Bearer wrong-{peer}-{number}-{count}");
                let answer = ask(&access, peer, Some(&header), "/metrics").await;
                told.lock().unwrap().push(answer);
                sleep(Duration::from_millis(1)).await;
            }
        });
        Flood { answers, asking }
    };
    peers
        .flat_map(|peer| (0..30).map(move |number| (peer, number)))
        .map(|(peer, number)| one(peer, number))
        .collect()
}

struct Flood {
    answers: Arc<Mutex<Vec<Result<(), u16>>>>,
    asking: tokio::task::JoinHandle<()>,
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn o_47_strangers_are_looked_up_within_bounds_and_in_turn() {
    let api = cluster();
    let access = Arc::new(access(&api));
    let strangers = flood(
        &access,
        (1..=3).map(|number| IpAddr::from([10, 0, 0, number])),
    );
    let elsewhere = IpAddr::from([10, 0, 0, 9]);
    sleep(Duration::from_secs(2)).await;
    for second in 0..5 {
        let before = reviews(&api).0;
        // A client of another address gets its turn, however many requests come from those.
        let header = format!("Bearer elsewhere-{second}");
        let answer = ask(&access, elsewhere, Some(&header), "/metrics").await;
        assert_eq!(answer, Err(401), "{second}");
        sleep(Duration::from_secs(1)).await;
        let asked = reviews(&api).0 - before;
        assert!(asked > 0 && asked <= 2 * (15 + 5), "{asked}");
    }
    let answers = strangers
        .iter()
        .flat_map(|one| one.answers.lock().unwrap().clone());
    let answers: Vec<_> = answers.collect();
    assert!(answers.iter().all(|it| matches!(it, Err(401 | 429))));
    assert!(answers.contains(&Err(401)) && answers.contains(&Err(429)));
    assert!(access.tokens.memory().refused.count() <= MOST);
}

#[tokio::test(start_paused = true)]
async fn o_47_whoever_was_let_in_is_let_in_again_in_a_flood_of_strangers() {
    let api = cluster();
    let access = Arc::new(access(&api));
    assert_eq!(scrape(&access).await, Ok(()));
    for minute in 0..6 {
        sleep(life::TOKEN - Duration::from_secs(3)).await;
        // Also from its own address.
        let peers = (1..=20).map(|number| IpAddr::from([10, 0, 0, number]));
        let _strangers = flood(&access, peers.chain([HERE]));
        sleep(Duration::from_secs(3)).await;
        assert_eq!(scrape(&access).await, Ok(()), "{minute}");
    }
    let (of_tokens, of_access) = reviews(&api);
    assert!(of_tokens > 6 && of_access == 2, "{of_tokens} {of_access}");
}

#[tokio::test(start_paused = true)]
async fn o_45_the_same_is_asked_once_at_a_time() {
    let api = cluster();
    let access = Arc::new(access(&api));
    let gate = sidecar_testkit::Gate::new();
    api.fault(Fault::on("POST", "*").hold(&gate));
    let asking = (0..20).map(|_| {
        let access = Arc::clone(&access);
        tokio::spawn(async move { scrape(&access).await })
    });
    let asking: Vec<_> = asking.collect();
    sleep(Duration::from_secs(3)).await;
    gate.open();
    for one in asking {
        assert_eq!(one.await.unwrap(), Ok(()));
    }
    assert_eq!(reviews(&api), (1, 1));
}

#[tokio::test]
async fn o_47_a_method_that_nobody_needs_is_not_asked_about() {
    let api = cluster();
    let access = access(&api);
    let long = "A".repeat(15_000);
    for (method, status) in [
        ("GET", Ok(())),
        ("HEAD", Err(403)),
        ("POST", Err(405)),
        ("get", Err(405)),
        (&*long, Err(405)),
    ] {
        let request = Request::builder().method(method).uri("/metrics");
        let request = request.header(AUTHORIZATION, "Bearer token");
        let (head, ()) = request.body(()).unwrap().into_parts();
        let answer = access.admit(&Client::new(HERE, None), &head).await;
        assert_eq!(answer.map_err(|reply| reply.status.as_u16()), status);
    }
    assert_eq!(reviews(&api), (1, 2), "GET and HEAD");
    let memory = access.questions.memory();
    assert_eq!((memory.accepted.count(), memory.refused.count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn o_47_ten_reviews_are_under_way_at_most() {
    let api = cluster();
    let access = Arc::new(access(&api));
    let gate = sidecar_testkit::Gate::new();
    api.fault(Fault::on("POST", "*/tokenreviews").hold(&gate));
    let asking = (0..100_u8).map(|number| {
        let access = Arc::clone(&access);
        tokio::spawn(async move {
            let peer = IpAddr::from([10, 0, 0, number]);
            let header = format!("Bearer wrong-{number}");
            ask(&access, peer, Some(&header), "/metrics").await
        })
    });
    let asking: Vec<_> = asking.collect();
    // A client that waits longer than two seconds for its turn is told to retry.
    sleep(Duration::from_secs(4)).await;
    let at_once = STRANGERS.at_once.0;
    assert_eq!(reviews(&api).0, at_once);
    assert!(at_once + KNOWN.at_once.0 <= 10);
    assert!(STRANGERS.per_second.0 + KNOWN.per_second.0 <= 20);
    gate.open();
    let mut answers = std::collections::BTreeMap::new();
    for one in asking {
        *answers.entry(one.await.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(answers[&Err(401)], at_once);
    assert_eq!(answers[&Err(429)], 100 - at_once);
}

#[tokio::test(start_paused = true)]
async fn o_48_o_56_reviews_that_cannot_be_made() {
    let api = cluster();
    let access = access(&api);
    assert_eq!(scrape(&access).await, Ok(()));
    api.set_down(true);
    assert_eq!(scrape(&access).await, Ok(()), "known");
    let unknown = async || ask(&access, HERE, Some("Bearer other"), "/metrics").await;
    assert_eq!(unknown().await, Err(503));
    advance(life::TOKEN).await;
    assert_eq!(scrape(&access).await, Err(503), "its time is over");
    api.set_down(false);
    assert_eq!(unknown().await, Err(401), "what failed is not remembered");
    advance(life::ALLOWED).await;
    for path in ["*/tokenreviews", "*/subjectaccessreviews"] {
        let forbidden = api.fault(Fault::on("POST", path).answer(403));
        assert_eq!(scrape(&access).await, Err(503), "{path}");
        forbidden.remove();
    }
    let reply = unreviewed(&refused(403), &RULES[0]);
    let rule = r#"- {apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"], verbs: ["create"]}"#;
    assert!(reply.body.contains(rule), "{}", reply.body);
    assert_eq!(scrape(&access).await, Ok(()));
}

fn refused(status: u16) -> ApiError {
    ApiError {
        message: "no".to_owned(),
        refusal: crate::refusal::Refusal::of(status, ""),
    }
}

#[test]
fn o_49_a_certificate_stands_for_a_user() {
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    for (name, user) in [("", None), ("prometheus", Some("prometheus"))] {
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, "monitoring");
        if !name.is_empty() {
            parameters
                .distinguished_name
                .push(rcgen::DnType::CommonName, name);
        }
        let certificate = parameters.self_signed(&key).unwrap();
        let found = Client::new(HERE, Some(certificate.der())).user;
        assert_eq!(found.as_ref().map(|user| &*user.username), user);
        let groups = found.map(|user| user.groups.join(" "));
        assert_eq!(
            groups.as_deref(),
            user.map(|_| "monitoring system:authenticated")
        );
    }
    assert_eq!(Client::new(HERE, None).user, None);
    assert_eq!(Client::new(HERE, Some(b"nonsense")).user, None);
}
