//! What a driver has in its storage, beside what the cluster has.
//!
//! Nothing here is proof that something may be deleted: CSI does not say whose a volume is, and other clusters, volumes made by hand and kept
//! ones look the same. What differs is a finding only if it still does at a second look: objects and volumes come and go meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::difference::{Difference, Note, What, Worth};
use super::seen::{Record, Seen, Want};
use super::shelf::By;
use super::way::{Step, Stop, Way, Which, many};
use super::{controller, journal};
use crate::model::{Attachment, Claim, Content, CsiNode, Kind, Node, Ref, Volume};

/// A volume or snapshot, as its driver lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// 0: the driver does not say.
    pub bytes: i64,
    /// The nodes it is published to, in the driver's words; none if the driver does not say.
    pub nodes: Option<Vec<Box<str>>>,
}

/// What is known of a driver's volumes, or of its snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stock {
    /// All there are.
    Listed(BTreeMap<Box<str>, Stored>),
    /// The driver lists none; it was asked for those that the cluster knows, and does not have these.
    Without(BTreeSet<Box<str>>),
    /// Neither; why.
    Unknown(String),
}

/// What a driver has.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Its name.
    pub driver: String,
    pub volumes: Stock,
    pub snapshots: Stock,
}

/// What both looks say.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    pub driver: String,
    /// Of the driver.
    pub volumes: Option<usize>,
    /// Of the driver.
    pub snapshots: Option<usize>,
    pub differences: Vec<Difference>,
    /// Unknown ones whose handles are not those of this cluster.
    pub others: usize,
    pub notes: Vec<Note>,
    pub unseen: BTreeSet<(String, String)>,
    /// Why the volumes cannot be compared at all.
    pub refused: Option<String>,
}

impl Audit {
    /// What still differs at this look.
    #[must_use]
    pub fn confirms(mut self, first: &Self) -> Self {
        let before: BTreeSet<_> = first.differences.iter().map(Difference::key).collect();
        self.differences.retain(|one| before.contains(&one.key()));
        self.others = self.others.min(first.others);
        self
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match () {
            () if self.refused.is_some() => 4,
            () if !self.differences.is_empty() => 3,
            () if !self.unseen.is_empty() => 1,
            () => 0,
        }
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Compare<'a> {
    pub storage: &'a Storage,
    /// What handles of this cluster begin with.
    pub owned: &'a str,
}

/// Compares one look at the storage with one at the cluster, which has to be the later one.
///
/// # Errors
/// What has to be looked at first.
pub fn compare(seen: &Seen, what: Compare<'_>, now: Timestamp) -> Result<Audit, Vec<Want>> {
    let mut way = Way::new(seen, now, true);
    let mut audit = Audit {
        driver: what.storage.driver.clone(),
        ..Audit::default()
    };
    match all(&mut way, what, &mut audit) {
        Err(Stop::Look) => return Err(way.wants.into_iter().collect()),
        Ok(()) | Err(Stop::Told) => {}
    }
    audit.differences.sort();
    audit.notes.sort();
    audit.unseen.extend(way.unseen());
    Ok(audit)
}

fn all(way: &mut Way<'_>, what: Compare<'_>, audit: &mut Audit) -> Step {
    let kinds = [
        Kind::Volume,
        Kind::Attachment,
        Kind::CsiNode,
        Kind::Node,
        Kind::Claim,
        Kind::Content,
        Kind::Driver,
    ];
    way.expect(kinds.map(|kind| many(kind, &Which::all())))?;
    volumes(way, what, audit)?;
    snapshots(way, what, audit)?;
    notes(way, &what.storage.driver, audit)
}

/// What the cluster calls a driver's volumes and snapshots.
pub fn handles(seen: &Seen, driver: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let volumes = Volume::shelf(seen).list(None);
    let volumes = volumes.filter_map(|one| one.spec.csi.as_ref());
    let volumes = volumes.filter(|csi| csi.driver == driver);
    let contents = Content::shelf(seen).list(None);
    let contents = contents.filter(|one| one.spec.driver == driver);
    (
        volumes.map(|csi| csi.volume_handle.to_string()).collect(),
        { contents.filter_map(Content::handle) }
            .map(str::to_owned)
            .collect(),
    )
}

/// What is in the storage and nowhere else.
fn unknown<'a>(
    audit: &mut Audit,
    (kind, owned): (What, &str),
    stored: &BTreeMap<Box<str>, Stored>,
    is_known: impl Fn(&str) -> bool,
    calls: impl Iterator<Item = &'a String> + Clone,
) {
    for (handle, one) in stored.iter().filter(|(handle, _)| !is_known(handle)) {
        if !handle.starts_with(owned) {
            audit.others += 1;
            continue;
        }
        // The volume of a claim whose call has no answer yet: drivers that name volumes by the request have the UID in the handle.
        if calls.clone().any(|uid| handle.contains(&**uid)) {
            continue;
        }
        audit.differences.push(Difference {
            bytes: (one.bytes > 0).then_some(one.bytes),
            ..Difference::new(kind, handle)
        });
    }
}

fn volumes(way: &mut Way<'_>, what: Compare<'_>, audit: &mut Audit) -> Step {
    let driver = &*what.storage.driver;
    let all = way.all::<Volume>()?;
    if !all.whole {
        audit.refused = Some("PersistentVolumes may not be listed".to_owned());
        return Ok(());
    }
    let translated = all
        .items
        .iter()
        .filter(|one| one.migrated_to() == Some(driver));
    let translated = translated.count();
    let own: Vec<(&str, &Volume)> = { all.items.iter() }
        .filter_map(|volume| {
            let csi = volume
                .spec
                .csi
                .as_ref()
                .filter(|csi| csi.driver == driver)?;
            Some((&*csi.volume_handle, *volume))
        })
        .collect();
    let handles: BTreeSet<&str> = own.iter().map(|(handle, _)| *handle).collect();
    let calls = journal::open_calls(way, driver)?;
    audit
        .notes
        .extend(calls.iter().map(|(claim, journal)| Note {
            worth: Worth::MayExist,
            object: journal.clone(),
            says: Some(claim.clone()),
        }));
    match &what.storage.volumes {
        Stock::Listed(stored) => {
            audit.volumes = Some(stored.len());
            unknown(
                audit,
                (What::UnknownVolume, what.owned),
                stored,
                |handle| handles.contains(handle),
                calls.keys(),
            );
            for (handle, volume) in own.iter().filter(|(_, volume)| stays(volume)) {
                match stored.get(*handle) {
                    None => audit.differences.push(lost(volume, handle)),
                    Some(one) => audit.differences.extend(other_size(volume, handle, one)),
                }
            }
            attached(way, driver, &own, stored, audit)?;
            if translated > 0 {
                audit.unseen.insert((
                    format!("{translated} volumes of an in-tree plugin"),
                    format!("{driver} serves them under handles that their PersistentVolumes do not have; an unknown volume may be one of them"),
                ));
            }
        }
        Stock::Without(missing) => {
            let own = own.iter().filter(|(_, volume)| stays(volume));
            let own = own.filter(|(handle, _)| missing.contains(*handle));
            audit
                .differences
                .extend(own.map(|(handle, volume)| lost(volume, handle)));
            let why = "the driver does not list its volumes (no LIST_VOLUMES)";
            audit.unseen.insert((
                "volumes that this cluster does not know".to_owned(),
                why.to_owned(),
            ));
        }
        Stock::Unknown(why) => audit.refused = Some(why.clone()),
    }
    Ok(())
}

fn lost(volume: &Volume, handle: &str) -> Difference {
    Difference::new(What::LostVolume, handle).of(at(volume))
}

/// What is on its way out may be gone in the storage already.
fn stays(volume: &Volume) -> bool {
    let goes = matches!(&*volume.status.phase, "Released" | "Failed")
        && volume.spec.persistent_volume_reclaim_policy == "Delete";
    !volume.metadata.is_leaving() && !goes
}

fn at(volume: &Volume) -> Ref {
    Ref::new(Kind::Volume, "", &volume.metadata.name)
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

/// Where volumes are published, beside where they are to be.
fn attached(
    way: &mut Way<'_>,
    driver: &str,
    own: &[(&str, &Volume)],
    stored: &BTreeMap<Box<str>, Stored>,
    audit: &mut Audit,
) -> Step {
    if stored.values().all(|one| one.nodes.is_none()) {
        return Ok(());
    }
    let nodes = way.all::<CsiNode>()?;
    if !nodes.whole || !way.all::<Attachment>()?.whole {
        return Ok(());
    }
    let ids: BTreeMap<&str, &str> = { nodes.items.iter() }
        .filter_map(|node| Some((&*node.metadata.name, &*node.driver(driver)?.node_id)))
        .collect();
    for (handle, volume) in own {
        let Some(published) = stored.get(*handle).and_then(|one| one.nodes.as_deref()) else {
            continue;
        };
        let name = &*volume.metadata.name;
        let attachments = way.by::<Attachment>(&Which::all(), By::Volume, name)?.items;
        let wanted: BTreeSet<&str> = { attachments.iter() }
            .filter_map(|one| ids.get(&*one.spec.node_name).copied())
            .collect();
        // Where the driver's name of a node is not known, nothing can be compared.
        let all_known = attachments
            .iter()
            .all(|one| ids.contains_key(&*one.spec.node_name));
        let without = published
            .iter()
            .filter(|id| all_known && !wanted.contains(&***id));
        let difference = |id: &str| {
            Difference::new(What::Published, handle)
                .of(at(volume))
                .on(id)
        };
        audit.differences.extend(without.map(|id| difference(id)));
        for one in attachments
            .iter()
            .filter(|one| one.status.attached && !one.metadata.is_leaving())
        {
            let Some(id) = ids.get(&*one.spec.node_name) else {
                continue;
            };
            if !published.iter().any(|node| **node == **id) {
                let object = Ref::new(Kind::Attachment, "", &one.metadata.name);
                let difference = Difference::new(What::NotPublished, handle)
                    .of(object)
                    .on(id);
                audit.differences.push(difference);
            }
        }
    }
    Ok(())
}

/// Members of a group have contents of their own, and the driver lists each of them: none counts twice.
fn snapshots(way: &mut Way<'_>, what: Compare<'_>, audit: &mut Audit) -> Step {
    let driver = &*what.storage.driver;
    let all = way.all::<Content>()?;
    if !all.whole {
        return Ok(());
    }
    let own = all
        .items
        .iter()
        .filter(|content| content.spec.driver == driver);
    let own: Vec<(&str, &Content)> = own
        .filter_map(|content| Some((content.handle()?, *content)))
        .collect();
    let handles: BTreeSet<&str> = own.iter().map(|(handle, _)| *handle).collect();
    let stays = own
        .iter()
        .filter(|(_, content)| !content.metadata.is_leaving());
    let lost = |(handle, content): &(&str, &Content)| {
        let object = Ref::new(Kind::Content, "", &content.metadata.name);
        Difference::new(What::LostSnapshot, handle).of(object)
    };
    match &what.storage.snapshots {
        Stock::Listed(stored) => {
            audit.snapshots = Some(stored.len());
            let is_known = |handle: &str| handles.contains(handle);
            let none = std::iter::empty();
            unknown(
                audit,
                (What::UnknownSnapshot, what.owned),
                stored,
                is_known,
                none,
            );
            let gone = stays.filter(|(handle, _)| !stored.contains_key(*handle));
            audit.differences.extend(gone.map(lost));
        }
        Stock::Without(missing) => {
            let gone = stays.filter(|(handle, _)| missing.contains(*handle));
            audit.differences.extend(gone.map(lost));
        }
        Stock::Unknown(why) if !own.is_empty() => {
            audit.unseen.insert(("snapshots".to_owned(), why.clone()));
        }
        Stock::Unknown(_) => {}
    }
    Ok(())
}

fn note(audit: &mut Audit, worth: Worth, object: Ref, says: Option<String>) {
    audit.notes.push(Note {
        worth,
        object,
        says,
    });
}

/// What the objects alone say.
fn notes(way: &mut Way<'_>, driver: &str, audit: &mut Audit) -> Step {
    let mut gone = BTreeMap::new();
    for volume in way.all::<Volume>()?.items {
        let Some(of) = volume.driver() else { continue };
        let kept = volume.status.phase == "Released"
            && volume.spec.persistent_volume_reclaim_policy == "Retain";
        if kept && of == driver {
            note(audit, Worth::Kept, at(volume), None);
        }
        let is_gone = match gone.get(of) {
            Some(is_gone) => *is_gone,
            None => {
                let is_gone = of != driver && controller::is_gone(way, of)?;
                gone.insert(of, is_gone);
                is_gone
            }
        };
        if is_gone {
            note(audit, Worth::Driverless, at(volume), Some(of.to_owned()));
        }
    }
    let nodes = way.all::<Node>()?;
    for one in way.all::<Attachment>()?.items {
        let node = &*one.spec.node_name;
        if nodes.whole && one.spec.attacher == driver && way.get::<Node>("", node)?.is_missing() {
            let object = Ref::new(Kind::Attachment, "", &one.metadata.name);
            note(audit, Worth::Nodeless, object, Some(node.to_owned()));
        }
    }
    for claim in way.all::<Claim>()?.items {
        let unused = { claim.status.conditions.iter() }
            .find(|one| one.kind == "Unused" && one.status == "True");
        let Some(unused) = unused else { continue };
        let volume = way.get::<Volume>("", &claim.spec.volume_name)?.found();
        if volume.and_then(Volume::driver) == Some(driver) {
            let meta = &claim.metadata;
            let object = Ref::new(Kind::Claim, &meta.namespace, &meta.name);
            let since = unused.last_transition_time.0;
            note(
                audit,
                Worth::Unused,
                object,
                since.map(|since| since.to_string()),
            );
        }
    }
    Ok(())
}
