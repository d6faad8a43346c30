//! What a controller does when it loses its driver.
//!
//! It ends: its cached capabilities may be stale, and a leader without a driver must make room.

use std::path::Path;

use crate::rt::Exit;

use super::connection::Connection;

/// Where kubelet reads a container's last words.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// Upstream's text; people search for it.
pub const LAST_WORDS: &str = "Lost connection to CSI driver, exiting";

/// Waits until the connection is lost, leaves a note in `termination_log` (usually
/// [`TERMINATION_LOG`]) and says how to end.
pub async fn lost(connection: &Connection, termination_log: &Path) -> Exit {
    connection.lost().await;
    tracing::error!("Lost connection");
    if let Err(error) = leave_note(termination_log) {
        let path = termination_log.display();
        tracing::error!(%error, %path, "Failed to write the termination message");
    }
    Exit::failure(1, LAST_WORDS)
}

fn leave_note(path: &Path) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o644);
    options.open(path)?.write_all(LAST_WORDS.as_bytes())
}
