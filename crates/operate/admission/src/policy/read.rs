//! Reading an `AdmissionPolicy`: strictly, with all findings at once.

use std::time::Duration;

use berth_api::read::fields::{Fields, Findings, Node, suggestion};
use berth_api::syntax::label_key;
use berth_api::syntax::quantity::Quantity;
use berth_engine::MAX_ALL_TOPOLOGIES;
use berth_input::policy::RequiredLabels;
use berth_rules::all_topologies_problem;
use serde_json::Value;

use super::{
    API_VERSION, Action, BindingGuard, BlastRadiusLimit, Budget, ConfigErrors, ExclusiveNodesLimit,
    GuardedRule, KIND, LabelConvention, Measure, Policy, RuleLimits, TrustedUsers,
};

/// No duration in the file is longer.
const LONGEST: Duration = Duration::from_secs(600);

impl Policy {
    /// Reads the file (YAML turned into a JSON value).
    ///
    /// # Errors
    /// Unknown fields and values that mean nothing: all of them, each with its path.
    pub fn from_value(value: &Value) -> Result<Policy, ConfigErrors> {
        let findings = Findings::default();
        let mut policy = Policy::default();
        let root = Node { value, path: String::new(), findings: &findings };
        if let Some(mut root) = root.fields() {
            expect(&mut root, "apiVersion", API_VERSION);
            expect(&mut root, "kind", KIND);
            // `kubectl apply -f` needs a name; nothing here does.
            if let Some(mut metadata) = root.get("metadata").and_then(|node| node.fields()) {
                metadata.get("name").map(|name| name.string());
                metadata.finish();
            }
            read(&mut root, &mut policy);
            root.finish();
        }
        findings.finish()?;
        Ok(policy)
    }
}

fn expect(root: &mut Fields<'_>, field: &'static str, value: &str) {
    if let Some(node) = root.required_string(field)
        && node.string() != Some(value)
    {
        node.invalid(&format!("must be {value:?}"));
    }
}

fn read(root: &mut Fields<'_>, policy: &mut Policy) {
    if let Some(names) = root.get("exemptNamespaces") {
        policy.exempt_namespaces = names.strings();
    }
    set_bool(root, "exemptFromV1", &mut policy.exempt_from_v1);
    if let Some(node) = root.get("allTopologies") {
        policy.all_topologies = node.strings();
        if let Some(problem) = all_topologies_problem(&policy.all_topologies, MAX_ALL_TOPOLOGIES) {
            node.invalid(&problem);
        }
    }
    set_bool(root, "validateAnnotation", &mut policy.validate_annotation);
    set_bool(root, "dialectWarnings", &mut policy.dialect_warnings);
    if let Some(action) = root.get("allNamespacesAntiAffinity").and_then(|node| one_of(&node, ACTIONS)) {
        policy.all_namespaces_anti_affinity = action;
    }
    let limit = &mut policy.limit_pod_hard_anti_affinity_topology;
    set_bool(root, "limitPodHardAntiAffinityTopology", limit);
    policy.trusted_users = root.get("requiredAntiAffinity").and_then(|node| read_trusted_users(&node));
    policy.required_labels = root.get("requiredLabels").and_then(|node| read_required_labels(&node));
    if let Some(names) = root.get("schedulerNames") {
        policy.scheduler_names = names.strings();
    }
    set_bool(root, "workloadWarnings", &mut policy.workload_warnings);
    set_bool(root, "mergeMatchLabelKeys", &mut policy.merge_match_label_keys);
    if let Some(names) = root.get("daemonNamespaces") {
        policy.daemon_namespaces = names.strings();
    }
    set_bool(root, "nodeRestriction", &mut policy.node_restriction);
    set_bool(root, "placementQuotas", &mut policy.placement_quotas);
    policy.binding_guard = root.get("bindingGuard").and_then(|node| read_binding_guard(&node));
    if let Some(node) = root.get("ruleLimits") {
        read_rule_limits(&node, &mut policy.rule_limits);
    }
    for node in root.items("budgets") {
        let Some(budget) = read_budget(&node) else { continue };
        if budget.namespaces.is_empty() && policy.budgets.iter().any(|b| b.namespaces.is_empty()) {
            node.error("Duplicate value: another budget without namespaces is there already");
        }
        for name in &budget.namespaces {
            if policy.budgets.iter().any(|b| b.namespaces.contains(name)) {
                node.error(format!("Duplicate value: {name:?} has a budget already"));
            }
        }
        policy.budgets.push(budget);
    }
}

const ACTIONS: &[(&str, Action)] =
    &[("Reject", Action::Reject), ("Warn", Action::Warn), ("Allow", Action::Allow)];
const MEASURES: &[(&str, Measure)] =
    &[("Largest", Measure::Largest), ("Average", Measure::Average), ("Actual", Measure::Actual)];
const RULES: &[(&str, GuardedRule)] = &[
    ("NodeAffinity", GuardedRule::NodeAffinity),
    ("InterPodAffinity", GuardedRule::InterPodAffinity),
    ("PodTopologySpread", GuardedRule::PodTopologySpread),
];

fn read_binding_guard(node: &Node<'_>) -> Option<BindingGuard> {
    let mut fields = node.fields()?;
    let mut guard = BindingGuard::default();
    let enabled = fields.get("enabled").and_then(|node| node.bool()).unwrap_or(false);
    if let Some(rules) = fields.get("rules") {
        guard.rules = rules.items().iter().filter_map(|node| one_of(node, RULES)).collect();
        if rules.value.as_array().is_some_and(Vec::is_empty) {
            rules.error("Required value: at least one rule; write enabled: false to turn the guard off");
        }
    }
    if let Some(namespace) = fields.get("ledgerNamespace") {
        guard.ledger_namespace = namespace.string().map(str::to_owned);
    }
    for (name, duration) in [("holdFor", &mut guard.hold_for), ("waitFor", &mut guard.wait_for)] {
        if let Some(read) = fields.get(name).and_then(|node| read_duration(&node)) {
            *duration = read;
        }
    }
    fields.finish();
    enabled.then_some(guard)
}

fn read_trusted_users(node: &Node<'_>) -> Option<TrustedUsers> {
    let mut fields = node.fields()?;
    let action = fields.get("action").and_then(|node| one_of(&node, &ACTIONS[..2]));
    let mut strings = |name| fields.get(name).map(|node| node.strings()).unwrap_or_default();
    let trusted = TrustedUsers {
        action: action.unwrap_or(Action::Reject),
        topology_keys: strings("topologyKeys"),
        users: strings("users"),
        groups: strings("groups"),
        service_accounts: strings("serviceAccounts"),
    };
    for (i, account) in trusted.service_accounts.iter().enumerate() {
        if account.split('/').filter(|part| !part.is_empty()).count() != 2 {
            let text = format!("Invalid value: {account:?}: must be NAMESPACE/NAME");
            node.findings.error(format!("{}.serviceAccounts[{i}]", node.path), text);
        }
    }
    fields.finish();
    Some(trusted)
}

fn read_rule_limits(node: &Node<'_>, limits: &mut RuleLimits) {
    let Some(mut fields) = node.fields() else { return };
    if let Some(action) = fields.get("action").and_then(|node| one_of(&node, ACTIONS)) {
        limits.action = action;
    }
    let RuleLimits { pod, max_taints, .. } = limits;
    for (name, limit) in [("maxRuleEntries", &mut pod.max_entries), ("maxTaints", max_taints)] {
        if let Some(read) = number(&mut fields, name) {
            *limit = usize::try_from(read).unwrap_or(usize::MAX);
        }
    }
    fields.finish();
}

fn read_required_labels(node: &Node<'_>) -> Option<LabelConvention> {
    let mut fields = node.fields()?;
    let action = fields.get("action").and_then(|node| one_of(&node, &ACTIONS[..2]));
    let keys = fields.get("keys").map(|node| node.strings()).unwrap_or_default();
    if keys.is_empty() {
        node.error("Required value: keys");
    }
    for (i, key) in keys.iter().enumerate() {
        let problems = label_key(key).join("; ");
        if !problems.is_empty() {
            let text = format!("Invalid value: {key:?}: {problems}");
            node.findings.error(format!("{}.keys[{i}]", node.path), text);
        }
    }
    let mut labels = RequiredLabels::new(keys);
    if let Some(namespaces) = fields.get("exemptNamespaces") {
        labels.exempt_namespaces = namespaces.strings();
    }
    fields.finish();
    Some(LabelConvention { action: action.unwrap_or(Action::Reject), labels })
}

fn read_blast_radius(node: &Node<'_>) -> Option<BlastRadiusLimit> {
    let mut fields = node.fields()?;
    let measure = fields.get("measure").and_then(|node| one_of(&node, MEASURES));
    let limit = BlastRadiusLimit {
        measure: measure.unwrap_or(Measure::Largest),
        nodes: number(&mut fields, "nodes"),
        pods: number(&mut fields, "pods"),
    };
    if limit.nodes.is_none() && limit.pods.is_none() {
        node.error("Required value: nodes or pods");
    }
    fields.finish();
    Some(limit)
}

fn read_budget(node: &Node<'_>) -> Option<Budget> {
    let mut fields = node.fields()?;
    let namespaces = fields.get("namespaces").map(|node| node.strings()).unwrap_or_default();
    let action = fields.get("action").and_then(|node| one_of(&node, &ACTIONS[..2]));
    let blast_radius = fields.get("blastRadius").and_then(|node| read_blast_radius(&node));
    let preferred_blast_radius = fields.get("preferredBlastRadius").and_then(|node| read_blast_radius(&node));
    let exclusive_nodes = fields.get("exclusiveNodes").and_then(|node| {
        let mut fields = node.fields()?;
        let charge = fields.get("charge").and_then(|node| one_of(&node, MEASURES));
        let limit = ExclusiveNodesLimit {
            charge: charge.unwrap_or(Measure::Largest),
            nodes: number(&mut fields, "nodes"),
            cpu: quantity(&mut fields, "cpu"),
            memory: quantity(&mut fields, "memory"),
        };
        if limit.nodes.is_none() && limit.cpu.is_none() && limit.memory.is_none() {
            node.error("Required value: nodes, cpu or memory");
        }
        fields.finish();
        Some(limit)
    });
    if blast_radius.is_none() && preferred_blast_radius.is_none() && exclusive_nodes.is_none() {
        node.error("Required value: blastRadius, preferredBlastRadius or exclusiveNodes");
    }
    fields.finish();
    let action = action.unwrap_or(Action::Reject);
    Some(Budget { namespaces, action, blast_radius, preferred_blast_radius, exclusive_nodes })
}

fn set_bool(fields: &mut Fields<'_>, name: &'static str, flag: &mut bool) {
    if let Some(read) = fields.get(name).and_then(|node| node.bool()) {
        *flag = read;
    }
}

fn one_of<T: Copy>(node: &Node<'_>, known: &[(&str, T)]) -> Option<T> {
    let text = node.string()?;
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    if found.is_none() {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        node.error(format!("Unsupported value: {text:?}: {}", suggestion(text, &names)));
    }
    found
}

fn number(fields: &mut Fields<'_>, name: &'static str) -> Option<u64> {
    let node = fields.get(name)?;
    let number = u64::try_from(node.int64()?).ok();
    if number.is_none() {
        node.invalid("must not be negative");
    }
    number
}

fn quantity(fields: &mut Fields<'_>, name: &'static str) -> Option<Quantity> {
    let node = fields.get(name)?;
    let text = match node.value {
        Value::Number(number) => number.to_string(),
        _ => node.string()?.to_owned(),
    };
    match Quantity::parse(&text) {
        Ok(quantity) if !quantity.is_negative() => Some(quantity),
        Ok(_) => {
            node.invalid("must not be negative");
            None
        }
        Err(error) => {
            node.invalid(&error.to_string());
            None
        }
    }
}

/// `500ms`, `10s`, `2m`.
fn read_duration(node: &Node<'_>) -> Option<Duration> {
    let text = node.string()?;
    let units = [("ms", 1), ("s", 1000), ("m", 60_000)];
    let millis = units.iter().find_map(|(unit, millis)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*millis)
    });
    let duration = millis.map(Duration::from_millis).filter(|d| *d <= LONGEST);
    if duration.is_none() {
        node.invalid("must be a duration such as \"500ms\", \"10s\" or \"2m\", at most 10m");
    }
    duration
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(more: Value) -> Value {
        let mut file = json!({"apiVersion": API_VERSION, "kind": KIND});
        for (key, value) in more.as_object().unwrap() {
            file[key] = value.clone();
        }
        file
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Policy::from_value(&file(json!({}))).unwrap(), Policy::default());
    }

    #[test]
    fn everything_can_be_said() {
        let policy = Policy::from_value(&file(json!({
            "metadata": {"name": "policy"},
            "exemptNamespaces": ["daemons"], "exemptFromV1": true, "allTopologies": ["rack"], "validateAnnotation": false,
            "dialectWarnings": false, "allNamespacesAntiAffinity": "Warn",
            "limitPodHardAntiAffinityTopology": true, "workloadWarnings": false, "mergeMatchLabelKeys": false,
            "nodeRestriction": false, "placementQuotas": true, "daemonNamespaces": ["monitoring"],
            "requiredLabels": {"action": "Warn", "keys": ["team"], "exemptNamespaces": []},
            "bindingGuard": {"enabled": true, "rules": ["InterPodAffinity"], "ledgerNamespace": "berth",
                "holdFor": "5s", "waitFor": "100ms"},
            "ruleLimits": {"action": "Reject", "maxRuleEntries": 50, "maxTaints": 7},
            "budgets": [
                {"namespaces": ["a"], "action": "Warn", "blastRadius": {"measure": "Average", "nodes": 3, "pods": 0},
                    "preferredBlastRadius": {"pods": 9}},
                {"exclusiveNodes": {"charge": "Actual", "nodes": 2, "cpu": 64, "memory": "1Gi"}}
            ]
        })))
        .unwrap();
        let a = policy.budget("a").unwrap();
        let limit = BlastRadiusLimit { measure: Measure::Average, nodes: Some(3), pods: Some(0) };
        assert_eq!((a.action, a.blast_radius.as_ref()), (Action::Warn, Some(&limit)));
        let limit = BlastRadiusLimit { measure: Measure::Largest, nodes: None, pods: Some(9) };
        assert_eq!(a.preferred_blast_radius.as_ref(), Some(&limit));
        let labels = RequiredLabels { keys: vec!["team".to_owned()], exempt_namespaces: Vec::new() };
        assert_eq!(policy.required_labels, Some(LabelConvention { action: Action::Warn, labels }));
        let other = policy.budget("b").unwrap();
        assert_eq!(other.action, Action::Reject);
        assert_eq!(other.exclusive_nodes.as_ref().unwrap().cpu, Some(Quantity::from_units(64)));
        let guard = policy.binding_guard.as_ref().unwrap();
        assert_eq!(guard.ledger_namespace.as_deref(), Some("berth"));
        assert_eq!((guard.hold_for, guard.wait_for), (Duration::from_secs(5), Duration::from_millis(100)));
        let limits = policy.rule_limits;
        assert_eq!((limits.action, limits.pod.max_entries, limits.max_taints), (Action::Reject, 50, 7));
        assert!(
            policy.needs_state()
                && policy.all_topologies == ["rack"]
                && policy.exempt_from_v1
                && policy.placement_quotas
                && policy.changes_pods()
                && !policy.node_restriction
        );
    }

    #[test]
    fn every_mistake_is_told_with_its_path() {
        let wrong = file(json!({
            "kind": "Policy", "nodeRestrictions": true, "exemptFromV1": "yes", "allTopologies": [],
            "allNamespacesAntiAffinity": "reject", "requiredLabels": {"action": "Warn"},
            "bindingGuard": {"enabled": true, "rules": ["NodeAfinity"], "holdFor": "1h"},
            "budgets": [
                {"namespaces": ["a"], "blastRadius": {"nodes": -1}},
                {"namespaces": ["a"], "action": "Allow", "exclusiveNodes": {"cpu": "many"}},
                {"blastRadius": {}}, {}
            ]
        }));
        let errors = Policy::from_value(&wrong).unwrap_err().to_string();
        for expected in [
            "kind: Invalid value: \"Policy\": must be \"AdmissionPolicy\"",
            "nodeRestrictions: unknown field; did you mean \"nodeRestriction\"?",
            "exemptFromV1: must be true or false, not a string",
            "allTopologies: Invalid value: []: must be 1 to 6 label keys",
            "allNamespacesAntiAffinity: Unsupported value: \"reject\": did you mean \"Reject\"?",
            "bindingGuard.rules[0]: Unsupported value: \"NodeAfinity\": did you mean \"NodeAffinity\"?",
            "bindingGuard.holdFor: Invalid value: \"1h\": must be a duration such as",
            "budgets[0].blastRadius.nodes: Invalid value: -1: must not be negative",
            "budgets[1]: Duplicate value: \"a\" has a budget already",
            "budgets[1].action: Unsupported value: \"Allow\": known here: Reject, Warn",
            "budgets[1].exclusiveNodes.cpu: Invalid value: \"many\": ",
            "budgets[2].blastRadius: Required value: nodes or pods",
            "requiredLabels: Required value: keys",
            "budgets[3]: Required value: blastRadius, preferredBlastRadius or exclusiveNodes",
            "budgets[3]: Duplicate value: another budget without namespaces is there already",
        ] {
            assert!(errors.lines().any(|line| line.starts_with(expected)), "{expected}\n---\n{errors}");
        }
    }
}
