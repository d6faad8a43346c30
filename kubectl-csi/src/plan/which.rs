//! Which objects are looked at, and what came of it.

use super::seen::{Record, Want};
use crate::model::{Kind, Ref};

/// One object.
#[derive(Debug)]
pub(super) enum Got<'a, T> {
    Found(&'a T),
    Missing,
    /// Nobody knows.
    Unseen,
}

impl<T> Clone for Got<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Got<'_, T> {}

impl<'a, T> Got<'a, T> {
    /// The object, if it was seen.
    pub(super) fn found(self) -> Option<&'a T> {
        match self {
            Self::Found(object) => Some(object),
            Self::Missing | Self::Unseen => None,
        }
    }

    /// Whether it is known not to be there.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}

/// Objects of a kind.
#[derive(Clone, Debug)]
pub(super) struct Listed<'a, T> {
    pub(super) items: Vec<&'a T>,
    /// These are all.
    pub(super) whole: bool,
}

impl<'a, T: Record> Listed<'a, T> {
    /// Their names.
    pub(super) fn names(&self) -> Vec<&'a str> {
        self.items.iter().map(|one| &*one.meta().name).collect()
    }
}

/// How many objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) all: usize,
    /// These are all.
    pub(super) whole: bool,
}

/// Which objects of a kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Which {
    pub(super) namespace: Option<String>,
    pub(super) fields: Vec<(&'static str, String)>,
}

impl Which {
    /// All in the cluster.
    pub(super) fn all() -> Self {
        Self::default()
    }

    /// All of a namespace.
    pub(super) fn of(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            fields: Vec::new(),
        }
    }

    /// Those alone whose field has this value.
    pub(super) fn with(mut self, field: &'static str, value: &str) -> Self {
        self.fields.push((field, value.to_owned()));
        self
    }

    /// Whether an object is one of these.
    pub(super) fn fits<T: Record>(&self, object: &T) -> bool {
        let mut fields = self.fields.iter();
        let namespace = self.namespace.as_deref();
        namespace.is_none_or(|own| object.meta().namespace == *own)
            && fields.all(|(name, value)| object.field(name) == value)
    }
}

/// One object.
pub(super) fn one(object: &Ref) -> Want {
    let namespaced = object.kind.is_namespaced();
    Want {
        kind: object.kind,
        namespace: namespaced.then(|| object.namespace.clone()),
        name: Some(object.name.clone()),
        fields: Vec::new(),
    }
}

/// A list.
pub(super) fn many(kind: Kind, which: &Which) -> Want {
    Want {
        kind,
        namespace: which.namespace.clone(),
        name: None,
        fields: which.fields.clone(),
    }
}

/// The events about an object. Those of objects without namespace are in `default`.
pub(super) fn events_of(about: &Ref) -> Which {
    let namespace = match &*about.namespace {
        "" => "default",
        namespace => namespace,
    };
    Which::of(namespace)
        .with("involvedObject.kind", about.kind.name())
        .with("involvedObject.name", &about.name)
}
