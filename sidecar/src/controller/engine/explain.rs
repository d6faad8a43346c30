//! What an engine says about an object: what its reactor explains, with the state of each key.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::{Engine, Shell, now};
use crate::controller::request::Ask as _;
use crate::why::answer::Busy;
use crate::why::{
    Ended, EngineAnswer, Explained, Explainer, Explanation, Notes, Object, OpenIntent, Work,
    WorkAnswer, preview,
};

/// An engine that answers as long as it exists.
struct Answering<R: Explained, S>(Weak<Engine<R, S>>);

impl<R: Explained, S: Shell<R>> Engine<R, S> {
    /// Starts to record attempts, and returns what answers about them.
    pub fn explained(self: &Arc<Self>) -> Arc<dyn Explainer> {
        let _again = self.notes.set(Notes::new(R::text));
        Arc::new(Answering(Arc::downgrade(self)))
    }

    fn explain(&self, object: &Object) -> Option<EngineAnswer> {
        let (reactor, informers) = (self.reactor(), self.shell.informers());
        let Explanation {
            uid,
            is_known,
            not_ours,
            work,
        } = reactor.explain(object, informers, now())?;
        let work = work.into_iter().map(|work| self.tell(&reactor, work));
        Some(EngineAnswer {
            uid,
            is_known,
            not_ours,
            awaits_lists: self.awaits_lists(),
            work: work.collect(),
        })
    }

    /// The work with the key's state and attempts, and with its next step unless it is under way.
    fn tell(&self, reactor: &R, work: Work<R::Key>) -> WorkAnswer {
        let informers = self.shell.informers();
        let told = self.key_answer(reactor, &work.key, work.queue);
        let next = match told.running {
            Some(_) => None,
            None => preview(reactor, &work.key, informers, now()),
        };
        WorkAnswer {
            what: work.what,
            because: work.because,
            waits_for: work.waits_for,
            later: work.later,
            awaits_lists: work.awaits_lists || told.awaits_lists,
            facts: work.facts,
            next: next.map(|request| request.name()),
            ..told
        }
    }

    fn awaits_lists(&self) -> bool {
        !self.serves.load(Ordering::Relaxed)
    }

    /// The state of a key in its queue, and its attempts.
    fn key_answer(&self, reactor: &R, key: &R::Key, queue: usize) -> WorkAnswer {
        let queue = self.queues.get(queue);
        let notes = self.notes.get();
        let read = |notes: &Notes<R>| {
            notes.read(|attempts| (attempts.running(key).cloned(), attempts.last(key).cloned()))
        };
        let (running, last) = notes.map(read).unwrap_or_default();
        WorkAnswer {
            object: reactor.object(key, self.shell.informers()),
            what: "",
            because: String::new(),
            waits_for: Vec::new(),
            later: None,
            awaits_lists: self.awaits_lists(),
            facts: serde_json::Map::new(),
            queue: queue
                .map(|queue| queue.name().to_owned())
                .unwrap_or_default(),
            key_state: queue.and_then(|queue| queue.key_state(key)),
            running,
            deadline: notes.and_then(|notes| notes.deadline(key)),
            last,
            next: None,
        }
    }

    fn busiest(&self, most: usize) -> Busy {
        let mut busy = Busy::default();
        let Some(notes) = self.notes.get() else {
            return busy;
        };
        let failing =
            |key: &R::Key| notes.read(|attempts| attempts.last(key).map(|last| last.failing_since));
        let mut keys: Vec<(usize, R::Key)> = Vec::new();
        for (number, queue) in self.queues.iter().enumerate() {
            let since = |key: &R::Key, begun: Option<Instant>| failing(key).or(begun);
            let (stages, first) = queue.busiest(most, since);
            for (stage, count) in stages {
                *busy.stages.entry(stage).or_default() += count;
            }
            keys.extend(first.into_iter().map(|key| (number, key)));
        }
        let reactor = self.reactor();
        for (queue, key) in keys {
            let told = self.key_answer(&reactor, &key, queue);
            let failing = told.last.as_ref().map(|last| last.failing_since);
            let stage = told.key_state.and_then(|key_state| key_state.stage.since());
            busy.rows.push((failing.or(stage), told));
        }
        (busy.codes, busy.under_way) =
            notes.read(|attempts| (attempts.codes(), under_way(attempts.steps())));
        busy
    }
}

/// Number of steps by their names without objects.
fn under_way<'a>(steps: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for step in steps {
        let name = step.split(' ').next().unwrap_or_default();
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

impl<R: Explained, S: Shell<R>> Explainer for Answering<R, S> {
    fn about(&self, object: &Object) -> Result<Option<EngineAnswer>, Ended> {
        let engine = self.0.upgrade().ok_or(Ended)?;
        Ok(engine.explain(object))
    }

    fn busy(&self, most: usize) -> Result<Busy, Ended> {
        let engine = self.0.upgrade().ok_or(Ended)?;
        Ok(engine.busiest(most))
    }

    fn intents(&self) -> Option<Vec<OpenIntent>> {
        let engine = self.0.upgrade()?;
        engine.reactor().intents()
    }
}
