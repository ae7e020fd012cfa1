//! Requests that no HTTP library would send: each is written to a connection of its own, byte by byte.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::delivery::Delivery;

/// What came back on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    Status(u16),
    /// An answer, and then the end of the connection, although nobody asked for it.
    StatusAndClosed(u16),
    Closed,
    /// Neither an answer nor an end.
    Nothing,
}

/// How soon after an answer a connection is closed that must not go on.
const CLOSES_WITHIN: Duration = Duration::from_secs(2);

/// How the length of the body is said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Chunked,
    /// Ten bytes more than there are.
    TooLong,
    /// A length, and chunks as well.
    Both,
    /// Two lengths, of which one is wrong.
    TwoLengths,
}

/// Whether the bytes can be written as they are: not under TLS.
pub fn is_possible(url: &Url) -> bool {
    url.scheme() == "http"
}

async fn connect(url: &Url) -> Result<TcpStream> {
    let host = url.host_str().context("the address has no host")?;
    let port = url
        .port_or_known_default()
        .context("the address has no port")?;
    let host = host.trim_matches(['[', ']']);
    TcpStream::connect((host, port))
        .await
        .context("no connection")
}

fn head(url: &Url, delivery: &Delivery) -> String {
    use std::fmt::Write as _;
    let authority = url.authority();
    let path = url.path();
    let query = url
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let mut head = format!("POST {path}{query} HTTP/1.1\r\nHost: {authority}\r\n");
    for (name, value) in &delivery.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head
}

/// Sends a delivery whose length is said so, and ends its side of the connection.
pub async fn framed(
    url: &Url,
    delivery: &Delivery,
    framing: Framing,
    wait: Duration,
) -> Result<Came> {
    let mut bytes = head(url, delivery).into_bytes();
    let length = delivery.body.len();
    let lines = match framing {
        Framing::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        Framing::TooLong => format!("Content-Length: {}\r\n", length + 10),
        Framing::Both => format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
        Framing::TwoLengths => {
            format!(
                "Content-Length: {length}\r\nContent-Length: {}\r\n",
                length / 2
            )
        }
    };
    bytes.extend_from_slice(lines.as_bytes());
    let stays_open = framing == Framing::Both;
    if !stays_open {
        bytes.extend_from_slice(b"Connection: close\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    let is_chunked = matches!(framing, Framing::Chunked | Framing::Both);
    if is_chunked {
        for part in delivery.body.chunks(1000) {
            bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    } else {
        bytes.extend_from_slice(&delivery.body);
    }
    let mut stream = connect(url).await?;
    // A receiver may answer before it has read everything.
    let _ = stream.write_all(&bytes).await;
    if framing == Framing::TooLong {
        let _ = stream.shutdown().await;
    }
    let came = came(&mut stream, wait).await?;
    match came {
        Came::Status(status) if stays_open && is_closed(&mut stream).await => {
            Ok(Came::StatusAndClosed(status))
        }
        other => Ok(other),
    }
}

/// Whether the other side ends the connection soon.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let ended = timeout(CLOSES_WITHIN, stream.read_to_end(&mut rest));
    ended.await.is_ok()
}

/// Begins a request, goes on with a byte a second, and never ends it.
pub async fn slowly(url: &Url, delivery: &Delivery, in_head: bool, wait: Duration) -> Result<Came> {
    let mut stream = connect(url).await?;
    let head = head(url, delivery);
    let begin = if in_head {
        head
    } else {
        format!("{head}Content-Length: {}\r\n\r\n", delivery.body.len())
    };
    stream
        .write_all(begin.as_bytes())
        .await
        .context("no connection")?;
    let (mut reading, mut writing) = stream.into_split();
    let drip = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let byte: &[u8] = if in_head { b"X-A: 1\r\n" } else { b" " };
            if writing.write_all(byte).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let mut first = [0; 64];
    let read = timeout(wait, reading.read(&mut first));
    tokio::select! {
        read = read => match read {
            Err(_) => Ok(Came::Nothing),
            Ok(Ok(length)) if length > 0 => status(&first[..length]),
            Ok(_) => Ok(Came::Closed),
        },
        () = drip => Ok(Came::Nothing),
    }
}

async fn came(stream: &mut TcpStream, wait: Duration) -> Result<Came> {
    let mut first = Vec::with_capacity(64);
    loop {
        let mut part = [0; 64];
        match timeout(wait, stream.read(&mut part)).await {
            Err(_) => return Ok(Came::Nothing),
            Ok(Ok(0) | Err(_)) if first.is_empty() => return Ok(Came::Closed),
            Ok(Ok(0) | Err(_)) => return status(&first),
            Ok(Ok(length)) => first.extend_from_slice(&part[..length]),
        }
        if first.len() >= 12 {
            return status(&first);
        }
    }
}

fn status(first: &[u8]) -> Result<Came> {
    let text = String::from_utf8_lossy(first);
    let code = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
    match code.and_then(|code| code.parse().ok()) {
        Some(code) => Ok(Came::Status(code)),
        None => bail!("the answer is not HTTP"),
    }
}
