//! The log form of messages: one line of JSON without secrets.
//!
//! Keys are sorted proto field names, only populated fields appear, a field that carries the
//! `csi_secret` option shows as `"***stripped***"` whatever its type and depth, enums appear by
//! name and int64 as a number. Fields unknown to this build are dropped by the decoder, so a secret
//! in a field newer than this build cannot leak.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Placeholder of a secret.
pub const STRIPPED: &str = "\"***stripped***\"";

/// A message that can be written to a log.
pub trait Sanitize {
    /// Adds the populated fields, sorted by name, to `object`.
    fn sanitize(&self, object: &mut Object<'_>);
}

/// The log form of `message`: cheap to create, written only when displayed.
pub fn sanitized<M: Sanitize + ?Sized>(message: &M) -> impl fmt::Display + '_ {
    Sanitized(message)
}

struct Sanitized<'a, M: ?Sized>(&'a M);

impl<M: Sanitize + ?Sized> fmt::Display for Sanitized<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(self.0, f)
    }
}

pub(crate) fn debug<M: Sanitize + ?Sized>(message: &M, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = String::new();
    write_message(message, &mut text);
    f.write_str(&text)
}

fn write_message<M: Sanitize + ?Sized>(message: &M, text: &mut String) {
    text.push('{');
    message.sanitize(&mut Object { text, first: true });
    text.push('}');
}

/// The log forms of a unary method's messages, for callers that have the bytes only.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Full path: `/package.Service/Method`.
    pub path: &'static str,
    /// The log form of an encoded request; `None` if it does not decode.
    pub request: fn(&[u8]) -> Option<String>,
    /// The log form of an encoded response; `None` if it does not decode.
    pub response: fn(&[u8]) -> Option<String>,
}

impl Method {
    /// A method with request `Q` and response `A`.
    pub const fn new<Q, A>(path: &'static str) -> Self
    where
        Q: prost::Message + Default + Sanitize,
        A: prost::Message + Default + Sanitize,
    {
        Self {
            path,
            request: describe::<Q>,
            response: describe::<A>,
        }
    }
}

fn describe<M: prost::Message + Default + Sanitize>(bytes: &[u8]) -> Option<String> {
    let message = M::decode(bytes).ok()?;
    Some(sanitized(&message).to_string())
}

/// A JSON object under construction.
#[derive(Debug)]
pub struct Object<'a> {
    text: &'a mut String,
    first: bool,
}

impl Object<'_> {
    fn key(&mut self, name: &str) {
        if !self.first {
            self.text.push(',');
        }
        self.first = false;
        write_string(name, self.text);
        self.text.push(':');
    }

    /// Adds a field.
    pub fn field<V: Value + ?Sized>(&mut self, name: &str, value: &V) {
        self.key(name);
        value.write(self.text);
    }

    /// Adds the placeholder of a secret if the field holds anything.
    pub fn secret(&mut self, name: &str, populated: bool) {
        if populated {
            self.key(name);
            self.text.push_str(STRIPPED);
        }
    }

    /// Adds an enum by name, or by number if this build does not know it.
    pub fn enumeration(&mut self, name: &str, value: &i32, known: fn(i32) -> Option<&'static str>) {
        self.key(name);
        write_enum(*value, known, self.text);
    }

    /// Adds a list of enums.
    pub fn enumerations(
        &mut self,
        name: &str,
        values: &[i32],
        known: fn(i32) -> Option<&'static str>,
    ) {
        self.key(name);
        write_list(values, self.text, |value, text| {
            write_enum(*value, known, text)
        });
    }
}

fn write_enum(value: i32, known: fn(i32) -> Option<&'static str>, text: &mut String) {
    match known(value) {
        Some(name) => write_string(name, text),
        None => write_number(value, text),
    }
}

fn write_list<T>(values: &[T], text: &mut String, mut write: impl FnMut(&T, &mut String)) {
    text.push('[');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(value, text);
    }
    text.push(']');
}

fn write_number(number: impl fmt::Display, text: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{number}");
}

/// JSON string with the escapes that JSON requires.
fn write_string(value: &str, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

/// A field value.
pub trait Value {
    /// Whether it differs from the proto3 default, so that it appears at all.
    fn is_populated(&self) -> bool;
    /// Appends the JSON form.
    fn write(&self, text: &mut String);
}

impl<M: Sanitize> Value for M {
    fn is_populated(&self) -> bool {
        true
    }
    fn write(&self, text: &mut String) {
        write_message(self, text);
    }
}

macro_rules! number {
    ($($ty:ty),*) => {$(
        impl Value for $ty {
            fn is_populated(&self) -> bool {
                *self != <$ty>::default()
            }
            fn write(&self, text: &mut String) {
                write_number(self, text);
            }
        }
    )*};
}
number!(i32, i64, u32, u64, bool);

impl Value for String {
    fn is_populated(&self) -> bool {
        !self.is_empty()
    }
    fn write(&self, text: &mut String) {
        write_string(self, text);
    }
}

/// A message field, or one of the well-known wrappers, which prost turns into plain options.
impl<V: Wrapped> Value for Option<V> {
    fn is_populated(&self) -> bool {
        self.is_some()
    }
    fn write(&self, text: &mut String) {
        match self {
            Some(value) => value.write_wrapped(text),
            None => text.push_str("null"),
        }
    }
}

/// The JSON form of an `Option`'s content: a message as itself, a wrapper as `{"value":…}`.
pub trait Wrapped {
    /// Appends the JSON form.
    fn write_wrapped(&self, text: &mut String);
}

impl<M: Sanitize> Wrapped for M {
    fn write_wrapped(&self, text: &mut String) {
        write_message(self, text);
    }
}

macro_rules! wrapper {
    ($($ty:ty),*) => {$(
        impl Wrapped for $ty {
            fn write_wrapped(&self, text: &mut String) {
                text.push('{');
                if self.is_populated() {
                    text.push_str("\"value\":");
                    self.write(text);
                }
                text.push('}');
            }
        }
    )*};
}
wrapper!(i64, bool);

impl Sanitize for prost_types::Timestamp {
    fn sanitize(&self, object: &mut Object<'_>) {
        if self.nanos != 0 {
            object.field("nanos", &self.nanos);
        }
        if self.seconds != 0 {
            object.field("seconds", &self.seconds);
        }
    }
}

impl<V: Value> Value for Vec<V> {
    fn is_populated(&self) -> bool {
        !self.is_empty()
    }
    fn write(&self, text: &mut String) {
        write_list(self, text, V::write);
    }
}

impl<K: fmt::Display, V: Value> Value for BTreeMap<K, V> {
    fn is_populated(&self) -> bool {
        !self.is_empty()
    }
    fn write(&self, text: &mut String) {
        // Keys are sorted as JSON strings, which differs from the order of integer keys.
        let mut entries: Vec<_> = self
            .iter()
            .map(|(key, value)| (key.to_string(), value))
            .collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        text.push('{');
        let mut object = Object { text, first: true };
        for (key, value) in entries {
            object.field(&key, value);
        }
        text.push('}');
    }
}

#[cfg(test)]
mod tests;
