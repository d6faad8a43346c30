//! The keys and values of an event and of the spans around it.

use std::error::Error;
use std::fmt;

use tracing::field::{Field, Visit};

use crate::error::Chain;

/// A value, ready for both formats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Shown in quotes.
    Text(String),
    /// A number, a boolean or `null`, shown as it is.
    Plain(String),
}

/// Key of an error, whatever key the event used.
pub(super) const ERROR: &str = "err";

/// Keys and values in order of appearance; recording a key again replaces its value.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    entries: Vec<(&'static str, Value)>,
}

/// Message, verbosity and fields of an event.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) message: String,
    pub(super) verbosity: u64,
    pub(super) fields: Fields,
}

impl Fields {
    pub(super) fn set(&mut self, key: &'static str, value: Value) {
        match self.entries.iter_mut().find(|(present, _)| *present == key) {
            Some((_, slot)) => *slot = value,
            None => self.entries.push((key, value)),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(present, _)| *present == key)
    }

    pub(super) fn extend(&mut self, other: &Self) {
        for (key, value) in &other.entries {
            self.set(key, value.clone());
        }
    }

    /// All entries; for errors the cause comes first.
    pub(super) fn iter(&self, error_first: bool) -> impl Iterator<Item = &(&'static str, Value)> {
        let is_first = move |key: &str| error_first && key == ERROR;
        let first = self.entries.iter().filter(move |(key, _)| is_first(key));
        first.chain(self.entries.iter().filter(move |(key, _)| !is_first(key)))
    }
}

impl Entry {
    fn text(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            "error" | "err" if text == super::NIL => {
                self.fields.set(ERROR, Value::Plain("null".to_owned()));
            }
            "error" | "err" => self.fields.set(ERROR, Value::Text(text)),
            name => self.fields.set(name, Value::Text(text)),
        }
    }
}

impl Visit for Entry {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.text(field, Chain(value).to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "v" => self.verbosity = value,
            name => self.fields.set(name, Value::Plain(value.to_string())),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields
            .set(field.name(), Value::Plain(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields
            .set(field.name(), Value::Plain(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let text = value.to_string();
        // JSON has no numbers for infinities and NaN.
        let value = if value.is_finite() {
            Value::Plain(text)
        } else {
            Value::Text(text)
        };
        self.fields.set(field.name(), value);
    }
}
