//! Decisions: pure functions from what was observed to the one next step.
//!
//! Tests run every acceptance row and every crash point in microseconds. Nothing in here awaits,
//! reads a clock, draws a random number or knows a client; such values are arguments.
//!
//! | file | decides |
//! |---|---|
//! | `request` | the requests to the API server |
//! | `complaint` | how a failure is reported to users, and which change may end it |
//! | `view` | the input of a decision |
//! | `snapshot` | the next step for a VolumeSnapshot |
//! | `group` | the next step for a VolumeGroupSnapshot, and for its content |
//! | `status` | how a status follows its content's |
//! | `silent` | whether no sidecar has begun with a content |
//! | `content` | the next step for a VolumeSnapshotContent |
//! | `grouped` | which objects to requeue once it is known whether groups are served |
//! | `claim` | whether a claim needs our finalizer, and the object with or without it |
//! | `secret` | which Secret a class names |
//! | `settled` | which objects need no attempt |
//! | `in_flight` | the process's state beyond its caches |
//! | `operation` | how long operations that users wait for take |
//! | `informers` | the caches and settings that decisions read |
//! | `reactor` | the controller as one object: events, attempts, and how they end |

pub mod claim;
pub mod complaint;
pub mod content;
pub mod group;
pub mod grouped;
pub mod in_flight;
pub mod informers;
pub mod operation;
pub mod reactor;
pub mod request;
pub mod secret;
pub mod settled;
pub mod silent;
pub mod snapshot;
pub mod status;
pub mod view;

pub use informers::Informers;
pub use reactor::Controller;
pub use view::View;

/// Flags and gates that decisions read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `--enable-distributed-snapshotting`
    pub distributed: bool,
    /// `--prevent-volume-mode-conversion`
    pub keep_mode: bool,
    /// Feature gate `VolumeSnapshotTopology`.
    pub topology: bool,
}

#[cfg(test)]
mod tests;
