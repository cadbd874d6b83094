//! How many volumes the CSI drivers of a node can attach.

use berth_input::config::Plugin;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::rule::{Filter, Reads, Rule, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::state::volume::{Attachment, CsiNodeRecord};
use crate::verdict::{Counts, Rejection, Status, Verdict};
use crate::volume::CycleVolumes;

const TERM: &str = "spec.volumes";
const REASON: &str = "node(s) exceed max volume count";

pub(super) struct NodeVolumeLimits;

impl Rule for NodeVolumeLimits {
    const PLUGIN: Plugin = Plugin::NodeVolumeLimits;
    const READS: Reads = Reads::VOLUMES.and(Reads::VOLUMES_IN_USE).and(Reads::NODE_LABELS);

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        let volumes = context.cycle.volumes.as_deref()?;
        let missing = volumes.pod.claims.iter().find(|used| context.state.volumes.claim(&used.key).is_none());
        let missing = missing.map(|used| {
            let (namespace, name) = (context.state.symbols.text(used.key.0), &used.key.1);
            format!("looking up PVC {namespace}/{name}: persistentvolumeclaim {name:?} not found")
        });
        let needed = missing.is_some() || !volumes.rules.attach.is_empty() || !volumes.pod.in_tree.is_empty();
        needed.then(|| Box::new(AttachableVolumes { context, volumes, missing }) as Box<dyn Filter>)
    }
}

struct AttachableVolumes<'a> {
    context: Context<'a>,
    volumes: &'a CycleVolumes,
    /// Why no node is possible: a claim does not exist. Other plugins say so first, unless they are disabled.
    missing: Option<String>,
}

/// The count of one driver on a node.
struct Count<'a> {
    driver: &'a str,
    attached: i64,
    new: i64,
    limit: i64,
}

impl AttachableVolumes<'_> {
    /// The counts of the drivers that are limited on the node and have to attach volumes that no pod of the node uses.
    fn counts<'n>(&'n self, node: NodeRef<'n>, found: &mut dyn FnMut(Count<'n>)) {
        let state = self.context.state;
        let Some(csi_node) = state.volumes.csi_node(node.record.name).filter(|node| node.is_limited()) else {
            return;
        };
        let attached_to = |drivers: &dyn Fn(&str) -> bool| {
            state.volumes.attached_to(state, node.id, node.record, csi_node, node.volume_delta(), drivers)
        };
        let of_driver = |attached: &FxHashMap<Attachment<'n>, bool>, driver: &str| {
            attached.keys().filter(|attachment| attachment.driver == driver).count() as i64
        };
        if !self.volumes.looks_up_attached {
            for (driver, limit, new) in self.limited(csi_node) {
                let attached = of_driver(&attached_to(&|other| other == driver), driver);
                found(Count { driver, attached, new, limit });
            }
            return;
        }
        let mut new: Vec<Attachment<'n>> =
            state.volumes.attachments_of_pod(&self.volumes.pod, csi_node).collect();
        new.retain(|attachment| csi_node.limit(attachment.driver).is_some());
        if new.is_empty() {
            return;
        }
        let drivers: Vec<&str> = new.iter().map(|attachment| attachment.driver).collect();
        let attached = attached_to(&|driver| drivers.contains(&driver));
        new.retain(|attachment| attached.get(attachment) != Some(&true));
        new.sort_unstable_by_key(|attachment| attachment.driver);
        let mut counted: Vec<Attachment<'n>> = Vec::new();
        for attachment in new {
            if !counted.contains(&attachment) {
                counted.push(attachment);
            }
        }
        for of_one in counted.chunk_by(|a, b| a.driver == b.driver) {
            let driver = of_one[0].driver;
            let limit = csi_node.limit(driver).unwrap_or(i64::MAX);
            found(Count { driver, attached: of_driver(&attached, driver), new: of_one.len() as i64, limit });
        }
    }

    /// The limited drivers with the number of volumes that they have to attach, if all are new.
    fn limited(&self, csi_node: &CsiNodeRecord) -> SmallVec<[(&str, i64, i64); 1]> {
        let mut counts: SmallVec<[(&str, i64, i64); 1]> = SmallVec::new();
        for (driver, plugin, n) in &self.volumes.rules.attach {
            let Some(limit) = csi_node.limit(driver) else { continue };
            if plugin.is_some_and(|plugin| !csi_node.attaches(plugin)) {
                continue;
            }
            match counts.iter_mut().find(|(other, ..)| *other == &**driver) {
                Some((.., new)) => *new += n,
                None => counts.push((driver, limit, *n)),
            }
        }
        counts
    }

    /// A driver that the node lacks and that must be there.
    fn missing_driver(&self, node: NodeRef<'_>) -> Option<&str> {
        let required = self.volumes.rules.required_drivers.iter();
        let csi_node = self.context.state.volumes.csi_node(node.record.name);
        let attaches = |plugin: &Option<_>| plugin.is_none_or(|p| csi_node.is_some_and(|n| n.attaches(p)));
        let is_missing = |driver: &str| !csi_node.is_some_and(|node| node.has_driver(driver));
        let mut missing = required.filter(|(driver, plugin)| attaches(plugin) && is_missing(driver));
        missing.next().map(|(driver, _)| &**driver)
    }

    fn exceeded<'n>(&'n self, node: NodeRef<'n>) -> Vec<Count<'n>> {
        let mut exceeded = Vec::new();
        self.counts(node, &mut |count| {
            if count.attached + count.new > count.limit {
                exceeded.push(count);
            }
        });
        exceeded
    }
}

impl Filter for AttachableVolumes<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        if let Some(missing) = &self.missing {
            let (plugin, status) = (Plugin::NodeVolumeLimits, Status::UnschedulableAndUnresolvable);
            return Some(Rejection {
                plugin,
                status,
                reasons: [missing.clone().into()].into_iter().collect(),
            });
        }
        if let Some(driver) = self.missing_driver(node) {
            let (plugin, status) = (Plugin::NodeVolumeLimits, Status::Unschedulable);
            return Some(Rejection {
                plugin,
                status,
                reasons: [not_installed(driver).into()].into_iter().collect(),
            });
        }
        let rejection = || Rejection::new(Plugin::NodeVolumeLimits, Status::Unschedulable, REASON);
        (!self.admits(node)).then(rejection)
    }

    fn admits(&self, node: NodeRef<'_>) -> bool {
        let mut fits = self.missing.is_none() && self.missing_driver(node).is_none();
        self.counts(node, &mut |count| fits &= count.attached + count.new <= count.limit);
        fits
    }

    fn terms(&self) -> Vec<TermInfo> {
        let rules = self.volumes.rules.attach.iter();
        let detail = |driver: &str| TermInfo { term: TERM.to_owned(), detail: detail(driver) };
        let in_tree = self.volumes.pod.in_tree.iter().map(|(plugin, _)| plugin.csi_driver());
        let mut terms: Vec<_> = rules.map(|(driver, ..)| detail(driver)).chain(in_tree.map(detail)).collect();
        terms.dedup_by(|a, b| a.detail == b.detail);
        terms
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        if let Some(missing) = &self.missing {
            let (plugin, status) = (Plugin::NodeVolumeLimits, Status::UnschedulableAndUnresolvable);
            let verdict = Verdict::new(plugin, status, REASON, missing.clone()).term(TERM);
            return vec![Verdict { reason: missing.clone().into(), ..verdict }];
        }
        if let Some(driver) = self.missing_driver(node) {
            let (plugin, status) = (Plugin::NodeVolumeLimits, Status::Unschedulable);
            let verdict = Verdict::new(plugin, status, "", detail(driver)).term(TERM);
            return vec![Verdict { reason: not_installed(driver).into(), ..verdict }];
        }
        let verdict = |count: Count<'_>| {
            let counts = Counts::Volumes {
                driver: count.driver.to_owned(),
                attached: count.attached,
                new: count.new,
                limit: count.limit,
            };
            let detail = detail(count.driver);
            Verdict::new(Plugin::NodeVolumeLimits, Status::Unschedulable, REASON, detail)
                .term(TERM)
                .counts(counts)
        };
        self.exceeded(node).into_iter().map(verdict).collect()
    }
}

fn not_installed(driver: &str) -> String {
    format!("{driver} CSI driver is not installed on the node")
}

fn detail(driver: &str) -> String {
    format!("{driver} must be able to attach the pod's volumes")
}
