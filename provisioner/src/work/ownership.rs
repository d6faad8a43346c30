//! Node deployment: takes claims that are bound immediately and that no node was selected for.
//!
//! How long to wait, whether there is room and what is written is
//! [`plan::ownership`](crate::plan::ownership)'s. A claim that waits holds no worker: it goes back to
//! the queue for later.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::{CreateVolumeRequest, GetCapacityRequest};
use sidecar::csi::call;
use sidecar::error::Chain;
use sidecar::kube::api;
use sidecar::kube::events::Severity;
use sidecar::queue::Work;
use sidecar::rt::unit_random;
use sidecar::verbose;
use tokio::time::Instant;

use super::api::{CLAIMS, edit, key};
use super::claim::{Over, Run};
use super::provisioner::Provisioner;
use crate::keys::SELECTED_NODE;
use crate::model::{Claim, Pairs};
use crate::plan::claim::{Answer, Attempt, Step};
use crate::plan::memory::{ClaimKey, Start};
use crate::plan::migrated;
use crate::plan::outcome::RpcError;
use crate::plan::ownership::{RoomCheck, Selection, Turn, fits, select};
use crate::plan::settings::NodeDeployment;

/// What the driver would be asked for a claim of ours.
enum Rehearsed {
    /// This.
    Request(Box<CreateVolumeRequest>),
    /// Nothing, there would be no volume.
    Nothing,
    /// It would not come so far.
    Failed,
}

impl Provisioner {
    /// Works on a claim whose node is not settled.
    pub(super) async fn contend(&self, work: Work<ClaimKey>, run: &Run) {
        let Some(own) = &self.settings.node else {
            return work.done();
        };
        let claim = &*run.key.name;
        if !self.fits(&run.claim, own) {
            verbose!(4, claim, "The class does not allow this node");
            self.cluster.contests().end(&run.key);
            return work.done();
        }
        if let Some(wait) = self.turn(&run.key) {
            return work.again_after(wait);
        }
        if !Box::pin(self.has_room(run, own)).await {
            verbose!(2, claim, "Not enough room on this node");
            return work.done();
        }
        match self.take_claim(run, own).await {
            Ok(selection) => {
                self.cluster.contests().end(&run.key);
                if matches!(selection, Selection::Selected | Selection::Already) {
                    tracing::info!(claim, node = &*own.name, "The claim is this node's");
                    self.cluster.wake(&run.key);
                }
                work.done();
            }
            Err(error) if error.is_not_found() => {
                self.cluster.contests().end(&run.key);
                work.done();
            }
            Err(error) if error.is_conflict() => match self.turn(&run.key) {
                Some(wait) => work.again_after(wait),
                None => work.done(),
            },
            Err(error) => {
                let text = format!("could not select node {}: {error}", own.name);
                let reason = "ProvisioningFailed";
                self.news
                    .claim(&run.claim, Severity::Warning, reason, &text);
                let wait = work.retry();
                tracing::error!(claim, retry_after = ?wait, err = %error, "Could not take the claim");
            }
        }
    }

    fn fits(&self, claim: &Claim, own: &NodeDeployment) -> bool {
        let Some(class) = self.cluster.classes.get(claim.class_name()) else {
            return false;
        };
        let driver = self.driver.current();
        let Ok(class) = migrated::class(&class, &driver) else {
            // Whoever takes the claim says why there is no volume.
            return true;
        };
        let topology = self.settings.gates.topology && driver.abilities.topology;
        let places = self.cluster.places();
        let places = topology.then_some(&*places);
        fits(claim, &class, own, &self.settings, places)
    }

    /// How long it is still to wait; `None` if it is time.
    fn turn(&self, key: &ClaimKey) -> Option<Duration> {
        let now = Instant::now().into_std();
        let turn = { self.cluster.contests() }.look(key, self.pace, now, unit_random());
        match turn {
            Turn::Now => None,
            Turn::Wait(wait) => Some(wait),
        }
    }

    /// Whether there is room, as far as the driver knows. If it does not say, there may be, so that
    /// what is wrong comes to light in an event on the claim.
    async fn has_room(&self, run: &Run, own: &NodeDeployment) -> bool {
        let check = match self.rehearse(run, own).await {
            Rehearsed::Nothing => return false,
            Rehearsed::Failed => return true,
            Rehearsed::Request(request) => RoomCheck::new(&request),
        };
        let Some(check) = check else {
            return true;
        };
        for question in &check.questions {
            match self.ask_for_room(question.clone()).await {
                Ok(available) if check.enough(available) => return true,
                Ok(_) => {}
                Err(error) => {
                    let claim = &*run.key.name;
                    verbose!(2, claim, err = %error, "The driver does not say how much room there is");
                    return true;
                }
            }
        }
        false
    }

    async fn ask_for_room(&self, question: GetCapacityRequest) -> Result<i64, RpcError> {
        let channel = self.driver.channel().await?;
        let mut client = ControllerClient::new(channel);
        let answer = call(self.driver.timeout(), question, async |question| {
            client.get_capacity(question).await
        });
        let answer = answer.await.map_err(|status| RpcError::from(&status))?;
        Ok(answer.available_capacity)
    }

    /// Goes through an attempt as if the claim were this node's, without leaving a trace.
    async fn rehearse(&self, run: &Run, own: &NodeDeployment) -> Rehearsed {
        let start = Start {
            doubt: None,
            unsaved: None,
        };
        let mut rehearsal = Run {
            key: run.key.clone(),
            attempt: Attempt::new(start, true),
            claim: Arc::new(as_selected(&run.claim, own)),
            gone: false,
        };
        loop {
            let mut step = self.decide_claim(&rehearsal);
            let answer = match &step {
                Step::Create(_, request) => return Rehearsed::Request(request.clone()),
                Step::Done(_) => return Rehearsed::Nothing,
                Step::Fail(_)
                | Step::Unselect(..)
                | Step::Save(_)
                | Step::LoadNamesake(..)
                | Step::LoadOwner(..)
                | Step::Discard(..) => {
                    return Rehearsed::Failed;
                }
                Step::Announce(_)
                | Step::ProtectSource(_)
                | Step::ReleaseSource(_)
                | Step::Intend(_) => Answer::Done,
                // It is not the room's concern.
                Step::LoadSecret(_) => Answer::Secret(std::collections::BTreeMap::new()),
                Step::LoadSnapshot(..)
                | Step::LoadContent(_)
                | Step::LoadSourceClaim(..)
                | Step::LoadSourceVolume(_)
                | Step::LoadAttributesClass(_) => match self.carry_out(&rehearsal, &mut step).await
                {
                    Ok(answer) => answer,
                    Err(Over::End(_)) => return Rehearsed::Nothing,
                    Err(Over::Failed(_)) => return Rehearsed::Failed,
                },
            };
            if rehearsal.attempt.fold(&step, answer).is_err() {
                return Rehearsed::Failed;
            }
        }
    }

    /// Writes this node on the claim, unless somebody else was faster.
    async fn take_claim(
        &self,
        run: &Run,
        own: &NodeDeployment,
    ) -> Result<Selection, api::ApiError> {
        let key = key(Some(&run.claim.namespace), &run.claim.name)?;
        let write = self.cluster.claims.begin_write(&key);
        let mut selection = Selection::Gone;
        let written = edit(&self.api, &CLAIMS, &key, |object| {
            selection = select(object, &run.claim.uid, &own.name);
            selection == Selection::Selected
        });
        let taken = write.answered(&written.await?);
        taken.map_err(|error| api::ApiError::unreadable(&Chain(&error)))?;
        Ok(selection)
    }
}

/// The claim as it would be if this node were selected.
fn as_selected(claim: &Claim, own: &NodeDeployment) -> Claim {
    let others = claim.annotations.iter();
    let others = others.filter(|(key, _)| *key != SELECTED_NODE);
    let selected = [(SELECTED_NODE, &*own.name)];
    Claim {
        annotations: Pairs::from_iter(others.chain(selected)),
        ..claim.clone()
    }
}
