//! The building blocks of scripts.
//!
//! A script is an ordinary function that asks for one thing after the other. After each reply it is
//! called again from its beginning, with all replies so far: `Log::ask` returns the next of them,
//! or leaves the function with the step that is still to be done. So the scripts read like the
//! specification's lists, have no state of their own, and every prefix of a run is a value that a
//! test can build.

use std::collections::BTreeMap;
use std::path::PathBuf;

use csi_proto::csi;
use tonic::Code;

use super::growth::Growth;
use super::metadata::Metadata;
use super::request::TOKENS;
use crate::model::driver::{CsiDriver, TokenRequest};
use crate::model::volume::{ClaimUse, PodRef, SecretRef};

/// One effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Look up the CSIDriver object.
    Driver(String),
    /// Check whether the driver is registered on this node.
    Registered(String),
    /// GET the VolumeAttachment; replies with its metadata if it is attached.
    Attachment(String),
    /// GET of a Secret.
    Secret(SecretRef),
    /// Request a token of the pod's service account.
    Token(PodRef, TokenRequest),
    /// Call the driver.
    Call {
        /// The driver.
        driver: String,
        /// The request.
        call: Box<Call>,
    },
    /// Create a directory and its parents, with mode 0750.
    MakeDirectory(PathBuf),
    /// Write a metadata file; also creates its directory.
    Write(PathBuf, Metadata),
    /// Read a metadata file.
    Read(PathBuf),
    /// Create a symbolic link, or replace an older one; also creates its directory.
    Link {
        /// Path of the link.
        link: PathBuf,
        /// Its target.
        target: PathBuf,
    },
    /// Check whether something is mounted at this path.
    IsMounted(PathBuf),
    /// Find other mounts of the same file system below the pods' directory.
    References(PathBuf),
    /// Remove files and empty directories, in this order; missing ones are fine.
    Remove(Vec<PathBuf>),
    /// Remove those directories that are empty, in this order, and unfinished files.
    Tidy(Vec<PathBuf>),
    /// Change the group of a directory tree.
    Own {
        /// Its root.
        path: PathBuf,
        /// The group.
        group: u32,
        /// Skip the tree if its root already has group and mode.
        on_root_mismatch: bool,
    },
    /// GET the claim with this namespace and name.
    Claim(String, String),
    /// Write the progress of the expansion into the claim's status, unless the claim has changed.
    ReportGrowth {
        /// The claim.
        claim: ClaimUse,
        /// The progress.
        growth: Growth,
    },
}

/// A request to a driver.
#[derive(Clone, PartialEq)]
pub enum Call {
    /// `NodeGetCapabilities`
    Capabilities,
    /// `NodeStageVolume`
    Stage(csi::NodeStageVolumeRequest),
    /// `NodePublishVolume`
    Publish(csi::NodePublishVolumeRequest),
    /// `NodeUnpublishVolume`
    Unpublish(csi::NodeUnpublishVolumeRequest),
    /// `NodeUnstageVolume`
    Unstage(csi::NodeUnstageVolumeRequest),
    /// `NodeExpandVolume`
    Expand(csi::NodeExpandVolumeRequest),
}

/// The driver's node capabilities that the agent uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// `STAGE_UNSTAGE_VOLUME`
    pub stage: bool,
    /// `VOLUME_MOUNT_GROUP`
    pub mount_group: bool,
    /// `SINGLE_NODE_MULTI_WRITER`
    pub multi_writer: bool,
    /// `EXPAND_VOLUME`
    pub expand: bool,
}

/// The result of a successful step.
#[derive(Clone, PartialEq)]
pub enum Answer {
    /// No further result.
    Done,
    /// [`Step::IsMounted`]
    Is(bool),
    /// [`Step::Driver`]
    Driver(Option<CsiDriver>),
    /// [`Step::Attachment`]
    Context(BTreeMap<String, String>),
    /// [`Step::Secret`]
    Secret(BTreeMap<String, String>),
    /// [`Step::Token`]: the token and its expiration.
    Token(String, String),
    /// [`Call::Capabilities`]
    Capabilities(Capabilities),
    /// [`Step::Read`]; `None` if the file does not exist.
    Metadata(Option<Metadata>),
    /// [`Step::References`]
    Paths(Vec<PathBuf>),
    /// [`Step::Claim`], [`Step::ReportGrowth`]: the claim's current state.
    Claim(ClaimUse),
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The driver's gRPC code; `None` if no driver answered.
    pub code: Option<Code>,
    /// For people.
    pub message: String,
}

impl Failure {
    /// A failure that no driver reported.
    pub fn local(message: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
        }
    }
}

/// The result of a step.
pub type Reply = Result<Answer, Failure>;

/// Effect of a failed call on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The call had no effect.
    Transient,
    /// The call may have had any effect.
    Uncertain,
    /// The driver did nothing, and said so for certain.
    Final,
}

impl Failure {
    /// The class of a failed call.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.code {
            None
            | Some(
                Code::Cancelled
                | Code::DeadlineExceeded
                | Code::Unavailable
                | Code::ResourceExhausted
                | Code::Aborted,
            ) => Class::Uncertain,
            Some(
                Code::Ok
                | Code::Unknown
                | Code::InvalidArgument
                | Code::NotFound
                | Code::AlreadyExists
                | Code::PermissionDenied
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::Internal
                | Code::DataLoss
                | Code::Unauthenticated,
            ) => Class::Final,
        }
    }
}

/// State of a published volume, or of a staged one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mount {
    /// Not mounted.
    #[default]
    None,
    /// Perhaps mounted; it is unmounted like a mounted one.
    Uncertain,
    /// Mounted.
    Mounted,
}

/// Changes that an operation has made so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// New state of the staged volume.
    pub device: Option<Mount>,
    /// New state of the volume for the operation's pod.
    pub pod: Option<Mount>,
    /// New size of the file system in bytes.
    pub size: Option<i64>,
    /// The driver refuses to expand the volume while it is in use.
    pub never_expands: bool,
    /// The claim as last read or written.
    pub claim: Option<ClaimUse>,
}

/// The next action of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Do this step, add the reply, call the script again.
    Do(Step),
    /// The operation has ended.
    End {
        /// Its changes.
        changes: Changes,
        /// Its result; the text is for people.
        result: Result<(), String>,
    },
}

/// Why a script is left.
#[derive(Debug)]
pub(super) enum Leave {
    /// This step has to be done first.
    Do(Box<Step>),
    /// The operation failed.
    Failed(String),
}

pub(super) type Flow<T> = Result<T, Leave>;

/// The replies so far and the changes that follow from them.
#[derive(Debug)]
pub(super) struct Log<'a> {
    replies: std::slice::Iter<'a, Reply>,
    pub(super) changes: Changes,
}

/// The messages redact their own secrets. Tokens in a volume context, which the protocol does not
/// mark as secret, are redacted here.
impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Capabilities => f.write_str("Capabilities"),
            Self::Stage(message) => write!(f, "Stage({message:?})"),
            Self::Publish(message) => {
                let mut message = message.clone();
                if let Some(tokens) = message.volume_context.get_mut(TOKENS) {
                    "***stripped***".clone_into(tokens);
                }
                write!(f, "Publish({message:?})")
            }
            Self::Unpublish(message) => write!(f, "Unpublish({message:?})"),
            Self::Unstage(message) => write!(f, "Unstage({message:?})"),
            Self::Expand(message) => write!(f, "Expand({message:?})"),
        }
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => f.write_str("Done"),
            Self::Is(is) => write!(f, "Is({is})"),
            Self::Driver(driver) => write!(f, "Driver({driver:?})"),
            Self::Context(context) => write!(f, "Context({context:?})"),
            // Secret values never get into a log.
            Self::Secret(_) => f.write_str("Secret(***stripped***)"),
            Self::Token(_, expires) => write!(f, "Token(***stripped***, {expires})"),
            Self::Capabilities(capabilities) => write!(f, "{capabilities:?}"),
            Self::Metadata(data) => write!(f, "Metadata({data:?})"),
            Self::Paths(paths) => write!(f, "Paths({paths:?})"),
            Self::Claim(claim) => write!(f, "{claim:?}"),
        }
    }
}

impl<'a> Log<'a> {
    fn new(replies: &'a [Reply]) -> Self {
        Self {
            replies: replies.iter(),
            changes: Changes::default(),
        }
    }

    /// The reply to `step`.
    pub(super) fn ask(&mut self, step: Step) -> Flow<Result<&'a Answer, &'a Failure>> {
        match self.replies.next() {
            Some(reply) => Ok(reply.as_ref()),
            None => Err(Leave::Do(Box::new(step))),
        }
    }

    /// Does a step whose failure ends the operation without further changes. `what` begins the
    /// error.
    pub(super) fn must(&mut self, what: &str, step: Step) -> Flow<&'a Answer> {
        let reply = self.ask(step)?;
        reply.map_err(|failure| Leave::Failed(format!("{what}{failure}")))
    }

    /// Like [`Self::must`], for steps without a result.
    pub(super) fn done(&mut self, what: &str, step: Step) -> Flow<()> {
        self.must(what, step).map(drop)
    }

    /// The driver's node capabilities.
    pub(super) fn capabilities(&mut self, driver: &str) -> Flow<Result<Capabilities, &'a Failure>> {
        let reply = self.ask(Step::Call {
            driver: driver.to_owned(),
            call: Box::new(Call::Capabilities),
        })?;
        let answer = match reply {
            Ok(answer) => answer,
            Err(failure) => return Ok(Err(failure)),
        };
        let Answer::Capabilities(capabilities) = answer else {
            return Err(mismatch(answer));
        };
        Ok(Ok(*capabilities))
    }

    pub(super) fn secret(&mut self, secret: &SecretRef) -> Flow<BTreeMap<String, String>> {
        let SecretRef { namespace, name } = secret;
        let what = format!("secret {namespace}/{name}: ");
        let answer = self.must(&what, Step::Secret(secret.clone()))?;
        let Answer::Secret(values) = answer else {
            return Err(mismatch(answer));
        };
        Ok(values.clone())
    }

    pub(super) fn metadata(&mut self, step: Step) -> Flow<Option<&'a Metadata>> {
        let answer = self.must("", step)?;
        let Answer::Metadata(metadata) = answer else {
            return Err(mismatch(answer));
        };
        Ok(metadata.as_ref())
    }

    /// Reads or writes a claim, and records it among the changes.
    pub(super) fn claim(&mut self, what: &str, step: Step) -> Flow<ClaimUse> {
        let answer = self.must(what, step)?;
        let Answer::Claim(claim) = answer else {
            return Err(mismatch(answer));
        };
        self.changes.claim = Some(claim.clone());
        Ok(claim.clone())
    }

    pub(super) fn is_mounted(&mut self, path: PathBuf) -> Flow<bool> {
        let answer = self.must("", Step::IsMounted(path))?;
        let Answer::Is(is) = answer else {
            return Err(mismatch(answer));
        };
        Ok(*is)
    }
}

/// The reply belongs to another step: a programming error.
pub(super) fn mismatch(answer: &Answer) -> Leave {
    Leave::Failed(format!("an answer of the wrong kind: {answer:?}"))
}

/// Runs a script as far as the replies reach.
pub(super) fn run(replies: &[Reply], script: impl FnOnce(&mut Log<'_>) -> Flow<()>) -> Next {
    let mut log = Log::new(replies);
    let result = match script(&mut log) {
        Err(Leave::Do(step)) => return Next::Do(*step),
        Ok(()) => Ok(()),
        Err(Leave::Failed(message)) => Err(message),
    };
    Next::End {
        changes: log.changes,
        result,
    }
}
