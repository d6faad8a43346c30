//! The translator: finds the table of an object's or name's plugin, and applies it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::name;
use super::{class, inline, repair, restore, volume};
use crate::model::class::Class;
use crate::model::driver::{Driver, Identity};
use crate::model::drivers::DRIVERS;
use crate::model::error::{Cause, Error};

const VOLUME: &str = "PersistentVolume";

/// Translates between the plugins and drivers of its tables.
#[derive(Clone, Copy, Debug)]
pub struct Translator<'a> {
    drivers: &'a [Driver],
}

/// The translator with all tables.
pub const TRANSLATOR: Translator<'static> = Translator::of(&DRIVERS);

impl<'a> Translator<'a> {
    /// A translator with these tables.
    #[must_use]
    pub const fn of(drivers: &'a [Driver]) -> Self {
        Self { drivers }
    }

    /// The plugin that the CSI driver of this name replaced, with its rules; `None` if it replaced none.
    #[must_use]
    pub fn driver(&self, name: &str) -> Option<&'a Driver> {
        self.drivers.iter().find(|driver| driver.name == name)
    }

    /// Whether the CSI driver of this name replaced an in-tree plugin.
    #[must_use]
    pub fn has_moved_to(&self, name: &str) -> bool {
        self.driver(name).is_some()
    }

    /// The driver that replaced the plugin of this name; `None` if none did.
    #[must_use]
    pub fn plugin(&self, name: &str) -> Option<&'a Driver> {
        self.drivers.iter().find(|driver| driver.plugin == name)
    }

    /// Name of the plugin that the CSI driver replaced.
    ///
    /// # Errors
    /// When the driver replaced no plugin.
    pub fn plugin_of_driver(&self, driver: &str) -> Result<&'static str, Error> {
        let found = self.driver(driver).map(|driver| driver.plugin);
        found.ok_or_else(|| Error::at("", Cause::NoPlugin(driver.to_owned())))
    }

    /// Name of the CSI driver that replaced the plugin.
    ///
    /// # Errors
    /// When no driver replaced the plugin.
    pub fn driver_of_plugin(&self, plugin: &str) -> Result<&'static str, Error> {
        let found = self.plugin(plugin).map(|driver| driver.name);
        found.ok_or_else(|| Error::at("", Cause::NoDriver(plugin.to_owned())))
    }

    /// The driver that replaced the plugin of a PersistentVolume's source; `None` if none did.
    #[must_use]
    pub fn of_volume(&self, volume: &Value) -> Option<&'a Driver> {
        self.drivers
            .iter()
            .find(|driver| volume::source(driver, volume).is_some())
    }

    /// Name of the plugin of a PersistentVolume's source, or else of a pod's volume; `null` is none.
    ///
    /// # Errors
    /// When the volume belongs to no plugin that was replaced.
    pub fn plugin_of_volume(&self, volume: &Value, of_pod: &Value) -> Result<&'static str, Error> {
        let at = |cause| Err(Error::at("", cause));
        if !volume.is_null() {
            let name = name(volume);
            return match self.of_volume(volume) {
                Some(driver) => Ok(driver.plugin),
                None => at(Cause::NoPluginOfPersistentVolume(name.to_owned())),
            };
        }
        if of_pod.is_null() {
            return at(Cause::NeitherVolume);
        }
        let mut drivers = self.drivers.iter();
        match drivers.find(|driver| inline::source(driver, of_pod).is_some()) {
            Some(driver) => Ok(driver.plugin),
            None => at(Cause::NoPluginOfPodVolume(pod_volume(of_pod).to_owned())),
        }
    }

    /// Translates a PersistentVolume of a plugin into one of the driver that replaced it.
    ///
    /// # Errors
    /// When the volume belongs to no such plugin, or its source or labels lack a value that the driver needs.
    pub fn volume_to_csi(&self, volume: &Value) -> Result<Value, Error> {
        if volume.is_null() {
            return Err(Error::at("", Cause::NoVolume));
        }
        let name = name(volume);
        let mut sources = { self.drivers.iter() }
            .filter_map(|driver| Some((driver, volume::source(driver, volume)?)));
        let translated = match sources.next() {
            Some((driver, source)) => volume::to_csi(driver, volume, source),
            None => Err(Error::at("spec", Cause::NoSource(name.to_owned()))),
        };
        translated.map_err(|error| error.of(VOLUME, name))
    }

    /// Translates a PersistentVolume of a CSI driver into one of the plugin that it replaced.
    ///
    /// # Errors
    /// When the volume belongs to no such driver, or cannot be translated.
    pub fn volume_to_in_tree(&self, volume: &Value) -> Result<Value, Error> {
        let Some(csi) = restore::source(volume) else {
            return Err(Error::at("spec.csi", Cause::NoCsiVolume).of(VOLUME, name(volume)));
        };
        let translated = csi.text_or_empty("driver").and_then(|driver_name| {
            let Some(driver) = self.driver(driver_name) else {
                let cause = Cause::NoPluginForVolumeOf(driver_name.to_owned());
                return Err(csi.error("driver", cause));
            };
            restore::to_in_tree(driver, volume, &csi)
        });
        translated.map_err(|error| error.of(VOLUME, name(volume)))
    }

    /// Translates a pod's own volume into a PersistentVolume of the driver that replaced its plugin. `namespace` is the
    /// pod's.
    ///
    /// # Errors
    /// When the volume belongs to no such plugin, or its source lacks a value that the driver needs.
    pub fn inline_to_csi(&self, volume: &Value, namespace: &str) -> Result<Value, Error> {
        if volume.is_null() {
            return Err(Error::at("", Cause::NoVolume));
        }
        let name = pod_volume(volume);
        let mut sources = { self.drivers.iter() }
            .filter_map(|driver| Some((driver, inline::source(driver, volume)?)));
        let translated = match sources.next() {
            Some((driver, source)) => inline::to_csi(driver, name, source, namespace),
            None => Err(Error::at("", Cause::NoSource(name.to_owned()))),
        };
        translated.map_err(|error| error.of("volume", name))
    }

    /// Translates a class of `plugin` for the driver that replaced it.
    ///
    /// # Errors
    /// When no driver replaced the plugin, or the class names zones in two ways.
    pub fn class_to_csi(&self, plugin: &str, class: &Class) -> Result<Class, Error> {
        let Some(driver) = self.plugin(plugin) else {
            let cause = Cause::NoClassPlugin(plugin.to_owned());
            return Err(Error::at("provisioner", cause));
        };
        class::class(driver, class).map_err(|cause| Error::at("allowedTopologies", cause))
    }

    /// Translates the parameters of a class of `plugin` for the driver that replaced it, whatever its topologies are:
    /// enough to find Secrets. `None` if no driver did.
    #[must_use]
    pub fn parameters_to_csi(
        &self,
        plugin: &str,
        parameters: &BTreeMap<String, String>,
    ) -> Option<BTreeMap<String, String>> {
        let rules = self.plugin(plugin)?.class;
        Some(rules.map_or_else(
            || parameters.clone(),
            |rules| class::parameters(&rules, parameters),
        ))
    }

    /// Whether two handles may refer to the same volume of `driver`: one from its answer, and one from a plugin's
    /// source, which carries less. For a driver that replaced no plugin only equal ones may.
    #[must_use]
    pub fn may_be_one(&self, driver: &str, one: &str, other: &str) -> bool {
        let identity = self
            .driver(driver)
            .map_or(Identity::Exact, |known| known.identity);
        repair::may_be_one(identity, one, other)
    }

    /// Whether the plugin's source identifies a volume of `driver`.
    #[must_use]
    pub fn identifies_volumes_of(&self, driver: &str) -> bool {
        let identity = self.driver(driver).map(|known| known.identity);
        !matches!(identity, Some(Identity::Elsewhere))
    }

    /// The handle of a volume of `driver`, completed from the ID of its node.
    ///
    /// # Errors
    /// When the driver replaced no plugin, or the handle or the ID do not have the driver's form.
    pub fn repaired_handle(
        &self,
        driver: &str,
        handle: &str,
        node_id: &str,
    ) -> Result<String, Error> {
        let Some(known) = self.driver(driver) else {
            return Err(Error::at("", Cause::NoPlugin(driver.to_owned())));
        };
        match &known.repair {
            None => Ok(handle.to_owned()),
            Some(rules) => repair::repaired(rules, handle, node_id)
                .map_err(|cause| Error::at(format!("volume handle {handle:?}"), cause)),
        }
    }
}

fn pod_volume(volume: &Value) -> &str {
    let name = volume.get("name").and_then(Value::as_str);
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_one_volume_are_recognised() {
        const GCE: &str = "pd.csi.storage.gke.io";
        const FILE: &str = "file.csi.azure.com";
        let zonal = "projects/p/zones/z/disks/d";
        let rows = [
            ("ebs.csi.aws.com", "vol-1", "vol-1", true),
            ("ebs.csi.aws.com", "vol-1", "VOL-1", false),
            ("cinder.csi.openstack.org", "a/b", "c/b", false),
            ("pxd.portworx.com", "1", "2", false),
            ("csi.vsphere.vmware.com", "[ds] a.vmdk", "[ds] a.vmdk", true),
            (
                "csi.vsphere.vmware.com",
                "[ds] a.vmdk",
                "[ds] b.vmdk",
                false,
            ),
            (
                "disk.csi.azure.com",
                "/subscriptions/S",
                "/Subscriptions/s",
                true,
            ),
            (
                "disk.csi.azure.com",
                "/subscriptions/s",
                "/subscriptions/t",
                false,
            ),
            (GCE, zonal, "projects/UNSPECIFIED/zones/z/disks/d", true),
            (
                GCE,
                zonal,
                "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
                true,
            ),
            (GCE, "projects/p/regions/r/disks/d", zonal, true),
            (GCE, zonal, "projects/UNSPECIFIED/zones/y/disks/d", false),
            (GCE, zonal, "projects/q/zones/z/disks/d", false),
            (GCE, zonal, "projects/UNSPECIFIED/zones/z/disks/e", false),
            (GCE, "d", "e", false),
            (GCE, "d", "d", true),
            (FILE, "rg#account#share#uuid", "#secret#share#pv#ns", true),
            (FILE, "rg#account#share#uuid", "#account#other#pv#ns", false),
            (FILE, "x", "y", false),
            ("hostpath.csi.k8s.io", "a", "a", true),
            ("hostpath.csi.k8s.io", "a", "A", false),
        ];
        for (driver, one, other, expected) in rows {
            for (one, other) in [(one, other), (other, one)] {
                let found = TRANSLATOR.may_be_one(driver, one, other);
                assert_eq!(found, expected, "{driver}: {one} {other}");
            }
        }
        assert!(
            TRANSLATOR.identifies_volumes_of(GCE)
                && TRANSLATOR.identifies_volumes_of("hostpath.csi.k8s.io")
        );
        assert!(!TRANSLATOR.identifies_volumes_of("csi.vsphere.vmware.com"));
    }
}
