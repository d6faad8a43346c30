//! Volumes that cannot be reached from where there is room.

use super::pod::Consumer;
use super::verdict::Finding;
use super::way::{Got, Step, Way, Which, one};
use super::words::{has, listed};
use crate::model::{Kind, Node, Pod, Ref, Requirement, Volume};

const HOST: &str = "kubernetes.io/hostname";

/// C28 to C30: volumes that cannot be reached from where there is room.
pub(super) fn affinity(
    way: &mut Way<'_>,
    consumer: Consumer<'_>,
    words: &str,
    volumes: &[(Ref, Ref)],
) -> Step {
    // The second is how schedulers since 1.34 say it.
    if !has(
        words,
        &[
            "volume node affinity conflict",
            "didn't match persistentvolume's node affinity",
        ],
    ) {
        return Ok(());
    }
    let nodes = way.list::<Node>(Kind::Node, &Which::all())?;
    if !nodes.whole {
        let text = "A volume of the pod can only be reached from some nodes, and the pod does not get onto one of them. Which nodes these are could not be seen.";
        let finding = Finding::said("C28", consumer.at, words, text)
            .admin("make room on a node that reaches the volume, or add one in its place");
        return way.tell(finding);
    }
    way.expect(volumes.iter().map(|(_, volume)| one(volume)))?;
    let mut reached: Vec<(&Ref, Vec<&Node>)> = Vec::new();
    for (claim, at) in volumes {
        let Got::Found(volume) = way.get::<Volume>(Kind::Volume, "", &at.name)? else {
            continue;
        };
        if volume.terms().is_empty() {
            continue;
        }
        let fits = |node: &&Node| volume.terms().iter().any(|term| term.unmet(node).is_none());
        let fitting: Vec<_> = nodes.items.iter().copied().filter(fits).collect();
        if fitting.is_empty() {
            return nowhere(way, claim, at, volume, &nodes.items);
        }
        reached.push((at, fitting));
    }
    let name = |node: &&Node| node.metadata.name.to_string();
    let common = |node: &&&Node| {
        reached
            .iter()
            .all(|(_, some)| some.iter().any(|one| name(one) == name(node)))
    };
    if let [(first, some), (second, _), ..] = &*reached
        && !some.iter().any(|node| common(&node))
    {
        way.at(1, first, "cannot be where the pod's other volume is");
        let text = format!(
            "No node reaches both the {first} and the {second}: they were made in different places, since their class binds volumes before any pod is scheduled."
        );
        let finding = Finding::proved("C30", first, text)
            .you("copy what is worth keeping, then create the claims again with a class of volumeBindingMode WaitForFirstConsumer")
            .admin("offer a class with volumeBindingMode: WaitForFirstConsumer");
        return way.tell(finding);
    }
    let Some((at, fitting)) = reached.first() else {
        return Ok(());
    };
    let why: Vec<_> = fitting
        .iter()
        .map(|node| format!("{} {}", node.metadata.name, passed_over(node, consumer.pod)))
        .collect();
    way.at(
        1,
        at,
        format!(
            "reached only from {}",
            listed(&fitting.iter().map(name).collect::<Vec<_>>())
        ),
    );
    let text = format!(
        "The {at} can only be reached from {}, and the pod is not scheduled there: {}.",
        if fitting.len() == 1 {
            "one node"
        } else {
            "some nodes"
        },
        listed(&why)
    );
    let finding = Finding::proved("C28", at, text)
        .quoting(words)
        .admin("make room on a node that reaches the volume, or add one in its place: an autoscaler needs a node group there")
        .you("if the data may move: make a snapshot or copy, and a new claim where there is room");
    way.tell(finding)
}

/// Why a node that reaches the volume is not taken.
fn passed_over(node: &Node, pod: &Pod) -> String {
    if node.spec.unschedulable {
        return "is cordoned".to_owned();
    }
    if node.not_ready().is_some() {
        return "is not ready".to_owned();
    }
    if let Some(taint) = super::node::refuses(node, &pod.spec.tolerations) {
        return format!(
            "has the taint {}, which the pod does not tolerate",
            taint.key
        );
    }
    if !pod.spec.node_selector.are_in(&node.metadata.labels) {
        return "is excluded by the pod's nodeSelector".to_owned();
    }
    "has no room for it".to_owned()
}

/// No node reaches the volume at all.
fn nowhere(way: &mut Way<'_>, claim: &Ref, at: &Ref, volume: &Volume, nodes: &[&Node]) -> Step {
    // Each term names a host that is not there: a label of another kind may come back with any node.
    let there = |host: &str| {
        let mut labels = nodes.iter().map(|node| &node.metadata.labels);
        labels.any(|labels| labels.get(HOST) == Some(host))
    };
    let gone = |one: &&Requirement| {
        let known = one.key == HOST && one.operator == "In" && !one.values.is_empty();
        known && !one.values.iter().any(|host| there(host))
    };
    let hosts: Option<Vec<_>> = { volume.terms().iter() }
        .map(|term| term.match_expressions.iter().find(gone))
        .collect();
    if let Some(hosts) = hosts {
        let hosts: Vec<_> = { hosts.iter().flat_map(|host| host.values.iter()) }
            .map(|value| &**value)
            .collect();
        way.at(1, at, format!("is on {}, which is gone", listed(&hosts)));
        let text = format!(
            "The {at} is on node {}, which does not exist any more. If its data was on that node's disks, it is lost unless the node comes back.",
            listed(&hosts)
        );
        let finding = Finding::proved("C29", at, text)
            .admin("bring the node back under its old name, if its disks still exist")
            .you("else restore from a backup into a new claim: delete this claim, let its owner make it again")
            .command(format!("kubectl -n {} delete pvc {}", claim.namespace, claim.name))
            .risk("what is on the volume is lost for good, even if the node should come back");
        return way.tell(finding);
    }
    let wants = volume.terms().first().map(|term| {
        let wants = term.match_expressions.iter().map(|one| {
            let values: Vec<_> = one.values.iter().map(|value| &**value).collect();
            match &*one.operator {
                "In" => format!("{} {}", one.key, listed(&values)),
                other => format!("{} {other} {}", one.key, listed(&values)),
            }
        });
        listed(&wants.collect::<Vec<_>>())
    });
    let wants = wants.filter(|wants| !wants.is_empty());
    let wants = wants.unwrap_or_else(|| "labels that no node has".to_owned());
    way.at(1, at, "is reached from no node");
    let text =
        format!("The {at} can only be reached from nodes with {wants}, and there is no such node.");
    let finding = Finding::proved("C28", at, text)
        .admin("add a node there; an autoscaler needs a node group in that place")
        .you(
            "if the data may move: make a snapshot or copy, and a new claim where there are nodes",
        );
    way.tell(finding)
}
