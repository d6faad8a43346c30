//! Group snapshots on the model API server: their versions, and the refusals of their definitions.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use sidecar_testkit::FakeApi;

const VERSIONS: [&str; 3] = ["v1", "v1beta2", "v1beta1"];

fn contents(api: &FakeApi, version: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(
        "groupsnapshot.storage.k8s.io",
        version,
        "VolumeGroupSnapshotContent",
    );
    let resource = ApiResource::from_gvk_with_plural(&kind, "volumegroupsnapshotcontents");
    Api::all_with(api.client(), &resource)
}

fn content() -> Value {
    json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotContent",
        "metadata": {"name": "c"},
        "spec": {
            "driver": "T", "deletionPolicy": "Delete", "source": {"volumeHandles": ["a", "b"]},
            "volumeGroupSnapshotClassName": "g",
            "volumeGroupSnapshotRef": {"namespace": "ns", "name": "v1"},
        },
    })
}

#[tokio::test]
async fn one_object_is_served_under_every_version() {
    let api = FakeApi::new();
    api.insert(content());
    for version in VERSIONS {
        let contents = contents(&api, version);
        let expected = format!("groupsnapshot.storage.k8s.io/{version}");
        let read = contents.get("c").await.unwrap();
        assert_eq!(read.types.unwrap().api_version, expected);
        let listed = contents.list(&Default::default()).await.unwrap();
        assert_eq!(listed.items.len(), 1, "{version}");
    }
    assert_eq!(api.objects("volumegroupsnapshotcontents").len(), 1);
    api.forget_group("groupsnapshot.storage.k8s.io");
    assert!(contents(&api, "v1").get("c").await.is_err());
}

#[tokio::test]
async fn what_is_fixed_stays() {
    let api = FakeApi::new();
    api.insert(content());
    let contents = contents(&api, "v1");
    let patch = async |spec: Value| {
        let patch = Patch::Merge(json!({"spec": spec}));
        contents.patch("c", &PatchParams::default(), &patch).await
    };
    patch(json!({"deletionPolicy": "Retain"})).await.unwrap();
    patch(json!({"volumeGroupSnapshotRef": {"uid": "U1"}}))
        .await
        .unwrap();
    for spec in [
        json!({"volumeGroupSnapshotClassName": "h"}),
        json!({"driver": "T2"}),
        json!({"volumeGroupSnapshotRef": {"uid": "U2"}}),
        json!({"volumeGroupSnapshotRef": {"name": null}}),
        json!({"source": {"volumeHandles": ["a"]}}),
        json!({"source": {"volumeHandles": null}}),
    ] {
        let refused = patch(spec.clone()).await;
        let code = match refused {
            Err(kube::Error::Api(status)) => status.code,
            Err(_) | Ok(_) => 0,
        };
        assert_eq!(code, 422, "{spec}");
    }
}
