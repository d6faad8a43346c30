//! The model API server, seen through the client that the sidecars use.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "shared steps of tests fail as tests do"
)]

use std::time::Duration;

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::build::{Object as _, attachment, csinode, node, volume};
use sidecar_testkit::{FakeApi, Fault, Gate};

const DRIVER: &str = "test.csi.driver";
const F: &str = "external-attacher/test-csi-driver";

fn with_attachment() -> (FakeApi, Api<VolumeAttachment>) {
    let api = FakeApi::new();
    api.insert(attachment("va1").by(DRIVER).on("node1").of("pv1"));
    let attachments = Api::all(api.client());
    (api, attachments)
}

fn code<T: std::fmt::Debug>(result: kube::Result<T>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("not an API error: {other:?}"),
    }
}

async fn merge(
    attachments: &Api<VolumeAttachment>,
    patch: Value,
) -> kube::Result<VolumeAttachment> {
    let parameters = PatchParams::default();
    attachments
        .patch("va1", &parameters, &Patch::Merge(patch))
        .await
}

async fn merge_status(
    attachments: &Api<VolumeAttachment>,
    patch: Value,
) -> kube::Result<VolumeAttachment> {
    let parameters = PatchParams::default();
    attachments
        .patch_status("va1", &parameters, &Patch::Merge(patch))
        .await
}

#[tokio::test]
async fn the_main_resource_ignores_status_and_status_ignores_the_rest() {
    let (_api, attachments) = with_attachment();
    let changed = merge(
        &attachments,
        json!({"metadata": {"finalizers": [F]}, "status": {"attached": true}}),
    );
    let changed = changed.await.unwrap();
    assert_eq!(changed.finalizers(), [F]);
    assert!(!changed.status.unwrap().attached);
    let changed = merge_status(
        &attachments,
        json!({"metadata": {"finalizers": null}, "status": {"attached": true}}),
    );
    let changed = changed.await.unwrap();
    assert_eq!(changed.finalizers(), [F]);
    assert!(changed.status.unwrap().attached);
}

#[tokio::test]
async fn node_metadata_can_be_written_through_status() {
    let api = FakeApi::new();
    api.insert(node("node1").label("zone", "a"));
    let nodes: Api<Node> = Api::all(api.client());
    let patch = json!({"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": "{}"}, "labels": {"rack": "7"}}});
    let (parameters, patch) = (PatchParams::default(), Patch::Strategic(patch));
    let patched = nodes.patch_status("node1", &parameters, &patch);
    let patched = patched.await.unwrap();
    assert_eq!(patched.labels()["zone"], "a");
    assert_eq!(patched.labels()["rack"], "7");
    assert_eq!(
        api.requests()[0].content_type,
        "application/strategic-merge-patch+json"
    );
}

#[tokio::test]
async fn a_write_without_change_makes_neither_version_nor_event() {
    let (api, attachments) = with_attachment();
    let before = api.version();
    merge_status(&attachments, json!({})).await.unwrap();
    merge_status(&attachments, json!({"status": {"attached": false}}))
        .await
        .unwrap();
    assert_eq!(api.version(), before);
}

#[tokio::test]
async fn the_last_finalizer_releases_a_deleted_object() {
    let (api, attachments) = with_attachment();
    merge(
        &attachments,
        json!({"metadata": {"finalizers": [F, "other/fin"]}}),
    )
    .await
    .unwrap();
    attachments
        .delete("va1", &DeleteParams::default())
        .await
        .unwrap();
    let marked = attachments.get("va1").await.unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    let more = json!({"metadata": {"finalizers": [F, "other/fin", "new/fin"]}});
    assert_eq!(code(merge(&attachments, more).await), 422);
    merge(
        &attachments,
        json!({"metadata": {"finalizers": ["other/fin"]}}),
    )
    .await
    .unwrap();
    assert!(api.object("volumeattachments", "va1").is_some());
    let last = merge(&attachments, json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
    assert!(last.finalizers().is_empty());
    assert!(api.object("volumeattachments", "va1").is_none());
    assert_eq!(code(merge_status(&attachments, json!({})).await), 404);
}

#[tokio::test]
async fn updates_check_version_and_uid() {
    let api = FakeApi::new();
    api.insert(csinode("node1").driver(DRIVER, "NID1"));
    let nodes: Api<CSINode> = Api::all(api.client());
    let parameters = PostParams::default();
    let read = nodes.get("node1").await.unwrap();
    let mut changed = read.clone();
    changed
        .annotations_mut()
        .insert("a".to_owned(), "1".to_owned());
    nodes.replace("node1", &parameters, &changed).await.unwrap();
    assert_eq!(
        code(nodes.replace("node1", &parameters, &changed).await),
        409
    );
    let mut reborn = nodes.get("node1").await.unwrap();
    reborn.metadata.uid = Some("other".to_owned());
    assert_eq!(
        code(nodes.replace("node1", &parameters, &reborn).await),
        409
    );
    let mut blind = nodes.get("node1").await.unwrap();
    blind.metadata.resource_version = None;
    assert_eq!(code(nodes.replace("node1", &parameters, &blind).await), 422);
}

#[tokio::test]
async fn k_61_the_node_id_of_a_driver_entry_cannot_change() {
    let api = FakeApi::new();
    api.insert(csinode("node1").driver(DRIVER, "NID1"));
    let nodes: Api<CSINode> = Api::all(api.client());
    let mut read = nodes.get("node1").await.unwrap();
    read.spec.drivers[0].node_id = "NID2".to_owned();
    let parameters = PostParams::default();
    assert_eq!(code(nodes.replace("node1", &parameters, &read).await), 422);
    read.spec.drivers.clear();
    let read = nodes.replace("node1", &parameters, &read).await.unwrap();
    assert!(read.spec.drivers.is_empty());
}

#[tokio::test]
async fn volume_error_messages_are_limited_to_1024_bytes() {
    let (_api, attachments) = with_attachment();
    let error = |length| json!({"status": {"attachError": {"message": "x".repeat(length), "time": "2020-01-01T00:00:00Z"}}});
    assert_eq!(code(merge_status(&attachments, error(1025)).await), 422);
    merge_status(&attachments, error(1024)).await.unwrap();
}

#[tokio::test]
async fn creating_names_numbers_and_refuses_twins() {
    let api = FakeApi::new();
    let volumes: Api<PersistentVolume> = Api::all(api.client());
    let parameters = PostParams::default();
    let new: PersistentVolume =
        serde_json::from_value(volume("pv1").csi(DRIVER, "h").build()).unwrap();
    let made = volumes.create(&parameters, &new).await.unwrap();
    assert!(made.uid().is_some() && made.resource_version().is_some());
    assert_eq!(made.status.unwrap().phase.unwrap(), "Pending");
    assert_eq!(code(volumes.create(&parameters, &new).await), 409);
    let mut generated = new.clone();
    generated.metadata.name = None;
    generated.metadata.generate_name = Some("pv-".to_owned());
    let first = volumes
        .create(&parameters, &generated)
        .await
        .unwrap()
        .name_any();
    let second = volumes
        .create(&parameters, &generated)
        .await
        .unwrap()
        .name_any();
    assert!(first.starts_with("pv-") && first != second);
}

#[tokio::test]
async fn lists_come_in_pages() {
    let api = FakeApi::new();
    for number in 0..5 {
        api.insert(
            node(&format!("node{number}")).label("odd", if number % 2 == 1 { "yes" } else { "no" }),
        );
    }
    let nodes: Api<Node> = Api::all(api.client());
    let mut parameters = ListParams::default().limit(2);
    let mut names = Vec::new();
    loop {
        let page = nodes.list(&parameters).await.unwrap();
        names.extend(page.items.iter().map(kube::ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["node0", "node1", "node2", "node3", "node4"]);
    assert_eq!(api.requests().len(), 3);
    let odd = nodes
        .list(&ListParams::default().labels("odd=yes"))
        .await
        .unwrap();
    assert_eq!(odd.items.len(), 2);
    let metadata = nodes.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(metadata.items.len(), 5);
    let stale = nodes.list(&ListParams::default().limit(2)).await.unwrap();
    api.edit("nodes", "node0", |node| node["spec"]["x"] = 1.into());
    api.compact();
    let token = stale.metadata.continue_.unwrap();
    assert_eq!(
        code(
            nodes
                .list(&ListParams::default().limit(2).continue_token(&token))
                .await
        ),
        410
    );
}

async fn names(client: &Client, version: &str, seconds: u32) -> Vec<String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let parameters = WatchParams::default().timeout(seconds).labels("keep=yes");
    let events = nodes.watch(&parameters, version).await.unwrap();
    let events: Vec<_> = events.try_collect().await.unwrap();
    let name = |event: &WatchEvent<Node>| match event {
        WatchEvent::Added(node) => format!("+{}", node.name_any()),
        WatchEvent::Modified(node) => format!("~{}", node.name_any()),
        WatchEvent::Deleted(node) => format!("-{}", node.name_any()),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => status.code.to_string(),
    };
    events.iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_and_an_object_that_leaves_the_selector_is_deleted() {
    let api = FakeApi::new();
    let client = api.client();
    let kept = |name: &str| node(name).label("keep", "yes");
    api.insert(kept("a"));
    assert_eq!(names(&client, "0", 5).await, ["+a"]);
    let version = api.version().to_string();
    api.insert(node("b"));
    api.insert(kept("b"));
    api.insert(kept("b").annotation("n", "1"));
    api.insert(node("a"));
    api.remove("nodes", "b");
    assert_eq!(names(&client, &version, 5).await, ["+b", "~b", "-a", "-b"]);
    api.compact();
    api.insert(kept("c"));
    assert_eq!(names(&client, &version, 5).await, ["410"]);
    assert_eq!(api.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_running_watch_sees_changes_bookmarks_and_its_end() {
    let api = FakeApi::new();
    let nodes: Api<Node> = Api::all(api.client());
    let version = api.version().to_string();
    let mut events = std::pin::pin!(
        nodes
            .watch(&WatchParams::default(), &version)
            .await
            .unwrap()
    );
    api.insert(node("a"));
    assert!(matches!(
        events.try_next().await,
        Ok(Some(WatchEvent::Added(_)))
    ));
    api.hold_watches("nodes");
    api.insert(node("b"));
    let nothing = tokio::time::timeout(Duration::from_secs(30), events.try_next()).await;
    assert!(nothing.is_err());
    api.release_watches("nodes");
    assert!(matches!(
        events.try_next().await,
        Ok(Some(WatchEvent::Added(_)))
    ));
    api.send_bookmarks();
    assert!(matches!(
        events.try_next().await,
        Ok(Some(WatchEvent::Bookmark(_)))
    ));
    api.expire_watches();
    assert!(
        matches!(events.try_next().await, Ok(Some(WatchEvent::Error(status))) if status.code == 410)
    );
    assert!(matches!(events.try_next().await, Ok(None)));
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_are_refused_unless_allowed() {
    let api = FakeApi::new();
    api.insert(node("a"));
    let nodes: Api<Node> = Api::all(api.client());
    let parameters = WatchParams::default().initial_events();
    let refused = nodes.watch(&parameters, "0").await.map(|_| ());
    assert_eq!(code(refused), 422);
    api.allow_streaming_lists();
    let mut events = std::pin::pin!(nodes.watch(&parameters, "0").await.unwrap());
    assert!(matches!(
        events.try_next().await,
        Ok(Some(WatchEvent::Added(_)))
    ));
    let Ok(Some(WatchEvent::Bookmark(bookmark))) = events.try_next().await else {
        panic!("no bookmark");
    };
    assert_eq!(
        bookmark.metadata.annotations["k8s.io/initial-events-end"],
        "true"
    );
}

#[tokio::test(start_paused = true)]
async fn faults_take_their_requests_and_no_others() {
    let (api, attachments) = with_attachment();
    let path = "*/volumeattachments/*/status";
    let busy = api.fault(Fault::on("PATCH", path).skip(1).times(1).answer(503));
    let attached = json!({"status": {"attached": true}});
    merge_status(&attachments, json!({})).await.unwrap();
    assert_eq!(
        code(merge_status(&attachments, attached.clone()).await),
        503
    );
    assert_eq!(
        api.object("volumeattachments", "va1").unwrap()["status"]["attached"],
        false
    );
    assert_eq!(busy.hits(), 1);

    let lost = api.fault(Fault::on("PATCH", path).times(1).lose_reply());
    let result = merge_status(&attachments, attached.clone()).await;
    assert!(
        !matches!(result, Ok(_) | Err(kube::Error::Api(_))),
        "{result:?}"
    );
    assert_eq!(
        api.object("volumeattachments", "va1").unwrap()["status"]["attached"],
        true
    );
    assert_eq!(lost.hits(), 1);

    let gate = Gate::new();
    api.fault(Fault::on("PATCH", path).times(1).hold(&gate));
    let mut held = tokio::spawn({
        let attachments = attachments.clone();
        async move { merge_status(&attachments, json!({})).await }
    });
    assert!(
        tokio::time::timeout(Duration::from_secs(60), &mut held)
            .await
            .is_err()
    );
    assert_eq!(gate.waiting(), 1);
    gate.open();
    held.await.unwrap().unwrap();

    api.fault(Fault::on("*", "*").hang());
    let hung = tokio::time::timeout(Duration::from_secs(3600), attachments.get("va1")).await;
    assert!(hung.is_err());
}

#[tokio::test]
async fn access_rules_hold_for_reviews_and_requests() {
    let (api, attachments) = with_attachment();
    api.allow_only([
        Allow::new("storage.k8s.io", "volumeattachments", "get, list, watch"),
        Allow::new("", "events", "create").within("kube-system"),
    ]);
    attachments.get("va1").await.unwrap();
    let refused = merge_status(&attachments, json!({})).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("allowed");
    };
    assert_eq!(status.code, 403);
    assert!(
        status.message.ends_with(
            "cannot patch resource \"volumeattachments/status\" in API group \"storage.k8s.io\" at the cluster scope"
        ),
        "{}",
        status.message
    );
    let review = |verb: &str, group: &str, resource: &str, namespace: &str| json!({"spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource, "namespace": namespace}}});
    for (asked, allowed) in [
        (
            review("list", "storage.k8s.io", "volumeattachments", ""),
            true,
        ),
        (
            review("patch", "storage.k8s.io", "volumeattachments", ""),
            false,
        ),
        (review("create", "", "events", "kube-system"), true),
        (review("create", "", "events", "default"), false),
    ] {
        let request = http::Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .body(asked.to_string().into_bytes())
            .unwrap();
        let answer: Value = api.client().request(request).await.unwrap();
        assert_eq!(answer["status"]["allowed"], allowed, "{asked}");
    }
}

#[tokio::test]
async fn the_same_server_answers_over_tls_and_a_broken_connection_is_an_error() {
    let (api, _) = with_attachment();
    let served = api.serve().await;
    let kubeconfig = kube::config::Kubeconfig::read_from(served.kubeconfig()).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    let attachments: Api<VolumeAttachment> = Api::all(Client::try_from(config).unwrap());
    assert_eq!(attachments.get("va1").await.unwrap().name_any(), "va1");
    assert_eq!(api.requests()[0].authorization, "Bearer test-token");
    api.fault(Fault::on("GET", "*/va1").times(2).drop_connection());
    let broken = attachments.get("va1").await;
    assert!(
        matches!(
            broken,
            Err(kube::Error::HyperError(_) | kube::Error::Service(_))
        ),
        "{broken:?}"
    );
    let listed = attachments.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
}
