//! Names in Azure's IDs. Each line is searched in turn, as a regular expression without flags would do; users know the
//! expressions from messages.

use crate::model::error::Cause;

/// Form of IDs of managed disks.
const MANAGED: &str =
    ".*/subscriptions/(?:.*)/resourceGroups/(?:.*)/providers/Microsoft.Compute/disks/(.+)";
/// Form of URLs of disks in storage accounts.
const BLOB: &str = "http(?:.*)://(?:.*)/vhds/(.+)";

/// Name of the disk with this URI.
pub(super) fn disk_name(uri: &str) -> Result<String, Cause> {
    let blob =
        uri.len() > 4 && { uri.get(..4) }.is_some_and(|http| http.eq_ignore_ascii_case("http"));
    let (name, form) = if blob {
        (name(uri, uri, BLOB_WORDS), BLOB)
    } else {
        // Azure's IDs are case-insensitive. The exact spelling is tried first, so that every ID that was accepted
        // before gives the same name.
        let exact = name(uri, uri, MANAGED_WORDS);
        let words = MANAGED_WORDS.map(str::to_ascii_lowercase);
        let any_case = || {
            let words = words.each_ref().map(String::as_str);
            name(uri, &uri.to_ascii_lowercase(), words)
        };
        (exact.or_else(any_case), MANAGED)
    };
    name.map(str::to_owned).ok_or_else(|| {
        let uri = uri.to_owned();
        Cause::NoDiskName { uri, form }
    })
}

/// The texts before the name, in order; `.` is any character.
const MANAGED_WORDS: [&str; 3] = [
    "/subscriptions/",
    "/resourceGroups/",
    "/providers/Microsoft.Compute/disks/",
];
const BLOB_WORDS: [&str; 3] = ["http", "://", "/vhds/"];

/// The rest of the first line that has the words in this order and a text after them, from the last possible position
/// of the last word. `spelling` is the URI as it is searched, of the same length.
fn name<'a>(uri: &'a str, spelling: &str, words: [&str; 3]) -> Option<&'a str> {
    let [first, second, last] = words;
    let mut start = 0;
    for line in spelling.split('\n') {
        let found = occurrences(line, last);
        let found = found.into_iter().rev().find(|(_, end)| *end < line.len());
        if let Some((at, end)) = found
            && let Some((_, rest)) = line.get(..at).and_then(|rest| rest.split_once(first))
            && rest.contains(second)
        {
            return uri.get(start + end..start + line.len());
        }
        start += line.len() + 1;
    }
    None
}

/// Start and end of each occurrence of `word` in a line.
fn occurrences(line: &str, word: &str) -> Vec<(usize, usize)> {
    let starts = line.match_indices('/').map(|(at, _)| at);
    let found = starts.filter_map(|at| {
        let mut rest = line.get(at..)?.chars();
        for wanted in word.chars() {
            let found = rest.next()?;
            if found != wanted && wanted != '.' {
                return None;
            }
        }
        Some((at, line.len() - rest.as_str().len()))
    });
    found.collect()
}

/// The storage account in the name of a Secret; the whole name if it does not have that form.
pub(super) fn account(secret: &str) -> &str {
    const SECRET_PREFIX: &str = "azure-storage-account-";
    let accounts = secret.match_indices(SECRET_PREFIX).filter_map(|(at, _)| {
        let line = secret.get(at + SECRET_PREFIX.len()..)?.split('\n').next()?;
        let (account, _) = line.rsplit_once("-secret")?;
        (!account.is_empty()).then_some(account)
    });
    { accounts }.next().unwrap_or(secret)
}
