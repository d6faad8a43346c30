//! Reads the snapshots in the cluster and in the storage.

use anyhow::Result;
use e2e::api::{Api, text};
use e2e::snapshots::GROUP;
use serde_json::Value;

use super::{list, string, terminating};
use crate::audit::{Content, Origin, Snapshot, Taken};
use crate::stage::DRIVER;

/// Path of the VolumeSnapshotContents.
pub(crate) const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";

/// VolumeSnapshots in all namespaces.
pub(super) fn snapshots(api: &Api) -> Result<Vec<Snapshot>> {
    let all = list(api, &format!("{GROUP}/volumesnapshots"))?;
    Ok(all.iter().map(snapshot).collect())
}

/// Contents of the driver.
pub(super) fn contents(api: &Api) -> Result<Vec<Content>> {
    Ok(contents_as_they_are(api)?.iter().map(content).collect())
}

/// The contents of the driver as JSON.
pub(crate) fn contents_as_they_are(api: &Api) -> Result<Vec<Value>> {
    let mut all = list(api, CONTENTS)?;
    all.retain(|it| text(it, "/spec/driver") == Some(DRIVER));
    Ok(all)
}

/// The snapshots in the driver's state.
pub(super) fn taken(state: &Value) -> Vec<Taken> {
    let all = state.get("snapshots").and_then(Value::as_object);
    { all.into_iter().flatten() }
        .map(|(handle, it)| Taken {
            handle: handle.clone(),
            name: string(it, "/name"),
        })
        .collect()
}

fn is_ready(object: &Value) -> bool {
    object.pointer("/status/readyToUse") == Some(&Value::Bool(true))
}

fn snapshot(object: &Value) -> Snapshot {
    let namespace = string(object, "/metadata/namespace");
    let claim = text(object, "/spec/source/persistentVolumeClaimName");
    Snapshot {
        name: format!("{namespace}/{}", string(object, "/metadata/name")),
        uid: string(object, "/metadata/uid"),
        source: match claim {
            Some(claim) => Origin::Claim(format!("{namespace}/{claim}")),
            None => Origin::Snapshot(string(object, "/spec/source/volumeSnapshotContentName")),
        },
        ready: is_ready(object),
        terminating: terminating(object),
    }
}

fn content(object: &Value) -> Content {
    let by_hand = text(object, "/spec/source/snapshotHandle");
    let handle = text(object, "/status/snapshotHandle").or(by_hand);
    Content {
        name: string(object, "/metadata/name"),
        snapshot_uid: string(object, "/spec/volumeSnapshotRef/uid"),
        handle: handle.map(str::to_owned),
        ready: is_ready(object),
        terminating: terminating(object),
        retained: text(object, "/spec/deletionPolicy") == Some("Retain"),
        made_by_hand: by_hand.is_some(),
    }
}
