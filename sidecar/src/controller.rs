//! The frame around every controller's work: it starts, connects to its driver and follows it through
//! restarts, exposes metrics, leads, watches and shuts down.
//!
//! All controllers of a process share its [`process`]; each one has a [`seat`]. A controller declares its
//! watches ([`watch`]), is driven by the [`engine`], and runs as [`tasks`] until the process gets a signal.
//!
//! Shell only: the controller decides what to work on, and whether it can go on with a driver that
//! restarted.

pub mod call;
pub mod driver_info;
pub mod engine;
pub mod execute;
pub mod flags;
pub mod incompatible;
pub mod lead;
pub mod link;
pub mod process;
pub mod program;
pub mod reactor;
pub mod ready;
pub mod request;
pub mod script;
pub mod seat;
mod secure;
pub mod serve;
pub mod shared;
pub mod tasks;
mod tenure;
pub mod view;
pub mod watch;
pub mod zpages;

pub use call::{Call, CallError, Calls};
pub use flags::{Election, Http, Pacing};
pub use incompatible::IncompatibleDriver;
pub use link::{Capabilities, DriverHandshake, Link};
pub use process::{Process, Program};
pub use program::{Command, run};
pub use request::{Reply, Request, Requests, Write};
pub use seat::{ControllerLimits, Seat};
pub use shared::{AnyController, Controller};
pub use tasks::Tasks;
pub use tenure::Tenure;
pub use view::{Driver, Followed, View};
pub use watch::Watch;
