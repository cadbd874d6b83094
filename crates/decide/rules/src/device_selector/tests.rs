//! Selectors by example.

use super::*;
use berth_api::syntax::quantity::Quantity;

/// A device of the driver `dra.example.com`.
fn device() -> (BTreeMap<String, DeviceAttribute>, BTreeMap<String, DeviceCapacity>) {
    let attributes = [
        ("model", DeviceAttribute::String("H100".to_owned())),
        ("numa", DeviceAttribute::Int(1)),
        ("healthy", DeviceAttribute::Bool(true)),
        ("firmware", DeviceAttribute::Version("1.10.0-rc.1".to_owned())),
        ("topology.example.com/rack", DeviceAttribute::String("r1".to_owned())),
    ];
    let value = Quantity::parse("40Gi").unwrap();
    let capacity = DeviceCapacity { value, ..DeviceCapacity::default() };
    let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    (attributes, [("memory".to_owned(), capacity)].into())
}

fn described<'a>(
    attributes: &'a BTreeMap<String, DeviceAttribute>,
    capacity: &'a BTreeMap<String, DeviceCapacity>,
) -> SelectedDevice<'a> {
    SelectedDevice { driver: "dra.example.com", allow_multiple_allocations: false, attributes, capacity }
}

fn matched(expression: &str) -> Result<bool, String> {
    let (attributes, capacity) = device();
    let selector = DeviceSelector::compile(expression)?;
    assert_eq!(selector.expression(), expression);
    selector.matches(&described(&attributes, &capacity))
}

#[test]
fn selectors_see_driver_attributes_and_capacities() {
    for (expression, expected) in [
        (r#"device.driver == "dra.example.com""#, true),
        (r#"device.attributes["dra.example.com"].model == "H100""#, true),
        (r#"device.attributes["dra.example.com"].model in ["A100", "T4"]"#, false),
        (r#"device.attributes["dra.example.com"].numa < 1"#, false),
        (r#"device.attributes["dra.example.com"].healthy"#, true),
        (r#"device.attributes["topology.example.com"].rack.startsWith("r")"#, true),
        (r#"device.attributes["dra.example.com"].firmware.isLessThan(semver("1.10.0"))"#, true),
        (r#"device.attributes["dra.example.com"].firmware.minor() == 10"#, true),
        (r#"device.capacity["dra.example.com"].memory.compareTo(quantity("40960Mi")) == 0"#, true),
        (r#"device.capacity["dra.example.com"].memory.isGreaterThan(quantity("41G"))"#, true),
        (r#"device.allowMultipleAllocations"#, false),
    ] {
        assert_eq!(matched(expression), Ok(expected), "{expression}");
    }
}

#[test]
fn an_unknown_domain_has_no_names_and_is_not_in_the_map() {
    assert_eq!(matched(r#""other.example.com" in device.attributes"#), Ok(false));
    assert_eq!(matched(r#""dra.example.com" in device.attributes"#), Ok(true));
    assert_eq!(matched(r#""model" in device.attributes["other.example.com"]"#), Ok(false));
    assert_eq!(
        matched(r#"device.attributes["other.example.com"].model == "x""#),
        Err("no such key: model".to_owned())
    );
}

#[test]
fn errors_are_those_of_the_reference() {
    for (expression, error) in [
        (r#"device.attributes["dra.example.com"].speed > 1"#, "no such key: speed"),
        (r#"1 / (device.attributes["dra.example.com"].numa - 1) == 0"#, "division by zero"),
        (r#"device.attributes["dra.example.com"].model > 3"#, "no such overload"),
        (r#"3 > device.attributes["dra.example.com"].model"#, "no such overload"),
        (r#"device.attributes["dra.example.com"].model % 2 == 0"#, "no such overload"),
        (r#"device.attributes["dra.example.com"].healthy + 1 == 0"#, "no such overload: _+_"),
        (r#"device.attributes["dra.example.com"].firmware < "2""#, "no such overload: _<_"),
        (r#"device.attributes["dra.example.com"].numa.size() == 0"#, "no such overload: size"),
        (r#"device.attributes["dra.example.com"].numa.matches("1")"#, "no such overload"),
        (
            r#"device.attributes["dra.example.com"].numa.lowerAscii() == """#,
            "no such overload: lowerAscii(int)",
        ),
        (
            r#"device.attributes["dra.example.com"].model.isLessThan(semver("1.0.0"))"#,
            "no such overload: isLessThan(string, kubernetes.Semver)",
        ),
        (r#"device.attributes["dra.example.com"].firmware == "1.10.0""#, "no such overload"),
        (r#"device.attributes["dra.example.com"].model.length == 4"#, "no such key: length"),
        (
            r#"device.capacity["dra.example.com"].memory.isLessThan(quantity("many"))"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            r#"device.attributes["dra.example.com"].firmware.isLessThan(semver("1.x"))"#,
            "No Major.Minor.Patch elements found",
        ),
        (
            r#"device.attributes["dra.example.com"].model"#,
            "CEL result of type string could not be converted to bool: unsupported native conversion from string \
             to 'bool'",
        ),
    ] {
        assert_eq!(matched(expression), Err(error.to_owned()), "{expression}");
    }
}

#[test]
fn types_are_checked_when_a_selector_is_compiled() {
    for (expression, part) in [
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("size(device.attributes['a'].b)", "must evaluate to bool or the unknown type, not int"),
        ("device.attributes['a']", "must evaluate to bool or the unknown type, not map(string, dyn)"),
        ("device.name == 'x'", "undefined field 'name'"),
        ("devise.driver == 'x'", "undeclared reference to 'devise' (in container '')"),
        ("device.driver == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("device.driver.isGreaterThan(quantity('1'))", "found no matching overload for 'isGreaterThan'"),
        ("?!", "Syntax error: mismatched input '?' expecting"),
    ] {
        let error = DeviceSelector::compile(expression).unwrap_err();
        assert!(error.contains(part), "{expression}: {error}");
    }
    let error = DeviceSelector::compile("device.driver == 1").unwrap_err();
    let position = "ERROR: <input>:1:15: ";
    assert!(
        error.contains(position) && error.ends_with("\n | device.driver == 1\n | ..............^"),
        "{error}"
    );
}

#[test]
fn the_estimated_cost_equals_the_reference() {
    for (expression, cost) in [
        ("true", 0),
        (r#"device.driver == """#, 2),
        (r#"device.driver == "dra.example.com""#, 4),
        ("device.allowMultipleAllocations == true", 3),
        (r#""dra.example.com" in device.attributes"#, 3),
        (r#"device.attributes["a"].b"#, 4),
        (r#"device.attributes["a"]["b"]"#, 4),
        (r#"device.attributes["a"].b > 0"#, 5),
        (r#"device.attributes["a"].b == "fish""#, 5),
        (r#"device.attributes["a"].b.isGreaterThan(semver("0.0.1"))"#, 6),
        (r#"device.capacity["a"].b.isGreaterThan(quantity("1Ki"))"#, 6),
        (r#"cel.bind(a, device.attributes["a"], a.b)"#, 15),
        (r#""b" in device.capacity["a"] && device.capacity["a"].b.isGreaterThan(quantity("1Ki"))"#, 10),
        (r#"!("b" in device.capacity["a"]) || device.capacity["a"].b.isGreaterThan(quantity("1Ki"))"#, 11),
        (r#"device.attributes.exists_one(x, x == "dra.example.com")"#, 164),
        (r#"device.attributes["a"].exists_one(x, x == "services")"#, 133),
        (r#"device.capacity["a"].exists_one(x, x == "memory")"#, 133),
        (r#"device.attributes["a"].b.split("example").size() >= 2"#, 19),
        (r#"device.attributes["a"].b.matches("[^a]?sym")"#, 18),
        (r#"device.attributes["a"].b.exists(x, x > 0)"#, 5 + 6 * 64),
        (r#"device.attributes["a"].b.all(x, x != "")"#, 5 + 4 * 64),
        (r#"device.attributes["a"].b.exists(x, x.isGreaterThan(semver("0.0.1")))"#, 5 + 7 * 64),
        (r#"1 in device.attributes["a"].b"#, 4 + 64),
        (r#"device.attributes["a"].b.size() == 2"#, 6),
    ] {
        let selector = DeviceSelector::compile(expression).unwrap();
        assert_eq!(selector.estimated_cost(), cost, "{expression}");
        assert!(!selector.exceeds_cost_limit());
        let (attributes, capacity) = device();
        let device = selector.compiled.value(&described(&attributes, &capacity)).unwrap();
        let (_, budget) = selector.compiled.program.evaluate_within(&[("device", device)], u64::MAX);
        let actual = budget.cost();
        assert!(actual <= cost, "{expression}: {actual}");
    }
}

/// Seven loops of ten rounds, one in another.
fn nested_loops() -> String {
    let list = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let loops: String = (0..7).map(|i| format!("{list}.all(x{i}, ")).collect();
    format!("{loops}int('1'.find('[0-9]*')) < 100{}", ")".repeat(7))
}

#[test]
fn selectors_that_cost_too_much_are_refused_and_their_evaluation_ends() {
    let selector = DeviceSelector::compile(&nested_loops()).unwrap();
    assert_eq!(selector.estimated_cost(), 85_555_551);
    assert!(selector.exceeds_cost_limit());
    assert_eq!(matched(&nested_loops()), Err("operation cancelled: actual cost limit exceeded".to_owned()));
}

#[test]
fn loops_need_something_to_loop_over() {
    for (name, implementation) in [
        ("numa", "types.Int"),
        ("healthy", "types.Bool"),
        ("model", "types.String"),
        ("firmware", "cel.Semver"),
    ] {
        let expression = format!(r#"device.attributes["dra.example.com"].{name}.exists(x, x == 1)"#);
        assert_eq!(matched(&expression), Err(format!("got '{implementation}', expected iterable type")));
    }
}

#[test]
fn attributes_that_are_no_versions_are_errors_even_if_they_are_not_read() {
    let attributes = [("v".to_owned(), DeviceAttribute::Version("1.x".to_owned()))].into();
    let selector = DeviceSelector::compile("true").unwrap();
    let error = selector.matches(&described(&attributes, &BTreeMap::new())).unwrap_err();
    assert_eq!(error, "attribute v: parse semantic version: No Major.Minor.Patch elements found");
}

#[test]
fn selectors_can_use_the_whole_device() {
    assert_eq!(matched("cel.bind(d, device, d.attributes.size() == 2)"), Ok(true));
    assert_eq!(matched("[device].exists(d, d.capacity.exists(c, c == 'dra.example.com'))"), Ok(true));
    assert_eq!(
        matched("device.?driver.orValue('') == 'dra.example.com' && has(device.attributes)"),
        Ok(true)
    );
}
