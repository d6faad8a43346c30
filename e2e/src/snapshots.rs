//! The snapshot API, which is not part of Kubernetes and has to be installed.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::cluster::Cluster;
use crate::{manifest, object, process, program, wait};

/// Base path of the snapshot API.
pub const GROUP: &str = "/apis/snapshot.storage.k8s.io/v1";

/// Base path of the group snapshot API.
pub const GROUPS: &str = "/apis/groupsnapshot.storage.k8s.io/v1";

const KINDS: [(&str, &str, &str); 6] = [
    (GROUP, "snapshot", "volumesnapshotclasses"),
    (GROUP, "snapshot", "volumesnapshotcontents"),
    (GROUP, "snapshot", "volumesnapshots"),
    (GROUPS, "groupsnapshot", "volumegroupsnapshotclasses"),
    (GROUPS, "groupsnapshot", "volumegroupsnapshotcontents"),
    (GROUPS, "groupsnapshot", "volumegroupsnapshots"),
];

/// The module in which the API's authors publish it; `e2e/snapshot-crds/go.mod` has the version.
const MODULE: &str = "github.com/kubernetes-csi/external-snapshotter/client/v8";

/// The folder of the CustomResourceDefinitions in the pinned module, in Go's module cache. Downloads the
/// module if it is missing.
pub fn definitions() -> Result<PathBuf> {
    let mut go = Command::new("go");
    go.current_dir(program::root().join("e2e").join("snapshot-crds"));
    go.args(["mod", "download", "-json", MODULE]);
    go.env("GOFLAGS", "-mod=readonly");
    let said = process::output(&mut go).context("the CustomResourceDefinitions of snapshots")?;
    let said: Value = serde_json::from_str(&said)?;
    let folder = text(&said, "/Dir").with_context(|| format!("go mod download: {said}"))?;
    Ok(PathBuf::from(folder).join("config").join("crd"))
}

/// Installs the CustomResourceDefinitions of snapshots and group snapshots unless they exist; no
/// controller.
pub fn install(cluster: &Cluster, api: &Api) -> Result<()> {
    if api.find(&format!("{GROUP}/volumesnapshots"))?.is_some() {
        return Ok(());
    }
    let folder = definitions()?;
    for (_, group, name) in KINDS {
        let file = folder.join(format!("{group}.storage.k8s.io_{name}.yaml"));
        for object in manifest::read_file(cluster, &file)? {
            manifest::create(api, &object)?;
        }
    }
    wait::until_true(
        Duration::from_secs(20),
        "the snapshot APIs are served",
        || {
            KINDS.iter().try_fold(true, |served, (base, _, name)| {
                Ok(served && api.find(&format!("{base}/{name}"))?.is_some())
            })
        },
    )
}

/// Rules for group snapshots, which upstream's manifest of snapshot-controller in Kubernetes lacks.
pub fn group_rules() -> Value {
    let group = "groupsnapshot.storage.k8s.io";
    let read = ["get", "list", "watch"];
    let all = [
        "get", "list", "watch", "create", "update", "patch", "delete",
    ];
    json!([
        { "apiGroups": [group], "resources": ["volumegroupsnapshotclasses"], "verbs": read },
        { "apiGroups": [group], "verbs": all, "resources": [
            "volumegroupsnapshots", "volumegroupsnapshots/status", "volumegroupsnapshotcontents",
        ]},
        { "apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshots"],
          "verbs": ["create", "delete"] },
    ])
}

/// Creates the objects of an existing snapshot, as the controllers would.
pub fn store(api: &Api, snapshot: &object::Snapshot) -> Result<()> {
    let stored = manifest::create(api, &snapshot.object)?;
    let mut content = snapshot.content.clone();
    if let Some(reference) = content.pointer_mut("/spec/volumeSnapshotRef") {
        // The binding needs the UID of this very object, not just its name.
        if let (Some(uid), Some(fields)) =
            (stored.pointer("/metadata/uid"), reference.as_object_mut())
        {
            fields.insert("uid".to_owned(), uid.clone());
        }
    }
    manifest::create(api, &content)?;
    let (content, object) = (path_of_content(snapshot), path(snapshot));
    api.merge(&format!("{content}/status"), &snapshot.content_status)?;
    api.merge(&format!("{object}/status"), &snapshot.status)?;
    Ok(())
}

/// Removes the objects of [`store`], and waits until they are gone.
pub fn remove(api: &Api, snapshot: &object::Snapshot) -> Result<()> {
    for path in [path(snapshot), path_of_content(snapshot)] {
        api.delete(&path)?;
        api.until_gone(Duration::from_secs(20), &path)?;
    }
    Ok(())
}

fn path(snapshot: &object::Snapshot) -> String {
    let of = |field| text(&snapshot.object, field).unwrap_or_default();
    let (namespace, name) = (of("/metadata/namespace"), of("/metadata/name"));
    format!("{GROUP}/namespaces/{namespace}/volumesnapshots/{name}")
}

fn path_of_content(snapshot: &object::Snapshot) -> String {
    let name = text(&snapshot.content, "/metadata/name").unwrap_or_default();
    format!("{GROUP}/volumesnapshotcontents/{name}")
}
