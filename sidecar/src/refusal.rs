//! Failed requests to the API server: the message for users, and the outcome of the request.

use std::fmt;

/// A failed request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The server's message verbatim, since it ends up in messages to users, or the transport's.
    pub message: String,
    /// The outcome of the request.
    pub refusal: Refusal,
}

/// The outcome of a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The object does not exist.
    NotFound,
    /// RBAC or admission refused it.
    Forbidden,
    /// The object has changed since it was read.
    Conflict,
    /// An object of this name already exists.
    AlreadyExists,
    /// No response, or one that leaves open whether the request was applied.
    Unknown,
    /// Not applied, for any other reason.
    Other,
}

impl Refusal {
    /// Classifies a response by its HTTP status, 0 without a response, and the `reason` of its `Status`.
    #[must_use]
    pub fn of(code: u16, reason: &str) -> Self {
        match code {
            404 => Self::NotFound,
            403 => Self::Forbidden,
            409 if reason == "AlreadyExists" => Self::AlreadyExists,
            409 => Self::Conflict,
            0 | 500.. => Self::Unknown,
            _ => Self::Other,
        }
    }
}

impl ApiError {
    /// The code of the refusal and the text, for answers about objects.
    #[must_use]
    pub fn code_and_text(&self) -> (&'static str, String) {
        let code = match self.refusal {
            Refusal::NotFound => "NotFound",
            Refusal::Forbidden => "Forbidden",
            Refusal::Conflict => "Conflict",
            Refusal::AlreadyExists => "AlreadyExists",
            Refusal::Unknown => "Unknown",
            Refusal::Other => "Refused",
        };
        (code, self.message.clone())
    }

    /// A request refused before it was sent.
    pub fn local(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            refusal: Refusal::Other,
        }
    }

    /// The request was applied, but its response is unreadable.
    pub fn unreadable(error: &dyn fmt::Display) -> Self {
        Self {
            message: format!("the API server's answer cannot be read: {error}"),
            refusal: Refusal::Unknown,
        }
    }

    /// The object was deleted completely.
    #[must_use]
    pub fn gone() -> Self {
        Self {
            message: "it is gone".to_owned(),
            refusal: Refusal::NotFound,
        }
    }

    /// The object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.refusal == Refusal::NotFound
    }

    /// The object has changed since it was read.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.refusal == Refusal::Conflict
    }

    /// An object of this name exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.refusal == Refusal::AlreadyExists
    }

    /// RBAC or admission refused the request.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.refusal == Refusal::Forbidden
    }

    /// The server refused the request, whatever the object's current state.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.refusal, Refusal::Forbidden | Refusal::Other)
    }

    /// Whether the server may have applied the request despite the failure.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.refusal == Refusal::Unknown
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        for (code, reason, expected) in [
            (404, "NotFound", Refusal::NotFound),
            (403, "Forbidden", Refusal::Forbidden),
            (409, "AlreadyExists", Refusal::AlreadyExists),
            (409, "Conflict", Refusal::Conflict),
            (409, "", Refusal::Conflict),
            (500, "InternalError", Refusal::Unknown),
            (504, "Timeout", Refusal::Unknown),
            (0, "", Refusal::Unknown),
            (422, "Invalid", Refusal::Other),
            (429, "TooManyRequests", Refusal::Other),
        ] {
            assert_eq!(Refusal::of(code, reason), expected, "{code} {reason}");
        }
    }
}
