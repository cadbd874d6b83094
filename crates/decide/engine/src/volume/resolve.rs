//! Resolving the claims of a pod, in the order and with the words of kube-scheduler's volume plugins.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{BoundRule, CycleVolumes, Problem, Provision, UnboundRule, VolumeRules};
use crate::state::State;
use crate::state::volume::{
    Attachment, ClaimKey, ClaimRecord, ClassRecord, PodClaim, PodVolumes, Source, Volumes, compared,
};

impl CycleVolumes {
    pub(crate) fn resolve(state: &State, pod: &Arc<PodVolumes>) -> CycleVolumes {
        let mut resolved = CycleVolumes {
            pod: pod.clone(),
            restrictions: None,
            one_pod_claims: SmallVec::new(),
            n_in_use: 0,
            binding: claims_problem(state, pod),
            zone: None,
            rules: Arc::default(),
            unbound: SmallVec::new(),
            looks_up_attached: true,
        };
        let mut rules = VolumeRules::default();
        resolved.resolve_restrictions(state);
        resolved.zone = resolve_zones(state, pod, &mut rules).err();
        if resolved.binding.is_none() {
            resolved.binding = resolved.resolve_binding(state, &mut rules).err();
        }
        resolve_attachments(&state.volumes, pod, &mut rules);
        if state.settings.config.feature_gates.volume_limit_scaling {
            resolve_required_drivers(&state.volumes, pod, &mut rules);
        }
        resolved.rules = Arc::new(rules);
        resolved
    }

    /// What the volume of a bound claim requires; none if it may be used everywhere.
    pub(crate) fn bound_rule_of(&self, state: &State, claim: &ClaimRecord) -> Option<BoundRule> {
        bound_rule(&state.volumes, claim)
    }

    fn resolve_restrictions(&mut self, state: &State) {
        for used in self.pod.claims.iter().filter(|used| !used.ephemeral) {
            let Some(claim) = state.volumes.claim(&used.key) else {
                self.restrictions = Some(Problem::not_found("persistentvolumeclaim", &used.key.1));
                return;
            };
            if !claim.is_for_one_pod || self.one_pod_claims.contains(&used.key) {
                continue;
            }
            self.one_pod_claims.push(used.key.clone());
            let uses = |pod: &PodVolumes| pod.n_uses(&used.key) > 0;
            let mut pods = state.volumes.pods_of_claim(&used.key).iter().map(|pod| state.pods.get(*pod));
            self.n_in_use += i64::from(pods.any(|pod| pod.volumes.as_deref().is_some_and(uses)));
        }
    }

    /// Claims whose class waits for the first consumer are bound by the scheduler; others have to be bound already.
    fn resolve_binding(&mut self, state: &State, rules: &mut VolumeRules) -> Result<(), Problem> {
        let volumes = &state.volumes;
        let mut unbound_immediate = false;
        let mut to_match: SmallVec<[(&ClaimKey, &ClaimRecord); 2]> = SmallVec::new();
        for used in &self.pod.claims {
            let Some(claim) = volumes.claim(&used.key) else { continue };
            // A claim that the pod names twice is bound once.
            if self.unbound.contains(&used.key) || to_match.iter().any(|(key, _)| **key == used.key) {
                continue;
            }
            if claim.is_bound {
                let rule = bound_rule(volumes, claim);
                rules.bound.extend(rule.filter(|rule| !rules.bound.contains(rule)));
                continue;
            }
            let class = volumes.class(&claim.class);
            let waits = class.is_some_and(|class| class.waits_for_first_consumer);
            if !waits || !claim.volume.is_empty() {
                unbound_immediate = true;
            } else if let Some(node) = claim.selected_node() {
                let matching = None;
                let selected = Some(state.symbols.get(node));
                let provision = provision(state, claim, class);
                rules.unbound.push(UnboundRule { matching, selected, provision });
                self.unbound.push(used.key.clone());
            } else {
                to_match.push((&used.key, claim));
            }
        }
        if unbound_immediate {
            return Err(Problem("pod has unbound immediate PersistentVolumeClaims".to_owned()));
        }
        // The smallest first, so that it gets the smallest volume.
        to_match.sort_by_key(|(_, claim)| claim.requested.unwrap_or_default());
        for (key, claim) in to_match {
            let matching = volumes.matching(key, claim);
            let provision = provision(state, claim, volumes.class(&claim.class));
            rules.unbound.push(UnboundRule { matching, selected: None, provision });
            self.unbound.push(key.clone());
        }
        Ok(())
    }
}

impl Problem {
    fn not_found(kind: &str, name: &str) -> Problem {
        Problem(format!("{kind} {name:?} not found"))
    }
}

/// Why the claims of a pod cannot be used by it.
fn claims_problem(state: &State, pod: &PodVolumes) -> Option<Problem> {
    pod.claims.iter().find_map(|used| claim_problem(state, pod, used))
}

fn claim_problem(state: &State, pod: &PodVolumes, used: &PodClaim) -> Option<Problem> {
    let name = &used.key.1;
    let Some(claim) = state.volumes.claim(&used.key) else {
        if used.ephemeral {
            let text = "waiting for ephemeral volume controller to create the persistentvolumeclaim";
            return Some(Problem(format!("{text} {name:?}")));
        }
        return Some(Problem::not_found("persistentvolumeclaim", name));
    };
    let text = if claim.is_lost {
        let volume = &claim.volume;
        format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}")
    } else if claim.is_deleting {
        format!("persistentvolumeclaim {name:?} is being deleted")
    } else if !state.volumes.is_for(pod, used, claim) {
        let (namespace, pod) = (state.symbols.text(used.key.0), &pod.pod_name);
        format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)")
    } else {
        return None;
    };
    Some(Problem(text))
}

/// None if the volume may be used everywhere.
fn bound_rule(volumes: &Volumes, claim: &ClaimRecord) -> Option<BoundRule> {
    let Some(volume) = volumes.volume(&claim.volume) else { return Some(BoundRule::Missing) };
    let migrated = match &volume.source {
        Source::InTree { plugin, affinity, .. } => Some((*plugin, affinity.clone())),
        Source::Csi { .. } | Source::Other => None,
    };
    let affinity = volume.offer.affinity.clone();
    let migrated = migrated.filter(|(_, translated)| *translated != affinity);
    (affinity.is_some() || migrated.is_some()).then_some(BoundRule::Affinity { affinity, migrated })
}

fn provision(state: &State, claim: &ClaimRecord, class: Option<&ClassRecord>) -> Provision {
    let Some(class) = class.filter(|class| class.provisions()) else { return Provision::Unsupported };
    let size = claim.requested.filter(|_| state.volumes.driver(&class.provisioner).tracks_capacity);
    Provision::Dynamic {
        topologies: class.allowed_topologies.clone(),
        capacity: size.map(|size| (class.name.clone(), compared(size, state.settings.config.feature_gates))),
    }
}

fn resolve_zones(state: &State, pod: &PodVolumes, rules: &mut VolumeRules) -> Result<(), Problem> {
    let volumes = &state.volumes;
    let unresolvable = |text: &str| Err(Problem(text.to_owned()));
    for used in pod.claims.iter().filter(|used| !used.ephemeral) {
        let name = &used.key.1;
        if name.is_empty() {
            return unresolvable("PersistentVolumeClaim had no name");
        }
        let claim = volumes.claim(&used.key);
        let claim = claim.ok_or_else(|| Problem::not_found("persistentvolumeclaim", name))?;
        if !claim.volume.is_empty() {
            let volume = volumes.volume(&claim.volume);
            let volume = volume.ok_or_else(|| Problem::not_found("persistentvolume", &claim.volume))?;
            let known = |rule: &&_| !rules.zones.contains(rule);
            let zones: SmallVec<[_; 2]> = volume.zones.iter().filter(known).cloned().collect();
            rules.zones.extend(zones);
            continue;
        }
        if claim.class.is_empty() {
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name");
        }
        let class = volumes.class(&claim.class);
        let class = class
            .ok_or_else(|| Problem(format!("storageclass.storage.k8s.io {:?} not found", claim.class)))?;
        if !class.waits_for_first_consumer {
            return unresolvable("PersistentVolume had no name");
        }
    }
    Ok(())
}

/// How many different volumes each driver has to attach.
fn resolve_attachments(volumes: &Volumes, pod: &PodVolumes, rules: &mut VolumeRules) {
    let mut seen: SmallVec<[Attachment<'_>; 2]> = SmallVec::new();
    for used in &pod.claims {
        let Some(claim) = volumes.claim(&used.key) else { continue };
        let Some((attachment, plugin)) = volumes.attachment(&used.key, claim, None) else { continue };
        if seen.contains(&attachment) {
            continue;
        }
        seen.push(attachment);
        match rules.attach.iter_mut().find(|(driver, p, _)| (&**driver, *p) == (attachment.driver, plugin)) {
            Some((.., n)) => *n += 1,
            None => rules.attach.push((attachment.driver.into(), plugin, 1)),
        }
    }
    rules.attach.sort_unstable();
}

/// The drivers of the pod's volumes without which a node does not get the pod.
fn resolve_required_drivers(volumes: &Volumes, pod: &PodVolumes, rules: &mut VolumeRules) {
    let of_claims = pod.claims.iter().filter_map(|used| {
        let claim = volumes.claim(&used.key).filter(|claim| volumes.is_for(pod, used, claim))?;
        let (attachment, plugin) = volumes.attachment(&used.key, claim, None)?;
        Some((attachment.driver, plugin))
    });
    let inline = pod.in_tree.iter().map(|(plugin, _)| (plugin.csi_driver(), Some(*plugin)));
    let required = of_claims.chain(inline).filter(|(driver, _)| volumes.driver(driver).is_required);
    rules.required_drivers = required.map(|(driver, plugin)| (driver.into(), plugin)).collect();
    rules.required_drivers.sort_unstable();
    rules.required_drivers.dedup();
}
