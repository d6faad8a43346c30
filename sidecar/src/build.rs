//! Version, revision and platform of this build. `--version`, the first log line, the `User-Agent` and
//! `csi_sidecar_build_info` show the same version.

use prometheus::{IntGauge, Opts};

use crate::metrics::{RegisterError, Registry};

/// The version, as `make build` and the images have it: `vX.Y.Z`, or `vX.Y.Z-N-gCOMMIT` between
/// releases. `unknown` if cargo was called without make.
pub const VERSION: &str = or_unknown(option_env!("CSI_SIDECARS_VERSION"));

/// The commit that the program was built from.
pub const REVISION: &str = or_unknown(option_env!("CSI_SIDECARS_REVISION"));

/// The platform that the program was built for, as rustc spells it.
const TARGET: &str = env!("SIDECAR_TARGET");

/// The version of the compiler.
pub const RUSTC: &str = env!("SIDECAR_RUSTC");

const fn or_unknown(text: Option<&'static str>) -> &'static str {
    match text {
        Some(text) if !text.is_empty() => text,
        Some(_) | None => "unknown",
    }
}

/// Writes the first log line of `program`, once its command line is parsed.
pub fn announce(program: &str) {
    tracing::info!(program, version = VERSION, revision = REVISION, "Version");
}

/// Registers `csi_sidecar_build_info` for `program`, which behaves as upstream's `replaces`, such as `csi-provisioner
/// v6.4.0`; empty if upstream has no such program.
///
/// # Errors
/// The registry already has this metric.
pub fn register(registry: &Registry, program: &str, replaces: &str) -> Result<(), RegisterError> {
    let name = "csi_sidecar_build_info";
    let help = "[ALPHA] The build of this program, and the upstream program that it behaves as.";
    let info = Opts::new(name, help)
        .const_label("program", program)
        .const_label("version", VERSION)
        .const_label("revision", REVISION)
        .const_label("target", TARGET)
        .const_label("rustc", RUSTC)
        .const_label("replaces", replaces);
    let info = IntGauge::with_opts(info)?;
    info.set(1);
    registry.register(Box::new(info))
}
