//! Which program is under test, and how flags are written for it.

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_csi-node-driver-registrar");

/// What every start needs besides.
pub(crate) const FIRST: &[&str] = &[];

/// A flag of csi-node-driver-registrar.
pub(crate) fn flag(flag: &str) -> String {
    flag.to_owned()
}
