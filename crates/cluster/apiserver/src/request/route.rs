//! Routing: maps a request's method and path to an operation.

use berth_api::feature_gates::FeatureGates;
use berth_schema::resource::{Resource, Subresource, find};
use http::Method;

use super::query::{Query, decode};
use super::status::{ApiResult, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub fn is_mutating(self) -> bool {
        !matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    pub verb: Verb,
    pub resource: &'static Resource,
    pub subresource: Option<&'static Subresource>,
    /// The namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// The object's name; empty for collections and creation.
    pub name: String,
}

impl RequestInfo {
    /// The name of the subresource; empty for the resource itself.
    pub fn subresource_name(&self) -> &'static str {
        self.subresource.map_or("", |s| s.name)
    }

    /// Group, version and kind of the request body.
    pub fn sent_kind(&self) -> (&'static str, &'static str, &'static str) {
        match self.subresource {
            Some(sub) => (sub.group, sub.version, sub.kind),
            None => (self.resource.group, self.resource.version, self.resource.kind),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Resource(RequestInfo),
    /// A subresource that needs real containers, of the object of a request.
    Simulated(RequestInfo, String),
    /// Objects of a resource that does not exist. Only users who may ask for them learn that.
    Unknown(UnknownResource),
    /// Other read-only paths: discovery, OpenAPI, version, health, metrics.
    Path(Vec<String>),
}

/// What was asked of a resource that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownResource {
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: String,
    pub plural: String,
    /// The subresource; empty for the resource itself.
    pub subresource: String,
    /// The namespace; empty without one.
    pub namespace: String,
    /// The object's name; empty for collections and creation.
    pub name: String,
}

/// Reads method and path. Resources behind `gates` that are off do not exist. `custom` finds the custom resource at
/// `/apis/GROUP/VERSION/PLURAL`.
pub fn route(
    method: &Method,
    path: &str,
    query: &Query,
    gates: FeatureGates,
    custom: impl Fn(&str, &str, &str) -> Option<&'static Resource>,
) -> ApiResult<Route> {
    let segments = segments(path)?;
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() && !group.is_empty() => {
            (*group, *version, rest)
        }
        _ => {
            return if method == Method::GET || method == Method::HEAD {
                Ok(Route::Path(segments))
            } else {
                Err(Status::method_not_allowed())
            };
        }
    };
    let (namespace, rest) = match rest {
        // Namespaces and their own subresources.
        ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status" | "finalize"] if group.is_empty() => {
            ("", rest)
        }
        ["namespaces", namespace, rest @ ..] => (*namespace, rest),
        rest => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, subresource] => (*plural, *name, *subresource),
        // The path behind a proxy.
        [plural, name, "proxy", ..] => (*plural, *name, "proxy"),
        _ => return Err(Status::no_such_path()),
    };
    let built_in = find(group, version, plural).filter(|resource| resource.is_enabled(gates));
    let resource = built_in.or_else(|| custom(group, version, plural));
    let Some(resource) = resource else {
        let verb = verb(method, name, query)?;
        let [group, plural, subresource, namespace, name] =
            [group, plural, subresource, namespace, name].map(str::to_owned);
        return Ok(Route::Unknown(UnknownResource { verb, group, plural, subresource, namespace, name }));
    };
    let is_simulated = matches!(
        (resource.group, resource.plural, subresource),
        ("", "pods", "exec" | "attach" | "portforward" | "proxy") | ("", "nodes" | "services", "proxy")
    );
    let simulated = is_simulated.then(|| subresource.to_owned());
    let subresource = match subresource {
        name if name.is_empty() || is_simulated => None,
        name => Some(resource.subresource(name).ok_or_else(Status::no_such_path)?),
    };
    if !resource.namespaced && !namespace.is_empty() {
        return Err(Status::no_such_path());
    }
    if resource.namespaced && namespace.is_empty() && !name.is_empty() {
        return Err(Status::no_such_path());
    }
    let verb = verb(method, name, query)?;
    let info =
        RequestInfo { verb, resource, subresource, namespace: namespace.to_owned(), name: name.to_owned() };
    if let Some(subresource) = simulated {
        return Ok(Route::Simulated(info, subresource));
    }
    let verbs = subresource.map_or(resource.verbs, |s| s.verbs);
    let across = resource.namespaced && namespace.is_empty();
    if !verbs.contains(&verb.as_str())
        || (across && !matches!(verb, Verb::List | Verb::Watch))
        || (verb == Verb::Create && subresource.is_none() && !name.is_empty())
    {
        return Err(Status::method_not_allowed());
    }
    Ok(Route::Resource(info))
}

fn verb(method: &Method, name: &str, query: &Query) -> ApiResult<Verb> {
    Ok(match (method.as_str(), name.is_empty()) {
        ("GET" | "HEAD", false) => Verb::Get,
        ("GET" | "HEAD", true) if query.flag("watch") == Some(true) => Verb::Watch,
        ("GET" | "HEAD", true) => Verb::List,
        // Creating a subresource names the object it belongs to.
        ("POST", _) => Verb::Create,
        ("PUT", false) => Verb::Update,
        ("PATCH", false) => Verb::Patch,
        ("DELETE", false) => Verb::Delete,
        ("DELETE", true) => Verb::DeleteCollection,
        _ => return Err(Status::method_not_allowed()),
    })
}

/// The decoded segments. Ambiguous segments are refused.
fn segments(path: &str) -> ApiResult<Vec<String>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let segment = |text: &str| {
        let segment = decode(text, false)
            .ok_or_else(|| Status::bad_request("the path has a malformed percent escape"))?;
        if segment.is_empty() || segment == "." || segment == ".." {
            return Err(Status::no_such_path());
        }
        if segment.contains(['/', '\\']) || segment.chars().any(char::is_control) {
            return Err(Status::bad_request(format!("invalid path segment {segment:?}")));
        }
        Ok(segment)
    };
    path.split('/').map(segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(method: &str, path: &str) -> Result<String, u16> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let gates = FeatureGates::default();
        match route(&method, path, &Query::parse(query).unwrap(), gates, |_, _, _| None) {
            Ok(Route::Resource(i)) => Ok(format!(
                "{} {} {}|{}|{}",
                i.verb.as_str(),
                i.resource.group_resource(),
                i.namespace,
                i.name,
                i.subresource_name()
            )),
            Ok(Route::Unknown(i)) => Ok(format!("{} unknown {} {}", i.verb.as_str(), i.plural, i.group)),
            Ok(Route::Simulated(i, subresource)) => Ok(format!("{} {subresource}", i.verb.as_str())),
            Ok(Route::Path(segments)) => Ok(segments.join("/")),
            Err(status) => Err(status.code.as_u16()),
        }
    }

    #[test]
    fn paths_are_routed() {
        for (method, path, wanted) in [
            ("GET", "/api/v1/pods?watch=true", Ok("watch pods ||")),
            ("GET", "/api/v1/namespaces/n/pods", Ok("list pods n||")),
            ("GET", "/api/v1/namespaces/n/pods/p/log", Ok("get pods n|p|log")),
            ("POST", "/api/v1/namespaces/n/pods/p/binding", Ok("create pods n|p|binding")),
            ("POST", "/api/v1/namespaces/n/bindings", Ok("create bindings n||")),
            ("PATCH", "/api/v1/nodes/n%3Am/status", Ok("patch nodes |n:m|status")),
            ("GET", "/api/v1/namespaces/status", Ok("get namespaces |status|")),
            ("PUT", "/api/v1/namespaces/n/finalize", Ok("update namespaces |n|finalize")),
            ("DELETE", "/apis/apps/v1/namespaces/n/deployments", Ok("deletecollection deployments.apps n||")),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                Ok("create selfsubjectaccessreviews.authorization.k8s.io ||"),
            ),
            ("GET", "/", Ok("")),
            ("GET", "/apis/apps/v1/", Ok("apis/apps/v1")),
            ("GET", "/healthz", Ok("healthz")),
            ("POST", "/healthz", Err(405)),
            ("POST", "/api/v1/pods", Err(405)),
            ("POST", "/api/v1/nodes/n", Err(405)),
            ("PUT", "/api/v1/nodes", Err(405)),
            ("DELETE", "/api/v1/namespaces", Err(405)),
            ("TRACE", "/api/v1/nodes", Err(405)),
            ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", Err(405)),
            ("GET", "/api/v1/pods/p", Err(404)),
            ("GET", "/api/v1/namespaces/n/nodes", Err(404)),
            ("POST", "/api/v1/namespaces/n/pods/p/exec?command=x", Ok("create exec")),
            ("GET", "/api/v1/namespaces/n/pods/p/attach", Ok("get attach")),
            ("POST", "/api/v1/namespaces/n/pods/p/portforward", Ok("create portforward")),
            ("GET", "/api/v1/nodes/n/proxy", Ok("get proxy")),
            ("GET", "/api/v1/namespaces/n/pods/p/proxy/metrics", Ok("get proxy")),
            ("GET", "/api/v1/namespaces/n/configmaps/c/exec", Err(404)),
            ("GET", "/apis/metrics.k8s.io/v1beta1/nodes/n", Ok("get nodes.metrics.k8s.io |n|")),
            ("GET", "/apis/metrics.k8s.io/v1beta1/pods", Ok("list pods.metrics.k8s.io ||")),
            ("POST", "/apis/metrics.k8s.io/v1beta1/namespaces/n/pods", Err(405)),
            ("GET", "/apis/metrics.k8s.io/v1beta1/pods?watch=1", Err(405)),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/n", Err(405)),
            ("GET", "/api/v1/namespaces/n/gadgets", Ok("list unknown gadgets ")),
            ("DELETE", "/apis/x.com/v1/gadgets/g", Ok("delete unknown gadgets x.com")),
            ("GET", "/api/v2/pods", Ok("list unknown pods ")),
            ("GET", "/api/v1/namespaces/n/pods/p/status/x", Err(404)),
            ("GET", "/api/v1/namespaces/n/pods/../secrets", Err(404)),
            ("GET", "/api/v1/namespaces/n/pods/%2e%2e/secrets", Err(404)),
            ("GET", "/api/v1/namespaces/n%2fpods", Err(400)),
            ("GET", "/api/v1/namespaces/n/pods/a%00", Err(400)),
            ("GET", "/api/v1/namespaces/n/pods/%zz", Err(400)),
            ("GET", "/api//v1/pods", Err(404)),
        ] {
            assert_eq!(routed(method, path), wanted.map(str::to_owned), "{method} {path}");
        }
    }
}
