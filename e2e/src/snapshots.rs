//! The snapshot API, which is no part of Kubernetes and has to be installed.

use std::time::Duration;

use anyhow::Result;

use crate::api::Api;
use crate::cluster::Cluster;
use crate::{manifest, object, wait};

const CRDS: [&str; 3] = [
    "volumesnapshotclasses",
    "volumesnapshotcontents",
    "volumesnapshots",
];

const GROUP: &str = "/apis/snapshot.storage.k8s.io/v1";

/// Installs the CustomResourceDefinitions that come with the pinned Kubernetes, unless they are
/// there; no controller.
pub fn install(cluster: &Cluster, api: &Api) -> Result<()> {
    if api.find(&format!("{GROUP}/volumesnapshots"))?.is_some() {
        return Ok(());
    }
    for name in CRDS {
        let folder = "cluster/addons/volumesnapshots/crd/snapshot.storage.k8s.io";
        for object in manifest::read(cluster, &format!("{folder}_{name}.yaml"))? {
            manifest::create(api, &object)?;
        }
    }
    wait::until_true(
        Duration::from_secs(20),
        "the snapshot API is served",
        || {
            CRDS.iter().try_fold(true, |served, name| {
                Ok(served && api.find(&format!("{GROUP}/{name}"))?.is_some())
            })
        },
    )
}

/// Stores a snapshot that exists in the storage, as if controllers had done so.
pub fn store(api: &Api, snapshot: &object::Snapshot) -> Result<()> {
    let stored = manifest::create(api, &snapshot.object)?;
    let mut content = snapshot.content.clone();
    if let Some(reference) = content.pointer_mut("/spec/volumeSnapshotRef") {
        // Bound is what names the very object, not one of its name.
        if let (Some(uid), Some(fields)) =
            (stored.pointer("/metadata/uid"), reference.as_object_mut())
        {
            fields.insert("uid".to_owned(), uid.clone());
        }
    }
    manifest::create(api, &content)?;
    let of = |object: &serde_json::Value, field| {
        let text = crate::api::text(object, field);
        text.unwrap_or_default().to_owned()
    };
    let name = |object| of(object, "/metadata/name");
    let content = name(&snapshot.content);
    let contents = format!("{GROUP}/volumesnapshotcontents/{content}/status");
    api.merge(&contents, &snapshot.content_status)?;
    let namespace = of(&snapshot.object, "/metadata/namespace");
    let snapshots = format!("{GROUP}/namespaces/{namespace}/volumesnapshots");
    let status = format!("{snapshots}/{}/status", name(&snapshot.object));
    api.merge(&status, &snapshot.status)?;
    Ok(())
}
