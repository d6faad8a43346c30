//! A client's request, and whether the program can serve it at all.

use csi_proto::snapshot_metadata::{GetMetadataAllocatedRequest, GetMetadataDeltaRequest};
use tonic::Code;

use super::refusal::{Reason, Refusal};

/// Longest token that is sent to the API server; Kubernetes' own have some 1,200 bytes.
pub const LONGEST_TOKEN: usize = 16 << 10;

/// A GetMetadataAllocated or GetMetadataDelta request.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The client's token. Must not be logged, hence no `Debug`.
    pub token: String,
    /// Namespace of the VolumeSnapshot.
    pub namespace: String,
    /// Name of the VolumeSnapshot.
    pub snapshot: String,
    /// The handle of the earlier snapshot; `Some` makes it a GetMetadataDelta request.
    pub base: Option<String>,
    /// Drops ranges that end at or before this offset.
    pub offset: i64,
    /// Maximum number of ranges in a message; 0 is no limit.
    pub most: i32,
}

impl From<GetMetadataAllocatedRequest> for Request {
    fn from(request: GetMetadataAllocatedRequest) -> Self {
        Self {
            token: request.security_token,
            namespace: request.namespace,
            snapshot: request.snapshot_name,
            base: None,
            offset: request.starting_offset,
            most: request.max_results,
        }
    }
}

impl From<GetMetadataDeltaRequest> for Request {
    fn from(request: GetMetadataDeltaRequest) -> Self {
        Self {
            token: request.security_token,
            namespace: request.namespace,
            snapshot: request.target_snapshot_name,
            base: Some(request.base_snapshot_id),
            offset: request.starting_offset,
            most: request.max_results,
        }
    }
}

impl Request {
    /// Checks the request before the API server reviews its token. Reports the first check that fails.
    ///
    /// # Errors
    /// Names the missing field.
    pub fn validate(&self) -> Result<(), Refusal> {
        let empty = |text: &str| text.is_empty();
        let missing = if empty(&self.token) {
            "securityToken is missing"
        } else if empty(&self.namespace) {
            "namespace parameter cannot be empty"
        } else if self.base.as_deref().is_some_and(empty) {
            "baseSnapshotId cannot be empty"
        } else if empty(&self.snapshot) && self.base.is_some() {
            "targetSnapshotName cannot be empty"
        } else if empty(&self.snapshot) {
            "snapshotName cannot be empty"
        } else {
            return Ok(());
        };
        Err(Refusal::new(
            Reason::Invalid,
            Code::InvalidArgument,
            missing,
        ))
    }

    /// Checks the numbers, once the client is authenticated: drivers treat negative ones differently.
    ///
    /// # Errors
    /// Names the field.
    pub fn validate_numbers(&self) -> Result<(), Refusal> {
        if self.offset < 0 {
            let text = format!("starting_offset {} is negative", self.offset);
            return Err(Refusal::new(Reason::Invalid, Code::OutOfRange, text));
        }
        if self.most < 0 {
            let text = format!("max_results {} is negative", self.most);
            return Err(Refusal::new(Reason::Invalid, Code::InvalidArgument, text));
        }
        Ok(())
    }

    /// The call's name in upstream's metric.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self.base {
            None => "MetadataAllocated",
            Some(_) => "MetadataDelta",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cb_14_what_is_missing_is_named() {
        let full = Request {
            token: "t".to_owned(),
            namespace: "n".to_owned(),
            snapshot: "s".to_owned(),
            base: None,
            offset: 0,
            most: 0,
        };
        let delta = Request {
            base: Some("b".to_owned()),
            ..full.clone()
        };
        let without = |request: &Request, field: &str| {
            let mut request = request.clone();
            match field {
                "token" => request.token.clear(),
                "namespace" => request.namespace.clear(),
                "snapshot" => request.snapshot.clear(),
                "base" => request.base = Some(String::new()),
                "everything" => {
                    request.token.clear();
                    request.namespace.clear();
                }
                _ => {}
            }
            request
                .validate()
                .map_err(|refusal| (refusal.code, refusal.text))
        };
        for (request, field, text) in [
            (&full, "", ""),
            (&delta, "", ""),
            (&full, "everything", "securityToken is missing"),
            (&full, "token", "securityToken is missing"),
            (&full, "namespace", "namespace parameter cannot be empty"),
            (&full, "snapshot", "snapshotName cannot be empty"),
            (&delta, "base", "baseSnapshotId cannot be empty"),
            (&delta, "snapshot", "targetSnapshotName cannot be empty"),
        ] {
            let expected = match text {
                "" => Ok(()),
                text => Err((Code::InvalidArgument, text.to_owned())),
            };
            assert_eq!(without(request, field), expected, "{field}");
        }
    }
}
