//! The Kubernetes side against a real API server, on request: with a kubeconfig of a service account
//! that has an attacher's permissions except for `volumeattachments/status`, and an administrator's.
//!
//! ```text
//! LIMITED_KUBECONFIG=FILE ADMIN_KUBECONFIG=FILE \
//!     cargo test -p sidecar --features kube --test real_server -- --ignored
//! ```

#![cfg(feature = "kube")]
#![expect(clippy::unwrap_used, reason = "shared steps of tests fail as tests do")]

use serde_json::{Value, json};
use sidecar::kube::access::{Rule, check};
use sidecar::kube::connect::{NamedBy, Options, Source, connect};
use sidecar::kube::events::{Recorder, Reference, Severity, Source as Reporter};
use sidecar::kube::key::Key;
use sidecar::kube::patch::{self, Part, Patch};
use sidecar::kube::rate::Rate;
use sidecar::kube::reflect::Resource;

const CLASSES: Resource = Resource::new("storage.k8s.io", "v1", "storageclasses");

async fn client(variable: &str) -> kube::Client {
    let source = Source::File {
        path: std::env::var_os(variable).unwrap().into(),
        named_by: NamedBy::Flag,
        server: None,
    };
    let options = Options::new(source, Rate::Adaptive, "real-server-test", "v0");
    connect(&options, None).await.unwrap()
}

#[tokio::test]
#[ignore = "needs a cluster: LIMITED_KUBECONFIG"]
async fn missing_rules_are_found() {
    let client = client("LIMITED_KUBECONFIG").await;
    let rules = [
        Rule::required("", "persistentvolumes", &["get", "list", "watch", "patch"]),
        Rule::required(
            "storage.k8s.io",
            "volumeattachments",
            &["get", "list", "watch", "patch"],
        ),
        Rule::required("storage.k8s.io", "volumeattachments/status", &["patch"]),
    ];
    let report = check(&client, &rules).await;
    let missing: Vec<String> = report.missing.iter().map(ToString::to_string).collect();
    assert_eq!(report.unknown, None);
    assert_eq!(
        missing,
        [
            r#"- {apiGroups: ["storage.k8s.io"], resources: ["volumeattachments/status"], verbs: ["patch"]} in a ClusterRole"#
        ]
    );
}

async fn raw(client: &kube::Client, method: &str, path: &str, body: &Value) -> Value {
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    client
        .request(request.body(body.to_string().into_bytes()).unwrap())
        .await
        .unwrap()
}

#[tokio::test]
#[ignore = "needs a cluster: ADMIN_KUBECONFIG"]
async fn patches_and_events_are_accepted() {
    let client = client("ADMIN_KUBECONFIG").await;
    let all = "/apis/storage.k8s.io/v1/storageclasses";
    let class = json!({"metadata": {"name": "real-server"}, "provisioner": "p.example.com"});
    let made = raw(&client, "POST", all, &class).await;
    let key = Key::new(None, "real-server").unwrap();
    let send = async |patch: &Patch| {
        let after: Value = patch::send(&client, &CLASSES, &key, Part::Main, patch)
            .await
            .unwrap();
        after["metadata"]["finalizers"].clone()
    };
    let (first, second) = ("a.example.com/f", "b.example.com/f");
    assert_eq!(
        send(&patch::add_finalizer::<&str>(None, first).unwrap()).await,
        json!([first])
    );
    let both = json!([first, second]);
    assert_eq!(
        send(&patch::add_finalizer(Some(&[first]), second).unwrap()).await,
        both
    );
    assert_eq!(
        send(&patch::remove_finalizer(&[first, second], first).unwrap()).await,
        json!([second])
    );
    let none = json!({"metadata": {"finalizers": patch::finalizer_list::<&str>(&[])}});
    assert_eq!(send(&Patch::Merge(none)).await, Value::Null);

    let reporter = Reporter {
        component: "real-server-test".to_owned(),
        host: "host-a".to_owned(),
    };
    let (recorder, worker) = Recorder::new(client.clone(), reporter);
    let about = Reference {
        api_version: "storage.k8s.io/v1".into(),
        kind: "StorageClass".into(),
        name: "real-server".to_owned(),
        uid: made["metadata"]["uid"].as_str().unwrap().to_owned(),
        ..Reference::default()
    };
    for _ in 0..3 {
        recorder.record(&about, Severity::Warning, "RealServer", "the same message");
    }
    drop(recorder);
    worker.run().await;
    let selector = format!("fieldSelector=involvedObject.uid%3D{}", about.uid);
    let events = format!("/api/v1/namespaces/default/events?{selector}");
    let list = raw(&client, "GET", &events, &Value::Null).await;
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(
        (&items[0]["count"], &items[0]["source"]["component"]),
        (&json!(3), &json!("real-server-test"))
    );
    raw(&client, "DELETE", &format!("{all}/real-server"), &json!({})).await;
}
