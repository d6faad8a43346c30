//! Splits the command line into one for each controller.
//!
//! This module only determines which program each flag belongs to. Each program parses and validates its
//! own flags, so that no check, default or message is duplicated.

mod flags;
mod gates;

use std::collections::BTreeSet;

use sidecar::flags::{Exit, Flag, Spec};
use sidecar::gates::{Gate, Retired};

pub use flags::name_in_process;
use flags::{Given, Owner, own_name};

/// A controller or program that a process can contain.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name in `--controllers` and in prefixes of flags.
    pub name: &'static str,
    /// Other names that `--controllers` accepts.
    pub others: &'static [&'static str],
    /// Its flags.
    pub spec: &'static Spec,
    /// The feature gates that the program defines.
    pub gates: &'static [Gate],
    /// Gates that it accepts without effect.
    pub ignored_gates: &'static [&'static [Gate]],
    /// Gates that earlier releases defined.
    pub retired_gates: &'static Retired,
    /// Whether it belongs on nodes, so that `*` does not include it.
    pub is_for_nodes: bool,
    /// Whether it has its own HTTP server besides that of the process.
    pub has_own_listener: bool,
}

impl Program {
    /// Name of the pseudo-program for the process's own flags, where no controller defines them. It is
    /// always included and cannot be listed in `--controllers`.
    pub const PROCESS: &str = "process";

    pub(crate) fn is_process(&self) -> bool {
        self.name == Self::PROCESS
    }

    /// Whether `--controllers` can refer to it by `name`.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        !self.is_process() && (self.name == name || self.others.contains(&name))
    }
}

/// The request on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// `--version`
    Version,
    /// `--help`, with the text to print.
    Help(String),
    /// Run these programs, each with its own command line.
    Run(Vec<Part>),
}

/// The command line of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `Program::name`.
    pub name: &'static str,
    /// Whether `--controllers` lists it by name, and not only through `*`.
    pub is_named: bool,
    /// Its flags, as the program itself spells them.
    pub arguments: Vec<String>,
}

/// Splits the arguments into a command line for each of the `programs` selected by `--controllers`, in
/// the order of `programs`.
///
/// # Errors
/// Exit code 2, with a message that names the flag or controller and the fix.
pub fn split<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
    programs: &'static [Program],
) -> Result<Line, Exit> {
    split_as("csi-sidecars", arguments, programs)
}

/// Like [`split`], for the binary called `file`.
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

/// The value of `--controllers`, found before the owners of the other flags are known.
pub fn list_of<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut list = None;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        // Values of other flags may be separate arguments with any text.
        if let Ok(("controllers", value)) = flags::name_and_value(argument) {
            list = value.or_else(|| arguments.next());
        }
    }
    list
}

/// The programs that `--controllers` selects, and those of them that it names.
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

/// Rejects a flag of a program that does not run in this process.
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

/// The program's part of the command line.
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
        // The prefixed form wins, regardless of its position.
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
