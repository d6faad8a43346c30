//! A pod that is not scheduled: the causes that have to do with volumes.

use std::collections::BTreeMap;

use super::index::driver_on_node;
use super::pod::{Consumer, of};
use super::store::{By, within};
use super::verdict::Finding;
use super::walk::{ObjectSelector, Step, Walk, many, one};
use super::words::{has, listed, span};
use super::{claim, delete, provision, reach};
use crate::model::{Attachment, Claim, Class, CsiNode, Driver, Kind, Node, Pod, Ref, Volume};

pub(super) fn unscheduled(walk: &mut Walk<'_>, consumer: Consumer<'_>) -> Step {
    let (pod, at) = (consumer.pod, consumer.at);
    let condition = pod.condition("PodScheduled");
    let words = condition
        .map(|condition| &*condition.message)
        .unwrap_or_default();
    let since = condition.and_then(|condition| condition.last_transition_time.0);
    walk.since = since.or(walk.since);
    walk.unfinished = true;
    walk.at(0, at, "has no node yet");
    let claims: Vec<_> = { pod.claims() }
        .map(|name| Ref::new(Kind::Claim, &at.namespace, &name))
        .collect();
    walk.expect(claims.iter().map(one))?;
    let mut volumes = Vec::new();
    for at in &claims {
        let claim = walk.get::<Claim>(&at.namespace, &at.name)?;
        let leaving = claim.found().filter(|one| one.metadata.is_leaving());
        if claim.is_missing() || leaving.is_some() {
            gone(walk, consumer, at, leaving)?;
            continue;
        }
        let Some(claim) = claim.found() else { continue };
        if claim.status.phase == "Bound" {
            volumes.push((
                at.clone(),
                Ref::new(Kind::Volume, "", &claim.spec.volume_name),
            ));
            continue;
        }
        // The scheduler's own message explains what it has to decide first.
        if !provision::waits_for_scheduler(walk, claim)? {
            claim::claim(walk, at, 1, Some(consumer))?;
        }
    }
    alone(walk, consumer, words)?;
    reach::affinity(walk, consumer, words, &volumes)?;
    rooms(walk, consumer, words, &volumes)?;
    for at in &claims {
        let claim = walk.get::<Claim>(&at.namespace, &at.name)?.found();
        if let Some(claim) = claim.filter(|claim| claim.status.phase != "Bound") {
            provision::placed(walk, consumer, at, claim, words)?;
            if claim.metadata.deletion_timestamp.0.is_none() && claim.selected_node().is_some() {
                claim::claim(walk, at, 1, Some(consumer))?;
            }
        }
    }
    walk.last_words = (!words.is_empty()).then(|| words.to_owned());
    Ok(())
}

/// C32: the pod's claim does not exist, or is being deleted.
fn gone(walk: &mut Walk<'_>, consumer: Consumer<'_>, claim: &Ref, leaving: Option<&Claim>) -> Step {
    let missing = leaving.is_none();
    let pod = consumer.pod;
    let owner = pod
        .metadata
        .owner_references
        .iter()
        .find(|owner| owner.kind == "StatefulSet");
    walk.at(
        1,
        claim,
        if missing {
            "does not exist"
        } else {
            "is being deleted"
        },
    );
    let why = match (missing, owner) {
        (true, Some(owner)) => format!(
            "The pod needs the {claim}, which does not exist. StatefulSet {} made the pod before, and makes the claim only together with a new pod.",
            owner.name
        ),
        (true, None) => format!("The pod needs the {claim}, and nobody has created it."),
        (false, _) => format!(
            "The pod needs the {claim}, which is being deleted. No pod starts with a claim that is on its way out."
        ),
    };
    let finding = Finding::proved("C32", claim, why);
    let deleted_with = match leaving {
        Some(leaving) => delete::deleted_with(walk, leaving)?,
        None => None,
    };
    let finding = match &deleted_with {
        Some(deleted_with) => deleted_with.kept(finding),
        None => finding,
    };
    let finding = match (missing, owner) {
        (_, Some(_)) => finding
            .you("delete the pod: its StatefulSet makes it again, with the claim")
            .command(format!(
                "kubectl -n {} delete pod {}",
                consumer.at.namespace, consumer.at.name
            )),
        (true, None) => finding.you("create the claim, or correct its name in the pod"),
        (false, None) => finding.you("wait until the claim is gone, then create both again"),
    };
    let finding = match deleted_with {
        Some(deleted_with) => finding.risk(deleted_with.risk),
        None => finding,
    };
    walk.tell(finding)
}

/// C33: another pod uses a ReadWriteOncePod claim.
fn alone(walk: &mut Walk<'_>, consumer: Consumer<'_>, words: &str) -> Step {
    if !has(words, &["readwriteoncepod"]) {
        return Ok(());
    }
    let namespace = &consumer.at.namespace;
    for name in consumer.pod.claims() {
        let pods = users(walk, &Ref::new(Kind::Claim, namespace, &name))?.0;
        let claim = walk.get::<Claim>(namespace, &name)?.found();
        let alone = claim.is_some_and(|claim| {
            claim
                .spec
                .access_modes
                .iter()
                .any(|mode| *mode == "ReadWriteOncePod")
        });
        let others = pods.iter().filter(|pod| !pod.is_over());
        let other = { others }
            .find(|pod| pod.metadata.name != consumer.at.name && !pod.spec.node_name.is_empty());
        let (true, Some(other)) = (alone, other) else {
            continue;
        };
        let claim = Ref::new(Kind::Claim, namespace, &name);
        walk.at(
            1,
            &claim,
            format!(
                "used by pod {} on {}",
                other.metadata.name, other.spec.node_name
            ),
        );
        let text = format!(
            "The {claim} is for one pod at a time (ReadWriteOncePod), and pod {} on {} has it.",
            other.metadata.name, other.spec.node_name
        );
        let finding = Finding::proved("C33", &claim, text).you(format!(
            "end pod {}; a Deployment that replaces its pod needs the strategy Recreate",
            other.metadata.name
        ));
        walk.tell(finding)?;
    }
    Ok(())
}

/// C31, C34, C91, C92: the nodes lack the drivers of the pod's volumes, or attach slots, according to the
/// scheduler's message.
fn rooms(walk: &mut Walk<'_>, consumer: Consumer<'_>, words: &str, volumes: &[(Ref, Ref)]) -> Step {
    let full = has(words, &["exceed max volume count"]);
    // Since 1.34 the scheduler's message does not name the taint.
    let tainted = has(words, &["untolerated taint"]);
    let absent = has(words, &["driver is not installed"]);
    if !(full || tainted || absent) {
        return Ok(());
    }
    let needs = needs(walk, consumer, volumes)?;
    if full {
        count(walk, consumer, words, &needs)?;
    }
    if tainted || absent {
        young(walk, consumer, words, &needs, absent)?;
    }
    Ok(())
}

/// The volumes of one driver that a pod needs.
#[derive(Default)]
struct Need {
    /// Existing volumes.
    volumes: Vec<String>,
    /// Number of volumes that still have to be created.
    unmade: usize,
}

/// The needed volumes by driver.
fn needs<'a>(
    walk: &mut Walk<'a>,
    consumer: Consumer<'_>,
    volumes: &[(Ref, Ref)],
) -> Step<BTreeMap<&'a str, Need>> {
    let mut needs: BTreeMap<_, Need> = BTreeMap::new();
    for (_, at) in volumes {
        let volume = walk.get::<Volume>("", &at.name)?.found();
        if let Some(driver) = volume.and_then(Volume::driver) {
            needs
                .entry(driver)
                .or_default()
                .volumes
                .push(at.name.clone());
        }
    }
    for name in consumer.pod.claims() {
        let claim = walk.get::<Claim>(&consumer.at.namespace, &name)?.found();
        let unbound = claim.filter(|claim| claim.status.phase != "Bound");
        let Some(class) = unbound.and_then(Claim::class) else {
            continue;
        };
        if let Some(class) = walk.get::<Class>("", class)?.found() {
            needs.entry(&class.provisioner).or_default().unmade += 1;
        }
    }
    Ok(needs)
}

/// C31: a node's limit of attached volumes is reached.
fn count(
    walk: &mut Walk<'_>,
    consumer: Consumer<'_>,
    words: &str,
    needs: &BTreeMap<&str, Need>,
) -> Step {
    walk.expect([
        many(Kind::CsiNode, &ObjectSelector::all()),
        many(Kind::Attachment, &ObjectSelector::all()),
    ])?;
    let nodes = walk.all::<CsiNode>()?;
    let mut full = Vec::new();
    for node in &nodes.items {
        for (driver, need) in needs {
            let entry = node.driver(driver).and_then(|one| one.allocatable.as_ref());
            let Some(limit) = entry.and_then(|room| room.count) else {
                continue;
            };
            let key = driver_on_node(driver, &node.metadata.name);
            let there = walk.count::<Attachment>(By::DriverOnNode, &key)?.all;
            let mut more = need.unmade;
            for volume in &need.volumes {
                let own = walk.by::<Attachment>(&ObjectSelector::all(), By::Volume, volume)?;
                let mut own = own.items.iter().map(|one| &one.spec);
                let here = own.any(|one| one.node_name == *node.metadata.name);
                more += usize::from(!here);
            }
            if more > 0 && u64::try_from(there + more).is_ok_and(|all| all > limit) {
                let more = match more {
                    1 => String::new(),
                    more => format!(" and the pod needs {more} more"),
                };
                full.push(format!(
                    "{} has {there} of {limit}{more}",
                    node.metadata.name
                ));
            }
        }
    }
    walk.at(1, consumer.at, "finds every node full of volumes");
    let finding = match full.is_empty() {
        true => Finding::said("C31", consumer.at, words, "Every node that fits has as many volumes as its driver allows. Which these are cannot be counted from here: not every driver's volumes have VolumeAttachments."),
        false => Finding::proved("C31", consumer.at, format!(
            "These nodes cannot take the pod's volumes within the driver's limit: {}. Disks that were attached without Kubernetes are not counted.",
            listed(&full)
        )).quoting(words),
    };
    let finding = finding
        .admin("add a node, or end pods with volumes on one of these")
        .driver("if the true limit is another one: the driver's own flag for reserved attachments");
    walk.tell(finding)
}

/// C34, C91, C92: the driver is not registered on a new node yet, a startup taint is left, or no node has the
/// driver.
fn young(
    walk: &mut Walk<'_>,
    consumer: Consumer<'_>,
    words: &str,
    needs: &BTreeMap<&str, Need>,
    is_absent: bool,
) -> Step {
    walk.expect([
        many(Kind::Node, &ObjectSelector::all()),
        many(Kind::CsiNode, &ObjectSelector::all()),
        many(Kind::Driver, &ObjectSelector::all()),
    ])?;
    let (nodes, drivers) = (walk.all::<Node>()?, walk.all::<Driver>()?);
    let csi_nodes = walk.all::<CsiNode>()?;
    let of = |node: &Node| {
        let mut all = csi_nodes.items.iter().copied();
        all.find(|one| one.metadata.name == *node.metadata.name)
    };
    for node in &nodes.items {
        super::node::left_taint(walk, 1, node, of(node))?;
    }
    let mut new = Vec::new();
    for node in &nodes.items {
        let old = walk.is_older(node.metadata.creation_timestamp.0, 300);
        if old || consumer.pod.spec.excludes(node).is_some() {
            continue;
        }
        let all = drivers.names().into_iter();
        let tainted = all.filter(|driver| super::node::startup_taint(node, driver).is_some());
        let needed = needs.keys().copied().filter(|_| is_absent);
        let absent = |driver: &str| of(node).is_none_or(|one| one.driver(driver).is_none());
        let awaited = tainted.chain(needed).find(|driver| absent(driver));
        new.extend(awaited.map(|driver| (driver, &*node.metadata.name)));
    }
    if let Some((driver, _)) = new.first() {
        walk.at(1, consumer.at, "waits for its driver to be on a node");
        let names: Vec<_> = new.iter().map(|(_, node)| *node).collect();
        let text = format!(
            "{driver} has not registered on the new node {} yet; its pod there is still starting.",
            listed(&names)
        );
        let finding = Finding::proved_if(csi_nodes.whole, "C34", consumer.at, text)
            .quoting(words)
            .waits()
            .you("nothing: the pod is scheduled once the driver is there");
        return walk.tell(finding);
    }
    let nowhere = |driver: &&str| {
        csi_nodes
            .items
            .iter()
            .all(|one| one.driver(driver).is_none())
    };
    let Some(driver) = needs.keys().copied().filter(|_| is_absent).find(nowhere) else {
        return Ok(());
    };
    walk.at(1, consumer.at, "waits for its driver to be on a node");
    let text = format!(
        "No node has driver {driver}, which the pod's volume needs. An autoscaler that does not know CSINodes adds no node for that."
    );
    let finding = Finding::guessed("C92", consumer.at, text)
        .quoting(words)
        .admin("run the driver's node plugin on nodes that the pod may use; or tell the autoscaler about CSINodes by its flag, or set preventPodSchedulingIfMissing: false in the CSIDriver");
    walk.tell(finding)
}

/// All pods of a namespace that name a claim, and whether all pods could be read.
pub(super) fn users<'a>(walk: &mut Walk<'a>, claim: &Ref) -> Step<(Vec<&'a Pod>, bool)> {
    let key = within(&claim.namespace, &claim.name);
    let pods = walk.by::<Pod>(&ObjectSelector::of(&claim.namespace), By::Claim, &key)?;
    Ok((pods.items, pods.whole))
}

/// `pod shop/db-0 (Completed for 3 h)`.
pub(super) fn called(walk: &Walk<'_>, pod: &Pod) -> String {
    let ended = pod.is_over().then(|| {
        let ready = pod
            .condition("Ready")
            .and_then(|one| one.last_transition_time.0);
        let since = ready.map(|since| format!(" for {}", span(walk.ago(since))));
        format!(" ({}{})", pod.status.phase, since.unwrap_or_default())
    });
    format!("{}{}", of(pod), ended.unwrap_or_default())
}
