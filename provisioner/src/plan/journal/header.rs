//! The header of an object: whose it is, and how far it was written.
//!
//! Separate, because it alone decides who leads.

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
}

/// Identities of processes differ in a few digits.
const OTHER_DIGITS: usize = 16;

/// Bytes that the header of an object of `owner` has at most, be it written by this process or a later
/// one.
pub(super) fn room(owner: &Owner) -> usize {
    let longest = Header {
        version: VERSION,
        driver: owner.driver.clone(),
        node: owner.node.clone(),
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
