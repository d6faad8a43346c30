//! Answers about the work on one object, behind `--why-endpoint`: its place in the queue, the attempt under way, the last
//! failure, what it waits for, and the next step. Only reads; asks neither the driver nor the API server.
//!
//! Without the flag nothing here runs, and nothing is kept. With it, the engine notes the steps of running attempts and
//! the last failure of each key; everything else is computed when somebody asks.
//!
//! | file | contents |
//! |---|---|
//! | `object` | the objects that questions are about, as paths name them: pure |
//! | `attempt_log` | running attempts and last failures, bounded: pure |
//! | `notes` | the attempts of an engine, and the deadline of the call under way |
//! | `explain` | what a controller says about an object: the trait that reactors implement |
//! | `preview` | the next step of a key, decided on a copy of the reactor |
//! | `answer` | the JSON: pure |
//! | `explainers` | the controllers of the process that answer |
//! | `rate` | how many questions are answered: pure |
//! | `serve` | paths and limits |

pub mod answer;
mod attempt_log;
mod explain;
mod explainers;
mod notes;
mod object;
mod preview;
mod rate;
mod serve;

pub use attempt_log::{Attempt, AttemptLog, Current, Last, Outcome, Step};
pub use explain::{EngineAnswer, Explained, Explanation, OpenIntent, Work, WorkAnswer};
pub use explainers::{Ended, Entry, Explainer, Explainers, Lists, ProcessFacts};
pub(crate) use notes::{Notes, call_begins, within};
pub use object::{Kind, Object};
pub use preview::preview;
pub(crate) use serve::Endpoint;
