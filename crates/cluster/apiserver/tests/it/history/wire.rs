//! Objects, lists and watch events as the server sends them.

use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::Value;

use super::check::{Change, Entry, Group, Id, Items, Kind, Version};
use crate::support::version;

/// Maximum duration of a request and of a pause of a watch, less than the interval of bookmarks. A run that needs it fails.
pub const TIMEOUT: Duration = Duration::from_secs(50);
/// Maximum duration of a run, which takes less than a second.
pub const RUN_TIMEOUT: Duration = Duration::from_secs(300);

pub fn name(object: usize) -> String {
    format!("object-{object}")
}

pub fn object_of(value: &Value) -> usize {
    let name = value["metadata"]["name"].as_str().unwrap();
    name.strip_prefix("object-").unwrap().parse().unwrap()
}

pub fn id_of(value: &Value) -> Id {
    value["metadata"]["annotations"]["id"].as_str().unwrap().parse().unwrap()
}

pub fn group_of(value: &Value) -> Group {
    let node = value["spec"]["nodeName"].as_str().and_then(|node| node.strip_prefix("node-"));
    node.or(value["metadata"]["labels"]["group"].as_str()).unwrap().parse().unwrap()
}

pub fn version_of(value: &Value) -> Version {
    version(value).parse().unwrap()
}

pub fn items_of(list: &Value) -> Items {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| (object_of(item), (version_of(item), id_of(item)))).collect()
}

/// The stream of a watch.
pub struct Stream {
    body: kube::client::Body,
    rest: Vec<u8>,
}

impl Stream {
    pub fn new(body: kube::client::Body) -> Stream {
        Stream { body, rest: Vec::new() }
    }

    async fn line(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(TIMEOUT, self.body.frame()).await.expect("an event");
            self.rest.extend_from_slice(&frame?.ok()?.into_data().ok()?);
        }
    }

    /// The next entry, and the group of its object.
    pub async fn next(&mut self) -> Option<(Entry, Group)> {
        let line = self.line().await?;
        let object = &line["object"];
        let kind = match line["type"].as_str().unwrap() {
            "BOOKMARK" => return Some((Entry::Bookmark(version_of(object)), 0)),
            "ERROR" => return None,
            "ADDED" => Kind::Added,
            "MODIFIED" => Kind::Modified,
            "DELETED" => Kind::Deleted,
            other => panic!("an event of type {other}"),
        };
        let change =
            Change { version: version_of(object), object: object_of(object), kind, id: id_of(object) };
        Some((Entry::Change(change), group_of(object)))
    }

    /// The list at the beginning of the stream.
    pub async fn initial(&mut self) -> Option<(Version, Items)> {
        let mut items = Items::new();
        loop {
            match self.next().await?.0 {
                Entry::Change(Change { version, object, kind: Kind::Added, id }) => {
                    assert_eq!(items.insert(object, (version, id)), None, "an object is there twice");
                }
                Entry::Bookmark(version) => return Some((version, items)),
                Entry::Change(change) => panic!("{change:?} in the initial list"),
            }
        }
    }
}
