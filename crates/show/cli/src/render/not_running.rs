//! Pods that do not run on the node that they name, or are not created.

use std::fmt::{self, Display};
use std::io::{self, Write};

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_simulate::{NotRunning, Unadmitted, UnadmittedState};
use berth_terminal::output::{BAD, BOLD, NL};

const MAX_GROUPS: usize = 20;
/// Number of pods of a group named.
const MAX_PODS: usize = 4;

/// Writes the groups, an empty line after each.
pub fn write(out: &mut impl Write, groups: &[NotRunning]) -> io::Result<()> {
    let (shown, left_out) = groups.split_at(groups.len().min(MAX_GROUPS));
    for NotRunning { workload, why, pods, of, .. } in shown {
        if let Some(workload) = workload {
            write!(out, "{BOLD}{workload}{BOLD:#}: ")?;
        }
        let Unadmitted { message, .. } = why;
        if why.state == UnadmittedState::NotCreated {
            match of {
                Some(of) if why.reason.is_some() => {
                    let created = of.saturating_sub(pods.len());
                    writeln!(out, "{} of {}; {BAD}{why}{BAD:#}{NL}", grouped(created), counted(*of, "pod"))?;
                }
                _ => writeln!(out, "{BAD}{why}{BAD:#}: {}{NL}", abbreviated(pods, MAX_PODS))?,
            }
            continue;
        }
        let (n_pods, pods) = (counted(pods.len(), "pod"), abbreviated(pods, MAX_PODS));
        writeln!(out, "{n_pods} {BAD}{}{BAD:#}: {pods}{NL}  {message}{NL}", why.short())?;
    }
    match left_out.iter().map(|group| group.pods.len()).sum::<usize>() {
        0 => Ok(()),
        n => writeln!(out, "and {} for other reasons; -o json has all{NL}", counted(n, "pod")),
    }
}

/// `, 2 rejected by their nodes, 1 waiting for nodes or claims, 1 not created`; empty if all pods run.
pub fn counts(n_rejected: usize, n_waiting: usize, n_not_created: usize) -> impl Display {
    fmt::from_fn(move |f| {
        let counts = [
            (n_rejected, "rejected by their nodes"),
            (n_waiting, "waiting for nodes or claims"),
            (n_not_created, "not created"),
        ];
        let mut counts = counts.iter().filter(|(n, _)| *n > 0);
        counts.try_for_each(|(n, what)| write!(f, ", {BAD}{} {what}{BAD:#}", grouped(*n)))
    })
}
