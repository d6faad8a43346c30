//! Command lines written for upstream's programs, each read by our program of the same name.
//!
//! `tests/testdata/command-lines.tsv` has those of current charts and manifests of drivers, `command-lines-older.tsv`
//! those of earlier ones with the version that each was written for, and `flags-of-releases.tsv` every flag and
//! feature gate of upstream's released programs, with the last release that accepted it.

use std::collections::BTreeMap;

use sidecar::flags::{self, Dialect, Exit, Note, Spec, retired::Retired};

use crate::preflight::program::{PROGRAMS, Program, named};

const TODAY: &str = include_str!("../tests/testdata/command-lines.tsv");
const OLDER: &str = include_str!("../tests/testdata/command-lines-older.tsv");
const RELEASES: &str = include_str!("../tests/testdata/flags-of-releases.tsv");

/// The configuration and the warnings of a command line.
struct Read {
    /// The configuration, for comparison.
    decided: String,
    warnings: Vec<String>,
}

fn program(name: &str) -> &'static Program {
    named(name).unwrap_or_else(|| panic!("{name}"))
}

/// The flag that a program requires.
pub(crate) fn required(name: &str) -> Option<&'static str> {
    (name == "csi-node-driver-registrar").then_some("--kubelet-registration-path=/p")
}

impl Program {
    /// Reads the program's required flag, then `arguments`.
    fn with<A: AsRef<str>>(&self, arguments: &[A]) -> Result<Read, Exit> {
        let required = [self.name].into_iter().chain(required(self.name));
        let line = required.chain(arguments.iter().map(AsRef::as_ref));
        let values = flags::parse(self.spec, line)?;
        // Every environment variable is set, to its own name.
        let read = (self.decide)(&values, &|name| Some(name.to_owned()))?;
        let warnings = values.warnings().iter().cloned().chain(read.warnings);
        Ok(Read {
            decided: read.decided,
            warnings: warnings.collect(),
        })
    }

    fn retired(&self) -> &'static Retired {
        self.spec.retired
    }
}

/// The table's rows without the heading.
fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).map(|line| line.split('\t').collect())
}

fn arguments(json: &str) -> Vec<String> {
    let variables = BTreeMap::from([
        ("$(HEALTH_PORT)", "9898"),
        ("$(POD_IP)", "10.0.0.1"),
        ("$(NAMESPACE)", "ns"),
        ("$(PDCSI_NAMESPACE)", "ns"),
        ("$(POD_NAMESPACE)", "ns"),
        ("$(ADDRESS)", "/csi/csi.sock"),
        ("$(CSI_ENDPOINT)", "/csi/csi.sock"),
        (
            "$(DRIVER_REG_SOCK_PATH)",
            "/var/lib/kubelet/plugins/d/csi.sock",
        ),
        ("$(PLUGIN_REG_DIR)", "/registration"),
    ]);
    let arguments: Vec<String> = serde_json::from_str(json).unwrap();
    let filled = arguments.into_iter().map(|argument| {
        let filled = variables
            .iter()
            .fold(argument, |text, (name, value)| text.replace(name, value));
        assert!(!filled.contains("$("), "{filled}");
        filled
    });
    filled.collect()
}

#[test]
fn every_command_line_of_todays_manifests_is_taken() {
    let refused = rows(TODAY).filter_map(|row| {
        let read = program(row[0]).with(&arguments(row[2]));
        read.err().map(|exit| format!("{row:?}: {exit:?}"))
    });
    assert_eq!(refused.collect::<Vec<_>>(), [""; 0]);
    assert!(rows(TODAY).count() > 200);
}

/// Each causes at most as many warnings as it has flags, and is refused only where upstream's of that version refused
/// it: those are command lines of programs derived from upstream's.
#[test]
fn every_command_line_of_earlier_manifests_is_taken_as_upstreams_of_its_time_took_it() {
    let mut wrong = Vec::new();
    for row in rows(OLDER) {
        let arguments = arguments(row[3]);
        let read = program(row[0]).with(&arguments);
        let is_right = match (&read, row[4]) {
            (Ok(read), "") => read.warnings.len() <= arguments.len(),
            (Err(exit), flag) => !flag.is_empty() && exit.code == 2 && exit.stderr.contains(flag),
            (Ok(_), _) => false,
        };
        if !is_right {
            wrong.push(format!("{row:?}: {:?}", read.map(|read| read.warnings)));
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(rows(OLDER).count() > 400);
}

/// An argument for a flag listed in the table of releases.
fn given(spec: &Spec, named: &str) -> String {
    let name = named.split('=').next().unwrap();
    let flag = spec
        .find_any(name)
        .unwrap_or_else(|| panic!("there is no --{name}"));
    if named.contains('=') {
        return format!("--{named}");
    }
    let value = match (flag.note, flag.default) {
        (Note::Retired, _) => "any thing",
        (Note::Renamed(now), _) => spec.find(now).unwrap().default,
        // The flag is not available, in upstream's programs neither.
        _ if name.starts_with("log-") => flag.default,
        _ if flag.kind.is_boolean() => "true",
        (_, "") => match name {
            "vmodule" => "run=3",
            "feature-gates" => "AllAlpha=false",
            "leader-election-labels" => "a:b",
            "http-endpoint" | "metrics-address" => ":8080",
            _ => "x",
        },
        (_, default) => default,
    };
    format!("--{name}={value}")
}

#[test]
fn every_flag_and_gate_of_a_released_program_is_taken_and_those_retired_are_named_with_their_release()
 {
    let mut retired = 0;
    for row in rows(RELEASES) {
        let (program, named, last) = (program(row[0]), row[1], row[2]);
        let argument = given(program.spec, named);
        let read = program.with(&[&argument]);
        let read = read.unwrap_or_else(|exit| panic!("{} {argument}: {exit:?}", row[0]));
        let gate = named
            .strip_prefix("feature-gates=")
            .and_then(|gate| gate.split('=').next());
        let is_known = match gate {
            // Flags of the API server never had an effect; a value that is now locked is no reason to exit.
            Some(_) => !read
                .warnings
                .iter()
                .any(|warning| warning.contains("was retired in")),
            None => program.spec.find(named).is_some(),
        };
        let lasts = last.is_empty();
        if is_known {
            assert!(lasts || gate.is_some(), "{row:?}");
            continue;
        }
        assert!(!lasts, "{row:?}");
        retired += 1;
        let without = program.with(&[""; 0]).unwrap();
        assert_eq!(read.decided, without.decided, "{row:?}");
        let [warning] = read.warnings.as_slice() else {
            panic!("{row:?}: {:?}", read.warnings);
        };
        let name = gate.unwrap_or(named);
        let release = release_in(warning, &format!(" was retired in {} ", row[0]));
        assert!(warning.contains(name), "{warning}");
        assert!(
            number(release) > number(last),
            "{warning}, and {last} had it"
        );
        if gate.is_none() {
            let twice = program.with(&[&argument, &argument]).unwrap();
            assert_eq!(twice.warnings.as_slice(), [warning.as_str()], "{row:?}");
        }
    }
    assert!(retired > 100, "{retired} flags and gates");
}

/// The version that follows `text`.
fn release_in<'a>(warning: &'a str, text: &str) -> &'a str {
    let (_, rest) = warning
        .split_once(text)
        .unwrap_or_else(|| panic!("{warning:?} without {text:?}"));
    rest.split([' ', ':']).next().unwrap()
}

fn number(version: &str) -> Vec<u32> {
    let parts = version.trim_start_matches('v').split('.');
    parts.map(|part| part.parse().unwrap()).collect()
}

/// The table must neither list flags that no release had, nor hide flags that still exist.
#[test]
fn every_retired_flag_was_once_there_and_is_no_longer() {
    for program in PROGRAMS {
        assert_eq!(program.retired().program, program.name);
        for (release, flags) in program.retired().releases {
            for flag in *flags {
                let row = rows(RELEASES).find(|row| row[0] == program.name && row[1] == flag.name);
                assert!(row.is_some(), "{} {release} {}", program.name, flag.name);
                assert_eq!(program.spec.find(flag.name), None, "{}", program.name);
                if let Note::Renamed(now) = flag.note {
                    let kind = program.spec.find(now).unwrap().kind;
                    assert_eq!(kind.is_boolean(), flag.kind.is_boolean(), "{now}");
                }
            }
        }
    }
}

#[test]
fn a_flag_that_took_anothers_place_has_its_effect() {
    for (name, was, now) in [
        (
            "csi-provisioner",
            "--enable-leader-election",
            "--leader-election",
        ),
        (
            "csi-provisioner",
            "--enable-leader-election=false",
            "--leader-election=false",
        ),
        ("csi-resizer", "--csiTimeout=90s", "--timeout=90s"),
    ] {
        let (was, now) = (
            program(name).with(&[was]).unwrap(),
            program(name).with(&[now]).unwrap(),
        );
        assert_eq!(
            (was.decided, was.warnings.len()),
            (now.decided, 1),
            "{name}"
        );
        assert!(now.warnings.is_empty(), "{name}");
    }
}

#[test]
fn a_misspelt_flag_or_gate_is_a_mistake_as_ever() {
    for program in PROGRAMS {
        for argument in ["--logtostder", "--log-dir=/x", "--nope", "--csi_adress=/x"] {
            let exit = program.with(&[argument]).err().unwrap();
            assert_eq!(exit.code, 2, "{} {argument}", program.name);
        }
        if program.spec.find("feature-gates").is_some() {
            let exit = program
                .with(&["--feature-gates=HonorPVReclaimPolic=true"])
                .err()
                .unwrap();
            let error = exit.error.unwrap_or_default();
            assert!(
                error.contains("unrecognized feature gate"),
                "{}: {error}",
                program.name
            );
        }
    }
}

/// B-6: the two dashes are missing. Go's flag package stops there, pflag reads on.
#[test]
fn a_word_without_dashes_is_named_in_every_program() {
    for program in PROGRAMS {
        let read = program.with(&["timeout=60s", "--v=7"]).unwrap();
        let [warning] = read.warnings.as_slice() else {
            panic!("{}: {:?}", program.name, read.warnings);
        };
        let ignored = match program.spec.dialect {
            Dialect::Go => "it and everything behind it are ignored",
            Dialect::Pflag => "it is ignored",
        };
        let text = format!("Argument \"timeout=60s\" is not a flag: {ignored}");
        assert_eq!(*warning, text, "{}", program.name);
    }
}
