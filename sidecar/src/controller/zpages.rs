//! `/statusz` and `/flagz` of the HTTP server with TLS, in the text form of Kubernetes' components (KEP-4827,
//! KEP-4828). Those pick one of four separators at random; `/statusz` always has `: ` here, `/flagz` always `=`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;

use crate::build;
use crate::flags::Values;
use crate::http::{RouteError, Routes};
use crate::metrics::process_start;
use crate::redact;

const STATUS: &str = "/statusz";
const FLAGS: &str = "/flagz";

/// Kubernetes' own line.
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// The flags of a process with their values, set or default, and without secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlagTable(BTreeMap<String, String>);

impl FlagTable {
    /// The flags of a program.
    #[must_use]
    pub fn new(values: &Values) -> Self {
        let mut table = Self::default();
        table.add(values, |flag| Some(flag.to_owned()));
        table
    }

    /// Adds the flags of one of several programs, under the names that `named` gives them. `None` omits a flag, and a
    /// name that the table has already keeps its value.
    pub fn add(&mut self, values: &Values, named: impl Fn(&str) -> Option<String>) {
        for (flag, value) in values.shown(|_| true) {
            if let Some(name) = named(flag) {
                let shown = || redact::of_flag(flag, &value);
                self.0.entry(name).or_insert_with(shown);
            }
        }
    }

    /// Adds a flag that no program's table has.
    pub fn insert(&mut self, flag: &str, value: &str) {
        let shown = redact::of_flag(flag, value);
        self.0.insert(flag.to_owned(), shown);
    }

    fn text(&self, program: &str) -> String {
        let mut text = header(program, "flagz");
        for (name, value) in &self.0 {
            let _ = writeln!(text, "{name}={value}");
        }
        text
    }
}

/// Adds both pages. `/statusz` names the paths that `routes` has by then.
///
/// # Errors
/// A path is taken.
pub(super) fn add(
    routes: &mut Routes,
    program: &'static str,
    flags: &FlagTable,
) -> Result<(), RouteError> {
    let paths = folders(routes.paths().chain([STATUS, FLAGS]));
    routes.add_text(STATUS, move || {
        status(program, &paths, process_start(), Timestamp::now())
    })?;
    let text = flags.text(program);
    routes.add_text(FLAGS, move || text.clone())
}

fn header(program: &str, page: &str) -> String {
    format!("\n{program} {page}\n{WARNING}\n")
}

/// The first folder of each path, once.
fn folders<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let folders = paths.filter_map(|path| path.split('/').nth(1));
    let folders: BTreeSet<_> = folders.filter(|folder| !folder.is_empty()).collect();
    let folders: Vec<_> = folders.iter().map(|folder| format!("/{folder}")).collect();
    folders.join(" ")
}

/// The text of `/statusz`; `started` is in seconds since 1970.
fn status(program: &str, paths: &str, started: Option<u64>, now: Timestamp) -> String {
    let started = started.and_then(|seconds| i64::try_from(seconds).ok());
    let started = started.and_then(|seconds| Timestamp::from_second(seconds).ok());
    let (start, age) = match started {
        Some(started) => (
            started.strftime("%a %b %e %H:%M:%S UTC %Y").to_string(),
            age(now.as_second() - started.as_second()),
        ),
        None => ("unknown".to_owned(), "unknown".to_owned()),
    };
    // Kubernetes' components leave a line empty where they emulate no other version.
    format!(
        "{}\nStarted: {start}\nUp: {age}\nRust version: {}\nBinary version: {}\n\nPaths: {paths}\n",
        header(program, "statusz"),
        build::RUSTC,
        build::VERSION,
    )
}

fn age(seconds: i64) -> String {
    // The start time is rounded, and so it may lie in the future.
    let seconds = seconds.max(0);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours} hr {minutes:02} min {:02} sec", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::standard::{LEADER_ELECTION, MASTER, SECURE_HTTP, VERSION};
    use crate::flags::{Dialect, Flag, Kind, Spec, parse, retired};

    static OWN: &[Flag] = &[
        Flag::new("timeout", Kind::Duration, "15s", ""),
        Flag::new("driver-token", Kind::String, "", ""),
    ];

    static SPEC: Spec = Spec {
        dialect: Dialect::Go,
        tables: &[OWN, LEADER_ELECTION, MASTER, SECURE_HTTP, VERSION],
        retired: &retired::NONE,
    };

    fn values(arguments: &[&str]) -> Values {
        let line = std::iter::once("csi-test").chain(arguments.iter().copied());
        parse(&SPEC, line.map(str::to_owned)).unwrap()
    }

    #[test]
    fn o_73_version_start_and_age() {
        let now: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        let seconds = |text: &str| {
            let time: Timestamp = text.parse().unwrap();
            u64::try_from(time.as_second()).unwrap()
        };
        for (started, start, age) in [
            (
                Some(seconds("2026-11-28T11:59:44Z")),
                "Sat Nov 28 11:59:44 UTC 2026",
                "0 hr 00 min 16 sec",
            ),
            (
                Some(seconds("2026-11-05T06:07:08Z")),
                "Thu Nov  5 06:07:08 UTC 2026",
                "557 hr 52 min 52 sec",
            ),
            (
                Some(seconds("2026-11-28T12:00:01Z")),
                "Sat Nov 28 12:00:01 UTC 2026",
                "0 hr 00 min 00 sec",
            ),
            (None, "unknown", "unknown"),
            (Some(u64::MAX), "unknown", "unknown"),
        ] {
            let (compiler, version) = (build::RUSTC, build::VERSION);
            let expected = format!(
                "\ncsi-test statusz\n{WARNING}\n\nStarted: {start}\nUp: {age}\nRust version: {compiler}\n\
                 Binary version: {version}\n\nPaths: /metrics /readyz\n"
            );
            let text = status("csi-test", "/metrics /readyz", started, now);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn o_73_paths_by_their_first_folder() {
        for (paths, shown) in [
            (&["/metrics"][..], "/metrics"),
            (
                &["/healthz", "/healthz/leader-election", "/a"],
                "/a /healthz",
            ),
            (&["/why/", "/"], "/why"),
        ] {
            assert_eq!(folders(paths.iter().copied()), shown, "{paths:?}");
        }
    }

    #[test]
    fn o_73_every_flag_with_its_value_and_without_secrets() {
        let shown = FlagTable::new(&values(&[
            "--timeout=90s",
            "--master=https://me:x1@host:6443",
            "--driver-token=x1",
            "--leader-election",
        ]));
        let expected = format!(
            "\ncsi-test flagz\n{WARNING}\n\
             authorization-always-allow-paths=/healthz,/healthz/leader-election,/livez,/readyz\n\
             client-ca-file=\n\
             driver-token=***\n\
             leader-election=true\n\
             leader-election-labels=\n\
             leader-election-lease-duration=15s\n\
             leader-election-namespace=\n\
             leader-election-renew-deadline=10s\n\
             leader-election-retry-period=5s\n\
             master=https://***@host:6443\n\
             secure-http-endpoint=\n\
             timeout=1m30s\n\
             tls-cert-file=\n\
             tls-min-version=\n\
             tls-private-key-file=\n\
             version=false\n"
        );
        assert_eq!(shown.text("csi-test"), expected);
    }

    #[test]
    fn o_73_several_programs_say_what_they_share_once() {
        let mut table = FlagTable::default();
        table.insert("controllers", "a,b");
        for (program, timeout) in [("a", "--timeout=7s"), ("b", "--timeout=9s")] {
            table.add(
                &values(&[timeout, "--master=https://host"]),
                |flag| match flag {
                    "timeout" => Some(format!("{program}-{flag}")),
                    "master" => Some(flag.to_owned()),
                    _ => None,
                },
            );
        }
        let text = table.text("csi-test");
        let (_, flags) = text.split_once(&format!("{WARNING}\n")).unwrap();
        assert_eq!(
            flags,
            "a-timeout=7s\nb-timeout=9s\ncontrollers=a,b\nmaster=https://host\n"
        );
    }
}
