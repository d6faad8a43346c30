//! Go durations: `time.ParseDuration` and `Duration.String`.
//!
//! Flags of the sidecars use Go's notation. Every crate that was tried reads some of it differently
//! (`0`, `.5s`, `-1s`, `1.5h`, overflow) or accepts input that Go refuses (`5`, `1d`), so the
//! notation has a module of its own. Nothing here reads a clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A signed span of time in nanoseconds, at most about 292 years, as Go's `time.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A span of `seconds` seconds, clamped to the range of the type.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The span in seconds, rounded as Go's `Duration.Seconds` does.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a figure for logs and metrics, nanoseconds beyond 2^53 do not matter there"
    )]
    pub fn as_secs_f64(self) -> f64 {
        let second = 1_000_000_000;
        (self.0 / second) as f64 + (self.0 % second) as f64 / 1e9
    }

    /// The span as a standard duration, or `None` if it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }

    /// The span as a time limit: a negative one has already passed, as in Go.
    pub fn to_timeout(self) -> Duration {
        self.to_std().unwrap_or(Duration::ZERO)
    }

    /// Converts a standard duration, clamped to the range of the type.
    pub fn from_std(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// Why a text is not a duration; the wording is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// Empty, no digits, or a number that does not fit.
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    /// A number without its unit. Go takes a bare number only if it is `0`.
    #[error("time: missing unit in duration {}", quote(.0))]
    MissingUnit(String),
    /// A unit that Go does not know, for example `d`.
    #[error("time: unknown unit {} in duration {}", quote(.unit), quote(.text))]
    UnknownUnit {
        /// The text found in place of the unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// Quotes as Go's `time` package does, which escapes the bytes of everything outside ASCII.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            ' '..='~' => quoted.push(c),
            c => {
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    quoted.push_str(&format!("\\x{byte:02x}"));
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ParseDurationError::Invalid(text.to_owned());
        let (negative, mut rest) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => (false, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (number, after) = Number::read(rest).ok_or_else(invalid)?;
            let length = after.find(|c: char| c == '.' || c.is_ascii_digit());
            let (unit, after) = after.split_at(length.unwrap_or(after.len()));
            if unit.is_empty() {
                return Err(ParseDurationError::MissingUnit(text.to_owned()));
            }
            let nanos = unit_nanos(unit).ok_or_else(|| ParseDurationError::UnknownUnit {
                unit: unit.to_owned(),
                text: text.to_owned(),
            })?;
            let part = number.times(nanos).ok_or_else(invalid)?;
            total = total
                .checked_add(part)
                .and_then(within)
                .ok_or_else(invalid)?;
            rest = after;
        }
        signed(total, negative).map(Self).ok_or_else(invalid)
    }
}

/// The largest magnitude, reached by the most negative duration only.
const MAGNITUDE: u64 = 1 << 63;

fn within(magnitude: u64) -> Option<u64> {
    (magnitude <= MAGNITUDE).then_some(magnitude)
}

fn signed(magnitude: u64, negative: bool) -> Option<i64> {
    if negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

fn unit_nanos(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        // The micro sign U+00B5 and the Greek letter U+03BC are both in use.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(MICROSECOND),
        "ms" => Some(MILLISECOND),
        "s" => Some(SECOND),
        "m" => Some(MINUTE),
        "h" => Some(HOUR),
        _ => None,
    }
}

/// A decimal number without sign or exponent.
struct Number {
    whole: u64,
    /// The digits after the point, as many as fit.
    fraction: u64,
    /// Ten to the power of the number of digits in `fraction`.
    scale: f64,
}

impl Number {
    /// Parses the number that `text` begins with and returns the rest.
    fn read(text: &str) -> Option<(Self, &str)> {
        let (whole_digits, mut rest) = digits(text);
        let mut whole: u64 = 0;
        for digit in whole_digits.bytes() {
            whole = whole
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
            whole = within(whole)?;
        }
        let (mut fraction, mut scale, mut fraction_digits) = (0, 1.0, "");
        if let Some(after) = rest.strip_prefix('.') {
            (fraction_digits, rest) = digits(after);
            (fraction, scale) = read_fraction(fraction_digits);
        }
        if whole_digits.is_empty() && fraction_digits.is_empty() {
            return None;
        }
        let number = Self {
            whole,
            fraction,
            scale,
        };
        Some((number, rest))
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "Go computes the fraction in float64 too, and the same rounding is wanted; \
                  the product is below `unit`"
    )]
    fn times(&self, unit: u64) -> Option<u64> {
        let whole = self.whole.checked_mul(unit).and_then(within)?;
        let fraction = (self.fraction as f64 * (unit as f64 / self.scale)) as u64;
        whole.checked_add(fraction).and_then(within)
    }
}

fn digits(text: &str) -> (&str, &str) {
    let length = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(length.unwrap_or(text.len()))
}

/// Digits beyond what 63 bits hold are dropped: they are far below a nanosecond.
fn read_fraction(digits: &str) -> (u64, f64) {
    let mut fraction: u64 = 0;
    let mut scale = 1.0;
    for digit in digits.bytes() {
        if fraction > (MAGNITUDE - 1) / 10 {
            break;
        }
        let next = fraction * 10 + u64::from(digit - b'0');
        if next > MAGNITUDE {
            break;
        }
        fraction = next;
        scale *= 10.0;
    }
    (fraction, scale)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        let (unit, name) = match nanos {
            0 => return f.pad("0s"),
            1..MICROSECOND => (1, "ns"),
            MICROSECOND..MILLISECOND => (MICROSECOND, "\u{b5}s"),
            MILLISECOND..SECOND => (MILLISECOND, "ms"),
            SECOND.. => (SECOND, "s"),
        };
        if nanos < SECOND {
            return f.pad(&format!("{sign}{}{name}", decimal(nanos, unit)));
        }
        let seconds = decimal(nanos % MINUTE, SECOND);
        let (hours, minutes) = (nanos / HOUR, nanos % HOUR / MINUTE);
        let text = match (hours, minutes) {
            (0, 0) => format!("{sign}{seconds}s"),
            (0, _) => format!("{sign}{minutes}m{seconds}s"),
            _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
        };
        f.pad(&text)
    }
}

/// `nanos` in `unit`, without trailing zeros.
fn decimal(nanos: u64, unit: u64) -> String {
    let fraction = nanos % unit;
    if fraction == 0 {
        return (nanos / unit).to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    format!("{}.{}", nanos / unit, digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests;
