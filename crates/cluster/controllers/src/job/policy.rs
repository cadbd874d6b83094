//! Evaluates a Job's `podFailurePolicy` for a failed pod, and its `successPolicy` for the succeeded indexes.
//! Pure. The rules are those of "Jobs" in the Kubernetes documentation.

use berth_control::job::Indexes;

use crate::view::{
    ContainerStatus, Job, OnExitCodes, Pod, PodConditionPattern, PodFailureAction, PodFailureRule,
};

/// The action for a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It counts against the limits.
    Counts,
    /// The controller replaces the pod and does not count the failure.
    Ignored,
    /// Its index fails with it.
    FailsIndex,
    /// The Job fails with it; the text says why.
    FailsJob(String),
}

/// The action of the first rule that matches a failed pod.
pub(super) fn failure(job: &Job, pod: &Pod) -> Failure {
    let rules = &job.spec.pod_failure_policy.rules;
    let matched = rules.iter().enumerate().find_map(|(i, rule)| Some((i, rule, what_matches(rule, pod)?)));
    match matched {
        Some((at, PodFailureRule { action: PodFailureAction::FailJob, .. }, what)) => {
            Failure::FailsJob(format!("{what} matching FailJob rule at index {at}"))
        }
        Some((_, PodFailureRule { action: PodFailureAction::FailIndex, .. }, _))
            if job.spec.backoff_limit_per_index.is_some() =>
        {
            Failure::FailsIndex
        }
        Some((_, PodFailureRule { action: PodFailureAction::Ignore, .. }, _)) => Failure::Ignored,
        _ => Failure::Counts,
    }
}

/// Describes how a rule matches a pod; `None` if it does not match.
fn what_matches(rule: &PodFailureRule, pod: &Pod) -> Option<String> {
    let name = || format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
    if let Some(codes) = &rule.on_exit_codes {
        let status = &pod.status;
        let mut containers = status.container_statuses.iter().chain(&status.init_container_statuses);
        return containers.find_map(|container| {
            let code = exit_code(container).filter(|code| matches_code(codes, container, *code))?;
            let (container, name) = (&container.name, name());
            Some(format!("Container {container} for pod {name} failed with exit code {code}"))
        });
    }
    let wanted = |pattern: &&PodConditionPattern| {
        pod.status.conditions.iter().any(|c| c.condition_type == pattern.kind && c.status == pattern.status())
    };
    let pattern = rule.on_pod_conditions.iter().find(wanted)?;
    Some(format!("Pod {} has condition {}", name(), pattern.kind))
}

/// The non-zero exit code of a container.
fn exit_code(container: &ContainerStatus) -> Option<i64> {
    container.state.terminated.as_ref().map(|terminated| terminated.exit_code).filter(|code| *code != 0)
}

fn matches_code(codes: &OnExitCodes, container: &ContainerStatus, code: i64) -> bool {
    let named = codes.container_name.as_ref().is_none_or(|name| *name == container.name);
    named
        && match codes.operator.as_str() {
            "In" => codes.values.contains(&code),
            "NotIn" => !codes.values.contains(&code),
            _ => false,
        }
}

/// Describes the success rule that the succeeded indexes meet; `None` if they meet none.
pub(super) fn success(job: &Job, succeeded: &Indexes) -> Option<String> {
    let completions = job.spec.completions.unwrap_or(0);
    let met = job.spec.success_policy.rules.iter().position(|rule| {
        let (n, all) = match &rule.succeeded_indexes {
            Some(text) => {
                let wanted = Indexes::parse(text, completions);
                (wanted.n_common(succeeded), i64::from(wanted.len()))
            }
            None => (i64::from(succeeded.len()), i64::MAX),
        };
        n >= rule.succeeded_count.map_or(all, i64::from)
    })?;
    Some(format!("Matched rules at index {met}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(spec: Value) -> Job {
        serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec})).unwrap()
    }

    fn failed(exit_codes: &[(&str, i64)], condition: &str) -> Pod {
        let statuses: Vec<Value> = exit_codes
            .iter()
            .map(|(name, code)| json!({"name": name, "state": {"terminated": {"exitCode": code}}}))
            .collect();
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n"},
            "status": {"phase": "Failed", "containerStatuses": statuses,
                "conditions": [{"type": condition, "status": "True"}]}}))
        .unwrap()
    }

    #[test]
    fn first_matching_rule_decides() {
        let job = job(json!({"backoffLimitPerIndex": 1, "podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [7, 42]}},
            {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1]}},
            {"action": "FailJob", "onPodConditions": [{"type": "Lost"}]},
        ]}}));
        let fails_job = |text: &str| Failure::FailsJob(text.to_owned());
        for (pod, wanted) in [
            (failed(&[("main", 42)], "DisruptionTarget"), Failure::Ignored),
            (
                failed(&[("main", 42)], "Ready"),
                fails_job(
                    "Container main for pod n/p failed with exit code 42 matching FailJob rule at index 1",
                ),
            ),
            (failed(&[("side", 42)], "Ready"), Failure::FailsIndex),
            (failed(&[("main", 0), ("side", 2)], "Lost"), Failure::Counts),
            (
                failed(&[("main", 1)], "Lost"),
                fails_job("Pod n/p has condition Lost matching FailJob rule at index 4"),
            ),
            (failed(&[("main", 0)], "Ready"), Failure::Counts),
        ] {
            assert_eq!(failure(&job, &pod), wanted, "{pod:?}");
        }
    }

    #[test]
    fn success_policy_checks_indexes_and_count() {
        for (rules, succeeded, wanted) in [
            (json!([{"succeededIndexes": "0,2-3"}]), "0,2", None),
            (json!([{"succeededIndexes": "0,2-3"}]), "0,2,3", Some(0)),
            (json!([{"succeededIndexes": "0-3", "succeededCount": 2}]), "1,3", Some(0)),
            (json!([{"succeededIndexes": "0-3", "succeededCount": 2}]), "3-5", None),
            (json!([{"succeededIndexes": "9"}, {"succeededCount": 3}]), "3-5", Some(1)),
            (json!([]), "0-9", None),
        ] {
            let job = job(json!({"completions": 10, "successPolicy": {"rules": rules}}));
            let met = success(&job, &Indexes::parse(succeeded, 10));
            assert_eq!(
                met,
                wanted.map(|i: i32| format!("Matched rules at index {i}")),
                "{rules} {succeeded}"
            );
        }
    }
}
