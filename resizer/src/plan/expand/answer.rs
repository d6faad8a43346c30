//! What the driver's answer to an expansion means.
//!
//! Drivers answer with less than they were asked for, or with nothing at all.

use csi_proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use sidecar::controller::{Call, CallError};

use crate::model::Quantity;
use crate::plan::attempt::Log;
use crate::plan::outcome::Cause;
use crate::plan::patch::Capacity;
use crate::plan::request::{self, Announcement};

/// What there is now.
#[derive(Debug)]
pub(in crate::plan) struct Grown {
    /// The volume's size.
    pub(in crate::plan) capacity: Quantity,
    /// Whether the node has to do its part.
    pub(super) on_node: bool,
    told: Told,
}

/// What the driver said about the size.
#[derive(Debug)]
enum Told {
    Enough,
    /// It was not asked: the node is to do it all.
    Unasked,
    Nothing,
    /// With the bytes asked for.
    Less(i64),
}

impl Grown {
    /// What the driver answered in this attempt.
    pub(in crate::plan) fn of(log: &Log) -> Option<Result<Self, &CallError>> {
        let (call, result) = log.called::<Call<ControllerExpandVolumeRequest>>()?;
        Some(result.map(|response| Self::answered(response, request::asked(call))))
    }

    /// The driver's answer to a request for `asked` bytes. A driver that names no size has done what
    /// it was asked.
    fn answered(answer: &ControllerExpandVolumeResponse, asked: i64) -> Self {
        let (bytes, told) = match answer.capacity_bytes {
            ..=0 => (asked, Told::Nothing),
            bytes if bytes < asked => (bytes, Told::Less(asked)),
            bytes => (bytes, Told::Enough),
        };
        Self {
            capacity: Quantity::from_bytes(bytes),
            on_node: answer.node_expansion_required,
            told,
        }
    }

    /// Nobody was asked: the node does it all.
    pub(super) fn by_node(target: Quantity) -> Self {
        Self {
            capacity: target,
            on_node: true,
            told: Told::Unasked,
        }
    }

    /// The volume is smaller than was asked for.
    pub(super) fn shortfall(&self) -> Option<Cause> {
        match self.told {
            Told::Less(asked) => Some(Cause::TooSmall(asked, self.capacity.value())),
            Told::Enough | Told::Unasked | Told::Nothing => None,
        }
    }

    /// What the PersistentVolume is to say, of a claim that has `held`. What the node refused may be
    /// taken back.
    pub(super) fn on_volume(&self, held: Option<Quantity>) -> Capacity {
        let more = held.is_none_or(|held| held < self.capacity);
        match self.told {
            Told::Unasked if more => Capacity::Exactly(self.capacity),
            Told::Enough | Told::Unasked | Told::Nothing | Told::Less(_) => {
                Capacity::AtLeast(self.capacity)
            }
        }
    }

    /// What there is to tell once the claim is written, last first.
    pub(in crate::plan) fn announcements(&self) -> Vec<Announcement> {
        let mut left = Vec::new();
        match (&self.told, self.on_node) {
            (Told::Less(_), false) => return left,
            (Told::Less(asked), true) => {
                let cause = Cause::TooSmall(*asked, self.capacity.value());
                left.push(Announcement::warning("VolumeResizeFailed", cause));
            }
            // The expansion did not fail, but the driver's answer was not what CSI asks for.
            (Told::Nothing, _) => left.push(Announcement::warning(
                "VolumeResizeCapacityUnknown",
                format_args!(
                    "the driver did not report the volume's new size; assuming {}",
                    self.capacity
                ),
            )),
            (Told::Enough | Told::Unasked, _) => {}
        }
        left.push(if self.on_node {
            required_on_node()
        } else {
            Announcement::normal("VolumeResizeSuccessful", "Resize volume succeeded")
        });
        left
    }
}

/// The node has its part to do.
pub(in crate::plan) fn required_on_node() -> Announcement {
    let message = "Require file system resize of volume on node";
    Announcement::normal("FileSystemResizeRequired", message)
}
