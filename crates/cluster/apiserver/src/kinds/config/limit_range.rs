//! Limit ranges.

use std::collections::BTreeSet;

use berth_api::object::LimitRangeItem;
use berth_api::read::from_value;
use berth_api::syntax;
use berth_api::syntax::quantity::Quantity;
use berth_control::limits;
use berth_schema::resource::LIMIT_RANGES;

use super::resource_name::validate_of_limit;
use crate::kinds::prelude::*;

pub static STRATEGY: Typed = Typed {
    complete: |range| {
        if name(range).is_empty() {
            range["metadata"]["name"] = uuid::Uuid::new_v4().to_string().into();
        }
        default_amounts(range);
        // Go writes an empty list as null.
        if let Some(spec) =
            range["spec"].as_object_mut().filter(|spec| spec.get("limits").is_some_and(is_empty))
        {
            spec.remove("limits");
        }
    },
    check: |range, causes| validate(&range["spec"], causes),
    not_required: &[("LimitRangeItem", "type")],
    ..Typed::new(&LIMIT_RANGES)
};

const TYPES: [&str; 3] = ["Container", "PersistentVolumeClaim", "Pod"];
const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn validate(spec: &Value, causes: &mut Causes) {
    let limits = items(spec, "limits");
    let repeated = repeated(limits.iter().map(|limit| &limit["type"]));
    for (i, limit) in limits.iter().enumerate() {
        let path = format!("spec.limits[{i}]");
        let (kind, field) = (text(limit, "/type"), format!("{path}.type"));
        let problems = syntax::label_key(kind);
        if problems.is_empty() && !kind.contains('/') && !TYPES.contains(&kind) {
            causes.invalid(&field, &limit["type"], "must be a standard limit type or fully qualified");
        }
        causes.problems(&field, &kind.into(), problems);
        if repeated.contains(&i) {
            causes.duplicate(&field, &limit["type"]);
        }
        for list in LISTS {
            let path = format!("{path}.{list}");
            let amounts = limit[list].as_object().into_iter().flatten();
            if kind == "Pod" && list.starts_with("default") {
                if !is_empty(&limit[list]) {
                    causes.forbidden(&path, "may not be specified when `type` is 'Pod'");
                }
                continue;
            }
            amounts.for_each(|(name, _)| validate_of_limit(&format!("{path}[{name}]"), kind, name, causes));
        }
        if kind == "PersistentVolumeClaim"
            && ["min", "max"].iter().all(|list| limit[list].get("storage").is_none())
        {
            let why = "either minimum or maximum storage value is required, but neither was provided";
            causes.required(&format!("{path}.limits"), why);
        }
        let names: BTreeSet<&String> = LISTS
            .iter()
            .flat_map(|list| limit[list].as_object().into_iter().flatten())
            .map(|(name, _)| name)
            .collect();
        names.into_iter().for_each(|name| compare(limit, name, &path, causes));
    }
}

fn compare(limit: &Value, name: &str, path: &str, causes: &mut Causes) {
    let has_defaults = limit["type"] != "Pod";
    let [max, min, default, request, ratio] = LISTS
        .map(|list| quantity(&limit[list][name]).filter(|_| has_defaults || !list.starts_with("default")));
    let field = |list: &str| format!("{path}.{list}[{name}]");
    // The field, the value that is shown, and the smaller of two with their names.
    let pairs = [
        ("min", min, ("min", min), ("max", max)),
        ("defaultRequest", request, ("min", min), ("default request", request)),
        ("defaultRequest", request, ("default request", request), ("max", max)),
        ("defaultRequest", request, ("default request", request), ("default limit", default)),
        ("default", min, ("min", min), ("default", default)),
        ("default", max, ("default", default), ("max", max)),
    ];
    for (list, shown, (less, low), (more, high)) in pairs {
        if let (Some(shown), Some(low), Some(high)) = (shown, low, high)
            && low > high
        {
            let why = format!("{less} value {low} is greater than {more} value {high}");
            causes.invalid(&field(list), &shown.to_string().into(), &why);
        }
    }
    let Some(ratio) = ratio else { return };
    let mut invalid =
        |why: String| causes.invalid(&field("maxLimitRequestRatio"), &ratio.to_string().into(), &why);
    if ratio < Quantity::from_units(1) {
        invalid(format!("ratio {ratio} is less than 1"));
    }
    if let (Some(min), Some(max)) = (min, max) {
        let most = max.approximate() / min.approximate();
        if ratio.approximate() > most {
            invalid(format!("ratio {ratio} is greater than max/min = {most:.6}"));
        }
    }
}

fn default_amounts(value: &mut Value) {
    for item in items_mut(&mut value["spec"], "limits") {
        // What cannot be read is refused when it is validated.
        let Ok(mut limit) = from_value::<LimitRangeItem>(item) else { continue };
        limits::complete(&mut limit);
        set_quantities(item, "default", &limit.default);
        set_quantities(item, "defaultRequest", &limit.default_request);
    }
}
