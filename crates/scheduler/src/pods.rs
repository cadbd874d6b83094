//! What the scheduler is told of pods.

use std::sync::Arc;

use berth_api::config::SchedulerConfig;
use berth_api::object::Pod;
use berth_client::{Event, WatchOptions, watch_with};
use berth_mirror::feed::{PodName, PodNews, PodReader};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// A change of pods. What changes nothing that placement sees is not told at all.
pub(crate) enum PodEvent {
    /// All pods there are now.
    Restarted(Vec<Pod>),
    /// A pod as it is now.
    Applied(Arc<Pod>),
    /// A pod for this scheduler that has a node now, and is otherwise as it was told last.
    Bound(PodName),
    /// A pod that has gone.
    Deleted(PodName),
}

impl PodEvent {
    /// None if it says nothing that was not known.
    fn of(event: Event<PodNews>) -> Option<PodEvent> {
        match event {
            Event::Applied(PodNews::Pod(pod)) => Some(PodEvent::Applied(Arc::from(pod))),
            Event::Applied(PodNews::Bound(name)) => Some(PodEvent::Bound(name)),
            Event::Applied(PodNews::Same(_)) => None,
            Event::Deleted(PodNews::Pod(pod)) => Some(PodEvent::Deleted(PodName::of(&pod))),
            Event::Deleted(PodNews::Bound(name) | PodNews::Same(name)) => Some(PodEvent::Deleted(name)),
            Event::Restarted(news) => {
                let pods = news.into_iter().filter_map(|news| match news {
                    PodNews::Pod(pod) => Some(*pod),
                    // In a list every pod is told as a whole.
                    PodNews::Bound(_) | PodNews::Same(_) => None,
                });
                Some(PodEvent::Restarted(pods.collect()))
            }
        }
    }
}

/// The following of pods. It ends when the receiver of what it tells is dropped.
pub(crate) struct PodSource {
    client: kube::Client,
    options: WatchOptions,
    config: Arc<SchedulerConfig>,
    told: mpsc::Sender<(u32, PodEvent)>,
    following: Option<AbortHandle>,
    /// Number of the following that counts; what others tell is out of date.
    number: u32,
}

impl PodSource {
    /// Follows pods with the patience of `options`; those for a profile of `config` are told shortly where they can be.
    pub(crate) fn start(
        client: kube::Client,
        options: WatchOptions,
        config: SchedulerConfig,
        told: mpsc::Sender<(u32, PodEvent)>,
    ) -> PodSource {
        let options = WatchOptions { path: "/api/v1/pods".to_owned(), ..options };
        let config = Arc::new(config);
        let mut source = PodSource { client, options, config, told, following: None, number: 0 };
        source.restart();
        source
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Lists pods anew and follows them from there. What the following before still tells has an old number.
    pub(crate) fn restart(&mut self) {
        if let Some(before) = self.following.take() {
            before.abort();
        }
        self.number += 1;
        let (number, config) = (self.number, self.config.clone());
        // It remembers what was told with this number. Pods for this scheduler are kept until they are bound; of others
        // only a whole pod says enough then.
        let reader = PodReader::new(move |pod| config.profile(&pod.spec.scheduler_name).is_some());
        let following = watch_with(
            self.client.clone(),
            self.options.clone(),
            self.told.clone(),
            move |line, kind| reader.read(line, kind),
            move |event| PodEvent::of(event).map(|event| (number, event)),
        );
        self.following = Some(tokio::spawn(following).abort_handle());
    }
}
