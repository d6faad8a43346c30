//! The CSI drivers that are registered on this node, and whether another one may join them.

use std::collections::BTreeMap;

use super::keys::clip;
use super::version::{self, Unsupported, Version};

/// Longest driver name (CSI spec, `GetPluginInfoResponse.name`; the API server's rule as well).
const LONGEST_NAME: usize = 63;

/// A registered CSI driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// File system path of the driver's socket, dialled literally.
    pub endpoint: String,
    /// The highest version that its registrar offered.
    pub version: Version,
}

/// Why a driver may not be registered. The registrar gets the text in `NotifyRegistrationStatus.error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// `PluginInfo.name` is empty.
    #[error("driver name is empty")]
    NoName,
    /// The API server would reject `PluginInfo.name` as the name of a driver.
    #[error(
        "{name:?} is not a CSI driver name: at most 63 characters, \
         a lower case RFC 1123 subdomain but for capitals"
    )]
    BadName {
        /// The offered name.
        name: String,
    },
    /// The driver offers no usable version.
    #[error("driver {name}: {reason}")]
    Version {
        /// The driver.
        name: String,
        /// Error of its versions.
        reason: Unsupported,
    },
    /// The name is taken. An equal version is refused too: every registrar reports 1.0.0, so a
    /// second socket of a driver waits until the first one is gone.
    #[error(
        "driver {name} is already registered with version {registered}, \
         which is not lower than {offered}"
    )]
    NameInUse {
        /// The driver.
        name: String,
        /// The registered version.
        registered: Version,
        /// The offered version.
        offered: Version,
    },
}

/// Drivers by name. Lost at a restart; the existing sockets fill it again.
#[derive(Debug, Default)]
pub struct Drivers {
    drivers: BTreeMap<String, Driver>,
}

impl Drivers {
    /// The version under which `name` may be registered.
    ///
    /// # Errors
    /// [`Rejected`] if it may not.
    pub fn check(&self, name: &str, offered: &[String]) -> Result<Version, Rejected> {
        if name.is_empty() {
            return Err(Rejected::NoName);
        }
        if !is_driver_name(name) {
            return Err(Rejected::BadName {
                name: clip(name).to_owned(),
            });
        }
        let version = version::highest_supported(offered).map_err(|reason| Rejected::Version {
            name: clip(name).to_owned(),
            reason,
        })?;
        match self.drivers.get(name) {
            Some(known) if known.version >= version => Err(Rejected::NameInUse {
                name: clip(name).to_owned(),
                registered: known.version.clone(),
                offered: version,
            }),
            Some(_) | None => Ok(version),
        }
    }

    /// Adds the driver, or replaces an older version of it.
    pub fn set(&mut self, name: String, driver: Driver) {
        self.drivers.insert(name, driver);
    }

    /// Removes the driver.
    pub fn remove(&mut self, name: &str) -> Option<Driver> {
        self.drivers.remove(name)
    }

    /// The driver called `name`.
    #[must_use]
    pub fn driver(&self, name: &str) -> Option<&Driver> {
        self.drivers.get(name)
    }

    /// The names of all drivers, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.drivers.keys().map(String::as_str)
    }
}

/// The API server's rule for `spec.drivers[].name` of a CSINode.
pub fn is_driver_name(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let is_label = |label: &str| {
        label.starts_with(edge)
            && label.ends_with(edge)
            && label.chars().all(|c| edge(c) || c == '-')
    };
    name.len() <= LONGEST_NAME && name.split('.').all(is_label)
}
