//! Why something cannot be translated.

use std::collections::BTreeSet;

/// Why an object cannot be translated: the object, the field, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause} ({}{})", self.place(), self.way_out())]
pub struct Error {
    /// Kind and name of the object; empty where a name was asked for alone.
    pub object: String,
    /// Path of the field in the object; empty where it is the object as a whole.
    pub field: String,
    /// What is wrong with it.
    pub cause: Cause,
}

/// What is wrong. The text is the one that upstream's sidecars put into events and statuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// There is no volume.
    #[error("persistent volume was nil")]
    NoVolume,
    /// There is no PersistentVolume with a CSI source.
    #[error("CSI persistent volume was nil")]
    NoCsiVolume,
    /// The volume of this name has no source that can be translated.
    #[error("could not find in-tree plugin translation logic for {0:?}")]
    NoSource(String),
    /// No plugin was replaced by this CSI driver; asked with a volume.
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
    /// An id in the form of a URL that is none.
    #[error(
        "failed to translate Kubernetes ID to EBS Volume ID Invalid disk name ({id}): parse {id:?}: {why}"
    )]
    NotAUrl {
        /// The id.
        id: String,
        /// Why not.
        why: UrlFault,
    },
    /// An id in the form of a URL whose path is no volume id.
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
        /// Why not.
        why: RegionFault,
    },
    /// No number of a partition.
    #[error(
        "failed to convert partition {value} to integer: {value:?}: {}",
        if *too_large { "value out of range" } else { "invalid syntax" }
    )]
    Partition {
        /// What is there.
        value: String,
        /// Whether it is a number, but beyond 32 bits.
        too_large: bool,
    },
    /// A handle of fewer parts than needed, between slashes.
    #[error("failed to get id components.Got: {got}, wanted {wanted} components or more. ")]
    HandleParts {
        /// How many there are.
        got: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// A handle with less than two `#`.
    #[error("error parsing volume id: {handle:?}, should at least contain two #")]
    HandleSeparators {
        /// The handle.
        handle: String,
    },
    /// No name of a disk in a URI.
    #[error("could not get disk name from {uri}, correct format: {form}")]
    NoDiskName {
        /// The URI.
        uri: String,
        /// What it should look like.
        form: &'static str,
    },
    /// A kind of disk that no CSI driver serves.
    #[error("kind({0}) is not supported in csi migration")]
    Kind(String),
    /// No namespace of the Secret.
    #[error("could not find a secret namespace in PersistentVolumeSource or ClaimRef")]
    NoSecretNamespace,
    /// Zones both as parameters and as topologies of a class.
    #[error("cannot simultaneously set allowed topologies and zone/zones parameters")]
    ZonesTwice,
    /// A handle or node id of fewer parts than needed to repair it.
    #[error("{what} has wrong number of elements; got {got}, wanted {wanted} or more")]
    RepairParts {
        /// `volume handle` or `node handle`
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// A handle that is neither of a zone nor of a region.
    #[error("expected volume handle to have zones or regions regionality value, got: {0}")]
    Regionality(String),
}

/// Why text is no URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// A control character.
    #[error("invalid control character")]
    Control,
    /// `%` without two hexadecimal digits.
    #[error("invalid URL escape")]
    Escape,
    /// Something in the host that cannot be there.
    #[error("invalid host")]
    Host,
    /// A port that is no number.
    #[error("invalid port")]
    Port,
    /// Something before `@` that cannot be there.
    #[error("invalid userinfo")]
    UserInfo,
    /// The path's escapes are not UTF-8.
    #[error("escapes that are not UTF-8")]
    Text,
}

/// Why zones have no region.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionFault {
    /// There are none.
    #[error("no zones specified")]
    NoZones,
    /// A name that is no AWS zone's.
    #[error("Unexpected zone format: {0} is not a valid AWS zone")]
    NotAws(String),
    /// A name that is no GCE zone's.
    #[error("zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {0}")]
    NotGce(String),
    /// They are of several regions.
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

    fn place(&self) -> String {
        let parts = [&self.object, &self.field].into_iter();
        let parts = parts.filter(|part| !part.is_empty());
        parts.map(|part| format!("{part}: ")).collect()
    }

    /// What to do about it.
    #[must_use]
    pub fn way_out(&self) -> &'static str {
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

/// As Go writes a set.
fn set(names: &BTreeSet<String>) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name}:{{}}")).collect();
    names.join(" ")
}
