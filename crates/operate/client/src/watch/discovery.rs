//! Whether a server has a resource, which a refused request leaves open.

use std::time::Duration;

use serde_json::Value;

use crate::call;

/// Whether the answer with this status code says that the server does not have the collection. A server refuses requests without
/// permission before it looks for the resource: for these, its discovery decides, which every user may read.
pub async fn is_missing(client: &kube::Client, path: &str, code: Option<u16>, timeout: Duration) -> bool {
    if code != Some(403) {
        return code == Some(404);
    }
    let Some(version) = group_version_path(path) else { return false };
    let served = call::json::<Value>(client, call::get(version), timeout).await;
    let plural = path.rsplit('/').next().unwrap_or_default();
    match served {
        Ok(served) => {
            !served["resources"].as_array().is_some_and(|all| all.iter().any(|r| r["name"] == plural))
        }
        Err(error) => error.is_not_found(),
    }
}

/// Where the resources of the version of a group are listed; none for the core group.
fn group_version_path(path: &str) -> Option<&str> {
    let (end, _) = path.match_indices('/').nth(3)?;
    path.starts_with("/apis/").then(|| &path[..end])
}
