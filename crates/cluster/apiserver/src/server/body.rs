//! Request bodies, read within limits.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Body as HttpBody;
use tokio::time::Instant;

use super::budget::Share;
use crate::request::{ApiResult, MAX_BODY_BYTES, Reason, Status};

/// The body of a request: from a connection, or from a caller in the same process.
pub trait RequestBody:
    HttpBody<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static
{
}

impl<B> RequestBody for B where
    B: HttpBody<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static
{
}

/// How long a client may wait with the first bytes of a body.
const GRACE: Duration = Duration::from_secs(5);
/// A client that sends a body sends at least this many bytes a second.
const MIN_BYTES_PER_SECOND: usize = 16 * 1024;
/// How long, and for how many bytes, the server reads a body that it does not use.
const DRAIN: (Duration, u64) = (Duration::from_secs(2), MAX_BODY_BYTES as u64);

/// Reads a request body. Its memory is reserved as the bytes arrive.
pub async fn read<B>(body: &mut B, memory: &mut Share, timeout: Duration) -> ApiResult<Bytes>
where
    B: HttpBody<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    let too_large = || {
        let message = format!("Request entity too large: limit is {MAX_BODY_BYTES}");
        Status::new(Reason::RequestEntityTooLarge, message)
    };
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(too_large());
    }
    let begun = Instant::now();
    let mut read = BytesMut::new();
    loop {
        let earned = Duration::from_secs((read.len() / MIN_BYTES_PER_SECOND) as u64);
        let frame = match tokio::time::timeout_at(begun + timeout.min(GRACE + earned), body.frame()).await {
            Ok(None) => return Ok(read.freeze()),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                let error = error.into();
                return Err(Status::bad_request(format!("the request body could not be read: {error}")));
            }
            Err(_) => {
                let message = "the request body did not arrive in time";
                let mut status = Status::new(Reason::Timeout, message);
                status.code = StatusCode::REQUEST_TIMEOUT;
                return Err(status);
            }
        };
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        if !memory.try_grow(data.len()) {
            return Err(Status::too_many_requests("Too many requests, please try again later.", 1));
        }
        read.extend_from_slice(&data);
    }
}

/// Reads the rest of a body that is not used, and whether that was possible within limits. Only then can the connection
/// be used for another request.
pub async fn drain<B: HttpBody<Data = Bytes> + Unpin>(body: &mut B) -> bool {
    let (time, mut left) = DRAIN;
    if body.size_hint().lower() > left {
        return false;
    }
    let rest = async {
        while let Some(frame) = body.frame().await {
            let n = frame.ok().and_then(|frame| frame.into_data().ok()).map_or(0, |data| data.len() as u64);
            match left.checked_sub(n.max(1)) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
        true
    };
    tokio::time::timeout(time, rest).await.unwrap_or(false)
}
