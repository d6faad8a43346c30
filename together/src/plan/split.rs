//! The one command line, cut into one for each controller.
//!
//! Nothing is read or checked here but whose a flag is: each program does that itself, with its own table
//! and its own words. So no check, default or message is there twice.

mod flags;
mod gates;

use std::collections::BTreeSet;

use sidecar::flags::{Exit, Flag, Spec};
use sidecar::gates::Gate;

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
    /// It belongs to nodes, and is not meant by `*`.
    pub is_for_nodes: bool,
    /// Its HTTP server is one of its own, beside that of all.
    pub has_own_listener: bool,
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
    cut(arguments, programs).map_err(|problem| Exit {
        stderr: format!("csi-sidecars: {problem}\n"),
        ..Exit::with_code(2)
    })
}

fn cut<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
    programs: &'static [Program],
) -> Result<Line, String> {
    let mut given = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match flags::name_and_value(argument)? {
            ("help" | "h", None) => return Ok(Line::Help(flags::help(programs))),
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
    let chosen = chosen(&given, programs)?;
    for flag in &given {
        must_be_of(flag, &chosen, programs)?;
    }
    let part = |program: &&'static Program| Part {
        name: program.name,
        arguments: arguments_of(program, &given, &chosen),
    };
    Ok(Line::Run(chosen.iter().map(part).collect()))
}

/// The programs that `--controllers` names.
fn chosen(
    given: &[Given<'_>],
    programs: &'static [Program],
) -> Result<Vec<&'static Program>, String> {
    let lists = given.iter().filter(|flag| flag.owner == Owner::Split);
    let Some(list) = lists.map(|flag| flag.value).next_back() else {
        let names = names(programs);
        return Err(format!("--controllers is missing: name some of {names}"));
    };
    let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
    for name in list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        if name == "*" {
            let pod = programs.iter().filter(|program| !program.is_for_nodes);
            with.extend(pod.map(|program| program.name));
            continue;
        }
        let (set, named) = match name.strip_prefix('-') {
            Some(name) => (&mut without, name),
            None => (&mut with, name),
        };
        let is_named =
            |program: &&Program| program.name == named || program.others.contains(&named);
        let Some(program) = programs.iter().find(is_named) else {
            let names = names(programs);
            return Err(format!(
                "--controllers={list}: there is no controller {named:?}, there are {names}"
            ));
        };
        set.insert(program.name);
    }
    let is_chosen =
        |program: &&Program| with.contains(program.name) && !without.contains(program.name);
    let chosen: Vec<_> = programs.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let names = names(programs);
        return Err(format!(
            "--controllers={list} names no controller: name some of {names}"
        ));
    }
    Ok(chosen)
}

fn names(programs: &[Program]) -> String {
    let names: Vec<_> = programs.iter().map(|program| program.name).collect();
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
        // The prefixed form wins wherever it stands.
        if own.iter().any(|(own, _)| own.name == name) {
            continue;
        }
        if common.name == gates::FLAG {
            let gates = gates::of(program, flag.value, chosen);
            arguments.extend(gates.map(|gates| format!("--{name}={gates}")));
        } else {
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
