//! The next steps for the pods of a DaemonSet.

use crate::bounds::Bounds;

/// A node, and the pods of the set that are bound or pinned to it, oldest first.
#[derive(Clone, Debug, Default)]
pub struct OnNode {
    /// Whether it should have a pod.
    pub should_run: bool,
    /// Whether it may keep a pod that it has.
    pub should_continue: bool,
    /// The pods.
    pub pods: Vec<Daemon>,
}

/// A pod of the set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Daemon {
    /// Whether it has the current template.
    pub is_updated: bool,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Whether it is ready for long enough.
    pub is_available: bool,
    /// Whether it has ended.
    pub is_terminal: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
}

/// The position of a node, and that of a pod on it.
pub type At = (usize, usize);

/// The next steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Nodes on which to create a pod.
    pub create_on: Vec<usize>,
    /// Pods to delete.
    pub delete: Vec<At>,
}

/// The next steps.
pub fn steps(bounds: Bounds, is_on_delete: bool, nodes: &[OnNode]) -> Steps {
    let mut steps = Steps::default();
    for (at, node) in nodes.iter().enumerate() {
        manage(bounds, at, node, &mut steps);
    }
    match bounds.max_surge > 0 {
        _ if is_on_delete => {}
        true => roll_with_surge(bounds, nodes, &mut steps),
        false => roll(bounds, nodes, &mut steps),
    }
    steps
}

/// Plans one pod on each eligible node and none elsewhere.
fn manage(bounds: Bounds, at: usize, node: &OnNode, steps: &mut Steps) {
    // Most nodes have what they should.
    if let [pod] = node.pods.as_slice()
        && node.should_continue
        && !pod.is_terminal
    {
        return;
    }
    let mut alive = Vec::new();
    for (i, pod) in node.pods.iter().enumerate().filter(|(_, pod)| !pod.is_deleting) {
        match node.should_continue && !pod.is_terminal {
            true => alive.push((i, pod)),
            false => steps.delete.push((at, i)),
        }
    }
    if node.should_run && node.pods.is_empty() {
        steps.create_on.push(at);
    }
    if bounds.max_surge == 0 {
        steps.delete.extend(alive.into_iter().skip(1).map(|(i, _)| (at, i)));
        return;
    }
    // Old and new pod may both exist until the new one is available.
    let (new, old): (Vec<_>, Vec<_>) = alive.into_iter().partition(|(_, pod)| pod.is_updated);
    steps.delete.extend(new.iter().skip(1).chain(old.iter().skip(1)).map(|(i, _)| (at, *i)));
    if let (Some((_, new)), Some((i, old))) = (new.first(), old.first())
        && (!old.is_ready || new.is_available)
    {
        steps.delete.push((at, *i));
    }
}

/// The pod of an older revision and the pod of the current one.
type OldAndNew<'a> = (Option<(usize, &'a Daemon)>, Option<&'a Daemon>);

/// The active pods of a node by revision; `None` if a revision has several, which [`manage`] fixes first.
fn old_and_new(node: &OnNode) -> Option<OldAndNew<'_>> {
    let (mut old, mut new) = (None, None);
    for (i, pod) in node.pods.iter().enumerate().filter(|(_, pod)| !pod.is_terminal && !pod.is_deleting) {
        let is_taken = match pod.is_updated {
            true => new.replace(pod).is_some(),
            false => old.replace((i, pod)).is_some(),
        };
        if is_taken {
            return None;
        }
    }
    Some((old, new))
}

/// The nodes that count for a rollout: those that should have a pod, and those that have one.
fn concerned(nodes: &[OnNode]) -> impl Iterator<Item = (usize, &OnNode)> {
    nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.should_run || (node.should_continue && !node.pods.is_empty()))
}

/// Deletes old pods; the next steps create their replacements.
fn roll(bounds: Bounds, nodes: &[OnNode], steps: &mut Steps) {
    let mut n_unavailable = 0;
    let mut candidates = Vec::new();
    for (at, node) in concerned(nodes) {
        match old_and_new(node) {
            Some((None, Some(new))) => n_unavailable += i32::from(!new.is_available),
            Some((Some((i, old)), None)) if old.is_available => candidates.push((at, i)),
            Some((Some((i, _)), None)) => {
                // Replacing an unavailable pod costs no availability.
                steps.delete.push((at, i));
                n_unavailable += 1;
            }
            _ => n_unavailable += 1,
        }
    }
    let left = usize::try_from(bounds.max_unavailable - n_unavailable).unwrap_or(0);
    steps.delete.extend(candidates.into_iter().take(left));
}

/// Creates new pods beside the old ones. Old pods of nodes that should have none any more are deleted as far as enough pods are available.
fn roll_with_surge(bounds: Bounds, nodes: &[OnNode], steps: &mut Steps) {
    let (mut n_surge, mut n_spare) = (0, 0);
    let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
    for (at, node) in concerned(nodes) {
        n_spare -= i32::from(node.should_run);
        let Some((old, new)) = old_and_new(node) else {
            n_surge += 1;
            continue;
        };
        let counted = old.map(|(_, old)| old).or(new);
        n_spare += i32::from(counted.is_some_and(|pod| pod.is_available));
        match (old, new) {
            (None, _) => {}
            (Some(_), Some(new)) => n_surge += i32::from(!new.is_available),
            (Some((i, old)), None) => match (node.should_run, old.is_available) {
                (true, true) => candidates.push(at),
                // A surge pod beside an unavailable pod costs no availability.
                (true, false) => steps.create_on.push(at),
                (false, true) => misplaced.push((at, i)),
                (false, false) => steps.delete.push((at, i)),
            },
        }
    }
    let most = |n: i32| usize::try_from(n).unwrap_or(0);
    steps.delete.extend(misplaced.into_iter().take(most(n_spare)));
    steps.create_on.extend(candidates.into_iter().take(most(bounds.max_surge - n_surge)));
}
