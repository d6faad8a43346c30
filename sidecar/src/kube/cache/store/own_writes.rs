//! Own writes of objects, from before the request until its response.

use std::sync::Arc;

use super::{Change, Pending, Slot, Source, Stamp, Store};
use crate::kube::key::Key;

impl<R> Store<R> {
    /// Begins an own write of this object.
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

    /// Ends an own write that was answered with this object.
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
            // An equal version may still be a change: the response to the patch that removes the last
            // finalizer of an object being deleted has the new content and the old version.
            Some(slot) => version == 0 || version >= slot.stamp.version(),
            None if { pending.deleted_at }
                .is_some_and(|deleted| deleted == 0 || deleted >= version) =>
            {
                false
            }
            // Otherwise the object came and went before the last list, and no event will report it;
            // but an object that lists may leave out would only be in a list that began after the
            // request.
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
            // A response does not prove that a list in progress will contain the object; one that may
            // have passed it already is not waited for.
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

    /// Ends an own write whose response is an object that is not kept as of `version`.
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

    /// Ends an own write that failed or whose outcome is unknown.
    pub fn write_failed(&mut self, key: &Key) -> Option<Change<R>> {
        let pending = self.end_write(key);
        // Without a response the event may have been a repetition, about an object that is long gone.
        let unknown = matches!(pending.untold, Some(None));
        let slot = self.map.get(key.as_str()).filter(|_| unknown);
        if let Some(slot) = slot.filter(|slot| !self.wanted.has(&slot.record)) {
            // A repeated older event may show the object as wanted.
            self.deletions.add(key, slot.stamp.version(), 0);
            self.map.remove(key.as_str());
            return None;
        }
        self.catch_up(key, pending, Source::Watch)
    }

    /// Reports what the watch brought while the own write was in flight.
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
