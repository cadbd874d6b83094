//! `berth mcp`, asked by a client of the protocol's SDK.

use std::process::Stdio;

use berth_testkit::documents::repository;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::program::BERTH;

/// A server over an example, and its client.
async fn start(dump: &str) -> (Child, RunningService<RoleClient, ()>) {
    let mut command = Command::new(BERTH.path);
    command.args(["mcp", "--dump", dump]).current_dir(repository()).kill_on_drop(true);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, ().serve((stdout, stdin)).await.unwrap())
}

async fn call(
    client: &RunningService<RoleClient, ()>,
    tool: &'static str,
    arguments: Value,
) -> CallToolResult {
    let arguments = arguments.as_object().unwrap().clone();
    client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap()
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

#[tokio::test]
async fn agents_ask_with_typed_arguments_and_get_the_reports_of_the_commands() {
    let (mut child, client) = start("examples/maintenance/cluster.yaml").await;
    let tools = client.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["explain", "what_if", "capacity", "lint", "rebalance", "audit"]);
    for tool in &tools {
        let schema = Value::Object(tool.input_schema.as_ref().clone());
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        assert!(schema["properties"]["manifests"].is_object(), "{schema}");
        assert_eq!(tool.annotations.as_ref().unwrap().read_only_hint, Some(true));
    }

    for (tool, arguments, expected) in [
        ("explain", json!({}), "2 pods without a node"),
        ("explain", json!({"pod": "deploy/report"}), "fits on no node"),
        ("what_if", json!({"changes": [{"drain": {"node": "worker-1"}}]}), "Not safe: 1 new unplaced pod"),
        ("capacity", json!({"workload": "deploy/web"}), "more replica"),
        ("lint", json!({}), "checked"),
        ("rebalance", json!({"goals": ["spread"]}), "move"),
        ("audit", json!({"namespace": "default"}), "violat"),
    ] {
        let result = call(&client, tool, arguments.clone()).await;
        assert_eq!(result.is_error, Some(false), "{tool} {arguments}: {}", text(&result));
        assert!(text(&result).contains(expected), "{tool} {arguments}: {}", text(&result));
        let arguments = arguments.as_object().unwrap().clone().into_iter();
        let as_json = arguments.chain([("answer".to_owned(), json!("json"))]).collect();
        let result = call(&client, tool, Value::Object(as_json)).await;
        assert!(
            result.structured_content.as_ref().is_some_and(Value::is_object),
            "{tool}: {}",
            text(&result)
        );
    }
    // Ends with its client.
    client.cancel().await.unwrap();
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn manifests_of_a_call_change_the_cluster_for_it_alone() {
    let (_child, client) = start("examples/unschedulable").await;
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: spare, labels: {disk: ssd, topology.kubernetes.io/zone: z}}\n\
                status: {allocatable: {cpu: 64, memory: 256Gi, pods: 110}}";
    let nodes = |result: &CallToolResult| text(result).contains("spare");
    assert!(nodes(
        &call(&client, "explain", json!({"pod": "database-1", "all": true, "manifests": node})).await
    ));
    assert!(!nodes(&call(&client, "explain", json!({"pod": "database-1", "all": true})).await));
}

#[tokio::test]
async fn wrong_arguments_are_answered_with_what_is_wrong() {
    let (_child, client) = start("examples/unschedulable").await;
    for (tool, arguments, expected) in [
        ("explain", json!({"pdo": "database-1"}), "unknown field `pdo`"),
        ("explain", json!({"pod": "database-2"}), "did you mean default/database-0"),
        // No value is read as an option.
        ("explain", json!({"pod": "--live"}), "--live"),
        ("explain", json!({"namespace": "--help"}), "--help"),
        ("what_if", json!({"changes": [{"drain": {"node": "nobody"}}]}), "nobody"),
        ("what_if", json!({"changes": [{"explode": {}}]}), "unknown variant `explode`"),
        ("capacity", json!({}), "missing field `workload`"),
        ("lint", json!({"manifests": "kind: ["}), "standard input:1:7: invalid YAML"),
        ("lint", json!({"manifests": "#".repeat(1 << 21)}), "at most 1048576 are read"),
    ] {
        let result = call(&client, tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{tool}: {}", text(&result));
        assert!(text(&result).contains(expected), "{tool}: {}", text(&result));
    }
    assert!(client.call_tool(CallToolRequestParams::new("delete")).await.is_err());
}
