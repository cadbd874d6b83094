//! Overlapping sets of pods: an UpSet plot.

use std::cmp::Reverse;

use berth_api::rules::SetRelation;
use berth_picture::upset::{self, UpSet};
use berth_simulate::sets::{ComparedSet, Intersection, SelectorOwner, SelectorRole, SetComparison};

use berth_api::syntax::format::{abbreviated, counted};

/// Selectors of a set, and workloads, in a title.
const MAX_NAMED: usize = 8;
/// Sets and intersections in the plot.
const MAX_PLOTTED_SETS: usize = 30;
const MAX_PLOTTED_INTERSECTIONS: usize = 40;

/// The pods by the sets that they are in.
pub fn sets(comparison: &SetComparison) -> String {
    let SetComparison { sets, intersections, summary, .. } = comparison;
    let mut shown: Vec<&ComparedSet> = sets.iter().collect();
    shown.sort_by_key(|set| (Reverse(set.n_pods), set.id));
    shown.truncate(MAX_PLOTTED_SETS);
    let row_of = |id: &usize| shown.iter().position(|set| set.id == *id);
    let row = |set: &&ComparedSet| {
        let name = format!("{} in {}", set.selector, set.namespaces);
        let owners: Vec<_> = set.owners.iter().map(|o| selector_owner(o, &set.namespaces)).collect();
        let owners = abbreviated(&owners, MAX_NAMED);
        let title = format!("{name}: {}; selected by {owners}", counted(set.n_pods, "pod"));
        upset::Set { name, title, size: set.n_pods }
    };
    let column = |intersection: &Intersection| {
        let Intersection { sets: ids, selected_twice_by, n_pods, pods } = intersection;
        let mut rows = ids.iter().map(row_of).collect::<Option<Vec<_>>>()?;
        rows.sort_unstable();
        let selectors: Vec<_> = ids.iter().map(|id| sets[id - 1].selector.as_str()).collect();
        let groups: Vec<_> =
            pods.iter().map(|group| format!("{} of {}", group.n_pods, group.object)).collect();
        let twice = selected_twice_by.iter().map(|role| match role {
            SelectorRole::Controller => "; selected by two controllers",
            _ => "; selected by two budgets",
        });
        let twice: String = twice.collect();
        let selectors = if selectors.is_empty() { "no set".to_owned() } else { selectors.join("; ") };
        let pods = abbreviated(&groups, MAX_NAMED);
        let title = format!("{} in exactly these sets: {selectors}{twice} ({pods})", counted(*n_pods, "pod"));
        Some(upset::Intersection { sets: rows, title, size: *n_pods, alert: !twice.is_empty() })
    };
    let mut columns: Vec<_> = intersections.iter().filter_map(column).collect();
    columns.truncate(MAX_PLOTTED_INTERSECTIONS);
    let mut notes =
        vec!["A column counts the pods that are in exactly the sets with large points.".to_owned()];
    if columns.iter().any(|column| column.alert) {
        notes.push("! Two controllers or two budgets select these pods.".to_owned());
    }
    let (n_more_sets, n_more_columns) = (sets.len() - shown.len(), intersections.len() - columns.len());
    if n_more_sets + n_more_columns > 0 {
        let (sets, columns) = (counted(n_more_sets, "smaller set"), counted(n_more_columns, "intersection"));
        notes.push(format!("Not shown: {sets}, {columns}."));
    }
    let (n_pods, n_sets) = (counted(summary.n_pods, "pod"), counted(summary.n_sets, "set"));
    UpSet {
        title: format!("{n_pods} in {n_sets}"),
        description: format!(
            "UpSet plot: {n_sets} of pods as rows, and their intersections as columns. {} are selected by two controllers, {} by \
             two budgets.",
            counted(summary.n_pods_of_two_controllers, "pod"),
            summary.n_pods_of_two_budgets
        ),
        sets: shown.iter().map(row).collect(),
        intersections: columns,
        notes,
    }
    .svg()
}

/// `Deployment web`, with its namespace unless it is `namespace`, and with the path unless its kind has only one selector.
pub fn selector_owner(owner: &SelectorOwner, namespace: &str) -> String {
    let object = if owner.namespace == namespace {
        owner.object.clone()
    } else {
        owner.object.replacen(' ', &format!(" {}/", owner.namespace), 1)
    };
    match owner.field.as_str() {
        "spec.selector" | "spec.podSelector" => object,
        field => format!("{object} {}", field.trim_start_matches("spec.affinity.")),
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
