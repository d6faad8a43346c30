//! Kubernetes' access modes as CSI's.
//!
//! All controller sidecars share this table; the driver's capability `SINGLE_NODE_MULTI_WRITER`
//! chooses between its two columns.

use csi_proto::csi::volume_capability::access_mode::Mode;

/// Access modes of `core/v1` that have a counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Mounted read-write by a single node.
    ReadWriteOnce,
    /// Mounted read-only by many nodes.
    ReadOnlyMany,
    /// Mounted read-write by many nodes.
    ReadWriteMany,
    /// Mounted read-write by a single pod.
    ReadWriteOncePod,
}

impl AccessMode {
    /// Parses the API's spelling of a mode.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "ReadWriteOnce" => Some(Self::ReadWriteOnce),
            "ReadOnlyMany" => Some(Self::ReadOnlyMany),
            "ReadWriteMany" => Some(Self::ReadWriteMany),
            "ReadWriteOncePod" => Some(Self::ReadWriteOncePod),
            _ => None,
        }
    }

    /// CSI's mode for a volume with this mode alone. `modern`: the driver has
    /// `SINGLE_NODE_MULTI_WRITER`, which gives single-node volumes a more exact mode.
    #[must_use]
    pub fn mode(self, modern: bool) -> Mode {
        match (self, modern) {
            (Self::ReadWriteMany, _) => Mode::MultiNodeMultiWriter,
            (Self::ReadOnlyMany, _) => Mode::MultiNodeReaderOnly,
            (Self::ReadWriteOnce, true) => Mode::SingleNodeMultiWriter,
            (Self::ReadWriteOncePod, true) => Mode::SingleNodeSingleWriter,
            (Self::ReadWriteOnce | Self::ReadWriteOncePod, false) => Mode::SingleNodeWriter,
        }
    }
}

/// The volume's access modes have no counterpart in CSI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadAccessModes {
    /// `ReadWriteOncePod` beside another mode.
    PodExclusive,
    /// `ReadOnlyMany` beside `ReadWriteOnce`.
    ReaderAndWriter,
    /// No mode, or no known one; carries the modes as written.
    Unsupported(Vec<String>),
}

impl std::fmt::Display for BadAccessModes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PodExclusive => out.write_str(
                "Kubernetes does not support use of ReadWriteOncePod with other access modes on \
                 the same PersistentVolume",
            ),
            Self::ReaderAndWriter => out.write_str(
                "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume",
            ),
            Self::Unsupported(modes) => {
                write!(
                    out,
                    "unsupported AccessMode combination: [{}]",
                    modes.join(" ")
                )
            }
        }
    }
}

impl std::error::Error for BadAccessModes {}

/// Translates Kubernetes' set of modes to CSI's single mode. `modern`: the driver has
/// `SINGLE_NODE_MULTI_WRITER`, which gives single-node volumes a more exact mode.
///
/// # Errors
/// CSI has no mode for this set.
pub fn access_mode<'a>(
    modes: impl Iterator<Item = &'a str> + Clone,
    modern: bool,
) -> Result<Mode, BadAccessModes> {
    let has = |wanted| {
        modes
            .clone()
            .any(|mode| AccessMode::parse(mode) == Some(wanted))
    };
    if has(AccessMode::ReadWriteOncePod) {
        let alone = modes
            .clone()
            .all(|mode| AccessMode::parse(mode) == Some(AccessMode::ReadWriteOncePod));
        return if alone {
            Ok(AccessMode::ReadWriteOncePod.mode(modern))
        } else {
            Err(BadAccessModes::PodExclusive)
        };
    }
    let reader = has(AccessMode::ReadOnlyMany);
    let writer = has(AccessMode::ReadWriteOnce);
    let mode = match (has(AccessMode::ReadWriteMany), reader, writer) {
        (true, _, _) => AccessMode::ReadWriteMany,
        (false, true, true) => return Err(BadAccessModes::ReaderAndWriter),
        (false, true, false) => AccessMode::ReadOnlyMany,
        (false, false, true) => AccessMode::ReadWriteOnce,
        (false, false, false) => {
            return Err(BadAccessModes::Unsupported(
                modes.map(str::to_owned).collect(),
            ));
        }
    };
    Ok(mode.mode(modern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_alone_has_its_counterpart() {
        let rows = [
            (
                "ReadWriteOnce",
                Mode::SingleNodeWriter,
                Mode::SingleNodeMultiWriter,
            ),
            (
                "ReadWriteOncePod",
                Mode::SingleNodeWriter,
                Mode::SingleNodeSingleWriter,
            ),
            (
                "ReadOnlyMany",
                Mode::MultiNodeReaderOnly,
                Mode::MultiNodeReaderOnly,
            ),
            (
                "ReadWriteMany",
                Mode::MultiNodeMultiWriter,
                Mode::MultiNodeMultiWriter,
            ),
        ];
        for (text, plain, modern) in rows {
            let mode = AccessMode::parse(text).unwrap();
            let one = |modern| access_mode(std::iter::once(text), modern);
            assert!(
                mode.mode(false) == plain && one(false) == Ok(plain),
                "{text}"
            );
            assert!(
                mode.mode(true) == modern && one(true) == Ok(modern),
                "{text}"
            );
        }
        assert_eq!(AccessMode::parse("readwriteonce"), None);
    }
}
