//! The users' messages and the model's responses.
//!
//! Decision: the model is a pure function of the request, so that a request that is repeated after
//! a kill gets the same response. A user's text carries a marker and the number of a plan. The
//! model follows the plan of the first unanswered marker, one stage per request, and ends with a
//! text that names every unanswered marker. A call id consists of marker, stage and position. It is
//! unique, and it is the token that the call's effect leaves.

use nanobot_testkit::Reply;
use nanobot_testkit::model_server::ModelRequest;
use serde_json::Value;

use crate::{System, ToolAction};

/// The chat that plans write to in addition to their own.
pub(crate) const SINK: i64 = 900;
/// Prefix of the model's final text.
const DONE: &str = "done";
/// Prefix of a message to the requesting chat in the middle of a turn.
const TOLD: &str = "told";
/// Prefix of a message to [`SINK`].
const NOTE: &str = "note";

/// One action of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlanAction {
    Look,
    Fetch,
    Put,
    Append,
    /// Send a message to the requesting chat.
    TellHere,
    /// Send a message to another chat.
    TellSink,
}

/// The plans: stages of actions. The first one is used to measure the duration of a turn.
const PLANS: [&[&[PlanAction]]; 5] = [
    &[
        &[PlanAction::Look, PlanAction::Fetch],
        &[PlanAction::Put, PlanAction::Append],
        &[PlanAction::TellSink],
    ],
    &[&[PlanAction::Append, PlanAction::Fetch, PlanAction::Append]],
    &[
        &[PlanAction::Put, PlanAction::Fetch],
        &[PlanAction::TellHere, PlanAction::Append],
    ],
    &[],
    &[
        &[PlanAction::Append],
        &[PlanAction::Append],
        &[PlanAction::Put, PlanAction::TellSink],
    ],
];

/// Number of plans.
pub(crate) const PLAN_COUNT: u64 = PLANS.len() as u64;

/// Returns the text of a user's message.
pub(crate) fn order(marker: &str, chat: i64, plan: u64) -> String {
    format!("{marker} from {chat}: follow plan {plan}")
}

/// Returns the marker of the n-th message of a round.
pub(crate) fn marker(number: u32) -> String {
    format!("mark-{number:04}")
}

/// Returns all markers in a text, in order.
pub(crate) fn markers(text: &str) -> Vec<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| {
            word.strip_prefix("mark-")
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .map(str::to_owned)
        .collect()
}

/// Returns the chat that an order came from.
pub(crate) fn chat_of(order: &str) -> Option<i64> {
    order
        .split_once(" from ")?
        .1
        .split_once(':')?
        .0
        .parse()
        .ok()
}

fn plan_of(order: &str) -> Option<&'static [&'static [PlanAction]]> {
    let number = order
        .split_once("follow plan ")?
        .1
        .split_whitespace()
        .next()?;
    PLANS.get(number.parse::<usize>().ok()?).copied()
}

/// Kind of a visible message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    /// The final text of a turn, with the markers it answers.
    Done(Vec<String>),
    /// A message in the middle of the turn of this marker.
    Told(String),
    /// A note to the sink, with its token.
    Note(String),
    /// A message of the program itself.
    Other,
}

impl Visible {
    pub(crate) fn of(text: &str) -> Self {
        let found = match text.split_once(' ') {
            Some((DONE, rest)) => Some(Self::Done(markers(rest))),
            Some((TOLD, rest)) => markers(rest).into_iter().next().map(Self::Told),
            Some((NOTE, token)) => Some(Self::Note(token.to_owned())),
            _ => None,
        };
        found.unwrap_or(Self::Other)
    }
}

/// Returns the chat of a request, which is that of its first order.
pub(crate) fn chat_of_request(request: &ModelRequest) -> Option<i64> {
    orders(request.messages())
        .first()
        .and_then(|order| chat_of(order))
}

/// Returns the model's response to a request. `page` is the URL of the page that it reads.
pub(crate) fn answer(system: &dyn System, page: &str, request: &ModelRequest) -> Reply {
    let messages = request.messages();
    let answered = messages
        .iter()
        .rposition(is_last_word)
        .map_or(0, |index| index + 1);
    let open = messages.get(answered..).unwrap_or_default();
    let orders = orders(open);
    let all: Vec<String> = orders.iter().flat_map(|order| markers(order)).collect();
    let stage = open
        .iter()
        .filter(|message| role(message) == "assistant")
        .count();
    let acts = orders
        .first()
        .and_then(|order| plan_of(order))
        .and_then(|plan| plan.get(stage));
    let (Some(acts), Some(first)) = (acts, all.first()) else {
        return Reply::text(format!("{DONE} {}", all.join(" ")));
    };
    let chat = orders
        .first()
        .and_then(|order| chat_of(order))
        .unwrap_or(SINK);
    Reply::calls(acts.iter().enumerate().map(|(place, act)| {
        let token = format!("{}-{stage}-{place}", first.replace("mark-", "call-"));
        let (told, note) = (format!("{TOLD} {first}"), format!("{NOTE} {token}"));
        let deed = match act {
            PlanAction::Look => ToolAction::Look,
            PlanAction::Fetch => ToolAction::Fetch { page },
            PlanAction::Put => ToolAction::Put,
            PlanAction::Append => ToolAction::Append,
            PlanAction::TellHere => ToolAction::Tell { chat, text: &told },
            PlanAction::TellSink => ToolAction::Tell {
                chat: SINK,
                text: &note,
            },
        };
        system.call(deed, &token).with_id(token.clone())
    }))
}

/// Returns `true` if the call with this id appends a line, which is visible if it happens twice.
pub(crate) fn is_append(call: &str, order: &str) -> bool {
    act_of(call, order) == Some(PlanAction::Append)
}

/// Returns `true` if the call with this id writes to the requesting chat.
pub(crate) fn is_answer(call: &str, order: &str) -> bool {
    act_of(call, order) == Some(PlanAction::TellHere)
}

/// Returns `true` if the call with this id reads the page.
pub(crate) fn is_fetch(call: &str, order: &str) -> bool {
    act_of(call, order) == Some(PlanAction::Fetch)
}

fn act_of(call: &str, order: &str) -> Option<PlanAction> {
    let mut places = call.rsplit('-');
    let place: usize = places.next()?.parse().ok()?;
    let stage: usize = places.next()?.parse().ok()?;
    plan_of(order)?.get(stage)?.get(place).copied()
}

/// Returns the marker whose plan contains this call.
pub(crate) fn marker_of_call(call: &str) -> Option<String> {
    let number = call.strip_prefix("call-")?.split('-').next()?;
    Some(format!("mark-{number}"))
}

fn orders(messages: &[Value]) -> Vec<String> {
    let texts = messages
        .iter()
        .filter(|message| role(message) == "user")
        .map(text);
    texts.filter(|text| !markers(text).is_empty()).collect()
}

fn is_last_word(message: &Value) -> bool {
    role(message) == "assistant"
        && message
            .get("tool_calls")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty)
}

fn role(message: &Value) -> &str {
    message
        .get("role")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter_map(|block| block.get("text")?.as_str())
                .collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_contains_marker_chat_and_plan() {
        let text = format!("{}\n\n[Runtime] mark my words", order(&marker(7), 101, 1));
        assert_eq!(markers(&text), ["mark-0007"]);
        assert_eq!(chat_of(&text), Some(101));
        assert_eq!(plan_of(&text), Some(PLANS[1]));
    }

    #[test]
    fn call_id_yields_marker_and_append_flag() {
        let order = order(&marker(7), 101, 1);
        assert_eq!(
            marker_of_call("call-0007-0-2").as_deref(),
            Some("mark-0007")
        );
        let appends = [
            "call-0007-0-0",
            "call-0007-0-1",
            "call-0007-0-2",
            "call-0007-1-0",
            "7",
        ];
        assert_eq!(
            appends.map(|call| is_append(call, &order)),
            [true, false, true, false, false]
        );
    }

    #[test]
    fn visible_texts_are_classified() {
        let seen = [
            "done mark-0001 mark-0002",
            "told mark-0001",
            "note call-0001-2-0",
            "I am still at work here.",
        ];
        let kinds = seen.map(Visible::of);
        let expected = [
            Visible::Done(vec![marker(1), marker(2)]),
            Visible::Told(marker(1)),
            Visible::Note("call-0001-2-0".to_owned()),
            Visible::Other,
        ];
        assert_eq!(kinds, expected);
    }
}
