//! Zone labels of bound volumes, from before volumes had a node affinity.

use berth_input::config::Plugin;

use super::rule::{Filter, PreFilter, Reads, Rule, TermInfo};
use super::volumes::{pre_filter_by, volume_path};
use crate::cycle::context::{Context, NodeRef};
use crate::state::node::NodeRecord;
use crate::state::volume::{PodClaim, Volumes, ZoneRule};
use crate::verdict::{Rejection, Status, TopologyPair, Verdict, ViolatedRule};
use crate::volume::CycleVolumes;

const REASON: &str = "node(s) had no available volume zone";

pub(super) struct VolumeZone;

impl Rule for VolumeZone {
    const PLUGIN: Plugin = Plugin::VolumeZone;
    const READS: Reads = Reads::VOLUMES.and(Reads::NODE_LABELS);
    const VIOLATION: Option<ViolatedRule> = Some(ViolatedRule::VolumeZone);

    /// Rejects a pod with a claim whose volume is not known, unless the claim waits for its first consumer.
    fn pre_filter(context: Context<'_>) -> PreFilter {
        let problem = context.cycle.volumes.as_ref().and_then(|volumes| volumes.zone.as_ref());
        pre_filter_by(Plugin::VolumeZone, problem)
    }

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        let volumes = context.cycle.volumes.as_deref().filter(|volumes| !volumes.rules.zones.is_empty())?;
        Some(Box::new(ZonesOfVolumes { context, volumes }))
    }
}

struct ZonesOfVolumes<'a> {
    context: Context<'a>,
    volumes: &'a CycleVolumes,
}

impl ZoneRule {
    fn allows(&self, node: &NodeRecord) -> bool {
        let value = node.labels.get(self.key).or_else(|| node.labels.get(self.or_key));
        value.is_some_and(|value| self.values.binary_search(&value).is_ok())
    }
}

impl ZonesOfVolumes<'_> {
    /// In clusters of a single zone nodes may have no labels that say so: they can use any volume.
    fn has_zone(&self, node: &NodeRecord) -> bool {
        self.volumes().zone_keys.iter().any(|key| node.labels.get(*key).is_some())
    }

    fn volumes(&self) -> &Volumes {
        &self.context.state.volumes
    }

    fn rules(&self) -> impl Iterator<Item = (&PodClaim, &str, &ZoneRule)> {
        self.volumes.pod.claims.iter().filter(|used| !used.ephemeral).flat_map(|used| {
            let claim = self.volumes().claim(&used.key);
            let volume =
                claim.and_then(|claim| Some((&*claim.volume, self.volumes().volume(&claim.volume)?)));
            volume.into_iter().flat_map(move |(name, v)| v.zones.iter().map(move |rule| (used, name, rule)))
        })
    }

    fn detail(&self, used: &PodClaim, volume: &str, rule: &ZoneRule) -> String {
        let symbols = &self.context.state.symbols;
        let mut values: Vec<_> = rule.values.iter().map(|value| symbols.text(*value)).collect();
        values.sort_unstable();
        let (key, values) = (symbols.text(rule.key), values.join(" or "));
        format!("claim {} is bound to volume {volume} in {key}={values}", used.key.1)
    }
}

impl Filter for ZonesOfVolumes<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let status = Status::UnschedulableAndUnresolvable;
        (!self.admits(node)).then(|| Rejection::new(Plugin::VolumeZone, status, REASON))
    }

    fn admits(&self, node: NodeRef<'_>) -> bool {
        let mut rules = self.volumes.rules.zones.iter();
        rules.all(|rule| rule.allows(node.record)) || !self.has_zone(node.record)
    }

    fn terms(&self) -> Vec<TermInfo> {
        let term = |(used, volume, rule): (&PodClaim, &str, &ZoneRule)| TermInfo {
            term: volume_path(&used.volume),
            detail: self.detail(used, volume, rule),
        };
        self.rules().map(term).collect()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let state = self.context.state;
        if !self.has_zone(node.record) {
            return Vec::new();
        }
        let rejecting = self.rules().filter(|(.., rule)| !rule.allows(node.record));
        rejecting
            .map(|(used, volume, rule)| {
                let value = node.record.labels.get(rule.key).or_else(|| node.record.labels.get(rule.or_key));
                let pair = TopologyPair {
                    key: state.symbols.text(rule.key).to_owned(),
                    value: value.map(|value| state.symbols.text(value).to_owned()),
                };
                let detail = self.detail(used, volume, rule);
                Verdict::new(Plugin::VolumeZone, Status::UnschedulableAndUnresolvable, REASON, detail)
                    .term(volume_path(&used.volume))
                    .topology(Some(pair))
            })
            .collect()
    }
}
