//! Mirrors a cluster into the state of an [`AdmissionController`].

use std::sync::Arc;

use berth_client::{WatchFailure, WatchGroup};
use berth_mirror::{Change, Mirror, MirrorOptions, Source};
use futures::FutureExt as _;
use tokio::time::Instant;

use crate::admission::{AdmissionController, POLICY_SOURCES};
use crate::policy::Policy;
use crate::state::State;

/// The watched resources. Services and owners of pods matter for scores only, on which no rule here depends.
const SOURCES: [Source; 3] = [Source::Nodes, Source::Namespaces, Source::Pods];
/// Watch events applied while the state is locked once.
const EVENTS_AT_ONCE: usize = 256;

impl AdmissionController {
    /// Decides by a policy, the placement policies of a cluster and, if the policy needs it, its state, which
    /// [`AdmissionController::follow`] updates.
    pub fn mirrored(policy: Policy) -> Arc<AdmissionController> {
        let state = policy.needs_state().then(|| State::new(&policy));
        let sources = state.iter().flat_map(|_| SOURCES.map(Source::name));
        let pending = sources.chain(POLICY_SOURCES).collect();
        AdmissionController::new(policy, state, pending)
    }

    /// Keeps the placement policies and, if the policy needs it, the state equal to those of a cluster, for as long as the
    /// runtime lives.
    ///
    /// # Errors
    /// The cluster cannot be read, or has more than the watches of the group may keep.
    pub async fn follow(&self, client: kube::Client, group: WatchGroup) -> Result<(), WatchFailure> {
        let mirror = async {
            if !self.has_state() {
                return Ok(());
            }
            self.use_ledgers(&client);
            let quotas = self.sync_quotas(client.clone(), &group).map(Ok);
            tokio::try_join!(self.mirror_state(client.clone(), &group), quotas).map(|_| ())
        };
        let policies = self.follow_policies(client.clone(), &group).map(Ok);
        tokio::select! {
            biased;
            failure = group.exceeded() => Err(failure),
            ended = futures::future::try_join(mirror, policies) => ended.map(|_| ()),
        }
    }

    async fn mirror_state(&self, client: kube::Client, group: &WatchGroup) -> Result<(), WatchFailure> {
        let options = MirrorOptions { group: group.clone(), ..MirrorOptions::new(&SOURCES) };
        let (mut mirror, mut events) = Mirror::start(client, options);
        let mut batch = Vec::with_capacity(EVENTS_AT_ONCE);
        while events.recv_many(&mut batch, EVENTS_AT_ONCE).await > 0 {
            let (mut listed, mut failed) = (Vec::new(), None);
            self.update(|state| {
                for event in batch.drain(..) {
                    for change in mirror.apply(state.cluster(), event, |_| false) {
                        match change {
                            Change::NodeApplied(node) => state.node_applied(&node),
                            Change::NodeDeleted(name) => state.node_deleted(&name),
                            Change::PodApplied { pod, .. } => state.pod_applied(&pod),
                            Change::PodDeleted { pod, uid } => {
                                state.pod_deleted(pod.namespace(), pod.name(), &uid);
                            }
                            Change::Listed(source) => listed.push(source),
                            Change::Failed(failure) => failed = Some(failure),
                            // The other sources are not watched, and no pending pods are kept.
                            _ => {}
                        }
                    }
                }
            });
            listed.into_iter().for_each(|source| self.listed(source.name()));
            failed.map_or(Ok(()), Err)?;
            mirror.check_if_due(Instant::now());
        }
        Ok(())
    }
}
