//! PersistentVolumes, their claims, and nodes: fields written through the status, patches that make a
//! new version, and patches bound to a version.

use serde_json::{Value, json};

use super::{CLAIMS, MERGE, NODES, STRATEGIC, Script, VOLUMES};

pub(super) async fn status_of_others(script: &mut Script) {
    let volume = json!({"metadata": {"name": "conformance"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "csi": {"driver": "conformance.example.com", "volumeHandle": "h"}}});
    script.post(VOLUMES, volume).await;
    let claim = json!({"metadata": {"name": "conformance"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}});
    script.post(CLAIMS, claim).await;
    script
        .post(NODES, json!({"metadata": {"name": "conformance"}}))
        .await;
    for (name, collection) in [("volume", VOLUMES), ("claim", CLAIMS), ("node", NODES)] {
        let path = format!("{collection}/conformance");
        let body = json!({"metadata": {"annotations": {"a": "1"}, "labels": {"l": "1"}}});
        let what = format!("metadata through status of a {name}");
        let answer = script
            .patch(
                &what,
                &format!("{path}/status"),
                STRATEGIC,
                body,
                "/metadata/annotations/a",
            )
            .await;
        script.note("and labels", 0, &answer["metadata"]["labels"]["l"]);
        let (_, mut read) = script.get(&path).await;
        read["metadata"]["resourceVersion"] = Value::Null;
        let (code, _) = script.put(&path, read).await;
        script.note(
            &format!("put without version of a {name}"),
            code,
            &Value::Null,
        );
    }
    let other = json!({"spec": {"csi": {"volumeHandle": "other"}}});
    script
        .patch(
            "another handle",
            &format!("{VOLUMES}/conformance"),
            MERGE,
            other,
            "/x",
        )
        .await;
    for collection in [VOLUMES, CLAIMS, NODES] {
        let path = format!("{collection}/conformance");
        let none = json!({"metadata": {"finalizers": null}});
        script.ask("PATCH", &path, MERGE, &none).await;
        script.delete(&path, Value::Null).await;
    }
}

/// Patches a volume, and notes its size after that.
async fn sizes(script: &mut Script) {
    let path = format!("{VOLUMES}/versions");
    let volume = json!({"metadata": {"name": "versions"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "csi": {"driver": "conformance.example.com", "volumeHandle": "h"}}});
    let (_, made) = script.post(VOLUMES, volume).await;
    let first = &made["metadata"]["resourceVersion"];
    let grow = |size: &str| json!({"metadata": {"resourceVersion": first}, "spec": {"capacity": {"storage": size}}});
    let at = "/spec/capacity/storage";
    for (what, size) in [
        ("volume: a patch of its version", "3Gi"),
        ("volume: a patch of a version before", "2Gi"),
    ] {
        script.patch(what, &path, STRATEGIC, grow(size), at).await;
    }
    let none = json!({"metadata": {"finalizers": null}});
    script.ask("PATCH", &path, STRATEGIC, &none).await;
    script.delete(&path, Value::Null).await;
}

/// Patches a claim's condition with one changed time, or unchanged.
async fn times(script: &mut Script) {
    let path = format!("{CLAIMS}/versions");
    let status = format!("{path}/status");
    let claim = json!({"metadata": {"name": "versions"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}});
    script.post(CLAIMS, claim).await;
    let probed = |time: Value| {
        json!({"status": {
            "$setElementOrder/conditions": [{"type": "Resizing"}],
            "conditions": [{"type": "Resizing", "lastProbeTime": time}],
        }})
    };
    let new = json!({"status": {"conditions": [{"type": "Resizing", "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastProbeTime": null}]}});
    let mut before = Value::Null;
    for (what, patch) in [
        ("a condition", new),
        ("its probe time", probed("2026-01-02T00:00:00Z".into())),
        ("the same", probed("2026-01-02T00:00:00Z".into())),
        ("no probe time", probed(Value::Null)),
    ] {
        let (what, at) = (
            format!("claim: {what}"),
            "/status/conditions/0/lastProbeTime",
        );
        let after = script.patch(&what, &status, STRATEGIC, patch, at).await;
        let version = &after["metadata"]["resourceVersion"];
        script.note("a new version", 0, &(*version != before).into());
        before.clone_from(version);
    }
    let none = json!({"metadata": {"finalizers": null}});
    script.ask("PATCH", &path, STRATEGIC, &none).await;
    script.delete(&path, Value::Null).await;
}

pub(super) async fn versions(script: &mut Script) {
    sizes(script).await;
    times(script).await;
}
