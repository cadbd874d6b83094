//! Files become a cluster, and the cluster answers requests.

use berth_console::{Request, Response, State, respond};
use berth_input::inventory::Inventory;
use berth_simulate::SimulationOptions;

/// A cluster from files, with its pages.
pub struct Playground {
    files: Inventory,
    /// None after the files of the next cluster could not be opened.
    state: Option<State>,
}

impl Default for Playground {
    fn default() -> Playground {
        let state = State::new("playground", Inventory::default(), SimulationOptions::default());
        Playground { files: Inventory::keeping_raw_but_pods(), state: state.ok() }
    }
}

impl Playground {
    /// Adds the objects of a file to the next cluster.
    ///
    /// # Errors
    /// The text is malformed, or an object cannot be added. The message has the line, and the files so far are dropped.
    pub fn add(&mut self, name: &str, content: &[u8]) -> Result<(), String> {
        let read = self.files.read(content, name).map_err(|error| error.to_string());
        if read.is_err() {
            self.files = Inventory::keeping_raw_but_pods();
        }
        read
    }

    /// Opens the cluster of the added files. The one before is dropped.
    ///
    /// # Errors
    /// The files have no Kubernetes objects about placement, or an object is invalid.
    pub fn open(&mut self, name: &str) -> Result<(), String> {
        self.state = None;
        let files = std::mem::replace(&mut self.files, Inventory::keeping_raw_but_pods());
        if files.nodes.is_empty() && files.pods.is_empty() && files.workloads.is_empty() {
            return Err(format!("{name}: no nodes, pods or workloads: save them with `berth dump`"));
        }
        self.state = Some(State::new(name, files, SimulationOptions::default()).map_err(|e| e.to_string())?);
        Ok(())
    }

    /// The answer to a request; none if no cluster is open.
    pub fn respond(&mut self, request: &Request<'_>) -> Option<Response> {
        self.state.as_mut().map(|state| respond(state, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(playground: &mut Playground, path: &str) -> Response {
        playground.respond(&Request { path, ..Request::default() }).expect("a cluster is open")
    }

    #[test]
    fn files_become_pages() {
        let mut playground = Playground::default();
        assert_eq!(page(&mut playground, "/assets/console.css").status, 200);
        let node = b"{apiVersion: v1, kind: Node, metadata: {name: worker-1}}";
        let pod =
            b"{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}";
        playground.add("nodes.yaml", node).unwrap();
        playground.add("pods.yaml", pod).unwrap();
        playground.open("files").unwrap();
        let body = page(&mut playground, "/").body;
        assert!(
            body.contains("1 node, 1 pod, 1 pending") && body.contains("<title>Overview - files"),
            "{body}"
        );
    }

    #[test]
    fn errors_have_the_place_and_leave_no_objects() {
        let mut playground = Playground::default();
        playground.add("a.yaml", b"{apiVersion: v1, kind: Node, metadata: {name: worker-1}}").unwrap();
        let error = playground.add("b.yaml", b"kind: Node\nmetadata: {name: [}\n").unwrap_err();
        assert!(error.starts_with("b.yaml:2:"), "{error}");
        let error = playground.open("files").unwrap_err();
        assert!(error.starts_with("files: no nodes, pods or workloads"), "{error}");
        assert_eq!(playground.respond(&Request::default()), None);
    }
}
