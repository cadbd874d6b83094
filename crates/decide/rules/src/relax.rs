//! Required rules that become preferences when their pod has been pending for long enough.
//!
//! A rule can be relaxed if it is required during scheduling only, and if nothing but the scheduler checks it: pod
//! affinity and anti-affinity, spread constraints with `DoNotSchedule`, and the node affinity of the annotation.
//! `spec.nodeSelector` and `spec.affinity.nodeAffinity` cannot be relaxed: every kubelet refuses pods that violate them.

use core::time::Duration;

use jiff::SignedDuration;

use super::{
    Dialect, NodeTerm, PodRules, PodTerm, PreferredNodeTerm, PreferredPodTerm, RelaxableRule,
    WhenUnsatisfiable,
};
use crate::annotation_affinity;
use berth_api::object::{Affinity, ObjectMeta, Pod, PodAffinity};
use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, RELAX_AFTER_ANNOTATION, RELAXED_ANNOTATION};

/// The weight of a required rule that became a preference.
const WEIGHT: i64 = 100;

/// Reads a duration such as `90s`, `5m` or `1h30m`.
///
/// # Errors
/// The text is no duration, or not a positive one.
pub fn parse_relax_after(text: &str) -> Result<Duration, &'static str> {
    let duration = text.parse::<SignedDuration>().ok().and_then(|d| Duration::try_from(d).ok());
    duration
        .filter(|d| !d.is_zero())
        .ok_or("must be a positive duration such as \"90s\", \"5m\" or \"1h30m\"")
}

/// The paths of the rules that were relaxed to bind a pod, as its annotation has them.
pub fn relaxed_rules(metadata: &ObjectMeta) -> Vec<String> {
    let paths = metadata.annotation(RELAXED_ANNOTATION);
    paths.into_iter().flat_map(|paths| paths.split(',')).map(str::to_owned).collect()
}

impl PodRules {
    /// Finds the rules that can be relaxed, in the written order: those of the specification, then those of the annotation.
    pub(super) fn find_relaxable(&mut self, pod: &Pod) {
        let annotation = |name| pod.metadata.annotations.get(name);
        let default = annotation(RELAX_AFTER_ANNOTATION).and_then(|text| parse_relax_after(text).ok());
        let has_own = annotation(AFFINITY_ANNOTATION).is_some_and(|text| text.contains("relaxAfter"));
        if default.is_none() && !has_own {
            return;
        }
        let affinity = annotation_affinity(pod).ok().flatten().unwrap_or_default();
        let own = |path: &str| own_duration(&affinity, path);
        let is_of_annotation = |path: &str| path.starts_with("metadata.");
        let mut paths: Vec<&str> = Vec::new();
        let required = |terms: &'_ [PodTerm]| {
            let terms = terms.iter().filter(|term| !term.required_during_execution);
            terms.map(|term| term.path.clone()).collect::<Vec<_>>()
        };
        let (pods, anti) = (required(&self.required_affinity), required(&self.required_anti_affinity));
        let pods = || pods.iter().chain(&anti).map(String::as_str);
        paths.extend(pods().filter(|path| !is_of_annotation(path)));
        let spread = self.spread_constraints.iter();
        let spread = spread.filter(|c| c.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        paths.extend(spread.map(|constraint| constraint.path.as_str()));
        let nodes = self.required_node_affinity.iter();
        let nodes = nodes.filter(|rule| is_of_annotation(&rule.path) && !rule.required_during_execution);
        paths.extend(nodes.map(|rule| rule.path.as_str()));
        paths.extend(pods().filter(|path| is_of_annotation(path)));
        let relaxable = paths
            .into_iter()
            .filter_map(|path| Some(RelaxableRule { path: path.to_owned(), after: own(path).or(default)? }));
        self.relaxable = relaxable.collect();
    }

    /// The rules that a pod may have as preferences when it has been pending for this time, in the order in which they are
    /// relaxed.
    pub fn relaxable_after(&self, pending: Duration) -> impl Iterator<Item = &RelaxableRule> {
        self.relaxable.iter().filter(move |rule| rule.after <= pending)
    }

    /// Whether a term becomes a preference when the pod has been pending for long enough.
    pub fn is_relaxable(&self, term: &PodTerm) -> bool {
        self.relaxable.iter().any(|rule| rule.path == term.path)
    }

    /// Turns those of the rules with these paths into preferences that can be relaxed.
    pub fn relax<'p>(&mut self, paths: impl IntoIterator<Item = &'p str>) {
        for path in paths {
            if let Some(i) = self.relaxable.iter().position(|rule| rule.path == path) {
                self.relaxable.remove(i);
                self.relax_one(path);
            }
        }
    }

    fn relax_one(&mut self, path: &str) {
        let relaxed = self.required_anti_affinity.iter().filter(|term| term.path == path);
        self.relaxed_anti_affinity.extend(relaxed.cloned());
        for (required, preferred) in [
            (&mut self.required_affinity, &mut self.preferred_affinity),
            (&mut self.required_anti_affinity, &mut self.preferred_anti_affinity),
        ] {
            let relaxed = required.extract_if(.., |term| term.path == path);
            preferred.extend(relaxed.map(|term| PreferredPodTerm { weight: WEIGHT, term }));
        }
        for constraint in self.spread_constraints.iter_mut().filter(|constraint| constraint.path == path) {
            constraint.when_unsatisfiable = WhenUnsatisfiable::ScheduleAnyway;
            // Only a filter has a minimum of domains.
            constraint.min_domains = 1;
        }
        for rule in self.required_node_affinity.extract_if(.., |rule| rule.path == path) {
            debug_assert_eq!(rule.dialect, Dialect::Proposal);
            // Each alternative is a preference; what matches no node, or every node, has no effect.
            for term in rule.terms {
                let NodeTerm::All(requirements) = term else { continue };
                self.has_preferred_node_affinity = true;
                if !requirements.is_empty() {
                    let path = rule.path.clone();
                    let term = PreferredNodeTerm { path, weight: WEIGHT, requirements };
                    self.preferred_node_affinity.push(term);
                }
            }
        }
    }
}

/// The `relaxAfter` of the rule of the annotation with this path.
fn own_duration(affinity: &Affinity, path: &str) -> Option<Duration> {
    const IGNORED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let path =
        path.strip_prefix("metadata.annotations[")?.strip_prefix(AFFINITY_ANNOTATION)?.strip_prefix("].")?;
    let (kind, rest) = path.split_once('.')?;
    let rest = rest.strip_prefix(IGNORED)?;
    let of_pods = |rules: &Option<PodAffinity>| {
        let index: usize = rest.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
        let terms = &rules.as_ref()?.required_during_scheduling_ignored_during_execution;
        terms.get(index)?.relax_after.clone()
    };
    let text = match kind {
        "nodeAffinity" => {
            let rules = affinity.node_affinity.as_ref()?;
            rules.required_during_scheduling_ignored_during_execution.as_ref()?.relax_after.clone()
        }
        "podAffinity" => of_pods(&affinity.pod_affinity),
        _ => of_pods(&affinity.pod_anti_affinity),
    };
    parse_relax_after(&text?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::RuleOptions;

    fn pod(annotations: Value, spec: Value) -> Pod {
        let metadata = json!({"name": "web", "namespace": "team", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn relaxable(pod: &Pod) -> Vec<String> {
        let rules = PodRules::parse(pod, RuleOptions::default());
        rules.relaxable.iter().map(|rule| format!("{} {:?}", rule.path, rule.after)).collect()
    }

    const IGNORED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const ENFORCED: &str = "requiredDuringSchedulingRequiredDuringExecution";

    #[test]
    fn rules_are_relaxed_in_the_written_order() {
        let term = json!({"topologyKey": "zone", "labelSelector": {}});
        let own = json!({"topologyKey": "zone", "labelSelector": {}, "relaxAfter": "1h30m"});
        let node =
            json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}]});
        let spread = |when: &str| json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when});
        let spec = json!({
            "nodeSelector": {"a": "b"},
            "affinity": {"nodeAffinity": {IGNORED: node}, "podAffinity": {IGNORED: [term, term]},
                "podAntiAffinity": {ENFORCED: [term], IGNORED: [term]}},
            "topologySpreadConstraints": [spread("ScheduleAnyway"), spread("DoNotSchedule")],
        });
        let annotation = json!({"nodeAffinity": {IGNORED: node}, "podAntiAffinity": {IGNORED: [own, term]}});
        let note = format!("metadata.annotations[{AFFINITY_ANNOTATION}]");
        let mut annotations =
            json!({AFFINITY_ANNOTATION: annotation.to_string(), RELAX_AFTER_ANNOTATION: "5m"});
        let all = [
            format!("spec.affinity.podAffinity.{IGNORED}[0] 300s"),
            format!("spec.affinity.podAffinity.{IGNORED}[1] 300s"),
            format!("spec.affinity.podAntiAffinity.{IGNORED}[0] 300s"),
            "spec.topologySpreadConstraints[1] 300s".to_owned(),
            format!("{note}.nodeAffinity.{IGNORED} 300s"),
            format!("{note}.podAntiAffinity.{IGNORED}[0] 5400s"),
            format!("{note}.podAntiAffinity.{IGNORED}[1] 300s"),
        ];
        assert_eq!(relaxable(&pod(annotations.clone(), spec.clone())), all);
        let strict = RuleOptions { extensions: false, ..RuleOptions::default() };
        assert!(PodRules::parse(&pod(annotations.clone(), spec.clone()), strict).relaxable.is_empty());
        // The rules that were relaxed to bind a pod stay preferences; a pod without a node has none yet.
        annotations[RELAXED_ANNOTATION] = json!("spec.topologySpreadConstraints[1],spec.affinity");
        assert_eq!(relaxable(&pod(annotations.clone(), spec.clone())).len(), 7);
        let mut bound = spec.clone();
        bound["nodeName"] = json!("n1");
        let left = relaxable(&pod(annotations.clone(), bound));
        assert_eq!(left, [&all[..3], &all[4..]].concat());
        annotations.as_object_mut().unwrap().remove(RELAX_AFTER_ANNOTATION);
        assert_eq!(
            relaxable(&pod(annotations, spec)),
            [format!("{note}.podAntiAffinity.{IGNORED}[0] 5400s")]
        );
    }

    #[test]
    fn a_relaxed_rule_is_the_preference_that_could_be_written() {
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
        let node = json!([{"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}]);
        let spread = |when: &str| json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when, "labelSelector": {}});
        let required = |when: &str| {
            json!({"affinity": {"podAffinity": {IGNORED: [term]}, "podAntiAffinity": {IGNORED: [term]}},
                "topologySpreadConstraints": [spread(when)]})
        };
        let annotation = json!({"nodeAffinity": {IGNORED: {"nodeSelectorTerms": node}}});
        let annotations = json!({AFFINITY_ANNOTATION: annotation.to_string(), RELAX_AFTER_ANNOTATION: "5m"});
        let mut rules = PodRules::parse(&pod(annotations, required("DoNotSchedule")), RuleOptions::default());
        assert_eq!(rules.relaxable_after(Duration::from_secs(299)).count(), 0);
        let due: Vec<_> = rules.relaxable_after(Duration::from_secs(300)).map(|r| r.path.clone()).collect();
        rules.relax(due.iter().map(String::as_str));
        assert_eq!(rules.relaxed_anti_affinity.len(), 1);
        rules.relaxed_anti_affinity.clear();

        const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
        let weighted = json!([{"weight": 100, "podAffinityTerm": term}]);
        let spec = json!({"affinity": {"podAffinity": {PREFERRED: weighted}, "podAntiAffinity": {PREFERRED: weighted}},
            "topologySpreadConstraints": [spread("ScheduleAnyway")]});
        let annotation = json!({"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": node[0]}]}});
        let written = PodRules::parse(
            &pod(json!({AFFINITY_ANNOTATION: annotation.to_string()}), spec),
            RuleOptions::default(),
        );
        let shown = |rules: &PodRules| {
            let text = format!("{rules:?}").replace(IGNORED, PREFERRED);
            // The paths of node rules have no index when they are required.
            text.replace(
                &format!("{PREFERRED}[0]\", weight: 100, requirements"),
                &format!("{PREFERRED}\", weight: 100, requirements"),
            )
        };
        assert_eq!(shown(&rules), shown(&written));
    }

    #[test]
    fn durations_are_positive() {
        for (text, seconds) in [("90s", 90), ("5m", 300), ("1h30m", 5400)] {
            assert_eq!(parse_relax_after(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "0s", "-5m", "five", "5"] {
            assert!(parse_relax_after(text).is_err(), "{text}");
        }
    }
}
