use std::sync::Arc;

use nanobot_types::{Effect, ToolSource};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Returns a call of the table as its name and arguments.
fn call(name: &str, arguments: Value) -> (String, Value) {
    (name.to_owned(), arguments)
}

fn tools() -> Arc<[ToolSpec]> {
    let tool = |name: &str, properties: Value| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": properties}),
        effect: Effect::Pure,
        source: ToolSource::BuiltIn,
    };
    Arc::new([
        tool(
            "read_file",
            json!({
                "path": {"type": "string"},
                "limit": {"type": "integer"},
                "lines": {"type": "array"},
                "mark": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            }),
        ),
        tool("list_dir", json!({})),
    ])
}

fn split(text: &str) -> (String, Vec<(String, Value)>) {
    let (remaining, calls) = split_calls(text, &tools(), "t1");
    let calls = calls.iter().map(|call| {
        let arguments = serde_json::from_str(&call.arguments).unwrap();
        (call.name.as_str().to_owned(), arguments)
    });
    (remaining, calls.collect())
}

/// Forms with a call of `read_file` whose `path` is `a` and whose `limit` is 5.
const ONE_CALL: &[&str] = &[
    "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\", \"limit\": 5}}\n</tool_call>",
    "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\", \"limit\": 5}}",
    "<tool_call>\n```json\n{'name': 'read_file', 'arguments': {'path': 'a', 'limit': 5,}}\n```\n</tool_call>",
    "<tool_call>{\"name\": \"read_file\", \"arguments\": \"{\\\"path\\\": \\\"a\\\", \\\"limit\\\": 5}\"}</tool_call>",
    "<tool_call>[{\"type\": \"function\", \"function\": {\"name\": \"read_file\", \"parameters\": {\"path\": \"a\", \"limit\": 5}}}]</tool_call>",
    "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n<arg_key>limit</arg_key>\n<arg_value>5</arg_value>\n</tool_call>",
    "<tool_call>\n<function=read_file>\n<parameter=path>\na\n</parameter>\n<parameter=limit>\n5\n</parameter>\n</function>\n</tool_call>",
    "<function=read_file>\n<parameter=path>\na\n</parameter>\n<parameter=limit>\n5\n</parameter>\n</function>",
    "<function=read_file>{\"path\": \"a\", \"limit\": 5}</function>",
    "<|python_tag|>{\"name\": \"read_file\", \"parameters\": {\"path\": \"a\", \"limit\": 5}}<|eom_id|>",
    "[TOOL_CALLS][{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\", \"limit\": 5}, \"id\": \"VvvODy9mT\"}]",
    "[TOOL_CALLS]read_file[ARGS]{\"path\": \"a\", \"limit\": 5}",
    "[TOOL_CALLS]read_file[CALL_ID]VvvODy9mT[ARGS]{\"path\": \"a\", \"limit\": 5}",
    "[TOOL_CALLS]read_file{\"path\": \"a\", \"limit\": 5}",
    "<|tool_call|>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\", \"limit\": 5}}]",
    "<|tool_call|>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\", \"limit\": 5}}]<|/tool_call|>",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{\"path\": \"a\", \"limit\": 5}<|tool_call_end|><|tool_calls_section_end|>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{\"path\": \"a\", \"limit\": 5}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{\"path\": \"a\", \"limit\": 5}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<tool_calls>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\", \"limit\": 5}}\n</tool_calls>",
    "<seed:tool_call><function=read_file><parameter=path>a</parameter><parameter=limit>5</parameter></function></seed:tool_call>",
    "<minimax:tool_call>\n<invoke name=\"read_file\">\n<parameter name=\"path\">a</parameter>\n<parameter name=\"limit\">5</parameter>\n</invoke>\n</minimax:tool_call>",
    "<function_calls><invoke name=\"read_file\"><parameter name=\"path\">a</parameter><parameter name=\"limit\">5</parameter></invoke></function_calls>",
    "<function_call> {\"name\": \"read_file\", \"arguments\": {\"path\": \"a\", \"limit\": 5}}",
    "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"read_file\", \"parameters\": {\"path\": \"a\", \"limit\": 5}}]<|END_ACTION|>",
    "<|action_start|><|plugin|>\n{\"name\": \"read_file\", \"parameters\": {\"path\": \"a\", \"limit\": 5}}<|action_end|>",
    "{\"name\": \"read_file\", \"parameters\": {\"path\": \"a\", \"limit\": 5}}",
    "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\", \"limit\": 5}}\n```",
    "[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\", \"limit\": 5}}]",
];

#[test]
fn every_form_is_read() {
    let expected = [call("read_file", json!({"path": "a", "limit": 5}))];
    for text in ONE_CALL {
        let (remaining, calls) = split(text);
        assert_eq!(calls, expected, "{text}");
        assert_eq!(remaining.trim(), "", "{text}");
    }
}

#[test]
fn thinking_and_text_stay() {
    let marked = ONE_CALL
        .iter()
        .filter(|text| !text.starts_with(['{', '`']) && !text.starts_with("[{"));
    for text in marked {
        let (remaining, calls) = split(&format!("<think>hm <tool_call></think>So. {text}"));
        assert_eq!(calls.len(), 1, "{text}");
        assert_eq!(
            remaining.trim(),
            "<think>hm <tool_call></think>So.",
            "{text}"
        );
    }
    let (remaining, calls) = split("<tool_call>{\"name\": \"list_dir\"}</tool_call> and done");
    assert_eq!((remaining.as_str(), calls.len()), (" and done", 1));
}

#[test]
fn several_calls_keep_their_order() {
    let a = call("read_file", json!({"path": "a"}));
    let b = call("list_dir", json!({}));
    for text in [
        "<tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}</tool_call>\n<tool_call>{\"name\":\"list_dir\"}</tool_call>",
        "<tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}\n{\"name\":\"list_dir\",\"arguments\":{}}</tool_call>",
        "<|python_tag|>{\"name\":\"read_file\",\"parameters\":{\"path\":\"a\"}}; {\"name\":\"list_dir\",\"parameters\":{}}",
        "{\"name\":\"read_file\",\"parameters\":{\"path\":\"a\"}}; {\"name\":\"list_dir\",\"parameters\":{}}",
        "[TOOL_CALLS]read_file[ARGS]{\"path\":\"a\"}[TOOL_CALLS]list_dir[ARGS]{}",
        "<tool_call>read_file<arg_key>path</arg_key><arg_value>a</arg_value></tool_call><tool_call>list_dir</tool_call>",
        "<minimax:tool_call><invoke name=\"read_file\"><parameter name=\"path\">a</parameter></invoke><invoke name=\"list_dir\"></invoke></minimax:tool_call>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{\"path\":\"a\"}<|tool_call_end|><|tool_call_begin|>functions.list_dir:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
    ] {
        let (remaining, calls) = split(text);
        assert_eq!(calls, [a.clone(), b.clone()], "{text}");
        assert_eq!(remaining.trim(), "", "{text}");
    }
    let ids = split_calls(
        "[{\"name\":\"list_dir\",\"arguments\":{}},{\"name\":\"list_dir\",\"arguments\":{}}]",
        &tools(),
        "t1",
    )
    .1;
    let ids: Vec<&str> = ids.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["t1-0", "t1-1"]);
}

#[test]
fn texts_get_the_types_of_the_schema() {
    for (argument, text, expected) in [
        ("path", "5", json!("5")),
        ("path", "\n  a\n\n", json!("  a\n")),
        ("path", "{\"a\": 1}", json!("{\"a\": 1}")),
        (
            "path",
            "say </parameter> twice",
            json!("say </parameter> twice"),
        ),
        ("limit", "\n5\n", json!(5)),
        ("limit", "five", json!("five")),
        ("limit", "5 6", json!("5 6")),
        ("lines", "[1, 2]", json!([1, 2])),
        ("mark", "null", json!("null")),
        ("other", "5", json!("5")),
    ] {
        let written =
            format!("<function=read_file><parameter={argument}>{text}</parameter></function>");
        let (_, calls) = split(&written);
        assert_eq!(calls, [call("read_file", json!({ argument: expected }))]);
    }
}

#[test]
fn text_that_is_no_call_stays() {
    let fenced = format!("Write this:\n```\n{}\n```\nDone.", ONE_CALL[0]);
    let quoted = format!("The form is `{}`.", ONE_CALL[0]);
    let thought = format!("<think>{}</think>No.", ONE_CALL[0]);
    for text in [
        "",
        "plain",
        "<tool_call>",
        "<tool_call>{oops}</tool_call>",
        "<tool_call>{\"path\": \"a\"}</tool_call>",
        "<tool_call>read the file</tool_call>",
        "<tool_call></tool_call>",
        "[TOOL_CALLS] are a form of Mistral",
        "[TOOL_CALLS]",
        "<function=",
        "<function=>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0",
        "{\"name\": \"read_file\"}",
        "{\"name\": \"Ann\", \"arguments\": {}}",
        "{\"name\": \"read_file\", \"arguments\": {}} is the form",
        "So: {\"name\": \"read_file\", \"arguments\": {}}",
        "[{\"name\": \"read_file\", \"arguments\": {}}, {\"name\": \"Ann\", \"arguments\": {}}]",
        "[]",
        &fenced,
        &quoted,
        &thought,
    ] {
        assert_eq!(split(text), (text.to_owned(), Vec::new()), "{text}");
    }
}

#[test]
fn marked_calls_that_cannot_be_read_say_why() {
    for (text, name, reason) in [
        (
            "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a",
            "read_file",
            "cut off",
        ),
        (
            "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"a\":1,\"a\":2}}</tool_call>",
            "read_file",
            "twice",
        ),
        (
            "<tool_call>{\"name\": \"read_file\", \"arguments\": [1]}</tool_call>",
            "read_file",
            "one JSON object",
        ),
        (
            "<tool_call>{\"name\": \"read_file\", \"arguments\": \"{\\\"path\\\"\"}</tool_call>",
            "read_file",
            "cut off",
        ),
        (
            "<function=read_file>{\"path\": }</function>",
            "read_file",
            "expected a JSON value",
        ),
        (
            "<function=read_file><parameter=path>a",
            "read_file",
            "cut off",
        ),
        (
            "<function=read_file><parameter=path>a</parameter>",
            "read_file",
            "cut off",
        ),
        (
            "<function=read_file><parameter=path>a</parameter><parameter=path>b</parameter></function>",
            "read_file",
            "twice",
        ),
        (
            "<tool_call>read_file<arg_key>path</arg_key><arg_value>a",
            "read_file",
            "cut off",
        ),
        (
            "<tool_call>read_file<arg_key>path</arg_key><arg_value>a</arg_value>",
            "read_file",
            "cut off",
        ),
        (
            "[TOOL_CALLS]read_file[ARGS]{\"path\": \"a",
            "read_file",
            "cut off",
        ),
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{\"path\"",
            "read_file",
            "cut off",
        ),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{\"path\":",
            "read_file",
            "cut off",
        ),
    ] {
        let (_, calls) = split_calls(text, &tools(), "t1");
        let [call] = &*calls else {
            panic!("{} calls in {text}", calls.len());
        };
        assert_eq!(call.name.as_str(), name, "{text}");
        let why = call.parsed_arguments().unwrap_err();
        assert!(why.contains(reason), "{text}: {why}");
    }
}

#[test]
fn unknown_names_are_calls_with_harmless_names() {
    let text =
        "<tool_call>{\"name\": \"no such\\n\\u001b[31mtool\", \"arguments\": {}}</tool_call>";
    let (_, calls) = split(text);
    assert_eq!(calls, [call("no_such___31mtool", json!({}))]);
    let long = format!("<function={}>{{}}</function>", "n".repeat(10_000));
    assert_eq!(split(&long).1[0].0.len(), 64);
}

#[test]
fn markers_and_calls_are_limited() {
    let marker = "<tool_call>".repeat(100_000);
    assert_eq!(split(&marker), (marker.clone(), Vec::new()));
    let one = "{\"name\": \"list_dir\", \"arguments\": {}},";
    let many = format!("[{}]", one.repeat(CALL_LIMIT + 1));
    assert_eq!(split(&many).1.len(), 0);
    let marked = format!("<tool_call>{many}</tool_call>");
    assert_eq!(split(&marked), (marked.clone(), Vec::new()));
    let deep = format!("<tool_call>{}", "[".repeat(100_000));
    assert_eq!(split(&deep), (deep.clone(), Vec::new()));
}

/// Returns the text that a live view gets for these pieces.
fn held(pieces: &[String], has_calls: bool) -> String {
    let mut hold = CallHold::default();
    let mut seen: String = pieces.iter().map(|piece| hold.push(piece)).collect();
    seen.push_str(&hold.finish(has_calls));
    seen
}

fn pieces(text: &str, size: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters
        .chunks(size)
        .map(|chunk| chunk.iter().collect())
        .collect()
}

#[test]
fn live_text_ends_where_a_call_begins() {
    for text in ONE_CALL {
        for size in 1..30 {
            assert_eq!(held(&pieces(text, size), true), "", "{text}");
            let said = format!("Look: a < b, [1] <tool {text}");
            let is_marked = !text.starts_with(['{', '`']) && !text.starts_with("[{");
            if is_marked {
                let seen = held(&pieces(&said, size), true);
                assert_eq!(seen, "Look: a < b, [1] <tool ", "{text}");
            }
        }
    }
}

proptest! {
    #[test]
    fn live_text_without_calls_is_whole(
        text in "([a{}`\\[<]|<tool_call>|\\[TOOL_CALLS\\]|```|json|\n){0,12}",
        size in 1_usize..8,
    ) {
        prop_assert_eq!(held(&pieces(&text, size), false), text);
    }

    #[test]
    fn any_text_of_marks_is_read_without_loss(
        text in "([a\"{}:,`]|<tool_call>|</tool_call>|<function=|<parameter=|</parameter>|</function>|<arg_key>|\\[TOOL_CALLS\\]|\\[ARGS\\]|<think>|</think>|```|\"name\"|\n){0,24}",
    ) {
        let (remaining, calls) = split_calls(&text, &tools(), "t");
        if calls.is_empty() && !text.contains("think>") {
            prop_assert_eq!(remaining, text);
        }
    }

    #[test]
    fn any_text_survives_in_a_parameter(value in "[ -~\u{e0}-\u{ff}\n]{0,40}") {
        // A line break at either end belongs to the form.
        let text = format!("<function=read_file>\n<parameter=path>\n{value}\n</parameter>\n</function>");
        let (remaining, calls) = split(&text);
        prop_assert_eq!(calls, [call("read_file", json!({"path": value}))]);
        prop_assert_eq!(remaining, "");
    }
}
