//! What to watch, with timeouts and limits.

use std::collections::VecDeque;
use std::time::Duration;

use berth_api::resource::{Resource, percent_encoded};

use super::group::WatchGroup;

/// What it means that the server does not have a resource. The watch keeps retrying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Failure,
    /// It counts as an empty list, with a warning: every server of Kubernetes has the resource.
    EmptyWithWarning,
    /// It counts as an empty list: its definition is optional.
    Empty,
}

impl Missing {
    /// For a component that works without the resource.
    pub fn empty(resource: &Resource) -> Missing {
        if resource.is_optional() { Missing::Empty } else { Missing::EmptyWithWarning }
    }
}

/// What to watch, with timeouts and limits.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Path of the collection, such as `/api/v1/pods` or `/apis/apps/v1/namespaces/default/replicasets`.
    pub path: String,
    /// Paths of the same collection in other versions of its group. The watch uses the first one that the server has.
    pub other_versions: VecDeque<String>,
    /// Field selector, such as `spec.nodeName=node-1`.
    pub field_selector: Option<String>,
    /// Label selector, such as `app=web`.
    pub label_selector: Option<String>,
    /// Objects in a page of a list, where lists do not stream.
    pub page_size: u32,
    /// Whether to use streaming lists. If the server refuses them, the client requests pages instead.
    pub streaming_lists: bool,
    /// What it means that the server does not have the resource (404).
    pub missing: Missing,
    /// `timeoutSeconds` of a watch is drawn between this and twice this, so that the watches of many clients do not end
    /// at the same time.
    pub watch_timeout: Duration,
    /// A watch or a streaming list without any data for this long (servers send a bookmark once a minute) is closed
    /// and started again.
    pub idle_timeout: Duration,
    /// Timeout for response headers, and for a page of a list.
    pub list_timeout: Duration,
    /// An object's JSON, with its event, may not be larger than this.
    pub max_object_bytes: usize,
    /// The back-off after the first failure.
    pub first_retry: Duration,
    pub longest_retry: Duration,
    /// Capacity of the event channel; when it is full, the client stops reading from the server.
    pub buffer: usize,
    /// The watches that share a limit of what they keep, and that learn from each other that the server answers.
    pub group: WatchGroup,
    /// Gets the error while the watch is interrupted, and none while it works.
    pub outage: Option<tokio::sync::watch::Sender<Option<String>>>,
}

impl WatchOptions {
    /// All objects of a collection, with defaults that suit a cluster's API server.
    pub fn new(path: impl Into<String>) -> WatchOptions {
        WatchOptions {
            path: path.into(),
            other_versions: VecDeque::new(),
            field_selector: None,
            label_selector: None,
            page_size: 500,
            streaming_lists: true,
            missing: Missing::Failure,
            watch_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(90),
            list_timeout: Duration::from_secs(60),
            max_object_bytes: 16 << 20,
            first_retry: Duration::from_millis(200),
            longest_retry: Duration::from_secs(5),
            buffer: 1024,
            group: WatchGroup::default(),
            outage: None,
        }
    }

    /// All objects of a resource, in the newest version that the server has.
    pub fn of(resource: &Resource) -> WatchOptions {
        let mut other_versions: VecDeque<_> = resource.versions().map(|version| version.path("")).collect();
        let path = other_versions.pop_front().unwrap_or_default();
        WatchOptions { other_versions, ..WatchOptions::new(path) }
    }

    pub fn fields(self, selector: impl Into<String>) -> WatchOptions {
        WatchOptions { field_selector: Some(selector.into()), ..self }
    }

    pub fn labels(self, selector: impl Into<String>) -> WatchOptions {
        WatchOptions { label_selector: Some(selector.into()), ..self }
    }

    /// Uses the next version from now on.
    pub(super) fn change_version(&mut self) {
        self.other_versions.push_back(std::mem::take(&mut self.path));
        self.path = self.other_versions.pop_front().unwrap_or_default();
    }

    pub(super) fn report_outage(&self, error: Option<String>) {
        if let Some(outage) = &self.outage {
            outage.send_if_modified(|last| {
                let is_new = *last != error;
                *last = error;
                is_new
            });
        }
    }

    /// The path with selectors and more parameters.
    pub(super) fn uri(&self, parameters: &str) -> String {
        let mut uri = format!("{}?{parameters}", self.path);
        for (name, selector) in
            [("fieldSelector", &self.field_selector), ("labelSelector", &self.label_selector)]
        {
            if let Some(selector) = selector {
                uri.push_str(&format!("&{name}={}", percent_encoded(selector)));
            }
        }
        uri
    }
}
