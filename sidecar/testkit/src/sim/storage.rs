//! A storage system with snapshots, and calls that outlive their caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use tonic::Code;

type Text = Arc<str>;

/// The operation of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Creates a snapshot with this name.
    Create(String),
    /// Deletes the snapshot with this handle.
    Delete(Text),
}

/// A call in progress.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its number.
    pub id: u64,
    /// The call's operation.
    pub wish: Wish,
    /// The snapshot of this name that existed when the call began.
    pub found: Option<Text>,
    /// Whether the caller still waits.
    pub awaited: bool,
}

/// A snapshot in storage.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Empty for a pre-existing snapshot.
    pub name: String,
    /// The size in bytes.
    pub size: i64,
    /// How many more times it is reported as not ready.
    pub unready: usize,
}

/// A storage system and its driver.
#[derive(Debug, Default)]
pub struct Storage {
    next: u64,
    /// The snapshots by handle.
    pub snapshots: BTreeMap<Text, Snapshot>,
    /// How many snapshots of a name were ever created.
    pub made: BTreeMap<String, u32>,
    /// Calls in progress.
    pub running: Vec<Call>,
    /// Whether new snapshots are currently refused.
    pub picky: bool,
}

/// The full handle, as drivers return it that also accept a shorter one.
#[must_use]
pub fn full(handle: &str) -> String {
    format!("/{handle}")
}

/// The handle in storage for either form of a handle.
#[must_use]
pub fn plain(handle: &str) -> &str {
    handle.trim_start_matches('/')
}

impl Storage {
    /// A value that changes whenever a snapshot or a call comes or goes.
    #[must_use]
    pub fn stamp(&self) -> (u64, usize, usize) {
        (self.next, self.snapshots.len(), self.running.len())
    }

    /// The snapshot with this handle, in either form.
    #[must_use]
    pub fn get(&self, handle: &str) -> Option<&Snapshot> {
        self.snapshots.get(plain(handle))
    }

    /// The handle of the snapshot with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Text> {
        let mut all = self.snapshots.iter();
        let found = all.find(|(_, snapshot)| snapshot.name == *name && !name.is_empty());
        found.map(|(handle, _)| handle)
    }

    fn handle(&mut self) -> Text {
        self.next += 1;
        format!("snap-{}", self.next).into()
    }

    /// Adds a snapshot that was created elsewhere.
    pub fn furnish(&mut self, size: i64, unready: usize) -> Text {
        let handle = self.handle();
        let name = String::new();
        let found = Snapshot {
            name,
            size,
            unready,
        };
        self.snapshots.insert(handle.clone(), found);
        handle
    }

    /// Begins a call, unless the driver still works on another one for the snapshot.
    ///
    /// # Errors
    /// The status with which the call is refused.
    pub fn begin(&mut self, wish: Wish) -> Result<u64, Code> {
        let handle = match &wish {
            Wish::Create(name) => self.named(name).cloned(),
            Wish::Delete(handle) => Some(handle.clone()),
        };
        let busy = |call: &Call| {
            call.wish == wish
                || match (&call.wish, &wish) {
                    (Wish::Delete(gone), Wish::Create(_)) => Some(gone) == handle.as_ref(),
                    (Wish::Create(name), Wish::Delete(gone)) => self.named(name) == Some(gone),
                    (Wish::Create(_), Wish::Create(_)) | (Wish::Delete(_), Wish::Delete(_)) => {
                        false
                    }
                }
        };
        if self.running.iter().any(busy) {
            return Err(Code::Aborted);
        }
        let found = match &wish {
            Wish::Create(_) if handle.is_none() && self.picky => return Err(Code::InvalidArgument),
            Wish::Create(_) => handle,
            Wish::Delete(_) => None,
        };
        self.next += 1;
        self.running.push(Call {
            id: self.next,
            wish,
            found,
            awaited: true,
        });
        Ok(self.next)
    }

    /// Ends a call, with effect or without. A new snapshot gets `size`, and is reported as not ready
    /// `unready` times.
    ///
    /// # Panics
    /// If there is no such call.
    pub fn end(&mut self, id: u64, effect: bool, (size, unready): (i64, usize)) -> Call {
        let place = self.running.iter().position(|call| call.id == id);
        let call = self
            .running
            .remove(place.expect("a call that is under way"));
        match &call.wish {
            Wish::Create(name) if effect && call.found.is_none() => {
                let handle = self.handle();
                let name = name.clone();
                *self.made.entry(name.clone()).or_default() += 1;
                let taken = Snapshot {
                    name,
                    size,
                    unready,
                };
                self.snapshots.insert(handle, taken);
            }
            Wish::Delete(handle) if effect => drop(self.snapshots.remove(handle)),
            Wish::Create(_) | Wish::Delete(_) => {}
        }
        call
    }

    /// The caller stops waiting; the call goes on.
    pub fn abandon(&mut self, id: u64) {
        for call in self.running.iter_mut().filter(|call| call.id == id) {
            call.awaited = false;
        }
    }
}
