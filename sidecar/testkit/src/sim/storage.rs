//! A storage system that takes snapshots: what is in it, and calls that outlive their caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use tonic::Code;

type Text = Arc<str>;

/// What a call asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A snapshot of this name.
    Create(String),
    /// That the snapshot with this handle goes.
    Delete(Text),
}

/// A call the driver works on.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its number.
    pub id: u64,
    /// What it asks for.
    pub wish: Wish,
    /// The snapshot of this name that was there when it began.
    pub found: Option<Text>,
    /// Whether the caller still waits.
    pub awaited: bool,
}

/// A snapshot in storage.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Empty for one that was there before.
    pub name: String,
    /// Bytes.
    pub size: i64,
    /// How often it is still to be called unready.
    pub unready: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Storage {
    next: u64,
    /// What is there, by handle.
    pub snapshots: BTreeMap<Text, Snapshot>,
    /// How many snapshots of a name there ever were.
    pub made: BTreeMap<String, u32>,
    /// Calls that have not ended.
    pub running: Vec<Call>,
    /// Whether new snapshots are impossible, for now.
    pub picky: bool,
    /// Whether nothing can be sent to it, for now.
    pub away: bool,
}

/// The handle as drivers show it that take a shorter one, too.
#[must_use]
pub fn full(handle: &str) -> String {
    format!("/{handle}")
}

/// The handle that a driver means by this one: as it is in storage.
#[must_use]
pub fn plain(handle: &str) -> &str {
    handle.trim_start_matches('/')
}

impl Storage {
    /// The snapshot that this handle means.
    #[must_use]
    pub fn get(&self, handle: &str) -> Option<&Snapshot> {
        self.snapshots.get(plain(handle))
    }

    /// The handle of the snapshot of this name.
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

    /// A snapshot that nobody here has taken.
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

    /// A call arrives. A driver that still works on another one for the snapshot says so.
    ///
    /// # Errors
    /// The call is refused at once.
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

    /// The call ends, with effect or without: what a new snapshot has of size, and how often it is unready.
    ///
    /// # Panics
    /// There is no such call.
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

    /// The caller waits no longer; the call goes on.
    pub fn abandon(&mut self, id: u64) {
        for call in self.running.iter_mut().filter(|call| call.id == id) {
            call.awaited = false;
        }
    }

    /// Whether a snapshot of this name is there, or may come into being.
    #[must_use]
    pub fn may_have(&self, name: &str) -> bool {
        let makes =
            |call: &Call| call.found.is_none() && call.wish == Wish::Create(name.to_owned());
        self.named(name).is_some() || self.running.iter().any(makes)
    }
}
