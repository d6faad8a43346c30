//! The program under test, and the form of its flags.

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_livenessprobe");

/// Further flags of every start.
pub(crate) const FIRST: &[&str] = &[];

/// A flag of livenessprobe.
pub(crate) fn flag(flag: &str) -> String {
    flag.to_owned()
}
