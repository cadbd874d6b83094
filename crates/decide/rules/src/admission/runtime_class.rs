//! The admission plugin `RuntimeClass`: merges a pod's runtime class into the pod.

use std::collections::HashMap;

use berth_api::object::{Pod, RuntimeClass, RuntimeClassScheduling, Toleration};
use berth_api::work::WorkBudget;

/// The classes to admit a pod with, for input that may lack objects of the cluster: `None` if the class that the pod names is
/// not among them.
pub fn known_runtime_classes<'a>(pod: &Pod, classes: &'a [RuntimeClass]) -> Option<&'a [RuntimeClass]> {
    let name = &pod.spec.runtime_class_name;
    (name.is_empty() || class_of(pod, classes).is_some()).then_some(classes)
}

/// The warning about a class that is not in the input.
pub fn unknown_runtime_class(name: &str) -> String {
    format!(
        "RuntimeClass {name} is not in the input: the node selector, the tolerations and the overhead that it adds to its pods \
         are not known, and the pods are used without them: add it, as `berth dump` saves it"
    )
}

/// Merges the node selector, the tolerations and the overhead of the pod's class into the pod.
///
/// # Errors
/// The reason why the plugin forbids the pod: its class does not exist, or the pod contradicts its class.
pub(super) fn merge(pod: &mut Pod, classes: &[RuntimeClass]) -> Result<(), String> {
    let class = class_of(pod, classes);
    let spec = &mut pod.spec;
    if !spec.runtime_class_name.is_empty() && class.is_none() {
        return Err(format!("pod rejected: RuntimeClass {:?} not found", spec.runtime_class_name));
    }
    match class.and_then(|class| class.overhead.as_ref()) {
        None if !spec.overhead.is_empty() => {
            return Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned());
        }
        Some(overhead) if !spec.overhead.is_empty() && *spec.overhead != overhead.pod_fixed => {
            return Err(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned()
            );
        }
        Some(overhead) => spec.overhead = overhead.pod_fixed.clone().into(),
        None => {}
    }
    let Some(RuntimeClassScheduling { node_selector, tolerations }) =
        class.and_then(|class| class.scheduling.as_ref())
    else {
        return Ok(());
    };
    for (key, value) in node_selector {
        match spec.node_selector.get(key) {
            Some(given) if given != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
                ));
            }
            Some(_) => {}
            None => {
                spec.node_selector.insert(key.clone(), value.clone());
            }
        }
    }
    let all = [&spec.tolerations[..], tolerations].concat();
    let merged = merge_tolerations(&all);
    spec.tolerations = merged.ok_or("spec.tolerations: too many similar tolerations: use fewer")?.into();
    Ok(())
}

fn class_of<'a>(pod: &Pod, classes: &'a [RuntimeClass]) -> Option<&'a RuntimeClass> {
    let name = &pod.spec.runtime_class_name;
    classes.iter().find(|class| class.metadata.name == *name).filter(|_| !name.is_empty())
}

/// Leaves out the tolerations that another one includes; of equal ones, the first stays. None if comparing them is too much work.
fn merge_tolerations(all: &[Toleration]) -> Option<Vec<Toleration>> {
    let budget = WorkBudget::new(MERGE_STEPS);
    // Only tolerations of the same key, or of none, include another one: those with the same value, and those of all values.
    let place = |toleration: &Toleration| {
        let value = (toleration.operator != "Exists").then(|| toleration.value.clone());
        (toleration.key.clone(), value)
    };
    let mut positions: HashMap<(String, Option<String>), Vec<usize>> = HashMap::new();
    all.iter()
        .enumerate()
        .for_each(|(i, toleration)| positions.entry(place(toleration)).or_default().push(i));
    let mut is_kept = vec![true; all.len()];
    for (i, toleration) in all.iter().enumerate() {
        let (key, value) = place(toleration);
        let mut places = vec![(key.clone(), value), (key, None), (String::new(), None)];
        places.dedup();
        let wider = places.iter().filter_map(|place| positions.get(place)).flatten();
        for &other in wider.filter(|other| **other != i) {
            budget.spend(1).ok()?;
            let is_earlier = other < i && is_kept[other];
            let is_later = other > i && all[other] != *toleration;
            if (is_earlier || is_later) && includes(&all[other], toleration) {
                is_kept[i] = false;
                break;
            }
        }
    }
    Some(
        all.iter()
            .zip(is_kept)
            .filter(|(_, is_kept)| *is_kept)
            .map(|(toleration, _)| toleration.clone())
            .collect(),
    )
}

/// Steps of comparing tolerations: some ten milliseconds.
const MERGE_STEPS: u64 = 1_000_000;

/// Whether a toleration tolerates all that another one does.
fn includes(wide: &Toleration, narrow: &Toleration) -> bool {
    if wide == narrow {
        return true;
    }
    let has_key = wide.key == narrow.key || (wide.key.is_empty() && wide.operator == "Exists");
    let has_effect = wide.effect == narrow.effect || wide.effect.is_empty();
    let lasts = wide.effect != "NoExecute"
        || wide
            .toleration_seconds
            .is_none_or(|seconds| narrow.toleration_seconds.is_some_and(|narrow| narrow <= seconds));
    let has_value = match wide.operator.as_str() {
        "Equal" | "" => narrow.operator == "Equal" && narrow.value == wide.value,
        "Exists" => true,
        _ => false,
    };
    has_key && has_effect && lasts && has_value
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn merged(spec: Value) -> Result<Value, String> {
        let classes: Vec<RuntimeClass> = serde_json::from_value(json!([
            {"metadata": {"name": "plain"}, "handler": "runc"},
            {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}},
                "scheduling": {"nodeSelector": {"kata": "true"},
                    "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}]}},
        ]))
        .unwrap();
        let mut pod: Pod = serde_json::from_value(json!({ "spec": spec })).unwrap();
        merge(&mut pod, &classes)?;
        let mut spec = serde_json::to_value(&pod.spec).unwrap();
        let fields = ["nodeSelector", "tolerations", "overhead"];
        Ok(fields.into_iter().filter_map(|f| Some((f.to_owned(), spec.get_mut(f)?.take()))).collect())
    }

    #[test]
    fn node_selector_and_tolerations_are_merged_and_overhead_is_set() {
        let toleration = json!({"key": "kata", "operator": "Exists", "effect": "NoSchedule"});
        let (selector, overhead) = (json!({"kata": "true"}), json!({"cpu": "250m"}));
        let all = json!({"nodeSelector": selector, "tolerations": [toleration], "overhead": overhead});
        assert_eq!(merged(json!({"runtimeClassName": "kata"})), Ok(all.clone()));
        let mut again = all.clone();
        again["runtimeClassName"] = "kata".into();
        assert_eq!(merged(again), Ok(all), "a pod that has all of it stays as it is");
        let own = json!({"key": "gpu", "operator": "Exists"});
        assert_eq!(
            merged(
                json!({"runtimeClassName": "kata", "nodeSelector": {"disk": "ssd"}, "tolerations": [own]})
            ),
            Ok(json!({"nodeSelector": {"disk": "ssd", "kata": "true"}, "tolerations": [own, toleration],
                "overhead": overhead}))
        );
        assert_eq!(merged(json!({"runtimeClassName": "plain"})), Ok(json!({})));
        assert_eq!(merged(json!({})), Ok(json!({})));
    }

    #[test]
    fn a_missing_runtime_class_and_pods_that_contradict_their_class_are_refused() {
        for (spec, why) in [
            (json!({"runtimeClassName": "gvisor"}), "pod rejected: RuntimeClass \"gvisor\" not found"),
            (
                json!({"runtimeClassName": "kata", "overhead": {"cpu": "1"}}),
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            ),
            (
                json!({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}),
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            ),
            (
                json!({"overhead": {"cpu": "1"}}),
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            ),
            (
                json!({"runtimeClassName": "kata", "nodeSelector": {"kata": "false"}}),
                "conflict: runtimeClass.scheduling.nodeSelector[kata] = true; pod.spec.nodeSelector[kata] = false",
            ),
        ] {
            assert_eq!(merged(spec.clone()), Err(why.to_owned()), "{spec}");
        }
    }

    /// Cases of kube-apiserver's `MergeTolerations`.
    #[test]
    fn a_toleration_that_another_one_includes_is_left_out() {
        let toleration = |text: &str| -> Toleration {
            let [key, operator, value, effect, seconds] =
                text.split(',').collect::<Vec<_>>().try_into().unwrap();
            let [key, operator, value, effect] = [key, operator, value, effect].map(str::to_owned);
            Toleration { key, operator, value, effect, toleration_seconds: seconds.parse().ok() }
        };
        let cases: [(&[&str], &[&str]); 8] = [
            (&["a,Exists,,,", "a,Exists,,,"], &["a,Exists,,,"]),
            (&["a,Equal,x,NoSchedule,", "a,Exists,,,"], &["a,Exists,,,"]),
            (&["a,Exists,,,", "a,Equal,x,NoSchedule,"], &["a,Exists,,,"]),
            (&["a,Equal,x,,", "a,Equal,y,,"], &["a,Equal,x,,", "a,Equal,y,,"]),
            (&["a,Exists,,NoExecute,5", "b,Exists,,,", ",Exists,,,"], &[",Exists,,,"]),
            (&["a,Exists,,NoExecute,5", "a,Exists,,NoExecute,9"], &["a,Exists,,NoExecute,9"]),
            (&["a,Exists,,NoExecute,", "a,Exists,,NoExecute,9"], &["a,Exists,,NoExecute,"]),
            (&["a,,x,,", "a,Equal,x,,"], &["a,,x,,"]),
        ];
        for (given, expected) in cases {
            let list = |texts: &[&str]| texts.iter().map(|text| toleration(text)).collect::<Vec<_>>();
            assert_eq!(merge_tolerations(&list(given)), Some(list(expected)), "{given:?}");
        }
    }

    #[test]
    fn thousands_of_tolerations_are_merged_in_linear_time_or_refused() {
        let toleration = |key: String, seconds| Toleration {
            key,
            operator: "Exists".to_owned(),
            effect: "NoExecute".to_owned(),
            toleration_seconds: Some(seconds),
            ..Toleration::default()
        };
        let of_keys: Vec<_> = (0..30_000).map(|i| toleration(format!("k{i}"), 5)).collect();
        assert_eq!(merge_tolerations(&of_keys).map(|merged| merged.len()), Some(30_000));
        let of_one_key: Vec<_> = (0..30_000).map(|i| toleration("k".to_owned(), i + 1)).collect();
        assert_eq!(merge_tolerations(&of_one_key).map(|merged| merged.len()), None);
    }
}
