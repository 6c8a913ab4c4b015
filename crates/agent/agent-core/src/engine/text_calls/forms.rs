//! The forms in which models write calls.

use super::reader::Reader;
use super::written::{Arguments, Written};

/// A form: what begins it, and what ends it if anything does.
pub(super) struct Form {
    pub(super) open: &'static str,
    close: &'static str,
}

const fn form(open: &'static str, close: &'static str) -> Form {
    Form { open, close }
}

/// All forms. Each marker begins with `<` or `[`, and none with another one.
pub(super) const FORMS: [Form; 14] = [
    // Hermes, Qwen, GLM and many more.
    form("<tool_call>", "</tool_call>"),
    // MiniMax M1, Hunyuan, Jamba.
    form("<tool_calls>", "</tool_calls>"),
    // Seed-OSS.
    form("<seed:tool_call>", "</seed:tool_call>"),
    // MiniMax M2.
    form("<minimax:tool_call>", "</minimax:tool_call>"),
    // Claude 3, and models trained on its texts.
    form("<function_calls>", "</function_calls>"),
    // Granite 20B.
    form("<function_call>", "</function_call>"),
    // Qwen Coder without its outer element, Llama 3.1.
    form("<function=", ""),
    // Llama 3.1 and 3.3.
    form("<|python_tag|>", "<|eom_id|>"),
    // Mistral.
    form("[TOOL_CALLS]", ""),
    // Granite 3, Phi 4.
    form("<|tool_call|>", "<|/tool_call|>"),
    // Kimi K2.
    form("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    // DeepSeek V3, V3.1 and R1.
    form("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    // Command R.
    form("<|START_ACTION|>", "<|END_ACTION|>"),
    // InternLM 2.5.
    form("<|action_start|><|plugin|>", "<|action_end|>"),
];

/// An element with the name of the tool, around elements of its arguments.
struct Element {
    open: &'static str,
    argument: &'static str,
    close: &'static str,
}

const FUNCTION: Element = Element {
    open: "<function=",
    argument: "<parameter=",
    close: "</function>",
};
const INVOKE: Element = Element {
    open: "<invoke ",
    argument: "<parameter ",
    close: "</invoke>",
};
const ARGUMENT_CLOSE: &str = "</parameter>";

/// Splits a text at its first marker: the text before, the form, and the text after the marker.
pub(super) fn next_form(text: &str) -> Option<(&str, &'static Form, &str)> {
    text.match_indices(['<', '[']).find_map(|(at, _)| {
        let (before, from) = text.split_at_checked(at)?;
        let found = |form: &'static Form| Some((before, form, from.strip_prefix(form.open)?));
        FORMS.iter().find_map(found)
    })
}

impl Form {
    /// Reads the calls after the marker. Returns `None` if there is none.
    pub(super) fn read(&self, reader: &mut Reader<'_>) -> Option<Vec<Written>> {
        if self.open == FUNCTION.open {
            return element(reader, &FUNCTION, self.close).map(|call| vec![call]);
        }
        let mut calls = Vec::new();
        loop {
            while reader.eat(";") || reader.eat(",") {}
            match self.next(reader, calls.is_empty()) {
                Some(found) => calls.extend(found),
                None => break,
            }
        }
        if !self.close.is_empty() {
            reader.eat(self.close);
        }
        (!calls.is_empty()).then_some(calls)
    }

    fn next(&self, reader: &mut Reader<'_>, is_first: bool) -> Option<Vec<Written>> {
        let one = |call: Written| vec![call];
        if reader.eat(FUNCTION.open) {
            return element(reader, &FUNCTION, self.close).map(one);
        }
        if reader.eat(INVOKE.open) {
            return element(reader, &INVOKE, self.close).map(one);
        }
        if reader.eat("<|tool_call_begin|>") {
            return kimi_call(reader).map(one);
        }
        if reader.eat("<｜tool▁call▁begin｜>") {
            return deepseek_call(reader).map(one);
        }
        if ["{", "[", "```"].iter().any(|begin| reader.is_at(begin)) {
            return self.json_calls(reader);
        }
        // Text may follow a call, so only the first one may begin with a name.
        is_first.then(|| self.named_call(reader).map(one)).flatten()
    }

    /// Reads a call or a list of calls. One that cannot be read keeps its name if that is there.
    fn json_calls(&self, reader: &mut Reader<'_>) -> Option<Vec<Written>> {
        let mut ahead = *reader;
        match ahead.json() {
            Ok(value) => {
                let calls = Written::list(value, false)?;
                *reader = ahead;
                Some(calls)
            }
            Err(why) => {
                let raw = ahead.until_or_end(self.close);
                let name = member_name(raw)?.to_owned();
                *reader = ahead;
                let raw = raw.trim().to_owned();
                let arguments = Arguments::Unreadable { raw, why };
                Some(vec![Written { name, arguments }])
            }
        }
    }

    /// Reads a name and its arguments: elements (GLM), or JSON after an optional id (Mistral).
    fn named_call(&self, reader: &mut Reader<'_>) -> Option<Written> {
        let mut ahead = *reader;
        let name = ahead.name()?.to_owned();
        let arguments = if ahead.is_at("<arg_key>") {
            glm_arguments(&mut ahead, self.close)
        } else if !self.close.is_empty() && ahead.is_at(self.close) {
            Arguments::Object(nanobot_types::Map::new())
        } else {
            if ahead.eat("[CALL_ID]") {
                ahead.name();
            }
            if !ahead.eat("[ARGS]") && !ahead.is_at("{") {
                return None;
            }
            json_arguments(&mut ahead, self.close)
        };
        *reader = ahead;
        Some(Written { name, arguments })
    }
}

/// Reads the arguments of a call as an object. What cannot be read ends at `end`.
fn json_arguments(reader: &mut Reader<'_>, end: &str) -> Arguments {
    match reader.json() {
        Ok(value) => Arguments::of(value),
        Err(why) => Arguments::Unreadable {
            raw: reader.until_or_end(end).trim().to_owned(),
            why,
        },
    }
}

fn glm_arguments(reader: &mut Reader<'_>, close: &str) -> Arguments {
    let all = reader.rest();
    let mut texts = Vec::new();
    while reader.eat("<arg_key>") {
        let pair = reader.until("</arg_key>").and_then(|name| {
            let is_value = reader.eat("<arg_value>");
            let text = is_value.then(|| reader.until("</arg_value>")).flatten()?;
            Some((name.trim().to_owned(), without_breaks(text)))
        });
        let Some(pair) = pair else {
            return Arguments::cut(all);
        };
        texts.push(pair);
    }
    if reader.is_at(close) {
        Arguments::Texts(texts)
    } else {
        Arguments::cut(all)
    }
}

/// Reads `functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`.
fn kimi_call(reader: &mut Reader<'_>) -> Option<Written> {
    const END: &str = "<|tool_call_end|>";
    let id = reader.until("<|tool_call_argument_begin|>")?.trim();
    let name = id.rsplit_once(':').map_or(id, |(name, _)| name);
    let name = name.strip_prefix("functions.").unwrap_or(name).to_owned();
    let arguments = json_arguments(reader, END);
    reader.eat(END);
    Some(Written { name, arguments })
}

/// Reads `NAME<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`, or with `function` first and the name after it.
fn deepseek_call(reader: &mut Reader<'_>) -> Option<Written> {
    const END: &str = "<｜tool▁call▁end｜>";
    let head = reader.until("<｜tool▁sep｜>")?.trim();
    let name = if head == "function" {
        reader.until("\n")?.trim()
    } else {
        head
    };
    let name = name.to_owned();
    let arguments = json_arguments(reader, END);
    reader.eat(END);
    Some(Written { name, arguments })
}

/// Reads an element after its opening word. It has to be closed, or be the last one before `outer`.
fn element(reader: &mut Reader<'_>, kind: &Element, outer: &str) -> Option<Written> {
    let name = tag_name(reader.until(">")?)?.to_owned();
    let body = reader.rest();
    if reader.is_at("{") {
        let arguments = json_arguments(reader, kind.close);
        reader.eat(kind.close);
        return Some(Written { name, arguments });
    }
    let mut texts = Vec::new();
    let mut is_whole = true;
    while is_whole && reader.eat(kind.argument) {
        let argument = reader
            .until(">")
            .and_then(tag_name)
            .and_then(|name| Some((name.to_owned(), argument_text(reader, kind)?)));
        is_whole = argument.is_some();
        texts.extend(argument);
    }
    let is_closed = reader.eat(kind.close) || (!outer.is_empty() && reader.is_at(outer));
    let arguments = if is_whole && is_closed {
        Arguments::Texts(texts)
    } else {
        reader.until_or_end(kind.close);
        Arguments::cut(body)
    };
    Some(Written { name, arguments })
}

/// Reads the text of an argument. It may contain the closing word, so that the first one counts
/// after which the element goes on or ends.
fn argument_text(reader: &mut Reader<'_>, kind: &Element) -> Option<String> {
    let text = reader.rest();
    let is_end = |at: usize| {
        let mut after = *reader;
        after.take(at + ARGUMENT_CLOSE.len());
        after.is_at(kind.argument) || after.is_at(kind.close)
    };
    let mut ends = text.match_indices(ARGUMENT_CLOSE).map(|(at, _)| at);
    let end = ends
        .clone()
        .find(|at| is_end(*at))
        .or_else(|| ends.next())?;
    let argument = reader.take(end)?;
    reader.eat(ARGUMENT_CLOSE);
    Some(without_breaks(argument))
}

/// Returns the name in an opening tag: the first quoted text, or else all of it.
fn tag_name(inside: &str) -> Option<&str> {
    let name = inside.split('"').nth(1).unwrap_or(inside).trim();
    (!name.is_empty()).then_some(name)
}

/// Removes the line break that the templates write at both ends of a text.
fn without_breaks(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text);
    text.strip_suffix('\n').unwrap_or(text).to_owned()
}

/// Returns the value of the first member `name` in JSON that cannot be parsed.
fn member_name(raw: &str) -> Option<&str> {
    let (_, after) = raw.split_once("\"name\"")?;
    let quoted = after.trim_start().strip_prefix(':')?.trim_start();
    let (name, _) = quoted.strip_prefix('"')?.split_once('"')?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}
