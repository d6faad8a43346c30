//! Why something cannot be translated.

use std::collections::BTreeSet;
use std::fmt;

/// Why an object cannot be translated: the object, the field, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Kind and name of the object; empty where a name was asked for alone.
    pub object: String,
    /// Path of the field in the object; empty where it is the object as a whole.
    pub field: String,
    /// What is wrong with it.
    pub cause: Cause,
}

/// What is wrong. The text is the one that upstream's sidecars put into events and statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no volume.
    NoVolume,
    /// There is no PersistentVolume with a CSI source.
    NoCsiVolume,
    /// The volume of this name has no source that can be translated.
    NoSource(String),
    /// No plugin was replaced by this CSI driver; asked with a volume.
    NoPluginForVolumeOf(String),
    /// Classes of this provisioner are not translated.
    NoClassPlugin(String),
    /// The PersistentVolume of this name is of no plugin that was replaced.
    NoPluginOfPersistentVolume(String),
    /// The pod's volume of this name is of no plugin that was replaced.
    NoPluginOfPodVolume(String),
    /// Neither a PersistentVolume nor a pod's volume.
    NeitherVolume,
    /// No driver replaced this plugin.
    NoDriver(String),
    /// This driver replaced no plugin.
    NoPlugin(String),
    /// The field has another type.
    NotA(&'static str),
    /// An id in the form of a URL that is none.
    NotAUrl {
        /// The id.
        id: String,
        /// Why not.
        why: UrlFault,
    },
    /// An id in the form of a URL whose path is no volume id.
    NotAVolumeId(String),
    /// The zones of a label have no region.
    LabelRegion(RegionFault),
    /// The zones of a volume's topology have no region.
    TopologyRegion(RegionFault),
    /// The zone of a node has no region.
    NodeRegion {
        /// The zone.
        zone: String,
        /// Why not.
        why: RegionFault,
    },
    /// No number of a partition.
    Partition {
        /// What is there.
        value: String,
        /// Whether it is a number, but beyond 32 bits.
        too_large: bool,
    },
    /// A handle of fewer parts than needed, between slashes.
    HandleParts {
        /// How many there are.
        got: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// A handle with less than two `#`.
    HandleSeparators {
        /// The handle.
        handle: String,
    },
    /// No name of a disk in a URI.
    NoDiskName {
        /// The URI.
        uri: String,
        /// What it should look like.
        form: &'static str,
    },
    /// A kind of disk that no CSI driver serves.
    Kind(String),
    /// No namespace of the Secret.
    NoSecretNamespace,
    /// Zones both as parameters and as topologies of a class.
    ZonesTwice,
    /// A handle or node id of fewer parts than needed to repair it.
    RepairParts {
        /// `volume handle` or `node handle`
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// A handle that is neither of a zone nor of a region.
    Regionality(String),
}

/// Why text is no URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlFault {
    /// A control character.
    Control,
    /// `%` without two hexadecimal digits.
    Escape,
    /// Something in the host that cannot be there.
    Host,
    /// A port that is no number.
    Port,
    /// Something before `@` that cannot be there.
    UserInfo,
    /// The path's escapes are not UTF-8.
    Text,
}

/// Why zones have no region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionFault {
    /// There are none.
    NoZones,
    /// A name that is no AWS zone's.
    NotAws(String),
    /// A name that is no GCE zone's.
    NotGce(String),
    /// They are of several regions.
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

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (", self.cause)?;
        for part in [&self.object, &self.field] {
            if !part.is_empty() {
                write!(out, "{part}: ")?;
            }
        }
        write!(out, "{})", self.way_out())
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Cause {
    #[expect(clippy::too_many_lines, reason = "one text for each cause")]
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NO_LOGIC: &str = "could not find in-tree plugin translation logic for";
        const NO_NAME: &str = "could not find in-tree plugin name from";
        const NO_AWS_ID: &str = "failed to translate Kubernetes ID to EBS Volume ID";
        match self {
            Self::NoVolume => write!(out, "persistent volume was nil"),
            Self::NoCsiVolume => write!(out, "CSI persistent volume was nil"),
            Self::NoSource(name) => write!(out, "{NO_LOGIC} {name:?}"),
            Self::NoPluginForVolumeOf(driver) => write!(out, "{NO_LOGIC} {driver}"),
            Self::NoClassPlugin(plugin) => write!(
                out,
                "could not find in-tree storage class parameter translation logic for {plugin:?}"
            ),
            Self::NoPluginOfPersistentVolume(name) => {
                write!(out, "{NO_NAME} persistent volume {name}")
            }
            Self::NoPluginOfPodVolume(name) => write!(out, "{NO_NAME} volume {name}"),
            Self::NeitherVolume => write!(out, "both persistent volume and volume are nil"),
            Self::NoDriver(plugin) => {
                write!(out, "could not find CSI Driver name for plugin {plugin}")
            }
            Self::NoPlugin(driver) => write!(
                out,
                "could not find In-Tree driver name for CSI plugin {driver}"
            ),
            Self::NotA(kind) => write!(out, "not a {kind}"),
            Self::ZonesTwice => write!(
                out,
                "cannot simultaneously set allowed topologies and zone/zones parameters"
            ),
            Self::LabelRegion(why) => write!(out, "failed to get region from zones: {why}"),
            Self::TopologyRegion(why) => write!(
                out,
                "failed to translate topology. Error:Failed to handle region topology. error: {why}"
            ),
            Self::NodeRegion { zone, why } => {
                write!(out, "failed to get region from zone {zone}: {why}")
            }
            Self::Kind(kind) => write!(out, "kind({kind}) is not supported in csi migration"),
            Self::NoSecretNamespace => write!(
                out,
                "could not find a secret namespace in PersistentVolumeSource or ClaimRef"
            ),
            Self::NotAUrl { id, why } => {
                write!(
                    out,
                    "{NO_AWS_ID} Invalid disk name ({id}): parse {id:?}: {why}"
                )
            }
            Self::NotAVolumeId(id) => {
                write!(out, "{NO_AWS_ID} Invalid format for AWS volume ({id})")
            }
            Self::Partition { value, too_large } => {
                let why = if *too_large {
                    "value out of range"
                } else {
                    "invalid syntax"
                };
                write!(
                    out,
                    "failed to convert partition {value} to integer: {value:?}: {why}"
                )
            }
            Self::HandleParts { got, wanted } => write!(
                out,
                "failed to get id components.Got: {got}, wanted {wanted} components or more. "
            ),
            Self::HandleSeparators { handle } => write!(
                out,
                "error parsing volume id: {handle:?}, should at least contain two #"
            ),
            Self::NoDiskName { uri, form } => write!(
                out,
                "could not get disk name from {uri}, correct format: {form}"
            ),
            Self::RepairParts { what, got, wanted } => write!(
                out,
                "{what} has wrong number of elements; got {got}, wanted {wanted} or more"
            ),
            Self::Regionality(part) => write!(
                out,
                "expected volume handle to have zones or regions regionality value, got: {part}"
            ),
        }
    }
}

impl fmt::Display for UrlFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Control => "invalid control character",
            Self::Escape => "invalid URL escape",
            Self::Host => "invalid host",
            Self::Port => "invalid port",
            Self::UserInfo => "invalid userinfo",
            Self::Text => "escapes that are not UTF-8",
        })
    }
}

impl fmt::Display for RegionFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoZones => write!(out, "no zones specified"),
            Self::NotAws(zone) => {
                write!(
                    out,
                    "Unexpected zone format: {zone} is not a valid AWS zone"
                )
            }
            Self::NotGce(zone) => write!(
                out,
                "zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            ),
            Self::Several(regions) => {
                let regions: Vec<_> = { regions.iter() }
                    .map(|region| format!("{region}:{{}}"))
                    .collect();
                write!(
                    out,
                    "multiple or no regions gotten from zones, got: map[{}]",
                    regions.join(" ")
                )
            }
        }
    }
}
