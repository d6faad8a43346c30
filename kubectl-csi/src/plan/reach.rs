//! Volumes that the nodes which could take the pod do not reach.

use sidecar::node_selector::Requirement;

use super::pod::Consumer;
use super::verdict::Finding;
use super::walk::{Lookup, Step, Walk, one};
use super::words::{has, listed};
use crate::model::{Claim, Class, Node, Pod, Ref, Volume};

const HOST: &str = "kubernetes.io/hostname";

/// A volume that only some nodes reach.
struct Reached<'a> {
    claim: &'a Ref,
    at: &'a Ref,
    from: Vec<&'a Node>,
}

/// The nodes that reach all of these volumes.
fn common<'a>(reached: &[&Reached<'a>]) -> Vec<&'a Node> {
    let Some((first, others)) = reached.split_first() else {
        return Vec::new();
    };
    let mut nodes = first.from.clone();
    nodes.retain(|node| {
        let same = |one: &&Node| one.metadata.name == *node.metadata.name;
        others.iter().all(|other| other.from.iter().any(same))
    });
    nodes
}

/// C28 to C30: a conflict with the volumes' node affinity.
pub(super) fn affinity(
    walk: &mut Walk<'_>,
    consumer: Consumer<'_>,
    words: &str,
    volumes: &[(Ref, Ref)],
) -> Step {
    // Schedulers since 1.34 use the second text.
    let conflict = [
        "volume node affinity conflict",
        "didn't match persistentvolume's node affinity",
    ];
    if !has(words, &conflict) {
        return Ok(());
    }
    let nodes = walk.all::<Node>()?;
    if !nodes.whole {
        let text = "A volume of the pod can only be reached from some nodes, and the pod does not get onto one of them. Which nodes these are could not be seen.";
        let finding = Finding::said("C28", consumer.at, words, text)
            .admin("make room on a node that reaches the volume, or add one in its place");
        return walk.tell(finding);
    }
    walk.expect(volumes.iter().map(|(_, volume)| one(volume)))?;
    let mut reached = Vec::new();
    for (claim, at) in volumes {
        let Lookup::Found(volume) = walk.get::<Volume>("", &at.name)? else {
            continue;
        };
        let Some(places) = volume.reached_from() else {
            continue;
        };
        let from: Vec<_> = { nodes.items.iter().copied() }
            .filter(|node| places.selects(node))
            .collect();
        if from.is_empty() {
            return nowhere(walk, claim, at, volume, &nodes.items);
        }
        // A volume that every node reaches causes no conflict.
        if from.len() < nodes.items.len() {
            reached.push(Reached { claim, at, from });
        }
    }
    let reached: Vec<_> = reached.iter().collect();
    let nodes = common(&reached);
    if nodes.is_empty() {
        return apart(walk, &reached);
    }
    crowded(walk, consumer, words, &reached, &nodes)
}

/// C30: each volume is reached from some node, but no node reaches all of them.
fn apart(walk: &mut Walk<'_>, reached: &[&Reached<'_>]) -> Step {
    let pair = reached.iter().enumerate().find_map(|(index, first)| {
        let mut others = reached.iter().skip(index + 1);
        let second = others.find(|second| common(&[first, second]).is_empty())?;
        Some(vec![*first, *second])
    });
    let those = pair.unwrap_or_else(|| reached.to_vec());
    let Some(first) = those.first() else {
        return Ok(());
    };
    let (mut early, mut late) = (None, 0);
    for one in &those {
        let claim = walk.get::<Claim>(&one.claim.namespace, &one.claim.name)?;
        let name = claim.found().and_then(Claim::class).unwrap_or_default();
        match walk.get::<Class>("", name)? {
            Lookup::Found(class) if class.waits_for_consumer() => late += 1,
            Lookup::Found(_) => {
                early = early.or(Some(format!(
                    "The {} is of class {name}, which binds volumes before any pod is scheduled.",
                    one.at
                )));
            }
            Lookup::Missing | Lookup::Unseen => {}
        }
    }
    let at_once = early.is_some();
    let why = early.or((late == those.len()).then(|| {
        "Their classes wait for a pod, so they were made for different pods, on different nodes."
            .to_owned()
    }));
    let names: Vec<_> = those.iter().map(|one| one.at.to_string()).collect();
    walk.at(1, first.at, "cannot be where the pod's other volumes are");
    let text = format!(
        "No node reaches {}, which the pod needs at once. {}",
        listed(&names),
        why.unwrap_or_default()
    );
    let finding = Finding::proved("C30", first.at, text.trim_end());
    let finding = match at_once {
        true => finding
            .you("copy what is worth keeping, then create the claims again with a class of volumeBindingMode WaitForFirstConsumer")
            .admin("offer a class with volumeBindingMode: WaitForFirstConsumer"),
        false => finding.you("copy what is worth keeping, then create one of the claims again, and let this pod be the first that uses it"),
    };
    walk.tell(finding)
}

/// C28: some nodes reach the volumes, and none of them takes the pod.
fn crowded(
    walk: &mut Walk<'_>,
    consumer: Consumer<'_>,
    words: &str,
    reached: &[&Reached<'_>],
    nodes: &[&Node],
) -> Step {
    let Some(first) = reached.first() else {
        return Ok(());
    };
    let (mut why, mut others) = (Vec::new(), Vec::new());
    for node in nodes {
        match passed_over(node, consumer.pod) {
            Some(reason) => why.push(format!("{} {reason}", node.metadata.name)),
            None => others.push(&*node.metadata.name),
        }
    }
    // The finding quotes the scheduler's text for reasons that labels and taints do not show.
    let why = match (why.is_empty(), others.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!(": {}", listed(&why)),
        (false, false) => format!(": {}; for {} see its words", listed(&why), listed(&others)),
    };
    let names: Vec<_> = nodes.iter().map(|node| &*node.metadata.name).collect();
    walk.at(1, first.at, format!("reached only from {}", listed(&names)));
    let volumes: Vec<_> = reached.iter().map(|one| one.at.to_string()).collect();
    let volumes = match &*volumes {
        [one] => format!("The {one}"),
        several => format!("Together, {}", listed(several)),
    };
    let count = if nodes.len() == 1 {
        "one node"
    } else {
        "some nodes"
    };
    let text = format!(
        "{volumes} can only be reached from {count}, and the scheduler does not put the pod there{why}."
    );
    let finding = Finding::proved("C28", first.at, text)
        .quoting(words)
        .admin("make room on a node that reaches the volume, or add one in its place: an autoscaler needs a node group there")
        .you("if the data may move: make a snapshot or copy, and a new claim where there is room");
    walk.tell(finding)
}

/// Why the scheduler skips a node that reaches the volume, as far as the node shows it.
fn passed_over(node: &Node, pod: &Pod) -> Option<String> {
    if node.spec.unschedulable {
        return Some("is cordoned".to_owned());
    }
    if node.not_ready().is_some() {
        return Some("is not ready".to_owned());
    }
    if let Some(taint) = super::node::refuses(node, &pod.spec.tolerations) {
        let key = &taint.key;
        return Some(format!(
            "has the taint {key}, which the pod does not tolerate"
        ));
    }
    let excluded = pod.spec.excludes(node)?;
    Some(format!("is excluded by the pod's {excluded}"))
}

/// C28, C29: no node reaches the volume.
fn nowhere(walk: &mut Walk<'_>, claim: &Ref, at: &Ref, volume: &Volume, nodes: &[&Node]) -> Step {
    // Every term requires a host that is gone: other labels may come back with any node.
    let there = |host: &str| {
        let mut labels = nodes.iter().map(|node| &node.metadata.labels);
        labels.any(|labels| labels.get(HOST) == Some(host))
    };
    let gone = |one: &&Requirement| {
        let known = *one.key == *HOST && *one.operator == *"In" && !one.values.is_empty();
        known && !one.values.iter().any(|host| there(host))
    };
    let terms = volume
        .reached_from()
        .map(|one| one.terms())
        .unwrap_or_default();
    let hosts: Option<Vec<_>> = terms
        .iter()
        .map(|term| term.expressions.iter().find(gone))
        .collect();
    if let Some(hosts) = hosts {
        let hosts: Vec<_> = hosts.iter().flat_map(|host| host.values.iter()).collect();
        walk.at(1, at, format!("is on {}, which is gone", listed(&hosts)));
        let text = format!(
            "The {at} is on node {}, which does not exist any more. If its data was on that node's disks, it is lost unless the node comes back.",
            listed(&hosts)
        );
        let finding = Finding::proved("C29", at, text)
            .admin("bring the node back under its old name, if its disks still exist")
            .you("else restore from a backup into a new claim: delete this claim, let its owner make it again")
            .command(format!("kubectl -n {} delete pvc {}", claim.namespace, claim.name))
            .risk("what is on the volume is lost for good, even if the node should come back");
        return walk.tell(finding);
    }
    let wants = terms.first().map(|term| {
        let wants = term.expressions.iter().map(|one| match &*one.operator {
            "In" => format!("{} {}", one.key, listed(&one.values)),
            other => format!("{} {other} {}", one.key, listed(&one.values)),
        });
        listed(&wants.collect::<Vec<_>>())
    });
    let wants = wants.filter(|wants| !wants.is_empty());
    let wants = wants.unwrap_or_else(|| "labels that no node has".to_owned());
    walk.at(1, at, "is reached from no node");
    let text =
        format!("The {at} can only be reached from nodes with {wants}, and there is no such node.");
    let finding = Finding::proved("C28", at, text)
        .admin("add a node there; an autoscaler needs a node group in that place")
        .you(
            "if the data may move: make a snapshot or copy, and a new claim where there are nodes",
        );
    walk.tell(finding)
}
