//! Groups whose eviction an earlier process began and did not end.

use super::enforcer::Enforcer;
use crate::completion::Sent;
use crate::evict::Eviction;
use crate::limiter::GroupMember;

impl Enforcer {
    /// Evicts the rest of each group that is in the ledger and of which the first pod is evicted. While the first pod is there, the
    /// next selection decides about the group.
    pub(super) fn end_begun_groups(&mut self) {
        let mut begun = Vec::new();
        for entry in self.limits.limiter.of_groups() {
            let is_there = |GroupMember { name, uid }: &GroupMember| {
                let pod = self.pods.get(&entry.namespace, name);
                pod.is_some_and(|pod| *pod.uid == **uid && !pod.is_terminating)
            };
            let Some(first) = entry.group.first().filter(|first| !is_there(first)) else { continue };
            let message = format!(
                "Its pod group is disrupted as a whole, and {} of it was evicted for {}",
                first.name, entry.term
            );
            let rest =
                entry.group.iter().filter(|member| is_there(member) && !self.evictions.contains(&member.uid));
            let sent = |GroupMember { name, uid }: &GroupMember| {
                let namespace = &entry.namespace;
                Some(Sent {
                    eviction: Eviction {
                        namespace: namespace.clone(),
                        name: name.clone(),
                        uid: uid.clone(),
                        message: message.clone(),
                        moves_to: None,
                        is_move: false,
                    },
                    node: self.cluster.node_of(namespace, name)?.to_owned(),
                    workload: self.pods.get(namespace, name)?.workload.clone(),
                })
            };
            begun.push(rest.filter_map(sent).collect::<Vec<_>>());
        }
        for rest in begun.into_iter().filter(|rest| !rest.is_empty()) {
            rest.iter().for_each(|sent| self.evictions.add_without_rule(&sent.eviction.uid));
            self.evictions.send(rest, true);
        }
    }
}
