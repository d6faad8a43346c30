//! Decisions: pure functions from what was observed to the one next request.
//!
//! Every acceptance row and every crash point can be run in microseconds. Nothing in here awaits,
//! reads a clock, draws a random number or knows a client; such values come in as arguments.
//!
//! | file | decides |
//! |---|---|
//! | `goal` | what is to be done about a content |
//! | `attempt` | the next request towards it |
//! | `create`, `check`, `delete` | the requests of each goal |
//! | `failing` | how an attempt that fails says so |
//! | `answer` | what the driver's answer says of a snapshot |
//! | `request` | what API server and driver are asked |
//! | `topology` | where a snapshot must be usable, and where it is |
//! | `secret` | which Secret a call carries |
//! | `patch` | bodies of patches |
//! | `outcome` | how requests and calls fail: texts, and what they mean for the next attempt |
//! | `event` | which changes of objects are work |
//! | `in_flight` | what the process remembers beyond its caches |
//! | `reactor` | the snapshotter as one object: events, attempts, and what their ends leave |
//! | `driver` | what the driver can do, and which changes of it end the process |
//! | `settings` | what the command line says about decisions |
//! | `view` | what a decision looks at |

mod answer;
pub mod attempt;
mod check;
mod create;
mod delete;
pub mod driver;
pub mod event;
mod failing;
pub mod goal;
pub mod in_flight;
pub mod outcome;
pub mod patch;
pub mod reactor;
pub mod request;
pub mod secret;
pub mod settings;
mod topology;
pub mod view;

pub use driver::Driver;
pub use reactor::Snapshotter;
pub use settings::Settings;
pub use view::{Informers, Membership, View};

#[cfg(test)]
mod tests;
