//! Response bodies, made piece by piece while they are sent.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// Responses are sent in pieces of about this size.
pub const CHUNK_BYTES: usize = 64 * 1024;
/// Responses of this size or more are compressed for clients that accept it, as by kube-apiserver.
const COMPRESSED_FROM: usize = 128 * 1024;
/// kube-apiserver's: the fastest.
const COMPRESSION_LEVEL: u32 = 1;
const ENCODER_BYTES: usize = 300 * 1024;

pub enum Body {
    Full(Bytes),
    /// A long body, made while it is sent, and how many bytes of memory that takes.
    Chunks(Chunks, usize),
    /// A stream of chunks, and how many bytes of memory it takes.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>, usize),
}

/// The pieces of a long body.
pub type Chunks = Box<dyn Iterator<Item = Bytes> + Send>;

/// What is around the items of a list.
pub struct Around {
    pub head: Vec<u8>,
    pub between: &'static [u8],
    pub tail: Vec<u8>,
}

impl Around {
    /// `head` is the text before the first item.
    pub fn json(head: String) -> Around {
        Around { head: head.into_bytes(), between: b",", tail: b"]}\n".to_vec() }
    }
}

/// A list. Items are written when their turn comes.
pub fn list<T, I, W>(around: Around, items: I, write: W) -> Body
where
    I: IntoIterator<Item = T, IntoIter: ExactSizeIterator + Send + 'static>,
    W: FnMut(&T, &mut Vec<u8>) + Send + 'static,
    T: Send + 'static,
{
    let items = items.into_iter();
    let held = items.len() * size_of::<T>() + COMPRESSED_FROM;
    let mut chunks = List { around, items, write, is_first: true, ended: false };
    let mut start = Vec::new();
    while start.len() < COMPRESSED_FROM {
        match chunks.next() {
            Some(chunk) => start.extend_from_slice(&chunk),
            None => return Body::Full(start.into()),
        }
    }
    Body::Chunks(Box::new(std::iter::once(start.into()).chain(chunks)), held)
}

struct List<I, W> {
    around: Around,
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
        let mut chunk = std::mem::take(&mut self.around.head);
        while chunk.len() < CHUNK_BYTES && !self.ended {
            match self.items.next() {
                Some(item) => {
                    if !std::mem::take(&mut self.is_first) {
                        chunk.extend_from_slice(self.around.between);
                    }
                    (self.write)(&item, &mut chunk);
                }
                None => {
                    chunk.append(&mut self.around.tail);
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

/// Pieces that have been made already.
pub fn pieces(pieces: Vec<Vec<u8>>) -> Body {
    let held = pieces.iter().map(Vec::len).sum();
    match held {
        ..COMPRESSED_FROM => Body::Full(pieces.concat().into()),
        _ => Body::Chunks(Box::new(pieces.into_iter().map(Bytes::from)), held),
    }
}

/// Splits off up to a chunk; `None` at the end.
fn split_chunk(bytes: &mut Bytes) -> Option<Bytes> {
    (!bytes.is_empty()).then(|| bytes.split_to(bytes.len().min(CHUNK_BYTES)))
}

impl Body {
    /// Compresses the body with gzip if that is worth it, and whether it did.
    pub fn compressed(self) -> (Body, bool) {
        let (chunks, held): (Chunks, usize) = match self {
            Body::Full(mut bytes) if bytes.len() >= COMPRESSED_FROM => {
                let held = bytes.len();
                (Box::new(std::iter::from_fn(move || split_chunk(&mut bytes))), held)
            }
            Body::Chunks(chunks, held) => (chunks, held),
            other => return (other, false),
        };
        let encoder = GzEncoder::new(Vec::new(), Compression::new(COMPRESSION_LEVEL));
        let gzip = Gzip { chunks, encoder: Some(encoder) };
        (Body::Chunks(Box::new(gzip), held + ENCODER_BYTES), true)
    }

    /// The memory that the body takes until it has been sent, besides pieces that are made while it is sent.
    pub fn held_bytes(&self) -> usize {
        match self {
            Body::Full(bytes) => bytes.len(),
            Body::Chunks(_, held) | Body::Stream(_, held) => *held,
        }
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
            Body::Chunks(chunks, _) => chunks.next(),
            Body::Stream(stream, _) => std::task::ready!(stream.as_mut().poll_next(cx)),
        };
        Poll::Ready(chunk.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Full(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Chunks(..) | Body::Stream(..) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn lists_are_whole_in_one_piece_in_chunks_and_compressed() {
        for n in [0_usize, 1, 2, 50_000] {
            let made = || {
                list(Around::json("{\"items\":[".to_owned()), 0..n, |i, out| {
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
                assert!(bytes.len() < 5 * n);
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
        let Body::Chunks(mut chunks, _) = list(Around::json(String::new()), 0..1000, move |_, out| {
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
