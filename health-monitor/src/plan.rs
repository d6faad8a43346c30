//! Decisions: pure functions from observations to the next step.
//!
//! | file | decides |
//! |---|---|
//! | `mode` | which calls to make, by the driver's capabilities |
//! | `normalise` | a driver's report as health conditions |
//! | `decision` | the change to a claim after a report |
//! | `event` | when to send an event about the condition that an older driver reports |
//! | `list` | one list of all volumes: pages, tokens, reports |
//! | `pace` | when to query which volume, for drivers without lists |
//! | `field` | whether the API server stores health conditions |
//! | `volumes` | PersistentVolumes by volume handle |
//! | `request` | requests to the API server and the driver |
//! | `informers` | the caches and the driver, as decisions read them |
//! | `settings` | flags that decisions read |
//! | `reactor` | the health monitor as one object: changes, attempts, and follow-up work |

pub mod decision;
pub mod event;
pub mod field;
pub mod informers;
pub mod list;
pub mod mode;
pub mod normalise;
pub mod pace;
pub mod reactor;
pub mod request;
pub mod settings;
pub mod volumes;

pub use informers::Informers;
pub use mode::Driver;
pub use reactor::{HealthMonitor, Key};
pub use settings::Settings;
