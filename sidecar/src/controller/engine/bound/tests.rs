//! Controllers whose attempts never end, and how the engine stops them.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::*;
use crate::controller::engine::{Engine, Shell};
use crate::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use crate::queue::{Config, Place, Queue, exponential};

const S: Duration = Duration::from_secs(1);

/// Why an attempt never ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The server answers every write, and the object never changes.
    Dropped,
    /// Two writes undo one another.
    Undone,
    /// Every write differs from the one before, as by a timestamp.
    Stamped,
    /// Reads for ever.
    Reads,
    /// Calls for ever.
    Calls,
    /// As `Dropped`, and the controller does not take an unsent write for a failure.
    Deaf,
    /// As `Dropped`, and an unsent write ends the attempt as a success.
    Careless,
}

const FAULTS: [Fault; 7] = [
    Fault::Dropped,
    Fault::Undone,
    Fault::Stamped,
    Fault::Reads,
    Fault::Calls,
    Fault::Deaf,
    Fault::Careless,
];

struct Circling(Fault);

#[derive(Default)]
struct Attempt {
    requests: u32,
    over: Option<Result<(), String>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Request {
    Write(u32),
    Read,
    Call,
}

impl Ask for Request {
    type Reply = Result<(), String>;

    fn write(&self) -> Option<impl Hash> {
        match self {
            Self::Write(what) => Some(*what),
            Self::Read | Self::Call => None,
        }
    }

    fn is_written(reply: &Result<(), String>) -> bool {
        reply.is_ok()
    }

    fn unsent(self, why: String) -> Result<(), String> {
        let kind = if self == Self::Call {
            "call"
        } else {
            "request"
        };
        Err(format!("{kind} {why}"))
    }

    fn line(reply: &Result<(), String>) -> String {
        format!("{reply:?}")
    }

    fn name(&self) -> String {
        String::new()
    }

    fn failure(_reply: &Result<(), String>) -> Option<(&'static str, String)> {
        None
    }
}

impl Reactor for Circling {
    type Key = &'static str;
    type Informers = ();
    type Change<'a> = &'static str;
    type Attempt = Attempt;
    type Request = Request;
    type Notice = ();
    type Failure = String;

    fn observe(&mut self, key: &'static str, (): &()) -> Due<&'static str, ()> {
        Due {
            wakes: vec![Wake {
                queue: 0,
                key,
                place: Place::default(),
                unless_delayed: false,
            }],
            notices: Vec::new(),
        }
    }

    fn begin(&mut self, _key: &&'static str, (): &(), _now: Now) -> Attempt {
        Attempt::default()
    }

    fn decide(&mut self, attempt: &mut Attempt, (): &(), _now: Now) -> Option<Request> {
        if attempt.over.is_some() {
            return None;
        }
        Some(match self.0 {
            Fault::Dropped | Fault::Deaf | Fault::Careless => Request::Write(0),
            Fault::Undone => Request::Write(attempt.requests % 2),
            Fault::Stamped => Request::Write(attempt.requests),
            Fault::Reads => Request::Read,
            Fault::Calls => Request::Call,
        })
    }

    fn answered(
        &mut self,
        attempt: &mut Attempt,
        reply: Result<(), String>,
        (): &(),
    ) -> Due<&'static str, ()> {
        attempt.requests += 1;
        attempt.over = match (self.0, reply) {
            (Fault::Deaf, _) | (_, Ok(())) => None,
            (Fault::Careless, Err(_)) => Some(Ok(())),
            (_, Err(why)) => Some(Err(why)),
        };
        Due::default()
    }

    fn end(
        &mut self,
        attempt: Attempt,
        (): &(),
        _now: Now,
    ) -> (Verdict<String>, Due<&'static str, ()>) {
        let verdict = match attempt.over {
            Some(Err(failure)) => Verdict::Retry {
                failure,
                hung: false,
            },
            Some(Ok(())) | None => Verdict::Done,
        };
        (verdict, Due::default())
    }
}

#[derive(Default)]
struct World {
    steps: Mutex<Vec<Instant>>,
    failed: Mutex<Vec<String>>,
}

impl Shell<Circling> for World {
    fn informers(&self) -> &() {
        &()
    }

    async fn execute(&self, _request: Request) -> Result<(), String> {
        self.steps.lock().unwrap().push(Instant::now());
        sleep(S / 200).await;
        Ok(())
    }

    fn note(&self, (): ()) {}

    fn failed(&self, _key: &&'static str, failure: &String, _failures: u32, _wait: Duration) {
        self.failed.lock().unwrap().push(failure.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn s_4_every_attempt_has_a_bound_then_a_back_off_and_one_line() {
    for fault in FAULTS {
        let queue = Config::new("circling", 1, exponential(S, 300 * S));
        let queue = Queue::new(queue).unwrap();
        let engine = Engine::new(Circling(fault), vec![queue], |_| World::default());
        let begun = Instant::now();
        let mut serving = Box::pin(engine.serve());
        engine.observe("key");
        tokio::select! {
            () = &mut serving => unreachable!("nothing ends it"),
            () = sleep(3600 * S) => {}
        }
        let steps = engine.shell().steps.lock().unwrap().clone();
        let each = match fault {
            Fault::Dropped | Fault::Deaf | Fault::Careless => 1,
            Fault::Undone => 2,
            Fault::Stamped | Fault::Reads | Fault::Calls => MOST_REQUESTS as usize,
        };
        // Back-off: 1 s, doubled up to 300 s.
        assert_eq!(steps.len(), 20 * each, "{fault:?}");
        let first = steps.iter().filter(|at| **at - begun < 2 * S).count();
        assert!(
            first <= 2 * each,
            "{fault:?}: {first} steps before the back-off"
        );
        let failed = engine.shell().failed.lock().unwrap().clone();
        match fault {
            Fault::Deaf | Fault::Careless => assert!(failed.is_empty(), "the engine's own line"),
            Fault::Dropped | Fault::Undone | Fault::Stamped | Fault::Reads | Fault::Calls => {
                assert_eq!(failed.len(), 20, "{fault:?}: a line for each attempt");
            }
        }
        let said = failed.first().map_or("", |text| text.as_str());
        match fault {
            Fault::Dropped | Fault::Undone => {
                assert!(said.starts_with("request not written again"), "{said}")
            }
            Fault::Stamped | Fault::Reads => {
                assert_eq!(said, "request given up for now after 256 steps")
            }
            Fault::Calls => assert_eq!(said, "call given up for now after 256 steps"),
            Fault::Deaf | Fault::Careless => {}
        }
    }
}
