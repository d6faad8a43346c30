//! Attempts advance: requests reach the server, calls reach the driver, answers come back.

use sidecar::controller::request::{Body, Part};
use sidecar::text::Text;
use sidecar_testkit::sim::attempts::{KeyOf, RequestOf};
use sidecar_testkit::sim::fate::Fate;
use sidecar_testkit::sim::server::{Refused, Why};
use sidecar_testkit::sim::storage::Wish;
use tonic::Code;

use super::effect::Effect;
use super::kind::Kind;
use super::mutant::Mutant;
use super::process::{Act, Failure, Program, State};
use super::request::Request;
use super::world::World;

impl World {
    pub(super) fn advance<P: Program>(&mut self, index: usize) {
        self.step::<P>(index);
        self.hear_warnings();
    }

    fn step<P: Program>(&mut self, index: usize) {
        let state = match P::of(self).attempts.leave(index) {
            State::Deciding => {
                if self.stops_here(P::WHO) {
                    return;
                }
                return self.decide::<P>(index);
            }
            State::Sent(request) => self.arrive::<P>(index, request),
            State::Calling(request, id) => {
                let key = P::of(self).attempts.running[index].key.clone();
                State::Answered(P::call(self, &key, (request, id)), None)
            }
            State::Answered(reply, json) => {
                return P::of(self).answer(index, reply, json.as_deref());
            }
            State::Fenced => State::Fenced,
        };
        P::of(self).attempts.enter(index, state);
    }

    /// In a run with a stop, stops the program if this is the step.
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
        let running = &P::of(self).attempts.running[index];
        let (key, untold) = (running.key.clone(), running.note.untold.clone());
        let Some(request) = P::of(self).decide(index) else {
            if let Some(name) = untold
                && P::of(self).known.is_unwanted(&key)
            {
                self.may_repeat(&name);
            }
            return;
        };
        let act = P::act(&request);
        if self.is_fenced(&act, P::is_of_group(&key)) {
            P::of(self).attempts.enter(index, State::Fenced);
            return;
        }
        self.spin();
        P::hold(self, &key, &request);
        let state = match act {
            Act::Api(sent) => {
                if let Some(about) = sent.about() {
                    P::of(self).known.begin_write(about);
                }
                State::Sent(request)
            }
            Act::Call(_) | Act::List if self.away => State::Answered(P::away(request), None),
            Act::Call(wish) => self.ask_driver::<P>(&key, request, wish),
            Act::List => State::Sent(request),
            Act::Tell => State::Answered(P::list(self, request), None),
        };
        P::of(self).attempts.enter(index, state);
    }

    fn ask_driver<P: Program>(
        &mut self,
        key: &KeyOf<P>,
        request: RequestOf<P>,
        wish: Wish,
    ) -> State<P> {
        let creates = matches!(wish, Wish::Create(_));
        if creates && P::of(self).asks_too_soon(key) {
            self.complain(format!("{key:?} is asked for too soon"));
        }
        match self.begins(wish) {
            Ok(id) => {
                self.comes_late();
                State::Calling(request, id)
            }
            Err(code) => {
                if creates && code == Code::InvalidArgument {
                    P::of(self).is_impossible(key);
                }
                State::Answered(P::refuse(request, code), None)
            }
        }
    }

    /// A request arrives at the API server or at the driver's list.
    fn arrive<P: Program>(&mut self, index: usize, asked: RequestOf<P>) -> State<P> {
        let request = match P::act(&asked) {
            Act::Api(request) => request,
            Act::List => return State::Answered(P::list(self, asked), None),
            Act::Call(_) | Act::Tell => unreachable!("never sent to the API server"),
        };
        let fate = self.fate(&request);
        let version = self.server.version;
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
        let idle = came.is_ok() && request.is_write() && self.server.version == version;
        // Their marks are there already.
        let marks = matches!(self.mutant, Mutant::TakesNothingOver | Mutant::ForgetsMark);
        if idle && P::WHO == 1 && !marks {
            self.complain(format!("a write that changes nothing: {request:?}"));
        }
        let note = &mut P::of(self).attempts.running[index].note;
        note.last = effect.or(note.last);
        if matches!(effect, Some(Effect::Reports | Effect::ReportsMore)) {
            note.untold = None;
        }
        // The answer to a DELETE that removed the object is no object.
        let there = |(kind, key): (Kind, &Text)| self.server.get(kind, key).is_some();
        let gone = request.is_delete() && !request.about().is_some_and(there);
        let json = came.as_ref().ok().filter(|_| !gone).cloned();
        let came = if gone && came.is_ok() {
            Err(Failure::Refused(Refused {
                why: Why::NotFound,
                message: "it is gone".to_owned(),
            }))
        } else {
            came
        };
        State::Answered(P::answered(asked, came), json)
    }

    fn fate(&mut self, request: &Request) -> Fate {
        if !self.is_faulty() {
            return Fate::Applied;
        }
        let harm = self.harm(request);
        let fate = harm.unwrap_or_else(|| Fate::draw(&mut self.dice, 6, &Fate::FAULTS));
        if request.comes_in_order() {
            fate.in_order()
        } else {
            fate
        }
    }

    /// The fate that chance seldom chooses and one mutant needs: a patch of the metadata arrives late, and a later
    /// one of the status never does.
    fn harm(&mut self, request: &Request) -> Option<Fate> {
        let Request::Write(write) = request else {
            return None;
        };
        let needs = self.mutant == Mutant::TakesNothingOver && self.dice.one_in(2);
        let Body::Patch(part, _) = &write.body else {
            return None;
        };
        needs.then_some(match part {
            Part::Main => Fate::Late,
            Part::Status => Fate::Lost,
        })
    }

    /// For the same mutant, whatever is late arrives when the driver begins to work.
    fn comes_late(&mut self) {
        if self.mutant == Mutant::TakesNothingOver {
            for request in std::mem::take(&mut self.late) {
                drop(self.applies(&request));
            }
        }
    }

    /// The server executes a request; returns the effect.
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
