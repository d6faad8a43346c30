//! Volume capabilities: whether they are complete, and fit a volume.

use csi_proto::csi;
use csi_proto::csi::volume_capability::access_mode::Mode;
use tonic::Code;

use super::Refusal;
use crate::model::volume::{self, Kind, Volume};

/// Checks that the capability has an access type and an access mode.
pub fn check(capability: &csi::VolumeCapability) -> Result<Kind, Refusal> {
    let invalid = |message: &str| Refusal::new(Code::InvalidArgument, message);
    let kind = volume::kind(capability)
        .ok_or_else(|| invalid("volume capability has neither mount nor block"))?;
    match Mode::try_from(volume::access_mode(capability)) {
        Ok(Mode::Unknown) | Err(_) => Err(invalid("volume capability has no access mode we know")),
        Ok(_) => Ok(kind),
    }
}

/// Like [`check`], for a field that may be absent.
pub fn required(capability: Option<&csi::VolumeCapability>) -> Result<Kind, Refusal> {
    match capability {
        Some(capability) => check(capability),
        None => Err(Refusal::new(
            Code::InvalidArgument,
            "volume capability missing in request",
        )),
    }
}

/// Checks all capabilities of a request, which must have the same access type.
pub fn check_all(capabilities: &[csi::VolumeCapability]) -> Result<Kind, Refusal> {
    let mut kinds = capabilities
        .iter()
        .map(check)
        .collect::<Result<Vec<Kind>, Refusal>>()?;
    kinds.dedup();
    match kinds.as_slice() {
        [] => Err(Refusal::new(
            Code::InvalidArgument,
            "volume capabilities missing in request",
        )),
        [kind] => Ok(*kind),
        _ => Err(Refusal::new(
            Code::InvalidArgument,
            "a volume cannot be a file system and a block device at once",
        )),
    }
}

/// Fails if the volume was created for the other access type.
pub fn fits(volume: &Volume, kind: Kind) -> Result<(), Refusal> {
    if volume.kind == kind {
        return Ok(());
    }
    let message = format!(
        "volume {} is {:?}, requested is {kind:?}",
        volume.id, volume.kind
    );
    Err(Refusal::new(Code::InvalidArgument, message))
}

/// Whether only one node at a time may use the volume.
pub fn is_single_node(mode: i32) -> bool {
    match Mode::try_from(mode) {
        Ok(
            Mode::SingleNodeWriter
            | Mode::SingleNodeReaderOnly
            | Mode::SingleNodeSingleWriter
            | Mode::SingleNodeMultiWriter,
        ) => true,
        Ok(
            Mode::Unknown
            | Mode::MultiNodeReaderOnly
            | Mode::MultiNodeSingleWriter
            | Mode::MultiNodeMultiWriter,
        )
        | Err(_) => false,
    }
}

/// Whether only one target path on a node at a time may use the volume.
pub fn is_single_writer(mode: i32) -> bool {
    mode == Mode::SingleNodeSingleWriter as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{block, mount};

    #[test]
    fn capabilities_must_be_complete_and_agree() {
        let code = |list: &[csi::VolumeCapability]| check_all(list).map_err(|e| e.code);
        let writer = Mode::SingleNodeWriter;
        assert_eq!(code(&[]), Err(Code::InvalidArgument));
        assert_eq!(
            code(&[csi::VolumeCapability::default()]),
            Err(Code::InvalidArgument)
        );
        assert_eq!(code(&[mount(Mode::Unknown)]), Err(Code::InvalidArgument));
        assert_eq!(
            code(&[mount(writer), block(writer)]),
            Err(Code::InvalidArgument)
        );
        assert_eq!(
            code(&[mount(writer), mount(Mode::MultiNodeReaderOnly)]),
            Ok(Kind::Mount)
        );
        assert_eq!(code(&[block(writer)]), Ok(Kind::Block));
    }
}
