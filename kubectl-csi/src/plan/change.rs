//! What does not grow, or does not change its attributes.

use super::controller::{Presence, Role};
use super::schedule::users;
use super::source::is_less;
use super::verdict::Finding;
use super::way::{Got, Step, Way};
use super::words::{code, has, listed};
use super::{controller, mount};
use crate::model::{AttributesClass, Claim, Class, Kind, Ref, Volume};

/// What a bound claim waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Size,
    Attributes,
}

pub(super) fn pending(claim: &Claim) -> Option<Pending> {
    let asked = &*claim.spec.resources.requests.storage;
    let status = &claim.status;
    if is_less(&status.capacity.storage, asked)
        || !status.allocated_resource_statuses.storage.is_empty()
    {
        return Some(Pending::Size);
    }
    let wanted = &*claim.spec.volume_attributes_class_name;
    let differs = !wanted.is_empty() && wanted != &*status.current_volume_attributes_class_name;
    (differs || status.modify_volume_status.is_some()).then_some(Pending::Attributes)
}

pub(super) fn claim(way: &mut Way<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    match pending(claim) {
        None => Ok(()),
        Some(Pending::Size) => size(way, at, depth, claim),
        Some(Pending::Attributes) => attributes(way, at, depth, claim),
    }
}

fn driver_of(way: &mut Way<'_>, claim: &Claim) -> Step<Option<String>> {
    let volume = way
        .get::<Volume>(Kind::Volume, "", &claim.spec.volume_name)?
        .found();
    Ok(volume.and_then(Volume::driver).map(str::to_owned))
}

fn size(way: &mut Way<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    let status = &*claim.status.allocated_resource_statuses.storage;
    let has_condition = |kind: &str| {
        claim
            .status
            .conditions
            .iter()
            .find(|one| one.kind == kind && one.status == "True")
    };
    let asked = &*claim.spec.resources.requests.storage;
    let now = &*claim.status.capacity.storage;
    way.unfinished = true;
    way.at(depth, at, format!("is to grow from {now} to {asked}"));
    let events = way.events(at)?;
    if has(status, &["infeasible"]) {
        let who = if status.starts_with("Node") {
            "on the node"
        } else {
            "in the storage"
        };
        let text =
            format!("The volume cannot become {asked}: the driver calls that impossible {who}.");
        let event = mount::newest(
            &events,
            &["VolumeResizeFailed", "FileSystemResizeFailed"],
            |_| true,
        );
        let finding =
            Finding::proved("C72", at, text).you(format!("ask for less, but more than {now}"));
        let finding = match event {
            Some(event) => finding.quoting(&event.message),
            None => finding,
        };
        return way.tell(finding);
    }
    if has_condition("FileSystemResizePending").is_some() || status.starts_with("Node") {
        let (pods, _) = users(way, at)?;
        let running = pods
            .iter()
            .find(|pod| !pod.is_over() && !pod.spec.node_name.is_empty());
        let Some(pod) = running else {
            let text = "The storage has grown. The file system on it grows when a pod mounts the volume, and no pod does.";
            return way.tell(
                Finding::proved("C70", at, text)
                    .waits()
                    .you("start a pod that uses the claim"),
            );
        };
        let text = format!(
            "The storage has grown. The file system on it grows on {}, where {} uses it; if that takes more than a minute, the driver grows file systems only when they are mounted.",
            pod.spec.node_name,
            super::pod::of(pod)
        );
        let finding = Finding::proved("C70", at, text).you("restart that pod");
        let event = mount::newest(
            &events,
            &["FileSystemResizeFailed", "VolumeResizeFailed"],
            |_| true,
        );
        let finding = match event {
            Some(event) => finding.quoting(&event.message),
            None => finding,
        };
        return way.tell(finding);
    }
    let Some(driver) = driver_of(way, claim)? else {
        return Ok(());
    };
    if let Some(event) = mount::newest(&events, &["VolumeResizeFailed"], |_| true) {
        let text = &*event.message;
        way.last_words = Some(text.to_owned());
        if code(text) == Some("FailedPrecondition") || has(text, &["in use", "in-use"]) {
            let (pods, _) = users(way, at)?;
            let names: Vec<_> = pods
                .iter()
                .filter(|pod| !pod.is_over())
                .map(|pod| super::pod::of(pod).to_string())
                .collect();
            let used = if names.is_empty() {
                "it is still attached".to_owned()
            } else {
                format!("{} uses it", listed(&names))
            };
            let words = format!("{driver} grows volumes only while nothing uses them, and {used}.");
            return way.tell(
                Finding::said("C73", at, text, words)
                    .you("end what uses the claim until it has grown"),
            );
        }
        if matches!(
            code(text),
            Some("InvalidArgument" | "OutOfRange" | "NotFound")
        ) {
            let words = format!("{driver} refuses {asked}.");
            return way.tell(
                Finding::said("C72", at, text, words)
                    .you(format!("ask for less, but more than {now}")),
            );
        }
    }
    let class = claim.class().unwrap_or_default().to_owned();
    let class = way.get::<Class>(Kind::Class, "", &class)?;
    if class
        .found()
        .is_some_and(|class| class.allow_volume_expansion != Some(true))
    {
        let text =
            "The class of the claim does not allow its volumes to grow (allowVolumeExpansion)."
                .to_owned();
        return way.tell(
            Finding::proved("C71", at, text)
                .admin("set allowVolumeExpansion: true in the class, if the driver can do it"),
        );
    }
    if controller::check(way, depth + 1, Role::Resizer, &driver)? == Presence::Nobody {
        let text = format!(
            "Nobody grows volumes of {driver}: its csi-resizer holds no lease and runs in no workload that could be seen."
        );
        return way.tell(Finding::proved("C71", at, text).admin(
            "run csi-resizer beside the driver's controller, if the driver can grow volumes",
        ));
    }
    Ok(())
}

/// C74.
fn attributes(way: &mut Way<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    let name = &*claim.spec.volume_attributes_class_name;
    way.unfinished = true;
    way.at(depth, at, format!("is to get the attributes of {name}"));
    let object = Ref::new(Kind::AttributesClass, "", name);
    let events = way.events(at)?;
    let event = mount::newest(&events, &["VolumeModifyFailed"], |_| true);
    let driver = driver_of(way, claim)?.unwrap_or_default();
    let back = match &*claim.status.current_volume_attributes_class_name {
        "" => "name another class".to_owned(),
        old => format!("go back to {old}, or name another class"),
    };
    let text = match way.get::<AttributesClass>(Kind::AttributesClass, "", name)? {
        Got::Missing if !name.is_empty() => {
            format!("The claim names {object}, which does not exist.")
        }
        Got::Found(class) if !driver.is_empty() && class.driver_name != *driver => {
            format!(
                "The claim names {object}, which is for driver {}, but its volume is of {driver}.",
                class.driver_name
            )
        }
        Got::Missing | Got::Found(_) | Got::Unseen => {
            let infeasible = claim
                .status
                .modify_volume_status
                .as_ref()
                .is_some_and(|one| one.status == "Infeasible");
            let words = format!("{driver} refuses the attributes of {name}.");
            if let Some(event) = event {
                return way.tell(Finding::said("C74", at, &event.message, words).you(back));
            }
            if infeasible {
                return way.tell(Finding::proved("C74", at, words).you(back));
            }
            if controller::check(way, depth + 1, Role::Resizer, &driver)? == Presence::Nobody {
                let text = format!(
                    "Nobody changes volumes of {driver}: its csi-resizer holds no lease and runs in no workload that could be seen."
                );
                return way.tell(
                    Finding::proved("C74", at, text)
                        .admin("run csi-resizer beside the driver's controller"),
                );
            }
            return Ok(());
        }
    };
    way.tell(
        Finding::proved("C74", at, text)
            .admin(format!("create {object} for driver {driver}"))
            .you(back),
    )
}
