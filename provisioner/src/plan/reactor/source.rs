//! Removes finalizers from data sources that no claim needs any more.

use std::sync::Arc;

use sidecar::controller::reactor::Verdict;

use super::{Failed, Informed, Notice, Provisioner, Step, Wakes, retry};
use crate::model::{Claim, Snapshot, Text};
use crate::plan::edit;
use crate::plan::protection::{self, Release};
use crate::plan::request::Reply;
use crate::plan::select;

/// An attempt on a claim that was cloned and is being deleted.
pub struct Run {
    name: Text,
    over: Option<Result<(), String>>,
}

impl Run {
    pub(super) fn new(name: &Text) -> Self {
        Self {
            name: name.clone(),
            over: None,
        }
    }

    pub(super) fn answered(&mut self, reply: Reply, due: &mut Wakes) {
        self.over = Some(match reply {
            Reply::Write(_, Err(error)) if !error.is_not_found() => Err(error.to_string()),
            Reply::Write(_, result) => {
                let released = result.map(|_| Notice::Released(self.name.clone()));
                due.notices.extend(released);
                Ok(())
            }
            // An attempt on a source sends no other requests.
            Reply::Get(..) | Reply::Secret(..) | Reply::Call(..) | Reply::Event(_) => Ok(()),
        });
    }

    pub(super) fn end(self) -> Verdict<Failed> {
        match self.over {
            None | Some(Ok(())) => Verdict::Done,
            Some(Err(text)) => retry(Failed::Source(text)),
        }
    }
}

impl Provisioner {
    pub(super) fn decide_source(&self, run: &mut Run, informers: Informed<'_>) -> Option<Step> {
        if run.over.is_some() {
            return None;
        }
        let source = informers.claim(&run.name)?;
        if let Some(reason) = self.unrecovered()
            && protection::is_ending_source(&source)
        {
            // A call that clones it for a deleted claim may be under way.
            run.over = Some(Err(format!("the provisioning journal: {reason}")));
            return None;
        }
        match self.release(&source, informers) {
            Release::None => None,
            Release::Needed { by } => {
                let text = format!("the claim {by} is still being cloned from it");
                run.over = Some(Err(text));
                None
            }
            Release::Due => Some(Step::Ask(edit::release_claim(&source))),
        }
    }

    fn release(&self, source: &Claim, informers: Informed<'_>) -> Release {
        let mut clones = Vec::new();
        informers.for_each_claim(&mut |claim| {
            if protection::clone_source(claim).is_some() {
                clones.push(Arc::clone(claim));
            }
        });
        let clones = clones.iter().map(|claim| &**claim);
        let driver = informers.driver();
        let is_ours = |claim: &Claim| select::is_ours_alone(claim, &driver, &self.settings);
        protection::release(source, clones, is_ours, self.in_flight.busy_claims())
    }

    /// Those of `snapshots` whose finalizer no claim needs any more. Only valid once everything is listed and the
    /// journal is read.
    #[must_use]
    pub fn orphans<'a>(
        &self,
        snapshots: &'a [Arc<Snapshot>],
        informers: Informed<'_>,
    ) -> Vec<&'a Snapshot> {
        let mut claims: Vec<Arc<Claim>> = Vec::new();
        informers.for_each_claim(&mut |claim| claims.push(Arc::clone(claim)));
        let known = claims.iter().map(|claim| &**claim);
        let known = known.chain(self.in_flight.busy_claims());
        let restored = protection::restored(known, |claim| self.has_volume(claim, informers));
        let all = snapshots.iter().map(|snapshot| &**snapshot);
        protection::orphans(all, &restored).collect()
    }
}
