//! Usage text in the layout of Go's `flag` and of pflag.

use super::dialect::quote;
use super::{Dialect, Flag, Kind, Spec};

/// The text that follows a request for help or a diagnostic.
pub(super) fn usage(spec: &Spec, program: &str) -> String {
    let mut flags: Vec<_> = spec.flags().collect();
    flags.sort_by_key(|flag| flag.name);
    let body = match spec.dialect {
        Dialect::Go => go(&flags),
        Dialect::Pflag => pflag(&flags),
    };
    format!("Usage of {program}:\n{body}")
}

fn go(flags: &[&Flag]) -> String {
    let mut text = String::new();
    for flag in flags {
        let (name, help) = unquote(flag, go_type(flag.kind));
        let mut line = format!("  -{}", flag.name);
        if !name.is_empty() {
            line.push(' ');
            line.push_str(&name);
        }
        // A one-letter boolean leaves room for the help text on its own line.
        line.push_str(if line.len() <= 4 { "\t" } else { "\n    \t" });
        line.push_str(&help.replace('\n', "\n    \t"));
        line.push_str(&default(flag));
        line.push('\n');
        text.push_str(&line);
    }
    text
}

fn pflag(flags: &[&Flag]) -> String {
    let rows: Vec<_> = flags.iter().map(|flag| pflag_row(flag)).collect();
    let widest = rows.iter().map(|(left, _)| left.chars().count()).max();
    let column = widest.unwrap_or_default() + 3;
    let indent = format!("\n{:column$}", "");
    let line = |(left, right): &(String, String)| {
        format!("{left:column$}{}\n", right.replace('\n', &indent))
    };
    rows.iter().map(line).collect()
}

fn pflag_row(flag: &Flag) -> (String, String) {
    let (name, help) = unquote(flag, pflag_type(flag.kind));
    let mut left = if flag.name.len() == 1 {
        format!("  -{0}, --{0}", flag.name)
    } else {
        format!("      --{}", flag.name)
    };
    if !name.is_empty() {
        left.push(' ');
        left.push_str(&name);
    }
    (left, format!("{help}{}", default(flag)))
}

/// Splits the help text into the name of the value, which it has in backquotes, and the text
/// without backquotes.
fn unquote(flag: &Flag, type_name: &str) -> (String, String) {
    let mut parts = flag.help.splitn(3, '`');
    if let (Some(before), Some(name), Some(after)) = (parts.next(), parts.next(), parts.next()) {
        return (name.to_owned(), format!("{before}{name}{after}"));
    }
    (type_name.to_owned(), flag.help.to_owned())
}

fn default(flag: &Flag) -> String {
    let zero = matches!(flag.default, "" | "0" | "0s" | "false");
    match flag.kind {
        _ if zero => String::new(),
        Kind::String => format!(" (default {})", quote(flag.default)),
        Kind::Bool
        | Kind::BoolFunc
        | Kind::Strings
        | Kind::Int
        | Kind::Uint
        | Kind::Float
        | Kind::Duration
        | Kind::Quantity
        | Kind::Verbosity
        | Kind::Vmodule
        | Kind::Pairs
        | Kind::Gates => format!(" (default {})", flag.default),
    }
}

fn go_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool | Kind::BoolFunc => "",
        Kind::String => "string",
        Kind::Int => "int",
        Kind::Uint => "uint",
        Kind::Float => "float",
        Kind::Duration => "duration",
        Kind::Strings
        | Kind::Quantity
        | Kind::Verbosity
        | Kind::Vmodule
        | Kind::Pairs
        | Kind::Gates => "value",
    }
}

fn pflag_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "",
        Kind::BoolFunc => "boolFunc[=true]",
        Kind::String => "string",
        Kind::Strings => "stringArray",
        Kind::Int => "int",
        Kind::Uint => "uint",
        Kind::Float => "float",
        Kind::Duration => "duration",
        Kind::Quantity => "quantity",
        Kind::Verbosity => "Level",
        Kind::Vmodule => "pattern=N,...",
        Kind::Pairs => "key:value,...",
        Kind::Gates => "mapStringBool",
    }
}
