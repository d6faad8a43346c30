//! Attempts advance: requests reach the server, calls reach the driver, answers come back.

use sidecar::text::Text;
use sidecar_testkit::sim::attempts::StepOf;
use sidecar_testkit::sim::fate::Fate;
use sidecar_testkit::sim::server::{Refused, Why};

use super::effect::Effect;
use super::kind::Kind;
use super::process::{Act, Failure, Program, State};
use super::request::Request;
use super::world::World;

impl World {
    pub(super) fn advance<P: Program>(&mut self, index: usize) {
        let state = match P::of(self).attempts.leave(index) {
            State::Deciding => {
                if self.stops_here(P::WHO) {
                    return;
                }
                return self.decide::<P>(index);
            }
            State::Sent(step) => self.arrive::<P>(index, step),
            State::Calling(step, id) => {
                let answer = P::call(self, &step, id);
                State::Answered(step, answer, None)
            }
            State::Answered(step, answer, json) => {
                return P::of(self).answer(index, (step, answer), json.as_deref());
            }
            State::Fenced => State::Fenced,
        };
        P::of(self).attempts.enter(index, state);
    }

    /// A run that is looked at closely has a program stop at this step.
    fn stops_here(&mut self, who: usize) -> bool {
        self.steps[who] += 1;
        let Some(stop) = self.stop.filter(|stop| stop.who == who) else {
            return false;
        };
        if self.steps[who] != stop.after {
            return false;
        }
        match (who, stop.frozen) {
            (0, false) => self.crash_controller(),
            (0, true) => self.freeze_controller(),
            (_, false) => self.crash_snapshotter(),
            (_, true) => self.freeze_snapshotter(),
        }
        true
    }

    fn decide<P: Program>(&mut self, index: usize) {
        let key = P::of(self).attempts.running[index].key.clone();
        let Some(step) = P::of(self).decide(index) else {
            return;
        };
        let act = P::act(&step);
        if self.is_fenced(&act) {
            P::of(self).attempts.enter(index, State::Fenced);
            return;
        }
        self.spin();
        P::hold(self, &key, &step);
        let state = match act {
            Act::Api(request) => {
                if let Some(about) = request.about() {
                    P::of(self).known.begin_write(about);
                }
                State::Sent(step)
            }
            Act::Call(_) | Act::List(_) if self.away => {
                let answer = P::away(&step);
                State::Answered(step, answer, None)
            }
            Act::Call(wish) => match self.begins(wish) {
                Ok(id) => State::Calling(step, id),
                Err(code) => {
                    let answer = P::refuse(&step, code);
                    State::Answered(step, answer, None)
                }
            },
            Act::List(_) => State::Sent(step),
            Act::Tell => {
                let answer = P::of(self).known.told();
                State::Answered(step, answer, None)
            }
        };
        P::of(self).attempts.enter(index, state);
    }

    /// A request reaches the API server, or the driver's list.
    fn arrive<P: Program>(&mut self, index: usize, step: StepOf<P>) -> State<P> {
        let request = match P::act(&step) {
            Act::Api(request) => request,
            Act::List(handle) => {
                let answer = P::list(self, &handle);
                return State::Answered(step, answer, None);
            }
            Act::Call(_) | Act::Tell => unreachable!("never sent to the API server"),
        };
        let fate = self.fate(&request);
        let mut effect = None;
        let came = match fate {
            Fate::Applied => self.applies(&request).map(|(json, did)| {
                effect = did;
                json
            }),
            Fate::Unheard => {
                if let Ok((_, did)) = self.applies(&request) {
                    effect = did;
                }
                Err(Failure::Unknown)
            }
            Fate::Lost => Err(Failure::Unknown),
            Fate::Late => {
                if request.is_write() {
                    self.late.push(request.clone());
                }
                Err(Failure::Unknown)
            }
            Fate::Refused => Err(Failure::Refused(Refused {
                why: Why::Invalid,
                message: "refused".to_owned(),
            })),
        };
        let note = &mut P::of(self).attempts.running[index].note;
        note.last = effect.or(note.last);
        // The answer to a DELETE that leaves nothing is no object.
        let there = |(kind, key): (Kind, &Text)| self.server.get(kind, key).is_some();
        let deletes = matches!(request, Request::Delete(..));
        let gone = deletes && !request.about().is_some_and(there);
        let json = came.as_ref().ok().filter(|_| !gone).cloned();
        let came = if gone && came.is_ok() {
            Err(Failure::Refused(Refused {
                why: Why::NotFound,
                message: "it is gone".to_owned(),
            }))
        } else {
            came
        };
        let answer = P::of(self).known.answered(&step, came);
        State::Answered(step, answer, json)
    }

    fn fate(&mut self, request: &Request) -> Fate {
        if !self.is_faulty() {
            return Fate::Applied;
        }
        let fate = Fate::draw(&mut self.dice, 6, &Fate::FAULTS);
        if request.comes_in_order() {
            fate.in_order()
        } else {
            fate
        }
    }

    /// The server does what is asked for, and what that did.
    pub(super) fn applies(&mut self, request: &Request) -> Result<(Text, Option<Effect>), Failure> {
        let about = request.about();
        let before = about.and_then(|(kind, key)| self.server.get(kind, key).cloned());
        let version = self.server.version;
        let json = request.apply(&mut self.server).map_err(Failure::Refused)?;
        let effect = request.effect(before.as_ref());
        if self.server.version != version {
            self.hold_applied(request, before.as_ref());
        }
        self.look();
        self.check_storage();
        Ok((json, effect))
    }

    pub(super) fn edit(
        &mut self,
        kind: Kind,
        key: &str,
        change: impl FnOnce(&mut serde_json::Value),
    ) {
        self.server.edit(kind, key, change);
        self.look();
    }

    pub(super) fn delete(&mut self, kind: Kind, key: &str) {
        drop(self.server.delete(kind, key, None));
        self.look();
    }
}
