//! The gates of Kubernetes' generic API server library, which upstream's controllers link.
//!
//! Apart from the mechanism, because it is a list of somebody else's names: manifests that carry
//! them must go on working, although none of them ever did anything in a sidecar. Observed on
//! external-attacher master after v4.12.0, which links the library's version 0.36.

use super::{Gate, Stage};

/// Accepted by upstream's attacher, provisioner, resizer and snapshotter, without effect. For
/// [`Gates::ignoring`](super::Gates::ignoring).
pub static API_SERVER: &[Gate] = &[
    gate("APIResponseCompression", true, Stage::Beta, FREE),
    gate("APIServerIdentity", true, Stage::Beta, FREE),
    gate("APIServerTracing", true, Stage::Ga, LOCKED),
    gate("APIServingWithRoutine", false, Stage::Alpha, FREE),
    gate(
        "AggregatedDiscoveryRemoveBetaType",
        true,
        Stage::Deprecated,
        ONCE_FREE,
    ),
    gate("AllowParsingUserUIDFromCertAuth", true, Stage::Beta, FREE),
    gate(
        "AllowUnsafeMalformedObjectDeletion",
        false,
        Stage::Alpha,
        FREE,
    ),
    gate(
        "AnonymousAuthConfigurableEndpoints",
        true,
        Stage::Ga,
        LOCKED,
    ),
    gate("AuthorizeWithSelectors", true, Stage::Ga, LOCKED),
    gate("BtreeWatchCache", true, Stage::Ga, LOCKED),
    gate("CBORServingAndStorage", false, Stage::Alpha, FREE),
    gate("ComponentFlagz", true, Stage::Beta, FREE),
    gate("ComponentStatusz", true, Stage::Beta, FREE),
    gate("ConcurrentWatchObjectDecode", false, Stage::Beta, FREE),
    gate("ConsistentListFromCache", true, Stage::Ga, LOCKED),
    gate("ConstrainedImpersonation", true, Stage::Beta, FREE),
    gate("CoordinatedLeaderElection", false, Stage::Beta, FREE),
    gate("DeclarativeValidation", true, Stage::Ga, ONCE_FREE),
    gate("DeclarativeValidationBeta", true, Stage::Beta, FREE),
    gate(
        "DeclarativeValidationTakeover",
        false,
        Stage::Deprecated,
        FREE,
    ),
    gate("DetectCacheInconsistency", true, Stage::Beta, FREE),
    gate("KMSv1", false, Stage::Deprecated, FREE),
    gate("ListFromCacheSnapshot", true, Stage::Beta, FREE),
    gate(
        "ManifestBasedAdmissionControlConfig",
        false,
        Stage::Alpha,
        FREE,
    ),
    gate("MutatingAdmissionPolicy", true, Stage::Ga, FREE),
    gate("NativeHistograms", false, Stage::Alpha, FREE),
    gate("OpenAPIEnums", true, Stage::Beta, FREE),
    gate("RemoteRequestHeaderUID", true, Stage::Beta, FREE),
    gate("ResilientWatchCacheInitialization", true, Stage::Ga, LOCKED),
    gate("RetryGenerateName", true, Stage::Ga, LOCKED),
    gate("SeparateCacheWatchRPC", false, Stage::Deprecated, ONCE_FREE),
    gate("ShardedListAndWatch", false, Stage::Alpha, FREE),
    gate("SizeBasedListCostEstimate", true, Stage::Beta, FREE),
    gate("StorageVersionAPI", false, Stage::Alpha, FREE),
    gate("StorageVersionHash", true, Stage::Beta, FREE),
    gate("StreamingCollectionEncodingToJSON", true, Stage::Ga, LOCKED),
    gate(
        "StreamingCollectionEncodingToProtobuf",
        true,
        Stage::Ga,
        LOCKED,
    ),
    gate(
        "StructuredAuthenticationConfiguration",
        true,
        Stage::Ga,
        LOCKED,
    ),
    gate(
        "StructuredAuthenticationConfigurationEgressSelector",
        true,
        Stage::Beta,
        FREE,
    ),
    gate(
        "StructuredAuthenticationConfigurationJWKSMetrics",
        true,
        Stage::Beta,
        FREE,
    ),
    gate(
        "TokenRequestServiceAccountUIDValidation",
        true,
        Stage::Beta,
        FREE,
    ),
    gate("UnauthenticatedHTTP2DOSMitigation", true, Stage::Beta, FREE),
    gate(
        "UnknownVersionInteroperabilityProxy",
        true,
        Stage::Beta,
        FREE,
    ),
    gate(
        "WatchCacheInitializationPostStartHook",
        true,
        Stage::Beta,
        FREE,
    ),
    gate("WatchList", true, Stage::Beta, FREE),
];

const LOCKED: bool = true;
const FREE: bool = false;
/// Locked now, free in a release that accepted either value.
const ONCE_FREE: bool = FREE;

const fn gate(name: &'static str, default: bool, stage: Stage, locked: bool) -> Gate {
    Gate {
        name,
        default,
        stage,
        locked,
    }
}
