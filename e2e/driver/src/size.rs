//! Sizes as text: `10`, `10Gi`, `10G`.
//!
//! Only whole numbers with an optional suffix, as in `--capacity=fast=10Gi` and in the attribute
//! `size` of inline volumes.

const SUFFIXES: [(&str, i64); 12] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("", 1),
];

/// Size in bytes; `None` if the text does not parse or the size is too large.
pub fn parse(text: &str) -> Option<i64> {
    let (suffix, unit) = SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix))?;
    let number = text.strip_suffix(suffix)?.parse::<i64>().ok()?;
    number.checked_mul(*unit)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn whole_numbers_with_suffix() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("1Ki", Some(1024)),
            ("10Gi", Some(10 << 30)),
            ("3k", Some(3000)),
            ("1Ei", Some(1 << 60)),
            ("8Ei", None),
            ("1.5Gi", None),
            ("Gi", None),
            ("", None),
            ("ten", None),
        ] {
            assert_eq!(parse(text), bytes, "{text:?}");
        }
    }
}
