//! The leases: what is sought, held and given back, and what stands and falls with the head.

use std::sync::Arc;

use futures_util::future::abortable;
use sidecar::controller::lead::{Candidate, Company};
use sidecar::election::Fence;
use sidecar::flags::Exit;
use tokio::sync::oneshot;

use super::lease::{End, Held};
use super::{Event, Shell, Task};
use crate::plan::holder;
use crate::plan::order::Place;
use crate::run::ground::Ground;

impl Shell<'_> {
    pub(super) fn stand_on(&mut self, ground: Ground) {
        let link = Arc::clone(&ground.link);
        self.link = Arc::clone(&link);
        self.following = Box::pin(async move {
            let (lost, exit) = link.lost().await;
            Event::DriverLost(lost, exit)
        });
        self.ground = Some(ground);
    }

    /// What was sent under the head goes with it.
    pub(super) fn leave_ground(&mut self, place: Place) {
        if place == 0 {
            self.ground = None;
            self.following = Box::pin(std::future::pending());
        }
    }

    /// Makes new connections before the head is sought again.
    pub(super) fn prepare(&mut self) {
        let (process, link) = (Arc::clone(self.process), Arc::clone(&self.link));
        let making = async move { Ground::anew(&process, &link).await };
        let (making, handle) = abortable(making);
        if let Some(slot) = self.slot(0) {
            slot.seeking = Some(handle);
        }
        self.leases.push(Box::pin(async move {
            match making.await {
                Ok(Ok(ground)) => Event::Prepared(ground),
                Ok(Err(exit)) => Event::Unprepared(exit),
                Err(_aborted) => Event::Gone,
            }
        }));
    }

    pub(super) fn campaign(&mut self, place: Place) {
        let fence = match (&self.ground, &self.election) {
            (Some(ground), _) if place == 0 => ground.tenure.fence.clone(),
            (_, Some(_)) => Fence::closed(),
            (_, None) => Fence::default(),
        };
        let held = match self.elector(place, &fence) {
            Ok(held) => held,
            Err(exit) => return self.end_with(exit),
        };
        let (seeking, handle) = abortable(held.acquire());
        if let Some(slot) = self.slot(place) {
            slot.fence = fence;
            slot.seeking = Some(handle);
        }
        self.leases.push(Box::pin(async move {
            match seeking.await {
                Ok(held) => Event::Acquired(place, Box::new(held)),
                Err(_aborted) => Event::Gone,
            }
        }));
    }

    pub(super) fn elector(&mut self, place: Place, fence: &Fence) -> Result<Held, Exit> {
        let head = self.name(0);
        let (Some(member), Some((election, client))) = (self.members.get(place), &self.election)
        else {
            return Ok(Held(None));
        };
        let company = Company {
            identity: holder::identity,
            head,
            succeeds: (place > 0).then(|| holder::mark(head)),
        };
        let candidate = Candidate {
            owner: member.controller.program().owner,
            driver: self.link.name(),
            election,
            metrics: &self.process.election,
            health: &self.process.health,
            fence,
            company: Some(&company),
        };
        let (elector, writer) = candidate.elector(client.clone())?;
        self.writers.retain(|writer| !writer.is_finished());
        self.writers.push(writer);
        Ok(Held(Some(elector)))
    }

    /// Holds a lease that was acquired.
    pub(super) fn hold(&mut self, place: Place, held: Held) -> Task {
        let (give_back, asked) = oneshot::channel();
        if let Some(slot) = self.slot(place) {
            slot.seeking = None;
            slot.give_back = Some(give_back);
        }
        Box::pin(async move {
            match held.keep(asked).await {
                End::Lost => Event::Lost(place),
                End::Released => Event::Released(place),
            }
        })
    }
}
