//! FlowSchemas and PriorityLevelConfigurations.

use berth_api::syntax;
use berth_schema::resource::{FLOW_SCHEMAS, PRIORITY_LEVEL_CONFIGURATIONS};

use crate::kinds::prelude::*;
use crate::strategy::field_rules::Rule::{Check, Each, Name, Part, Required};
use crate::strategy::field_rules::*;

pub static FLOW_SCHEMA: Typed = Typed {
    complete: |value| replace_zeros(&mut value["spec"], &[("matchingPrecedence", 1000)]),
    spec: &[
        ("distinguisherMethod", &[Check(validate_method)]),
        (
            "priorityLevelConfiguration",
            &[Part(&[("name", &[Required("must reference a priority level"), Name(syntax::dns_subdomain)])])],
        ),
        ("rules", &[Each(&[Check(validate_rule)])]),
    ],
    check: |value, causes| {
        let (path, precedence) = ("spec.matchingPrecedence", &value["spec"]["matchingPrecedence"]);
        match precedence.as_i64().unwrap_or(0) {
            ..=0 => causes.invalid(path, precedence, "must be a positive value"),
            1 if name(value) != "exempt" => {
                causes.invalid(
                    path,
                    precedence,
                    "only the schema named 'exempt' may have matchingPrecedence 1",
                );
            }
            10_001.. => causes.invalid(path, precedence, "must not be greater than 10000"),
            _ => {}
        }
    },
    ..Typed::new(&FLOW_SCHEMAS)
};

fn replace_zeros(object: &mut Value, defaults: &[(&str, i64)]) {
    let Some(fields) = object.as_object_mut() else { return };
    for (field, number) in defaults {
        if fields.get(*field).and_then(Value::as_i64).unwrap_or(0) == 0 {
            fields.insert((*field).to_owned(), (*number).into());
        }
    }
}

fn validate_method(method: &Value, path: &str, causes: &mut Causes) {
    let (ty, all) = (text(method, "/type"), ["ByNamespace", "ByUser"]);
    if !all.contains(&ty) {
        causes.not_supported(&format!("{path}.type"), &json!({"Type": ty}), &all);
    }
}

/// What each kind of subject has, with its rules.
const SUBJECTS: [(&str, &str, Fields); 3] = [
    ("Group", "group", NAMED),
    (
        "ServiceAccount",
        "serviceAccount",
        &[
            ("name", &[REQUIRED, Name(account_name)]),
            ("namespace", &[Required("must specify namespace for service account"), Name(syntax::dns_label)]),
        ],
    ),
    ("User", "user", NAMED),
];
const NAMED: Fields = &[("name", &[REQUIRED])];

fn account_name(name: &str) -> Vec<String> {
    if name == "*" { Vec::new() } else { syntax::dns_subdomain(name) }
}

fn validate_rule(rule: &Value, path: &str, causes: &mut Causes) {
    let subjects = [Required("subjects must contain at least one value"), Each(&[Check(validate_subject)])];
    check(&rule["subjects"], &format!("{path}.subjects"), &subjects, causes);
    if is_empty(&rule["resourceRules"]) && is_empty(&rule["nonResourceRules"]) {
        causes.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    let each = |field: &str| items(rule, field).iter().enumerate();
    for (i, rule) in each("resourceRules") {
        let path = format!("{path}.resourceRules[{i}]");
        validate_verbs(rule, &path, causes);
        let (groups, resources) = (
            "resource rules must supply at least one api group",
            "resource rules must supply at least one resource",
        );
        validate_names(rule, &path, ("apiGroups", "api groups"), groups, causes);
        validate_names(rule, &path, ("resources", "resources"), resources, causes);
        let none = if rule["clusterScope"] == true {
            ""
        } else {
            "resource rules that are not cluster scoped must supply at least one namespace"
        };
        for (i, namespace) in
            validate_names(rule, &path, ("namespaces", "namespaces"), none, causes).iter().enumerate()
        {
            let namespace = text(namespace, "");
            let why =
                |problem| format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
            let problems = syntax::dns_label(namespace).into_iter().map(why).collect();
            causes.problems(&format!("{path}.namespaces[{i}]"), &namespace.into(), problems);
        }
    }
    for (i, rule) in each("nonResourceRules") {
        let path = format!("{path}.nonResourceRules[{i}]");
        validate_verbs(rule, &path, causes);
        let none = "nonResourceURLs must contain at least one value";
        for (i, url) in validate_names(rule, &path, ("nonResourceURLs", "non-resource URLs"), none, causes)
            .iter()
            .enumerate()
        {
            let url = text(url, "");
            causes.problems(&format!("{path}.nonResourceURLs[{i}]"), &url.into(), url_path(url));
        }
    }
}

fn validate_subject(subject: &Value, path: &str, causes: &mut Causes) {
    let kind = text(subject, "/kind");
    let Some((_, field, fields)) = SUBJECTS.iter().find(|(name, ..)| *name == kind) else {
        return causes.not_supported(&format!("{path}.kind"), &kind.into(), &SUBJECTS.map(|(name, ..)| name));
    };
    if subject[field].is_null() {
        causes.required(
            &format!("{path}.{field}"),
            &format!("{field} is required when subject kind is '{kind}'"),
        );
    } else {
        apply(&subject[field], &format!("{path}.{field}"), fields, causes);
    }
    for other in ["serviceAccount", "user", "group"]
        .iter()
        .filter(|other| *other != field && !subject[other].is_null())
    {
        let kind = SUBJECTS.iter().find(|(_, field, _)| field == other).map_or("", |(name, ..)| name);
        causes.forbidden(
            &format!("{path}.{other}"),
            &format!("{other} is forbidden when subject kind is not '{kind}'"),
        );
    }
}

/// Names of which `*` is the only one if it is there. Returns those that are to be validated each.
fn validate_names<'v>(
    rule: &'v Value,
    path: &str,
    (field, what): (&str, &str),
    if_none: &str,
    causes: &mut Causes,
) -> &'v [Value] {
    let (path, names) = (format!("{path}.{field}"), items(rule, field));
    if names.is_empty() && !if_none.is_empty() {
        causes.required(&path, if_none);
    }
    if !names.iter().any(|name| name == "*") {
        return names;
    }
    if names.len() > 1 {
        causes.invalid(&path, &rule[field], &format!("if '*' is present, must not specify other {what}"));
    }
    &[]
}

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn validate_verbs(rule: &Value, path: &str, causes: &mut Causes) {
    let verbs =
        validate_names(rule, path, ("verbs", "verbs"), "verbs must contain at least one value", causes);
    if verbs.iter().any(|verb| !VERBS.contains(&text(verb, ""))) {
        let shown: Value = verbs.iter().map(|verb| text(verb, "")).collect();
        causes.not_supported(&format!("{path}.verbs"), &shown, &VERBS);
    }
}

fn url_path(path: &str) -> Vec<String> {
    let why = match path {
        "/" => return Vec::new(),
        "" => "must not be empty",
        _ if !path.starts_with('/') => "must start with slash",
        _ if path.contains(' ') => "must not contain white-space",
        _ if path.contains("//") => "must not contain double slash",
        _ if path.strip_suffix("/*").unwrap_or(path).contains('*') => "wildcard can only do suffix matching",
        _ => return Vec::new(),
    };
    vec![why.to_owned()]
}

pub static PRIORITY_LEVEL: Typed = Typed {
    defaults: &[
        ("LimitedPriorityLevelConfiguration", "lendablePercent", "0"),
        ("LimitedPriorityLevelConfiguration", "nominalConcurrencyShares", "30"),
    ],
    complete: |value| {
        if let Some(queuing) = value.pointer_mut("/spec/limited/limitResponse/queuing") {
            replace_zeros(queuing, &[("handSize", 8), ("queueLengthLimit", 50), ("queues", 64)]);
        }
    },
    check: |value, causes| {
        let spec = &value["spec"];
        if (name(value) == "exempt") != (spec["type"] == "Exempt") {
            let why = "must be 'Exempt' if and only if `name` is 'exempt'";
            causes.invalid("spec.type", &text(spec, "/type").into(), why);
        }
        if validate_union(spec, "spec", [("Exempt", "exempt"), ("Limited", "limited")], causes) {
            for member in ["limited", "exempt"].into_iter().filter(|member| !spec[member].is_null()) {
                validate_limits(&spec[member], &format!("spec.{member}"), causes);
            }
        }
    },
    spec: BY_CHECK,
    ..Typed::new(&PRIORITY_LEVEL_CONFIGURATIONS)
};

/// Validates a `type` with the members that go with its values. Whether the type is one of them, and its member is there.
fn validate_union(value: &Value, path: &str, members: [(&str, &str); 2], causes: &mut Causes) -> bool {
    let (ty, of_type) = (text(value, "/type"), format!("{path}.type"));
    let types = members.map(|(ty, _)| ty);
    if !ty.is_empty() {
        causes.one_of(&of_type, &value["type"], &types);
    }
    let mut is_complete = types.contains(&ty);
    for (member_type, member) in members {
        let path = format!("{path}.{member}");
        if ty != member_type && !value[member].is_null() {
            causes.push(CauseType::FieldValueForbidden, &path, "Forbidden".to_owned());
        } else if ty == member_type && !["exempt", ""].contains(&member) && value[member].is_null() {
            causes.required(&path, "");
            is_complete = false;
        }
    }
    if ty.is_empty() {
        causes.required(&of_type, "");
    }
    is_complete
}

fn validate_limits(limits: &Value, path: &str, causes: &mut Causes) {
    let number = |field: &str| limits[field].as_i64();
    let mut invalid =
        |field: &str, why: &str| causes.invalid(&format!("{path}.{field}"), &limits[field], why);
    if number("nominalConcurrencyShares").is_some_and(|shares| shares < 0) {
        invalid("nominalConcurrencyShares", "must be a non-negative integer");
    }
    if number("lendablePercent").is_some_and(|percent| !(0..=100).contains(&percent)) {
        invalid("lendablePercent", "must be between 0 and 100, inclusive");
    }
    if number("borrowingLimitPercent").is_some_and(|percent| percent < 0) {
        invalid("borrowingLimitPercent", "if specified, must be a non-negative integer");
    }
    if path.ends_with(".exempt") {
        return;
    }
    let path = format!("{path}.limitResponse");
    if validate_union(&limits["limitResponse"], &path, [("Queue", "queuing"), ("Reject", "")], causes) {
        let queuing = &limits["limitResponse"]["queuing"];
        if !queuing.is_null() {
            validate_queuing(queuing, &format!("{path}.queuing"), causes);
        }
    }
}

/// As many bits as the hash of a request has for its queues.
const MAX_HASH_BITS: u32 = 60;

fn validate_queuing(queuing: &Value, path: &str, causes: &mut Causes) {
    let number = |field: &str| queuing[field].as_i64().unwrap_or(0);
    let mut invalid =
        |field: &str, why: &str| causes.invalid(&format!("{path}.{field}"), &queuing[field], why);
    let (queues, hand) = (number("queues"), number("handSize"));
    if number("queueLengthLimit") <= 0 {
        invalid("queueLengthLimit", "must be positive");
    }
    match queues {
        ..=0 => invalid("queues", "must be positive"),
        10_000_001.. => invalid("queues", "must not be greater than 10000000"),
        _ => {}
    }
    let n_bits = ((queues as f64).log2() * hand as f64).ceil();
    if hand <= 0 {
        invalid("handSize", "must be positive");
    } else if hand > queues {
        invalid("handSize", &format!("should not be greater than queues ({queues})"));
    } else if n_bits > f64::from(MAX_HASH_BITS) {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_HASH_BITS}"
        );
        invalid("handSize", &why);
    }
}

pub const FLOW_SCHEMA_COLUMNS: &[Column] = &[
    NAME,
    Column::field(
        "PriorityLevel",
        "The priority level of matching requests.",
        "/spec/priorityLevelConfiguration/name",
    )
    .or(NONE),
    Column::number(
        "MatchingPrecedence",
        "The lowest number of matching schemas counts.",
        "/spec/matchingPrecedence",
    ),
    Column::field("DistinguisherMethod", "How flows are distinguished.", "/spec/distinguisherMethod/type")
        .or(NONE),
    AGE,
    Column::text("MissingPL", "Whether the priority level is missing.", |row| {
        row.condition("Dangling").unwrap_or("?").into()
    }),
];

pub const PRIORITY_LEVEL_COLUMNS: &[Column] = &[
    NAME,
    Column::field("Type", "Whether requests are limited.", "/spec/type").or(NONE),
    Column::text("NominalConcurrencyShares", "Its share of the concurrency.", |row| {
        let shares = |part: &str| row.at(&format!("/spec/{part}/nominalConcurrencyShares"));
        shares("limited").or_else(|| shares("exempt")).cloned().unwrap_or_else(|| NONE.into())
    }),
    Column::text("Queues", "How many queues there are.", |row| queuing(row, "queues")),
    Column::text("HandSize", "How many queues a flow may use.", |row| queuing(row, "handSize")),
    Column::text("QueueLengthLimit", "How many requests may wait in a queue.", |row| {
        queuing(row, "queueLengthLimit")
    }),
    AGE,
];

fn queuing(row: &Row<'_>, field: &str) -> Value {
    let value = row.at("/spec/limited/limitResponse/queuing").and_then(|queuing| queuing.get(field));
    value.filter(|value| !value.is_null()).cloned().unwrap_or_else(|| NONE.into())
}
