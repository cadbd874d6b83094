//! Events about pods, for people to read.

use berth_api::object::NamespacedName;
use berth_client::events::{EventRecorder, EventType, NewEvent, ObjectReference, RecorderOptions};
use tokio_util::sync::CancellationToken;

use crate::pod::life::{Life, Refusal};

/// Events a second in the long run: nodes have better things to do.
const PER_SECOND: u32 = 10;
const BURST: u32 = 50;

/// Records what happens to pods. Bad news always; good news only if asked for, as it costs several writes a pod.
pub(crate) struct PodEvents {
    recorder: EventRecorder,
    tells_good_news: bool,
}

/// A pod as its events name it.
pub(crate) struct Subject<'a> {
    pub(crate) key: &'a NamespacedName,
    pub(crate) uid: &'a str,
}

/// What of a life events are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    n_runs: u32,
    backs_off: bool,
    stops: bool,
}

impl Progress {
    pub(crate) fn of(life: &Life) -> Progress {
        Progress { n_runs: life.n_runs(), backs_off: life.backs_off(), stops: life.is_stopping() }
    }
}

impl PodEvents {
    pub(crate) fn start(client: kube::Client, tells_good_news: bool, stop: CancellationToken) -> PodEvents {
        let options = RecorderOptions {
            per_second: PER_SECOND,
            burst: BURST,
            ..RecorderOptions::new("kubelet", "berth-kubelet")
        };
        PodEvents { recorder: EventRecorder::start(client, options, stop), tells_good_news }
    }

    /// A node refused the pod for good.
    pub(crate) fn refused(&self, pod: Subject<'_>, refusal: &Refusal) {
        // Reasons of events are a small, known set: they are what people filter by.
        const KNOWN: [&str; 10] = [
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
        ];
        let known = KNOWN.into_iter().find(|known| *known == refusal.reason);
        self.record(
            &pod,
            EventType::Warning,
            known.unwrap_or("UnexpectedAdmissionError"),
            "Admitting",
            || refusal.message.clone(),
        );
    }

    /// Tells what is new since `before`.
    pub(crate) fn advanced(&self, pod: Subject<'_>, life: &Life, before: Progress) {
        let now = Progress::of(life);
        let containers = &life.plan().containers;
        if now.backs_off && !before.backs_off {
            for c in containers {
                self.record(&pod, EventType::Warning, "BackOff", "Restarting", || {
                    format!("Back-off restarting failed container {}", c.name)
                });
            }
        }
        if !self.tells_good_news {
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
        pod: &Subject<'_>,
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
        });
    }
}
