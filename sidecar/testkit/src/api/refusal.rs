//! Errors in the API server's words: a `Status` object and its HTTP code.

use serde_json::{Value, json};

use super::kind::Kind;

/// A request that the server answers with an error.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason such as `NotFound`.
    pub reason: &'static str,
    /// Human-readable text.
    pub message: String,
    details: Value,
}

impl Refusal {
    /// An error with this code and message, and the reason that usually goes with the code.
    #[must_use]
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason(code),
            message: message.into(),
            details: Value::Null,
        }
    }

    fn about(mut self, kind: &Kind, name: &str) -> Self {
        self.details = json!({"name": name, "group": kind.group, "kind": kind.resource});
        self
    }

    /// 404 for an object.
    #[must_use]
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, format!("{} \"{name}\" not found", kind.qualified())).about(kind, name)
    }

    /// 404 for a path without resource.
    #[must_use]
    pub fn no_such_resource() -> Self {
        Self::new(404, "the server could not find the requested resource")
    }

    /// 409 for a create.
    #[must_use]
    pub fn exists(kind: &Kind, name: &str) -> Self {
        let mut refusal = Self::new(
            409,
            format!("{} \"{name}\" already exists", kind.qualified()),
        );
        refusal.reason = "AlreadyExists";
        refusal.about(kind, name)
    }

    /// 409 for a write of an old version.
    #[must_use]
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let text = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            kind.qualified()
        );
        Self::new(409, text).about(kind, name)
    }

    /// 409 because the object has changed since it was read.
    #[must_use]
    pub fn stale(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// 422 for an object that fails validation.
    #[must_use]
    pub fn invalid(kind: &Kind, name: &str, problems: &[String]) -> Self {
        let problems = match problems {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let text = format!(
            "{}.{} \"{name}\" is invalid: {problems}",
            kind.kind, kind.group
        );
        Self::new(422, text.replace(". \"", " \"")).about(kind, name)
    }

    /// The `Status` object.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            body["details"] = self.details.clone();
        }
        body
    }
}

fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        410 => "Expired",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}
