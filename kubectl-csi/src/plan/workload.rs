//! The workloads that run a program, and why their pods do not.

use std::collections::BTreeSet;
use std::iter;

use sidecar::names;

use super::controller::{Presence, Role, TOGETHER};
use super::seen::Record;
use super::store::By;
use super::verdict::Finding;
use super::walk::{ObjectSelector, Step, Walk, many};
use super::words::has;
use crate::model::{
    Container, ContainerStatus, DaemonSet, Deployment, Kind, Pod, PodSpec, Ref, StatefulSet,
    Workload,
};

/// Whether a container runs a program, judging by its command, image or name.
pub(super) fn runs(container: &Container, program: &str) -> bool {
    let last = |text: &str| text.rsplit('/').next().is_some_and(|last| last == program);
    let image = container.image.split(['@', ':']).next().unwrap_or_default();
    let image = container.image.rsplit('/').next().map_or(image, |last| {
        last.split(['@', ':']).next().unwrap_or_default()
    });
    let named = image == program
        || image.ends_with(&format!("-{program}"))
        || image == program.trim_start_matches("csi-");
    container
        .command
        .first()
        .is_some_and(|command| last(command))
        || named
        || container.name == program
}

/// Whether a pod names this driver: in an argument, a variable's value, a path or an image.
pub(super) fn names_driver(spec: &PodSpec, driver: &str) -> bool {
    let container = |one: &Container| {
        let texts = one.args.iter().chain(&one.command);
        let mut texts = texts.chain(one.env.iter().map(|variable| &variable.value));
        texts.any(|text| names::names_driver(text, driver))
            || names::names_driver(&one.image, driver)
    };
    let mut paths = spec
        .volumes
        .iter()
        .filter_map(|volume| volume.host_path.as_ref());
    spec.containers.iter().any(container)
        || paths.any(|path| names::names_driver(&path.path, driver))
}

/// Whether any workload names a driver: provisioners outside CSI have neither CSIDriver objects nor known programs.
pub(super) fn is_mentioned(walk: &mut Walk<'_>, driver: &str) -> Step<bool> {
    let whole = are_whole(walk)?;
    let seen = walk.seen;
    let names = |one: &Workload| names_driver(&one.spec.template.spec, driver);
    let is_mentioned = || {
        Deployment::store(seen).list(None).any(|one| names(&one.0))
            || StatefulSet::store(seen).list(None).any(|one| names(&one.0))
            || DaemonSet::store(seen).list(None).any(|one| names(&one.0))
    };
    Ok(!whole || seen.is_mentioned(driver, is_mentioned))
}

/// Reads all Deployments, StatefulSets and DaemonSets; returns whether these lists are complete.
fn are_whole(walk: &mut Walk<'_>) -> Step<bool> {
    let kinds = [Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet];
    walk.expect(kinds.map(|kind| many(kind, &ObjectSelector::all())))?;
    let deployments = walk.count::<Deployment>(By::Program, "")?;
    let stateful = walk.count::<StatefulSet>(By::Program, "")?;
    let daemons = walk.count::<DaemonSet>(By::Program, "")?;
    Ok(deployments.whole && stateful.whole && daemons.whole)
}

/// The workloads that run a program.
fn workloads<'a>(walk: &mut Walk<'a>, program: &str) -> Step<Vec<(Kind, &'a Workload)>> {
    let all = ObjectSelector::all();
    let deployments = walk.by::<Deployment>(&all, By::Program, program)?.items;
    let stateful = walk.by::<StatefulSet>(&all, By::Program, program)?.items;
    let daemons = walk.by::<DaemonSet>(&all, By::Program, program)?.items;
    let deployments = deployments.iter().map(|one| (Kind::Deployment, &one.0));
    let stateful = stateful.iter().map(|one| (Kind::StatefulSet, &one.0));
    let daemons = daemons.iter().map(|one| (Kind::DaemonSet, &one.0));
    Ok(deployments.chain(stateful).chain(daemons).collect())
}

/// The namespaces of the workloads that run a program, that of the oldest workload first: the API server sets creation
/// times.
pub(super) fn namespaces<'a>(walk: &mut Walk<'a>, program: &str) -> Step<Vec<&'a str>> {
    are_whole(walk)?;
    let mut all = workloads(walk, program)?;
    all.sort_by_key(|(_, one)| one.metadata.creation_timestamp);
    let mut namespaces: Vec<&str> = Vec::new();
    for (_, one) in all {
        let namespace = &*one.metadata.namespace;
        if !namespaces.contains(&namespace) {
            namespaces.push(namespace);
        }
    }
    Ok(namespaces)
}

/// The programs that can have a role.
fn programs(role: Role) -> impl Iterator<Item = &'static str> {
    let together = role.is_of_driver().then_some(TOGETHER);
    iter::once(role.program()).chain(together)
}

/// No lease exists: a single replica may run without leader election.
pub(super) fn unelected(
    walk: &mut Walk<'_>,
    depth: usize,
    role: Role,
    driver: &str,
    whole: bool,
) -> Step<Presence> {
    let all = are_whole(walk)? && whole;
    let mut with_program: Vec<(Kind, &Workload)> = Vec::new();
    for program in programs(role) {
        with_program.extend(workloads(walk, program)?);
    }
    let own: Vec<_> = with_program
        .iter()
        .filter(|(_, one)| !role.is_of_driver() || names_driver(&one.spec.template.spec, driver))
        .collect();
    if own.is_empty() {
        return Ok(if all && with_program.is_empty() {
            Presence::Absent
        } else {
            Presence::Unknown
        });
    }
    let places: BTreeSet<&str> = { own.iter() }
        .map(|(_, one)| &*one.metadata.namespace)
        .collect();
    let places: Vec<_> = places.into_iter().map(ObjectSelector::of).collect();
    walk.expect(places.iter().map(|selector| many(Kind::Pod, selector)))?;
    let (mut pods, mut seen) = (Vec::new(), all);
    for selector in &places {
        for program in programs(role) {
            let listed = walk.by::<Pod>(selector, By::Program, program)?;
            seen &= listed.whole;
            let named = |pod: &&Pod| !role.is_of_driver() || names_driver(&pod.spec, driver);
            pods.extend(listed.items.into_iter().filter(named));
        }
    }
    if pods.iter().any(|pod| pod.is_ready()) {
        return Ok(Presence::Present);
    }
    for pod in &pods {
        broken(walk, depth, role, pod)?;
    }
    if !own.iter().all(|(_, one)| one.spec.replicas == Some(0)) {
        return Ok(Presence::Unknown);
    }
    if let Some((kind, workload)) = own.first() {
        let at = Ref::new(*kind, &workload.metadata.namespace, &workload.metadata.name);
        stopped(walk, depth, role, driver, &at, seen)?;
    }
    Ok(Presence::Unknown)
}

/// C9: the workload is scaled to zero.
fn stopped(
    walk: &mut Walk<'_>,
    depth: usize,
    role: Role,
    driver: &str,
    at: &Ref,
    seen: bool,
) -> Step {
    walk.at(depth, at, "is scaled to 0");
    let program = role.program();
    let text = format!("{program} of {driver} is not running: the {at} is scaled to 0.");
    let (namespace, plural, name) = (&at.namespace, at.kind.plural(), &at.name);
    let finding = Finding::proved_if(seen, "C9", at, text)
        .admin("scale it up")
        .command(format!(
            "kubectl -n {namespace} scale {plural} {name} --replicas=1"
        ))
        .risk("if another workload does the same without leader election, two are at work");
    walk.tell(finding)
}

/// Messages of a program that rejects its command line.
const REFUSED_FLAGS: &[&str] = &[
    "unknown flag",
    "unknown shorthand flag",
    "flag provided but not defined",
    "unrecognized feature gate",
    "unrecognized feature-gate",
];

/// A container that keeps its pod from running.
pub(super) struct Broken<'a> {
    pub(super) container: &'a ContainerStatus,
    /// For the path: `container driver: CrashLoopBackOff, 9 restarts`.
    pub(super) says: String,
    /// `container driver is in CrashLoopBackOff after 9 restarts; it last ended with code 1 (Error)`.
    pub(super) text: String,
    /// The container's last message, or kubelet's reason.
    pub(super) words: &'a str,
    /// The command that shows its log.
    pub(super) log: String,
}

/// The container that keeps a pod from running, described for the answer.
pub(super) fn broken_container(pod: &Pod) -> Option<Broken<'_>> {
    let container = pod.broken()?;
    let (name, restarts) = (&container.name, container.restart_count);
    let is = match container.waits_for() {
        Some(reason) => format!("in {reason}"),
        None => "not ready".to_owned(),
    };
    let ended = container.ended();
    let last = match ended {
        Some(end) if end.reason == "OOMKilled" => {
            "; it was killed because it used more memory than its limit".to_owned()
        }
        Some(end) => format!(
            "; it last ended with code {} ({})",
            end.exit_code, end.reason
        ),
        None => String::new(),
    };
    let message = ended
        .map(|end| &*end.message)
        .filter(|text| !text.is_empty());
    let waiting = container.state.waiting.as_ref().map(|one| &*one.message);
    let (namespace, of) = (&pod.metadata.namespace, &pod.metadata.name);
    Some(Broken {
        container,
        says: format!(
            "container {name}: {}, {restarts} restarts",
            container.waits_for().unwrap_or("not ready")
        ),
        text: format!("container {name} is {is} after {restarts} restarts{last}"),
        words: message.or(waiting).unwrap_or_default(),
        log: format!("kubectl -n {namespace} logs {of} -c {name} --previous"),
    })
}

/// C9, C93: the pod does not run; quotes what its containers report.
pub(super) fn broken(walk: &mut Walk<'_>, depth: usize, role: Role, pod: &Pod) -> Step {
    let at = super::pod::of(pod);
    let program = role.program();
    let Some(broken) = broken_container(pod) else {
        let condition = pod.condition("PodScheduled");
        let unscheduled = condition.filter(|one| one.status == "False");
        walk.at(depth, &at, "does not run");
        let says = match unscheduled {
            Some(_) => "has no node",
            None => "has not started",
        };
        let text = format!("{program} does not run: the {at} {says}.");
        let finding = Finding::proved("C9", &at, text)
            .quoting(unscheduled.map(|condition| &*condition.message))
            .admin("see its events")
            .command(format!(
                "kubectl -n {} describe pod {}",
                at.namespace, at.name
            ));
        return walk.tell(finding);
    };
    walk.at(depth, &at, &*broken.says);
    let ended = broken.container.ended();
    let code = ended.map(|end| end.exit_code);
    let message = ended.map(|end| &*end.message).unwrap_or_default();
    let usage = matches!(code, Some(2 | 255)) && has(message, &["usage of", "flag"]);
    if usage || has(message, REFUSED_FLAGS) {
        let text = format!(
            "Container {} of the {at} ends at its start with code {}: this version does not know a flag or feature gate of its command line.",
            broken.container.name,
            code.unwrap_or_default()
        );
        let finding = Finding::proved("C93", &at, text).quoting(message).admin(
            "take that flag out of the workload's arguments, or go back to the image that had it",
        );
        return walk.tell(finding);
    }
    let text = format!("{program} does not run: in the {at}, {}.", broken.text);
    let finding = Finding::proved("C9", &at, text).quoting(broken.words);
    let pulls = has(&broken.says, &["imagepull", "invalidimage"]);
    let finding = match ended {
        _ if pulls => finding.admin("correct the image, or give the pod the right to pull it"),
        Some(end) if end.reason == "OOMKilled" => {
            let name = &broken.container.name;
            finding.admin(format!("raise the memory limit of container {name}"))
        }
        _ => finding.admin("its log says why").command(broken.log),
    };
    walk.tell(finding)
}
