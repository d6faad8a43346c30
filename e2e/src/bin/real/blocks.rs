//! Changed blocks: what Kubernetes' two specs of snapshot metadata do, with upstream's verifier in a pod (CB-59).
//!
//! The specs compile the verifier from the network and find the service by its DNS name. This cluster has neither: the
//! verifier is `e2e/iterator`, and its pod gets the name with the address of the driver's pod.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::suite::say;
use e2e::{image, manifest, object, program, real};
use oci_archive::Archive;
use serde_json::{Value, json};

use crate::swap::{
    CLAIMS, DRIVER, LAST_WORDS, LONG, POD, delete_snapshot, take_snapshot, until_ended,
    until_succeeded,
};

const SERVICES: &str = "/apis/cbt.storage.k8s.io/v1beta1/snapshotmetadataservices";
/// The name in the certificate, and of the service in the driver's namespace.
const NAME: &str = "csi-snapshot-metadata.default";
const VERIFIER: &str = "csi.test/verifier:1";
/// Blocks with data at first. There are more of them than one message has ranges.
const FIRST: &str = "0 2 4 6 8 10 12 14 16 18 20 22";
/// Blocks that change later; one of them had no data.
const LATER: &str = "0 6 31";

/// Creates the certificate that the driver's pod mounts, and the object by which clients find the service.
pub(crate) fn announce(api: &Api) -> Result<Vec<Value>> {
    let pair = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let certificate = pair.cert.pem();
    e2e::wait::until_true(LONG, "snapshotmetadataservices are served", || {
        Ok(api.find(SERVICES)?.is_some())
    })?;
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": "csi-snapshot-metadata-server-certs", "namespace": "default"},
            "stringData": {"tls.crt": certificate, "tls.key": pair.signing_key.serialize_pem()},
        }),
        json!({
            "apiVersion": "cbt.storage.k8s.io/v1beta1", "kind": "SnapshotMetadataService",
            "metadata": {"name": DRIVER},
            "spec": {
                "address": format!("{NAME}:50051"),
                "audience": "csi-snapshot-metadata-test",
                "caCert": base64::engine::general_purpose::STANDARD.encode(certificate),
            },
        }),
    ];
    objects
        .iter()
        .map(|object| manifest::create(api, object))
        .collect()
}

/// Takes two snapshots of a block volume, and has the verifier bring an empty volume to the content of the first, and a
/// volume with the content of the first to that of the second.
pub(crate) fn are_told(cluster: &Cluster, api: &Api) -> Result<()> {
    load_verifier(cluster)?;
    let claims = [
        ("blocks", None),
        ("empty", None),
        ("blank", None),
        ("first", Some("first")),
        ("base", Some("first")),
        ("second", Some("second")),
    ];
    for claim in claims.iter().filter(|(_, snapshot)| snapshot.is_none()) {
        create(api, *claim)?;
    }
    for (snapshot, changed) in [("first", FIRST), ("second", LATER)] {
        write(api, changed)?;
        take_snapshot(api, snapshot, "blocks")?;
    }
    for claim in claims.iter().filter(|(_, snapshot)| snapshot.is_some()) {
        create(api, *claim)?;
    }
    let allocated = verifier(api, ["first", "empty"], &["-snapshot=first"])?;
    until_succeeded(api, &allocated).context("the verifier of allocated blocks")?;
    let delta = ["-snapshot=second", "-previous=first"];
    // It names the blocks that have changed and no others.
    let alone = until_ended(api, &verifier(api, ["second", "blank"], &delta)?)?;
    let differ = "contents do not match";
    ensure!(
        alone.as_deref().is_some_and(|why| why.contains(differ)),
        "changed blocks alone: {alone:?}"
    );
    let changed = verifier(api, ["second", "base"], &delta)?;
    until_succeeded(api, &changed).context("the verifier of changed blocks")?;
    say("    upstream's verifier  allocated and changed blocks are those of the snapshots");
    let paths = claims.map(|(claim, _)| format!("{CLAIMS}/{claim}"));
    api.delete_all(&paths)?;
    for path in paths {
        api.until_gone(LONG, &path)?;
    }
    for snapshot in ["second", "first"] {
        delete_snapshot(api, snapshot)?;
    }
    Ok(())
}

fn load_verifier(cluster: &Cluster) -> Result<()> {
    let file: PathBuf = program::root().join("build").join("iterate");
    ensure!(file.is_file(), "no {}: run `make iterator`", file.display());
    let mut images = Archive::new();
    image::program(&mut images, &[VERIFIER], &file, &[])?;
    real::load(cluster, &images)
}

/// Creates a claim for a block volume, empty or with the content of a snapshot.
fn create(api: &Api, (name, snapshot): (&str, Option<&str>)) -> Result<()> {
    let claim = match snapshot {
        None => object::claim(name, "swap", "1Mi"),
        Some(from) => object::claim_from(name, "swap", "1Mi", "VolumeSnapshot", from),
    };
    let claim = object::with(claim, &json!({"spec": {"volumeMode": "Block"}}));
    api.create(CLAIMS, &claim).map(drop)
}

/// Writes random data to blocks of the claim `blocks`.
fn write(api: &Api, blocks: &str) -> Result<()> {
    let script = format!(
        "for block in {blocks}; do \
         dd if=/dev/urandom of=/dev/blocks bs=4096 count=1 seek=$block conv=notrunc,fsync || exit 1; done"
    );
    let container = json!({
        "name": "main", "image": image::SHELL, "command": ["/bin/sh", "-c", script],
        "terminationMessagePolicy": LAST_WORDS,
    });
    until_succeeded(api, &pod("writer", container, &["blocks"]))
}

/// A pod of the verifier: it copies the ranges of a call from one device to the other, and fails if they differ afterwards.
fn verifier(api: &Api, [source, target]: [&str; 2], snapshots: &[&str]) -> Result<Value> {
    let driver = api.get(POD)?;
    let address = text(&driver, "/status/podIP").context("the driver's pod has no address")?;
    let (from, to) = (
        format!("-source=/dev/{source}"),
        format!("-target=/dev/{target}"),
    );
    let usual = [
        "-account=backup-app-service-account",
        "-max=10",
        from.as_str(),
        to.as_str(),
    ];
    let args = [&usual[..], snapshots].concat();
    let container = json!({
        "name": "main", "image": VERIFIER, "args": args, "terminationMessagePolicy": LAST_WORDS,
    });
    let spec = json!({"spec": {
        "serviceAccountName": "backup-app-service-account",
        "automountServiceAccountToken": true,
        "hostAliases": [{"ip": address, "hostnames": [NAME]}],
    }});
    let pod = pod("verifier", container, &[source, target]);
    Ok(object::with(pod, &spec))
}

/// A pod with each claim's volume as a device of the same name.
fn pod(name: &str, container: Value, claims: &[&str]) -> Value {
    let devices = claims
        .iter()
        .map(|claim| json!({"name": claim, "devicePath": format!("/dev/{claim}")}));
    let container = object::with(
        container,
        &json!({"volumeDevices": devices.collect::<Value>()}),
    );
    let volumes = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [container],
            "volumes": volumes.collect::<Value>(),
        },
    })
}
