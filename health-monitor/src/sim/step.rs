//! Attempts advance: requests, answers, and the invariants checked at each.

use std::time::Duration;

use serde_json::Value;
use sidecar::controller::request::{Reply, Request, Write};
use sidecar::refusal::{ApiError, Refusal};
use sidecar_testkit::sim::fate::Fate;
use sidecar_testkit::sim::server::Why;

use super::driver::Pairs;
use super::process::{Kind, State};
use super::world::{Faults, World};
use crate::model::{Text, Uid};
use crate::plan::event::Tell;
use crate::plan::field::REST;
use crate::plan::mode::Mode;
use crate::plan::request::{Call, Found, Object, Purpose};
use crate::plan::{HealthMonitor, Key};
use crate::work::record;

fn error(refusal: Refusal, message: &str) -> ApiError {
    ApiError {
        message: message.to_owned(),
        refusal,
    }
}

/// Pairs of status and reason in an object.
fn pairs(status: &Value) -> Pairs {
    let list = status["healthStatus"]["healthConditions"]
        .as_array()
        .cloned();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let pairs = list.unwrap_or_default().into_iter();
    pairs
        .map(|one| (text(&one, "status"), text(&one, "reason")))
        .collect()
}

impl World {
    pub(super) fn advance(&mut self, index: usize) {
        match self.process.attempts.leave(index) {
            State::Deciding => self.decide(index),
            State::Sent(Request::Write(write)) => self.write(index, write),
            State::Sent(Request::Get(object)) => {
                let told = self.told.iter().map(|uid| Uid::new(uid)).collect();
                let found = match self.fails(8) {
                    true => Err(error(Refusal::Forbidden, "no")),
                    false => Ok(Found::Events(told)),
                };
                self.process
                    .attempts
                    .enter(index, State::Answered(Reply::Get(object, found), None));
            }
            State::Calling(Request::Call(call), _) => {
                let (fails, handles) = (self.fails(5), self.handles());
                let lacks = self.lacks(&call);
                let called =
                    { &mut self.driver }.answer(call, fails, lacks, &handles, &mut self.dice);
                let reply = Reply::Call(called, Duration::ZERO);
                self.process
                    .attempts
                    .enter(index, State::Answered(reply, None));
            }
            State::Answered(reply, object) => self.answer(index, reply, object.as_ref()),
            State::Sent(_) | State::Calling(..) | State::Waiting(..) | State::Fenced => {}
        }
    }

    /// Whether the call reaches a driver that does not implement it.
    fn lacks(&self, call: &Call) -> bool {
        !matches!(
            (call, self.mode),
            (Call::ListHealth(_), Mode::ListHealth { .. })
                | (
                    Call::GetHealth(_),
                    Mode::GetHealth | Mode::ListHealth { get: true }
                )
                | (Call::ListConditions(_), Mode::ListConditions)
                | (Call::GetCondition(_), Mode::GetConditions)
        )
    }

    fn fails(&mut self, rare: usize) -> bool {
        self.stuck || self.faults == Faults::All && self.dice.one_in(rare)
    }

    fn decide(&mut self, index: usize) {
        let process = &mut self.process;
        if let Some(kept) = process.attempts.running[index].note.take() {
            self.dropped = (!kept).then_some(process.attempts.now.instant);
        }
        let Some(request) = process.attempts.decide(index, &process.known) else {
            return self.process.finish(index);
        };
        let request = match self.mutant.decides(request) {
            Some(request) => request,
            // The mutant sends no event and does not notice.
            None => return,
        };
        match request {
            Request::Event(event) => {
                self.tells(&event.tell, &event.uid);
                self.process
                    .attempts
                    .enter(index, State::Answered(Reply::Event(event), None));
            }
            Request::Call(call) => {
                self.calls(index, &call);
                self.process
                    .attempts
                    .enter(index, State::Calling(Request::Call(call), 0));
            }
            Request::Write(write) => {
                if let Object::Claim(claim) = &write.object {
                    self.tries(&write, claim);
                    self.process.known.claims.begin_write(claim);
                }
                self.process
                    .attempts
                    .enter(index, State::Sent(Request::Write(write)));
            }
            Request::Get(_) | Request::Secret(_) => {
                self.process.attempts.enter(index, State::Sent(request));
            }
        }
    }

    /// Checks that only one call about a volume is in flight.
    fn calls(&mut self, index: usize, call: &Call) {
        let about = |call: &Call| match call {
            Call::GetHealth(call) => Some(call.volume_id.clone()),
            Call::GetCondition(call) => Some(call.volume_id.clone()),
            Call::ListHealth(_) | Call::ListConditions(_) => None,
        };
        let volume = about(call);
        let others = self.process.attempts.running.iter().enumerate();
        let same = others.filter(|(other, running)| {
            let calling = if let State::Calling(Request::Call(call), _) = &running.state {
                about(call)
            } else {
                None
            };
            *other != index && volume.is_some() && calling == volume
        });
        if same.count() > 0 {
            self.violated(format!("two calls about {volume:?} at a time"));
        }
    }

    fn tells(&mut self, tell: &Tell, uid: &Uid) {
        match tell {
            Tell::Abnormal(_) => {
                self.told.insert(uid.to_string());
            }
            Tell::Normal => {
                if !self.told.remove(&uid.to_string()) {
                    self.violated(format!(
                        "users hear of the recovery of what they did not hear of: {uid}"
                    ));
                }
            }
        }
    }

    fn write(&mut self, index: usize, write: Write<HealthMonitor>) {
        let Object::Claim(claim) = write.object.clone() else {
            return;
        };
        let faults: &[Fate] = match self.faults {
            Faults::All => &Fate::FAULTS,
            Faults::Crashes | Faults::None => &[Fate::Applied],
        };
        let fate = Fate::draw(&mut self.dice, 5, faults);
        let lost = || error(Refusal::Unknown, "no answer");
        let result = match fate {
            Fate::Applied => self.apply(&write, &claim),
            Fate::Unheard => {
                let _ = self.apply(&write, &claim);
                Err(lost())
            }
            Fate::Lost => Err(lost()),
            Fate::Refused => Err(error(Refusal::Other, "too many requests")),
            Fate::Late => {
                self.holds(&write, &claim);
                let uid = write.uid.as_deref().map(str::to_owned);
                self.late
                    .push((claim.to_string(), uid, write.body.patch().clone()));
                Err(lost())
            }
        };
        let json = result.as_ref().ok().cloned();
        let found = result.map(|json| Found::Claim {
            unhealthy: record::is_unhealthy(&json).unwrap(),
        });
        let reply = Reply::Write(write, found);
        self.process
            .attempts
            .enter(index, State::Answered(reply, json));
    }

    /// Checks the invariants of a write that reaches the API server.
    fn holds(&mut self, write: &Write<HealthMonitor>, claim: &str) {
        let handle = claim.replace("ns/c", "h");
        let written = pairs(&write.body.patch()["status"]);
        if !{ self.driver.said.get(&handle) }.is_some_and(|said| said.contains(&written)) {
            let said = self.driver.said.get(&handle);
            self.violated(format!(
                "{claim}: the driver did not report {written:?}, but {said:?}"
            ));
        }
    }

    fn apply(&mut self, write: &Write<HealthMonitor>, claim: &str) -> Result<Text, ApiError> {
        self.holds(write, claim);
        self.writes += 1;
        let before = self
            .server
            .get(Kind::Claim, claim)
            .cloned()
            .unwrap_or_default();
        let has = pairs(&before["status"]);
        let wanted = pairs(&write.body.patch()["status"]);
        let result = self
            .server
            .write(Kind::Claim, claim, write.uid.as_deref(), &write.body);
        if result.is_ok() {
            self.belongs(claim);
        }
        let drops = result.is_ok() && !self.gate && has.is_empty() && !wanted.is_empty();
        if drops {
            // This API server does not have the field.
            { &mut self.server }.edit(Kind::Claim, claim, |claim| {
                claim["status"]["healthStatus"] = Value::Null;
            });
            return Ok(self.server.read(Kind::Claim, claim).unwrap());
        }
        if result.is_ok() && self.faults == Faults::None {
            let body = serde_json::to_value(wanted.iter().collect::<Vec<_>>()).unwrap();
            if self.written.insert(claim.to_owned(), body.clone()) == Some(body) {
                self.violated(format!("{claim} is written twice"));
            }
        }
        result.map_err(|refused| match refused.why {
            Why::NotFound => error(Refusal::NotFound, &refused.message),
            Why::Conflict | Why::Exists => error(Refusal::Conflict, &refused.message),
            Why::Invalid => error(
                Refusal::Other,
                "metadata.uid: Invalid value: field is immutable",
            ),
        })
    }

    /// Checks that an API server that dropped conditions gets no further writes yet, except to claims that have
    /// conditions.
    fn tries(&mut self, write: &Write<HealthMonitor>, claim: &str) {
        let known = self.process.known.claims.store.get(claim);
        let bare = known.is_none_or(|claim| claim.stored.is_empty());
        let now = self.process.attempts.now.instant;
        let recent = self
            .dropped
            .is_some_and(|last| now.duration_since(last) < REST);
        if bare && recent && write.purpose == Purpose::Report {
            self.violated(
                "an API server that drops conditions is written to again within ten minutes",
            );
        }
    }

    /// Checks that the written claim belongs to its volume.
    fn belongs(&mut self, claim: &str) {
        let volume = claim.replace("ns/c", "pv");
        let uid = |object: Option<&Value>, field: &str| {
            object.and_then(|object| object.pointer(field).cloned())
        };
        let claimed = uid(self.server.get(Kind::Volume, &volume), "/spec/claimRef/uid");
        let own = uid(self.server.get(Kind::Claim, claim), "/metadata/uid");
        let known = self.process.known.volumes.store.get(&volume);
        let known = known.map(|volume| Value::from(volume.uid.to_string()));
        if own != claimed || known.is_some() && known != own {
            self.violated(format!(
                "{claim} was written for a volume that is bound to another"
            ));
        }
    }

    fn answer(&mut self, index: usize, reply: Reply<HealthMonitor>, json: Option<&Text>) {
        if let Reply::Write(
            Write {
                object: Object::Claim(claim),
                ..
            },
            _,
        ) = &reply
        {
            let claim = claim.clone();
            self.process.absorb(&claim, json.map(|json| &**json));
        }
        if let Reply::Write(write, Ok(Found::Claim { unhealthy })) = &reply
            && write.purpose == Purpose::Report
        {
            self.process.attempts.running[index].note = Some(*unhealthy);
        }
        let claims = self.server.all(Kind::Claim);
        let uids = claims.filter_map(|(_, claim)| claim["metadata"]["uid"].as_str());
        let uids = uids.map(Uid::new).collect();
        let reply = self.mutant.hears(reply, uids);
        let process = &mut self.process;
        let due = process.attempts.answer(index, reply, &process.known);
        process.attempts.take(due);
    }

    /// The process stops. The writes it sent may arrive at any time.
    pub(super) fn abandon(&mut self) {
        let running = std::mem::take(&mut self.process.attempts.running);
        for running in running {
            let State::Sent(Request::Write(write)) = running.state else {
                continue;
            };
            debug_assert!(matches!(running.key, Key::Volume(_)));
            if let Object::Claim(claim) = &write.object {
                let claim = claim.clone();
                self.holds(&write, &claim);
                let uid = write.uid.as_deref().map(str::to_owned);
                self.late
                    .push((claim.to_string(), uid, write.body.patch().clone()));
            }
        }
    }
}
