//! Objects that read like sentences: `attachment("va1").by("test.csi.driver").on("node1").of("pv1")`.
//!
//! Every builder turns into JSON with `Into<Value>`, which [`crate::FakeApi::insert`] takes. The
//! trait [`Object`] has the methods for all objects (labels, finalizers, deletion); import it beside
//! the functions.

mod node;
mod volume;

use serde_json::{Value, json};

pub use node::{CsiNode, Node, csinode, node};
pub use volume::{
    Attachment, Claim, Class, Driver, Secret, Volume, attachment, claim, class, csidriver, secret,
    volume,
};

/// A time long past, for fields that only have to be set.
pub const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// The methods of every object under construction.
pub trait Object: Sized + Into<Value> {
    /// The object so far.
    fn value(&mut self) -> &mut Value;

    /// The finished object.
    fn build(self) -> Value {
        self.into()
    }

    /// Sets the value at a JSON pointer, creating the objects on the way.
    #[must_use]
    fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        let mut place = self.value();
        for field in pointer.split('/').skip(1) {
            place = &mut place[field.replace("~1", "/")];
        }
        *place = value.into();
        self
    }

    /// Adds a finalizer.
    #[must_use]
    fn finalizer(mut self, name: &str) -> Self {
        push(&mut self.value()["metadata"]["finalizers"], name.into());
        self
    }

    /// Sets an annotation.
    #[must_use]
    fn annotation(mut self, key: &str, value: &str) -> Self {
        self.value()["metadata"]["annotations"][key] = value.into();
        self
    }

    /// Sets a label.
    #[must_use]
    fn label(mut self, key: &str, value: &str) -> Self {
        self.value()["metadata"]["labels"][key] = value.into();
        self
    }

    /// Sets the uid.
    #[must_use]
    fn uid(self, uid: &str) -> Self {
        self.with("/metadata/uid", uid)
    }

    /// Marks it as being deleted.
    #[must_use]
    fn deleting(self) -> Self {
        self.with("/metadata/deletionTimestamp", LONG_AGO)
    }
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = Value::Array(vec![item]),
    }
}

fn object(api_version: &str, kind: &str, name: &str) -> Value {
    let metadata = match name.split_once('/') {
        Some((namespace, name)) => json!({"namespace": namespace, "name": name}),
        None => json!({"name": name}),
    };
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
}

/// Declares a builder around one JSON value.
macro_rules! builder {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(serde_json::Value);

        impl crate::build::Object for $name {
            fn value(&mut self) -> &mut serde_json::Value {
                &mut self.0
            }
        }

        impl From<$name> for serde_json::Value {
            fn from(object: $name) -> Self {
                object.0
            }
        }
    };
}
use builder;
