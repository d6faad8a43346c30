//! The volumes and snapshots that a driver reports.

use std::collections::{BTreeMap, BTreeSet};

use super::seen::{Record, Seen};
use crate::model::{Content, Volume};

/// A volume or snapshot in the driver's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// 0 if the driver does not report it.
    pub bytes: i64,
    /// IDs of the nodes that it is published to; `None` without the capability to report them.
    pub nodes: Option<Vec<Box<str>>>,
    /// The same IDs, also from a driver that reports them without the capability.
    pub attached: Vec<Box<str>>,
    /// The group of a snapshot.
    pub group: Option<Box<str>>,
}

/// Handles.
pub type Handles = BTreeSet<Box<str>>;

/// A driver's volumes, or its snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stock {
    /// The driver's whole list by handle, or why there is none.
    pub listed: Result<BTreeMap<Box<str>, Stored>, String>,
    /// Number of listed entries without an ID.
    pub unnamed: usize,
    /// Handles in the cluster that the driver does not list and answers NOT_FOUND for; `None` if it has no call for a
    /// single one.
    pub missing: Option<Handles>,
    /// Number of handles that the driver was not asked about, after too many failures.
    pub unasked: usize,
}

impl Stock {
    /// The driver's list, or why there is none; nothing was looked up by handle.
    #[must_use]
    pub const fn new(listed: Result<BTreeMap<Box<str>, Stored>, String>) -> Self {
        Self {
            listed,
            unnamed: 0,
            missing: None,
            unasked: 0,
        }
    }

    /// Whether the driver reports anything.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.listed.is_ok() || self.missing.is_some()
    }

    /// Whether the driver reports that it has this handle.
    #[must_use]
    pub fn has(&self, handle: &str) -> bool {
        match &self.listed {
            Ok(all) => all.contains_key(handle),
            Err(_) => { self.missing.as_ref() }.is_some_and(|missing| !missing.contains(handle)),
        }
    }
}

/// Everything that a driver reports about its storage.
#[derive(Clone, Debug)]
pub struct Storage {
    /// The driver's name.
    pub driver: String,
    pub volumes: Stock,
    pub snapshots: Stock,
    /// Source volumes and snapshots, each with a listed one that was created from it.
    pub sources: BTreeMap<Box<str>, Box<str>>,
}

/// The handles of a driver's volumes and snapshots in the cluster.
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
