//! The watch itself, with or without the initial events of a streaming list.

use std::time::Duration;

use http_body_util::BodyExt;

use super::frame::{Frame, Lines, decode};
use super::{Deliver, Ended, Event, KubeObject, Watcher};
use crate::call::{encoded, get, open};

/// Beyond the time it was asked to keep a watch open, a server is given this long to close it.
const GRACE: Duration = Duration::from_secs(15);

impl Watcher {
    /// Watches from the last version; without one, as a streaming list that goes on as a watch.
    pub(super) async fn watch<T, M>(&mut self, deliver: &Deliver<'_, T, M>, progressed: &mut bool) -> Ended
    where
        T: KubeObject + Send,
        M: Send,
    {
        let length = self.options.watch_timeout.mul_f64(1.0 + fastrand::f64());
        let mut parameters =
            format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={}", length.as_secs().max(1));
        // The objects of a streaming list, as long as it is not complete.
        let mut initial: Option<Vec<T>> = None;
        match &self.version {
            Some(version) => parameters.push_str(&format!("&resourceVersion={}", encoded(version))),
            None => {
                parameters.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
                initial = Some(Vec::new());
            }
        }
        // The head of an answer comes at once, or not at all.
        let patience = self.options.list_timeout.min(self.options.idle_timeout);
        let opened = open(&self.client, get(&self.options.uri(&parameters)), patience).await;
        let mut body = match opened {
            Ok(response) => response.into_body(),
            // 400 and 422: parameters that the server does not know, or has switched off.
            Err(error) if initial.is_some() && matches!(error.code(), Some(400 | 422)) => {
                return Ended::NotStreaming;
            }
            Err(error) if error.code() == Some(410) => return Ended::Expired,
            Err(error) => return error.into(),
        };
        let deadline = tokio::time::Instant::now() + length + GRACE;
        let mut lines = Lines::new(self.options.max_object_bytes);
        loop {
            let idle = self.options.idle_timeout;
            let next = tokio::time::timeout_at(deadline, tokio::time::timeout(idle, body.frame())).await;
            let chunk = match next {
                Ok(Ok(Some(Ok(frame)))) => frame.into_data().unwrap_or_default(),
                Ok(Ok(None)) => return Ended::Closed,
                Ok(Ok(Some(Err(error)))) => return Ended::Broken(format!("the watch broke: {error}")),
                Ok(Err(_)) => return Ended::Silent(idle),
                Err(_) => return Ended::Closed,
            };
            lines.push(&chunk);
            loop {
                match lines.next() {
                    Ok(None) => break,
                    Ok(Some(line)) => {
                        if let Err(ended) = self.take(&line, &mut initial, deliver, progressed).await {
                            return ended;
                        }
                    }
                    Err(ended) => return ended,
                }
            }
        }
    }

    async fn take<T, M>(
        &mut self,
        line: &[u8],
        initial: &mut Option<Vec<T>>,
        deliver: &Deliver<'_, T, M>,
        progressed: &mut bool,
    ) -> Result<(), Ended>
    where
        T: KubeObject + Send,
        M: Send,
    {
        match decode(line, initial.is_some(), deliver.read)? {
            Frame::Error { code: 410, .. } => Err(Ended::Expired),
            Frame::Error { code, reason, message } => {
                Err(Ended::Broken(format!("the server ended the watch: {code} {reason}: {message}")))
            }
            Frame::Bookmark { version, ends_initial } => {
                if initial.is_none() {
                    self.advance(&version);
                } else if ends_initial {
                    self.advance(&version);
                    *progressed = true;
                    deliver.send(Event::Restarted(initial.take().unwrap_or_default())).await?;
                }
                Ok(())
            }
            Frame::Added(object) | Frame::Modified(object) if initial.is_none() => {
                self.advance(object.resource_version());
                *progressed = true;
                deliver.send(Event::Applied(object)).await
            }
            Frame::Deleted(object) if initial.is_none() => {
                self.advance(object.resource_version());
                *progressed = true;
                deliver.send(Event::Deleted(object)).await
            }
            Frame::Added(object) => {
                initial.get_or_insert_default().push(object);
                Ok(())
            }
            // Changes may be told before the list is complete.
            Frame::Modified(object) => {
                let initial = initial.get_or_insert_default();
                initial.retain(|o| o.key() != object.key());
                initial.push(object);
                Ok(())
            }
            Frame::Deleted(object) => {
                initial.get_or_insert_default().retain(|o| o.key() != object.key());
                Ok(())
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
