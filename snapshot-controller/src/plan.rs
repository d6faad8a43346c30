//! Decisions: pure functions from what was observed to the one next step.
//!
//! Every acceptance row and every crash point can be run in microseconds. Nothing in here awaits,
//! reads a clock, draws a random number or knows a client; such values come in as arguments.
//!
//! | file | decides |
//! |---|---|
//! | `request` | what the controller asks of the API server |
//! | `complaint` | what a failure tells users, and what ends it |
//! | `subject` | the object of an attempt |
//! | `ask` | what scripts ask for |
//! | `attempt` | the script of an attempt's key, and what its last reply means |
//! | `outcome` | events and failures that follow from a reply |
//! | `pair` | what VolumeSnapshots and VolumeGroupSnapshots do alike |
//! | `snapshot` | the script of a VolumeSnapshot |
//! | `group` | the script of a VolumeGroupSnapshot |
//! | `content` | the script of a content of either |
//! | `class` | which class they have, and which Secret it names |
//! | `origin` | the volume that a snapshot is taken of |
//! | `status` | what a status shows of a content |
//! | `unhandled` | whether no sidecar answers |
//! | `grouped` | what groups have something to do with |
//! | `claim` | whether a claim has to stay, and the object that says so |
//! | `settled` | with which objects all is done |
//! | `in_flight` | what the process remembers beyond its caches |
//! | `operation` | how long what users wait for takes |
//! | `lifecycle` | how far VolumeSnapshots have come, for figures of service levels |
//! | `informers` | what decisions may look at |
//! | `reactor` | the controller as one object: events, attempts, and what their ends leave |

mod ask;
mod attempt;
mod claim;
mod class;
pub mod complaint;
mod content;
pub mod group;
pub mod grouped;
pub mod in_flight;
pub mod informers;
pub mod lifecycle;
pub mod operation;
mod origin;
mod outcome;
mod pair;
pub mod reactor;
pub mod request;
pub mod settled;
mod snapshot;
mod status;
mod subject;
pub mod unhandled;

pub use informers::Informers;
pub use reactor::Controller;

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
