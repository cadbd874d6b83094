//! The binding guard: checks the required rules again when a pod is bound, for every scheduler.
//!
//! Two schedulers that do not coordinate may both see an empty domain and both bind to it. All bindings pass this
//! guard. An allowed binding counts until the cluster state shows it or a bounded time is over. The guard therefore
//! refuses the second of two contradicting bindings.

use std::time::Instant;

use berth_api::object::Pod;
use berth_api::syntax::annotations::RELAXED_ANNOTATION;
use berth_engine::{PreparedPod, Verdict};
use berth_input::config::Plugin;
use serde_json::Value;

use crate::answer::{Answer, Denial, ReviewError};
use crate::policy::BindingGuard;
use crate::request::AdmissionRequest;
use crate::rule::Rule;
use crate::state::{GUARD_PROFILE, Hold, State, StateAccess, key};

/// Maximum reasons in a message.
const MAX_REASONS: usize = 4;

struct Binding<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    node: &'a str,
    /// The rules of the pod that the scheduler has relaxed.
    relaxed: &'a str,
}

/// Checks that the binding breaks no required rule of the pod or of existing pods.
pub(crate) fn keeps_required_rules<K: StateAccess>(
    request: &AdmissionRequest,
    guard: &BindingGuard,
    access: &K,
    now: Instant,
) -> Result<Answer, ReviewError> {
    let text = |pointer: &str| request.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let own = text("/metadata/name");
    let binding = Binding {
        namespace: &request.namespace,
        name: if request.name.is_empty() { own } else { &request.name },
        uid: text("/metadata/uid"),
        node: text("/target/name"),
        relaxed: text(&format!("/metadata/annotations/{}", RELAXED_ANNOTATION.replace('/', "~1"))),
    };
    if binding.name.is_empty() || binding.node.is_empty() || !matches!(text("/target/kind"), "" | "Node") {
        // No pod to bind: the API server reports the error.
        return Ok(Answer::allowed());
    }
    let refused = access.ask("the guard of bindings", |state| {
        state.expire(now);
        check(state, &binding, guard, request.dry_run, now)
    })??;
    Ok(match refused {
        None => Answer::allowed(),
        Some(why) => Answer::denied(Denial::forbidden_name(Rule::BindingGuard, request, binding.name, why)),
    })
}

/// The reason to refuse the binding, if any. An allowed binding is held.
fn check(
    state: &mut State,
    binding: &Binding<'_>,
    guard: &BindingGuard,
    dry_run: bool,
    now: Instant,
) -> Result<Option<String>, ReviewError> {
    let Binding { namespace, name, uid, node, relaxed } = *binding;
    let key = key(namespace, name);
    let held = state.holds.get(&key).cloned();
    let Some(pod) = state.waiting(namespace, name).filter(|pod| uid.is_empty() || pod.metadata.uid == uid)
    else {
        return match state.cluster().node_of(namespace, name) {
            // Already bound: the API server refuses the request if necessary.
            Some(_) if held.is_none() => Ok(None),
            _ => Err(ReviewError::Unseen(format!("pod {key}"))),
        };
    };
    let uid = pod.metadata.uid.clone();
    let mut guarded: Pod = pod.clone();
    if state.nodes.get(node).is_none() {
        return Err(ReviewError::Unseen(format!("node {node:?}")));
    }
    if let Some(Hold { node: there, .. }) = held.as_ref().filter(|hold| hold.node != node) {
        let why = format!(
            "pod {key} has been allowed to be bound to node {there:?} a moment ago, and may still turn up there"
        );
        return Ok(Some(why));
    }
    // A repeated request must not conflict with its own held binding.
    state.release(&key, namespace, name);
    GUARD_PROFILE.clone_into(&mut guarded.spec.scheduler_name);
    // As the bound pod: the rules that were relaxed are preferences.
    node.clone_into(&mut guarded.spec.node_name);
    guarded.metadata.annotations.insert(RELAXED_ANNOTATION.to_owned(), relaxed.to_owned());
    let prepared = state.cluster().prepare(&guarded);
    if !state.cluster().fits_on(&prepared, node) {
        let verdicts = state.cluster().verdicts_on(&prepared, node);
        if !is_left_to_group(state, &guarded, &prepared, node, &verdicts) {
            if let Some(hold) = held {
                hold_again(state, key.clone(), hold, &prepared);
            }
            return Ok(Some(rejection_message(&key, node, &verdicts)));
        }
    }
    if !dry_run {
        let hold = Hold {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid,
            node: node.to_owned(),
            until: now + guard.hold_for,
        };
        hold_again(state, key, hold, &prepared);
    } else if let Some(hold) = held {
        hold_again(state, key, hold, &prepared);
    }
    Ok(None)
}

/// Whether these verdicts depend on the other members of the pod's group. A scheduler decides about a group as one unit, and
/// binds its members one after the other: affinity to members that have no node yet may hold in the end, and spread
/// constraints, which count nodes in the domain of the group only, if it has one.
fn is_left_to_group(
    state: &mut State,
    pod: &Pod,
    prepared: &PreparedPod,
    node: &str,
    verdicts: &[Verdict],
) -> bool {
    let is_affinity = |v: &Verdict| v.term.as_ref().is_some_and(|term| term.contains("podAffinity"));
    let may_depend = |v: &Verdict| is_affinity(v) || v.plugin == Plugin::PodTopologySpread;
    if verdicts.is_empty() || !verdicts.iter().all(may_depend) {
        return false;
    }
    let Some(members) = state.waiting_members(pod) else { return false };
    for member in &members {
        let member = state.cluster().prepare(member);
        state.cluster().assume(&member, node);
    }
    let remaining = state.cluster().verdicts_on(prepared, node);
    for member in members {
        state.cluster().remove_pod(&member.metadata.namespace, &member.metadata.name);
    }
    !remaining.iter().any(is_affinity)
}

fn hold_again(state: &mut State, key: String, hold: Hold, pod: &PreparedPod) {
    state.cluster().assume(pod, &hold.node);
    state.holds.insert(key, hold);
}

fn rejection_message(pod: &str, node: &str, verdicts: &[Verdict]) -> String {
    let mut why = format!("pod {pod} may not be bound to node {node:?}");
    for (i, verdict) in verdicts.iter().take(MAX_REASONS).enumerate() {
        why.push_str(if i == 0 { ": " } else { "; " });
        why.push_str(&verdict.reason);
        if let Some(term) = &verdict.term {
            why.push_str(&format!(" ({term}: {})", verdict.detail));
        }
        if let Some(witness) = verdict.witnesses.first() {
            why.push_str(&format!(", such as {}/{} on {:?}", witness.namespace, witness.name, witness.node));
        }
    }
    if let Some(more) = verdicts.len().checked_sub(MAX_REASONS).filter(|more| *more > 0) {
        why.push_str(&format!("; and {more} more reasons"));
    }
    if verdicts.is_empty() {
        why.push_str(": its rules cannot be read");
    }
    why
}
