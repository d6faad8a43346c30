//! Claims whose expansion or attribute change does not finish.

use super::controller::{Presence, Role};
use super::schedule::users;
use super::source::is_less;
use super::verdict::Finding;
use super::walk::{Lookup, Step, Walk};
use super::words::{code, has, listed};
use super::{controller, mount};
use crate::model::{AttributesClass, Claim, Class, Event, Kind, Ref, Volume};

/// The change that a bound claim waits for.
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

pub(super) fn claim(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    match pending(claim) {
        None => Ok(()),
        Some(Pending::Size) => size(walk, at, depth, claim),
        Some(Pending::Attributes) => attributes(walk, at, depth, claim),
    }
}

fn driver_of(walk: &mut Walk<'_>, claim: &Claim) -> Step<Option<String>> {
    let volume = walk.get::<Volume>("", &claim.spec.volume_name)?.found();
    Ok(volume.and_then(Volume::driver).map(str::to_owned))
}

/// An expansion that does not finish; the first rule that matches explains it.
struct Growth<'a> {
    at: &'a Ref,
    depth: usize,
    claim: &'a Claim,
    events: Vec<&'a Event>,
    /// `allocatedResourceStatuses`
    status: &'a str,
    asked: &'a str,
    now: &'a str,
}

impl Growth<'_> {
    fn failed(&self) -> Option<&str> {
        let reasons = ["VolumeResizeFailed", "FileSystemResizeFailed"];
        mount::newest(&self.events, &reasons, |_| true).map(|event| &*event.message)
    }

    fn ask_for_less(&self, finding: Finding) -> Finding {
        finding.you(format!("ask for less, but more than {}", self.now))
    }
}

fn size(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    let growth = Growth {
        at,
        depth,
        claim,
        events: walk.events(at)?,
        status: &claim.status.allocated_resource_statuses.storage,
        asked: &claim.spec.resources.requests.storage,
        now: &claim.status.capacity.storage,
    };
    walk.unfinished = true;
    walk.at(
        depth,
        at,
        format!("is to grow from {} to {}", growth.now, growth.asked),
    );
    let pending = "FileSystemResizePending";
    let mut conditions = claim.status.conditions.iter();
    if has(growth.status, &["infeasible"]) {
        return infeasible(walk, &growth);
    }
    if growth.status.starts_with("Node")
        || conditions.any(|one| one.kind == pending && one.status == "True")
    {
        return on_node(walk, &growth);
    }
    let Some(driver) = driver_of(walk, claim)? else {
        return Ok(());
    };
    refused(walk, &growth, &driver)?;
    nobody(walk, &growth, &driver)
}

/// C72: the claim's status calls the expansion infeasible.
fn infeasible(walk: &mut Walk<'_>, growth: &Growth<'_>) -> Step {
    let place = match growth.status.starts_with("Node") {
        true => "on the node",
        false => "in the storage",
    };
    let asked = growth.asked;
    let text =
        format!("The volume cannot become {asked}: the driver calls that impossible {place}.");
    let finding = Finding::proved("C72", growth.at, text).quoting(growth.failed());
    walk.tell(growth.ask_for_less(finding))
}

/// C70: the storage has grown, and the expansion on the node is pending.
fn on_node(walk: &mut Walk<'_>, growth: &Growth<'_>) -> Step {
    let (pods, _) = users(walk, growth.at)?;
    let mut running =
        { pods.iter() }.filter(|pod| !pod.is_over() && !pod.spec.node_name.is_empty());
    let Some(pod) = running.next() else {
        let text = "The storage has grown. The file system on it grows when a pod mounts the volume, and no pod does.";
        return walk.tell(
            Finding::proved("C70", growth.at, text)
                .waits()
                .you("start a pod that uses the claim"),
        );
    };
    let text = format!(
        "The storage has grown. The file system on it grows on {}, where {} uses it; if that takes more than a minute, the driver grows file systems only when they are mounted.",
        pod.spec.node_name,
        super::pod::of(pod)
    );
    let finding = Finding::proved("C70", growth.at, text)
        .you("restart that pod")
        .quoting(growth.failed());
    walk.tell(finding)
}

/// C72, C73: csi-resizer has reported the driver's error.
fn refused(walk: &mut Walk<'_>, growth: &Growth<'_>, driver: &str) -> Step {
    let Some(text) = growth.failed() else {
        return Ok(());
    };
    walk.last_words = Some(text.to_owned());
    if code(text) == Some("FailedPrecondition") || has(text, &["in use", "in-use"]) {
        let (pods, _) = users(walk, growth.at)?;
        let names: Vec<_> = pods
            .iter()
            .filter(|pod| !pod.is_over())
            .map(|pod| super::pod::of(pod).to_string())
            .collect();
        let used = match names.is_empty() {
            true => "it is still attached".to_owned(),
            false => format!("{} uses it", listed(&names)),
        };
        let words = format!("{driver} grows volumes only while nothing uses them, and {used}.");
        return walk.tell(
            Finding::said("C73", growth.at, text, words)
                .you("end what uses the claim until it has grown"),
        );
    }
    if !matches!(
        code(text),
        Some("InvalidArgument" | "OutOfRange" | "NotFound")
    ) {
        return Ok(());
    }
    let words = format!("{driver} refuses {}.", growth.asked);
    walk.tell(growth.ask_for_less(Finding::said("C72", growth.at, text, words)))
}

/// C71: no csi-resizer was found for the driver, or the class forbids expansion.
fn nobody(walk: &mut Walk<'_>, growth: &Growth<'_>, driver: &str) -> Step {
    let class = growth.claim.class().unwrap_or_default();
    let class = walk.get::<Class>("", class)?.found();
    if class.is_some_and(|class| class.allow_volume_expansion != Some(true)) {
        let text =
            "The class of the claim does not allow its volumes to grow (allowVolumeExpansion).";
        return walk.tell(
            Finding::proved("C71", growth.at, text)
                .admin("set allowVolumeExpansion: true in the class, if the driver can do it"),
        );
    }
    let role = (Role::Resizer, driver);
    if controller::check(walk, growth.depth + 1, role.0, driver)? == Presence::Absent {
        let finding = controller::nobody(walk, "C71", growth.at, role, "grows volumes")?;
        return walk.tell(finding.admin(
            "run csi-resizer beside the driver's controller, if the driver can grow volumes",
        ));
    }
    Ok(())
}

/// C74: the attribute change does not finish.
fn attributes(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    let name = &*claim.spec.volume_attributes_class_name;
    walk.unfinished = true;
    walk.at(depth, at, format!("is to get the attributes of {name}"));
    let object = Ref::new(Kind::AttributesClass, "", name);
    let events = walk.events(at)?;
    let event = mount::newest(&events, &["VolumeModifyFailed"], |_| true);
    let driver = driver_of(walk, claim)?.unwrap_or_default();
    let back = match &*claim.status.current_volume_attributes_class_name {
        "" => "name another class".to_owned(),
        old => format!("go back to {old}, or name another class"),
    };
    let text = match walk.get::<AttributesClass>("", name)? {
        Lookup::Missing if !name.is_empty() => {
            format!("The claim names {object}, which does not exist.")
        }
        Lookup::Found(class) if !driver.is_empty() && class.driver_name != *driver => {
            format!(
                "The claim names {object}, which is for driver {}, but its volume is of {driver}.",
                class.driver_name
            )
        }
        Lookup::Missing | Lookup::Found(_) | Lookup::Unseen => {
            let infeasible = claim
                .status
                .modify_volume_status
                .as_ref()
                .is_some_and(|one| one.status == "Infeasible");
            let words = format!("{driver} refuses the attributes of {name}.");
            if let Some(event) = event {
                return walk.tell(Finding::said("C74", at, &event.message, words).you(back));
            }
            if infeasible {
                return walk.tell(Finding::proved("C74", at, words).you(back));
            }
            if controller::check(walk, depth + 1, Role::Resizer, &driver)? == Presence::Absent {
                let role = (Role::Resizer, &*driver);
                let finding = controller::nobody(walk, "C74", at, role, "changes volumes")?;
                return walk.tell(finding.admin("run csi-resizer beside the driver's controller"));
            }
            return Ok(());
        }
    };
    walk.tell(
        Finding::proved("C74", at, text)
            .admin(format!("create {object} for driver {driver}"))
            .you(back),
    )
}
