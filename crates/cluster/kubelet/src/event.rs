//! Events about pods.

use berth_api::object::NamespacedName;
use berth_client::events::{EventRecorder, EventType, NewEvent, ObjectReference, RecorderOptions};
use berth_client::rate_limit::RateLimit;
use tokio_util::sync::CancellationToken;

use crate::pod::lifecycle::PodLifecycle;
use crate::pod::rejection::Rejection;

/// Average limit of events per second.
const PER_SECOND: f64 = 10.0;
const BURST: u32 = 50;

/// Records events about pods: warnings always, normal events only when enabled, because they cost several writes per
/// pod.
pub(crate) struct PodEvents {
    recorder: EventRecorder,
    records_normal_events: bool,
}

pub(crate) struct PodRef<'a> {
    pub(crate) key: &'a NamespacedName,
    pub(crate) uid: &'a str,
}

/// The part of a lifecycle that events report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    n_runs: u32,
    backs_off: bool,
    stops: bool,
}

impl Progress {
    pub(crate) fn of(lifecycle: &PodLifecycle) -> Progress {
        Progress {
            n_runs: lifecycle.n_runs(),
            backs_off: lifecycle.backs_off(),
            stops: lifecycle.is_stopping(),
        }
    }
}

impl PodEvents {
    pub(crate) fn start(
        client: kube::Client,
        records_normal_events: bool,
        stop: CancellationToken,
    ) -> PodEvents {
        let options = RecorderOptions {
            rate: RateLimit { qps: PER_SECOND, burst: BURST },
            ..RecorderOptions::new("kubelet", "berth-kubelet")
        };
        PodEvents { recorder: EventRecorder::start(client, options, stop), records_normal_events }
    }

    pub(crate) fn rejected(&self, pod: PodRef<'_>, rejection: &Rejection) {
        // Event reasons are a small fixed set, because users filter by them.
        const REASONS: [&str; 13] = [
            "PodOSSelectorNodeLabelDoesNotMatch",
            "PodOSNotSupported",
            "NodeAffinity",
            "NodePorts",
            "NodeName",
            "TaintToleration",
            "PodAffinity",
            "PodAntiAffinity",
            "OutOfcpu",
            "OutOfmemory",
            "OutOfpods",
            "OutOfephemeral-storage",
            "VolumeAttachmentLimitExceeded",
        ];
        let reason = REASONS.into_iter().find(|reason| *reason == rejection.reason);
        self.record(
            &pod,
            EventType::Warning,
            reason.unwrap_or("UnexpectedAdmissionError"),
            "Admitting",
            || rejection.message.clone(),
        );
    }

    /// Records why the volumes of a pod are not mounted, or its devices not prepared.
    pub(crate) fn failed_mount(&self, pod: PodRef<'_>, reason: &'static str, why: &str) {
        self.record(&pod, EventType::Warning, reason, "Mounting", || why.to_owned());
    }

    /// Records what changed since `before`.
    pub(crate) fn lifecycle_changed(&self, pod: PodRef<'_>, lifecycle: &PodLifecycle, before: Progress) {
        let now = Progress::of(lifecycle);
        let containers = &lifecycle.plan().containers;
        if now.backs_off && !before.backs_off {
            for c in containers {
                self.record(&pod, EventType::Warning, "BackOff", "Restarting", || {
                    format!("Back-off restarting failed container {}", c.name)
                });
            }
        }
        if !self.records_normal_events {
            return;
        }
        let normal = |reason, action, note: String| {
            self.record(&pod, EventType::Normal, reason, action, || note);
        };
        if now.n_runs > before.n_runs {
            for c in containers {
                normal(
                    "Pulled",
                    "Pulling",
                    format!("Container image {:?} already present on machine", c.image),
                );
                normal("Created", "Creating", format!("Container created: {}", c.name));
                normal("Started", "Starting", format!("Container started: {}", c.name));
            }
        }
        if now.stops && !before.stops {
            for c in containers {
                normal("Killing", "Killing", format!("Stopping container {}", c.name));
            }
        }
    }

    fn record(
        &self,
        pod: &PodRef<'_>,
        event_type: EventType,
        reason: &'static str,
        action: &'static str,
        note: impl FnOnce() -> String,
    ) {
        if self.recorder.is_full(event_type) {
            return;
        }
        self.recorder.record(NewEvent {
            regarding: ObjectReference {
                api_version: "v1".into(),
                kind: "Pod".into(),
                namespace: pod.key.namespace().to_owned(),
                name: pod.key.name().to_owned(),
                uid: pod.uid.to_owned(),
            },
            related: None,
            event_type,
            reason,
            action,
            note: note(),
            controller: None,
        });
    }
}
