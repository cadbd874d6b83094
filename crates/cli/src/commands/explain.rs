//! `berth explain`.

use std::io::Write;

use super::cluster_args::ClusterArgs;
use crate::ExitStatus;
use crate::error::CliError;
use crate::objects::{ScopeArgs, find};
use crate::output::{self, OutputArgs};
use crate::render::explanation;
use crate::render::names::counted;

/// Explain why a pod is placed on its node, or on none
///
/// Shows each rule with the number of nodes that it excludes and the pods that cause this, the nodes that exclude the pod for
/// the fewest reasons, and the scores of the feasible nodes. A pending pod is explained with all running pods and with
/// the pending pods that `berth simulate` places before it. A running pod is explained as if it were pending, and its rules are
/// checked against its current node.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth explain [OPTIONS] -f FILE... POD\n       berth explain [OPTIONS] (--dump FILE | --live) [-f FILE...] POD",
    after_help = "\
Examples:
  berth explain -f cluster.yaml team-a/web-0
  berth explain -f cluster.yaml --node worker-3 web-0
  berth explain --live team-a/web-0
  berth explain --dump cluster.yaml -n team-a deploy/web
  berth explain --dump cluster.yaml -f changed.yaml -l app=web
  kubectl get nodes,namespaces,pods -A -o yaml | berth explain -f - -o json web-0

Exit codes: 0 the pod fits, if need be by preemption, or violates no rule on its node; 1 it does not fit, or violates a rule; 2 invalid input or \
usage"
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Show only this node, with all details
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Do not preempt pods of lower priority for pods that fit nowhere
    #[arg(long)]
    no_preemption: bool,
    /// Place all other pending pods first, not only those before it in the queue
    #[arg(long)]
    after_others: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// The pod: NAME, NAMESPACE/NAME or pod/NAME; or a workload, such as deploy/NAME: its last pending pod is explained
    #[arg(value_name = "POD")]
    pod: Option<String>,
}

/// Explains the pod.
pub fn run(mut args: Args) -> Result<ExitStatus, CliError> {
    // `-f` takes all values up to the next option, including a pod name that follows.
    let pod = args
        .pod
        .take()
        .or_else(|| if args.scope.has_selector() { None } else { take_last(&mut args.cluster) });
    let mut simulation = args.cluster.simulation(false)?;
    if args.no_preemption {
        simulation.disable_preemption();
    }
    let found = find(&simulation, pod.as_deref(), &args.scope)?;
    let (namespace, name) = found.pod_to_explain(&simulation)?;
    if let n @ 2.. = found.pods.len() {
        output::note(&format!("explaining Pod {namespace}/{name}: {} has {}", found.name, counted(n, "pod")));
    }
    if args.after_others {
        simulation.run_others(&namespace, &name);
    } else {
        simulation.run_before(&namespace, &name);
    }
    if let Some(node) = args.node.as_ref().filter(|n| !simulation.has_node(n)) {
        return Err(CliError::NotFound(format!("Node {node} is not in the input")));
    }
    let explanation = simulation.explain(&namespace, &name, args.node.as_deref());
    let explained = explanation
        .ok_or_else(|| CliError::NotFound(format!("Pod {namespace}/{name} is not in the input")))?;
    let explanation = &explained.explanation;
    let is_node_known = explanation.running_on.as_deref().is_none_or(|node| simulation.has_node(node));
    let mut out = output::stdout();
    args.output.write(&mut out, &explained, |out| {
        explanation::write(out, &explained, args.node.as_deref(), is_node_known)
    })?;
    out.flush()?;
    let is_good = match &explanation.running_on {
        Some(_) => is_node_known && explanation.broken.is_empty(),
        None => match &explained.group {
            Some(group) => group.message.is_none(),
            None => explanation.outcome.node().is_some() || explained.preemption.is_some(),
        },
    };
    Ok(if is_good { ExitStatus::Success } else { ExitStatus::Failure })
}

/// The last of the files, if other input remains.
fn take_last(cluster: &mut ClusterArgs) -> Option<String> {
    let n_needed = usize::from(!cluster.has_base());
    if cluster.files.len() > n_needed { cluster.files.pop() } else { None }
}
