//! Finds the highest supported one of the versions that a registrar offers.
//!
//! The grammar is that of Kubernetes' generic versions (`k8s.io/apimachinery/pkg/util/version`): two or more numbers,
//! with an optional `v` before them and any text behind.

use std::cmp::Ordering;
use std::fmt;

/// Longest version string; real ones have a dozen characters, and without a limit one reply could make us keep millions
/// of numbers.
const LONGEST: usize = 256;

/// Dot-separated numbers; a missing number counts as zero.
#[derive(Clone, Debug)]
pub struct Version {
    numbers: Vec<u64>,
}

impl Version {
    /// Reads a version, or `None` if the text is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let text = text.trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut numbers = Vec::new();
        let mut rest = text;
        loop {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, behind) = rest.split_at_checked(digits)?;
            if digits == 0 {
                break; // `1.` and `1.x` end before the dot
            }
            if numbers.is_empty() && digits > 1 && number.starts_with('0') {
                return None;
            }
            numbers.push(number.parse().ok()?);
            match behind.strip_prefix('.') {
                Some(next) => rest = next,
                None => break,
            }
        }
        (numbers.len() >= 2).then_some(Self { numbers })
    }

    /// The first number.
    #[must_use]
    pub fn major(&self) -> u64 {
        self.numbers.first().copied().unwrap_or_default()
    }

    fn at(&self, index: usize) -> u64 {
        self.numbers.get(index).copied().unwrap_or_default()
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let length = self.numbers.len().max(other.numbers.len());
        (0..length)
            .map(|index| self.at(index).cmp(&other.at(index)))
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, number) in self.numbers.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            write!(f, "{number}")?;
        }
        Ok(())
    }
}

/// Why none of the offered versions is supported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The list is empty.
    #[error("CSI driver reporting no supported versions")]
    NoneOffered,
    /// The list has only other major versions, or texts that are no versions.
    #[error("none of the CSI versions reported by this driver are supported")]
    NoneSupported,
}

/// The highest offered version of major 1.
///
/// # Errors
/// [`Unsupported`] if there is none. A list of only `0.x` has none, and higher majors are skipped.
pub fn highest_supported(offered: &[String]) -> Result<Version, Unsupported> {
    if offered.is_empty() {
        return Err(Unsupported::NoneOffered);
    }
    offered
        .iter()
        .filter_map(|text| Version::parse(text))
        .filter(|version| version.major() <= 1)
        .max()
        .filter(|version| version.major() == 1)
        .ok_or(Unsupported::NoneSupported)
}
