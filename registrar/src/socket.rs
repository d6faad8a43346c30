//! The registration socket as a file: kubelet takes its appearance for a new plugin and its removal for the plugin's
//! end, so that both happen only on purpose.
//!
//! Device and inode tell a socket file from another of the same name. The inode of ours cannot be reused as long as the
//! listener is open.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use tokio::net::{UnixListener, UnixStream};

/// Longest path of a unix socket, without the terminating zero.
const MAX_PATH: usize = 107;
/// How often a new process tries to bind. One that is not scheduled for a moment between the removal of the old socket
/// and its own may find that the earlier process was quicker; see `serve::SETTLE`.
const ATTEMPTS: u32 = 5;
/// Leaves access to the owner only, 0700. Set before bind: changing the mode after it would leave a window.
const UMASK: u32 = 0o077;

/// Why the registration socket does not exist. Each error names the flag or the driver's answer that is the cause.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The driver's name cannot be part of a file name.
    #[error(
        "the driver's name {0:?} cannot be part of a file name: \
         correct what the driver returns from GetPluginInfo"
    )]
    Name(String),
    /// The path is too long for the kernel.
    #[error(
        "--plugin-registration-path: {} has {} bytes, a socket can have {MAX_PATH}: \
         mount the directory at a shorter path",
        .0.display(), .0.as_os_str().len()
    )]
    TooLong(PathBuf),
    /// The file at the path cannot be examined.
    #[error("--plugin-registration-path: cannot look at {}", .path.display())]
    Stat {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another program's file, which is not touched.
    #[error(
        "--plugin-registration-path: {} exists and is not a socket: \
         remove it, or choose another directory",
        .0.display()
    )]
    NotASocket(PathBuf),
    /// The socket of an earlier process cannot be removed.
    #[error("--plugin-registration-path: cannot remove the old socket {}", .path.display())]
    Remove {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The socket cannot be created.
    #[error("--plugin-registration-path: cannot listen on {}{}", .path.display(), advice(.source))]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error
        .raw_os_error()
        .map(rustix::io::Errno::from_raw_os_error)
    {
        Some(rustix::io::Errno::NOENT) => {
            " (the directory is not created: mount the host's \
             /var/lib/kubelet/plugins_registry there)"
        }
        Some(rustix::io::Errno::ADDRINUSE) => " (a dangling link? remove it)",
        Some(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM | rustix::io::Errno::ROFS) => {
            " (the container needs to write to the directory)"
        }
        Some(_) | None => "",
    }
}

/// Identity of a file, which another file at the same path does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The identity of the path itself, even if it is a link.
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::symlink_metadata(path)?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

impl Identity {
    /// The identity of a socket; `None` for any other file.
    fn of_socket(path: &Path) -> Option<Self> {
        let metadata = std::fs::symlink_metadata(path).ok()?;
        metadata.file_type().is_socket().then(|| Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

/// The file at the path of the registration socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The socket that this process created.
    Ours,
    /// There is no file at the path.
    Gone,
    /// Another file: usually the socket of a process that was started later.
    Foreign,
}

/// Path of the driver's socket: the directory as given, not normalised.
///
/// # Errors
/// The driver's name cannot be part of a file name, or the path is too long for a socket.
pub fn path(directory: &str, driver: &str) -> Result<PathBuf, SocketError> {
    if driver.contains(['/', '\0']) {
        return Err(SocketError::Name(driver.to_owned()));
    }
    let path = PathBuf::from(format!("{directory}/{driver}-reg.sock"));
    if path.as_os_str().as_bytes().len() > MAX_PATH {
        return Err(SocketError::TooLong(path));
    }
    Ok(path)
}

/// The registration socket, listening.
#[derive(Debug)]
pub struct RegistrationSocket {
    path: PathBuf,
    listener: UnixListener,
    /// `None` if the file was removed before it could be examined.
    identity: Option<Identity>,
}

impl RegistrationSocket {
    /// Creates the socket. Replaces the one of an earlier process, and leaves any other file alone.
    ///
    /// # Errors
    /// The socket could not be created.
    pub fn create(path: PathBuf) -> Result<Self, SocketError> {
        clear(&path)?;
        let (listener, identity) = bind_instead(&path)?;
        Ok(Self {
            path,
            listener,
            identity,
        })
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The listener for connections.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Examines the file at the path.
    ///
    /// # Errors
    /// The file cannot be examined.
    pub fn presence(&self) -> io::Result<Presence> {
        match Identity::of(&self.path) {
            Ok(identity) if Some(identity) == self.identity => Ok(Presence::Ours),
            Ok(_) => Ok(Presence::Foreign),
            Err(error) if is_absent(&error) => Ok(Presence::Gone),
            Err(error) => Err(error),
        }
    }

    /// The identity of another process's socket at the path, if no process listens on it: a process that was killed
    /// leaves its file behind.
    pub async fn deserted(&self) -> Option<Identity> {
        let before = Identity::of_socket(&self.path)?;
        let refused = match UnixStream::connect(&self.path).await {
            Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
            Ok(_) => false,
        };
        refused.then_some(before)
    }

    /// Removes such a socket.
    ///
    /// # Errors
    /// The file could not be removed.
    pub fn remove_deserted(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if !is_absent(&error) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Creates the socket again after it has gone. Accepted connections stay.
    ///
    /// # Errors
    /// The socket could not be created, and the old listener remains.
    pub fn create_again(&mut self) -> Result<(), SocketError> {
        (self.listener, self.identity) = bind(&self.path)?;
        Ok(())
    }

    /// Removes the socket if it is ours and still exists.
    ///
    /// # Errors
    /// The file could not be removed.
    pub fn remove(self) -> Result<Presence, SocketError> {
        let failed = |source| SocketError::Remove {
            path: self.path.clone(),
            source,
        };
        let presence = self.presence().map_err(failed)?;
        if presence == Presence::Ours {
            match std::fs::remove_file(&self.path) {
                Err(error) if !is_absent(&error) => return Err(failed(error)),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(presence)
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Removes the socket of an earlier process.
fn clear(path: &Path) -> Result<(), SocketError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(SocketError::NotASocket(path.to_owned())),
        Err(error) if is_absent(&error) => return Ok(()),
        Err(source) => {
            return Err(SocketError::Stat {
                path: path.to_owned(),
                source,
            });
        }
    }
    match std::fs::remove_file(path) {
        Err(source) if !is_absent(&source) => Err(SocketError::Remove {
            path: path.to_owned(),
            source,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Binds, and replaces the socket that an earlier process has created again meanwhile.
fn bind_instead(path: &Path) -> Result<(UnixListener, Option<Identity>), SocketError> {
    for _ in 1..ATTEMPTS {
        match bind(path) {
            Err(SocketError::Listen { source, .. })
                if source.kind() == io::ErrorKind::AddrInUse =>
            {
                clear(path)?;
            }
            bound => return bound,
        }
    }
    bind(path)
}

fn bind(path: &Path) -> Result<(UnixListener, Option<Identity>), SocketError> {
    // The umask belongs to the process, which has one thread and creates nothing else.
    let previous = rustix::process::umask(Mode::from_raw_mode(UMASK));
    let listener = UnixListener::bind(path);
    rustix::process::umask(previous);
    let listening = listener.and_then(|listener| match Identity::of(path) {
        Ok(identity) => Ok((listener, Some(identity))),
        // Its directory is being removed, or another instance starts: the next look shows that.
        Err(error) if is_absent(&error) => Ok((listener, None)),
        Err(error) => Err(error),
    });
    listening.map_err(|source| SocketError::Listen {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
