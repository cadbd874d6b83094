//! The loop of a watcher: lists, watches, waits and tries again.

use std::time::Duration;

use super::ended::Ended;
use super::options::WatchOptions;
use super::pages::Pages;
use super::request::WatchRequest;
use super::sink::{Sink, deliver};
use crate::backoff::Backoff;
use crate::outage_log;

/// A watch that stayed open this long counts as a success, even without events.
const LONG_WATCH: Duration = Duration::from_secs(5);

/// Lists and watches until the receiver of the sink's events is dropped.
pub(crate) async fn run(client: kube::Client, options: WatchOptions, sink: &mut dyn Sink) {
    let mut watcher = Watcher { client, streaming: options.streaming_lists, options, version: None };
    let mut backoff = Backoff::new(watcher.options.first_retry, watcher.options.longest_retry);
    let mut reported_empty = false;
    loop {
        let began = tokio::time::Instant::now();
        let closed = sink.closed();
        let (ended, mut progressed) = tokio::select! {
            // Without events, a watch would not notice that its receiver was dropped.
            () = closed => return,
            ended = watcher.step(sink) => ended,
        };
        let is_usual_end = matches!(ended, Ended::Closed | Ended::Silent(_));
        progressed |= is_usual_end && began.elapsed() >= LONG_WATCH.min(watcher.options.idle_timeout);
        if progressed {
            backoff.succeeded();
        }
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
            Ended::Call(error) if error.is_not_found() && watcher.options.missing_is_empty => {
                if !std::mem::replace(&mut reported_empty, true) {
                    tracing::warn!(path, "the server does not have this resource: treated as an empty list");
                    if deliver_empty_list(sink).await.is_err() {
                        return;
                    }
                }
            }
            error => {
                if matches!(error, Ended::Unreadable(_)) {
                    watcher.version = None;
                }
                watcher.options.report_outage(Some(error.to_string()));
                outage_log::failed(|| format!("watch of {path} interrupted: {error}"));
            }
        }
        // A watch that made progress is resumed without delay.
        let at_once = progressed && matches!(ended, Ended::Closed | Ended::Expired | Ended::Silent(_));
        if !at_once {
            let wait = backoff.failed(fastrand::f64());
            let wait = ended.retry_after().map_or(wait, |requested| requested.max(wait));
            tokio::select! {
                () = sink.closed() => return,
                () = tokio::time::sleep(wait) => {}
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
    /// Whether to request streaming lists.
    streaming: bool,
    /// The last resource version seen; none before the first list, and after it expired.
    version: Option<String>,
}

impl Watcher {
    /// Lists if there is no resource version, then watches until the watch ends. Returns also whether there was
    /// progress.
    async fn step(&mut self, sink: &mut dyn Sink) -> (Ended, bool) {
        let mut progressed = false;
        if self.version.is_none() && !self.streaming {
            match self.list(sink).await {
                Ok(version) => self.version = Some(version),
                Err(ended) => return (ended, false),
            }
            progressed = true;
        }
        let (client, options, version) = (&self.client, &self.options, &mut self.version);
        let mut request = WatchRequest { client, options, version, sink, progressed };
        let ended = request.run().await;
        (ended, request.progressed)
    }

    /// Delivers all objects. Returns the resource version to watch from.
    async fn list(&self, sink: &mut dyn Sink) -> Result<String, Ended> {
        let mut pages = Pages::new(&self.client, &self.options);
        while let Some(bytes) = pages.next_bytes().await? {
            if pages.is_first() {
                sink.begin_list();
                deliver(sink).await?;
            }
            let metadata = sink.read_page(&bytes).map_err(|source| pages.invalid(source))?;
            drop(bytes);
            deliver(sink).await?;
            pages.advance(metadata);
        }
        sink.end_list();
        deliver(sink).await?;
        Ok(pages.into_version())
    }
}
