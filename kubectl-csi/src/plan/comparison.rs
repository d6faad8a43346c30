//! Compares the volumes and snapshots that a driver reports with those that a cluster names.

use std::sync::Arc;

use super::audit::{Audit, Compare};
use super::difference::{Difference, DifferenceKind};
use super::named::{Cluster, at};
use super::published::attached;
use super::side::{Expected, Side, Why};
use super::stock::{Stock, Stored};
use super::walk::{Step, Walk};
use crate::model::{Attachment, Claim, Content, Kind, Node, Pod, Selector, Volume};

/// The conclusion if no volume matches.
const FOREIGN: &str =
    "the driver at --csi-address, or the kubeconfig's context, is of another cluster";

pub(super) fn volumes(
    walk: &mut Walk<'_>,
    input: Compare<'_>,
    cluster: &Cluster,
    audit: &mut Audit,
) -> Step {
    let storage = input.storage;
    let driver = &*storage.driver;
    let own: Vec<(&str, &Volume)> = { walk.all::<Volume>()?.items.into_iter() }
        .filter_map(|volume| {
            let csi = volume.spec.csi.as_ref();
            let csi = csi.filter(|csi| csi.driver == driver)?;
            Some((&*csi.volume_handle, volume))
        })
        .collect();
    let expected = expected(&storage.volumes, &own, cluster, unseen_use(walk)?.as_ref());
    if let (Err(why), false) = (&storage.volumes.listed, storage.volumes.is_known()) {
        audit.refused = Some(why.clone());
        return Ok(());
    }
    let side = Side {
        unknown: DifferenceKind::UnknownVolume,
        lost: DifferenceKind::LostVolume,
        objects: "PersistentVolumes",
        stock: &storage.volumes,
        named: &cluster.volumes,
        cluster,
    };
    let Ok(stored) = &storage.volumes.listed else {
        side.compare(input, &expected, Why::new(), audit);
        audit.unseen.insert((
            "volumes that this cluster does not know".to_owned(),
            "the driver does not list its volumes (no LIST_VOLUMES)".to_owned(),
        ));
        return Ok(());
    };
    audit.volumes = Some(stored.len());
    unasked(&storage.volumes, "PersistentVolumes", audit);
    let reasons = unserved(walk, &storage.snapshots)?;
    let known = side.compare(input, &expected, reasons, audit);
    let all = (stored.len() + storage.volumes.unnamed, expected.len());
    audit.refused = match all {
        (0, 0) => None,
        (0, all) => Some(format!(
            "it lists no volume, and this cluster has {all} PersistentVolumes of it: {FOREIGN}, or the driver does not list what it has"
        )),
        (all, _) if known == 0 => Some(format!(
            "this cluster knows none of the {all} volumes that it lists: {FOREIGN}, or nothing of this cluster is in that storage"
        )),
        _ => None,
    };
    if audit.refused.is_some() {
        audit.differences.clear();
        audit.undecided.clear();
        audit.others = 0;
        return Ok(());
    }
    for (handle, volume) in own.iter().filter(|(_, volume)| must_exist(volume)) {
        let one = stored.get(*handle);
        let other = one.and_then(|one| other_size(volume, handle, one));
        audit.differences.extend(other);
    }
    attached(walk, cluster, &own, stored, audit)
}

/// Why a volume may be in use although no object shows it: a list that could not be read whole.
fn unseen_use(walk: &mut Walk<'_>) -> Step<Option<Arc<str>>> {
    let are_whole = [
        walk.all::<Pod>()?.whole,
        walk.all::<Claim>()?.whole,
        walk.all::<Node>()?.whole,
        walk.all::<Attachment>()?.whole,
    ];
    let all_seen = are_whole.iter().all(|is_whole| *is_whole);
    Ok((!all_seen).then(|| {
        "not all pods, claims, nodes and attachments could be listed: it may be in use".into()
    }))
}

/// The volumes that have to be in the storage.
fn expected<'a>(
    stock: &Stock,
    own: &[(&'a str, &Volume)],
    cluster: &Cluster,
    unseen_use: Option<&Arc<str>>,
) -> Vec<Expected<'a>> {
    let reached: Vec<&Selector> = { own.iter().filter(|(handle, _)| stock.has(handle)) }
        .filter_map(|(_, volume)| volume.reached_from())
        .collect();
    let expected = own.iter().filter(|(_, volume)| must_exist(volume));
    let expected = expected.map(|(handle, volume)| Expected {
        handle,
        object: at(*volume),
        why: match stock.has(handle) {
            true => Why::new(),
            false => { may_be_used(handle, volume, &reached, cluster).into_iter() }
                .chain(unseen_use.cloned())
                .collect(),
        },
    });
    expected.collect()
}

/// Why the storage may have a volume that the driver does not list: a driver may list only the part of the storage that
/// belongs to its own node or zone.
fn may_be_used(handle: &str, volume: &Volume, reached: &[&Selector], cluster: &Cluster) -> Why {
    let of = volume.reached_from();
    let is_apart = of.is_some_and(|of| reached.iter().all(|one| one.terms() != of.terms()));
    let apart = is_apart.then(|| {
        "the driver has no volume that the same nodes reach, and may see another part of the storage".to_owned()
    });
    let used = cluster.in_use.get(handle);
    let used = used.map(|object| format!("{object} has it attached or in use"));
    apart.into_iter().chain(used).map(Arc::from).collect()
}

/// Notes how many handles the driver was not asked about: those volumes or snapshots are not known to be gone.
fn unasked(stock: &Stock, objects: &str, audit: &mut Audit) {
    let count = stock.unasked;
    if count > 0 {
        let why = format!(
            "the driver failed when it was asked for each, and was not asked for {count} more: none of these is confirmed"
        );
        audit
            .unseen
            .insert((format!("{objects} that the driver does not list"), why));
    }
}

/// Whether the volume has to be in the storage: one that is being deleted may be gone there already.
fn must_exist(volume: &Volume) -> bool {
    let goes = matches!(&*volume.status.phase, "Released" | "Failed")
        && volume.spec.persistent_volume_reclaim_policy == "Delete";
    !volume.metadata.is_leaving() && !goes
}

fn other_size(volume: &Volume, handle: &str, stored: &Stored) -> Option<Difference> {
    let size = volume
        .spec
        .capacity
        .storage
        .parse::<sidecar::quantity::Quantity>();
    let expected = size.ok()?.value();
    let differs = stored.bytes > 0 && stored.bytes != expected;
    differs.then(|| Difference {
        bytes: Some(stored.bytes),
        expected: Some(expected),
        ..Difference::new(DifferenceKind::OtherSize, handle).of(at(volume))
    })
}

/// A driver may list a snapshot only once it is ready.
fn is_being_made(content: &Content) -> Option<Arc<str>> {
    let status = content.status.as_ref();
    let is_ready = status.is_some_and(|status| status.ready_to_use);
    (!is_ready).then(|| "its content is not ready to use: it may still be in the making".into())
}

/// A driver may list only a part of the storage: it sees the part with a snapshot if it lists the source volume.
fn may_be_elsewhere(content: &Content, volumes: &Stock) -> Option<Arc<str>> {
    let source = &*content.spec.source.volume_handle;
    let why = match &volumes.listed {
        Ok(stored) if stored.contains_key(source) => return None,
        Ok(_) => {
            "the driver does not list the volume that it is taken of, and may see another part of the storage"
        }
        Err(_) => "the driver does not list its volumes, and may see another part of the storage",
    };
    Some(why.into())
}

/// The API server may serve contents in another version only: these name snapshots and their source volumes.
fn unserved(walk: &mut Walk<'_>, snapshots: &Stock) -> Step<Why> {
    let mut stored = snapshots.listed.iter().flatten().peekable();
    // Many clusters lack the snapshot kinds, most lack the group kinds.
    let are_there = stored.peek().is_some() || walk.is_served(Kind::Snapshot, "")?;
    let has_groups = stored.any(|(_, one)| one.group.is_some());
    let has_groups = has_groups || walk.is_served(Kind::GroupSnapshot, "")?;
    let mut why = Why::new();
    for (kind, is_expected) in [(Kind::Content, are_there), (Kind::GroupContent, has_groups)] {
        if is_expected && !walk.is_served(kind, "")? {
            let kind = kind.plural();
            let text =
                format!("the API server does not serve {kind} in a version that is looked at");
            why.insert(text.into());
        }
    }
    Ok(why)
}

/// Compares snapshots. A group's members have contents of their own, and the driver lists each of them, so none counts
/// twice.
pub(super) fn snapshots(
    walk: &mut Walk<'_>,
    input: Compare<'_>,
    cluster: &Cluster,
    audit: &mut Audit,
) -> Step {
    const CONTENTS: &str = "VolumeSnapshotContents";
    let storage = input.storage;
    let own: Vec<(&str, &Content)> = { walk.all::<Content>()?.items.into_iter() }
        .filter(|content| content.spec.driver == storage.driver)
        .filter_map(|content| Some((content.handle()?, content)))
        .collect();
    let expected = own
        .iter()
        .filter(|(_, content)| !content.metadata.is_leaving());
    let expected = expected.map(|(handle, content)| Expected {
        handle,
        object: at(*content),
        why: { is_being_made(content).into_iter() }
            .chain(may_be_elsewhere(content, &storage.volumes))
            .collect(),
    });
    let expected: Vec<Expected<'_>> = expected.collect();
    let stock = &storage.snapshots;
    if let Err(why) = &stock.listed
        && !stock.is_known()
    {
        if !own.is_empty() {
            audit.unseen.insert(("snapshots".to_owned(), why.clone()));
        }
        return Ok(());
    }
    let mut reasons = Why::new();
    let named = &cluster.snapshots;
    if let Ok(stored) = &stock.listed {
        audit.snapshots = Some(stored.len());
        unasked(stock, CONTENTS, audit);
        reasons = unserved(walk, stock)?;
        if !stored.keys().any(|handle| named.by.contains_key(&**handle)) {
            reasons.insert("this cluster knows none of the snapshots that the driver lists".into());
        }
    }
    let side = Side {
        unknown: DifferenceKind::UnknownSnapshot,
        lost: DifferenceKind::LostSnapshot,
        objects: CONTENTS,
        stock,
        named,
        cluster,
    };
    side.compare(input, &expected, reasons, audit);
    Ok(())
}
