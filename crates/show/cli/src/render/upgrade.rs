//! What an upgrade of Kubernetes changes.

use std::io::{self, Write};

use berth_api::syntax::format::{abbreviated, counted};
use berth_simulate::compare::MovedPod;
use berth_simulate::upgrade::{ChangedRule, Upgrade};
use berth_terminal::output::{ATTENTION, BAD, BOLD, GOOD, NL};

use super::compare::write_moved;

/// Number of objects named in a line.
const MAX_NAMED: usize = 4;

/// Writes the differences; the last line is the summary.
pub fn write(out: &mut impl Write, upgrade: &Upgrade) -> io::Result<()> {
    let Upgrade { from, to, pending, recreated, preempted, rules, removed, gates, configuration, .. } =
        upgrade;
    for text in configuration {
        writeln!(out, "{BAD}The configuration of the scheduler is not read any more{BAD:#}: {text}{NL}")?;
    }
    for of in removed {
        let (object, api_version, replacement) = (&of.object, &of.api_version, of.replacement);
        writeln!(
            out,
            "{BAD}{object}{BAD:#}: Kubernetes {to} does not have {api_version}: delete it before the upgrade, and create it as {replacement}"
        )?;
    }
    if !removed.is_empty() {
        writeln!(out)?;
    }
    for text in gates {
        writeln!(out, "{ATTENTION}Feature gate{ATTENTION:#}: {text}")?;
    }
    if !gates.is_empty() {
        writeln!(out)?;
    }
    for (title, pods) in [
        ("Pending pods that are placed otherwise", pending),
        ("Pods that land elsewhere when all of them are created again", recreated),
    ] {
        if !pods.is_empty() {
            writeln!(out, "{BOLD}{title}{BOLD:#}")?;
            write_moved(out, pods)?;
            writeln!(out)?;
        }
    }
    for pod in preempted {
        writeln!(out, "{BAD}{} is preempted{BAD:#} for {}", pod.name, pod.by)?;
    }
    if !preempted.is_empty() {
        writeln!(out)?;
    }
    for ChangedRule { change, number, since, objects } in rules {
        let number = number.map(|number| format!(", {number}")).unwrap_or_default();
        let objects = abbreviated(objects, MAX_NAMED);
        writeln!(
            out,
            "{ATTENTION}Changed{ATTENTION:#} (since {since}{number}): {change}{NL}  concerns {objects}"
        )?;
    }
    if !rules.is_empty() {
        writeln!(out)?;
    }
    let n_stuck = |pods: &[MovedPod]| pods.iter().filter(|pod| pod.to.is_none()).count();
    let style = if upgrade.is_harmless() { GOOD } else { BAD };
    writeln!(
        out,
        "Kubernetes {from} -> {to}: {style}{} stuck{style:#}, {} placed otherwise, {} preempted, {} changed, {} of a removed API version",
        counted(n_stuck(pending).max(n_stuck(recreated)), "pod"),
        pending.len().max(recreated.len()),
        preempted.len(),
        counted(rules.len(), "rule"),
        counted(removed.len(), "object"),
    )
}
