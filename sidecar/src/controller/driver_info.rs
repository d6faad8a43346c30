//! The driver's identity, for metrics and for the log.

use std::sync::Arc;

use prometheus::{IntGaugeVec, Opts};
use tokio::sync::watch;

use super::link::Capabilities;
use crate::csi::identity::Plugin;
use crate::metrics::{RegisterError, Registry};
use crate::visible::shortened;

/// Most bytes shown of a driver's name or version, both of which the driver chooses.
const LONGEST: usize = 128;

/// The driver's identity and capabilities, once known; clones share them.
#[derive(Clone, Debug, Default)]
pub struct DriverInfo {
    info: Option<IntGaugeVec>,
    known: watch::Sender<Option<Arc<Known>>>,
}

/// Identity and capabilities as the driver reported them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Name from `GetPluginInfo`.
    pub name: String,
    /// Version from `GetPluginInfo`.
    pub version: String,
    /// The names of its capabilities.
    pub capabilities: Vec<String>,
}

impl DriverInfo {
    /// Adds `csi_sidecar_driver_info` to `registry`; it has no series before a driver is known.
    ///
    /// # Errors
    /// The registry has it already.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let name = "csi_sidecar_driver_info";
        let help = "[ALPHA] The CSI driver that this program works for, as GetPluginInfo names it.";
        let labels = ["driver_name", "driver_version"];
        let info = IntGaugeVec::new(Opts::new(name, help), &labels)?;
        registry.register(Box::new(info.clone()))?;
        Ok(Self {
            info: Some(info),
            ..Self::default()
        })
    }

    /// Replaces what is shown with what the driver reports now.
    pub(super) fn set(&self, plugin: &Plugin, capabilities: &Capabilities) {
        let known = Known {
            name: shortened(&plugin.name, LONGEST),
            version: shortened(&plugin.version, LONGEST),
            capabilities: capabilities.names().collect(),
        };
        if let Some(info) = &self.info {
            info.reset();
            let labels = [known.name.as_str(), known.version.as_str()];
            info.with_label_values(&labels).set(1);
        }
        self.known.send_if_modified(|last| {
            let is_new = last.as_deref() != Some(&known);
            if is_new {
                *last = Some(Arc::new(known));
            }
            is_new
        });
    }

    /// A receiver of the driver's last report and of every one that differs from it.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Arc<Known>>> {
        self.known.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_66_the_driver_that_came_last_is_the_only_one_shown() {
        let registry = Registry::new();
        let info = DriverInfo::new(&registry).unwrap();
        let shown = || {
            let text = registry.render();
            let series = text
                .lines()
                .filter(|line| line.starts_with("csi_sidecar_driver_info{"));
            series.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(shown(), Vec::<String>::new());
        let long = "v".repeat(1000);
        let cut = "v".repeat(LONGEST - 3) + "...";
        for (version, label) in [
            ("1.0", "1.0"),
            ("2.0", "2.0"),
            ("2.0", "2.0"),
            ("", ""),
            (&long, &cut),
        ] {
            let plugin = Plugin {
                name: "a.driver".to_owned(),
                version: version.to_owned(),
            };
            let mut news = info.watch();
            news.mark_unchanged();
            let is_same = news
                .borrow()
                .as_deref()
                .is_some_and(|known| known.version == label);
            info.set(&plugin, &Capabilities::default());
            let series = format!(
                "csi_sidecar_driver_info{{driver_name=\"a.driver\",driver_version=\"{label}\"}} 1"
            );
            assert_eq!(shown(), [series]);
            assert_eq!(news.has_changed().unwrap(), !is_same, "{version}");
        }
    }
}
