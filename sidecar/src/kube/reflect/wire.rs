//! The bytes of list and watch: request paths, lines, pages, statuses.
//!
//! Pure. Objects are cut out of the text and left undecoded, so that an unreadable object does not
//! affect others.

use std::fmt::Write as _;
use std::io::BufRead;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::progress::{Ask, Refusal};
use crate::kube::lean::{Meta, Text, nullable};

/// A kind of objects, as named in the API server's paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Version, for example `v1`.
    pub version: &'static str,
    /// Plural name, for example `persistentvolumes`.
    pub plural: &'static str,
    /// Whether only metadata is needed: the server then sends nothing else.
    pub metadata_only: bool,
}

impl Resource {
    /// A kind with complete objects.
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        Self {
            group,
            version,
            plural,
            metadata_only: false,
        }
    }
}

/// The set of objects to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The kind.
    pub resource: Resource,
    /// Only this namespace; `None` means the whole cluster.
    pub namespace: Option<String>,
    /// Label selector, empty for none.
    pub labels: String,
    /// Field selector, empty for none.
    pub fields: String,
    /// List again after a broken watch instead of resuming it: once the cache is current again, it
    /// has all changes made meanwhile, and none is still to come.
    pub relist: bool,
}

impl Scope {
    /// All objects of a kind.
    pub fn all(resource: Resource) -> Self {
        Self {
            resource,
            namespace: None,
            labels: String::new(),
            fields: String::new(),
            relist: false,
        }
    }

    /// The resource's name in the log.
    pub(super) fn name(&self) -> &'static str {
        self.resource.plural
    }

    /// Path and query. `limit` is for a page, `timeout` is the time after which the server ends a
    /// watch.
    pub(super) fn uri(&self, ask: &Ask, limit: Option<u32>, timeout: Duration) -> String {
        let Resource {
            group,
            version,
            plural,
            ..
        } = self.resource;
        let mut uri = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        if let Some(namespace) = &self.namespace {
            uri.push_str("/namespaces/");
            encode(&mut uri, namespace);
        }
        uri.push('/');
        uri.push_str(plural);
        let seconds = timeout.as_secs();
        let _infallible = match ask {
            Ask::Stream => write!(
                uri,
                "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true&timeoutSeconds={seconds}"
            ),
            Ask::Page(_) => match limit {
                Some(limit) => write!(uri, "?limit={limit}"),
                // The current state, as without the parameter.
                None => write!(uri, "?resourceVersion="),
            },
            Ask::Watch(_) => {
                write!(
                    uri,
                    "?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}"
                )
            }
        };
        match ask {
            Ask::Page(Some(token)) => parameter(&mut uri, "continue", token),
            Ask::Watch(version) => parameter(&mut uri, "resourceVersion", version),
            Ask::Page(None) | Ask::Stream => {}
        }
        if !self.labels.is_empty() {
            parameter(&mut uri, "labelSelector", &self.labels);
        }
        if !self.fields.is_empty() {
            parameter(&mut uri, "fieldSelector", &self.fields);
        }
        uri
    }

    /// The `Accept` header.
    pub(super) fn accept(&self, ask: &Ask) -> &'static str {
        match (self.resource.metadata_only, ask) {
            (false, _) => "application/json",
            (true, Ask::Page(_)) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
            (true, Ask::Stream | Ask::Watch(_)) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            }
        }
    }
}

fn parameter(uri: &mut String, name: &str, value: &str) {
    uri.push('&');
    uri.push_str(name);
    uri.push('=');
    encode(uri, value);
}

fn encode(uri: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _infallible = write!(uri, "%{byte:02X}");
        }
    }
}

/// Longer lines are skipped. An API server stores objects of about 1.5 MiB at most.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// A buffer that grew beyond this for one large object is freed.
const ORDINARY_LINE: usize = 64 << 10;

/// Splits a body into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    complete: bool,
    too_long: bool,
    passed_over: bool,
}

impl Lines {
    /// The next complete line of the buffered bytes and `input`, whose consumed part is cut off;
    /// `None` if more input is needed. A line that is too long comes as an empty one.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Option<&[u8]> {
        if self.complete {
            self.complete = false;
            self.buffer.clear();
            if self.buffer.capacity() > ORDINARY_LINE {
                self.buffer = Vec::new();
            }
        }
        // Cannot fail: the reader is a slice.
        let _infallible = input.read_until(b'\n', &mut self.buffer);
        self.complete = self.buffer.last() == Some(&b'\n');
        if self.buffer.len() > LONGEST_LINE {
            self.passed_over |= !self.too_long;
            self.too_long = !self.complete;
            self.buffer.clear();
        } else if self.complete && std::mem::take(&mut self.too_long) {
            self.buffer.clear();
        }
        self.complete.then_some(self.buffer.as_slice())
    }

    /// Whether a line was too long since the last call.
    pub(super) fn passed_over(&mut self) -> bool {
        std::mem::take(&mut self.passed_over)
    }
}

/// One line of a watch.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// `ADDED` or `MODIFIED`
    Upserted(&'a str),
    /// `DELETED`
    Deleted(&'a str),
    /// `BOOKMARK`, with its version and whether it ends the initial events
    Bookmark {
        version: String,
        initial_events_end: bool,
    },
    /// `ERROR`
    Refused(Refusal),
    /// An unknown event type.
    Unknown,
}

impl<'a> Line<'a> {
    pub(super) fn read(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        if let Some(line) = Self::cut(line) {
            return Ok(line);
        }
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, rename = "type")]
            kind: Text<'a>,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        let Wire { kind, object } = serde_json::from_slice(line)?;
        let object = object.get();
        Ok(match &*kind {
            "ADDED" | "MODIFIED" => Line::Upserted(object),
            "DELETED" => Line::Deleted(object),
            "BOOKMARK" => {
                let meta = metadata(object)?;
                let end = meta.annotations.get("k8s.io/initial-events-end");
                Line::Bookmark {
                    version: meta
                        .resource_version
                        .as_deref()
                        .unwrap_or_default()
                        .to_owned(),
                    initial_events_end: end.is_some_and(|value| &**value == "true"),
                }
            }
            "ERROR" => Line::Refused(Refusal::read(object)),
            _ => Line::Unknown,
        })
    }

    /// Cuts an object out of an event in the one form in which API servers write it, by the event's
    /// first and last bytes: parsing the line as JSON would read the whole object once more, only
    /// to find its end. Decoding the object shows later whether it is valid.
    fn cut(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(br#"{"type":""#)?;
        let (kind, rest) = rest.split_at(rest.iter().position(|byte| *byte == b'"')?);
        let object = rest.strip_prefix(br#"","object":"#)?;
        let object = object.strip_suffix(b"}\n")?;
        let object = std::str::from_utf8(object).ok()?;
        match kind {
            b"ADDED" | b"MODIFIED" => Some(Line::Upserted(object)),
            b"DELETED" => Some(Line::Deleted(object)),
            _ => None,
        }
    }
}

/// The metadata of any object.
fn metadata(json: &str) -> Result<Meta<'_>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow, default)]
        metadata: Meta<'a>,
    }
    serde_json::from_str::<Wire<'_>>(json).map(|wire| wire.metadata)
}

/// The `metadata.resourceVersion` of an object, empty if it cannot be read.
pub(super) fn version_of(json: &str) -> String {
    let meta = metadata(json).unwrap_or_default();
    meta.resource_version
        .map(|version| version.0.into_owned())
        .unwrap_or_default()
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    #[serde(borrow, default)]
    metadata: ListMeta<'a>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    items: Vec<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta<'a> {
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    #[serde(borrow, rename = "continue")]
    token: Option<Text<'a>>,
}

impl<'a> Page<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &'a str> {
        self.items.iter().map(|item| item.get())
    }

    pub(super) fn version(&self) -> String {
        self.metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
            .to_owned()
    }

    pub(super) fn token(&self) -> Option<String> {
        let token = self
            .metadata
            .token
            .as_deref()
            .filter(|token| !token.is_empty());
        token.map(str::to_owned)
    }
}

impl Refusal {
    /// Reads a `Status` object; unreadable fields are left out.
    pub(super) fn read(json: &str) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Status {
            code: Option<u16>,
            reason: Option<String>,
            message: Option<String>,
            details: Option<Details>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Details {
            retry_after_seconds: Option<u32>,
            causes: Option<Vec<Cause>>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Cause {
            reason: Option<String>,
        }
        let status: Status = serde_json::from_str(json).unwrap_or_default();
        let details = status.details.unwrap_or_default();
        let seconds = details.retry_after_seconds.filter(|seconds| *seconds > 0);
        let too_large = |cause: &Cause| cause.reason.as_deref() == Some("ResourceVersionTooLarge");
        Self {
            code: status.code.unwrap_or_default(),
            reason: status.reason.unwrap_or_default(),
            message: status.message.unwrap_or_default(),
            retry_after: seconds.map(|seconds| Duration::from_secs(seconds.into())),
            version_too_large: details.causes.unwrap_or_default().iter().any(too_large),
        }
    }
}

#[cfg(test)]
mod tests;
