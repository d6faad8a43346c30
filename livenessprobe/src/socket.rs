//! The identity of the socket file that the driver listens on.
//!
//! A driver that restarts creates a new socket under the old name, while its former process may still exist and answer
//! on its connections. Device and inode tell the two apart; the inode of a socket cannot be reused as long as a
//! connection through it is open.

use std::io;
use std::os::unix::fs::MetadataExt;

use sidecar::csi::connection::Address;

/// The file at an address at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketIdentity {
    /// A file, by device and inode.
    File {
        /// Device number.
        device: u64,
        /// Inode number.
        inode: u64,
    },
    /// Not a path: a network address, which has no identity that can be seen from outside.
    Network,
}

impl SocketIdentity {
    /// Examines the address, through symbolic links.
    ///
    /// # Errors
    /// The file does not exist, or cannot be examined.
    pub fn at(address: &Address) -> io::Result<Self> {
        let Some(path) = address.path() else {
            return Ok(Self::Network);
        };
        let metadata = std::fs::metadata(path)?;
        Ok(Self::File {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_socket_of_the_same_name_is_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("csi.sock");
        let address = Address::Unix(path.clone());
        assert_eq!(
            SocketIdentity::at(&address).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        let first = UnixListener::bind(&path).unwrap();
        let before = SocketIdentity::at(&address).unwrap();
        assert_eq!(SocketIdentity::at(&address).unwrap(), before);
        // Only the connection keeps the first socket.
        let _client = UnixStream::connect(&path).unwrap();
        let _server = first.accept().unwrap();
        drop(first);
        for _ in 0..20 {
            std::fs::remove_file(&path).unwrap();
            let _next = UnixListener::bind(&path).unwrap();
            assert_ne!(SocketIdentity::at(&address).unwrap(), before);
        }
    }

    #[test]
    fn links_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("a"), directory.path().join("b"));
        let _listener = UnixListener::bind(&path).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let at = |path| SocketIdentity::at(&Address::Unix(path)).unwrap();
        assert_eq!(at(link), at(path));
    }

    #[test]
    fn a_network_address_looks_always_the_same() {
        let address = Address::Tcp("127.0.0.1:1".to_owned());
        assert_eq!(
            SocketIdentity::at(&address).unwrap(),
            SocketIdentity::Network
        );
    }
}
