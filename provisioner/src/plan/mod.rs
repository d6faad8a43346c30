//! Decisions: pure functions from what was observed to the one next step.
//!
//! Separate from everything that acts, so that every acceptance row and every crash point can be
//! run in microseconds. Nothing in here awaits, reads a clock, draws a random number or knows a
//! client; such values come in as arguments.
//!
//! | file | decides |
//! |---|---|
//! | `driver` | what the driver can do, and which changes of it end the process |
//! | `outcome` | how requests and calls fail, and what would cure it |
//! | `secret`, `template` | which Secrets a class names |
//! | `settings` | what the command line says about decisions |
//! | `topology` | in which places of the cluster a volume may be |
//! | `pv` | the PersistentVolume for a volume the driver made |
//! | `protection` | when the finalizers on data sources go |
//! | `reach` | whether a volume can be reached from a node |

pub mod driver;
pub mod outcome;
pub mod protection;
pub mod pv;
pub mod reach;
pub mod secret;
pub mod settings;
pub mod template;
pub mod topology;

pub use driver::Driver;
pub use settings::Settings;
