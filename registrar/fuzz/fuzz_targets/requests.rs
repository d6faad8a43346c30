//! Arbitrary header blocks, one after the other on a connection: a server accepts with the rewriting every request that
//! it accepts without it, with the same content apart from the authority.
#![no_main]

use h2::server;
use http::{HeaderMap, Method};
use libfuzzer_sys::fuzz_target;
use registrar::authority::AnyAuthority;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PING: &[u8; 8] = b"the end!";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// The data as a connection: each block has a byte for its layout and one for its length before it.
fn connection(mut data: &[u8]) -> Vec<u8> {
    let mut out = [PREFACE, &frame(4, 0, 0, &[])].concat();
    let mut stream = 1;
    while let [layout, length, rest @ ..] = data {
        let (block, later) = rest.split_at(usize::from(*length).min(rest.len()));
        data = later;
        // Most blocks begin like a request: POST, http, /.
        let start: &[u8] = if layout & 1 == 0 { &[0x83, 0x86, 0x84] } else { &[] };
        let block = [start, block].concat();
        let (first, second) = block.split_at(usize::from(layout >> 2).min(block.len()));
        if layout & 2 == 0 {
            out.extend(frame(1, 5, stream, &block));
        } else {
            out.extend(frame(1, 1, stream, first));
            out.extend(frame(9, 4, stream, second));
        }
        stream += 2;
    }
    out.extend(frame(6, 0, 0, PING));
    out
}

type Seen = Vec<(u32, Method, String, HeaderMap)>;

/// The requests a server accepts.
fn serve<S>(input: &[u8], wrap: impl FnOnce(tokio::io::DuplexStream) -> S) -> Seen
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut client, socket) = tokio::io::duplex(1 << 20);
        let server = tokio::spawn(accept(wrap(socket)));
        client.write_all(input).await.unwrap();
        let mut answers = Vec::new();
        while !answers.windows(8).any(|bytes| bytes == PING)
            && client.read_buf(&mut answers).await.is_ok_and(|count| count > 0)
        {}
        drop(client);
        server.await.unwrap()
    })
}

async fn accept<S: AsyncRead + AsyncWrite + Unpin>(socket: S) -> Seen {
    let mut seen = Vec::new();
    let Ok(mut connection) = server::handshake(socket).await else { return seen };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let id = respond.stream_id().as_u32();
        let (parts, _) = request.into_parts();
        seen.push((id, parts.method, parts.uri.path().to_owned(), parts.headers));
        let _ = respond.send_response(http::Response::new(()), true);
    }
    seen
}

fuzz_target!(|data: &[u8]| {
    let input = connection(data);
    let straight = serve(&input, |socket| socket);
    let rewritten = serve(&input, AnyAuthority::new);
    for request in &straight {
        assert!(rewritten.contains(request), "{request:?} is not in {rewritten:?}");
    }
});
