//! Finds the volumes and snapshots that a cluster's objects name, and those that they may mean without naming them.
//!
//! A user may delete a volume because an audit did not find it here. So every object with a handle counts, whatever its
//! kind, its phase and its driver; and an object whose handle is still unknown may mean any volume.

use std::collections::{BTreeMap, BTreeSet};

use migration::TRANSLATOR;

use super::journal;
use super::seen::{Answer, Record};
use super::snapshot_handles::snapshots;
use super::stock::Storage;
use super::volume_users::add_volumes_in_use;
use super::walk::{ObjectSelector, Step, Walk, many};
use crate::model::{Claim, Class, CsiNode, Kind, Ref, Snapshot, Volume};

/// The audited driver, and the other names under which the cluster knows its volumes: all of them serve the same
/// storage.
#[derive(Clone, Debug)]
pub(super) struct AuditedDriver<'a> {
    pub(super) driver: &'a str,
    also: BTreeSet<String>,
}

impl AuditedDriver<'_> {
    /// Whether the driver of this name serves the storage.
    pub(super) fn is(&self, name: &str) -> bool {
        name == self.driver || self.also.contains(name)
    }
}

/// An object without a handle: it may mean any of them.
#[derive(Clone, Debug)]
pub(super) struct WithoutHandle {
    /// The object and its state, in words.
    pub(super) why: String,
    /// UIDs of the objects that a new volume or snapshot is being created for. Without any, the object may mean an old
    /// one.
    pub(super) new_for: Vec<String>,
}

impl WithoutHandle {
    pub(super) fn old(why: String) -> Self {
        Self::new(why, Vec::new())
    }

    pub(super) fn new(why: String, new_for: Vec<String>) -> Self {
        Self { why, new_for }
    }

    /// Whether it may mean one that the driver listed before these objects were read.
    pub(super) fn may_be_older(&self, seen: &BTreeSet<String>) -> bool {
        let is_seen = |uid: &String| uid.is_empty() || seen.contains(uid);
        self.new_for.is_empty() || self.new_for.iter().any(is_seen)
    }
}

/// The volumes, or the snapshots, that objects name.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    /// Object by handle, with its driver if that is not the audited one.
    pub(super) by: BTreeMap<String, (Ref, Option<String>)>,
    /// Handles that a user wrote, which may differ from the driver's own.
    pub(super) by_hand: BTreeSet<String>,
    /// By the object's reference and UID, or another unique key.
    pub(super) without_handle: BTreeMap<String, WithoutHandle>,
    /// Handles in objects of other drivers, with those drivers.
    others: BTreeSet<(String, String)>,
    /// Lists that could not be read, and objects that could not be interpreted.
    pub(super) unread: BTreeSet<String>,
}

impl Named {
    /// Adds the driver and handle that an object names; `driver` is the audited one.
    pub(super) fn add(&mut self, of: (&str, &str), driver: &str, object: &Ref) {
        let (own, handle) = of;
        if handle.is_empty() {
            return;
        }
        let other = (own != driver).then(|| own.to_owned());
        self.others
            .extend(other.iter().map(|other| (handle.to_owned(), other.clone())));
        let entry = self.by.entry(handle.to_owned());
        let entry = entry.or_insert_with(|| (object.clone(), other.clone()));
        if other.is_none() && entry.1.is_some() {
            *entry = (object.clone(), None);
        }
    }
}

/// All volumes and snapshots that the cluster's objects name.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub(super) volumes: Named,
    pub(super) snapshots: Named,
    /// Volumes that contents name as the source of a snapshot.
    pub(super) sources: BTreeMap<String, Ref>,
    /// In-tree volumes, translated to the driver's handles; a translated handle may lack parts of the driver's own.
    pub(super) in_tree: Vec<(String, Ref)>,
    /// Names and UIDs that a driver may build a handle from.
    pub(super) names: Vec<(String, Ref)>,
    /// Volumes that are attached or in use, by handle.
    pub(super) in_use: BTreeMap<String, Ref>,
    /// UIDs of the objects that volumes and snapshots are created for.
    pub(super) uids: BTreeSet<String>,
    /// The driver's names for the nodes, from all of its entries.
    pub(super) nodes: BTreeSet<String>,
    /// Other names of the driver, which serve the same storage.
    pub(super) twins: BTreeSet<String>,
    /// Whether an object shows that the driver belongs to this cluster.
    pub(super) has_driver: bool,
    /// UID of the claim and the journal's Lease, for each of csi-provisioner's calls without a final response.
    pub(super) calls: Vec<(String, Ref)>,
}

/// Reference to the object.
pub(super) fn at<T: Record>(object: &T) -> Ref {
    let meta = object.meta();
    Ref::new(T::KIND, &meta.namespace, &meta.name)
}

/// Key that differs between objects of the same name that were created one after the other.
pub(super) fn key<T: Record>(object: &T) -> String {
    format!("{} {}", at(object), object.meta().uid)
}

/// Why the list of a kind is incomplete.
fn missing(walk: &Walk<'_>, kind: Kind) -> Option<String> {
    let custom = matches!(
        kind,
        Kind::Snapshot | Kind::GroupSnapshot | Kind::Content | Kind::GroupContent
    );
    match walk.seen.standing(&many(kind, &ObjectSelector::all())) {
        Some(Answer::Refused(why)) => Some(format!("{} could not be listed: {why}", kind.plural())),
        Some(Answer::NotServed) if !custom => {
            Some(format!("the API server does not serve {}", kind.plural()))
        }
        _ => None,
    }
}

/// Everything that the cluster names of this driver; `None` if PersistentVolumes cannot be listed. Reads the objects
/// that volumes are made for first, so that nothing is missed that becomes a PersistentVolume in between.
pub(super) fn look(walk: &mut Walk<'_>, storage: &Storage) -> Step<Option<Cluster>> {
    let all = |kinds: &[Kind]| -> Vec<_> {
        let wants = kinds.iter().map(|kind| many(*kind, &ObjectSelector::all()));
        wants.collect()
    };
    walk.expect(all(&[
        Kind::Pod,
        Kind::Claim,
        Kind::Lease,
        Kind::Class,
        Kind::Snapshot,
        Kind::GroupSnapshot,
        Kind::GroupContent,
        Kind::CsiNode,
        Kind::Node,
        Kind::Driver,
    ]))?;
    walk.expect(all(&[Kind::Attachment, Kind::Content, Kind::Volume]))?;
    if !walk.all::<Volume>()?.whole {
        return Ok(None);
    }
    let mut audited = AuditedDriver {
        driver: &storage.driver,
        also: BTreeSet::new(),
    };
    let cluster = gather(walk, &audited)?;
    for (stock, named) in [
        (&storage.volumes, &cluster.volumes),
        (&storage.snapshots, &cluster.snapshots),
    ] {
        let others = named.others.iter();
        let others = others.filter(|(handle, _)| stock.listed.is_ok() && stock.has(handle));
        audited.also.extend(others.map(|(_, other)| other.clone()));
    }
    Ok(Some(match audited.also.is_empty() {
        true => cluster,
        false => gather(walk, &audited)?,
    }))
}

fn gather(walk: &mut Walk<'_>, audited: &AuditedDriver<'_>) -> Step<Cluster> {
    let driver = audited.driver;
    let mut cluster = Cluster {
        twins: audited.also.clone(),
        ..Cluster::default()
    };
    for kind in [
        Kind::Pod,
        Kind::Claim,
        Kind::Lease,
        Kind::Class,
        Kind::GroupContent,
        Kind::Node,
        Kind::Attachment,
        Kind::Content,
        Kind::Volume,
    ] {
        cluster.volumes.unread.extend(missing(walk, kind));
    }
    for kind in [
        Kind::Claim,
        Kind::Lease,
        Kind::Class,
        Kind::Snapshot,
        Kind::GroupSnapshot,
        Kind::GroupContent,
        Kind::Content,
    ] {
        cluster.snapshots.unread.extend(missing(walk, kind));
    }
    volumes(walk, driver, &mut cluster)?;
    add_volumes_in_use(walk, audited, &mut cluster)?;
    claims(walk, audited, &mut cluster)?;
    snapshots(walk, audited, &mut cluster)?;
    for node in walk.all::<CsiNode>()?.items {
        cluster.has_driver |= node.driver(driver).is_some();
        let serving = node.spec.drivers.iter().filter(|one| audited.is(&one.name));
        let ids = serving.map(|one| one.node_id.to_string());
        cluster.nodes.extend(ids);
    }
    let claims: BTreeSet<&str> = { walk.all::<Claim>()?.items.into_iter() }
        .map(|claim| &*claim.metadata.uid)
        .collect();
    for call in journal::open_calls(walk, audited)? {
        let (uid, lease) = (call.uid, call.lease);
        let text =
            format!("csi-provisioner's journal has an open call for the claim with UID {uid}");
        let volumes = &mut cluster.volumes.without_handle;
        let why = format!("{text}: this may be its volume");
        // A call for a claim that is gone, or from a restored Lease, may have created its volume long ago.
        let (key, is_new) = (format!("call {uid}"), claims.contains(&*uid));
        if is_new && !call.is_restored {
            let new = WithoutHandle::new(why, vec![uid.clone()]);
            volumes.entry(key).or_insert(new);
        } else {
            volumes.insert(key, WithoutHandle::old(why));
        }
        if call.names_snapshot {
            let why = format!("{text}, which is to be filled from a snapshot: this may be it");
            let snapshots = &mut cluster.snapshots.without_handle;
            snapshots.insert(format!("call {uid}"), WithoutHandle::old(why));
        }
        cluster.uids.insert(uid.clone());
        cluster.names.push((uid.clone(), lease.clone()));
        cluster.calls.push((uid, lease));
    }
    Ok(cluster)
}

fn volumes(walk: &mut Walk<'_>, driver: &str, cluster: &mut Cluster) -> Step {
    for volume in walk.all::<Volume>()?.items {
        let object = at(volume);
        if let Some(csi) = &volume.spec.csi {
            let of = (&*csi.driver, &*csi.volume_handle);
            cluster.volumes.add(of, driver, &object);
            cluster.has_driver |= csi.driver == driver;
            if csi.driver == driver && volume.is_by_hand() {
                cluster
                    .volumes
                    .by_hand
                    .insert(csi.volume_handle.to_string());
            }
        } else if let Some((own, translated)) = volume.in_words_of_csi() {
            match translated {
                Ok((_, handle)) => {
                    cluster.volumes.add((own, &handle), driver, &object);
                    if own == driver {
                        cluster.in_tree.push((handle, object.clone()));
                    }
                }
                Err(why) if own == driver => {
                    let text = format!(
                        "{object} is of an in-tree plugin, and {driver} knows it by a handle that it does not say: {why}"
                    );
                    cluster.volumes.unread.insert(text);
                }
                Err(_) => {}
            }
            if own == driver {
                cluster.has_driver = true;
                if !TRANSLATOR.identifies_volumes_of(driver) {
                    let text = format!(
                        "volumes of the in-tree plugin such as {object} have other handles in {driver}"
                    );
                    cluster.volumes.unread.insert(text);
                }
            }
        }
        let local = volume.spec.local.iter().map(|local| &*local.path);
        for text in volume.spec.in_tree.texts().chain(local) {
            cluster.names.push((text.to_owned(), object.clone()));
        }
        cluster.names.push((object.name.clone(), object.clone()));
        if let Some(claim) = &volume.spec.claim_ref {
            cluster.names.push((claim.uid.to_string(), object));
        }
    }
    Ok(())
}

/// Adds the claims whose volume may exist without a PersistentVolume.
fn claims(walk: &mut Walk<'_>, audited: &AuditedDriver<'_>, cluster: &mut Cluster) -> Step {
    let is_of = |provisioner: &str| {
        let translated = TRANSLATOR.driver_of_plugin(provisioner);
        audited.is(provisioner) || translated.is_ok_and(|driver| audited.is(driver))
    };
    for claim in walk.all::<Claim>()?.items {
        let object = at(claim);
        let uid = claim.metadata.uid.to_string();
        cluster.uids.insert(uid.clone());
        cluster.names.push((uid.clone(), object.clone()));
        cluster.names.push((object.path(), object.clone()));
        let volume = &*claim.spec.volume_name;
        if !volume.is_empty() {
            // The class does not tell which driver that volume belonged to.
            if walk.get::<Volume>("", volume)?.is_missing() {
                let why = format!(
                    "{object} names the PersistentVolume {volume}, which does not exist: this may be its volume"
                );
                let without_handle = &mut cluster.volumes.without_handle;
                without_handle.insert(key(claim), WithoutHandle::old(why));
            }
            continue;
        }
        let annotations = &claim.metadata.annotations;
        let annotated = { ["volume.kubernetes.io/", "volume.beta.kubernetes.io/"].iter() }
            .find_map(|prefix| annotations.get(&format!("{prefix}storage-provisioner")));
        let class = match claim.class().filter(|class| !class.is_empty()) {
            Some(class) => walk.get::<Class>("", class)?.found(),
            None => None,
        };
        let provisioner = annotated.or(class.map(|class| &*class.provisioner));
        let waits = class.is_some_and(Class::waits_for_consumer);
        let waits = annotated.is_none() && waits && claim.selected_node().is_none();
        if provisioner.is_some_and(is_of) && !waits {
            let why = format!("{object} has no PersistentVolume yet: this may be its volume");
            let without_handle = &mut cluster.volumes.without_handle;
            without_handle.insert(key(claim), WithoutHandle::new(why, vec![uid]));
        }
        if let Some(("VolumeSnapshot", namespace, name)) = claim.filled_from()
            && provisioner.is_none_or(is_of)
            && walk.get::<Snapshot>(namespace, name)?.is_missing()
        {
            let why = format!(
                "{object} is to be filled from the VolumeSnapshot {name}, which does not exist: this may be its snapshot"
            );
            let without_handle = &mut cluster.snapshots.without_handle;
            without_handle.insert(key(claim), WithoutHandle::old(why));
        }
    }
    Ok(())
}
