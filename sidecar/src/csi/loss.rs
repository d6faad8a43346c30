//! Consequences of losing the connection to the driver.
//!
//! A controller exits: its cached capabilities may be stale, and a leader without a driver must make room. A driver
//! that closes a connection gracefully and accepts the next one at once does not count as lost.

use std::path::Path;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::connection::{Connection, Losses};
use crate::rt::Exit;
use crate::verbose;

/// The file from which kubelet reads a container's termination message.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// Upstream's message; people search for it.
pub const LAST_WORDS: &str = "Lost connection to CSI driver, exiting";

/// Pause between two calls to a driver that does not answer.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for a response over the next connection: a driver that needs longer counts as lost.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Returns the driver's response to `asking` if it closed the last connection gracefully and answers at once;
/// `None` if there was a loss that must be reported. Drivers close idle or old connections every few minutes.
pub async fn back_at_once<T, E>(
    losses: &Losses,
    asking: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    if !losses.in_order() {
        return None;
    }
    let answer = timeout(AT_ONCE, asking).await.ok()?.ok()?;
    verbose!(
        4,
        "The driver closed the connection gracefully and accepted a new one"
    );
    Some(answer)
}

/// Calls once a second until there is a response, and logs the reason of a failure each time it changes.
pub async fn until_answered<T>(ask: impl AsyncFn() -> Result<T, String>) -> T {
    let mut last = String::new();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(reason) if reason == last => {}
            Err(reason) => {
                tracing::warn!(reason, "The CSI driver does not answer yet");
                last = reason;
            }
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Waits until the connection is lost, writes a message to `termination_log` (usually [`TERMINATION_LOG`]) and
/// returns how to exit.
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
