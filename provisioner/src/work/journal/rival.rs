//! Waits until another process that works with the journal has ended, where no election decides which one works.

use std::time::Duration;

use sidecar::kube::api::Api;
use tokio::time::{Instant, sleep};

use super::super::api::{LEASES, key};
use super::{Executor, Keeper, read};
use crate::plan::journal::{Found, HEARTBEAT, Rival};

/// Pause between two reads of the journal.
const LOOK: Duration = Duration::from_secs(5);

/// Returns once the process that writes the Lease `name` has stopped writing heartbeats.
pub async fn until_silent(api: &Api, namespace: &str, name: &str) {
    let mut rival = Rival::default();
    loop {
        let found = look(api, namespace, name).await;
        let now = Instant::now().into_std();
        if rival.is_silent(found.as_ref().map(Option::as_ref), now) {
            return;
        }
        sleep(LOOK).await;
    }
}

async fn look(api: &Api, namespace: &str, name: &str) -> Option<Option<Found>> {
    let key = key(Some(namespace), name).ok()?;
    match api.get(&LEASES, &key).await {
        Ok(json) => read(&json).ok().map(Some),
        Err(error) if error.is_not_found() => Some(None),
        Err(_) => None,
    }
}

impl Executor {
    /// Writes heartbeats where there is no election.
    pub(super) async fn send_heartbeats(&self, keeper: &Keeper) -> std::convert::Infallible {
        if keeper.fence.is_some() {
            return std::future::pending().await;
        }
        loop {
            sleep(HEARTBEAT).await;
            self.in_journal(|journal| journal.heartbeat());
            keeper.look();
        }
    }
}
