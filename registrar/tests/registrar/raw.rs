//! A client that writes its own HTTP/2 frames, as grpc-go does: no Rust client sends such an `:authority`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The answer for driver `d.example.com` at `/p/csi.sock`, from the specification.
pub(crate) const GOLDEN: &[u8] =
    b"\x0a\x09CSIPlugin\x12\x0dd.example.com\x1a\x0b/p/csi.sock\x22\x051.0.0";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

pub(crate) struct Connection {
    socket: UnixStream,
    known: bool,
}

impl Connection {
    pub(crate) fn open(path: &Path) -> Self {
        let mut socket = UnixStream::connect(path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        socket
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .unwrap();
        let mut connection = Self {
            socket,
            known: false,
        };
        connection.send(SETTINGS, 0, 0, &[]);
        connection
    }

    /// Calls GetInfo and returns the message of the reply.
    pub(crate) fn get_info(&mut self, stream: u32, authority: &str) -> Vec<u8> {
        let mut block = vec![0x83, 0x86]; // POST, http
        if self.known {
            // The newest entry came last: te 62, content-type 63, authority 64, path 65.
            block.extend_from_slice(&[0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62]);
        } else {
            literal(&mut block, 4, "/pluginregistration.Registration/GetInfo");
            literal(&mut block, 1, authority);
            literal(&mut block, 31, "application/grpc");
            block.extend_from_slice(b"\x40\x02te\x08trailers");
            self.known = true;
        }
        self.send(HEADERS, END_HEADERS, stream, &block);
        self.send(DATA, END_STREAM, stream, &[0; 5]);
        self.reply(stream)
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.socket.write_all(&frame).unwrap();
    }

    fn reply(&mut self, stream: u32) -> Vec<u8> {
        let mut message = Vec::new();
        loop {
            let mut head = [0; 9];
            self.socket.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            self.socket.read_exact(&mut payload).unwrap();
            let of = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let (kind, ends) = (head[3], head[4] & END_STREAM != 0);
            assert!(!matches!(kind, 3 | 7), "RST_STREAM or GOAWAY: {payload:x?}");
            if of == stream && kind == DATA {
                message.extend(payload);
            }
            if of == stream && ends {
                assert_eq!(message[0], 0, "compressed");
                assert_eq!(
                    message[1..5],
                    u32::try_from(message.len() - 5).unwrap().to_be_bytes()
                );
                return message.split_off(5);
            }
        }
    }
}

/// A literal with incremental indexing and a name from the static table.
fn literal(block: &mut Vec<u8>, name: u8, value: &str) {
    block.push(0x40 | name);
    block.push(u8::try_from(value.len()).unwrap());
    assert!(value.len() < 127);
    block.extend_from_slice(value.as_bytes());
}
