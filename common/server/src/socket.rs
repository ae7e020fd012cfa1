//! A TCP stream on a port that strangers reach. It gives up on a peer that does not read, and it
//! ends so that what was written last arrives: closed with bytes unread, a connection is reset,
//! and a reset takes from the peer what it has not read yet. So the end is sent first (FIN), and
//! what still comes is read and dropped, within bounds of time and bytes and without memory.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::connections::{self, count_cut};
use crate::exchange::Exchange;

/// Whoever has taken no byte of its answers for so long is cut off.
const UNREAD: Duration = Duration::from_secs(15);

/// How long the rest of a body is waited for: between two bytes, and in all.
const QUIET: Duration = Duration::from_secs(5);
const FAREWELL: Duration = Duration::from_secs(15);

/// How long a peer that has sent all may take to end its own side.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Twice the largest body that can be set.
const DROPPED: usize = 64 * 1024 * 1024;

/// Reads of it in one go, of 16 KiB each.
const AT_ONCE: usize = 4;

pub struct Socket {
    stream: TcpStream,
    exchange: Arc<Exchange>,
    /// Runs while the peer takes nothing.
    unread: Option<Pin<Box<Sleep>>>,
    farewell: Option<Farewell>,
}

/// The end is sent; what still comes is dropped.
struct Farewell {
    quiet: Duration,
    timer: Pin<Box<Sleep>>,
    over: Instant,
    left: usize,
}

impl Farewell {
    fn new(quiet: Duration) -> Self {
        Farewell {
            quiet,
            timer: Box::pin(sleep(quiet)),
            over: Instant::now() + FAREWELL,
            left: DROPPED,
        }
    }

    fn heard(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        let until = self.over.min(Instant::now() + self.quiet);
        self.timer.as_mut().reset(until);
    }
}

impl Socket {
    pub fn new(stream: TcpStream, exchange: Arc<Exchange>) -> Self {
        Socket {
            stream,
            exchange,
            unread: None,
            farewell: None,
        }
    }

    /// Lets a write wait for as long as the peer may.
    fn watch(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.unread = None;
            return written;
        }
        let timer = self.unread.get_or_insert_with(|| Box::pin(sleep(UNREAD)));
        ready!(timer.as_mut().poll(context));
        count_cut(connections::UNREAD);
        // What the kernel still has for it is dropped too.
        let _ = self.stream.set_zero_linger();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Reads what still comes, until the peer ends its side too.
    fn drop_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(farewell) = &mut self.farewell else {
            return Poll::Ready(());
        };
        for _ in 0..AT_ONCE {
            if farewell.left == 0 {
                return Poll::Ready(());
            }
            let mut space = [MaybeUninit::uninit(); 16 * 1024];
            let mut buffer = ReadBuf::uninit(&mut space);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    farewell.heard(buffer.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return farewell.timer.as_mut().poll(context),
            }
        }
        // Others first: what is dropped here is in no hurry.
        if farewell.timer.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.watch(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    /// Ready once the peer has what was written, as far as that can be waited for.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.farewell.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            let quiet = match (this.exchange.is_unread(), this.exchange.is_stopping()) {
                (true, _) => QUIET,
                (false, false) => LAST_WORD,
                // Idle, most likely: its client is not waited for at the end of the process.
                (false, true) => return Poll::Ready(Ok(())),
            };
            this.farewell = Some(Farewell::new(quiet));
        }
        this.drop_rest(context).map(Ok)
    }
}
