//! Expressions of the Common Expression Language.
//!
//! The evaluator has no own limits. An expression is therefore refused if it is large, and an evaluation if the
//! loops of the expression could take too many steps, or make too much text, with the given variables.

use std::collections::{HashMap, HashSet};
use std::thread;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::{Context, Env, Program};
use serde_json::Value;

/// Limits of the text.
const MAX_BYTES: usize = 8 << 10;
const MAX_BRACKETS: usize = 64;
/// Limit of the depth of the expression's tree.
const MAX_DEPTH: usize = 100;
/// Limit of the nodes that are evaluated.
const MAX_STEPS: u64 = 2_000_000;
/// Limit of the bytes that an evaluation makes.
const MAX_TEXT: u64 = 32 << 20;
/// The parser is recursive.
const PARSER_STACK: usize = 64 << 20;

/// Identifiers of every expression: names of types.
const TYPES: [&str; 12] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "timestamp",
    "uint",
];

/// A checked expression.
#[derive(Debug)]
pub struct Expression {
    program: Program,
    n_nodes: u64,
    /// How deep loops are nested.
    n_loops: u32,
    /// The longest list or map, and the bytes of all texts in the expression itself.
    literals: Size,
}

/// What bounds the work on a value.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    longest: u64,
    text: u64,
}

impl Expression {
    /// Reads an expression that may use these variables.
    ///
    /// # Errors
    /// It is malformed, too large, or uses another variable; the text is the reason.
    pub fn compile(text: &str, variables: &[&str]) -> Result<Expression, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("must not be longer than {MAX_BYTES} bytes"));
        }
        check_brackets(text)?;
        let parse =
            || Env::stdlib().compile(text).map_err(|error| error.to_string()).and_then(Expression::check);
        let expression = thread::scope(|scope| {
            let parser = thread::Builder::new().stack_size(PARSER_STACK).spawn_scoped(scope, parse);
            let parser = parser.map_err(|error| format!("no thread to read it: {error}"))?;
            parser.join().unwrap_or_else(|_| Err("compilation failed".to_owned()))
        });
        let (expression, free) = expression?;
        match free.iter().find(|name| !variables.contains(&name.as_str()) && !TYPES.contains(&name.as_str()))
        {
            Some(name) if name == "authorizer" => {
                Err("the variable \"authorizer\" is not supported by this API server; leave it out"
                    .to_owned())
            }
            Some(name) => Err(format!("compilation failed: undeclared reference to '{name}'")),
            None => Ok(expression),
        }
    }

    /// Measures a program; returns the variables that it does not bind itself as well.
    fn check(program: Program) -> Result<(Expression, HashSet<String>), String> {
        let (mut n_nodes, mut n_loops, mut literals) = (0, 0, Size::default());
        let (mut used, mut bound) = (HashSet::new(), HashSet::new());
        let mut stack: Vec<(&IdedExpr, usize, u32)> = vec![(program.expression(), 0, 0)];
        while let Some((node, depth, loops)) = stack.pop() {
            if depth > MAX_DEPTH {
                return Err("the expression is nested too deeply".to_owned());
            }
            n_nodes += 1;
            n_loops = n_loops.max(loops);
            let mut push = |node, loops| stack.push((node, depth + 1, loops));
            match &node.expr {
                Expr::Unspecified => {}
                Expr::Call(call) => {
                    call.target.iter().for_each(|target| push(target, loops));
                    call.args.iter().for_each(|argument| push(argument, loops));
                }
                Expr::Comprehension(each) => {
                    bound.extend(
                        [Some(&each.iter_var), each.iter_var2.as_ref(), Some(&each.accu_var)]
                            .into_iter()
                            .flatten(),
                    );
                    [&each.iter_range, &each.accu_init, &each.result]
                        .into_iter()
                        .for_each(|node| push(node, loops));
                    [&each.loop_cond, &each.loop_step].into_iter().for_each(|node| push(node, loops + 1));
                }
                Expr::Ident(name) => drop(used.insert(name)),
                Expr::List(list) => {
                    literals.longest = literals.longest.max(list.elements.len() as u64);
                    list.elements.iter().for_each(|element| push(element, loops));
                }
                Expr::Literal(LiteralValue::String(text)) => literals.text += text.inner().len() as u64,
                Expr::Literal(_) => {}
                Expr::Map(map) => {
                    literals.longest = literals.longest.max(map.entries.len() as u64);
                    for entry in &map.entries {
                        if let EntryExpr::MapEntry(entry) = &entry.expr {
                            push(&entry.key, loops);
                            push(&entry.value, loops);
                        }
                    }
                }
                Expr::Select(select) => push(&select.operand, loops),
                Expr::Struct(_) => return Err("messages are not supported".to_owned()),
            }
        }
        let free = used.difference(&bound).map(|name| (*name).clone()).collect();
        Ok((Expression { n_nodes, n_loops, literals, program }, free))
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    /// The evaluation fails or could cost too much, or its result is not true or false; the text is the reason.
    pub fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, String> {
        let mut size = self.literals;
        variables.iter().for_each(|(_, value)| measure(value, &mut size));
        let rounds = size.longest.max(1).saturating_pow(self.n_loops);
        if self.n_nodes.saturating_mul(rounds) > MAX_STEPS || rounds.saturating_mul(size.text) > MAX_TEXT {
            return Err("the expression may exceed the cost limit with this object".to_owned());
        }
        let mut context = Context::with_env(Env::stdlib().into());
        for (name, value) in variables {
            context.add_variable_from_value(*name, to_cel(value));
        }
        match self.program.execute(&context) {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err("must evaluate to bool".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn check_brackets(text: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_BRACKETS {
            return Err("the expression is nested too deeply".to_owned());
        }
    }
    Ok(())
}

fn measure(value: &Value, size: &mut Size) {
    match value {
        Value::String(text) => size.text += text.len() as u64,
        Value::Array(items) => {
            size.longest = size.longest.max(items.len() as u64);
            items.iter().for_each(|item| measure(item, size));
        }
        Value::Object(fields) => {
            size.longest = size.longest.max(fields.len() as u64);
            fields.values().for_each(|field| measure(field, size));
        }
        _ => {}
    }
}

/// Whole numbers are signed.
fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(to_cel).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), to_cel(value))).collect::<HashMap<_, _>>().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn evaluated(text: &str, object: &Value) -> Result<bool, String> {
        Expression::compile(text, &["object"])?.holds(&[("object", object)])
    }

    #[test]
    fn conditions_are_evaluated() {
        let pod = json!({"metadata": {"name": "web-1", "labels": {"app": "web"}}, "spec": {"priority": 5,
            "containers": [{"image": "a:1"}, {"image": "b:2"}]}});
        for (text, expected) in [
            ("object.metadata.name.startsWith('web-') && object.spec.priority > 3", Ok(true)),
            ("!has(object.metadata.annotations)", Ok(true)),
            ("object.spec.containers.all(c, c.image.endsWith(':1'))", Ok(false)),
            ("object.spec.containers.exists(c, c.image == 'b:2')", Ok(true)),
            ("'app' in object.metadata.labels && object.metadata.labels['app'] == 'web'", Ok(true)),
            ("size(object.spec.containers) == 2", Ok(true)),
            ("object.metadata.name.matches('^web-[0-9]$')", Ok(true)),
            ("1 + 1", Err("must evaluate to bool")),
            ("object.none.deeper == 1", Err("")),
            (
                "authorizer.group('').resource('pods').check('get').allowed()",
                Err("\"authorizer\" is not supported"),
            ),
            ("objekt.x", Err("undeclared reference to 'objekt'")),
            ("object.", Err("")),
        ] {
            match (evaluated(text, &pod), expected) {
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (result, expected) => assert_eq!(result, expected.map_err(str::to_owned), "{text}"),
            }
        }
    }

    #[test]
    fn expressions_cannot_take_long_or_exhaust_the_stack() {
        let long = json!({"list": vec![1; 2000]});
        let within = "object.list.all(a, a == 1)";
        assert_eq!(evaluated(within, &long), Ok(true));
        let nested = "object.list.all(a, object.list.all(b, object.list.all(c, a == b || b == c)))";
        assert!(evaluated(nested, &long).unwrap_err().contains("cost limit"));
        for text in [
            format!("{}true{}", "(".repeat(3000), ")".repeat(3000)),
            format!("{}true", "true ? true : ".repeat(500)),
            vec!["1"; 2000].join("+"),
            format!("object{}", ".a".repeat(3000)),
            "x".repeat(9000),
        ] {
            assert!(evaluated(&text, &json!({})).is_err(), "{}", &text[..20]);
        }
        let negated = format!("{}true", "!".repeat(8000));
        assert_eq!(evaluated(&negated, &json!({})), Ok(true), "it has no depth");
    }
}
