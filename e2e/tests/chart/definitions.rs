//! The CRDs of the snapshot API in our chart, compared with upstream's.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::suite::{self, Verdict};
use e2e::{chart, manifest, process, program, snapshots, wait};
use serde_json::{Value, json};

use super::rendered::items;

const SOON: Duration = Duration::from_secs(30);
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RELEASE: &str = "definitions";
/// An annotation that only upstream's CRDs have.
const GENERATOR: &str = "/metadata/annotations/controller-gen.kubebuilder.io~1version";

/// Reads the CRDs in a folder, by name.
fn read(cluster: &Cluster, folder: &Path) -> Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // The folder contains a list of them as well.
        if !entry.file_name().to_string_lossy().contains('_') {
            continue;
        }
        for object in manifest::read_file(cluster, &entry.path())? {
            let name = text(&object, "/metadata/name").context("a name")?;
            found.insert(name.to_owned(), object);
        }
    }
    Ok(found)
}

fn ours(cluster: &Cluster) -> Result<BTreeMap<String, Value>> {
    read(
        cluster,
        &chart::folder("snapshot-controller").join("definitions"),
    )
}

/// Compares field by field and rule by rule: versions, types, required fields, the API server's checks, columns.
/// Only descriptions differ.
pub(super) fn as_upstreams(cluster: &Cluster) -> Result<Verdict> {
    let (ours, theirs) = (ours(cluster)?, read(cluster, &snapshots::definitions()?)?);
    ensure!(ours.keys().eq(theirs.keys()), "{:?}", ours.keys());
    let mut differences = Vec::new();
    let mut places = 0;
    for (name, theirs) in &theirs {
        let mine = ours.get(name).context("ours")?;
        let (mut of_mine, mut of_theirs) = (BTreeMap::new(), BTreeMap::new());
        leaves(&mut of_mine, name, &essence(mine));
        leaves(&mut of_theirs, name, &essence(theirs));
        places += of_theirs.len();
        for (path, value) in &of_theirs {
            if of_mine.get(path) != Some(value) {
                differences.push(format!("{path}: {value}, ours {:?}", of_mine.get(path)));
            }
        }
        for (path, value) in &of_mine {
            if !of_theirs.contains_key(path) {
                differences.push(format!("{path}: {value} is ours alone"));
            }
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n    "));
    ensure!(places > 900, "only {places} places were compared");
    suite::say(&format!("          {places} places are the same"));
    Ok(Verdict::Passed)
}

/// The parts of a CRD that have an effect, with the versions by name.
fn essence(definition: &Value) -> Value {
    let mut spec = definition.get("spec").cloned().unwrap_or_default();
    let versions: BTreeMap<_, _> = { items(definition, "/spec/versions") }
        .map(|version| (text(version, "/name").unwrap_or_default(), version.clone()))
        .collect();
    if let Some(fields) = spec.as_object_mut() {
        fields.insert("versions".to_owned(), json!(versions));
        // The API server's default.
        fields.remove("conversion");
    }
    let approved = definition.pointer("/metadata/annotations/api-approved.kubernetes.io");
    json!({"spec": undescribed(&spec), "approved": approved})
}

/// The schema without descriptions, and without `metadata`, which every object has.
fn undescribed(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| {
                let said = *name == "description" && value.is_string();
                let of_all = *name == "metadata" && **value == json!({"type": "object"});
                !said && !of_all
            });
            kept.map(|(name, value)| (name.clone(), undescribed(value)))
                .collect()
        }
        Value::Array(list) => list.iter().map(undescribed).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn leaves(found: &mut BTreeMap<String, Value>, path: &str, value: &Value) {
    let parts: Vec<_> = match value {
        Value::Object(fields) => fields.iter().map(|(name, it)| (name.clone(), it)).collect(),
        Value::Array(list) => { list.iter().enumerate() }
            .map(|(place, it)| (place.to_string(), it))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    if parts.is_empty() {
        found.insert(path.to_owned(), value.clone());
    }
    for (name, part) in parts {
        leaves(found, &format!("{path}/{name}"), part);
    }
}

/// `helm install` creates missing CRDs, keeps its own up to date, and leaves others' alone, as `helm uninstall`
/// leaves all of them; to replace upstream's CRDs with ours, or the reverse, users apply them.
pub(super) fn kept(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let names: Vec<_> = ours(cluster)?.into_keys().collect();
    remove(&api, &names)?;

    install(cluster)?;
    served(&api)?;
    let fresh = stored(&api, &names)?;
    ensure!(fresh.iter().all(|it| it.pointer(GENERATOR).is_none()));
    let changed = names.first().context("a definition")?;
    let outdated = json!({"spec": {"names": {"shortNames": ["old"]}}});
    api.merge(&format!("{DEFINITIONS}/{changed}"), &outdated)?;
    helm_chart(cluster, "upgrade")?;
    ensure!(spec(&stored(&api, &names)?) == spec(&fresh), "not updated");
    let fresh = stored(&api, &names)?;
    uninstall(cluster)?;
    ensure!(stored(&api, &names)? == fresh, "changed by helm uninstall");
    install(cluster)?;
    uninstall(cluster)?;
    ensure!(
        spec(&stored(&api, &names)?) == spec(&fresh),
        "changed by a second release"
    );

    remove(&api, &names)?;
    snapshots::install(cluster, &api)?;
    let upstreams = stored(&api, &names)?;
    ensure!(upstreams.iter().all(|it| it.pointer(GENERATOR).is_some()));
    install(cluster)?;
    ensure!(
        stored(&api, &names)? == upstreams,
        "changed by helm install"
    );
    uninstall(cluster)?;
    ensure!(
        stored(&api, &names)? == upstreams,
        "changed by helm uninstall"
    );

    let folder = chart::folder("snapshot-controller").join("definitions");
    without_webhook(cluster, &api, &folder)?;
    for folder in [folder, snapshots::definitions()?] {
        for (name, _) in read(cluster, &folder)? {
            let (plural, group) = name.split_once('.').context("plural and group")?;
            let file = folder.join(format!("{group}_{plural}.yaml"));
            let mut kubectl = cluster.command(&["kubectl"]);
            kubectl.args(["apply", "--server-side", "--force-conflicts", "-f"]);
            process::output(kubectl.arg(file))?;
        }
        served(&api)?;
    }
    Ok(Verdict::Passed)
}

/// S-12: CRDs of a predecessor whose conversion webhook is gone; the README's command removes the reference to
/// it.
fn without_webhook(cluster: &Cluster, api: &Api, folder: &Path) -> Result<()> {
    let all = ours(cluster)?;
    let names: Vec<_> = all.keys().cloned().collect();
    remove(api, &names)?;
    for mut definition in all.into_values() {
        let conversion = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {
                "namespace": "default", "name": "gone", "path": "/convert",
            }},
        }});
        if let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("conversion".to_owned(), conversion);
        }
        api.create(DEFINITIONS, &definition)?;
    }
    let patch = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    let mut kubectl = cluster.command(&["kubectl"]);
    kubectl.args(["patch", "--type=merge", "-p", &patch.to_string(), "-f"]);
    process::output(kubectl.arg(folder))?;
    let mut kubectl = cluster.command(&["kubectl"]);
    kubectl.args(["apply", "--server-side", "--force-conflicts", "-f"]);
    process::output(kubectl.arg(folder))?;
    for definition in stored(api, &names)? {
        let conversion = definition.pointer("/spec/conversion");
        ensure!(
            conversion == Some(&json!({"strategy": "None"})),
            "{conversion:?}"
        );
    }
    served(api)
}

/// S-9: a release without group snapshots refuses to be installed into a cluster that has some, and warns at an
/// upgrade.
pub(super) fn groups_remembered(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    snapshots::install(cluster, &api)?;
    let groups = format!(
        "{}/namespaces/default/volumegroupsnapshots",
        snapshots::GROUPS
    );
    let group = json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
        "metadata": {"name": "forgotten", "namespace": "default"},
        "spec": {"source": {"selector": {"matchLabels": {"app": "x"}}}},
    });
    api.create(&groups, &group)?;
    let on = |verb: &str, on: bool| -> Result<String> {
        let mut helm = helm(cluster, &[verb, RELEASE])?;
        helm.arg(chart::folder("snapshot-controller"));
        let image = "image.registry=registry.example.com/storage,replicas=0";
        helm.arg(format!("--set={image},features.groupSnapshots={on}"));
        process::output(&mut helm)
    };
    let refused = { on("install", false).err() }.context("helm install succeeds")?;
    let refused = format!("{refused:#}");
    ensure!(
        refused.contains("features.groupSnapshots=true"),
        "{refused}"
    );
    let said = on("install", true)?;
    ensure!(!said.contains("WARNING"), "{said}");
    let said = on("upgrade", false)?;
    ensure!(
        said.contains("WARNING: the cluster has VolumeGroupSnapshots"),
        "{said}"
    );
    uninstall(cluster)?;
    api.delete(&format!("{groups}/forgotten"))?;
    Ok(Verdict::Passed)
}

/// UID and generation show whether anything was written; annotations show the owner.
fn stored(api: &Api, names: &[String]) -> Result<Vec<Value>> {
    let each = names.iter().map(|name| {
        let mut object = api.get(&format!("{DEFINITIONS}/{name}"))?;
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            // The API server itself writes the conditions.
            metadata.retain(|key, _| !["resourceVersion", "managedFields"].contains(&key.as_str()));
        }
        Ok(object)
    });
    each.collect()
}

fn remove(api: &Api, names: &[String]) -> Result<()> {
    for name in names {
        let path = format!("{DEFINITIONS}/{name}");
        if api.find(&path)?.is_some() {
            api.delete(&path)?;
            api.until_gone(SOON, &path)?;
        }
    }
    Ok(())
}

fn served(api: &Api) -> Result<()> {
    wait::until_true(SOON, "the snapshot APIs are served", || {
        let mut all = true;
        for (base, plural) in [
            (snapshots::GROUP, "volumesnapshots"),
            (snapshots::GROUP, "volumesnapshotcontents"),
            (snapshots::GROUP, "volumesnapshotclasses"),
            (snapshots::GROUPS, "volumegroupsnapshots"),
            (snapshots::GROUPS, "volumegroupsnapshotcontents"),
            (snapshots::GROUPS, "volumegroupsnapshotclasses"),
        ] {
            all &= api.find(&format!("{base}/{plural}"))?.is_some();
        }
        Ok(all)
    })
}

fn helm(cluster: &Cluster, words: &[&str]) -> Result<Command> {
    let mut helm = Command::new(program::helm()?);
    helm.args(words).env("KUBECONFIG", cluster.kubeconfig()?);
    helm.args(["--namespace", "default"]);
    Ok(helm)
}

fn spec(definitions: &[Value]) -> Vec<Option<&Value>> {
    definitions.iter().map(|it| it.get("spec")).collect()
}

fn install(cluster: &Cluster) -> Result<()> {
    helm_chart(cluster, "install")
}

fn helm_chart(cluster: &Cluster, verb: &str) -> Result<()> {
    let mut helm = helm(cluster, &[verb, RELEASE])?;
    // Fields that somebody else has changed in between.
    if verb == "upgrade" {
        helm.arg("--force-conflicts");
    }
    helm.arg(chart::folder("snapshot-controller"));
    // No pod is needed here.
    helm.args(["--set=image.registry=registry.example.com/storage,replicas=0"]);
    process::output(&mut helm).map(drop)
}

fn uninstall(cluster: &Cluster) -> Result<()> {
    process::output(&mut helm(cluster, &["uninstall", RELEASE])?).map(drop)
}
