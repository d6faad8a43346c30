//! A client that does only what every provisioner must do: for each claim it writes one
//! PersistentVolume and two events; for each released volume it calls DeleteVolume, deletes the
//! object and removes the finalizer with a patch. It has no cache, no queue and no decisions, and so
//! shows how fast this API server lets anybody provision.

use std::collections::HashMap;

use anyhow::{Context, Result};
use csi_proto::csi::DeleteVolumeRequest;
use csi_proto::csi::controller_client::ControllerClient;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tonic::transport::Channel;

use super::objects::{self, EVENTS};
use crate::bound::{self, CLAIMS, VOLUMES};
use crate::load::Load;
use crate::world::Driver;

/// As many as the programs have worker threads.
const AT_ONCE: usize = 100;

/// Creates the PersistentVolumes and events of these claims, with these volume handles.
pub(super) fn provision(load: &Load, claims: &[String], handles: &[String]) -> Result<()> {
    let each = stream::iter(claims.iter().zip(handles))
        .map(|(claim, handle)| provision_one(load, claim, handle))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| std::future::ready(Ok(())));
    load.runtime.block_on(each)
}

async fn provision_one(load: &Load, name: &str, handle: &str) -> Result<()> {
    let post =
        |path: &str, object: Value| load.one(Method::POST, path.to_owned(), object.to_string());
    let claim = post(CLAIMS, bound::claim(name)).await?;
    let claim: Value = serde_json::from_slice(&claim)?;
    let uid = claim.pointer("/metadata/uid").and_then(Value::as_str);
    let uid = uid.context("a claim without uid")?;
    post(EVENTS, objects::event(name, uid, "Provisioning")).await?;
    post(VOLUMES, bound::volume(&volume(name), handle, name, uid)).await?;
    post(EVENTS, objects::event(name, uid, "ProvisioningSucceeded")).await?;
    Ok(())
}

/// Deletes volumes with these handles as `released` names them. It makes a provisioner's call and
/// requests in the same order, and nothing else: no cache, no queue, no decisions. It waits as a
/// provisioner does for kube-controller-manager, which releases volumes one after the other and
/// removes its own finalizer.
pub(super) fn delete(
    load: &Load,
    driver: &Driver,
    released: UnboundedReceiver<String>,
    handles: &HashMap<String, String>,
) -> Result<()> {
    let each = async {
        let channel = driver.channel().await?;
        let names = stream::unfold(released, async |mut released| {
            Some((released.recv().await?, released))
        });
        names
            .take(handles.len())
            .map(|name| delete_one(load, channel.clone(), name, handles))
            .buffer_unordered(AT_ONCE)
            .try_for_each(|()| std::future::ready(Ok(())))
            .await
    };
    load.runtime.block_on(each)
}

async fn delete_one(
    load: &Load,
    channel: Channel,
    name: String,
    handles: &HashMap<String, String>,
) -> Result<()> {
    let handle = handles.get(&name).context("a volume of somebody else")?;
    let request = DeleteVolumeRequest {
        volume_id: handle.clone(),
        ..DeleteVolumeRequest::default()
    };
    ControllerClient::new(channel)
        .delete_volume(request)
        .await?;
    let path = format!("{VOLUMES}/{name}");
    load.one(Method::DELETE, path.clone(), String::new())
        .await?;
    let finalizer =
        json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [bound::FINALIZER] } });
    load.strategic(path, &finalizer).await?;
    Ok(())
}

/// Name of a claim's volume.
pub(super) fn volume(claim: &str) -> String {
    format!("pv-{claim}")
}
