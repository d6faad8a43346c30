//! One list of all volumes: pages, tokens, reports.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash as _, Hasher as _};
use std::time::Duration;

use csi_proto::volume_condition::list_volumes_response::Entry;
use sidecar::rpc_code::RpcError;
use sidecar::text::truncated;
use tonic::Code;

use super::normalise::message;
use crate::model::{Condition, Conditions, Text, are_same};

/// Longest part of a token that is logged.
const LONGEST_TOKEN: usize = 256;

/// The driver's report about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The health conditions of the volume.
    Health(Conditions),
    /// From an older driver: the message, if the volume is abnormal.
    Condition(Option<Text>),
}

impl Report {
    /// Whether both lead to the same claim status and the same events.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Health(one), Self::Health(other)) => are_same(
                one.iter().map(Condition::pair),
                other.iter().map(Condition::pair),
            ),
            (one, other) => one == other,
        }
    }
}

/// The volume handle and the report in an older driver's list entry.
#[must_use]
pub fn condition(entry: Entry) -> Option<(String, Report)> {
    let handle = entry.volume?.volume_id;
    let condition = entry.status.and_then(|status| status.volume_condition);
    let abnormal = condition.filter(|condition| condition.abnormal);
    let message = abnormal.map(|condition| message(&condition.message));
    Some((handle, Report::Condition(message)))
}

/// Why a list is incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// A page could not be read.
    Failed(RpcError),
    /// The driver returned the same token twice, so the list would never end.
    Repeated(String),
    /// The list had no last page after this time.
    Endless(Duration),
}

impl std::fmt::Display for Gap {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(out),
            // A token may be as long as a whole answer.
            Self::Repeated(token) => {
                let token = truncated(token, LONGEST_TOKEN);
                write!(out, "the driver returned next_token {token:?} twice")
            }
            Self::Endless(took) => write!(out, "no last page after {took:?}"),
        }
    }
}

/// A list in progress.
#[derive(Debug, Default)]
pub struct Listing {
    /// Token of the next page.
    token: String,
    /// Hashes of all tokens so far; there may be as many tokens as volumes.
    tokens: HashSet<u64>,
    again: bool,
    /// The last report about each volume that has not been handled yet.
    pub reports: HashMap<Text, Report>,
    /// Handles of all volumes in the list.
    pub seen: HashSet<Text>,
    /// The result, once the list has ended.
    pub end: Option<Result<(), Gap>>,
}

impl Listing {
    /// `starting_token` of the next page; `None` once the list has ended.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        self.end.is_none().then(|| self.token.clone())
    }

    /// Adds a page.
    pub fn page(&mut self, reports: impl Iterator<Item = (Text, Report)>, next: String) {
        for (handle, report) in reports {
            self.seen.insert(handle.clone());
            self.reports.insert(handle, report);
        }
        if next.is_empty() {
            self.end = Some(Ok(()));
        } else if !self.tokens.insert(hash(&next)) {
            self.end = Some(Err(Gap::Repeated(next)));
        } else {
            self.token = next;
        }
    }

    /// A page failed. If the driver no longer accepts the token, the list starts over, but only once.
    pub fn failed(&mut self, error: RpcError) {
        let begins_anew = error.code == Code::Aborted && !self.token.is_empty() && !self.again;
        if begins_anew {
            *self = Self {
                again: true,
                ..Self::default()
            };
        } else {
            self.end = Some(Err(Gap::Failed(error)));
        }
    }

    /// Whether the driver does not implement the call although it announces it.
    #[must_use]
    pub fn is_unimplemented(&self) -> bool {
        matches!(&self.end, Some(Err(Gap::Failed(error))) if error.code == Code::Unimplemented)
    }
}

fn hash(token: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    token.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::report;
    use csi_proto::volume_condition::{Volume, VolumeCondition, VolumeStatus};

    /// The driver's answers by token: the next token, or an error.
    fn cycle(pages: &[(&str, Result<&str, Code>)]) -> (Listing, Vec<String>) {
        let (mut listing, mut asked) = (Listing::default(), Vec::new());
        for (number, (token, answer)) in pages.iter().enumerate() {
            assert_eq!(listing.next().as_deref(), Some(*token), "page {number}");
            asked.push((*token).to_owned());
            match answer {
                Ok(next) => {
                    let said = Report::Health(report(&["Degraded A"]));
                    let entry = (Text::from(format!("h{number}")), said);
                    listing.page([entry].into_iter(), (*next).to_owned());
                }
                Err(code) => listing.failed(RpcError {
                    code: *code,
                    message: "no".into(),
                }),
            }
        }
        assert_eq!(listing.next(), None);
        (listing, asked)
    }

    fn handles(listing: &Listing) -> Vec<&str> {
        let mut all: Vec<&str> = listing.reports.keys().map(|handle| &**handle).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn h_31_to_33_pages() {
        let (complete, _) = cycle(&[("", Ok("a")), ("a", Ok("b")), ("b", Ok(""))]);
        assert_eq!(complete.end, Some(Ok(())));
        assert_eq!(handles(&complete), ["h0", "h1", "h2"]);
        let (broken, _) = cycle(&[("", Ok("a")), ("a", Err(Code::Internal))]);
        assert!(matches!(broken.end, Some(Err(Gap::Failed(_)))));
        assert_eq!(handles(&broken), ["h0"], "H-31: what was seen counts");
        let (anew, _) = cycle(&[("", Ok("a")), ("a", Err(Code::Aborted)), ("", Ok(""))]);
        assert_eq!(anew.end, Some(Ok(())), "H-32");
        assert_eq!(handles(&anew), ["h2"]);
        let (twice, _) = cycle(&[
            ("", Ok("a")),
            ("a", Err(Code::Aborted)),
            ("", Ok("a")),
            ("a", Err(Code::Aborted)),
        ]);
        assert!(matches!(twice.end, Some(Err(Gap::Failed(_)))), "H-32");
        let (first, _) = cycle(&[("", Err(Code::Aborted))]);
        assert!(
            matches!(first.end, Some(Err(Gap::Failed(_)))),
            "no token that could be bad"
        );
        let (circle, _) = cycle(&[("", Ok("a")), ("a", Ok("b")), ("b", Ok("a"))]);
        assert_eq!(circle.end, Some(Err(Gap::Repeated("a".into()))), "H-33");
        let (none, _) = cycle(&[("", Err(Code::Unimplemented))]);
        assert!(
            none.is_unimplemented() && !circle.is_unimplemented(),
            "H-56"
        );
    }

    #[test]
    fn what_the_log_and_users_are_told_has_a_length() {
        let said = Gap::Repeated("é".repeat(1 << 20)).to_string();
        assert!(said.len() < 1000, "{}", said.len());
        let abnormal = VolumeCondition {
            abnormal: true,
            message: "m".repeat(1 << 20),
        };
        let entry = Entry {
            volume: Some(Volume::default()),
            status: Some(VolumeStatus {
                volume_condition: Some(abnormal),
            }),
        };
        let (_, report) = condition(entry).unwrap();
        assert_eq!(report, Report::Condition(Some("m".repeat(1024).into())));
    }

    #[test]
    fn reports_are_the_same_whatever_their_messages_and_order() {
        let health = |conditions: &[&str]| Report::Health(report(conditions));
        let both = health(&["Degraded A", "DataLoss B"]);
        assert!(both.is_same(&health(&["DataLoss B", "Degraded A"])));
        assert!(!both.is_same(&health(&["Degraded A"])));
        assert!(!both.is_same(&health(&["Degraded A", "Degraded B"])));
        assert!(!health(&[]).is_same(&Report::Condition(None)));
    }

    #[test]
    fn h_67_entries_of_older_drivers() {
        let entry = |volume: Option<&str>, condition: Option<(bool, &str)>| Entry {
            volume: volume.map(|id| Volume {
                volume_id: id.into(),
            }),
            status: condition.map(|(abnormal, message)| VolumeStatus {
                volume_condition: Some(VolumeCondition {
                    abnormal,
                    message: message.into(),
                }),
            }),
        };
        let abnormal =
            |message: &str| Some(("h".to_owned(), Report::Condition(Some(message.into()))));
        let normal = Some(("h".to_owned(), Report::Condition(None)));
        assert_eq!(condition(entry(None, Some((true, "x")))), None);
        assert_eq!(condition(entry(Some("h"), None)), normal);
        assert_eq!(condition(entry(Some("h"), Some((false, "fine")))), normal);
        assert_eq!(
            condition(entry(Some("h"), Some((true, "gone")))),
            abnormal("gone")
        );
        let bare = Entry {
            status: Some(VolumeStatus::default()),
            ..entry(Some("h"), None)
        };
        assert_eq!(condition(bare), normal);
    }
}
