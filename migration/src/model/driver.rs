//! The rules that a plugin's table can have.

/// One in-tree plugin and the CSI driver that replaced it.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// Name of the plugin: `provisioner` of its classes.
    pub plugin: &'static str,
    /// Name of the CSI driver.
    pub name: &'static str,
    /// Field of the plugin's source in `spec` of a PersistentVolume, and in a pod's volume.
    pub source: &'static str,
    /// Translation of a PersistentVolume of the plugin into one of the driver.
    pub to_csi: ToCsi,
    /// Translation of a PersistentVolume of the driver into one of the plugin.
    pub to_in_tree: ToInTree,
    /// Keys of zones and regions; `None` leaves a volume's topology unchanged.
    pub topology: Option<Topology>,
    /// Translation of a class of the plugin for the driver; `None` leaves it unchanged.
    pub class: Option<ClassRules>,
    /// Translation of a pod's volume without a PersistentVolume.
    pub inline: Inline,
    /// Completes a handle with the ID of a node; `None` leaves it unchanged.
    pub repair: Option<Repair>,
    /// Determines which handles may refer to the same volume.
    pub identity: Identity,
}

/// Rules that turn a plugin's source into `spec.csi`.
#[derive(Clone, Copy, Debug)]
pub struct ToCsi {
    /// The parts of `volumeHandle`, in order.
    pub handle: &'static [Part],
    /// Fields with the same name on both sides, copied unless empty.
    pub copied: &'static [&'static str],
    /// `volumeAttributes`
    pub attributes: &'static [(&'static str, Attribute)],
    /// References to Secrets.
    pub secrets: Secrets,
    /// Fields of the source with a single permitted value, in any case, where they are set.
    pub only: &'static [(&'static str, &'static str)],
    /// `spec.accessModes`
    pub access_modes: AccessModes,
}

/// A part of a handle or name.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A fixed text.
    Text(&'static str),
    /// A field of the source.
    Field(&'static str),
    /// The ID in a field of the source, which may be an `aws://` URL.
    AwsId(&'static str),
    /// `zones/<zone>` or `regions/<region>`, from the volume's labels.
    Location(ZoneForm),
    /// The volume's annotation, empty where it is absent.
    Annotation(&'static str),
    /// The storage account in the name of a Secret, which is in a field of the source.
    Account(&'static str),
    /// Namespace of the Secret: the field of the source, else that of the claim, or of the pod.
    Namespace(&'static str),
    /// Name of the PersistentVolume, or of the pod's volume.
    VolumeName,
}

/// A value in `volumeAttributes`.
#[derive(Clone, Copy, Debug)]
pub enum Attribute {
    /// A fixed text.
    Fixed(&'static str),
    /// A field of the source, always.
    Field(&'static str),
    /// A field of the source, where it is set, even if empty.
    IfSet(&'static str),
    /// A field of the source, unless it is empty.
    UnlessEmpty(&'static str),
    /// A field of the source, in decimal.
    Number {
        /// The field.
        field: &'static str,
        /// Text for 0.
        zero: &'static str,
    },
}

/// References to Secrets in `spec.csi`.
#[derive(Clone, Copy, Debug)]
pub enum Secrets {
    /// No Secret is referenced.
    None,
    /// `nodeStageSecretRef`: name and namespace are in these fields of the source, the namespace as for
    /// [`Part::Namespace`].
    NodeStage {
        /// Field of the name.
        name: &'static str,
        /// Field of the namespace.
        namespace: &'static str,
    },
    /// These references, to the Secret in two annotations.
    Annotated {
        /// Annotation of the name.
        name: &'static str,
        /// Annotation of the namespace.
        namespace: &'static str,
        /// The references.
        references: &'static [&'static str],
    },
}

/// Translation of `spec.accessModes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessModes {
    /// The access modes stay unchanged.
    Keep,
    /// A single mode: read-only for many nodes if the list has that and no writing mode, else writing on one node.
    One,
}

/// Rules that turn `spec.csi` into the source of a plugin.
#[derive(Clone, Copy, Debug)]
pub struct ToInTree {
    /// The fields of the source.
    pub fields: &'static [Restored],
    /// Values from the handle, for fields that are empty otherwise.
    pub fallback: Option<Fallback>,
}

/// A field of a plugin's source.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// The field.
    pub field: &'static str,
    /// Places of its value; the first one that has a value counts.
    pub from: &'static [Origin],
    /// The value if no place has one.
    pub otherwise: Otherwise,
}

/// Place of a field's value.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// `volumeHandle`
    Handle,
    /// A part of the handle between slashes, counted from 0; fewer parts are an error.
    HandlePart {
        /// The part.
        part: usize,
        /// Number of parts that the handle must have.
        of: usize,
    },
    /// The disk's name in the handle, which is an Azure URI.
    AzureDiskName,
    /// `fsType`, unless empty
    FsType,
    /// `readOnly`, if true
    ReadOnly,
    /// A fixed text.
    Fixed(&'static str),
    /// The attribute with this key.
    Attribute(&'static str),
    /// The attribute with this key in any case.
    AnyCase(&'static str),
    /// The attribute with this key in any case, unless empty.
    AnyCaseUnlessEmpty(&'static str),
    /// The attribute with this key, a 32-bit number.
    Number {
        /// The key.
        key: &'static str,
        /// Whether an empty attribute counts as absent.
        may_be_empty: bool,
    },
    /// `nodeStageSecretRef.name`, unless empty
    SecretName,
    /// `nodeStageSecretRef.namespace`, if the name is not empty
    SecretNamespace,
}

/// Value of a field without any.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise {
    /// The field is left out.
    Omit,
    /// A fixed text.
    Text(&'static str),
    /// `false`
    False,
}

/// Values from the parts of a handle, for when one of some fields is empty.
#[derive(Clone, Copy, Debug)]
pub struct Fallback {
    /// Separator of the parts.
    pub separator: char,
    /// Least number of parts.
    pub at_least: usize,
    /// The fields; each with the text before its part, the index of the part from 0, and the text after it.
    pub fields: &'static [(&'static str, &'static str, usize, &'static str)],
    /// Annotation with the part that it gets, unless that is empty.
    pub annotation: (&'static str, usize),
}

/// Keys of zones and regions.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    /// The driver's key of a zone.
    pub zone: &'static str,
    /// Regions of the driver.
    pub region: Region,
    /// Form of zones in a label.
    pub label: ZoneLabel,
}

/// Regions of a driver.
#[derive(Clone, Copy, Debug)]
pub enum Region {
    /// The driver has none.
    None,
    /// A region follows from the names of its zones.
    OfZones(ZoneForm),
    /// Regions have this key.
    Key(&'static str),
}

/// Form of zones in a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneLabel {
    /// All zones, separated by [`LABEL_SEPARATOR`](super::keys::LABEL_SEPARATOR).
    Joined,
    /// A single zone, whatever its name contains.
    One,
}

/// Form of a zone's name, from which its region follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneForm {
    /// `us-east-1a`, `us-west-2-lax-1a`
    Aws,
    /// `us-east1-a`
    Gce,
}

/// Rules of a class.
#[derive(Clone, Copy, Debug)]
pub struct ClassRules {
    /// Rules of parameters, by key in lower case.
    pub parameters: &'static [(&'static str, Parameter)],
    /// Whether parameters that are not listed are kept.
    pub keep_others: bool,
    /// Parameters that every class gets.
    pub added: &'static [(&'static str, &'static str)],
    /// The driver's key of zones in `allowedTopologies`; `None` leaves these unchanged.
    pub zone: Option<&'static str>,
    /// Whether a zone's name that is only a number does not count.
    pub numbers_are_no_zones: bool,
    /// The translated `provisioner`, if it differs.
    pub provisioner: Option<&'static str>,
}

/// Rule of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Parameter {
    /// The parameter gets this key.
    Renamed(&'static str),
    /// The parameter's value is set under each of these keys.
    Spread(&'static [&'static str]),
    /// The parameter is kept, and another parameter with this value is added.
    With(&'static str, &'static str),
    /// The parameter's value is the only permitted zone.
    Zone,
    /// The parameter's value lists the permitted zones, separated by commas.
    Zones,
}

/// Rules that turn a pod's volume without a PersistentVolume into one.
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
    /// A fixed mode.
    Always(&'static str),
    /// `ReadOnlyMany` if the source has `readOnly`, else `ReadWriteOnce`.
    ByReadOnly,
}

/// Rules for a handle that contains its zone or region, as the ID of a node does: `projects/<p>/zones/<z>/disks/<d>`.
#[derive(Clone, Copy, Debug)]
pub struct Repair {
    /// Least number of parts of handle and node ID.
    pub parts: usize,
    /// Form of the node's zone, from which the region follows.
    pub zone: ZoneForm,
}

/// Determines which handles may refer to the same volume, where one is the driver's own and another comes from a
/// plugin's source, which carries less.
#[derive(Clone, Copy, Debug)]
pub enum Identity {
    /// Equal handles.
    Exact,
    /// Equal handles. The plugin's source has another ID than the driver, which may change, like the path of a file:
    /// two that differ may refer to the same volume as well.
    Elsewhere,
    /// Handles that are equal in any case.
    AnyCase,
    /// Handles with the same part at this index from 0, separated by this character.
    Part(char, usize),
    /// `projects/<p>/zones/<z>/disks/<d>` or `projects/<p>/regions/<r>/disks/<d>` of the same disk, unless their
    /// projects, zones or regions are known to differ.
    DiskPath,
}
