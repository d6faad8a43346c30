//! Decisions: pure functions from what was observed to the one next step.
//!
//! Separate from everything that acts, so that every acceptance row and every crash point can be
//! run in microseconds. Nothing in here awaits, reads a clock, draws a random number or knows a
//! client; such values come in as arguments.
//!
//! | file | decides |
//! |---|---|
//! | `delete` | the next step for a volume: upkeep of its finalizer, deletion |
//! | `capacity` | how much room there is where, for the scheduler |
//! | `driver` | what the driver can do, and which changes of it end the process |
//! | `outcome` | how requests and calls fail, and what would cure it |
//! | `secret`, `template` | which Secrets a class names |
//! | `ownership` | which claims the provisioner of one node takes |
//! | `settings` | what the command line says about decisions |
//! | `topology` | in which places of the cluster a volume may be |
//! | `pv` | the PersistentVolume for a volume the driver made |
//! | `protection` | when the finalizers on data sources go |
//! | `reach` | whether a volume can be reached from a node |
//! | `memory` | what the process remembers beyond its caches |
//! | `event` | which changes of objects are work |
//! | `turn` | whose turn it is when workers are scarce |

pub mod capacity;
pub mod delete;
pub mod driver;
pub mod event;
pub mod memory;
pub mod outcome;
pub mod ownership;
pub mod protection;
pub mod pv;
pub mod reach;
pub mod secret;
pub mod settings;
pub mod template;
pub mod topology;
pub mod turn;

pub use driver::Driver;
pub use settings::Settings;
