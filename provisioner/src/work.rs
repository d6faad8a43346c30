//! Executors of the decisions in [`plan`](crate::plan), and the decoding of API objects.
//!
//! | file | contents |
//! |---|---|
//! | `record` | decodes API objects into the records of [`model`](crate::model) |
//! | `api` | kinds of objects, and the paths of their requests |
//! | `discovery` | discovers kinds that an API server may lack |
//! | `driver` | the driver behind its socket, through its restarts |
//! | `informers` | caches, and their changes as the reactor gets them |
//! | `executor` | executes the controller's requests |
//! | `step` | steps for claims that take more than one request, and their calls to the driver |
//! | `holders` | finds the PersistentVolume of a volume |
//! | `reporting` | turns notices into log lines, events and metrics |
//! | `journal` | the provisioning journal at the API server |
//! | `attributes` | polls VolumeAttributesClasses that claims wait for |
//! | `protection` | removes finalizers from snapshots |
//! | `events` | events on claims and volumes |
//! | `metrics` | this program's own metrics |
//! | `capacity` | CSIStorageCapacity objects |

pub mod api;
pub mod attributes;
pub mod capacity;
pub mod discovery;
pub mod driver;
pub mod events;
pub mod executor;
mod holders;
pub mod informers;
pub mod journal;
pub mod metrics;
pub mod protection;
pub mod record;
mod reporting;
mod step;
