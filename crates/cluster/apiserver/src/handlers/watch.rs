//! Watches: existing objects, then every change, with bookmarks in between.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use berth_schema::protobuf;
use berth_schema::resource::Resource;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::api::Api;
use super::body::Body;
use super::object::stored;
use super::reply::Reply;
use super::{convert, read_options};
use crate::kinds;
use crate::request::{
    ApiResult, Cause, Form, MediaType, Query, Reason, RequestInfo, Status, check_accept, choose_stream,
};
use crate::store::{Event, EventType, Filter, Object, Store, write_frame};
use crate::table::{self, IncludeObject};

/// The content type of a watch whose events are messages with their length before them.
pub const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The longest and the default duration of a watch.
const MAX_DURATION: Duration = Duration::from_secs(3600);
const BATCH: usize = 512;
/// Requirements that the events of a batch are compared with; a longer selector gets smaller batches.
const BATCH_COMPARISONS: usize = 1 << 16;
/// Frames are combined up to about this many bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// After a chunk, the watch waits this long for more events. A change on an idle watch is sent at once. At thousands of
/// events per second, many share one write on the server and one read on the client.
const PAUSE: Duration = Duration::from_millis(1);

/// Answers a watch. The number is the bytes of its selector, which it holds as long as it is open.
pub fn watch(api: &Api, info: &RequestInfo, query: &Query, headers: &HeaderMap) -> ApiResult<(Reply, usize)> {
    let resource = stored(info)?;
    check_accept(headers, info.verb)?;
    let (form, media_type) = choose_stream(headers, info.resource)?;
    let include = read_options::include_object(query)?;
    let filter = read_options::filter(&api.store, info, query)?;
    let selector_bytes = filter.size();
    let requested = read_options::resource_version(query).map_err(|mut status| {
        status.code = StatusCode::INTERNAL_SERVER_ERROR;
        status.reason = Reason::Unnamed;
        status.message = status.message.replace("invalid resource version: ", "");
        status
    })?;
    let bookmarks = query.flag("allowWatchBookmarks") == Some(true);
    let send_initial = query.flag("sendInitialEvents");
    check_options(query, send_initial, bookmarks)?;
    let duration = match query.number("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds).min(MAX_DURATION),
        _ => MAX_DURATION,
    };
    let current = api.store.revision();
    // Subscribe before the first read, so that no change is missed.
    let changes = api.store.changes_for(resource, &filter);
    let from_state = match (send_initial, requested) {
        (Some(send), _) => send,
        (None, version) => version.unwrap_or(0) == 0,
    };
    if let Some(requested) = requested.filter(|requested| from_state && *requested > current) {
        return Err(read_options::too_large(requested, current));
    }
    let (position, initial) = if from_state {
        let (revision, objects) = api.store.list(resource, &filter);
        (revision, VecDeque::from(objects))
    } else {
        (requested.filter(|requested| *requested > 0).unwrap_or(current), VecDeque::new())
    };
    let now = Instant::now();
    let watcher = Watcher {
        store: api.store.clone(),
        stop: api.stop.clone(),
        shown: info.resource,
        stored: resource,
        form,
        media_type,
        include,
        has_columns: false,
        filter,
        position,
        initial,
        announce_end: send_initial == Some(true),
        has_bookmark: false,
        bookmarks,
        changes,
        deadline: now + duration,
        next_bookmark: now + BOOKMARK_INTERVAL,
        not_before: now,
        ended: false,
    };
    let held = watcher.initial.len() * size_of::<Arc<Object>>();
    let stream = futures::stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next().await?;
        Some((chunk, watcher))
    });
    let content_type = match media_type {
        MediaType::Protobuf => PROTOBUF_WATCH,
        other => other.content_type(),
    };
    let body = Body::Stream(Box::pin(stream), held);
    Ok((Reply { content_type, ..Reply::json(StatusCode::OK, body) }, selector_bytes))
}

fn check_options(query: &Query, send_initial: Option<bool>, bookmarks: bool) -> ApiResult {
    query.number("limit")?;
    let invalid = |field: &str, why: &str| {
        Err(Status::invalid_options("ListOptions", vec![Cause::forbidden(field, why)]))
    };
    match (send_initial, query.get("resourceVersionMatch")) {
        (Some(_), "NotOlderThan") if send_initial == Some(true) && !bookmarks => {
            invalid("allowWatchBookmarks", "sendInitialEvents requires setting allowWatchBookmarks")
        }
        (Some(_), "NotOlderThan") | (None, "") => Ok(()),
        (send_initial, given) => {
            let field = "resourceVersionMatch";
            let why = match send_initial {
                Some(_) => "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                None => "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            };
            let mut causes = vec![Cause::forbidden(field, why)];
            if !matches!(given, "" | "NotOlderThan") {
                causes.push(Cause::not_supported(field, format!("{given:?}"), "\"NotOlderThan\""));
            }
            Err(Status::invalid_options("ListOptions", causes))
        }
    }
}

struct Watcher {
    store: Store,
    stop: CancellationToken,
    shown: &'static Resource,
    stored: &'static Resource,
    form: Form,
    media_type: MediaType,
    /// The part of the object that table rows include.
    include: IncludeObject,
    /// Whether the columns of the table have been described.
    has_columns: bool,
    filter: Filter,
    /// All changes up to this version have been sent.
    position: u64,
    initial: VecDeque<Arc<Object>>,
    /// Whether the bookmark after the initial events is still due.
    announce_end: bool,
    /// Whether a bookmark has been sent.
    has_bookmark: bool,
    bookmarks: bool,
    changes: tokio::sync::watch::Receiver<u64>,
    deadline: Instant,
    next_bookmark: Instant,
    /// Time at which the next chunk is assembled.
    not_before: Instant,
    ended: bool,
}

impl Watcher {
    /// The next chunk of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if !self.initial.is_empty() {
            return Some(self.initial_events());
        }
        if std::mem::take(&mut self.announce_end) {
            return Some(self.bookmark());
        }
        let batch = (BATCH_COMPARISONS / self.filter.n_requirements().max(1)).clamp(1, BATCH);
        loop {
            // ApiResult here too, for a watch that always has events to send.
            if self.stop.is_cancelled() {
                return None;
            }
            let now = Instant::now();
            if now >= self.deadline {
                self.ended = true;
                return self.bookmarks.then(|| self.bookmark());
            }
            if now < self.not_before {
                tokio::time::sleep_until(self.not_before).await;
            }
            self.changes.mark_unchanged();
            match self.store.events_for(self.stored, &self.filter, self.position, batch) {
                Err(error) => {
                    self.ended = true;
                    let status = Status::expired(error.to_string()).to_value();
                    return Some(self.event("ERROR", status.to_string().as_bytes()));
                }
                Ok((position, events)) => {
                    let n_events = events.len();
                    let (chunk, n_seen) = self.frames(&events);
                    self.position = match events.get(n_seen) {
                        // The rest is sent with the next chunk.
                        Some(_) => events.get(n_seen - 1).map_or(self.position, |e| e.object.revision),
                        // A watch from a later version waits for it.
                        None => position.max(self.position),
                    };
                    if let Some(chunk) = chunk {
                        if chunk.len() < CHUNK_BYTES {
                            self.not_before = Instant::now() + PAUSE;
                        }
                        return Some(chunk);
                    }
                    if n_events == batch {
                        tokio::task::yield_now().await;
                        continue;
                    }
                    // After a read, so that the bookmark also covers changes of other objects.
                    if self.bookmarks && Instant::now() >= self.next_bookmark {
                        self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                        return Some(self.bookmark());
                    }
                }
            }
            tokio::select! {
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = tokio::time::sleep_until(self.deadline) => {
                    self.ended = true;
                    return self.bookmarks.then(|| self.bookmark());
                }
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {}
                () = self.stop.cancelled() => return None,
            }
        }
    }

    fn initial_events(&mut self) -> Bytes {
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
        while chunk.len() < CHUNK_BYTES
            && let Some(object) = self.initial.pop_front()
        {
            self.write(&mut chunk, EventType::Added, &object);
        }
        if self.initial.is_empty() {
            // Its memory is not kept for the time of the watch.
            self.initial = VecDeque::new();
        }
        chunk.freeze()
    }

    /// Encodes events for the watcher (`None` if none is visible) up to the chunk size, and counts those consumed.
    fn frames(&mut self, events: &[Event]) -> (Option<Bytes>, usize) {
        let mut chunk = BytesMut::new();
        let mut n_seen = 0;
        for event in events {
            n_seen += 1;
            let Some(event_type) = event.seen_through(&self.filter) else { continue };
            if self.left_selection(event_type, event) {
                self.write_left(&mut chunk, event);
            } else {
                self.write(&mut chunk, event_type, &event.object);
            }
            if chunk.len() >= CHUNK_BYTES {
                break;
            }
        }
        ((!chunk.is_empty()).then(|| chunk.freeze()), n_seen)
    }

    /// Whether the object still exists but left the watch's selection.
    fn left_selection(&self, seen: EventType, event: &Event) -> bool {
        seen == EventType::Deleted && event.event_type != EventType::Deleted
    }

    /// An object that left the selection is sent as it was while selected, with the version of the change.
    fn write_left(&mut self, chunk: &mut BytesMut, event: &Event) {
        let Some(previous) = &event.previous else { return };
        let revision = event.object.revision;
        let left = Object::encode(self.stored, &previous.value(), revision);
        self.write(chunk, EventType::Deleted, &left);
    }

    fn write(&mut self, chunk: &mut BytesMut, event_type: EventType, object: &Object) {
        let event_type = event_type.as_str();
        match self.form {
            Form::PartialMetadata | Form::PartialMetadataList => match self.media_type {
                MediaType::Protobuf => chunk.put(self.event(event_type, &object.partial())),
                _ => write_frame(chunk, event_type, |out| object.write_partial(out)),
            },
            Form::Table => {
                let value = convert::row_value(self.shown, object);
                let included = convert::included(self.shown, object, self.include);
                let with_columns = !std::mem::replace(&mut self.has_columns, true);
                let table = table::table(
                    kinds::columns(self.shown),
                    &value,
                    &included,
                    with_columns,
                    Timestamp::now(),
                );
                chunk.put(self.event(event_type, &table));
            }
            Form::Plain if self.media_type == MediaType::Json && convert::is_stored_form(self.shown) => {
                write_frame(chunk, event_type, |out| object.text().write(out));
            }
            Form::Plain => chunk.put(self.event(event_type, &convert::shown(self.shown, object))),
        }
    }

    fn bookmark(&mut self) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.position.to_string()});
        // As the watch cache of kube-apiserver: of any watch, whether it asked for that or not.
        if !std::mem::replace(&mut self.has_bookmark, true) {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let partial =
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        let mut bookmark =
            json!({"kind": self.shown.kind, "apiVersion": self.shown.api_version(), "metadata": metadata});
        if let Some(ty) = self.shown.ty() {
            berth_schema::complete(&ty, &mut bookmark);
        }
        match self.form {
            Form::PartialMetadata | Form::PartialMetadataList => {
                return self.event("BOOKMARK", partial.to_string().as_bytes());
            }
            Form::Plain => return self.event("BOOKMARK", bookmark.to_string().as_bytes()),
            Form::Table => {}
        }
        let included = match self.include {
            IncludeObject::None => "null".to_owned(),
            IncludeObject::Metadata => partial.to_string(),
            IncludeObject::Object => bookmark.to_string(),
        };
        let table =
            table::table(kinds::columns(self.shown), &bookmark, included.as_bytes(), false, Timestamp::now());
        self.event("BOOKMARK", &table)
    }

    /// An event around an object's JSON, in the watch's media type.
    fn event(&self, event_type: &str, object: &[u8]) -> Bytes {
        if self.media_type == MediaType::Protobuf {
            let object = protobuf::encode(object);
            return object
                .map(|object| protobuf::watch_frame(event_type, &object).into())
                .unwrap_or_default();
        }
        let mut line = BytesMut::with_capacity(object.len() + 32);
        write_frame(&mut line, event_type, |out| out.put_slice(object));
        line.freeze()
    }
}
