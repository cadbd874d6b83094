//! A repair, and the changes that it consists of.

use std::collections::BTreeSet;

use berth_api::syntax::format::counted;
use berth_api::syntax::shell::Command;
use berth_engine::TopologyPair;
use serde::Serialize;
use serde_json::Value;

/// How many pods of a workload or group have a node after a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FittingPods {
    /// Those with a node.
    pub n_fit: usize,
    /// All of them.
    pub n_pods: usize,
}

impl FittingPods {
    /// Whether no pod is left without a node.
    pub fn is_all(self) -> bool {
        self.n_fit == self.n_pods
    }
}

impl std::fmt::Display for FittingPods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            FittingPods { n_fit, n_pods } if n_fit == n_pods => {
                write!(f, "all {} fit", counted(n_pods, "pod"))
            }
            FittingPods { n_fit: 1, n_pods } => write!(f, "1 of {} fits then", counted(n_pods, "pod")),
            FittingPods { n_fit, n_pods } => write!(f, "{n_fit} of {} fit then", counted(n_pods, "pod")),
        }
    }
}

/// Changes after which a pod fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    /// What is changed: repairs are sorted by it, then by cost.
    pub blast_radius: Reach,
    /// The sum of the costs of the changes; see `docs/repairs.md`.
    pub cost: u32,
    /// Number of running pods that the commands restart.
    pub restarts: usize,
    /// The changes. All of them are needed.
    pub changes: Vec<Change>,
    /// The node on which the pod fits then.
    pub node: String,
    /// How many pods of the workload or group fit then; none where there is one pod, or where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits: Option<FittingPods>,
    /// Commands that make the changes, as far as kubectl can.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
    /// The changes of the pod as a JSON patch (RFC 6902).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patch: Vec<Value>,
    /// Those of the template of its workload, with paths from the template: without what a placement policy has added to the pod.
    #[serde(skip)]
    pub template_patch: Vec<Value>,
}

impl Repair {
    /// A repair that leaves the pod as it is.
    pub(super) fn new(changes: Vec<Change>, node: String, commands: Vec<Command>) -> Repair {
        let cost = changes.iter().map(|change| change.cost(false)).sum();
        let blast_radius = changes.iter().map(Change::reach).max().unwrap_or(Reach::Workload);
        let restarts = changes.iter().filter(|change| matches!(change, Change::Move { .. })).count();
        Repair {
            blast_radius,
            cost,
            restarts,
            changes,
            node,
            fits: None,
            commands,
            patch: Vec::new(),
            template_patch: Vec::new(),
        }
    }

    /// Both; the pod fits where the second one says.
    pub(super) fn and(mut self, second: Repair) -> Repair {
        self.restarts = match self.changes_pod() && second.changes_pod() {
            true => self.restarts.max(second.restarts),
            false => self.restarts + second.restarts,
        };
        self.blast_radius = self.blast_radius.max(second.blast_radius);
        self.cost += second.cost;
        self.node = second.node;
        for change in second.changes {
            if !self.changes.contains(&change) {
                self.changes.push(change);
            }
        }
        for command in second.commands {
            if !self.commands.contains(&command) {
                self.commands.push(command);
            }
        }
        self.patch.extend(second.patch);
        self.template_patch.extend(second.template_patch);
        self
    }

    /// How repairs are sorted.
    pub(crate) fn rank(&self) -> (Reach, bool, u32) {
        (self.blast_radius, self.fits.is_some_and(|fits| !fits.is_all()), self.cost)
    }

    /// Whether the pod has other rules or requests then.
    pub(super) fn changes_pod(&self) -> bool {
        !self.patch.is_empty()
            || self.changes.iter().any(|change| matches!(change, Change::RequestLess { .. }))
    }

    /// The resources of which the pod requests less, if nothing else is changed.
    pub(super) fn reduced_resources(&self) -> Option<BTreeSet<String>> {
        let reduced = self.changes.iter().map(|change| match change {
            Change::RequestLess { resource, .. } => Some(resource.clone()),
            _ => None,
        });
        reduced.collect()
    }

    /// Where the pod fits then, and how many pods of its workload or group.
    pub fn result(&self) -> impl std::fmt::Display + '_ {
        std::fmt::from_fn(|f| match &self.fits {
            Some(fits) => write!(f, "{}; {fits}", self.node),
            None => f.write_str(&self.node),
        })
    }
}

impl std::fmt::Display for Repair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (moves, others): (Vec<_>, Vec<_>) =
            self.changes.iter().partition(|change| matches!(change, Change::Move { .. }));
        let text = |changes: Vec<&Change>| changes.into_iter().map(ToString::to_string).collect::<Vec<_>>();
        let (moves, mut changes) = (text(moves), text(others));
        match moves.len() {
            0 | 1 => changes.extend(moves),
            n => {
                let each: Vec<_> = moves.iter().map(|made| made.trim_start_matches("move ")).collect();
                changes.push(format!("move {n} pods ({})", each.join(", then ")));
            }
        }
        f.write_str(&changes.join(", and "))?;
        match self.restarts {
            0 => Ok(()),
            n => write!(f, " (restarts {})", counted(n, "running pod")),
        }
    }
}

/// What a change reaches, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reach {
    /// The pending pod, or its workload.
    Workload,
    /// Another workload.
    OtherWorkload,
    /// A node more.
    NewNode,
    /// One node, and with it all pods that may run there.
    Node,
    /// Other running pods.
    RunningPods,
    /// All pods that a placement policy selects.
    Policy,
    /// Nodes that a taint keeps for others, which the pod or its workload tolerates.
    ToleratedTaint,
    /// A node that a taint keeps for others, which all pods may use then.
    RemovedTaint,
}

/// One change.}
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "change", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Change {
    /// The node is no longer cordoned.
    Uncordon {
        /// Name of the node.
        node: String,
    },
    /// The node loses a taint.
    RemoveTaint {
        /// Name of the node.
        node: String,
        /// `key=value:Effect`, or `key:Effect`.
        taint: String,
    },
    /// The node gets a label, or another value of it.
    SetLabel {
        /// Name of the node.
        node: String,
        /// Key of the label.
        key: String,
        /// The new value.
        value: String,
    },
    /// The node loses a label.
    RemoveLabel {
        /// Name of the node.
        node: String,
        /// Key of the label.
        key: String,
    },
    /// A workload gets one more pod.
    Scale {
        namespace: String,
        /// Such as `Deployment web`.
        workload: String,
        /// The number of its pods then.
        replicas: usize,
    },
    /// A pod moves: it is evicted, and what takes its place fits on the other node.
    Move {
        /// Namespace of the pod.
        namespace: String,
        name: String,
        /// The node it runs on.
        from: String,
        /// A node where it fits then.
        to: String,
    },
    /// A container requests less of a resource.
    RequestLess {
        /// Name of the container.
        container: String,
        /// Name of the resource.
        resource: String,
        /// The request now.
        from: String,
        /// The largest request with which the pod fits.
        to: String,
    },
    /// A required rule of the pod becomes a preferred one, or is removed if it has no preferred form.
    Relax {
        /// Its path in the pod, or in the placement policy that it comes from.
        term: String,
        /// This policy.
        #[serde(skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
    },
    /// A spread constraint of the pod counts only the nodes whose taints the pod tolerates: `nodeTaintsPolicy: Honor`.
    HonorTaints {
        /// Its path in the pod.
        term: String,
    },
    /// Rolling updates of a Deployment stop an old pod before they start a new one.
    StopOldPodsFirst {
        namespace: String,
        /// Such as `Deployment web`.
        workload: String,
    },
    /// The pod tolerates a taint.
    Tolerate {
        /// `key=value:Effect`, or `key:Effect`.
        taint: String,
    },
    /// The pod no longer requests a host port.
    FreeHostPort { port: i32 },
    /// A request of a claim is for devices of another class.
    UseDeviceClass {
        /// The claim or its template, such as `ResourceClaimTemplate gpus`.
        object: String,
        /// Name of the request.
        request: String,
        /// The class now.
        from: String,
        /// A class with which the pod fits.
        to: String,
    },
    /// The scheduling gates are removed.
    RemoveGates {
        /// Their names.
        gates: Vec<String>,
    },
    /// A node more.
    AddNode {
        /// The node that it resembles in its allocatable resources, labels and taints.
        like: String,
        /// Labels with another value than that node has: the pod needs its own domain.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        in_new_domain: Vec<TopologyPair>,
        /// The label of its node pool, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pool: Option<TopologyPair>,
    },
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Change::Uncordon { node } => write!(f, "uncordon {node}"),
            Change::RemoveTaint { node, taint } => write!(f, "remove the taint {taint} of {node}"),
            Change::SetLabel { node, key, value } => write!(f, "set the label {key}={value} on {node}"),
            Change::RemoveLabel { node, key } => write!(f, "remove the label {key} of {node}"),
            Change::Scale { namespace, workload, replicas } => {
                write!(f, "scale {workload} in {namespace} to {replicas}")
            }
            Change::Move { namespace, name, from, to } => {
                write!(f, "move {namespace}/{name} from {from} to {to}")
            }
            Change::RequestLess { container, resource, from, to } => {
                write!(f, "request {to} {resource} instead of {from} in container {container}")
            }
            Change::Relax { term, policy: None } => write!(f, "prefer instead of require {term}"),
            Change::Relax { term, policy: Some(policy) } => {
                write!(f, "prefer instead of require {term} in {policy}")
            }
            Change::HonorTaints { term } => {
                write!(f, "count only nodes with tolerated taints (nodeTaintsPolicy: Honor) in {term}")
            }
            Change::StopOldPodsFirst { namespace, workload } => write!(
                f,
                "let rolling updates of {workload} in {namespace} stop an old pod first (maxUnavailable: 1, maxSurge: 0)"
            ),
            Change::Tolerate { taint } => write!(f, "tolerate the taint {taint}"),
            Change::FreeHostPort { port } => write!(f, "do not request the host port {port}"),
            Change::UseDeviceClass { object, request, from, to } => {
                write!(f, "use the device class {to} instead of {from} in request {request} of {object}")
            }
            Change::RemoveGates { gates } => write!(f, "remove the scheduling gates {}", gates.join(", ")),
            Change::AddNode { like, in_new_domain, pool } => {
                write!(f, "add a node like {like}")?;
                let mut keys = in_new_domain.iter().map(|pair| &pair.key);
                keys.try_for_each(|key| write!(f, ", with a new value of the label {key}"))?;
                pool.iter().try_for_each(|pool| write!(f, ", to the node pool {pool}"))
            }
        }
    }
}

impl Change {
    /// Whether it changes the pod, and nothing else.
    pub(super) fn is_of_pod(&self) -> bool {
        matches!(self.reach(), Reach::Workload | Reach::Policy | Reach::ToleratedTaint)
    }

    /// Whether it changes the template of the workload, and nothing else.
    pub(super) fn is_of_template(&self) -> bool {
        matches!(self.reach(), Reach::Workload | Reach::ToleratedTaint)
    }

    /// Whether it changes objects that are neither nodes nor pods.
    pub(super) fn is_of_others(&self) -> bool {
        matches!(self, Change::Scale { .. } | Change::StopOldPodsFirst { .. } | Change::UseDeviceClass { .. })
    }

    fn reach(&self) -> Reach {
        match self {
            Change::Uncordon { .. } | Change::SetLabel { .. } | Change::RemoveLabel { .. } => Reach::Node,
            Change::Tolerate { .. } => Reach::ToleratedTaint,
            Change::RemoveTaint { .. } => Reach::RemovedTaint,
            Change::Scale { .. } => Reach::OtherWorkload,
            Change::Move { .. } => Reach::RunningPods,
            Change::Relax { policy: Some(_), .. } => Reach::Policy,
            Change::RequestLess { .. }
            | Change::Relax { .. }
            | Change::HonorTaints { .. }
            | Change::StopOldPodsFirst { .. }
            | Change::FreeHostPort { .. }
            | Change::UseDeviceClass { .. }
            | Change::RemoveGates { .. } => Reach::Workload,
            Change::AddNode { .. } => Reach::NewNode,
        }
    }

    /// What it disturbs. `had` tells whether the node had the label that is set.
    pub(super) fn cost(&self, had: bool) -> u32 {
        match self {
            Change::SetLabel { .. } if had => 2,
            Change::RemoveLabel { .. } => 2,
            Change::Uncordon { .. } | Change::RemoveTaint { .. } | Change::SetLabel { .. } => 1,
            Change::RemoveGates { .. } => 1,
            Change::Scale { .. } | Change::StopOldPodsFirst { .. } => 5,
            Change::Move { .. } | Change::HonorTaints { .. } => 10,
            Change::RequestLess { .. } => 15,
            Change::Relax { .. }
            | Change::Tolerate { .. }
            | Change::FreeHostPort { .. }
            | Change::UseDeviceClass { .. } => 20,
            Change::AddNode { .. } => 100,
        }
    }
}
