//! The meaning of the driver's response to an expansion.
//!
//! Drivers return less than requested, or no size at all.

use csi_proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use sidecar::controller::{Call, CallError};

use crate::model::Quantity;
use crate::plan::attempt::Log;
use crate::plan::outcome::Cause;
use crate::plan::patch::Capacity;
use crate::plan::request::{self, Announcement};

/// The result of an expansion.
#[derive(Debug)]
pub(in crate::plan) struct Grown {
    /// The volume's new size.
    pub(in crate::plan) capacity: Quantity,
    /// Whether the node has to expand the file system.
    pub(super) on_node: bool,
    told: Told,
}

/// The driver's answer about the size.
#[derive(Debug)]
enum Told {
    Enough,
    /// The driver was not called: the node does everything.
    Unasked,
    Nothing,
    /// Less than requested; the requested bytes.
    Less(i64),
}

impl Grown {
    /// The result of the call in this attempt, if there was one.
    pub(in crate::plan) fn of(log: &Log) -> Option<Result<Self, &CallError>> {
        let (call, result) = log.called::<Call<ControllerExpandVolumeRequest>>()?;
        Some(result.map(|response| Self::answered(response, request::asked(call))))
    }

    /// Interprets the response to a request for `asked` bytes. A driver that returns no size counts
    /// as having reached it.
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

    /// The result if the node does everything, without a call.
    pub(super) fn by_node(target: Quantity) -> Self {
        Self {
            capacity: target,
            on_node: true,
            told: Told::Unasked,
        }
    }

    /// The failure, if the volume is smaller than requested.
    pub(super) fn shortfall(&self) -> Option<Cause> {
        match self.told {
            Told::Less(asked) => Some(Cause::TooSmall(asked, self.capacity.value())),
            Told::Enough | Told::Unasked | Told::Nothing => None,
        }
    }

    /// The capacity for the PersistentVolume, given the claim's capacity `held`. A size that the
    /// node refused may be lowered.
    pub(super) fn on_volume(&self, held: Option<Quantity>) -> Capacity {
        let more = held.is_none_or(|held| held < self.capacity);
        match self.told {
            Told::Unasked if more => Capacity::Exactly(self.capacity),
            Told::Enough | Told::Unasked | Told::Nothing | Told::Less(_) => {
                Capacity::AtLeast(self.capacity)
            }
        }
    }

    /// The events to send once the claim is written, last first.
    pub(in crate::plan) fn announcements(&self) -> Vec<Announcement> {
        let mut left = Vec::new();
        match (&self.told, self.on_node) {
            (Told::Less(_), false) => return left,
            (Told::Less(asked), true) => {
                let cause = Cause::TooSmall(*asked, self.capacity.value());
                left.push(Announcement::warning("VolumeResizeFailed", cause));
            }
            // The expansion succeeded, but the driver violates CSI by returning no size.
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

/// The event for an expansion that the node has to finish.
pub(in crate::plan) fn required_on_node() -> Announcement {
    let message = "Require file system resize of volume on node";
    Announcement::normal("FileSystemResizeRequired", message)
}
