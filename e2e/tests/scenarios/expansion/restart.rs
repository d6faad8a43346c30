//! SIGKILL in every step: the next process must be able to finish from the state it finds.

use anyhow::{Context, Result};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::object;
use e2e::process::Process;
use e2e::proxy::FaultProxy;
use e2e::suite::Verdict;
use e2e::wait;
use serde_json::{Value, json};

use super::scene::{ALONE, CLAIMS, EXPAND, MODIFY, SOON, Scene, skipped};

/// The step in which the first process is killed.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Its patch of the claim's status with this number, which never arrives.
    Claim(u64),
    /// Its patch of the volume, which never arrives.
    Volume,
    /// Its call to the driver, which has or has not begun, as `at` says.
    Call(&'static str, &'static str),
}

impl Step {
    /// The request that the frozen API server does not receive.
    fn frozen(self, name: &str) -> Option<Value> {
        let (uri, skip) = match self {
            Self::Claim(skip) => (format!("/persistentvolumeclaims/{name}/status"), skip),
            Self::Volume => (format!("/persistentvolumes/{name}"), 0),
            Self::Call(..) => return None,
        };
        Some(json!({
            "name": "step", "method": "PATCH", "uri": uri, "skip": skip, "action": "freeze",
        }))
    }
}

/// Kills a process in this step, and starts its successor.
fn kill(
    scene: &Scene<'_>,
    proxy: &FaultProxy,
    name: &str,
    step: Step,
    wish: &Value,
) -> Result<Process> {
    let control = scene.deployment.controller.control();
    if let Step::Call(method, at) = step {
        scene.rule(&json!({
            "id": "step", "match": { "method": method, "times": 1 },
            "action": { "hold": true, "at": at },
        }))?;
    }
    let rules: Vec<_> = step.frozen(name).into_iter().collect();
    proxy.replace(&rules)?;
    let mut first = scene.start_resizer_behind_proxy()?;
    scene.api.merge(&format!("{CLAIMS}/{name}"), wish)?;
    let reached = wait::until_true(SOON, &format!("{step:?}"), || {
        first.must_run()?;
        let held = || anyhow::Ok(control.rules()?.iter().any(|it| it.applied > 0));
        Ok(proxy.hits("step")? > 0 || held()?)
    });
    reached.with_context(|| first.tail())?;
    drop(first);
    proxy.replace(&[])?;
    control.clear_rules()?;
    scene.start_resizer(&[])
}

pub(super) fn of_an_expansion(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "each-step", ALONE)?;
    let proxy = FaultProxy::of(cluster)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let names = scene.volumes(1)?;
    let name = names.first().context("a volume")?;
    let steps = [
        (Step::Claim(0), "40Mi"),
        (Step::Call(EXPAND, "before"), "48Mi"),
        (Step::Call(EXPAND, "after"), "56Mi"),
        (Step::Volume, "64Mi"),
        (Step::Claim(1), "72Mi"),
    ];
    for (step, size) in steps {
        let wish = json!({ "spec": { "resources": { "requests": { "storage": size } } } });
        let mut second = kill(&scene, &proxy, name, step, &wish)?;
        let done = scene.until_size(&mut second, name, size);
        done.with_context(|| format!("killed in {step:?}"))?;
    }
    scene.finish()
}

pub(super) fn of_a_modification(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let flags = [ALONE, &["--enable-controller-modify-volume=true"]].concat();
    let scene = Scene::new(cluster, "each-change", &flags)?;
    let proxy = FaultProxy::of(cluster)?;
    let driver = scene.deployment.driver().to_owned();
    let _driver = scene.deployment.start_controller(&[])?;
    let names = scene.volumes(1)?;
    let name = names.first().context("a volume")?;
    let steps = [
        Step::Claim(0),
        Step::Call(MODIFY, "before"),
        Step::Call(MODIFY, "after"),
        Step::Volume,
        Step::Claim(1),
    ];
    for (number, step) in steps.into_iter().enumerate() {
        let class = format!("{number}.{driver}");
        let iops = json!({ "iops": number.to_string() });
        let object = object::attributes_class(&class, &driver, &iops);
        scene
            .api
            .create("/apis/storage.k8s.io/v1/volumeattributesclasses", &object)?;
        let wish = json!({ "spec": { "volumeAttributesClassName": class } });
        let mut second = kill(&scene, &proxy, name, step, &wish)?;
        let done = scene.until(&mut second, name, "modified", |claim| {
            text(claim, "/status/currentVolumeAttributesClassName") == Some(&*class)
                && claim.pointer("/status/modifyVolumeStatus").is_none()
        });
        done.with_context(|| format!("killed in {step:?}"))?;
    }
    scene.finish()
}
