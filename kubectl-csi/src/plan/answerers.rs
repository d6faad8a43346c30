//! Selects the pods to ask: those that lead the controllers of the drivers on the path.
//!
//! Whoever may create a pod can give it the annotation, and answer anything. So a pod is asked only if a Lease of the
//! driver's elections names it in the Lease's namespace. Where such a holder is gone, or the driver has no Lease at all,
//! a pod that names the driver is asked, in the Lease's namespace or in that of the driver's DaemonSet. Where no pod
//! holds snapshot-controller's Lease, one that runs snapshot-controller is asked, beside the oldest workloads that do.

use std::collections::BTreeSet;

use jiff::Timestamp;
use migration::TRANSLATOR;
use sidecar::names::{self, LeaseOwner};

use super::controller::{Role, holder};
use super::lookup::one;
use super::node::is_plugin;
use super::seen::{Record as _, Seen, Want};
use super::store::By;
use super::walk::{Lookup, ObjectSelector, Step, Walk, many};
use super::words::listed;
use super::workload::{names_driver, namespaces, runs};
use crate::model::{
    Attachment, Claim, Class, Content, DaemonSet, GroupContent, Kind, Lease, Pod, Ref, Volume,
};

/// Annotation of pods whose controllers answer: the ports, separated by commas.
const ANNOTATION: &str = "csi-sidecars.io/why";
/// Ports of one pod that are asked.
const PORTS: usize = 8;
/// Ports of all pods that are asked.
const ASKED: usize = 16;
/// Leases of one name, each in a namespace of its own, whose holders are looked up.
const LEASES: usize = 8;
/// Namespaces in which snapshot-controller is looked for without a Lease.
const NAMESPACES: usize = 8;

/// Controllers that run beside a driver, each with its election.
const OWNERS: &[LeaseOwner] = &[
    LeaseOwner::Provisioner,
    LeaseOwner::Attacher,
    LeaseOwner::Resizer,
    LeaseOwner::Snapshotter,
    LeaseOwner::HealthMonitor,
];

/// A port of a pod at which a controller answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answerer {
    pub namespace: String,
    pub pod: String,
    pub port: u16,
}

impl Answerer {
    /// `namespace/name` of the pod.
    #[must_use]
    pub fn pod_path(&self) -> String {
        format!("{}/{}", self.namespace, self.pod)
    }
}

/// The ports to ask, and what is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answerers {
    pub ports: Vec<Answerer>,
    /// The requests that failed, the pods that are not asked, and why.
    pub unseen: BTreeSet<(String, String)>,
}

/// The controllers of one driver; snapshot-controller serves all drivers.
struct Controllers {
    /// `None` for snapshot-controller.
    driver: Option<String>,
    leases: Vec<String>,
}

impl Controllers {
    fn of(driver: &str) -> Self {
        let leases = OWNERS.iter().map(|owner| names::lease(*owner, driver));
        Self {
            driver: Some(driver.to_owned()),
            leases: leases.collect(),
        }
    }

    fn of_snapshots() -> Self {
        Self {
            driver: None,
            leases: vec![Role::SnapshotController.lease("")],
        }
    }

    /// Whether the pod's specification shows that it runs one of these controllers.
    fn are_in(&self, pod: &Pod) -> bool {
        match &self.driver {
            Some(driver) => names_driver(&pod.spec, driver),
            None => {
                let program = Role::SnapshotController.program();
                { pod.spec.containers.iter() }.any(|container| runs(container, program))
            }
        }
    }
}

fn of_volume(volume: &Volume) -> Option<String> {
    let translated = || volume.in_words_of_csi().map(|(driver, _)| driver);
    volume.driver().or_else(translated).map(str::to_owned)
}

fn of_claim(seen: &Seen, claim: &Claim) -> Option<String> {
    let volume = Volume::store(seen).get("", &claim.spec.volume_name);
    volume.and_then(of_volume).or_else(|| {
        let class = Class::store(seen).get("", claim.class()?)?;
        let provisioner = &*class.provisioner;
        let translated = TRANSLATOR.driver_of_plugin(provisioner);
        Some(translated.map_or_else(|_| provisioner.to_owned(), |driver| driver.to_owned()))
    })
}

/// The driver of an object that has been read.
fn driver(seen: &Seen, of: &Ref) -> Option<String> {
    let (namespace, name) = (&*of.namespace, &*of.name);
    let is = |kind: Kind| of.kind == kind;
    let driver = if is(Kind::Claim) {
        of_claim(seen, Claim::store(seen).get(namespace, name)?)?
    } else if is(Kind::Volume) {
        of_volume(Volume::store(seen).get("", name)?)?
    } else if is(Kind::Attachment) {
        { Attachment::store(seen).get("", name)? }
            .spec
            .attacher
            .to_string()
    } else if is(Kind::Content) {
        { Content::store(seen).get("", name)? }
            .spec
            .driver
            .to_string()
    } else if is(Kind::GroupContent) {
        { GroupContent::store(seen).get("", name)? }
            .spec
            .driver
            .to_string()
    } else {
        String::new()
    };
    Some(driver).filter(|driver| !driver.is_empty())
}

/// Kinds that snapshot-controller works on.
const OF_SNAPSHOTS: &[Kind] = &[
    Kind::Snapshot,
    Kind::Content,
    Kind::GroupSnapshot,
    Kind::GroupContent,
];

/// Whether snapshot-controller may have work for an object: it also protects claims that snapshots are taken of.
fn is_of_snapshots(seen: &Seen, of: &Ref) -> bool {
    let claim = Claim::store(seen).get(&of.namespace, &of.name);
    let claim = claim.filter(|_| of.kind == Kind::Claim);
    let mut finalizers = claim.iter().flat_map(|claim| &claim.metadata.finalizers);
    OF_SNAPSHOTS.contains(&of.kind)
        || finalizers.any(|name| name.starts_with("snapshot.storage.kubernetes.io/"))
}

/// The controllers that may have work for these objects.
fn controllers(seen: &Seen, objects: &[Ref]) -> Vec<Controllers> {
    let drivers: BTreeSet<_> = { objects.iter() }
        .filter_map(|object| driver(seen, object))
        .collect();
    let snapshots = objects.iter().any(|object| is_of_snapshots(seen, object));
    let own = drivers.iter().map(|driver| Controllers::of(driver));
    own.chain(snapshots.then(Controllers::of_snapshots))
        .collect()
}

fn of_name(name: &str) -> ObjectSelector {
    ObjectSelector::all().with("metadata.name", name)
}

/// The elections with this name, the oldest first: the API server sets creation times, and everybody can write any time
/// of renewal into a Lease of his own.
fn elections<'a>(walk: &mut Walk<'a>, name: &str, found: &mut Answerers) -> Step<Vec<&'a Lease>> {
    let mut leases = walk.by::<Lease>(&of_name(name), By::Name, name)?.items;
    leases.retain(|lease| !lease.is_journal());
    leases.sort_by_key(|lease| lease.metadata.creation_timestamp.0);
    if leases.len() > LEASES {
        let more = leases.len() - LEASES;
        found.unseen.insert((
            format!("holders of {more} more leases {name}"),
            format!("{LEASES} of one name are looked at"),
        ));
    }
    leases.truncate(LEASES);
    Ok(leases)
}

/// Namespaces in which a successor is looked for, in this order, with the identities that its predecessors had there.
#[derive(Default)]
struct Places<'a>(Vec<(&'a str, BTreeSet<&'a str>)>);

impl<'a> Places<'a> {
    fn add(&mut self, namespace: &'a str, identity: Option<&'a str>) {
        let mut places = self.0.iter_mut();
        match places.find(|(known, _)| *known == namespace) {
            Some((_, identities)) => identities.extend(identity),
            None => self.0.push((namespace, identity.into_iter().collect())),
        }
    }
}

/// The live pods that hold the elections of these controllers; `places` gets the namespaces of the other elections.
fn holders<'a>(
    walk: &mut Walk<'a>,
    of: &Controllers,
    places: &mut Places<'a>,
    found: &mut Answerers,
) -> Step<Vec<&'a Pod>> {
    let mut pods = Vec::new();
    let mut elected = false;
    for name in &of.leases {
        let leases = elections(walk, name, found)?;
        elected |= !leases.is_empty();
        for lease in leases {
            let (namespace, holder) = (&*lease.metadata.namespace, holder(lease));
            let pod = match holder {
                "" => Lookup::Missing,
                holder => walk.get::<Pod>(namespace, holder)?,
            };
            match pod {
                Lookup::Found(pod) if pod.is_live() => pods.push(pod),
                Lookup::Found(_) | Lookup::Missing => places.add(namespace, Some(holder)),
                Lookup::Unseen => {}
            }
        }
    }
    match &of.driver {
        Some(driver) if !elected => {
            let sets = walk.all::<DaemonSet>()?.items;
            let own = { sets.iter() }.filter(|set| is_plugin(&set.0.spec.template.spec, driver));
            for set in own {
                places.add(&set.0.metadata.namespace, None);
            }
        }
        None if pods.is_empty() => beside_workloads(walk, places, found)?,
        Some(_) | None => {}
    }
    Ok(pods)
}

/// Adds the namespaces in which workloads run snapshot-controller, which may run without leader election.
fn beside_workloads<'a>(
    walk: &mut Walk<'a>,
    places: &mut Places<'a>,
    found: &mut Answerers,
) -> Step {
    let program = Role::SnapshotController.program();
    let namespaces = namespaces(walk, program)?;
    if namespaces.len() > NAMESPACES {
        let more = namespaces.len() - NAMESPACES;
        found.unseen.insert((
            format!("pods of {program} in {more} more namespaces"),
            format!("{NAMESPACES} namespaces with one are looked at"),
        ));
    }
    for namespace in namespaces.into_iter().take(NAMESPACES) {
        places.add(namespace, None);
    }
    Ok(())
}

/// Pods that run these controllers in places where no pod holds the election: processes that wait for their driver, and
/// those without leader election. A pod on the host's network has the node's name as its identity.
fn successors<'a>(walk: &mut Walk<'a>, of: &Controllers, places: Places<'a>) -> Step<Vec<&'a Pod>> {
    let mut pods = Vec::new();
    for (namespace, identities) in places.0 {
        let listed = walk.list::<Pod>(&ObjectSelector::of(namespace))?.items;
        pods.extend(listed.into_iter().filter(|pod| {
            let own = [&*pod.metadata.name, &*pod.spec.node_name].map(names::identity);
            let held = own
                .iter()
                .any(|own| identities.contains(&**own) && !own.is_empty());
            pod.is_live() && (held || of.are_in(pod))
        }));
    }
    Ok(pods)
}

/// The ports in a pod's annotation.
fn ports(pod: &Pod) -> impl Iterator<Item = u16> {
    let ports = pod.metadata.annotations.get(ANNOTATION).unwrap_or_default();
    let ports = { ports.split(',') }.filter_map(|port| port.trim().parse().ok());
    ports.filter(|port| *port != 0)
}

impl Answerers {
    fn add(&mut self, pods: Vec<&Pod>) {
        let mut known = BTreeSet::new();
        let mut cut = BTreeSet::new();
        for pod in pods {
            let (namespace, name) = (&*pod.metadata.namespace, &*pod.metadata.name);
            if !known.insert((namespace, name)) {
                continue;
            }
            for (index, port) in ports(pod).enumerate() {
                if index >= PORTS || self.ports.len() >= ASKED {
                    cut.insert(format!("{namespace}/{name}"));
                    break;
                }
                self.ports.push(Answerer {
                    namespace: namespace.to_owned(),
                    pod: name.to_owned(),
                    port,
                });
            }
        }
        if !cut.is_empty() {
            let cut: Vec<_> = cut.into_iter().collect();
            self.unseen.insert((
                format!("all answers of {}", listed(&cut)),
                format!("{PORTS} ports of a pod are asked, and {ASKED} of all"),
            ));
        }
    }
}

fn found(walk: &mut Walk<'_>, of: &[Controllers]) -> Step<Answerers> {
    let mut found = Answerers::default();
    // One round reads all Leases, the next one all holders.
    let leases = of.iter().flat_map(|of| &of.leases);
    walk.expect(leases.map(|name| many(Kind::Lease, &of_name(name))))?;
    let mut wants = Vec::new();
    for name in of.iter().flat_map(|of| &of.leases) {
        for lease in elections(walk, name, &mut found)? {
            let pod = Ref::new(Kind::Pod, &lease.metadata.namespace, holder(lease));
            wants.extend((!pod.name.is_empty()).then(|| one(&pod)));
        }
    }
    walk.expect(wants)?;
    let mut pods = Vec::new();
    for of in of {
        let mut places = Places::default();
        pods.extend(holders(walk, of, &mut places, &mut found)?);
        pods.extend(successors(walk, of, places)?);
    }
    found.add(pods);
    Ok(found)
}

/// The pods to ask about these objects, which have been read.
///
/// # Errors
/// Something has to be read first.
pub fn answerers(seen: &Seen, objects: &[Ref], now: Timestamp) -> Result<Answerers, Vec<Want>> {
    let mut walk = Walk::new(seen, now, true);
    match found(&mut walk, &controllers(seen, objects)) {
        Ok(mut found) => {
            found.unseen.extend(walk.unseen());
            Ok(found)
        }
        Err(_) => Err(walk.wants.into_iter().collect()),
    }
}

#[cfg(test)]
mod tests;
