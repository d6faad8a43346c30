//! The notation of flag values, as in Go's `strconv` and `time`.

use std::fmt;

use crate::duration::GoDuration;
use crate::quantity::Quantity;

use super::Kind;

/// A parsed value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    Int(i64),
    Uint(u64),
    Float(f64),
    Duration(GoDuration),
    Levels(Vec<(String, u32)>),
    Pairs(Vec<(String, String)>),
    Gates(Vec<(String, bool)>),
}

/// The value in a flag's notation; texts of a repeated flag are joined with commas.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: Vec<String>| items.join(",");
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
            Self::Texts(values) => f.write_str(&list(values.clone())),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Duration(value) => value.fmt(f),
            Self::Levels(pairs) => {
                let pairs = pairs.iter().map(|(name, level)| format!("{name}={level}"));
                f.write_str(&list(pairs.collect()))
            }
            Self::Pairs(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| format!("{key}:{value}"));
                f.write_str(&list(pairs.collect()))
            }
            Self::Gates(gates) => {
                let gates = gates.iter().map(|(name, value)| format!("{name}={value}"));
                f.write_str(&list(gates.collect()))
            }
        }
    }
}

/// Why a flag's value is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Reason {
    /// Malformed; `flag` hides the details behind "parse error".
    #[error("{0}")]
    Syntax(String),
    /// A number out of range.
    #[error("{0}")]
    Range(String),
    /// A message with the same words in both dialects.
    #[error("{0}")]
    Custom(String),
}

/// Parses a value of `kind`.
pub(super) fn read(kind: Kind, text: &str) -> Result<Value, Reason> {
    match kind {
        Kind::Bool => bool_value(text).map_err(Reason::Syntax),
        Kind::BoolFunc if text.is_empty() => Ok(Value::Bool(true)),
        Kind::BoolFunc => bool_value(text).map_err(Reason::Custom),
        Kind::String => Ok(Value::Text(text.to_owned())),
        Kind::Strings => Ok(Value::Texts(vec![text.to_owned()])),
        Kind::Int => int(text).map(Value::Int),
        Kind::Uint => uint(text).map(Value::Uint),
        Kind::Float => float(text).map(Value::Float),
        Kind::Duration => match text.parse() {
            Ok(duration) => Ok(Value::Duration(duration)),
            Err(error) => Err(Reason::Syntax(format!("{error}"))),
        },
        Kind::Quantity => quantity(text).map(Value::Int),
        Kind::Verbosity => verbosity(text).map(|level| Value::Uint(u64::from(level))),
        Kind::Vmodule => vmodule(text).map(Value::Levels),
        Kind::Pairs => pairs(text).map(Value::Pairs),
        Kind::Gates => gates(text).map(Value::Gates),
    }
}

/// Parses a boolean in one of Go's spellings.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn bool_value(text: &str) -> Result<Value, String> {
    parse_bool(text)
        .map(Value::Bool)
        .ok_or_else(|| syntax_text("ParseBool", text))
}

fn syntax_text(function: &str, text: &str) -> String {
    format!("strconv.{function}: parsing {text:?}: invalid syntax")
}

fn syntax(function: &str, text: &str) -> Reason {
    Reason::Syntax(syntax_text(function, text))
}

fn range(function: &str, text: &str) -> Reason {
    Reason::Range(format!(
        "strconv.{function}: parsing {text:?}: value out of range"
    ))
}

fn int(text: &str) -> Result<i64, Reason> {
    let (negative, digits) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(digits), _) => (true, digits),
        (None, Some(digits)) => (false, digits),
        (None, None) => (false, text),
    };
    let magnitude = magnitude(digits).ok_or_else(|| syntax("ParseInt", text))?;
    let number = magnitude.and_then(|magnitude| {
        if negative {
            0_i64.checked_sub_unsigned(magnitude)
        } else {
            i64::try_from(magnitude).ok()
        }
    });
    number.ok_or_else(|| range("ParseInt", text))
}

fn uint(text: &str) -> Result<u64, Reason> {
    let magnitude = magnitude(text).ok_or_else(|| syntax("ParseUint", text))?;
    magnitude.ok_or_else(|| range("ParseUint", text))
}

/// Parses a number in Go's literal syntax: `0x`, `0o`, `0b`, a leading `0` for octal, and `_`
/// between digits after a prefix. The inner option is empty if the number does not fit.
fn magnitude(text: &str) -> Option<Option<u64>> {
    let prefixed = |prefix: &str| {
        let head = text.get(..prefix.len())?;
        head.eq_ignore_ascii_case(prefix)
            .then(|| text.split_at(prefix.len()).1)
    };
    let (radix, digits) = if let Some(digits) = prefixed("0x") {
        (16, digits)
    } else if let Some(digits) = prefixed("0o") {
        (8, digits)
    } else if let Some(digits) = prefixed("0b") {
        (2, digits)
    } else if let Some(digits) = text.strip_prefix('0').filter(|rest| !rest.is_empty()) {
        (8, digits)
    } else {
        (10, text)
    };
    let mut number = 0_u64;
    for c in digits.chars().filter(|c| *c != '_') {
        let digit = u64::from(c.to_digit(radix)?);
        let next = number
            .checked_mul(u64::from(radix))
            .and_then(|n| n.checked_add(digit));
        match next {
            Some(next) => number = next,
            // Go does not check the remaining digits either.
            None => return Some(None),
        }
    }
    underscores_separate_digits(digits, digits.len() != text.len()).then_some(Some(number))
}

/// Each `_` has a digit on both sides; the base prefix counts as one on the left.
fn underscores_separate_digits(digits: &str, prefix: bool) -> bool {
    let mut before = if prefix { '0' } else { '_' };
    for c in digits.chars() {
        if c == '_' && before == '_' {
            return false;
        }
        before = c;
    }
    !digits.is_empty() && before != '_'
}

fn float(text: &str) -> Result<f64, Reason> {
    // Rust's notation is Go's, without hexadecimal floats, for which no flag has a use, and without
    // underscores, which Go takes between digits.
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let separating = |(at, _)| {
        let (before, after) = text.split_at(at);
        digit(before.chars().next_back()) && digit(after.chars().nth(1))
    };
    let number = if text.match_indices('_').all(separating) {
        text.replace('_', "").parse::<f64>().ok()
    } else {
        None
    };
    let number = number.ok_or_else(|| syntax("ParseFloat", text))?;
    if number.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
        return Err(range("ParseFloat", text));
    }
    Ok(number)
}

fn quantity(text: &str) -> Result<i64, Reason> {
    let quantity: Quantity = text
        .parse()
        .map_err(|error| Reason::Custom(format!("{error}")))?;
    Ok(quantity.value())
}

fn verbosity(text: &str) -> Result<u32, Reason> {
    let custom = |reason: Reason| Reason::Custom(reason.to_string());
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(custom(syntax("ParseUint", text)));
    }
    let level = text.parse::<u32>().ok().filter(|level| *level <= 1 << 31);
    let level = level.filter(|level| i32::try_from(*level).is_ok());
    level.ok_or_else(|| custom(range("ParseUint", text)))
}

fn vmodule(text: &str) -> Result<Vec<(String, u32)>, Reason> {
    let mut levels = Vec::new();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let malformed = || {
            Reason::Custom(format!(
                "syntax error: expect comma-separated list of filename=N, got {item:?}"
            ))
        };
        let (pattern, level) = item.split_once('=').ok_or_else(malformed)?;
        let level = level.parse::<u32>().map_err(|_| malformed())?;
        if pattern.is_empty() {
            return Err(malformed());
        }
        levels.push((pattern.to_owned(), level));
    }
    Ok(levels)
}

fn pairs(text: &str) -> Result<Vec<(String, String)>, Reason> {
    let item = |item: &str| match item.split_once(':') {
        Some((key, value)) if !value.contains(':') => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Reason::Custom(format!(
            "malformed pair {item:?}, expect key:value with exactly one colon"
        ))),
    };
    text.split(',').map(item).collect()
}

fn gates(text: &str) -> Result<Vec<(String, bool)>, Reason> {
    let mut gates = Vec::new();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let (name, value) = item
            .split_once('=')
            .ok_or_else(|| Reason::Custom("malformed pair, expect string=bool".to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        let value = parse_bool(value).ok_or_else(|| {
            let error = syntax_text("ParseBool", value);
            Reason::Custom(format!("invalid value of {name}: {value}, err: {error}"))
        })?;
        gates.push((name.to_owned(), value));
    }
    Ok(gates)
}
