//! What a driver says that it has, beside what a cluster names.

use super::audit::{Audit, Compare};
use super::difference::{Difference, What};
use super::named::{Cluster, Named, at};
use super::published::attached;
use super::side::{Side, Why, lacking};
use super::stock::{Handles, Stock, Stored};
use super::way::{Step, Way};
use crate::model::{Content, Kind, Ref, Volume};

/// What it means if nothing fits.
const FOREIGN: &str =
    "the driver at --csi-address, or the kubeconfig's context, is of another cluster";

pub(super) fn volumes(
    way: &mut Way<'_>,
    what: Compare<'_>,
    cluster: &Cluster,
    audit: &mut Audit,
) -> Step {
    let storage = what.storage;
    let driver = &*storage.driver;
    let own: Vec<(&str, &Volume)> = { way.all::<Volume>()?.items.into_iter() }
        .filter_map(|volume| {
            let csi = volume.spec.csi.as_ref();
            let csi = csi.filter(|csi| csi.driver == driver)?;
            Some((&*csi.volume_handle, volume))
        })
        .collect();
    let staying = own.iter().filter(|(_, volume)| stays(volume));
    let staying: Vec<(&str, Ref)> = staying
        .map(|(handle, volume)| (*handle, at(*volume)))
        .collect();
    let stored = match &storage.volumes {
        Stock::Listed(stored) => stored,
        Stock::Without(missing) => {
            let lost = (What::LostVolume, "PersistentVolumes");
            missed(lost, &staying, missing, &cluster.volumes, audit);
            audit.unseen.insert((
                "volumes that this cluster does not know".to_owned(),
                "the driver does not list its volumes (no LIST_VOLUMES)".to_owned(),
            ));
            return Ok(());
        }
        Stock::Unknown(why) => {
            audit.refused = Some(why.clone());
            return Ok(());
        }
    };
    audit.volumes = Some(stored.len());
    let side = Side {
        unknown: What::UnknownVolume,
        lost: What::LostVolume,
        objects: "PersistentVolumes",
        stored,
        unnamed: storage.unnamed.0,
        missing: storage.missing.0.as_ref(),
        named: &cluster.volumes,
        cluster,
    };
    let known = side.compare(what, &staying, Why::new(), audit);
    let all = (stored.len() + storage.unnamed.0, staying.len());
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
    for (handle, volume) in own.iter().filter(|(_, volume)| stays(volume)) {
        let one = stored.get(*handle);
        let other = one.and_then(|one| other_size(volume, handle, one));
        audit.differences.extend(other);
    }
    attached(way, driver, &own, stored, audit)
}

/// What a driver lacks that was asked for each.
fn missed(
    (lost, objects): (What, &str),
    staying: &[(&str, Ref)],
    missing: &Handles,
    named: &Named,
    audit: &mut Audit,
) {
    let gone = staying
        .iter()
        .filter(|(handle, _)| missing.contains(*handle));
    let gone: Vec<_> = gone.collect();
    let lacking = lacking(staying.len(), staying.len() - gone.len(), 0, objects);
    for (handle, object) in gone {
        let mut why = lacking.clone();
        if named.by_hand.contains(*handle) {
            why.insert(
                "a person wrote its handle, and the driver may have it under another one".into(),
            );
        }
        audit.note(Difference {
            why,
            ..Difference::new(lost, handle).of(object.clone())
        });
    }
}

/// What is on its way out may be gone in the storage already.
fn stays(volume: &Volume) -> bool {
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
        ..Difference::new(What::OtherSize, handle).of(at(volume))
    })
}

/// Members of a group have contents of their own, and the driver lists each of them: none counts twice.
pub(super) fn snapshots(
    way: &mut Way<'_>,
    what: Compare<'_>,
    cluster: &Cluster,
    audit: &mut Audit,
) -> Step {
    const CONTENTS: &str = "VolumeSnapshotContents";
    let storage = what.storage;
    let own: Vec<(&str, &Content)> = { way.all::<Content>()?.items.into_iter() }
        .filter(|content| content.spec.driver == storage.driver)
        .filter_map(|content| Some((content.handle()?, content)))
        .collect();
    let staying = own
        .iter()
        .filter(|(_, content)| !content.metadata.is_leaving());
    let staying: Vec<(&str, Ref)> = staying
        .map(|(handle, content)| (*handle, at(*content)))
        .collect();
    match &storage.snapshots {
        Stock::Listed(stored) => {
            audit.snapshots = Some(stored.len());
            let mut doubts = Why::new();
            if !way.is_served(Kind::Content, "")? {
                doubts.insert("the API server does not serve volumesnapshotcontents in a version that is looked at".into());
            }
            let named = &cluster.snapshots;
            if !stored.keys().any(|handle| named.by.contains_key(&**handle)) {
                doubts.insert(
                    "this cluster knows none of the snapshots that the driver lists".into(),
                );
            }
            let side = Side {
                unknown: What::UnknownSnapshot,
                lost: What::LostSnapshot,
                objects: CONTENTS,
                stored,
                unnamed: storage.unnamed.1,
                missing: storage.missing.1.as_ref(),
                named,
                cluster,
            };
            side.compare(what, &staying, doubts, audit);
        }
        Stock::Without(missing) => {
            let lost = (What::LostSnapshot, CONTENTS);
            missed(lost, &staying, missing, &cluster.snapshots, audit);
        }
        Stock::Unknown(why) if !own.is_empty() => {
            audit.unseen.insert(("snapshots".to_owned(), why.clone()));
        }
        Stock::Unknown(_) => {}
    }
    Ok(())
}
