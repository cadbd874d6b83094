//! One watch request, with or without the initial events of a streaming list.

use std::convert::Infallible;
use std::time::Duration;

use berth_api::resource::percent_encoded;
use http_body_util::BodyExt;
use tokio::sync::watch;
use tokio::time::Instant;

use super::ended::Ended;
use super::event::Line;
use super::failure::OBJECT_COST;
use super::frame::{Frame, Lines, decode};
use super::group::Kept;
use super::options::WatchOptions;
use super::sink::{Sink, deliver};
use crate::call::{get, open};
use crate::outage_log;

/// How long after `timeoutSeconds` the client waits for the server to close the watch.
const GRACE: Duration = Duration::from_secs(15);
/// How long a watch waits for its answer while another of its group is answered again: its connection may be dead.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A watch from the last resource version; without one, it starts with a streaming list.
pub(super) struct WatchRequest<'a> {
    pub(super) client: &'a kube::Client,
    pub(super) options: &'a WatchOptions,
    /// The last resource version seen; none before the first list.
    pub(super) version: &'a mut Option<String>,
    /// What the receiver keeps.
    pub(super) kept: &'a mut Kept,
    pub(super) is_failing: &'a mut bool,
    pub(super) sink: &'a mut dyn Sink,
    pub(super) progressed: bool,
    /// When the list was complete and the watch was open.
    pub(super) watching_since: Option<Instant>,
}

/// The server answers.
pub(super) fn answered(options: &WatchOptions, is_failing: &mut bool) {
    outage_log::succeeded();
    options.report_outage(None);
    if std::mem::take(is_failing) {
        options.group.recovered();
    }
}

pub(super) fn too_large(WatchOptions { path, group, .. }: &WatchOptions) -> Ended {
    Ended::TooLarge(group.exceed(path))
}

async fn overtaken(mut recoveries: watch::Receiver<u64>) {
    if recoveries.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(ANSWER_TIMEOUT).await;
}

impl WatchRequest<'_> {
    pub(super) async fn run(&mut self, recoveries: watch::Receiver<u64>) -> Ended {
        match self.stream(recoveries).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    async fn stream(&mut self, recoveries: watch::Receiver<u64>) -> Result<Infallible, Ended> {
        let length = self.options.watch_timeout.mul_f64(1.0 + fastrand::f64());
        let mut parameters =
            format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={}", length.as_secs().max(1));
        // Whether the streaming list is not complete yet.
        let mut is_list = self.version.is_none();
        match &self.version {
            Some(version) => parameters.push_str(&format!("&resourceVersion={}", percent_encoded(version))),
            None => parameters.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        }
        let header_timeout = self.options.list_timeout.min(self.options.idle_timeout);
        let opened = tokio::select! {
            opened = open(self.client, get(&self.options.uri(&parameters)), header_timeout) => opened,
            () = overtaken(recoveries) => {
                return Err(Ended::Broken("no answer, while other watches are answered".to_owned()));
            }
        };
        let mut body = match opened {
            Ok(response) => response.into_body(),
            // 400 and 422: the server does not know the parameters, or has the feature switched off.
            Err(error) if is_list && matches!(error.code(), Some(400 | 422)) => {
                return Err(Ended::NotStreaming);
            }
            Err(error) if error.code() == Some(410) => return Err(Ended::Expired),
            Err(error) => return Err(error.into()),
        };
        answered(self.options, self.is_failing);
        if is_list {
            self.kept.clear();
            self.sink.begin_list();
            deliver(self.sink).await?;
        }
        let now = Instant::now();
        self.watching_since = (!is_list).then_some(now);
        let deadline = now + length + GRACE;
        let mut lines = Lines::new(self.options.max_object_bytes);
        loop {
            let idle = self.options.idle_timeout;
            let next = tokio::time::timeout_at(deadline, tokio::time::timeout(idle, body.frame())).await;
            let chunk = match next {
                Ok(Ok(Some(Ok(frame)))) => frame.into_data().unwrap_or_default(),
                Ok(Ok(Some(Err(error)))) => return Err(Ended::Broken(format!("the watch broke: {error}"))),
                Ok(Err(_)) => return Err(Ended::Silent(idle)),
                Ok(Ok(None)) | Err(_) => return Err(Ended::Closed),
            };
            lines.push(&chunk);
            while let Some(line) = lines.next()? {
                self.take(&line, &mut is_list)?;
                deliver(self.sink).await?;
            }
        }
    }

    /// Reads a line into the sink.
    fn take(&mut self, line: &[u8], is_list: &mut bool) -> Result<(), Ended> {
        let frame = decode(line)?;
        let kind = match frame {
            Frame::Error { code: 410, .. } => return Err(Ended::Expired),
            Frame::Error { code, reason, message } => {
                return Err(Ended::Broken(format!("the server ended the watch: {code} {reason}: {message}")));
            }
            Frame::Bookmark { version, ends_initial } => {
                if !*is_list || ends_initial {
                    advance(self.version, &version);
                }
                if std::mem::replace(is_list, *is_list && !ends_initial) && ends_initial {
                    self.progressed = true;
                    self.watching_since = Some(Instant::now());
                    self.sink.end_list();
                }
                return Ok(());
            }
            // Before the end of the list, changes and deletions may arrive.
            Frame::Added | Frame::Modified if *is_list => Line::Initial,
            Frame::Added | Frame::Modified => Line::Changed,
            Frame::Deleted => Line::Deleted,
        };
        let cost = line.len() + OBJECT_COST;
        let is_within_limit = match frame {
            Frame::Added => self.kept.add(cost),
            // Of a list, it is the first that is known of the object.
            Frame::Modified if *is_list => self.kept.add(cost),
            Frame::Deleted => {
                self.kept.remove(cost);
                true
            }
            _ => self.kept.change(cost),
        };
        if !is_within_limit {
            return Err(too_large(self.options));
        }
        if *is_list {
            // There is no version to resume from yet.
            self.sink.read_line(line, kind, &mut |_| {})?;
        } else {
            self.sink.read_line(line, kind, &mut |version| advance(self.version, version))?;
            self.progressed = true;
        }
        Ok(())
    }
}

fn advance(last: &mut Option<String>, version: &str) {
    if version.is_empty() {
        return;
    }
    let last = last.get_or_insert_default();
    last.clear();
    last.push_str(version);
}
