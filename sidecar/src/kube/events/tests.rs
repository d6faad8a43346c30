use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sidecar_testkit::{FakeApi, Fault};
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::worker::QUIET;
use super::*;

fn about(name: &str) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "PersistentVolume".into(),
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        ..Reference::default()
    }
}

fn started(api: &FakeApi) -> (Recorder, JoinHandle<()>) {
    let source = Source {
        component: "external-attacher d".to_owned(),
        host: "host-a".to_owned(),
    };
    let (recorder, worker) = Recorder::new(api.client(), source);
    (recorder, tokio::spawn(worker.run()))
}

fn warn(recorder: &Recorder, name: &str, message: &str) {
    recorder.record(&about(name), Severity::Warning, "AttachFailed", message);
}

/// Waits until the worker has handled all recorded events.
async fn drained(recorder: Recorder, worker: JoinHandle<()>) {
    drop(recorder);
    worker.await.unwrap();
}

fn counts(api: &FakeApi) -> Vec<(String, i64)> {
    let events = api.objects("events");
    let count = |event: &Value| {
        let name = event["involvedObject"]["name"].as_str().unwrap().to_owned();
        (name, event["count"].as_i64().unwrap())
    };
    events.iter().map(count).collect()
}

#[tokio::test(start_paused = true)]
async fn repeated_events_are_counted_on_one_object() {
    let api = FakeApi::new();
    let (recorder, worker) = started(&api);
    for _ in 0..3 {
        warn(&recorder, "pv1", "boom");
    }
    let mut claim = about("claim");
    claim.kind = "PersistentVolumeClaim".into();
    claim.namespace = "apps".to_owned();
    recorder.record(&claim, Severity::Normal, "Attached", "ok");
    drained(recorder, worker).await;
    assert_eq!(
        counts(&api),
        [("claim".to_owned(), 1), ("pv1".to_owned(), 3)]
    );
    let methods: Vec<String> = { api.writes().into_iter() }
        .filter(|request| !request.path.contains("/apps/"))
        .map(|request| request.method.clone())
        .collect();
    assert_eq!(methods, ["POST", "PATCH", "PATCH"]);
    assert_eq!(api.objects("events")[0]["metadata"]["namespace"], "apps");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_forgot_is_written_anew() {
    let api = FakeApi::new();
    let (recorder, worker) = started(&api);
    warn(&recorder, "pv1", "boom");
    api.until(|api| !api.objects("events").is_empty()).await;
    let name = api.objects("events")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    api.remove("events", &format!("default/{name}"));
    warn(&recorder, "pv1", "boom");
    drained(recorder, worker).await;
    assert_eq!(counts(&api), [("pv1".to_owned(), 2)]);
}

/// Counts the error lines of the current thread.
#[derive(Clone, Default)]
struct Errors(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> Layer<S> for Errors {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::ERROR {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn forbidden(message: &str) -> String {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": message,
    });
    status.to_string()
}

fn denied() -> String {
    forbidden(
        "events is forbidden: User \"system:serviceaccount:d:d\" cannot create resource \"events\" in API \
         group \"\" in the namespace \"default\"",
    )
}

#[tokio::test(start_paused = true)]
async fn e_10_an_event_that_is_refused_for_itself_silences_no_other() {
    for why in [
        "events \"pv1.1\" is forbidden: exceeded quota: few, requested: count/events=1",
        "admission webhook \"policy.example\" denied the request: no User may say so",
        "events \"pv1.1\" is forbidden: unable to create new content in namespace default because it is \
         being terminated",
    ] {
        let api = FakeApi::new();
        let refused = Fault::on("POST", "*/events").times(2);
        api.fault(refused.answer_raw(403, &forbidden(why)));
        let (recorder, worker) = started(&api);
        for name in ["pv1", "pv2", "pv3", "pv4"] {
            warn(&recorder, name, "boom");
        }
        drained(recorder, worker).await;
        let told = ["pv3", "pv4"].map(|name| (name.to_owned(), 1));
        assert_eq!(
            (counts(&api), api.requests().len()),
            (told.to_vec(), 4),
            "{why}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn row_62_where_events_are_forbidden_one_line_says_so_and_the_server_is_left_alone() {
    let errors = Errors::default();
    let _guard = tracing_subscriber::registry()
        .with(errors.clone())
        .set_default();
    let api = FakeApi::new();
    let forbidden = api.fault(Fault::on("POST", "*/events").answer_raw(403, &denied()));
    let (recorder, worker) = started(&api);
    for number in 0..20 {
        warn(&recorder, &format!("pv{number}"), "boom");
    }
    api.until(|api| !api.requests().is_empty()).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(forbidden.hits(), 1);
    forbidden.remove();
    sleep(QUIET).await;
    warn(&recorder, "pv99", "boom");
    let again = Fault::on("POST", "*/events").skip(1);
    let again = api.fault(again.answer_raw(403, &denied()));
    api.until(|api| !api.objects("events").is_empty()).await;
    warn(&recorder, "pv98", "boom");
    drained(recorder, worker).await;
    assert_eq!(counts(&api), [("pv99".to_owned(), 1)]);
    assert_eq!(again.hits(), 1);
    assert_eq!(errors.0.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_tried_again_and_a_lost_answer_makes_no_twin() {
    let api = FakeApi::new();
    api.fault(Fault::on("POST", "*/events").times(1).drop_connection());
    api.fault(Fault::on("POST", "*/events").times(1).lose_reply());
    let (recorder, worker) = started(&api);
    warn(&recorder, "pv1", "boom");
    drained(recorder, worker).await;
    assert_eq!(counts(&api), [("pv1".to_owned(), 1)]);
    assert_eq!(api.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_is_given_up() {
    let api = FakeApi::new();
    api.set_down(true);
    let (recorder, worker) = started(&api);
    warn(&recorder, "pv1", "boom");
    drained(recorder, worker).await;
    assert_eq!(api.requests().len(), 4);
}

fn tell(recorder: &Recorder, number: usize, reason: &'static str) {
    recorder.record(&about(&format!("c{number}")), Severity::Normal, reason, "");
}

/// Number of events with this reason.
fn reasons(api: &FakeApi, reason: &str) -> usize {
    let events = api.objects("events");
    events
        .iter()
        .filter(|event| event["reason"] == reason)
        .count()
}

#[tokio::test(start_paused = true)]
async fn fp_8_and_fr_16_what_a_thousand_objects_tell_is_written_while_it_happens() {
    let api = FakeApi::new();
    // The latency of a server with much other work.
    api.fault(Fault::on("POST", "*/events").delay(Duration::from_millis(20)));
    let (recorder, worker) = started(&api);
    // A hundred workers; they finish 76 objects per second, as measured.
    let (count, workers) = (1000, 100);
    for number in 0..count + workers {
        if number < count {
            tell(&recorder, number, "Provisioning");
        }
        if let Some(done) = number.checked_sub(workers) {
            tell(&recorder, done, "ProvisioningSucceeded");
            sleep(Duration::from_secs(1) / 76).await;
        }
    }
    let done = reasons(&api, "ProvisioningSucceeded");
    let all = api.objects("events").len();
    // Upstream's share is 1.68 for each.
    assert!(all >= 1680 && done >= 990, "{all}, {done}");
    drained(recorder, worker).await;
    assert_eq!(reasons(&api, "ProvisioningSucceeded"), count);
}

#[tokio::test(start_paused = true)]
async fn fp_8_what_went_wrong_is_written_next_however_much_waits() {
    let api = FakeApi::new();
    api.fault(Fault::on("POST", "*/events").delay(Duration::from_millis(200)));
    let (recorder, worker) = started(&api);
    for number in 0..5000 {
        tell(&recorder, number, "Provisioning");
    }
    sleep(Duration::from_secs(1)).await;
    warn(&recorder, "pv1", "boom");
    sleep(Duration::from_millis(500)).await;
    assert_eq!(reasons(&api, "AttachFailed"), 1);
    for number in 0..1000 {
        tell(&recorder, number, "ProvisioningSucceeded");
    }
    drained(recorder, worker).await;
    assert_eq!(reasons(&api, "ProvisioningSucceeded"), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_trouble_is_asked_for_one_at_a_time() {
    let api = FakeApi::new();
    api.fault(Fault::on("POST", "*/events").delay(Duration::from_secs(1)));
    let (recorder, worker) = started(&api);
    for number in 0..50 {
        tell(&recorder, number, "Provisioning");
    }
    let running = || {
        let requests = api.requests();
        requests
            .iter()
            .filter(|request| request.status.is_none())
            .count()
    };
    sleep(Duration::from_millis(500)).await;
    assert_eq!(running(), 1, "nothing is known of the server yet");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(running(), 4);
    let broken = api.fault(Fault::on("POST", "*/events").answer(422));
    sleep(Duration::from_secs(2)).await;
    broken.remove();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(running(), 1);
    drop(recorder);
    worker.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits() {
    let api = FakeApi::new();
    api.fault(Fault::on("POST", "*").hang());
    let (recorder, worker) = started(&api);
    let start = Instant::now();
    for number in 0..10_000 {
        warn(&recorder, &format!("pv{number}"), "boom");
    }
    tokio::task::yield_now().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    worker.abort();
    warn(&Recorder::disabled(), "pv1", "boom");
}

#[tokio::test(start_paused = true)]
async fn fa_10_a_drivers_words_show_what_they_are() {
    let api = FakeApi::new();
    let (recorder, worker) = started(&api);
    warn(&recorder, "pv1", "no\u{202e}ecaps \u{1b}[2J 容量\n\tat y");
    drained(recorder, worker).await;
    let events = api.objects("events");
    assert_eq!(events[0]["message"], "no\\u202eecaps \\x1b[2J 容量\n\tat y");
}
