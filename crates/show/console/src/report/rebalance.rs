//! A plan of moves.

use std::collections::BTreeMap;

use berth_api::syntax::format::counted;
use berth_rebalance::{Goal, Immovable, Placed, Plan};

use super::{Report, Span, dim, good, line, strong};

/// Number of pods that stay that are listed.
const MAX_IMMOVABLE: usize = 10;

pub fn report(plan: &Plan, goals: &[Goal]) -> Report {
    let Plan { moves, placed, after, immovable, left_out, is_exhaustive, is_cut, .. } = plan;
    let mut report = Report { is_good: true, ..Report::default() };
    let is_full = after.get(&Goal::Defragment).is_some_and(|unplaced| *unplaced > 0.0);
    report.verdict.push(vec![match moves.len() {
        0 if is_full => strong("No moves make room"),
        0 => good("Nothing to move: no better plan was found"),
        n => strong(format!("{} would make the cluster better", counted(n, "move"))),
    }]);
    let part = report.part("Moves, in this order");
    part.table(&["Pod", "From", "To", "Goal"], moves, usize::MAX, |made| {
        let pod = Span::pod(&made.namespace, &made.name);
        line![pod, Span::node(&made.from), Span::node(&made.to), made.goal.name()]
    });
    if *left_out > 0 {
        part.line(0, [dim(format!("{} left out", counted(*left_out, "more move")))]);
    }
    let part = report.part("Goals, the most important first");
    part.table(&["Goal", "Before", "After", "At best"], goals, usize::MAX, |goal| {
        let value = |values: &BTreeMap<_, f64>| values.get(goal).copied().unwrap_or_default();
        // No plan is better if all have been looked at.
        let best = if *is_exhaustive && *left_out == 0 { &plan.after } else { &plan.bounds };
        let numbers = [&plan.before, &plan.after, best].map(|values| value(values).into());
        [goal.name().into()].into_iter().chain(numbers).collect()
    });
    if *is_cut {
        part.line(0, [dim("the search ended at its limit of work: a better plan may exist")]);
    } else if !*is_exhaustive && !goals.is_empty() {
        part.line(0, [dim("not all plans were compared: a better one may exist")]);
    }
    let part = report.titled("Pending pods that fit afterwards");
    for Placed { namespace, name, node } in placed {
        part.line(0, line![Span::pod(namespace, name), " on ", Span::node(node)]);
    }
    let part = report.titled("Pods that would help and stay");
    for Immovable { namespace, name, reason } in immovable.iter().take(MAX_IMMOVABLE) {
        part.line(0, line![Span::pod(namespace, name), format!(": {reason}")]);
    }
    part.more(immovable.len().saturating_sub(MAX_IMMOVABLE));
    report
}
