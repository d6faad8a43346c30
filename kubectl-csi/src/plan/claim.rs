//! A claim: gone, being deleted, lost, pending, bound.

use super::pod::Consumer;
use super::verdict::Finding;
use super::way::{Got, Step, Way, events_of, many, one};
use super::words::listed;
use super::{change, delete, journal, pod, provision, schedule, volume};
use crate::model::{Claim, Kind, ObjectRef, Ref, Volume};

pub(super) fn claim(
    way: &mut Way<'_>,
    at: &Ref,
    depth: usize,
    consumer: Option<Consumer<'_>>,
) -> Step {
    way.expect([one(at), many(Kind::Event, &events_of(at))])?;
    let claim = match way.get::<Claim>(&at.namespace, &at.name)? {
        Got::Found(claim) => claim,
        Got::Unseen => {
            way.at(depth, at, "may not be read");
            way.unfinished = true;
            return Ok(());
        }
        Got::Missing => return missing(way, at, depth, consumer),
    };
    if consumer.is_none() {
        way.since = claim.metadata.creation_timestamp.0;
    }
    if claim.metadata.is_leaving() {
        return delete::claim(way, at, depth, claim);
    }
    match &*claim.status.phase {
        "Lost" => lost(way, at, depth, claim),
        "Bound" => bound(way, at, depth, claim, consumer),
        _ => {
            way.unfinished = true;
            provision::pending(way, at, depth, claim, consumer)
        }
    }
}

fn missing(way: &mut Way<'_>, at: &Ref, depth: usize, consumer: Option<Consumer<'_>>) -> Step {
    way.at(depth, at, "does not exist");
    if consumer.is_none() {
        journal::of_missing(way, at)?;
        // StatefulSets call their claims TEMPLATE-SET-ORDINAL.
        if let Some((front, ordinal)) = at.name.rsplit_once('-')
            && ordinal.parse::<u32>().is_ok()
        {
            let sets = front
                .match_indices('-')
                .filter_map(|(end, _)| front.get(end + 1..));
            for set in sets {
                pod::not_made(way, &at.namespace, set)?;
            }
        }
        way.absent = true;
        return Ok(());
    }
    let text = format!("The pod needs the {at}, which does not exist.");
    let finding =
        Finding::proved("C32", at, text).you("create the claim, or correct its name in the pod");
    way.unfinished = true;
    way.tell(finding)
}

fn lost(way: &mut Way<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    way.unfinished = true;
    way.at(depth, at, "Lost");
    let name = &*claim.spec.volume_name;
    let volume = way.get::<Volume>("", name)?;
    let object = Ref::new(Kind::Volume, "", name);
    let text = match volume {
        Got::Found(volume) => {
            let other = volume.spec.claim_ref.as_ref().map(of_claim);
            let other = other.unwrap_or_else(|| "no claim".to_owned());
            way.at(depth + 1, &object, "is another claim's");
            format!("The claim was bound to the {object}, which now belongs to {other}.")
        }
        Got::Missing => {
            way.at(depth + 1, &object, "does not exist");
            format!(
                "The claim was bound to the {object}, whose record was deleted. The data in the storage may still exist. Pods that run keep their mount; no new pod starts."
            )
        }
        Got::Unseen => {
            format!("Kubernetes calls the claim Lost: its {object} is gone or another claim's.")
        }
    };
    let finding = Finding::proved_if(!matches!(volume, Got::Unseen), "C23", at, text);
    let finding = finding
        .admin(format!("create PersistentVolume {name} again with the storage's handle, reclaim policy Retain and this claim in claimRef; a copy of the old object is the easiest way"))
        .you("or restore a backup into a new claim");
    way.tell(finding)
}

/// `claim shop/data`.
pub(super) fn of_claim(reference: &ObjectRef) -> String {
    Ref::new(Kind::Claim, &reference.namespace, &reference.name).to_string()
}

fn bound(
    way: &mut Way<'_>,
    at: &Ref,
    depth: usize,
    claim: &Claim,
    consumer: Option<Consumer<'_>>,
) -> Step {
    way.at(depth, at, "bound");
    healthy(way, at, claim)?;
    let volume = Ref::new(Kind::Volume, "", &claim.spec.volume_name);
    volume::of_claim(way, &volume, depth + 1, claim, consumer)?;
    match consumer {
        Some(_) => Ok(()),
        None => used(way, at, depth, claim),
    }
}

/// Explains what a bound claim waits for: its own changes, and the pods that do not start with it.
pub(super) fn used(way: &mut Way<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    change::claim(way, at, depth, claim)?;
    let (pods, _) = schedule::users(way, at)?;
    for pod in pods.into_iter().filter(|pod| pod.is_live()) {
        let pod_at = pod::of(pod);
        let consumer = Consumer { pod, at: &pod_at };
        if pod.spec.node_name.is_empty() {
            schedule::unscheduled(way, consumer)?;
        } else if pod::started(pod).is_none() {
            way.at(
                depth,
                &pod_at,
                format!("on {}, has not started", pod.spec.node_name),
            );
            way.unfinished = true;
            let scheduled = pod.condition("PodScheduled");
            way.since = scheduled
                .and_then(|one| one.last_transition_time.0)
                .or(way.since);
            let volume = Ref::new(Kind::Volume, "", &claim.spec.volume_name);
            volume::of_claim(way, &volume, depth + 1, claim, Some(consumer))?;
        }
    }
    Ok(())
}

/// C88: the claim's own health conditions.
fn healthy(way: &mut Way<'_>, at: &Ref, claim: &Claim) -> Step {
    match &claim.status.health_status {
        Some(health) => pod::sick(way, at, health),
        None => Ok(()),
    }
}

/// Explains what the claim of a running pod still waits for.
pub(super) fn of_running(way: &mut Way<'_>, at: &Ref) -> Step {
    let Got::Found(claim) = way.get::<Claim>(&at.namespace, &at.name)? else {
        return Ok(());
    };
    way.at(1, at, listed(&[claim.status.phase.to_lowercase()]));
    healthy(way, at, claim)?;
    if claim.metadata.deletion_timestamp.0.is_none() {
        change::claim(way, at, 1, claim)?;
    }
    Ok(())
}
