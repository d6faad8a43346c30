//! Own writes of objects, from before the request until its answer.

use std::sync::Arc;

use super::{Change, Pending, Slot, Source, Stamp, Store};
use crate::kube::key::Key;

impl<R> Store<R> {
    /// An own write of this object begins.
    pub fn begin_write(&mut self, key: &Key) {
        let none = || Pending {
            writes: 0,
            untold: None,
            deleted_at: None,
            generation: 0,
        };
        let pending = self.pending.entry(key.clone()).or_insert_with(none);
        pending.writes += 1;
        pending.generation = self.generation;
    }

    /// The own write was answered with this object.
    pub fn write_answered(
        &mut self,
        key: &Key,
        record: impl Into<Arc<R>>,
        version: u64,
    ) -> Option<Change<R>> {
        let (pending, record) = (self.end_write(key), record.into());
        let wanted = self.wanted.has(&record);
        let known = self.map.get(key.as_str());
        let newest = match known {
            // An equal version may still be news: the patch that removes the last finalizer of an
            // object being deleted is answered with the new content and the old version.
            Some(slot) => version == 0 || version >= slot.stamp.version(),
            None if { pending.deleted_at }
                .is_some_and(|deleted| deleted == 0 || deleted >= version) =>
            {
                false
            }
            // Else it came and went before the last list, and no event will say so; but of what lists
            // leave out only one that began after the request would have shown it.
            None if version != 0 && version <= self.listed_at => {
                !wanted && pending.generation >= self.complete
            }
            None => true,
        };
        if newest {
            let told = match pending.untold {
                Some(told) => told,
                None => known.map(|slot| Arc::clone(&slot.record)),
            };
            // An answer is no proof that a list under way will contain the object; one that may have
            // passed it by already is not waited for.
            let is_met = match known {
                Some(slot) => slot.stamp.is_met(),
                None => !wanted && pending.generation == self.generation,
            };
            let new = self.put(
                key.clone(),
                Slot {
                    record,
                    stamp: Stamp::own(version, is_met),
                },
            );
            return Some(Change::Upserted {
                key: key.clone(),
                old: told,
                new,
                source: Source::Own,
            });
        }
        let source = match known {
            Some(slot) if slot.stamp.version() == version => Source::Own,
            Some(_) | None => Source::Watch,
        };
        self.catch_up(key, pending, source)
    }

    /// The own write was answered with this object, of which nothing is kept as of `version`.
    pub fn write_answered_unkept(&mut self, key: &Key, version: u64) -> Option<Change<R>> {
        let pending = self.end_write(key);
        if let Some(slot) = self.map.get(key.as_str())
            && version != 0
            && version < slot.stamp.version()
        {
            return self.catch_up(key, pending, Source::Watch);
        }
        if let Some(others) = self.pending.get_mut(key.as_str()) {
            others.deleted(version);
        }
        self.deletions.add(key, version, self.generation);
        let slot = self.map.remove(key.as_str());
        let told = pending.untold.unwrap_or(slot.map(|slot| slot.record));
        told.map(|old| Change::Deleted {
            key: key.clone(),
            old,
        })
    }

    /// The own write failed, or nobody knows.
    pub fn write_failed(&mut self, key: &Key) -> Option<Change<R>> {
        let pending = self.end_write(key);
        // Without an answer it may have been an event that came again, of what is long gone.
        let unknown = matches!(pending.untold, Some(None));
        if unknown
            && self
                .map
                .get(key.as_str())
                .is_some_and(|slot| !self.wanted.has(&slot.record))
        {
            self.map.remove(key.as_str());
            return None;
        }
        self.catch_up(key, pending, Source::Watch)
    }

    /// Tells what the watch brought while the own write was under way.
    fn catch_up(&self, key: &Key, pending: Pending<R>, source: Source) -> Option<Change<R>> {
        let old = pending.untold?;
        let new = Arc::clone(self.get(key.as_str())?);
        Some(Change::Upserted {
            key: key.clone(),
            old,
            new,
            source,
        })
    }

    fn end_write(&mut self, key: &Key) -> Pending<R> {
        let none = Pending {
            writes: 0,
            untold: None,
            deleted_at: None,
            generation: self.generation,
        };
        let Some(pending) = self.pending.get_mut(key.as_str()) else {
            return none;
        };
        pending.writes = pending.writes.saturating_sub(1);
        if pending.writes == 0 {
            return self.pending.remove(key.as_str()).unwrap_or(none);
        }
        Pending {
            untold: pending.untold.take(),
            deleted_at: pending.deleted_at,
            generation: pending.generation,
            ..none
        }
    }
}
