//! Server-sent events: the version of the state, whenever it changes.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, stream};
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// How often something is sent, so that both sides notice a broken connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The current version, then each change. A slow reader gets the latest version, not those in between.
pub fn versions(
    mut versions: watch::Receiver<u64>,
    slot: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
    versions.mark_changed();
    stream::unfold((versions, slot), async |(mut versions, slot)| {
        let text = match tokio::time::timeout(HEARTBEAT, versions.changed()).await {
            Ok(Ok(())) => format!("data: {}\n\n", *versions.borrow_and_update()),
            Ok(Err(_)) => return None,
            Err(_) => ":\n\n".to_owned(),
        };
        Some((Ok(Frame::data(Bytes::from(text))), (versions, slot)))
    })
}
