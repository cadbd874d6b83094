//! The functions, by the examples of their documentation.

use crate::{Program, Value};

/// The value of an expression without variables, as text.
fn value(text: &str) -> String {
    let program = match Program::compile(text, &[]) {
        Ok(program) => program,
        Err(error) => return error.lines().next().unwrap_or_default().to_owned(),
    };
    match program.evaluate(&[]).0 {
        Ok(Value::Bool(value)) => value.to_string(),
        Ok(Value::String(text)) => format!("'{text}'"),
        Ok(value) => value.to_string(),
        Err(error) => error,
    }
}

fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(value(text), *expected, "{text}");
    }
}

#[test]
fn arithmetic_and_comparisons() {
    check(&[
        ("1 + 2 * 3 - 4 / 2 % 3", "5"),
        ("-(2 + 3)", "-5"),
        ("1 < 2.5 && 3u > 2 && 1u <= 1.0", "true"),
        ("dyn(1) == 1.0 && dyn(1u) == 1", "true"),
        ("dyn('1') == 1", "false"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("-9223372036854775808 - 1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("7 % 0", "modulus by zero"),
        ("7 / 0", "division by zero"),
        ("0.0 / 0.0 == 0.0 / 0.0", "false"),
        ("0xff", "255"),
        ("'a' + 'b' < 'b'", "true"),
        ("b'a\\xff' == b'a\\377'", "true"),
        (r#"'\u00e9\t\'' == "é	'" && r'\n' == '\\n'"#, "true"),
        ("'''a'b''' == \"a'b\"", "true"),
        ("size([1, 2] + [3]) == 3 && size('äö') == 2 && {'a': 1}.size() == 1", "true"),
        ("[1, 2][2]", "index out of bounds: 2"),
        ("{'a': 1}['b']", "no such key: b"),
        ("{1: 'a'}[dyn(1u)]", "'a'"),
        ("type(1) == int && type('') != int && type([]) == list", "true"),
    ]);
}

#[test]
fn errors_are_absorbed_where_the_other_operand_decides() {
    check(&[
        ("1 / 0 == 0 || true", "true"),
        ("true || 1 / 0 == 0", "true"),
        ("1 / 0 == 0 && false", "false"),
        ("1 / 0 == 0 && true", "division by zero"),
        ("1 / 0 == 0 || 1 % 0 == 0", "division by zero"),
        ("false ? 1 / 0 : 2", "2"),
        ("[0, 2].exists(x, 4 / x == 2)", "true"),
        ("[0, 2].all(x, 4 / x == 1)", "false"),
        ("[0, 2].all(x, 4 / x == 2)", "division by zero"),
        ("[0, 2].map(x, 4 / x).size()", "division by zero"),
        ("cel.bind(a, 1 / 0, true)", "true"),
        ("!dyn(1)", "no such overload"),
    ]);
}

#[test]
fn macros_loop_and_bind() {
    check(&[
        ("[1, 2, 3].filter(x, x > 1) == [2, 3]", "true"),
        ("[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]", "true"),
        ("[1, 2, 2].exists_one(x, x == 1)", "true"),
        ("{'a': 1, 'b': 2}.all(k, k < 'c')", "true"),
        ("[5, 6].all(i, v, v == i + 5)", "true"),
        ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", "true"),
        ("[2, 3].transformList(i, v, i > 0, i * v) == [3]", "true"),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 2) == {'b': 4}", "true"),
        ("{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}", "true"),
        ("cel.bind(a, 2, cel.bind(b, a + 1, a * b))", "6"),
        ("[1].map(ip, ip + 1) == [2]", "true"),
        ("has({'a': 1}.a) && !has({'a': 1}.b)", "true"),
        ("has(1)", "compilation failed: ERROR: <input>:1:5: invalid argument to has() macro"),
        ("[1].all(1, true)", "compilation failed: ERROR: <input>:1:9: argument must be a simple name"),
    ]);
}

#[test]
fn optional_values() {
    check(&[
        ("{'a': 1}.?a.orValue(2)", "1"),
        ("{'a': 1}.?b.orValue(2)", "2"),
        ("{'a': {'b': 1}}.?a.b.value()", "1"),
        ("{'a': 1}[?'b'].hasValue()", "false"),
        ("[1, 2][?5].orValue(7)", "7"),
        ("optional.none().or(optional.of(3)).value()", "3"),
        ("optional.of(1).orValue(1 / 0)", "1"),
        ("optional.ofNonZeroValue('').hasValue()", "false"),
        ("optional.none().value()", "optional.none() dereference"),
        ("optional.of(2).optMap(x, x * 2).value()", "4"),
        ("optional.of([1]).optFlatMap(x, x[?0]).value()", "1"),
        ("[1, ?optional.none(), ?optional.of(2)] == [1, 2]", "true"),
        ("{?'a': optional.none(), 'b': 1} == {'b': 1}", "true"),
    ]);
}

#[test]
fn quantities() {
    check(&[
        ("quantity('200M').compareTo(quantity('0.2G'))", "0"),
        ("quantity('50M').compareTo(quantity('50Mi'))", "-1"),
        ("quantity('150Mi').isGreaterThan(quantity('100Mi'))", "true"),
        ("quantity('50M').isLessThan(quantity('100M'))", "true"),
        ("isQuantity('1.3Gi') && !isQuantity('1,3G') && !isQuantity('200K') && !isQuantity('Mi')", "true"),
        ("quantity('50k').add(20).sub(quantity('100k')).sub(-50000) == quantity('20')", "true"),
        ("quantity('50k').asInteger() == 50000 && quantity('50000000G').isInteger()", "true"),
        ("quantity('1500m').isInteger()", "false"),
        ("quantity('1500m').asInteger()", "cannot convert value to integer"),
        ("quantity('1500m').asApproximateFloat()", "1.5"),
        ("sign(quantity('-1')) == -1 && sign(quantity('0')) == 0", "true"),
        ("quantity('200K')", "unable to parse quantity's suffix"),
        (
            "quantity('1').sign()",
            "compilation failed: ERROR: <input>:1:19: found no matching overload for 'sign' applied to \
             'kubernetes.Quantity.()'",
        ),
    ]);
}

#[test]
fn semantic_versions() {
    check(&[
        ("semver('1.2.3').compareTo(semver('2.0.0'))", "-1"),
        ("semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta'))", "true"),
        ("semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))", "true"),
        ("semver('1.0.0+a') == semver('1.0.0+b')", "true"),
        ("semver('1.2.3').major() + semver('1.2.3').minor() + semver('1.2.3').patch()", "6"),
        ("isSemver('1.0.0') && !isSemver('v1.0') && !isSemver('hello') && isSemver('v1.0', true)", "true"),
        ("semver('01.01.01', true).compareTo(semver('1.1.1'))", "0"),
        ("semver('1.0', true).isGreaterThan(semver('0.9.9'))", "true"),
        ("semver('1.0-rc', true)", "short version cannot contain PreRelease/Build meta data"),
        ("semver('200K')", "No Major.Minor.Patch elements found"),
        ("semver('1.02.0')", "Minor number must not contain leading zeroes \"02\""),
        ("semver('1.x.0')", "Invalid character(s) found in minor number \"x\""),
    ]);
}

#[test]
fn strings() {
    check(&[
        ("'hello'.charAt(4) + 'hello'.charAt(5)", "'o'"),
        ("'hello'.charAt(-1)", "index out of range: -1"),
        ("'hello mellow'.indexOf('ello') + 'hello mellow'.indexOf('ello', 2)", "8"),
        ("'hello mellow'.indexOf('jello') + 'hello mellow'.indexOf('', 2)", "1"),
        ("'hello mellow'.indexOf('ello', 20)", "index out of range: 20"),
        ("'hello mellow'.lastIndexOf('ello')", "7"),
        ("'hello mellow'.lastIndexOf('ello', 6)", "1"),
        ("'hello mellow'.lastIndexOf('')", "12"),
        ("'hello mellow'.lastIndexOf('ello', -1)", "index out of range: -1"),
        ("['hello', 'mellow'].join() + ['a', 'b'].join(' ')", "'hellomellowa b'"),
        ("'TacoCÆt'.lowerAscii() + 'tacocæt'.upperAscii()", "'tacocÆtTACOCæT'"),
        ("'hello hello'.replace('he', 'we', 1)", "'wello hello'"),
        ("'ab'.replace('', '_')", "'_a_b_'"),
        ("'a b c'.split(' ') == ['a', 'b', 'c'] && 'a b c'.split(' ', 2) == ['a', 'b c']", "true"),
        ("'a b'.split(' ', 0).size() + 'abc'.split('').size()", "3"),
        ("'tacocat'.substring(4) + 'tacocat'.substring(0, 4)", "'cattaco'"),
        ("'tacocat'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("' \\ttrim\\n '.trim()", "'trim'"),
        (r#"strings.quote("a\"\n")"#, r#"'"a\"\n"'"#),
        (
            "'%s %d %.2f %x %X %o %b %% %e'.format([dyn('a'), 42, 3.14159, 26, 'ab', 30, 5, 2.71828])",
            "'a 42 3.14 1a 6162 36 101 % 2.718280e+00'",
        ),
        (
            "'%s'.format([[dyn(1), 'x', {'b': dyn(true), 'a': 1.5}]])",
            "'[1, \"x\", {\"a\":1.500000, \"b\":true}]'",
        ),
        (
            "'%d'.format(['x'])",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%d %d'.format([1])", "index 1 out of range"),
        ("'foobar'.matches('^fo+') && matches('x', '[a-z]') && !'x'.matches('\\\\d')", "true"),
        ("'abc 123'.find('[0-9]+') + 'abc'.find('xyz')", "'123'"),
        ("'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '1 2'.findAll('[0-9]', 1) == ['1']", "true"),
        ("'a'.matches('(')", "compilation failed: ERROR: <input>:1:13: invalid matches argument"),
    ]);
}

#[test]
fn lists_and_sets() {
    check(&[
        ("[1, 2, 3].isSorted() && !['b', 'a'].isSorted() && [2.0].isSorted()", "true"),
        ("[1, 3].sum() + [3, 1].min() + [1, 3].max()", "8"),
        ("[duration('1m'), duration('1s')].sum() == duration('61s')", "true"),
        ("[1, 2, 2, 3].indexOf(2) + [1, 2, 2, 3].lastIndexOf(2) + [1].indexOf(5)", "2"),
        ("['a'].filter(x, false).max()", "max called on empty list"),
        ("sets.contains([1, 2, 3], [2]) && !sets.contains([1], [2]) && sets.contains([1], [])", "true"),
        ("sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])", "true"),
        ("1 in [1, 2] && !('c' in {'a': 1}) && dyn('x') in ['x']", "true"),
    ]);
}

#[test]
fn addresses_and_urls() {
    check(&[
        ("ip('127.0.0.1').family() + ip('::1').family()", "10"),
        ("isIP('::1') && !isIP('127.0.0.256') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')", "true"),
        ("ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')", "true"),
        ("ip('0.0.0.0').isUnspecified() && ip('127.0.0.1').isLoopback()", "true"),
        ("ip('224.0.0.1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast()", "true"),
        ("ip('169.254.1.1').isLinkLocalUnicast() && ip('192.168.0.1').isGlobalUnicast()", "true"),
        (
            "cidr('192.168.0.0/24').containsIP('192.168.0.1') && !cidr('192.168.0.0/24').containsIP(ip('::1'))",
            "true",
        ),
        ("cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24')", "true"),
        ("cidr('192.168.1.0/24').containsCIDR(cidr('192.168.2.0/24'))", "false"),
        ("cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')", "true"),
        ("cidr('::1/128').prefixLength() == 128 && string(cidr('::1/128').ip()) == '::1'", "true"),
        ("isCIDR('192.168.0.0/33') || isCIDR('1.2.3.4')", "false"),
        (
            "url('https://example.com:80/').getHost() + url('https://[::1]:80/').getHostname()",
            "'example.com:80::1'",
        ),
        ("url('/path').getScheme() + url('https://example.com/').getPort()", "''"),
        ("url('https://example.com/path with spaces/').getEscapedPath()", "'/path%20with%20spaces/'"),
        (
            "url('https://example.com/path?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}",
            "true",
        ),
        ("isURL('/absolute-path') && !isURL('../relative-path') && !isURL('https://a:b:c/')", "true"),
        ("format.dns1123Label().validate('my-label').hasValue()", "false"),
        ("format.named('uuid').value().validate('x').value()[0]", "'does not match the UUID format'"),
        ("format.named('other').hasValue()", "false"),
    ]);
}

#[test]
fn conversions_and_times() {
    check(&[
        ("int('-7') + int(3.9) + int(2u)", "-2"),
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("uint(-1)", "unsigned integer overflow"),
        ("int(1e30)", "integer overflow"),
        ("string(1.0) + string(1e9) + string(0.5) + string(true) + string(b'x')", "'11e+090.5truex'"),
        ("double('1.5') + double(1)", "2.5"),
        ("bool('true') && !bool('0')", "true"),
        ("duration('1h30m') == duration('90m') && string(duration('1.5s')) == '1.5s'", "true"),
        ("duration('-1.5h').getMinutes()", "-90"),
        ("timestamp('2024-02-29T01:02:03.5Z').getMonth()", "1"),
        ("timestamp('2024-02-29T23:30:00Z').getDate('Europe/Berlin')", "1"),
        ("timestamp('2024-02-29T23:30:00Z').getHours('-02:30')", "21"),
        ("timestamp('2024-02-29T00:00:00Z') + duration('24h') == timestamp('2024-03-01T00:00:00Z')", "true"),
        ("timestamp('2024-01-01T00:00:00Z').getDayOfWeek()", "1"),
        ("duration('1 h')", "compilation failed: ERROR: <input>:1:10: invalid duration argument"),
        ("timestamp('x')", "compilation failed: ERROR: <input>:1:11: invalid timestamp argument"),
    ]);
}

#[test]
fn types_that_do_not_fit_are_reported_where_they_are() {
    check(&[
        (
            "1 + 'a'",
            "compilation failed: ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'",
        ),
        ("1 && true", "compilation failed: ERROR: <input>:1:1: expected type 'bool' but found 'int'"),
        ("[1, 'a']", "compilation failed: ERROR: <input>:1:5: expected type 'int' but found 'string'"),
        (
            "{'a': 1}.a.b",
            "compilation failed: ERROR: <input>:1:11: type 'int' does not support field selection",
        ),
        (
            "'a'.all(x, true)",
            "compilation failed: ERROR: <input>:1:1: expression of type 'string' cannot be range of a comprehension \
             (must be list, map, or dynamic)",
        ),
        ("f(1)", "compilation failed: ERROR: <input>:1:2: undeclared reference to 'f' (in container '')"),
        ("'a'.f()", "compilation failed: ERROR: <input>:1:6: undeclared reference to 'f' (in container '')"),
        (
            "1 +",
            "compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', \
                 '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
        ("for", "compilation failed: ERROR: <input>:1:1: reserved identifier: for"),
    ]);
}
