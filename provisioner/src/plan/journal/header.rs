//! The header of an object: whose it is, and how far it was written.
//!
//! It alone decides who leads.

use serde::{Deserialize, Serialize};

use super::object::{Found, HEADER};
use super::request::Owner;

/// The only version of the format there is.
const VERSION: u32 = 1;

/// Who wrote the object, and how far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) driver: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) node: String,
    /// `metadata.uid` of the object that it was written into; none if that was not known, or of a program
    /// that did not write it yet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    /// Each process that begins to lead has a greater one.
    pub(super) epoch: u64,
    /// The process.
    pub(super) holder: String,
    /// The last change that is in the object.
    pub(super) commit: u64,
    /// How many objects the journal has; counts in the first one.
    pub(super) objects: usize,
}

/// What the header of an object is.
pub(super) enum Headed {
    /// There is none, or none that can be read.
    Not,
    /// This one.
    By(Header),
    /// A later version's.
    Later(u32),
}

impl Found {
    pub(super) fn header(&self) -> Headed {
        let text = self.annotations.get(HEADER).map_or("", String::as_str);
        match serde_json::from_str::<Header>(text) {
            Ok(header) if header.version == VERSION => Headed::By(header),
            Ok(header) if header.version > VERSION => Headed::Later(header.version),
            Ok(_) | Err(_) => Headed::Not,
        }
    }

    /// Whether its annotations were written into another object: this one was made from a backup or from an
    /// object of another cluster.
    pub(super) fn is_copy(&self) -> bool {
        let Headed::By(header) = self.header() else {
            return false;
        };
        !header.uid.is_empty() && header.uid != self.uid
    }
}

/// A UID, as the API server makes them.
const UID: &str = "00000000-0000-0000-0000-000000000000";

/// Identities of processes differ in a few digits.
const OTHER_DIGITS: usize = 16;

/// Bytes that the header of an object of `owner` has at most, be it written by this process or a later
/// one.
pub(super) fn room(owner: &Owner) -> usize {
    let longest = Header {
        version: VERSION,
        driver: owner.driver.clone(),
        node: owner.node.clone(),
        uid: UID.to_owned(),
        epoch: u64::MAX,
        holder: owner.holder.clone(),
        commit: u64::MAX,
        objects: usize::MAX,
    };
    HEADER.len() + longest.text().len() + OTHER_DIGITS
}

impl Header {
    /// As it is written.
    pub(super) fn text(mut self) -> String {
        self.version = VERSION;
        serde_json::to_string(&self).unwrap_or_default()
    }
}
