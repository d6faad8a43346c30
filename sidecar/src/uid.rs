//! UID of an object, which distinguishes it from a later one with the same name.
//!
//! Caches hold one in each of tens of thousands of records, so a UUID is stored as its sixteen
//! bytes.

use std::fmt;

use uuid::Uuid;

use crate::text::Text;

/// `metadata.uid`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Form);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Form {
    Uuid(Uuid),
    /// A UID that no API server generates, but that may still occur.
    Other(Text),
}

impl Uid {
    /// Parses a UID.
    #[must_use]
    pub fn new(text: &str) -> Self {
        // Only if it prints the same text again: two different texts must never be one UID.
        let uuid = Uuid::parse_str(text)
            .ok()
            .filter(|uuid| uuid.to_string() == text);
        Self(uuid.map_or_else(|| Form::Other(text.into()), Form::Uuid))
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self(Form::Other(Text::default()))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Uuid(uuid) => write!(out, "{uuid}"),
            Form::Other(text) => out.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_spelled_as_it_was() {
        for text in [
            "",
            "uid-1",
            "2f0d7a3e-7f0c-4d53-8f4e-0f5f4f7d9a11",
            "2F0D7A3E-7F0C-4D53-8F4E-0F5F4F7D9A11",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert_ne!(
            Uid::new("2f0d7a3e-7f0c-4d53-8f4e-0f5f4f7d9a11"),
            Uid::new("2F0D7A3E-7F0C-4D53-8F4E-0F5F4F7D9A11")
        );
    }
}
