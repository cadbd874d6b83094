//! Nodes are emptied one after the other: their pods go where little room is left, and where none is enough, a smaller pod makes place.

use std::collections::BTreeSet;

use crate::board::Board;

/// Number of nodes that are tried for a pod.
const MAX_TARGETS: usize = 12;

/// Number of nodes with most room where a pod may make place for another.
const MAX_ROOMIEST: usize = 64;
/// Number of pods that are tried there, the smallest first.
const MAX_MAKING_PLACE: usize = 2;
/// The most pods that make place one for the other.
const MAX_CHAIN: usize = 6;

/// The nodes with pods, by the room of the scarcest resource.
#[derive(Clone)]
struct Rooms {
    resource: usize,
    by_room: BTreeSet<(i64, usize)>,
}

/// Empties nodes: the dearest first, and of equal ones those with the least on them.
pub(super) fn nodes(board: &mut Board<'_>) {
    let resource = board.nodes.scarcest();
    let mut candidates: Vec<usize> =
        (0..board.movable_on.len()).filter(|node| may_be_emptied(board, *node)).collect();
    candidates.sort_by_key(|node| {
        let of = &board.nodes.of[*node];
        (-of.price, of.requested[resource] - of.of_daemons[resource], *node)
    });
    let mut rooms = Rooms::of(board, resource);
    for node in candidates {
        if !board.work.is_spent() && may_be_emptied(board, node) {
            let mut after = rooms.clone();
            if board.attempt(|board| after.empty(board, node)) {
                rooms = after;
            }
        }
    }
}

/// Whether there are pods on a node, and all of them may move.
fn may_be_emptied(board: &Board<'_>, node: usize) -> bool {
    let n_pods = board.nodes.of[node].n_pods;
    n_pods > 0 && n_pods == board.movable_on[node].len()
}

impl Rooms {
    fn of(board: &Board<'_>, resource: usize) -> Rooms {
        let nodes = board.nodes.of.iter().enumerate().filter(|(_, node)| node.n_pods > 0);
        Rooms { resource, by_room: nodes.map(|(at, node)| (node.free(resource), at)).collect() }
    }

    /// Moves all pods of a node to others that have pods, the largest pods first. Stops where one has no place.
    fn empty(&mut self, board: &mut Board<'_>, node: usize) {
        self.by_room.remove(&self.key(board, node));
        let mut pods = board.movable_on[node].clone();
        pods.sort_by_key(|pod| -board.pods[*pod].requests[self.resource]);
        for pod in pods {
            if !self.place(board, pod, MAX_CHAIN) {
                return;
            }
        }
    }

    /// Moves a pod to a node with little room that is enough.
    fn fit(&mut self, board: &mut Board<'_>, pod: usize) -> bool {
        let requested = board.pods[pod].requests[self.resource];
        let targets: Vec<_> = self.by_room.range((requested, 0)..).take(MAX_TARGETS).copied().collect();
        targets.into_iter().any(|(_, to)| self.apply(board, pod, to))
    }

    /// Moves a pod to a node with pods. Where no room is enough, the smallest pod that is enough makes place, and so on, as long as the pods
    /// get smaller.
    fn place(&mut self, board: &mut Board<'_>, pod: usize, chain: usize) -> bool {
        if chain == 0 || self.fit(board, pod) {
            return chain > 0;
        }
        let requested = board.pods[pod].requests[self.resource];
        let size = |other: &usize| board.pods[*other].requests[self.resource];
        let roomiest = self.by_room.iter().rev().take(MAX_ROOMIEST);
        let mut smallest: Vec<_> = roomiest
            .filter_map(|(room, to)| {
                let enough = board.movable_on[*to].iter().filter(|other| size(other) >= requested - room);
                let other = enough.copied().min_by_key(size)?;
                (size(&other) < requested).then_some((size(&other), *room, *to, other))
            })
            .collect();
        smallest.sort_unstable();
        smallest.truncate(MAX_MAKING_PLACE);
        smallest.into_iter().any(|(_, room, to, other)| {
            let (n_steps, before) = (board.n_steps(), self.by_room.clone());
            // Not back to where it is.
            self.by_room.remove(&(room, to));
            let is_gone = self.place(board, other, chain - 1);
            self.by_room.insert(self.key(board, to));
            let fits = is_gone && self.apply(board, pod, to);
            if !fits {
                board.undo_to(n_steps);
                self.by_room = before;
            }
            fits
        })
    }

    fn apply(&mut self, board: &mut Board<'_>, pod: usize, to: usize) -> bool {
        let kept = [board.node_of(pod), to].map(|node| (node, self.by_room.remove(&self.key(board, node))));
        let is_moved = board.apply(pod, to);
        let kept = kept.into_iter().filter(|(_, is_kept)| *is_kept);
        kept.for_each(|(node, _)| _ = self.by_room.insert(self.key(board, node)));
        is_moved
    }

    fn key(&self, board: &Board<'_>, node: usize) -> (i64, usize) {
        (board.nodes.of[node].free(self.resource), node)
    }
}
