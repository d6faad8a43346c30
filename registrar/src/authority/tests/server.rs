//! A real HTTP/2 server behind a rewritten connection: the same requests except for `:authority`.

use std::collections::VecDeque;

use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use super::super::AnyAuthority;
use super::wire::{
    Coding, Kind, Layout, Name, PREFACE, frame, indexed, literal, size_update, string,
};
use super::{KUBELET, OLD_KUBELET, call};

/// A request as a server reports it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    path: String,
    authority: String,
    headers: Vec<(String, String)>,
}

/// Serves `input`, arriving in reads of `read` bytes; returns the accepted requests, or the error that ended the
/// connection.
fn serve(input: &[u8], read: usize) -> Result<Vec<Seen>, h2::Error> {
    serve_on(input, read, AnyAuthority::new)
}

/// A PING at the end shows when the server has read all of the input.
fn serve_on<S>(
    input: &[u8],
    read: usize,
    wrap: impl FnOnce(DuplexStream) -> S,
) -> Result<Vec<Seen>, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (client, server) = tokio::io::duplex(read.clamp(1, 1 << 20));
        let (mut answers_half, mut requests) = tokio::io::split(client);
        let write = async {
            // The server may hang up in the middle.
            let _ = requests
                .write_all(&[input, &frame(6, 0, 0, b"the end!")].concat())
                .await;
        };
        let read = async {
            let mut bytes = Vec::new();
            while !bytes.windows(8).any(|bytes| bytes == b"the end!")
                && answers_half
                    .read_buf(&mut bytes)
                    .await
                    .is_ok_and(|count| count > 0)
            {}
        };
        let server = tokio::spawn(accept(wrap(server)));
        tokio::join!(read, write);
        drop((requests, answers_half));
        server.await.unwrap()
    })
}

async fn accept<S>(socket: S) -> Result<Vec<Seen>, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = h2::server::handshake(socket).await?;
    let mut seen = Vec::new();
    while let Some(accepted) = connection.accept().await {
        let (request, mut respond) = match accepted {
            Ok(accepted) => accepted,
            // The client has got its answers and is gone.
            Err(error) if error.is_io() => break,
            Err(error) => return Err(error),
        };
        let (parts, _) = request.into_parts();
        respond.send_response(http::Response::new(()), true)?;
        seen.push(Seen {
            path: parts.uri.path().to_owned(),
            authority: parts
                .uri
                .authority()
                .map(ToString::to_string)
                .unwrap_or_default(),
            headers: parts
                .headers
                .iter()
                .map(|(name, value)| {
                    (
                        name.to_string(),
                        String::from_utf8_lossy(value.as_bytes()).into_owned(),
                    )
                })
                .collect(),
        });
    }
    Ok(seen)
}

fn connection(frames: &[Vec<u8>]) -> Vec<u8> {
    [PREFACE.to_vec(), frame(4, 0, 0, &[]), frames.concat()].concat()
}

#[test]
fn kubelets_call_is_served_and_is_not_without_the_rewriting() {
    for authority in [KUBELET, OLD_KUBELET, "localhost", "a:b:c", "user@host/x y"] {
        let input = connection(&[Layout::plain().frames(1, &call(authority))]);
        let is_valid = authority == "localhost";
        let seen = serve(&input, 1 << 16).unwrap();
        assert_eq!(seen.len(), 1, "{authority}");
        let without = serve_on(&input, 1 << 16, |socket| socket).unwrap();
        assert_eq!(
            without.len(),
            usize::from(is_valid),
            "{authority} straight to h2"
        );
        assert_eq!(seen[0].path, "/pluginregistration.Registration/GetInfo");
        let expected = if is_valid { "localhost" } else { "x" };
        assert_eq!(seen[0].authority, expected);
        assert_eq!(
            seen[0].headers,
            [
                ("content-type", "application/grpc"),
                ("user-agent", "grpc-go/1.79.1"),
                ("te", "trailers"),
                ("grpc-timeout", "999871u"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}

/// Encoders usually refer to the static table, but need not.
#[test]
fn a_name_from_the_dynamic_table_is_beyond_us() {
    let start = vec![0x83, 0x86, 0x84];
    let (mut first, mut second) = (start.clone(), start);
    literal(
        &mut first,
        Kind::Incremental,
        &Name::Index(1),
        Coding::Plain,
        "localhost",
    );
    literal(
        &mut second,
        Kind::Without,
        &Name::Index(62),
        Coding::Plain,
        KUBELET,
    );
    let frames = [
        Layout::plain().frames(1, &first),
        Layout::plain().frames(3, &second),
    ];
    assert_eq!(serve(&connection(&frames), 1 << 16).unwrap().len(), 1);
}

/// The content of one request of a client.
#[derive(Debug, Clone)]
struct Request {
    size_updates: Vec<u64>,
    authority: Authority,
    headers: Vec<Header>,
    layout: Layout,
}

#[derive(Debug, Clone)]
enum Authority {
    Literal(Kind, NameForm, Coding, String),
    /// The newest authority in the client's dynamic table, if there is one left.
    Known,
}

#[derive(Debug, Clone, Copy)]
enum NameForm {
    Static,
    Text(Coding),
}

#[derive(Debug, Clone)]
enum Header {
    Literal(Kind, usize, Coding, Coding, String),
    /// An entry of the client's dynamic table, counted from the newest.
    Known(usize),
}

const NAMES: [&str; 4] = ["x-a", "x-bb", "user-agent", "grpc-timeout"];

/// The encoder's part of the header compression, with the table of RFC 7541 section 4.
#[derive(Default)]
struct Client {
    table: VecDeque<(String, String)>,
    limit: Option<u64>,
}

impl Client {
    fn evict(&mut self) {
        let size = |(name, value): &(String, String)| (name.len() + value.len() + 32) as u64;
        while self.table.iter().map(size).sum::<u64>() > self.limit.unwrap_or(4096) {
            self.table.pop_back();
        }
    }

    fn add(&mut self, kind: Kind, name: &str, value: &str) {
        if kind == Kind::Incremental {
            self.table.push_front((name.to_owned(), value.to_owned()));
            self.evict();
        }
    }

    fn encode(&mut self, request: &Request) -> (Vec<u8>, Vec<(String, String)>) {
        let mut block = Vec::new();
        for size in &request.size_updates {
            size_update(&mut block, *size);
            self.limit = Some(*size);
            self.evict();
        }
        block.extend_from_slice(&[0x83, 0x86, 0x84]);
        let known = self.table.iter().position(|(name, _)| name == ":authority");
        match (&request.authority, known) {
            (Authority::Literal(kind, form, coding, value), _) => {
                let name = match form {
                    NameForm::Static => Name::Index(1),
                    NameForm::Text(coding) => Name::Text(*coding, ":authority".into()),
                };
                literal(&mut block, *kind, &name, *coding, value);
                self.add(*kind, ":authority", value);
            }
            (Authority::Known, Some(at)) => indexed(&mut block, 62 + at as u64),
            (Authority::Known, None) => {}
        }
        let mut expected: Vec<(String, String)> = Vec::new();
        for header in &request.headers {
            expected.extend(self.header(&mut block, header));
        }
        (block, expected)
    }

    fn header(&mut self, block: &mut Vec<u8>, header: &Header) -> Option<(String, String)> {
        match header {
            Header::Literal(kind, name, name_coding, coding, value) => {
                let name = NAMES[*name];
                let known = self.table.iter().position(|(known, _)| known == name);
                match known {
                    Some(at) if *name_coding == Coding::Plain => {
                        let name = Name::Index(62 + at as u64);
                        literal(block, *kind, &name, *coding, value);
                    }
                    _ => {
                        let name = Name::Text(*name_coding, name.into());
                        literal(block, *kind, &name, *coding, value);
                    }
                }
                self.add(*kind, name, value);
                Some((name.to_owned(), value.clone()))
            }
            Header::Known(at) => {
                let regular: Vec<usize> = (0..self.table.len())
                    .filter(|at| !self.table[*at].0.starts_with(':'))
                    .collect();
                let at = *regular.get(at % regular.len().max(1))?;
                indexed(block, 62 + at as u64);
                Some(self.table[at].clone())
            }
        }
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Incremental,
        Kind::Incremental,
        Kind::Without,
        Kind::Never,
    ])
}

fn coding() -> impl Strategy<Value = Coding> {
    prop::sample::select(vec![Coding::Plain, Coding::Huffman, Coding::Padded])
}

fn request() -> impl Strategy<Value = Request> {
    let form = prop_oneof![Just(NameForm::Static), coding().prop_map(NameForm::Text)];
    let value = prop_oneof![
        Just(KUBELET.to_owned()),
        Just(OLD_KUBELET.to_owned()),
        Just("localhost".to_owned()),
        "[!-~]{1,20}",
        "[%/]{100,300}",
    ];
    let authority = prop_oneof![
        3 => (kind(), form, coding(), value)
            .prop_map(|(kind, form, coding, value)| Authority::Literal(kind, form, coding, value)),
        1 => Just(Authority::Known),
    ];
    let header = prop_oneof![
        2 => (kind(), 0..NAMES.len(), coding(), coding(), "[!-~]{0,40}")
            .prop_map(|(kind, name, a, b, value)| Header::Literal(kind, name, a, b, value)),
        1 => (0_usize..20).prop_map(Header::Known),
    ];
    let layout = (
        prop::option::of(any::<u8>()),
        any::<bool>(),
        prop::collection::vec(0_usize..60, 0..5),
    )
        .prop_map(|(padding, priority, fragments)| Layout {
            padding,
            priority,
            fragments,
        });
    let size_updates = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(0_u64..400, 1..3),
        1 => Just(vec![0, 4096]),
    ];
    (
        size_updates,
        authority,
        prop::collection::vec(header, 0..6),
        layout,
    )
        .prop_map(|(size_updates, authority, headers, layout)| Request {
            size_updates,
            authority,
            headers,
            layout,
        })
}

proptest! {
    #[test]
    fn the_server_sees_what_the_client_meant(
        requests in prop::collection::vec(request(), 1..12),
        read in 1_usize..200,
    ) {
        let mut client = Client::default();
        let mut frames = Vec::new();
        let mut expected = Vec::new();
        for (number, request) in requests.iter().enumerate() {
            let (block, headers) = client.encode(request);
            frames.push(request.layout.frames(number as u32 * 2 + 1, &block));
            expected.push(headers);
        }
        let seen = serve(&connection(&frames), read).unwrap();
        prop_assert_eq!(seen.len(), expected.len());
        for (seen, expected) in seen.iter().zip(&expected) {
            prop_assert_eq!(&seen.path, "/");
            let mut sorted = (seen.headers.clone(), expected.clone());
            sorted.0.sort();
            sorted.1.sort();
            prop_assert_eq!(sorted.0, sorted.1);
        }
    }

    /// Hostile blocks may get any answer, but must not hang, panic or confuse the server.
    #[test]
    fn broken_blocks_get_an_answer(
        block in prop::collection::vec(any::<u8>(), 0..60),
        value in "[!-~]{0,9}",
        read in 1_usize..100,
    ) {
        let mut whole = vec![0x83, 0x86, 0x84];
        whole.push(0x41);
        string(&mut whole, Coding::Plain, &value);
        whole.extend_from_slice(&block);
        let _ = serve(&connection(&[Layout::plain().frames(1, &whole)]), read);
    }
}
