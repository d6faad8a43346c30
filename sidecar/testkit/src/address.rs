//! Addresses for programs that take a listen address.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

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
        let name = SocketAddr::from_abstract_name(format!("csi-sidecars-test-port-{port}"));
        let Ok(reservation) = name.and_then(|name| UnixListener::bind_addr(&name)) else {
            continue;
        };
        let address = format!("127.0.0.1:{port}");
        if TcpListener::bind(&address).is_ok() {
            reserved.push(reservation);
            return address;
        }
    }
    panic!("every port is taken")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::free_address;

    #[test]
    fn no_address_is_given_twice() {
        let addresses: BTreeSet<_> = (0..50).map(|_| free_address()).collect();
        assert_eq!(addresses.len(), 50, "{addresses:?}");
    }
}
