//! The gates of Kubernetes' generic API server library, which upstream's controllers link.
//!
//! Separate from the mechanism, because the names are Kubernetes': manifests that carry them must go on
//! working, although none of them ever had an effect in a sidecar. Taken from the library of
//! external-attacher 4.13, external-resizer 2.3 and external-snapshotter 8.7, its version 0.37, and of
//! external-provisioner 6.4, which links 0.36.

use super::{Gate, Stage};

/// Gates that upstream's attacher, resizer, snapshotter and snapshot-controller accept without effect.
/// For [`Gates::ignoring`](super::Gates::ignoring).
pub static API_SERVER: &[&[Gate]] = &[BOTH, SINCE_0_37];

/// Gates that upstream's provisioner accepts without effect.
pub static API_SERVER_0_36: &[&[Gate]] = &[BOTH, UNTIL_0_36];

const BOTH: &[Gate] = &[
    gate("APIResponseCompression", true, Stage::Beta, FREE),
    gate("APIServerIdentity", true, Stage::Beta, FREE),
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
        true,
        Stage::Beta,
        FREE,
    ),
    gate("CBORServingAndStorage", false, Stage::Alpha, FREE),
    gate("ComponentFlagz", true, Stage::Beta, FREE),
    gate("ComponentStatusz", true, Stage::Beta, FREE),
    gate("ConcurrentWatchObjectDecode", true, Stage::Beta, FREE),
    gate("ConstrainedImpersonation", true, Stage::Beta, FREE),
    gate("CoordinatedLeaderElection", false, Stage::Beta, FREE),
    gate("DeclarativeValidation", true, Stage::Ga, ONCE_FREE),
    gate("DeclarativeValidationBeta", true, Stage::Beta, FREE),
    gate(
        "DeclarativeValidationTakeover",
        false,
        Stage::Deprecated,
        ONCE_FREE,
    ),
    gate("DetectCacheInconsistency", true, Stage::Beta, FREE),
    gate("KMSv1", false, Stage::Deprecated, FREE),
    gate("ListFromCacheSnapshot", true, Stage::Beta, FREE),
    gate(
        "ManifestBasedAdmissionControlConfig",
        true,
        Stage::Beta,
        FREE,
    ),
    gate("MutatingAdmissionPolicy", true, Stage::Ga, FREE),
    gate("NativeHistograms", true, Stage::Beta, FREE),
    gate("OpenAPIEnums", true, Stage::Beta, FREE),
    gate("RemoteRequestHeaderUID", true, Stage::Beta, FREE),
    gate("SeparateCacheWatchRPC", false, Stage::Deprecated, ONCE_FREE),
    gate("ShardedListAndWatch", false, Stage::Alpha, FREE),
    gate("SizeBasedListCostEstimate", true, Stage::Beta, FREE),
    gate("StorageVersionAPI", false, Stage::Alpha, FREE),
    gate("StorageVersionHash", true, Stage::Beta, FREE),
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
        Stage::Ga,
        ONCE_FREE,
    ),
    gate("WatchList", true, Stage::Beta, FREE),
];

const SINCE_0_37: &[Gate] = &[
    gate(
        "APIServerWebhookAuthenticationToken",
        false,
        Stage::Alpha,
        FREE,
    ),
    gate(
        "ConsistentListFromCacheSkipTimeoutFallback",
        false,
        Stage::Alpha,
        FREE,
    ),
    gate("EtcdRangeStream", true, Stage::Beta, FREE),
    gate(
        "ExcludeAdmissionWebhookVirtualResources",
        true,
        Stage::Beta,
        FREE,
    ),
    gate("WatchListCompression", true, Stage::Beta, FREE),
    gate("WebhookRoundTripLoadBalancing", true, Stage::Beta, FREE),
];

const UNTIL_0_36: &[Gate] = &[
    gate("APIServerTracing", true, Stage::Ga, LOCKED),
    gate(
        "AnonymousAuthConfigurableEndpoints",
        true,
        Stage::Ga,
        LOCKED,
    ),
    gate("AuthorizeWithSelectors", true, Stage::Ga, LOCKED),
    gate("BtreeWatchCache", true, Stage::Ga, LOCKED),
    gate("ConsistentListFromCache", true, Stage::Ga, LOCKED),
    gate("ResilientWatchCacheInitialization", true, Stage::Ga, LOCKED),
    gate("RetryGenerateName", true, Stage::Ga, LOCKED),
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
];

const LOCKED: bool = true;
const FREE: bool = false;
/// Locked now, but free in a release that accepted either value.
const ONCE_FREE: bool = FREE;

const fn gate(name: &'static str, default: bool, stage: Stage, locked: bool) -> Gate {
    Gate {
        name,
        default,
        stage,
        locked,
    }
}
