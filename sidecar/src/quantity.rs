//! Kubernetes quantities: `10Gi`, `1500m`, `1e3`.
//!
//! Sizes of volumes are requested and reported in this notation, and a misread size makes a volume
//! of the wrong size: the existing crates round `1.5Gi` down to `1Gi` and refuse `1E`. Values are
//! exact to the billionth, the precision that Kubernetes keeps.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The suffixes with which a quantity is printed; a quantity remembers those it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Powers of 1024: `Ki`, `Mi`, …
    BinarySi,
    /// Powers of 1000: `m`, `k`, `M`, …
    DecimalSi,
    /// Powers of 1000 as exponents: `e3`, `e6`, …
    DecimalExponent,
}

/// A quantity, at most 2^63-1 either way and with nine decimals, as in Kubernetes.
///
/// Half the size of a single count of billionths: caches hold one or more per object.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// The integer part, rounded towards zero.
    whole: i64,
    /// The fraction, with the same sign.
    billionths: i32,
    format: Format,
}

const NANOS: i128 = 1_000_000_000;
/// Larger quantities are silently clamped to this, as in Kubernetes.
const LARGEST: i128 = i64::MAX as i128 * NANOS;

/// The text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity: expected a number with an optional suffix, for example 10Gi")]
pub struct ParseQuantityError(String);

impl Quantity {
    /// A whole number.
    pub fn new(value: i64, format: Format) -> Self {
        Self {
            whole: value,
            billionths: 0,
            format,
        }
    }

    /// `None` if out of range.
    fn from_nanos(nanos: i128, format: Format) -> Option<Self> {
        Some(Self {
            whole: i64::try_from(nanos / NANOS).ok()?,
            billionths: i32::try_from(nanos % NANOS).ok()?,
            format,
        })
    }

    fn nanos(self) -> i128 {
        i128::from(self.whole) * NANOS + i128::from(self.billionths)
    }

    /// A number of bytes, printed with binary suffixes.
    pub fn from_bytes(bytes: i64) -> Self {
        Self::new(bytes, Format::BinarySi)
    }

    /// The value as a whole number, rounded away from zero.
    pub fn value(self) -> i64 {
        let away = i64::from(self.billionths.signum());
        self.whole.saturating_add(away)
    }

    /// The format in which it was written.
    pub fn format(self) -> Format {
        self.format
    }

    /// Whether the value is exactly zero.
    pub fn is_zero(self) -> bool {
        self.nanos() == 0
    }
}

/// Quantities are equal if their values are, whatever their formats.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos() == other.nanos()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos().cmp(&other.nanos())
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseQuantityError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, rest) = split_digits(unsigned);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (unit, format) = unit(suffix)?;
    let nanos = match unit {
        Unit::Binary(exponent) => scale_up(whole, fraction, (1 << exponent) * NANOS),
        Unit::Decimal(exponent) => match exponent.checked_add(9) {
            Some(power @ 0..=37) => scale_up(whole, fraction, 10_i128.pow(power.unsigned_abs())),
            Some(power @ ..0) => scale_down(whole, fraction, power.unsigned_abs()),
            Some(38..) | None if is_zero(whole, fraction) => 0,
            Some(38..) | None => large(whole, fraction, exponent),
        },
    };
    let nanos = nanos.min(LARGEST);
    Quantity::from_nanos(if negative { -nanos } else { nanos }, format)
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

fn is_zero(whole: &str, fraction: &str) -> bool {
    whole
        .bytes()
        .chain(fraction.bytes())
        .all(|digit| digit == b'0')
}

#[derive(Clone, Copy)]
enum Unit {
    /// Two to this power.
    Binary(u32),
    /// Ten to this power.
    Decimal(i32),
}

fn unit(suffix: &str) -> Option<(Unit, Format)> {
    let binary = |power| Some((Unit::Binary(power), Format::BinarySi));
    let decimal = |power| Some((Unit::Decimal(power), Format::DecimalSi));
    match suffix {
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            Some((
                Unit::Decimal(exponent.parse().ok()?),
                Format::DecimalExponent,
            ))
        }
    }
}

/// `whole.fraction` times `factor`, rounded up, or a number beyond [`LARGEST`].
fn scale_up(whole: &str, fraction: &str, factor: i128) -> i128 {
    // From the last digit to the first: rounding down at each step rounds the sum down exactly.
    let (mut below, mut inexact) = (0_i128, false);
    for digit in fraction.bytes().rev() {
        let sum = i128::from(digit - b'0')
            .saturating_mul(factor)
            .saturating_add(below);
        inexact |= sum % 10 != 0;
        below = sum / 10;
    }
    let mut above = 0_i128;
    for digit in whole.bytes() {
        above = above
            .saturating_mul(10)
            .saturating_add(i128::from(digit - b'0'));
    }
    above
        .saturating_mul(factor)
        .saturating_add(below)
        .saturating_add(i128::from(inexact))
}

/// `whole.fraction` divided by ten to `power`, rounded up.
fn scale_down(whole: &str, fraction: &str, power: u32) -> i128 {
    let kept = whole
        .len()
        .saturating_sub(usize::try_from(power).unwrap_or(usize::MAX));
    let (kept, cut) = whole.split_at(kept);
    let rest = !is_zero(cut, fraction);
    scale_up(kept, "", 1).saturating_add(i128::from(rest))
}

/// `whole.fraction` times ten to a large `power`: beyond [`LARGEST`] unless the leading zeros of
/// the fraction outweigh it.
fn large(whole: &str, fraction: &str, power: i32) -> i128 {
    let shift = usize::try_from(power)
        .unwrap_or(usize::MAX)
        .min(fraction.len());
    let (moved, rest) = fraction.split_at(shift);
    let left = usize::try_from(power).unwrap_or(usize::MAX) - shift;
    let digits = format!("{whole}{moved}");
    match u32::try_from(left) {
        Ok(left @ 0..=28) => scale_up(&digits, rest, 10_i128.pow(left + 9)),
        _ if is_zero(&digits, rest) => 0,
        _ => i128::MAX,
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, the largest suffix that allows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.nanos();
        if nanos == 0 {
            return f.pad("0");
        }
        let text = match self.format {
            // Binary suffixes are for whole numbers from 1024 on.
            Format::BinarySi if nanos.abs() >= 1024 * NANOS && nanos % NANOS == 0 => {
                let (number, power) = reduce(nanos / NANOS, 1024, 6);
                format!(
                    "{number}{}",
                    suffix(&["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], power)
                )
            }
            Format::BinarySi | Format::DecimalSi => {
                let (number, power) = reduce(nanos, 1000, 9);
                let names = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                format!("{number}{}", suffix(&names, power))
            }
            Format::DecimalExponent => {
                let (number, power) = reduce(nanos, 1000, 9);
                let names = [
                    "e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18",
                ];
                format!("{number}{}", suffix(&names, power))
            }
        };
        f.pad(&text)
    }
}

/// Divides out factors of `base`, at most `most` of them.
fn reduce(mut number: i128, base: i128, most: usize) -> (i128, usize) {
    let mut power = 0;
    while power < most && number % base == 0 {
        number /= base;
        power += 1;
    }
    (number, power)
}

fn suffix<'a>(names: &[&'a str], power: usize) -> &'a str {
    names.get(power).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
