//! Settings from the command line that decisions depend on.
//!
//! Decisions depend on values, not on flags.

use std::time::Duration;

/// Hexadecimal digits of a UID.
pub const WHOLE_UID: usize = 32;

/// Settings that decisions depend on; constant while the process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Naming scheme of snapshots.
    pub name: Name,
    /// `--extra-create-metadata`
    pub extra_create_metadata: bool,
    /// Feature gate `CSIGetSnapshot`
    pub get_snapshot: bool,
    /// Feature gate `VolumeSnapshotTopology`
    pub topology: bool,
    /// `--retry-interval-max`
    pub retry_max: Duration,
}

/// Naming scheme of snapshots in the storage system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// `--snapshot-name-prefix`
    pub prefix: String,
    /// `--snapshot-name-uuid-length`; `None` keeps the UID unchanged.
    pub length: Option<usize>,
}

impl Name {
    /// The name of the snapshot for the VolumeSnapshot with this UID.
    #[must_use]
    pub fn of(&self, uid: &str) -> String {
        let prefix = &self.prefix;
        match self.length {
            None => format!("{prefix}-{uid}"),
            Some(length) => {
                let digits = uid.chars().filter(|c| *c != '-');
                let digits: String = digits.take(length).collect();
                format!("{prefix}-{digits}")
            }
        }
    }
}

impl Default for Settings {
    /// The flags' defaults.
    fn default() -> Self {
        Self {
            name: Name {
                prefix: "snapshot".to_owned(),
                length: None,
            },
            extra_create_metadata: false,
            get_snapshot: false,
            topology: false,
            retry_max: Duration::from_secs(300),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_33_s_34_names() {
        let uid = "0123abcd-4567-89ab-cdef-0123456789ab";
        for (row, prefix, length, expected) in [
            (
                "S-31",
                "snapshot",
                None,
                "snapshot-0123abcd-4567-89ab-cdef-0123456789ab",
            ),
            ("S-33", "p", None, "p-0123abcd-4567-89ab-cdef-0123456789ab"),
            ("S-34", "snapshot", Some(8), "snapshot-0123abcd"),
            ("S-34", "snapshot", Some(12), "snapshot-0123abcd4567"),
            (
                "1.5",
                "snapshot",
                Some(32),
                "snapshot-0123abcd456789abcdef0123456789ab",
            ),
        ] {
            let name = Name {
                prefix: prefix.to_owned(),
                length,
            };
            assert_eq!(name.of(uid), expected, "{row}");
        }
    }
}
