//! An HTTP client for `/healthz` and `/metrics`, and malicious clients.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub mod attack;
pub mod tls;

/// A response.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Status line and headers, in lower case.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// Parses all bytes that a server sent before it closed the connection.
    fn read(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some(Self {
            status: head.split(' ').nth(1)?.parse().ok()?,
            head: head.to_lowercase(),
            body: body.to_owned(),
        })
    }

    /// Status and body, which most tests compare.
    #[must_use]
    pub fn head_and_body(&self) -> (u16, &str) {
        (self.status, &self.body)
    }
}

/// Requests `path` with GET.
///
/// # Panics
///
/// If there is no response.
pub async fn get(address: &str, path: &str) -> Answer {
    request(address, "GET", path).await
}

/// Requests `path` on a new connection.
///
/// # Panics
///
/// If there is no response.
pub async fn request(address: &str, method: &str, path: &str) -> Answer {
    let stream = TcpStream::connect(address).await;
    let mut stream = stream.expect("connect to the HTTP server");
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let sent = stream.write_all(request.as_bytes()).await;
    sent.expect("send a request");
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer).await;
    read.expect("read an answer");
    Answer::read(&answer).expect("a whole answer")
}
