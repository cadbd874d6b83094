//! What an upgrade of Kubernetes changes.

use berth_simulate::compare::MovedPod;
use berth_simulate::upgrade::{ChangedRule, Upgrade};

use super::{Report, attention, bad, compare::moved_pods, good, line, listed, named};

pub fn report(upgrade: &Upgrade) -> Report {
    let Upgrade { from, to, pending, recreated, preempted, rules, removed, gates, configuration, .. } =
        upgrade;
    let mut report = Report { is_good: upgrade.is_harmless(), ..Report::default() };
    for text in configuration {
        let refused = bad("The configuration of the scheduler is not read any more");
        report.part("Configuration").line(0, line![refused, format!(": {text}")]);
    }
    let part = report.part("Objects of removed API versions");
    for of in removed {
        let (api_version, replacement) = (&of.api_version, &of.replacement);
        let text = format!(
            ": Kubernetes {to} does not have {api_version}: delete it before the upgrade, and create it as {replacement}"
        );
        part.line(0, line![bad(&of.object), text]);
    }
    let part = report.part("Feature gates");
    for text in gates {
        part.line(0, line![attention("Feature gate"), format!(": {text}")]);
    }
    moved_pods(report.titled("Pending pods that are placed otherwise"), pending);
    let title = "Pods that land elsewhere when all of them are created again";
    moved_pods(report.titled(title), recreated);
    let part = report.part("Preempted pods");
    for pod in preempted {
        let preempted = bad(format!("{} is preempted", pod.name));
        part.line(0, line![preempted, format!(" for {}", pod.by)]);
    }
    let part = report.part("Changed rules");
    for ChangedRule { change, number, since, objects } in rules {
        let number = number.map(|number| format!(", {number}")).unwrap_or_default();
        let text = format!(" (since {since}{number}): {change}");
        part.line(0, line![attention("Changed"), text]);
        part.line(1, line![format!("concerns {}", named(objects))]);
    }
    let n_stuck = |pods: &[MovedPod]| pods.iter().filter(|pod| pod.to.is_none()).count();
    let n_stuck = n_stuck(pending).max(n_stuck(recreated));
    let counts = [
        (n_stuck, "stuck pod", ""),
        (preempted.len(), "preempted pod", ""),
        (removed.len(), "object", " of a removed API version"),
        (configuration.len(), "line", " of the configuration that is not read any more"),
        (pending.len().max(recreated.len()), "pod", " placed otherwise"),
        (rules.len(), "changed rule", ""),
    ];
    let versions = format!("Kubernetes {from} -> {to}: ");
    report.verdict.push(match (upgrade.is_harmless(), listed(&counts).as_str()) {
        (true, "") => line![versions, good("safe: nothing changes")],
        (true, counts) => line![versions, good("safe"), format!("; {counts}")],
        (false, counts) => line![versions, bad("not safe"), format!(": {counts}")],
    });
    report
}
