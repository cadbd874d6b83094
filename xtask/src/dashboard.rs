//! Generates the Grafana dashboard from the list of its panels, `deploy/monitoring/dashboard.yaml`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

const SOURCE: &str = "deploy/monitoring/dashboard.yaml";
pub const DASHBOARD: &str = "deploy/monitoring/grafana-dashboard.json";

/// The width of a dashboard in Grafana's grid, and the size of a panel.
const WIDTH: usize = 24;
const PANEL: (usize, usize) = (8, 8);

/// Writes the dashboard.
///
/// # Errors
/// A file cannot be read or written, or the source lacks a field.
pub fn generate(root: &Path) -> Result<String, String> {
    fs::write(root.join(DASHBOARD), dashboard(root)?).map_err(|e| format!("{DASHBOARD}: {e}"))?;
    Ok(DASHBOARD.to_owned())
}

fn dashboard(root: &Path) -> Result<String, String> {
    let text = fs::read_to_string(root.join(SOURCE)).map_err(|e| format!("{SOURCE}: {e}"))?;
    let source: Value = serde_saphyr::from_str(&text).map_err(|e| format!("{SOURCE}: {e}"))?;
    let mut panels = Vec::new();
    let mut y = 0;
    for row in list(&source, "rows")? {
        panels.push(json!({"type": "row", "title": row["title"], "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}}));
        y += 1;
        let (width, height) = PANEL;
        let in_row = list(row, "panels")?;
        for (i, source) in in_row.iter().enumerate() {
            let (x, y) = (i * width % WIDTH, y + i * width / WIDTH * height);
            panels.push(panel(source, json!({"x": x, "y": y, "w": width, "h": height}))?);
        }
        y += (in_row.len() * width).div_ceil(WIDTH) * height;
    }
    for (id, panel) in panels.iter_mut().enumerate() {
        panel["id"] = (id + 1).into();
    }
    let dashboard = json!({
        "uid": "berth",
        "title": source["title"],
        "tags": ["kubernetes", "scheduling"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
        ]},
        "panels": panels,
    });
    Ok(format!("{dashboard:#}\n"))
}

fn panel(source: &Value, position: Value) -> Result<Value, String> {
    let targets = list(source, "queries")?
        .iter()
        .zip('A'..)
        .map(|(query, id)| json!({"refId": id.to_string(), "expr": query[0], "legendFormat": query[1]}));
    Ok(json!({
        "type": "timeseries",
        "title": source["title"],
        "description": source["description"],
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": position,
        "fieldConfig": {"defaults": {"unit": source["unit"], "min": 0}, "overrides": []},
        "options": {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": targets.collect::<Vec<_>>(),
    }))
}

fn list<'v>(value: &'v Value, field: &str) -> Result<&'v Vec<Value>, String> {
    value[field].as_array().ok_or_else(|| format!("{SOURCE}: {} has no list {field}", value["title"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_is_generated_from_its_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let committed = fs::read_to_string(root.join(DASHBOARD)).unwrap_or_default();
        assert!(
            committed == dashboard(&root).unwrap(),
            "{DASHBOARD} is out of date: run `cargo xtask deploy`"
        );
    }
}
