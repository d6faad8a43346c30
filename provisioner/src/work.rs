//! Executors of what [`plan`](crate::plan) decides, and how API objects are read.
//!
//! | file | contents |
//! |---|---|
//! | `record` | records of [`model`](crate::model) out of the API server's JSON |
//! | `api` | kinds of objects, and what failures of requests mean |
//! | `discovery` | kinds that an API server may lack |
//! | `driver` | the driver behind its socket, through its restarts |
//! | `informers` | caches, and what their changes are to the controller |
//! | `executor` | executes requests |
//! | `step` | what attempts for claims need beyond single requests, and their calls |
//! | `holders` | which PersistentVolumes have which volumes |
//! | `telling` | what the controller has to say |
//! | `journal` | the provisioning journal at the API server |
//! | `attributes` | VolumeAttributesClasses that claims wait for |
//! | `protection` | finalizers of snapshots |
//! | `events` | events |
//! | `metrics` | what is counted |
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
mod step;
mod telling;
