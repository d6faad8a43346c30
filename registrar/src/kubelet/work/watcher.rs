//! Finds registration sockets: inotify on the registry directory and everything below it.

use std::collections::HashMap;
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt as _;
use inotify::{EventMask, EventOwned, EventStream, Inotify, WatchDescriptor, WatchMask};
use sidecar::verbose;
use tracing::{error, info};

use super::register::World;
use crate::kubelet::plan::discover::{Action, FileKind, decide_appeared, decide_walked};

/// Room for some sixty events; more are fetched by the next read.
const BUFFER: usize = 16 * 1024;

/// Mode of the registry directory if it has to be created.
const REGISTRY_MODE: u32 = 0o755;

/// Why the directory cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The directory cannot be created.
    #[error("cannot create the plugin registration directory {}", directory.display())]
    Create {
        /// The directory.
        directory: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system has no inotify instance left.
    #[error("cannot start watching directories (see sysctl fs.inotify.max_user_instances)")]
    Start(#[source] io::Error),
    /// The directory cannot be watched.
    #[error("cannot watch the plugin registration directory {}", directory.display())]
    Watch {
        /// The directory.
        directory: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Events cannot be read any more.
    #[error("cannot read directory events")]
    Read(#[source] io::Error),
}

/// The watch of one registry directory.
pub struct Watcher {
    events: EventStream<Vec<u8>>,
    directories: HashMap<WatchDescriptor, PathBuf>,
    world: Arc<World>,
}

impl Watcher {
    /// Creates `directory` if necessary, adds the sockets that exist, and watches for others.
    ///
    /// # Errors
    /// [`WatchError`]. Sub-directories that cannot be read are skipped.
    pub fn start(directory: &Path, world: Arc<World>) -> Result<Self, WatchError> {
        let failed = |source| WatchError::Create {
            directory: directory.to_path_buf(),
            source,
        };
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(REGISTRY_MODE)
            .create(directory)
            .map_err(failed)?;
        let inotify = Inotify::init().map_err(WatchError::Start)?;
        let events = inotify
            .into_event_stream(vec![0; BUFFER])
            .map_err(WatchError::Start)?;
        let mut watcher = Self {
            events,
            directories: HashMap::new(),
            world,
        };
        // The watch comes before the listing, or a socket in between would never be seen.
        watcher
            .walk(directory)
            .map_err(|source| WatchError::Watch {
                directory: directory.to_path_buf(),
                source,
            })?;
        info!(directory = %directory.display(), "watching for registration sockets");
        Ok(watcher)
    }

    /// Follows the events until reading them fails.
    pub async fn run(mut self) -> WatchError {
        loop {
            match self.events.next().await {
                Some(Ok(event)) => self.handle(&event),
                Some(Err(error)) => return WatchError::Read(error),
                None => return WatchError::Read(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    fn handle(&mut self, event: &EventOwned) {
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            // As in kubelet nothing is walked again: every socket would become a new incarnation, and all drivers would
            // be deregistered and registered.
            error!("directory events were lost; a socket may go unnoticed until it is re-created");
            return;
        }
        let Some(directory) = self.directories.get(&event.wd).cloned() else {
            return;
        };
        if event.mask.contains(EventMask::IGNORED) {
            self.directories.remove(&event.wd);
        } else if event.mask.contains(EventMask::MOVE_SELF) {
            self.moved(&event.wd, &directory);
        } else if event
            .mask
            .intersects(EventMask::CREATE | EventMask::MOVED_TO)
        {
            self.appeared(&directory, event);
        } else if event.mask.contains(EventMask::DELETE) {
            self.disappeared(&directory, event);
        }
    }

    fn appeared(&mut self, directory: &Path, event: &EventOwned) {
        let Some(name) = &event.name else { return };
        let path = directory.join(name);
        let own = kind_of(fs::symlink_metadata(&path));
        let watched = match decide_appeared(name, own, kind_of(fs::metadata(&path))) {
            Action::Desire => {
                self.desire(path);
                return;
            }
            Action::Ignore => {
                verbose!(3, path = %path.display(), "ignored");
                return;
            }
            Action::Walk => self.walk(&path),
            Action::Watch => self.watch(&path),
        };
        if let Err(error) = watched {
            error!(directory = %path.display(), %error, "cannot watch directory");
        }
    }

    fn disappeared(&mut self, directory: &Path, event: &EventOwned) {
        let Some(name) = &event.name else { return };
        let path = directory.join(name);
        if self.world.desired().remove(&path) {
            info!(socket = %path.display(), "registration socket is gone");
        }
    }

    /// A watched directory was renamed. If that moved it out of the registry its watch ends; the sockets in it stay
    /// desired, as in kubelet.
    fn moved(&mut self, wd: &WatchDescriptor, directory: &Path) {
        if directory.is_dir() {
            return; // renamed within the registry: entered again under its new path
        }
        self.directories.remove(wd);
        // Removing the watch fails if the directory is gone, which ends the watch as well.
        let _ = self.events.watches().remove(wd.clone());
    }

    fn desire(&mut self, socket: PathBuf) {
        info!(socket = %socket.display(), "registration socket found");
        self.world.desired().add_or_update(socket);
    }

    /// Watches `top` and everything below it. Fails only with `top` itself.
    fn walk(&mut self, top: &Path) -> io::Result<()> {
        self.watch(top)?;
        let mut pending = vec![top.to_path_buf()];
        while let Some(directory) = pending.pop() {
            let mut entries = match fs::read_dir(&directory) {
                Ok(entries) => entries
                    .flatten()
                    .map(|entry| entry.path())
                    .collect::<Vec<_>>(),
                Err(error) if directory == top => return Err(error),
                Err(error) => {
                    error!(directory = %directory.display(), %error, "cannot read directory");
                    continue;
                }
            };
            entries.sort();
            for path in entries {
                let own = kind_of(fs::symlink_metadata(&path));
                match decide_walked(own, kind_of(fs::metadata(&path))) {
                    Action::Desire => self.desire(path),
                    Action::Watch | Action::Walk => {
                        self.watch(&path)?;
                        pending.push(path);
                    }
                    Action::Ignore => verbose!(3, path = %path.display(), "ignored"),
                }
            }
        }
        Ok(())
    }

    fn watch(&mut self, directory: &Path) -> io::Result<()> {
        let mask = WatchMask::CREATE
            | WatchMask::MOVED_TO
            | WatchMask::DELETE
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        let wd = self.events.watches().add(directory, mask)?;
        self.directories.insert(wd, directory.to_path_buf());
        Ok(())
    }
}

fn kind_of(metadata: io::Result<Metadata>) -> FileKind {
    let kind = |file_type: FileType| {
        if file_type.is_dir() {
            FileKind::Directory
        } else if file_type.is_socket() {
            FileKind::Socket
        } else {
            FileKind::Other
        }
    };
    metadata.map_or(FileKind::Missing, |metadata| kind(metadata.file_type()))
}
