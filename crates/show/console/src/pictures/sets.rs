//! Overlapping sets of pods and of nodes: UpSet plots.

use std::cmp::Reverse;

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_picture::upset::{self, UpSet};
use berth_rules::SetRelation;
use berth_simulate::sets::nodes::{NodeIntersection, NodeRule, NodeRuleRole, NodeSet, NodeSetComparison};
use berth_simulate::sets::{Intersection, PodGroup, SelectorOwner, SelectorRole, SetComparison};

/// Selectors of a set, workloads and nodes, in a title.
const MAX_NAMED: usize = 8;
/// Sets and intersections in the plot.
const MAX_PLOTTED_SETS: usize = 30;
const MAX_PLOTTED_INTERSECTIONS: usize = 40;

/// The pods by the sets that they are in.
pub fn sets(comparison: &SetComparison) -> String {
    let SetComparison { sets, intersections, summary, .. } = comparison;
    let row = |id: usize| {
        let set = &sets[id - 1];
        let name = format!("{} in {}", set.selector, set.namespaces);
        let owners: Vec<_> = set.owners.iter().map(|o| selector_owner(o, &set.namespaces)).collect();
        let owners = abbreviated(&owners, MAX_NAMED);
        let title = format!("{name}: {}; selected by {owners}", counted(set.n_pods, "pod"));
        upset::Set { name, title, size: set.n_pods }
    };
    let column = |position: usize| {
        let Intersection { sets: ids, selected_twice_by, n_pods, pods } = &intersections[position];
        let selectors: Vec<_> = ids.iter().map(|id| sets[id - 1].selector.as_str()).collect();
        let groups: Vec<_> =
            pods.iter().map(|group| format!("{} of {}", group.n_pods, group.object)).collect();
        let twice = selected_twice_by.iter().map(|role| format!("; selected by two {}", plural(*role)));
        let twice: String = twice.collect();
        let selectors = if selectors.is_empty() { "no set".to_owned() } else { selectors.join("; ") };
        let pods = abbreviated(&groups, MAX_NAMED);
        let title = format!("{} in exactly these sets: {selectors}{twice} ({pods})", counted(*n_pods, "pod"));
        let alert = !twice.is_empty();
        upset::Intersection { sets: Vec::new(), title, size: *n_pods, alert }
    };
    let (n_pods, n_sets) = (counted(summary.n_pods, "pod"), counted(summary.n_sets, "set"));
    let (controllers, budgets) = (summary.n_pods_of_two_controllers, summary.n_pods_of_two_budgets);
    let (services, monitors) = (summary.n_pods_of_two_services, summary.n_pods_of_two_monitors);
    plot(
        UpSet {
            title: format!("{n_pods} in {n_sets}"),
            description: format!(
                "UpSet plot: {n_sets} of pods as rows, and their intersections as columns. {} are selected by two controllers, \
                 {budgets} by two budgets, {services} by two Services, {monitors} by two monitors.",
                counted(controllers, "pod")
            ),
            ..UpSet::default()
        },
        "pods",
        "! Two controllers, budgets, Services or monitors select these pods.",
        (sets.iter().map(|set| (set.n_pods, set.id)).collect(), row),
        (intersections.iter().map(|intersection| intersection.sets.as_slice()).collect(), column),
    )
}

pub fn node_sets(comparison: &NodeSetComparison) -> String {
    let NodeSetComparison { sets, intersections, summary, .. } = comparison;
    let names =
        |set: &NodeSet| abbreviated(&set.rules.iter().map(|rule| &rule.rule).collect::<Vec<_>>(), MAX_NAMED);
    let row = |id: usize| {
        let set = &sets[id - 1];
        let name = names(set);
        let rules: Vec<_> =
            set.rules.iter().map(|rule| format!("{}: {}", rule.rule, rule_users(rule))).collect();
        let rules = abbreviated(&rules, MAX_NAMED);
        let title = format!("{name}: {}; {rules}", counted(set.n_nodes, "node"));
        upset::Set { name, title, size: set.n_nodes }
    };
    let column = |position: usize| {
        let NodeIntersection { sets: ids, is_usable, n_nodes, nodes, .. } = &intersections[position];
        let rules: Vec<_> = ids.iter().map(|id| names(&sets[id - 1])).collect();
        let rules = if rules.is_empty() { "no set".to_owned() } else { rules.join("; ") };
        let unusable = if *is_usable { "" } else { "; no pod can use them" };
        let nodes = abbreviated(nodes, MAX_NAMED);
        let title =
            format!("{} in exactly these sets: {rules}{unusable} ({nodes})", counted(*n_nodes, "node"));
        let alert = !is_usable;
        upset::Intersection { sets: Vec::new(), title, size: *n_nodes, alert }
    };
    let (n_nodes, n_sets) = (counted(summary.n_nodes, "node"), counted(summary.n_sets, "set"));
    plot(
        UpSet {
            title: format!("{n_nodes} in {n_sets}"),
            description: format!(
                "UpSet plot: {n_sets} of nodes as rows, and their intersections as columns. No node selector matches {}, and no \
                 pod can use {}.",
                counted(summary.n_unselected, "node"),
                counted(summary.n_unusable, "node")
            ),
            ..UpSet::default()
        },
        "nodes",
        "! No pod of the input can use these nodes.",
        (sets.iter().map(|set| (set.n_nodes, set.id)).collect(), row),
        (intersections.iter().map(|intersection| intersection.sets.as_slice()).collect(), column),
    )
}

/// Draws the largest sets, by size and number, and those of their intersections, by the numbers of their sets, that come first.
fn plot(
    mut plot: UpSet,
    elements: &str,
    alert: &str,
    (mut sets, row): (Vec<(usize, usize)>, impl Fn(usize) -> upset::Set),
    (intersections, column): (Vec<&[usize]>, impl Fn(usize) -> upset::Intersection),
) -> String {
    let (n_sets, n_intersections) = (sets.len(), intersections.len());
    sets.sort_unstable_by_key(|(size, id)| (Reverse(*size), *id));
    sets.truncate(MAX_PLOTTED_SETS);
    let row_of = |id: &usize| sets.iter().position(|(_, shown)| shown == id);
    let shown = intersections.into_iter().enumerate().filter_map(|(position, ids)| {
        let mut sets = ids.iter().map(row_of).collect::<Option<Vec<_>>>()?;
        sets.sort_unstable();
        Some((position, sets))
    });
    let shown = shown.take(MAX_PLOTTED_INTERSECTIONS);
    plot.intersections =
        shown.map(|(position, sets)| upset::Intersection { sets, ..column(position) }).collect();
    plot.sets = sets.iter().map(|(_, id)| row(*id)).collect();
    plot.notes =
        vec![format!("A column counts the {elements} that are in exactly the sets with large points.")];
    if plot.intersections.iter().any(|column| column.alert) {
        plot.notes.push(alert.to_owned());
    }
    let (n_more_sets, n_more_columns) =
        (n_sets - plot.sets.len(), n_intersections - plot.intersections.len());
    if n_more_sets + n_more_columns > 0 {
        let (sets, columns) = (counted(n_more_sets, "smaller set"), counted(n_more_columns, "intersection"));
        plot.notes.push(format!("Not shown: {sets}, {columns}."));
    }
    plot.svg()
}

/// `Deployment web`, with its namespace unless it is `namespace`, and with the path unless its kind has only one selector.
pub fn selector_owner(owner: &SelectorOwner, namespace: &str) -> String {
    let object = if owner.namespace == namespace {
        owner.object.clone()
    } else {
        owner.object.replacen(' ', &format!(" {}/", owner.namespace), 1)
    };
    if let Some(service) = &owner.through_service {
        let own = service.split_once('/').filter(|(of_service, _)| *of_service == namespace);
        return format!("{object} through Service {}", own.map_or(service.as_str(), |(_, name)| name));
    }
    match owner.field.as_str() {
        "spec.selector" | "spec.podSelector" => object,
        field => {
            let field = field.strip_prefix("spec.affinity.").unwrap_or(field);
            let is_constraint = owner.role == SelectorRole::SpreadConstraint;
            format!("{object} {}", if is_constraint { field.trim_start_matches("spec.") } else { field })
        }
    }
}

/// What has the rule, or tolerates the taint.
pub fn rule_users(rule: &NodeRule) -> String {
    let NodeRule { role, profiles, workloads, n_workloads, .. } = rule;
    let name = |group: &PodGroup| group.object.replacen(' ', &format!(" {}/", group.namespace), 1);
    let shown: Vec<_> = workloads.iter().take(MAX_NAMED).map(name).collect();
    let users = match n_workloads - shown.len() {
        0 => abbreviated(&shown, MAX_NAMED),
        n_more => format!("{} and {} more", shown.join(", "), grouped(n_more)),
    };
    match role {
        NodeRuleRole::NodeSelector => users,
        NodeRuleRole::Taint if shown.is_empty() => "tolerated by no pod".to_owned(),
        NodeRuleRole::Taint => format!("tolerated by {users}"),
        NodeRuleRole::AddedAffinity => {
            let noun = if profiles.len() == 1 { "profile" } else { "profiles" };
            format!("{noun} {}", abbreviated(profiles, MAX_NAMED))
        }
    }
}

/// What a rule about nodes is, as a heading.
pub fn rule_role(role: NodeRuleRole) -> &'static str {
    match role {
        NodeRuleRole::NodeSelector => "node selector",
        NodeRuleRole::Taint => "taint",
        NodeRuleRole::AddedAffinity => "added affinity",
    }
}

pub fn plural(role: SelectorRole) -> &'static str {
    match role {
        SelectorRole::Service => "Services",
        SelectorRole::Controller => "controllers",
        SelectorRole::DisruptionBudget => "budgets",
        SelectorRole::NetworkPolicy => "NetworkPolicies",
        SelectorRole::AffinityTerm => "affinity terms",
        SelectorRole::SpreadConstraint => "spread constraints",
        SelectorRole::Monitor => "monitors",
    }
}

/// How a set relates to another one, as a verb.
pub fn relation_words(relation: SetRelation) -> &'static str {
    match relation {
        SetRelation::Equal => "equals",
        SetRelation::Contains => "contains",
        SetRelation::ContainedIn => "is in",
        SetRelation::Overlaps => "overlaps",
        SetRelation::Disjoint => "is disjoint from",
    }
}
