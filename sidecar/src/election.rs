//! Leader election over a `coordination.k8s.io/v1` Lease, as client-go does it.
//!
//! [`decide`] says what to do, [`lease`] how it reads, `Elector` (feature `kube`) does it, and [`Fence`]
//! keeps back what would be sent without the lease. See `docs/adr/0006-own-queue-and-election.md`.

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
