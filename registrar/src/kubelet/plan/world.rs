//! The two states the loop compares: sockets that should be registered and sockets that are.
//!
//! Both are keyed by socket path. Kubelet calls them desired and actual state of the world.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One life of a socket path: a path that is deleted and created again is another incarnation.
///
/// Kubelet draws a UUID each time; only equality matters, so a counter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(u64);

/// The sockets that exist, as far as the watcher knows.
#[derive(Debug, Default)]
pub struct Desired {
    sockets: BTreeMap<PathBuf, Incarnation>,
    drawn: u64,
}

impl Desired {
    /// Records that `socket` was seen; seeing it again makes it another incarnation.
    pub fn add_or_update(&mut self, socket: PathBuf) -> Incarnation {
        self.drawn += 1;
        let incarnation = Incarnation(self.drawn);
        self.sockets.insert(socket, incarnation);
        incarnation
    }

    /// Records that `socket` is gone. True if it had been there.
    pub fn remove(&mut self, socket: &Path) -> bool {
        self.sockets.remove(socket).is_some()
    }

    /// The current incarnation of `socket`.
    #[must_use]
    pub fn incarnation(&self, socket: &Path) -> Option<Incarnation> {
        self.sockets.get(socket).copied()
    }

    /// All sockets in path order.
    pub fn sockets(&self) -> impl Iterator<Item = (&Path, Incarnation)> {
        self.sockets
            .iter()
            .map(|(path, incarnation)| (path.as_path(), *incarnation))
    }
}

/// A plugin behind a registered socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// The incarnation the registration was started for.
    pub incarnation: Incarnation,
    /// `PluginInfo.type`, which selects the handler.
    pub kind: String,
    /// `PluginInfo.name`; for CSI the driver name.
    pub name: String,
    /// Path of the plugin's own socket; for CSI the driver's.
    pub endpoint: String,
}

/// The sockets that are registered, or whose handler is registering them right now.
#[derive(Debug, Default)]
pub struct Actual {
    plugins: BTreeMap<PathBuf, Plugin>,
}

impl Actual {
    /// Records `plugin` for `socket`.
    pub fn add(&mut self, socket: PathBuf, plugin: Plugin) {
        self.plugins.insert(socket, plugin);
    }

    /// Removes `socket`.
    pub fn remove(&mut self, socket: &Path) -> Option<Plugin> {
        self.plugins.remove(socket)
    }

    /// The plugin of `socket`.
    #[must_use]
    pub fn plugin(&self, socket: &Path) -> Option<&Plugin> {
        self.plugins.get(socket)
    }

    /// Whether exactly this incarnation of `socket` is registered.
    #[must_use]
    pub fn is_current(&self, socket: &Path, incarnation: Incarnation) -> bool {
        self.plugin(socket)
            .is_some_and(|plugin| plugin.incarnation == incarnation)
    }

    /// All registered sockets in path order.
    pub fn plugins(&self) -> impl Iterator<Item = (&Path, &Plugin)> {
        self.plugins
            .iter()
            .map(|(path, plugin)| (path.as_path(), plugin))
    }
}
