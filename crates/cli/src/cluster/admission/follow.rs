//! A cluster followed for admission: what the server tells, into the state that is decided by.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use berth_admission::{Admission, State};
use berth_api::object::{Node, Pod};
use berth_client::Event;
use berth_mirror::feed::Feed;
use berth_mirror::sources::{PodEvent, Source, Sources, Told};
use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What is followed. Services and owners of pods settle scores only, and nothing here depends on those.
pub const SOURCES: [Source; 3] = [Source::Nodes, Source::Namespaces, Source::Pods];
/// Pods that are told to the state at a time, so that a long list keeps nobody waiting.
const PODS_AT_A_TIME: usize = 256;
/// A watch that is silent for longer is started again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// What has been told and not taken yet.
const BUFFER: usize = 1024;
/// How often the number of rule sets is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The state is not begun anew for fewer rule sets, which are some kilobytes each.
const FEW_RULE_SETS: usize = 10_000;
/// It is when there are so many times more than at its beginning.
const GROWTH: usize = 4;

/// Follows a cluster and tells what it says, until told to stop.
///
/// The engine keeps every set of rules it was ever asked about, also by pods that are only tried. Before they become
/// too many, the cluster is listed again for a second state, which takes the place of the first.
pub async fn follow(
    client: Client,
    admission: Arc<Admission>,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    _ = stop.run_until_cancelled(follow_for_ever(client, admission, FEW_RULE_SETS, LOOK_EVERY)).await;
    Ok(())
}

async fn follow_for_ever(client: Client, admission: Arc<Admission>, few: usize, look_every: Duration) {
    let mut current = WatchStream::start(&client, Target::Shared(admission.clone()));
    let mut next: Option<WatchStream> = None;
    let most = |admission: &Admission| admission.n_rule_sets().saturating_mul(GROWTH).max(few);
    let mut most_rule_sets = usize::MAX;
    let mut look = tokio::time::interval(look_every);
    loop {
        tokio::select! {
            () = current.step() => {}
            () = async {
                match &mut next {
                    Some(next) => next.step().await,
                    None => std::future::pending().await,
                }
            } => {}
            _ = look.tick() => match next.take() {
                // A moment has passed since it was complete: it knows what the other knows.
                Some(WatchStream { target: Target::Own(state), is_settled: true, told, sources, feed, .. }) => {
                    tracing::info!(n_rule_sets = admission.n_rule_sets(), "the state begins anew");
                    admission.replace_state(*state);
                    most_rule_sets = most(&admission);
                    let target = Target::Shared(admission.clone());
                    current = WatchStream { target, told, sources, feed, missing: Vec::new(), is_settled: true };
                }
                Some(mut other) => {
                    other.is_settled = other.missing.is_empty();
                    next = Some(other);
                }
                None if !current.missing.is_empty() => {}
                None if most_rule_sets == usize::MAX => most_rule_sets = most(&admission),
                None if admission.n_rule_sets() > most_rule_sets => {
                    let state = admission.new_state();
                    next = state.map(|state| WatchStream::start(&client, Target::Own(Box::new(state))));
                }
                None => {}
            }
        }
    }
}

/// Whom a following tells.
enum Target {
    /// The state that is decided by.
    Shared(Arc<Admission>),
    /// One that is to take its place.
    Own(Box<State>),
}

impl Target {
    fn tell(&mut self, change: impl FnOnce(&mut State)) {
        match self {
            Target::Shared(admission) => admission.tell(change),
            Target::Own(state) => change(state),
        }
    }
}

/// One state of one cluster.
struct WatchStream {
    target: Target,
    told: mpsc::Receiver<Told>,
    sources: Sources,
    feed: Feed,
    /// What has not been listed yet.
    missing: Vec<Source>,
    /// Whether it has been complete for a while.
    is_settled: bool,
}

impl WatchStream {
    fn start(client: &Client, target: Target) -> WatchStream {
        let (tell, told) = mpsc::channel(BUFFER);
        let sources = Sources::start(client.clone(), &SOURCES, IDLE_TIMEOUT, tell);
        WatchStream { target, told, sources, feed: Feed::new(), missing: SOURCES.to_vec(), is_settled: false }
    }

    /// Takes one thing that is told, as a whole or not at all.
    async fn step(&mut self) {
        // The sources, which are here, hold the other end.
        let Some(told) = self.told.recv().await else { return std::future::pending().await };
        let listed = told.completes();
        let (target, feed) = (&mut self.target, &mut self.feed);
        match told {
            Told::Nodes(event) => take_nodes(target, feed, event),
            Told::Namespaces(event) => target.tell(|state| _ = feed.namespaces(state.cluster(), event)),
            Told::Pods(number, event) if number == self.sources.pods_number() => {
                take_pods(target, feed, event);
            }
            _ => {}
        }
        if let Some(source) = listed {
            self.missing.retain(|missing| *missing != source);
            if let Target::Shared(admission) = &self.target {
                admission.has_listed(source.name());
            }
        }
    }
}

fn take_nodes(target: &mut Target, feed: &mut Feed, event: Event<Node>) {
    target.tell(|state| {
        match &event {
            Event::Applied(node) => state.saw_node(node),
            Event::Deleted(node) => state.node_gone(&node.metadata.name),
            Event::Restarted(nodes) => state.saw_all_nodes(nodes),
        }
        feed.nodes(state.cluster(), event);
    });
}

fn take_pods(target: &mut Target, feed: &mut Feed, event: PodEvent) {
    match event {
        PodEvent::Applied(pod) => target.tell(|state| saw(state, feed, &pod)),
        PodEvent::Deleted(pod) => {
            let metadata = &pod.metadata;
            target.tell(|state| gone(state, feed, &metadata.namespace, &metadata.name, &metadata.uid));
        }
        PodEvent::Restarted(pods) => {
            // What is gone goes first: another pod may have its name by now.
            target.tell(|state| {
                for (namespace, name, uid) in feed.pods_not_in(&pods) {
                    gone(state, feed, &namespace, &name, &uid);
                }
                state.keep_pods(&pods);
            });
            for some in pods.chunks(PODS_AT_A_TIME) {
                target.tell(|state| some.iter().for_each(|pod| saw(state, feed, pod)));
            }
        }
    }
}

fn saw(state: &mut State, feed: &mut Feed, pod: &Pod) {
    feed.set_pod(state.cluster(), pod);
    state.saw_pod(pod);
}

fn gone(state: &mut State, feed: &mut Feed, namespace: &str, name: &str, uid: &str) {
    feed.remove_pod(state.cluster(), namespace, name, uid);
    state.pod_gone(namespace, name, uid);
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use berth_admission::{AdmissionRequest, Endpoint, Policy};
    use berth_apiserver::{ApiServer, ServerOptions};
    use berth_client::{call, connect};
    use http::Method;
    use serde_json::{Value, json};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    async fn create(client: &Client, path: &str, object: Value) {
        let body = object.to_string().into_bytes();
        let request = call::with_body(Method::POST, path, "application/json", body);
        call::send(client, request, DEADLINE, call::MAX_OBJECT_BYTES).await.unwrap();
    }

    fn asked(name: &str, resource: &str, object: Value) -> AdmissionRequest {
        AdmissionRequest::from_value(
            json!({"uid": name, "operation": "CREATE", "name": name, "namespace": "default",
            "resource": {"group": "", "version": "v1", "resource": resource}, "object": object}),
        )
        .unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_state_begins_anew_before_it_knows_too_many_rules() {
        let server = ApiServer::start(ServerOptions::default()).await.unwrap();
        let client = connect::client(server.admin_config()).unwrap();
        for name in ["a", "b"] {
            let labels = json!({"kubernetes.io/hostname": name});
            create(&client, "/api/v1/nodes", json!({"metadata": {"name": name, "labels": labels}})).await;
        }
        let term = |group: &str| json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"group": group}}}]);
        let pod = |name: &str, group: &str| {
            let rules = json!({"requiredDuringSchedulingIgnoredDuringExecution": term(group)});
            json!({"metadata": {"name": name, "namespace": "default", "labels": {"group": group}},
                "spec": {"affinity": {"podAntiAffinity": rules}, "containers": [{"name": "c", "image": "i"}]}})
        };
        for name in ["one", "other"] {
            create(&client, "/api/v1/namespaces/default/pods", pod(name, "kept")).await;
        }
        let policy = Policy::from_value(&json!({
            "apiVersion": "admission.berth.dev/v1alpha1", "kind": "AdmissionPolicy",
            "budgets": [{"blastRadius": {"nodes": 10}}],
            "bindingGuard": {"enabled": true, "holdFor": "10m", "waitFor": "10m"},
        }));
        let admission = super::super::with_state(policy.unwrap());
        let task = tokio::spawn(follow_for_ever(client, admission.clone(), 20, Duration::from_millis(5)));
        admission.complete().await;
        // This is allowed, and never seen: nobody really binds it.
        let binding = |node: &str| json!({"target": {"kind": "Node", "name": node}});
        let bind = async |pod: &str, node: &str| {
            let mut request = asked(pod, "pods", binding(node));
            request.sub_resource = "binding".to_owned();
            admission.review(Endpoint::ValidateBindings, &request).await.unwrap().is_allowed()
        };
        assert!(bind("one", "a").await);
        let begin = Instant::now();
        let (mut most, mut n_asked) = (0, 0);
        // Rules of pods that are tried and never come.
        while admission.n_rule_sets() >= most {
            assert!(begin.elapsed() < DEADLINE, "{most} sets of rules and no end");
            most = admission.n_rule_sets();
            n_asked += 1;
            let request = asked("tried", "pods", pod("tried", &format!("group-{n_asked}")));
            assert!(admission.review(Endpoint::ValidatePods, &request).await.unwrap().is_allowed());
        }
        assert!(most > 20, "{most}");
        assert!(!bind("other", "a").await, "what was allowed before still counts");
        assert!(bind("other", "b").await);
        task.abort();
    }
}
