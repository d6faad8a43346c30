//! Waits for the journal to be opened.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::plan::journal::Journal;
use crate::work::executor::Engine;

/// How long work is delayed for a journal that is not open yet. Usually it is open by the time everything is listed; a
/// process that starts work earlier rejects claims, with an event.
const AT_FIRST: Duration = Duration::from_secs(10);

/// Waits until opening the journal has failed, ten seconds at most. Returns the hindrance to report; `None` if the
/// journal is open by now.
pub async fn not_to_be_opened(engine: &Engine) -> Option<String> {
    let executor = engine.shell();
    let Some(keeper) = &executor.journal else {
        return std::future::pending().await;
    };
    let refused = |journal: &mut Journal| journal.is_refused().then_some(());
    let _ = timeout(AT_FIRST, executor.until(keeper, refused)).await;
    let reason = executor.in_journal(|journal| journal.closed()).flatten()?;
    Some(hindrance(&reason))
}

/// The hindrance of a journal that cannot be written.
pub(super) fn hindrance(reason: &dyn fmt::Display) -> String {
    format!("no volume is created until the provisioning journal can be written: {reason}")
}

/// Continues the calls of earlier processes as soon as the journal is open. Call it when claims and volumes are listed.
pub async fn recover(engine: &Engine) {
    let executor = engine.shell();
    if let Some(keeper) = &executor.journal {
        let open = |journal: &mut Journal| journal.is_open().then_some(());
        executor.until(keeper, open).await;
    }
    let now = Instant::now().into_std();
    engine.turn(|provisioner, informers| ((), provisioner.recover(informers, now)));
    // This is called once.
    let _ = executor.recovered.set(());
}
