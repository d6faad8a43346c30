//! Finds handles that may be two spellings of one: they differ in case, in separators, or in a pool or path in front.
//!
//! Only the driver knows how it builds handles. So this errs on the safe side: two similar handles may be two volumes,
//! two dissimilar ones share no long part.

use std::collections::{BTreeSet, HashMap};

/// Handles with more words are not compared.
const MOST: usize = 40;
/// Longer handles are not compared either; of a longer one in an object only the front was read.
const LONGEST: usize = 4 << 10;
/// Digits of a UUID.
const UUID: usize = 32;
/// A UUID that at least so many known and so many strange handles share names a pool, a cluster or an account.
const SHARED: usize = 3;

/// The words of a handle: its letters and digits, in lower case.
fn words(handle: &str) -> Vec<String> {
    let words = handle.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The concatenations of up to `most` consecutive words: `a-b-c` yields `a`, `ab`, `abc`, `b`, `bc` and `c`.
fn runs(words: &[String], most: usize) -> impl Iterator<Item = String> {
    let all = words.len();
    let ends = move |from: usize| from + 1..=all.min(from.saturating_add(most));
    (0..all).flat_map(move |from| {
        ends(from).filter_map(move |to| words.get(from..to).map(<[String]>::concat))
    })
}

/// Every part of a handle with the length and the digits of a UUID: it begins or ends with a word, or lies within one.
fn uuids(words: &[String]) -> BTreeSet<u128> {
    let whole = words.concat();
    let mut end = 0;
    let ends = words.iter().map(|word| {
        end += word.len();
        end
    });
    let ends: BTreeSet<usize> = ends.collect();
    let windows = (0..=whole.len().saturating_sub(UUID)).filter_map(|from| {
        let to = from + UUID;
        let is_apart = from == 0 || ends.contains(&from) || ends.contains(&to);
        let is_within = || ends.range(from + 1..to).next().is_none();
        let digits = whole.get(from..to).filter(|_| is_apart || is_within())?;
        let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(digits, 16).ok().filter(|_| are_digits)
    });
    windows.collect()
}

/// The known handle or name that a strange handle resembles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alike {
    /// Its index among the handles, followed by the names.
    To(usize),
    /// The handle cannot be compared.
    Unknown,
}

/// The strange handles that resemble a known one; `names` are names that a driver may build a handle from.
pub(super) fn alike<'a>(
    strange: &[&'a str],
    handles: &[&str],
    names: &[&str],
) -> HashMap<&'a str, Alike> {
    let mut found = HashMap::new();
    let mut wanted: HashMap<String, Vec<&'a str>> = HashMap::new();
    // For each UUID in a strange handle: the number of known handles that have it, the last of these, and the number of
    // strange ones.
    let mut ids: HashMap<u128, (usize, usize, usize)> = HashMap::new();
    let mut most = 0;
    for one in strange {
        let words = words(one);
        if words.is_empty() || words.len() > MOST || one.len() > LONGEST {
            found.insert(*one, Alike::Unknown);
            continue;
        }
        most = most.max(words.len());
        for id in uuids(&words) {
            ids.entry(id).or_default().2 += 1;
        }
        wanted.entry(words.concat()).or_default().push(one);
    }
    let mut whole: HashMap<String, usize> = HashMap::new();
    for (number, known) in handles.iter().chain(names).enumerate() {
        let words = words(known);
        if words.is_empty() || wanted.is_empty() {
            continue;
        }
        for one in runs(&words, most)
            .filter_map(|run| wanted.get(&run))
            .flatten()
        {
            found.entry(*one).or_insert(Alike::To(number));
        }
        let text = words.concat();
        // Two spellings of one handle count their UUIDs once.
        if number < handles.len() && !whole.contains_key(&text) {
            for id in uuids(&words) {
                if let Some(count) = ids.get_mut(&id) {
                    *count = (count.0 + 1, number, count.2);
                }
            }
        }
        whole.entry(text).or_insert(number);
    }
    for one in wanted.values().flatten() {
        let words = words(one);
        let contained = runs(&words, MOST).find_map(|run| whole.get(&run).copied());
        let own = uuids(&words);
        let shared = own.iter().filter_map(|id| ids.get(id));
        let is_pool =
            |known: usize, strange: usize| own.len() > 1 && known >= SHARED && strange >= SHARED;
        let mut shared =
            shared.filter(|(known, _, strange)| *known > 0 && !is_pool(*known, *strange));
        let number = contained.or_else(|| shared.next().map(|(_, number, _)| *number));
        if let Some(number) = number {
            found.entry(*one).or_insert(Alike::To(number));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    const B: &str = "6ba7b811-9dad-11d1-80b4-00c04fd430c8";
    const POOL: &str = "00000000-9dad-11d1-80b4-00c04fd430c8";

    #[test]
    fn w_50_handles_are_alike_in_case_separators_paths_and_uuids() {
        let rows: &[(&str, &str, bool)] = &[
            ("vol-1", "VOL-1", true),
            ("vol-1", "vol_1", true),
            ("vol-1", "/vol-1/", true),
            ("vol-1", "pool/vol-1", true),
            ("pool/vol-1", "vol-1", true),
            ("server/share/a", "server/share", true),
            ("server/share", "server/share/a", true),
            ("server#share#a#", "server#share#b#", false),
            ("vol-1", "vol-10", false),
            ("vol-1", "vol-2", false),
            ("12345678", "12345679", false),
            (A, &A.replace('-', ""), true),
            (A, &A.to_uppercase(), true),
            (A, B, false),
            (&format!("csi-vol-{A}"), &format!("kubernetes-{A}-x"), true),
            (&format!("{POOL}-{A}"), &format!("{POOL}-{B}"), true),
            ("vol-1", "", true),
            ("vol-1", &"a-".repeat(50), true),
            (
                &format!("{}vol-1{}", "a-".repeat(50), "-a".repeat(50)),
                "vol/1",
                true,
            ),
            ("vol-1", &"a".repeat(5000), true),
            (&format!("vs{}", A.replace('-', "")), A, true),
            (&format!("vs{A}.img"), &format!("csi{A}"), true),
            (&format!("vs{}x", A.replace('-', "")), A, true),
        ];
        for (known, strange, expected) in rows {
            let found = alike(&[strange], &[known], &[]);
            assert_eq!(found.contains_key(strange), *expected, "{known} {strange}");
        }
    }

    #[test]
    fn w_50_a_uuid_that_few_strange_handles_have_is_no_pool() {
        let known =
            ["1", "2", "3"].map(|end| format!("{POOL}-{end}{}", A.get(1..).unwrap_or_default()));
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let strange =
            ["4", "5"].map(|end| format!("{POOL}-{end}{}", B.get(1..).unwrap_or_default()));
        let strange: Vec<&str> = strange.iter().map(String::as_str).collect();
        for all in [1, 2] {
            let strange = strange.get(..all).unwrap_or_default();
            assert_eq!(alike(strange, &known, &[]).len(), all);
        }
    }

    #[test]
    fn w_50_a_uuid_of_all_handles_is_their_pool() {
        let known =
            ["1", "2", "3"].map(|end| format!("{POOL}-{end}{}", B.get(1..).unwrap_or_default()));
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let strange = [
            format!("{POOL}-{A}"),
            format!("{POOL}-4{}", A.get(1..).unwrap_or_default()),
            POOL.to_owned(),
        ];
        let strange: Vec<&str> = strange.iter().map(String::as_str).collect();
        let found = alike(&strange, &known, &[A]);
        // The first contains a name, the last may be the pool that contains all of them.
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found.get(strange[0]), Some(&Alike::To(3)));
        assert!(found.contains_key(POOL));
    }
}
