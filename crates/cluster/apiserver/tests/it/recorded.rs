//! Requests with the answers of kube-apiserver 1.37.2 (`tests/recorded`), sent in their order to a server with the same gates.
//!
//! `docs/differences.md` names those that are answered otherwise; of objects with one value changed, the beginning of the name stands for
//! all. What differs is printed: `PATH OURS THEIRS`. `BERTH_RECORDED` names another file of requests, from `reference/requests.py`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};

use berth_api::feature_gates::{FeatureGates, GateSetting, KubernetesVersion};
use flate2::read::GzDecoder;
use http::{HeaderName, HeaderValue, Method, Request};
use kube::Client;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::support::*;

/// On what 1.37 changed, on everything else, and objects of every kind that are created and updated with one value changed
/// (`reference/mutations.py`).
const RECORDED: [&[u8]; 6] = [
    include_bytes!("../recorded/1.37.jsonl.gz"),
    include_bytes!("../recorded/1.37-general.jsonl.gz"),
    include_bytes!("../recorded/1.37-held.jsonl.gz"),
    include_bytes!("../recorded/1.37-policies.jsonl.gz"),
    include_bytes!("../recorded/1.37-mutations.jsonl.gz"),
    include_bytes!("../recorded/1.37-updates.jsonl.gz"),
];
const GATES: &str = include_str!("../recorded/feature-gates.txt");
const DIFFERENCES: &str = include_str!("../../../../../docs/differences.md");
/// A difference between two structures of Go follows.
const PODS_ARE_FIXED: &str = " (allow it to be set to 1 if it was previously negative)";
const GIVEN_UID: &str = "11111111-2222-4333-8444-555555555555";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    server: String,
    name: String,
    method: String,
    path: String,
    /// As it is sent: errors quote it, and numbers have digits beyond those of a [`Value`].
    body: Box<RawValue>,
    content_type: Option<String>,
    accept: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Values of the answer for later requests, by name: the path to each.
    #[serde(default)]
    grab: BTreeMap<String, String>,
    status: u16,
    answer: Value,
    #[serde(default)]
    warnings: Vec<String>,
}

/// What is not the same in each run: times of today, identities, versions.
struct Normal {
    time: Regex,
    uid: Regex,
    version: Regex,
    age: Regex,
    generated: Regex,
    fixed: Regex,
    today: String,
}

impl Normal {
    fn new() -> Normal {
        let regex = |pattern| Regex::new(pattern).unwrap();
        Normal {
            time: regex(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"),
            uid: regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            version: regex(
                r"(Too large resource version: \d+, current: |ResourceVersion in object meta: |ResourceVersion in record \(|resourceVersion:)\d+",
            ),
            age: regex(r"^\d+(s|m|h|d)\d*s?$"),
            generated: regex(r"\b(A_)[a-z0-9]{5}\b"),
            fixed: regex(
                r#"(Invalid value): (?:\{.*?\}|\[.*?\]|"(?:[^"\\]|\\.)*"|[a-z0-9.]+): (field is immutable|cannot change roleRef)"#,
            ),
            today: jiff::Timestamp::now().to_string()[..10].to_owned(),
        }
    }

    fn of(&self, value: Value, path: &str) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.into_iter().filter(|(name, _)| name != "managedFields");
                let normal = fields.map(|(name, value)| {
                    let is_in = |parents: &[&str]| parents.iter().any(|parent| path.ends_with(parent));
                    let value = match name.as_str() {
                        "resourceVersion" if is_in(&["metadata"]) && value != "" => "<rv>".into(),
                        "continue" if is_in(&["metadata"]) && value != "" => "<continue>".into(),
                        "uid" if is_in(&["metadata", "details"]) && value != "" => "<uid>".into(),
                        "cells" if path.ends_with("rows[]") => self.cells(value),
                        _ => self.of(value, &format!("{path}.{name}")),
                    };
                    (name, value)
                });
                normal.collect()
            }
            Value::Array(items) => {
                items.into_iter().map(|item| self.of(item, &format!("{path}[]"))).collect()
            }
            Value::String(text) => self.text(&text).into(),
            other => other,
        }
    }

    fn cells(&self, cells: Value) -> Value {
        let age = |cell: &Value| match cell.as_str() {
            Some(text) if self.age.is_match(text) => "<age>".into(),
            _ => cell.clone(),
        };
        cells.as_array().into_iter().flatten().map(age).collect()
    }

    fn text(&self, text: &str) -> String {
        let text = self.time.replace_all(text, |found: &regex::Captures<'_>| {
            if found[0].starts_with(&self.today) { "<time>".to_owned() } else { found[0].to_owned() }
        });
        let text = self.uid.replace_all(
            &text,
            |found: &regex::Captures<'_>| {
                if &found[0] == GIVEN_UID { GIVEN_UID } else { "<uid>" }
            },
        );
        let text = self.version.replace_all(&text, "$1<rv>");
        let text = self.generated.replace_all(&text, "$1<random>");
        // The object that a patch makes has another order of its fields.
        let text = match text.split_once("Invalid value: \"{\\\"") {
            Some((before, rest)) => {
                let why = rest.rsplit_once("}\": ").map_or("<cut>", |(_, why)| why);
                format!("{before}Invalid value: {why}").into()
            }
            None => text,
        };
        // Structures of Go in place of values, and the difference between two of them.
        let text = self.fixed.replace_all(&text, "$1: $2");
        let text = text.split_once(PODS_ARE_FIXED).map_or(&*text, |(text, _)| text);
        text.split_once("\n@@ -").map_or(text, |(text, _)| text).to_owned()
    }
}

/// The leaves of an answer. The message of an invalid object repeats its causes.
fn compared(normal: &Normal, answer: Value) -> BTreeMap<String, Value> {
    let mut answer = normal.of(answer, "");
    let causes = answer["details"]["causes"].as_array().map_or(0, Vec::len);
    let message = answer["message"].as_str().and_then(|message| message.split_once(" is invalid: "));
    if let Some((object, _)) = message.filter(|_| causes > 0) {
        answer["message"] = format!("{object} is invalid").into();
    }
    // It is established at once, which others leave to a controller.
    if answer["kind"] == "CustomResourceDefinition" {
        answer["status"].take();
    }
    let mut found = BTreeMap::new();
    leaves(&answer, String::new(), &mut found);
    found.retain(|path, value| !is_of_setup(path, value));
    found
}

/// Each leaf by its path.
fn leaves(value: &Value, path: String, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, value)| leaves(value, format!("{path}.{name}"), into));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(i, item)| leaves(item, format!("{path}[{i}]"), into));
        }
        leaf => drop(into.insert(path, leaf.clone())),
    }
}

/// What the admission plugin ServiceAccount sets, which was off when the answers were recorded, and who made a request.
fn is_of_setup(path: &str, value: &Value) -> bool {
    let is_account = path.ends_with("spec.serviceAccountName") || path.ends_with("spec.serviceAccount");
    is_account && value == "default"
        || path == ".spec.username" && (value == "admin" || value == "kubernetes-admin")
        || path == ".spec.uid" && value == "1"
}

fn filled(text: &str, grabbed: &BTreeMap<String, String>) -> String {
    grabbed
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
}

/// What differs from the recorded answer: `PATH OURS THEIRS`.
async fn difference(
    client: &Client,
    recorded: &Recorded,
    normal: &Normal,
    grabbed: &mut BTreeMap<String, String>,
) -> Vec<String> {
    let body = match recorded.body.get() {
        "null" => String::new(),
        text if text.starts_with('"') => serde_json::from_str(text).unwrap(),
        object => object.to_owned(),
    };
    let mut request = Request::builder()
        .method(recorded.method.parse::<Method>().unwrap())
        .uri(filled(&recorded.path, grabbed))
        .body(kube::client::Body::from(filled(&body, grabbed).into_bytes()))
        .unwrap();
    let accept = recorded.accept.as_deref().unwrap_or("application/json");
    let content_type = recorded.content_type.as_deref().map(|content_type| ("content-type", content_type));
    let own = recorded.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in own.chain([("accept", accept)]).chain(content_type) {
        request
            .headers_mut()
            .insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let response = client.send(request).await.unwrap();
    let status = response.status().as_u16();
    let listed = response.headers().get_all("warning").iter();
    let warnings: Vec<String> = listed.map(|value| value.to_str().unwrap().to_owned()).collect();
    // A watch that should have been refused has no end.
    let body = tokio::time::timeout(PATIENCE, response.into_body().collect_bytes()).await;
    let bytes = body.map_or_else(|_| "no end".into(), std::result::Result::unwrap);
    let text = || serde_json::json!({"_text": String::from_utf8_lossy(&bytes)});
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
    for (name, path) in &recorded.grab {
        let found = answer.pointer(&format!("/{}", path.replace('.', "/")));
        let found = found.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        grabbed.insert(name.clone(), found.unwrap_or_else(|| "NONE".to_owned()));
    }
    let (ours, theirs) = (compared(normal, answer), compared(normal, recorded.answer.clone()));
    let mut differences = Vec::new();
    if status != recorded.status {
        differences.push(format!("status {status} {}", recorded.status));
    }
    let paths: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let shown = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
    // Long texts were recorded up to some length.
    let is_same = |ours: Option<&Value>, theirs: Option<&Value>| {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let start = text(theirs).and_then(|theirs| theirs.strip_suffix("<cut>").map(str::to_owned));
        start.map_or(ours == theirs, |start| text(ours).is_some_and(|ours| ours.starts_with(&start)))
    };
    // What a dry run of kube-apiserver shows in place of a value that it would allocate.
    let is_allocated = |path: &str| {
        ours.contains_key(path)
            && theirs.get(path).is_some_and(|theirs| match path.ends_with(".nodePort") {
                true => theirs == 32769,
                false => path.starts_with(".spec.clusterIP") && theirs == "10.96.0.0",
            })
    };
    for path in paths {
        if !is_allocated(path) && !is_same(ours.get(path), theirs.get(path)) {
            differences.push(format!("{path} {} {}", shown(ours.get(path)), shown(theirs.get(path))));
        }
    }
    // A server that does not know its version warns of what will be deprecated later.
    let is_early =
        |text: &&String| recorded.server != "genericworkload" && text.contains(" is deprecated in v1.40+");
    let warned = |warnings: &[String]| {
        warnings.iter().filter(|text| !is_early(text)).map(|text| normal.text(text)).collect::<Vec<_>>()
    };
    if warned(&warnings) != warned(&recorded.warnings) {
        differences.push(format!("warnings {warnings:?} {:?}", recorded.warnings));
    }
    differences
}

async fn replay(server: &str, gates: &str) {
    let settings: Vec<GateSetting> = gates
        .split(',')
        .filter(|gate| !gate.is_empty())
        .map(|gate| GateSetting::parse(gate).unwrap())
        .collect();
    let running = whole_server_with(FeatureGates::new(KubernetesVersion::V1_37, &settings)).await;
    let client = admin(&running);
    let section = DIFFERENCES.split_once("\n## API server\n").unwrap().1;
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let (prefix, is_changed) = (format!("{server} "), ["mutations", "updates"].contains(&server));
    let (normal, mut grabbed) = (Normal::new(), BTreeMap::new());
    let other = std::env::var_os("BERTH_RECORDED").map(|path| std::fs::read(path).unwrap());
    let files = other.as_deref().map_or(RECORDED.to_vec(), |file| vec![file]);
    let lines = files.into_iter().flat_map(|file| BufReader::new(GzDecoder::new(file)).lines());
    let recorded = lines.map(|line| serde_json::from_str::<Recorded>(&line.unwrap()).unwrap());
    let mut found = Vec::new();
    for recorded in recorded.filter(|recorded| recorded.server == server) {
        let differences = difference(&client, &recorded, &normal, &mut grabbed).await;
        if !differences.is_empty() {
            // Errors with the same status and reason are named apart: there are many with one value changed.
            let is_words = |difference: &String| {
                [".message", ".details"].iter().any(|path| difference.starts_with(path))
            };
            let words = if is_changed && differences.iter().all(is_words) { "words " } else { "" };
            println!("## {server} {words}{}\n{}", recorded.name, differences.join("\n"));
            found.push(format!("{words}{}", recorded.name));
        }
    }
    let listed: Vec<&str> = section.split('`').filter_map(|quoted| quoted.strip_prefix(&prefix)).collect();
    let is_of = |found: &str, listed: &str| {
        found.strip_prefix(listed).is_some_and(|rest| rest.is_empty() || is_changed)
    };
    let unlisted = found.iter().filter(|found| !listed.iter().any(|listed| is_of(found, listed)));
    assert_eq!(unlisted.collect::<Vec<_>>(), [""; 0], "answered otherwise, and not in docs/differences.md");
    // Not all differences are in other requests.
    let same = listed
        .iter()
        .filter(|_| other.is_none())
        .filter(|listed| !found.iter().any(|found| is_of(found, listed)));
    assert_eq!(same.collect::<Vec<_>>(), [&""; 0], "in docs/differences.md, and answered the same");
}

#[tokio::test]
async fn requests_with_all_gates_are_answered_as_by_kube_apiserver() {
    replay("gates", GATES.trim()).await;
}

#[tokio::test]
async fn requests_with_default_gates_are_answered_as_by_kube_apiserver() {
    replay("default", "").await;
}

#[tokio::test]
async fn requests_on_what_is_older_are_answered_as_by_kube_apiserver() {
    replay("general", "").await;
}

#[tokio::test]
async fn requests_that_were_not_recorded_before_are_answered_as_by_kube_apiserver() {
    replay("held", "").await;
}

#[tokio::test]
async fn requests_under_policies_and_rules_are_answered_as_by_kube_apiserver() {
    replay("policies", "").await;
}

#[tokio::test]
async fn requests_with_generic_workloads_are_answered_as_by_kube_apiserver() {
    replay("genericworkload", "GenericWorkload=true").await;
}

#[tokio::test]
async fn objects_with_one_value_changed_are_answered_as_by_kube_apiserver() {
    replay("mutations", "GenericWorkload=true").await;
}

#[tokio::test]
async fn updates_with_one_value_changed_are_answered_as_by_kube_apiserver() {
    replay("updates", "GenericWorkload=true").await;
}
