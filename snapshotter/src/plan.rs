//! Decisions: pure functions from the observed state to the next request.
//!
//! Tests run every acceptance row and every crash point in microseconds. Nothing here awaits, reads
//! a clock, draws a random number or uses a client; such values are arguments.
//!
//! | file | decides |
//! |---|---|
//! | `goal` | the goal of a content |
//! | `attempt` | the script of a content, and which replies make it fail |
//! | `create`, `check`, `delete` | the scripts of its goals |
//! | `ask` | requests that several scripts make |
//! | `failing` | the script that reports a failure |
//! | `answer` | the content of the driver's response |
//! | `request` | requests to the API server and the driver |
//! | `topology` | requisite and actual topology of a snapshot |
//! | `secret` | which Secret a call carries |
//! | `patch` | bodies of patches |
//! | `outcome` | failures of requests and calls: texts, and the effect on the next attempt |
//! | `event` | which changes of objects requeue a content |
//! | `in_flight` | state that the process keeps besides its caches |
//! | `reactor` | the snapshotter as one object: events, attempts, and the state after their ends |
//! | `driver` | the driver's abilities, and which drivers are unsuitable |
//! | `settings` | settings from the command line that decisions depend on |
//! | `view` | the objects that a decision reads |

mod answer;
mod ask;
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
