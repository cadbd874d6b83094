//! Another device class: a request of a claim that devices of another class satisfy.

use berth_api::object::NamespacedName;
use berth_api::object::device::{DeviceObject, POD_CLAIM_NAME_ANNOTATION, ResourceClaim};
use berth_engine::Counts;

use super::change::{Change, Repair};
use super::commands::{self, ClaimSource};
use super::trial::{Problem, Trial};

/// Number of classes that are tried for a request.
const MAX_CLASSES: usize = 50;

impl Trial<'_> {
    /// The first other class, by request and by name, with which the pod fits.
    pub(super) fn use_other_class(&mut self, problem: &Problem) -> Option<Repair> {
        let lacks_devices = problem
            .rejecting
            .iter()
            .flat_map(|(_, verdicts)| verdicts)
            .any(|verdict| matches!(verdict.counts, Some(Counts::Devices { .. })));
        if !lacks_devices {
            return None;
        }
        let open = self.devices.claims_to_allocate(&self.pod.pod);
        let classes: Vec<String> = self.devices.classes().take(MAX_CLASSES).map(str::to_owned).collect();
        for claim in open {
            for (i, request) in claim.spec.devices.requests.iter().enumerate() {
                let Some(exactly) = &request.exactly else { continue };
                for class in classes.iter().filter(|class| **class != exactly.device_class_name) {
                    let mut changed = ResourceClaim::clone(&claim);
                    if let Some(exactly) = &mut changed.spec.devices.requests[i].exactly {
                        exactly.device_class_name.clone_from(class);
                    }
                    self.budget.spend(self.nodes.len()).ok()?;
                    self.cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(changed)));
                    let node =
                        self.place_of(&problem.prepared).filter(|node| self.breaks_nothing(problem, node));
                    self.cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(
                        ResourceClaim::clone(&claim),
                    )));
                    if let Some(node) = node {
                        let from = exactly.device_class_name.clone();
                        return Some(self.class_repair(&claim, i, from, class.clone(), node));
                    }
                }
            }
        }
        None
    }

    fn class_repair(
        &self,
        claim: &ResourceClaim,
        request: usize,
        from: String,
        to: String,
        node: String,
    ) -> Repair {
        let pod = &self.pod.pod;
        let name = claim.metadata.namespaced_name();
        let entry = claim.metadata.annotation(POD_CLAIM_NAME_ANNOTATION);
        let entry = pod.spec.resource_claims.iter().find(|of| Some(of.name.as_str()) == entry);
        let template = entry.and_then(|entry| entry.resource_claim_template_name.as_deref());
        let source = match template {
            Some(template) => ClaimSource::Template(NamespacedName::new(&pod.metadata.namespace, template)),
            None => ClaimSource::Claim(&name),
        };
        let commands = commands::change_class(pod, &source, request, &to);
        let (kind, object) = match &source {
            ClaimSource::Claim(name) => ("ResourceClaim", name.name()),
            ClaimSource::Template(name) => ("ResourceClaimTemplate", name.name()),
        };
        let request = claim.spec.devices.requests[request].name.clone();
        let change = Change::UseDeviceClass { object: format!("{kind} {object}"), request, from, to };
        Repair::new(vec![change], node, commands)
    }
}
