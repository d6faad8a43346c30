//! The producer between a model API server and a model driver.

use std::sync::Mutex as StdMutex;

use csi_proto::csi::GetCapacityRequest;
use serde_json::{Value, json};
use sidecar::controller::DriverHandshake;
use sidecar::controller::driver_info::DriverInfo;
use sidecar::controller::link::{Calls, Identity, Settings};
use sidecar::controller::serve::Hindrances;
use sidecar::controller::watch::keep;
use sidecar::election::Fence;
use sidecar::kube::feed::Feeds;
use sidecar::kube::rate::Rate;
use sidecar::metrics::{CsiOperations, OperationsConfig, Registry};
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::process::until;
use sidecar_testkit::{CallFault, FakeApi, FakeDriver, Fault};
use tokio::task::JoinHandle;
use tonic::Code;

use super::*;
use crate::args;
use crate::work::api::CLASSES;

const KIND: &str = "csistoragecapacities";
const GI: i64 = 1 << 30;

/// A running producer, which ends when it is dropped.
struct Bench {
    api: FakeApi,
    driver: FakeDriver,
    registry: Registry,
    capacity: Arc<Capacity>,
    segments: Arc<StdMutex<Vec<Term>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn config(level: Option<u32>) -> args::Capacity {
    args::Capacity {
        namespace: "ns".into(),
        pod_name: "pod".into(),
        owner_level: level,
        threads: 1,
        poll: Duration::from_millis(100),
        immediate: false,
        rate: Rate::Adaptive,
    }
}

fn class(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "test-driver", "volumeBindingMode": "WaitForFirstConsumer",
        "parameters": {"csi.storage.k8s.io/fstype": "xfs"}})
}

fn object(name: &str, class: &str, labels: Value, capacity: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "ns", "labels": {
            "csi.storage.k8s.io/drivername": "test-driver",
            "csi.storage.k8s.io/managed-by": "external-provisioner"}},
        "storageClassName": class, "nodeTopology": {"matchLabels": labels}, "capacity": capacity})
}

fn zone(value: &str) -> Term {
    Term::new([("zone".into(), value.into())])
}

fn owner_chain(api: &FakeApi) {
    let owned = |kind: &str, name: &str, by: Option<(&str, &str)>| {
        let api_version = if kind == "Pod" { "v1" } else { "apps/v1" };
        let owners: Vec<Value> = { by.into_iter() }
            .map(|(kind, name)| json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("{name}-uid"), "controller": true}))
            .collect();
        json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": "ns", "uid": format!("{name}-uid"), "ownerReferences": owners}})
    };
    api.insert(owned("Pod", "pod", Some(("ReplicaSet", "rs"))));
    api.insert(owned("ReplicaSet", "rs", Some(("Deployment", "dep"))));
}

async fn link(driver: &FakeDriver, registry: &Registry) -> Arc<DriverView> {
    let settings = Settings {
        address: driver.address(),
        calls: Calls {
            timeout: Duration::from_secs(5),
            methods: &[],
            response_limit: None,
        },
        identity: Identity::Each(Duration::from_secs(5)),
        patience: None,
        is_last_word: true,
        mute: 255,
        fence: Fence::default(),
        hindrances: Hindrances::default(),
        info: DriverInfo::default(),
    };
    let operations = CsiOperations::new(registry, OperationsConfig::default()).unwrap();
    let handshake = DriverHandshake::connect(settings, &operations).await;
    handshake.unwrap().into_view(()).await.unwrap()
}

/// A producer for these classes and segments, which has started.
async fn bench(api: FakeApi, classes: &[&str], segments: Vec<Term>, level: Option<u32>) -> Bench {
    let driver = FakeDriver::new("test-driver");
    driver.configure(|model| {
        model.capacity = GI;
        model.controller.push(ControllerRpc::GetCapacity);
    });
    driver.start();
    owner_chain(&api);
    for name in classes {
        api.insert(class(name));
    }
    let registry = Registry::new();
    let link = link(&driver, &registry).await;
    let client = api.client();
    let strings = Interner::default();
    let heard: Arc<std::sync::OnceLock<Arc<Capacity>>> = Arc::default();
    let known = Cache::new(strings.clone(), {
        let heard = Arc::clone(&heard);
        move |event: Event<'_, Class>| match (heard.get(), event) {
            (Some(capacity), Event::Upserted { new, .. }) => capacity.class_changed(new),
            (Some(capacity), Event::Deleted { old, .. }) => capacity.class_gone(&old.name),
            (_, _) => {}
        }
    });
    let config = config(level);
    let api_of_main = Api::new(client.clone());
    let producer = producer(&api_of_main, &config, "test-driver", None).await;
    let capacity = Capacity::new(Parts {
        producer: producer.unwrap(),
        config: &config,
        retry: RetryPolicy::new(Duration::from_millis(10), Duration::from_millis(100)),
        driver: link,
        client: &client,
        classes: known.clone(),
        strings,
        queues: &queue::Metrics::new(&registry).unwrap(),
        metrics: &CapacityMetrics::new(&registry).unwrap(),
    });
    let capacity = capacity.unwrap();
    assert!(heard.set(Arc::clone(&capacity)).is_ok());
    let segments = Arc::new(StdMutex::new(segments));
    let mut tasks = Vec::new();
    let watches = [Watch::all(CLASSES, &known), capacity.watch()];
    let feeds = Feeds::new(client.clone(), Duration::ZERO);
    tasks.push(tokio::spawn(async move {
        match keep(&feeds, &watches).await {}
    }));
    let (serving, shared) = (Arc::clone(&capacity), Arc::clone(&segments));
    tasks.push(tokio::spawn(async move {
        known.synced().await;
        serving.serve(|| shared.lock().unwrap().clone()).await;
    }));
    Bench {
        api,
        driver,
        registry,
        capacity,
        segments,
        tasks,
    }
}

impl Bench {
    /// Class, zone and capacity of the objects, in order.
    fn reports(&self) -> Vec<String> {
        let text = |object: &Value| {
            let zone = &object["nodeTopology"]["matchLabels"]["zone"];
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {}",
                text(&object["storageClassName"]),
                text(zone),
                text(&object["capacity"])
            )
        };
        let mut lines: Vec<String> = self.api.objects(KIND).iter().map(text).collect();
        lines.sort();
        lines
    }

    async fn until_reports(&self, expected: &[&str]) {
        let what = format!("objects {expected:?}");
        until(&what, async || self.reports() == expected).await;
    }

    fn shows(&self, line: &str) -> bool {
        self.registry.render().lines().any(|shown| shown == line)
    }

    fn set_segments(&self, segments: &[Term]) {
        *self.segments.lock().unwrap() = segments.to_vec();
        self.capacity.segments_changed();
    }

    /// Waits for this number of further GetCapacity calls.
    async fn polled(&self, times: usize) {
        let before = self.driver.calls_to("GetCapacity").len();
        let enough = async || self.driver.calls_to("GetCapacity").len() >= before + times;
        until("polls", enough).await;
    }

    /// Name of the only object.
    fn name(&self) -> String {
        let objects = self.api.objects(KIND);
        assert_eq!(objects.len(), 1, "{objects:?}");
        objects[0]["metadata"]["name"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn rows_238_248_256_objects_are_made_once() {
    let bench = bench(
        FakeApi::new(),
        &["a", "b"],
        vec![zone("1"), zone("2")],
        Some(1),
    )
    .await;
    bench
        .until_reports(&["a 1 1Gi", "a 2 1Gi", "b 1 1Gi", "b 2 1Gi"])
        .await;
    let written = bench.api.writes().len();
    bench.polled(8).await;
    assert_eq!(
        bench.api.writes().len(),
        written,
        "row 242: no write for an equal object"
    );
    assert_eq!(written, 4);
    for object in bench.api.objects(KIND) {
        let metadata = &object["metadata"];
        assert!(metadata["name"].as_str().unwrap().starts_with("csisc-"));
        assert_eq!(metadata["ownerReferences"][0]["name"], "rs");
    }
    let calls = bench.driver.calls_to("GetCapacity");
    let request: &GetCapacityRequest = calls[0].request().unwrap();
    assert_eq!(request.parameters["csi.storage.k8s.io/fstype"], "xfs");
    assert!(request.volume_capabilities.is_empty());
    assert!(bench.shows("csistoragecapacities_desired_goal 4"));
    assert!(bench.shows("csistoragecapacities_desired_current 4"));
    assert!(bench.shows("csistoragecapacities_obsolete 0"));
    assert!(
        bench
            .registry
            .render()
            .contains("name=\"csistoragecapacity\"")
    );
}

#[tokio::test]
async fn rows_242_to_247_and_252_what_was_there_before() {
    let api = FakeApi::new();
    api.insert(object("outdated", "a", json!({"zone": "1"}), "5Gi"));
    api.insert(object("equal", "a", json!({"zone": "2"}), "1Gi"));
    api.insert(object("duplicate", "a", json!({"zone": "2"}), "1Gi"));
    api.insert(object("old-class", "gone", json!({"zone": "1"}), "7Gi"));
    let mut foreign = object("foreign", "gone", json!({"zone": "1"}), "8Gi");
    foreign["metadata"]["labels"]["csi.storage.k8s.io/managed-by"] = "somebody".into();
    api.insert(foreign);
    let bench = bench(api, &["a"], vec![zone("1"), zone("2")], None).await;
    bench
        .until_reports(&["a 1 1Gi", "a 2 1Gi", "gone 1 8Gi"])
        .await;
    bench.polled(4).await;
    // One update, two removals, and none of them again.
    let writes = bench.api.writes();
    let methods: Vec<String> = { writes.iter() }
        .map(|request| request.method.clone())
        .collect();
    assert_eq!(methods.len(), 3, "{methods:?}");
    assert_eq!(methods.iter().filter(|method| *method == "PUT").count(), 1);
    assert!(bench.api.object(KIND, "ns/outdated").is_some(), "adopted");
}

#[tokio::test]
async fn rows_239_249_to_251_255_changes_are_put_right() {
    let bench = bench(FakeApi::new(), &["a"], vec![zone("1")], None).await;
    bench.until_reports(&["a 1 1Gi"]).await;
    let first = bench.name();
    bench.driver.configure(|model| model.capacity = 2 * GI);
    bench.until_reports(&["a 1 2Gi"]).await;
    assert_eq!(bench.name(), first, "row 243: updated");
    // 255: the object stays unchanged while the driver does not answer.
    let fault = CallFault::on("GetCapacity").fail(Code::Internal, "no");
    let fault = bench.driver.fault(fault);
    bench.driver.configure(|model| model.capacity = 3 * GI);
    until("failures", async || fault.hits() >= 3).await;
    assert_eq!(bench.reports(), ["a 1 2Gi"]);
    fault.remove();
    bench.until_reports(&["a 1 3Gi"]).await;
    // 249
    bench.api.remove(KIND, &format!("ns/{first}"));
    until("another object", async || {
        bench.api.objects(KIND).len() == 1 && bench.name() != first
    })
    .await;
    // 250
    let second = bench.name();
    bench.api.edit(KIND, &format!("ns/{second}"), |object| {
        object["metadata"]["labels"] = json!({"mine": "now"});
    });
    until("one more object", async || {
        bench.api.objects(KIND).len() == 2
    })
    .await;
    assert!(bench.api.object(KIND, &format!("ns/{second}")).is_some());
}

#[tokio::test]
async fn rows_246_253_254_classes_and_segments_come_and_go() {
    let bench = bench(FakeApi::new(), &["a"], vec![zone("1")], None).await;
    bench.until_reports(&["a 1 1Gi"]).await;
    bench.api.insert(class("b"));
    let mut immediate = class("c");
    immediate["volumeBindingMode"] = "Immediate".into();
    bench.api.insert(immediate);
    bench.until_reports(&["a 1 1Gi", "b 1 1Gi"]).await;
    bench.set_segments(&[zone("1"), zone("2")]);
    bench
        .until_reports(&["a 1 1Gi", "a 2 1Gi", "b 1 1Gi", "b 2 1Gi"])
        .await;
    bench.set_segments(&[zone("2")]);
    bench.until_reports(&["a 2 1Gi", "b 2 1Gi"]).await;
    bench.api.remove("storageclasses", "a");
    bench.until_reports(&["b 2 1Gi"]).await;
    until("figures", async || {
        bench.shows("csistoragecapacities_desired_goal 1")
            && bench.shows("csistoragecapacities_obsolete 0")
    })
    .await;
}

#[tokio::test]
async fn row_257_a_driver_without_keys_has_one_stable_object() {
    let bench = bench(FakeApi::new(), &["a"], vec![Term::new([])], None).await;
    bench.until_reports(&["a - 1Gi"]).await;
    let name = bench.name();
    // In the form of the API server.
    bench.api.edit(KIND, &format!("ns/{name}"), |object| {
        object["nodeTopology"] = json!({})
    });
    bench.polled(3).await;
    assert_eq!(bench.name(), name);
    assert_eq!(bench.api.writes().len(), 1);
}

#[tokio::test]
async fn an_update_that_meets_a_change_is_tried_again() {
    let bench = bench(FakeApi::new(), &["a"], vec![zone("1")], None).await;
    bench.until_reports(&["a 1 1Gi"]).await;
    let conflict = Fault::on("PUT", "*csistoragecapacities*")
        .times(1)
        .answer(409);
    let conflict = bench.api.fault(conflict);
    bench.driver.configure(|model| model.capacity = 2 * GI);
    bench.until_reports(&["a 1 2Gi"]).await;
    assert_eq!(conflict.hits(), 1);
    assert_eq!(bench.api.objects(KIND).len(), 1);
}

#[tokio::test]
async fn rows_261_and_262_who_writes() {
    let api = FakeApi::new();
    owner_chain(&api);
    let find = async |level| {
        let api = Api::new(api.client());
        producer(&api, &config(level), "test-driver", Some("n1")).await
    };
    for (level, owner) in [
        (None, None),
        (Some(0), Some("Pod pod pod-uid")),
        (Some(1), Some("ReplicaSet rs rs-uid")),
        (Some(2), Some("Deployment dep dep-uid")),
    ] {
        let producer = find(level).await.unwrap();
        let found = producer
            .owner
            .map(|owner| format!("{} {} {}", owner.kind, owner.name, owner.uid));
        assert_eq!(found.as_deref(), owner, "row 261, level {level:?}");
        assert_eq!(producer.managed_by, "external-provisioner-n1");
    }
    assert!(api.requests_to("GET", "*deployments*").is_empty());
    let exit = find(Some(3)).await.unwrap_err();
    assert_eq!(exit.code, 255, "row 262: nothing of this name");
    assert!(exit.error.as_deref().unwrap().contains("Deployment ns/dep"));
}
