//! A volume: gone, bound to another claim, released, or being attached to a node.

use super::attach;
use super::claim::of_claim as claim_of;
use super::delete;
use super::pod::Consumer;
use super::source::is_less;
use super::store::By;
use super::verdict::Finding;
use super::walk::{Lookup, Step, Walk};
use super::words::{LISTED, listed_of};
use crate::model::{Claim, Driver, Kind, Ref, Volume};

/// Explains a volume: as the subject, or behind its claim.
pub(super) fn volume(walk: &mut Walk<'_>, at: &Ref, depth: usize) -> Step {
    let Some(volume) = walk.subject::<Volume>(depth, at)? else {
        return Ok(());
    };
    let changed = volume.status.last_phase_transition_time.0;
    walk.since = changed.or(volume.metadata.creation_timestamp.0);
    if volume.metadata.is_leaving() {
        return delete::volume(walk, at, depth, volume);
    }
    let owner = volume.spec.claim_ref.as_ref();
    match &*volume.status.phase {
        "Released" | "Failed" => delete::released(walk, at, depth, volume),
        "Bound" => {
            let of = owner.map(claim_of).unwrap_or_default();
            walk.at(depth, at, format!("bound to {of}"));
            let Some(owner) = owner else { return Ok(()) };
            let claim = Ref::new(Kind::Claim, &owner.namespace, &owner.name);
            let found = walk.get::<Claim>(&claim.namespace, &claim.name)?.found();
            if volume.driver().is_some() {
                attach::of_volume(walk, at, depth + 1)?;
            }
            match found.filter(|found| found.metadata.uid == *owner.uid) {
                Some(found) => super::claim::used(walk, &claim, depth + 1, found),
                None => Ok(()),
            }
        }
        _ => {
            walk.at(depth, at, "is available");
            Ok(())
        }
    }
}

/// Explains the volume of a bound claim.
pub(super) fn of_claim(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    claim: &Claim,
    consumer: Option<Consumer<'_>>,
) -> Step {
    let volume = match walk.get::<Volume>("", &at.name)? {
        Lookup::Found(volume) => volume,
        Lookup::Unseen => {
            walk.at(depth, at, "may not be read");
            return match consumer {
                Some(consumer) => super::mount::events(walk, consumer, at, None),
                None => Ok(()),
            };
        }
        Lookup::Missing => {
            walk.at(depth, at, "does not exist");
            walk.unfinished = true;
            let object = Ref::new(Kind::Claim, &claim.metadata.namespace, &claim.metadata.name);
            let text = format!(
                "The claim is bound to the {at}, whose record was deleted. The data in the storage may still exist. Pods that run keep their mount; no new pod starts."
            );
            return walk.tell(Finding::proved("C23", &object, text).admin(format!("create PersistentVolume {} again with the storage's handle, reclaim policy Retain and this claim in claimRef", at.name)).you("or restore a backup into a new claim"));
        }
    };
    let driver = volume.driver().map(|driver| format!("of {driver}"));
    walk.at(
        depth,
        at,
        driver
            .clone()
            .unwrap_or_else(|| "not a matter of CSI".to_owned()),
    );
    let Some(consumer) = consumer else {
        return Ok(());
    };
    if volume.metadata.is_leaving() {
        walk.unfinished = true;
        let text = format!(
            "The {at} is being deleted, so it is not attached to another node, while {} wants it.",
            consumer.at
        );
        let finding = Finding::proved("C48", at, text).you("end the pod, let claim and volume go, and create both again; restore the data from a backup");
        return walk.tell(finding);
    }
    if driver.is_none() {
        return super::mount::events(walk, consumer, at, None);
    }
    attach::for_pod(walk, at, depth + 1, volume, consumer)
}

/// C22: an unbound claim that names its volume itself.
pub(super) fn named(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    let object = Ref::new(Kind::Volume, "", &claim.spec.volume_name);
    let volume = match walk.get::<Volume>("", &object.name)? {
        Lookup::Found(volume) => volume,
        Lookup::Unseen => return Ok(()),
        Lookup::Missing => {
            walk.at(depth, &object, "does not exist");
            let text = format!("The claim names the {object}, which does not exist.");
            return walk.tell(
                Finding::proved("C22", at, text)
                    .you("create the claim again without spec.volumeName, or with one that exists")
                    .admin("or create the volume under that name"),
            );
        }
    };
    let Some(owner) = &volume.spec.claim_ref else {
        walk.at(depth, &object, "is available");
        let Some(lacks) = lack(claim, volume) else {
            return Ok(());
        };
        let text = format!("The claim names the {object}, which does not fit: {lacks}.");
        return walk.tell(
            Finding::proved("C22", at, text)
                .you("change the claim: create it again")
                .admin("or change the volume"),
        );
    };
    walk.at(depth, &object, format!("belongs to {}", claim_of(owner)));
    let same = owner.namespace == *at.namespace && owner.name == *at.name;
    if !same {
        let text = format!(
            "The claim names the {object}, which belongs to the {}.",
            claim_of(owner)
        );
        return walk.tell(Finding::proved("C22", at, text).you("name another volume, or none"));
    }
    if owner.uid.is_empty() || owner.uid == *claim.metadata.uid {
        return Ok(());
    }
    let text = format!(
        "The claim names the {object}, whose claimRef has the UID of an earlier claim of the same name. Kubernetes therefore never binds it to this claim."
    );
    let finding = Finding::proved("C22", at, text)
        .admin("if the new claim may have the old data, take the old claim's UID out of the volume")
        .command(format!("kubectl patch pv {} --type=json -p '[{{\"op\":\"remove\",\"path\":\"/spec/claimRef/uid\"}}]'", object.name))
        .risk("whoever can create pods in that namespace can then read what the earlier claim held");
    walk.tell(finding)
}

/// The first requirement of the claim that the volume does not meet; `None` if it meets all that
/// are checked.
fn lack(claim: &Claim, volume: &Volume) -> Option<String> {
    let wanted = &*claim.spec.resources.requests.storage;
    let has = &*volume.spec.capacity.storage;
    if is_less(has, wanted) {
        return Some(format!("it has {has}, and the claim asks for {wanted}"));
    }
    let mode = { claim.spec.access_modes.iter() }
        .find(|mode| !volume.spec.access_modes.iter().any(|one| one == *mode));
    if let Some(mode) = mode {
        return Some(format!("it does not have the access mode {mode}"));
    }
    let kind = |mode: &str| {
        if mode.is_empty() {
            "Filesystem".to_owned()
        } else {
            mode.to_owned()
        }
    };
    let (has, wanted) = (
        kind(&volume.spec.volume_mode),
        kind(&claim.spec.volume_mode),
    );
    if has != wanted {
        return Some(format!(
            "its volume mode is {has}, and the claim asks for {wanted}"
        ));
    }
    let class = claim.class().unwrap_or_default();
    (volume.spec.storage_class_name != class).then(|| {
        format!(
            "its class is {:?}, and the claim's is {class:?}",
            &*volume.spec.storage_class_name
        )
    })
}

/// C7: no manually created PersistentVolume fits the claim.
pub(super) fn none_fits(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    let class = claim.class().unwrap_or_default();
    let own = walk.count::<Volume>(By::Class, class)?;
    let free = walk.count::<Volume>(By::Free, class)?.all;
    // If the largest volume of the same modes does not satisfy the claim, no other does.
    let largest = walk.largest::<Volume>(class)?;
    let fitting = { largest.items.iter() }.find(|volume| lack(claim, volume).is_none());
    if let Some(volume) = fitting.filter(|_| claim.spec.selector.is_none()) {
        // It will be bound within seconds.
        let volume = Ref::new(Kind::Volume, "", &volume.metadata.name);
        walk.at(depth, &volume, "fits");
        return Ok(());
    }
    let first = walk.first::<Volume>(By::Free, class, LISTED)?;
    let lacks = first.into_iter().map(|volume| {
        let lack = lack(claim, volume)
            .unwrap_or_else(|| "the claim's selector may not choose it".to_owned());
        format!("{}: {lack}", volume.metadata.name)
    });
    let lacks: Vec<_> = lacks.collect();
    let text = match (own.all, lacks.is_empty()) {
        (0, _) => format!(
            "The claim waits for a volume that somebody makes by hand, and there is none with class {class:?}."
        ),
        (all, true) => format!(
            "The claim waits for a volume that somebody makes by hand. {all} have its class, and none of them is free."
        ),
        (_, false) => format!(
            "The claim waits for a volume that somebody makes by hand, and none fits. {}.",
            listed_of(&lacks, free)
        ),
    };
    let finding = if own.whole {
        Finding::proved("C7", at, text)
    } else {
        Finding::guessed("C7", at, text)
    };
    walk.tell(finding.admin("create a PersistentVolume that fits, or change one that is free").you("or create the claim again so that it fits; without storageClassName it gets the default class"))
}

/// C7: the same for a class that does not exist, if manually created volumes name it.
pub(super) fn none_fits_unless(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    // Provisioned volumes had a class that existed once.
    let class = claim.class().unwrap_or_default();
    if walk.count::<Volume>(By::HandMade, class)?.all > 0 {
        return none_fits(walk, at, depth, claim);
    }
    Ok(())
}

/// C58: an inline volume, which names only its driver.
pub(super) fn inline(
    walk: &mut Walk<'_>,
    consumer: Consumer<'_>,
    name: &str,
    driver: &str,
) -> Step {
    let object = Ref::new(Kind::Driver, "", driver);
    let known = walk.get::<Driver>("", driver)?;
    let text = match known {
        Lookup::Missing => format!(
            "The pod's volume {name} is an inline volume of driver {driver}, and there is no CSIDriver of that name. Kubernetes allows inline volumes only if the CSIDriver does."
        ),
        Lookup::Found(known)
            if !known
                .spec
                .volume_lifecycle_modes
                .iter()
                .any(|mode| *mode == "Ephemeral") =>
        {
            format!(
                "The pod's volume {name} is one of driver {driver} without a claim, and the driver does not allow that (volumeLifecycleModes of its CSIDriver)."
            )
        }
        Lookup::Found(_) | Lookup::Unseen => {
            walk.at(1, &object, format!("serves volume {name}"));
            super::node::plugin(walk, 2, consumer.node(), driver)?;
            return super::mount::events(walk, consumer, &Ref::new(Kind::Volume, "", name), None);
        }
    };
    walk.at(1, &object, "does not allow it");
    walk.tell(
        Finding::proved("C58", &object, text)
            .you("use a claim, or a generic ephemeral volume (ephemeral.volumeClaimTemplate)")
            .admin("or install the driver, if it allows such volumes"),
    )
}
