use proptest::prelude::*;
use sidecar_testkit::FakeApi;
use sidecar_testkit::build::{Object as _, attachment, volume};

use super::*;

const F: &str = "external-attacher/test-csi-driver";

const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");

const ATTACHMENTS: Resource = Resource::new("storage.k8s.io", "v1", "volumeattachments");

fn key(name: &str) -> Key {
    Key::new(None, name).unwrap()
}

#[test]
fn rows_36_to_38_adding_a_finalizer() {
    let json = |text: &str| Some(Patch::Json(serde_json::from_str(text).unwrap()));
    let others = ["kubernetes.io/pv-protection"];
    let cases = [
        (
            "absent",
            None,
            json(
                r#"[{"op":"test","path":"/metadata/finalizers","value":null},
                   {"op":"add","path":"/metadata/finalizers","value":["external-attacher/test-csi-driver"]}]"#,
            ),
        ),
        (
            "empty",
            Some(&[][..]),
            json(
                r#"[{"op":"test","path":"/metadata/finalizers","value":[]},
                   {"op":"replace","path":"/metadata/finalizers","value":["external-attacher/test-csi-driver"]}]"#,
            ),
        ),
        (
            "others",
            Some(&others[..]),
            json(
                r#"[{"op":"add","path":"/metadata/finalizers/-","value":"external-attacher/test-csi-driver"}]"#,
            ),
        ),
        ("present", Some(&["a/b", F][..]), None),
    ];
    for (name, read, want) in cases {
        assert_eq!(add_finalizer(read, F), want, "{name}");
    }
}

#[test]
fn attacher_104_and_106_removing_a_finalizer_takes_one_entry_by_index() {
    let want = json!([
        {"op": "test", "path": "/metadata/finalizers/1", "value": F},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]);
    assert_eq!(
        remove_finalizer(&["a/b", F, "c/d"], F),
        Some(Patch::Json(want.clone()))
    );
    assert_eq!(remove_finalizer(&["a/b", F, F], F), Some(Patch::Json(want)));
    assert_eq!(remove_finalizer(&["a/b"], F), None);
}

#[test]
fn rows_87_and_88_a_merge_patch_has_null_for_no_finalizers() {
    assert_eq!(finalizer_list::<&str>(&[]), Value::Null);
    assert_eq!(finalizer_list(&["other/fin"]), json!(["other/fin"]));
}

#[test]
fn differences_are_minimal() {
    let cases = [
        (
            "row 36: attached",
            json!({"status": {"attached": false}}),
            json!({"status": {"attached": true}}),
            json!({"status": {"attached": true}}),
        ),
        (
            "row 42: with publish context",
            json!({"status": {"attached": false}}),
            json!({"status": {"attached": true, "attachmentMetadata": {"dev": "sda"}}}),
            json!({"status": {"attached": true, "attachmentMetadata": {"dev": "sda"}}}),
        ),
        (
            "old keys of the publish context go",
            json!({"status": {"attached": true, "attachmentMetadata": {"a": "1", "b": "2"}}}),
            json!({"status": {"attached": true, "attachmentMetadata": {"b": "2", "c": "3"}}}),
            json!({"status": {"attachmentMetadata": {"a": null, "c": "3"}}}),
        ),
        (
            "row 72: a former error goes",
            json!({"status": {"attached": false, "attachError": {"message": "x", "time": "t"}}}),
            json!({"status": {"attached": true}}),
            json!({"status": {"attached": true, "attachError": null}}),
        ),
        (
            "row 78: the same error later",
            json!({"status": {"attachError": {"message": "x", "time": "t1", "errorCode": 8}}}),
            json!({"status": {"attachError": {"message": "x", "time": "t2", "errorCode": 8}}}),
            json!({"status": {"attachError": {"time": "t2"}}}),
        ),
        (
            "row 90: nothing",
            json!({"status": {"attached": false}}),
            json!({"status": {"attached": false, "attachmentMetadata": null}}),
            json!({}),
        ),
        (
            "lists are replaced",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["b"]}}),
            json!({"metadata": {"finalizers": ["b"]}}),
        ),
        (
            "nulls in a new value are not orders",
            json!({}),
            json!({"a": {"b": null, "c": 1}}),
            json!({"a": {"c": 1}}),
        ),
        (
            "an object in place of a text",
            json!({"a": "x"}),
            json!({"a": {"b": {"c": null}}}),
            json!({"a": {"b": {}}}),
        ),
    ];
    for (name, before, after, want) in cases {
        assert_eq!(diff(&before, &after), want, "{name}");
    }
}

/// RFC 7386, section 2, verbatim.
fn merge(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut target = target.as_object().cloned().unwrap_or_default();
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            let old = target.remove(name).unwrap_or_default();
            target.insert(name.clone(), merge(old, value));
        }
    }
    Value::Object(target)
}

fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        prop::collection::vec((0..3).prop_map(Value::from), 0..3).prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        prop::collection::btree_map("[a-d]", inner, 0..4)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
    });
    prop::collection::btree_map("[a-d]", value, 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

proptest! {
    #[test]
    fn a_difference_leads_from_one_to_the_other(before in object(), after in object()) {
        let patch = diff(&before, &after);
        prop_assert_eq!(merge(before.clone(), &patch), after.clone());
        prop_assert_eq!(patch == json!({}), before == after);
    }
}

#[test]
fn paths_name_the_object_and_cannot_be_left() {
    let secrets = Resource {
        plural: "secrets",
        ..VOLUMES
    };
    let cases = [
        (
            &VOLUMES,
            key("pv1"),
            Part::Main,
            "/api/v1/persistentvolumes/pv1",
        ),
        (
            &ATTACHMENTS,
            key("va1"),
            Part::Status,
            "/apis/storage.k8s.io/v1/volumeattachments/va1/status",
        ),
        (
            &secrets,
            Key::new(Some("ns"), "s").unwrap(),
            Part::Main,
            "/api/v1/namespaces/ns/secrets/s",
        ),
        (
            &VOLUMES,
            key("a?b#c d%2F"),
            Part::Main,
            "/api/v1/persistentvolumes/a%3Fb%23c%20d%252F",
        ),
    ];
    for (resource, key, part, want) in cases {
        assert_eq!(path(resource, &key, part), want);
    }
}

#[tokio::test]
async fn patches_reach_the_part_they_are_for() {
    let api = FakeApi::new();
    api.insert(volume("pv1").csi("test.csi.driver", "h1"));
    api.insert(
        attachment("va1")
            .by("test.csi.driver")
            .on("node1")
            .of("pv1")
            .finalizer("a/b"),
    );
    let client = api.client();

    let add = add_finalizer::<&str>(None, F).unwrap();
    let after: Value = send(&client, &VOLUMES, &key("pv1"), Part::Main, &add)
        .await
        .unwrap();
    assert_eq!(after["metadata"]["finalizers"], json!([F]));
    let lost = send::<Value>(&client, &VOLUMES, &key("pv1"), Part::Main, &add).await;
    assert!(matches!(lost, Err(::kube::Error::Api(status)) if status.code == 422));
    let remove = remove_finalizer(&[F], F).unwrap();
    let after: Value = send(&client, &VOLUMES, &key("pv1"), Part::Main, &remove)
        .await
        .unwrap();
    assert_eq!(after["metadata"]["finalizers"], Value::Null);

    let status = Patch::Merge(json!({"status": {"attached": true}}));
    let after: Value = send(&client, &ATTACHMENTS, &key("va1"), Part::Status, &status)
        .await
        .unwrap();
    assert_eq!(after["status"]["attached"], true);
    let types: Vec<String> = api
        .requests()
        .into_iter()
        .map(|request| request.content_type)
        .collect();
    let json_patch = "application/json-patch+json";
    assert_eq!(
        types,
        [
            json_patch,
            json_patch,
            json_patch,
            "application/merge-patch+json"
        ]
    );
}

#[tokio::test]
async fn a_patch_for_one_object_is_refused_by_the_next_of_its_name() {
    let api = FakeApi::new();
    let client = api.client();
    let volume = || volume("pv1").finalizer("a/b");
    let patches = [
        Patch::Merge(json!({})),
        Patch::Strategic(json!({"metadata": {"finalizers": [F]}})),
        Patch::Json(json!([{"op": "add", "path": "/metadata/finalizers/-", "value": F}])),
    ];
    for patch in patches {
        let made = api.insert(volume());
        let uid = made["metadata"]["uid"].as_str().unwrap();
        let patch = patch.only_for(uid);
        let key = key("pv1");
        let sent = send::<Value>(&client, &VOLUMES, &key, Part::Main, &patch).await;
        assert!(sent.is_ok(), "{patch:?}");
        api.remove("persistentvolumes", "pv1");
        let next = api.insert(volume());
        let sent = send::<Value>(&client, &VOLUMES, &key, Part::Main, &patch).await;
        assert!(matches!(sent, Err(::kube::Error::Api(status)) if status.code == 422));
        assert_eq!(api.object("persistentvolumes", "pv1"), Some(next));
        api.remove("persistentvolumes", "pv1");
    }
}
