//! The leases: how the shell requests, holds and releases one.

use std::time::Duration;

use futures_util::future::abortable;
use sidecar::election::{Elector, Fence};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Event, Shell};
use crate::plan::order::Place;
use crate::run::members::Controllers;

/// Time for events that are still being sent when the process ends.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// A lease that is requested or held. Without leader election it is acquired at once.
pub(super) struct Held(Option<Box<Elector>>);

impl Held {
    /// Waits until the lease is held.
    async fn acquire(mut self) -> Self {
        if let Some(elector) = &mut self.0 {
            elector.acquire().await;
        }
        self
    }

    /// Holds the lease until it is lost, or until `asked` for its release and released as far as
    /// possible.
    async fn keep(self, asked: oneshot::Receiver<()>) {
        let Some(mut elector) = self.0 else {
            let _ = asked.await;
            return;
        };
        tokio::select! {
            biased;
            _lost = elector.lead() => {}
            _ = asked => elector.release().await,
        }
    }
}

impl<C: Controllers> Shell<'_, C> {
    pub(super) fn campaign(&mut self, place: Place) {
        let fence = match place {
            0 => self.controllers.fence(),
            // Stays open without leader election, where there is no lease.
            _ => Fence::default(),
        };
        let elector = match self.controllers.elector(place, &fence) {
            Ok(None) => None,
            Ok(Some((elector, writer))) => {
                if place > 0 {
                    fence.close();
                }
                self.lasting.writers.retain(|writer| !writer.is_finished());
                self.lasting.writers.push(writer);
                Some(Box::new(elector))
            }
            Err(exit) => return self.end_with(exit),
        };
        let (seeking, handle) = abortable(Held(elector).acquire());
        if let Some(slot) = self.slot(place) {
            slot.fence = fence;
            slot.seeking = Some(handle);
        }
        self.leases.push(Box::pin(async move {
            match seeking.await {
                Ok(held) => Event::Acquired(place, held),
                Err(_aborted) => Event::Abandoned,
            }
        }));
    }

    /// Holds an acquired lease.
    pub(super) fn hold(&mut self, place: Place, held: Held) {
        let (give_back, asked) = oneshot::channel();
        if let Some(slot) = self.slot(place) {
            slot.seeking = None;
            slot.give_back = Some(give_back);
        }
        self.leases.push(Box::pin(async move {
            held.keep(asked).await;
            Event::Gone(place)
        }));
    }
}

/// Waits until the events about leases are written, once no new ones can come.
pub(super) async fn last_events(writers: Vec<JoinHandle<()>>) {
    let written = async {
        for writer in writers {
            let _ = writer.await;
        }
    };
    let _ = timeout(LAST_EVENTS, written).await;
}
