//! Decisions: pure functions from the observed state to the next request.
//!
//! Tests run every acceptance row and every crash point in microseconds. Nothing here awaits, reads
//! a clock, draws a random number or uses a client; such values are arguments.
//!
//! | file | decides |
//! |---|---|
//! | `ask` | requests that both scripts make |
//! | `attempt` | one attempt of either kind |
//! | `driver` | the driver's abilities, and which changes of them end the process |
//! | `event` | which changes of objects requeue a task |
//! | `expand` | the script of an expansion |
//! | `in_flight` | state that the process keeps besides its caches |
//! | `marks` | state of a task between attempts, and how replies change it |
//! | `modify` | the script of a modification |
//! | `outcome` | failures of requests and calls |
//! | `owner` | whether a claim's volume belongs to this driver |
//! | `patch` | bodies of patches |
//! | `reactor` | the resizer as one object: events, attempts, and the state after their ends |
//! | `request` | requests to the API server and the driver |
//! | `settings` | settings from the command line that decisions depend on |
//! | `sync_gate` | when the first task of each kind may begin |
//! | `fairness` | tasks, and their places in the queue |
//! | `usage` | which claims pods use |
//! | `view` | the objects that a decision reads |

mod ask;
pub mod attempt;
pub mod driver;
pub mod event;
pub mod expand;
pub mod fairness;
pub mod in_flight;
pub mod marks;
pub mod modify;
pub mod outcome;
mod owner;
pub mod patch;
pub mod reactor;
pub mod request;
pub mod settings;
pub mod sync_gate;
pub mod usage;
pub mod view;

pub use driver::Driver;
pub use fairness::{Kind, Task};
pub use reactor::Resizer;
pub use settings::Settings;
pub use view::{Informers, View};
