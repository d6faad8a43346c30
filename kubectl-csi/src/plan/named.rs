//! Which volumes and snapshots the objects of a cluster name, and which they may mean without naming them.
//!
//! Somebody may delete a volume because an audit did not find it here. So every object counts that has a handle in it, whatever its
//! kind, its phase and its driver; and an object whose handle nobody knows yet may be about any volume.

use std::collections::{BTreeMap, BTreeSet};

use migration::TRANSLATOR;

use super::journal;
use super::seen::{Answer, Record};
use super::used::used;
use super::way::{Step, Way, Which, many};
use crate::model::{
    Claim, Class, Content, CsiNode, GroupContent, GroupSnapshot, Kind, Ref, Snapshot, Volume,
};

/// Volumes, or snapshots.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    /// By handle: the object, and its driver if that is another one.
    pub(super) by: BTreeMap<String, (Ref, Option<String>)>,
    /// Handles that a person wrote, which need not be the driver's own.
    pub(super) by_hand: BTreeSet<String>,
    /// An object that says nothing of its handle, by what tells it from others: it may be about any of them.
    pub(super) nameless: BTreeMap<String, String>,
    /// What could not be looked at, or not be understood.
    pub(super) doubts: BTreeSet<String>,
}

impl Named {
    /// An object has this driver and handle in it; `driver` is the one that is audited.
    pub(super) fn add(&mut self, of: (&str, &str), driver: &str, object: &Ref) {
        let (own, handle) = of;
        if handle.is_empty() {
            return;
        }
        let other = (own != driver).then(|| own.to_owned());
        let entry = self.by.entry(handle.to_owned());
        let entry = entry.or_insert_with(|| (object.clone(), other.clone()));
        if other.is_none() && entry.1.is_some() {
            *entry = (object.clone(), None);
        }
    }
}

/// What a cluster names.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub(super) volumes: Named,
    pub(super) snapshots: Named,
    /// Volumes that something else than a volume's object names: what a snapshot is taken of.
    pub(super) sources: BTreeMap<String, Ref>,
    /// Volumes of in-tree plugins in the driver's words, which do not say all that its own handles say.
    pub(super) in_tree: Vec<(String, Ref)>,
    /// Names and UIDs that a handle may be made of.
    pub(super) names: Vec<(String, Ref)>,
    /// What the driver calls the nodes.
    pub(super) nodes: BTreeSet<String>,
    /// Whether an object says that the driver is this cluster's.
    pub(super) has_driver: bool,
    /// The calls of csi-provisioner that have no final answer, by claim.
    pub(super) calls: Vec<(String, Ref)>,
}

/// Which object it is.
pub(super) fn at<T: Record>(object: &T) -> Ref {
    let meta = object.meta();
    Ref::new(T::KIND, &meta.namespace, &meta.name)
}

/// What tells an object from one of the same name that was made after it.
pub(super) fn key<T: Record>(object: &T) -> String {
    format!("{} {}", at(object), object.meta().uid)
}

/// Why not all objects of a kind were seen.
fn missing(way: &Way<'_>, kind: Kind) -> Option<String> {
    let custom = matches!(
        kind,
        Kind::Snapshot | Kind::GroupSnapshot | Kind::Content | Kind::GroupContent
    );
    match way.seen.standing(&many(kind, &Which::all())) {
        Some(Answer::Refused(why)) => Some(format!("{} could not be listed: {why}", kind.plural())),
        Some(Answer::NotServed) if !custom => {
            Some(format!("the API server does not serve {}", kind.plural()))
        }
        _ => None,
    }
}

/// What the cluster names of this driver's; none if PersistentVolumes may not be listed. What others are made of is read before it, so that nothing is missed that becomes a
/// PersistentVolume meanwhile.
pub(super) fn look(way: &mut Way<'_>, driver: &str) -> Step<Option<Cluster>> {
    let all = |kinds: &[Kind]| -> Vec<_> {
        let wants = kinds.iter().map(|kind| many(*kind, &Which::all()));
        wants.collect()
    };
    way.expect(all(&[
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
    way.expect(all(&[Kind::Attachment, Kind::Content, Kind::Volume]))?;
    if !way.all::<Volume>()?.whole {
        return Ok(None);
    }
    let mut cluster = Cluster::default();
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
        cluster.volumes.doubts.extend(missing(way, kind));
    }
    for kind in [
        Kind::Snapshot,
        Kind::GroupSnapshot,
        Kind::GroupContent,
        Kind::Content,
    ] {
        cluster.snapshots.doubts.extend(missing(way, kind));
    }
    volumes(way, driver, &mut cluster)?;
    used(way, driver, &mut cluster)?;
    claims(way, driver, &mut cluster)?;
    snapshots(way, driver, &mut cluster)?;
    for node in way.all::<CsiNode>()?.items {
        let node = node.driver(driver).map(|driver| driver.node_id.to_string());
        cluster.has_driver |= node.is_some();
        cluster.nodes.extend(node);
    }
    cluster.calls = journal::open_calls(way, driver)?;
    for (uid, lease) in &cluster.calls {
        cluster.names.push((uid.clone(), lease.clone()));
        let why = format!(
            "csi-provisioner's journal has an open call for the claim with UID {uid}: this may be its volume"
        );
        cluster.volumes.nameless.insert(format!("call {uid}"), why);
    }
    Ok(Some(cluster))
}

fn volumes(way: &mut Way<'_>, driver: &str, cluster: &mut Cluster) -> Step {
    for volume in way.all::<Volume>()?.items {
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
                    let doubt = format!(
                        "{object} is of an in-tree plugin, and {driver} knows it by a handle that it does not say: {why}"
                    );
                    cluster.volumes.doubts.insert(doubt);
                }
                Err(_) => {}
            }
            if own == driver {
                cluster.has_driver = true;
                if !TRANSLATOR.tells_apart(driver) {
                    let doubt = format!(
                        "volumes of the in-tree plugin such as {object} have other handles in {driver}"
                    );
                    cluster.volumes.doubts.insert(doubt);
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

/// Claims whose volume may exist without a PersistentVolume.
fn claims(way: &mut Way<'_>, driver: &str, cluster: &mut Cluster) -> Step {
    let is_of = |provisioner: &str| {
        provisioner == driver || TRANSLATOR.driver_of_plugin(provisioner) == Ok(driver)
    };
    for claim in way.all::<Claim>()?.items {
        let object = at(claim);
        let uid = claim.metadata.uid.to_string();
        cluster.names.push((uid, object.clone()));
        cluster.names.push((object.path(), object.clone()));
        let volume = &*claim.spec.volume_name;
        if !volume.is_empty() && !way.get::<Volume>("", volume)?.is_missing() {
            continue;
        }
        let annotations = &claim.metadata.annotations;
        let provisioner = { ["volume.kubernetes.io/", "volume.beta.kubernetes.io/"].iter() }
            .find_map(|prefix| annotations.get(&format!("{prefix}storage-provisioner")));
        let class = claim.class().filter(|class| !class.is_empty());
        let is_due = match (provisioner, class) {
            (Some(provisioner), _) => is_of(provisioner),
            (None, Some(class)) => match way.get::<Class>("", class)?.found() {
                Some(class) => {
                    let chosen = !class.waits_for_consumer() || claim.selected_node().is_some();
                    is_of(&class.provisioner) && (chosen || !volume.is_empty())
                }
                None => !volume.is_empty(),
            },
            (None, None) => !volume.is_empty(),
        };
        if is_due {
            let why = match volume {
                "" => format!("{object} has no PersistentVolume yet: this may be its volume"),
                volume => format!(
                    "{object} names the PersistentVolume {volume}, which does not exist: this may be its volume"
                ),
            };
            cluster.volumes.nameless.insert(key(claim), why);
        }
    }
    Ok(())
}

/// Of a snapshot whose content was deleted, nobody knows the handle.
fn gone<T: Record>(cluster: &mut Cluster, snapshot: &T, content: &str) {
    let why = format!(
        "{} names the content {content}, which does not exist: this may be its snapshot",
        at(snapshot)
    );
    cluster.snapshots.nameless.insert(key(snapshot), why);
}

fn snapshots(way: &mut Way<'_>, driver: &str, cluster: &mut Cluster) -> Step {
    for content in way.all::<Content>()?.items {
        let (object, spec) = (at(content), &content.spec);
        let status = content.status.as_ref();
        let taken = status.map_or("", |status| &*status.snapshot_handle);
        for handle in [taken, &spec.source.snapshot_handle] {
            cluster
                .snapshots
                .add((&spec.driver, handle), driver, &object);
        }
        let named = &spec.source.snapshot_handle;
        if spec.driver == driver && !named.is_empty() {
            cluster.snapshots.by_hand.insert(named.to_string());
        }
        let source = spec.source.volume_handle.to_string();
        cluster.sources.insert(source, object.clone());
        if spec.driver == driver && content.handle().is_none() {
            let why = format!("{object} has no handle yet: this may be its snapshot");
            cluster.snapshots.nameless.insert(key(content), why);
        }
        let uid = spec.volume_snapshot_ref.uid.to_string();
        cluster.names.push((uid, object.clone()));
        cluster.names.push((object.name.clone(), object));
    }
    for group in way.all::<GroupContent>()?.items {
        let (object, own) = (at(group), &*group.spec.driver);
        for handle in group.snapshots() {
            cluster.snapshots.add((own, handle), driver, &object);
        }
        for handle in group.volumes().chain(group.handle()) {
            cluster.sources.insert(handle.to_owned(), object.clone());
        }
        if (own == driver || own.is_empty()) && group.snapshots().next().is_none() {
            let why = format!("{object} has no members yet: this may be one");
            cluster.snapshots.nameless.insert(key(group), why);
        }
    }
    let are_whole = way.all::<Content>()?.whole && way.all::<GroupContent>()?.whole;
    for snapshot in way.all::<Snapshot>()?.items.iter().filter(|_| are_whole) {
        let Some(content) = snapshot.content() else {
            continue;
        };
        if way.get::<Content>("", content)?.is_missing() {
            gone(cluster, *snapshot, content);
        }
    }
    for group in way
        .all::<GroupSnapshot>()?
        .items
        .iter()
        .filter(|_| are_whole)
    {
        let status = group.status.as_ref();
        let content = status.map_or("", |status| {
            &*status.bound_volume_group_snapshot_content_name
        });
        if !content.is_empty() && way.get::<GroupContent>("", content)?.is_missing() {
            gone(cluster, *group, content);
        }
    }
    // What a content names empty is nothing.
    cluster.sources.remove("");
    Ok(())
}
