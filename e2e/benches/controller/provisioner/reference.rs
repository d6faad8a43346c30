//! A client that only does what a provisioner cannot do without: per claim it writes one
//! PersistentVolume and two events; per released volume it calls DeleteVolume, deletes the object and
//! patches the finalizer away. No cache, no queue, no decisions: how fast this API server can be
//! provisioned for.

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

/// As many as there are worker threads.
const AT_ONCE: usize = 100;

/// Creates claims and the objects of the volumes that they ask for, which are `handles`.
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

/// Deletes volumes, whose handles are `handles`, as they are told to be released. It makes the call
/// and the requests that a provisioner makes for one, in its order, and nothing else: no cache, no
/// queue, no decisions. What it has to wait for is the same: kube-controller-manager, which releases
/// volumes one after the other and takes its own finalizer off.
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

/// Name of the volume that is written for a claim.
pub(super) fn volume(claim: &str) -> String {
    format!("pv-{claim}")
}
