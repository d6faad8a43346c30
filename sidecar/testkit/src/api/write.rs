//! Create, update, patch and delete with the server's rules for versions, finalizers and status.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kind::{Kind, Status};
use super::patch;
use super::refusal::Refusal;
use super::route::Target;
use super::store::{Key, Store};
use super::validate;

type Written = Result<Arc<Value>, Refusal>;

/// Fields that the server keeps whatever the client sends.
const FIXED: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "namespace",
];

impl Store {
    pub(super) fn create(&mut self, target: &Target, mut object: Value) -> Written {
        let kind = &*target.kind;
        if !object.is_object() {
            return Err(Refusal::new(400, "the object provided is unrecognized"));
        }
        decode(kind, &object)?;
        let metadata = &mut object["metadata"];
        if let Some(version) = metadata["resourceVersion"].as_str()
            && !version.is_empty()
        {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Refusal::new(500, why));
        }
        if metadata["name"].as_str().is_none_or(str::is_empty)
            && let Some(prefix) = metadata["generateName"].as_str()
        {
            let random = uuid::Uuid::new_v4().simple().to_string();
            metadata["name"] = format!("{prefix}{}", random.get(..5).unwrap_or_default()).into();
        }
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            let problem = "metadata.name: Required value: name or generateName is required";
            return Err(Refusal::invalid(kind, "", &[problem.to_owned()]));
        }
        check_namespace(target, metadata)?;
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("deletionTimestamp");
            metadata.remove("selfLink");
        }
        match kind.kind.as_str() {
            "VolumeAttachment" => object["status"] = Value::Null,
            "PersistentVolume" | "PersistentVolumeClaim" => {
                object["status"] = json!({"phase": "Pending"});
            }
            _ => {}
        }
        let key = Key::new(kind, &target.namespace, &name);
        if self.find(&key).is_some() {
            return Err(Refusal::exists(kind, &name));
        }
        complete(kind, &mut object);
        check(kind, &name, &object, None)?;
        Ok(self.put(key, object))
    }

    pub(super) fn update(&mut self, target: &Target, mut object: Value) -> Written {
        let (kind, name) = (&*target.kind, named(target)?);
        let key = Key::new(kind, &target.namespace, name);
        let current = self
            .find(&key)
            .cloned()
            .ok_or_else(|| Refusal::not_found(kind, name))?;
        decode(kind, &object)?;
        let metadata = &mut object["metadata"];
        if metadata["name"] != *name {
            let sent = metadata["name"].as_str().unwrap_or_default();
            let text = format!(
                "the name of the object ({sent}) does not match the name on the URL ({name})"
            );
            return Err(Refusal::new(400, text));
        }
        check_namespace(target, metadata)?;
        let version = &current["metadata"]["resourceVersion"];
        match metadata["resourceVersion"].as_str().unwrap_or_default() {
            "" if !kind.unconditional_update => {
                let problem =
                    "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
                return Err(Refusal::invalid(kind, name, &[problem.to_owned()]));
            }
            "" => {}
            sent if *version != *sent => return Err(Refusal::stale(kind, name)),
            _ => {}
        }
        let uid = &current["metadata"]["uid"];
        if let Some(sent) = metadata["uid"].as_str()
            && *uid != *sent
        {
            let why = format!(
                "Precondition failed: UID in precondition: {sent}, UID in object meta: {}",
                uid.as_str().unwrap_or_default()
            );
            return Err(Refusal::conflict(kind, name, &why));
        }
        self.replace(target, &key, &current, object)
    }

    /// Stores the mutable parts of `object` over `current`.
    fn replace(
        &mut self,
        target: &Target,
        key: &Key,
        current: &Arc<Value>,
        mut object: Value,
    ) -> Written {
        let kind = &*target.kind;
        for field in FIXED {
            let kept = current["metadata"][field].clone();
            set(&mut object["metadata"], field, kept);
        }
        object["apiVersion"] = current["apiVersion"].clone();
        object["kind"] = current["kind"].clone();
        match (target.subresource.as_deref(), kind.status) {
            (Some(_), Status::Alone) => {
                let status = object["status"].take();
                object = (**current).clone();
                set(&mut object, "status", status);
            }
            (Some(_), Status::WithMetadata | Status::Absent) => {
                let (status, metadata) = (object["status"].take(), object["metadata"].take());
                object = (**current).clone();
                set(&mut object, "status", status);
                set(&mut object, "metadata", metadata);
            }
            (None, Status::WithMetadata | Status::Alone) => {
                set(&mut object, "status", current["status"].clone());
            }
            (None, Status::Absent) => {}
        }
        set(
            &mut object["metadata"],
            "resourceVersion",
            current["metadata"]["resourceVersion"].clone(),
        );
        validate::normalize(kind, &mut object);
        check(kind, &key.name, &object, Some(current))?;
        if object == **current {
            return Ok(current.clone());
        }
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        if deleting && object["metadata"]["finalizers"].is_null() {
            // The response is the object as it would have been stored: with the version that the
            // request was based on, not that of the removal, which only watches see.
            return match self.remove(key, &object) {
                Some(_) => Ok(Arc::new(object)),
                None => Err(Refusal::not_found(kind, &key.name)),
            };
        }
        Ok(self.put(key.clone(), object))
    }

    pub(super) fn patch(&mut self, target: &Target, content_type: &str, body: &[u8]) -> Written {
        let (kind, name) = (&*target.kind, named(target)?);
        let key = Key::new(kind, &target.namespace, name);
        let current = self
            .find(&key)
            .cloned()
            .ok_or_else(|| Refusal::not_found(kind, name))?;
        let mut patched = patch::apply(kind, content_type, body, &current)?;
        let uid = &patched["metadata"]["uid"];
        if *uid != current["metadata"]["uid"] && !uid.is_null() {
            // Not the response to a PUT, which treats it as a precondition.
            let problem = format!("metadata.uid: Invalid value: {uid}: field is immutable");
            return Err(Refusal::invalid(kind, name, &[problem]));
        }
        if patched["metadata"]["resourceVersion"]
            .as_str()
            .is_none_or(str::is_empty)
        {
            let version = current["metadata"]["resourceVersion"].clone();
            patched["metadata"]["resourceVersion"] = version;
        }
        self.update(target, patched)
    }

    /// Deletes, or marks as deleted while finalizers remain. `Err` with code 200 never occurs: the
    /// result tells whether the object is gone.
    pub(super) fn delete(&mut self, target: &Target, options: &Value) -> Result<Deleted, Refusal> {
        let (kind, name) = (&*target.kind, named(target)?);
        let key = Key::new(kind, &target.namespace, name);
        let current = self
            .find(&key)
            .cloned()
            .ok_or_else(|| Refusal::not_found(kind, name))?;
        for field in ["uid", "resourceVersion"] {
            let wanted = &options["preconditions"][field];
            let found = &current["metadata"][field];
            if !wanted.is_null() && wanted != found {
                let why = format!(
                    "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
                );
                return Err(Refusal::conflict(kind, name, &why));
            }
        }
        if current["metadata"]["finalizers"].is_null() {
            let last = self.remove(&key, &current);
            return Ok(Deleted::Gone(last.unwrap_or(current)));
        }
        if !current["metadata"]["deletionTimestamp"].is_null() {
            return Ok(Deleted::Marked(current));
        }
        let mut object = (*current).clone();
        object["metadata"]["deletionTimestamp"] = now().into();
        object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        Ok(Deleted::Marked(self.put(key, object)))
    }
}

/// The result of a deletion.
pub(super) enum Deleted {
    Gone(Arc<Value>),
    Marked(Arc<Value>),
}

/// Sets the fields that the server sets at creation, unless the test already did.
pub(super) fn complete(kind: &Kind, object: &mut Value) {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.clone().into();
    let metadata = &mut object["metadata"];
    if metadata["uid"].is_null() {
        metadata["uid"] = uuid::Uuid::new_v4().to_string().into();
    }
    if metadata["creationTimestamp"].is_null() {
        metadata["creationTimestamp"] = now().into();
    }
    validate::normalize(kind, object);
}

/// The current time in the server's format.
pub(super) fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

fn check(kind: &Kind, name: &str, object: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    let problems = validate::problems(kind, object, old);
    if problems.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid(kind, name, &problems))
}

fn decode(kind: &Kind, object: &Value) -> Result<(), Refusal> {
    match validate::unreadable(kind, object) {
        Some(text) => Err(Refusal::new(400, text)),
        None => Ok(()),
    }
}

fn check_namespace(target: &Target, metadata: &mut Value) -> Result<(), Refusal> {
    if !target.kind.namespaced {
        return Ok(());
    }
    match metadata["namespace"].as_str().unwrap_or_default() {
        "" => metadata["namespace"] = target.namespace.clone().into(),
        sent if sent == target.namespace => {}
        _ => {
            let text = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Refusal::new(400, text));
        }
    }
    Ok(())
}

fn named(target: &Target) -> Result<&str, Refusal> {
    target.name.as_deref().ok_or_else(|| {
        Refusal::new(
            405,
            "the server does not allow this method on the requested resource",
        )
    })
}

fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(map) = object.as_object_mut() {
        if value.is_null() {
            map.remove(field);
        } else {
            map.insert(field.to_owned(), value);
        }
    }
}
