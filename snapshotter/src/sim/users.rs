//! Actions of the snapshot-controller, users and administrators.

use sidecar::snapshot::group;

use super::world::{Faults, World};
use crate::model::{
    Class, Content, GroupHandles, Kind, Policy, SecretRef, SnapshotRef, Source, Text,
};
use crate::testing::{DRIVER, pairs};

const HOLDER: &str = "x/y";
/// Most contents in one run.
const CONTENTS: usize = 5;

pub(super) fn secret() -> SecretRef {
    SecretRef {
        namespace: "ns".into(),
        name: "sec".into(),
    }
}

fn listing() -> SecretRef {
    SecretRef {
        namespace: "ns".into(),
        name: "list".into(),
    }
}

/// Handles of the members of a group.
pub(super) fn members(group: &str) -> [String; 2] {
    [1, 2].map(|number| format!("{group}-{number}"))
}

impl World {
    /// The objects that exist before the first process starts.
    pub(super) fn furnish(&mut self) {
        for class in ["c1", "c2"] {
            self.put_class(class);
        }
        self.put_secrets();
        self.bear();
    }

    pub(super) fn put_secrets(&mut self) {
        for (reference, value) in [(secret(), "s"), (listing(), "l")] {
            let values = [("u".to_owned(), value.to_owned())].into();
            self.server.secrets.insert(reference, Some(values));
        }
    }

    /// Creates a class; `c2` names a Secret for lists.
    pub(super) fn put_class(&mut self, name: &str) {
        let parameters = match name {
            "c1" => pairs(&[("a", "b")]),
            _ => match self.kind {
                Kind::Single => pairs(&[
                    ("csi.storage.k8s.io/snapshotter-list-secret-name", "list"),
                    ("csi.storage.k8s.io/snapshotter-list-secret-namespace", "ns"),
                ]),
                Kind::Group => pairs(&[
                    (group::GET_SECRET_NAME_PARAMETER, "list"),
                    (group::GET_SECRET_NAMESPACE_PARAMETER, "ns"),
                ]),
            },
        };
        let class = Class {
            driver: DRIVER.into(),
            parameters,
        };
        self.server.put_class(&name.into(), Some(class));
    }

    /// Creates a content.
    fn bear(&mut self) {
        if self.born >= CONTENTS {
            return;
        }
        self.born += 1;
        let number = self.born;
        let name: Text = format!("snapcontent-U{number}").into();
        let found = self.dice.one_in(3);
        let foreign = self.dice.one_in(8);
        let bound = !found || self.dice.one_in(2);
        let source = if found {
            let (size, unready) = self.taken();
            let handle = self.driver.furnish(size, unready);
            // Some named snapshots do not exist.
            if self.faults == Faults::Lasting && self.dice.one_in(3) {
                self.driver.snapshots.remove(&handle);
            }
            match self.kind {
                Kind::Single => Source::Snapshot(handle),
                Kind::Group => Source::Group(Box::new(GroupHandles {
                    snapshots: members(&handle).map(Text::from).into(),
                    group: handle,
                })),
            }
        } else {
            match self.kind {
                Kind::Single => Source::Volume("vol-1".into()),
                Kind::Group => Source::Volumes(["vol-1".into(), "vol-2".into()].into()),
            }
        };
        let uid = if bound {
            format!("U{number}")
        } else {
            String::new()
        };
        // Backup tools re-create an object with leftovers of its old annotations.
        let copied = found && self.dice.one_in(2);
        let mut has = || copied && self.dice.one_in(2);
        let (being_created, being_deleted, member) = (has(), has(), has());
        // Upstream's controller protects contents later.
        let protected = has() || bound && !self.dice.one_in(3);
        let class = ["c1", "c2"][self.dice.below(2)];
        let content = Content {
            uid: format!("C{number}").into(),
            finalizers: if protected {
                [self.kind.finalizer().into()].into()
            } else {
                [].into()
            },
            being_created,
            being_deleted,
            member,
            secret: self.dice.one_in(3).then(|| Box::new(secret())),
            snapshot: SnapshotRef {
                namespace: "ns".into(),
                name: format!("s{number}").into(),
                uid: uid.into(),
            },
            source: Some(source),
            driver: if foreign { "other" } else { DRIVER }.into(),
            class: (!found || self.dice.one_in(2)).then(|| class.into()),
            policy: if self.dice.one_in(4) {
                Policy::Retain
            } else {
                Policy::Delete
            },
            ..Content::default()
        };
        self.server.put(&name, Some(content));
    }

    pub(super) fn people(&mut self) {
        match self.dice.below(12) {
            0 | 1 => self.bear(),
            2 => self.protect(),
            3 | 4 => self.forsake(),
            5 | 6 => self.delete_forsaken(),
            7 => self.delete_by_hand(),
            8 => {
                let living = self.pick(|content| !content.deleting);
                self.change(living, |content| {
                    content.policy = match content.policy {
                        Policy::Delete => Policy::Retain,
                        Policy::Retain => Policy::Delete,
                    };
                });
            }
            9 => {
                let free = self.pick(|content| !content.deleting && !is_held(content));
                self.change(free, |content| {
                    let held = content.finalizers.iter().cloned();
                    content.finalizers = held.chain([HOLDER.into()]).collect();
                });
            }
            10 => self.let_go(),
            _ => self.bind(),
        }
    }

    fn change(&mut self, name: Option<Text>, change: impl FnOnce(&mut Content)) {
        let Some(name) = name else {
            return;
        };
        self.server.change(&name, change);
        self.check_vanished(&name);
    }

    /// The snapshot-controller adds its finalizer once the content is bound.
    pub(super) fn protect(&mut self) {
        let bare = self.pick(|content| {
            !content.deleting && !content.is_protected() && !content.snapshot.uid.is_empty()
        });
        self.change(bare, |content| {
            let held = content.finalizers.iter().cloned();
            let ours = content.kind().finalizer();
            content.finalizers = held.chain([ours.into()]).collect();
        });
    }

    fn bind(&mut self) {
        let unbound = self.pick(|content| content.snapshot.uid.is_empty() && !content.deleting);
        self.change(unbound, |content| {
            let uid = content.uid.replace('C', "U");
            content.snapshot.uid = uid.into();
        });
    }

    /// A VolumeSnapshot is deleted; the snapshot-controller says so on the content.
    fn forsake(&mut self) {
        let living =
            self.pick(|content| !content.being_deleted && !content.snapshot.uid.is_empty());
        self.change(living, |content| content.being_deleted = true);
    }

    /// Then it deletes the content, if that is the policy.
    pub(super) fn delete_forsaken(&mut self) {
        let told = self.pick(|content| {
            content.being_deleted && !content.deleting && content.policy == Policy::Delete
        });
        self.change(told, |content| content.deleting = true);
    }

    fn delete_by_hand(&mut self) {
        if !self.dice.one_in(3) {
            return;
        }
        let living = self.pick(|content| !content.deleting);
        self.change(living, |content| content.deleting = true);
    }

    /// Another holder releases a content.
    pub(super) fn let_go(&mut self) {
        let held = self.pick(is_held);
        self.change(held, |content| {
            let others = content.finalizers.iter().filter(|held| ***held != *HOLDER);
            content.finalizers = others.cloned().collect();
        });
    }

    /// Changes a class, a Secret or the driver.
    pub(super) fn surroundings(&mut self) {
        let all = self.has_all_faults();
        let class = ["c1", "c2"][self.dice.below(2)];
        match self.dice.below(9) {
            0 => self.server.put_class(&class.into(), None),
            1 => self.put_class(class),
            2 if all => {
                let foreign = Class {
                    driver: "other".into(),
                    ..Class::default()
                };
                self.server.put_class(&class.into(), Some(foreign));
            }
            3 if all => drop(self.server.secrets.remove(&secret())),
            4 if all => drop(self.server.secrets.insert(listing(), None)),
            5 => self.put_secrets(),
            6 if all => self.driver.picky = !self.driver.picky,
            7 if all => self.go_or_come(),
            8 if all => self.forget(),
            _ => {}
        }
        self.begin_anew();
    }

    /// The driver loses a snapshot that it never reported as ready, and takes another one when asked again.
    pub(super) fn forget(&mut self) {
        if self.frozen.is_some() {
            return;
        }
        let busy = { self.process.attempts.running.iter() }.map(|running| running.key.clone());
        let busy: Vec<Text> = busy.collect();
        let mut contents = self.server.contents.iter();
        let lost = contents.find_map(|(key, (_, content))| {
            let handle = content.handle().filter(|_| !busy.contains(key))?;
            let snapshot = self.driver.get(handle)?;
            let unready = snapshot.unready > 0 && !snapshot.name.is_empty();
            unready.then(|| (handle.clone(), snapshot.name.clone()))
        });
        if let Some((handle, name)) = lost {
            self.driver.snapshots.remove(&handle);
            self.forgotten.insert(name);
        }
    }

    fn go_or_come(&mut self) {
        self.driver.away = !self.driver.away;
        if !self.driver.away {
            self.process.driver_is_back();
        }
    }

    /// Provides everything that was missing.
    pub(super) fn provide(&mut self) {
        for class in ["c1", "c2"] {
            self.put_class(class);
        }
        self.put_secrets();
        self.driver.picky = false;
        if self.driver.away {
            self.go_or_come();
        }
    }
}

pub(super) fn is_held(content: &Content) -> bool {
    content.finalizers.iter().any(|held| **held == *HOLDER)
}
