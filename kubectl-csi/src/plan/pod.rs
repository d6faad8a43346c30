//! A pod: is it scheduled, does it get its volumes, does it keep them?

use super::verdict::Finding;
use super::walk::{Lookup, ObjectSelector, Step, Walk, events_of, many, one};
use super::words::{listed, span};
use super::{claim, mount, node, schedule, volume};
use crate::model::{
    ConfigMap, ContainerStatus, Event, Healths, Kind, Pod, PodVolume, Quota, Ref, Secret,
    StatefulSet,
};

/// A pod that needs a volume on a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Consumer<'a> {
    pub(super) pod: &'a Pod,
    pub(super) at: &'a Ref,
}

impl<'a> Consumer<'a> {
    /// The pod's node; empty before it is scheduled.
    pub(super) fn node(&self) -> &'a str {
        &self.pod.spec.node_name
    }
}

/// Reference to a pod.
pub(super) fn of(pod: &Pod) -> Ref {
    Ref::new(Kind::Pod, &pod.metadata.namespace, &pod.metadata.name)
}

pub(super) fn pod(walk: &mut Walk<'_>, at: &Ref) -> Step {
    walk.expect([one(at), many(Kind::Event, &events_of(at))])?;
    let missing = walk.get::<Pod>(&at.namespace, &at.name)?.is_missing();
    let Some(pod) = walk.subject::<Pod>(0, at)? else {
        return if missing {
            self::missing(walk, at)
        } else {
            Ok(())
        };
    };
    walk.since = pod.metadata.creation_timestamp.0;
    if pod.is_over() {
        walk.at(0, at, format!("has ended ({})", pod.status.phase));
        return Ok(());
    }
    let consumer = Consumer { pod, at };
    if pod.metadata.is_leaving() {
        return leaving(walk, consumer);
    }
    if pod.spec.node_name.is_empty() {
        return schedule::unscheduled(walk, consumer);
    }
    let scheduled = pod.condition("PodScheduled");
    let scheduled = scheduled.and_then(|condition| condition.last_transition_time.0);
    walk.since = scheduled.or(walk.since);
    if let Some(says) = started(pod) {
        walk.at(0, at, format!("{says} on {}", pod.spec.node_name));
        return running(walk, consumer);
    }
    walk.at(0, at, format!("on {}", pod.spec.node_name));
    walk.unfinished = true;
    let claims = pod
        .claims()
        .map(|name| one(&Ref::new(Kind::Claim, &at.namespace, &name)));
    let node = Ref::new(Kind::Node, "", &pod.spec.node_name);
    let csi_node = Ref::new(Kind::CsiNode, "", &pod.spec.node_name);
    let mut wants: Vec<_> = claims.collect();
    wants.extend([one(&node), one(&csi_node)]);
    walk.expect(wants)?;
    if !pod.has_storage() {
        walk.at(1, at, "no volume of it is a matter of CSI");
    }
    for source in &pod.spec.volumes {
        self::source(walk, consumer, source)?;
    }
    mount::silent(walk, consumer)
}

/// The state of a pod whose volumes are mounted; `None` for others.
pub(super) fn started(pod: &Pod) -> Option<String> {
    if pod.is_ready() {
        return Some("runs".to_owned());
    }
    let mounted = "has its volumes";
    let init = pod.status.init_container_statuses.iter();
    let mut all = init.chain(&pod.status.container_statuses);
    if !all.clone().any(ContainerStatus::was_started) {
        let running = pod.status.phase == "Running";
        return running.then(|| format!("{mounted} and is not ready,"));
    }
    let waits = all.find(|one| !one.ready && one.was_started());
    let waits = waits.and_then(|one| Some((&one.name, one.waits_for()?)));
    Some(match waits {
        Some((name, reason)) => format!("{mounted}, container {name} waits: {reason},"),
        None => format!("{mounted} and is not ready,"),
    })
}

/// Explains a pod whose volumes are mounted: the drivers' health reports, and what its claims wait
/// for.
fn running(walk: &mut Walk<'_>, consumer: Consumer<'_>) -> Step {
    let (pod, at) = (consumer.pod, consumer.at);
    for health in &pod.status.volume_health {
        sick(walk, at, health)?;
    }
    for name in pod.claims() {
        let claim = Ref::new(Kind::Claim, &at.namespace, &name);
        claim::of_running(walk, &claim)?;
    }
    Ok(())
}

/// C88: the driver reports a bad condition; explains the worst one.
pub(super) fn sick(walk: &mut Walk<'_>, at: &Ref, health: &Healths) -> Step {
    let worst = ["DataLoss", "Inaccessible", "Degraded"];
    let rank = |status: &str| worst.iter().position(|one| *one == status);
    let conditions = health.health_conditions.iter();
    let conditions = conditions.filter(|one| !one.status.is_empty());
    let Some(first) = conditions.min_by_key(|one| rank(&one.status).unwrap_or(worst.len())) else {
        return Ok(());
    };
    let since = health.last_transition_time.0;
    let since = since.map(|since| format!(" for {}", span(walk.ago(since))));
    let volume = match &*health.name {
        "" => "its volume".to_owned(),
        name => format!("its volume {name}"),
    };
    let text = format!(
        "The driver calls {volume} {}{}: {}. Kubernetes only passes this on; nothing in the cluster repairs it.",
        first.status,
        since.unwrap_or_default(),
        first.reason,
    );
    let finding = Finding::proved("C88", at, text)
        .quoting(&*first.message)
        .you("stop what writes to it, and have a snapshot or a backup at hand before anything else")
        .driver("look at the volume in the storage system");
    walk.tell(finding)
}

/// Explains one volume of a pod that does not start.
fn source(walk: &mut Walk<'_>, consumer: Consumer<'_>, source: &PodVolume) -> Step {
    let pod = consumer.pod;
    if let Some(name) = pod.claim_of(source) {
        let claim = Ref::new(Kind::Claim, &pod.metadata.namespace, &name);
        return claim::claim(walk, &claim, 1, Some(consumer));
    }
    if let Some(inline) = &source.csi {
        return volume::inline(walk, consumer, &source.name, &inline.driver);
    }
    elsewhere(walk, consumer, source)
}

/// C59: a missing ConfigMap or Secret: kubelet's event reports it, the lookup proves it.
fn elsewhere(walk: &mut Walk<'_>, consumer: Consumer<'_>, source: &PodVolume) -> Step {
    let at = consumer.at;
    for (kind, name) in source.named() {
        // Read only if kubelet reports it: most users may not read Secrets.
        let events = walk.events(at)?;
        let words = format!("\"{name}\" not found");
        let Some(event) = mount::newest(&events, &["FailedMount"], |text| text.contains(&words))
        else {
            continue;
        };
        let object = Ref::new(kind, &at.namespace, name);
        let (there, gone) = if kind == Kind::Secret {
            known(walk.get::<Secret>(&at.namespace, name)?)
        } else {
            known(walk.get::<ConfigMap>(&at.namespace, name)?)
        };
        if there {
            continue;
        }
        walk.at(1, &object, "is missing");
        let text = format!(
            "The pod's volume {} is made of the {object}, which does not exist. This is not a matter of CSI.",
            source.name
        );
        let finding = match gone {
            true => Finding::proved("C59", &object, text).quoting(&*event.message),
            false => Finding::said("C59", &object, &event.message, text),
        };
        walk.tell(finding.you(format!(
            "create the {object}, or mark it optional in the pod"
        )))?;
    }
    Ok(())
}

/// Whether an object exists, and whether it is known not to.
fn known<T>(got: Lookup<'_, T>) -> (bool, bool) {
    (got.found().is_some(), got.is_missing())
}

/// Explains a pod that is being deleted.
fn leaving(walk: &mut Walk<'_>, consumer: Consumer<'_>) -> Step {
    let (pod, at) = (consumer.pod, consumer.at);
    walk.since = pod.metadata.deletion_timestamp.0;
    walk.at(
        0,
        at,
        format!("is being deleted, on {}", pod.spec.node_name),
    );
    if pod.spec.node_name.is_empty() {
        return Ok(());
    }
    walk.unfinished = true;
    node::add_step(walk, 1, &pod.spec.node_name)?;
    let events = walk.events(at)?;
    let words = mount::newest(&events, &["FailedKillPod", "FailedUnMount"], |_| true);
    walk.last_words = words.map(|event| event.message.to_string());
    Ok(())
}

/// Explains a pod that does not exist: its owner may be unable to create it.
fn missing(walk: &mut Walk<'_>, at: &Ref) -> Step {
    let owner = at.name.rsplit_once('-');
    match owner.filter(|(_, ordinal)| ordinal.parse::<u32>().is_ok()) {
        Some((owner, _)) => not_made(walk, &at.namespace, owner),
        None => Ok(()),
    }
}

/// C24: a StatefulSet that cannot create its claims.
pub(super) fn not_made(walk: &mut Walk<'_>, namespace: &str, owner: &str) -> Step {
    let at = Ref::new(Kind::StatefulSet, namespace, owner);
    if walk.get::<StatefulSet>(namespace, owner)?.is_missing() {
        return Ok(());
    }
    let events = walk.events(&at)?;
    // A quota of pods has nothing to do with storage.
    let quota =
        |text: &str| text.contains("exceeded quota") && text.contains("persistentvolumeclaims");
    let Some(event) = mount::newest(&events, &["FailedCreate"], quota) else {
        return Ok(());
    };
    let event: &Event = event;
    let quotas = walk.list::<Quota>(&ObjectSelector::of(namespace))?;
    let storage = |name: &str| name.contains("storage") || name.contains("persistentvolumeclaims");
    let mut full = Vec::new();
    for quota in &quotas.items {
        for (name, hard) in quota.status.hard.iter().filter(|(name, _)| storage(name)) {
            let used = quota.status.used.get(name).unwrap_or("0");
            full.push(format!(
                "{} of {hard} {name} in ResourceQuota {}",
                used, quota.metadata.name
            ));
        }
    }
    walk.at(1, &at, "may not create what it needs");
    let used = match full.is_empty() {
        true => String::new(),
        false => format!(" In use: {}.", listed(&full)),
    };
    let text = format!(
        "The StatefulSet {owner} is not allowed to create its claim: a quota of the namespace is full.{used}"
    );
    let finding = match full.is_empty() {
        true => Finding::said("C24", &at, &event.message, text),
        false => Finding::proved("C24", &at, text).quoting(&*event.message),
    };
    let finding = finding
        .you("delete claims that nobody needs any more; `kubectl get pvc` in the namespace lists them")
        .admin("raise the quota");
    walk.tell(finding)
}
