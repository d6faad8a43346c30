//! The texts of failures: the ones that users of upstream's program match, and the reason behind
//! them.

use std::fmt;

use sidecar::log::quote;

use super::{ApiError, Failure, Problem, Task};
use crate::model::{Kind, SecretRef, Text};
use crate::plan::request::{ContentWrite, Written};

/// The nouns of the texts, by kind of content.
struct Words {
    snapshot: &'static str,
    /// The same, capitalized.
    capital: &'static str,
    class: &'static str,
    mark: &'static str,
    /// The object whose status could not be written.
    object: &'static str,
    /// The object whose snapshot is looked up.
    content: &'static str,
    no_id: &'static str,
}

const SINGLE: Words = Words {
    snapshot: "snapshot",
    capital: "Snapshot",
    class: "volumesnapshotclass.snapshot.storage.k8s.io",
    mark: "VolumeSnapshotBeingCreated",
    object: "volume snapshot content",
    content: "content",
    no_id: "the driver answered without a snapshot id",
};

const GROUP: Words = Words {
    snapshot: "group snapshot",
    capital: "Group snapshot",
    class: "volumegroupsnapshotclass.groupsnapshot.storage.k8s.io",
    mark: "VolumeGroupSnapshotBeingCreated",
    object: "volume group snapshot content",
    content: "group snapshot content",
    no_id: "the driver answered without the ids of a group and of its snapshots",
};

impl Failure {
    fn words(&self) -> &'static Words {
        match self.kind {
            Kind::Single => &SINGLE,
            Kind::Group => &GROUP,
        }
    }

    fn create(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = &self.content;
        let snapshot = self.words().snapshot;
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
                    "failed to get input parameters to create {snapshot} for content {content}: {cause}"
                )
            }
            Problem::ReservedKey(_) => write!(
                out,
                "failed to remove CSI Parameters of prefixed keys: {}",
                Cause(self)
            ),
            Problem::Unbound
            | Problem::Topology(_)
            | Problem::Call(_)
            | Problem::Away(_)
            | Problem::NoId
            | Problem::Unfit(_)
            | Problem::NotFound(_) => {
                let volume = self.volume.as_deref().unwrap_or_default();
                let volumes = match self.kind {
                    Kind::Single => "volume",
                    Kind::Group => "volumes",
                };
                let cause = quote(&Cause(self).to_string());
                write!(
                    out,
                    "failed to take {snapshot} of the {volumes} {volume}: {cause}"
                )
            }
            Problem::NoMembers
            | Problem::Write(..)
            | Problem::Status(_)
            | Problem::Read(_)
            | Problem::NoEffect(_) => write!(out, "{}", Cause(self)),
        }
    }

    fn check(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (content, cause) = (&self.content, Cause(self));
        let snapshot = self.words().snapshot;
        match &self.problem {
            Problem::NoClass(class) => {
                write!(
                    out,
                    "failed to get {snapshot} class {class} for {snapshot} content {content}: {cause}"
                )
            }
            Problem::Unclear(_) => {
                write!(
                    out,
                    "failed to get secret reference for {snapshot} content {content}: {cause}"
                )
            }
            Problem::Secret(_, _, true) | Problem::SecretNotText(_, true) | Problem::Unnamed => {
                write!(
                    out,
                    "failed to get credentials from annotation for {snapshot} content {content}: {cause}"
                )
            }
            Problem::Secret(_, _, false) | Problem::SecretNotText(_, false) => {
                write!(
                    out,
                    "failed to get credentials for {snapshot} content {content}: {cause}"
                )
            }
            Problem::Call(_)
            | Problem::Away(_)
            | Problem::NoId
            | Problem::Unfit(_)
            | Problem::NotFound(_) => {
                let cause = quote(&cause.to_string());
                let of = self.words().content;
                write!(out, "failed to list {snapshot} for {of} {content}: {cause}")
            }
            Problem::NoClassNamed
            | Problem::ReservedKey(_)
            | Problem::Unbound
            | Problem::Topology(_)
            | Problem::NoMembers
            | Problem::Write(..)
            | Problem::Status(_)
            | Problem::Read(_)
            | Problem::NoEffect(_) => write!(out, "{cause}"),
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

/// The problem alone, without the task that it blocks.
struct Cause<'a>(&'a Failure);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure {
            content, problem, ..
        } = self.0;
        let words = self.0.words();
        let snapshot = words.snapshot;
        match problem {
            Problem::NoClassNamed => {
                write!(
                    out,
                    "failed to take {snapshot} {content} without a {snapshot} class"
                )
            }
            Problem::NoClass(class) => {
                write!(out, "{} {} not found", words.class, quote(class))
            }
            Problem::ReservedKey(key) => write!(
                out,
                "found unknown parameter key {} with reserved namespace {}",
                quote(key),
                sidecar::snapshot::PARAMETER_PREFIX
            ),
            Problem::Unclear(unclear) => write!(out, "{unclear}"),
            Problem::Unnamed => write!(
                out,
                "cannot retrieve secrets for {snapshot} content {}, err: secret name or namespace not \
                 specified",
                quote(content)
            ),
            Problem::Secret(secret, error, annotated) => {
                credentials(out, (snapshot, content), *annotated)?;
                unread(out, secret, error)
            }
            Problem::SecretNotText(secret, annotated) => {
                credentials(out, (snapshot, content), *annotated)?;
                let why = "it has a value that is not UTF-8, which no CSI request can carry";
                unread(out, secret, &why)
            }
            Problem::Unbound => write!(
                out,
                "cannot create {snapshot}. {} content {content} not bound to a {snapshot}",
                words.capital
            ),
            Problem::Topology(why) => write!(
                out,
                "annotation {} of the content {content} is no list of topology terms: {why}",
                sidecar::snapshot::ALLOWED_TOPOLOGIES
            ),
            Problem::NoMembers => no_members(out, content, self.0.task),
            Problem::Call(error) | Problem::Away(error) => write!(out, "{error}"),
            Problem::NoId => out.write_str(words.no_id),
            Problem::Unfit(how) => out.write_str(how),
            Problem::NotFound(handle) => {
                write!(out, "can not find snapshot for snapshotID {handle}")
            }
            Problem::Write(write, error) => refused(out, (words, content), Some(*write), error),
            Problem::Status(error) => refused(out, (words, content), None, error),
            Problem::Read(error) => {
                write!(out, "could not read the content {content} again: {error}")
            }
            Problem::NoEffect(written) => no_effect(out, (words, content), *written),
        }
    }
}

/// A write was accepted, but reverted or dropped.
fn no_effect(
    out: &mut fmt::Formatter<'_>,
    (words, content): (&Words, &Text),
    written: Written,
) -> fmt::Result {
    let mark = words.mark;
    write!(
        out,
        "the API server accepted a patch of the content {content} that should have "
    )?;
    match written {
        Written::Content(ContentWrite::Mark) => {
            write!(out, "added the {mark} annotation and the finalizer")
        }
        Written::Content(ContentWrite::Unmark) => write!(out, "removed the {mark} annotation"),
        Written::Content(ContentWrite::Topology(_)) => out.write_str("written down the topology"),
        Written::Content(ContentWrite::Release) => out.write_str("removed the finalizer"),
        Written::Clear => out.write_str("cleared the status"),
    }?;
    out.write_str(
        ", and the content is as before; look for an admission webhook or policy that undoes it",
    )
}

/// The handles of the group's snapshots are unknown.
fn no_members(out: &mut fmt::Formatter<'_>, content: &Text, task: Task) -> fmt::Result {
    match task {
        Task::Create | Task::Check => write!(
            out,
            "cannot list group snapshot {content}. No snapshots found in the group snapshot content"
        ),
        Task::Delete => write!(
            out,
            "cannot delete group snapshot content {content}. No snapshots found in the group snapshot"
        ),
    }
}

/// A Secret could not be read.
fn unread(
    out: &mut fmt::Formatter<'_>,
    SecretRef { namespace, name }: &SecretRef,
    why: &dyn fmt::Display,
) -> fmt::Result {
    write!(
        out,
        "error getting secret {name} in namespace {namespace}: {why}"
    )
}

/// A patch of the content, or of its status, was refused.
fn refused(
    out: &mut fmt::Formatter<'_>,
    (words, content): (&Words, &Text),
    write: Option<ContentWrite>,
    error: &ApiError,
) -> fmt::Result {
    match write {
        Some(ContentWrite::Mark) => write!(
            out,
            "failed to add {} annotation on the content {content}: {}",
            words.mark,
            quote(&error.message)
        ),
        Some(ContentWrite::Unmark) => write!(
            out,
            "failed to remove {} annotation on the content {content}: {}",
            words.mark,
            quote(&error.message)
        ),
        Some(ContentWrite::Topology(_)) => write!(
            out,
            "failed to write down the topology of the content {content}: {error}"
        ),
        Some(ContentWrite::Release) => write!(
            out,
            "failed to remove the finalizer of the content {content}: {error}"
        ),
        None => write!(
            out,
            "error updating status for {} {content}: {error}",
            words.object
        ),
    }
}

fn credentials(
    out: &mut fmt::Formatter<'_>,
    (snapshot, content): (&str, &Text),
    annotated: bool,
) -> fmt::Result {
    if annotated {
        let content = quote(content);
        write!(
            out,
            "cannot get credentials for {snapshot} content {content}: "
        )
    } else {
        Ok(())
    }
}
