//! Finds the sidecars of any driver: leases have known names, their holders are pods, and workloads run known programs.

use sidecar::names::{self, LeaseOwner};

use super::store::By;
use super::verdict::Finding;
use super::walk::{Lookup, ObjectSelector, Step, Walk};
use super::words::{clock, span};
use super::workload;
use crate::model::{CsiNode, Driver, Kind, Lease, Pod, Ref};

/// Seconds after the end of a lease's duration during which a renewal may still be on its way.
const SLACK: i64 = 5;

/// The sidecar's or controller's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Provisioner,
    Attacher,
    Resizer,
    Snapshotter,
    SnapshotController,
}

/// The roles of sidecars, which run beside a driver.
pub(super) const BESIDE: &[Role] = &[
    Role::Provisioner,
    Role::Attacher,
    Role::Resizer,
    Role::Snapshotter,
];

/// The program that runs all controllers in one process.
pub(super) const TOGETHER: &str = "csi-sidecars";

/// The programs that workloads are searched for.
pub(super) const PROGRAMS: &[&str] = &[
    Role::Provisioner.program(),
    Role::Attacher.program(),
    Role::Resizer.program(),
    Role::Snapshotter.program(),
    Role::SnapshotController.program(),
    TOGETHER,
];

impl Role {
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Provisioner => "csi-provisioner",
            Self::Attacher => "csi-attacher",
            Self::Resizer => "csi-resizer",
            Self::Snapshotter => "csi-snapshotter",
            Self::SnapshotController => "snapshot-controller",
        }
    }

    pub(super) fn lease(self, driver: &str) -> String {
        let owner = match self {
            Self::Provisioner => LeaseOwner::Provisioner,
            Self::Attacher => LeaseOwner::Attacher,
            Self::Resizer => LeaseOwner::Resizer,
            Self::Snapshotter => LeaseOwner::Snapshotter,
            Self::SnapshotController => LeaseOwner::SnapshotController,
        };
        names::lease(owner, driver)
    }

    pub(super) fn is_of_driver(self) -> bool {
        self != Self::SnapshotController
    }
}

/// Whether a role is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// A process leads, or runs without leader election.
    Present,
    /// All leases and workloads could be read, and none of them has the role.
    Absent,
    /// It could not be determined, or the cause is already reported.
    Unknown,
}

/// The most recently renewed lease of a role, and whether all leases could be read.
fn lease<'a>(walk: &mut Walk<'a>, role: Role, driver: &str) -> Step<(Option<&'a Lease>, bool)> {
    let selector = ObjectSelector::all().with("metadata.name", &role.lease(driver));
    let leases = walk.by::<Lease>(&selector, By::Name, &role.lease(driver))?;
    let elections = leases.items.into_iter().filter(|lease| !lease.is_journal());
    let newest = elections.max_by_key(|lease| lease.spec.renew_time);
    Ok((newest, leases.whole))
}

/// The pod in a holder's identity: its host name; newer programs add a suffix.
pub(super) fn holder(lease: &Lease) -> &str {
    let identity = &*lease.spec.holder_identity;
    identity.split_once('_').map_or(identity, |(pod, _)| pod)
}

fn is_led(walk: &Walk<'_>, lease: &Lease) -> bool {
    let length = lease.spec.lease_duration_seconds.unwrap_or(15);
    !lease.spec.holder_identity.is_empty()
        && !walk.is_older(lease.spec.renew_time.0, length.saturating_add(SLACK))
}

/// The leader's pod, for the path.
pub(super) fn leader<'a>(walk: &mut Walk<'a>, role: Role, driver: &str) -> Step<Option<&'a str>> {
    let (lease, _) = lease(walk, role, driver)?;
    let led = lease.filter(|lease| is_led(walk, lease));
    Ok(led.map(holder))
}

/// The finding that no process has a role for a driver, as far as the program can see; `does` names the missing work.
/// Some controllers, as in managed clusters, run outside the cluster without a lease in it: as long as the driver is in
/// the cluster nothing proves that they do not run.
pub(super) fn nobody(
    walk: &mut Walk<'_>,
    id: &'static str,
    at: &Ref,
    (role, driver): (Role, &str),
    does: &str,
) -> Step<Finding> {
    let gone = role.is_of_driver() && is_gone(walk, driver)?;
    let program = role.program();
    let text = match (gone, role.is_of_driver()) {
        (true, _) => format!(
            "Nobody {does} for driver {driver}: it is not in this cluster. It has no CSIDriver and no lease, and is registered on no node."
        ),
        (false, true) => format!(
            "Nobody {does} for driver {driver}: its {program} holds no lease and runs in no workload that could be seen. If it runs outside of the cluster, as in some managed ones, its log is there."
        ),
        (false, false) => format!(
            "Nobody {does}, and no event reports it: no {program} holds a lease or runs in a workload that could be seen. If it runs outside of the cluster, as in some managed clusters, look at its log there."
        ),
    };
    Ok(Finding::proved_if(gone, id, at, text))
}

/// Whether a driver has no CSIDriver object and is registered on no node.
pub(super) fn is_gone(walk: &mut Walk<'_>, driver: &str) -> Step<bool> {
    let known = walk.get::<Driver>("", driver)?;
    let nodes = walk.count::<CsiNode>(By::Driver, driver)?;
    Ok(known.is_missing() && nodes.whole && nodes.all == 0)
}

/// Finds out whether a role is taken, and reports the visible cause if not: C9, C10, C93, C95.
pub(super) fn check(walk: &mut Walk<'_>, depth: usize, role: Role, driver: &str) -> Step<Presence> {
    let (lease, whole) = lease(walk, role, driver)?;
    let Some(lease) = lease else {
        return workload::unelected(walk, depth, role, driver, whole);
    };
    if is_led(walk, lease) {
        return Ok(Presence::Present);
    }
    blocked(walk, depth, role, driver)?;
    let at = Ref::new(Kind::Lease, &lease.metadata.namespace, &lease.metadata.name);
    match holder(lease) {
        "" => given_back(walk, depth, role, &at)?,
        name => late(walk, depth, role, &at, lease, name)?,
    }
    // The cause is reported; its consequences are no causes of their own.
    Ok(Presence::Unknown)
}

fn pods_in(namespace: &str) -> String {
    format!("kubectl -n {namespace} get pods")
}

/// C10: the last leader released its lease.
fn given_back(walk: &mut Walk<'_>, depth: usize, role: Role, at: &Ref) -> Step {
    walk.at(depth, at, "held by nobody");
    let (program, namespace) = (role.program(), &at.namespace);
    let text = format!(
        "Nobody leads as {program}: the last leader gave its lease back, and no other pod has taken it."
    );
    let finding = Finding::proved("C10", at, text)
        .admin(format!(
            "see why the pods in {namespace} do not start, or why there are none"
        ))
        .command(pods_in(namespace));
    walk.tell(finding)
}

/// C9, C10: the leader has not renewed its lease.
fn late(
    walk: &mut Walk<'_>,
    depth: usize,
    role: Role,
    at: &Ref,
    lease: &Lease,
    name: &str,
) -> Step {
    let pod = walk.get::<Pod>(&at.namespace, name)?;
    if let Lookup::Found(pod) = pod
        && !pod.is_ready()
    {
        workload::broken(walk, depth, role, pod)?;
    }
    let (program, since) = (role.program(), lease.spec.renew_time.0);
    let (renewed, led) = match since.map(|since| span(walk.ago(since))) {
        Some(ago) => (
            format!("not renewed for {ago}"),
            format!("Nobody has led as {program} for {ago}"),
        ),
        None => (
            "never renewed".to_owned(),
            format!("Nobody leads as {program}"),
        ),
    };
    walk.at(depth, at, format!("held by {name}, {renewed}"));
    let length = jiff::SignedDuration::from_secs(lease.spec.lease_duration_seconds.unwrap_or(15));
    let free = since.and_then(|since| since.checked_add(length).ok());
    let long = walk.is_older(free, 60);
    let gone = match pod {
        Lookup::Missing => format!("pod {name}, which led, is gone without giving the lease back"),
        Lookup::Found(_) => format!("pod {name} runs but has not renewed its lease"),
        Lookup::Unseen => format!("{name}, which led, has not renewed its lease"),
    };
    let then = match free.filter(|_| !long) {
        Some(free) => format!("Another replica may take it at {}.", clock(free)),
        None => "Any other replica could have taken it since then, and none has.".to_owned(),
    };
    // A ready pod may lead and be unable to renew its lease.
    let may_lead = pod.found().is_some_and(Pod::is_ready);
    let text = format!("{led}: {gone}. {then}");
    let finding = Finding::proved_if(!may_lead, "C10", at, text);
    let finding = match long {
        true => finding
            .admin(format!(
                "see why no pod in {} takes over; the log of the one that runs names it",
                at.namespace
            ))
            .command(pods_in(&at.namespace)),
        false => finding.waits().you("nothing until then"),
    };
    walk.tell(finding)
}

/// C95: a process of all controllers waits for the lease that an old single sidecar still holds.
fn blocked(walk: &mut Walk<'_>, depth: usize, role: Role, driver: &str) -> Step {
    if !role.is_of_driver() {
        return Ok(());
    }
    for other in BESIDE.iter().filter(|other| **other != role) {
        let (lease, _) = lease(walk, *other, driver)?;
        let Some(lease) = lease.filter(|lease| is_led(walk, lease)) else {
            continue;
        };
        if lease.spec.holder_identity.ends_with("_together") {
            continue;
        }
        let namespace = &lease.metadata.namespace;
        let pods = walk.by::<Pod>(&ObjectSelector::of(namespace), By::Program, TOGETHER)?;
        let mut pods = pods.items.iter();
        let together = pods.find(|pod| pod.metadata.name != holder(lease));
        let Some(together) = together else { continue };
        let at = Ref::new(Kind::Lease, namespace, &lease.metadata.name);
        walk.at(depth, &at, format!("held by {}", holder(lease)));
        let text = format!(
            "Pod {} runs all controllers of {driver} in one process, and starts none of them before it has the lease {}, which pod {} still holds.",
            together.metadata.name,
            at.name,
            holder(lease)
        );
        let finding = Finding::proved("C95", &at, text).admin(format!(
            "delete pod {} and the workload that creates it, if pod {} is to replace it",
            holder(lease),
            together.metadata.name
        ));
        walk.tell(finding)?;
    }
    Ok(())
}
