//! Whether this process serves group snapshots: from the start, or as soon as their kinds appear.

use sidecar::controller::Seat;
use sidecar::flags::Exit;

use crate::args::Config;
use crate::control::Groups;
use crate::work::kinds;

/// Checks the gate and the kinds: group snapshots are served if the gate is on and both kinds exist.
///
/// # Errors
/// They are served, but the prefix of their names is empty.
pub(super) async fn served(seat: &Seat, config: &Config) -> Result<Groups, Exit> {
    let Some(name) = &config.groups else {
        return Ok(Groups::Off);
    };
    if let Err(error) = kinds::are_there(&seat.api(), config.timeout).await {
        // Only the server's message shows that a conversion webhook is missing.
        tracing::warn!(
            err = %error,
            "Group snapshots are off until their custom resources can be listed in version v1"
        );
        // No error was reported about the empty prefix while groups were off, so it must not end the
        // process later.
        return Ok(match name.prefix.is_empty() {
            true => Groups::Off,
            false => Groups::Awaited(name.clone()),
        });
    }
    if name.prefix.is_empty() {
        let line = "group snapshot name prefix cannot be of length 0";
        return Err(Exit::failure(1, line));
    }
    if config.node.is_some() {
        tracing::info!(
            "VolumeGroupSnapshotContents belong to no node: a csi-snapshotter without --node-deployment has to handle them, except for those labelled by hand"
        );
    }
    Ok(Groups::Served(name.clone()))
}
