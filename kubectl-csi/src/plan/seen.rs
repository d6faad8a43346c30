//! The objects read so far, and the requests that failed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::{
    Attachment, AttributesClass, Capacity, Claim, Class, Condition, ConfigMap, Content, Crd,
    CsiNode, DaemonSet, Deployment, Driver, Event, GroupClass, GroupContent, GroupSnapshot, Kind,
    Lease, Meta, Node, Pod, Populator, Quota, Ref, Secret, Snapshot, SnapshotClass, StatefulSet,
    Volume,
};

use super::index::{self, nothing};
use super::store::Index;
pub use super::store::Store;

/// A request: one object, or a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Want {
    pub kind: Kind,
    /// `None`: all namespaces, or a cluster-scoped kind.
    pub namespace: Option<String>,
    /// `None`: a list.
    pub name: Option<String>,
    /// Field selectors of a list.
    pub fields: Vec<(&'static str, String)>,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Everything that matches was read, even if that is nothing.
    Whole,
    /// The API server does not serve this kind.
    NotServed,
    /// The request failed, for this reason.
    Refused(String),
}

/// A kind that the program reads.
pub trait Record: serde::de::DeserializeOwned + Sized {
    /// Metadata.
    fn meta(&self) -> &Meta;
    /// The value that a field selector compares.
    fn field(&self, name: &str) -> &str {
        match name {
            "metadata.name" => &self.meta().name,
            _ => "",
        }
    }
    /// The newest time in the object.
    fn latest(&self) -> Option<Timestamp>;
    /// The kind of these objects.
    const KIND: Kind;
    /// Adds an object's keys to the indexes.
    const KEYS: fn(&Self, &mut Index);
    /// The store of this kind.
    fn store(seen: &Seen) -> &Store<Self>;
    /// The store of this kind, for changes.
    fn store_mut(seen: &mut Seen) -> &mut Store<Self>;
}

macro_rules! shelves {
    ($($field:ident: $record:ty, $kind:ident, $meta:expr, $fields:expr, $keys:expr, $latest:expr;)*) => {
        /// All objects read so far, and the results of the requests.
        #[derive(Clone, Debug, Default)]
        pub struct Seen {
            $($field: Store<$record>,)*
            answers: BTreeMap<Want, Answer>,
            /// Whether a workload names a driver, by driver.
            mentioned: RefCell<BTreeMap<String, bool>>,
            /// The objects come from a file: nothing else can be requested.
            offline: bool,
        }

        $(impl Record for $record {
            fn meta(&self) -> &Meta {
                let meta: fn(&Self) -> &Meta = $meta;
                meta(self)
            }

            fn field(&self, name: &str) -> &str {
                match name {
                    "metadata.name" => &self.meta().name,
                    _ => $fields(self, name),
                }
            }

            const KIND: Kind = Kind::$kind;
            const KEYS: fn(&Self, &mut Index) = $keys;

            fn store(seen: &Seen) -> &Store<Self> {
                &seen.$field
            }

            fn store_mut(seen: &mut Seen) -> &mut Store<Self> {
                &mut seen.$field
            }

            fn latest(&self) -> Option<Timestamp> {
                let said: fn(&Self) -> Option<Timestamp> = $latest;
                let meta = self.meta();
                // A pod's deletion timestamp includes its grace period and so lies in the future.
                let gone = meta.deletion_timestamp.0.filter(|_| Kind::$kind != Kind::Pod);
                [said(self), meta.creation_timestamp.0, gone].into_iter().flatten().max()
            }
        })*

        impl Seen {
            /// Stores one object that `read` decodes as its kind.
            ///
            /// # Errors
            /// Those of `read`.
            pub fn put<R: Read>(&mut self, kind: Kind, read: R) -> Result<(), R::Error> {
                match kind {
                    $(Kind::$kind => {
                        let object: $record = read.read()?;
                        self.insert(object);
                    })*
                }
                Ok(())
            }

            /// Stores the objects that `read` decodes as a list, and returns the continue token.
            ///
            /// # Errors
            /// Those of `read`.
            pub fn put_page<R: Read>(&mut self, kind: Kind, read: R) -> Result<String, R::Error> {
                match kind {
                    $(Kind::$kind => {
                        let page: Page<$record> = read.read()?;
                        Ok(self.take(page))
                    })*
                }
            }

            /// The UID of an object, if it was read and has one.
            pub fn uid(&self, of: &Ref) -> Option<&str> {
                let uid = match of.kind {
                    $(Kind::$kind => self.$field.get(&of.namespace, &of.name).map(|one| &*one.meta().uid),)*
                };
                uid.filter(|uid| !uid.is_empty())
            }

            /// Whether there is any object of a kind, or of a namespace.
            pub(super) fn has_any(&self, kind: Kind, namespace: Option<&str>) -> bool {
                match kind {
                    $(Kind::$kind => self.$field.list(namespace).next().is_some(),)*
                }
            }

            /// Number of objects that decisions have iterated over.
            pub fn visited(&self) -> usize {
                [$(self.$field.visited(),)*].into_iter().sum()
            }

            /// The newest time in all objects: stands in for the current time when they come from a
            /// file.
            pub fn newest(&self) -> Option<Timestamp> {
                let times = [$(self.$field.list(None).filter_map(Record::latest).max(),)*];
                times.into_iter().flatten().max()
            }
        }
    };
}

fn none<'a, T>(_: &'a T, _: &str) -> &'a str {
    ""
}

fn of_event<'a>(event: &'a Event, field: &str) -> &'a str {
    match field {
        "involvedObject.kind" => &event.involved_object.kind,
        "involvedObject.name" => &event.involved_object.name,
        "reason" => &event.reason,
        _ => "",
    }
}

fn of_pod<'a>(pod: &'a Pod, field: &str) -> &'a str {
    match field {
        "spec.nodeName" => &pod.spec.node_name,
        _ => "",
    }
}

fn never<T>(_: &T) -> Option<Timestamp> {
    None
}

fn changed(conditions: &[Condition]) -> Option<Timestamp> {
    let times = conditions.iter().map(|one| one.last_transition_time.0);
    times.max().flatten()
}

fn of_attachment(attachment: &Attachment) -> Option<Timestamp> {
    let status = &attachment.status;
    let errors = [&status.attach_error, &status.detach_error].into_iter();
    errors.flatten().filter_map(|error| error.time.0).max()
}

shelves! {
    pods: Pod, Pod, |one| &one.metadata, of_pod, index::pod, |one| changed(&one.status.conditions);
    claims: Claim, Claim, |one| &one.metadata, none, index::claim, |one| changed(&one.status.conditions);
    volumes: Volume, Volume, |one| &one.metadata, none, index::volume, |one| one.status.last_phase_transition_time.0;
    classes: Class, Class, |one| &one.metadata, none, nothing, never;
    attachments: Attachment, Attachment, |one| &one.metadata, none, index::attachment, of_attachment;
    nodes: Node, Node, |one| &one.metadata, none, nothing, |one| changed(&one.status.conditions);
    csi_nodes: CsiNode, CsiNode, |one| &one.metadata, none, index::csi_node, never;
    drivers: Driver, Driver, |one| &one.metadata, none, nothing, never;
    capacities: Capacity, Capacity, |one| &one.metadata, none, index::capacity, never;
    attributes_classes: AttributesClass, AttributesClass, |one| &one.metadata, none, nothing, never;
    leases: Lease, Lease, |one| &one.metadata, none, index::lease, |one| one.spec.renew_time.0;
    events: Event, Event, |one| &one.metadata, of_event, index::event, Event::last;
    daemon_sets: DaemonSet, DaemonSet, |one| &one.0.metadata, none, |one, keys| index::workload(&one.0, keys), never;
    deployments: Deployment, Deployment, |one| &one.0.metadata, none, |one, keys| index::workload(&one.0, keys), never;
    stateful_sets: StatefulSet, StatefulSet, |one| &one.0.metadata, none, |one, keys| index::workload(&one.0, keys), never;
    quotas: Quota, Quota, |one| &one.metadata, none, nothing, never;
    snapshots: Snapshot, Snapshot, |one| &one.metadata, none, index::snapshot, never;
    contents: Content, Content, |one| &one.metadata, none, nothing, never;
    snapshot_classes: SnapshotClass, SnapshotClass, |one| &one.metadata, none, nothing, never;
    group_snapshots: GroupSnapshot, GroupSnapshot, |one| &one.metadata, none, nothing, never;
    group_contents: GroupContent, GroupContent, |one| &one.metadata, none, nothing, never;
    group_classes: GroupClass, GroupClass, |one| &one.metadata, none, nothing, never;
    populators: Populator, Populator, |one| &one.metadata, none, nothing, never;
    crds: Crd, Crd, |one| &one.metadata, none, nothing, never;
    config_maps: ConfigMap, ConfigMap, |one| &one.metadata, none, nothing, never;
    secrets: Secret, Secret, |one| &one.metadata, none, nothing, never;
}

/// Decodes one value as what the caller needs.
pub trait Read {
    /// The decoding error.
    type Error;
    /// Decodes the value.
    ///
    /// # Errors
    /// It is not a `T`.
    fn read<T: serde::de::DeserializeOwned>(self) -> Result<T, Self::Error>;
}

/// A page of a list.
#[derive(serde::Deserialize)]
#[serde(bound = "T: serde::de::DeserializeOwned")]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    items: crate::model::Many<T>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: crate::model::Text,
}

impl Seen {
    /// Holds the objects of a file, to which nothing can be added.
    pub fn offline() -> Self {
        Self {
            offline: true,
            ..Self::default()
        }
    }

    fn take<T: Record>(&mut self, page: Page<T>) -> String {
        for object in page.items {
            self.insert(object);
        }
        page.metadata.next.to_string()
    }

    /// Stores one object.
    pub fn insert<T: Record>(&mut self, object: T) {
        let meta = object.meta();
        // Object names go into commands that users paste; no API server accepts names with other
        // characters.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        // A name that began with a dash would be taken for an option.
        let whole = |name: &str| {
            let end = |c: char| c.is_ascii_alphanumeric();
            name.chars().all(plain) && name.starts_with(end) && name.ends_with(end)
        };
        if !whole(&meta.name) || !(meta.namespace.is_empty() || whole(&meta.namespace)) {
            return;
        }
        let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
        self.mentioned.take();
        T::store_mut(self).insert(&namespace, &name, object);
    }

    /// Whether a workload names a driver; `look` runs only once per driver.
    pub(super) fn is_mentioned(&self, driver: &str, look: impl FnOnce() -> bool) -> bool {
        let known = self.mentioned.borrow().get(driver).copied();
        known.unwrap_or_else(|| {
            let is_mentioned = look();
            { self.mentioned.borrow_mut() }.insert(driver.to_owned(), is_mentioned);
            is_mentioned
        })
    }

    /// Stores the result of a request.
    pub fn answer(&mut self, want: Want, answer: Answer) {
        self.answers.insert(want, answer);
    }

    /// The requests that failed, and why.
    pub fn refused(&self) -> impl Iterator<Item = (&Want, &str)> {
        self.answers
            .iter()
            .filter_map(|(want, answer)| match answer {
                Answer::Refused(why) => Some((want, &**why)),
                Answer::Whole | Answer::NotServed => None,
            })
    }

    /// Number of requests so far.
    pub fn requests(&self) -> usize {
        self.answers.len()
    }

    /// The result that covers `want`; it may be that of a larger list.
    pub fn standing(&self, want: &Want) -> Option<Answer> {
        if self.offline {
            return Some(self.in_file(want));
        }
        let own = self.answers.get(want);
        let list = |namespace: Option<String>| {
            let list = Want {
                kind: want.kind,
                namespace,
                name: None,
                fields: Vec::new(),
            };
            let answer = self.answers.get(&list)?;
            // A user who may not list may still be allowed to get.
            (!matches!(answer, Answer::Refused(_)) || want.name.is_none()).then_some(answer)
        };
        let of_namespace = || list(want.namespace.clone());
        let found = own.or_else(of_namespace).or_else(|| list(None))?;
        Some(found.clone())
    }

    /// A file counts as complete for a kind if it has one object of it, for namespaced kinds one in
    /// that namespace. For events and for rarely used kinds it always counts as complete.
    fn in_file(&self, want: &Want) -> Answer {
        let namespace = want.namespace.as_deref();
        let namespace = namespace.filter(|_| want.kind.is_namespaced());
        let absent_is_usual = matches!(want.kind, Kind::Event | Kind::Quota | Kind::GroupSnapshot);
        if absent_is_usual || self.has_any(want.kind, namespace) {
            return Answer::Whole;
        }
        Answer::Refused("not in the file".to_owned())
    }
}
