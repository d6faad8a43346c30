//! A client that only writes what a provisioner writes: per claim one PersistentVolume and two
//! events, later one patch for the finalizer and one delete. No driver, no watch, no decisions: how
//! fast this API server can be provisioned for.

use anyhow::{Context, Result};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use http::Method;
use serde_json::{Value, json};

use super::objects::{self, EVENTS};
use crate::bound::{self, CLAIMS, VOLUMES};
use crate::load::Load;

/// As many as there are worker threads.
const AT_ONCE: usize = 100;

/// Creates claims and the volumes that they ask for.
pub(super) fn provision(load: &Load, claims: &[String]) -> Result<()> {
    let each = stream::iter(claims)
        .map(|claim| provision_one(load, claim))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| std::future::ready(Ok(())));
    load.runtime.block_on(each)
}

async fn provision_one(load: &Load, name: &str) -> Result<()> {
    let post =
        |path: &str, object: Value| load.one(Method::POST, path.to_owned(), object.to_string());
    let claim = post(CLAIMS, bound::claim(name)).await?;
    let claim: Value = serde_json::from_slice(&claim)?;
    let uid = claim.pointer("/metadata/uid").and_then(Value::as_str);
    let uid = uid.context("a claim without uid")?;
    let handle = format!("vol-{name}");
    post(EVENTS, objects::event(name, uid, "Provisioning")).await?;
    post(VOLUMES, bound::volume(&volume(name), &handle, name, uid)).await?;
    post(EVENTS, objects::event(name, uid, "ProvisioningSucceeded")).await?;
    Ok(())
}

/// Deletes the volumes of claims that are gone.
pub(super) fn delete(load: &Load, claims: &[String]) -> Result<()> {
    let each = stream::iter(claims)
        .map(|claim| delete_one(load, claim))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| std::future::ready(Ok(())));
    load.runtime.block_on(each)
}

async fn delete_one(load: &Load, name: &str) -> Result<()> {
    let path = format!("{VOLUMES}/{}", volume(name));
    load.one(Method::DELETE, path.clone(), String::new())
        .await?;
    let patch = json!({"metadata": {"finalizers": null}});
    load.one(Method::PATCH, path, patch.to_string()).await?;
    Ok(())
}

fn volume(claim: &str) -> String {
    format!("pv-{claim}")
}
