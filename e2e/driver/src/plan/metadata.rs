//! The ranges that SnapshotMetadata calls return.

use tonic::Code;

use super::{Refusal, required};
use crate::model::snapshot::Snapshot;
use crate::model::state::State;
use crate::model::volume::Backing;

/// Size of a block, and so of each range.
pub const BLOCK: i64 = 4096;
/// Ranges per message if the caller sets no limit.
const USUAL: usize = 256;

/// The parameters of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The snapshot whose ranges are requested.
    pub target: Snapshot,
    /// The base of the comparison; `None`: all allocated ranges.
    pub base: Option<Snapshot>,
    /// The first requested block.
    pub first: i64,
    /// Ranges per message.
    pub most: usize,
}

impl Question {
    /// Checks a request; `base` is the snapshot ID of GetMetadataDelta.
    pub fn of(
        state: &State,
        (base, target): (Option<&str>, &str),
        (offset, most): (i64, i32),
    ) -> Result<Self, Refusal> {
        let target = find(state, target)?;
        let base = base.map(|base| find(state, base)).transpose()?;
        if let Some(base) = &base
            && (base.source != target.source || base.sequence > target.sequence)
        {
            let text = format!(
                "{} is not an earlier snapshot of the volume of {}",
                base.id, target.id
            );
            return Err(Refusal::new(Code::InvalidArgument, text));
        }
        if !(0..=target.size).contains(&offset) {
            let text = format!("starting_offset {offset} is not in {} bytes", target.size);
            return Err(Refusal::new(Code::OutOfRange, text));
        }
        let most = usize::try_from(most).ok().filter(|most| *most > 0);
        Ok(Self {
            target,
            base,
            first: offset / BLOCK,
            most: most.unwrap_or(USUAL).min(USUAL),
        })
    }
}

fn find(state: &State, id: &str) -> Result<Snapshot, Refusal> {
    required(id, "snapshot_id")?;
    let Some(snapshot) = state.snapshots.get(id) else {
        return Err(Refusal::new(Code::NotFound, format!("no snapshot {id}")));
    };
    if snapshot.backing != Backing::Image {
        let text = format!("{id} is kept as a folder: blocks are known of images alone");
        return Err(Refusal::new(Code::FailedPrecondition, text));
    }
    Ok(snapshot.clone())
}
