//! Attempts on PersistentVolumes.

use std::sync::Arc;
use std::time::Instant;

use sidecar::controller::reactor::Verdict;
use sidecar::controller::request::SecretError;

use super::{Failed, Informed, Notice, Provisioner, Step, Wakes, retry};
use crate::model::{Text, Volume};
use crate::plan::delete::{self, Attempt, Failure, Refresh, View, uid};
use crate::plan::request::{Called, Found, Reply};

/// An attempt on a PersistentVolume.
pub struct Run {
    name: Text,
    /// `None` if there is nothing to do.
    open: Option<Open>,
}

/// An open attempt with the newest state of its object.
struct Open {
    attempt: Attempt,
    current: Arc<Volume>,
    /// The driver has deleted the volume during this attempt.
    deleted: bool,
    /// The volume belongs to another node.
    elsewhere: bool,
    started: Instant,
    over: Option<Result<(), Failure>>,
}

impl Provisioner {
    pub(super) fn begin_volume(&self, name: &Text, informers: Informed<'_>, now: Instant) -> Run {
        // The cache may still have an object that this process has removed.
        let behind = |current: &Arc<Volume>| {
            uid(current).is_some_and(|uid| self.in_flight.has_removed(name, uid))
        };
        let current = informers.volume(name).filter(|current| !behind(current));
        Run {
            name: name.clone(),
            open: current.map(|current| Open {
                attempt: Attempt::new(name, &current),
                current,
                deleted: false,
                elsewhere: false,
                started: now,
                over: None,
            }),
        }
    }

    pub(super) fn decide_volume(&self, run: &mut Run, informers: Informed<'_>) -> Option<Step> {
        let Run { name, open } = run;
        let open = open.as_mut().filter(|open| open.over.is_none())?;
        let cached = informers.volume(name);
        match (
            open.attempt.refresh(&open.current, cached.as_deref()),
            cached,
        ) {
            (Refresh::Take, Some(cached)) => open.current = cached,
            (Refresh::Gone, _) => {
                open.over = Some(Ok(()));
                return None;
            }
            (Refresh::Keep, _) | (Refresh::Take, None) => {}
        }
        open.over = Some(match self.look_and_decide(name, open, informers) {
            delete::Step::Ask(request) => return Some(Step::Ask(request)),
            delete::Step::Done => Ok(()),
            delete::Step::Ignored => {
                open.elsewhere = true;
                Ok(())
            }
            delete::Step::Fail(failure) => Err(failure),
        });
        None
    }

    fn look_and_decide(&self, name: &Text, open: &Open, informers: Informed<'_>) -> delete::Step {
        let class = informers.class(class(&open.current));
        // In this order: otherwise a list that ends in between would hide missed attachments from both.
        let attachments_missed = informers.misses_attachments();
        let attached_to = self.attached.node_of(name);
        open.attempt.decide(&View {
            driver: &informers.driver(),
            volume: &open.current,
            class: class.as_deref(),
            attached_to,
            attachments_missed,
            node: self.node.as_ref(),
        })
    }

    pub(super) fn end_volume(
        &mut self,
        run: Run,
        informers: Informed<'_>,
        now: Instant,
        due: &mut Wakes,
    ) -> Verdict<Failed> {
        let Run { name, open } = run;
        let Some(open) = open else {
            return Verdict::Done;
        };
        let current = Arc::clone(&open.current);
        match open.over {
            None | Some(Ok(())) => {
                if open.elsewhere {
                    due.notices.push(Notice::OfAnotherNode(name.clone()));
                }
                if open.deleted {
                    self.note_removed(&name, &current, informers);
                    let took = now.saturating_duration_since(open.started);
                    due.notices.push(Notice::Deleted(name, current, took));
                }
                if open.attempt.is_to_follow(&open.current) {
                    retry(Failed::Follows)
                } else {
                    Verdict::Done
                }
            }
            Some(Err(failure)) => {
                if failure.is_counted() {
                    due.notices.push(Notice::NotDeleted(Arc::clone(&current)));
                }
                if failure.is_event() {
                    let failed = Notice::VolumeStays(name.clone(), current, failure.clone());
                    due.notices.push(failed);
                }
                if matches!(failure, Failure::AttachmentsMissed) {
                    self.attached.wait(&name);
                    if !informers.misses_attachments() {
                        self.attachments_known(informers, due);
                    }
                }
                retry(Failed::Volume(failure))
            }
        }
    }

    fn note_removed(&mut self, name: &Text, current: &Volume, informers: Informed<'_>) {
        let Some(uid) = uid(current) else { return };
        self.in_flight.removed(name, uid);
        // The watch may have been faster.
        if informers.volume(name).is_none() {
            self.in_flight.volume_gone(name);
        }
    }
}

impl Run {
    pub(super) fn answered(&mut self, reply: Reply, due: &mut Wakes) {
        let Some(open) = &mut self.open else { return };
        match &reply {
            Reply::Write(_, Ok(Found::Volume(found))) => open.current = Arc::clone(found),
            Reply::Secret(_, Err(SecretError::Unread(error))) => {
                let notice = Notice::SecretUnread(self.name.clone(), error.clone());
                due.notices.push(notice);
            }
            Reply::Call(Called::Delete(_, result), _) => open.deleted |= result.is_ok(),
            Reply::Get(..)
            | Reply::Write(..)
            | Reply::Secret(..)
            | Reply::Call(..)
            | Reply::Event(_) => {}
        }
        if let Err(failure) = open.attempt.answered(reply) {
            open.over = Some(Err(failure));
        }
    }
}

fn class(volume: &Volume) -> &str {
    match volume {
        Volume::Deletable(detail) => &detail.class,
        Volume::NameOnly | Volume::Finalizer(..) => "",
    }
}
