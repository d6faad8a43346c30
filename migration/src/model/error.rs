//! Why an object cannot be translated.

use std::collections::BTreeSet;

/// Error of a translation: the object, the field, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause} ({}{})", self.location(), self.advice())]
pub struct Error {
    /// Kind and name of the object; empty where only a name was to be translated.
    pub object: String,
    /// Path of the field in the object; empty if the error concerns the object as a whole.
    pub field: String,
    /// The cause.
    pub cause: Cause,
}

/// Cause of an error. The text is the one that upstream's sidecars put into events and statuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// No volume was given.
    #[error("persistent volume was nil")]
    NoVolume,
    /// The PersistentVolume has no CSI source.
    #[error("CSI persistent volume was nil")]
    NoCsiVolume,
    /// The volume of this name has no source that can be translated.
    #[error("could not find in-tree plugin translation logic for {0:?}")]
    NoSource(String),
    /// No plugin was replaced by this CSI driver of a volume.
    #[error("could not find in-tree plugin translation logic for {0}")]
    NoPluginForVolumeOf(String),
    /// Classes of this provisioner are not translated.
    #[error("could not find in-tree storage class parameter translation logic for {0:?}")]
    NoClassPlugin(String),
    /// The PersistentVolume of this name is of no plugin that was replaced.
    #[error("could not find in-tree plugin name from persistent volume {0}")]
    NoPluginOfPersistentVolume(String),
    /// The pod's volume of this name is of no plugin that was replaced.
    #[error("could not find in-tree plugin name from volume {0}")]
    NoPluginOfPodVolume(String),
    /// Neither a PersistentVolume nor a pod's volume.
    #[error("both persistent volume and volume are nil")]
    NeitherVolume,
    /// No driver replaced this plugin.
    #[error("could not find CSI Driver name for plugin {0}")]
    NoDriver(String),
    /// This driver replaced no plugin.
    #[error("could not find In-Tree driver name for CSI plugin {0}")]
    NoPlugin(String),
    /// The field has another type.
    #[error("not a {0}")]
    NotA(&'static str),
    /// An ID in the form of a URL that is not a valid URL.
    #[error(
        "failed to translate Kubernetes ID to EBS Volume ID Invalid disk name ({id}): parse {id:?}: {why}"
    )]
    NotAUrl {
        /// The id.
        id: String,
        /// The reason.
        why: UrlFault,
    },
    /// An ID in the form of a URL whose path is not a volume ID.
    #[error(
        "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({0})"
    )]
    NotAVolumeId(String),
    /// The zones of a label have no region.
    #[error("failed to get region from zones: {0}")]
    LabelRegion(RegionFault),
    /// The zones of a volume's topology have no region.
    #[error("failed to translate topology. Error:Failed to handle region topology. error: {0}")]
    TopologyRegion(RegionFault),
    /// The zone of a node has no region.
    #[error("failed to get region from zone {zone}: {why}")]
    NodeRegion {
        /// The zone.
        zone: String,
        /// The reason.
        why: RegionFault,
    },
    /// A partition that is not a number.
    #[error(
        "failed to convert partition {value} to integer: {value:?}: {}",
        if *too_large { "value out of range" } else { "invalid syntax" }
    )]
    Partition {
        /// The text.
        value: String,
        /// Whether it is a number outside 32 bits.
        too_large: bool,
    },
    /// A handle with too few parts, separated by slashes.
    #[error("failed to get id components.Got: {got}, wanted {wanted} components or more. ")]
    HandleParts {
        /// Number of its parts.
        got: usize,
        /// Least number of parts.
        wanted: usize,
    },
    /// A handle with fewer than two `#`.
    #[error("error parsing volume id: {handle:?}, should at least contain two #")]
    HandleSeparators {
        /// The handle.
        handle: String,
    },
    /// A URI without the name of a disk.
    #[error("could not get disk name from {uri}, correct format: {form}")]
    NoDiskName {
        /// The URI.
        uri: String,
        /// The expected form.
        form: &'static str,
    },
    /// A kind of disk that no CSI driver supports.
    #[error("kind({0}) is not supported in csi migration")]
    Kind(String),
    /// The Secret has no namespace.
    #[error("could not find a secret namespace in PersistentVolumeSource or ClaimRef")]
    NoSecretNamespace,
    /// A class has zones both in its parameters and in its topologies.
    #[error("cannot simultaneously set allowed topologies and zone/zones parameters")]
    ZonesTwice,
    /// A handle or node ID with too few parts to repair it.
    #[error("{what} has wrong number of elements; got {got}, wanted {wanted} or more")]
    RepairParts {
        /// `volume handle` or `node handle`
        what: &'static str,
        /// Number of its parts.
        got: usize,
        /// Least number of parts.
        wanted: usize,
    },
    /// A handle that is neither zonal nor regional.
    #[error("expected volume handle to have zones or regions regionality value, got: {0}")]
    Regionality(String),
}

/// Why a text is not a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// The text has a control character.
    #[error("invalid control character")]
    Control,
    /// The text has a `%` without two hexadecimal digits.
    #[error("invalid URL escape")]
    Escape,
    /// The host has an invalid character.
    #[error("invalid host")]
    Host,
    /// The port is not a number.
    #[error("invalid port")]
    Port,
    /// The user information before `@` has an invalid character.
    #[error("invalid userinfo")]
    UserInfo,
    /// The path's escapes are not UTF-8.
    #[error("escapes that are not UTF-8")]
    Text,
}

/// Why zones have no region.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionFault {
    /// There are no zones.
    #[error("no zones specified")]
    NoZones,
    /// A name that is not that of an AWS zone.
    #[error("Unexpected zone format: {0} is not a valid AWS zone")]
    NotAws(String),
    /// A name that is not that of a GCE zone.
    #[error("zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {0}")]
    NotGce(String),
    /// The zones are of several regions.
    #[error("multiple or no regions gotten from zones, got: map[{}]", set(.0))]
    Several(BTreeSet<String>),
}

impl Error {
    pub(crate) fn at(field: impl Into<String>, cause: Cause) -> Self {
        let (object, field) = (String::new(), field.into());
        Self {
            object,
            field,
            cause,
        }
    }

    pub(crate) fn of(mut self, kind: &str, name: &str) -> Self {
        self.object = format!("{kind} {name:?}");
        self
    }

    fn location(&self) -> String {
        let parts = [&self.object, &self.field].into_iter();
        let parts = parts.filter(|part| !part.is_empty());
        parts.map(|part| format!("{part}: ")).collect()
    }

    /// The remedy, as advice to users.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self.cause {
            Cause::NoVolume | Cause::NoCsiVolume | Cause::NeitherVolume => "give a volume",
            Cause::NoSource(_)
            | Cause::NoPluginOfPersistentVolume(_)
            | Cause::NoPluginOfPodVolume(_) => {
                "a source of one of the seven migrated plugins is needed"
            }
            Cause::NoPluginForVolumeOf(_)
            | Cause::NoClassPlugin(_)
            | Cause::NoDriver(_)
            | Cause::NoPlugin(_) => "it is none of the seven migrated plugins and their drivers",
            Cause::NotA(_) => "the API server would refuse it; restore the field",
            Cause::NotAUrl { .. } | Cause::NotAVolumeId(_) => {
                "name the volume as vol-<id> or aws://<zone>/vol-<id>"
            }
            Cause::LabelRegion(_) => "name zones of one region, with __ between them",
            Cause::TopologyRegion(_) => "the driver must name zones of one region in each topology",
            Cause::NodeRegion { .. } => "the driver must register nodes with the zone they are in",
            Cause::Partition { .. } => "leave it out, or give a number",
            Cause::HandleParts { .. } | Cause::RepairParts { .. } | Cause::Regionality(_) => {
                "the form is projects/<project>/zones/<zone>/disks/<name>, for nodes instances/<name>"
            }
            Cause::HandleSeparators { .. } => "the form is <group>#<account>#<share>",
            Cause::NoDiskName { .. } => "the driver must answer with the URI of a managed disk",
            Cause::Kind(_) => {
                "only managed disks have a CSI driver; if it is one, make the volume again with \
                 kind Managed"
            }
            Cause::NoSecretNamespace => "set secretNamespace, or bind the volume to a claim",
            Cause::ZonesTwice => "give the zones in allowedTopologies alone",
        }
    }
}

/// A set in Go's notation.
fn set(names: &BTreeSet<String>) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name}:{{}}")).collect();
    names.join(" ")
}
