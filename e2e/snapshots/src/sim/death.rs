//! A program stops, or stands still until another one leads.
//!
//! Its requests arrive now, later or never; its calls go on in the driver. A frozen program goes on after its
//! lease has expired: its connections send nothing any more, however far it gets.

use super::controller::Controller;
use super::kind::Kind;
use super::mutant::Mutant;
use super::process::{Act, Process, Program, Running, State};
use super::snapshotter::{Both, Grouped, Single, Snapshotter, Sort};
use super::window::End;
use super::world::World;

/// Most steps of a former leader; since it can send nothing, it gets no further.
const STEPS: usize = 30;

/// Most steps of the others while one stands still: enough for most deletions to finish.
const MEANWHILE: usize = 200;

impl World {
    pub(super) fn crash_controller(&mut self) {
        self.stop::<Controller>();
        self.pass_windows_of_objects();
        self.controller = self.next_controller();
    }

    pub(super) fn crash_snapshotter(&mut self) {
        self.stop::<Snapshotter<Single>>();
        self.stop::<Snapshotter<Grouped>>();
        self.snapshotter = self.next_snapshotter();
    }

    /// The next leader, with groups enabled or disabled.
    fn next_controller(&mut self) -> Process<Controller> {
        let mut next = Process::<Controller>::start(self.mutant);
        let closely = self.settling || self.stop.is_some();
        next.known.serves_groups = closely || !self.dice.one_in(5);
        next
    }

    pub(super) fn next_snapshotter(&self) -> Both {
        let single = if self.about_groups {
            Mutant::None
        } else {
            self.mutant
        };
        let mut next = Both::start(single, self.mutant);
        next.single.known.older = self.older;
        next.grouped.known.older = self.older;
        next
    }

    /// Leaves its requests under way, and records the windows in which it stops.
    fn stop<P: Program>(&mut self) {
        for mut running in std::mem::take(&mut P::of(self).attempts.running) {
            if let State::Sent(step) = &running.state
                && let Act::Api(request) = P::act(step)
                && request.is_write()
            {
                match (self.dice.below(3), request.comes_in_order()) {
                    (0, _) => {}
                    (1, _) => {
                        if let Ok((_, effect)) = self.applies(&request) {
                            running.note.last = effect.or(running.note.last);
                        }
                    }
                    (_, true) => self.soon.push(request),
                    (_, false) => self.late.push(request),
                }
            }
            self.pass_window(&running);
            if let State::Calling(_, id) = running.state {
                self.storage.abandon(id);
            }
        }
    }

    fn pass_window<P: Program>(&mut self, running: &Running<P>) {
        let calling = matches!(running.state, State::Calling(..));
        let end = End {
            controller: P::WHO == 0,
            grouped: P::is_of_group(&running.key),
            calling,
        };
        self.windows.pass(end, running.note.last);
    }

    pub(super) fn freeze_or_thaw(&mut self) {
        match (self.frozen.0.is_some(), self.frozen.1.is_some()) {
            (true, _) => self.thaw_controller(),
            (_, true) => self.thaw_snapshotter(),
            (false, false) if self.dice.one_in(3) => self.freeze_controller(),
            (false, false) => {
                self.freeze_snapshotter();
                if self.dice.one_in(2) {
                    self.people_give_up();
                }
            }
        }
    }

    /// People delete objects of a frozen snapshotter, and the current leader handles that: the frozen one must not
    /// send its requests any more.
    fn people_give_up(&mut self) {
        let Some(frozen) = &self.frozen.1 else { return };
        let single = frozen.single.attempts.running.iter();
        let single = single.map(|one| (Kind::Content, Kind::Snapshot, one.key.clone()));
        let grouped = frozen.grouped.attempts.running.iter();
        let grouped = grouped.map(|one| (Kind::GroupContent, Kind::Group, one.key.clone()));
        let all: Vec<_> = single.chain(grouped).collect();
        if all.is_empty() {
            return;
        }
        for (kind, of, name) in all {
            let content = self.server.get(kind, &name);
            let owner = content.and_then(|content| self.owner(content));
            if let Some(name) = owner.and_then(|owner| owner["metadata"]["name"].as_str()) {
                let key = format!("ns/{name}");
                self.delete(of, &key);
            }
        }
        for _ in 0..self.dice.below(MEANWHILE) {
            self.lives();
        }
    }

    pub(super) fn freeze_controller(&mut self) {
        let running = self.still::<Controller>();
        self.pass_windows_of_objects();
        let next = self.next_controller();
        let mut old = std::mem::replace(&mut self.controller, next);
        old.attempts.running = running;
        self.frozen.0 = Some(Box::new(old));
    }

    pub(super) fn freeze_snapshotter(&mut self) {
        if is_calling(&self.snapshotter.single) || is_calling(&self.snapshotter.grouped) {
            self.windows.overlap();
        }
        let single = self.still::<Snapshotter<Single>>();
        let grouped = self.still::<Snapshotter<Grouped>>();
        let next = self.next_snapshotter();
        let mut old = std::mem::replace(&mut self.snapshotter, next);
        old.single.attempts.running = single;
        old.grouped.attempts.running = grouped;
        self.frozen.1 = Some(Box::new(old));
    }

    /// The attempts of a frozen process: its requests are under way, and nobody reads the answers. The driver
    /// still works on its calls.
    fn still<P: Program>(&mut self) -> Vec<Running<P>> {
        let all = std::mem::take(&mut P::of(self).attempts.running);
        let (calling, others) = all
            .into_iter()
            .partition(|running| matches!(running.state, State::Calling(..) | State::Deciding));
        P::of(self).attempts.running = others;
        self.stop::<P>();
        calling
    }

    fn thaw_controller(&mut self) {
        let Some(mut old) = self.frozen.0.take() else {
            return;
        };
        std::mem::swap(&mut self.controller, &mut old);
        self.goes_on::<Controller>();
        self.pass_windows_of_objects();
        self.controller = *old;
    }

    fn thaw_snapshotter(&mut self) {
        let Some(mut old) = self.frozen.1.take() else {
            return;
        };
        std::mem::swap(&mut self.snapshotter, &mut old);
        self.goes_on::<Snapshotter<Single>>();
        self.goes_on::<Snapshotter<Grouped>>();
        self.snapshotter = *old;
    }

    pub(super) fn thaw(&mut self) {
        self.thaw_controller();
        self.thaw_snapshotter();
    }

    /// The process goes on until it notices that its lease has expired.
    fn goes_on<P: Program>(&mut self) {
        self.fenced = true;
        for _ in 0..self.dice.below(STEPS) {
            let running = P::of(self).attempts.running.len();
            if running > 0 {
                let index = self.dice.below(running);
                self.advance::<P>(index);
            }
        }
        self.fenced = false;
        self.stop::<P>();
    }

    /// Whether the connections of a process without lease hold this request back.
    pub(super) fn is_fenced(&self, act: &Act, of_group: bool) -> bool {
        let faulty = self.mutant == Mutant::AsksWithoutLease && (of_group || !self.about_groups);
        let holds = match act {
            Act::Api(_) => true,
            Act::Call(_) | Act::List => !faulty,
            Act::Tell => false,
        };
        self.fenced && holds
    }
}

fn is_calling<S: Sort>(process: &Process<Snapshotter<S>>) -> bool {
    let calling = |running: &Running<_>| matches!(running.state, State::Calling(..));
    process.attempts.running.iter().any(calling)
}
