//! A pod that has no node yet: what of it is a matter of volumes.

use super::pod::{Consumer, of};
use super::verdict::Finding;
use super::way::{Step, Way, Which, many, one};
use super::words::{has, listed, span};
use super::{claim, delete, provision, reach};
use crate::model::{Attachment, Claim, CsiNode, Driver, Kind, Node, Pod, Ref, Volume};

pub(super) fn unscheduled(way: &mut Way<'_>, consumer: Consumer<'_>) -> Step {
    let (pod, at) = (consumer.pod, consumer.at);
    let condition = pod.condition("PodScheduled");
    let words = condition
        .map(|condition| &*condition.message)
        .unwrap_or_default();
    let since = condition.and_then(|condition| condition.last_transition_time.0);
    way.since = since.or(way.since);
    way.unfinished = true;
    way.at(0, at, "has no node yet");
    let claims = pod
        .spec
        .volumes
        .iter()
        .filter_map(|volume| pod.claim_of(volume));
    let claims: Vec<_> = claims
        .map(|name| Ref::new(Kind::Claim, &at.namespace, &name))
        .collect();
    way.expect(claims.iter().map(one))?;
    let mut volumes = Vec::new();
    for at in &claims {
        let claim = way.get::<Claim>(Kind::Claim, &at.namespace, &at.name)?;
        let leaving = claim
            .found()
            .filter(|one| one.metadata.deletion_timestamp.0.is_some());
        if claim.is_missing() || leaving.is_some() {
            gone(way, consumer, at, leaving)?;
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
        // What the scheduler has to decide first is told by its words.
        if !provision::waits_for_scheduler(way, claim)? {
            claim::claim(way, at, 1, Some(consumer))?;
        }
    }
    alone(way, consumer, words)?;
    reach::affinity(way, consumer, words, &volumes)?;
    count(way, consumer, words, &volumes)?;
    young(way, consumer, words)?;
    for at in &claims {
        let claim = way
            .get::<Claim>(Kind::Claim, &at.namespace, &at.name)?
            .found();
        if let Some(claim) = claim.filter(|claim| claim.status.phase != "Bound") {
            provision::placed(way, consumer, at, claim, words)?;
            if claim.metadata.deletion_timestamp.0.is_none() && claim.selected_node().is_some() {
                claim::claim(way, at, 1, Some(consumer))?;
            }
        }
    }
    way.last_words = (!words.is_empty()).then(|| words.to_owned());
    Ok(())
}

/// C32: the pod waits for a claim that is not there, or not for long.
fn gone(way: &mut Way<'_>, consumer: Consumer<'_>, claim: &Ref, leaving: Option<&Claim>) -> Step {
    let missing = leaving.is_none();
    let pod = consumer.pod;
    let owner = pod
        .metadata
        .owner_references
        .iter()
        .find(|owner| owner.kind == "StatefulSet");
    way.at(
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
    let doomed = match leaving {
        Some(leaving) => delete::doomed(way, leaving)?,
        None => None,
    };
    let finding = match &doomed {
        Some(doomed) => doomed.kept(finding),
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
    let finding = match doomed {
        Some(doomed) => finding.risk(doomed.risk),
        None => finding,
    };
    way.tell(finding)
}

/// C33: a claim for one pod, which another one has.
fn alone(way: &mut Way<'_>, consumer: Consumer<'_>, words: &str) -> Step {
    if !has(words, &["readwriteoncepod"]) {
        return Ok(());
    }
    let namespace = &consumer.at.namespace;
    let pods = way.list::<Pod>(Kind::Pod, &Which::of(namespace))?;
    for source in &consumer.pod.spec.volumes {
        let Some(name) = consumer.pod.claim_of(source) else {
            continue;
        };
        let claim = way.get::<Claim>(Kind::Claim, namespace, &name)?.found();
        let alone = claim.is_some_and(|claim| {
            claim
                .spec
                .access_modes
                .iter()
                .any(|mode| *mode == "ReadWriteOncePod")
        });
        let others = pods
            .items
            .iter()
            .filter(|pod| pod.names_claim(&name) && !pod.is_over());
        let other = { others }
            .find(|pod| pod.metadata.name != consumer.at.name && !pod.spec.node_name.is_empty());
        let (true, Some(other)) = (alone, other) else {
            continue;
        };
        let claim = Ref::new(Kind::Claim, namespace, &name);
        way.at(
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
        way.tell(finding)?;
    }
    Ok(())
}

/// C31: a node takes so many volumes and no more.
fn count(way: &mut Way<'_>, consumer: Consumer<'_>, words: &str, volumes: &[(Ref, Ref)]) -> Step {
    if !has(words, &["exceed max volume count"]) {
        return Ok(());
    }
    way.expect([
        many(Kind::CsiNode, &Which::all()),
        many(Kind::Attachment, &Which::all()),
    ])?;
    let nodes = way.list::<CsiNode>(Kind::CsiNode, &Which::all())?;
    let attachments = way.list::<Attachment>(Kind::Attachment, &Which::all())?;
    let mut driver = None;
    for (_, at) in volumes {
        let volume = way.get::<Volume>(Kind::Volume, "", &at.name)?.found();
        driver = driver.or(volume.and_then(Volume::driver));
    }
    let mut full = Vec::new();
    for node in &nodes.items {
        for entry in { node.spec.drivers.iter() }
            .filter(|entry| driver.is_none_or(|driver| entry.name == driver))
        {
            let Some(limit) = entry.allocatable.as_ref().and_then(|room| room.count) else {
                continue;
            };
            let there = attachments.items.iter().filter(|one| {
                one.spec.attacher == *entry.name && one.spec.node_name == *node.metadata.name
            });
            let used = there.count();
            if u64::try_from(used).is_ok_and(|used| used >= limit) {
                full.push(format!("{} has {used} of {limit}", node.metadata.name));
            }
        }
    }
    way.at(1, consumer.at, "finds every node full of volumes");
    let text = match full.is_empty() {
        true => "Every node that fits has as many volumes as its driver allows.".to_owned(),
        false => format!(
            "Nodes have as many volumes as the driver allows: {}. Disks that were attached past Kubernetes are not counted.",
            listed(&full)
        ),
    };
    let finding = match full.is_empty() {
        true => Finding::said("C31", consumer.at, words, text),
        false => Finding::proved("C31", consumer.at, text).quoting(words),
    };
    let finding = finding
        .admin("add a node, or end pods with volumes on one of these")
        .driver("if the true limit is another one: the driver's own flag for reserved attachments");
    way.tell(finding)
}

/// C34, C91, C92: the driver is not on the node yet, or nobody says that it is.
fn young(way: &mut Way<'_>, consumer: Consumer<'_>, words: &str) -> Step {
    // Schedulers since 1.34 do not name the taint.
    let tainted = has(words, &["untolerated taint"]);
    let absent = has(
        words,
        &[
            "csi driver is not installed on the node",
            "driver is not installed",
        ],
    );
    if !tainted && !absent {
        return Ok(());
    }
    way.expect([
        many(Kind::Node, &Which::all()),
        many(Kind::CsiNode, &Which::all()),
        many(Kind::Driver, &Which::all()),
    ])?;
    let nodes = way.list::<Node>(Kind::Node, &Which::all())?;
    let drivers = way.list::<Driver>(Kind::Driver, &Which::all())?;
    let csi_nodes = way.list::<CsiNode>(Kind::CsiNode, &Which::all())?;
    for node in nodes.items.iter().filter(|_| tainted) {
        let csi_node = csi_nodes
            .items
            .iter()
            .find(|one| one.metadata.name == *node.metadata.name);
        super::node::left_taint(way, 1, node, csi_node.copied())?;
    }
    let awaited = |node: &Node| {
        let mut drivers = drivers.items.iter();
        let of = |driver: &Driver| super::node::startup_taint(node, &driver.metadata.name);
        absent || drivers.any(|driver| of(driver).is_some())
    };
    let new: Vec<_> = { nodes.items.iter() }
        .filter(|node| !way.is_older(node.metadata.creation_timestamp.0, 300) && awaited(node))
        .map(|node| node.metadata.name.to_string())
        .collect();
    if new.is_empty() && !absent {
        return Ok(());
    }
    way.at(1, consumer.at, "waits for its driver to be on a node");
    if !new.is_empty() {
        let text = format!(
            "The driver has not registered on the new node {} yet; its pod there is still starting.",
            listed(&new)
        );
        let finding = Finding::proved("C34", consumer.at, text)
            .quoting(words)
            .waits()
            .you("nothing: the pod is scheduled once the driver is there");
        return way.tell(finding);
    }
    if absent {
        let names: Vec<_> = drivers
            .items
            .iter()
            .map(|driver| driver.metadata.name.to_string())
            .collect();
        let text = format!(
            "No node has the driver that the pod's volume needs. An autoscaler that does not know CSINodes adds no node for that. Drivers of this cluster: {}.",
            if names.is_empty() {
                "none".to_owned()
            } else {
                listed(&names)
            }
        );
        let finding = Finding::guessed("C92", consumer.at, text)
            .quoting(words)
            .admin("run the driver's node plugin on nodes that the pod may use; or tell the autoscaler about CSINodes by its flag, or set preventPodSchedulingIfMissing: false in the CSIDriver");
        return way.tell(finding);
    }
    Ok(())
}

/// Pods of a namespace that name a claim, those that have ended apart.
pub(super) fn users<'a>(way: &mut Way<'a>, claim: &Ref) -> Step<(Vec<&'a Pod>, bool)> {
    let pods = way.list::<Pod>(Kind::Pod, &Which::of(&claim.namespace))?;
    let named = pods
        .items
        .into_iter()
        .filter(|pod| pod.names_claim(&claim.name));
    Ok((named.collect(), pods.whole))
}

/// `pod shop/db-0 (Completed for 3 h)`.
pub(super) fn called(way: &Way<'_>, pod: &Pod) -> String {
    let ended = pod.is_over().then(|| {
        let ready = pod
            .condition("Ready")
            .and_then(|one| one.last_transition_time.0);
        let since = ready.map(|since| format!(" for {}", span(way.ago(since))));
        format!(" ({}{})", pod.status.phase, since.unwrap_or_default())
    });
    format!("{}{}", of(pod), ended.unwrap_or_default())
}
