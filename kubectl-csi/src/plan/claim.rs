//! A claim: gone, being deleted, lost, pending, bound.

use super::pod::Consumer;
use super::verdict::Finding;
use super::walk::{Lookup, Step, Walk, events_of, many, one};
use super::words::listed;
use super::{change, delete, journal, pod, provision, schedule, volume};
use crate::model::{Claim, Kind, ObjectRef, Ref, Volume};

pub(super) fn claim(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    consumer: Option<Consumer<'_>>,
) -> Step {
    walk.expect([one(at), many(Kind::Event, &events_of(at))])?;
    let claim = match walk.get::<Claim>(&at.namespace, &at.name)? {
        Lookup::Found(claim) => claim,
        Lookup::Unseen => {
            walk.at(depth, at, "may not be read");
            walk.unfinished = true;
            return Ok(());
        }
        Lookup::Missing => return missing(walk, at, depth, consumer),
    };
    if consumer.is_none() {
        walk.since = claim.metadata.creation_timestamp.0;
    }
    if claim.metadata.is_leaving() {
        return delete::claim(walk, at, depth, claim);
    }
    match &*claim.status.phase {
        "Lost" => lost(walk, at, depth, claim),
        "Bound" => bound(walk, at, depth, claim, consumer),
        _ => {
            walk.unfinished = true;
            provision::pending(walk, at, depth, claim, consumer)
        }
    }
}

fn missing(walk: &mut Walk<'_>, at: &Ref, depth: usize, consumer: Option<Consumer<'_>>) -> Step {
    walk.at(depth, at, "does not exist");
    if consumer.is_none() {
        journal::of_missing(walk, at)?;
        // StatefulSets call their claims TEMPLATE-SET-ORDINAL.
        if let Some((front, ordinal)) = at.name.rsplit_once('-')
            && ordinal.parse::<u32>().is_ok()
        {
            let sets = front
                .match_indices('-')
                .filter_map(|(end, _)| front.get(end + 1..));
            for set in sets {
                pod::not_made(walk, &at.namespace, set)?;
            }
        }
        walk.absent = true;
        return Ok(());
    }
    let text = format!("The pod needs the {at}, which does not exist.");
    let finding =
        Finding::proved("C32", at, text).you("create the claim, or correct its name in the pod");
    walk.unfinished = true;
    walk.tell(finding)
}

fn lost(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    walk.unfinished = true;
    walk.at(depth, at, "Lost");
    let name = &*claim.spec.volume_name;
    let volume = walk.get::<Volume>("", name)?;
    let object = Ref::new(Kind::Volume, "", name);
    let text = match volume {
        Lookup::Found(volume) => {
            let other = volume.spec.claim_ref.as_ref().map(of_claim);
            let other = other.unwrap_or_else(|| "no claim".to_owned());
            walk.at(depth + 1, &object, "is another claim's");
            format!("The claim was bound to the {object}, which now belongs to {other}.")
        }
        Lookup::Missing => {
            walk.at(depth + 1, &object, "does not exist");
            format!(
                "The claim was bound to the {object}, whose record was deleted. The data in the storage may still exist. Pods that run keep their mount; no new pod starts."
            )
        }
        Lookup::Unseen => {
            format!("Kubernetes calls the claim Lost: its {object} is gone or another claim's.")
        }
    };
    let finding = Finding::proved_if(!matches!(volume, Lookup::Unseen), "C23", at, text);
    let finding = finding
        .admin(format!("create PersistentVolume {name} again with the storage's handle, reclaim policy Retain and this claim in claimRef; a copy of the old object is the easiest way"))
        .you("or restore a backup into a new claim");
    walk.tell(finding)
}

/// `claim shop/data`.
pub(super) fn of_claim(reference: &ObjectRef) -> String {
    Ref::new(Kind::Claim, &reference.namespace, &reference.name).to_string()
}

fn bound(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    claim: &Claim,
    consumer: Option<Consumer<'_>>,
) -> Step {
    walk.at(depth, at, "bound");
    healthy(walk, at, claim)?;
    let volume = Ref::new(Kind::Volume, "", &claim.spec.volume_name);
    volume::of_claim(walk, &volume, depth + 1, claim, consumer)?;
    match consumer {
        Some(_) => Ok(()),
        None => used(walk, at, depth, claim),
    }
}

/// Explains what a bound claim waits for: its own changes, and the pods that do not start with it.
pub(super) fn used(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    change::claim(walk, at, depth, claim)?;
    let (pods, _) = schedule::users(walk, at)?;
    for pod in pods.into_iter().filter(|pod| pod.is_live()) {
        let pod_at = pod::of(pod);
        let consumer = Consumer { pod, at: &pod_at };
        if pod.spec.node_name.is_empty() {
            schedule::unscheduled(walk, consumer)?;
        } else if pod::started(pod).is_none() {
            walk.at(
                depth,
                &pod_at,
                format!("on {}, has not started", pod.spec.node_name),
            );
            walk.unfinished = true;
            let scheduled = pod.condition("PodScheduled");
            walk.since = scheduled
                .and_then(|one| one.last_transition_time.0)
                .or(walk.since);
            let volume = Ref::new(Kind::Volume, "", &claim.spec.volume_name);
            volume::of_claim(walk, &volume, depth + 1, claim, Some(consumer))?;
        }
    }
    Ok(())
}

/// C88: the claim's own health conditions.
fn healthy(walk: &mut Walk<'_>, at: &Ref, claim: &Claim) -> Step {
    match &claim.status.health_status {
        Some(health) => pod::sick(walk, at, health),
        None => Ok(()),
    }
}

/// Explains what the claim of a running pod still waits for.
pub(super) fn of_running(walk: &mut Walk<'_>, at: &Ref) -> Step {
    let Lookup::Found(claim) = walk.get::<Claim>(&at.namespace, &at.name)? else {
        return Ok(());
    };
    walk.at(1, at, listed(&[claim.status.phase.to_lowercase()]));
    healthy(walk, at, claim)?;
    if claim.metadata.deletion_timestamp.0.is_none() {
        change::claim(walk, at, 1, claim)?;
    }
    Ok(())
}
