//! Request bodies, read within limits, and response bodies, made piece by piece while they are sent.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use http::StatusCode;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::status::Status;

/// The largest request body, as for kube-apiserver.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Responses are sent in pieces of about this size.
const CHUNK_BYTES: usize = 64 * 1024;
/// Responses of this size or more are compressed for clients that accept it, as by kube-apiserver.
const COMPRESSED_FROM: usize = 128 * 1024;
/// kube-apiserver's: the fastest.
const COMPRESSION_LEVEL: u32 = 1;

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
    /// A long body, made while it is sent.
    Chunks(Chunks),
    /// A stream of chunks.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

/// The pieces of a long body.
pub type Chunks = Box<dyn Iterator<Item = Bytes> + Send>;

/// A list: `head` is the text before the first item, `]}` follows the last. Items are written when their turn comes.
pub fn list<T, I, W>(head: String, items: I, write: W) -> Body
where
    I: IntoIterator<Item = T, IntoIter: Send + 'static>,
    W: FnMut(&T, &mut Vec<u8>) + Send + 'static,
    T: Send + 'static,
{
    let mut chunks =
        List { head: head.into_bytes(), items: items.into_iter(), write, is_first: true, ended: false };
    let mut start = Vec::new();
    while start.len() < COMPRESSED_FROM {
        match chunks.next() {
            Some(chunk) => start.extend_from_slice(&chunk),
            None => return Body::Full(start.into()),
        }
    }
    Body::Chunks(Box::new(std::iter::once(start.into()).chain(chunks)))
}

struct List<I, W> {
    head: Vec<u8>,
    items: I,
    write: W,
    is_first: bool,
    ended: bool,
}

impl<T, I: Iterator<Item = T>, W: FnMut(&T, &mut Vec<u8>)> Iterator for List<I, W> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut chunk = std::mem::take(&mut self.head);
        while chunk.len() < CHUNK_BYTES && !self.ended {
            match self.items.next() {
                Some(item) => {
                    if !std::mem::take(&mut self.is_first) {
                        chunk.push(b',');
                    }
                    (self.write)(&item, &mut chunk);
                }
                None => {
                    chunk.extend_from_slice(b"]}\n");
                    self.ended = true;
                }
            }
        }
        Some(chunk.into())
    }
}

struct Gzip {
    chunks: Chunks,
    /// `None` at the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Iterator for Gzip {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            match self.chunks.next() {
                // Writing to memory does not fail.
                Some(chunk) => drop(encoder.write_all(&chunk)),
                None => return self.encoder.take()?.finish().ok().map(Bytes::from),
            }
            if !encoder.get_ref().is_empty() {
                return Some(std::mem::take(encoder.get_mut()).into());
            }
        }
    }
}

/// Splits off up to a chunk; `None` at the end.
fn split_chunk(bytes: &mut Bytes) -> Option<Bytes> {
    (!bytes.is_empty()).then(|| bytes.split_to(bytes.len().min(CHUNK_BYTES)))
}

impl Body {
    /// Compresses the body with gzip if that is worth it, and whether it did.
    pub fn compressed(self) -> (Body, bool) {
        let chunks: Chunks = match self {
            Body::Full(mut bytes) if bytes.len() >= COMPRESSED_FROM => {
                Box::new(std::iter::from_fn(move || split_chunk(&mut bytes)))
            }
            Body::Chunks(chunks) => chunks,
            other => return (other, false),
        };
        let encoder = GzEncoder::new(Vec::new(), Compression::new(COMPRESSION_LEVEL));
        (Body::Chunks(Box::new(Gzip { chunks, encoder: Some(encoder) })), true)
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
            Body::Full(bytes) => split_chunk(bytes),
            Body::Chunks(chunks) => chunks.next(),
            Body::Stream(stream) => std::task::ready!(stream.as_mut().poll_next(cx)),
        };
        Poll::Ready(chunk.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Full(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Chunks(_) | Body::Stream(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[tokio::test]
    async fn lists_are_whole_in_one_piece_in_chunks_and_compressed() {
        for n in [0_usize, 1, 2, 50_000] {
            let made = || {
                list("{\"items\":[".to_owned(), 0..n, |i, out| {
                    out.extend_from_slice(format!("{{\"i\":{i}}}").as_bytes());
                })
            };
            let check = |bytes: &[u8]| {
                let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
                assert_eq!(value["items"].as_array().unwrap().len(), n);
            };
            let body = made();
            assert_eq!(body.size_hint().exact().is_some(), n < 50_000);
            check(&body.collect().await.unwrap().to_bytes());
            let (compressed, is_compressed) = made().compressed();
            assert_eq!(is_compressed, n == 50_000);
            let bytes = compressed.collect().await.unwrap().to_bytes();
            let mut text = Vec::new();
            if is_compressed {
                assert!(bytes.len() < n);
                flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut text).unwrap();
            } else {
                text.extend_from_slice(&bytes);
            }
            check(&text);
        }
    }

    #[test]
    fn items_are_written_when_their_turn_comes() {
        let n_written = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = n_written.clone();
        let Body::Chunks(mut chunks) = list(String::new(), 0..1000, move |_, out| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            out.resize(out.len() + 10_000, b'1');
        }) else {
            panic!("a long list is sent in chunks")
        };
        let n_written = || n_written.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(n_written(), 14);
        assert!(chunks.next().is_some());
        assert_eq!(n_written(), 14, "what was made before");
        assert!(chunks.next().is_some());
        assert_eq!(n_written(), 21);
    }
}
