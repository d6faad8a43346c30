//! A user of the driver: a StatefulSet whose pods have a claim each.

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::deployment::Pod;
use e2e::node::Seat;
use e2e::object::{self, Binding};
use serde_json::{Value, json};

use crate::DRIVER;
use crate::container::{Node, ZONE, items};
use crate::pods::Programs;

/// Name of the StatefulSet.
pub(crate) const SET: &str = "database";

/// Size that the claims request at first.
pub(crate) const SMALL: &str = "32Mi";

/// Size that one of them requests later.
pub(crate) const LARGE: &str = "96Mi";

const REPLICAS: u32 = 2;
pub(crate) const CLASS: &str = "demo";
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(crate) const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// A pod of the set, with its claim and volume.
#[derive(Debug)]
pub(crate) struct Member {
    /// Name of the pod.
    pub(crate) name: String,
    /// Name of its claim.
    pub(crate) claim: String,
    /// Name of its PersistentVolume.
    pub(crate) volume: String,
    /// The zone in which the volume is accessible.
    pub(crate) zone: String,
}

/// Creates the class and the set.
pub(crate) fn create(api: &Api) -> Result<()> {
    let class = object::storage_class(CLASS, DRIVER, Binding::WaitForFirstConsumer);
    api.create(CLASSES, &class)?;
    let set = object::stateful_set(SET, REPLICAS, CLASS, SMALL);
    let apart = json!({ "spec": { "template": { "spec": { "topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": SET } },
    }]}}}});
    api.create(SETS, &object::with(set, &apart)).map(drop)
}

/// Waits until all claims are bound; fails unless each volume has a zone.
pub(crate) fn until_provisioned(api: &Api, programs: &mut Programs) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for index in 0..REPLICAS {
        let name = format!("{SET}-{index}");
        let claim = format!("data-{name}");
        members.push(until_bound(api, programs, name, claim)?);
    }
    Ok(members)
}

/// The same for one pod and its claim.
pub(crate) fn until_bound(
    api: &Api,
    programs: &mut Programs,
    name: String,
    claim: String,
) -> Result<Member> {
    let what = format!("claim {claim} is bound");
    let volume = programs.until_about(api, &claim, &what, || {
        let claim = api.find(&format!("{CLAIMS}/{claim}"))?.unwrap_or_default();
        let bound = text(&claim, "/status/phase") == Some("Bound");
        Ok(text(&claim, "/spec/volumeName")
            .filter(|_| bound)
            .map(str::to_owned))
    })?;
    let zone = zone(&api.get(&format!("{VOLUMES}/{volume}"))?)?;
    Ok(Member {
        name,
        claim,
        volume,
        zone,
    })
}

/// The only zone in a PersistentVolume's node affinity.
fn zone(volume: &Value) -> Result<String> {
    let terms = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms");
    let expression = "/0/matchExpressions/0";
    let expression = terms.and_then(|terms| terms.pointer(expression));
    let expression = expression.with_context(|| format!("a volume without a place: {terms:?}"))?;
    ensure!(text(expression, "/key") == Some(ZONE), "{expression}");
    let mut zones = items(expression, "/values").filter_map(Value::as_str);
    let zone = zones.next().context("a volume in no zone")?;
    ensure!(zones.next().is_none(), "more than one zone: {expression}");
    Ok(zone.to_owned())
}

/// Waits until the member's pod runs and is not `other`; returns the node and the pod.
pub(crate) fn until_running<'n>(
    api: &Api,
    programs: &mut Programs,
    nodes: &'n [Node],
    member: &Member,
    other: Option<&Pod>,
) -> Result<(&'n Node, Pod)> {
    let path = format!("{PODS}/{}", member.name);
    let what = format!("pod {} runs", member.name);
    let (name, pod) = programs.until_about(api, &member.name, &what, || {
        let Some(object) = api.find(&path)? else {
            return Ok(None);
        };
        let running = text(&object, "/status/phase") == Some("Running");
        let deleted = object.pointer("/metadata/deletionTimestamp").is_some();
        let pod = Pod::find(api, &member.name)?;
        let is_other = other.is_some_and(|other| other.is(&pod));
        let node = text(&object, "/spec/nodeName")
            .unwrap_or_default()
            .to_owned();
        Ok((running && !deleted && !is_other).then_some((node, pod)))
    })?;
    let node = nodes.iter().find(|node| node.name == name);
    let node = node.with_context(|| format!("node {name}, which nobody knows"))?;
    ensure!(
        node.zone == member.zone,
        "pod {} is in zone {}, its volume in {}",
        member.name,
        node.zone,
        member.zone
    );
    Ok((node, pod))
}

/// Waits until the volume of each member is attached; returns the nodes.
pub(crate) fn until_attached(
    api: &Api,
    programs: &mut Programs,
    members: &[Member],
) -> Result<Vec<String>> {
    let mut nodes = Vec::new();
    for member in members {
        let what = format!("{} is attached", member.volume);
        nodes.push(programs.until(&what, || {
            let list = api.get(ATTACHMENTS)?;
            let mut attached = items(&list, "/items").filter(|it| {
                text(it, "/spec/source/persistentVolumeName") == Some(&member.volume)
                    && it.pointer("/status/attached") == Some(&json!(true))
            });
            let node = attached.next().and_then(|it| text(it, "/spec/nodeName"));
            Ok(node.map(str::to_owned))
        })?);
    }
    Ok(nodes)
}

/// Requests a larger size for the member's claim; waits until the driver's controller has expanded
/// the volume.
pub(crate) fn enlarge(api: &Api, programs: &mut Programs, member: &Member) -> Result<()> {
    let path = format!("{CLAIMS}/{}", member.claim);
    let larger = json!({ "spec": { "resources": { "requests": { "storage": LARGE } } } });
    api.merge(&path, &larger)?;
    let path = format!("{VOLUMES}/{}", member.volume);
    let what = format!("{} has {LARGE}", member.volume);
    programs.until_about(api, &member.claim, &what, || {
        let volume = api.get(&path)?;
        let large = text(&volume, "/spec/capacity/storage") == Some(LARGE);
        Ok(large.then_some(()))
    })
}

/// Waits until the node has expanded the file system, and the claim has its new capacity.
pub(crate) fn until_grown(api: &Api, programs: &mut Programs, member: &Member) -> Result<()> {
    let path = format!("{CLAIMS}/{}", member.claim);
    let what = format!("claim {} has {LARGE}", member.claim);
    programs.until_about(api, &member.claim, &what, || {
        let claim = api.get(&path)?;
        let under_way = has_members(&claim, "/status/allocatedResourceStatuses");
        let large = text(&claim, "/status/capacity/storage") == Some(LARGE);
        Ok((large && !under_way).then_some(()))
    })
}

fn has_members(object: &Value, pointer: &str) -> bool {
    let members = object.pointer(pointer).and_then(Value::as_object);
    members.is_some_and(|members| !members.is_empty())
}

/// Size of the file system in bytes, as a program in the pod sees it.
pub(crate) fn file_system(pod: &Pod, seat: &Seat<'_>, member: &Member) -> Result<u64> {
    let target = pod.target(seat, &member.volume);
    let target = target.to_string_lossy();
    let said = seat.run("/bin/df", &["--output=size", "-B1", &target])?;
    let size = said.lines().last().context("df says nothing")?;
    Ok(size.trim().parse()?)
}

/// The directories of the driver on a node.
pub(crate) fn seat<'c>(cluster: &'c Cluster, node: &Node) -> Result<Seat<'c>> {
    Seat::on(cluster, &node.name, node.kubelet_dir.clone(), DRIVER)
}

/// Cordons the node.
pub(crate) fn cordon(api: &Api, node: &Node) -> Result<()> {
    let cordoned = json!({ "spec": { "unschedulable": true } });
    api.merge(&format!("/api/v1/nodes/{}", node.name), &cordoned)
        .map(drop)
}

/// Deletes the set and the claims; waits until they are gone.
pub(crate) fn delete(api: &Api, programs: &mut Programs, members: &[Member]) -> Result<()> {
    api.delete(&format!("{SETS}/{SET}"))?;
    for member in members {
        api.delete(&format!("{CLAIMS}/{}", member.claim))?;
    }
    for member in members {
        for path in [
            format!("{PODS}/{}", member.name),
            format!("{CLAIMS}/{}", member.claim),
        ] {
            let what = format!("{path} is gone");
            programs.until(&what, || Ok(api.find(&path)?.is_none().then_some(())))?;
        }
    }
    Ok(())
}

/// Waits until Kubernetes has no object of a volume any more.
pub(crate) fn until_forgotten(api: &Api, programs: &mut Programs) -> Result<()> {
    for path in [VOLUMES, ATTACHMENTS] {
        programs.until(&format!("{path} is empty"), || {
            let list = api.get(path)?;
            Ok(items(&list, "/items").next().is_none().then_some(()))
        })?;
    }
    api.delete(&format!("{CLASSES}/{CLASS}"))
}
