//! Selectors of devices: conditions of the Common Expression Language about a device.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use berth_api::object::device::{DeviceAttribute, DeviceCapacity};
use berth_cel::{Key, MAX_COST, Map, Program, Semver, Step, Type, Value};

/// Limit of the bytes of an expression about devices.
pub const MAX_SELECTOR_BYTES: usize = 10 << 10;

/// A compiled selector. Copies share it.
#[derive(Clone, Debug)]
pub struct DeviceSelector {
    compiled: Arc<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    expression: String,
    program: Program,
    reads_attributes: bool,
    reads_capacity: bool,
}

/// What selectors see of a device.
#[derive(Clone, Copy, Debug)]
pub struct SelectedDevice<'a> {
    /// The driver, which is also the domain of names without one.
    pub driver: &'a str,
    /// Whether several requests can share the device.
    pub allow_multiple_allocations: bool,
    pub attributes: &'a BTreeMap<String, DeviceAttribute>,
    pub capacity: &'a BTreeMap<String, DeviceCapacity>,
}

/// The type of the variable `device`.
static DEVICE: LazyLock<Type> = LazyLock::new(|| {
    let by_domain = |value| Type::map(Type::String, Type::map(Type::String, value));
    Type::object(
        "kubernetes.DRADevice",
        [
            ("driver", Type::String),
            ("allowMultipleAllocations", Type::Bool),
            ("attributes", by_domain(Type::Dyn)),
            ("capacity", by_domain(Type::QUANTITY)),
        ],
    )
});

fn program(expression: &str) -> Result<Program, String> {
    match expression.len() {
        ..=MAX_SELECTOR_BYTES => Program::compile(expression, &[("device", DEVICE.clone())]),
        _ => Err(format!("must not be longer than {MAX_SELECTOR_BYTES} bytes")),
    }
}

impl DeviceSelector {
    /// Reads a selector.
    ///
    /// # Errors
    /// The expression is malformed, too large, or has wrong types; the text is kube-apiserver's reason.
    pub fn compile(expression: &str) -> Result<DeviceSelector, String> {
        let program = program(expression)?;
        match program.result() {
            Type::Bool | Type::Dyn => {}
            other => return Err(format!("must evaluate to bool or the unknown type, not {other}")),
        }
        Ok(DeviceSelector {
            compiled: Arc::new(Compiled {
                expression: expression.to_owned(),
                reads_attributes: program.reads("device", "attributes"),
                reads_capacity: program.reads("device", "capacity"),
                program,
            }),
        })
    }

    /// The highest cost that the selector can have for a device, as kube-apiserver estimates it.
    pub fn estimated_cost(&self) -> u64 {
        self.compiled.program.estimated_cost(&largest_size)
    }

    /// Whether kube-apiserver refuses the selector because of its estimated cost.
    pub fn exceeds_cost_limit(&self) -> bool {
        self.estimated_cost() > MAX_COST
    }

    pub fn expression(&self) -> &str {
        &self.compiled.expression
    }

    /// Whether a device has what the selector asks for.
    ///
    /// # Errors
    /// The evaluation fails; the text is kube-scheduler's reason.
    pub fn matches(&self, device: &SelectedDevice<'_>) -> Result<bool, String> {
        let (matches, _) = self.matches_within(device, u64::MAX);
        matches.unwrap_or(Ok(false))
    }

    /// The same, if that takes no more than what is allowed, and what it took, in units of the cost of expressions.
    pub fn matches_within(
        &self,
        device: &SelectedDevice<'_>,
        allowed: u64,
    ) -> (Option<Result<bool, String>>, u64) {
        let n_values = device.attributes.len() + device.capacity.len();
        let of_device = COST_OF_DEVICE + COST_OF_VALUE * n_values as u64;
        let Some(allowed) = allowed.checked_sub(of_device) else { return (None, of_device) };
        let variable = match self.compiled.value(device) {
            Ok(value) => ("device", value),
            Err(reason) => return (Some(Err(reason)), of_device),
        };
        let (value, budget) = self.compiled.program.evaluate_within(&[variable], allowed);
        (value.map(|value| as_bool(&value?)), of_device + budget.spent())
    }
}

/// Why an expression cannot be an attribute that is derived from a device, in kube-apiserver's words.
pub fn derived_attribute_problem(expression: &str) -> Option<String> {
    let is_scalar =
        |ty: &Type| matches!(ty, Type::Bool | Type::Dyn | Type::Int | Type::String | &Type::SEMVER);
    match program(expression) {
        Err(reason) => Some(reason),
        Ok(program) => match program.result() {
            Type::List(items) if is_scalar(items) => None,
            ty if is_scalar(ty) => None,
            other => Some(format!(
                "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars, not {other}"
            )),
        },
    }
}

/// What it takes to show a device to a selector, and each of its attributes and capacities.
const COST_OF_DEVICE: u64 = 20;
const COST_OF_VALUE: u64 = 5;

fn as_bool(value: &Value) -> Result<bool, String> {
    let reason = match value {
        Value::Bool(matches) => return Ok(*matches),
        Value::String(_) => "unsupported native conversion from string to 'bool'",
        Value::Int(_) => "unsupported type conversion from 'int' to bool",
        Value::Uint(_) => "unsupported type conversion from 'uint' to bool",
        Value::Double(_) => "type conversion error from Double to 'bool'",
        Value::Bytes(_) => "type conversion error from Bytes to 'bool'",
        Value::List(_) => "type conversion error from list to 'bool'",
        Value::Map(_) => "type conversion error from map to 'bool'",
        Value::Semver(_) => "type conversion error from 'Semver' to 'bool'",
        Value::Quantity(_) => "type conversion error from 'Quantity' to 'bool'",
        _ => "type conversion error to 'bool'",
    };
    Err(format!("CEL result of type {} could not be converted to bool: {reason}", value.type_name()))
}

/// The largest size of a part of `device`: entries of maps, characters of names and values.
fn largest_size(path: &[Step]) -> Option<u64> {
    const MAX_NAMES: u64 = 32;
    const MAX_DOMAIN_LEN: u64 = 63;
    const MAX_NAME_LEN: u64 = 32;
    const MAX_VALUE_LEN: u64 = 64;
    let [Step::Name(variable), path @ ..] = path else { return None };
    if &**variable != "device" {
        return None;
    }
    let [Step::Name(field), path @ ..] = path else { return Some(0) };
    match (&**field, path) {
        ("driver", []) => Some(MAX_DOMAIN_LEN),
        ("allowMultipleAllocations", []) => Some(1),
        ("attributes" | "capacity", [] | [Step::Values]) => Some(MAX_NAMES),
        ("attributes" | "capacity", [Step::Keys]) => Some(MAX_DOMAIN_LEN),
        ("attributes" | "capacity", [Step::Values, Step::Keys]) => Some(MAX_NAME_LEN),
        ("attributes", [Step::Values, Step::Values | Step::Name(_)]) => Some(MAX_VALUE_LEN),
        _ => None,
    }
}

impl Compiled {
    /// The device, with the maps that the expression can read.
    fn value(&self, device: &SelectedDevice<'_>) -> Result<Value, String> {
        let mut attributes = BTreeMap::<_, Map>::new();
        for (name, attribute) in device.attributes {
            let value = match attribute {
                DeviceAttribute::Version(version) => match Semver::parse(version) {
                    Ok(version) => Value::Semver(Arc::new(version)),
                    Err(reason) => return Err(format!("attribute {name}: parse semantic version: {reason}")),
                },
                DeviceAttribute::Unset => {
                    return Err(format!("attribute {name}: unsupported attribute value"));
                }
                _ if !self.reads_attributes => continue,
                DeviceAttribute::Int(value) => Value::Int(*value),
                DeviceAttribute::Bool(value) => Value::Bool(*value),
                DeviceAttribute::String(value) => Value::string(value.as_str()),
            };
            insert(&mut attributes, device.driver, name, value);
        }
        let mut capacity = BTreeMap::new();
        for (name, value) in device.capacity.iter().filter(|_| self.reads_capacity) {
            insert(&mut capacity, device.driver, name, Value::Quantity(value.value));
        }
        let fields = [
            ("driver", Value::string(device.driver)),
            ("allowMultipleAllocations", Value::Bool(device.allow_multiple_allocations)),
            ("attributes", by_domain(attributes)),
            ("capacity", by_domain(capacity)),
        ];
        let entries = fields.into_iter().map(|(name, value)| (Key::String(name.into()), value)).collect();
        Ok(Value::Map(Arc::new(Map { entries, has_default: false })))
    }
}

fn insert(domains: &mut BTreeMap<Key, Map>, driver: &str, name: &str, value: Value) {
    let (domain, name) = name.split_once('/').unwrap_or((driver, name));
    let domain = domains.entry(Key::String(domain.into())).or_default();
    domain.entries.insert(Key::String(name.into()), value);
}

/// A lookup of an unknown domain finds an empty map.
fn by_domain(domains: BTreeMap<Key, Map>) -> Value {
    let entries = domains.into_iter().map(|(domain, names)| (domain, Value::Map(Arc::new(names))));
    Value::Map(Arc::new(Map { entries: entries.collect(), has_default: true }))
}

#[cfg(test)]
mod tests;
