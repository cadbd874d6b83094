//! The loop of a watcher: lists, watches, waits and tries again.

use std::time::Duration;

use tokio::sync::watch;

use super::discovery::is_missing;
use super::ended::Ended;
use super::failure::{OBJECT_COST, WatchFailure};
use super::frame::too_long;
use super::group::{Kept, LONG_WATCH};
use super::options::{Missing, WatchOptions};
use super::pages::{Pages, split};
use super::request::{WatchRequest, answered, too_large};
use super::sink::{Sink, deliver};
use crate::backoff::Backoff;
use crate::outage_log;

/// Lists and watches until the receiver of the sink's events is dropped, or there are too many objects.
pub(crate) async fn run(client: kube::Client, options: WatchOptions, sink: &mut dyn Sink) {
    let mut watcher = Watcher {
        client,
        streaming: options.streaming_lists,
        kept: Kept::new(options.group.clone()),
        options,
        version: None,
        is_failing: false,
    };
    let mut backoff = Backoff::new(watcher.options.first_retry, watcher.options.longest_retry);
    let mut recoveries = watcher.options.group.recoveries();
    let mut was_listed = false;
    // The answer that was reported last.
    let mut refused = None;
    let mut n_versions_tried = 0;
    loop {
        recoveries.mark_unchanged();
        let closed = sink.closed();
        let step = tokio::select! {
            // Without events, a watch would not notice that its receiver was dropped.
            () = closed => return,
            step = watcher.step(sink, recoveries.clone()) => step,
        };
        was_listed |= watcher.version.is_some();
        let Step { ended, progressed, lasted } = step;
        let is_healthy = lasted >= LONG_WATCH.min(watcher.options.idle_timeout);
        // A list that is followed by the same end each time is no progress.
        if is_healthy || progressed && !matches!(ended, Ended::Expired | Ended::Unreadable(_)) {
            backoff.succeeded();
        }
        if progressed || is_healthy {
            refused = None;
            n_versions_tried = 0;
        }
        let is_missing = watcher.is_missing(&ended).await;
        if is_missing && n_versions_tried < watcher.options.other_versions.len() {
            watcher.options.change_version();
            n_versions_tried += 1;
            watcher.version = None;
            continue;
        }
        n_versions_tried = 0;
        let path = &watcher.options.path;
        match &ended {
            Ended::Unwanted => return,
            Ended::NotStreaming => {
                tracing::debug!(path, "{ended}: listing in pages");
                watcher.streaming = false;
                continue;
            }
            Ended::Expired => {
                tracing::info!(path, "{ended}: listing again");
                watcher.version = None;
            }
            Ended::Closed | Ended::Silent(_) => tracing::debug!(path, "watch ended: {ended}"),
            Ended::TooLarge(failure) => {
                tracing::error!("{failure}");
                watcher.options.report_outage(Some(failure.to_string()));
                sink.fail(failure.clone());
                // The receiver may be gone.
                let _ = deliver(sink).await;
                return;
            }
            Ended::Call(_) if is_missing && watcher.options.missing != Missing::Failure => {
                if refused.replace(404) != Some(404) {
                    let message = "the server does not have this resource: treated as an empty list";
                    match watcher.options.missing {
                        Missing::Empty => tracing::debug!(path, "{message}"),
                        _ => tracing::warn!(path, "{message}"),
                    }
                    if deliver_empty_list(sink).await.is_err() {
                        return;
                    }
                }
            }
            Ended::Call(error) if matches!(error.code(), Some(403 | 404)) => {
                let failure = match is_missing {
                    true => WatchFailure::Missing { path: path.clone() },
                    false => WatchFailure::forbidden(path),
                };
                if refused != error.code() {
                    refused = error.code();
                    let kept =
                        if was_listed { "the last known state is kept" } else { "nothing is known of them" };
                    tracing::warn!("{failure}. Until then, {kept} ({error})");
                }
                watcher.options.report_outage(Some(failure.to_string()));
                if !was_listed {
                    sink.fail(failure);
                    if deliver(sink).await.is_err() {
                        return;
                    }
                }
            }
            error => {
                if matches!(error, Ended::Unreadable(_)) {
                    watcher.version = None;
                }
                watcher.is_failing = true;
                watcher.options.report_outage(Some(error.to_string()));
                outage_log::failed(|| format!("watch of {path} interrupted: {error}"));
            }
        }
        // A watch that was open for long is resumed without delay.
        if !(is_healthy && matches!(ended, Ended::Closed | Ended::Expired | Ended::Silent(_))) {
            let wait = backoff.failed(fastrand::f64());
            let requested = ended.retry_after().unwrap_or_default();
            let wait = wait.max(requested.min(watcher.options.longest_retry));
            tokio::select! {
                () = sink.closed() => return,
                () = tokio::time::sleep(wait) => {}
                // The sender lives in the options.
                Ok(()) = recoveries.changed() => {
                    backoff.succeeded();
                    let wait = watcher.options.first_retry.mul_f64(fastrand::f64());
                    tokio::select! {
                        () = sink.closed() => return,
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
    }
}

async fn deliver_empty_list(sink: &mut dyn Sink) -> Result<(), Ended> {
    sink.begin_list();
    deliver(sink).await?;
    sink.end_list();
    deliver(sink).await
}

struct Watcher {
    client: kube::Client,
    options: WatchOptions,
    streaming: bool,
    /// The last resource version seen; none before the first list, and after it expired.
    version: Option<String>,
    /// What the receiver keeps.
    kept: Kept,
    is_failing: bool,
}

struct Step {
    ended: Ended,
    progressed: bool,
    /// How long changes were watched.
    lasted: Duration,
}

impl Watcher {
    async fn is_missing(&self, ended: &Ended) -> bool {
        let Ended::Call(error) = ended else { return false };
        is_missing(&self.client, &self.options.path, error.code(), self.options.list_timeout).await
    }

    /// Lists if there is no resource version, then watches until the watch ends.
    async fn step(&mut self, sink: &mut dyn Sink, recoveries: watch::Receiver<u64>) -> Step {
        let mut progressed = false;
        if self.version.is_none() && !self.streaming {
            match self.list(sink).await {
                Ok(version) => self.version = Some(version),
                Err(ended) => return Step { ended, progressed, lasted: Duration::ZERO },
            }
            progressed = true;
        }
        let mut request = WatchRequest {
            client: &self.client,
            options: &self.options,
            version: &mut self.version,
            kept: &mut self.kept,
            is_failing: &mut self.is_failing,
            sink,
            progressed,
            watching_since: None,
        };
        let ended = request.run(recoveries).await;
        let lasted = request.watching_since.map_or(Duration::ZERO, |since| since.elapsed());
        Step { ended, progressed: request.progressed, lasted }
    }

    /// Delivers all objects. Returns the resource version to watch from.
    async fn list(&mut self, sink: &mut dyn Sink) -> Result<String, Ended> {
        let mut pages = Pages::new(&self.client, &self.options);
        while let Some(bytes) = pages.next_bytes().await? {
            answered(&self.options, &mut self.is_failing);
            if pages.is_first() {
                self.kept.clear();
                sink.begin_list();
                deliver(sink).await?;
            }
            let (metadata, items) = split(&bytes).map_err(|source| pages.invalid(source))?;
            for item in items {
                if item.len() > self.options.max_object_bytes {
                    return Err(too_long(self.options.max_object_bytes));
                }
                if !self.kept.add(item.len() + OBJECT_COST) {
                    return Err(too_large(&self.options));
                }
                sink.read_item(item).map_err(|source| pages.invalid(source))?;
                deliver(sink).await?;
            }
            pages.advance(metadata, bytes.len())?;
        }
        sink.end_list();
        deliver(sink).await?;
        Ok(pages.into_version())
    }
}
