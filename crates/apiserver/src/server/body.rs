//! Request bodies, read within limits, and response bodies.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http::StatusCode;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::status::Status;
use crate::store::Object;

/// The largest request body, as for kube-apiserver.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Lists are sent in pieces of about this size.
const LIST_CHUNK_BYTES: usize = 64 * 1024;

/// The body of a request: from a connection, or from a caller in the same process.
pub trait RequestBody:
    HttpBody<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static
{
}

impl<B> RequestBody for B where
    B: HttpBody<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static
{
}

/// How many bytes of bodies are held at once.
pub struct Room(Semaphore);

/// Reserved memory of a body, released on drop.
pub type Held<'r> = Option<SemaphorePermit<'r>>;

/// Memory is reserved in units of this many bytes.
const ROOM_UNIT: usize = 1024;

impl Room {
    /// A budget of this many bytes, at least one body of the largest size.
    pub fn new(bytes: usize) -> Room {
        Room(Semaphore::new((bytes.max(MAX_BODY_BYTES) / ROOM_UNIT).min(Semaphore::MAX_PERMITS)))
    }
}

/// Reserves memory for a request body and reads it.
///
/// # Errors
/// The body is too large, too slow or truncated.
pub async fn read(
    body: impl RequestBody,
    room: &Room,
    timeout: Duration,
) -> Result<(Bytes, Held<'_>), Box<Status>> {
    let too_large = || {
        let message = format!("Request entity too large: limit is {MAX_BODY_BYTES}");
        Status::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    };
    let hint = body.size_hint();
    if hint.lower() > MAX_BODY_BYTES as u64 {
        return Err(too_large());
    }
    // A body without a content length may have the largest size.
    let expected =
        usize::try_from(hint.upper().unwrap_or(u64::MAX)).unwrap_or(usize::MAX).min(MAX_BODY_BYTES);
    if expected == 0 {
        return Ok((Bytes::new(), None));
    }
    let units = u32::try_from(expected.div_ceil(ROOM_UNIT)).unwrap_or(u32::MAX);
    let read = async {
        let held = room.0.acquire_many(units).await.ok();
        Limited::new(body, MAX_BODY_BYTES).collect().await.map(|collected| (collected.to_bytes(), held))
    };
    match tokio::time::timeout(timeout, read).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Status::bad_request(format!("the request body could not be read: {error}"))),
        Err(_) => Err(Status::new(
            StatusCode::REQUEST_TIMEOUT,
            "Timeout",
            "the request body did not arrive in time",
        )),
    }
}

/// The body of an answer.
pub enum Body {
    /// The complete body.
    Full(Bytes),
    /// A list, put together from stored bytes while it is sent.
    List(ListBody),
    /// A stream of chunks.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

/// A list's text around its items.
pub struct ListBody {
    head: Bytes,
    items: Items,
    tail: &'static [u8],
    next: usize,
    left: u64,
}

/// The items of a list.
pub enum Items {
    /// A range of objects as they are stored.
    Stored(Arc<Vec<Arc<Object>>>, std::ops::Range<usize>),
    /// Objects converted for this answer.
    Made(Vec<Bytes>),
}

impl Items {
    fn len(&self) -> usize {
        match self {
            Items::Stored(_, range) => range.len(),
            Items::Made(items) => items.len(),
        }
    }

    fn get(&self, i: usize) -> &[u8] {
        match self {
            Items::Stored(objects, range) => objects[range.start + i].json(),
            Items::Made(items) => &items[i],
        }
    }
}

impl ListBody {
    /// `head` is the text before the first item; `]}` follows the last.
    pub fn new(head: Bytes, items: Items) -> ListBody {
        let tail = b"]}\n";
        let n = items.len();
        let bytes: usize = (0..n).map(|i| items.get(i).len()).sum();
        let left = (head.len() + bytes + n.saturating_sub(1) + tail.len()) as u64;
        ListBody { head, items, tail, next: 0, left }
    }

    fn next_chunk(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(LIST_CHUNK_BYTES * 5 / 4);
        let mut chunk = BytesMut::with_capacity(room);
        chunk.extend_from_slice(&std::mem::take(&mut self.head));
        while self.next < self.items.len() && chunk.len() < LIST_CHUNK_BYTES {
            if self.next > 0 {
                chunk.extend_from_slice(b",");
            }
            chunk.extend_from_slice(self.items.get(self.next));
            self.next += 1;
        }
        if self.next == self.items.len() {
            chunk.extend_from_slice(self.tail);
        }
        self.left = self.left.saturating_sub(chunk.len() as u64);
        Some(chunk.freeze())
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = match self.get_mut() {
            Body::Full(bytes) if bytes.is_empty() => None,
            Body::Full(bytes) => Some(std::mem::take(bytes)),
            Body::List(list) => list.next_chunk(),
            Body::Stream(stream) => std::task::ready!(stream.as_mut().poll_next(cx)),
        };
        Poll::Ready(chunk.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Full(bytes) => bytes.is_empty(),
            Body::List(list) => list.left == 0,
            Body::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::List(list) => SizeHint::with_exact(list.left),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn list_bodies_match_their_content_length() {
        for n in [0_usize, 1, 2, 5000] {
            let items = (0..n).map(|i| Bytes::from(format!("{{\"i\":{i}}}"))).collect();
            let body = Body::List(ListBody::new(Bytes::from_static(b"{\"items\":["), Items::Made(items)));
            let said = body.size_hint().exact().unwrap();
            let bytes = body.collect().await.unwrap().to_bytes();
            assert_eq!(bytes.len() as u64, said);
            let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(value["items"].as_array().unwrap().len(), n);
        }
    }
}
