//! Who works for a driver, found without knowing the driver: leases have known names, their holders are pods, and workloads run
//! known programs.

use sidecar::names::{self, LeaseOwner};

use super::verdict::Finding;
use super::way::{Got, Step, Way, Which};
use super::words::{clock, span};
use super::workload;
use crate::model::{Kind, Lease, Pod, Ref};

/// A lease is not late while its renewal may be on its way.
const SLACK: i64 = 5;

/// What a controller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Provisioner,
    Attacher,
    Resizer,
    Snapshotter,
    SnapshotController,
}

/// Those that stand beside a driver.
pub(super) const BESIDE: &[Role] = &[
    Role::Provisioner,
    Role::Attacher,
    Role::Resizer,
    Role::Snapshotter,
];

impl Role {
    pub(super) fn program(self) -> &'static str {
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

/// Whether somebody does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Somebody leads, or runs without an election.
    There,
    /// Nobody, and that is known.
    Nobody,
    /// Not known.
    Unknown,
}

/// The lease of a role that was renewed last, and whether all leases could be seen.
fn lease<'a>(way: &mut Way<'a>, role: Role, driver: &str) -> Step<(Option<&'a Lease>, bool)> {
    let which = Which::all().with("metadata.name", &role.lease(driver));
    let leases = way.list::<Lease>(Kind::Lease, &which)?;
    let elections = leases.items.into_iter().filter(|lease| !lease.is_journal());
    let newest = elections.max_by_key(|lease| lease.spec.renew_time);
    Ok((newest, leases.whole))
}

/// The pod that a holder's identity names: its host name, with something behind it in newer programs.
fn holder(lease: &Lease) -> &str {
    let identity = &*lease.spec.holder_identity;
    identity.split_once('_').map_or(identity, |(pod, _)| pod)
}

fn is_led(way: &Way<'_>, lease: &Lease) -> bool {
    let length = lease.spec.lease_duration_seconds.unwrap_or(15);
    !lease.spec.holder_identity.is_empty()
        && !way.is_older(lease.spec.renew_time.0, length.saturating_add(SLACK))
}

/// Who leads, for the words of a path.
pub(super) fn leader<'a>(way: &mut Way<'a>, role: Role, driver: &str) -> Step<Option<&'a str>> {
    let (lease, _) = lease(way, role, driver)?;
    let led = lease.filter(|lease| is_led(way, lease));
    Ok(led.map(holder))
}

/// Looks for who has a role, and tells why nobody does the work where that can be seen: C9, C10, C93, C95.
pub(super) fn check(way: &mut Way<'_>, depth: usize, role: Role, driver: &str) -> Step<Presence> {
    let (lease, whole) = lease(way, role, driver)?;
    let Some(lease) = lease else {
        return workload::unelected(way, depth, role, driver, whole);
    };
    if is_led(way, lease) {
        return Ok(Presence::There);
    }
    let at = Ref::new(Kind::Lease, &lease.metadata.namespace, &lease.metadata.name);
    let name = holder(lease);
    let since = lease.spec.renew_time.0;
    let ago = since.map(|since| span(way.ago(since)));
    let who = if name.is_empty() {
        "nobody".to_owned()
    } else {
        name.to_owned()
    };
    blocked(way, depth, role, driver)?;
    if name.is_empty() {
        way.at(depth, &at, format!("held by {who}"));
        let text = format!(
            "Nobody leads as {}: the last leader gave its lease back, and no other pod has taken it.",
            role.program()
        );
        let finding = Finding::proved("C10", &at, text)
            .admin(format!(
                "see why the pods in {} do not start, or why there are none",
                at.namespace
            ))
            .command(format!("kubectl -n {} get pods", at.namespace));
        way.tell(finding)?;
        return Ok(Presence::Unknown);
    }
    let pod = way.get::<Pod>(Kind::Pod, &at.namespace, name)?;
    if let Got::Found(pod) = pod
        && !pod.is_ready()
    {
        workload::broken(way, depth, role, pod)?;
    }
    let (renewed, led) = match &ago {
        Some(ago) => (
            format!("not renewed for {ago}"),
            format!("Nobody has led as {} for {ago}", role.program()),
        ),
        None => (
            "never renewed".to_owned(),
            format!("Nobody leads as {}", role.program()),
        ),
    };
    way.at(depth, &at, format!("held by {who}, {renewed}"));
    let length = lease.spec.lease_duration_seconds.unwrap_or(15);
    let free = since.and_then(|since| {
        since
            .checked_add(jiff::SignedDuration::from_secs(length))
            .ok()
    });
    let long = way.is_older(free, 60);
    let gone = match pod {
        Got::Missing => format!("pod {name}, which led, is gone without giving the lease back"),
        Got::Found(_) => format!("pod {name} runs but has not renewed its lease"),
        Got::Unseen => format!("{name}, which led, has not renewed its lease"),
    };
    let then = match (long, free) {
        (true, _) | (_, None) => {
            "Any other replica could have taken it since then, so none is running.".to_owned()
        }
        (false, Some(free)) => format!("Another replica may take it at {}.", clock(free)),
    };
    let text = format!("{led}: {gone}. {then}");
    let finding = match pod {
        // Such a pod may lead without being able to say so.
        Got::Found(pod) if pod.is_ready() => Finding::guessed("C10", &at, text),
        Got::Found(_) | Got::Missing | Got::Unseen => Finding::proved("C10", &at, text),
    };
    let finding = if long {
        finding
            .admin(format!(
                "see why no pod in {} takes over; the log of the one that runs names it",
                at.namespace
            ))
            .command(format!("kubectl -n {} get pods", at.namespace))
    } else {
        finding.waits().you("nothing until then")
    };
    way.tell(finding)?;
    // Why is told: what follows from it is no cause of its own.
    Ok(Presence::Unknown)
}

/// C95: all controllers of one process wait for the lease that an old single sidecar still holds.
fn blocked(way: &mut Way<'_>, depth: usize, role: Role, driver: &str) -> Step {
    if !role.is_of_driver() {
        return Ok(());
    }
    for other in BESIDE.iter().filter(|other| **other != role) {
        let (lease, _) = lease(way, *other, driver)?;
        let Some(lease) = lease.filter(|lease| is_led(way, lease)) else {
            continue;
        };
        if lease.spec.holder_identity.ends_with("_together") {
            continue;
        }
        let namespace = &lease.metadata.namespace;
        let pods = way.list::<Pod>(Kind::Pod, &Which::of(namespace))?;
        let together = pods.items.iter().find(|pod| {
            let mut containers = pod.spec.containers.iter();
            pod.metadata.name != holder(lease)
                && containers.any(|one| workload::runs(one, "csi-sidecars"))
        });
        let Some(together) = together else { continue };
        let at = Ref::new(Kind::Lease, namespace, &lease.metadata.name);
        way.at(depth, &at, format!("held by {}", holder(lease)));
        let text = format!(
            "Pod {} runs all controllers of {driver} in one process, and starts none of them before it has the lease {}, which pod {} still holds.",
            together.metadata.name,
            at.name,
            holder(lease)
        );
        let finding = Finding::proved("C95", &at, text).admin(format!(
            "end pod {}, and what makes it, if {} is to take its place",
            holder(lease),
            together.metadata.name
        ));
        way.tell(finding)?;
    }
    Ok(())
}
