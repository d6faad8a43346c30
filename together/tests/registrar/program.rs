//! Which program is under test, and how flags of csi-node-driver-registrar are written for it.

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_csi-node-sidecars");

/// What every start needs besides.
pub(crate) const FIRST: &[&str] = &["--controllers=node-driver-registrar"];

/// Listeners of its own have its name in front.
pub(crate) fn flag(flag: &str) -> String {
    for own in ["--http-endpoint", "--health-port"] {
        if let Some(rest) = flag.strip_prefix(own) {
            return format!(
                "--node-driver-registrar-{}{rest}",
                own.trim_start_matches('-')
            );
        }
    }
    flag.to_owned()
}
