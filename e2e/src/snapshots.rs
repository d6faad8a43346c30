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

/// Installs the CustomResourceDefinitions that come with the pinned Kubernetes; no controller.
pub fn install(cluster: &Cluster, api: &Api) -> Result<()> {
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
    manifest::create(api, &snapshot.content)?;
    manifest::create(api, &snapshot.object)?;
    let name = |object: &serde_json::Value| {
        let name = crate::api::text(object, "/metadata/name");
        name.unwrap_or_default().to_owned()
    };
    let content = name(&snapshot.content);
    let contents = format!("{GROUP}/volumesnapshotcontents/{content}/status");
    api.merge(&contents, &snapshot.content_status)?;
    let snapshots = format!("{GROUP}/namespaces/default/volumesnapshots");
    let status = format!("{snapshots}/{}/status", name(&snapshot.object));
    api.merge(&status, &snapshot.status)?;
    Ok(())
}
