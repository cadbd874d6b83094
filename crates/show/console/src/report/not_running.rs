//! Pods that do not run on the node that they name, or are not created.

use berth_api::syntax::format::{counted, grouped};
use berth_simulate::{NotRunning, UnadmittedState};

use super::{Part, bad, line, named, strong};

const MAX_GROUPS: usize = 20;

pub fn parts(groups: &[NotRunning]) -> Vec<Part> {
    let (shown, left_out) = groups.split_at(groups.len().min(MAX_GROUPS));
    let part = |NotRunning { workload, why, pods, of, .. }: &NotRunning| {
        let mut part = Part::default();
        let mut line = Vec::new();
        if let Some(workload) = workload {
            line.extend([strong(workload), ": ".into()]);
        }
        match of {
            Some(of) if why.state == UnadmittedState::NotCreated && why.reason.is_some() => {
                let created = grouped(of.saturating_sub(pods.len()));
                let numbers = format!("{created} of {}; ", counted(*of, "pod"));
                part.line(0, line.into_iter().chain([numbers.into(), bad(why)]));
            }
            _ if why.state == UnadmittedState::NotCreated => {
                let names = format!(": {}", named(pods));
                part.line(0, line.into_iter().chain([bad(why), names.into()]));
            }
            _ => {
                line.push(format!("{} ", counted(pods.len(), "pod")).into());
                line.extend([bad(why.short()), format!(": {}", named(pods)).into()]);
                part.line(0, line);
                part.line(1, line![&why.message]);
            }
        }
        part
    };
    let mut parts: Vec<Part> = shown.iter().map(part).collect();
    if let n @ 1.. = left_out.iter().map(|group| group.pods.len()).sum::<usize>() {
        let mut part = Part::default();
        part.line(0, line![format!("and {} for other reasons", counted(n, "pod"))]);
        parts.push(part);
    }
    parts
}

/// `, 2 rejected by their nodes, 1 waiting for nodes or claims, 1 not created`; empty if all pods run.
pub fn counts(n_rejected: usize, n_waiting: usize, n_not_created: usize) -> String {
    let counts = [
        (n_rejected, "rejected by their nodes"),
        (n_waiting, "waiting for nodes or claims"),
        (n_not_created, "not created"),
    ];
    let counts = counts.iter().filter(|(n, _)| *n > 0);
    counts.map(|(n, what)| format!(", {} {what}", grouped(*n))).collect()
}
