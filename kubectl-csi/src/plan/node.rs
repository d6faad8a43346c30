//! A node, and the driver's part on it.

use super::pod::of;
use super::verdict::Finding;
use super::way::{Got, Step, Way, Which, many, one};
use super::words::{has, listed, nearest, span};
use super::workload::names_driver;
use crate::model::{
    Attachment, CsiNode, DaemonSet, Kind, Many, Node, Pod, PodSpec, Ref, Taint, Toleration,
};

/// Where kubelets look for drivers, unless they were told otherwise.
const KUBELET: &str = "/var/lib/kubelet";

/// Taints that a registrar removes once its driver is there.
const STARTUP: &[&str] = &["agent-not-ready", "driver-not-ready", "startup-taint"];

fn at(name: &str) -> Ref {
    Ref::new(Kind::Node, "", name)
}

/// How the node stands.
pub(super) fn station(way: &mut Way<'_>, depth: usize, name: &str) -> Step {
    let node = way.get::<Node>(Kind::Node, "", name)?;
    let says = match node {
        Got::Missing => "does not exist any more".to_owned(),
        Got::Unseen => return Ok(()),
        Got::Found(node) => match node.not_ready() {
            Some(since) => {
                let since = since
                    .0
                    .map(|since| format!(" for {}", span(way.ago(since))));
                format!("NotReady{}", since.unwrap_or_default())
            }
            None => return Ok(()),
        },
    };
    way.at(depth, &at(name), says);
    Ok(())
}

/// The taint of a node that a pod with these tolerations does not bear.
pub(super) fn refuses<'a>(node: &'a Node, tolerations: &Many<Toleration>) -> Option<&'a Taint> {
    let bears = |taint: &Taint| {
        tolerations.iter().any(|one| {
            let effect = one.effect.is_empty() || one.effect == *taint.effect;
            let any = one.operator == "Exists";
            let key = (one.key.is_empty() && any) || one.key == *taint.key;
            effect && key && (any || one.value == *taint.value)
        })
    };
    let hard = |taint: &&Taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute");
    node.spec
        .taints
        .iter()
        .filter(hard)
        .find(|taint| !bears(taint))
}

/// C89: the driver says that its storage is not to be reached from this node.
pub(super) fn health(way: &mut Way<'_>, depth: usize, name: &str, driver: &str) -> Step {
    let Got::Found(node) = way.get::<CsiNode>(Kind::CsiNode, "", name)? else {
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
        way.at(depth, &at(name), format!("storage {}", first.status));
        let since = entry
            .last_transition_time
            .0
            .map(|since| format!(" for {}", span(way.ago(since))));
        let text = format!(
            "{} calls its storage {} from {name}{}: {}. What is slow or stuck on that node may be for this.",
            entry.name,
            first.status,
            since.unwrap_or_default(),
            first.reason
        );
        let finding = Finding::proved("C89", &at(name), text).quoting(&first.message)
            .admin(format!("look at the network of {name}; drain it, so that its pods start elsewhere"))
            .command(format!("kubectl drain {name} --ignore-daemonsets"))
            .risk("its pods are ended, those that nothing makes again for good; without --force they stop the command instead");
        way.tell(finding)?;
    }
    Ok(())
}

/// Whether a pod is the driver's part of a node: it registers with kubelet.
fn is_plugin(spec: &PodSpec, driver: &str) -> bool {
    let registers = |path: &str| path.trim_end_matches('/').ends_with("plugins_registry");
    let registers = spec
        .volumes
        .iter()
        .filter_map(|volume| volume.host_path.as_ref())
        .any(|one| registers(&one.path));
    registers && names_driver(spec, driver)
}

/// Whether the driver is on the node, and if not, why: C49 to C52, C89, C91.
pub(super) fn plugin(way: &mut Way<'_>, depth: usize, name: &str, driver: &str) -> Step {
    way.expect([one(&at(name)), one(&Ref::new(Kind::CsiNode, "", name))])?;
    health(way, depth, name, driver)?;
    let node = way.get::<Node>(Kind::Node, "", name)?;
    let csi_node = way.get::<CsiNode>(Kind::CsiNode, "", name)?;
    let registered = match csi_node {
        Got::Found(csi_node) => csi_node.driver(driver).is_some(),
        Got::Missing => false,
        Got::Unseen => return Ok(()),
    };
    let pods = Which::all().with("spec.nodeName", name);
    if registered {
        return plugin_pods(way, depth, name, driver, &pods, true);
    }
    station(way, depth, name)?;
    let object = Ref::new(Kind::CsiNode, "", name);
    way.at(depth, &object, format!("{driver} is not registered"));
    let others: Vec<&str> = csi_node
        .found()
        .map(|one| one.spec.drivers.iter().map(|one| &*one.name).collect())
        .unwrap_or_default();
    plugin_pods(way, depth, name, driver, &pods, false)?;
    if let Some(near) = nearest(driver, others.iter().copied()) {
        let text = format!(
            "{name} has a driver {near}, and the volume is of {driver}. A volume keeps the name of the driver that made it: was the driver renamed?"
        );
        return way.tell(Finding::guessed("C52", &object, text).driver(format!(
            "run the driver under its old name {driver} as well, or move the data to new volumes"
        )));
    }
    let plugins = way.list::<DaemonSet>(Kind::DaemonSet, &Which::all())?;
    let own: Vec<_> = plugins
        .items
        .iter()
        .filter(|one| is_plugin(&one.0.spec.template.spec, driver))
        .collect();
    let why = node.found().and_then(|node| {
        let set = own.first()?;
        let spec = &set.0.spec.template.spec;
        let name = format!("{}/{}", set.0.metadata.namespace, set.0.metadata.name);
        if let Some(taint) = refuses(node, &spec.tolerations) {
            return Some(format!(
                "DaemonSet {name} does not tolerate the node's taint {}",
                taint.key
            ));
        }
        if !spec.node_selector.are_in(&node.metadata.labels) {
            let labels: Vec<_> = spec
                .node_selector
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            return Some(format!(
                "DaemonSet {name} selects nodes with {}, which this one does not have",
                listed(&labels)
            ));
        }
        Some(format!("DaemonSet {name} has no pod there, though it may"))
    });
    let none = own.is_empty() && plugins.whole;
    let text = match (why, none) {
        (Some(why), _) => format!(
            "{driver} is not registered on {name}, so kubelet cannot mount its volumes: {why}."
        ),
        (None, true) => {
            format!("{driver} is not registered on {name}, and no DaemonSet runs it on nodes.")
        }
        (None, false) => format!(
            "{driver} is not registered on {name}, so kubelet cannot mount its volumes there."
        ),
    };
    let finding = Finding::proved("C49", &object, text)
        .admin("let the driver's DaemonSet run there (tolerations, nodeSelector), or keep pods with its volumes off that node");
    way.tell(finding)
}

/// The driver's pods on the node: C50, C51.
fn plugin_pods(
    way: &mut Way<'_>,
    depth: usize,
    name: &str,
    driver: &str,
    which: &Which,
    registered: bool,
) -> Step {
    let pods = way.list::<Pod>(Kind::Pod, which)?;
    if let Some(pod) = pods.items.iter().find(|pod| is_plugin(&pod.spec, driver)) {
        let at = of(pod);
        let bad = pod.status.container_statuses.iter().find(|one| !one.ready);
        if let Some(container) = bad {
            let waiting = container
                .state
                .waiting
                .as_ref()
                .map(|one| &*one.reason)
                .filter(|reason| !reason.is_empty());
            let says = waiting.unwrap_or("not ready");
            way.at(
                depth + 1,
                &at,
                format!(
                    "container {}: {says}, {} restarts",
                    container.name, container.restart_count
                ),
            );
            let ended = container
                .last_state
                .terminated
                .as_ref()
                .or(container.state.terminated.as_ref());
            let last = ended
                .map(|end| {
                    format!(
                        "; it last ended with code {} ({})",
                        end.exit_code, end.reason
                    )
                })
                .unwrap_or_default();
            let text = format!(
                "The driver's pod on {name} does not run: container {} is in {says} after {} restarts{last}.",
                container.name, container.restart_count
            );
            let finding = Finding::proved("C51", &at, text)
                .admin("its log says why")
                .command(format!(
                    "kubectl -n {} logs {} -c {} --previous",
                    at.namespace, at.name, container.name
                ));
            let finding = match ended.filter(|end| !end.message.is_empty()) {
                Some(end) => finding.quoting(&end.message),
                None => finding,
            };
            return way.tell(finding);
        }
        if registered {
            return Ok(());
        }
        let paths = pod
            .spec
            .volumes
            .iter()
            .filter_map(|volume| volume.host_path.as_ref());
        let registry = { paths }
            .map(|path| path.path.trim_end_matches('/'))
            .find(|path| path.ends_with("plugins_registry"));
        way.at(depth + 1, &at, "runs");
        let text = match registry.filter(|path| !path.starts_with(KUBELET)) {
            Some(path) => format!(
                "The driver's pod runs on {name}, but kubelet has not registered it. It registers in {path}; kubelets look in {KUBELET}/plugins_registry unless they have another root directory."
            ),
            None => format!(
                "The driver's pod runs on {name}, but kubelet has not registered it. The kubelet of that node may have another root directory than {KUBELET} (k0s, microk8s)."
            ),
        };
        return way
            .tell(Finding::guessed("C50", &at, text).admin(
                "set the chart's kubelet directory to the node's: its kubelet's --root-dir",
            ));
    }
    Ok(())
}

/// The taint by which this driver keeps pods off a node until it is there. Those of others (a network's agent) end the same.
pub(super) fn startup_taint<'a>(node: &'a Node, driver: &str) -> Option<&'a Taint> {
    node.spec.taints.iter().find(|taint| {
        let own = taint.key.split_once('/');
        own.is_some_and(|(of, name)| of == driver && has(name, STARTUP))
    })
}

/// C91: a taint that says the driver is not there, though it is.
pub(super) fn left_taint(
    way: &mut Way<'_>,
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
    way.at(depth, &object, format!("taint {}", taint.key));
    let text = format!(
        "{} has registered on {}, but the taint {} that keeps pods off until then is still there: nobody has the task or the right to remove it.",
        entry.name, object.name, taint.key
    );
    let finding = Finding::proved("C91", &object, text)
        .admin("remove the taint")
        .command(format!("kubectl taint node {} {}:{}-", object.name, taint.key, taint.effect))
        .driver("let the driver or its registrar do it (--remove-taint of csi-node-driver-registrar here), with patch on nodes");
    way.tell(finding)
}

/// The subject.
pub(super) fn subject(way: &mut Way<'_>, object: &Ref) -> Step {
    let name = &*object.name;
    way.expect([
        one(object),
        one(&Ref::new(Kind::CsiNode, "", name)),
        many(Kind::Attachment, &Which::all()),
    ])?;
    let node = way.get::<Node>(Kind::Node, "", name)?;
    let Got::Found(node) = node else {
        way.at(
            0,
            object,
            if node.is_missing() {
                "does not exist"
            } else {
                "may not be read"
            },
        );
        way.absent = node.is_missing();
        way.unfinished = true;
        return Ok(());
    };
    let ready = node.not_ready();
    way.at(
        0,
        object,
        if ready.is_some() { "NotReady" } else { "Ready" },
    );
    if let Some(since) = ready {
        way.since = since.0;
        way.unfinished = true;
        let condition = node
            .status
            .conditions
            .iter()
            .find(|one| one.kind == "Ready");
        way.last_words = condition.map(|one| one.message.to_string());
    }
    let csi_node = way.get::<CsiNode>(Kind::CsiNode, "", name)?.found();
    left_taint(way, 1, node, csi_node)?;
    let all = way.list::<Attachment>(Kind::Attachment, &Which::all())?;
    let own: Vec<_> = all
        .items
        .iter()
        .filter(|one| one.spec.node_name == name)
        .collect();
    // Drivers that volumes here need, be they registered or not.
    let mut drivers: Vec<&str> = own.iter().map(|one| &*one.spec.attacher).collect();
    drivers.extend(
        csi_node
            .iter()
            .flat_map(|one| &one.spec.drivers)
            .map(|one| &*one.name),
    );
    drivers.sort_unstable();
    drivers.dedup();
    for driver in drivers {
        let used = own.iter().filter(|one| one.spec.attacher == driver).count();
        let limit = csi_node
            .and_then(|one| one.driver(driver))
            .and_then(|one| one.allocatable.as_ref())
            .and_then(|one| one.count);
        let of = limit
            .map(|limit| format!(" of {limit}"))
            .unwrap_or_default();
        way.at(
            1,
            &Ref::new(Kind::Driver, "", driver),
            format!("{used}{of} volumes attached"),
        );
        plugin(way, 2, name, driver)?;
        if limit.is_some_and(|limit| u64::try_from(used).is_ok_and(|used| used >= limit)) {
            let text = format!(
                "{name} has {used} volumes of {driver} attached, as many as it may: no further pod with one is scheduled there."
            );
            way.tell(
                Finding::proved("C31", object, text)
                    .waits()
                    .admin("add a node, or end pods with volumes on this one"),
            )?;
        }
    }
    Ok(())
}
