use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;
use crate::resource::RESOURCES;
use crate::types::Scalar;

fn varint(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 127 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A message: numbers with bytes.
fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, content) in fields {
        bytes.extend(varint(number << 3 | 2));
        bytes.extend(varint(u32::try_from(content.len()).expect("short")));
        bytes.extend(*content);
    }
    bytes
}

fn envelope(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let meta = message(&[(1, api_version.as_bytes()), (2, kind.as_bytes())]);
    [MAGIC, &message(&[(1, &meta), (2, object), (3, b""), (4, b"")])].concat()
}

#[test]
fn objects_are_read() {
    let metadata = message(&[
        (1, b"web"),
        (2, b""),
        (8, b""),
        (11, &message(&[(1, b"app"), (2, b"web")])),
        (11, &message(&[(1, b"tier"), (2, b"")])),
    ]);
    let limit = message(&[(1, b"cpu"), (2, &message(&[(1, b"500m")]))]);
    let port = [&[3 << 3, 80][..], &message(&[(4, b"TCP")])].concat();
    let volume = message(&[(1, b"v"), (2, &message(&[(2, &message(&[(1, b"")]))]))]);
    let container = message(&[(1, b"c"), (2, b"nginx"), (6, &port), (8, &message(&[(1, &limit)]))]);
    let mut pod = message(&[(1, &volume), (2, &container)]);
    // terminationGracePeriodSeconds: 0, hostNetwork: false
    pod.extend([4 << 3, 0, 11 << 3, 0]);
    let object = message(&[(1, &metadata), (2, &pod), (3, b"")]);
    assert_eq!(
        decode(&envelope("v1", "Pod", &object)),
        Ok(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "labels": {"app": "web", "tier": ""}},
            "spec": {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{
                    "name": "c", "image": "nginx", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "500m"}},
                }],
                "terminationGracePeriodSeconds": 0,
            },
            "status": {},
        }))
    );
}

#[test]
fn the_fields_of_the_proposals_make_the_round_trip_beside_those_of_v1() {
    let requirements = json!([{"key": "slot", "operator": "VersionGt", "values": ["1.2", "3"]}]);
    let selector = json!({"nodeSelectorTerms": [
        {"matchExpressions": requirements, "matchFields": requirements, "matchAnnotations": requirements}, {}]});
    let terms = json!([{"topologyKey": "rack", "namespaces": ["a"], "limit": 300, "labelSelector": {"matchLabels": {"app": "a"}}}]);
    let (enforced, ignored) =
        ("requiredDuringSchedulingRequiredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"affinity": {
        "nodeAffinity": {ignored: selector, enforced: selector},
        "podAffinity": {ignored: terms, enforced: terms},
        "podAntiAffinity": {enforced: terms},
    }}});
    let bytes = encode(pod.to_string().as_bytes()).expect("it has a protobuf form");
    assert_eq!(decode(&bytes), Ok(pod));
}

/// A value of a type with all fields that have a number, none of them zero.
fn filled(ty: &'static Type, depth: usize) -> Value {
    match ty {
        Type::Any => json!({"any": [1, "x", null]}),
        Type::List { items, .. } => json!([filled(items.get(), depth), filled(items.get(), depth)]),
        Type::Map { values, .. } => {
            json!({"k": filled(values.get(), depth), "l": filled(values.get(), depth)})
        }
        Type::Struct(of) => {
            let known =
                of.fields().filter(|(name, _)| depth < 9 && numbers(&of.name).by_name.contains_key(name));
            Value::Object(
                known.map(|(name, field)| (name.to_owned(), filled(field.ty(), depth + 1))).collect(),
            )
        }
        Type::Scalar(scalar) => match scalar {
            Scalar::String => "text".repeat(depth * depth).into(),
            Scalar::Bytes => "AP8=".into(),
            Scalar::Int32 => (-1).into(),
            Scalar::Int64 => (1_i64 << 40).into(),
            Scalar::Number => 1.5.into(),
            Scalar::Boolean => true.into(),
            Scalar::IntOrString => ["50%".into(), json!(7)][depth % 2].clone(),
            Scalar::Quantity => "100m".into(),
            Scalar::Time => "1969-12-31T23:59:59Z".into(),
            Scalar::MicroTime => "1969-12-31T23:59:59.000123Z".into(),
        },
    }
}

#[test]
fn objects_of_every_kind_make_the_round_trip() {
    let mut json_only = Vec::new();
    for resource in RESOURCES {
        let (api_version, kind) = (resource.api_version(), resource.kind);
        let mut object = filled(type_of(resource.group, resource.version, kind).expect("known"), 1);
        object["apiVersion"] = api_version.as_str().into();
        object["kind"] = kind.into();
        match encode(object.to_string().as_bytes()) {
            Some(bytes) => assert_eq!(decode(&bytes), Ok(object), "{kind}"),
            None => json_only.push(kind),
        }
    }
    assert_eq!(json_only, ["CustomResourceDefinition"]);
}

#[test]
fn special_values_are_read() {
    let percent = [&[1 << 3, 1, 2 << 3, 0][..], &message(&[(3, b"50%")])].concat();
    let budget = message(&[(2, &message(&[(1, &percent), (3, &[1 << 3, 0, 2 << 3, 5])]))]);
    assert_eq!(
        decode(&envelope("policy/v1", "PodDisruptionBudget", &budget)).map(|object| object["spec"].clone()),
        Ok(json!({"minAvailable": "50%", "maxUnavailable": 5}))
    );
    // kubectl create pdb --max-unavailable 0: all fields of the number are sent, and no eviction is allowed.
    let zero = [&[1 << 3, 0, 2 << 3, 0][..], &message(&[(3, b"")])].concat();
    let budget = message(&[(2, &message(&[(3, &zero)]))]);
    assert_eq!(
        decode(&envelope("policy/v1", "PodDisruptionBudget", &budget)).map(|object| object["spec"].clone()),
        Ok(json!({"maxUnavailable": 0}))
    );
    let secret = message(&[(2, &message(&[(1, b"k"), (2, &[0, 255])])), (3, b"Opaque")]);
    assert_eq!(
        decode(&envelope("v1", "Secret", &secret)),
        Ok(json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "AP8="}, "type": "Opaque"}))
    );
    let lease = message(&[(2, &message(&[(3, &[1 << 3, 100, 2 << 3, 0])]))]);
    assert_eq!(
        decode(&envelope("coordination.k8s.io/v1", "Lease", &lease)).map(|object| object["spec"].clone()),
        Ok(json!({"acquireTime": "1970-01-01T00:01:40Z"}))
    );
    let options = [1 << 3, 0];
    assert_eq!(
        decode(&envelope("policy/v1", "DeleteOptions", &options)).map(|o| o["gracePeriodSeconds"].clone()),
        Ok(json!(0))
    );
    let review = message(&[(
        2,
        &message(&[(6, &message(&[(1, b"scopes"), (2, &message(&[(1, b"a"), (1, b"b")]))]))]),
    )]);
    let extra = decode(&envelope("authorization.k8s.io/v1", "SubjectAccessReview", &review));
    assert!(extra.is_ok(), "{extra:?}");
}

#[test]
fn malformed_messages_are_refused() {
    let pod = envelope("v1", "Pod", &message(&[(1, &message(&[(1, b"web")]))]));
    for end in 4..pod.len() {
        // A truncated message is refused or decodes to fewer fields.
        let _ = decode(&pod[..end]);
    }
    assert_eq!(decode(b"{}"), Err(ProtobufError::NoEnvelope));
    assert!(matches!(decode(&pod[..pod.len() - 6]), Err(ProtobufError::Malformed(_))));
    assert!(matches!(decode(&envelope("v1", "Moon", b"")), Err(ProtobufError::UnknownKind { .. })));
    for (object, why) in [
        (&b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"[..], "a number is too long"),
        (&[1 << 3, 1], "a field has another type than its message says"),
        (&[1 << 3 | 3], "a wire type that is not used"),
        (&[1 << 3 | 1, 0], "it ends early"),
        (&message(&[(1, &message(&[(1, b"\xff")]))]), "a text is not UTF-8"),
    ] {
        assert_eq!(decode(&envelope("v1", "Pod", object)), Err(ProtobufError::Malformed(why)));
    }
}

#[test]
fn every_field_has_a_number() {
    // Of a newer version than the table.
    const WITHOUT: &[&str] = &[
        "CompositePodGroupSpec.disruptionMode",
        "CompositePodGroupSpec.preemptionPolicy",
        "PodGroupSpec.disruptionMode",
        "PodGroupSpec.parentCompositePodGroupName",
        "PodGroupSpec.preemptionPolicy",
        "PodGroupSpec.priority",
        "PodGroupSpec.priorityClassName",
        "PodGroupSpec.resourceClaims",
        "PodGroupStatus.resourceClaimStatuses",
        "PodGroupTemplate.disruptionMode",
        "PodGroupTemplate.priority",
        "PodGroupTemplate.priorityClassName",
        "PodGroupTemplate.resourceClaims",
    ];
    fn named(numbers: &'static Places, names: &mut HashSet<&'static str>) {
        let mut seen = HashSet::new();
        for (number, place) in numbers {
            assert!(seen.insert(number), "{place:?}");
            match place {
                Place::Field(name, _) => assert!(names.insert(name), "{name}"),
                Place::Inline(_, inner) => named(inner, names),
            }
        }
    }
    fn walk(ty: &'static Type, seen: &mut HashSet<&'static str>, missing: &mut Vec<String>) {
        match ty {
            Type::Struct(of) if seen.insert(&of.name) => {
                let mut names = HashSet::new();
                named(&numbers(&of.name).by_number, &mut names);
                for (name, field) in of.fields() {
                    if names.contains(name) {
                        walk(field.ty(), seen, missing);
                    } else if !["apiVersion", "kind"].contains(&name) {
                        let short = of.name.rsplit('.').next().unwrap_or_default();
                        missing.push(format!("{short}.{name}"));
                    }
                }
            }
            Type::List { items, .. } => walk(items.get(), seen, missing),
            Type::Map { values, .. } => walk(values.get(), seen, missing),
            _ => {}
        }
    }
    let (mut seen, mut missing) = (HashSet::new(), Vec::new());
    // The alternatives within a schema have another protobuf form.
    for resource in RESOURCES.iter().filter(|resource| resource.kind != "CustomResourceDefinition") {
        walk(
            type_of(resource.group, resource.version, resource.kind).expect("known"),
            &mut seen,
            &mut missing,
        );
    }
    missing.retain(|field| !WITHOUT.contains(&field.as_str()));
    assert_eq!(missing, [""; 0]);
}
