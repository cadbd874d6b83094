//! A rule of the tests, added as docs/add-a-rule.md describes: pods go to nodes with the label `open` only, best to those with
//! the highest value of it. Views, rejections, verdicts, scores and queueing hints follow from its folder and its line in
//! the registry.

use berth_api::object::Node;
use berth_input::config::{Plugin, Profile, SchedulerConfig};
use berth_testkit::generate::Random;
use berth_testkit::text;

use super::super::rule::{Filter, Normalization, Reads, Rule, Scorer, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::state::node::NodeId;
use crate::verdict::{Rejection, Status, Verdict};
use crate::{Cluster, NodeEvaluation, PreparedPod, Settings, WakeConditions};

const LABEL: &str = "open";
const REASON: &str = "node(s) were not open";

pub(in super::super) struct OpenNodes;

impl Rule for OpenNodes {
    /// A plugin that is no rule about nodes otherwise.
    const PLUGIN: Plugin = Plugin::PrioritySort;
    const READS: Reads = Reads::NODE_LABELS;
    const NORMALIZATION: Normalization = Normalization::Highest;

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        Some(Box::new(Open { context, label: LABEL }))
    }

    fn scorer<'a>(context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        Some(Box::new(Open { context, label: LABEL }))
    }
}

pub(super) struct Open<'a> {
    pub(super) context: Context<'a>,
    /// The label that nodes must have.
    pub(super) label: &'static str,
}

impl Open<'_> {
    fn value(&self, node: NodeRef<'_>) -> Option<&str> {
        let symbols = &self.context.state.symbols;
        Some(symbols.text(node.record.labels.get(symbols.get(self.label)?)?))
    }
}

impl Filter for Open<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let rejection = || Rejection::new(OpenNodes::PLUGIN, Status::UnschedulableAndUnresolvable, REASON);
        self.value(node).is_none().then(rejection)
    }

    fn terms(&self) -> Vec<TermInfo> {
        vec![TermInfo { term: LABEL.to_owned(), detail: "the node must be open".to_owned() }]
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let verdict = |rejection: Rejection| {
            Verdict::new(rejection.plugin, rejection.status, REASON, "the node must be open".to_owned())
                .term(LABEL)
        };
        self.check(node).map(verdict).into_iter().collect()
    }
}

impl Scorer for Open<'_> {
    fn score(&self, node: NodeRef<'_>) -> i64 {
        self.value(node).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        vec![(LABEL.to_owned(), self.score(node))]
    }
}

/// A cluster whose profile has the rule.
fn cluster() -> Cluster {
    let mut profile = Profile::default();
    profile.filter.push(OpenNodes::PLUGIN);
    profile.score.push((OpenNodes::PLUGIN, 5));
    let config = SchedulerConfig { profiles: vec![profile], ..SchedulerConfig::default() };
    Cluster::new(Settings { config, ..Settings::default() })
}

fn node(name: &str, label: Option<usize>) -> Node {
    let mut node = text::node(&format!("node {name} cpu=4 zone=z1"));
    node.metadata.labels.extend(label.map(|value| (LABEL.to_owned(), value.to_string())));
    node
}

fn pod(cluster: &mut Cluster) -> PreparedPod {
    cluster.prepare(&text::pod("pod default/p cpu=1 app=web anti(app=web @hostname)"))
}

#[test]
fn a_rule_of_the_registry_rejects_and_explains() {
    let mut cluster = cluster();
    cluster.set_node(&node("a", None));
    let pod = pod(&mut cluster);
    let outcome = cluster.decide(&pod);
    assert_eq!(outcome.message(), "0/1 nodes are available: 1 node(s) were not open.");
    let verdicts = cluster.verdicts_on(&pod, "a");
    assert_eq!(verdicts[0].detail, "the node must be open");
    assert_eq!(verdicts[0].term.as_deref(), Some(LABEL));
}

#[test]
fn views_and_rejections_follow_a_rule_of_the_registry() {
    let mut random = Random::new(1);
    let mut cluster = cluster();
    (0..6).for_each(|i| cluster.set_node(&node(&format!("n{i}"), None)));
    let pod = pod(&mut cluster);
    let (mut n_placed, mut n_rejected) = (0, 0);
    for _ in 0..300 {
        let label = random.chance(30).then(|| random.below(10));
        cluster.set_node(&node(&format!("n{}", random.below(6)), label));
        let (decided, evaluated) = (cluster.decide(&pod), cluster.evaluate(&pod));
        assert_eq!(decided, evaluated.outcome);
        n_placed += usize::from(decided.node().is_some());
        n_rejected += usize::from(decided.node().is_none());
        let scored = |node: &NodeEvaluation| match node {
            NodeEvaluation::Feasible(score) => score.by_plugin.iter().any(|(p, _)| *p == OpenNodes::PLUGIN),
            _ => false,
        };
        assert_eq!(evaluated.nodes.values().any(scored), decided.node().is_some());
    }
    assert!(n_placed > 50 && n_rejected > 5, "{n_placed} {n_rejected}");
}

#[test]
fn hints_follow_from_what_a_rule_reads() {
    let mut cluster = cluster();
    ["a", "b"].iter().for_each(|name| cluster.set_node(&node(name, None)));
    let pod = pod(&mut cluster);
    assert!(cluster.decide(&pod).node().is_none());
    let conditions = cluster.wake_conditions(&pod);
    cluster.record_changes(true);
    let helps = |cluster: &mut Cluster, conditions: &WakeConditions| {
        let changes = cluster.take_changes();
        changes.iter().any(|change| cluster.could_help(conditions, change))
    };
    let mut larger = node("a", None);
    larger.status.allocatable.iter_mut().for_each(|resources| resources.clear());
    cluster.set_node(&larger);
    assert!(!helps(&mut cluster, &conditions), "the node is still not open");
    cluster.set_node(&node("b", Some(1)));
    assert!(helps(&mut cluster, &conditions), "the node is open now");
}
