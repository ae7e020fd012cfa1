//! A TCP stream on a port that strangers can reach. It gives up on a peer that does not read, on
//! one that does not send the headers of its request in time, and on one that has been idle for as
//! long as it may. It closes in such a way that the last bytes written arrive. A connection that is closed while
//! bytes are unread is reset, and a reset takes from the peer what the peer has not read yet. So
//! the end of our side is sent first (FIN), and what still comes is read and dropped, with limits
//! on time and bytes and without keeping it in memory.

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
use crate::exchange::{Exchange, Phase};

/// A peer that has taken no byte of its answers for this long is cut off.
pub const UNREAD_LIMIT: Duration = Duration::from_secs(15);

/// How long the rest of a body is waited for: between two bytes, and in all.
const QUIET_LIMIT: Duration = Duration::from_secs(5);
const CLOSING_LIMIT: Duration = Duration::from_secs(15);

/// How long a peer that has sent everything may take to close its own side.
const PEER_END_LIMIT: Duration = Duration::from_secs(1);

/// The most bytes that are dropped: twice the largest body that can be configured.
const DROPPED: usize = 64 * 1024 * 1024;

/// How many reads of 16 KiB are done in one go.
const AT_ONCE: usize = 4;

pub struct Socket {
    stream: TcpStream,
    exchange: Arc<Exchange>,
    /// Runs while the peer takes no bytes.
    unread: Option<Pin<Box<Sleep>>>,
    /// Runs while the peer sends no bytes, for the phase in which it was started.
    waiting: Option<(Phase, Pin<Box<Sleep>>)>,
    closing: Option<Closing>,
}

/// The state of closing: the end of our side is sent, and what still comes is dropped.
struct Closing {
    quiet: Duration,
    timer: Pin<Box<Sleep>>,
    over: Instant,
    left: usize,
}

impl Closing {
    fn new(quiet: Duration) -> Self {
        Closing {
            quiet,
            timer: Box::pin(sleep(quiet)),
            over: Instant::now() + CLOSING_LIMIT,
            left: DROPPED,
        }
    }

    fn received(&mut self, bytes: usize) {
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
            waiting: None,
            closing: None,
        }
    }

    /// Lets a read wait for as long as the peer may take. An idle connection then ends as if the
    /// peer had ended it. A request whose headers are not complete is an error.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let phase = self.exchange.phase();
        let Some(limit) = phase.limit() else {
            return Poll::Pending;
        };
        let (begun, timer) = self
            .waiting
            .get_or_insert_with(|| (phase, Box::pin(sleep(limit))));
        if *begun != phase {
            *begun = phase;
            timer.as_mut().reset(Instant::now() + limit);
        }
        ready!(timer.as_mut().poll(context));
        Poll::Ready(match phase {
            Phase::Idle(..) => Ok(()),
            Phase::Head(_) | Phase::Answer(_) => Err(io::ErrorKind::TimedOut.into()),
        })
    }

    /// Lets a write wait for as long as the peer may take.
    fn watch(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.unread = None;
            return written;
        }
        let timer = self
            .unread
            .get_or_insert_with(|| Box::pin(sleep(UNREAD_LIMIT)));
        ready!(timer.as_mut().poll(context));
        count_cut(connections::UNREAD);
        // What the kernel still has for the peer is dropped too.
        let _ = self.stream.set_zero_linger();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Reads and drops what still comes, until the peer closes its side too.
    fn drop_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(closing) = &mut self.closing else {
            return Poll::Ready(());
        };
        for _ in 0..AT_ONCE {
            if closing.left == 0 {
                return Poll::Ready(());
            }
            let mut space = [MaybeUninit::uninit(); 16 * 1024];
            let mut buffer = ReadBuf::uninit(&mut space);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    closing.received(buffer.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return closing.timer.as_mut().poll(context),
            }
        }
        // Other tasks run first, because dropping is not urgent.
        if closing.timer.as_mut().poll(context).is_ready() {
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
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Pending => this.wait(context),
            Poll::Ready(read) => {
                this.exchange.came();
                Poll::Ready(read)
            }
        }
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

    /// Ready when the peer has what was written, as far as that can be waited for.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.closing.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            let quiet = match (this.exchange.is_unread(), this.exchange.is_stopping()) {
                (true, _) => QUIET_LIMIT,
                (false, false) => PEER_END_LIMIT,
                // The connection is most likely idle, and its client is not waited for when the
                // process stops.
                (false, true) => return Poll::Ready(Ok(())),
            };
            this.closing = Some(Closing::new(quiet));
        }
        this.drop_rest(context).map(Ok)
    }
}
