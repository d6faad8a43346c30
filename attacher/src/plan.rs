//! Decisions: pure functions from what was observed to the one next step.
//!
//! Every acceptance row and every crash point can be run in microseconds. Nothing in here awaits,
//! reads a clock, draws a random number or knows a client; such values come in as arguments.
//!
//! | file | decides |
//! |---|---|
//! | `attempt` | the script of a key, and which replies end it at once |
//! | `attachment` | attach and detach as scripts |
//! | `view` | what a decision looks at |
//! | `trivial` | the status of a driver that has nothing to publish |
//! | `request` | patches, publish and unpublish requests |
//! | `capability` | access modes to CSI's volume capability |
//! | `volume` | when the volume's finalizer is added and removed |
//! | `status` | bodies of patches |
//! | `outcome` | texts and codes of failures |
//! | `drift` | which attachments differ from the driver's list |
//! | `event` | which changes of objects are work |
//! | `flight` | one call at a time for a volume and node |
//! | `orphan` | what attachments that are gone left published, and when it is unpublished |
//! | `in_flight` | what the process remembers beyond its caches |
//! | `informers` | what decisions may look at |
//! | `lifecycle` | the progress of VolumeAttachments, for service levels |
//! | `reactor` | the attacher as one object: events, attempts, and what their ends leave |
//! | `fairness` | whose turn it is: attach and detach lanes, fairness among nodes |
//! | `driver` | what the driver can do, and which changes of it end the process |

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
