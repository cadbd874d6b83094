//! The alerts and the dashboard of deploy/monitoring: they use metrics that components have, and promtool accepts them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;
use serde_json::{Value, json};

fn rules() -> Value {
    let text = fs::read_to_string(repository().join("deploy/monitoring/prometheus-rule.yaml")).unwrap();
    serde_saphyr::from_str::<Value>(&text).unwrap()["spec"].clone()
}

fn alerts() -> Vec<Value> {
    let rules = rules();
    let groups = rules["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn dashboard_queries() -> Vec<String> {
    let text = fs::read_to_string(repository().join("deploy/monitoring/grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// The labels of each metric in docs/metrics.md. Other tests hold that list to what components serve.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let metric = |(metric, _): (&str, &str)| {
        let (name, labels) = metric.split_once('{').unwrap_or((metric, ""));
        let labels = labels.trim_end_matches('}').split(',').filter(|l| !l.is_empty());
        (name.to_owned(), labels.map(str::to_owned).collect())
    };
    rows.map(metric).collect()
}

/// The words of an expression that are metrics, and those that are labels: in braces, or after `by`.
fn words(expression: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut metrics, mut labels) = (BTreeSet::new(), BTreeSet::new());
    let mut rest = expression;
    while let Some(start) = rest.find(is_word) {
        let end = rest[start..].find(|c| !is_word(c)).map_or(rest.len(), |n| start + n);
        let word = &rest[start..end];
        rest = &rest[end..];
        if word == "by" || rest.starts_with('{') {
            let (inside, after) = rest.split_once(['}', ')']).unwrap_or((rest, ""));
            let names = inside.trim_start_matches([' ', '(', '{']).split(',');
            labels.extend(names.filter_map(|l| Some(l.split(['=', '!']).next()?.trim().to_owned())));
            rest = after;
        }
        if ["scheduler_", "berth_", "apiserver_"].iter().any(|prefix| word.starts_with(prefix)) {
            metrics.insert(word.to_owned());
        }
    }
    (metrics, labels)
}

#[test]
fn alerts_and_panels_use_documented_metrics_and_labels() {
    let documented = documented();
    let alerts = alerts();
    let queries: Vec<String> =
        alerts.iter().map(|alert| alert["expr"].as_str().unwrap().to_owned()).collect();
    let mut wrong = Vec::new();
    for query in queries.into_iter().chain(dashboard_queries()) {
        let (metrics, labels) = words(&query);
        assert!(!metrics.is_empty(), "{query}");
        let mut known: BTreeSet<String> = ["le".to_owned()].into();
        for metric in metrics {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| metric.strip_suffix(end));
            match documented.get(&metric).or_else(|| documented.get(base?)) {
                Some(labels) => known.extend(labels.iter().cloned()),
                None => wrong.push(format!("no metric {metric}: {query}")),
            }
        }
        wrong.extend(labels.difference(&known).map(|label| format!("no label {label}: {query}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_alert_has_a_runbook() {
    let text = fs::read_to_string(repository().join("docs/runbooks.md")).unwrap();
    let sections: BTreeSet<_> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts = alerts();
    let names: BTreeSet<_> = alerts.iter().map(|alert| alert["alert"].as_str().unwrap()).collect();
    assert_eq!(sections, names);
    for alert in &alerts {
        let anchor = alert["alert"].as_str().unwrap().to_lowercase();
        assert_eq!(alert["annotations"]["runbook"], format!("docs/runbooks.md#{anchor}"));
    }
}

/// A series with its values, one a minute.
type Series = (&'static str, &'static str);

/// Series for which each alert fires, and the labels of the alert: all series begin with 0 and have these values from
/// minute 1 on.
fn cases() -> Vec<(&'static str, Vec<Series>, Value)> {
    let increasing = "0+6x120";
    vec![
        (
            "BerthPodsPending",
            vec![("scheduler_unschedulable_pods{plugin=\"NodeAffinity\",profile=\"berth\"}", "0 3x120")],
            json!({"plugin": "NodeAffinity", "profile": "berth"}),
        ),
        (
            "BerthBindingsFail",
            vec![
                ("scheduler_schedule_attempts_total{result=\"error\",profile=\"berth\"}", increasing),
                ("scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"berth\"}", increasing),
            ],
            json!({"profile": "berth"}),
        ),
        ("BerthSchedulerHasNoLeader", vec![("berth_scheduler_leader{pod=\"a\"}", "0x120")], json!({})),
        ("BerthSchedulerHasNoLeader", vec![], json!({})),
        ("BerthEnforcerHasNoLeader", vec![("berth_enforcer_leader{pod=\"a\"}", "0x120")], json!({})),
        ("BerthRulesBroken", vec![("berth_enforcer_violations_due", "0 2x120")], json!({})),
        (
            "BerthEvictionLimitEngaged",
            vec![("berth_enforcer_evictions_limited{pod=\"a\"}", "0 1x120")],
            json!({}),
        ),
        (
            "BerthRebalanceStuck",
            vec![
                ("berth_enforcer_rebalance_moves_left", "3x240"),
                ("berth_enforcer_rebalance_moves_total{result=\"moved\"}", "7x240"),
            ],
            json!({}),
        ),
        (
            "BerthStateDrift",
            vec![("berth_enforcer_state_differences_total{kind=\"pod\"}", increasing)],
            json!({}),
        ),
        (
            "BerthPlacementQuotaExhausted",
            vec![
                (
                    "berth_admission_placement_quota_used{namespace=\"a\",quota=\"q\",resource=\"nodes\"}",
                    "3x120",
                ),
                (
                    "berth_admission_placement_quota_hard{namespace=\"a\",quota=\"q\",resource=\"nodes\"}",
                    "3x120",
                ),
            ],
            json!({"namespace": "a", "quota": "q", "resource": "nodes"}),
        ),
    ]
}

/// Series for which no alert fires.
const HEALTHY: &[Series] = &[
    ("scheduler_unschedulable_pods{plugin=\"NodeAffinity\",profile=\"berth\"}", "0x120"),
    ("scheduler_schedule_attempts_total{result=\"error\",profile=\"berth\"}", "0x120"),
    ("scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"berth\"}", "0+6x120"),
    ("berth_scheduler_leader{pod=\"a\"}", "0x120"),
    ("berth_scheduler_leader{pod=\"b\"}", "1x120"),
    ("berth_enforcer_leader", "1x120"),
    ("berth_enforcer_violations_due", "0x120"),
    ("berth_enforcer_evictions_limited", "0x120"),
    ("berth_enforcer_rebalance_moves_left", "3x120"),
    ("berth_enforcer_rebalance_moves_total{result=\"moved\"}", "0+1x120"),
    ("berth_scheduler_state_differences_total{kind=\"pod\"}", "0x120"),
    ("berth_enforcer_state_differences_total{kind=\"pod\"}", "0x120"),
    ("berth_admission_placement_quota_used{namespace=\"a\",quota=\"q\",resource=\"nodes\"}", "2x120"),
    ("berth_admission_placement_quota_hard{namespace=\"a\",quota=\"q\",resource=\"nodes\"}", "3x120"),
];

#[test]
fn promtool_accepts_the_alerts_and_they_fire_when_they_should() {
    if Command::new("promtool").arg("--version").output().is_err() {
        eprintln!("promtool is not installed (Debian package prometheus): the alerts are not evaluated");
        return;
    }
    let cases = cases();
    let tested: BTreeSet<_> = cases.iter().map(|(alert, ..)| *alert).collect();
    let alerts = alerts();
    assert_eq!(tested, alerts.iter().map(|alert| alert["alert"].as_str().unwrap()).collect());

    let test = |series: Vec<(&str, &str)>, checks: Vec<Value>| {
        let series: Vec<Value> =
            series.iter().map(|(series, values)| json!({"series": series, "values": values})).collect();
        json!({"interval": "1m", "input_series": series, "alert_rule_test": checks})
    };
    let fires = |name: &str, labels: &Value| {
        let alert = alerts.iter().find(|alert| alert["alert"] == name).unwrap();
        let mut labels = labels.clone();
        labels["severity"] = alert["labels"]["severity"].clone();
        labels
    };
    let mut tests = Vec::new();
    for (name, changed, labels) in &cases {
        let metric = |series: &str| series.split('{').next().unwrap_or_default().to_owned();
        let replaced: BTreeSet<_> = changed.iter().map(|(series, _)| metric(series)).collect();
        // The case without series is about a component that is not scraped.
        let healthy = HEALTHY.iter().filter(|(series, _)| {
            !replaced.contains(&metric(series)) && (!changed.is_empty() || !series.contains("_leader"))
        });
        let series = healthy.copied().chain(changed.iter().copied()).collect();
        let expected = json!([{"exp_labels": fires(name, labels)}]);
        tests.push(test(series, vec![json!({"eval_time": "1h", "alertname": name, "exp_alerts": expected})]));
    }
    let silent = tested.iter().map(|name| json!({"eval_time": "1h", "alertname": name, "exp_alerts": []}));
    tests.push(test(HEALTHY.to_vec(), silent.collect()));

    let directory = TempDir::new("monitoring");
    let mut rules = rules();
    // Annotations are texts for people; the tests compare labels.
    for rule in
        rules["groups"].as_array_mut().unwrap().iter_mut().flat_map(|g| g["rules"].as_array_mut().unwrap())
    {
        rule.as_object_mut().unwrap().remove("annotations");
    }
    fs::write(directory.file("rules.yaml"), rules.to_string()).unwrap();
    // The queries of the dashboard, as recording rules: promtool reads them.
    let query = |query: String| json!({"record": "panel", "expr": query.replace("$__rate_interval", "5m")});
    let queries: BTreeSet<_> = dashboard_queries().into_iter().collect();
    let panels =
        queries.into_iter().zip(0..).map(|(q, i)| json!({"name": format!("panel-{i}"), "rules": [query(q)]}));
    let panels = json!({"groups": panels.collect::<Vec<_>>()});
    fs::write(directory.file("panels.yaml"), panels.to_string()).unwrap();
    let tests = json!({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests});
    fs::write(directory.file("tests.yaml"), tests.to_string()).unwrap();
    for (command, file) in [("check", "rules.yaml"), ("check", "panels.yaml"), ("test", "tests.yaml")] {
        let run =
            Command::new("promtool").args([command, "rules"]).arg(directory.file(file)).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(run.status.success(), "{}{}", text(&run.stdout), text(&run.stderr));
    }
}
