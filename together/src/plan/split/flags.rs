//! Determines which program a flag belongs to.

use sidecar::flags::Note;
use sidecar::flags::standard::{AUTOMAXPROCS, LEADER_ELECTION, LOGGING, SECURE_HTTP, WHY};

use super::{Known, Program};

/// A flag on the command line.
#[derive(Clone, Debug)]
pub(super) struct Given<'a> {
    /// Its name as written, without dashes.
    pub(super) name: &'a str,
    pub(super) owner: Owner,
    pub(super) value: &'a str,
}

/// The recipient of a flag.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// `--controllers`.
    Split,
    /// Only this program, as this flag of its own.
    One(&'static Program, Known),
    /// All programs that have the flag, under this or another name.
    All(Known),
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Split, Self::Split) => true,
            (Self::One(program, flag), Self::One(other, same)) => {
                program.name == other.name && flag == same
            }
            (Self::All(flag), Self::All(other)) => flag == other,
            (Self::Split | Self::One(_, _) | Self::All(_), _) => false,
        }
    }
}

impl Owner {
    pub(super) fn is_boolean(&self) -> bool {
        match self {
            Self::Split => false,
            Self::One(_, flag) | Self::All(flag) => flag.kind.is_boolean(),
        }
    }
}

/// Flags that are given once for the whole process.
const ONCE: [&str; 7] = [
    "version",
    "kubeconfig",
    "master",
    "csi-address",
    "http-endpoint",
    "metrics-address",
    "enable-otel-tracing",
];

/// Flags of the programs' own listeners, for probes written for the single programs.
const OWN_LISTENER: [&str; 2] = ["http-endpoint", "health-port"];

/// Pairs of names with the same meaning.
const SAME: [(&str, &str); 2] = [("worker-threads", "workers"), ("resync", "resync-period")];

pub(super) fn is_once(name: &str) -> bool {
    let tables = [LEADER_ELECTION, LOGGING, AUTOMAXPROCS, SECURE_HTTP, WHY];
    let shared = tables.iter().copied().flatten();
    ONCE.contains(&name)
        || ["controllers", "metrics-path"].contains(&name)
        || shared.into_iter().any(|flag| flag.name == name)
}

/// The name of an argument without dashes, and its value if there is one.
pub(super) fn name_and_value(argument: &str) -> Result<(&str, Option<&str>), String> {
    let long = argument.strip_prefix("--");
    // A single letter, as in `-v=5`.
    let short = argument.strip_prefix('-').filter(|rest| {
        let name = rest.split('=').next().unwrap_or_default();
        name.len() == 1
    });
    let body = long
        .or(short)
        .filter(|body| !body.is_empty() && !body.starts_with(['-', '=']));
    let Some(body) = body else {
        let way_out = match argument.strip_prefix('-') {
            Some(rest) if !rest.starts_with('-') => format!("write -{argument}"),
            _ => "flags begin with --".to_owned(),
        };
        return Err(format!("{argument:?} is no flag: {way_out}"));
    };
    Ok(match body.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (body, None),
    })
}

/// The program's flag with this name or its synonym.
fn find(program: &Program, name: &str) -> Option<Known> {
    let twin = SAME.iter().find_map(|(one, other)| match name {
        name if name == *one => Some(*other),
        name if name == *other => Some(*one),
        _ => None,
    });
    let twin = || twin.and_then(|twin| program.spec.find(twin));
    program.spec.find(name).or_else(twin)
}

/// The program's name for a common flag, if it has that flag.
pub(super) fn own_name(program: &Program, flag: Known) -> Option<&'static str> {
    if is_retired(flag) {
        return retired(program, flag.name).map(|flag| flag.name);
    }
    let listens = OWN_LISTENER.contains(&flag.name) || flag.name.starts_with("metrics-");
    if program.has_own_listener && listens {
        return None;
    }
    find(program, flag.name).map(|flag| flag.name)
}

/// Whether the program has a listener of its own to which this flag belongs.
fn is_of_own_listener(program: &Program, name: &str) -> bool {
    program.has_own_listener && OWN_LISTENER.contains(&name)
}

/// The name under which the process's command line sets this flag of a program; `None` if it cannot.
pub fn name_in_process(program: &Program, name: &str) -> Option<String> {
    let flag = program.spec.find(name)?;
    if is_once(name) && !is_of_own_listener(program, name) {
        return own_name(program, flag).map(str::to_owned);
    }
    Some(format!("{}-{name}", program.name))
}

/// A flag that upstream's program has retired.
fn retired(program: &Program, name: &str) -> Option<Known> {
    let found = program.spec.retired.find(name);
    found.map(|(flag, _)| flag)
}

/// Whether the flag is retired. Programs accept such a flag only to warn about it, and one warning is
/// enough.
pub(super) fn is_retired(flag: Known) -> bool {
    matches!(flag.note, Note::Retired | Note::Renamed(_))
}

/// Accepts a retired flag, which has no effect, unless another one has replaced it.
fn without_effect(flag: Known, name: &str, prefix: &str) -> Result<Known, String> {
    match flag.note {
        Note::Renamed(now) => Err(format!(
            "there is no flag --{name} any more: write --{prefix}{now}"
        )),
        Note::None | Note::Deprecated(_) | Note::Retired => Ok(flag),
    }
}

/// The recipient of the flag called `name`.
pub(super) fn owner(name: &str, programs: &'static [Program]) -> Result<Owner, String> {
    if name == "controllers" {
        return Ok(Owner::Split);
    }
    let controllers = programs.iter().filter(|program| !program.is_process());
    let prefixed = { controllers }.find_map(|program| {
        let rest = name.strip_prefix(program.name)?.strip_prefix('-')?;
        Some((program, rest))
    });
    if let Some((program, rest)) = prefixed {
        return one(program, rest, name);
    }
    let taken = programs.iter().find_map(|program| {
        let flag = find(program, name)?;
        own_name(program, flag).map(|_| flag)
    });
    if let Some(flag) = taken {
        return Ok(Owner::All(flag));
    }
    let mut programs_of_old = programs.iter();
    match programs_of_old.find_map(|program| retired(program, name)) {
        Some(flag) => without_effect(flag, name, "").map(Owner::All),
        None => Err(unknown(name, programs)),
    }
}

/// Resolves a flag that is prefixed with a program's name.
fn one(program: &'static Program, rest: &str, name: &str) -> Result<Owner, String> {
    if is_once(rest) && !is_of_own_listener(program, rest) {
        return Err(format!(
            "--{name}: --{rest} is said once for all controllers, without a name in front"
        ));
    }
    if let Some(flag) = find(program, rest) {
        return Ok(Owner::One(program, flag));
    }
    match retired(program, rest) {
        Some(flag) => {
            let prefix = format!("{}-", program.name);
            without_effect(flag, name, &prefix).map(|flag| Owner::One(program, flag))
        }
        None => Err(match program.spec.nearest(rest) {
            Some(near) => {
                format!(
                    "there is no flag --{name}: did you mean --{}-{near}?",
                    program.name
                )
            }
            None => format!(
                "there is no flag --{name}: {} has no --{rest}",
                program.name
            ),
        }),
    }
}

fn unknown(name: &str, programs: &[Program]) -> String {
    let own = programs
        .iter()
        .filter(|program| find(program, name).is_some());
    if let Some(program) = { own }.next() {
        let program = program.name;
        return format!("--{name} is for {program} alone: write --{program}-{name}");
    }
    let near = programs
        .iter()
        .find_map(|program| program.spec.nearest(name));
    match near {
        Some(near) => format!("there is no flag --{name}: did you mean --{near}?"),
        None => format!("there is no flag --{name}: --help lists them"),
    }
}

/// Lists the flags common to all first, then those of each controller.
pub(super) fn help(file: &str, programs: &[Program]) -> String {
    let mut text = format!("Usage of {file} --controllers=LIST:\n\nOnce for all controllers:\n");
    let mut once: Vec<Known> = { programs.iter() }
        .flat_map(|program| program.spec.flags())
        .filter(|flag| is_once(flag.name))
        .collect();
    once.sort_by_key(|flag| flag.name);
    once.dedup_by_key(|flag| flag.name);
    let names = super::names(programs);
    let star = match programs.iter().any(|program| program.is_for_nodes) {
        true => "all that a controller pod can have",
        false => "all of them",
    };
    text.push_str(&format!(
        "  --controllers\n    \tSome of {names}; * is {star}, and -NAME takes one out.\n"
    ));
    let line = |flag: Known, prefix: &str| {
        let help = flag.help.replace('`', "");
        let default = match flag.default {
            "" => String::new(),
            default => format!(" (default {default})"),
        };
        format!("  --{prefix}{}\n    \t{help}{default}\n", flag.name)
    };
    once.iter().for_each(|flag| text.push_str(&line(flag, "")));
    for program in programs.iter().filter(|program| !program.is_process()) {
        let prefix = format!("{}-", program.name);
        text.push_str(&format!(
            "\nFor {0}; without {prefix} for all controllers that have the flag:\n",
            program.name
        ));
        let mut flags: Vec<Known> = { program.spec.flags() }
            .filter(|flag| !is_once(flag.name) || is_of_own_listener(program, flag.name))
            .collect();
        flags.sort_by_key(|flag| flag.name);
        flags
            .iter()
            .for_each(|flag| text.push_str(&line(flag, &prefix)));
    }
    text
}
