//! An HTTP client for `/healthz` and `/metrics`, and clients that mean no good.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub mod attack;
pub mod tls;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Status line and headers, in lower case.
    pub head: String,
    /// What follows them.
    pub body: String,
}

impl Answer {
    /// Of what a server has sent until it ended the connection.
    fn read(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some(Self {
            status: head.split(' ').nth(1)?.parse().ok()?,
            head: head.to_lowercase(),
            body: body.to_owned(),
        })
    }

    /// What most tests compare.
    #[must_use]
    pub fn head_and_body(&self) -> (u16, &str) {
        (self.status, &self.body)
    }
}

/// Requests `path` with GET.
///
/// # Panics
///
/// There is no answer.
pub async fn get(address: &str, path: &str) -> Answer {
    request(address, "GET", path).await
}

/// Requests `path`, on a connection of its own.
///
/// # Panics
///
/// There is no answer.
pub async fn request(address: &str, method: &str, path: &str) -> Answer {
    let stream = TcpStream::connect(address).await;
    let mut stream = stream.expect("connect to the HTTP server");
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let sent = stream.write_all(request.as_bytes()).await;
    sent.expect("send a request");
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer).await;
    read.expect("read an answer");
    Answer::read(&answer).expect("a whole answer")
}
