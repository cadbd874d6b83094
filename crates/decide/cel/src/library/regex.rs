//! Regular expressions.

use regex_lite::{Regex, RegexBuilder};

use crate::budget::Budget;
use crate::function::{Cost, Outcome, Row};
use crate::value::Value;

pub(crate) const ROWS: &[Row] = &[
    ("matches", "ss:b|s.s:b", Cost::Regex, matches),
    ("find", "s.s:s", Cost::Regex, |args, budget| compile_and_apply("find", args, budget)),
    ("findAll", "s.s:[s]|s.si:[s]", Cost::Regex, |args, budget| compile_and_apply("findAll", args, budget)),
];

#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    /// A bound of the steps that a search may take for a character.
    steps: u64,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// It is malformed or too large.
    pub fn new(pattern: &str) -> Result<Pattern, String> {
        let regex = RegexBuilder::new(pattern).size_limit(1 << 18).build();
        let regex = regex.map_err(|error| format!("error parsing regexp: {error}"))?;
        Ok(Pattern { regex, steps: steps(pattern) })
    }

    /// The value of a function with this pattern as the second argument.
    pub fn apply(&self, function: &str, arguments: &[Value], budget: &mut Budget) -> Outcome {
        let Some(Value::String(text)) = arguments.first() else { return Err("no such overload".into()) };
        budget.work((text.len() as u64 + 1).saturating_mul(self.steps))?;
        Ok(match function {
            "matches" => Value::Bool(self.regex.is_match(text)),
            "find" => Value::string(self.regex.find(text).map_or("", |found| found.as_str())),
            _ => {
                let limit = match arguments.get(2) {
                    Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                    _ => usize::MAX,
                };
                let mut found = Vec::new();
                let mut matches = self.regex.find_iter(text);
                while found.len() < limit
                    && let Some(next) = matches.next()
                {
                    budget.make_elements(1)?;
                    // Each search may look at the whole rest.
                    budget.work(((text.len() - next.end()) as u64 + 1).saturating_mul(self.steps))?;
                    found.push(next.as_str());
                }
                Value::strings(found)
            }
        })
    }
}

/// Twice the characters of a pattern, times the numbers of its counted repetitions.
fn steps(pattern: &str) -> u64 {
    let counts = pattern.split('{').skip(1).map(|rest| {
        let count = rest.split('}').next().unwrap_or_default();
        let numbers = count.split(',').filter_map(|number| number.trim().parse::<u64>().ok());
        numbers.max().unwrap_or(1).max(1)
    });
    // The size limit of compiled patterns bounds them as well.
    counts.fold(2 * pattern.len() as u64 + 1, u64::saturating_mul).min(1 << 14)
}

/// For patterns that are not known before the evaluation.
fn compile_and_apply(function: &str, arguments: &[Value], budget: &mut Budget) -> Outcome {
    let Some(Value::String(pattern)) = arguments.get(1) else { return Err("no such overload".into()) };
    budget.work(steps(pattern).saturating_mul(100))?;
    Pattern::new(pattern)?.apply(function, arguments, budget)
}

fn matches(arguments: &[Value], budget: &mut Budget) -> Outcome {
    compile_and_apply("matches", arguments, budget)
}
