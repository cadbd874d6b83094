//! kube-apiserver's plugin `LimitPodHardAntiAffinityTopology`.

use berth_api::syntax::labels::HOSTNAME;
use berth_rules::TopologyScope;

use super::attributes::PodAttributes;
use crate::answer::Denial;
use crate::findings::Findings;
use crate::policy::Action;
use crate::rule::Rule;

/// Required anti-affinity must use the host name as topology key. The reference checks
/// `requiredDuringSchedulingIgnoredDuringExecution` of the spec, the only one it has; Berth checks the other required
/// terms as well. The message is the reference's.
pub(super) fn keeps_to_hostname(attributes: &PodAttributes<'_>, found: &mut Findings) {
    if !attributes.policy.limit_pod_hard_anti_affinity_topology {
        return;
    }
    for term in &attributes.pod.rules.required_anti_affinity {
        let key = match &term.topology {
            TopologyScope::Key(key) if key == HOSTNAME => continue,
            TopologyScope::Key(key) => key.as_str(),
            TopologyScope::All => "",
        };
        let message = format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
        );
        // The reference uses the pod's own name, which is empty before `generateName` is applied.
        let name = &attributes.pod.object.metadata.name;
        let rule = Rule::LimitPodHardAntiAffinityTopology;
        found.broken(Action::Reject, Denial::forbidden_name(rule, attributes.request, name, message));
    }
}
