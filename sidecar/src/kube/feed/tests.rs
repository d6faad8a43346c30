use std::collections::BTreeMap;

use proptest::prelude::*;
use sidecar_testkit::api::FakeApi;
use sidecar_testkit::build::csinode;
use sidecar_testkit::{Fault, Gate};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::kube::cache::{Cache, Event, Record, Source};
use crate::kube::interner::Interner;
use crate::kube::lean::{Parts, Text, nullable};
use crate::kube::reflect::Resource;

const S: Duration = Duration::from_secs(1);
const CSINODES: &str = "/apis/storage.k8s.io/v1/csinodes";

/// The drivers of a CSINode.
struct Drivers(String);

#[derive(serde::Deserialize, Default)]
struct Spec<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    drivers: Vec<Driver<'a>>,
}

#[derive(serde::Deserialize)]
struct Driver<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

impl Record for Drivers {
    type Wire<'a> = Parts<'a, Spec<'a>>;

    fn from_wire(wire: Self::Wire<'_>, _: &Interner) -> Option<Self> {
        let names = wire.spec.drivers.iter().map(|driver| &*driver.name);
        Some(Self(names.collect::<Vec<_>>().join(",")))
    }
}

/// A CSINode without drivers; CSINodes with drivers are unreadable.
struct Bare;

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct NoDrivers {
    drivers: Option<u8>,
}

impl Record for Bare {
    type Wire<'a> = Parts<'a, NoDrivers>;

    fn from_wire(_: Self::Wire<'_>, _: &Interner) -> Option<Self> {
        Some(Self)
    }
}

fn all() -> Scope {
    Scope::all(Resource::new("storage.k8s.io", "v1", "csinodes"))
}

/// An object's name, its current state unless it is gone, and whether that is a change or an own
/// write.
type Told = (String, Option<String>, &'static str);

/// A cache in a feed, and the events that its handler got.
struct Follower {
    cache: Cache<Drivers>,
    told: Arc<Mutex<Vec<Told>>>,
    task: JoinHandle<Infallible>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn follow(feeds: &Feeds, scope: Scope) -> Follower {
    let told: Arc<Mutex<Vec<_>>> = Arc::default();
    let cache = Cache::new(Interner::default(), {
        let told = Arc::clone(&told);
        move |event: Event<'_, Drivers>| {
            let (key, now, how) = match event {
                Event::Upserted {
                    key, new, source, ..
                } => match source {
                    Source::Watch => (key, Some(new.0.clone()), "news"),
                    Source::Own => (key, Some(new.0.clone()), "own"),
                },
                Event::Deleted { key, .. } => (key, None, "news"),
                Event::Resync { .. } => return,
            };
            told.lock().unwrap().push((key.to_string(), now, how));
        }
    });
    let (feeds, sink) = (feeds.clone(), Arc::new(cache.clone()));
    let task = tokio::spawn(async move { feeds.keep(scope, sink, true).await });
    Follower { cache, told, task }
}

impl Follower {
    fn told(&self) -> Vec<String> {
        let told = std::mem::take(&mut *self.told.lock().unwrap());
        let mut told: Vec<_> = { told.into_iter() }
            .map(|(key, now, how)| format!("{key} {} {how}", now.as_deref().unwrap_or("gone")))
            .collect();
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

    /// Waits until the cache equals the server's state, for two minutes at most.
    async fn in_step(&self, api: &FakeApi) {
        for _ in 0..1200 {
            if self.cache.is_current() && self.cached() == truth(api) {
                return;
            }
            sleep(S / 10).await;
        }
        assert_eq!(self.cached(), truth(api), "not in step");
    }
}

fn truth(api: &FakeApi) -> BTreeMap<String, String> {
    let read = |object: &serde_json::Value| {
        let drivers = object["spec"]["drivers"].as_array();
        let names = drivers
            .into_iter()
            .flatten()
            .map(|one| one["name"].as_str().unwrap());
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        (name, names.collect::<Vec<_>>().join(","))
    };
    api.objects("csinodes").iter().map(read).collect()
}

fn server(nodes: usize, streams: bool) -> FakeApi {
    let api = FakeApi::new();
    for number in 0..nodes {
        api.insert(csinode(&format!("n{number:04}")).driver("d", "id"));
    }
    if streams {
        api.allow_streaming_lists();
    }
    api
}

/// Lists that were begun, streamed or in pages, and watches that were opened.
fn asked(api: &FakeApi) -> (usize, usize) {
    let requests = api.requests_to("GET", CSINODES);
    let begins = |request: &&_| -> bool {
        let request: &sidecar_testkit::api::record::Request = request;
        if request.is_watch() {
            request.query.contains_key("sendInitialEvents")
        } else {
            !request.query.contains_key("continue")
        }
    };
    let lists = requests.iter().filter(begins);
    let watches = requests.iter().filter(|request| request.is_watch());
    (lists.count(), watches.count())
}

#[tokio::test(start_paused = true)]
async fn a_22_24_caches_that_join_together_share_one_list_and_one_watch() {
    let api = server(250, true);
    let feeds = Feeds::new(api.client(), S);
    let first = follow(&feeds, all());
    sleep(S / 2).await;
    let second = follow(&feeds, all());
    let third = follow(
        &feeds,
        Scope {
            relist: true,
            ..all()
        },
    );
    for one in [&first, &second, &third] {
        one.in_step(&api).await;
        assert_eq!(one.told().len(), 250);
    }
    assert_eq!(asked(&api), (1, 1));
    api.insert(csinode("new"));
    for one in [&first, &second, &third] {
        one.in_step(&api).await;
        assert_eq!(one.told(), ["new  news"]);
    }
    assert_eq!(asked(&api), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn another_selection_of_objects_has_a_feed_of_its_own() {
    let api = server(3, true);
    let feeds = Feeds::new(api.client(), Duration::ZERO);
    let everything = follow(&feeds, all());
    let labels = "app=none".to_owned();
    let labelled = follow(&feeds, Scope { labels, ..all() });
    everything.in_step(&api).await;
    labelled.cache.synced().await;
    assert_eq!((everything.cache.len(), labelled.cache.len()), (3, 0));
    assert_eq!(asked(&api), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_27_a_cache_that_joins_later_causes_one_relist_of_which_others_hear_nothing() {
    for streams in [true, false] {
        let api = server(150, streams);
        let feeds = Feeds::new(api.client(), S);
        let first = follow(&feeds, all());
        first.in_step(&api).await;
        sleep(30 * S).await;
        assert_eq!(first.told().len(), 150);
        let before = asked(&api).0;
        let second = follow(&feeds, all());
        sleep(S / 2).await;
        let third = follow(&feeds, all());
        for late in [&second, &third] {
            late.in_step(&api).await;
            assert_eq!(late.told().len(), 150);
        }
        assert_eq!(first.told(), [""; 0]);
        first.in_step(&api).await;
        sleep(60 * S).await;
        // Where streaming is refused, it is tried first once in a while.
        let lists = asked(&api).0 - before;
        assert!((1..=2).contains(&lists), "{lists} lists");
        api.insert(csinode("n0003").driver("x", "id"));
        for one in [&first, &second, &third] {
            one.in_step(&api).await;
            assert_eq!(one.told(), ["n0003 x news"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_26_what_one_cache_wrote_is_news_to_another() {
    for event_first in [true, false] {
        let api = server(3, true);
        let feeds = Feeds::new(api.client(), S);
        let (writer, other) = (follow(&feeds, all()), follow(&feeds, all()));
        for one in [&writer, &other] {
            one.in_step(&api).await;
            one.told();
        }
        let write = writer
            .cache
            .begin_write(&writer.cache.key("n0001").unwrap());
        let answer = api
            .insert(csinode("n0001").driver("mine", "id"))
            .to_string();
        if event_first {
            sleep(S).await;
            assert_eq!(other.told(), ["n0001 mine news"], "at once");
        }
        write.answered(&answer).unwrap();
        sleep(S).await;
        assert_eq!(writer.told(), ["n0001 mine own"]);
        let expected: &[&str] = if event_first {
            &[]
        } else {
            &["n0001 mine news"]
        };
        assert_eq!(other.told(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_28_one_relist_serves_all_after_an_expired_version() {
    let api = server(150, true);
    let feeds = Feeds::new(api.client(), S);
    let followers = [follow(&feeds, all()), follow(&feeds, all())];
    for one in &followers {
        one.in_step(&api).await;
        one.told();
    }
    api.hold_watches("csinodes");
    api.remove("csinodes", "n0004");
    api.insert(csinode("new"));
    api.expire_watches();
    api.release_watches("csinodes");
    for one in &followers {
        one.in_step(&api).await;
        assert_eq!(one.told(), ["n0004 gone news", "new  news"]);
    }
    assert_eq!(asked(&api).0, 2);
}

#[tokio::test(start_paused = true)]
async fn a_29_what_one_cache_cannot_read_the_others_take() {
    let log = crate::log::capture();
    let api = server(2, true);
    api.insert(csinode("bare"));
    let feeds = Feeds::new(api.client(), S);
    let bare: Cache<Bare> = Cache::new(Interner::default(), |_| {});
    let first = follow(&feeds, all());
    let (shared, sink) = (feeds.clone(), Arc::new(bare.clone()));
    let task = tokio::spawn(async move { shared.keep(all(), sink, false).await });
    first.in_step(&api).await;
    bare.synced().await;
    assert_eq!((first.cache.len(), bare.len()), (3, 1));
    let named = |text: &str| {
        let lines = log.lines();
        let passed = lines
            .iter()
            .filter(|line| line.contains("Skipping an object"));
        passed.filter(|line| line.contains(text)).count()
    };
    assert_eq!((named("n0000"), named("n0001"), named("bare")), (1, 1, 0));
    // An object that became unreadable keeps its last state.
    api.insert(csinode("bare").driver("d", "id"));
    first.in_step(&api).await;
    sleep(S).await;
    assert_eq!((bare.len(), named("bare")), (1, 1));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn the_watch_ends_with_the_last_cache_that_leaves() {
    let api = server(3, true);
    let feeds = Feeds::new(api.client(), S);
    let (first, second) = (follow(&feeds, all()), follow(&feeds, all()));
    first.in_step(&api).await;
    let left = second.cache.clone();
    drop(second);
    sleep(S).await;
    assert!(!left.is_current() && first.cache.is_current());
    api.insert(csinode("new"));
    first.in_step(&api).await;
    assert_eq!(left.len(), 3, "nothing is told to who has left");
    drop(first);
    sleep(S).await;
    let before = asked(&api);
    api.break_watches();
    sleep(300 * S).await;
    assert_eq!(asked(&api), before);
    assert!(feeds.0.lock().is_empty());
    let again = follow(&feeds, all());
    again.in_step(&api).await;
    assert_eq!(asked(&api).0, before.0 + 1);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_joins_during_a_list_waits_for_the_next_one() {
    let api = server(250, false);
    let gate = Gate::new();
    let page = Fault::on("GET", CSINODES).when(|request| request.query.contains_key("continue"));
    api.fault(page.times(1).hold(&gate));
    let next = Gate::new();
    let begins = Fault::on("GET", CSINODES)
        .when(|request| !request.is_watch() && !request.query.contains_key("continue"));
    api.fault(begins.skip(1).times(1).hold(&next));
    let feeds = Feeds::new(api.client(), Duration::ZERO);
    let first = follow(&feeds, all());
    while first.cache.is_empty() {
        sleep(S / 10).await;
    }
    let late = follow(&feeds, all());
    sleep(5 * S).await;
    assert!(late.cache.is_empty() && !late.cache.is_synced());
    gate.open();
    first.cache.synced().await;
    assert_eq!(first.cache.len(), 250, "the list goes on to its end");
    sleep(5 * S).await;
    assert!(late.cache.is_empty() && !late.cache.is_synced());
    next.open();
    late.cache.synced().await;
    assert_eq!(late.cache.len(), 250, "complete when synced");
    assert_eq!((first.told().len(), late.told().len()), (250, 250));
}

/// Plain watches that were opened, and all that are open.
fn watched(api: &FakeApi) -> (usize, usize) {
    let requests = api.requests_to("GET", CSINODES);
    let plain = requests
        .iter()
        .filter(|request| request.is_watch() && !request.query.contains_key("sendInitialEvents"));
    (plain.count(), api.open_watches())
}

#[tokio::test(start_paused = true)]
async fn e_13_a_cache_that_comes_later_costs_the_others_nothing() {
    for streams in [true, false] {
        let api = server(250, streams);
        let feeds = Feeds::new(api.client(), S);
        let first = follow(&feeds, all());
        first.in_step(&api).await;
        first.told();
        for round in 1..=5 {
            let before = asked(&api);
            let late = follow(&feeds, all());
            let start = tokio::time::Instant::now();
            while !late.cache.is_synced() {
                assert!(first.cache.is_current(), "its watch goes on");
                sleep(S / 100).await;
            }
            assert!(start.elapsed() < 3 * S);
            let (lists, _) = asked(&api);
            // Where streaming is refused, it is tried first.
            assert!(
                lists - before.0 <= 2 - usize::from(streams),
                "a list of its own"
            );
            api.insert(csinode(&format!("new{round}")));
            for one in [&first, &late] {
                one.in_step(&api).await;
            }
            assert_eq!(first.told(), [format!("new{round}  news")]);
            assert_eq!(late.told().len(), 250 + round);
            assert_eq!(watched(&api).1, 1, "one watch for both");
            assert!(late.cache.is_current());
            api.insert(csinode(&format!("new{round}")).driver("x", "id"));
            for one in [&first, &late] {
                one.in_step(&api).await;
                assert_eq!(one.told(), [format!("new{round} x news")]);
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Act {
    Write(u8),
    Remove(u8),
    Join,
    Leave(u8),
    OwnWrite(u8, u8, bool),
    Expire,
    Break,
    Close,
    Wait(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let node = 0..6_u8;
    prop_oneof![
        4 => node.clone().prop_map(Act::Write),
        1 => node.clone().prop_map(Act::Remove),
        2 => Just(Act::Join),
        1 => (0..4_u8).prop_map(Act::Leave),
        3 => (0..4_u8, node, any::<bool>()).prop_map(|(who, node, first)| Act::OwnWrite(who, node, first)),
        1 => Just(Act::Expire),
        1 => Just(Act::Break),
        1 => Just(Act::Close),
        4 => (0..30_u8).prop_map(Act::Wait),
    ]
}

/// Runs the acts; each write has its own value, so that no event repeats another.
async fn story(acts: &[Act], streams: bool, gather: Duration) {
    let api = server(3, streams);
    let feeds = Feeds::new(api.client(), gather);
    let mut followers = vec![follow(&feeds, all())];
    for (number, act) in acts.iter().enumerate() {
        let value = format!("v{number}");
        match act {
            Act::Write(node) => {
                api.insert(csinode(&format!("n{node:04}")).driver(&value, "id"));
            }
            Act::Remove(node) => {
                let name = format!("n{node:04}");
                if truth(&api).contains_key(&name) {
                    api.remove("csinodes", &name);
                }
            }
            Act::Join if followers.len() < 4 => followers.push(follow(&feeds, all())),
            Act::Join => {}
            Act::Leave(who) => {
                if usize::from(*who) < followers.len() {
                    followers.remove(usize::from(*who));
                }
            }
            Act::OwnWrite(who, node, event_first) => {
                let name = format!("n{node:04}");
                let Some(writer) = followers.get(usize::from(*who)) else {
                    continue;
                };
                if let Some(key) = writer.cache.key(&name)
                    && truth(&api).contains_key(&name)
                {
                    let write = writer.cache.begin_write(&key);
                    let answer = api.insert(csinode(&name).driver(&value, "id")).to_string();
                    if *event_first {
                        sleep(S / 10).await;
                    }
                    write.answered(&answer).unwrap();
                }
            }
            Act::Expire => api.expire_watches(),
            Act::Break => api.break_watches(),
            Act::Close => api.close_watches(),
            Act::Wait(tenths) => sleep(S / 10 * u32::from(*tenths)).await,
        }
    }
    for follower in &followers {
        follower.in_step(&api).await;
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        for (key, now, how) in follower.told.lock().unwrap().drain(..) {
            let before = match &now {
                Some(now) => known.insert(key.clone(), now.clone()),
                None => known.remove(&key),
            };
            assert_ne!(before, now, "{key} told again, {how}");
            assert!(now.is_some() || before.is_some(), "{key} was not there");
        }
        assert_eq!(known, follower.cached(), "what was told is what is known");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whoever_joins_and_leaves_each_cache_is_told_everything_once(
        acts in proptest::collection::vec(act(), 1..40),
        streams in any::<bool>(),
        gathers in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let gather = if gathers { S } else { Duration::ZERO };
        runtime.block_on(story(&acts, streams, gather));
    }
}
