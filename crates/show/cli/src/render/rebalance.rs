//! A plan of moves.

use std::io::{self, Write};

use berth_api::syntax::format::{counted, grouped};
use berth_rebalance::{Goal, Immovable, Move, Placed, Plan, Request};
use berth_terminal::output::{BOLD, DIM, GOOD, NL};
use berth_terminal::table::Table;

/// Number of pods that stay that are listed.
const MAX_IMMOVABLE: usize = 10;

pub fn write(out: &mut impl Write, plan: &Plan, request: &Request) -> io::Result<()> {
    let Plan { moves, placed, after, immovable, left_out, is_exhaustive, is_cut, .. } = plan;
    if moves.is_empty() && after.get(&Goal::Defragment).is_some_and(|unplaced| *unplaced > 0.0) {
        writeln!(out, "{BOLD}No moves make room{BOLD:#}")?;
    } else if moves.is_empty() {
        writeln!(out, "{GOOD}Nothing to move{GOOD:#}")?;
    } else {
        writeln!(out, "{BOLD}{}{BOLD:#}{NL}", counted(moves.len(), "move"))?;
        let mut table = Table::new(["POD", "FROM", "TO", "GOAL"]);
        for Move { namespace, name, from, to, goal, .. } in moves {
            table.row([
                format!("{namespace}/{name}").into(),
                from.clone().into(),
                to.clone().into(),
                goal.name().into(),
            ]);
        }
        table.write(out, "")?;
    }
    if *left_out > 0 {
        writeln!(out, "{DIM}{} left out{DIM:#}", counted(*left_out, "more move"))?;
    }
    if request.goals.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new(["GOAL", "BEFORE", "AFTER", "AT BEST"]);
    for goal in &request.goals {
        let value =
            |values: &std::collections::BTreeMap<_, f64>| values.get(goal).copied().unwrap_or_default();
        // No plan is better if all have been looked at.
        let best = if *is_exhaustive && *left_out == 0 { value(&plan.after) } else { value(&plan.bounds) };
        let [before, after, best] =
            [value(&plan.before), value(&plan.after), best].map(|value| value.to_string().into());
        table.row([goal.name().into(), before, after, best]);
    }
    table.write(out, "")?;
    if *is_cut {
        writeln!(
            out,
            "{DIM}the search ended at its limit of {} steps of work: a better plan may exist{DIM:#}",
            grouped(request.max_steps as usize)
        )?;
    } else if !*is_exhaustive {
        writeln!(out, "{DIM}not all plans were compared: a better one may exist{DIM:#}")?;
    }
    if !placed.is_empty() {
        writeln!(out, "{NL}Pending pods that fit afterwards:")?;
        for Placed { namespace, name, node } in placed {
            writeln!(out, "  {namespace}/{name} on {node}")?;
        }
    }
    if !immovable.is_empty() {
        writeln!(out, "{NL}Pods that would help and stay:")?;
        for Immovable { namespace, name, reason } in immovable.iter().take(MAX_IMMOVABLE) {
            writeln!(out, "  {namespace}/{name}: {reason}")?;
        }
        if immovable.len() > MAX_IMMOVABLE {
            writeln!(out, "  and {} more", grouped(immovable.len() - MAX_IMMOVABLE))?;
        }
    }
    Ok(())
}
