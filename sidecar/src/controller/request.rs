//! Requests to the API server and to the driver, and the replies to them.
//!
//! A [`Request`] is complete in every detail; executing it involves no choice. Its [`Reply`] contains the request,
//! so that a result is always read together with its request.
//!
//! Values alone: decisions make requests and read replies, [`execute`](super::execute) executes them, and
//! simulations do the same with servers of their own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::time::Duration;

use serde_json::Value;

use super::call::{CallError, Calls};
use crate::rpc_code::{self, RpcError};
use crate::secret::SecretRef;
use crate::text::Text;

pub use crate::kube::api::SecretError;
pub use crate::kube::edit::{Applied, Edit};
pub use crate::kube::patch::{Part, Patch};
pub use crate::refusal::ApiError;

/// Values of a Secret, by key. Has no `Debug`, so that it cannot be logged by accident.
pub type Secrets = BTreeMap<String, String>;

/// The types of one controller's requests. Its [`Reactor`](super::reactor::Reactor) implements this.
pub trait Requests: Sized + Send + 'static {
    /// An object of the API server, by kind and key.
    type Object: Object + Debug;
    /// The part of a read or written object that an attempt sees in addition to the caches.
    type Found: Send;
    /// Why an object is written.
    type Purpose: Debug + Send + Sync;
    /// A Secret, with any data to return along with its values.
    type Secret: AsRef<SecretRef> + Send + Sync;
    /// The calls to the driver.
    type Calls: Calls;
    /// An event for users.
    type Event: Debug + Send + Sync;
}

/// What people call an object.
pub trait OfKind {
    /// Kubernetes' name of its kind, or of the kind of a list's objects; empty where the controller has a single one.
    fn kind(&self) -> &'static str;
}

/// An object of the API server, or a list of objects that is read with one request.
pub trait Object: OfKind + Clone + Hash + Send + Sync {
    /// `name`, or `namespace/name`; for a list, the namespace, or an empty text for all namespaces.
    fn key(&self) -> &str;

    /// The query parameter and the value that select the objects of a list, such as `labelSelector` and `a=b`; `None`
    /// for a single object.
    fn selector(&self) -> Option<(&'static str, Cow<'_, str>)> {
        None
    }
}

/// For a controller that requests one kind of objects: the key itself.
impl Object for Text {
    fn key(&self) -> &str {
        self
    }
}

impl OfKind for Text {
    fn kind(&self) -> &'static str {
        ""
    }
}

/// For a controller without Secrets.
impl AsRef<SecretRef> for Infallible {
    fn as_ref(&self) -> &SecretRef {
        match *self {}
    }
}

/// One request.
pub enum Request<R: Requests> {
    /// GET of an object, which updates its cache, or of a list, which updates none.
    Get(R::Object),
    /// A write of one object; its cache takes in the answer before the watch delivers the change.
    Write(Write<R>),
    /// GET of a Secret.
    Secret(R::Secret),
    /// A call to the driver.
    Call(R::Calls),
    /// An event for users.
    Event(R::Event),
}

/// A write of one object.
pub struct Write<R: Requests> {
    /// Why the object is written.
    pub purpose: R::Purpose,
    /// The object to write.
    pub object: R::Object,
    /// Precondition on the object's UID, if set: another object may have taken the name.
    pub uid: Option<Text>,
    /// Method and content.
    pub body: Body,
}

/// Method and content of a write.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Body {
    /// PATCH.
    Patch(Part, Patch),
    /// POST.
    Create(Value),
    /// PUT of this JSON.
    Replace(Text),
    /// GET, then PUT of the object with this change, if it changes anything.
    Edit(Box<Edit>),
    /// DELETE, with a precondition on the resource version if set.
    Delete(Option<Text>),
}

impl Body {
    /// The method of HTTP.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::Patch(..) => "PATCH",
            Self::Create(_) => "POST",
            Self::Replace(_) | Self::Edit(_) => "PUT",
            Self::Delete(_) => "DELETE",
        }
    }

    /// The body of a patch; null for other methods.
    #[must_use]
    pub fn patch(&self) -> &Value {
        match self {
            Self::Patch(_, patch) => patch.body(),
            Self::Create(_) | Self::Replace(_) | Self::Edit(_) | Self::Delete(_) => &Value::Null,
        }
    }
}

/// A request with its result.
pub enum Reply<R: Requests> {
    /// The object as read, or the error.
    Get(R::Object, Result<R::Found, ApiError>),
    /// The object as written, or the error.
    Write(Write<R>, Result<R::Found, ApiError>),
    /// The values of the Secret, or the error.
    Secret(R::Secret, Result<Secrets, SecretError>),
    /// The ended call and its duration, not counting the wait for a driver that restarts.
    Call(<R::Calls as Calls>::Called, Duration),
    /// The event was recorded.
    Event(R::Event),
}

impl<R: Requests<Purpose: Clone>> Clone for Write<R> {
    fn clone(&self) -> Self {
        Self {
            purpose: self.purpose.clone(),
            object: self.object.clone(),
            uid: self.uid.clone(),
            body: self.body.clone(),
        }
    }
}

/// A request as the engine sees it.
pub trait Ask: Send + Sync {
    /// The request with its result.
    type Reply: Send;

    /// The content it writes to the API server and the object's name, equal for equal writes. `None` for a
    /// request that writes nothing, or that first reads the object it changes.
    ///
    /// An attempt that repeats a write which the server [accepted](Self::is_written) has not seen its effect, and
    /// would not see it next time either: the request is not sent but answered with [`unsent`](Self::unsent).
    fn write(&self) -> Option<impl Hash>;

    /// Whether this is the reply to a write that the server accepted.
    fn is_written(reply: &Self::Reply) -> bool;

    /// The reply to a request that was not sent, for this reason: as if the API server had refused it, or as if the
    /// call had not reached the driver. The attempt should end with a failure.
    fn unsent(self, why: String) -> Self::Reply;

    /// The request and its result, as one line for the log: without the values of a Secret and the messages of
    /// a call, which are logged where they are sent.
    fn line(reply: &Self::Reply) -> String;

    /// The request in a few words: the method and the object, or the name of the call. Without anything that it sends.
    fn name(&self) -> String;

    /// Code and text of the failure that the request came to, if it failed.
    fn failure(reply: &Self::Reply) -> Option<(&'static str, String)>;
}

impl<R: Requests> Ask for Request<R> {
    type Reply = Reply<R>;

    fn write(&self) -> Option<impl Hash> {
        match self {
            // Built from the object as it is then.
            Self::Write(Write {
                body: Body::Edit(_),
                ..
            }) => None,
            Self::Write(write) => Some((&write.object, &write.body)),
            Self::Get(_) | Self::Secret(_) | Self::Call(_) | Self::Event(_) => None,
        }
    }

    fn is_written(reply: &Reply<R>) -> bool {
        matches!(reply, Reply::Write(_, Ok(_)))
    }

    fn unsent(self, why: String) -> Reply<R> {
        self.refused(ApiError::local(why))
    }

    fn line(reply: &Reply<R>) -> String {
        match reply {
            Reply::Get(object, result) => said(format!("GET {object:?}"), result.as_ref().err()),
            Reply::Write(write, result) => {
                let what = format!("{} of {:?}", short(&write.purpose), write.object);
                said(what, result.as_ref().err())
            }
            Reply::Secret(secret, values) => {
                let SecretRef { namespace, name } = secret.as_ref();
                let what = format!("GET Secret {namespace}/{name}");
                match values {
                    Ok(_) => said::<ApiError>(what, None),
                    Err(SecretError::NotText) => said(what, Some("a value is not text")),
                    Err(SecretError::Unread(error)) => said(what, Some(error)),
                }
            }
            Reply::Call(called, took) => {
                let (call, error) = R::Calls::outcome(called);
                let what = format!("{call}, after {took:?}");
                match error {
                    None => said::<RpcError>(what, None),
                    Some(CallError::Unreachable(error) | CallError::Failed(error)) => {
                        said(what, Some(error))
                    }
                }
            }
            Reply::Event(event) => said::<ApiError>(short(event), None),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Get(object) => about("GET", object),
            Self::Write(Write { object, body, .. }) => about(body.method(), object),
            Self::Secret(secret) => {
                let SecretRef { namespace, name } = secret.as_ref();
                format!("GET Secret {namespace}/{name}")
            }
            Self::Call(call) => call.name().to_owned(),
            Self::Event(_) => "Event".to_owned(),
        }
    }

    fn failure(reply: &Reply<R>) -> Option<(&'static str, String)> {
        match reply {
            Reply::Get(_, result) | Reply::Write(_, result) => {
                result.as_ref().err().map(ApiError::code_and_text)
            }
            Reply::Secret(_, Err(SecretError::Unread(error))) => Some(error.code_and_text()),
            Reply::Secret(_, Err(SecretError::NotText)) => {
                Some(("NotText", "a value of the Secret is not text".to_owned()))
            }
            Reply::Call(called, _) => match R::Calls::outcome(called).1? {
                CallError::Unreachable(error) | CallError::Failed(error) => {
                    Some((rpc_code::name(error.code), error.to_string()))
                }
            },
            Reply::Secret(_, Ok(_)) | Reply::Event(_) => None,
        }
    }
}

/// The method and the object: `PATCH PersistentVolume pv1`.
fn about(method: &str, object: &impl Object) -> String {
    let method = object.selector().map_or(method, |_| "LIST");
    let selector = object.selector().map(|(_, selector)| selector);
    let words = [method, object.kind(), object.key()];
    let words = words.into_iter().chain(selector.as_deref());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Cuts the text: purposes may carry whole objects.
fn short(value: &impl Debug) -> String {
    format!("{:.200}", format!("{value:?}"))
}

/// One line: the request, and its error or `done`.
pub fn said<E: Display + ?Sized>(what: String, error: Option<&E>) -> String {
    match error {
        None => format!("{what}: done"),
        Some(error) => format!("{what}: {error}"),
    }
}

impl<R: Requests> Request<R> {
    /// The reply if the request fails with this error; a call has not reached the driver then.
    pub fn refused(self, error: ApiError) -> Reply<R> {
        match self {
            Self::Get(object) => Reply::Get(object, Err(error)),
            Self::Write(write) => Reply::Write(write, Err(error)),
            Self::Secret(secret) => Reply::Secret(secret, Err(SecretError::Unread(error))),
            Self::Call(call) => {
                let unsent = CallError::Unreachable(RpcError::unsent(error.message));
                Reply::Call(call.failed(unsent), Duration::ZERO)
            }
            Self::Event(event) => Reply::Event(event),
        }
    }
}
