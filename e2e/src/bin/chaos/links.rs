//! Tests that a fault on a replica's connection to the API server has the effect that its name
//! says.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use e2e::link::Link;

/// A server that echoes its input.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() {
                    stream.write_all(&byte).unwrap();
                }
            });
        }
    });
    address
}

fn said(stream: &mut TcpStream, limit: Duration) -> std::io::Result<u8> {
    let mut byte = [0];
    stream.set_read_timeout(Some(limit)).unwrap();
    stream.read_exact(&mut byte).map(|()| byte[0])
}

const SOON: Duration = Duration::from_secs(20);

#[test]
fn what_is_silenced_arrives_later_and_what_is_cut_never_does() {
    let link = Link::to(&echo()).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", link.port())).unwrap();
    stream.write_all(b"a").unwrap();
    assert_eq!(said(&mut stream, SOON).unwrap(), b'a');
    link.silence(true);
    stream.write_all(b"b").unwrap();
    let nothing = said(&mut stream, Duration::from_millis(300)).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock, "not closed");
    link.silence(false);
    assert_eq!(said(&mut stream, SOON).unwrap(), b'b');
    link.cut();
    let closed = said(&mut stream, SOON).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::UnexpectedEof);
    let mut again = TcpStream::connect(("127.0.0.1", link.port())).unwrap();
    again.write_all(b"c").unwrap();
    assert_eq!(said(&mut again, SOON).unwrap(), b'c');
}
