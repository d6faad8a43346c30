//! The one command line, cut into one for each controller.
//!
//! Nothing is read or checked here but whose a flag is: each program does that itself, with its own table
//! and its own words. So no check, default or message is there twice.

mod flags;
mod gates;

use std::collections::BTreeSet;

use sidecar::flags::{Exit, Flag, Spec};
use sidecar::gates::{Gate, Retired};

use flags::{Given, Owner, own_name};

/// What can be in one process.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// As `--controllers` and prefixes of flags have it.
    pub name: &'static str,
    /// Other names that `--controllers` takes.
    pub others: &'static [&'static str],
    /// Its flags.
    pub spec: &'static Spec,
    /// The feature gates that it knows.
    pub gates: &'static [Gate],
    /// Those that it accepts without effect.
    pub ignored_gates: &'static [&'static [Gate]],
    /// Those that it knew.
    pub retired_gates: &'static Retired,
    /// It belongs to nodes, and is not meant by `*`.
    pub is_for_nodes: bool,
    /// Its HTTP server is one of its own, beside that of all.
    pub has_own_listener: bool,
}

impl Program {
    /// Name of what the process itself takes of a command line, where no controller does: it is always part of
    /// it, and cannot be named.
    pub const PROCESS: &str = "process";

    pub(crate) fn is_process(&self) -> bool {
        self.name == Self::PROCESS
    }

    /// `--controllers` names it so.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        !self.is_process() && (self.name == name || self.others.contains(&name))
    }
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// `--version`
    Version,
    /// `--help`, with what it prints.
    Help(String),
    /// To run these, each with its own command line.
    Run(Vec<Part>),
}

/// One controller's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which program.
    pub name: &'static str,
    /// `--controllers` names it, and does not only mean it by `*`.
    pub is_named: bool,
    /// Its flags, in its own words.
    pub arguments: Vec<String>,
}

/// Cuts what follows the program's name into a command line for each of the `programs` that
/// `--controllers` names, in the order of `programs`.
///
/// # Errors
/// Exit code 2, with the flag or name that is at fault and the way out.
pub fn split<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
    programs: &'static [Program],
) -> Result<Line, Exit> {
    split_as("csi-sidecars", arguments, programs)
}

/// The same for the file called `file`.
///
/// # Errors
/// As [`split`].
pub fn split_as<'a>(
    file: &str,
    arguments: impl IntoIterator<Item = &'a str>,
    programs: &'static [Program],
) -> Result<Line, Exit> {
    cut(file, arguments, programs).map_err(|problem| Exit {
        stderr: format!("{file}: {problem}\n"),
        ..Exit::with_code(2)
    })
}

fn cut<'a>(
    file: &str,
    arguments: impl IntoIterator<Item = &'a str>,
    programs: &'static [Program],
) -> Result<Line, String> {
    let mut given = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match flags::name_and_value(argument)? {
            ("help" | "h", None) => return Ok(Line::Help(flags::help(file, programs))),
            ("version", value) if value.is_none_or(|value| value == "true") => {
                return Ok(Line::Version);
            }
            (name, value) => {
                let owner = flags::owner(name, programs)?;
                let value = match value {
                    Some(value) => value,
                    None if owner.is_boolean() => "true",
                    None => arguments
                        .next()
                        .ok_or_else(|| format!("--{name} needs a value: --{name}=VALUE"))?,
                };
                given.push(Given { name, owner, value });
            }
        }
    }
    let (chosen, named) = chosen(&given, programs)?;
    for flag in &given {
        must_be_of(flag, &chosen, programs)?;
    }
    let part = |program: &&'static Program| Part {
        name: program.name,
        is_named: named.contains(program.name),
        arguments: arguments_of(program, &given, &chosen),
    };
    Ok(Line::Run(chosen.iter().map(part).collect()))
}

/// What `--controllers` is set to, before it is known whose the other flags are.
pub fn list_of<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut list = None;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        // Values of other flags may stand alone and look like anything.
        if let Ok(("controllers", value)) = flags::name_and_value(argument) {
            list = value.or_else(|| arguments.next());
        }
    }
    list
}

/// The programs that `--controllers` asks for, and those that it names.
fn chosen(
    given: &[Given<'_>],
    programs: &'static [Program],
) -> Result<(Vec<&'static Program>, BTreeSet<&'static str>), String> {
    let lists = given.iter().filter(|flag| flag.owner == Owner::Split);
    let Some(list) = lists.map(|flag| flag.value).next_back() else {
        let names = names(programs);
        return Err(format!("--controllers is missing: name some of {names}"));
    };
    let (mut with, mut named, mut without) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for name in list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        if name == "*" {
            let pod = programs
                .iter()
                .filter(|program| !program.is_for_nodes && !program.is_process());
            with.extend(pod.map(|program| program.name));
            continue;
        }
        let (set, name) = match name.strip_prefix('-') {
            Some(name) => (&mut without, name),
            None => (&mut named, name),
        };
        let is_named = |program: &&Program| program.is_called(name);
        let Some(program) = programs.iter().find(is_named) else {
            let names = names(programs);
            return Err(format!(
                "--controllers={list}: there is no controller {name:?}, there are {names}"
            ));
        };
        set.insert(program.name);
    }
    with.extend(&named);
    let is_chosen =
        |program: &&Program| with.contains(program.name) && !without.contains(program.name);
    if !programs.iter().any(|program| is_chosen(&program)) {
        let names = names(programs);
        return Err(format!(
            "--controllers={list} names no controller: name some of {names}"
        ));
    }
    let chosen = programs.iter();
    let chosen = chosen.filter(|program| program.is_process() || is_chosen(program));
    Ok((chosen.collect(), named))
}

fn names(programs: &[Program]) -> String {
    let named = programs.iter().filter(|program| !program.is_process());
    let names: Vec<_> = named.map(|program| program.name).collect();
    names.join(", ")
}

/// A flag that nobody in this process has is a mistake, be it known elsewhere.
fn must_be_of(
    flag: &Given<'_>,
    chosen: &[&'static Program],
    programs: &'static [Program],
) -> Result<(), String> {
    let name = flag.name;
    let is_chosen = |program: &Program| chosen.iter().any(|other| other.name == program.name);
    match flag.owner {
        Owner::Split => Ok(()),
        Owner::One(program, _) if is_chosen(program) => Ok(()),
        Owner::One(program, _) => Err(not_chosen(name, &[program.name])),
        Owner::All(flag) => {
            let has = |program: &&Program| own_name(program, flag).is_some();
            if programs.iter().filter(has).any(is_chosen) {
                return Ok(());
            }
            let owners = programs.iter().filter(has).map(|program| program.name);
            Err(not_chosen(name, &owners.collect::<Vec<_>>()))
        }
    }
}

fn not_chosen(flag: &str, owners: &[&str]) -> String {
    let (names, add) = match owners {
        [one] => (format!("{one}, which is not chosen"), "it"),
        _ => (
            format!("{}, none of which is chosen", owners.join(", ")),
            "one",
        ),
    };
    format!("--{flag} is for {names}: add {add} to --controllers, or remove the flag")
}

/// What of the command line is this program's.
fn arguments_of(
    program: &Program,
    given: &[Given<'_>],
    chosen: &[&'static Program],
) -> Vec<String> {
    let own: Vec<_> = { given.iter() }
        .filter_map(|flag| match flag.owner {
            Owner::One(of, own) if of.name == program.name => Some((own, flag.value)),
            Owner::One(_, _) | Owner::All(_) | Owner::Split => None,
        })
        .collect();
    let mut arguments = Vec::new();
    for flag in given {
        let Owner::All(common) = flag.owner else {
            continue;
        };
        let Some(name) = own_name(program, common) else {
            continue;
        };
        if flags::is_retired(common) {
            let first = chosen
                .iter()
                .find(|other| own_name(other, common).is_some());
            if first.is_some_and(|first| first.name != program.name) {
                continue;
            }
        }
        // The prefixed form wins wherever it stands.
        let has_own = own.iter().any(|(own, _)| own.name == name);
        if common.name == gates::FLAG {
            let gates = gates::of(program, flag.value, chosen, has_own);
            arguments.extend(gates.map(|gates| format!("--{name}={gates}")));
        } else if !has_own {
            arguments.push(format!("--{name}={}", flag.value));
        }
    }
    arguments.extend(
        own.iter()
            .map(|(flag, value)| format!("--{}={value}", flag.name)),
    );
    arguments
}

/// A flag of a program.
type Known = &'static Flag;
