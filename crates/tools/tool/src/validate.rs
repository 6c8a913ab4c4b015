//! Validates arguments and reports problems in words that a model can act on.
//!
//! Every problem names the path to it (`meta.flags[0] should be string`). Members that the schema
//! does not know are accepted.

use serde_json::Value;

use crate::schema::{alternatives_of, is_of_type, property_of, type_name, types_of};

/// Returns the problems with the arguments of a call; empty if there are none.
pub(crate) fn validate(schema: &Value, arguments: &Value) -> Vec<String> {
    if !arguments.is_object() {
        return vec![format!(
            "parameters must be an object, got {}",
            type_name(arguments)
        )];
    }
    let mut problems = Vec::new();
    check(schema, arguments, "", &mut problems);
    problems
}

/// `true` if a value has no problems.
pub(crate) fn fits(schema: &Value, value: &Value) -> bool {
    let mut problems = Vec::new();
    check(schema, value, "", &mut problems);
    problems.is_empty()
}

fn check(schema: &Value, value: &Value, path: &str, problems: &mut Vec<String>) {
    let label = if path.is_empty() { "parameter" } else { path };
    if let Some(alternatives) = alternatives_of(schema) {
        check_alternatives(alternatives, value, path, problems);
        return;
    }
    let types = types_of(schema);
    if !types.is_empty() && !types.iter().any(|name| is_of_type(value, name)) {
        problems.push(format!("{label} should be {}", types.join(" or ")));
        return;
    }
    let choices = choices_of(schema);
    if !choices.is_empty() && !choices.contains(&value) {
        problems.push(format!("{label} must be one of {}", listed(&choices)));
    }
    match value {
        Value::Number(number) => check_range(schema, number, label, problems),
        Value::String(text) => check_count(schema, text.chars().count(), LENGTH, label, problems),
        Value::Array(items) => {
            check_count(schema, items.len(), ITEMS, label, problems);
            if let Some(item_schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check(item_schema, item, &format!("{path}[{index}]"), problems);
                }
            }
        }
        Value::Object(members) => {
            let member_path = |name: &str| {
                if path.is_empty() {
                    name.to_owned()
                } else {
                    format!("{path}.{name}")
                }
            };
            let required = schema.get("required").and_then(Value::as_array);
            for name in required.into_iter().flatten().filter_map(Value::as_str) {
                if !members.contains_key(name) {
                    problems.push(format!("missing required {}", member_path(name)));
                }
            }
            for (name, member) in members {
                if let Some(property) = property_of(schema, name) {
                    check(property, member, &member_path(name), problems);
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Checks that one alternative fits. If none does and exactly one has the right type, the problems
/// within that one are reported, because they say more than a list of types.
fn check_alternatives(
    alternatives: &[Value],
    value: &Value,
    path: &str,
    problems: &mut Vec<String>,
) {
    if alternatives
        .iter()
        .any(|alternative| fits(alternative, value))
    {
        return;
    }
    let label = if path.is_empty() { "parameter" } else { path };
    let choices: Vec<&Value> = alternatives.iter().flat_map(choices_of).collect();
    let of_same_type: Vec<&Value> = alternatives
        .iter()
        .filter(|alternative| {
            types_of(alternative)
                .iter()
                .any(|name| is_of_type(value, name))
        })
        .collect();
    if !choices.is_empty() {
        problems.push(format!("{label} must be one of {}", listed(&choices)));
    } else if let [only] = of_same_type.as_slice() {
        check(only, value, path, problems);
    } else {
        let mut types: Vec<&str> = alternatives.iter().flat_map(types_of).collect();
        types.dedup();
        problems.push(format!("{label} should be {}", types.join(" or ")));
    }
}

/// Returns the values that a schema allows under `enum` or `const`.
fn choices_of(schema: &Value) -> Vec<&Value> {
    match schema.get("enum").and_then(Value::as_array) {
        Some(choices) => choices.iter().collect(),
        None => schema.get("const").into_iter().collect(),
    }
}

fn listed(choices: &[&Value]) -> String {
    let texts: Vec<String> = choices.iter().map(|choice| choice.to_string()).collect();
    format!("[{}]", texts.join(", "))
}

fn check_range(
    schema: &Value,
    number: &serde_json::Number,
    label: &str,
    problems: &mut Vec<String>,
) {
    let Some(number) = number.as_f64() else {
        return;
    };
    if let Some(least) = schema
        .get("minimum")
        .filter(|least| least.as_f64().is_some_and(|least| number < least))
    {
        problems.push(format!("{label} must be >= {least}"));
    }
    if let Some(most) = schema
        .get("maximum")
        .filter(|most| most.as_f64().is_some_and(|most| number > most))
    {
        problems.push(format!("{label} must be <= {most}"));
    }
}

/// Keywords by which a schema bounds a count, and the words to report a violation.
#[derive(Clone, Copy)]
struct IssueCount {
    least: &'static str,
    most: &'static str,
    verb: &'static str,
    unit: &'static str,
}

const LENGTH: IssueCount = IssueCount {
    least: "minLength",
    most: "maxLength",
    verb: "be",
    unit: "chars",
};
const ITEMS: IssueCount = IssueCount {
    least: "minItems",
    most: "maxItems",
    verb: "have",
    unit: "items",
};

fn check_count(
    schema: &Value,
    count: usize,
    counted: IssueCount,
    label: &str,
    problems: &mut Vec<String>,
) {
    let IssueCount {
        least,
        most,
        verb,
        unit,
    } = counted;
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
    let count = count as u64;
    if let Some(least) = bound(least).filter(|least| count < *least) {
        problems.push(format!("{label} must {verb} at least {least} {unit}"));
    }
    if let Some(most) = bound(most).filter(|most| count > *most) {
        problems.push(format!("{label} must {verb} at most {most} {unit}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 2, "maxLength": 5},
                "count": {"type": "integer", "minimum": 1, "maximum": 10},
                "ratio": {"type": "number", "minimum": 0.5},
                "mode": {"type": "string", "enum": ["fast", "full"]},
                "style": {"oneOf": [{"const": "plain"}, {"const": "rich", "description": "d"}]},
                "limit": {"type": ["integer", "null"]},
                "depth": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
                "meta": {
                    "type": "object",
                    "properties": {
                        "tag": {"type": "string"},
                        "flags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2}
                    },
                    "required": ["tag"]
                }
            },
            "required": ["query", "count"]
        })
    }

    #[test]
    fn reports_every_problem_with_its_path() {
        let table = [
            (json!({"query": "你好", "count": 2}), vec![]),
            (
                json!({"query": "hi", "count": 2, "unknown": {"a": 1}}),
                vec![],
            ),
            (json!([]), vec!["parameters must be an object, got array"]),
            (json!("x"), vec!["parameters must be an object, got string"]),
            (
                json!({}),
                vec!["missing required query", "missing required count"],
            ),
            (json!({"query": "hi"}), vec!["missing required count"]),
            (
                json!({"query": "hi", "count": "2"}),
                vec!["count should be integer"],
            ),
            (
                json!({"query": "hi", "count": true}),
                vec!["count should be integer"],
            ),
            (
                json!({"query": "hi", "count": 2.5}),
                vec!["count should be integer"],
            ),
            (
                json!({"query": "hi", "count": null}),
                vec!["count should be integer"],
            ),
            (
                json!({"query": "hi", "count": 0}),
                vec!["count must be >= 1"],
            ),
            (
                json!({"query": "hi", "count": 11}),
                vec!["count must be <= 10"],
            ),
            (
                json!({"query": "h", "count": 1}),
                vec!["query must be at least 2 chars"],
            ),
            (
                json!({"query": "hello!", "count": 1}),
                vec!["query must be at most 5 chars"],
            ),
            (
                json!({"query": "hi", "count": 1, "ratio": 0.25}),
                vec!["ratio must be >= 0.5"],
            ),
            (
                json!({"query": "hi", "count": 1, "ratio": true}),
                vec!["ratio should be number"],
            ),
            (json!({"query": "hi", "count": 1, "ratio": 1}), vec![]),
            (
                json!({"query": "hi", "count": 1, "mode": "slow"}),
                vec![r#"mode must be one of ["fast", "full"]"#],
            ),
            (json!({"query": "hi", "count": 1, "style": "rich"}), vec![]),
            (
                json!({"query": "hi", "count": 1, "style": "x"}),
                vec![r#"style must be one of ["plain", "rich"]"#],
            ),
            (
                json!({"query": "hi", "count": 1, "limit": null, "depth": null}),
                vec![],
            ),
            (
                json!({"query": "hi", "count": 1, "limit": "x"}),
                vec!["limit should be integer or null"],
            ),
            (
                json!({"query": "hi", "count": 1, "depth": 0}),
                vec!["depth must be >= 1"],
            ),
            (
                json!({"query": "hi", "count": 1, "depth": "x"}),
                vec!["depth should be integer or null"],
            ),
            (
                json!({"query": "hi", "count": 1, "meta": {"flags": [1, "b", false]}}),
                vec![
                    "missing required meta.tag",
                    "meta.flags must have at most 2 items",
                    "meta.flags[0] should be string",
                    "meta.flags[2] should be string",
                ],
            ),
            (
                json!({"query": "hi", "count": 1, "meta": {"tag": "t", "flags": []}}),
                vec!["meta.flags must have at least 1 items"],
            ),
            (
                json!({"query": "hi", "count": 1, "meta": []}),
                vec!["meta should be object"],
            ),
        ];
        for (arguments, expected) in table {
            assert_eq!(validate(&schema(), &arguments), expected, "{arguments}");
        }
    }
}
