//! The program's verbs, besides running the driver.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sidecar::rt::Exit;

use crate::cleanup;
use crate::control::client::Client;
use crate::control::routes::state_json;
use crate::instrument::record;
use crate::invariants;
use crate::server::endpoint;
use crate::store::Store;

/// A verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Send requests to a driver's control socket.
    Ctl,
    /// Print a driver's state, whether it runs or not.
    State,
    /// Remove a driver's leftover mounts and loop devices.
    Cleanup,
    /// Check a record against the invariants.
    Check,
}

const USAGE: &str = "usage:
  csi-test-driver ctl --control SOCKET REQUEST
      state | counters | rules | settings | clear
      rule JSON | unrule ID | set JSON | volumes JSON | snapshots JSON
      forget JSON | attachment JSON
      socket stop|start|remove|disconnect
  csi-test-driver state --statedir DIR
  csi-test-driver cleanup --statedir DIR [--remove]
  csi-test-driver check RECORD...
";

/// The verb with this name.
pub fn find(name: &str) -> Option<Verb> {
    match name {
        "ctl" => Some(Verb::Ctl),
        "state" => Some(Verb::State),
        "cleanup" => Some(Verb::Cleanup),
        "check" => Some(Verb::Check),
        _ => None,
    }
}

/// Runs a verb.
pub fn run(verb: Verb, arguments: &[OsString]) -> Exit {
    let words: Vec<String> = arguments
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let done = match verb {
        Verb::Ctl => ctl(words),
        Verb::State => state(words),
        Verb::Cleanup => clean(words),
        Verb::Check => check(&words),
    };
    match done {
        Ok(exit) => exit,
        Err(error) => Exit::failure(1, format_args!("csi-test-driver: {error:#}")),
    }
}

/// Removes `--name VALUE` or `--name=VALUE` from the arguments; returns the value.
fn option(words: &mut Vec<String>, name: &str) -> Option<String> {
    let position = words.iter().position(|word| {
        word == name
            || word
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('='))
    })?;
    let word = words.remove(position);
    match word.split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None if position < words.len() => Some(words.remove(position)),
        None => None,
    }
}

fn print(value: &Value) -> Result<Exit> {
    let stdout = format!("{}\n", serde_json::to_string_pretty(value)?);
    Ok(Exit {
        stdout,
        ..Exit::with_code(0)
    })
}

fn ctl(mut words: Vec<String>) -> Result<Exit> {
    let Some(socket) = option(&mut words, "--control") else {
        bail!("--control missing\n{USAGE}")
    };
    let client = Client::new(endpoint::parse(&socket).context("--control")?);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let json = |text: &str| serde_json::from_str::<Value>(text).context("the last word is no JSON");
    let answer = match words.as_slice() {
        ["state"] => client.ask("GET", "/state", None)?,
        ["counters"] => client.ask("GET", "/counters", None)?,
        ["rules"] => client.ask("GET", "/rules", None)?,
        ["settings"] => client.ask("GET", "/settings", None)?,
        ["clear"] => client.ask("DELETE", "/rules", None)?,
        ["rule", text] => client.ask("POST", "/rules", Some(&json(text)?))?,
        ["unrule", id] => client.ask("DELETE", &format!("/rules/{id}"), None)?,
        ["set", text] => client.ask("POST", "/settings", Some(&json(text)?))?,
        ["volumes", text] => client.ask("POST", "/volumes", Some(&json(text)?))?,
        ["snapshots", text] => client.ask("POST", "/snapshots", Some(&json(text)?))?,
        ["forget", text] => client.ask("POST", "/forget", Some(&json(text)?))?,
        ["attachment", text] => client.ask("POST", "/attachment", Some(&json(text)?))?,
        ["socket", action] => client.ask(
            "POST",
            "/socket",
            Some(&serde_json::json!({ "action": action })),
        )?,
        _ => bail!("request {:?} is not known\n{USAGE}", words.join(" ")),
    };
    print(&answer)
}

fn state_folder(words: &mut Vec<String>) -> Result<PathBuf> {
    match option(words, "--statedir") {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => bail!("--statedir missing\n{USAGE}"),
    }
}

fn state(mut words: Vec<String>) -> Result<Exit> {
    let folder = state_folder(&mut words)?;
    if !folder.is_dir() {
        bail!("--statedir {}: no such folder", folder.display());
    }
    print(&Store::open(&folder, false)?.read(state_json)?)
}

fn clean(mut words: Vec<String>) -> Result<Exit> {
    let folder = state_folder(&mut words)?;
    let remove = words.iter().any(|word| word == "--remove");
    let done = cleanup::run(&folder, remove)?;
    print(&serde_json::json!({ "unmounted": done.unmounted, "detached": done.detached }))
}

fn check(words: &[String]) -> Result<Exit> {
    if words.is_empty() {
        bail!("no record given\n{USAGE}");
    }
    let mut calls = Vec::new();
    for path in words {
        calls.extend(record::read(Path::new(path))?);
    }
    let violations = invariants::check(&calls, &invariants::Options::default());
    let lines: String = violations
        .iter()
        .map(|violation| format!("{violation}\n"))
        .collect();
    let verdict = format!("{} calls, {} violations\n", calls.len(), violations.len());
    let code = u8::from(!violations.is_empty());
    Ok(Exit {
        stdout: format!("{lines}{verdict}"),
        ..Exit::with_code(code)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_in_both_forms() {
        for form in [vec!["a", "--x", "1", "b"], vec!["a", "--x=1", "b"]] {
            let mut words = form.into_iter().map(str::to_owned).collect();
            assert_eq!(option(&mut words, "--x").as_deref(), Some("1"));
            assert_eq!(words, ["a", "b"]);
            assert_eq!(option(&mut words, "--x"), None);
        }
    }

    #[test]
    fn mistakes_say_how_it_is_done() {
        let words = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        for (verb, list) in [
            (Verb::Ctl, words(&["state"])),
            (Verb::Ctl, words(&["--control=/nowhere", "dance"])),
            (Verb::State, words(&[])),
            (Verb::Cleanup, words(&[])),
            (Verb::Check, words(&[])),
        ] {
            let exit = run(verb, &list);
            assert_eq!(exit.code, 1);
            assert!(exit.error.unwrap().contains("usage:"), "{list:?}");
        }
    }
}
