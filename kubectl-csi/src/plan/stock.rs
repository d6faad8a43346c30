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

/// What is known of a driver's volumes, or of its snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stock {
    /// All there are.
    Listed(BTreeMap<Box<str>, Stored>),
    /// The driver lists none; it was asked for those that the cluster knows, and does not have these.
    Without(Handles),
    /// Neither; why.
    Unknown(String),
}

impl Stock {
    /// Whether the driver says anything.
    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown(_))
    }
}

/// What a driver has.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Its name.
    pub driver: String,
    pub volumes: Stock,
    pub snapshots: Stock,
    /// Entries of its lists of volumes and of snapshots that have no id.
    pub unnamed: (usize, usize),
    /// Volumes and snapshots of the cluster that it does not list, and answers NOT_FOUND for when it is asked for them; none if it cannot be asked.
    pub missing: (Option<Handles>, Option<Handles>),
    /// How many volumes and snapshots it was not asked for, since it failed too often before.
    pub unasked: (usize, usize),
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
