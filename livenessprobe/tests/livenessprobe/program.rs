//! Which program is under test, and how flags are written for it.

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_livenessprobe");

/// What every start needs besides.
pub(crate) const FIRST: &[&str] = &[];

/// A flag of livenessprobe.
pub(crate) fn flag(flag: &str) -> String {
    flag.to_owned()
}
