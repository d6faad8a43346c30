//! One lease, from the first attempt to get it until it is lost or given back.

use std::time::Duration;

use sidecar::election::Elector;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// For events that are on their way when the process ends.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// A lease that is sought or held. Without leader election it is held for the asking.
pub(super) struct Held(pub(super) Option<Elector>);

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Somebody else has it, or may have it at any moment.
    Lost,
    /// It was given back, as far as that was possible.
    Released,
}

impl Held {
    /// Waits until the lease is held.
    pub(super) async fn acquire(mut self) -> Self {
        if let Some(elector) = &mut self.0 {
            elector.acquire().await;
        }
        self
    }

    /// Holds the lease until it is lost, or until `asked` for it.
    pub(super) async fn keep(self, asked: oneshot::Receiver<()>) -> End {
        let Some(mut elector) = self.0 else {
            let _ = asked.await;
            return End::Released;
        };
        tokio::select! {
            biased;
            _lost = elector.lead() => return End::Lost,
            _ = asked => {}
        }
        elector.release().await;
        End::Released
    }
}

/// Waits until the events about leases are written, once no more can come.
pub(super) async fn last_events(writers: Vec<JoinHandle<()>>) {
    let written = async {
        for writer in writers {
            let _ = writer.await;
        }
    };
    let _ = timeout(LAST_EVENTS, written).await;
}
