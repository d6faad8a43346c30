//! Decisions: pure functions from what was observed to the one next request.
//!
//! Every acceptance row and every crash point can be run in microseconds. Nothing in here awaits,
//! reads a clock, draws a random number or knows a client; such values come in as arguments.
//!
//! | file | decides |
//! |---|---|
//! | `ask` | what both scripts ask for |
//! | `attempt` | one attempt of either kind |
//! | `driver` | what the driver can do, and which changes of it end the process |
//! | `event` | which changes of objects are work |
//! | `expand` | the script of a claim that is to grow |
//! | `in_flight` | what the process remembers beyond its caches |
//! | `lifecycle` | how far expansions and modifications have come, for figures of service levels |
//! | `marks` | what is remembered of a task, and what replies change about it |
//! | `modify` | the script of a claim whose volume is to be modified |
//! | `outcome` | how requests and calls fail |
//! | `owner` | whose volume it is |
//! | `patch` | bodies of patches |
//! | `reactor` | the resizer as one object: events, attempts, and what their ends leave |
//! | `request` | what API server and driver are asked |
//! | `settings` | what the command line says about decisions |
//! | `sync_gate` | when the first work of each sort may begin |
//! | `fairness` | tasks, and which of a claim's two runs |
//! | `usage` | which claims are in use by pods |
//! | `view` | what a decision looks at |

mod ask;
pub mod attempt;
pub mod driver;
pub mod event;
pub mod expand;
pub mod fairness;
pub mod in_flight;
pub mod lifecycle;
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
