//! Hostile clients: raw connections from any loopback address (Linux answers on all of
//! 127.0.0.0/8), and the attacks that they make on a port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use domain::signature::sign_storefront;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::delivery::{Delivery, order};
use super::pause;

/// A connection from an address of this machine.
pub async fn connect_from(own: [u8; 4], to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::from(own), 0).into())?;
    socket.connect(to).await
}

/// The head of a delivery, with a line of its own about the length of its body.
pub fn head(delivery: &Delivery, length: &str) -> String {
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: waybill\r\n{length}\r\n",
        delivery.path
    );
    for (name, value) in &delivery.headers {
        head.extend([name, ": ", std::str::from_utf8(value).unwrap(), "\r\n"]);
    }
    head + "\r\n"
}

/// A delivery whose signature could be right, and is not.
pub fn forged() -> Delivery {
    let signature = sign_storefront("another secret", b"{}");
    order("orders/create", 1).header("X-Storefront-Hmac-Sha256", signature)
}

/// How long a stranger takes to come again. It is the connections that are many: who can also keep
/// the processor busy needs no trick, and is stopped elsewhere.
const AGAIN: Duration = Duration::from_secs(10);

/// What a stranger does, over and over.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Silent,
    SlowHead,
    LargeHead,
    SlowBody,
    HeldBody,
    Unsigned,
    NeverReads,
    Garbage,
    NoHost,
    InventedShops,
}

impl Kind {
    pub const ALL: [Kind; 10] = [
        Kind::Silent,
        Kind::SlowHead,
        Kind::LargeHead,
        Kind::SlowBody,
        Kind::HeldBody,
        Kind::Unsigned,
        Kind::NeverReads,
        Kind::Garbage,
        Kind::NoHost,
        Kind::InventedShops,
    ];

    /// Does it until the connection ends, on one connection after the other, for ever.
    pub async fn go_on(self, own: [u8; 4], to: SocketAddr) {
        loop {
            if let Ok(stream) = connect_from(own, to).await {
                let _ = self.act(stream, own).await;
            }
            pause(AGAIN).await;
        }
    }

    async fn act(self, mut stream: TcpStream, own: [u8; 4]) -> io::Result<()> {
        match self {
            Kind::Silent => ended(&mut stream).await,
            Kind::SlowHead => drip(&mut stream, b"GET /livez HTTP/1.1\r\nX-Slow: ").await,
            Kind::LargeHead => {
                let head = format!("GET /livez HTTP/1.1\r\nX-Large: {}", "x".repeat(60_000));
                stream.write_all(head.as_bytes()).await?;
                ended(&mut stream).await
            }
            Kind::SlowBody => {
                let head = head(&forged(), "Content-Length: 2000");
                drip(&mut stream, head.as_bytes()).await
            }
            Kind::HeldBody => {
                let size = 2 * 1024 * 1024;
                let head = head(&forged(), &format!("Content-Length: {size}"));
                flood(&mut stream, head.as_bytes(), size - 1).await
            }
            Kind::Unsigned => {
                let unsigned = forged().without("X-Storefront-Hmac-Sha256");
                let head = head(&unsigned, "Content-Length: 2097152");
                flood(&mut stream, head.as_bytes(), 256 * 1024).await
            }
            Kind::NeverReads => {
                let request = "GET /docs HTTP/1.1\r\nHost: a\r\n\r\n".repeat(40);
                stream.write_all(request.as_bytes()).await?;
                loop {
                    pause(Duration::from_secs(1)).await;
                    stream
                        .write_all(b"GET /docs HTTP/1.1\r\nHost: a\r\n\r\n")
                        .await?;
                }
            }
            Kind::Garbage => {
                stream
                    .write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])
                    .await?;
                stream.write_all(b"\r\n\r\nno HTTP\r\n\r\n").await?;
                ended(&mut stream).await
            }
            Kind::NoHost => {
                stream.write_all(b"GET /livez HTTP/1.1\r\n\r\n").await?;
                ended(&mut stream).await
            }
            Kind::InventedShops => {
                let captured = order("orders/create", 1);
                let length = format!("Content-Length: {}", captured.body.len());
                for turn in 0_u64.. {
                    let shop = format!("shop-{turn}-{}.example", own[3]);
                    let again = captured.clone().of_shop(&shop).id(&shop);
                    let mut request = head(&again, &length).into_bytes();
                    request.extend(&captured.body);
                    stream.write_all(&request).await?;
                    let mut answer = [0; 4096];
                    if stream.read(&mut answer).await? == 0 {
                        break;
                    }
                    pause(Duration::from_secs(4)).await;
                }
                Ok(())
            }
        }
    }
}

/// Reads until the service ends it.
async fn ended(stream: &mut TcpStream) -> io::Result<()> {
    let mut answer = [0; 4096];
    while stream.read(&mut answer).await? > 0 {}
    Ok(())
}

/// Sends this, and then a byte a second.
async fn drip(stream: &mut TcpStream, begin: &[u8]) -> io::Result<()> {
    stream.write_all(begin).await?;
    let mut answer = [0; 4096];
    loop {
        stream.write_all(b"x").await?;
        if let Ok(read) = timeout(Duration::from_secs(1), stream.read(&mut answer)).await
            && read? == 0
        {
            return Ok(());
        }
    }
}

/// Sends this and so many bytes more, as fast as they are taken, and waits for the end.
async fn flood(stream: &mut TcpStream, begin: &[u8], mut bytes: usize) -> io::Result<()> {
    const PIECE: &[u8] = &[b' '; 64 * 1024];
    stream.write_all(begin).await?;
    while bytes > 0 {
        let piece = &PIECE[..bytes.min(PIECE.len())];
        stream.write_all(piece).await?;
        bytes -= piece.len();
    }
    ended(stream).await
}
