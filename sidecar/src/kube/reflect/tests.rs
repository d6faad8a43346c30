use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sidecar_testkit::api::FakeApi;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::api::fault::Fault;
use sidecar_testkit::build::csinode;
use tokio::task::JoinHandle;

use super::*;

mod outcomes;

use crate::controller::watch::{Watch, keep};
use crate::kube::cache::{Cache, Event, Record, Source};
use crate::kube::feed::Feeds;
use crate::kube::interner::Interner;
use crate::kube::lean::{Meta, Object, Text, nullable};
use crate::kube::rate::{Limiter, Rate};

const S: Duration = Duration::from_secs(1);
const CSINODES: &str = "/apis/storage.k8s.io/v1/csinodes";

// Number of live records of the test in this thread: tokio's tests use one thread.
thread_local! {
    static ALIVE: AtomicUsize = const { AtomicUsize::new(0) };
    static MOST: AtomicUsize = const { AtomicUsize::new(0) };
}

fn alive() -> usize {
    ALIVE.with(|alive| alive.load(Ordering::Relaxed))
}

fn most_alive() -> usize {
    MOST.with(|most| most.load(Ordering::Relaxed))
}

/// The drivers of a CSINode.
struct Drivers(String);

impl Drivers {
    fn counted(names: String) -> Self {
        let now = ALIVE.with(|alive| alive.fetch_add(1, Ordering::Relaxed)) + 1;
        MOST.with(|most| most.fetch_max(now, Ordering::Relaxed));
        Self(names)
    }
}

impl Drop for Drivers {
    fn drop(&mut self) {
        ALIVE.with(|alive| alive.fetch_sub(1, Ordering::Relaxed));
    }
}

#[derive(serde::Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    spec: Spec<'a>,
}

#[derive(serde::Deserialize, Default)]
struct Spec<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    drivers: Vec<Driver<'a>>,
}

#[derive(serde::Deserialize)]
struct Driver<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
}

impl Object for Wire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}

impl Record for Drivers {
    type Wire<'a> = Wire<'a>;

    fn from_wire(wire: Wire<'_>, _strings: &Interner) -> Option<Self> {
        let names = wire
            .spec
            .drivers
            .iter()
            .filter_map(|driver| driver.name.as_deref());
        Some(Self::counted(names.collect::<Vec<_>>().join(",")))
    }
}

struct World {
    api: FakeApi,
    cache: Cache<Drivers>,
    told: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<Infallible>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn start(api: &FakeApi) -> World {
    start_with(api, None, false)
}

fn start_with(api: &FakeApi, resync: Option<Duration>, relist: bool) -> World {
    start_from(api, api.client(), resync, relist)
}

fn start_behind(api: &FakeApi, limiter: Limiter) -> World {
    let client = Client::new(limiter.limit(api.service()), "default");
    start_from(api, client, None, false)
}

fn start_from(api: &FakeApi, client: Client, resync: Option<Duration>, relist: bool) -> World {
    let told = Arc::<Mutex<Vec<String>>>::default();
    let cache = Cache::new(Interner::default(), {
        let told = Arc::clone(&told);
        move |event: Event<'_, Drivers>| {
            told.lock().unwrap().push(match event {
                Event::Upserted {
                    key,
                    old: None,
                    new,
                    ..
                } => format!("{key} is {}", new.0),
                Event::Upserted {
                    key,
                    old: Some(_),
                    new,
                    source: Source::Watch,
                } => {
                    format!("{key} became {}", new.0)
                }
                Event::Upserted {
                    key,
                    new,
                    source: Source::Own,
                    ..
                } => {
                    format!("{key} was made {}", new.0)
                }
                Event::Deleted { key, .. } => format!("{key} gone"),
                Event::Resync { key, .. } => format!("{key} resync"),
            });
        }
    });
    let scope = Scope {
        relist,
        ..Scope::all(Resource::new("storage.k8s.io", "v1", "csinodes"))
    };
    let watch: Watch = Watch::of(scope, &cache).resync(resync.unwrap_or_default());
    let feeds = Feeds::new(client, Duration::ZERO);
    let task = tokio::spawn(async move { keep(&feeds, &[watch]).await });
    World {
        api: api.clone(),
        cache,
        told,
        task,
    }
}

impl World {
    fn told(&self) -> Vec<String> {
        let mut told = std::mem::take(&mut *self.told.lock().unwrap());
        told.sort();
        told
    }

    fn cached(&self) -> BTreeMap<String, String> {
        let mut cached = BTreeMap::new();
        self.cache.for_each(|key, record| {
            cached.insert(key.to_string(), record.0.clone());
        });
        cached
    }

    /// Waits until the cache equals the server's state, for a minute at most.
    async fn in_step(&self) {
        for _ in 0..600 {
            if self.cache.is_synced() && self.cached() == truth(&self.api) {
                return;
            }
            sleep(S / 10).await;
        }
        assert_eq!(
            self.cached(),
            truth(&self.api),
            "not in step after a minute"
        );
    }

    fn lists(&self) -> usize {
        self.api
            .requests_to("GET", CSINODES)
            .iter()
            .filter(|request| !request.is_watch())
            .count()
    }

    fn streams(&self) -> usize {
        let requests = self.api.requests_to("GET", CSINODES);
        let streams = |request: &&_| !is_plain_watch(request);
        { requests.iter() }
            .filter(|request| request.is_watch())
            .filter(streams)
            .count()
    }

    fn watches(&self) -> usize {
        self.api
            .requests_to("GET", CSINODES)
            .iter()
            .filter(|request| request.is_watch())
            .count()
    }
}

fn truth(api: &FakeApi) -> BTreeMap<String, String> {
    let name = |object: &serde_json::Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let drivers = |object: &serde_json::Value| {
        // An empty list is null on the wire.
        let drivers = object["spec"]["drivers"].as_array();
        let names = drivers
            .into_iter()
            .flatten()
            .map(|driver| driver["name"].as_str().unwrap());
        names.collect::<Vec<_>>().join(",")
    };
    api.objects("csinodes")
        .iter()
        .map(|object| (name(object), drivers(object)))
        .collect()
}

fn server(nodes: usize) -> FakeApi {
    let api = FakeApi::new();
    for number in 0..nodes {
        api.insert(csinode(&format!("n{number:04}")).driver("d", "id"));
    }
    api
}

fn streaming(nodes: usize) -> FakeApi {
    let api = server(nodes);
    api.allow_streaming_lists();
    api
}

// Row 89
#[tokio::test(start_paused = true)]
async fn lists_in_pages_and_watches_where_streaming_is_refused() {
    let world = start(&server(250));
    world.in_step().await;
    assert_eq!((world.cache.len(), world.told().len()), (250, 250));
    assert_eq!(
        (world.lists(), world.watches()),
        (3, 2),
        "one watch was the refused stream"
    );
    world.api.insert(csinode("n0001").driver("other", "id"));
    world.api.insert(csinode("new"));
    world.api.remove("csinodes", "n0002");
    world.in_step().await;
    assert_eq!(
        world.told(),
        ["n0001 became other", "n0002 gone", "new is "]
    );
    assert_eq!((world.lists(), world.watches()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn streams_where_the_server_can() {
    let world = start(&streaming(250));
    world.cache.synced().await;
    assert_eq!(world.cache.len(), 250, "complete when synced");
    assert_eq!((world.lists(), world.watches()), (0, 1));
    world.api.insert(csinode("new"));
    world.in_step().await;
    assert_eq!(
        (world.lists(), world.watches()),
        (0, 1),
        "the stream goes on as the watch"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_or_breaks_goes_on_where_it_was() {
    for api in [server(3), streaming(3)] {
        let world = start(&api);
        world.in_step().await;
        let lists = (world.lists(), world.told().len()).0;
        for round in 0..3 {
            sleep(60 * S).await;
            if round == 1 {
                api.break_watches()
            } else {
                api.close_watches()
            }
            api.insert(csinode(&format!("m{round}")));
            world.in_step().await;
            assert_eq!(world.told(), [format!("m{round} is ")]);
        }
        assert_eq!(world.lists(), lists);
    }
}

#[tokio::test(start_paused = true)]
async fn fs_19_a_cache_is_not_current_while_its_watch_is_known_to_be_broken() {
    for (api, relist) in [server(3), streaming(3)].into_iter().zip([false, true]) {
        let world = start_with(&api, None, relist);
        world.in_step().await;
        world.cache.current().await;
        api.set_down(true);
        sleep(S / 10).await;
        assert!(world.cache.is_synced() && !world.cache.is_current());
        api.insert(csinode("m"));
        sleep(60 * S).await;
        assert!(!world.cache.is_current());
        api.set_down(false);
        world.cache.current().await;
        assert_eq!(world.cached(), truth(&api), "what was missed comes before");
    }
}

#[tokio::test(start_paused = true)]
async fn fs_19_what_a_broken_watch_missed_is_listed_where_that_matters() {
    for api in [server(3), streaming(3)] {
        let world = start_with(&api, None, true);
        world.cache.current().await;
        let asked = world.lists() + world.streams();
        sleep(60 * S).await;
        api.close_watches();
        sleep(2 * S).await;
        assert!(!world.cache.is_current(), "it may still be on its way");
        world.cache.current().await;
        assert_eq!(world.lists() + world.streams(), asked, "a bookmark says so");
        // The watch is open again, and has not reported the changes that it missed.
        api.hold_watches("csinodes");
        api.break_watches();
        api.insert(csinode("m"));
        while world.cache.is_current() {
            sleep(S / 100).await;
        }
        world.cache.current().await;
        assert_eq!(world.cached(), truth(&api));
        assert!(world.lists() + world.streams() > asked);
        api.release_watches("csinodes");
    }
}

#[tokio::test(start_paused = true)]
async fn fs_19_a_watch_that_stayed_away_for_long_is_not_resumed_where_that_matters() {
    let api = streaming(3);
    let world = start_with(&api, None, true);
    world.cache.current().await;
    sleep(60 * S).await;
    let gate = sidecar_testkit::Gate::new();
    let held = Fault::on("GET", CSINODES).when(is_plain_watch).times(1);
    api.fault(held.hold(&gate));
    api.close_watches();
    sleep(20 * S).await;
    assert!(!world.cache.is_current());
    let streams = world.streams();
    gate.open();
    world.cache.current().await;
    assert_eq!(world.streams(), streams + 1);
    sleep(60 * S).await;
    assert_eq!(world.streams(), streams + 1, "once");
}

#[tokio::test(start_paused = true)]
async fn e_12_a_resumed_watch_is_current_with_a_bookmark_and_not_before() {
    for relist in [false, true] {
        let api = streaming(3);
        let world = start_with(&api, None, relist);
        world.cache.current().await;
        sleep(60 * S).await;
        // The watch is open, and reports late.
        api.hold_watches("csinodes");
        api.close_watches();
        api.insert(csinode("m"));
        sleep(30 * S).await;
        assert!(!world.cache.is_current() && world.cached() != truth(&api));
        api.release_watches("csinodes");
        world.cache.current().await;
        assert_eq!((world.cached(), world.streams()), (truth(&api), 1));
        // Where missed changes matter, a list brings them sooner, if the last one was long ago.
        sleep(200 * S).await;
        let streams = world.streams();
        api.close_watches();
        sleep(2 * S).await;
        assert_eq!(world.cache.is_current(), relist);
        assert_eq!(world.streams(), streams + usize::from(relist));
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_means_a_relist_that_tells_only_what_changed() {
    for api in [server(150), streaming(150)] {
        let world = start(&api);
        world.in_step().await;
        world.told();
        api.hold_watches("csinodes");
        api.insert(csinode("n0003").driver("x", "id"));
        api.remove("csinodes", "n0004");
        api.insert(csinode("new"));
        api.expire_watches();
        api.release_watches("csinodes");
        world.in_step().await;
        assert_eq!(world.told(), ["n0003 became x", "n0004 gone", "new is "]);
    }
}

#[tokio::test(start_paused = true)]
async fn relists_never_hold_two_copies() {
    for api in [server(300), streaming(300)] {
        let world = start(&api);
        world.in_step().await;
        for _ in 0..10 {
            sleep(60 * S).await;
            api.expire_watches();
            sleep(60 * S).await;
            world.in_step().await;
        }
        assert_eq!(alive(), 300);
        assert!(most_alive() <= 302, "{} records at once", most_alive());
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_given_the_time_it_asks_for() {
    let api = server(3);
    api.fault(Fault::on("GET", CSINODES).times(2).too_many(20));
    let start_time = Instant::now();
    let world = start(&api);
    world.in_step().await;
    assert!(start_time.elapsed() >= 40 * S);
    let requests = api.requests_to("GET", CSINODES);
    assert!(
        requests
            .windows(2)
            .take(2)
            .all(|pair| pair[1].at - pair[0].at >= 20 * S)
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_asked_again_and_not_too_often() {
    let api = streaming(3);
    let world = start(&api);
    world.in_step().await;
    api.clear_requests();
    api.set_down(true);
    sleep(600 * S).await;
    let asked = api.requests().len();
    assert!((15..60).contains(&asked), "{asked} requests in ten minutes");
    assert_eq!(world.cache.len(), 3, "what is known stays");
    api.set_down(false);
    api.insert(csinode("new"));
    world.in_step().await;
}

#[tokio::test(start_paused = true)]
async fn without_permission_it_waits_and_works_once_it_is_granted() {
    let api = server(3);
    api.allow_only([]);
    let world = start(&api);
    assert!(timeout(300 * S, world.cache.synced()).await.is_err());
    api.allow_only([Allow::new("storage.k8s.io", "csinodes", "list,watch")]);
    timeout(60 * S, world.cache.synced()).await.unwrap();
    assert_eq!(world.cache.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ends_the_streaming_list_is_listed_in_pages() {
    let api = server(3);
    // An old server treats the request as an ordinary watch.
    let body = r#"{"type":"ADDED","object":{"metadata":{"name":"n0000","resourceVersion":"1"}}}"#;
    let stream =
        Fault::on("GET", CSINODES).when(|request| request.query.contains_key("sendInitialEvents"));
    api.fault(stream.answer_raw(200, &format!("{body}\n")));
    let world = start(&api);
    world.in_step().await;
    assert_eq!(world.lists(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_is_given_up() {
    for watch in [true, false] {
        let api = server(3);
        let hanging = Fault::on("GET", CSINODES).when(move |request| request.is_watch() == watch);
        api.fault(hanging.times(1).hang());
        let world = start_behind(&api, Limiter::new(Rate::Unlimited, 65 * S, None));
        timeout(100 * S, world.cache.synced()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn fs_3_pages_of_a_list_do_not_draw_on_a_fixed_rate() {
    let rate = Rate::new(0.01, 1).unwrap();
    let world = start_behind(&server(1000), Limiter::new(rate, 65 * S, None));
    timeout(10 * S, world.cache.synced()).await.unwrap();
    assert_eq!((world.cache.len(), world.lists()), (1000, 10));
}

#[tokio::test(start_paused = true)]
async fn fs_14_the_time_of_a_page_does_not_include_its_wait_for_a_turn() {
    let api = server(3);
    let limiter = Limiter::new(Rate::Adaptive, 65 * S, None);
    let other = Client::new(limiter.limit(api.service()), "default");
    api.fault(Fault::on("GET", "/version").too_many(200));
    let node = "/apis/storage.k8s.io/v1/csinodes/n0000";
    api.fault(Fault::on("GET", node).too_many(200));
    for path in ["/version", node] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        assert_eq!(other.send(request).await.unwrap().status(), 429);
    }
    // Counted before they wait.
    let lists = Arc::new(AtomicUsize::new(0));
    let service = limiter.limit(api.service());
    let counted = {
        let (lists, service) = (lists.clone(), Arc::new(Mutex::new(service)));
        tower::service_fn(move |request: Request<Body>| {
            if request.uri().query().unwrap_or_default().contains("limit=") {
                lists.fetch_add(1, Ordering::Relaxed);
            }
            tower_service::Service::call(&mut *service.lock().unwrap(), request)
        })
    };
    let world = start_from(&api, Client::new(counted, "default"), None, false);
    timeout(300 * S, world.cache.synced()).await.unwrap();
    assert_eq!(lists.load(Ordering::Relaxed), 1, "given up while it waited");
}

#[test]
fn fs_12_the_variable_is_read_as_client_go_does() {
    for (variable, streams) in [
        (None, true),
        (Some("false"), false),
        (Some("0"), false),
        (Some("F"), false),
        (Some("true"), true),
        (Some(""), true),
        (Some("no"), true),
    ] {
        assert_eq!(wants_streams(variable), streams, "{variable:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_is_opened_again() {
    let api = streaming(3);
    let world = start(&api);
    world.in_step().await;
    sleep(600 * S).await;
    assert!(
        world.watches() <= 3,
        "bookmarks keep it open: {}",
        world.watches()
    );
    let before = world.watches();
    // Only the head is answered, then nothing: as behind a proxy that lost the server.
    api.fault(
        Fault::on("GET", CSINODES)
            .when(sidecar_testkit::api::record::Request::is_watch)
            .hang(),
    );
    api.break_watches();
    sleep(300 * S).await;
    assert!(world.watches() > before);
}

fn is_plain_watch(request: &sidecar_testkit::api::record::Request) -> bool {
    request.is_watch() && !request.query.contains_key("sendInitialEvents")
}

#[tokio::test(start_paused = true)]
async fn truncated_and_senseless_events_lose_nothing() {
    for body in [
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"n0000","resourceVe"#,
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"n00\n",
        "\n\n  \nnonsense\n",
        "{\"type\":\"BOOKMARK\",\"object\":{}}\n",
        "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"annotations\":null}}}\n",
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{}}}\n",
        "{\"type\":\"MODIFIED\",\"object\":null}\n",
        "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":7}}}\n",
        "{\"type\":\"ERROR\",\"object\":null}\n",
        "{\"type\":\"ERROR\",\"object\":{\"code\":500}}\n",
        "{\"type\":\"NEW\",\"object\":{\"metadata\":{\"name\":\"n0000\"}}}\n",
        "\u{0}\u{1}\n",
    ] {
        let api = server(3);
        api.fault(
            Fault::on("GET", CSINODES)
                .when(is_plain_watch)
                .times(2)
                .answer_raw(200, body),
        );
        let world = start(&api);
        world.cache.synced().await;
        api.insert(csinode("n0001").driver("other", "id"));
        api.remove("csinodes", "n0002");
        world.in_step().await;
        assert_eq!(world.lists(), 1, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_costs_only_itself_and_is_not_taken_for_deleted() {
    let api = server(3);
    let world = start(&api);
    world.in_step().await;
    world.told();
    let page = r#"{"metadata":{"resourceVersion":"900"},"items":[
        {"metadata":{"name":"n0000","resourceVersion":"800"},"spec":{"drivers":"none"}},
        {"metadata":{"name":"n0001","resourceVersion":"801"},"spec":null},
        null, 5, {"metadata":{}}, {"metadata":{"name":"unknown"},"spec":7}]}"#;
    let list = Fault::on("GET", CSINODES)
        .when(|request| !request.is_watch())
        .times(1);
    api.fault(list.answer_raw(200, page));
    api.fault(
        Fault::on("GET", CSINODES)
            .when(is_plain_watch)
            .skip(1)
            .hang(),
    );
    api.expire_watches();
    sleep(30 * S).await;
    assert_eq!(world.told(), ["n0001 became ", "n0002 gone"]);
    assert_eq!(
        world.cached().keys().collect::<Vec<_>>(),
        ["n0000", "n0001"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_own_write_is_not_told_as_news_whichever_comes_first() {
    for event_first in [true, false] {
        let api = streaming(3);
        let world = start(&api);
        world.in_step().await;
        world.told();
        let key = world.cache.key("n0001").unwrap();
        let write = world.cache.begin_write(&key);
        let answer = api
            .insert(csinode("n0001").driver("mine", "id"))
            .to_string();
        if event_first {
            sleep(S).await;
            assert_eq!(world.cache.get("n0001").unwrap().0, "mine");
        }
        assert_eq!(write.answered(&answer).unwrap().unwrap().0, "mine");
        sleep(S).await;
        assert_eq!(world.told(), ["n0001 was made mine"]);
        api.insert(csinode("n0001").driver("theirs", "id"));
        world.in_step().await;
        assert_eq!(world.told(), ["n0001 became theirs"]);
    }
}

#[tokio::test(start_paused = true)]
async fn resyncs_tell_about_every_object_in_their_period() {
    let world = start_with(&streaming(2), Some(600 * S), false);
    world.in_step().await;
    world.told();
    sleep(599 * S).await;
    assert_eq!(world.told(), [""; 0]);
    sleep(2 * S).await;
    assert_eq!(world.told(), ["n0000 resync", "n0001 resync"]);
    sleep(1199 * S).await;
    assert_eq!(world.told().len(), 4);
}
