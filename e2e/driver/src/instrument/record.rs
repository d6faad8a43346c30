//! The record: one JSON line per answered call, and one for the start of each call.
//!
//! The line of the end is complete in itself. The line of the start matters only for calls that
//! never end because the driver is killed. Several drivers may append to one file: each line is
//! written at once.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// One call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Call {
    /// The driver process: node id and process id.
    pub instance: String,
    /// Number of the call in that process.
    pub seq: u64,
    /// Method without service.
    pub method: String,
    /// Volume, snapshot or group handle; for Create calls the one in the response.
    pub volume: String,
    /// Name of a Create call.
    pub name: String,
    /// Node ID of a controller call; the driver's own node for node calls.
    pub node: String,
    /// Target path, or volume path of stats and expansion.
    pub target: String,
    /// Staging path.
    pub staging: String,
    /// The caller's `:authority`.
    pub authority: String,
    /// Number of the connection in that process.
    pub connection: u64,
    /// Process ID of the caller from the kernel, read when it connected; absent if unavailable.
    pub caller: Option<u32>,
    /// Arrival, nanoseconds since the epoch.
    pub start_ns: u64,
    /// Time of the response, or of the caller's going away; absent if the driver died before.
    pub end_ns: Option<u64>,
    /// End of the driver's work, if the caller had gone away before.
    pub work_end_ns: Option<u64>,
    /// Milliseconds until the caller's deadline on arrival; absent without a deadline.
    pub deadline_ms: Option<u64>,
    /// Calls in progress in that process on arrival, including this one.
    pub in_flight: u64,
    /// gRPC code by name; absent without a response.
    pub code: Option<String>,
    /// Error message.
    pub message: String,
    /// Hash of the request without secrets.
    pub request_hash: String,
    /// Hash of the request without secrets and topology.
    pub parameters_hash: String,
    /// Whether the request had secrets. Their values are never recorded.
    pub secrets: bool,
    /// The rule that applied.
    pub rule: Option<String>,
    /// The caller went away before the response.
    pub caller_gone: bool,
    /// The request without secrets.
    pub request: serde_json::Value,
}

/// A call that has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// As in [`Call`].
    pub instance: String,
    /// As in [`Call`].
    pub seq: u64,
    /// The method; under another key, so that a count of methods counts answered calls.
    pub begins: String,
    /// As in [`Call`].
    pub volume: String,
    /// As in [`Call`].
    pub name: String,
    /// As in [`Call`].
    pub node: String,
    /// As in [`Call`].
    pub target: String,
    /// As in [`Call`].
    pub staging: String,
    /// As in [`Call`].
    pub start_ns: u64,
    /// As in [`Call`].
    pub request_hash: String,
    /// As in [`Call`].
    pub parameters_hash: String,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Line {
    Begin(Box<Begin>),
    End(Box<Call>),
}

/// Why a record is unreadable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the record {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A line does not parse.
    #[error("line {number} of the record {} is no call", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        number: usize,
        /// The parser's error.
        #[source]
        source: serde_json::Error,
    },
}

/// Writes the record.
#[derive(Debug)]
pub struct Recorder {
    file: Mutex<File>,
}

impl Recorder {
    /// Appends to `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self {
            file: Mutex::new(file),
        })
    }

    /// Writes the line of a call's start.
    pub fn begin(&self, begin: Begin) {
        self.write(&Line::Begin(Box::new(begin)));
    }

    /// Writes the line of a call's end.
    pub fn end(&self, call: Call) {
        self.write(&Line::End(Box::new(call)));
    }

    fn write(&self, line: &Line) {
        let mut text = match serde_json::to_vec(line) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!("cannot encode a call for the record: {error}");
                return;
            }
        };
        text.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(&text) {
            tracing::error!("cannot write the record: {error}");
        }
    }
}

/// Reads a record; returns the calls in the order of their arrival, including those that never
/// ended.
pub fn read(path: &Path) -> Result<Vec<Call>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|(number, source)| Error::Line {
        path: path.to_owned(),
        number,
        source,
    })
}

/// Like [`read`], from a text; an incomplete last line is ignored.
pub fn parse(text: &str) -> Result<Vec<Call>, (usize, serde_json::Error)> {
    let mut open: BTreeMap<(String, u64), Call> = BTreeMap::new();
    let mut calls = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if !line.ends_with('\n') {
            break;
        }
        match serde_json::from_str(line).map_err(|source| (index + 1, source))? {
            Line::Begin(begin) => {
                open.insert((begin.instance.clone(), begin.seq), begun(*begin));
            }
            Line::End(call) => {
                open.remove(&(call.instance.clone(), call.seq));
                calls.push(*call);
            }
        }
    }
    calls.extend(open.into_values());
    calls.sort_by(|a, b| (a.start_ns, &a.instance, a.seq).cmp(&(b.start_ns, &b.instance, b.seq)));
    Ok(calls)
}

fn begun(begin: Begin) -> Call {
    Call {
        instance: begin.instance,
        seq: begin.seq,
        method: begin.begins,
        volume: begin.volume,
        name: begin.name,
        node: begin.node,
        target: begin.target,
        staging: begin.staging,
        start_ns: begin.start_ns,
        request_hash: begin.request_hash,
        parameters_hash: begin.parameters_hash,
        ..Call::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(seq: u64, start_ns: u64) -> Begin {
        Begin {
            instance: "n1/7".to_owned(),
            seq,
            begins: "DeleteVolume".to_owned(),
            volume: "v1".to_owned(),
            name: String::new(),
            node: String::new(),
            target: String::new(),
            staging: String::new(),
            start_ns,
            request_hash: "h".to_owned(),
            parameters_hash: "p".to_owned(),
        }
    }

    #[test]
    fn ends_replace_beginnings_and_the_rest_stays_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("calls.jsonl");
        let recorder = Recorder::open(&path).unwrap();
        recorder.begin(begin(1, 10));
        recorder.begin(begin(2, 5));
        let call = Call {
            end_ns: Some(20),
            code: Some("OK".to_owned()),
            ..begun(begin(1, 10))
        };
        recorder.end(call.clone());
        assert_eq!(read(&path).unwrap(), [begun(begin(2, 5)), call]);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text.matches("\"method\"").count(),
            1,
            "one per answered call"
        );
    }

    #[test]
    fn a_torn_last_line_is_ignored_another_line_is_an_error() {
        let line = serde_json::to_string(&Line::Begin(Box::new(begin(1, 1)))).unwrap();
        assert_eq!(
            parse(&format!("{line}\n{{\"event\":\"en")).unwrap().len(),
            1
        );
        assert_eq!(parse(&format!("{line}\nnonsense\n")).unwrap_err().0, 2);
    }
}
