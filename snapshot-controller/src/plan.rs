//! Decisions: pure functions from what was observed to the one next step.
//!
//! Every acceptance row and every crash point can be run in microseconds. Nothing in here awaits,
//! reads a clock, draws a random number or knows a client; such values come in as arguments.
//!
//! | file | decides |
//! |---|---|
//! | `request` | what the controller asks of the API server |
//! | `complaint` | what a failure tells users, and what ends it |
//! | `view` | what a decision looks at |
//! | `snapshot` | the next step for a VolumeSnapshot |
//! | `group` | the next step for a VolumeGroupSnapshot, and for its content |
//! | `status` | what a status shows of a content |
//! | `unhandled` | whether no sidecar answers |
//! | `content` | the next step for a VolumeSnapshotContent |
//! | `grouped` | what groups have something to do with |
//! | `claim` | whether a claim has to stay, and the object that says so |
//! | `secret` | which Secret a class names |
//! | `settled` | with which objects all is done |
//! | `in_flight` | what the process remembers beyond its caches |
//! | `operation` | how long what users wait for takes |
//! | `lifecycle` | how far VolumeSnapshots have come, for figures of service levels |
//! | `informers` | what decisions may look at |
//! | `reactor` | the controller as one object: events, attempts, and what their ends leave |

pub mod claim;
pub mod complaint;
pub mod content;
pub mod group;
pub mod grouped;
pub mod in_flight;
pub mod informers;
pub mod lifecycle;
pub mod operation;
pub mod reactor;
pub mod request;
pub mod secret;
pub mod settled;
pub mod snapshot;
pub mod status;
pub mod unhandled;
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
