//! Pod logs. Simulated pods run no processes and have no logs; the response states this.

use http::StatusCode;
use serde_json::Value;

use super::api::Api;
use super::object::find;
use super::reply::Reply;
use crate::request::{ApiRequest, ApiResult, Status};

pub fn log(api: &Api, request: &ApiRequest) -> ApiResult<Reply> {
    let name = &request.info.name;
    let pod = find(api, &request.info)?.value();
    let containers: Vec<&str> = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    let requested = request.query.get("container");
    let container = match (requested, containers.as_slice()) {
        ("", [only]) => only,
        ("", _) => {
            let regular: Vec<&str> = containers.clone();
            return Err(Status::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                regular.join(" ")
            )));
        }
        (requested, _) if containers.contains(&requested) => requested,
        (requested, _) => {
            return Err(Status::bad_request(format!("container {requested} is not valid for pod {name}")));
        }
    };
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    if phase == "Pending" || pod["status"]["phase"] == Value::Null {
        let why =
            format!("container \"{container}\" in pod \"{name}\" is waiting to start: ContainerCreating");
        return Err(Status::bad_request(why));
    }
    let text = format!(
        "pod {name} is simulated on node {node}: container {container} runs nothing and logs nothing\n"
    );
    Ok(Reply::text(StatusCode::OK, text))
}
