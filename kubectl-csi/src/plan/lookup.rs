//! Selectors of objects, and the result of a lookup.

use super::seen::{Record, Want};
use crate::model::{Kind, Ref};

/// The result of looking up one object.
#[derive(Debug)]
pub(super) enum Lookup<'a, T> {
    Found(&'a T),
    Missing,
    /// It could not be read.
    Unseen,
}

impl<T> Clone for Lookup<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Lookup<'_, T> {}

impl<'a, T> Lookup<'a, T> {
    /// The object, if it was seen.
    pub(super) fn found(self) -> Option<&'a T> {
        match self {
            Self::Found(object) => Some(object),
            Self::Missing | Self::Unseen => None,
        }
    }

    /// Whether it is proved not to exist.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}

/// Objects of a kind that a selector matches.
#[derive(Clone, Debug)]
pub(super) struct Listed<'a, T> {
    pub(super) items: Vec<&'a T>,
    /// The list is complete.
    pub(super) whole: bool,
}

impl<'a, T: Record> Listed<'a, T> {
    /// Their names.
    pub(super) fn names(&self) -> Vec<&'a str> {
        self.items.iter().map(|one| &*one.meta().name).collect()
    }
}

/// A number of objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) all: usize,
    /// The count is complete.
    pub(super) whole: bool,
}

/// A selector of objects of a kind.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectSelector {
    pub(super) namespace: Option<String>,
    pub(super) fields: Vec<(&'static str, String)>,
}

impl ObjectSelector {
    /// All objects in the cluster.
    pub(super) fn all() -> Self {
        Self::default()
    }

    /// All objects in a namespace.
    pub(super) fn of(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            fields: Vec::new(),
        }
    }

    /// Only the objects whose field has this value.
    pub(super) fn with(mut self, field: &'static str, value: &str) -> Self {
        self.fields.push((field, value.to_owned()));
        self
    }

    /// Whether an object matches.
    pub(super) fn fits<T: Record>(&self, object: &T) -> bool {
        let mut fields = self.fields.iter();
        let namespace = self.namespace.as_deref();
        namespace.is_none_or(|own| object.meta().namespace == *own)
            && fields.all(|(name, value)| object.field(name) == value)
    }
}

/// The request for one object.
pub(super) fn one(object: &Ref) -> Want {
    let namespaced = object.kind.is_namespaced();
    Want {
        kind: object.kind,
        namespace: namespaced.then(|| object.namespace.clone()),
        name: Some(object.name.clone()),
        fields: Vec::new(),
    }
}

/// The request for a list.
pub(super) fn many(kind: Kind, selector: &ObjectSelector) -> Want {
    Want {
        kind,
        namespace: selector.namespace.clone(),
        name: None,
        fields: selector.fields.clone(),
    }
}

/// Selects the events about an object. Those about cluster-scoped objects are in `default`.
pub(super) fn events_of(about: &Ref) -> ObjectSelector {
    let namespace = match &*about.namespace {
        "" => "default",
        namespace => namespace,
    };
    ObjectSelector::of(namespace)
        .with("involvedObject.kind", about.kind.name())
        .with("involvedObject.name", &about.name)
}
