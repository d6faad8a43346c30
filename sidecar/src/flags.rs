//! Go-compatible command lines.
//!
//! Manifests written for the Go programs start the sidecars, so the same arguments must be accepted
//! and refused, with the same diagnostics and exit codes. One static table per program ([`Spec`])
//! drives the parser, the help text, the documentation and the parity tests. Parsing is pure: it
//! returns the text to print instead of printing it.
//!
//! Layout: `spec` the table, `dialect` argument rewriting, `value` the notation of values, `help`
//! the usage text, `standard` the tables that programs share, `retired` flags that upstream
//! removed.

mod dialect;
mod help;
pub mod retired;
mod spec;
pub mod standard;
mod value;
mod values;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};

pub use retired::Retired;
pub use spec::{Dialect, Flag, Kind, Note, Spec};
pub use value::parse_bool;
pub use values::Values;

pub use crate::rt::Exit;
use dialect::End;
use value::{Reason, Value};

/// Parses a command line; the first argument is the program's name.
///
/// # Errors
/// The text to print and the exit code: 2 after a diagnostic and the usage text on stderr, 0 after
/// a request for help (also on stderr, as in Go).
///
/// ```
/// use sidecar::flags::{self, Dialect, Flag, Kind, Spec, retired};
/// static FLAGS: &[Flag] = &[Flag::new("timeout", Kind::Duration, "15s", "Timeout of a call.")];
/// static SPEC: Spec = Spec { dialect: Dialect::Go, tables: &[FLAGS], retired: &retired::NONE };
/// let values = flags::parse(&SPEC, ["prog", "-timeout=1m30s"]).unwrap();
/// assert_eq!(values.duration("timeout").to_string(), "1m30s");
/// ```
pub fn parse<I, A>(spec: &Spec, argv: I) -> Result<Values, Exit>
where
    I: IntoIterator<Item = A>,
    A: Into<OsString>,
{
    let mut argv = argv.into_iter().map(Into::into);
    let program = argv.next().unwrap_or_default();
    let program = program.to_string_lossy().into_owned();
    let line = dialect::rewrite(spec, argv);
    // Arguments that the dialect refuses come after the rewritten part, so that part is checked
    // first.
    let matches = match command(spec).try_get_matches_from(line.tokens) {
        Ok(matches) => matches,
        Err(error) => return Err(refuse(spec, &program, &diagnose(spec, &error))),
    };
    match line.end {
        End::Done => {
            let mut values = collect(spec, program, &matches);
            values.warn_of(line.warnings);
            Ok(values)
        }
        End::Help => Err(Exit {
            stderr: help::usage(spec, &program),
            ..Exit::with_code(0)
        }),
        End::Refused(diagnostic) => Err(refuse(spec, &program, &diagnostic)),
    }
}

/// Go prints the diagnostic before the usage text, pflag after it.
fn refuse(spec: &Spec, program: &str, diagnostic: &str) -> Exit {
    let usage = help::usage(spec, program);
    let stderr = match spec.dialect {
        Dialect::Go => format!("{diagnostic}\n{usage}"),
        Dialect::Pflag => format!("{usage}{diagnostic}\n"),
    };
    Exit {
        stderr,
        ..Exit::with_code(2)
    }
}

fn command(spec: &Spec) -> Command {
    let args = spec.flags().map(|flag| {
        let kind = flag.kind;
        Arg::new(flag.name)
            .long(flag.name)
            .num_args(1)
            .require_equals(true)
            .allow_hyphen_values(true)
            .action(ArgAction::Append)
            .value_parser(move |text: &str| value::read(kind, text))
    });
    Command::new("")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(args)
}

/// Turns clap's error into the diagnostic of the dialect.
fn diagnose(spec: &Spec, error: &clap::Error) -> String {
    use clap::error::{ContextKind, ContextValue};
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let argument = context(ContextKind::InvalidArg);
    let name = argument.trim_start_matches('-');
    let name = name.split(['=', ' ']).next().unwrap_or_default();
    let Some(flag) = spec.find(name) else {
        return format!("cannot parse the command line: {error}");
    };
    if error.kind() != ErrorKind::ValueValidation {
        return dialect::needs_argument(spec.dialect, flag);
    }
    let text = context(ContextKind::InvalidValue);
    let reason = std::error::Error::source(error).and_then(|e| e.downcast_ref::<Reason>());
    dialect::invalid_value(spec.dialect, flag, &text, reason)
}

fn collect(spec: &Spec, program: String, matches: &ArgMatches) -> Values {
    let mut values = Values::new(program);
    for flag in spec.flags() {
        let given = matches.get_many::<Value>(flag.name).unwrap_or_default();
        values.insert(flag, given.cloned());
    }
    values
}

#[cfg(test)]
mod tests;
