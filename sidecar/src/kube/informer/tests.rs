use std::borrow::Cow;
use std::sync::Mutex;
use std::time::Duration;

use ::kube::api::ObjectMeta;
use ::kube::core::ClusterResourceScope;
use serde::Deserialize;
use serde_json::{Value, json};
use sidecar_testkit::Fault;
use sidecar_testkit::api::FakeApi;
use sidecar_testkit::build::csidriver;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use watcher::Event;

use super::*;

#[derive(Clone, Debug, Deserialize)]
struct Driver {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    #[serde(rename = "nodeAllocatableUpdatePeriodSeconds")]
    period: Option<i64>,
}

impl Resource for Driver {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "CSIDriver".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "storage.k8s.io".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "csidrivers".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn object(name: &str, period: impl Into<Value>) -> DeserializeGuard<Driver> {
    let spec = json!({ "nodeAllocatableUpdatePeriodSeconds": period.into() });
    let metadata = json!({ "name": name, "resourceVersion": "1" });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

fn said(change: &Change<Driver>) -> String {
    let (object, sign) = match change {
        Change::Upserted(object) => (object, '+'),
        Change::Deleted(object) => (object, '-'),
    };
    let name = object.metadata.name.as_deref().unwrap();
    let period = object
        .spec
        .period
        .map_or("none".to_owned(), |it| it.to_string());
    format!("{sign}{name}={period}")
}

/// The informer's reports of each event, ordered by name.
fn tell(
    informer: &mut Informer<Driver>,
    events: impl IntoIterator<Item = Event<DeserializeGuard<Driver>>>,
) -> Vec<String> {
    let mut all = Vec::new();
    for event in events {
        let mut said: Vec<String> = informer.apply(event).iter().map(said).collect();
        said.sort();
        all.extend(said);
    }
    all
}

fn list(
    objects: impl IntoIterator<Item = DeserializeGuard<Driver>>,
) -> Vec<Event<DeserializeGuard<Driver>>> {
    let objects = objects.into_iter().map(Event::InitApply);
    let mut events = vec![Event::Init];
    events.extend(objects);
    events.push(Event::InitDone);
    events
}

#[test]
fn a_list_tells_what_is_there_and_what_has_gone() {
    let mut informer = Informer::default();
    assert_eq!(
        tell(&mut informer, list([object("a", 10), object("b", 20)])),
        ["+a=10", "+b=20"]
    );
    let half = [Event::Init, Event::InitApply(object("b", 30))];
    assert_eq!(tell(&mut informer, half), [""; 0], "it is not complete");
    assert_eq!(informer.store().len(), 2);
    let rest = [Event::InitApply(object("c", 40)), Event::InitDone];
    assert_eq!(tell(&mut informer, rest), ["+b=30", "+c=40", "-a=10"]);
}

#[test]
fn the_watch_tells_each_change() {
    let mut informer = Informer::default();
    tell(&mut informer, list([object("a", 10)]));
    let changes = [
        Event::Apply(object("a", 20)),
        Event::Apply(object("b", Value::Null)),
        Event::Delete(object("a", 20)),
        Event::Delete(object("nobody", 1)),
    ];
    assert_eq!(tell(&mut informer, changes), ["+a=20", "+b=none", "-a=20"]);
}

#[test]
fn what_cannot_be_read_stays_what_it_was() {
    let log = crate::log::capture();
    let mut informer = Informer::default();
    tell(&mut informer, list([object("a", 10), object("b", 20)]));
    let secret = || object("a", "hunter2");
    assert_eq!(tell(&mut informer, [Event::Apply(secret())]), ["+a=10"]);
    let again = list([secret(), object("new", "hunter2")]);
    assert_eq!(tell(&mut informer, again), ["+a=10", "-b=20"]);
    assert_eq!(tell(&mut informer, [Event::Delete(secret())]), ["-a=10"]);
    let lines = log.lines();
    let named = lines
        .iter()
        .filter(|line| line.contains("Cannot read the object"));
    assert_eq!(named.count(), 2, "each is named once: {lines:?}");
    assert!(!lines.concat().contains("hunter2"), "{lines:?}");
}

#[test]
fn an_object_without_a_name_is_passed_over() {
    let mut informer = Informer::default();
    let nameless = || -> DeserializeGuard<Driver> {
        serde_json::from_value(json!({ "metadata": { "resourceVersion": "1" } })).unwrap()
    };
    assert_eq!(tell(&mut informer, list([nameless()])), [""; 0]);
    let changes = [Event::Apply(nameless()), Event::Delete(nameless())];
    assert_eq!(tell(&mut informer, changes), [""; 0]);
}

struct Running {
    store: Store<Driver>,
    told: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<Infallible>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn run(api: &FakeApi) -> Running {
    let informer = Informer::<Driver>::default();
    let store = informer.store();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let drivers = Api::all(api.client());
    let task = tokio::spawn(
        informer.run(drivers, watcher::Config::default(), move |change| {
            tell.lock().unwrap().push(said(&change));
        }),
    );
    Running { store, told, task }
}

impl Running {
    async fn told(&self, expected: &[&str]) {
        // Paused time: enough turns for anything, and 30 s for timers.
        for _ in 0..1000 {
            if *self.told.lock().unwrap() == expected {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(*self.told.lock().unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_breaks_off_and_forgets_is_followed() {
    let api = FakeApi::new();
    let mut driver: Value = csidriver("a").into();
    driver["spec"]["nodeAllocatableUpdatePeriodSeconds"] = 10.into();
    api.insert(driver);
    api.fault(
        Fault::on("GET", "/apis/storage.k8s.io/v1/csidrivers")
            .times(3)
            .answer(500),
    );
    let running = run(&api);
    running.told(&["+a=10"]).await;
    running.store.wait_until_ready().await.unwrap();
    api.close_watches();
    api.insert(csidriver("b"));
    running.told(&["+a=10", "+b=none"]).await;
    api.break_watches();
    api.delete("csidrivers", "a");
    api.compact();
    let last = ["+a=10", "+b=none", "-a=10", "+b=none"];
    running.told(&last).await;
}
