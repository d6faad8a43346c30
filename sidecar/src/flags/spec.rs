//! The table of a program's flags.
//!
//! A table and not a struct with attributes: help, documentation and the parity test walk over it.

use super::Retired;

/// The Go package whose rules a command line follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The standard library's `flag`: every sidecar but the provisioner.
    Go,
    /// `github.com/spf13/pflag`: the provisioner.
    Pflag,
}

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false` in Go's spellings, without value `true`; [`super::Values::bool`].
    Bool,
    /// A boolean that also takes an empty value as `true`; [`super::Values::bool`].
    BoolFunc,
    /// Any text; [`super::Values::string`].
    String,
    /// Any text, each occurrence adds one; [`super::Values::strings`].
    Strings,
    /// 64-bit integer in Go's literal syntax; [`super::Values::int`].
    Int,
    /// Unsigned 64-bit integer in Go's literal syntax; [`super::Values::uint`].
    Uint,
    /// Floating point number; [`super::Values::float`].
    Float,
    /// Go duration; [`super::Values::duration`].
    Duration,
    /// Kubernetes quantity, as a number of bytes rounded up; [`super::Values::int`].
    Quantity,
    /// Log verbosity, `0` to `2^31-1` in decimal; [`super::Values::uint`].
    Verbosity,
    /// `pattern=N,…`; [`super::Values::levels`].
    Vmodule,
    /// `key:value,…`, accumulating; [`super::Values::pairs`].
    Pairs,
    /// `Name=bool,…`, accumulating; [`super::Values::gates`].
    Gates,
}

impl Kind {
    /// Repeated flags add up their values instead of replacing them.
    pub const fn accumulates(self) -> bool {
        matches!(self, Self::Strings | Self::Pairs | Self::Gates)
    }

    /// The flag may stand alone; a value needs `=`.
    pub const fn is_boolean(self) -> bool {
        matches!(self, Self::Bool | Self::BoolFunc)
    }
}

/// A property of a flag beyond its help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Nothing special.
    None,
    /// Still works; the text names the replacement.
    Deprecated(&'static str),
    /// Upstream removed it: accepted with any value, without effect, with a warning. The help text
    /// is a hint for that warning.
    Retired,
    /// As `Retired`, but its value goes to the flag that replaced it.
    Renamed(&'static str),
}

/// One flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name without dashes.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Default in the notation of `kind`; empty means the zero value.
    pub default: &'static str,
    /// Help text; a word in backquotes names the value.
    pub help: &'static str,
    /// Deprecation or removal.
    pub note: Note,
}

impl Flag {
    /// A flag without a note.
    pub const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            default,
            help,
            note: Note::None,
        }
    }

    /// The same flag with a note.
    pub const fn noted(self, note: Note) -> Self {
        Self { note, ..self }
    }
}

/// A program's command line.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The Go package whose rules apply.
    pub dialect: Dialect,
    /// The program's flags: its own table and the shared ones. Names are unique over all tables.
    pub tables: &'static [&'static [Flag]],
    /// Flags of earlier releases, which the help text omits.
    pub retired: &'static Retired,
}

impl Spec {
    /// All flags in table order.
    pub fn flags(&self) -> impl Iterator<Item = &'static Flag> + use<> {
        self.tables.iter().copied().flatten()
    }

    /// The flag called `name`.
    pub fn find(&self, name: &str) -> Option<&'static Flag> {
        self.flags().find(|flag| flag.name == name)
    }

    /// The flag called `name`, including removed ones.
    pub fn find_any(&self, name: &str) -> Option<&'static Flag> {
        let retired = || self.retired.find(name).map(|(flag, _)| flag);
        self.find(name).or_else(retired)
    }

    /// The existing flag that a user who wrote the unknown `name` may have meant.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        super::dialect::nearest(self, name)
    }

    /// Name, kind and default of each flag, by name; a test of each program compares them with
    /// upstream's.
    pub fn table(&self) -> Vec<(&'static str, Kind, &'static str)> {
        let flags = self.flags();
        let mut table: Vec<_> = flags
            .map(|flag| (flag.name, flag.kind, flag.default))
            .collect();
        table.sort_by_key(|(name, _, _)| *name);
        table
    }

    /// Flags that a document does not mention, as `--name` in backquotes; a test of each program
    /// keeps the comparison with upstream complete this way.
    pub fn missing_from(&self, document: &str) -> Vec<&'static str> {
        let mentioned = |name: &str| document.contains(&format!("`--{name}`"));
        let flags = self.flags().filter(|flag| !mentioned(flag.name));
        flags.map(|flag| flag.name).collect()
    }
}
