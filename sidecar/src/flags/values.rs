//! The parsed values of a command line's flags.

use std::collections::BTreeMap;

use super::spec::{Flag, Kind, Note};
use super::value::{self, Value};
use crate::duration::GoDuration;

/// The value of every flag in the table, given or default.
///
/// Reading a flag that is not in the table, or with the wrong type, is a mistake in the program: it
/// fails in debug builds and yields the zero value otherwise.
#[derive(Clone, Debug)]
pub struct Values {
    program: String,
    values: BTreeMap<&'static str, Held>,
    warnings: Vec<String>,
}

#[derive(Clone, Debug)]
struct Held {
    value: Value,
    given: bool,
}

impl Values {
    pub(super) fn new(program: String) -> Self {
        Self {
            program,
            values: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn insert(&mut self, flag: &'static Flag, values: impl Iterator<Item = Value>) {
        let mut held: Option<Value> = None;
        for value in values {
            held = Some(match (held, value) {
                (Some(Value::Texts(mut all)), Value::Texts(more)) => {
                    all.extend(more);
                    Value::Texts(all)
                }
                (Some(Value::Pairs(mut all)), Value::Pairs(more)) => {
                    all.extend(more);
                    Value::Pairs(all)
                }
                (Some(Value::Gates(mut all)), Value::Gates(more)) => {
                    all.extend(more);
                    Value::Gates(all)
                }
                (_, last) => last,
            });
        }
        if let (Some(_), Note::Deprecated(instead)) = (&held, flag.note) {
            self.warnings.push(format!(
                "Flag --{} has been deprecated, {instead}",
                flag.name
            ));
        }
        let given = held.is_some();
        let value = held.unwrap_or_else(|| default(flag));
        self.values.insert(flag.name, Held { value, given });
    }

    pub(super) fn warn_of(&mut self, warnings: Vec<String>) {
        self.warnings.extend(warnings);
    }

    /// The program's name as given on its command line.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Warnings about deprecated and retired flags and about ignored arguments.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The flag is in the program's table.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The command line set the flag, even if to its default.
    pub fn is_set(&self, name: &str) -> bool {
        debug_assert!(self.has(name), "no flag {name} in the table");
        self.values.get(name).is_some_and(|held| held.given)
    }

    /// Value of a boolean.
    pub fn bool(&self, name: &str) -> bool {
        self.read(name, |value| {
            if let Value::Bool(value) = value {
                Some(*value)
            } else {
                None
            }
        })
    }

    /// Value of a text.
    pub fn string(&self, name: &str) -> &str {
        let held = self.values.get(name).map(|held| &held.value);
        let text = if let Some(Value::Text(text)) = held {
            Some(text.as_str())
        } else {
            None
        };
        debug_assert!(text.is_some(), "no text flag {name} in the table");
        text.unwrap_or_default()
    }

    /// Values of a repeated text, in the order given.
    pub fn strings(&self, name: &str) -> Vec<String> {
        self.read(name, |value| {
            if let Value::Texts(value) = value {
                Some(value.clone())
            } else {
                None
            }
        })
    }

    /// Value of an integer or quantity.
    pub fn int(&self, name: &str) -> i64 {
        self.read(name, |value| {
            if let Value::Int(value) = value {
                Some(*value)
            } else {
                None
            }
        })
    }

    /// Value of an unsigned integer or verbosity.
    pub fn uint(&self, name: &str) -> u64 {
        self.read(name, |value| {
            if let Value::Uint(value) = value {
                Some(*value)
            } else {
                None
            }
        })
    }

    /// Value of a floating point number.
    pub fn float(&self, name: &str) -> f64 {
        self.read(name, |value| {
            if let Value::Float(value) = value {
                Some(*value)
            } else {
                None
            }
        })
    }

    /// Value of a duration.
    pub fn duration(&self, name: &str) -> GoDuration {
        self.read(name, |value| {
            if let Value::Duration(value) = value {
                Some(*value)
            } else {
                None
            }
        })
    }

    /// Value of a `pattern=N` list.
    pub fn levels(&self, name: &str) -> Vec<(String, u32)> {
        self.read(name, |value| {
            if let Value::Levels(value) = value {
                Some(value.clone())
            } else {
                None
            }
        })
    }

    /// Value of a `key:value` list, in the order given.
    pub fn pairs(&self, name: &str) -> Vec<(String, String)> {
        self.read(name, |value| {
            if let Value::Pairs(value) = value {
                Some(value.clone())
            } else {
                None
            }
        })
    }

    /// Value of a feature gate list, in the order given; [`crate::gates::Gates::set`] takes it.
    pub fn gates(&self, name: &str) -> Vec<(String, bool)> {
        self.read(name, |value| {
            if let Value::Gates(value) = value {
                Some(value.clone())
            } else {
                None
            }
        })
    }

    /// The flags that the command line set, each with its value in the flag's notation.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, String)> {
        let given = self.values.iter().filter(|(_, held)| held.given);
        given.map(|(name, held)| (*name, held.value.to_string()))
    }

    /// The values of the flags for which `wanted` holds, set or default.
    pub fn shown(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&'static str, String)> {
        let wanted = self.values.iter().filter(move |(name, _)| wanted(name));
        wanted.map(|(name, held)| (*name, held.value.to_string()))
    }

    fn read<T: Default>(&self, name: &str, get: impl Fn(&Value) -> Option<T>) -> T {
        let value = self.values.get(name).and_then(|held| get(&held.value));
        debug_assert!(value.is_some(), "no flag {name} of this type in the table");
        value.unwrap_or_default()
    }
}

fn default(flag: &Flag) -> Value {
    if flag.default.is_empty() {
        return zero(flag.kind);
    }
    let value = value::read(flag.kind, flag.default);
    debug_assert!(value.is_ok(), "default of {} cannot be read", flag.name);
    value.unwrap_or_else(|_| zero(flag.kind))
}

fn zero(kind: Kind) -> Value {
    match kind {
        Kind::Bool | Kind::BoolFunc => Value::Bool(false),
        Kind::String => Value::Text(String::new()),
        Kind::Strings => Value::Texts(Vec::new()),
        Kind::Int | Kind::Quantity => Value::Int(0),
        Kind::Uint | Kind::Verbosity => Value::Uint(0),
        Kind::Float => Value::Float(0.0),
        Kind::Duration => Value::Duration(GoDuration::ZERO),
        Kind::Vmodule => Value::Levels(Vec::new()),
        Kind::Pairs => Value::Pairs(Vec::new()),
        Kind::Gates => Value::Gates(Vec::new()),
    }
}
