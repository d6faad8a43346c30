//! Keys and values of labels, by the rules of the API server.

use super::secret::is_subdomain;

/// Longest name and longest value.
const NAME: usize = 63;

/// Whether a label may have this key: a name, perhaps after a lower case DNS subdomain and `/`.
#[must_use]
pub fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// Whether a label may have this value: none, or a name.
#[must_use]
pub fn is_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.len() <= NAME && text.starts_with(ends) && text.ends_with(ends) && text.chars().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_server_takes() {
        let (name, long) = ("x".repeat(63), "x".repeat(64));
        let prefix = format!("{}.{}/x", "a".repeat(200), "b".repeat(52));
        for key in ["app", "A_b-c.D", "1", "x.y/App", "x-1/a", &name, &prefix] {
            assert!(is_key(key), "{key}");
        }
        let too_long = format!("{}.{}/x", "a".repeat(200), "b".repeat(53));
        let none = [
            "", "/x", "x/", "a/b/c", "-a", "a-", "a b", "a,b", "a=b", "!a", "X.y/a", "x..y/a",
            "x_y/a", "ä", &long, &too_long,
        ];
        for key in none {
            assert!(!is_key(key), "{key}");
        }
        for value in ["", "x", "A_b-c.D", &name] {
            assert!(is_value(value), "{value}");
        }
        for value in ["-x", "x_", "x y", "x,y", "x)", "a/b", "\n", &long] {
            assert!(!is_value(value), "{value}");
        }
    }
}
