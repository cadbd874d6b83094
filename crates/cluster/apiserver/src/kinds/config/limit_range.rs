//! Limit ranges.

use berth_schema::resource::LIMIT_RANGES;

use crate::kinds::prelude::*;

pub static STRATEGY: Typed = Typed { complete: default_amounts, ..Typed::new(&LIMIT_RANGES) };

/// Of a container: the default limit is the maximum, the default request the default limit, or else the minimum.
fn default_amounts(value: &mut Value) {
    for item in items_mut(&mut value["spec"], "limits").iter_mut().filter(|item| item["type"] == "Container")
    {
        for (field, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            let mut amounts = item[from].as_object().cloned().unwrap_or_default();
            amounts.extend(item[field].as_object().cloned().unwrap_or_default());
            if let Some(item) = item.as_object_mut().filter(|_| amounts != Map::new()) {
                item.insert(field.to_owned(), Value::Object(amounts));
            }
        }
    }
}
