//! Attempts on what VolumeAttachments that are gone have left: there is no object, so nothing is
//! recorded but in the log, and a crash forgets it.

use sidecar::controller::reactor::Verdict;

use super::{Attacher, Failed, Informed, Step, Wakes};
use crate::plan::View;
use crate::plan::attachment::Answer;
use crate::plan::fairness;
use crate::plan::flight::Target;
use crate::plan::in_flight::Key;
use crate::plan::orphan::{self, Orphan, Verdict as Owed};
use crate::plan::outcome::Failure;
use crate::plan::request::{self, Secrets};

/// An attempt to unpublish it.
pub struct Run {
    target: Target,
    /// What is unpublished, once that was looked up.
    orphan: Option<Orphan>,
    secrets: Option<Secrets>,
    /// Whether the call is under way.
    calling: bool,
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
            orphan: None,
            secrets: None,
            calling: false,
            over: None,
        }
    }
}

impl Attacher {
    pub(super) fn decide_orphan(&mut self, run: &mut Run, informers: Informed<'_>) -> Option<Step> {
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
            Owed::Unpublish => return self.unpublish(run, orphan),
        }
        None
    }

    fn unpublish(&mut self, run: &mut Run, orphan: Orphan) -> Option<Step> {
        let secrets = match (&run.secrets, &orphan.secret) {
            (Some(secrets), _) => secrets.clone(),
            (None, None) => Secrets::new(),
            (None, Some(reference)) => {
                let step = Step::LoadSecret(reference.clone());
                run.orphan = Some(orphan);
                return Some(step);
            }
        };
        let (target, key) = (&run.target, Key::Orphan(run.target.clone()));
        if !self.in_flight.calls.begin(target, key) {
            run.over = Some(AttemptEnd::Waits);
            return None;
        }
        run.calling = true;
        let request = request::unpublish(&target.volume, &target.node, &secrets);
        Some(Step::Unpublish(Box::new(request), orphan.migrated))
    }

    pub(super) fn orphan_answered(
        &mut self,
        run: &mut Run,
        answer: Answer,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        if std::mem::take(&mut run.calling) {
            run.over = Some(match orphan::heard(answer) {
                Ok(()) => AttemptEnd::Settled,
                Err(failure) => AttemptEnd::Failed(failure),
            });
            let waiting = self.in_flight.calls.end(&run.target);
            self.wake_all(waiting, informers, due);
        } else if let Some(orphan) = run.orphan.take() {
            match orphan::secrets(&orphan, answer) {
                Ok(secrets) => run.secrets = Some(secrets),
                Err(failure) => run.over = Some(AttemptEnd::Failed(failure)),
            }
        }
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
