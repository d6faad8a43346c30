//! Handles and names made of parts.

use serde_json::Value;

use super::object::{Section, lookup};
use super::{aws, azure, zone};
use crate::model::driver::{Part, ZoneForm};
use crate::model::error::{Cause, Error};
use crate::model::keys::{BETA_ZONE, LABEL_SEPARATOR, UNSPECIFIED, ZONE};

/// The object that the parts are taken from.
pub(super) struct Context<'a> {
    /// The plugin's source.
    pub(super) source: Section<'a>,
    /// The PersistentVolume, for its metadata; `null` for a pod's volume.
    pub(super) volume: &'a Value,
    /// Name of the PersistentVolume, or of the pod's volume.
    pub(super) name: &'a str,
    /// Namespace of the pod; `None` for a PersistentVolume.
    pub(super) pod: Option<&'a str>,
}

impl Context<'_> {
    /// The text of `parts`.
    pub(super) fn text(&self, parts: &[Part]) -> Result<String, Error> {
        let parts = parts.iter().map(|part| self.part(*part));
        parts.collect()
    }

    fn part(&self, part: Part) -> Result<String, Error> {
        let source = &self.source;
        Ok(match part {
            Part::Text(text) => text.to_owned(),
            Part::Field(field) => source.text_or_empty(field)?.to_owned(),
            Part::AwsId(field) => aws::volume_id(source.text_or_empty(field)?)
                .map_err(|cause| source.error(field, cause))?,
            Part::Location(form) => self.location(form)?,
            Part::Annotation(key) => lookup(self.volume, "annotations", key)
                .unwrap_or_default()
                .to_owned(),
            Part::Account(field) => azure::account(source.text_or_empty(field)?).to_owned(),
            Part::Namespace(field) => self.namespace(field)?.to_owned(),
            Part::VolumeName => self.name.to_owned(),
        })
    }

    /// The zone or region of the labels. Here the beta label takes precedence, unlike with topology.
    fn location(&self, form: ZoneForm) -> Result<String, Error> {
        let label = |key| lookup(self.volume, "labels", key).filter(|zones| !zones.is_empty());
        let Some(zones) = label(BETA_ZONE).or_else(|| label(ZONE)) else {
            return Ok(format!("zones/{UNSPECIFIED}"));
        };
        if !zones.contains(LABEL_SEPARATOR) {
            return Ok(format!("zones/{zones}"));
        }
        let region = zone::region(form, zones.split(LABEL_SEPARATOR));
        let region = region.map_err(|why| Error::at("metadata.labels", Cause::LabelRegion(why)))?;
        Ok(format!("regions/{region}"))
    }

    /// Namespace of the Secret; `field` is the source's field for it.
    pub(super) fn namespace(&self, field: &str) -> Result<&str, Error> {
        if let Some(pod) = self.pod {
            return Ok(if pod.is_empty() { "default" } else { pod });
        }
        let claim = { self.volume.get("spec") }
            .and_then(|spec| spec.get("claimRef")?.get("namespace")?.as_str());
        match self.source.text(field)?.or(claim).unwrap_or_default() {
            "" => Err(self.source.error(field, Cause::NoSecretNamespace)),
            namespace => Ok(namespace),
        }
    }
}
