//! Rules of roles, as they are written.

use std::fmt;

use serde_json::Value;

/// A rule of a role. `*` in a list matches every value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyRule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    /// Plurals, with `/SUBRESOURCE` for a subresource.
    pub resources: Vec<String>,
    /// Names of objects; all if there are none.
    pub resource_names: Vec<String>,
    /// Non-resource URLs; a trailing `*` matches any suffix.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// The rules of a role, as it is stored.
    pub fn list(rules: &Value) -> Vec<PolicyRule> {
        let texts = |rule: &Value, field: &str| -> Vec<String> {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let rule = |rule: &Value| PolicyRule {
            verbs: texts(rule, "verbs"),
            api_groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            resource_names: texts(rule, "resourceNames"),
            non_resource_urls: texts(rule, "nonResourceURLs"),
        };
        rules.as_array().into_iter().flatten().map(rule).collect()
    }
}

/// As kube-apiserver prints a rule.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.resource_names),
            ("NonResourceURLs", &self.non_resource_urls),
            ("Verbs", &self.verbs),
        ];
        let said = lists.iter().filter(|(_, list)| !list.is_empty());
        let said: Vec<String> = said.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
        write!(f, "{{{}}}", said.join(", "))
    }
}

/// Texts in Go's format of a quoted list: `["a" "b"]`.
pub fn quoted(texts: &[String]) -> String {
    let each: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", each.join(" "))
}
