//! Client of the control socket.
//!
//! Blocking, with the standard library only, so that a harness needs no async runtime.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::instrument::rules::{Listed, Rule};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The control socket is unreachable.
    #[error("cannot ask the driver at {}", path.display())]
    Io {
        /// The control socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The response is not one of a control socket.
    #[error("the driver's answer cannot be read: {0}")]
    Malformed(String),
    /// The driver refused.
    #[error("the driver answered {status}: {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The driver's message.
        message: String,
    },
}

/// A driver's control socket.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// A client of the control socket at `path`; sends nothing yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The control socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends any request.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: driver\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = self
            .exchange(request.as_bytes())
            .map_err(|source| Error::Io {
                path: self.path.clone(),
                source,
            })?;
        read(&answer)
    }

    fn exchange(&self, request: &[u8]) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.path)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(request)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Volumes, snapshots, nodes, and counts of leftovers.
    pub fn state(&self) -> Result<Value, Error> {
        self.ask("GET", "/state", None)
    }

    /// Adds a rule; returns its ID.
    pub fn add_rule(&self, rule: &Rule) -> Result<String, Error> {
        let answer = self.ask("POST", "/rules", Some(&serde_json::json!(rule)))?;
        let id = answer.pointer("/ids/0").and_then(Value::as_str);
        id.map(str::to_owned)
            .ok_or_else(|| Error::Malformed(answer.to_string()))
    }

    /// Removes a rule; calls that it holds continue.
    pub fn remove_rule(&self, id: &str) -> Result<(), Error> {
        self.ask("DELETE", &format!("/rules/{id}"), None).map(drop)
    }

    /// Removes all rules.
    pub fn clear_rules(&self) -> Result<(), Error> {
        self.ask("DELETE", "/rules", None).map(drop)
    }

    /// The rules with their counters.
    pub fn rules(&self) -> Result<Vec<Listed>, Error> {
        let answer = self.ask("GET", "/rules", None)?;
        serde_json::from_value(answer).map_err(|error| Error::Malformed(error.to_string()))
    }

    /// Creates volumes without a CSI call, as the storage's administrator would; returns their
    /// handles.
    pub fn make_volumes(&self, names: &[String], bytes: i64) -> Result<Vec<String>, Error> {
        let body = serde_json::json!({ "names": names, "bytes": bytes });
        let answer = self.ask("POST", "/volumes", Some(&body))?;
        let ids = answer.get("ids").cloned().unwrap_or_default();
        serde_json::from_value(ids).map_err(|error| Error::Malformed(error.to_string()))
    }

    /// Takes a snapshot without a CSI call; returns its handle.
    pub fn take_snapshot(&self, name: &str, volume: &str) -> Result<String, Error> {
        let body = serde_json::json!({ "name": name, "volume": volume });
        let answer = self.ask("POST", "/snapshots", Some(&body))?;
        let id = answer.get("id").and_then(Value::as_str);
        id.map(str::to_owned)
            .ok_or_else(|| Error::Malformed(answer.to_string()))
    }

    /// Changes settings, see [`crate::instrument::settings::Settings`].
    pub fn set(&self, patch: &Value) -> Result<(), Error> {
        self.ask("POST", "/settings", Some(patch)).map(drop)
    }

    /// Number of answered calls of a method so far, with any code.
    pub fn calls(&self, method: &str) -> Result<u64, Error> {
        let answer = self.ask("GET", "/counters", None)?;
        let codes = answer
            .pointer(&format!("/calls/{method}"))
            .and_then(Value::as_object);
        Ok(codes
            .into_iter()
            .flat_map(|codes| codes.values())
            .filter_map(Value::as_u64)
            .sum())
    }

    /// `stop`, `start`, `remove` or `disconnect`.
    pub fn socket(&self, action: &str) -> Result<(), Error> {
        self.ask(
            "POST",
            "/socket",
            Some(&serde_json::json!({ "action": action })),
        )
        .map(drop)
    }
}

fn read(answer: &str) -> Result<Value, Error> {
    let malformed = || Error::Malformed(answer.chars().take(200).collect());
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse::<u16>().ok());
    let status = status.ok_or_else(malformed)?;
    let value: Value = serde_json::from_str(body).map_err(|_| malformed())?;
    if status == 200 {
        return Ok(value);
    }
    let message = value
        .get("error")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    Err(Error::Refused { status, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let ok = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"a\": 1}\n";
        assert_eq!(read(ok).unwrap()["a"], 1);
        let refused = "HTTP/1.1 404 Not Found\r\n\r\n{\"error\": \"no\"}";
        assert_eq!(
            read(refused).unwrap_err().to_string(),
            "the driver answered 404: no"
        );
        assert!(matches!(read("nonsense"), Err(Error::Malformed(_))));
    }
}
