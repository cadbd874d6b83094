//! Events of controllers: the client's recorder, under the name of each controller.

use berth_api::resource::Resource;
use berth_client::events::{EventRecorder, EventType, NewEvent, ObjectReference, RecorderOptions};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::view::ObjectMeta;

#[derive(Clone, Debug)]
pub(crate) struct Reference(ObjectReference);

impl Reference {
    pub(crate) fn new(resource: &'static Resource, meta: &ObjectMeta) -> Self {
        Reference(ObjectReference {
            api_version: resource.api_version().into(),
            kind: resource.kind.into(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) event_type: EventType,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Notice {
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Notice {
        Notice { event_type: EventType::Normal, reason, message: message.into() }
    }

    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Notice {
        Notice { event_type: EventType::Warning, reason, message: message.into() }
    }
}

#[derive(Clone)]
pub(crate) struct Recorder(EventRecorder);

impl Recorder {
    pub(crate) fn start(client: Client, controller: &'static str, stop: CancellationToken) -> Recorder {
        let options = RecorderOptions::new(controller, "berth-controllers");
        Recorder(EventRecorder::start(client, options, stop))
    }

    pub(crate) fn normal(&self, about: &Reference, reason: &'static str, message: impl Into<String>) {
        self.record(about, Notice::normal(reason, message));
    }

    pub(crate) fn warning(&self, about: &Reference, reason: &'static str, message: impl Into<String>) {
        self.record(about, Notice::warning(reason, message));
    }

    pub(crate) fn record(&self, about: &Reference, notice: Notice) {
        let Notice { event_type, reason, message } = notice;
        self.0.record(NewEvent {
            regarding: about.0.clone(),
            related: None,
            event_type,
            reason,
            action: reason,
            note: message,
            controller: None,
        });
    }
}
