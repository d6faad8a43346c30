//! Addresses for programs that take a listen address, and sockets without a listener.
//!
//! A program that another test starts at the same moment inherits every descriptor of this process, and keeps it until
//! its `exec`. No socket here ever listens, so a connection to one is refused even then, and a program can bind its
//! address.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, UnixListener};
use std::path::Path;
use std::sync::Mutex;

use tokio::net::{TcpSocket, UnixSocket};

/// An address to listen on that no other test gets while this process lives.
///
/// Uses ports below the system's ephemeral range, since one of those may be the local end of a connection by the time a
/// program listens there. A socket in the abstract namespace, with the port in its name, keeps other test processes
/// off: it vanishes with this process, however that ends.
///
/// # Panics
/// No port is free.
#[must_use]
pub fn free_address() -> String {
    static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let mut reserved = RESERVED.lock().expect("no test panics in here");
    // Processes start at different ports, so that they seldom try each other's.
    let first = std::process::id() * 131;
    for number in 0..20_000 {
        let port = 10_000 + first.wrapping_add(number) % 20_000;
        let Ok(port) = u16::try_from(port) else {
            continue;
        };
        let name = net::SocketAddr::from_abstract_name(format!("csi-sidecars-test-port-{port}"));
        let Ok(reservation) = name.and_then(|name| UnixListener::bind_addr(&name)) else {
            continue;
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if can_bind(address) {
            reserved.push(reservation);
            return address.to_string();
        }
    }
    panic!("every port is taken")
}

/// Whether nobody listens at the address.
fn can_bind(address: SocketAddr) -> bool {
    let socket = TcpSocket::new_v4().expect("a socket");
    // Without this, an inherited copy of the socket would keep the program from its port.
    socket.set_reuseaddr(true).expect("a socket's option");
    socket.bind(address).is_ok()
}

/// Makes a socket file that refuses connections, as a server that was killed leaves it behind.
///
/// # Panics
/// The file exists already, or its folder is missing.
pub fn leave_dead_socket(path: &Path) {
    let socket = UnixSocket::new_stream().expect("a socket");
    socket.bind(path).expect("a socket file");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::ErrorKind;
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    use tempfile::tempdir;
    use tokio::net::{TcpSocket, UnixSocket};

    use super::{can_bind, free_address, leave_dead_socket};

    #[test]
    fn no_address_is_given_twice() {
        let addresses: BTreeSet<_> = (0..50).map(|_| free_address()).collect();
        assert_eq!(addresses.len(), 50, "{addresses:?}");
    }

    #[test]
    fn an_address_at_which_somebody_listens_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!can_bind(listener.local_addr().unwrap()));
    }

    /// The descriptors stay open here as they do in a program between `fork` and `exec`.
    #[test]
    fn an_inherited_socket_neither_answers_nor_occupies_its_address() {
        let address = free_address().parse().unwrap();
        let inherited = TcpSocket::new_v4().unwrap();
        inherited.set_reuseaddr(true).unwrap();
        inherited.bind(address).unwrap();
        drop(TcpListener::bind(address).unwrap());

        let folder = tempdir().unwrap();
        let path = folder.path().join("dead.sock");
        leave_dead_socket(&path);
        let refused = UnixStream::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        std::fs::remove_file(&path).unwrap();
        let inherited = UnixSocket::new_stream().unwrap();
        inherited.bind(&path).unwrap();
        let refused = UnixStream::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}
