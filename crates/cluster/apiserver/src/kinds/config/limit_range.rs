//! Limit ranges.

use berth_api::object::LimitRangeItem;
use berth_api::read::from_value;
use berth_control::limits;
use berth_schema::resource::LIMIT_RANGES;

use crate::kinds::prelude::*;

pub static STRATEGY: Typed = Typed { complete: default_amounts, ..Typed::new(&LIMIT_RANGES) };

fn default_amounts(value: &mut Value) {
    for item in items_mut(&mut value["spec"], "limits") {
        // What cannot be read is refused when it is validated.
        let Ok(mut limit) = from_value::<LimitRangeItem>(item) else { continue };
        limits::complete(&mut limit);
        set_quantities(item, "default", &limit.default);
        set_quantities(item, "defaultRequest", &limit.default_request);
    }
}
