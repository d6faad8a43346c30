//! The points at which tests rely on the model: the same requests get the same responses from the
//! model and from a real API server.
//!
//! The model always runs. `make model` starts and queries the real server; by hand, name the kubeconfig of a
//! cluster administrator, and stop the controller manager (it would add its own finalizers):
//!
//! ```text
//! CONFORMANCE_KUBECONFIG=FILE cargo test -p sidecar-testkit --test conformance -- --ignored
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "shared steps of tests fail as tests do"
)]

use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use others::{status_of_others, versions};
use serde_json::{Value, json};
use sidecar_testkit::FakeApi;

#[path = "conformance/others.rs"]
mod others;

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const CSINODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Sends requests to a server and notes the relevant parts of its responses.
struct Script {
    client: Client,
    user: &'static str,
    notes: Vec<String>,
}

/// The body as JSON; a list for several lines, as in a watch.
fn lines(body: &[u8]) -> Value {
    if let Ok(one) = serde_json::from_slice(body) {
        return one;
    }
    let lines = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice::<Value>(line).unwrap_or_default())
        .collect()
}

impl Script {
    async fn ask(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> (u16, Value) {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("accept", "application/json");
        let request = match self.user {
            "" => request,
            user => request.header("impersonate-user", user),
        };
        let request = request.body(Body::from(body));
        let answer = self.client.send(request.unwrap()).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, lines(&body))
    }

    fn note(&mut self, what: &str, code: u16, found: &Value) {
        let line = if found.is_null() {
            format!("{what}: {code}")
        } else {
            format!("{what}: {code} {found}")
        };
        self.notes.push(line);
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "application/json", &Value::Null)
            .await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask("POST", path, "application/json", &body).await
    }

    async fn put(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask("PUT", path, "application/json", &body).await
    }

    async fn review(&mut self) {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "patch", "group": "storage.k8s.io",
            "resource": "volumeattachments", "subresource": "status"}}});
        let (code, answer) = self
            .post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                review,
            )
            .await;
        self.note("review", code, &answer["status"]["allowed"]);
    }

    async fn delete(&self, path: &str, options: Value) -> (u16, Value) {
        self.ask("DELETE", path, "application/json", &options).await
    }

    /// Sends a patch and notes the code and, on success, the value at `pointer`.
    async fn patch(
        &mut self,
        what: &str,
        path: &str,
        content_type: &str,
        body: Value,
        pointer: &str,
    ) -> Value {
        let (code, answer) = self.ask("PATCH", path, content_type, &body).await;
        let found = answer.pointer(pointer).filter(|_| code < 300);
        self.note(what, code, found.unwrap_or(&Value::Null));
        answer
    }
}

fn class(name: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "conformance.example.com"})
}

fn attachment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"attacher": "conformance.example.com",
        "nodeName": "conformance", "source": {"persistentVolumeName": "conformance"}}})
}

async fn finalizers(script: &mut Script) {
    let path = format!("{CLASSES}/conformance");
    let at = "/metadata/finalizers";
    script.post(CLASSES, class("conformance")).await;
    let first = json!([{"op": "test", "path": at, "value": null}, {"op": "add", "path": at, "value": ["a.example.com/f"]}]);
    script
        .patch(
            "test for null on a missing path",
            &path,
            JSON,
            first.clone(),
            at,
        )
        .await;
    script
        .patch("test for null on a list", &path, JSON, first, at)
        .await;
    let append =
        json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "b.example.com/f"}]);
    script
        .patch("append", &path, JSON, append.clone(), at)
        .await;
    script
        .patch("append the same again", &path, JSON, append.clone(), at)
        .await;
    let remove = |index: usize| {
        let path = format!("{at}/{index}");
        json!([{"op": "test", "path": path, "value": "b.example.com/f"}, {"op": "remove", "path": path}])
    };
    script
        .patch("remove by index", &path, JSON, remove(1), at)
        .await;
    script
        .patch("remove by a wrong index", &path, JSON, remove(0), at)
        .await;
    script
        .patch("remove by an index too high", &path, JSON, remove(7), at)
        .await;
    script
        .patch(
            "merge null",
            &path,
            MERGE,
            json!({"metadata": {"finalizers": null}}),
            at,
        )
        .await;
    script
        .patch("append without a list", &path, JSON, append, at)
        .await;
    script.delete(&path, Value::Null).await;
}

async fn strange_patches(script: &mut Script) {
    let path = format!("{CLASSES}/conformance");
    let at = "/metadata/finalizers";
    script.post(CLASSES, class("conformance")).await;
    let unqualified = json!({"metadata": {"finalizers": ["F"]}});
    script
        .patch("an unqualified finalizer", &path, MERGE, unqualified, at)
        .await;
    script
        .patch(
            "an unknown kind of patch",
            &path,
            "application/json",
            json!({}),
            at,
        )
        .await;
    script
        .patch("a patch that is no list", &path, JSON, json!({}), at)
        .await;
    script
        .patch(
            "an unknown operation",
            &path,
            JSON,
            json!([{"op": "nonsense", "path": at}]),
            at,
        )
        .await;
    script.delete(&path, Value::Null).await;
}

async fn deletion(script: &mut Script) {
    let path = format!("{CLASSES}/conformance");
    let mut held = class("conformance");
    held["metadata"]["finalizers"] = json!(["a.example.com/f", "b.example.com/f"]);
    let (_, made) = script.post(CLASSES, held).await;
    let (code, _) = script
        .delete(&path, json!({"preconditions": {"uid": "other"}}))
        .await;
    script.note("delete another incarnation", code, &Value::Null);
    let (code, marked) = script.delete(&path, Value::Null).await;
    let set = !marked["metadata"]["deletionTimestamp"].is_null();
    script.note("delete with finalizers: marked", code, &set.into());
    let (code, again) = script.delete(&path, Value::Null).await;
    let same = again["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"];
    script.note("delete again: same version", code, &same.into());
    let more = json!({"metadata": {"finalizers": ["a.example.com/f", "b.example.com/f", "c.example.com/f"]}});
    script
        .patch("a new finalizer while deleting", &path, MERGE, more, "/x")
        .await;
    let less = json!({"metadata": {"finalizers": ["b.example.com/f"]}});
    script
        .patch(
            "one finalizer less",
            &path,
            MERGE,
            less,
            "/metadata/finalizers",
        )
        .await;
    let (_, before) = script.get(&path).await;
    let none = json!({"metadata": {"finalizers": null}});
    let last = script
        .patch(
            "the last finalizer",
            &path,
            MERGE,
            none,
            "/metadata/finalizers",
        )
        .await;
    let same = last["metadata"]["uid"] == made["metadata"]["uid"];
    script.note("answers with the object", 0, &same.into());
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let same = version(&last) == version(&before);
    script.note("in the version that it was built upon", 0, &same.into());
    let (code, _) = script.get(&path).await;
    script.note("gone", code, &Value::Null);
    script
        .patch("a patch to what is gone", &path, MERGE, json!({}), "/x")
        .await;
}

async fn status_of_attachments(script: &mut Script) {
    let (path, status) = (
        format!("{ATTACHMENTS}/conformance"),
        format!("{ATTACHMENTS}/conformance/status"),
    );
    let mut born = attachment("conformance");
    born["status"] = json!({"attached": true});
    let (code, made) = script.post(ATTACHMENTS, born).await;
    script.note("status of a new attachment", code, &made["status"]);
    let both = json!({"metadata": {"annotations": {"a": "1"}}, "status": {"attached": true}});
    script
        .patch("main patch: status", &path, MERGE, both.clone(), "/status")
        .await;
    let both = json!({"metadata": {"annotations": {"a": "2"}}, "status": {"attached": true}});
    let after = script
        .patch("status patch: status", &status, MERGE, both, "/status")
        .await;
    script.note(
        "status patch: metadata",
        0,
        &after["metadata"]["annotations"],
    );
    let version = after["metadata"]["resourceVersion"].clone();
    let after = script
        .patch("empty patch", &status, MERGE, json!({}), "/status")
        .await;
    script.note(
        "empty patch: same version",
        0,
        &(after["metadata"]["resourceVersion"] == version).into(),
    );
    let error = |length| json!({"status": {"attachError": {"message": "x".repeat(length), "time": "2020-01-01T00:00:00Z"}}});
    let another = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}});
    let attached = "/status/attached";
    let own = json!({"metadata": {"uid": after["metadata"]["uid"]}});
    for (what, path, body, at) in [
        ("main patch: another uid", &path, another.clone(), "/x"),
        ("status patch: another uid", &status, another, "/x"),
        ("status patch: its uid", &status, own, "/status"),
        ("error of 1024 bytes", &status, error(1024), attached),
        ("error of 1025 bytes", &status, error(1025), "/x"),
    ] {
        script.patch(what, path, MERGE, body, at).await;
    }
    let gone = json!({"status": {"attachError": null, "attachmentMetadata": {}}});
    script
        .patch("no error, no metadata", &status, MERGE, gone, "/status")
        .await;
    let spec = json!({"spec": {"nodeName": "other"}});
    script.patch("another node", &path, MERGE, spec, "/x").await;
    let (_, read) = script.get(&path).await;
    let mut blind = read.clone();
    blind["metadata"]["resourceVersion"] = Value::Null;
    let (code, _) = script.put(&path, blind).await;
    script.note("put without version", code, &Value::Null);
    script.delete(&path, Value::Null).await;
}

async fn csi_nodes(script: &mut Script) {
    let path = format!("{CSINODES}/conformance");
    let entry = |id: &str| json!({"name": "conformance.example.com", "nodeID": id});
    let object = json!({"metadata": {"name": "conformance"}, "spec": {"drivers": [entry("a")]}});
    let (code, made) = script.post(CSINODES, object).await;
    script.note("new CSINode", code, &made["spec"]["drivers"]);
    let mut changed = made.clone();
    changed["spec"]["drivers"] = json!([entry("b")]);
    let (code, _) = script.put(&path, changed).await;
    script.note("K-61 another node id", code, &Value::Null);
    let mut keys = made.clone();
    keys["spec"]["drivers"][0]["topologyKeys"] = json!(["zone"]);
    let (code, _) = script.put(&path, keys).await;
    script.note("K-61 other topology keys", code, &Value::Null);
    let mut limited = made.clone();
    limited["spec"]["drivers"][0]["allocatable"] = json!({"count": 5});
    let (code, limited) = script.put(&path, limited).await;
    script.note(
        "another limit",
        code,
        &limited["spec"]["drivers"][0]["allocatable"],
    );
    let mut empty = limited;
    empty["spec"]["drivers"] = json!([]);
    let (code, empty) = script.put(&path, empty).await;
    script.note("no drivers", code, &empty["spec"]);
    let (code, _) = script.put(&path, made).await;
    script.note("put of an old version", code, &Value::Null);
    let mut long = empty;
    long["spec"]["drivers"] = json!([entry(&"x".repeat(257))]);
    let (code, _) = script.put(&path, long).await;
    script.note("node id of 257 bytes", code, &Value::Null);
    script.delete(&path, Value::Null).await;
}

async fn leases(script: &mut Script) {
    let path = format!("{LEASES}/conformance");
    let (code, _) = script.get(&path).await;
    script.note("no lease", code, &Value::Null);
    let lease = json!({"metadata": {"name": "conformance"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}});
    let (code, made) = script.post(LEASES, lease.clone()).await;
    script.note("new lease", code, &made["spec"]["holderIdentity"]);
    let (code, answer) = script.post(LEASES, lease).await;
    script.note("the same lease again", code, &answer["reason"]);
    let mut renewed = made.clone();
    renewed["spec"]["holderIdentity"] = "b".into();
    let (code, after) = script.put(&path, renewed.clone()).await;
    script.note("put", code, &after["spec"]["holderIdentity"]);
    let (code, answer) = script.put(&path, renewed).await;
    script.note("put of an old version", code, &answer["reason"]);
    let mut blind = after.clone();
    blind["metadata"]["resourceVersion"] = Value::Null;
    let (code, _) = script.put(&path, blind).await;
    script.note("put without version", code, &Value::Null);
    let mut reborn = after.clone();
    reborn["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let (code, _) = script.put(&path, reborn).await;
    script.note("put with another uid", code, &Value::Null);
    let mut renamed = after;
    renamed["metadata"]["name"] = "other".into();
    let (code, _) = script.put(&path, renamed).await;
    script.note("put under another name", code, &Value::Null);
    script
        .patch(
            "patch of an old version",
            &path,
            MERGE,
            json!({"metadata": {"resourceVersion": "1"}}),
            "/x",
        )
        .await;
    let (code, _) = script
        .post(LEASES, json!({"metadata": {"name": "Upper-Case"}}))
        .await;
    script.note("upper case in a name", code, &Value::Null);
    let (code, _) = script
        .post(
            LEASES,
            json!({"metadata": {"name": "x", "resourceVersion": "1"}}),
        )
        .await;
    script.note("a new object with a version", code, &Value::Null);
    script.delete(&path, Value::Null).await;
    invalid_leases(script).await;
}

async fn invalid_leases(script: &mut Script) {
    for (what, spec) in [
        ("no duration", json!({"leaseDurationSeconds": 0})),
        ("a negative duration", json!({"leaseDurationSeconds": -1})),
        ("negative transitions", json!({"leaseTransitions": -1})),
        (
            "two mistakes",
            json!({"leaseDurationSeconds": 0, "leaseTransitions": -1}),
        ),
        (
            "a time without fraction",
            json!({"renewTime": "2026-01-02T03:04:05Z"}),
        ),
        (
            "a time of milliseconds",
            json!({"acquireTime": "2026-01-02T03:04:05.000Z"}),
        ),
        (
            "a time of microseconds",
            json!({"renewTime": "2026-01-02T03:04:05.000006Z"}),
        ),
        (
            "nobody for a second",
            json!({"holderIdentity": "", "leaseDurationSeconds": 1}),
        ),
    ] {
        let lease = json!({"metadata": {"name": "conformance"}, "spec": spec});
        let (code, answer) = script.post(LEASES, lease).await;
        let why = match code {
            422 => answer["message"].clone(),
            // The rest of the message is Go's.
            _ => answer["reason"].clone(),
        };
        script.note(&format!("lease with {what}"), code, &why);
        script
            .delete(&format!("{LEASES}/conformance"), Value::Null)
            .await;
    }
}

async fn events(script: &mut Script) {
    let event = |namespace: &str| {
        json!({"metadata": {"name": "conformance.1"}, "reason": "R", "message": "m", "type": "Normal", "count": 1,
            "involvedObject": {"kind": "X", "name": "x", "namespace": namespace}})
    };
    let (code, _) = script.post(EVENTS, event("kube-system")).await;
    script.note("event of another namespace", code, &Value::Null);
    let mut of_cluster = event("");
    of_cluster["involvedObject"]["namespace"] = Value::Null;
    let (code, _) = script.post(EVENTS, of_cluster).await;
    script.note(
        "event of a cluster-scoped object in default",
        code,
        &Value::Null,
    );
    let count = json!({"count": 2, "lastTimestamp": "2020-01-01T00:00:00Z", "message": "m"});
    script
        .patch(
            "one more",
            &format!("{EVENTS}/conformance.1"),
            MERGE,
            count,
            "/count",
        )
        .await;
    script
        .delete(&format!("{EVENTS}/conformance.1"), Value::Null)
        .await;
}

async fn reading(script: &mut Script) {
    for number in 0..3 {
        let mut object = class(&format!("conformance-{number}"));
        object["metadata"]["labels"] = json!({"conformance": "yes"});
        script.post(CLASSES, object).await;
    }
    let labelled = format!("{CLASSES}?labelSelector=conformance%3Dyes");
    let (code, list) = script.get(&labelled).await;
    script.note(
        "list by label",
        code,
        &list["items"].as_array().map_or(0, Vec::len).into(),
    );
    script.note(
        "kind of the list and of its items",
        0,
        &json!([list["kind"], list["items"][0]["kind"]]),
    );
    let (code, page) = script.get(&format!("{labelled}&limit=2")).await;
    script.note(
        "page",
        code,
        &page["items"].as_array().map_or(0, Vec::len).into(),
    );
    script.note(
        "left of a selection",
        0,
        &page["metadata"]["remainingItemCount"],
    );
    let token = page["metadata"]["continue"].as_str().unwrap_or_default();
    let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
    let (code, page) = script
        .get(&format!("{labelled}&limit=2&continue={token}"))
        .await;
    script.note(
        "next page",
        code,
        &json!([
            page["items"].as_array().map_or(0, Vec::len),
            page["metadata"]["continue"]
        ]),
    );
    let (code, answer) = script
        .get(&format!("{CLASSES}?resourceVersion=9999999999"))
        .await;
    script.note("list from the future", code, &answer["reason"]);
    let future = format!("{CLASSES}?watch=true&resourceVersion=9999999999&timeoutSeconds=2");
    let (code, events) = script.get(&future).await;
    script.note("watch from the future", code, &events);
    let (code, _) = script.get("/apis/no.such.group/v1/things").await;
    script.note("no such resource", code, &Value::Null);
    for number in 0..3 {
        script
            .delete(&format!("{CLASSES}/conformance-{number}"), Value::Null)
            .await;
    }
    script.review().await;
}

/// Reads pages of one list while the objects change.
async fn paging(script: &mut Script) {
    let object = |number: u32| {
        let mut object = class(&format!("conformance-{number}"));
        object["metadata"]["labels"] = json!({"conformance": "pages"});
        object
    };
    for number in 0..3 {
        script.post(CLASSES, object(number)).await;
    }
    let pages = format!("{CLASSES}?labelSelector=conformance%3Dpages&limit=1");
    let (_, first) = script.get(&pages).await;
    script
        .delete(&format!("{CLASSES}/conformance-1"), Value::Null)
        .await;
    let changed = json!({"metadata": {"annotations": {"a": "1"}}});
    let last = format!("{CLASSES}/conformance-2");
    script.ask("PATCH", &last, MERGE, &changed).await;
    script.post(CLASSES, object(3)).await;
    let mut page = first.clone();
    while let Some(token) = page["metadata"]["continue"].as_str() {
        let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
        let (code, next) = script.get(&format!("{pages}&continue={token}")).await;
        let shown = json!([
            next["items"][0]["metadata"]["name"],
            next["items"][0]["metadata"]["annotations"]
        ]);
        script.note("a later page shows what was", code, &shown);
        let version = |page: &Value| page["metadata"]["resourceVersion"].clone();
        let same = version(&next) == version(&first);
        script.note("as of the first page's version", 0, &same.into());
        page = next;
    }
    for number in [0, 2, 3] {
        script
            .delete(&format!("{CLASSES}/conformance-{number}"), Value::Null)
            .await;
    }
}

async fn watching(script: &mut Script) {
    let path = format!("{CLASSES}/conformance");
    let (_, list) = script.get(CLASSES).await;
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let label = |value: &str| json!({"metadata": {"labels": {"keep": value}}});
    script.post(CLASSES, class("conformance")).await;
    for value in ["yes", "yes", "no", "yes"] {
        script.ask("PATCH", &path, MERGE, &label(value)).await;
    }
    script
        .ask(
            "PATCH",
            &path,
            MERGE,
            &json!({"metadata": {"annotations": {"a": "1"}}}),
        )
        .await;
    script.delete(&path, Value::Null).await;
    let watch = format!("{CLASSES}?watch=true&resourceVersion={version}&timeoutSeconds=2");
    for (what, query) in [
        ("watch", "&fieldSelector=metadata.name%3Dconformance"),
        ("watch by label", "&labelSelector=keep%3Dyes"),
    ] {
        let (code, events) = script.get(&format!("{watch}{query}")).await;
        let events = events.as_array().cloned().unwrap_or_default();
        let seen: Vec<Value> = events
            .iter()
            .map(|event| {
                json!([
                    event["type"],
                    event["object"]["kind"],
                    event["object"]["metadata"]["labels"]["keep"]
                ])
            })
            .collect();
        script.note(what, code, &seen.into());
    }
}

/// The responses to a client with an unknown token.
async fn strangers(client: Client) -> Vec<String> {
    let mut script = Script {
        client,
        user: "",
        notes: Vec::new(),
    };
    for (method, path) in [
        ("GET", CLASSES),
        ("GET", "/version"),
        ("POST", LEASES),
        ("GET", "/api/v1/nodes?watch=true"),
    ] {
        let (code, answer) = script.ask(method, path, MERGE, &json!({})).await;
        script.note(&format!("a stranger's {method} {path}"), code, &answer);
    }
    script.notes
}

/// The refusals to a user without permissions; the model must have the same rules.
async fn refusals(client: Client) -> Vec<String> {
    let mut script = Script {
        client,
        user: "system:serviceaccount:default:sidecar",
        notes: Vec::new(),
    };
    for (method, path) in [
        ("GET", CLASSES.to_owned()),
        ("GET", format!("{VOLUMES}?watch=true")),
        ("PATCH", format!("{ATTACHMENTS}/va1/status")),
        ("GET", format!("{LEASES}/l")),
        ("POST", EVENTS.to_owned()),
        ("DELETE", format!("{NODES}/n")),
    ] {
        let (code, answer) = script.ask(method, &path, MERGE, &json!({})).await;
        script.note(
            &format!("forbidden {method} {path}"),
            code,
            &answer["message"],
        );
    }
    script.review().await;
    script.notes
}

async fn answers(client: Client) -> Vec<String> {
    let mut script = Script {
        client,
        user: "",
        notes: Vec::new(),
    };
    finalizers(&mut script).await;
    strange_patches(&mut script).await;
    deletion(&mut script).await;
    status_of_attachments(&mut script).await;
    status_of_others(&mut script).await;
    versions(&mut script).await;
    csi_nodes(&mut script).await;
    leases(&mut script).await;
    events(&mut script).await;
    reading(&mut script).await;
    paging(&mut script).await;
    watching(&mut script).await;
    script.notes
}

/// The responses of Kubernetes 1.36.3.
const REAL: &str = include_str!("conformance.txt");

#[track_caller]
fn compare(found: &[String]) {
    for (number, (found, real)) in found.iter().zip(REAL.lines()).enumerate() {
        assert_eq!(found, real, "line {}", number + 1);
    }
    assert_eq!(found.len(), REAL.lines().count());
}

#[tokio::test(start_paused = true)]
async fn the_model_answers_like_the_server() {
    let api = FakeApi::new();
    let mut found = answers(api.client()).await;
    api.allow_only([]);
    found.extend(refusals(api.client()).await);
    api.accept_tokens(["another"]);
    found.extend(strangers(api.client()).await);
    compare(&found);
}

#[tokio::test]
#[ignore = "needs a cluster: make model"]
async fn the_server_still_answers_like_that() {
    let path = std::env::var_os("CONFORMANCE_KUBECONFIG").unwrap();
    let kubeconfig = kube::config::Kubeconfig::read_from(path).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.default_retry = false;
    let mut unknown = config.clone();
    unknown.auth_info = kube::config::AuthInfo::default();
    unknown.auth_info.token = Some("nobody".to_owned().into());
    let client = Client::try_from(config).unwrap();
    let mut found = answers(client.clone()).await;
    found.extend(refusals(client).await);
    found.extend(strangers(Client::try_from(unknown).unwrap()).await);
    println!("{}", found.join("\n"));
    compare(&found);
}
