//! Lists and watch events, which come late, again, or after a break.

use super::run::{Faults, World};
use super::scene::Scene;
use super::server::Event;

/// Kinds of objects that are watched.
pub(super) const KINDS: usize = 5;

impl World {
    /// One watch delivers its next event, or an earlier one again, or breaks.
    pub(super) fn deliver(&mut self) {
        self.asked.clear();
        let faulty = self.faulty();
        if faulty && self.dice.one_in(12) {
            let kind = self.dice.below(KINDS);
            return self.list(kind);
        }
        if faulty && !self.process.filling.contains(&2) && self.dice.one_in(12) {
            return if self.process.informers.attachments_missed {
                self.process.list_attachments(&self.server)
            } else {
                self.process.informers.attachments_missed = true;
                if self.dice.one_in(3) {
                    self.attach_and_leave();
                }
            };
        }
        let kind = self.dice.below(if self.case.scene == Scene::Topology {
            5
        } else {
            4
        });
        let cursor = self.cursor(kind);
        if faulty && cursor > 0 && self.dice.one_in(4) {
            let at = self.dice.below(cursor);
            if let Some(event) = self.server.log.get(at)
                && kind_of(&event.1) == kind
            {
                self.process.observe(event);
            }
            return;
        }
        let Some(at) = self.next(kind) else {
            return;
        };
        // Attachments from before a volume's change come first: see the assumptions.
        let mut first = vec![2];
        first.extend((self.case.faults == Faults::None).then_some(0));
        for other in first.into_iter().filter(|_| kind == 1) {
            while let Some(before) = self.next(other)
                && before < at
            {
                self.observe(before, other);
            }
        }
        self.observe(at, kind);
    }

    /// One of the first lists arrives. Until all have arrived, the process does not work.
    pub(super) fn fill_caches(&mut self) {
        let filling = &self.process.filling;
        if filling.is_empty() {
            return;
        }
        let index = self.dice.below(filling.len());
        let kind = self.process.filling[index];
        if self.case.scene == Scene::Sources && self.dice.one_in(3) {
            self.sweep();
        }
        self.list(kind);
    }

    /// Lists the objects of one kind; the other caches stay as far behind as they are.
    fn list(&mut self, kind: usize) {
        // Attachments from before a volume's change come first: see the assumptions.
        if kind == 1 {
            self.observe_attachments();
        }
        self.process.list_kind(&self.server, kind);
        self.recover();
    }

    /// Brings the attachments up to date: see the assumptions.
    pub(super) fn observe_attachments(&mut self) {
        self.observe_all(2);
    }

    /// This watch delivers all its events.
    pub(super) fn observe_all(&mut self, kind: usize) {
        while let Some(at) = self.next(kind) {
            self.observe(at, kind);
        }
    }

    /// This watch delivers its next event, if there is one.
    pub(super) fn deliver_next(&mut self, kind: usize) {
        self.asked.clear();
        if let Some(at) = self.next(kind) {
            self.observe(at, kind);
        }
    }

    /// Position in the log of this watch's next event.
    fn next(&mut self, kind: usize) -> Option<usize> {
        let process = &self.process;
        if kind == 2 && process.informers.attachments_missed || process.filling.contains(&kind) {
            return None;
        }
        let cursor = self.cursor(kind);
        let mut log = self.server.log.iter().enumerate().skip(cursor);
        log.find(|(_, (_, event))| kind_of(event) == kind)
            .map(|(at, _)| at)
    }

    fn observe(&mut self, at: usize, kind: usize) {
        match kind {
            0 => self.process.informers.claims.cursor = at + 1,
            1 => self.process.informers.volumes.cursor = at + 1,
            2 => self.process.informers.attachments.cursor = at + 1,
            3 => self.process.informers.classes.cursor = at + 1,
            _ => self.process.informers.nodes.cursor = at + 1,
        }
        self.process.observe(&self.server.log[at]);
    }

    fn cursor(&self, kind: usize) -> usize {
        match kind {
            0 => self.process.informers.claims.cursor,
            1 => self.process.informers.volumes.cursor,
            2 => self.process.informers.attachments.cursor,
            3 => self.process.informers.classes.cursor,
            _ => self.process.informers.nodes.cursor,
        }
    }
}

fn kind_of(event: &Event) -> usize {
    match event {
        Event::Claim(..) => 0,
        Event::Volume(..) => 1,
        Event::Attachment(..) => 2,
        Event::Class(..) => 3,
        Event::Node(..) => 4,
    }
}
