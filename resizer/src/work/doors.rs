//! When the first work of each sort may begin: once the lists it depends on are complete.
//!
//! Separate for each sort, because the permission to list pods may be missing where modifications go
//! on all the same, and that to list classes where expansions do.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::plan::{Kind, Task};

/// What came before its time, and what the time is.
#[derive(Debug)]
pub(super) struct Doors {
    kinds: Mutex<[(Kind, Door); 2]>,
}

#[derive(Debug)]
enum Door {
    Open,
    /// These came before.
    Closed(HashSet<Task>),
    /// There is no work of this sort.
    Walled,
}

impl Doors {
    /// All doors are closed, but for sorts of work that there are none of.
    pub(super) fn new(has: impl Fn(Kind) -> bool) -> Self {
        let kinds = Kind::ALL.map(|kind| match has(kind) {
            true => (kind, Door::Closed(HashSet::new())),
            false => (kind, Door::Walled),
        });
        Self {
            kinds: Mutex::new(kinds),
        }
    }

    fn lock(&self) -> MutexGuard<'_, [(Kind, Door); 2]> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the task may go on; it is kept if its time is still to come.
    pub(super) fn pass(&self, task: &Task) -> bool {
        let mut kinds = self.lock();
        match kinds.iter_mut().find(|(kind, _)| *kind == task.kind) {
            Some((_, Door::Open)) => true,
            Some((_, Door::Closed(early))) => {
                early.insert(task.clone());
                false
            }
            Some((_, Door::Walled)) | None => false,
        }
    }

    /// From now on tasks of this sort pass. Returns those that came before.
    pub(super) fn open(&self, kind: Kind) -> HashSet<Task> {
        let mut kinds = self.lock();
        let door = kinds.iter_mut().find(|(of, _)| *of == kind);
        match door.map(|(_, door)| std::mem::replace(door, Door::Open)) {
            Some(Door::Closed(early)) => early,
            Some(Door::Open | Door::Walled) | None => HashSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z_28_and_29_each_sort_waits_for_itself() {
        let doors = Doors::new(|_| true);
        let task = |kind| Task::new(kind, &"ns/c1".into());
        let (expand, modify) = (task(Kind::Expand), task(Kind::Modify));
        assert!(!doors.pass(&expand) && !doors.pass(&expand) && !doors.pass(&modify));
        assert_eq!(doors.open(Kind::Modify), HashSet::from([modify.clone()]));
        assert!(doors.pass(&modify) && !doors.pass(&expand));
        assert_eq!(doors.open(Kind::Expand), HashSet::from([expand.clone()]));
        assert!(doors.pass(&expand));
        assert!(doors.open(Kind::Expand).is_empty());
    }

    #[test]
    fn z_24_and_121_what_the_driver_cannot_do_is_not_even_kept() {
        let doors = Doors::new(|kind| kind == Kind::Expand);
        let modify = Task::new(Kind::Modify, &"ns/c1".into());
        assert!(!doors.pass(&modify));
        let kinds = doors.lock();
        assert!(kinds.iter().all(|(_, door)| match door {
            Door::Closed(early) => early.is_empty(),
            Door::Walled => true,
            Door::Open => false,
        }));
    }
}
