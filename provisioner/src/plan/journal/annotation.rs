//! An annotation as it is written: rendered once, and shared by all writes that contain it.
//!
//! Most annotations stay the same from one write to the next; a write should cost only the changed ones.

use std::sync::Arc;

use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Name and text of an annotation.
#[derive(Debug)]
pub struct Annotation {
    name: String,
    text: String,
    /// `text` as a JSON string.
    json: Box<RawValue>,
}

impl Annotation {
    pub(super) fn new(name: String, text: String) -> Arc<Self> {
        // Neither fails: any text is a JSON string.
        let json = serde_json::value::to_raw_value(&text).unwrap_or_default();
        Arc::new(Self { name, text, json })
    }

    /// The annotation's key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The annotation's value.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Bytes of key and value, as the API server counts them towards its limit.
    pub(super) fn size(&self) -> usize {
        self.name.len() + self.text.len()
    }
}

impl PartialEq for Annotation {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.name == other.name && self.text == other.text
    }
}

impl Eq for Annotation {}

/// `metadata.annotations`.
pub(super) struct Annotations<'a>(pub(super) &'a [Arc<Annotation>]);

impl Serialize for Annotations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.0.iter();
        serializer.collect_map(all.map(|annotation| (&annotation.name, &annotation.json)))
    }
}
