//! A claim that waits for provisioning.

use super::controller::{Presence, Role};
use super::pod::Consumer;
use super::verdict::Finding;
use super::walk::{Lookup, Step, Walk};
use super::words::{has, nearest};
use super::{class, controller, journal, mount, refusal, schedule, source, volume, workload};
use crate::model::{Capacity, Claim, Class, Driver, Kind, Node, Pod, Ref};

/// Provisioner of classes whose volumes are created by hand.
pub(super) const BY_HAND: &str = "kubernetes.io/no-provisioner";

pub(super) fn pending(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    claim: &Claim,
    consumer: Option<Consumer<'_>>,
) -> Step {
    walk.at(depth, at, "pending");
    if !claim.spec.volume_name.is_empty() {
        return volume::named(walk, at, depth + 1, claim);
    }
    let Some(class) = class::class(walk, at, depth + 1, claim)? else {
        return Ok(());
    };
    class::attributes(walk, at, claim, class)?;
    source::claim(walk, at, depth + 1, claim, class)?;
    if class.waits_for_consumer() && claim.selected_node().is_none() {
        return no_consumer(walk, at, depth, claim, consumer);
    }
    if let Some(name) = claim.selected_node() {
        selected(walk, at, depth + 1, name, consumer)?;
        class::topology(walk, at, class, name)?;
    }
    by_driver(walk, at, depth + 1, claim, class)
}

/// Whether the scheduler has to select a node before anything else happens.
pub(super) fn waits_for_scheduler(walk: &mut Walk<'_>, claim: &Claim) -> Step<bool> {
    if !claim.spec.volume_name.is_empty() || claim.source().is_some() {
        return Ok(false);
    }
    let Some(name) = claim.class() else {
        return Ok(false);
    };
    let class = walk.get::<Class>("", name)?.found();
    Ok(class.is_some_and(|class| class.waits_for_consumer() && class.provisioner != BY_HAND))
}

/// C1 to C3: no node is selected for the volume.
fn no_consumer(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    claim: &Claim,
    consumer: Option<Consumer<'_>>,
) -> Step {
    let (users, whole) = match consumer {
        Some(consumer) => (vec![consumer.pod], true),
        None => schedule::users(walk, at)?,
    };
    let live: Vec<&Pod> = users.into_iter().filter(|pod| !pod.is_over()).collect();
    let Some(first) = live.first() else {
        return unused(walk, at, claim, whole);
    };
    if first.spec.node_name.is_empty() {
        // The walk of the pod itself explains what the scheduler reports.
        let pod = super::pod::of(first);
        return match consumer {
            Some(_) => Ok(()),
            None => {
                walk.at(depth + 1, &pod, "is not scheduled");
                schedule::unscheduled(
                    walk,
                    Consumer {
                        pod: first,
                        at: &pod,
                    },
                )
            }
        };
    }
    if first
        .condition("PodScheduled")
        .is_some_and(|one| one.status == "True")
        && !walk.is_older(first.status.start_time.0, 30)
    {
        return Ok(());
    }
    let text = format!(
        "The {} was put on {} past the scheduler (spec.nodeName), and only the scheduler chooses where the claim's volume is made.",
        super::pod::of(first),
        first.spec.node_name
    );
    let finding = Finding::proved("C3", at, text).you(format!(
        "in the pod's template, take nodeName out and use nodeSelector kubernetes.io/hostname: {}",
        first.spec.node_name
    ));
    walk.tell(finding)
}

/// C1, C2: no pod uses the claim.
fn unused(walk: &mut Walk<'_>, at: &Ref, claim: &Claim, whole: bool) -> Step {
    let start = "start a pod that uses the claim";
    if !whole {
        let text =
            "The volume is created when a pod uses the claim; whether one does could not be seen.";
        return walk.tell(Finding::guessed("C1", at, text).waits().you(start));
    }
    let mut annotations = claim.metadata.annotations.iter();
    let pulumi = annotations.any(|(name, _)| name.starts_with("pulumi.com/"));
    let tool = claim.metadata.labels.get("app.kubernetes.io/managed-by");
    let tool = tool.or(pulumi.then_some("Pulumi"));
    let is_empty = !walk.seen.has_any(Kind::Pod, Some(&at.namespace));
    if let (Some(tool), true) = (tool, is_empty) {
        let text = format!(
            "The volume is created when a pod uses the claim, and there is no pod in the namespace. If {tool} waits for the claim to be Bound before it creates the pod, both wait for each other."
        );
        return walk.tell(Finding::guessed("C2", at, text).waits().you("let the tool not wait for this claim: helm without --wait, pulumi with the annotation pulumi.com/skipAwait"));
    }
    let text = "Nothing is wrong: the class creates volumes only when a pod uses the claim, and no pod does.";
    walk.tell(Finding::proved("C1", at, text).waits().you(start))
}

/// C4: the selected node is gone, or the pod is no longer on it; C17: the driver is not registered
/// there.
fn selected(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    name: &str,
    consumer: Option<Consumer<'_>>,
) -> Step {
    let node = walk.get::<Node>("", name)?;
    let other = consumer
        .map(|consumer| consumer.node())
        .filter(|node| !node.is_empty() && *node != name);
    let text = match (node.is_missing(), other) {
        (true, _) => format!(
            "The scheduler chose node {name} for the volume, and that node does not exist any more."
        ),
        (false, Some(other)) => {
            format!("The scheduler chose node {name} for the volume, but the pod is on {other}.")
        }
        (false, None) => return Ok(()),
    };
    walk.at(
        depth,
        &Ref::new(Kind::Node, "", name),
        if node.is_missing() {
            "does not exist"
        } else {
            "was chosen"
        },
    );
    let finding = Finding::proved("C4", at, text)
        .you("csi-provisioner gives the choice back by itself; if it has not for a minute, remove the annotation, and the scheduler chooses again")
        .command(format!("kubectl -n {} annotate pvc {} volume.kubernetes.io/selected-node-", at.namespace, at.name));
    walk.tell(finding)
}

/// C19: an unscheduled pod, and no known capacity for its claim.
pub(super) fn placed(
    walk: &mut Walk<'_>,
    _: Consumer<'_>,
    at: &Ref,
    claim: &Claim,
    words: &str,
) -> Step {
    if !has(
        words,
        &[
            "did not have enough free storage",
            "not enough free storage",
        ],
    ) {
        return Ok(());
    }
    let name = claim.class().unwrap_or_default();
    let class = walk.get::<Class>("", name)?.found();
    let driver = class.map(|class| &*class.provisioner).unwrap_or_default();
    let known = walk.get::<Driver>("", driver)?.found();
    let capacities = walk.largest::<Capacity>(name)?;
    let size = claim.spec.resources.requests.storage.clone();
    walk.at(1, at, format!("finds no room for {size}"));
    let largest = capacities.items.first().map(|one| one.largest());
    let text = match largest {
        Some(largest) => format!(
            "No place has {size} free in StorageClass {name}: the largest that {driver} reports is {largest}."
        ),
        None => format!(
            "{driver} says in its CSIDriver that the scheduler must look at its capacity, and no CSIStorageCapacity object reports any for StorageClass {name}."
        ),
    };
    let asked = known.is_some_and(|known| known.spec.storage_capacity == Some(true));
    let finding = if asked && capacities.whole {
        Finding::proved("C19", at, text).quoting(words)
    } else {
        Finding::said("C19", at, words, text)
    };
    let finding = match largest {
        Some(_) => finding.driver("free or add storage").you("or ask for less"),
        None => finding.admin("start csi-provisioner with --enable-capacity, POD_NAME and NAMESPACE, and the right to write CSIStorageCapacity objects"),
    };
    walk.tell(finding)
}

/// The driver has to create the volume: checks whether the driver exists, whether csi-provisioner
/// works for it, and what it reports.
fn by_driver(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim, class: &Class) -> Step {
    let driver = &*class.provisioner;
    let events = walk.events(at)?;
    let object = Ref::new(Kind::Driver, "", driver);
    let known = walk.get::<Driver>("", driver)?;
    // Whoever wrote such an event provisions, wherever it runs.
    let asked = events
        .iter()
        .any(|event| event.reason.starts_with("Provisioning"));
    let presence = controller::check(walk, depth, Role::Provisioner, driver)?;
    if presence != Presence::Present && !asked {
        let absent = controller::is_gone(walk, driver)? && !workload::is_mentioned(walk, driver)?;
        if presence == Presence::Absent || absent {
            return nobody(walk, at, depth, class, &object, absent);
        }
    }
    if let Lookup::Found(_) = known {
        walk.at(depth, &object, "is asked for the volume");
    }
    // The newest event counts.
    let mut failed = events
        .iter()
        .filter(|event| event.reason == "ProvisioningFailed");
    if let Some(event) = failed.next() {
        return refusal::refused(walk, at, depth, claim, class, event);
    }
    journal::open(walk, at, depth, claim, driver)?;
    if walk.is_older(claim.metadata.creation_timestamp.0, 120) {
        refusal::topology_keys(walk, at, claim, driver, None)?;
    }
    words(walk, at)
}

/// C8: no process provisions volumes of this class.
fn nobody(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    class: &Class,
    object: &Ref,
    absent: bool,
) -> Step {
    let driver = &*object.name;
    walk.at(
        depth,
        object,
        if absent {
            "is not in this cluster"
        } else {
            "has nobody who provisions"
        },
    );
    let finding = if absent {
        let near = nearest(driver, walk.all::<Driver>()?.names());
        let near = near.map(|near| format!(" A driver {near} is installed."));
        let text = format!(
            "StorageClass {} names the driver {driver}, and no driver of that name runs in this cluster: it has no CSIDriver, no lease and is registered on no node.{}",
            class.metadata.name,
            near.unwrap_or_default()
        );
        Finding::proved("C8", at, text)
    } else {
        controller::nobody(
            walk,
            "C8",
            at,
            (Role::Provisioner, driver),
            "creates volumes",
        )?
    };
    let finding = match absent {
        true => finding.admin(format!("install {driver}; or, if the class has the wrong name, delete it and create it with the right one")),
        false => finding.admin("run csi-provisioner beside the driver's controller"),
    };
    walk.tell(finding.you("or create the claim again with another class"))
}

/// Keeps the newest event's text for an answer without a cause.
pub(super) fn words(walk: &mut Walk<'_>, at: &Ref) -> Step {
    let events = walk.events(at)?;
    let newest = mount::newest(&events, &[], |_| true);
    walk.last_words = newest
        .map(|event| event.message.to_string())
        .or(walk.last_words.take());
    Ok(())
}
