//! One list, and one watch request, with or without the initial events of a streaming list.

use std::convert::Infallible;
use std::time::Duration;

use berth_api::resource::percent_encoded;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::ended::Ended;
use super::event::{Deliver, StreamEvent};
use super::frame::{Frame, Lines, decode};
use super::object::KubeObject;
use super::options::WatchOptions;
use super::pages::Pages;
use crate::call::{get, open};
use crate::outage_log;

/// How long after `timeoutSeconds` the client waits for the server to close the watch.
const GRACE: Duration = Duration::from_secs(15);

pub(super) struct Watcher {
    pub(super) client: kube::Client,
    pub(super) options: WatchOptions,
    /// Whether streaming lists are requested.
    pub(super) streaming: bool,
    /// The last resource version seen; none before the first list, and after it expired.
    pub(super) version: Option<String>,
}

impl Watcher {
    /// Lists if there is no resource version, then watches until the watch ends. Returns also whether there was
    /// progress.
    pub(super) async fn step<T, M>(&mut self, deliver: &Deliver<'_, T, M>) -> (Ended, bool)
    where
        T: KubeObject + DeserializeOwned + Send,
        M: Send,
    {
        let mut progressed = false;
        if self.version.is_none() && !self.streaming {
            match self.list(deliver).await {
                Ok(version) => self.version = Some(version),
                Err(ended) => return (ended, false),
            }
            progressed = true;
        }
        let ended = self.watch(deliver, &mut progressed).await;
        (ended, progressed)
    }

    /// Delivers all objects. Returns the resource version to watch from.
    async fn list<T, M>(&self, deliver: &Deliver<'_, T, M>) -> Result<String, Ended>
    where
        T: KubeObject + DeserializeOwned + Send,
        M: Send,
    {
        let mut pages = Pages::new(&self.client, &self.options);
        while let Some(page) = pages.next().await? {
            if pages.is_first() {
                deliver.send(StreamEvent::Init).await?;
            }
            for object in page {
                deliver.send(StreamEvent::InitApply(object)).await?;
            }
        }
        deliver.send(StreamEvent::InitDone).await?;
        Ok(pages.into_version())
    }

    /// Watches from the last resource version; without one, starts with a streaming list.
    async fn watch<T, M>(&mut self, deliver: &Deliver<'_, T, M>, progressed: &mut bool) -> Ended
    where
        T: KubeObject + Send,
        M: Send,
    {
        match self.stream(deliver, progressed).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    async fn stream<T, M>(
        &mut self,
        deliver: &Deliver<'_, T, M>,
        progressed: &mut bool,
    ) -> Result<Infallible, Ended>
    where
        T: KubeObject + Send,
        M: Send,
    {
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
        let opened = open(&self.client, get(&self.options.uri(&parameters)), header_timeout).await;
        let mut body = match opened {
            Ok(response) => response.into_body(),
            // 400 and 422: the server does not know the parameters, or has the feature switched off.
            Err(error) if is_list && matches!(error.code(), Some(400 | 422)) => {
                return Err(Ended::NotStreaming);
            }
            Err(error) if error.code() == Some(410) => return Err(Ended::Expired),
            Err(error) => return Err(error.into()),
        };
        outage_log::succeeded();
        self.options.report_outage(None);
        if is_list {
            deliver.send(StreamEvent::Init).await?;
        }
        let deadline = tokio::time::Instant::now() + length + GRACE;
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
                self.take(&line, &mut is_list, deliver, progressed).await?;
            }
        }
    }

    async fn take<T, M>(
        &mut self,
        line: &[u8],
        is_list: &mut bool,
        deliver: &Deliver<'_, T, M>,
        progressed: &mut bool,
    ) -> Result<(), Ended>
    where
        T: KubeObject + Send,
        M: Send,
    {
        match decode(line, *is_list, deliver.read)? {
            Frame::Error { code: 410, .. } => Err(Ended::Expired),
            Frame::Error { code, reason, message } => {
                Err(Ended::Broken(format!("the server ended the watch: {code} {reason}: {message}")))
            }
            Frame::Bookmark { version, ends_initial } => {
                if !*is_list || ends_initial {
                    self.advance(&version);
                }
                if std::mem::replace(is_list, *is_list && !ends_initial) && ends_initial {
                    *progressed = true;
                    deliver.send(StreamEvent::InitDone).await?;
                }
                Ok(())
            }
            // Before the end of the list there is no version to resume from. Changes may arrive before it.
            Frame::Added(object) | Frame::Modified(object) if *is_list => {
                deliver.send(StreamEvent::InitApply(object)).await
            }
            Frame::Deleted(object) if *is_list => deliver.send(StreamEvent::Delete(object)).await,
            Frame::Added(object) | Frame::Modified(object) => {
                self.advance(object.resource_version());
                *progressed = true;
                deliver.send(StreamEvent::Apply(object)).await
            }
            Frame::Deleted(object) => {
                self.advance(object.resource_version());
                *progressed = true;
                deliver.send(StreamEvent::Delete(object)).await
            }
        }
    }

    fn advance(&mut self, version: &str) {
        if version.is_empty() {
            return;
        }
        let last = self.version.get_or_insert_default();
        last.clear();
        last.push_str(version);
    }
}
