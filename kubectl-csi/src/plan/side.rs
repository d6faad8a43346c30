//! Compares one list of a driver, of volumes or of snapshots, with what the cluster names.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use migration::TRANSLATOR;

use super::audit::{Audit, Compare};
use super::difference::{Difference, DifferenceKind, Note, NoteKind};
use super::named::{Cluster, Named, WithoutHandle};
use super::spelling::{Alike, alike};
use super::stock::{Stock, Storage, Stored};
use super::volume_users::is_ephemeral;
use crate::model::Ref;

/// Number of objects without a handle that an answer names; the rest it counts.
const FEW: usize = 3;

/// Reasons why an unnamed volume may still be this cluster's, or why an unlisted one may still exist.
pub(super) type Why = BTreeSet<Arc<str>>;

/// Why the storage is shared: a volume is attached to a node that is not this cluster's.
fn is_shared(storage: &Storage, cluster: &Cluster) -> Option<Arc<str>> {
    let volumes = storage.volumes.listed.as_ref().ok()?;
    let mut nodes = volumes.values().flat_map(|one| &one.attached);
    let node = nodes.find(|node| !cluster.nodes.contains(&***node))?;
    Some(format!("another cluster uses the same storage: it has a volume attached to {node}, which is no node of this one").into())
}

/// Why volumes that a list lacks may exist: the list is incomplete, or of another cluster's storage.
fn lacking(all: usize, found: usize, unnamed: usize, objects: &str) -> Why {
    let mut why = Why::new();
    if unnamed > 0 {
        why.insert(format!("{unnamed} entries of the driver's list have no id").into());
    }
    if found * 2 < all {
        why.insert(format!("the driver has only {found} of the {all} {objects} of this cluster: its list is not whole, or it is another cluster's").into());
    }
    why
}

/// A volume or snapshot that has to be in the storage.
pub(super) struct Expected<'a> {
    pub(super) handle: &'a str,
    pub(super) object: Ref,
    /// Why it may exist although the driver does not list it.
    pub(super) why: Why,
}

/// One of the two comparisons: of volumes, or of snapshots.
pub(super) struct Side<'a> {
    /// Kind of the difference if only the storage has it.
    pub(super) unknown: DifferenceKind,
    /// Kind of the difference if only the cluster has it.
    pub(super) lost: DifferenceKind,
    /// Plural noun of the cluster's objects.
    pub(super) objects: &'static str,
    /// The driver's list.
    pub(super) stock: &'a Stock,
    pub(super) named: &'a Named,
    pub(super) cluster: &'a Cluster,
}

impl Side<'_> {
    /// Notes what only one side has; `expected` has to be in the storage. Returns how many entries of the driver's list
    /// are known.
    pub(super) fn compare(
        &self,
        compare: Compare<'_>,
        expected: &[Expected<'_>],
        mut reasons: Why,
        audit: &mut Audit,
    ) -> usize {
        let storage = compare.storage;
        let gone = { expected.iter() }.filter(|one| !self.stock.has(one.handle));
        let gone: Vec<_> = gone.collect();
        let (all, found) = (expected.len(), expected.len() - gone.len());
        let lacking = lacking(all, found, self.stock.unnamed, self.objects);
        reasons.extend(lacking.iter().cloned());
        reasons.extend(is_shared(storage, self.cluster));
        reasons.extend(self.reasons(compare.first, audit));
        let strange = self.strange(audit);
        let mut known = self.listed().count() - strange.len();
        known += self.unknown(compare, &strange, &reasons, audit);
        let handles: Vec<&str> = gone.iter().map(|one| one.handle).collect();
        let spelled = alike(&handles, &strange, &[]);
        for Expected {
            handle,
            object,
            why,
        } in gone
        {
            let mut why: Why = lacking.union(why).cloned().collect();
            if spelled.contains_key(handle) {
                why.insert("the driver lists one with a handle much like this".into());
            }
            why.extend(self.may_be_there(handle, !strange.is_empty()));
            audit.note(Difference {
                why,
                ..Difference::new(self.lost, handle).of(object.clone())
            });
        }
        known
    }

    fn listed(&self) -> impl Iterator<Item = (&Box<str>, &Stored)> {
        self.stock.listed.iter().flatten()
    }

    /// Why an unlisted volume or snapshot may be in the storage, perhaps under another handle.
    fn may_be_there(&self, handle: &str, has_strange: bool) -> Option<Arc<str>> {
        let why = match &self.stock.missing {
            _ if self.named.by_hand.contains(handle) => {
                "a person wrote its handle, and the driver may have it under another one"
            }
            Some(missing) if missing.contains(handle) => return None,
            Some(_) => {
                "the driver does not list it, and does not answer NOT_FOUND when it is asked for it"
            }
            None if has_strange => {
                "the driver cannot be asked for it, and lists some that nothing names: this may be one of them"
            }
            None => return None,
        };
        Some(why.into())
    }

    /// Reasons that hold for every unknown one: objects without a known handle, and objects whose handle the driver
    /// does not list.
    fn reasons(&self, first: Option<&Audit>, audit: &Audit) -> Why {
        let named = self.named;
        let mut why: Why = { named.unread.iter() }
            .map(|text| Arc::from(&**text))
            .collect();
        // A volume of an object that did not exist at the first look was created after the driver's first list. The
        // first look itself keeps all objects that may mean an old volume: they may be gone at the second.
        let none = BTreeSet::new();
        let before = first.map_or(&none, |first| &first.seen);
        let counts = |one: &WithoutHandle| one.may_be_older(before);
        let without_handle = { named.without_handle.iter() }
            .filter(|(key, one)| counts(one) && !self.stock.has(key));
        let without_handle = without_handle.map(|(_, one)| one.why.clone());
        let driver = &*audit.driver;
        let translated = |handle: &str| {
            let own = self.cluster.in_tree.iter().any(|(one, _)| one == handle);
            let mut listed = self.listed();
            own && listed.any(|(one, _)| TRANSLATOR.may_be_one(driver, handle, one))
        };
        let unlisted = { named.by.iter() }.filter(|(handle, (_, other))| {
            let is_own = { other.as_ref() }.is_none_or(|other| self.cluster.twins.contains(other));
            let is_own = is_own && !named.without_handle.contains_key(*handle);
            let is_own = is_own && !self.stock.has(handle);
            is_own && self.may_be_there(handle, true).is_some() && !translated(handle)
        });
        let unlisted = unlisted.filter(|_| first.is_some());
        let unlisted = unlisted.map(|(_, (object, _))| {
            format!("the driver does not list what {object} names: this may be it")
        });
        let texts: Vec<String> = without_handle.chain(unlisted).collect();
        why.extend(texts.iter().take(FEW).map(|text| Arc::from(&**text)));
        if let Some(more) = texts.len().checked_sub(FEW).filter(|more| *more > 0) {
            why.insert(format!("so it is for {more} more objects").into());
        }
        why
    }

    /// The listed handles that no object names.
    fn strange(&self, audit: &mut Audit) -> Vec<&str> {
        let mut strange = Vec::new();
        for (handle, _) in self.listed() {
            match self.named.by.get(&**handle) {
                None => strange.push(&**handle),
                Some((object, other)) => audit.notes.extend(other.clone().map(|other| Note {
                    kind: NoteKind::OtherDriver,
                    object: object.clone(),
                    detail: Some(other),
                })),
            }
        }
        strange
    }

    /// Notes those of the strange handles that are unknown. Returns how many of them objects of in-tree plugins may
    /// mean.
    fn unknown(
        &self,
        compare: Compare<'_>,
        strange: &[&str],
        reasons: &Why,
        audit: &mut Audit,
    ) -> usize {
        let driver = &*compare.storage.driver;
        let alike = likeness(self.cluster, strange);
        let mut known = 0;
        let listed = self.stock.listed.as_ref().ok();
        for handle in strange {
            let Some(one) = listed.and_then(|listed| listed.get(*handle)) else {
                continue;
            };
            let mut why = reasons.clone();
            why.extend(alike.get(handle).map(|text| Arc::from(&**text)));
            why.extend(self.uses(handle, one, compare.storage));
            let translated = { self.cluster.in_tree.iter() }
                .find(|(other, _)| TRANSLATOR.may_be_one(driver, other, handle));
            if let Some((_, object)) = translated {
                known += 1;
                why.insert(format!("{object} of an in-tree plugin may be it").into());
            }
            if !handle.starts_with(compare.owned) {
                audit.others += 1;
                continue;
            }
            audit.note(Difference {
                bytes: (one.bytes > 0).then_some(one.bytes),
                why,
                ..Difference::new(self.unknown, handle)
            });
        }
        known
    }

    /// The users of a volume that the storage itself shows.
    fn uses(&self, handle: &str, one: &Stored, storage: &Storage) -> Why {
        let attached = one.attached.first();
        let attached =
            attached.map(|node| format!("the storage has it attached to a node, {node}"));
        let made = storage.sources.get(handle);
        let made = made.map(|made| format!("the storage has {made}, which is made of it"));
        let group = one.group.as_ref();
        let group = group.and_then(|group| self.cluster.sources.get(&**group));
        let group = group.map(|object| format!("it is a member of {object}"));
        let is_pods = self.unknown == DifferenceKind::UnknownVolume && is_ephemeral(handle);
        let pods = is_pods.then(|| {
            "kubelet names a pod's own volume so, which may still run on a node that does not answer".to_owned()
        });
        let uses = [attached, made, group, pods].into_iter().flatten();
        uses.map(Arc::from).collect()
    }
}

/// For each strange handle that resembles a name in the cluster: which object, in words.
fn likeness<'a>(cluster: &Cluster, strange: &[&'a str]) -> HashMap<&'a str, String> {
    let mut handles: Vec<(&str, &Ref)> = Vec::new();
    for named in [&cluster.volumes, &cluster.snapshots] {
        let by = named.by.iter();
        handles.extend(by.map(|(handle, (object, _))| (&**handle, object)));
    }
    let sources = cluster.sources.iter();
    handles.extend(sources.map(|(handle, object)| (&**handle, object)));
    let texts: Vec<&str> = handles.iter().map(|(handle, _)| *handle).collect();
    let names: Vec<&str> = cluster.names.iter().map(|(name, _)| &**name).collect();
    let said = |alike: Alike| {
        let Alike::To(number) = alike else {
            return "its handle cannot be compared with others".to_owned();
        };
        if let Some((_, object)) = handles.get(number) {
            return format!("{object} names it, or one with a handle much like it");
        }
        let name = number.checked_sub(handles.len());
        let name = name.and_then(|number| cluster.names.get(number));
        let object = name.map(|(_, object)| object.to_string());
        let object = object.unwrap_or_default();
        format!("its handle has a name or the UID of {object} in it")
    };
    let found = alike(strange, &texts, &names).into_iter();
    found.map(|(handle, alike)| (handle, said(alike))).collect()
}
