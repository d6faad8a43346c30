//! What a driver says that it has.

use std::collections::{BTreeMap, BTreeSet};

use super::seen::{Record, Seen};
use crate::model::{Content, Volume};

/// A volume or snapshot, as its driver lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// 0: the driver does not say.
    pub bytes: i64,
    /// The nodes it is published to, in the driver's words; none if the driver does not say.
    pub nodes: Option<Vec<Box<str>>>,
    /// The same, also of a driver that names them without the capability to.
    pub attached: Vec<Box<str>>,
    /// The group that a snapshot is a member of.
    pub group: Option<Box<str>>,
}

/// Handles.
pub type Handles = BTreeSet<Box<str>>;

/// A driver's volumes, or its snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stock {
    /// All that the driver lists, by handle; or why it lists none.
    pub listed: Result<BTreeMap<Box<str>, Stored>, String>,
    /// Entries of the list that have no id.
    pub unnamed: usize,
    /// Those of the cluster that the driver does not list and answers NOT_FOUND for; none if it cannot be asked for each.
    pub missing: Option<Handles>,
    /// How many the driver was not asked for, since it failed too often before.
    pub unasked: usize,
}

impl Stock {
    /// What the driver lists, or why it lists none.
    #[must_use]
    pub const fn new(listed: Result<BTreeMap<Box<str>, Stored>, String>) -> Self {
        Self {
            listed,
            unnamed: 0,
            missing: None,
            unasked: 0,
        }
    }

    /// Whether the driver says anything.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.listed.is_ok() || self.missing.is_some()
    }

    /// Whether the driver says that it has this one.
    #[must_use]
    pub fn has(&self, handle: &str) -> bool {
        match &self.listed {
            Ok(all) => all.contains_key(handle),
            Err(_) => { self.missing.as_ref() }.is_some_and(|missing| !missing.contains(handle)),
        }
    }
}

/// What a driver has.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Its name.
    pub driver: String,
    pub volumes: Stock,
    pub snapshots: Stock,
    /// Volumes and snapshots that one in its lists is made of, with that one.
    pub sources: BTreeMap<Box<str>, Box<str>>,
}

/// What the cluster calls a driver's volumes and snapshots.
pub fn handles(seen: &Seen, driver: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let volumes = Volume::store(seen).list(None);
    let volumes = volumes.filter_map(|one| one.spec.csi.as_ref());
    let volumes = volumes.filter(|csi| csi.driver == driver);
    let contents = Content::store(seen).list(None);
    let contents = contents.filter(|one| one.spec.driver == driver);
    (
        volumes.map(|csi| csi.volume_handle.to_string()).collect(),
        { contents.filter_map(Content::handle) }
            .map(str::to_owned)
            .collect(),
    )
}
