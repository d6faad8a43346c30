//! What can be said about a plugin in its table.

/// One in-tree plugin and the CSI driver that replaced it.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// Name of the plugin: `provisioner` of its classes.
    pub plugin: &'static str,
    /// Name of the CSI driver.
    pub name: &'static str,
    /// Field of the plugin's source in `spec` of a PersistentVolume, and in a volume of a pod.
    pub source: &'static str,
    /// A PersistentVolume of the plugin as one of the driver.
    pub to_csi: ToCsi,
    /// A PersistentVolume of the driver as one of the plugin.
    pub to_in_tree: ToInTree,
    /// Keys of zones and regions; `None` leaves a volume's topology as it is.
    pub topology: Option<Topology>,
    /// A class of the plugin in the driver's words; `None` leaves it as it is.
    pub class: Option<ClassRules>,
    /// A volume that a pod names without a PersistentVolume.
    pub inline: Inline,
    /// How a handle is completed with the id of a node; `None` leaves it as it is.
    pub repair: Option<Repair>,
    /// Which handles may be one volume's.
    pub identity: Identity,
}

/// How `spec.csi` is made of a plugin's source.
#[derive(Clone, Copy, Debug)]
pub struct ToCsi {
    /// `volumeHandle`, part after part.
    pub handle: &'static [Part],
    /// Fields that both have, copied unless empty.
    pub copied: &'static [&'static str],
    /// `volumeAttributes`
    pub attributes: &'static [(&'static str, Attribute)],
    /// References to Secrets.
    pub secrets: Secrets,
    /// Fields of the source that have one permitted value, in any case, where they are set.
    pub only: &'static [(&'static str, &'static str)],
    /// `spec.accessModes`
    pub access_modes: AccessModes,
}

/// A part of a handle or name.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// This text.
    Text(&'static str),
    /// The source's field.
    Field(&'static str),
    /// The id in the source's field, which may be an `aws://` URL.
    AwsId(&'static str),
    /// `zones/<zone>` or `regions/<region>`, from the volume's labels.
    Location(ZoneForm),
    /// The volume's annotation, empty where it is absent.
    Annotation(&'static str),
    /// The storage account in the name of a Secret, which the source's field gives.
    Account(&'static str),
    /// Namespace of the Secret: the source's field, else that of the claim, or of the pod.
    Namespace(&'static str),
    /// Name of the PersistentVolume, or of the pod's volume.
    VolumeName,
}

/// A value in `volumeAttributes`.
#[derive(Clone, Copy, Debug)]
pub enum Attribute {
    /// This text.
    Fixed(&'static str),
    /// The source's field, always.
    Field(&'static str),
    /// The source's field, where it is set, if to nothing.
    IfSet(&'static str),
    /// The source's field, unless it is empty.
    UnlessEmpty(&'static str),
    /// The source's field in decimal.
    Number {
        /// The field.
        field: &'static str,
        /// What is written for 0.
        zero: &'static str,
    },
}

/// References to Secrets in `spec.csi`.
#[derive(Clone, Copy, Debug)]
pub enum Secrets {
    /// None.
    None,
    /// `nodeStageSecretRef`: name and namespace in these fields of the source, the namespace as for
    /// [`Part::Namespace`].
    NodeStage {
        /// Field of the name.
        name: &'static str,
        /// Field of the namespace.
        namespace: &'static str,
    },
    /// These references, to the Secret that two annotations name.
    Annotated {
        /// Annotation of the name.
        name: &'static str,
        /// Annotation of the namespace.
        namespace: &'static str,
        /// The references.
        references: &'static [&'static str],
    },
}

/// What becomes of `spec.accessModes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessModes {
    /// Kept.
    Keep,
    /// One mode: read-only for many nodes if that is asked for and writing is not, else writing on
    /// one node.
    One,
}

/// How the source of a plugin is made of `spec.csi`.
#[derive(Clone, Copy, Debug)]
pub struct ToInTree {
    /// The fields of the source.
    pub fields: &'static [Restored],
    /// What the handle says where the fields do not.
    pub fallback: Option<Fallback>,
}

/// A field of a plugin's source.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// The field.
    pub field: &'static str,
    /// Where its value is looked for, first come first served.
    pub from: &'static [Origin],
    /// What is written if nowhere is one.
    pub otherwise: Otherwise,
}

/// Where the value of a field is looked for.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// `volumeHandle`
    Handle,
    /// A part of the handle between slashes, counted from 0; fewer parts are an error.
    HandlePart {
        /// The part.
        part: usize,
        /// How many there must be.
        of: usize,
    },
    /// The disk's name in the handle, which is an Azure URI.
    AzureDiskName,
    /// `fsType`, unless empty
    FsType,
    /// `readOnly`, if true
    ReadOnly,
    /// This text.
    Fixed(&'static str),
    /// The attribute with this key.
    Attribute(&'static str),
    /// The attribute with this key in any case.
    AnyCase(&'static str),
    /// The attribute with this key in any case, unless empty.
    AnyCaseUnlessEmpty(&'static str),
    /// The attribute with this key, a number of 32 bits.
    Number {
        /// The key.
        key: &'static str,
        /// Whether an empty value is none.
        may_be_empty: bool,
    },
    /// `nodeStageSecretRef.name`, unless empty
    SecretName,
    /// `nodeStageSecretRef.namespace`, if the name is not empty
    SecretNamespace,
}

/// What is written for a field without value.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise {
    /// Nothing.
    Omit,
    /// This text.
    Text(&'static str),
    /// `false`
    False,
}

/// What is read from a handle of parts, if one of some fields is empty.
#[derive(Clone, Copy, Debug)]
pub struct Fallback {
    /// Between the parts.
    pub separator: char,
    /// How many parts there must be.
    pub at_least: usize,
    /// The fields, and for each what is around the part that it is, counted from 0.
    pub fields: &'static [(&'static str, &'static str, usize, &'static str)],
    /// Annotation that a part becomes, unless that is empty.
    pub annotation: (&'static str, usize),
}

/// Keys of zones and regions.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    /// The driver's key of a zone.
    pub zone: &'static str,
    /// What the driver knows of regions.
    pub region: Region,
    /// How a label names zones.
    pub label: ZoneLabel,
}

/// What a driver knows of regions.
#[derive(Clone, Copy, Debug)]
pub enum Region {
    /// Nothing.
    None,
    /// They follow from the zones.
    OfZones(ZoneForm),
    /// They have a key of their own.
    Key(&'static str),
}

/// How a label names zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneLabel {
    /// All of them, with [`LABEL_SEPARATOR`](super::keys::LABEL_SEPARATOR) between them.
    Joined,
    /// One, whatever is in its name.
    One,
}

/// How a zone's name tells its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneForm {
    /// `us-east-1a`, `us-west-2-lax-1a`
    Aws,
    /// `us-east1-a`
    Gce,
}

/// How a class is translated.
#[derive(Clone, Copy, Debug)]
pub struct ClassRules {
    /// What becomes of parameters, by key in lower case.
    pub parameters: &'static [(&'static str, Parameter)],
    /// Whether parameters that are not listed are kept.
    pub keep_others: bool,
    /// Parameters that every class gets.
    pub added: &'static [(&'static str, &'static str)],
    /// The driver's key of zones in `allowedTopologies`; `None` leaves these as they are.
    pub zone: Option<&'static str>,
    /// Whether a zone that is only a number is no zone.
    pub numbers_are_no_zones: bool,
    /// Another `provisioner`.
    pub provisioner: Option<&'static str>,
}

/// What becomes of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Parameter {
    /// It gets this key.
    Renamed(&'static str),
    /// Its value is said under each of these keys.
    Spread(&'static [&'static str]),
    /// It is kept, and another one goes with it.
    With(&'static str, &'static str),
    /// Its value is the only permitted zone.
    Zone,
    /// Its value lists permitted zones, with commas.
    Zones,
}

/// How a volume that a pod names without a PersistentVolume becomes one.
#[derive(Clone, Copy, Debug)]
pub struct Inline {
    /// Name of the PersistentVolume.
    pub name: &'static [Part],
    /// `volumeAttributes`
    pub attributes: &'static [(&'static str, Attribute)],
    /// The access mode.
    pub access_mode: InlineMode,
}

/// The access mode of a pod's own volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineMode {
    /// This one.
    Always(&'static str),
    /// `ReadOnlyMany` if the source says `readOnly`, else `ReadWriteOnce`.
    ByReadOnly,
}

/// A handle that names its place, as the id of a node does: `projects/<p>/zones/<z>/disks/<d>`.
#[derive(Clone, Copy, Debug)]
pub struct Repair {
    /// How many parts handle and node id have at least.
    pub parts: usize,
    /// How the node's zone tells the region.
    pub zone: ZoneForm,
}

/// Which handles may be one volume's, where one is the driver's own and another is made of a plugin's
/// source, which says less.
#[derive(Clone, Copy, Debug)]
pub enum Identity {
    /// The same ones.
    Exact,
    /// The same ones. The plugin's source names the volume by something else than the driver, which may
    /// change, as the path of a file does: two that differ may be one as well.
    Elsewhere,
    /// The same ones in any case.
    AnyCase,
    /// Those that have the same part of this number between these characters, counted from 0.
    Part(char, usize),
    /// `projects/<p>/zones/<z>/disks/<d>` or `projects/<p>/regions/<r>/disks/<d>` of the same disk, unless
    /// project, zone or region are known to differ.
    Place,
}
