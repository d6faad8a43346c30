//! Leader election over a `coordination.k8s.io/v1` Lease, as client-go does it.
//!
//! [`decide`] chooses each step, [`lease`] reads and writes the Lease's JSON, `Elector` (feature `kube`)
//! executes the steps, and [`Fence`] blocks sending without the lease. See
//! `docs/adr/0006-own-queue-and-election.md`.

pub mod decide;
#[cfg(feature = "kube")]
mod elector;
mod fence;
mod guarded;
#[cfg(feature = "kube")]
mod health;
pub mod lease;
mod timing;

pub use decide::Lost;
#[cfg(feature = "kube")]
pub use elector::{Config, Elector};
pub use fence::Fence;
pub use guarded::Guarded;
#[cfg(feature = "kube")]
pub use health::Health;
pub use timing::{Timing, TimingError};
