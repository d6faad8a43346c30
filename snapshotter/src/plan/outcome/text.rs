//! The texts of failures: those that users of upstream's program match, and the reason behind them.

use std::fmt;

use sidecar::log::quote;

use super::{ApiError, Failure, Problem, Task};
use crate::model::{SecretRef, Text};
use crate::plan::step::Write;

impl Failure {
    fn create(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = &self.content;
        match &self.problem {
            Problem::NoClassNamed
            | Problem::NoClass(_)
            | Problem::Unclear(_)
            | Problem::Unnamed
            | Problem::Secret(..)
            | Problem::SecretNotText(..) => {
                let cause = quote(&Cause(self).to_string());
                write!(
                    out,
                    "failed to get input parameters to create snapshot for content {content}: {cause}"
                )
            }
            Problem::ReservedKey(_) => write!(
                out,
                "failed to remove CSI Parameters of prefixed keys: {}",
                Cause(self)
            ),
            Problem::Unbound
            | Problem::Call(_)
            | Problem::Away(_)
            | Problem::NoId
            | Problem::NotFound(_) => {
                let volume = self.volume.as_deref().unwrap_or_default();
                let cause = quote(&Cause(self).to_string());
                write!(
                    out,
                    "failed to take snapshot of the volume {volume}: {cause}"
                )
            }
            Problem::Write(..) | Problem::Status(_) | Problem::Read(_) => {
                write!(out, "{}", Cause(self))
            }
        }
    }

    fn check(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (content, cause) = (&self.content, Cause(self));
        match &self.problem {
            Problem::NoClass(class) => {
                write!(
                    out,
                    "failed to get snapshot class {class} for snapshot content {content}: {cause}"
                )
            }
            Problem::Unclear(_) => {
                write!(
                    out,
                    "failed to get secret reference for snapshot content {content}: {cause}"
                )
            }
            Problem::Secret(_, _, true) | Problem::SecretNotText(_, true) | Problem::Unnamed => {
                write!(
                    out,
                    "failed to get credentials from annotation for snapshot content {content}: {cause}"
                )
            }
            Problem::Secret(_, _, false) | Problem::SecretNotText(_, false) => {
                write!(
                    out,
                    "failed to get credentials for snapshot content {content}: {cause}"
                )
            }
            Problem::Call(_) | Problem::Away(_) | Problem::NoId | Problem::NotFound(_) => {
                let cause = quote(&cause.to_string());
                write!(
                    out,
                    "failed to list snapshot for content {content}: {cause}"
                )
            }
            Problem::NoClassNamed
            | Problem::ReservedKey(_)
            | Problem::Unbound
            | Problem::Write(..)
            | Problem::Status(_)
            | Problem::Read(_) => write!(out, "{cause}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Task::Create => self.create(out),
            Task::Check => self.check(out),
            Task::Delete => write!(out, "{}", Cause(self)),
        }
    }
}

/// The problem alone, without what it was in the way of.
struct Cause<'a>(&'a Failure);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure {
            content, problem, ..
        } = self.0;
        match problem {
            Problem::NoClassNamed => {
                write!(
                    out,
                    "failed to take snapshot {content} without a snapshot class"
                )
            }
            Problem::NoClass(class) => write!(
                out,
                "volumesnapshotclass.snapshot.storage.k8s.io {} not found",
                quote(class)
            ),
            Problem::ReservedKey(key) => write!(
                out,
                "found unknown parameter key {} with reserved namespace {}",
                quote(key),
                sidecar::snapshot::PARAMETER_PREFIX
            ),
            Problem::Unclear(unclear) => write!(out, "{unclear}"),
            Problem::Unnamed => write!(
                out,
                "cannot retrieve secrets for snapshot content {}, err: secret name or namespace not \
                 specified",
                quote(content)
            ),
            Problem::Secret(secret, error, annotated) => {
                credentials(out, content, *annotated)?;
                let SecretRef { namespace, name } = secret;
                write!(
                    out,
                    "error getting secret {name} in namespace {namespace}: {error}"
                )
            }
            Problem::SecretNotText(secret, annotated) => {
                credentials(out, content, *annotated)?;
                let SecretRef { namespace, name } = secret;
                write!(
                    out,
                    "error getting secret {name} in namespace {namespace}: it has a value that is \
                     not UTF-8, which no CSI request can carry"
                )
            }
            Problem::Unbound => write!(
                out,
                "cannot create snapshot. Snapshot content {content} not bound to a snapshot"
            ),
            Problem::Call(error) | Problem::Away(error) => write!(out, "{error}"),
            Problem::NoId => out.write_str("the driver answered without a snapshot id"),
            Problem::NotFound(handle) => {
                write!(out, "can not find snapshot for snapshotID {handle}")
            }
            Problem::Write(write, error) => refused(out, content, Some(*write), error),
            Problem::Status(error) => refused(out, content, None, error),
            Problem::Read(error) => {
                write!(out, "could not read the content {content} again: {error}")
            }
        }
    }
}

/// A patch of the content, or of its status, was refused.
fn refused(
    out: &mut fmt::Formatter<'_>,
    content: &Text,
    write: Option<Write>,
    error: &ApiError,
) -> fmt::Result {
    match write {
        Some(Write::Mark) => write!(
            out,
            "failed to add VolumeSnapshotBeingCreated annotation on the content {content}: {}",
            quote(&error.message)
        ),
        Some(Write::Unmark) => write!(
            out,
            "failed to remove VolumeSnapshotBeingCreated annotation on the content {content}: {}",
            quote(&error.message)
        ),
        Some(Write::Release) => write!(
            out,
            "failed to remove the finalizer of the content {content}: {error}"
        ),
        None => write!(
            out,
            "error updating status for volume snapshot content {content}: {error}"
        ),
    }
}

fn credentials(out: &mut fmt::Formatter<'_>, content: &Text, annotated: bool) -> fmt::Result {
    if annotated {
        let content = quote(content);
        write!(
            out,
            "cannot get credentials for snapshot content {content}: "
        )
    } else {
        Ok(())
    }
}
