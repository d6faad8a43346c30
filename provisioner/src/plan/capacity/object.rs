//! The content of an object: the driver's answer, in the form that the scheduler reads.

use csi_proto::csi::{GetCapacityRequest, GetCapacityResponse, Topology};
use serde_json::{Map, Value, json};

use super::desired_objects::Item;
use super::owner::Owner;
use crate::keys::{CAPACITY_DRIVER, CAPACITY_MANAGED_BY};
use crate::model::{Class, OwnerReference, Pairs, Quantity, StorageCapacity, Text};

/// The provisioner that writes the objects.
#[derive(Clone, Debug)]
pub struct Producer {
    /// The driver's name.
    pub driver: String,
    /// See [`managed_by`](super::managed_by).
    pub managed_by: String,
    /// Namespace of the objects.
    pub namespace: String,
    /// Owner of the objects, with which the garbage collector deletes them.
    pub owner: Option<Owner>,
}

/// The next step for an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing: the content is up to date.
    Keep,
    /// POST this.
    Create(Value),
    /// PUT this over the object of this name.
    Update(Text, Value),
}

/// The driver's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeCapacity {
    available: Quantity,
    /// Largest possible volume, if the driver reports it.
    largest: Option<Quantity>,
}

/// The driver's answer contains a negative number, which no object can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the driver answered GetCapacity with a negative {field}: {value}")]
pub struct Negative {
    field: &'static str,
    value: i64,
}

/// The GetCapacity request for an item. The parameters are the class's own, including those for the sidecar: upstream
/// always sent these as well, and drivers may use them.
#[must_use]
pub fn request(item: &Item, class: &Class) -> GetCapacityRequest {
    let parameters = class.parameters.iter();
    GetCapacityRequest {
        volume_capabilities: Vec::new(),
        parameters: parameters
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        accessible_topology: Some(Topology {
            segments: item.segment.to_map(),
        }),
    }
}

impl FreeCapacity {
    /// Reads the answer. The objects have no field for `minimum_volume_size`.
    ///
    /// # Errors
    /// A number is negative.
    pub fn new(answer: &GetCapacityResponse) -> Result<Self, Negative> {
        let bytes = |field, value| match value {
            0.. => Ok(Quantity::from_bytes(value)),
            _ => Err(Negative { field, value }),
        };
        let largest = answer.maximum_volume_size;
        Ok(Self {
            available: bytes("available_capacity", answer.available_capacity)?,
            largest: largest
                .map(|value| bytes("maximum_volume_size", value))
                .transpose()?,
        })
    }
}

impl Producer {
    /// The label selector of this process's own objects.
    #[must_use]
    pub fn selector(&self) -> String {
        let Self {
            driver, managed_by, ..
        } = self;
        format!("{CAPACITY_DRIVER}={driver},{CAPACITY_MANAGED_BY}={managed_by}")
    }

    /// Decides about an item's object.
    #[must_use]
    pub fn decide(
        &self,
        item: &Item,
        free: FreeCapacity,
        object: Option<&StorageCapacity>,
    ) -> Step {
        let Some(object) = object else {
            return Step::Create(self.object(item, free, self.new_metadata()));
        };
        let owned = self.owner.as_ref().is_none_or(|owner| owner.owns(object));
        if object.capacity == Some(free.available) && object.maximum == free.largest && owned {
            return Step::Keep;
        }
        let metadata = self.metadata(object);
        Step::Update(object.name.clone(), self.object(item, free, metadata))
    }

    fn object(&self, item: &Item, free: FreeCapacity, metadata: Value) -> Value {
        let text = |quantity: Quantity| Value::from(quantity.to_string());
        fields([
            ("apiVersion", Some("storage.k8s.io/v1".into())),
            ("kind", Some("CSIStorageCapacity".into())),
            ("metadata", Some(metadata)),
            ("storageClassName", Some((*item.class).into())),
            (
                "nodeTopology",
                Some(json!({"matchLabels": item.segment.to_map()})),
            ),
            ("capacity", Some(text(free.available))),
            ("maximumVolumeSize", free.largest.map(text)),
        ])
    }

    fn new_metadata(&self) -> Value {
        let labels = json!({CAPACITY_DRIVER: self.driver, CAPACITY_MANAGED_BY: self.managed_by});
        let owner = self.owner.as_ref().map(|owner| owner.reference(true));
        fields([
            ("generateName", Some("csisc-".into())),
            ("namespace", Some(self.namespace.as_str().into())),
            ("labels", Some(labels)),
            ("ownerReferences", owner.map(|owner| json!([owner]))),
        ])
    }

    /// The present metadata, with our owner added if it is missing.
    fn metadata(&self, object: &StorageCapacity) -> Value {
        let mut owners: Vec<Value> = object.owners.iter().map(reference).collect();
        if let Some(owner) = &self.owner
            && !owner.owns(object)
        {
            // Only one owner may be the controller.
            let mut held = object.owners.iter();
            let free = held.all(|held| held.controller != Some(true));
            owners.push(owner.reference(free));
        }
        let prefix = object.generate_name.as_deref();
        let annotations = (!object.annotations.is_empty()).then(|| map(&object.annotations));
        let finalizers = object.finalizers.iter().map(|name| Value::from(&**name));
        fields([
            ("name", Some((*object.name).into())),
            ("generateName", prefix.map(Value::from)),
            ("namespace", Some(self.namespace.as_str().into())),
            ("uid", Some((*object.uid).into())),
            ("resourceVersion", Some(object.version.to_string().into())),
            ("labels", Some(map(&object.labels))),
            ("annotations", annotations),
            ("finalizers", array(finalizers.collect())),
            ("ownerReferences", array(owners)),
        ])
    }
}

/// A JSON object of the fields with a value.
fn fields<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let map: Map<String, Value> = present
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    map.into()
}

/// The list, unless it is empty.
fn array(items: Vec<Value>) -> Option<Value> {
    (!items.is_empty()).then(|| items.into())
}

fn map(pairs: &Pairs) -> Value {
    let pairs = pairs.iter();
    let map: Map<String, Value> = pairs
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    map.into()
}

/// An entry of `metadata.ownerReferences`.
pub(super) fn reference(owner: &OwnerReference) -> Value {
    fields([
        ("apiVersion", Some((*owner.api_version).into())),
        ("kind", Some((*owner.kind).into())),
        ("name", Some((*owner.name).into())),
        ("uid", Some((*owner.uid).into())),
        ("controller", owner.controller.map(Value::from)),
        ("blockOwnerDeletion", owner.block_deletion.map(Value::from)),
    ])
}

#[cfg(test)]
mod tests;
