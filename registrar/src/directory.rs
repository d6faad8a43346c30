//! Reports changes in the directory of the registration socket, which saves frequent looks.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// Some sixty events at a time; a look shows what they mean.
const BUFFER: usize = 4096;

/// An inotify watch of a directory: of entries that come and go, and of the directory itself.
#[derive(Debug)]
pub struct DirectoryWatch {
    events: AsyncFd<OwnedFd>,
}

impl DirectoryWatch {
    /// Watches the directory that has this path now.
    ///
    /// # Errors
    /// The directory does not exist, or the system has no more watches.
    #[allow(
        deprecated,
        reason = "the successor is unsafe for the sake of types that do not own their descriptor"
    )]
    pub fn new(directory: &Path) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let what = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&events, directory, what)?;
        Ok(Self {
            events: AsyncFd::new(events)?,
        })
    }

    /// Waits for a change.
    ///
    /// # Errors
    /// The watch has failed for good.
    pub async fn changed(&self) -> io::Result<()> {
        let mut ready = self.events.readable().await?;
        let mut buffer = [0; BUFFER];
        loop {
            match rustix::io::read(&self.events, &mut buffer) {
                Ok(1..) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    ready.clear_ready();
                    return Ok(());
                }
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
