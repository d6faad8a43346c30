//! A driver's lists, page by page: the whole list or none.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tonic::{Code, Status};

use super::driver::DriverError;
use crate::plan::{Stock, Stored};

/// More pages of a list, and more entries, than any storage has.
const MOST_PAGES: usize = 100_000;
const MOST_ENTRIES: usize = 2_000_000;
/// Attempts at a list.
const TRIES: u32 = 3;
/// Pause before a list starts over, for a driver that is restarting.
const PAUSE: Duration = Duration::from_secs(1);

/// A page: its entries, the number of entries without an ID, and the token of the next page.
pub(super) type Page = (Vec<(String, Stored)>, usize, String);

/// Merges two entries of one volume: a driver may list it once for each of its nodes.
fn merge(one: &mut Stored, other: Stored) {
    one.attached.extend(other.attached);
    match &mut one.nodes {
        Some(nodes) => nodes.extend(other.nodes.unwrap_or_default()),
        None => one.nodes = other.nodes,
    }
    one.group = one.group.take().or(other.group);
}

/// Reads all pages. If a token expires or the driver restarts in between, the list starts over: its first half may be
/// outdated.
pub(super) async fn listed(
    method: &'static str,
    page: impl AsyncFn(String) -> Result<Page, Status>,
) -> Result<Stock, DriverError> {
    let endless = |why: String| DriverError::Endless { method, why };
    let mut tried = 1;
    let (mut all, mut unnamed, mut token) = (BTreeMap::new(), 0, String::new());
    // Hashes of the tokens so far: a driver that returns one twice goes round in a circle.
    let mut tokens = BTreeSet::new();
    loop {
        let (entries, more, next) = match page(token.clone()).await {
            Ok(page) => page,
            Err(status) if tried < TRIES && is_passing(status.code()) => {
                tried += 1;
                all.clear();
                unnamed = 0;
                token.clear();
                tokens.clear();
                if status.code() == Code::Unavailable {
                    tokio::time::sleep(PAUSE).await;
                }
                continue;
            }
            Err(status) => return Err(DriverError::Call { method, status }),
        };
        unnamed += more;
        for (handle, stored) in entries {
            match all.entry(handle.into_boxed_str()) {
                Entry::Vacant(entry) => drop(entry.insert(stored)),
                Entry::Occupied(mut entry) => merge(entry.get_mut(), stored),
            }
        }
        if next.is_empty() {
            return Ok(Stock {
                unnamed,
                ..Stock::new(Ok(all))
            });
        }
        if !tokens.insert(Sha256::digest(next.as_bytes()).to_vec()) {
            return Err(endless(
                "it gave a token for the next page twice".to_owned(),
            ));
        }
        if tokens.len() >= MOST_PAGES || all.len() + unnamed > MOST_ENTRIES {
            let (pages, entries) = (tokens.len(), all.len() + unnamed);
            return Err(endless(format!(
                "it has more than {pages} pages with {entries} entries"
            )));
        }
        token = next;
    }
}

/// Whether starting the list over may help.
fn is_passing(code: Code) -> bool {
    matches!(code, Code::Aborted | Code::Unavailable)
}
