//! The claims of devices of a pod, and the names by which its containers refer to them.

use std::collections::{BTreeSet, HashSet};

use super::super::field::{BadValue, Errors, Path};
use berth_api::object::{ObjectMeta, PodResourceClaim, PodSpec, ResourceRequirements};
use berth_api::syntax;

pub(super) fn validate_resource_claims(
    metadata: &ObjectMeta,
    claims: &[PodResourceClaim],
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let mut names = HashSet::new();
    for (i, claim) in claims.iter().enumerate() {
        let path = path.index(i);
        let PodResourceClaim { name, resource_claim_name, resource_claim_template_name } = claim;
        let name_path = path.child("name");
        let problems = syntax::dns_label(name);
        if name.is_empty() {
            errors.required(&name_path, "");
        } else if !names.insert(name) {
            errors.duplicate(&name_path, name);
        } else if !problems.is_empty() {
            errors.invalid_each(&name_path, name, problems);
        } else if resource_claim_template_name.is_some() {
            let claim_name = format!("{}-{name}", metadata.name);
            for problem in syntax::dns_subdomain(&claim_name) {
                errors.invalid(&name_path, &claim_name, format!("final ResourceClaim name: {problem}"));
            }
        }
        let sources = [
            ("resourceClaimName", resource_claim_name),
            ("resourceClaimTemplateName", resource_claim_template_name),
        ];
        let why = match sources.iter().filter(|(_, source)| source.is_some()).count() {
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            1 => "",
            _ => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        };
        if !why.is_empty() {
            let shown = serde_json::json!({"Name": name, "ResourceClaimName": resource_claim_name,
                "ResourceClaimTemplateName": resource_claim_template_name});
            errors.invalid(&path, BadValue::Json(&shown.to_string()), why);
        }
        for (field, source) in sources {
            if let Some(source) = source {
                errors.invalid_each(&path.child(field), source, syntax::dns_subdomain(source));
            }
        }
    }
}

/// The claims of the pod, by name.
fn names(spec: &PodSpec) -> BTreeSet<&str> {
    spec.resource_claims.iter().map(|claim| claim.name.as_str()).collect()
}

pub(super) fn validate_container_claims(spec: &PodSpec, path: &Path<'_>, errors: &mut Errors) {
    let names = names(spec);
    let lists = [("containers", &spec.containers), ("initContainers", &spec.init_containers)];
    for (list, containers) in lists {
        let list = path.child(list);
        for (i, container) in containers.iter().enumerate() {
            let container_path = list.index(i);
            let resources = container_path.child("resources");
            validate_references(&container.resources, &names, &resources.child("claims"), errors);
        }
    }
}

/// Claims are a matter of containers.
pub(super) fn validate_pod_claims(
    spec: &PodSpec,
    resources: &ResourceRequirements,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if !resources.claims.is_empty() {
        errors.forbidden(path, "claims may not be set for Resources at pod-level");
        validate_references(resources, &names(spec), path, errors);
    }
}

fn validate_references(
    resources: &ResourceRequirements,
    names: &BTreeSet<&str>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let mut seen = HashSet::new();
    for (i, claim) in resources.claims.iter().enumerate() {
        let path = path.index(i);
        if claim.name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        if !claim.request.is_empty() {
            errors.invalid_each(&path.child("request"), &claim.request, syntax::dns_label(&claim.request));
        }
        let key = match claim.request.as_str() {
            "" => claim.name.clone(),
            request => format!("{}/{request}", claim.name),
        };
        if seen.contains(&key) {
            errors.duplicate(&path, &key);
        }
        seen.insert(key);
        if !names.contains(claim.name.as_str()) {
            let known = names.iter().copied().collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { " which is empty".to_owned() } else { format!(": {known}") };
            let why = format!("must be one of the names in pod.spec.resourceClaims{known}");
            errors.not_found(&path, &claim.name, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn errors(claims: Value, of_container: Value) -> Vec<String> {
        let container = json!({"name": "c", "resources": {"claims": of_container}});
        let spec = json!({"resourceClaims": claims, "containers": [container]});
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let metadata = ObjectMeta { name: "p".to_owned(), ..ObjectMeta::default() };
        let (path, mut errors) = (Path::Root("spec"), Errors::default());
        validate_resource_claims(
            &metadata,
            &spec.resource_claims,
            &path.child("resourceClaims"),
            &mut errors,
        );
        validate_container_claims(&spec, &path, &mut errors);
        errors.into_list().into_iter().map(|error| error.error).collect()
    }

    #[test]
    fn a_claim_has_a_unique_name_and_one_source() {
        let claim = |name: &str| json!({"name": name, "resourceClaimName": "gpus"});
        assert!(
            errors(json!([claim("a"), {"name": "b", "resourceClaimTemplateName": "t"}]), json!([]))
                .is_empty()
        );
        let both = json!({"name": "a", "resourceClaimName": "c", "resourceClaimTemplateName": "t"});
        let long = json!({"name": "b", "resourceClaimTemplateName": "T"});
        for (claims, expected) in [
            (json!([claim("")]), "spec.resourceClaims[0].name: Required value"),
            (json!([claim("a"), claim("a")]), "spec.resourceClaims[1].name: Duplicate value: \"a\""),
            (
                json!([claim("a.b")]),
                "spec.resourceClaims[0].name: Invalid value: \"a.b\": must not contain dots",
            ),
            (
                json!([{"name": "a"}]),
                "spec.resourceClaims[0]: Invalid value: {\"Name\":\"a\",\"ResourceClaimName\":null,\
                 \"ResourceClaimTemplateName\":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            (
                json!([both]),
                "spec.resourceClaims[0]: Invalid value: {\"Name\":\"a\",\"ResourceClaimName\":\"c\",\
                 \"ResourceClaimTemplateName\":\"t\"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` \
                 may be specified",
            ),
            (
                json!([long]),
                "spec.resourceClaims[0].resourceClaimTemplateName: Invalid value: \"T\": a lowercase RFC",
            ),
        ] {
            let found = errors(claims, json!([]));
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
        }
    }

    #[test]
    fn containers_refer_to_claims_of_the_pod_once() {
        let claims =
            json!([{"name": "a", "resourceClaimName": "x"}, {"name": "b", "resourceClaimName": "y"}]);
        let of = |references: Value| errors(claims.clone(), references);
        assert!(
            of(json!([{"name": "a", "request": "r"}, {"name": "a", "request": "s"}, {"name": "b"}]))
                .is_empty()
        );
        let path = "spec.containers[0].resources.claims";
        assert_eq!(of(json!([{"name": "a"}, {"name": "a"}])), [format!("{path}[1]: Duplicate value: \"a\"")]);
        assert_eq!(
            of(json!([{"name": "c"}])),
            [format!(
                "{path}[0]: Not found: \"c\": must be one of the names in pod.spec.resourceClaims: a, b"
            )]
        );
        assert_eq!(
            errors(json!([]), json!([{"name": "c"}])),
            [format!(
                "{path}[0]: Not found: \"c\": must be one of the names in pod.spec.resourceClaims which is empty"
            )]
        );
    }
}
