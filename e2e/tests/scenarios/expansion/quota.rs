//! Limits: a namespace's quota, which the API server enforces, and the driver's.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use e2e::wait;
use serde_json::json;

use super::scene::{
    ALONE, CLAIMS, EXPAND, SOON, Scene, has_size, no_more_than_upstream, skipped, state,
};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

/// Limits the sum of the requests of the class's claims. The same quota without a class would apply
/// to all scenarios.
fn hard(scene: &Scene<'_>, most: &str) -> serde_json::Value {
    let class = scene.deployment.driver();
    json!({ "hard": { format!("{class}.storageclass.storage.k8s.io/requests.storage"): most } })
}

/// Waits until the quota's controller has counted `used` of `hard`.
fn until_counted(scene: &Scene<'_>, path: &str, hard: &str, used: &str) -> Result<()> {
    let what = format!("the quota says {used} of {hard}");
    wait::until_true(SOON, &what, || {
        let quota = scene.api.get(path)?;
        let says = |field: &str, expected: &str| {
            let amounts = quota.pointer(field).and_then(serde_json::Value::as_object);
            amounts.is_some_and(|all| all.values().all(|it| it.as_str() == Some(expected)))
        };
        Ok(says("/status/hard", hard) && says("/status/used", used))
    })
}

pub(super) fn of_the_namespace(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "quota", ALONE)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut resizer = scene.start_resizer(&[])?;
    let names = scene.volumes(2)?;
    let [first, second] = names.as_slice() else {
        anyhow::bail!("two volumes");
    };
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "quota" },
        "spec": hard(&scene, "128Mi"),
    });
    scene.api.create(QUOTAS, &quota)?;
    let path = format!("{QUOTAS}/quota");
    until_counted(&scene, &path, "128Mi", "64Mi")?;
    scene.grow(first, "80Mi")?;
    scene.until_size(&mut resizer, first, "80Mi")?;
    until_counted(&scene, &path, "128Mi", "112Mi")?;
    // A request that the API server refuses never reaches the resizer.
    let refused = scene.grow(second, "96Mi");
    let refused = refused.err().context("more than the quota is taken")?;
    let text = e2e::suite::reasons(&refused);
    ensure!(text.contains("exceeded quota"), "{text}");
    wait::stays(Duration::from_secs(2), "nobody asks the driver", || {
        Ok(scene.calls()?.of(EXPAND).count() == 1)
    })?;
    let larger = json!({ "spec": hard(&scene, "256Mi") });
    scene.api.merge(&path, &larger)?;
    until_counted(&scene, &path, "256Mi", "112Mi")?;
    // Admission reads its own cache, which may still have the smaller quota.
    wait::until_true(SOON, "the larger quota is admitted", || {
        match scene.grow(second, "96Mi") {
            Err(it) if e2e::suite::reasons(&it).contains("exceeded quota") => Ok(false),
            other => other.map(|()| true),
        }
    })?;
    scene.until_size(&mut resizer, second, "96Mi")?;
    no_more_than_upstream(&scene, 2, 0)?;
    scene.api.delete(&path)?;
    scene.finish()
}

pub(super) fn of_the_driver(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "full", ALONE)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut resizer = scene.start_resizer(&["--retry-interval-max=4s"])?;
    let names = scene.volumes(1)?;
    let name = names.first().context("a volume")?;
    scene.rule(&json!({
        "id": "full", "match": { "method": EXPAND },
        "action": { "outcome": { "fail": {
            "code": "RESOURCE_EXHAUSTED", "message": "the project's quota is used up",
        } } },
    }))?;
    scene.grow(name, "96Mi")?;
    scene.until_event(name, "the project's quota is used up")?;
    // Such an answer does not exclude an effect, so the claim may not go back to less.
    scene.grow(name, "64Mi")?;
    let before = scene.calls()?.of(EXPAND).count();
    wait::until_true(SOON, "the driver is asked again", || {
        Ok(scene.calls()?.of(EXPAND).count() > before)
    })?;
    let claim = scene.claim(name)?;
    ensure!(state(&claim) == "ControllerResizeInProgress", "{claim:#}");
    let allocated = text(&claim, "/status/allocatedResources/storage");
    ensure!(allocated == Some("96Mi"), "{claim:#}");
    scene.deployment.controller.control().remove_rule("full")?;
    scene.until(&mut resizer, name, "grown", |claim| has_size(claim, "96Mi"))?;
    let asked = text(
        &scene.api.get(&format!("{CLAIMS}/{name}"))?,
        "/spec/resources/requests/storage",
    )
    .map(str::to_owned);
    ensure!(asked.as_deref() == Some("64Mi"), "the wish is the user's");
    scene.finish()
}
