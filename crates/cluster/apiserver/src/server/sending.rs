//! Responses on their way to clients. The seat and the memory of a request are held until its response has been sent; a
//! client that does not read is disconnected.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use berth_schema::resource::Defined;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::budget::Share;
use super::metrics::{InFlight, RESPONSES};
use crate::fairness::Seat;
use crate::handlers::Body;

/// The first events of a watch may take this many times as long as another response.
const WATCH_TIMES: u32 = 5;

/// Events up to this size are sent to a client that has read all others, whatever memory is in use.
const SMALL: usize = 16 << 10;

/// What a request holds until its response has been sent.
#[derive(Default)]
pub struct Held {
    pub seat: Option<Arc<Seat>>,
    /// Its part of the watches and of the memory of their selectors, and its place in their metric.
    pub watch: Option<(Share, Share, InFlight)>,
    /// The definitions of custom resources that the response is made by.
    pub definitions: Option<Arc<[Defined]>>,
}

#[derive(Default)]
pub struct Sending(Mutex<Vec<Weak<Response>>>);

impl Sending {
    /// A body that holds what its request holds, and memory, until it has been sent over the connection that the token ends, within a
    /// time. For a watch, this is the time for its first events. `memory` has what the body holds before its first piece
    /// is made.
    pub fn track(
        &self,
        body: Body,
        held: Held,
        memory: Share,
        time: Duration,
        connection: Option<CancellationToken>,
    ) -> ResponseBody {
        let now = Instant::now();
        let (until_idle, deadline) = match body {
            Body::Stream(_, held) => (held, Some(now + time * WATCH_TIMES)),
            Body::Full(_) | Body::Chunks(..) => (0, Some(now + time)),
        };
        let progress = Progress { unsent: 0, waits_for_events: false, at: now, deadline, memory, until_idle };
        let response = Arc::new(Response { progress: Mutex::new(progress), connection, _held: held });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&response));
        ResponseBody { body, response }
    }

    /// Ends the connections of clients that have read nothing for this long.
    fn disconnect_stalled(&self, now: Instant, timeout: Duration) {
        let mut responses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        responses.retain(|response| {
            let Some(response) = response.upgrade() else { return false };
            let is_stalled = {
                let progress = response.lock();
                let is_idle = progress.waits_for_events && progress.unsent == 0;
                let is_late = progress.deadline.is_some_and(|deadline| now >= deadline);
                is_late || (!is_idle && now.saturating_duration_since(progress.at) >= timeout)
            };
            if is_stalled && let Some(connection) = &response.connection {
                tracing::debug!("a client does not read, or too slowly; its connection ends");
                connection.cancel();
            }
            !is_stalled
        });
        responses.shrink_to(1024);
    }

    /// Disconnects stalled clients until the server stops.
    pub async fn run(&self, timeout: Duration, stop: CancellationToken) {
        let checks = async {
            loop {
                tokio::time::sleep(timeout / 4).await;
                self.disconnect_stalled(Instant::now(), timeout);
            }
        };
        stop.run_until_cancelled(checks).await;
    }
}

/// What a response holds while it is sent.
struct Response {
    progress: Mutex<Progress>,
    connection: Option<CancellationToken>,
    _held: Held,
}

struct Progress {
    /// Pieces that the connection has and has not sent.
    unsent: usize,
    /// Whether the body has nothing to send at present.
    waits_for_events: bool,
    /// When the connection last took a piece, or finished one.
    at: Instant,
    /// When the body, or the first events of a watch, must have been sent.
    deadline: Option<Instant>,
    memory: Share,
    /// The part of the memory that a watch holds until it has sent its first events.
    until_idle: usize,
}

impl Response {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a response with what it holds.
pub struct ResponseBody {
    body: Body,
    response: Arc<Response>,
}

/// A piece of a body, until the connection has sent it.
struct Piece {
    bytes: Bytes,
    response: Arc<Response>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut progress = self.response.lock();
        progress.unsent -= 1;
        progress.at = Instant::now();
        progress.memory.shrink(self.bytes.len());
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (is_full, is_watch) = (matches!(self.body, Body::Full(_)), matches!(self.body, Body::Stream(..)));
        let polled = RESPONSES.run(|| Pin::new(&mut self.body).poll_frame(cx));
        let mut progress = self.response.lock();
        progress.waits_for_events = polled.is_pending();
        if polled.is_pending() {
            progress.deadline = None;
            let until_idle = std::mem::take(&mut progress.until_idle);
            progress.memory.shrink(until_idle);
        }
        let frame = std::task::ready!(polled);
        progress.at = Instant::now();
        let Some(Ok(Ok(bytes))) = frame.map(|frame| frame.map(Frame::into_data)) else {
            return Poll::Ready(None);
        };
        if is_watch && (progress.unsent > 0 || bytes.len() > SMALL) {
            if !progress.memory.try_grow(bytes.len()) {
                // Its client continues from the last event that it has read.
                tracing::debug!("too much memory holds events that clients do not read; a watch ends");
                return Poll::Ready(None);
            }
        } else if !is_full {
            progress.memory.grow(bytes.len());
        }
        progress.unsent += 1;
        drop(progress);
        let piece = Piece { bytes, response: self.response.clone() };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::super::budget::Budget;
    use super::*;
    use crate::request::User;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn after(sending: &Sending, time: Duration) {
        sending.disconnect_stalled(Instant::now() + time, TIMEOUT);
    }

    #[tokio::test]
    async fn memory_is_held_until_the_last_piece_is_sent_or_the_client_is_disconnected() {
        let (sending, budget) = (Sending::default(), Budget::new(1 << 20, 1 << 20));
        let track = || {
            let connection = CancellationToken::new();
            let mut memory = budget.share(&Arc::new(User::admin()));
            memory.grow(100_000);
            let body = Body::Full(Bytes::from(vec![1; 100_000]));
            (sending.track(body, Held::default(), memory, 10 * TIMEOUT, Some(connection.clone())), connection)
        };
        let (mut read, connection) = track();
        let first = read.frame().await.unwrap().unwrap().into_data().unwrap();
        let second = read.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.len() + second.len(), 100_000);
        assert!(read.frame().await.is_none());
        drop((read, first));
        assert_eq!(budget.used(), second.len());
        drop(second);
        assert_eq!(budget.used(), 0);
        after(&sending, TIMEOUT);
        assert!(!connection.is_cancelled());

        // Never polled, as by a connection without room for more.
        let (_unread, connection) = track();
        after(&sending, TIMEOUT);
        assert!(connection.is_cancelled());

        // Taken by the connection, but not sent.
        let (mut stuck, connection) = track();
        let _piece = stuck.frame().await;
        after(&sending, TIMEOUT / 2);
        assert!(!connection.is_cancelled());
        after(&sending, TIMEOUT);
        assert!(connection.is_cancelled());
    }

    #[tokio::test]
    async fn a_client_that_reads_too_slowly_is_disconnected() {
        let sending = Sending::default();
        let connection = CancellationToken::new();
        let memory = Budget::new(1, 1).share(&Arc::new(User::admin()));
        let body = Body::Full(Bytes::from(vec![1; 100_000]));
        let mut slow = sending.track(body, Held::default(), memory, TIMEOUT / 2, Some(connection.clone()));
        drop(slow.frame().await);
        after(&sending, TIMEOUT / 4);
        assert!(!connection.is_cancelled());
        after(&sending, TIMEOUT / 2);
        assert!(connection.is_cancelled());
    }

    #[tokio::test]
    async fn an_idle_watch_is_not_disconnected_and_an_unread_one_is() {
        let (sending, budget) = (Sending::default(), Budget::new(1 << 20, 1 << 20));
        let (events, receiver) = futures::channel::mpsc::unbounded::<Bytes>();
        let connection = CancellationToken::new();
        let mut memory = budget.share(&Arc::new(User::admin()));
        memory.grow(1000);
        let body = Body::Stream(Box::pin(receiver), 1000);
        let mut watch = sending.track(body, Held::default(), memory, TIMEOUT, Some(connection.clone()));
        assert!(watch.frame().now_or_never().is_none());
        assert_eq!(budget.used(), 0, "the first events have been sent");
        after(&sending, 100 * TIMEOUT);
        assert!(!connection.is_cancelled());
        events.unbounded_send(Bytes::from_static(b"event")).unwrap();
        let unsent = watch.frame().await.unwrap();
        assert_eq!(budget.used(), 5);
        after(&sending, TIMEOUT);
        assert!(connection.is_cancelled());
        drop(unsent);
        assert_eq!(budget.used(), 0);
    }
}
