//! Claims whose volumes need other objects besides a class.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::object::{self, Binding};
use e2e::suite::Verdict;
use e2e::wait;
use serde_json::{Value, json};

use super::place::name;
use super::scene::{SOON, Scene, VOLUMES, at_most, skipped, writes};

const FLAGS: [&str; 3] = [
    "--enable-topology=false",
    "--sync=false",
    "--enable-controller-modify-volume=true",
];

/// Short back-offs, to save time.
const QUICK: [&str; 2] = ["--retry-interval-start=250ms", "--retry-interval-max=500ms"];

const ATTRIBUTES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";

/// Creates a claim of the scene's class with this VolumeAttributesClass.
fn wanting(scene: &Scene<'_>, claim: &str, attributes: &str) -> Result<()> {
    let plain = object::claim(claim, scene.deployment.driver(), "1Mi");
    let patch = json!({ "spec": { "volumeAttributesClassName": attributes } });
    scene.create_claim(&object::with(plain, &patch))
}

pub(super) fn attributes(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "tier", Binding::Immediate, &FLAGS)?;
    let driver = scene.deployment.driver();
    let class = |tier: &str| object::attributes_class(tier, driver, &json!({ "tier": tier }));
    scene.api.create(ATTRIBUTES, &class("gold"))?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&QUICK)?;

    wanting(&scene, "tier-0", "gold")?;
    wanting(&scene, "tier-1", "silver")?;
    scene.claim("tier-2")?;
    let gold = scene.until_bound(&mut provisioner, "tier-0")?;
    let none = scene.until_bound(&mut provisioner, "tier-2")?;
    scene.until_event(&mut provisioner, "tier-1", "silver")?;
    let asked = scene.calls()?.of("CreateVolume").count();
    ensure!(asked == 2, "without its attributes no volume is made");
    scene.api.create(ATTRIBUTES, &class("silver"))?;
    let silver = scene.until_bound(&mut provisioner, "tier-1")?;
    for (volume, tier) in [
        (&gold, Some("gold")),
        (&silver, Some("silver")),
        (&none, None),
    ] {
        let said = text(volume, "/spec/volumeAttributesClassName");
        ensure!(said == tier, "the object says {said:?} instead of {tier:?}");
        let handle = text(volume, "/spec/csi/volumeHandle").context("handle")?;
        let calls = scene.calls()?.of("CreateVolume").about(handle);
        let call = calls.iter().next().context("the call")?;
        let wanted = call.request.pointer("/mutable_parameters/tier");
        ensure!(
            wanted.and_then(Value::as_str) == tier,
            "the driver was asked for {wanted:?} instead of {tier:?}"
        );
        let made = scene.stored(&format!("/volumes/{handle}/mutable_parameters"))?;
        ensure!(
            text(&made, "/tier") == tier,
            "{made} was made instead of {tier:?}"
        );
    }
    for index in 0..3 {
        scene.release(&format!("tier-{index}"))?;
    }
    scene.until_nothing_is_left(&mut provisioner)?;
    for tier in ["gold", "silver"] {
        scene.api.delete(&format!("{ATTRIBUTES}/{tier}"))?;
    }
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 9, &requests)?;
    scene.finish()
}

/// Makes the driver require a password for `method`.
fn password(scene: &Scene<'_>, method: &str) -> Result<()> {
    let refused = json!({ "fail": { "code": "UNAUTHENTICATED", "message": "wrong password" } });
    scene.rule(&json!({
        "id": method,
        "match": { "method": method, "other_secrets_than": { "password": "right" } },
        "action": { "outcome": refused },
    }))
}

pub(super) fn secrets(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let parameters = json!({ "parameters": {
        "csi.storage.k8s.io/provisioner-secret-name": "login-of-${pvc.name}",
        "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
    }});
    let scene = Scene::with_class(cluster, "locked", Binding::Immediate, &FLAGS, &parameters)?;
    // A comment in upstream's manifest grants this to drivers that need it.
    let rule = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"] }]);
    scene.provisioner.allow(&scene.api, &rule)?;
    scene
        .provisioner
        .until_permitted(&scene.api, "", "secrets", "get")?;
    let _driver = scene.deployment.start_controller(&[])?;
    password(&scene, "CreateVolume")?;
    password(&scene, "DeleteVolume")?;
    let mut provisioner = scene.start_provisioner(&QUICK)?;

    scene.claim("locked")?;
    scene.until_event(&mut provisioner, "locked", "login-of-locked")?;
    ensure!(
        scene.calls()?.of("CreateVolume").count() == 0,
        "asked without password"
    );
    let secrets = "/api/v1/namespaces/default/secrets";
    let set = |password: &str| {
        let secret = object::secret("login-of-locked", password);
        scene
            .api
            .merge(&format!("{secrets}/login-of-locked"), &secret)
    };
    scene
        .api
        .create(secrets, &object::secret("login-of-locked", "wrong"))?;
    scene.until_event(&mut provisioner, "locked", "wrong password")?;
    set("right")?;
    let volume = scene.until_bound(&mut provisioner, "locked")?;
    let volume = name(&volume)?;

    set("old")?;
    scene.release("locked")?;
    scene.until_event(&mut provisioner, volume, "wrong password")?;
    ensure!(
        scene.api.find(&format!("{VOLUMES}/{volume}"))?.is_some(),
        "it is kept"
    );
    set("right")?;
    scene.until_nothing_is_left(&mut provisioner)?;
    scene.api.delete(&format!("{secrets}/login-of-locked"))?;
    for method in ["CreateVolume", "DeleteVolume"] {
        let calls = scene.calls()?.of(method);
        ensure!(
            calls.iter().all(|call| call.secrets),
            "{method} without Secret"
        );
    }
    let log = provisioner.log();
    ensure!(!log.contains("right"), "the password is in the log");
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 3, &requests)?;
    wait::until_true(SOON, "the claim is gone", || {
        Ok(scene
            .api
            .find(&format!("{}/locked", super::scene::CLAIMS))?
            .is_none())
    })?;
    scene.finish()
}
