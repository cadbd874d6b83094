//! Reads the text of nodes. The many nodes of one size have one status, which is read once.

use std::ops::Range;

use berth_api::object::{Node, NodeStatus};
use berth_api::read::json_text::{Index, JsonText, Malformed};
use serde::de::Error;

use crate::known::{Known, read_metadata, read_part};

/// Reads the JSON of nodes. Nodes share their status.
#[derive(Default)]
pub struct NodeParser {
    statuses: Known<NodeStatus>,
    index: Index,
}

/// Where in a text the parts of a node are; empty if the node does not have them.
#[derive(Default)]
struct Parts<'t> {
    metadata: Range<usize>,
    managed_fields: Range<usize>,
    spec: &'t [u8],
    status: Range<usize>,
    status_fields: [&'t [u8]; NodeStatus::FIELDS.len()],
}

impl NodeParser {
    pub fn read(&mut self, text: &[u8]) -> Result<Node, serde_json::Error> {
        let mut json = JsonText::new(text, &mut self.index);
        let parts = find_parts(&mut json)?;
        if !json.is_at_end() {
            return Err(Malformed.into());
        }
        self.read_parts(text, &parts)
    }

    /// Reads the node in a line of a watch.
    ///
    /// # Errors
    /// The line is not JSON, has no object, or the object is not a node.
    pub(crate) fn read_line(&mut self, line: &[u8]) -> Result<Node, serde_json::Error> {
        let mut json = JsonText::new(line, &mut self.index);
        let (mut members, mut node) = (json.object()?, None);
        while let Some(key) = json.next_key(&mut members)? {
            match key {
                b"object" => node = Some(find_parts(&mut json)?),
                _ => _ = json.value()?,
            }
        }
        match node.filter(|_| json.is_at_end()) {
            Some(parts) => self.read_parts(line, &parts),
            None => Err(Error::custom("it is not the text of one object")),
        }
    }

    fn read_parts(&mut self, text: &[u8], parts: &Parts<'_>) -> Result<Node, serde_json::Error> {
        let status = self.statuses.get(parts.status_fields, || read_part(&text[parts.status.clone()]))?;
        let metadata = read_metadata(text, &parts.metadata, &parts.managed_fields)?;
        Ok(Node { metadata, spec: read_part(parts.spec)?, status })
    }
}

/// Finds the parts of the node that comes next.
fn find_parts<'t>(json: &mut JsonText<'t, '_>) -> Result<Parts<'t>, Malformed> {
    let (mut parts, mut members) = (Parts::default(), json.object()?);
    while let Some(key) = json.next_key(&mut members)? {
        let begin = json.at();
        match key {
            b"metadata" => {
                parts.managed_fields = 0..0;
                let mut fields = json.object()?;
                while let Some(key) = json.next_key(&mut fields)? {
                    let length = json.value()?.len();
                    if key == b"managedFields" {
                        parts.managed_fields = json.at() - length..json.at();
                    }
                }
                parts.metadata = begin..json.at();
            }
            b"spec" => parts.spec = json.value()?,
            b"status" => {
                parts.status_fields = json.members(NodeStatus::FIELDS)?;
                parts.status = begin..json.at();
            }
            _ => _ = json.value()?,
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node() -> Value {
        json!({
            "metadata": {"name": "a", "labels": {"x": "1"}, "managedFields": [{"manager": "m"}]},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "lastHeartbeatTime": "1"}]},
        })
    }

    #[test]
    fn nodes_are_read_as_they_are_whatever_was_read_before() {
        let mut parser = NodeParser::default();
        for (path, value) in [
            ("/metadata/name", json!("b")),
            ("/metadata/labels", json!({"x": "2"})),
            ("/metadata/annotations", json!({"a": "b"})),
            ("/metadata", Value::Null),
            ("/spec/unschedulable", json!(true)),
            ("/spec", Value::Null),
            ("/status/allocatable/cpu", json!("5")),
            ("/status/allocatable", Value::Null),
            ("/status/capacity", json!({"cpu": "4"})),
            ("/status/images", json!([{"names": ["i"], "sizeBytes": 1}])),
            ("/status/nodeInfo", json!({"architecture": "arm64"})),
            ("/status/declaredFeatures", json!(["f"])),
            ("/status", Value::Null),
            ("/kind", json!("Node")),
        ] {
            let mut object = node();
            let (parent, field) = path.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field] = value;
            let expected: Node = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(parser.read(object.to_string().as_bytes()).unwrap(), expected, "{path}");
            let line = json!({"type": "ADDED", "object": object}).to_string();
            assert_eq!(parser.read_line(line.as_bytes()).unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn the_digest_has_every_field_of_the_status() {
        let status = json!({"allocatable": {"cpu": "1"}, "capacity": {"cpu": "1"}, "images": [{"names": ["i"]}],
            "nodeInfo": {"architecture": "arm64"}, "declaredFeatures": ["f"]});
        let status: NodeStatus = serde_json::from_value(status).unwrap();
        let Value::Object(fields) = serde_json::to_value(status).unwrap() else { panic!("no object") };
        assert!(fields.keys().all(|field| NodeStatus::FIELDS.contains(&field.as_str())), "{fields:?}");
        assert_eq!(fields.len(), NodeStatus::FIELDS.len());
    }

    #[test]
    fn nodes_of_one_size_share_their_status_but_for_what_is_not_read() {
        let mut parser = NodeParser::default();
        let [first, second] = ["1", "2"].map(|time| {
            let mut object = node();
            object["status"]["conditions"][0]["lastHeartbeatTime"] = time.into();
            parser.read(object.to_string().as_bytes()).unwrap()
        });
        assert!(std::ptr::eq(&*first.status, &*second.status));
    }

    #[test]
    fn nonsense_is_an_error() {
        let mut parser = NodeParser::default();
        for text in
            ["", "5", "{", "{} 1", r#"{"status": 1}"#, r#"{"metadata": []}"#, r#"{"spec": {"taints": 1}}"#]
        {
            assert!(parser.read(text.as_bytes()).is_err(), "{text}");
            assert!(parser.read_line(format!(r#"{{"object":{text}}}"#).as_bytes()).is_err(), "{text}");
        }
        assert!(parser.read_line(b"{}").is_err());
    }
}
