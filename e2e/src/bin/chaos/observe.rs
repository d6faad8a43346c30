//! Reads the state of the cluster and of the storage.

mod snapshots;

use anyhow::{Context, Result};
use csi_test_driver::control::client::Client;
use csi_test_driver::size;
use e2e::api::{Api, text};
use serde_json::Value;

use crate::acts::ledger::Ledger;
use crate::audit::{Attachment, Claim, Namespace, Origin, State, Stored, Volume};
use crate::stage::{DRIVER, node_id};

pub(crate) use snapshots::{CONTENTS, contents_as_they_are};

/// Path of the claims in all namespaces.
pub(crate) const CLAIMS: &str = "/api/v1/persistentvolumeclaims";
/// Path of the PersistentVolumes.
pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
/// Path of the VolumeAttachments.
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
/// Path of the namespaces.
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";

/// The current state, without the volume `preexisting`, which belongs to no claim.
pub(crate) fn state(
    api: &Api,
    driver: &Client,
    preexisting: &str,
    ledger: &Ledger,
) -> Result<State> {
    let storage = driver.state()?;
    let ours = |it: &Value| text(it, "/spec/csi/driver") == Some(DRIVER);
    let attachments = list(api, ATTACHMENTS)?.into_iter();
    let namespaces = list(api, NAMESPACES)?.into_iter();
    let of_users = |it: &Value| string(it, "/metadata/name").starts_with("users-");
    let volumes = list(api, VOLUMES)?.into_iter();
    Ok(State {
        namespaces: namespaces
            .filter(of_users)
            .map(|it| Namespace {
                name: string(&it, "/metadata/name"),
                terminating: terminating(&it),
            })
            .collect(),
        claims: list(api, CLAIMS)?.iter().map(claim).collect(),
        volumes: volumes.filter(ours).map(|it| volume(&it)).collect(),
        attachments: attachments
            .filter(|it| text(it, "/spec/attacher") == Some(DRIVER))
            .map(|it| attachment(&it))
            .collect(),
        snapshots: snapshots::snapshots(api)?,
        contents: snapshots::contents(api)?,
        stored: stored(&storage, preexisting),
        taken: snapshots::taken(&storage),
        known: ledger.known(),
    })
}

fn list(api: &Api, path: &str) -> Result<Vec<Value>> {
    let mut list = api.get(path)?;
    let items = list.get_mut("items").map(Value::take);
    match items {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(anyhow::anyhow!("{path} is no list")),
    }
}

fn string(object: &Value, pointer: &str) -> String {
    text(object, pointer).unwrap_or_default().to_owned()
}

/// Whether an object is being deleted and its finalizers keep it.
pub(crate) fn terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

fn bytes(object: &Value, pointer: &str) -> i64 {
    text(object, pointer).and_then(size::parse).unwrap_or(0)
}

fn claim(object: &Value) -> Claim {
    let namespace = string(object, "/metadata/namespace");
    let source = text(object, "/spec/dataSource/name").map(|name| {
        let name = format!("{namespace}/{name}");
        if text(object, "/spec/dataSource/kind") == Some("VolumeSnapshot") {
            Origin::Snapshot(name)
        } else {
            Origin::Claim(name)
        }
    });
    let growing = object.pointer("/status/allocatedResourceStatuses/storage");
    let by_hand = text(object, "/spec/storageClassName") == Some("");
    let made_for = text(object, "/spec/volumeName").filter(|_| by_hand);
    Claim {
        name: format!("{namespace}/{}", string(object, "/metadata/name")),
        made_for: made_for.map(str::to_owned),
        uid: string(object, "/metadata/uid"),
        bound: text(object, "/status/phase") == Some("Bound"),
        terminating: terminating(object),
        source,
        requested: bytes(object, "/spec/resources/requests/storage"),
        capacity: bytes(object, "/status/capacity/storage"),
        growing: growing.is_some(),
    }
}

fn volume(object: &Value) -> Volume {
    let namespace = text(object, "/spec/claimRef/namespace");
    let claim = string(object, "/spec/claimRef/name");
    Volume {
        name: string(object, "/metadata/name"),
        handle: string(object, "/spec/csi/volumeHandle"),
        claim: string(object, "/spec/claimRef/uid"),
        claim_name: namespace.map_or_else(String::new, |it| format!("{it}/{claim}")),
        capacity: bytes(object, "/spec/capacity/storage"),
        retained: text(object, "/spec/persistentVolumeReclaimPolicy") == Some("Retain"),
        terminating: terminating(object),
    }
}

fn attachment(object: &Value) -> Attachment {
    Attachment {
        name: string(object, "/metadata/name"),
        volume: string(object, "/spec/source/persistentVolumeName"),
        node: node_id(&string(object, "/spec/nodeName")),
        attached: object.pointer("/status/attached") == Some(&Value::Bool(true)),
        terminating: terminating(object),
    }
}

/// The volumes in the driver's state.
fn stored(state: &Value, preexisting: &str) -> Vec<Stored> {
    let volumes = state.get("volumes").and_then(Value::as_object);
    let volumes = volumes.into_iter().flatten();
    let volumes = volumes.filter(|(handle, _)| *handle != preexisting);
    volumes
        .map(|(handle, volume)| {
            let parameter = |name: &str| {
                let parameters = volume.get("parameters");
                let parameter = parameters.and_then(|all| all.get(name));
                parameter.and_then(Value::as_str).map(str::to_owned)
            };
            let namespace = parameter("csi.storage.k8s.io/pvc/namespace");
            let claim = parameter("csi.storage.k8s.io/pvc/name");
            let claim = namespace.zip(claim);
            let attached = volume.get("attachments").and_then(Value::as_object);
            Stored {
                handle: handle.clone(),
                name: string(volume, "/name"),
                claim: claim.map_or_else(String::new, |(namespace, name)| {
                    format!("{namespace}/{name}")
                }),
                capacity: volume.get("capacity").and_then(Value::as_i64).unwrap_or(0),
                nodes: attached
                    .into_iter()
                    .flat_map(|all| all.keys().cloned())
                    .collect(),
            }
        })
        .collect()
}

/// Number of volumes in the storage, for a line of progress.
pub(crate) fn stored_now(driver: &Client) -> Result<usize> {
    let state = driver.state().context("the driver's state")?;
    Ok(stored(&state, "").len())
}
