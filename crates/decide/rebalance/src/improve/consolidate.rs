//! Nodes are emptied one after the other: their pods go where little room is left.

use std::collections::BTreeSet;

use crate::board::Board;

/// Number of nodes that are tried for a pod.
const MAX_TARGETS: usize = 12;

/// Empties nodes: the dearest first, and of equal ones those with the least on them.
pub(super) fn nodes(board: &mut Board<'_>) {
    let resource = board.nodes.scarcest();
    let used = |board: &Board<'_>, node: usize| {
        let of = &board.nodes.of[node];
        of.n_pods > 0 && of.n_pods == board.movable_on[node].len()
    };
    let mut candidates: Vec<usize> = (0..board.movable_on.len()).filter(|node| used(board, *node)).collect();
    candidates.sort_by_key(|node| {
        let of = &board.nodes.of[*node];
        (-of.price, of.requested[resource] - of.of_daemons[resource], *node)
    });
    let mut by_room: BTreeSet<(i64, usize)> = (0..board.movable_on.len())
        .filter(|node| board.nodes.of[*node].n_pods > 0)
        .map(|node| (board.nodes.of[node].free(resource), node))
        .collect();
    for node in candidates {
        if used(board, node) && board.attempt(|board| empty(board, node, resource, &by_room)) {
            by_room = (0..board.movable_on.len())
                .filter(|node| board.nodes.of[*node].n_pods > 0)
                .map(|node| (board.nodes.of[node].free(resource), node))
                .collect();
        }
    }
}

/// Moves all pods of a node to others that have pods, the largest pods first. Stops where one has no place.
fn empty(board: &mut Board<'_>, node: usize, resource: usize, by_room: &BTreeSet<(i64, usize)>) {
    let mut by_room = by_room.clone();
    by_room.remove(&(board.nodes.of[node].free(resource), node));
    let mut pods = board.movable_on[node].clone();
    pods.sort_by_key(|pod| -board.pods[*pod].requests[resource]);
    for pod in pods {
        let requested = board.pods[pod].requests[resource];
        let targets: Vec<_> = by_room.range((requested, 0)..).take(MAX_TARGETS).copied().collect();
        let Some((room, to)) = targets.into_iter().find(|(_, to)| board.apply(pod, *to)) else { return };
        by_room.remove(&(room, to));
        by_room.insert((room - requested, to));
    }
}
