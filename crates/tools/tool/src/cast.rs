//! Casts arguments to the types of their schema, for models that send `"5"` where 5 is expected.
//!
//! Casting follows the schema and never guesses. Text becomes a number, a boolean, an array or an
//! object if all of it parses as one; a number or a boolean becomes text. A boolean never becomes a
//! number, and nothing is wrapped into an array. A value that cannot be cast is left for validation
//! to report. A null member that is optional and not nullable is removed, because many models send
//! null for an omitted member.

use serde_json::{Number, Value};

use crate::schema::{alternatives_of, is_of_type, is_required, property_of, types_of};
use crate::validate::fits;

/// Maximum magnitude up to which every integer is exact in a floating-point number.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Casts a value along the schema as far as possible.
pub(crate) fn cast(schema: &Value, value: Value) -> Value {
    if let Some(alternatives) = alternatives_of(schema) {
        return cast_to_one_of(alternatives, value);
    }
    let types = types_of(schema);
    let is_allowed =
        |value: &Value| types.is_empty() || types.iter().any(|name| is_of_type(value, name));
    match value {
        value if !is_allowed(&value) => {
            match types.iter().find_map(|name| convert(&value, name)) {
                // Parsed text may contain members that have to be cast in turn.
                Some(converted) if is_allowed(&converted) => cast(schema, converted),
                _ => value,
            }
        }
        Value::Object(mut members) => {
            members.retain(|name, member| !(member.is_null() && means_absent(schema, name)));
            for (name, member) in &mut members {
                if let Some(property) = property_of(schema, name) {
                    *member = cast(property, member.take());
                }
            }
            Value::Object(members)
        }
        Value::Array(mut items) => {
            if let Some(item_schema) = schema.get("items") {
                for item in &mut items {
                    *item = cast(item_schema, item.take());
                }
            }
            Value::Array(items)
        }
        value => value,
    }
}

/// `true` if null means that the member is omitted: the member is optional and not nullable.
fn means_absent(schema: &Value, name: &str) -> bool {
    let Some(property) = property_of(schema, name) else {
        return false;
    };
    !is_required(schema, name) && !fits(property, &Value::Null)
}

/// Returns the value unchanged if it fits an alternative; otherwise casts it to the first
/// alternative that it fits after the cast.
fn cast_to_one_of(alternatives: &[Value], value: Value) -> Value {
    if alternatives
        .iter()
        .any(|alternative| fits(alternative, &value))
    {
        return value;
    }
    alternatives
        .iter()
        .map(|alternative| (alternative, cast(alternative, value.clone())))
        .find(|(alternative, candidate)| fits(alternative, candidate))
        .map_or(value, |(_, candidate)| candidate)
}

/// Converts the value to another type, if all of it parses as one.
fn convert(value: &Value, type_name: &str) -> Option<Value> {
    match (type_name, value) {
        ("integer", Value::String(text)) => text.trim().parse::<i64>().ok().map(Value::from),
        ("integer", Value::Number(number)) => {
            let number = number
                .as_f64()
                .filter(|number| number.fract() == 0.0 && number.abs() <= MAX_EXACT)?;
            // The check above keeps it in range.
            Some(Value::from(number as i64))
        }
        ("number", Value::String(text)) => text
            .trim()
            .parse()
            .ok()
            .and_then(Number::from_f64)
            .map(Value::Number),
        ("boolean", Value::String(text)) => match text.trim().to_lowercase().as_str() {
            "true" | "1" | "yes" => Some(Value::Bool(true)),
            "false" | "0" | "no" => Some(Value::Bool(false)),
            _ => None,
        },
        ("string", Value::Number(_) | Value::Bool(_)) => Some(Value::String(value.to_string())),
        ("array" | "object", Value::String(text)) => serde_json::from_str(text)
            .ok()
            .filter(|parsed| is_of_type(parsed, type_name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn casts_values_only_where_the_schema_allows() {
        let integer = json!({"type": "integer"});
        let number = json!({"type": "number"});
        let boolean = json!({"type": "boolean"});
        let string = json!({"type": "string"});
        let integers = json!({"type": "array", "items": {"type": "integer"}});
        let object =
            json!({"type": "object", "properties": {"n": {"type": "integer"}, "flags": integers}});
        let demanding =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let nullable = json!({"type": ["integer", "null"]});
        let any_of = json!({"anyOf": [{"type": "integer"}, {"type": "null"}]});
        let text_or_integer = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
        let object_or_null = json!({"anyOf": [object, {"type": "null"}]});
        let table = [
            (&integer, json!("42"), json!(42)),
            (&integer, json!(" -7 "), json!(-7)),
            (&integer, json!(5.0), json!(5)),
            (&integer, json!(5.5), json!(5.5)),
            (&integer, json!("5.5"), json!("5.5")),
            (&integer, json!("many"), json!("many")),
            (&integer, json!(true), json!(true)),
            (&integer, json!(null), json!(null)),
            (&number, json!("3.25"), json!(3.25)),
            (&number, json!("nan"), json!("nan")),
            (&number, json!("x"), json!("x")),
            (&number, json!(false), json!(false)),
            (&boolean, json!("TRUE"), json!(true)),
            (&boolean, json!("yes"), json!(true)),
            (&boolean, json!("1"), json!(true)),
            (&boolean, json!("No"), json!(false)),
            (&boolean, json!("0"), json!(false)),
            (&boolean, json!("false"), json!(false)),
            (&boolean, json!("maybe"), json!("maybe")),
            (&boolean, json!(1), json!(1)),
            (&string, json!(5), json!("5")),
            (&string, json!(true), json!("true")),
            (&string, json!(""), json!("")),
            (&string, json!(null), json!(null)),
            (&string, json!({"a": 5}), json!({"a": 5})),
            (&integers, json!(["1", 2, "x"]), json!([1, 2, "x"])),
            (&integers, json!("[1, \"2\"]"), json!([1, 2])),
            (&integers, json!("1"), json!("1")),
            (&integers, json!(1), json!(1)),
            (
                &object,
                json!({"n": "3", "flags": ["4"], "other": "5"}),
                json!({"n": 3, "flags": [4], "other": "5"}),
            ),
            (&object, json!("{\"n\": \"3\"}"), json!({"n": 3})),
            (&object, json!("[]"), json!("[]")),
            (
                &object,
                json!({"n": null, "other": null}),
                json!({"other": null}),
            ),
            (&demanding, json!({"n": null}), json!({"n": null})),
            (&nullable, json!("3"), json!(3)),
            (&nullable, json!(null), json!(null)),
            (&any_of, json!("3"), json!(3)),
            (&any_of, json!(null), json!(null)),
            (&any_of, json!("x"), json!("x")),
            (&text_or_integer, json!("3"), json!("3")),
            (&object_or_null, json!({"n": "3"}), json!({"n": 3})),
            (&json!({}), json!("3"), json!("3")),
            (&json!({"$ref": "#"}), json!("3"), json!("3")),
        ];
        for (schema, value, expected) in table {
            assert_eq!(
                cast(schema, value.clone()),
                expected,
                "{value} along {schema}"
            );
        }
    }
}
