//! The end of a run: faults end, everything comes to rest, and the result is checked.

use sidecar_testkit::sim::rest;

use super::users::is_held;
use super::world::{Faults, World};
use crate::model::{Content, Kind, Policy, Text};
use crate::testing::DRIVER;

impl World {
    /// Ends the faults, and lets everything advance until nothing can.
    pub(super) fn settle(&mut self) {
        self.thaw();
        self.settling = true;
        while !self.late.is_empty() {
            self.arrive_late();
        }
        while let Some(call) = self.driver.running.iter().find(|call| !call.awaited) {
            let (id, taken) = (call.id, self.taken());
            self.driver.end(id, true, taken);
        }
        if self.faults != Faults::Lasting {
            self.provide();
        }
        for _ in 0..10 {
            self.protect();
            self.delete_forsaken();
            self.let_go();
        }
        let (mut before, mut quiet) = (usize::MAX, 0);
        for _ in 0..40 {
            self.process.relist(&self.server);
            self.process.fill();
            self.begin_anew();
            // Short back-offs end soon, long ones in the end.
            self.process.wait(20);
            self.rest_truths();
            self.drain();
            // A driver may lose snapshots that take long to become ready.
            if self.has_all_faults() && self.dice.one_in(4) {
                self.forget();
            }
            self.retry();
            self.rest_truths();
            self.drain();
            let now = self.server.log.len();
            quiet = if now == before { quiet + 1 } else { 0 };
            // Retries without end change nothing.
            let lasting = self.faults == Faults::Lasting || !self.forgotten.is_empty();
            let lasting = lasting && quiet >= 6;
            if quiet > 0 && self.process.attempts.later.is_empty() || lasting {
                return;
            }
            before = now;
        }
    }

    /// Works until the queue is empty; back-offs do not end.
    fn drain(&mut self) {
        let is_idle = |world: &mut Self| world.process.attempts.is_idle();
        if let Err(violation) = rest::drain(self, is_idle, Self::work) {
            self.complain(violation);
        }
    }

    pub(super) fn check_rest(&self) -> Result<(), String> {
        for (name, (_, content)) in &self.server.contents {
            if let Some(wrong) = self.untold(content) {
                return Err(format!("{name} {wrong}: {content:?}"));
            }
            let wrong = if *content.driver == *DRIVER {
                self.wrong(content)
            } else {
                content.status.is_some().then_some("is another driver's")
            };
            if let Some(wrong) = wrong.filter(|_| !self.is_hopeless(content)) {
                return Err(format!("{name} {wrong}: {content:?}"));
            }
            let later = self.process.attempts.later.contains_key(name);
            if later && !self.is_hopeless(content) {
                return Err(format!("{name} is tried again for ever: {content:?}"));
            }
        }
        self.check_calls()
    }

    /// The driver has another snapshot than it first reported, and the status does not mention it.
    fn untold(&self, content: &Content) -> Option<&'static str> {
        let name = format!("snapshot-{}", content.snapshot.uid);
        let other = self
            .driver
            .named(&name)
            .filter(|_| self.forgotten.contains(&name))?;
        let had = content.handle().filter(|had| *had != other)?;
        let error = content
            .status
            .as_ref()
            .and_then(|status| status.error.as_ref());
        let told = error.is_some_and(|text| text.contains(&**other) && text.contains(&**had));
        let asks = !content.deleting && self.faults != Faults::Lasting;
        let kept = content.being_deleted && content.policy == Policy::Retain;
        (asks && !told && !kept && !content.being_created).then_some("does not tell of the other")
    }

    fn wrong(&self, content: &Content) -> Option<&'static str> {
        if is_held(content) {
            return Some("is still held");
        }
        let found = content.wished().is_some();
        let unbound = content.snapshot.uid.is_empty();
        let told = content.being_deleted || (found && unbound);
        if content.deleting && told {
            return Some("stays Terminating");
        }
        if content.being_created {
            return Some("keeps the mark");
        }
        let kept = content.being_deleted && content.policy == Policy::Retain;
        if content.is_ready() || kept && !found {
            return None;
        }
        // No request is made for a content that can no longer be protected.
        let bare = content.deleting && !content.is_protected() && !found;
        match (bare, content.handle()) {
            (true, None) => None,
            (true, Some(_)) | (false, _) => Some("is not ready"),
        }
    }

    /// Whether an obstacle remains for ever.
    fn is_hopeless(&self, content: &Content) -> bool {
        let name = format!("snapshot-{}", content.snapshot.uid);
        if self.forgotten.contains(&name) && !(content.deleting && content.being_deleted) {
            return true;
        }
        if self.faults != Faults::Lasting {
            return false;
        }
        let class = content.class.as_ref();
        let class = class.map(|name| self.server.classes.get(name));
        let unclassed = class.is_some_and(|class| {
            class.is_none_or(|(_, class)| *class.driver != *DRIVER || self.is_secretless(class))
        });
        let secret = content.secret.as_deref();
        let secretless = secret.is_some_and(|secret| !self.server.secrets.contains_key(secret));
        let missing = match content.wished() {
            Some(handle) => !self.driver.snapshots.contains_key(handle),
            None => self.driver.picky,
        };
        unclassed || secretless || missing || self.driver.away
    }

    fn is_secretless(&self, class: &crate::model::Class) -> bool {
        let name = class.parameters.get(match self.kind {
            Kind::Single => crate::plan::request::LIST_SECRET_NAME,
            Kind::Group => sidecar::snapshot::group::GET_SECRET_NAME_PARAMETER,
        });
        let mut secrets = self.server.secrets.iter();
        name.is_some_and(|name| !secrets.any(|(of, values)| *of.name == *name && values.is_some()))
    }

    /// Without faults each snapshot costs one call, plus one for each answer that it is not ready and for each
    /// answer that came when nobody wanted it.
    fn check_calls(&self) -> Result<(), String> {
        if self.faults != Faults::None {
            return Ok(());
        }
        for (name, truth) in &self.truths {
            let (calls, unready) = truth.calls;
            if calls > unready + 1 + truth.unwanted {
                return Err(format!(
                    "{calls} calls for {name}, {unready} times not ready"
                ));
            }
        }
        Ok(())
    }

    /// Deletes everything by force, and lets the caches notice.
    pub(super) fn leave(&mut self) {
        for name in self.server.contents.keys().cloned().collect::<Vec<Text>>() {
            self.server.put(&name, None);
        }
        self.process.relist(&self.server);
        self.process.fill();
        self.retry();
        self.drain();
    }

    /// The controller remembers nothing of deleted contents, whatever obstacle they had.
    pub(super) fn check_left(&self) -> Result<(), String> {
        let in_flight = self.process.attempts.reactor.in_flight();
        let mut left = rest::remembered(in_flight, &Default::default(), &[]);
        if !self.process.attempts.later.is_empty() {
            left.push(format!("retries: {:?}", self.process.attempts.later));
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("left behind: {left:?}"))
        }
    }
}
