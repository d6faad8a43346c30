//! Decisions: pure functions from what was observed to the one next step.
//!
//! | file | decides |
//! |---|---|
//! | `mode` | which calls are made, by the driver's capabilities |
//! | `normalise` | health conditions out of a driver's report |
//! | `decision` | what becomes of a claim in view of a report |
//! | `event` | when users are told of the condition that an older driver reports |
//! | `list` | one cycle of a list: pages, tokens, what is in it |
//! | `pace` | when which volume is asked about, one by one |
//! | `field` | whether the API server keeps health conditions |
//! | `volumes` | PersistentVolumes by volume handle |
//! | `request` | what is asked of API server and driver |
//! | `informers` | what decisions may look at |
//! | `settings` | what the command line says about it |
//! | `reactor` | the health monitor as one object: events, attempts, and what their ends leave |

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
