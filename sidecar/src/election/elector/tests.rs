use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use sidecar_testkit::api::FakeApi;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::api::fault::Fault;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::*;
use crate::duration::GoDuration;
use crate::kube::rate::{Limiter, Rate};
use crate::metrics::Registry;
use crate::names::{self, LeaseOwner};

const S: Duration = Duration::from_secs(1);
const NAME: &str = "external-attacher-leader-test-csi-driver";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";

type Events = Arc<Mutex<Vec<String>>>;

fn timing(lease: i64, renew: i64, retry: i64) -> Timing {
    let seconds = GoDuration::from_secs;
    Timing::new(seconds(lease), seconds(renew), seconds(retry)).unwrap()
}

fn config(identity: &str, timing: Timing) -> (Config, Events) {
    let events = Events::default();
    let config = Config {
        namespace: "ns".to_owned(),
        name: names::lease(LeaseOwner::Attacher, "test.csi.driver"),
        identity: identity.to_owned(),
        timing,
        labels: Labels::new(),
        succeeds: None,
        shown: String::new(),
        metrics: None,
        fence: Fence::default(),
        on_event: Box::new({
            let events = Arc::clone(&events);
            move |text| events.lock().unwrap().push(text.to_owned())
        }),
    };
    (config, events)
}

fn elector(api: &FakeApi, identity: &str) -> Elector {
    Elector::new(api.client(), config(identity, timing(15, 10, 5)).0)
}

fn stored(api: &FakeApi) -> Value {
    api.object("leases", &format!("ns/{NAME}"))
        .expect("there is a lease")
}

fn insert(api: &FakeApi, spec: Value, labels: Value) {
    api.insert(json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "ns", "name": NAME, "labels": labels},
        "spec": spec,
    }));
}

fn methods(api: &FakeApi) -> Vec<String> {
    api.requests()
        .into_iter()
        .map(|request| request.method)
        .collect()
}

/// Leads in the background until the returned task ends.
fn lead(mut elector: Elector) -> JoinHandle<Lost> {
    tokio::spawn(async move { elector.lead().await })
}

#[tokio::test(start_paused = true)]
async fn row_49_a_lease_is_read_created_and_renewed() {
    let api = FakeApi::new();
    let (config, events) = config("host-a", timing(15, 10, 5));
    let mut elector = Elector::new(api.client(), config);
    elector.acquire().await;
    assert_eq!(*events.lock().unwrap(), ["host-a became leader"], "row 63");
    let leading = lead(elector);
    sleep(S).await;
    assert_eq!(methods(&api), ["GET", "POST", "PUT"]);
    let lease = stored(&api);
    assert_eq!(
        lease["metadata"]["name"],
        "external-attacher-leader-test-csi-driver"
    );
    assert_eq!(lease["spec"]["holderIdentity"], "host-a");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
    let time = lease["spec"]["renewTime"].as_str().unwrap();
    assert_eq!(
        (time.len(), &time[19..20], &time[26..]),
        (27, ".", "Z"),
        "{time}"
    );
    sleep(60 * S).await;
    assert_eq!(methods(&api).len(), 3 + 12, "a PUT every five seconds");
    assert!(!leading.is_finished());
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn row_55_labels_are_merged_into_those_of_the_lease() {
    let api = FakeApi::new();
    insert(&api, json!({}), json!({"keep": "me"}));
    let (mut config, _) = config("host-a", timing(15, 10, 5));
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    config.labels = vec![label("a", "b"), label("c", "d")];
    Elector::new(api.client(), config).acquire().await;
    assert_eq!(
        stored(&api)["metadata"]["labels"],
        json!({"a": "b", "c": "d", "keep": "me"})
    );
}

#[tokio::test(start_paused = true)]
async fn row_57_a_silent_holders_lease_is_taken_after_its_own_duration() {
    let api = FakeApi::new();
    let spec = json!({
        "holderIdentity": "host-b", "leaseDurationSeconds": 4, "leaseTransitions": 7,
        "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.000000Z",
    });
    insert(&api, spec, json!({}));
    let start = Instant::now();
    let mut elector = elector(&api, "host-a");
    elector.acquire().await;
    assert!(
        start.elapsed() >= 4 * S && start.elapsed() <= 12 * S,
        "{:?}",
        start.elapsed()
    );
    assert_eq!(stored(&api)["spec"]["leaseTransitions"], 8);
    assert_eq!(stored(&api)["spec"]["holderIdentity"], "host-a");
}

#[tokio::test(start_paused = true)]
async fn rows_58_and_58b_a_free_lease_and_ones_own_are_taken_at_once() {
    let then = "2020-01-01T00:00:00.000000Z";
    for (holder, transitions) in [("", 8), ("host-a", 7)] {
        let api = FakeApi::new();
        let spec = json!({
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 7,
            "acquireTime": then, "renewTime": then,
        });
        insert(&api, spec, json!({}));
        let start = Instant::now();
        elector(&api, "host-a").acquire().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        let spec = &stored(&api)["spec"];
        assert_eq!(spec["leaseTransitions"], transitions);
        assert_eq!(spec["acquireTime"] == then, holder == "host-a");
        assert_ne!(spec["renewTime"], then);
    }
}

#[tokio::test(start_paused = true)]
async fn fs_9_the_fence_is_open_as_long_as_the_lease_is_renewed_and_no_longer() {
    let api = FakeApi::new();
    let (config, _) = config("host-a", timing(15, 10, 5));
    let fence = config.fence.clone();
    let mut elector = Elector::new(api.client(), config);
    assert!(fence.poll_send().is_ready(), "a standby asks the driver");
    elector.acquire().await;
    for _ in 0..10 {
        assert_eq!(timeout(20 * S, elector.lead()).await.ok(), None);
        assert!(fence.poll_send().is_ready());
    }
    // From here on the elector does not run, as if the whole process were stopped.
    let renewed = api.requests_to("PUT", "*").last().unwrap().at;
    tokio::time::sleep_until(renewed + Duration::from_millis(13_499)).await;
    assert!(fence.poll_send().is_ready());
    sleep(Duration::from_millis(1)).await;
    assert!(fence.poll_send().is_pending());
    api.clear_requests();
    let lost = Lost::NotRenewed(Duration::from_millis(13_500));
    assert_eq!(elector.lead().await, lost);
    assert!(api.requests().is_empty());
    assert!(fence.poll_send().is_pending(), "for good");
}

#[tokio::test(start_paused = true)]
async fn fs_9_what_would_be_sent_after_the_machine_was_suspended_ends_leadership() {
    let api = FakeApi::new();
    let (config, _) = config("host-a", timing(15, 10, 5));
    let fence = config.fence.clone();
    let mut elector = Elector::new(api.client(), config);
    elector.acquire().await;
    let leading = lead(elector);
    sleep(S).await;
    crate::clock::testing::SUSPENDED.set(600 * S);
    let start = Instant::now();
    assert!(fence.poll_send().is_pending());
    assert!(matches!(leading.await.unwrap(), Lost::NotRenewed(age) if age >= 600 * S));
    assert_eq!(start.elapsed(), Duration::ZERO, "no timer has to run");
}

#[tokio::test(start_paused = true)]
async fn fs_5_a_standby_that_ends_did_not_stop_leading() {
    let api = FakeApi::new();
    insert(
        &api,
        json!({"holderIdentity": "host-b", "leaseDurationSeconds": 60}),
        json!({}),
    );
    let (config, events) = config("host-a", timing(15, 10, 5));
    let mut standby = Elector::new(api.client(), config);
    assert!(timeout(20 * S, standby.acquire()).await.is_err());
    api.clear_requests();
    standby.release().await;
    assert_eq!(*events.lock().unwrap(), [""; 0]);
    assert!(api.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn row_61_a_leader_that_cannot_renew_stops_leading() {
    let api = FakeApi::new();
    let (config, events) = config("host-a", timing(4, 3, 1));
    let mut elector = Elector::new(api.client(), config);
    elector.acquire().await;
    let leading = lead(elector);
    sleep(10 * S).await;
    let renewed = api.requests_to("PUT", "*").last().unwrap().at;
    api.set_down(true);
    assert!(matches!(leading.await.unwrap(), Lost::NotRenewed(_)));
    let silent = renewed.elapsed();
    assert!(silent >= 3 * S && silent < 4 * S, "{silent:?}");
    assert_eq!(
        *events.lock().unwrap(),
        ["host-a became leader", "host-a stopped leading"]
    );
}

#[tokio::test(start_paused = true)]
async fn requests_that_hang_do_not_hold_leadership_beyond_its_end() {
    let api = FakeApi::new();
    let mut elector = elector(&api, "host-a");
    elector.acquire().await;
    let leading = lead(elector);
    sleep(11 * S).await;
    let renewed = api.requests_to("PUT", "*").last().unwrap().at;
    api.fault(Fault::on("*", "*").hang());
    leading.await.unwrap();
    assert_eq!(renewed.elapsed(), Duration::from_millis(13_500));
    let tried = api
        .requests()
        .iter()
        .filter(|request| request.at > renewed)
        .count();
    assert_eq!(tried, 2, "one hanging request is not the only attempt");
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_does_not_end_leadership() {
    let api = FakeApi::new();
    let mut elector = elector(&api, "host-a");
    elector.acquire().await;
    let leading = lead(elector);
    for _ in 0..10 {
        sleep(20 * S).await;
        api.set_down(true);
        sleep(8 * S).await;
        api.set_down(false);
    }
    assert!(!leading.is_finished());
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_settled_by_reading_again_and_counted() {
    let api = FakeApi::new();
    let registry = Registry::new();
    let (mut config, _) = config("host-a", timing(15, 10, 5));
    config.metrics = Some(ElectionMetrics::new(&registry).unwrap());
    let mut elector = Elector::new(api.client(), config);
    assert!(
        registry
            .render()
            .contains("leader_election_master_status{name=\"\"} 0\n")
    );
    elector.acquire().await;
    assert!(
        registry
            .render()
            .contains("leader_election_master_status{name=\"\"} 1\n")
    );
    let leading = lead(elector);
    sleep(S).await;
    api.edit("leases", &format!("ns/{NAME}"), |lease| {
        lease["metadata"]["annotations"] = json!({"somebody": "was here"});
    });
    api.clear_requests();
    sleep(5 * S).await;
    assert_eq!(methods(&api), ["PUT", "GET", "PUT"]);
    assert_eq!(
        stored(&api)["metadata"]["annotations"]["somebody"],
        "was here"
    );
    assert!(
        registry
            .render()
            .contains("leader_election_slowpath_total{name=\"\"} 1\n")
    );
    assert!(!leading.is_finished());
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_was_lost_does_no_harm() {
    let api = FakeApi::new();
    let mut elector = elector(&api, "host-a");
    elector.acquire().await;
    let leading = lead(elector);
    sleep(S).await;
    api.fault(Fault::on("PUT", "*").times(1).lose_reply());
    sleep(60 * S).await;
    assert!(!leading.is_finished());
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_is_made_anew() {
    let api = FakeApi::new();
    let mut elector = elector(&api, "host-a");
    elector.acquire().await;
    let leading = lead(elector);
    sleep(S).await;
    api.remove("leases", &format!("ns/{NAME}"));
    sleep(5 * S).await;
    assert_eq!(stored(&api)["spec"]["holderIdentity"], "host-a");
    assert!(!leading.is_finished());
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_name_in_the_lease_ends_leadership() {
    let api = FakeApi::new();
    let mut elector = elector(&api, "host-a");
    elector.acquire().await;
    let leading = lead(elector);
    sleep(S).await;
    api.edit("leases", &format!("ns/{NAME}"), |lease| {
        lease["spec"]["holderIdentity"] = json!("host-b");
    });
    let start = Instant::now();
    assert_eq!(leading.await.unwrap(), Lost::TakenBy("host-b".to_owned()));
    assert!(start.elapsed() <= 5 * S);
    assert_eq!(
        stored(&api)["spec"]["holderIdentity"],
        "host-b",
        "it is left alone"
    );
}

#[tokio::test(start_paused = true)]
async fn leadership_that_was_lost_can_be_acquired_again() {
    let api = FakeApi::new();
    let mut elector = elector(&api, "host-a");
    elector.acquire().await;
    api.set_down(true);
    elector.lead().await;
    api.set_down(false);
    timeout(20 * S, elector.acquire()).await.unwrap();
    assert_eq!(timeout(60 * S, elector.lead()).await.ok(), None);
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_when_the_leader_dies() {
    let api = FakeApi::new();
    let mut first = elector(&api, "host-a");
    first.acquire().await;
    let leading = lead(first);
    let standby = tokio::spawn({
        let mut second = elector(&api, "host-b");
        async move {
            second.acquire().await;
            Instant::now()
        }
    });
    sleep(60 * S).await;
    assert!(!standby.is_finished());
    let renewed = api.requests_to("PUT", "*").last().unwrap().at;
    leading.abort();
    let took = standby.await.unwrap() - renewed;
    assert!(took >= 15 * S && took <= (15 + 22) * S, "{took:?}");
    assert_eq!(stored(&api)["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn row_67_a_released_lease_is_taken_over_without_waiting_for_its_end() {
    let api = FakeApi::new();
    let mut first = elector(&api, "host-a");
    first.acquire().await;
    let health = first.health();
    assert_eq!(timeout(30 * S, first.lead()).await.ok(), None);
    first.release().await;
    let spec = stored(&api)["spec"].clone();
    assert_eq!(spec["holderIdentity"], "");
    assert_eq!(spec["leaseDurationSeconds"], 1);
    assert_eq!(spec["leaseTransitions"], 0);
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    sleep(300 * S).await;
    assert_eq!(health.problem(now()), None, "no leader any more");
    let start = Instant::now();
    elector(&api, "host-b").acquire().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(stored(&api)["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_meets_its_own_unfinished_renewal_and_a_dead_server() {
    let api = FakeApi::new();
    let mut elector = elector(&api, "host-a");
    elector.acquire().await;
    api.fault(Fault::on("PUT", "*").times(1).lose_reply());
    assert_eq!(timeout(S, elector.lead()).await.ok(), None);
    elector.release().await;
    assert_eq!(stored(&api)["spec"]["holderIdentity"], "");

    let mut elector = self::elector(&api, "host-a");
    elector.acquire().await;
    api.fault(Fault::on("*", "*").hang());
    let start = Instant::now();
    elector.release().await;
    assert!(start.elapsed() <= 5 * S);
    assert_eq!(stored(&api)["spec"]["holderIdentity"], "host-a");
}

// Rows 64, 65 and 66
#[tokio::test(start_paused = true)]
async fn health_of_standby_leader_and_stuck_leader() {
    let api = FakeApi::new();
    let mut first = elector(&api, "host-a");
    let health = first.health();
    assert_eq!(health.problem(now()), None);
    first.acquire().await;
    assert_eq!(timeout(100 * S, first.lead()).await.ok(), None);
    assert_eq!(health.problem(now()), None);
    // The renewing task is stuck from here on.
    sleep(30 * S).await;
    assert_eq!(health.problem(now()), None);
    sleep(6 * S).await;
    let problem = health.problem(now()).unwrap();
    assert!(problem.starts_with("failed election to renew leadership on lease"));
}

#[tokio::test(start_paused = true)]
async fn without_permission_a_standby_keeps_asking() {
    let api = FakeApi::new();
    api.allow_only([]);
    let mut elector = elector(&api, "host-a");
    assert!(timeout(100 * S, elector.acquire()).await.is_err());
    let asked = api.requests().len();
    assert!((9..=20).contains(&asked), "{asked}");
    api.allow_only([Allow::new(
        "coordination.k8s.io",
        "leases",
        "get,create,update",
    )]);
    timeout(11 * S, elector.acquire()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn senseless_answers_are_failures() {
    for body in ["", "nonsense", "[]", "null", "7"] {
        let api = FakeApi::new();
        api.fault(
            Fault::on("GET", &format!("{LEASES}/*"))
                .times(3)
                .answer_raw(200, body),
        );
        let start = Instant::now();
        elector(&api, "host-a").acquire().await;
        assert!(start.elapsed() >= 15 * S, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_standbys_that_see_no_lease_end_up_with_one_leader() {
    let api = FakeApi::new();
    let electors = ["host-a", "host-b"].map(|name| {
        let mut elector = elector(&api, name);
        tokio::spawn(async move {
            elector.acquire().await;
            elector.lead().await
        })
    });
    sleep(120 * S).await;
    let holders: std::collections::BTreeSet<String> = api
        .writes()
        .iter()
        .filter(|request| request.status.is_some_and(|status| status < 300))
        .map(|request| {
            request.body["spec"]["holderIdentity"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(holders.len(), 1, "{holders:?}");
    electors.iter().for_each(JoinHandle::abort);
}
#[tokio::test(start_paused = true)]
async fn row_68_renewals_are_on_time_while_the_controllers_client_is_saturated() {
    let api = FakeApi::new();
    let rate = Rate::new(0.2, 10).unwrap();
    let client = || {
        let limiter = Limiter::new(rate, 30 * S, None);
        ::kube::Client::new(limiter.limit(api.service()), "default")
    };
    let controllers = client();
    let busy: Vec<_> = (0..200)
        .map(|_| {
            let controllers = controllers.clone();
            tokio::spawn(async move {
                let request = Request::get("/api/v1/nodes").body(Vec::new()).unwrap();
                let _answer = controllers.request_text(request).await;
            })
        })
        .collect();
    let mut elector = Elector::new(client(), config("host-a", timing(15, 10, 5)).0);
    elector.acquire().await;
    let leading = lead(elector);
    sleep(300 * S).await;
    let renewals = api.requests_to("PUT", "*");
    assert!(
        renewals
            .windows(2)
            .all(|pair| pair[1].at - pair[0].at <= 6 * S)
    );
    assert!(renewals.len() >= 58, "{}", renewals.len());
    assert!(
        busy.iter().any(|request| !request.is_finished()),
        "still saturated"
    );
    assert!(!leading.is_finished());
    leading.abort();
    busy.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn an_elector_that_is_dropped_does_not_lead() {
    let api = FakeApi::new();
    let registry = Registry::new();
    let metrics = ElectionMetrics::new(&registry).unwrap();
    let (mut config, _) = config("host-a", timing(15, 10, 5));
    config.metrics = Some(metrics.named("l"));
    let fence = config.fence.clone();
    let mut elector = Elector::new(api.client(), config);
    let health = elector.health();
    elector.acquire().await;
    assert!(fence.poll_send().is_ready());
    assert!(
        registry
            .render()
            .contains("leader_election_master_status{name=\"l\"} 1")
    );
    drop(elector);
    assert!(fence.poll_send().is_pending());
    assert!(
        registry
            .render()
            .contains("leader_election_master_status{name=\"l\"} 0")
    );
    sleep(100 * S).await;
    assert_eq!(health.problem(now()), None);
}
