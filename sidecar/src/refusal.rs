//! Requests to the API server that failed: the words that users read, and what is known of the request.

use std::fmt;

/// A failed request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The server's words as they are, since they end up in messages to users, or the transport's.
    pub message: String,
    /// What is known of the request.
    pub refusal: Refusal,
}

/// What is known of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The object does not exist.
    NotFound,
    /// RBAC or admission says no.
    Forbidden,
    /// The object has changed since it was read.
    Conflict,
    /// There is an object of this name already.
    AlreadyExists,
    /// No answer, or one that leaves open whether the request was applied.
    Unknown,
    /// Not applied, for any other reason.
    Other,
}

impl Refusal {
    /// What an answer with this HTTP status, 0 without an answer, and this `reason` of its `Status` says.
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
    /// Refused before anything was sent.
    pub fn local(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            refusal: Refusal::Other,
        }
    }

    /// The request was applied, but its answer says nothing.
    pub fn unreadable(error: &dyn fmt::Display) -> Self {
        Self {
            message: format!("the API server's answer cannot be read: {error}"),
            refusal: Refusal::Unknown,
        }
    }

    /// The object was deleted, and nothing is left of it.
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

    /// There is an object of this name.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.refusal == Refusal::AlreadyExists
    }

    /// RBAC or admission says no.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.refusal == Refusal::Forbidden
    }

    /// The server says no, whatever the object is like now.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.refusal, Refusal::Forbidden | Refusal::Other)
    }

    /// Whether the server may have applied the request all the same.
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
