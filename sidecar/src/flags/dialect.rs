//! Argument lines of Go's two flag packages, rewritten to `--name=value` tokens.
//!
//! The packages differ in dashes, shorthands, positional arguments and wording; code behind this
//! file sees one form.

use std::ffi::OsString;

use super::value::Reason;
use super::{Dialect, Flag, Kind, Note, Spec};
use crate::alike::distance;

/// A rewritten command line.
#[derive(Debug)]
pub(super) struct Line {
    /// `--name=value` for each flag, or `--name` for a last flag whose value is missing.
    pub(super) tokens: Vec<String>,
    /// The reason why the rewriting ended.
    pub(super) end: End,
    /// Warnings about positional arguments and retired flags.
    pub(super) warnings: Vec<String>,
}

/// How the rewriting of a command line ended.
#[derive(Debug)]
pub(super) enum End {
    /// The end of the arguments: the last one, `--`, or for Go the first that is not a flag.
    Done,
    /// A request for help.
    Help,
    /// An invalid argument, with the diagnostic.
    Refused(String),
}

/// Rewrites the arguments after the program's name.
pub(super) fn rewrite(spec: &Spec, arguments: impl Iterator<Item = OsString>) -> Line {
    let mut reader = Reader {
        spec,
        arguments,
        tokens: Vec::new(),
        warnings: Vec::new(),
    };
    let end = reader.read();
    Line {
        tokens: reader.tokens,
        end,
        warnings: reader.warnings,
    }
}

struct Reader<'a, I> {
    spec: &'a Spec,
    arguments: I,
    tokens: Vec<String>,
    warnings: Vec<String>,
}

impl<I: Iterator<Item = OsString>> Reader<'_, I> {
    fn read(&mut self) -> End {
        while let Some(argument) = self.arguments.next() {
            let argument = match argument.into_string() {
                Ok(argument) => argument,
                Err(raw) => {
                    return End::Refused(format!("argument {raw:?} is not valid UTF-8"));
                }
            };
            if argument == "--" {
                return End::Done;
            }
            let dashed = argument.len() > 1 && argument.starts_with('-');
            let end = match (self.spec.dialect, dashed) {
                (_, false) => self.stray(&argument),
                (Dialect::Go, true) => self.go(&argument),
                (Dialect::Pflag, true) => self.pflag(&argument),
            };
            if let Some(end) = end {
                return end;
            }
        }
        End::Done
    }

    /// Warns about a positional argument. Both packages skip it silently, which hides typing
    /// errors: `flag` together with all that follows, pflag alone.
    fn stray(&mut self, argument: &str) -> Option<End> {
        let (end, what) = match self.spec.dialect {
            Dialect::Go => (Some(End::Done), "it and everything behind it are ignored"),
            Dialect::Pflag => (None, "it is ignored"),
        };
        let warning = format!("Argument {argument:?} is not a flag: {what}");
        self.warnings.push(warning);
        end
    }

    /// Reads a flag of Go's `flag`: one or two dashes mean the same.
    fn go(&mut self, argument: &str) -> Option<End> {
        let stripped = argument.strip_prefix("--");
        let body = stripped.or(argument.strip_prefix('-')).unwrap_or(argument);
        if body.is_empty() || body.starts_with('-') || body.starts_with('=') {
            return Some(End::Refused(format!("bad flag syntax: {argument}")));
        }
        self.long(body, "-")
    }

    fn pflag(&mut self, argument: &str) -> Option<End> {
        let Some(body) = argument.strip_prefix("--") else {
            return self.shorthands(argument);
        };
        if body.is_empty() || body.starts_with('-') || body.starts_with('=') {
            return Some(End::Refused(format!("bad flag syntax: {argument}")));
        }
        self.long(body, "--")
    }

    fn long(&mut self, body: &str, dashes: &str) -> Option<End> {
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        let value = value.map(str::to_owned);
        if let Some((flag, release)) = self.spec.retired.find(name) {
            return self.retired(flag, release, value);
        }
        match self.spec.find(name) {
            Some(flag) => self.push(flag, value),
            None if name == "help" => Some(End::Help),
            None if name == "h" && self.spec.dialect == Dialect::Go => Some(End::Help),
            None => Some(End::Refused(self.unknown(name, dashes))),
        }
    }

    /// Handles a flag of an earlier release; there is one warning even if it is repeated.
    fn retired(&mut self, flag: &Flag, release: &str, value: Option<String>) -> Option<End> {
        let warning = self.spec.retired.warning(flag, release);
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
        if let Note::Renamed(now) = flag.note {
            return self.push(self.spec.find(now)?, value);
        }
        if let Some(end) = self.push(flag, value) {
            return Some(end);
        }
        match self.tokens.pop() {
            Some(token) if token.contains('=') => None,
            _ => Some(End::Refused(needs_argument(self.spec.dialect, flag))),
        }
    }

    /// Reads a cluster such as `-v5`. Only flags of one letter have a shorthand, and the cluster
    /// ends with the first of them that takes a value.
    fn shorthands(&mut self, argument: &str) -> Option<End> {
        let mut rest = argument.strip_prefix('-').unwrap_or(argument).chars();
        while let Some(letter) = rest.next() {
            let name = letter.to_string();
            let Some(flag) = self.spec.find(&name) else {
                if letter == 'h' {
                    return Some(End::Help);
                }
                let text = format!("unknown shorthand flag: '{letter}' in {argument}");
                return Some(End::Refused(with_hint(
                    text,
                    shorthand_hint(self.spec, argument),
                )));
            };
            let value = rest.as_str();
            // If nothing follows the equals sign, the sign itself is the value.
            let equals = value.strip_prefix('=').filter(|value| !value.is_empty());
            if flag.kind.is_boolean() && equals.is_none() {
                self.tokens.push(format!("--{}=true", flag.name));
                continue;
            }
            let value = equals.or((!value.is_empty()).then_some(value));
            return match self.push(flag, value.map(str::to_owned)) {
                None if self.tokens.last().is_some_and(|token| !token.contains('=')) => {
                    self.tokens.pop();
                    let text = format!("flag needs an argument: '{letter}' in {argument}");
                    Some(End::Refused(text))
                }
                end => end,
            };
        }
        None
    }

    /// Adds the flag's token, taking the next argument as its value if it needs one.
    fn push(&mut self, flag: &Flag, value: Option<String>) -> Option<End> {
        let value = match value {
            Some(value) => Some(value),
            None if flag.kind.is_boolean() => Some("true".to_owned()),
            None => match self.arguments.next().map(OsString::into_string) {
                Some(Ok(value)) => Some(value),
                Some(Err(raw)) => {
                    let text = format!("value {raw:?} of flag -{} is not valid UTF-8", flag.name);
                    return Some(End::Refused(text));
                }
                None => None,
            },
        };
        self.tokens.push(match value {
            Some(value) => format!("--{}={value}", flag.name),
            None => format!("--{}", flag.name),
        });
        None
    }

    fn unknown(&self, name: &str, dashes: &str) -> String {
        let text = match self.spec.dialect {
            Dialect::Go => format!("flag provided but not defined: -{name}"),
            Dialect::Pflag => format!("unknown flag: --{name}"),
        };
        let near = nearest(self.spec, name);
        with_hint(text, near.map(|near| format!("{dashes}{near}")))
    }
}

fn with_hint(text: String, suggestion: Option<String>) -> String {
    match suggestion {
        Some(flag) => format!("{text}\ndid you mean {flag}?"),
        None => text,
    }
}

/// Suggests the long flag: pflag reads `-name` as a cluster of shorthands, where users of the other
/// sidecars mean the long flag.
fn shorthand_hint(spec: &Spec, argument: &str) -> Option<String> {
    let name = argument.trim_start_matches('-').split('=').next()?;
    spec.find(name).map(|flag| format!("--{}", flag.name))
}

pub(super) fn nearest(spec: &Spec, name: &str) -> Option<&'static str> {
    let plain = name.replace('_', "-").to_ascii_lowercase();
    let measured = spec
        .flags()
        .map(|flag| (distance(&plain, flag.name), flag.name));
    let (edits, near) = measured.min()?;
    // Short names are close to everything.
    (edits <= 2 && edits * 3 <= near.len()).then_some(near)
}

/// Diagnostic of a flag without the value it needs.
pub(super) fn needs_argument(dialect: Dialect, flag: &Flag) -> String {
    match dialect {
        Dialect::Go => format!("flag needs an argument: -{}", flag.name),
        Dialect::Pflag => format!("flag needs an argument: --{}", flag.name),
    }
}

/// Hint for a malformed duration; `flag` itself only reports "parse error".
const DURATION: &str = "\na duration needs a unit: 5s, 500ms, 1m30s";

/// Diagnostic of an invalid value.
pub(super) fn invalid_value(
    dialect: Dialect,
    flag: &Flag,
    text: &str,
    reason: Option<&Reason>,
) -> String {
    let name = flag.name;
    let detail = match (dialect, reason) {
        (Dialect::Go, Some(Reason::Range(_))) => "value out of range".to_owned(),
        (Dialect::Go, Some(Reason::Syntax(_)) | None) => "parse error".to_owned(),
        (Dialect::Pflag, None) => "invalid value".to_owned(),
        (_, Some(reason)) => reason.to_string(),
    };
    let text = quote(text);
    match (dialect, flag.kind) {
        (Dialect::Go, Kind::Bool | Kind::BoolFunc) => {
            format!("invalid boolean value {text} for -{name}: {detail}")
        }
        (Dialect::Go, kind) => {
            let hint = if kind == Kind::Duration { DURATION } else { "" };
            format!("invalid value {text} for flag -{name}: {detail}{hint}")
        }
        (Dialect::Pflag, _) if name.len() == 1 => {
            format!("invalid argument {text} for \"-{name}, --{name}\" flag: {detail}")
        }
        (Dialect::Pflag, _) => format!("invalid argument {text} for \"--{name}\" flag: {detail}"),
    }
}

/// Go's `%q` for typed text: printable characters as they are, control characters escaped.
pub(super) fn quote(text: &str) -> String {
    crate::log::quote(text)
}
