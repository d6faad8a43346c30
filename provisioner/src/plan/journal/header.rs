//! The header of an object: its owner, and the last change that was written.
//!
//! Only the header decides which process leads.

use serde::{Deserialize, Serialize};

use super::object::{Found, HEADER};
use super::request::Owner;

/// The only version of the format so far.
const VERSION: u32 = 1;

/// Which process wrote the object, and up to which change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) driver: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) node: String,
    /// `metadata.uid` of the object that it was written into; empty if the writer did not know it, or was a version of
    /// the program that did not write it yet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    /// Each process that begins to lead has a greater epoch.
    pub(super) epoch: u64,
    /// The process that wrote it.
    pub(super) holder: String,
    /// The last change that is in the object.
    pub(super) commit: u64,
    /// Number of the journal's objects; counts in the first one only.
    pub(super) objects: usize,
}

/// Result of reading an object's header.
pub(super) enum Headed {
    /// The object has no header, or one that cannot be decoded.
    Not,
    /// The decoded header.
    By(Header),
    /// It has a later version of the format.
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

    /// Whether its annotations were written into another object: this one was made from a backup or from an object of
    /// another cluster.
    pub(super) fn is_copy(&self) -> bool {
        let Headed::By(header) = self.header() else {
            return false;
        };
        !header.uid.is_empty() && header.uid != self.uid
    }
}

/// A UID of the API server's format.
const UID: &str = "00000000-0000-0000-0000-000000000000";

/// Identities of processes differ in a few digits.
const OTHER_DIGITS: usize = 16;

/// Greatest size of the header of an object of `owner` in bytes, written by this process or a later one.
pub(super) fn max_bytes(owner: &Owner) -> usize {
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
    /// The header's text in the annotation.
    pub(super) fn text(mut self) -> String {
        self.version = VERSION;
        serde_json::to_string(&self).unwrap_or_default()
    }
}
