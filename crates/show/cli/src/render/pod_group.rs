//! Pod groups in explanations.

use std::io::{self, Write};

use berth_api::syntax::format::counted;
use berth_engine::Explanation;
use berth_simulate::{FailingMember, GroupMember, GroupPlacement};
use berth_terminal::output::{BAD, BOLD, DIM, GOOD, NL};

use super::heading::heading;

const MAX_MEMBERS: usize = 100;

/// Writes where a group stands.
pub fn write_group(out: &mut impl Write, group: Option<&GroupPlacement>, is_pending: bool) -> io::Result<()> {
    let Some(group) = group else { return Ok(()) };
    let GroupPlacement { namespace, name, message, .. } = group;
    let style = if message.is_some() { BAD } else { GOOD };
    writeln!(out, "{BOLD}Pod group {namespace}/{name}{BOLD:#} {style}{}{style:#}", group.verdict())?;
    for (name, text) in group.facts() {
        writeln!(out, "  {DIM}{name}:{DIM:#} {text}")?;
    }
    if is_pending && message.is_none() {
        writeln!(out, "{DIM}what follows is about the pod alone, without the other pending members{DIM:#}")?;
    }
    Ok(())
}

/// Writes the members of a group with their nodes.
pub fn write_members(out: &mut impl Write, group: Option<&GroupPlacement>) -> io::Result<()> {
    let Some(GroupPlacement { members, .. }) = group else { return Ok(()) };
    heading(out, "Members of the group by rank")?;
    for GroupMember { name, node } in members.iter().take(MAX_MEMBERS) {
        match node {
            Some(node) => writeln!(out, "  {name} on {GOOD}{node}{GOOD:#}")?,
            None => writeln!(out, "  {name}")?,
        }
    }
    match members.len().saturating_sub(MAX_MEMBERS) {
        0 => Ok(()),
        more => writeln!(out, "  {DIM}and {}{DIM:#}", counted(more, "more member")),
    }
}

/// The member of a group that cannot be placed.
pub fn write_failing(
    out: &mut impl Write,
    explanation: &Explanation,
    group: &GroupPlacement,
) -> io::Result<()> {
    let Explanation { namespace, name, outcome, .. } = explanation;
    let group_name = &group.name;
    match &group.failing {
        Some(FailingMember { n_others, .. }) => writeln!(
            out,
            "{BOLD}Pod {namespace}/{name}{BOLD:#} {BAD}fits on no node{BAD:#} together with {} of its group{NL}{}",
            counted(*n_others, "other member"),
            outcome.message()
        ),
        None => writeln!(
            out,
            "{BOLD}Pod {namespace}/{name}{BOLD:#} is {BAD}not placed{BAD:#}: no member of {group_name} is, until all that it requires can be"
        ),
    }
}
