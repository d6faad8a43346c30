//! A node, and the driver on it.

use std::collections::BTreeMap;

use super::pod::of;
use super::store::By;
use super::verdict::Finding;
use super::walk::{Lookup, ObjectSelector, Step, Walk, many, one};
use super::words::{has, listed, nearest, span};
use super::workload::{broken_container, names_driver};
use crate::model::{
    Attachment, CsiNode, DaemonSet, Kind, Many, Node, Pod, PodSpec, Ref, Taint, Toleration,
};

/// Default root directory of kubelets.
const KUBELET: &str = "/var/lib/kubelet";

/// Words in the startup taints that a registrar removes once its driver is registered.
const STARTUP: &[&str] = &["agent-not-ready", "driver-not-ready", "startup-taint"];

fn at(name: &str) -> Ref {
    Ref::new(Kind::Node, "", name)
}

/// Adds the node and its readiness to the path.
pub(super) fn add_step(walk: &mut Walk<'_>, depth: usize, name: &str) -> Step {
    let node = walk.get::<Node>("", name)?;
    let says = match node {
        Lookup::Missing => "does not exist any more".to_owned(),
        Lookup::Unseen => return Ok(()),
        Lookup::Found(node) => match node.not_ready() {
            Some(since) => {
                let since = since
                    .0
                    .map(|since| format!(" for {}", span(walk.ago(since))));
                format!("NotReady{}", since.unwrap_or_default())
            }
            None => return Ok(()),
        },
    };
    walk.at(depth, &at(name), says);
    Ok(())
}

/// The taint of a node that a pod with these tolerations does not tolerate.
pub(super) fn refuses<'a>(node: &'a Node, tolerations: &Many<Toleration>) -> Option<&'a Taint> {
    unborne(node, tolerations, &[])
}

/// The same for a pod that also tolerates the taints `borne`.
fn unborne<'a>(
    node: &'a Node,
    tolerations: &Many<Toleration>,
    borne: &[&str],
) -> Option<&'a Taint> {
    let bears = |taint: &Taint| {
        tolerations.iter().any(|one| {
            let effect = one.effect.is_empty() || one.effect == *taint.effect;
            let any = one.operator == "Exists";
            let key = (one.key.is_empty() && any) || one.key == *taint.key;
            effect && key && (any || one.value == *taint.value)
        })
    };
    let hard = |taint: &&Taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute");
    let mut taints = node.spec.taints.iter().filter(hard);
    taints.find(|taint| !borne.contains(&&*taint.key) && !bears(taint))
}

/// Taints that the DaemonSet controller's pods tolerate, whatever their template says.
const BORNE: &[&str] = &[
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
];

/// C89: the driver reports that this node cannot reach its storage.
pub(super) fn health(walk: &mut Walk<'_>, depth: usize, name: &str, driver: &str) -> Step {
    let Lookup::Found(node) = walk.get::<CsiNode>("", name)? else {
        return Ok(());
    };
    for entry in node
        .status
        .storage_health
        .iter()
        .filter(|entry| driver.is_empty() || entry.name == driver)
    {
        let conditions = entry
            .health_conditions
            .iter()
            .filter(|one| !one.status.is_empty());
        let Some(first) = conditions.min_by_key(|one| one.status != "Unreachable") else {
            continue;
        };
        walk.at(depth, &at(name), format!("storage {}", first.status));
        let since = entry
            .last_transition_time
            .0
            .map(|since| format!(" for {}", span(walk.ago(since))));
        let text = format!(
            "{} calls its storage {} from {name}{}: {}. This may be why its volumes are slow or stuck on that node.",
            entry.name,
            first.status,
            since.unwrap_or_default(),
            first.reason
        );
        let finding = Finding::proved("C89", &at(name), text).quoting(&*first.message)
            .admin(format!("look at the network of {name}; drain it, so that its pods start elsewhere"))
            .command(format!("kubectl drain {name} --ignore-daemonsets"))
            .risk("this evicts the node's pods; a pod without a controller makes the command fail, and with --force it is deleted for good");
        walk.tell(finding)?;
    }
    Ok(())
}

/// Whether a pod is this driver's node plugin: it registers the driver with kubelet.
pub(super) fn is_plugin(spec: &PodSpec, driver: &str) -> bool {
    registers(spec) && names_driver(spec, driver)
}

/// Whether a pod registers a driver with kubelet.
pub(super) fn registers(spec: &PodSpec) -> bool {
    let registers = |path: &str| path.trim_end_matches('/').ends_with("plugins_registry");
    spec.volumes
        .iter()
        .filter_map(|volume| volume.host_path.as_ref())
        .any(|one| registers(&one.path))
}

/// Checks whether the driver runs on the node, and reports why not: C49 to C52, C89, C91.
pub(super) fn plugin(walk: &mut Walk<'_>, depth: usize, name: &str, driver: &str) -> Step {
    walk.expect([one(&at(name)), one(&Ref::new(Kind::CsiNode, "", name))])?;
    health(walk, depth, name, driver)?;
    let node = walk.get::<Node>("", name)?;
    if node.is_missing() {
        // The driver's pods end with the node.
        return add_step(walk, depth, name);
    }
    let csi_node = walk.get::<CsiNode>("", name)?;
    if let Lookup::Unseen = csi_node {
        return Ok(());
    }
    let csi_node = csi_node.found();
    if csi_node.is_some_and(|one| one.driver(driver).is_some()) {
        return plugin_pods(walk, depth, name, driver, true).map(|_| ());
    }
    add_step(walk, depth, name)?;
    let object = Ref::new(Kind::CsiNode, "", name);
    walk.at(depth, &object, format!("{driver} is not registered"));
    if plugin_pods(walk, depth, name, driver, false)? {
        return Ok(());
    }
    let others = csi_node.iter().flat_map(|one| &one.spec.drivers);
    if let Some(near) = nearest(driver, others.map(|one| &*one.name)) {
        let text = format!(
            "{name} has a driver {near}, and the volume is of {driver}. A volume keeps the name of the driver that made it: was the driver renamed?"
        );
        return walk.tell(Finding::guessed("C52", &object, text).driver(format!(
            "run the driver under its old name {driver} as well, or move the data to new volumes"
        )));
    }
    let why = match node.found() {
        Some(node) => no_pod(walk, driver, node)?,
        None => String::new(),
    };
    let text = format!(
        "{driver} is not registered on {name}, so kubelet cannot mount its volumes there{why}."
    );
    let finding = Finding::proved("C49", &object, text)
        .admin("let the driver's DaemonSet run there (tolerations, nodeSelector, affinity), or keep pods with its volumes off that node");
    walk.tell(finding)
}

/// Why a node has no pod of the driver: the reason of the DaemonSet that comes nearest.
fn no_pod(walk: &mut Walk<'_>, driver: &str, node: &Node) -> Step<String> {
    let sets = walk.all::<DaemonSet>()?;
    let own = sets.items.iter().map(|one| &one.0);
    let own = own.filter(|one| is_plugin(&one.spec.template.spec, driver));
    let reasons = own.map(|set| {
        let spec = &set.spec.template.spec;
        let name = format!("{}/{}", set.metadata.namespace, set.metadata.name);
        match (spec.excludes(node), unborne(node, &spec.tolerations, BORNE)) {
            (Some("nodeSelector"), _) => {
                let labels = spec.node_selector.iter();
                let labels: Vec<_> = labels
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                let labels = listed(&labels);
                (
                    2,
                    format!(
                        ": DaemonSet {name} selects nodes with {labels}, and this one is another"
                    ),
                )
            }
            (Some(by), _) => (
                2,
                format!(": DaemonSet {name} chooses other nodes by its {by}"),
            ),
            (None, Some(taint)) => {
                let key = &taint.key;
                (
                    1,
                    format!(": DaemonSet {name} does not tolerate the node's taint {key}"),
                )
            }
            (None, None) => (
                0,
                format!(": DaemonSet {name} has no pod there, though it may"),
            ),
        }
    });
    Ok(match reasons.min() {
        Some((_, reason)) => reason,
        None if sets.whole => ", and no DaemonSet was found that names it".to_owned(),
        None => String::new(),
    })
}

/// C50, C51: checks the driver's pods on the node; returns whether there is one.
fn plugin_pods(
    walk: &mut Walk<'_>,
    depth: usize,
    name: &str,
    driver: &str,
    registered: bool,
) -> Step<bool> {
    let selector = ObjectSelector::all().with("spec.nodeName", name);
    let pods = walk.by::<Pod>(&selector, By::Plugin, name)?;
    let own = pods.items.into_iter();
    // Evicted pods, and pods that are being replaced, show nothing about now.
    let own = own.filter(|pod| pod.is_live() && is_plugin(&pod.spec, driver));
    let own: Vec<&Pod> = own.collect();
    for pod in &own {
        if let Some(broken) = broken_container(pod) {
            let at = of(pod);
            walk.at(depth + 1, &at, &*broken.says);
            let text = format!("The driver's pod on {name} does not run: {}.", broken.text);
            let finding = Finding::proved("C51", &at, text)
                .quoting(broken.words)
                .admin("its log says why")
                .command(broken.log);
            let started = pod
                .status
                .start_time
                .0
                .or(pod.metadata.creation_timestamp.0);
            let starting = broken.container.restart_count == 0 && !walk.is_older(started, 60);
            walk.tell(if starting { finding.waits() } else { finding })?;
        }
    }
    if let Some(pod) = own.first().filter(|_| !registered) {
        unregistered(walk, depth, name, pod)?;
    }
    Ok(!own.is_empty())
}

/// C50: the driver's pod runs, but kubelet has not registered the driver.
fn unregistered(walk: &mut Walk<'_>, depth: usize, name: &str, pod: &Pod) -> Step {
    let at = of(pod);
    let paths = pod
        .spec
        .volumes
        .iter()
        .filter_map(|volume| volume.host_path.as_ref());
    let registry = { paths }
        .map(|path| path.path.trim_end_matches('/'))
        .find(|path| path.ends_with("plugins_registry"));
    walk.at(depth + 1, &at, "runs");
    let why = match registry.filter(|path| !path.starts_with(KUBELET)) {
        Some(path) => format!(
            "It registers in {path}; kubelets look in {KUBELET}/plugins_registry unless they have another root directory."
        ),
        None => format!(
            "The kubelet of that node may have another root directory than {KUBELET} (k0s, microk8s)."
        ),
    };
    let text = format!("The driver's pod runs on {name}, but kubelet has not registered it. {why}");
    walk.tell(
        Finding::guessed("C50", &at, text)
            .admin("set the chart's kubelet directory to the node's: its kubelet's --root-dir"),
    )
}

/// The taint that keeps pods off a node until this driver is registered. Those of others, such as a network agent's,
/// have keys with similar names.
pub(super) fn startup_taint<'a>(node: &'a Node, driver: &str) -> Option<&'a Taint> {
    node.spec.taints.iter().find(|taint| {
        let own = taint.key.split_once('/');
        own.is_some_and(|(of, name)| of == driver && has(name, STARTUP))
    })
}

/// C91: a startup taint is still there although the driver is registered.
pub(super) fn left_taint(
    walk: &mut Walk<'_>,
    depth: usize,
    node: &Node,
    csi_node: Option<&CsiNode>,
) -> Step {
    let registered = csi_node.iter().flat_map(|one| one.spec.drivers.iter());
    let left = { registered.map(|one| (one, startup_taint(node, &one.name))) }
        .find_map(|(entry, taint)| Some((entry, taint?)));
    let Some((entry, taint)) = left else {
        return Ok(());
    };
    let object = at(&node.metadata.name);
    walk.at(depth, &object, format!("taint {}", taint.key));
    let text = format!(
        "{} has registered on {}, but the taint {}, which keeps pods off a node until the driver is there, was not removed: no program is set up to remove it, or that program lacks the permission.",
        entry.name, object.name, taint.key
    );
    let finding = Finding::proved("C91", &object, text)
        .admin("remove the taint")
        .command(format!("kubectl taint node {} {}:{}-", object.name, taint.key, taint.effect))
        .driver("let the driver or its registrar do it (--remove-taint of csi-node-driver-registrar here), with patch on nodes");
    walk.tell(finding)
}

/// Explains a node that the user asked about.
pub(super) fn subject(walk: &mut Walk<'_>, object: &Ref) -> Step {
    let name = &*object.name;
    walk.expect([
        one(object),
        one(&Ref::new(Kind::CsiNode, "", name)),
        many(Kind::Attachment, &ObjectSelector::all()),
    ])?;
    let Some(node) = walk.subject::<Node>(0, object)? else {
        return Ok(());
    };
    let silent = node.not_ready();
    let says = if silent.is_some() {
        "NotReady"
    } else {
        "Ready"
    };
    walk.at(0, object, says);
    if let Some(since) = silent {
        walk.since = since.0;
        walk.unfinished = true;
        let mut conditions = node.status.conditions.iter();
        let ready = conditions.find(|one| one.kind == "Ready");
        walk.last_words = ready.map(|one| one.message.to_string());
    }
    let csi_node = walk.get::<CsiNode>("", name)?.found();
    left_taint(walk, 1, node, csi_node)?;
    drivers(walk, object, csi_node)
}

/// Checks each driver that volumes on the node need, registered or not.
fn drivers(walk: &mut Walk<'_>, object: &Ref, csi_node: Option<&CsiNode>) -> Step {
    let name = &*object.name;
    let all = walk.all::<Attachment>()?;
    let own = all.items.iter().filter(|one| one.spec.node_name == name);
    let mut used: BTreeMap<&str, u64> = BTreeMap::new();
    own.for_each(|one| *used.entry(&one.spec.attacher).or_default() += 1);
    let registered = csi_node.iter().flat_map(|one| &one.spec.drivers);
    registered.for_each(|one| {
        used.entry(&one.name).or_default();
    });
    for (driver, used) in used {
        let entry = csi_node.and_then(|one| one.driver(driver));
        let limit = entry.and_then(|one| one.allocatable.as_ref()?.count);
        let of = limit
            .map(|limit| format!(" of {limit}"))
            .unwrap_or_default();
        let driver_ref = Ref::new(Kind::Driver, "", driver);
        walk.at(1, &driver_ref, format!("{used}{of} volumes attached"));
        plugin(walk, 2, name, driver)?;
        if limit.is_some_and(|limit| used >= limit) {
            let text = format!(
                "{name} has {used} volumes of {driver} attached, as many as it may: no further pod with one is scheduled there."
            );
            walk.tell(
                Finding::proved("C31", object, text)
                    .waits()
                    .admin("add a node, or end pods with volumes on this one"),
            )?;
        }
    }
    Ok(())
}
