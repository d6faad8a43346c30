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
