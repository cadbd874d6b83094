//! Kinds without rules of their own: their types, and tables of defaults and of what validation requires.

use berth_api::syntax;
use berth_schema::resource::*;
use berth_schema::{Scalar, Struct, Type, type_of};
use serde_json::Value;

use crate::strategy::fields::{Causes, is_empty, text};
use crate::strategy::metadata::name;
use crate::strategy::{Context, Strategy};

pub struct Typed(pub &'static Resource);

/// Definition (without `io.k8s.`), field, and the JSON of its default.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("api.admissionregistration.v1.MatchResources", "matchPolicy", r#""Equivalent""#),
    ("api.admissionregistration.v1.MatchResources", "namespaceSelector", "{}"),
    ("api.admissionregistration.v1.MatchResources", "objectSelector", "{}"),
    ("api.admissionregistration.v1.MutatingAdmissionPolicySpec", "failurePolicy", r#""Fail""#),
    ("api.admissionregistration.v1.NamedRuleWithOperations", "scope", r#""*""#),
    ("api.admissionregistration.v1.ValidatingAdmissionPolicySpec", "failurePolicy", r#""Fail""#),
    ("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas", "1"),
    ("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "metrics", CPU_METRIC),
    ("api.core.v1.EndpointPort", "protocol", r#""TCP""#),
    ("api.discovery.v1.EndpointPort", "name", r#""""#),
    ("api.discovery.v1.EndpointPort", "protocol", r#""TCP""#),
    ("api.flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence", "1000"),
    ("api.flowcontrol.v1.LimitedPriorityLevelConfiguration", "lendablePercent", "0"),
    ("api.flowcontrol.v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares", "30"),
    ("api.flowcontrol.v1.QueuingConfiguration", "handSize", "8"),
    ("api.flowcontrol.v1.QueuingConfiguration", "queueLengthLimit", "50"),
    ("api.flowcontrol.v1.QueuingConfiguration", "queues", "64"),
    ("api.networking.v1.IngressClassParametersReference", "scope", r#""Cluster""#),
    ("api.networking.v1.NetworkPolicyPort", "protocol", r#""TCP""#),
    ("api.resource.v1.DeviceSubRequest", "allocationMode", r#""ExactCount""#),
    ("api.resource.v1.DeviceToleration", "operator", r#""Equal""#),
    ("api.resource.v1.ExactDeviceRequest", "allocationMode", r#""ExactCount""#),
    ("kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference", "port", "443"),
];

const CPU_METRIC: &str = r#"[{"type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]"#;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const POLICIES: &[&str] = &["Fail", "Ignore"];

/// Definition (without `io.k8s.`), field, and its values; of a list, those of each item.
const ENUMS: &[(&str, &str, &[&str])] = &[
    ("api.admissionregistration.v1.MatchResources", "matchPolicy", &["Equivalent", "Exact"]),
    ("api.admissionregistration.v1.MutatingAdmissionPolicySpec", "failurePolicy", POLICIES),
    (
        "api.admissionregistration.v1.MutatingAdmissionPolicySpec",
        "reinvocationPolicy",
        &["IfNeeded", "Never"],
    ),
    ("api.admissionregistration.v1.Mutation", "patchType", &["ApplyConfiguration", "JSONPatch"]),
    (
        "api.admissionregistration.v1.NamedRuleWithOperations",
        "operations",
        &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"],
    ),
    ("api.admissionregistration.v1.NamedRuleWithOperations", "scope", &["*", "Cluster", "Namespaced"]),
    ("api.admissionregistration.v1.ParamRef", "parameterNotFoundAction", &["Allow", "Deny"]),
    (
        "api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec",
        "validationActions",
        &["Audit", "Deny", "Warn"],
    ),
    ("api.admissionregistration.v1.ValidatingAdmissionPolicySpec", "failurePolicy", POLICIES),
    ("api.autoscaling.v2.HPAScalingPolicy", "type", &["Percent", "Pods"]),
    ("api.autoscaling.v2.HPAScalingRules", "selectPolicy", &["Disabled", "Max", "Min"]),
    (
        "api.autoscaling.v2.MetricSpec",
        "type",
        &["ContainerResource", "External", "Object", "Pods", "Resource"],
    ),
    ("api.autoscaling.v2.MetricTarget", "type", &["AverageValue", "Utilization", "Value"]),
    ("api.core.v1.EndpointPort", "protocol", PROTOCOLS),
    ("api.discovery.v1.EndpointPort", "protocol", PROTOCOLS),
    ("api.discovery.v1.EndpointSlice", "addressType", &["FQDN", "IPv4", "IPv6"]),
    ("api.flowcontrol.v1.FlowDistinguisherMethod", "type", &["ByNamespace", "ByUser"]),
    ("api.flowcontrol.v1.LimitResponse", "type", &["Queue", "Reject"]),
    ("api.flowcontrol.v1.PriorityLevelConfigurationSpec", "type", &["Exempt", "Limited"]),
    ("api.flowcontrol.v1.Subject", "kind", &["Group", "ServiceAccount", "User"]),
    ("api.networking.v1.HTTPIngressPath", "pathType", &["Exact", "ImplementationSpecific", "Prefix"]),
    ("api.networking.v1.IngressClassParametersReference", "scope", &["Cluster", "Namespace"]),
    ("api.networking.v1.NetworkPolicyPort", "protocol", PROTOCOLS),
    ("api.networking.v1.NetworkPolicySpec", "policyTypes", &["Egress", "Ingress"]),
    ("api.resource.v1.DeviceSubRequest", "allocationMode", &["All", "ExactCount"]),
    ("api.resource.v1.DeviceTaint", "effect", &["NoExecute", "NoSchedule", "None"]),
    ("api.resource.v1.DeviceToleration", "operator", &["Equal", "Exists"]),
    ("api.resource.v1.ExactDeviceRequest", "allocationMode", &["All", "ExactCount"]),
    (
        "apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement",
        "operator",
        &["DoesNotExist", "Exists", "In", "NotIn"],
    ),
];

/// Lists that need at least one item: definition (without `io.k8s.`) and field.
const NOT_EMPTY: &[(&str, &str)] = &[
    ("api.admissionregistration.v1.MutatingAdmissionPolicySpec", "mutations"),
    ("api.admissionregistration.v1.NamedRuleWithOperations", "apiGroups"),
    ("api.admissionregistration.v1.NamedRuleWithOperations", "apiVersions"),
    ("api.admissionregistration.v1.NamedRuleWithOperations", "operations"),
    ("api.admissionregistration.v1.NamedRuleWithOperations", "resources"),
    ("api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec", "validationActions"),
    ("api.discovery.v1.Endpoint", "addresses"),
    ("api.networking.v1.HTTPIngressRuleValue", "paths"),
    ("api.networking.v1.ServiceCIDRSpec", "cidrs"),
];

/// What an update may not change: the kind and a JSON pointer.
const IMMUTABLE: &[(&str, &str)] = &[
    ("EndpointSlice", "/addressType"),
    ("IngressClass", "/spec/controller"),
    ("IPAddress", "/spec"),
    ("PodGroup", "/spec"),
    ("ResourceClaim", "/spec"),
    ("ResourceClaimTemplate", "/spec"),
    ("RuntimeClass", "/handler"),
    ("Workload", "/spec/podGroupTemplates"),
    ("VolumeAttributesClass", "/driverName"),
    ("VolumeAttributesClass", "/parameters"),
];

impl Typed {
    fn type_of(&self) -> Option<&'static Type> {
        type_of(self.0.group, self.0.version, self.0.kind)
    }
}

impl Strategy for Typed {
    fn default(&self, value: &mut Value) {
        if let Some(ty) = self.type_of() {
            set_defaults(ty, value);
        }
        if *self.0 == NETWORK_POLICIES && is_empty(&value["spec"]["policyTypes"]) && value["spec"].is_object()
        {
            let has_egress = !is_empty(&value["spec"]["egress"]);
            let types = ["Ingress", "Egress"].into_iter().take(1 + usize::from(has_egress));
            value["spec"]["policyTypes"] = types.collect();
        }
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        if *self.0 == IP_ADDRESSES {
            let is_canonical = name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_string() == name);
            let problem = "must be a valid IP address in canonical form";
            return if is_canonical { Vec::new() } else { vec![problem.to_owned()] };
        }
        syntax::dns_subdomain(name)
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        if let Some(ty) = self.type_of() {
            check(ty, value, &mut String::new(), causes);
        }
        let spec = &value["spec"];
        if *self.0 == HORIZONTAL_POD_AUTOSCALERS {
            let (least, most) = (spec["minReplicas"].as_i64().unwrap_or(1), spec["maxReplicas"].as_i64());
            if most.is_some_and(|most| most < 1) {
                causes.invalid("spec.maxReplicas", &spec["maxReplicas"], "must be greater than 0");
            } else if most.is_some_and(|most| most < least) {
                let why = "must be greater than or equal to `minReplicas`";
                causes.invalid("spec.maxReplicas", &spec["maxReplicas"], why);
            }
        } else if *self.0 == INGRESSES && is_empty(&spec["rules"]) && is_empty(&spec["defaultBackend"]) {
            causes.invalid("spec", spec, "either `defaultBackend` or `rules` must be specified");
        } else if *self.0 == API_SERVICES {
            let expected = format!("{}.{}", text(spec, "/version"), text(spec, "/group"));
            if name(value) != expected.trim_end_matches('.') {
                let why = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
                causes.invalid("metadata.name", &value["metadata"]["name"], &why);
            }
        }
    }

    fn warnings(&self, _value: &Value) -> Vec<String> {
        let is_policy = self.0.kind.contains("AdmissionPolicy");
        let warning = format!("this API server stores {} and does not evaluate them", self.0.plural);
        is_policy.then_some(warning).into_iter().collect()
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        for (_, pointer) in IMMUTABLE.iter().filter(|(kind, _)| *kind == self.0.kind) {
            let (new, old) = (new.pointer(pointer), old.pointer(pointer));
            if new != old {
                causes.immutable(&pointer[1..].replace('/', "."), new.unwrap_or(&Value::Null));
            }
        }
    }
}

fn definition(of: &Struct) -> &str {
    of.name.strip_prefix("io.k8s.").unwrap_or(&of.name)
}

fn set_defaults(ty: &'static Type, value: &mut Value) {
    match (ty, value) {
        (Type::Struct(of), Value::Object(fields)) => {
            for (_, field, json) in DEFAULTS.iter().filter(|(of_type, ..)| *of_type == definition(of)) {
                let value = fields.entry(*field).or_insert(Value::Null);
                if is_empty(value) {
                    *value = serde_json::from_str(json).unwrap_or_default();
                }
            }
            for (name, value) in fields.iter_mut().filter(|(name, _)| *name != "metadata") {
                if let Some(field) = of.field(name) {
                    set_defaults(field.ty(), value);
                }
            }
        }
        (Type::List { items, .. }, Value::Array(list)) => {
            list.iter_mut().for_each(|item| set_defaults(items.get(), item));
        }
        (Type::Map { values, .. }, Value::Object(entries)) => {
            entries.values_mut().for_each(|value| set_defaults(values.get(), value));
        }
        _ => {}
    }
}

/// Checks a value at a path. A required text must not be empty; a required object counts as empty if it is absent, as
/// it does for kube-apiserver's decoder.
fn check(ty: &'static Type, value: &Value, path: &mut String, causes: &mut Causes) {
    let length = path.len();
    match (ty, value) {
        (Type::Struct(of), _) => {
            let mut fields: Vec<_> = of.fields().filter(|(name, _)| !is_type_meta(path, name)).collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            for (name, field) in fields {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                let value = &value[name];
                let is_text = matches!(field.ty(), Type::Scalar(Scalar::String | Scalar::Bytes));
                let is_scalar = matches!(field.ty(), Type::Scalar(_));
                if field.required && is_scalar && (value.is_null() || (is_text && is_empty(value)))
                    || (is_empty(value) && NOT_EMPTY.contains(&(definition(of), name)))
                {
                    causes.required(path, "");
                } else if field.required || !value.is_null() {
                    check_values(definition(of), name, value, path, causes);
                    check(field.ty(), value, path, causes);
                }
                path.truncate(length);
            }
        }
        (Type::List { items, .. }, Value::Array(list)) => {
            for (index, item) in list.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                check(items.get(), item, path, causes);
                path.truncate(length);
            }
        }
        (Type::Map { values, .. }, Value::Object(entries)) => {
            for (key, value) in entries {
                path.push_str(&format!("[{key}]"));
                check(values.get(), value, path, causes);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Metadata is validated elsewhere, status by its own subresource.
fn is_type_meta(path: &str, name: &str) -> bool {
    path.is_empty() && ["apiVersion", "kind", "metadata", "status"].contains(&name)
}

fn check_values(definition: &str, name: &str, value: &Value, path: &str, causes: &mut Causes) {
    let Some((.., allowed)) = ENUMS.iter().find(|row| (row.0, row.1) == (definition, name)) else { return };
    let mut check = |path: &str, value: &Value| {
        if !value.is_null() && !allowed.contains(&value.as_str().unwrap_or_default()) {
            causes.not_supported(path, value, allowed);
        }
    };
    match value {
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, item)| check(&format!("{path}[{i}]"), item));
        }
        value => check(path, value),
    }
}
