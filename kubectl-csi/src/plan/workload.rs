//! What runs a program, and why it does not.

use std::collections::BTreeSet;

use super::controller::{Presence, Role};
use super::verdict::Finding;
use super::way::{Step, Way, Which, many};
use super::words::has;
use crate::model::{
    Container, ContainerStatus, DaemonSet, Deployment, Kind, Pod, PodSpec, Ref, StatefulSet,
    Workload,
};

/// Whether a container runs a program, by its command, image or name.
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

/// The container of a pod that has this role, alone or with others.
fn with_role(spec: &PodSpec, role: Role) -> Option<&Container> {
    let alone = spec.containers.iter().find(|one| runs(one, role.program()));
    alone.or_else(|| {
        spec.containers
            .iter()
            .find(|one| role.is_of_driver() && runs(one, "csi-sidecars"))
    })
}

/// Whether a pod says that it is of this driver: in an argument, a value, a path, an image.
pub(super) fn names_driver(spec: &PodSpec, driver: &str) -> bool {
    let inside = |text: &str| text.contains(driver);
    let container = |one: &Container| {
        let texts = one.args.iter().chain(&one.command);
        let values = one.env.iter().map(|variable| &variable.value);
        texts.chain(values).any(|text| inside(text)) || inside(&one.image)
    };
    let paths = spec
        .volumes
        .iter()
        .filter_map(|volume| volume.host_path.as_ref());
    spec.containers.iter().any(container) || { paths }.any(|path| inside(&path.path))
}

/// Whether any workload says a driver's name: provisioners that are none of CSI's have neither objects nor known programs.
pub(super) fn is_mentioned(way: &mut Way<'_>, driver: &str) -> Step<bool> {
    let (workloads, whole) = workloads(way)?;
    Ok(!whole
        || workloads
            .iter()
            .any(|(_, one)| names_driver(&one.spec.template.spec, driver)))
}

/// What makes pods, and whether that is all there is.
fn workloads<'a>(way: &mut Way<'a>) -> Step<(Vec<(Kind, &'a Workload)>, bool)> {
    let kinds = [Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet];
    way.expect(kinds.map(|kind| many(kind, &Which::all())))?;
    let deployments = way.list::<Deployment>(Kind::Deployment, &Which::all())?;
    let stateful = way.list::<StatefulSet>(Kind::StatefulSet, &Which::all())?;
    let daemons = way.list::<DaemonSet>(Kind::DaemonSet, &Which::all())?;
    let whole = deployments.whole && stateful.whole && daemons.whole;
    let all = deployments
        .items
        .into_iter()
        .map(|one| (Kind::Deployment, &one.0));
    let all = all.chain(
        stateful
            .items
            .into_iter()
            .map(|one| (Kind::StatefulSet, &one.0)),
    );
    let all = all.chain(
        daemons
            .items
            .into_iter()
            .map(|one| (Kind::DaemonSet, &one.0)),
    );
    Ok((all.collect(), whole))
}

/// Nobody has a lease: one replica may run without.
pub(super) fn unelected(
    way: &mut Way<'_>,
    depth: usize,
    role: Role,
    driver: &str,
    whole: bool,
) -> Step<Presence> {
    let (workloads, all) = workloads(way)?;
    let all = all && whole;
    let with_program: Vec<(Kind, &Workload)> = workloads
        .into_iter()
        .filter(|(_, one)| with_role(&one.spec.template.spec, role).is_some())
        .collect();
    let own: Vec<_> = with_program
        .iter()
        .filter(|(_, one)| !role.is_of_driver() || names_driver(&one.spec.template.spec, driver))
        .collect();
    if own.is_empty() {
        return Ok(if all && with_program.is_empty() {
            Presence::Nobody
        } else {
            Presence::Unknown
        });
    }
    let places: BTreeSet<&str> = { own.iter() }
        .map(|(_, one)| &*one.metadata.namespace)
        .collect();
    let places: Vec<_> = places.into_iter().map(Which::of).collect();
    way.expect(places.iter().map(|which| many(Kind::Pod, which)))?;
    let (mut pods, mut seen) = (Vec::new(), all);
    for which in &places {
        let listed = way.list::<Pod>(Kind::Pod, which)?;
        seen &= listed.whole;
        pods.extend(listed.items.into_iter().filter(|pod| {
            let named = !role.is_of_driver() || names_driver(&pod.spec, driver);
            named && with_role(&pod.spec, role).is_some()
        }));
    }
    if pods.iter().any(|pod| pod.is_ready()) {
        return Ok(Presence::There);
    }
    for pod in &pods {
        broken(way, depth, role, pod)?;
    }
    if !own.iter().all(|(_, one)| one.spec.replicas == Some(0)) {
        return Ok(Presence::Unknown);
    }
    if let Some((kind, workload)) = own.first() {
        let at = Ref::new(*kind, &workload.metadata.namespace, &workload.metadata.name);
        way.at(depth, &at, "is scaled to 0");
        let text = format!(
            "{} of {driver} is not running: the {at} is scaled to 0.",
            role.program()
        );
        let finding = if seen {
            Finding::proved("C9", &at, text)
        } else {
            Finding::guessed("C9", &at, text)
        };
        let finding = finding
            .admin("scale it up")
            .command(format!(
                "kubectl -n {} scale {} {} --replicas=1",
                at.namespace,
                kind.plural(),
                at.name
            ))
            .risk("if another workload does the same without leader election, two are at work");
        way.tell(finding)?;
    }
    Ok(Presence::Unknown)
}

/// The texts of a program that ends because of its command line.
const REFUSED_FLAGS: &[&str] = &[
    "unknown flag",
    "unknown shorthand flag",
    "flag provided but not defined",
    "unrecognized feature gate",
    "unrecognized feature-gate",
];

/// C9 and C93: the pod does not run, and what its containers say of that.
pub(super) fn broken(way: &mut Way<'_>, depth: usize, role: Role, pod: &Pod) -> Step {
    let at = super::pod::of(pod);
    let bad = |one: &&ContainerStatus| !one.ready;
    let of_role = with_role(&pod.spec, role).map(|container| &*container.name);
    let mut statuses: Vec<_> = pod.status.container_statuses.iter().filter(bad).collect();
    statuses.sort_by_key(|one| Some(&*one.name) != of_role);
    let Some(container) = statuses.first() else {
        let scheduled = pod
            .condition("PodScheduled")
            .filter(|one| one.status == "False");
        way.at(depth, &at, "does not run");
        let text = format!(
            "{} does not run: the {at} {}.",
            role.program(),
            match scheduled {
                Some(_) => "has no node",
                None => "has not started",
            }
        );
        let finding = Finding::proved("C9", &at, text);
        let finding = match scheduled {
            Some(condition) => finding.quoting(&condition.message),
            None => finding,
        };
        return way.tell(finding.admin("see its events").command(format!(
            "kubectl -n {} describe pod {}",
            at.namespace, at.name
        )));
    };
    let ended = container
        .last_state
        .terminated
        .as_ref()
        .or(container.state.terminated.as_ref());
    let waiting = container.state.waiting.as_ref();
    let message = ended.map(|end| &*end.message).unwrap_or_default();
    let says = waiting
        .map(|one| &*one.reason)
        .filter(|reason| !reason.is_empty())
        .unwrap_or("not ready");
    way.at(
        depth,
        &at,
        format!(
            "container {}: {says}, {} restarts",
            container.name, container.restart_count
        ),
    );
    let log = format!(
        "kubectl -n {} logs {} -c {} --previous",
        at.namespace, at.name, container.name
    );
    let code = ended.map(|end| end.exit_code);
    if has(message, REFUSED_FLAGS)
        || (matches!(code, Some(2 | 255)) && has(message, &["usage of", "flag"]))
    {
        let text = format!(
            "Container {} of the {at} ends at its start with code {}: this version does not know a flag or feature gate of its command line.",
            container.name,
            code.unwrap_or_default()
        );
        let finding = Finding::proved("C93", &at, text).quoting(message).admin(
            "take that flag out of the workload's arguments, or go back to the image that had it",
        );
        return way.tell(finding);
    }
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
    let text = format!(
        "{} does not run: container {} of the {at} is in {says} after {} restarts{last}.",
        role.program(),
        container.name,
        container.restart_count
    );
    let finding = Finding::proved("C9", &at, text);
    let words = if message.is_empty() {
        waiting.map(|one| &*one.message).unwrap_or_default()
    } else {
        message
    };
    let finding = if words.is_empty() {
        finding
    } else {
        finding.quoting(words)
    };
    let image = has(says, &["imagepull", "invalidimage"]);
    let finding = match ended {
        _ if image => finding.admin("correct the image, or give the pod the right to pull it"),
        Some(end) if end.reason == "OOMKilled" => finding.admin(format!(
            "raise the memory limit of container {}",
            container.name
        )),
        _ => finding.admin("its log says why").command(log),
    };
    way.tell(finding)
}
