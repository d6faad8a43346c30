//! The watch cache and leader election against a real API server, on request, with an
//! administrator's kubeconfig. Run it with streaming lists and without (`WatchList=false`).
//!
//! ```text
//! ADMIN_KUBECONFIG=FILE cargo test -p sidecar --features kube --test real_cache -- --ignored
//! ```

#![cfg(feature = "kube")]
#![expect(clippy::unwrap_used, reason = "shared steps of tests fail as tests do")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sidecar::controller::watch::{Watch, keep};
use sidecar::duration::GoDuration;
use sidecar::election::{Config, Elector, Fence, Timing};
use sidecar::kube::cache::{Cache, Event, Record, Source};
use sidecar::kube::connect::{self, NamedBy, Options, connect};
use sidecar::kube::feed::Feeds;
use sidecar::kube::interner::Interner;
use sidecar::kube::key::Key;
use sidecar::kube::lean::{Meta, Object, Text};
use sidecar::kube::rate::Rate;
use sidecar::kube::reflect::{Resource, Scope};
use tokio::time::{sleep, timeout};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const SECOND: Duration = Duration::from_secs(1);

async fn client() -> kube::Client {
    let source = connect::Source::File {
        path: std::env::var_os("ADMIN_KUBECONFIG").unwrap().into(),
        named_by: NamedBy::Flag,
        server: None,
    };
    let options = Options::new(source, Rate::Adaptive, "real-cache-test", "v0");
    connect(&options, None).await.unwrap()
}

async fn send(client: &kube::Client, method: &str, path: &str, body: &Value) -> String {
    let kind = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind);
    client
        .request_text(request.body(body.to_string().into_bytes()).unwrap())
        .await
        .unwrap()
}

/// The label `step` of a StorageClass, and whether it is being deleted.
struct Class {
    step: String,
    deleting: bool,
}

#[derive(serde::Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    provisioner: Option<Text<'a>>,
}

impl Object for Wire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}

impl Record for Class {
    type Wire<'a> = Wire<'a>;

    fn from_wire(wire: Wire<'_>, _strings: &Interner) -> Option<Self> {
        wire.provisioner
            .filter(|provisioner| &**provisioner == "real-cache.example.com")?;
        let step = wire
            .metadata
            .labels
            .get("step")
            .map(|step| step.to_string());
        let deleting = wire.metadata.deletion_timestamp.is_some();
        Some(Self {
            step: step.unwrap_or_default(),
            deleting,
        })
    }
}

struct World {
    client: kube::Client,
    cache: Cache<Class>,
    told: Arc<Mutex<Vec<String>>>,
}

async fn world() -> World {
    let told = Arc::<Mutex<Vec<String>>>::default();
    let cache = Cache::new(Interner::default(), {
        let told = Arc::clone(&told);
        move |event: Event<'_, Class>| {
            told.lock().unwrap().push(match event {
                Event::Upserted {
                    key,
                    new,
                    source: Source::Watch,
                    ..
                } => {
                    format!("{key} {} {}", new.step, new.deleting)
                }
                Event::Upserted {
                    key,
                    new,
                    source: Source::Own,
                    ..
                } => {
                    format!("{key} own {} {}", new.step, new.deleting)
                }
                Event::Deleted { key, .. } => format!("{key} gone"),
                Event::Resync { .. } => unreachable!(),
            });
        }
    });
    let scope = Scope::all(Resource::new("storage.k8s.io", "v1", "storageclasses"));
    let client = client().await;
    let watch: Watch = Watch::of(scope, &cache);
    let feeds = Feeds::new(client.clone(), Duration::ZERO);
    tokio::spawn(async move { keep(&feeds, &[watch]).await });
    timeout(30 * SECOND, cache.synced()).await.unwrap();
    World {
        client,
        cache,
        told,
    }
}

impl World {
    /// The reported events, once this is the last of them.
    async fn told_until(&self, last: &str) -> Vec<String> {
        let deadline = Instant::now() + 20 * SECOND;
        loop {
            if self
                .told
                .lock()
                .unwrap()
                .last()
                .is_some_and(|told| told == last)
            {
                // An unwanted event would have arrived by then.
                sleep(SECOND).await;
                return std::mem::take(&mut *self.told.lock().unwrap());
            }
            let told = self.told.lock().unwrap().clone();
            assert!(
                Instant::now() < deadline,
                "{last} was not told, but {told:?}"
            );
            // Checked again after this time.
            sleep(SECOND / 50).await;
        }
    }

    async fn make(&self, name: &str) {
        let class = json!({
            "metadata": {"name": name, "finalizers": ["real-cache.example.com/hold"]},
            "provisioner": "real-cache.example.com",
        });
        send(&self.client, "POST", CLASSES, &class).await;
    }

    async fn patch(&self, name: &str, patch: Value) -> String {
        send(&self.client, "PATCH", &format!("{CLASSES}/{name}"), &patch).await
    }

    async fn delete(&self, name: &str) {
        send(
            &self.client,
            "DELETE",
            &format!("{CLASSES}/{name}"),
            &json!({}),
        )
        .await;
    }
}

fn step(number: u32) -> Value {
    json!({"metadata": {"labels": {"step": number.to_string()}}})
}

fn without_finalizers() -> Value {
    json!({"metadata": {"finalizers": null}})
}

#[tokio::test]
#[ignore = "needs a cluster: ADMIN_KUBECONFIG"]
async fn the_cache_follows_and_own_writes_are_no_news() {
    let first = world().await;
    first.make("watched").await;
    first.told_until("watched  false").await;
    let key = Key::new(None, "watched").unwrap();
    for number in 0..50 {
        let write = first.cache.begin_write(&key);
        let answer = first.patch("watched", step(number)).await;
        let now = write.answered(&answer).unwrap().unwrap();
        assert_eq!(now.step, number.to_string());
    }
    let expected: Vec<_> = (0..50)
        .map(|number| format!("watched own {number} false"))
        .collect();
    assert_eq!(first.told_until("watched own 49 false").await, expected);

    let second = world().await;
    assert_eq!(
        second.told_until("watched 49 false").await,
        ["watched 49 false"]
    );
    first.patch("watched", step(50)).await;
    first.told_until("watched 50 false").await;
    first.delete("watched").await;
    first.told_until("watched 50 true").await;
    // The patch that removes the last finalizer.
    let write = first.cache.begin_write(&key);
    let answer = first.patch("watched", without_finalizers()).await;
    write.answered(&answer).unwrap();
    let told = first.told_until("watched gone").await;
    assert!(told.len() <= 2, "{told:?}");
    assert!(first.cache.get("watched").is_none());
    second.told_until("watched gone").await;
}

#[tokio::test]
#[ignore = "needs a cluster: ADMIN_KUBECONFIG"]
async fn many_objects_are_listed_completely() {
    let names: Vec<String> = (0..250).map(|number| format!("many-{number:03}")).collect();
    let maker = world().await;
    for name in &names {
        maker.make(name).await;
    }
    let lister = world().await;
    assert!(names.iter().all(|name| lister.cache.get(name).is_some()));
    for name in &names {
        maker.delete(name).await;
        maker.patch(name, without_finalizers()).await;
    }
    for _ in 0..100 {
        if lister.cache.is_empty() && maker.cache.is_empty() {
            return;
        }
        // Checked again after this time.
        sleep(SECOND / 10).await;
    }
    assert_eq!((lister.cache.len(), maker.cache.len()), (0, 0));
}

fn config(identity: &str) -> Config {
    let seconds = GoDuration::from_secs;
    Config {
        namespace: "default".to_owned(),
        name: "real-cache".to_owned(),
        identity: identity.to_owned(),
        timing: Timing::new(seconds(4), seconds(3), seconds(1)).unwrap(),
        labels: vec![("a".to_owned(), "b".to_owned())],
        succeeds: None,
        shown: String::new(),
        metrics: None,
        fence: Fence::default(),
        on_event: Box::new(|_text| {}),
    }
}

#[tokio::test]
#[ignore = "needs a cluster: ADMIN_KUBECONFIG"]
async fn a_lease_is_held_lost_and_handed_over() {
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/real-cache";
    let client = client().await;
    let mut first = Elector::new(client.clone(), config("host-a"));
    timeout(20 * SECOND, first.acquire()).await.unwrap();
    let mut second = Elector::new(client.clone(), config("host-b"));
    let (led, standby) = tokio::join!(
        timeout(8 * SECOND, first.lead()),
        timeout(8 * SECOND, second.acquire())
    );
    assert!(led.is_err() && standby.is_err(), "the first leads on");

    first.release().await;
    timeout(4 * SECOND, second.acquire()).await.unwrap();
    let found: Value =
        serde_json::from_str(&send(&client, "GET", lease, &json!({})).await).unwrap();
    assert_eq!(found["spec"]["holderIdentity"], "host-b");
    assert_eq!(found["metadata"]["labels"]["a"], "b");

    // The second elector vanishes without releasing the lease.
    drop(second);
    let start = Instant::now();
    let mut third = Elector::new(client.clone(), config("host-c"));
    timeout(10 * SECOND, third.acquire()).await.unwrap();
    assert!(start.elapsed() >= 4 * SECOND);
    third.release().await;
    send(&client, "DELETE", lease, &json!({})).await;
}
