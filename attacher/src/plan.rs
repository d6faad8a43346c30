//! Decisions: pure functions from observations to the next step.
//!
//! Nothing in here awaits, reads a clock, draws a random number or uses a client; such values
//! arrive as arguments. So tests run every acceptance row and every crash point in microseconds.
//!
//! | file | decides |
//! |---|---|
//! | `attempt` | the script for a key, and which replies end it immediately |
//! | `attachment` | the scripts of attach and detach |
//! | `view` | the objects a decision reads |
//! | `trivial` | the status for a driver that cannot publish volumes |
//! | `request` | patches, publish and unpublish requests |
//! | `capability` | CSI's volume capability for access modes and volume mode |
//! | `volume` | when the volume's finalizer is added and removed |
//! | `status` | bodies of patches |
//! | `outcome` | messages and codes of failures |
//! | `drift` | which attachments `ListVolumes` contradicts |
//! | `event` | which object changes start an attempt |
//! | `flight` | one call at a time per volume and node |
//! | `orphan` | volumes that deleted VolumeAttachments left published, and when to unpublish them |
//! | `in_flight` | state of the process beyond its caches |
//! | `informers` | the caches and the driver, as decisions read them |
//! | `lifecycle` | the progress of VolumeAttachments, for service levels |
//! | `reactor` | the attacher as one object: changes, attempts, and follow-up work |
//! | `fairness` | lanes for attach and detach, fairness among nodes |
//! | `driver` | the driver's capabilities, and which changes of them end the process |

pub mod attachment;
pub mod attempt;
pub mod capability;
pub mod drift;
pub mod driver;
pub mod event;
pub mod fairness;
pub mod flight;
pub mod in_flight;
pub mod informers;
pub mod lifecycle;
pub mod orphan;
pub mod outcome;
pub mod reactor;
pub mod request;
pub mod status;
pub mod trivial;
pub mod view;
pub mod volume;

pub use driver::Driver;
pub use informers::Informers;
pub use reactor::Attacher;
pub use view::View;
