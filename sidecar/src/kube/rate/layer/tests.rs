use ::kube::Client;
use futures_util::future::join_all;
use http::header;
use serde_json::{Value, json};
use sidecar_testkit::build::{Object as _, volume};
use sidecar_testkit::{FakeApi, Fault, Gate};

use super::super::{Rate, RateMetrics, RequestMetrics};
use super::*;
use crate::metrics::Registry;

const TIMEOUT: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);
const VOLUME: &str = "/api/v1/persistentvolumes/pv1";

fn client_of(api: &FakeApi, rate: Rate) -> Client {
    let limiter = Limiter::new(rate, TIMEOUT, None);
    Client::new(limiter.limit(api.service()), "default")
}

fn with_volume() -> FakeApi {
    let api = FakeApi::new();
    api.insert(volume("pv1").csi("d", "h"));
    api
}

async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    body: Value,
) -> Result<Value, ::kube::Error> {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header(header::CONTENT_TYPE, "application/merge-patch+json");
    client.request(request.body(body).unwrap()).await
}

async fn write(client: &Client, value: usize) -> Result<Value, ::kube::Error> {
    let body = json!({"metadata": {"annotations": {"n": value.to_string()}}});
    ask(client, Method::PATCH, VOLUME, body).await
}

/// Milliseconds since the first request.
fn arrivals(api: &FakeApi, method: &str) -> Vec<u128> {
    let requests = api.requests_to(method, "*");
    let first = requests.first().map(|request| request.at);
    let since = |at: Instant| first.map_or(0, |first| (at - first).as_millis());
    requests.iter().map(|request| since(request.at)).collect()
}

#[tokio::test(start_paused = true)]
async fn row_88_five_writes_at_one_per_second() {
    let api = with_volume();
    let client = client_of(&api, Rate::new(1.0, 1).unwrap());
    for answer in join_all((0..5).map(|n| write(&client, n))).await {
        answer.unwrap();
    }
    assert_eq!(arrivals(&api, "PATCH"), [0, 1000, 2000, 3000, 4000]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_takes_no_token() {
    let api = with_volume();
    let client = client_of(&api, Rate::new(1.0, 1).unwrap());
    write(&client, 0).await.unwrap();
    let given_up = tokio::time::timeout(SECOND / 2, write(&client, 1)).await;
    assert!(given_up.is_err());
    write(&client, 2).await.unwrap();
    assert_eq!(arrivals(&api, "PATCH"), [0, 1000]);
}

/// Uses up the objects' budget for the life of the returned task.
fn saturate(client: &Client) -> tokio::task::JoinHandle<()> {
    let client = client.clone();
    tokio::spawn(async move {
        for answer in join_all((0..100).map(|n| write(&client, n))).await {
            answer.unwrap();
        }
    })
}

#[tokio::test(start_paused = true)]
async fn row_68_leases_and_watches_do_not_wait_behind_objects() {
    for rate in [Rate::new(0.2, 1).unwrap(), Rate::Adaptive] {
        let api = with_volume();
        api.fault(Fault::on("PATCH", "*").delay(SECOND));
        let client = client_of(&api, rate);
        let busy = saturate(&client);
        api.until(|api| !api.requests().is_empty()).await;
        let start = Instant::now();
        let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
        let missing = ask(&client, Method::GET, lease, Value::Null).await;
        assert!(matches!(missing, Err(::kube::Error::Api(status)) if status.code == 404));
        let watch = Request::get("/api/v1/nodes?watch=true&resourceVersion=0").body(Vec::new());
        client.request_stream(watch.unwrap()).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO, "{rate:?}");
        busy.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn events_do_not_wait_behind_objects_unless_a_cap_was_given() {
    for (rate, waits) in [(Rate::Adaptive, false), (Rate::new(1.0, 1).unwrap(), true)] {
        let api = with_volume();
        api.fault(Fault::on("PATCH", "*").delay(SECOND));
        let client = client_of(&api, rate);
        let busy = saturate(&client);
        api.until(|api| !api.requests().is_empty()).await;
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
        let sent = ask(
            &client,
            Method::POST,
            "/api/v1/namespaces/default/events",
            event,
        );
        let sent = tokio::time::timeout(5 * SECOND, sent).await;
        assert_eq!(sent.is_err(), waits, "{rate:?}");
        busy.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_rate_the_number_at_once_is_what_counts() {
    let api = with_volume();
    let gate = Gate::new();
    api.fault(Fault::on("PATCH", "*").hold(&gate));
    let client = client_of(&api, Rate::Adaptive);
    let busy = saturate(&client);
    api.until(|_| gate.waiting() == 10).await;
    sleep(10 * SECOND).await;
    assert_eq!(gate.waiting(), 10);
    gate.open();
    busy.await.unwrap();
    assert_eq!(arrivals(&api, "PATCH").last(), Some(&10_000));
}

#[tokio::test(start_paused = true)]
async fn attacher_139_no_limit_is_no_limit() {
    let api = with_volume();
    let gate = Gate::new();
    api.fault(Fault::on("PATCH", "*").hold(&gate));
    let busy = saturate(&client_of(&api, Rate::new(-1.0, 10).unwrap()));
    api.until(|_| gate.waiting() == 100).await;
    gate.open();
    busy.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_sent_again_after_the_time_the_server_names() {
    for rate in [Rate::Adaptive, Rate::Unlimited] {
        let api = with_volume();
        api.fault(Fault::on("PATCH", "*").times(2).too_many(3));
        let client = client_of(&api, rate);
        write(&client, 1).await.unwrap();
        let arrivals = arrivals(&api, "PATCH");
        assert_eq!(arrivals.len(), 3);
        assert!(
            arrivals[1] >= 3000 && arrivals[2] - arrivals[1] >= 3000,
            "{arrivals:?}"
        );
        assert!(arrivals[2] <= 8000, "{arrivals:?}");
        let stored = api.object("persistentvolumes", "pv1").unwrap();
        assert_eq!(stored["metadata"]["annotations"]["n"], "1");
    }
}

#[tokio::test(start_paused = true)]
async fn e_4_what_is_asked_for_one_object_binds_that_object() {
    let api = with_volume();
    for name in ["pv2", "pv3"] {
        api.insert(volume(name).csi("d", "h"));
    }
    let refused = Fault::on("PATCH", VOLUME).times(1).too_many(60);
    api.fault(refused);
    let client = client_of(&api, Rate::Adaptive);
    let start = Instant::now();
    let patch = async |name: &str| {
        let path = format!("/api/v1/persistentvolumes/{name}");
        let answer = ask(&client, Method::PATCH, &path, json!({"metadata": {}})).await;
        (answer.is_ok(), start.elapsed())
    };
    let (refused, other) = tokio::join!(patch("pv1"), patch("pv2"));
    assert!(!refused.0, "too long for its caller");
    assert!(other.0 && other.1 <= 7 * SECOND, "{other:?}");
    let (again, other, created) = tokio::join!(patch("pv1"), patch("pv3"), async {
        let body = json!({"metadata": {"name": "pv4"}, "spec": {}});
        let path = "/api/v1/persistentvolumes";
        let answered = ask(&client, Method::POST, path, body).await;
        (answered, start.elapsed())
    });
    assert!(again.0 && again.1 >= 60 * SECOND, "{again:?}");
    assert!(
        other.1 <= 7 * SECOND && created.1 <= 7 * SECOND,
        "{other:?} {created:?}"
    );
    // Refusals of several objects count as the server's.
    api.fault(Fault::on("PATCH", "*").times(2).too_many(60));
    let began = start.elapsed();
    tokio::join!(patch("pv2"), patch("pv3"));
    let (served, at) = patch("pv1").await;
    assert!(served && at - began >= 60 * SECOND, "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_holds_the_others_back_too() {
    let api = with_volume();
    api.fault(Fault::on("PATCH", "*").times(1).too_many(5));
    let client = client_of(&api, Rate::Adaptive);
    let first = async { write(&client, 1).await.unwrap() };
    let second = async {
        sleep(SECOND).await;
        ask(&client, Method::GET, VOLUME, Value::Null)
            .await
            .unwrap()
    };
    tokio::join!(first, second);
    let read = api.requests_to("GET", "*")[0].at;
    let refused = api.requests_to("PATCH", "*")[0].at;
    assert!(read - refused >= 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn refusals_reach_the_caller_when_waiting_is_hopeless_or_not_for_us() {
    let api = with_volume();
    let client = client_of(&api, Rate::Unlimited);
    let code = |answer: Result<Value, ::kube::Error>| match answer {
        Err(::kube::Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    };
    let long = api.fault(Fault::on("PATCH", "*").too_many(3600));
    assert_eq!(code(write(&client, 1).await), 429);
    assert_eq!(long.hits(), 1);
    long.remove();
    let always = api.fault(Fault::on("PATCH", "*").too_many(1));
    assert_eq!(code(write(&client, 1).await), 429);
    assert_eq!(always.hits(), 11);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease_fault = api.fault(Fault::on("GET", "*/leases/*").too_many(1));
    assert_eq!(
        code(ask(&client, Method::GET, lease, Value::Null).await),
        429
    );
    assert_eq!(lease_fault.hits(), 1);
    // A request that timed out in the server may have been executed: only its sender knows whether
    // to repeat it.
    api.clear_faults();
    let late = api.fault(Fault::on("PATCH", "*").answer(504));
    assert_eq!(code(write(&client, 1).await), 504);
    assert_eq!(late.hits(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_gets_no_answer_ends_in_time_and_frees_its_place() {
    let api = with_volume();
    api.fault(Fault::on("PATCH", "*").times(10).hang());
    let client = client_of(&api, Rate::Adaptive);
    let start = Instant::now();
    for answer in join_all((0..10).map(|n| write(&client, n))).await {
        let error = Chain(&answer.unwrap_err()).to_string();
        assert!(
            error.contains("no answer from the API server within 30 s"),
            "{error}"
        );
    }
    assert_eq!(start.elapsed(), TIMEOUT);
    write(&client, 11).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_be_silent_for_longer_than_a_request_may_take() {
    use futures_util::AsyncBufReadExt as _;
    let api = with_volume();
    let client = client_of(&api, Rate::Adaptive);
    let watch = format!("/api/v1/nodes?watch=true&resourceVersion={}", api.version());
    let stream = client
        .request_stream(Request::get(watch).body(Vec::new()).unwrap())
        .await
        .unwrap();
    let mut stream = std::pin::pin!(stream);
    let mut line = String::new();
    let later = async {
        sleep(10 * TIMEOUT).await;
        api.insert(sidecar_testkit::build::node("n1").build());
    };
    let (read, ()) = tokio::join!(stream.read_line(&mut line), later);
    assert!(read.unwrap() > 0 && line.contains("ADDED"), "{line}");
}

/// A body that sends nothing after the headers.
#[derive(Debug)]
struct Stuck;

impl hyper::body::Body for Stuck {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_in_the_middle_ends_in_time() {
    let service = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Stuck))
    });
    let limiter = Limiter::new(Rate::Adaptive, TIMEOUT, None);
    let client = Client::new(limiter.limit(service), "default");
    let start = Instant::now();
    let error = ask(&client, Method::GET, VOLUME, Value::Null)
        .await
        .unwrap_err();
    assert_eq!(start.elapsed(), TIMEOUT);
    assert!(
        Chain(&error).to_string().contains("within 30 s"),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn metrics_show_waits_refusals_and_the_limit() {
    let registry = Registry::new();
    let metrics = RateMetrics::new(&registry).unwrap();
    let api = with_volume();
    let limiter = Limiter::new(Rate::Adaptive, TIMEOUT, Some(metrics));
    let client = Client::new(limiter.limit(api.service()), "default");
    api.fault(Fault::on("PATCH", "*").times(1).too_many(3));
    write(&client, 1).await.unwrap();
    let text = registry.render();
    for line in [
        "csi_sidecar_kube_api_concurrency_limit 5",
        "csi_sidecar_kube_api_refused_total{lane=\"object\"} 1",
        "csi_sidecar_kube_api_refused_total{lane=\"lease\"} 0",
        "csi_sidecar_kube_api_requests_running{lane=\"object\"} 0",
        "csi_sidecar_kube_api_wait_seconds_count{lane=\"object\"} 2",
        "csi_sidecar_kube_api_wait_seconds_bucket{lane=\"object\",le=\"0.001\"} 1",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "one table")]
async fn n_24_requests_are_counted_as_client_go_does() {
    let registry = Registry::new();
    let metrics = RequestMetrics::new(&registry).unwrap();
    let api = with_volume();
    let limiter = Limiter::new(Rate::Adaptive, TIMEOUT, None);
    let limiter = limiter.counting(Some(metrics.to("10.96.0.1:443")));
    let client = Client::new(limiter.limit(api.service()), "default");
    api.fault(Fault::on("PATCH", "*").times(1).too_many(3));
    write(&client, 1).await.unwrap();
    let volume = ask(&client, Method::GET, VOLUME, Value::Null)
        .await
        .unwrap();
    let missing = "/api/v1/persistentvolumes/pv2";
    ask(&client, Method::GET, missing, Value::Null)
        .await
        .unwrap_err();
    let gate = Gate::new();
    api.fault(Fault::on("DELETE", "*").hold(&gate));
    ask(&client, Method::DELETE, VOLUME, Value::Null)
        .await
        .unwrap_err();
    let watch = "/api/v1/persistentvolumes?watch=true&resourceVersion=1";
    let request = Request::builder().uri(watch).body(Vec::new()).unwrap();
    let _watch = client.send(request.map(Body::from)).await.unwrap();

    let text = registry.render();
    let host = r#"host="10.96.0.1:443""#;
    let size = r#"{"metadata":{"annotations":{"n":"1"}}}"#.len();
    let answer = volume.to_string().len();
    assert!((256..512).contains(&answer), "{answer}");
    for line in [
        format!(r#"requests_total{{code="200",{host},method="GET"}} 2"#),
        format!(r#"requests_total{{code="404",{host},method="GET"}} 1"#),
        format!(r#"requests_total{{code="429",{host},method="PATCH"}} 1"#),
        format!(r#"requests_total{{code="200",{host},method="PATCH"}} 1"#),
        format!(r#"requests_total{{code="<error>",{host},method="DELETE"}} 1"#),
        format!(r#"request_retries_total{{code="200",{host},verb="PATCH"}} 1"#),
        // Both attempts and the pause between them.
        format!(r#"request_duration_seconds_bucket{{{host},verb="PATCH",le="2"}} 0"#),
        format!(r#"request_duration_seconds_bucket{{{host},verb="PATCH",le="4"}} 1"#),
        format!(r#"request_duration_seconds_count{{{host},verb="PATCH"}} 1"#),
        format!(r#"request_duration_seconds_sum{{{host},verb="DELETE"}} 30"#),
        // Without the watch.
        format!(r#"request_duration_seconds_count{{{host},verb="GET"}} 2"#),
        format!(r#"rate_limiter_duration_seconds_count{{{host},verb="PATCH"}} 2"#),
        format!(r#"rate_limiter_duration_seconds_count{{{host},verb="GET"}} 2"#),
        format!(
            r#"request_size_bytes_sum{{{host},verb="PATCH"}} {}"#,
            2 * size
        ),
        format!(r#"request_size_bytes_bucket{{{host},verb="GET",le="64"}} 2"#),
        format!(r#"response_size_bytes_count{{{host},verb="GET"}} 2"#),
        format!(r#"response_size_bytes_bucket{{{host},verb="PATCH",le="256"}} 0"#),
        format!(r#"response_size_bytes_bucket{{{host},verb="PATCH",le="512"}} 1"#),
    ] {
        assert!(
            text.contains(&format!("rest_client_{line}\n")),
            "no {line} in\n{text}"
        );
    }
    assert!(!text.contains(r#"response_size_bytes_count{host="10.96.0.1:443",verb="DELETE"}"#));
    for (name, help) in [
        (
            "requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
        ),
        (
            "request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
        ),
        (
            "rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
        ),
        (
            "request_size_bytes",
            "Request size in bytes. Broken down by verb and host.",
        ),
        (
            "response_size_bytes",
            "Response size in bytes. Broken down by verb and host.",
        ),
        (
            "request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host.",
        ),
    ] {
        let help = format!("# HELP rest_client_{name} [ALPHA] {help}\n");
        assert!(text.contains(&help), "no {help} in\n{text}");
    }
}
