//! Attempts on what VolumeAttachments that are gone have left: there is no object, so nothing is
//! recorded but in the log, and a crash forgets it.

use sidecar::controller::reactor::Verdict;

use super::{Attacher, Failed, Informed};
use crate::plan::View;
use crate::plan::fairness;
use crate::plan::flight::Target;
use crate::plan::in_flight::Key;
use crate::plan::orphan::{self, Orphan, Verdict as Owed};
use crate::plan::outcome::Failure;
use crate::plan::request::{self, Call, Called, Reply, Request, Secrets};

/// An attempt to unpublish it.
pub struct Run {
    target: Target,
    secrets: Option<Secrets>,
    over: Option<AttemptEnd>,
}

enum AttemptEnd {
    /// Nothing is left to unpublish, or another VolumeAttachment's detach does it.
    Settled,
    /// Somebody else's end brings it back.
    Waits,
    Failed(Failure),
}

impl Run {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            target: target.clone(),
            secrets: None,
            over: None,
        }
    }

    pub(super) fn answered(&mut self, reply: Reply) {
        match reply {
            Reply::Secret(_, Ok(secrets)) => self.secrets = Some(secrets),
            Reply::Secret(secret, Err(error)) => {
                self.over = Some(AttemptEnd::Failed(Failure::secret(secret, error)));
            }
            Reply::Call(Called::Unpublish(_, result), _) => {
                self.over = Some(match orphan::unpublished(result) {
                    Ok(()) => AttemptEnd::Settled,
                    Err(failure) => AttemptEnd::Failed(failure),
                });
            }
            // It asks for nothing else.
            Reply::Call(Called::Publish(..), _) | Reply::Get(..) | Reply::Write(..) => {}
        }
    }
}

impl Attacher {
    pub(super) fn decide_orphan(
        &mut self,
        run: &mut Run,
        informers: Informed<'_>,
    ) -> Option<Request> {
        if run.over.is_some() {
            return None;
        }
        let Some(orphan) = self.in_flight.orphan(&run.target).cloned() else {
            run.over = Some(AttemptEnd::Settled);
            return None;
        };
        // Before the Secret, and again right before the call: who asks may have changed.
        match verdict(&orphan, informers) {
            Owed::Settled => run.over = Some(AttemptEnd::Settled),
            Owed::Wait => run.over = Some(AttemptEnd::Waits),
            Owed::Unpublish => return self.unpublish(run, &orphan),
        }
        None
    }

    fn unpublish(&mut self, run: &mut Run, orphan: &Orphan) -> Option<Request> {
        let secrets = match (&run.secrets, &orphan.secret) {
            (Some(secrets), _) => secrets,
            (None, None) => &Secrets::new(),
            (None, Some(secret)) => return Some(Request::Secret(secret.clone())),
        };
        let target = &run.target;
        let message = request::unpublish(&target.volume, &target.node, secrets);
        let call = sidecar::controller::Call::new(message, orphan.migrated);
        let request = Request::Call(Call::Unpublish(call));
        let may = self
            .in_flight
            .may_send(&request, Key::Orphan(target.clone()));
        if !may {
            run.over = Some(AttemptEnd::Waits);
        }
        may.then_some(request)
    }

    pub(super) fn end_orphan(&mut self, run: Run) -> Verdict<Failed> {
        match run.over {
            Some(AttemptEnd::Settled) => {
                self.in_flight.settled(&run.target);
                Verdict::Done
            }
            Some(AttemptEnd::Waits) | None => Verdict::Done,
            Some(AttemptEnd::Failed(failure)) => {
                self.in_flight.awaits(&Key::Orphan(run.target), &failure);
                Verdict::Retry {
                    hung: fairness::hung(&failure),
                    failure: Failed::Orphan(failure),
                }
            }
        }
    }
}

fn verdict(orphan: &Orphan, informers: Informed<'_>) -> Owed {
    let driver = informers.driver();
    let looked_up: Vec<_> = informers
        .attachments()
        .into_iter()
        .map(|attachment| {
            let name = attachment.volume.as_deref();
            let volume = name.and_then(|name| informers.volume(name));
            let node = informers.node(&attachment.node);
            (attachment, volume, node)
        })
        .collect();
    orphan.verdict(looked_up.iter().map(|(attachment, volume, node)| View {
        driver: &driver,
        attachment,
        volume: volume.as_deref(),
        node: node.as_deref(),
    }))
}
