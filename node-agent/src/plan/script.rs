//! What a script is made of.
//!
//! A script is an ordinary function that asks for things one after the other. It is called from its
//! beginning again after each answer, with all answers so far: `Log::ask` gives the next of them,
//! or leaves the function with the step that is still to be done. So the scripts read like the
//! specification's lists, have no state of their own, and every prefix of a run is a value that a
//! test can make.

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
    /// See whether the driver is registered on this node.
    Registered(String),
    /// GET of the VolumeAttachment; its metadata if it is attached.
    Attachment(String),
    /// GET of a Secret.
    Secret(SecretRef),
    /// A token of the pod's service account.
    Token(PodRef, TokenRequest),
    /// A call to the driver.
    Call {
        /// The driver.
        driver: String,
        /// The request.
        call: Box<Call>,
    },
    /// Make a directory and those above it, mode 0750.
    MakeDirectory(PathBuf),
    /// Write a metadata file; the directory is made as well.
    Write(PathBuf, Metadata),
    /// Read a metadata file.
    Read(PathBuf),
    /// Make a symbolic link, in place of an older one; the directory is made as well.
    Link {
        /// Where.
        link: PathBuf,
        /// To what.
        target: PathBuf,
    },
    /// Whether something is mounted there.
    IsMounted(PathBuf),
    /// Other places below the pods' directory where the same is mounted.
    References(PathBuf),
    /// Remove files and empty directories, in this order; what is not there is fine.
    Remove(Vec<PathBuf>),
    /// Remove empty directories, in this order, as far as they are empty, and what is unfinished.
    Tidy(Vec<PathBuf>),
    /// Give a tree to a group.
    Own {
        /// Its root.
        path: PathBuf,
        /// The group.
        group: u32,
        /// Not if the root is as it should be.
        on_root_mismatch: bool,
    },
    /// GET of the claim with this namespace and name.
    Claim(String, String),
    /// Write into the claim's status how far growing it is, if it still is as it was read.
    Tell {
        /// The claim.
        claim: ClaimUse,
        /// What is written.
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

/// Capabilities of a node service that matter here.
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

/// What came of a step that succeeded.
#[derive(Clone, PartialEq)]
pub enum Answer {
    /// Nothing but that.
    Done,
    /// [`Step::IsMounted`]
    Is(bool),
    /// [`Step::Driver`]
    Driver(Option<CsiDriver>),
    /// [`Step::Attachment`]
    Context(BTreeMap<String, String>),
    /// [`Step::Secret`]
    Secret(BTreeMap<String, String>),
    /// [`Step::Token`]: the token and when it expires.
    Token(String, String),
    /// [`Call::Capabilities`]
    Capabilities(Capabilities),
    /// [`Step::Read`]; `None` without the file.
    Metadata(Option<Metadata>),
    /// [`Step::References`]
    Paths(Vec<PathBuf>),
    /// [`Step::Claim`], [`Step::Tell`]: the claim as it is now.
    Claim(ClaimUse),
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The driver's code; `None` for anything that is no answer of a driver.
    pub code: Option<Code>,
    /// For people.
    pub message: String,
}

impl Failure {
    /// A failure that no driver is behind.
    pub fn local(message: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
        }
    }
}

/// What a step came to.
pub type Reply = Result<Answer, Failure>;

/// What a failed operation says about the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing happened.
    Transient,
    /// Nobody knows what happened.
    Uncertain,
    /// The driver did nothing.
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

/// How far a volume is with a pod, or a device with the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mount {
    /// Not.
    #[default]
    None,
    /// Perhaps; it is taken down as if it were.
    Uncertain,
    /// It is.
    Mounted,
}

/// What an operation has changed, as far as it got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The staged volume.
    pub device: Option<Mount>,
    /// The volume of the operation's pod.
    pub pod: Option<Mount>,
    /// The size that the file system has now.
    pub size: Option<i64>,
    /// The driver will never expand the volume on this node.
    pub never_expands: bool,
    /// The claim as it was read or written last.
    pub claim: Option<ClaimUse>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Do this, add the answer, ask again.
    Do(Step),
    /// It is over.
    End {
        /// What is different now.
        changes: Changes,
        /// How it went; the text is for people.
        result: Result<(), String>,
    },
}

/// Leaves a script.
#[derive(Debug)]
pub(super) enum Leave {
    /// This is to be done.
    Do(Box<Step>),
    /// It went wrong.
    Failed(String),
}

pub(super) type Flow<T> = Result<T, Leave>;

/// The answers so far and what follows from them.
#[derive(Debug)]
pub(super) struct Log<'a> {
    replies: std::slice::Iter<'a, Reply>,
    pub(super) changes: Changes,
}

/// Secrets are left out by the messages themselves. Tokens in a volume context, which the protocol
/// does not mark as secret, are left out here.
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
            // Values never get into a log.
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

    /// The answer to `step`.
    pub(super) fn ask(&mut self, step: Step) -> Flow<Result<&'a Answer, &'a Failure>> {
        match self.replies.next() {
            Some(reply) => Ok(reply.as_ref()),
            None => Err(Leave::Do(Box::new(step))),
        }
    }

    /// A step whose failure ends the operation and changes nothing. `what` begins the message.
    pub(super) fn must(&mut self, what: &str, step: Step) -> Flow<&'a Answer> {
        let reply = self.ask(step)?;
        reply.map_err(|failure| Leave::Failed(format!("{what}{failure}")))
    }

    /// As [`Self::must`], for steps that only succeed or fail.
    pub(super) fn done(&mut self, what: &str, step: Step) -> Flow<()> {
        self.must(what, step).map(drop)
    }

    /// What the driver can do.
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

    /// A claim, which is remembered.
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

/// The shell answered another question: a programming error.
pub(super) fn mismatch(answer: &Answer) -> Leave {
    Leave::Failed(format!("an answer of the wrong kind: {answer:?}"))
}

/// Runs a script as far as the replies go.
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
