//! The built-in demo model: no key, no network, no intelligence.
//!
//! It recognises a few requests in English and Chinese and answers them through the real tools, so
//! that a first run shows real behaviour: a call goes out, its result comes back, and the answer
//! reports what was found. Each answer begins with a label. The same conversation gives the same
//! answer. It never overwrites a file that it has not read completely, and it runs only commands
//! from a short allowlist.

mod intent;
mod plan;
mod words;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use nanobot_provider::{ChatRequest, ChatStream, Provider, ProviderError, StreamEvent};
use nanobot_types::{ChatMessage, FinishReason, Map, ProviderName, ToolName};

use self::intent::Intent;
use self::plan::{DemoPlan, DemoStep};
use self::words::Language;

/// Characters in one piece of streamed text.
const PIECE: usize = 12;

/// The demo model as a provider.
#[derive(Clone, Debug)]
pub struct Demo {
    name: ProviderName,
}

impl Demo {
    /// Creates the demo model under this provider name.
    #[must_use]
    pub fn new(name: ProviderName) -> Self {
        Self { name }
    }
}

#[async_trait]
impl Provider for Demo {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
        Ok(futures_util::stream::iter(answer(&request)).map(Ok).boxed())
    }
}

fn answer(request: &ChatRequest) -> Vec<StreamEvent> {
    let messages = request.transcript.messages();
    let questions: Vec<RecentQuestion> = messages
        .iter()
        .filter_map(|message| match &**message {
            ChatMessage::User(user) => Some(RecentQuestion::read(&user.content.to_text())),
            _ => None,
        })
        .collect();
    let newest = questions.last().cloned().unwrap_or_default();
    let words = Language::in_language_of(&newest.text);
    // "Again" repeats the request before it.
    let question = questions
        .iter()
        .rev()
        .map(|questions| Intent::of(&questions.text))
        .find(|intent| *intent != Intent::Again);
    let intent = question.unwrap_or(Intent::Help);
    let newest_turn = messages
        .rsplit(|message| message.role() == "user")
        .next()
        .unwrap_or_default();
    let results: Vec<(ToolName, String)> = newest_turn
        .iter()
        .filter_map(|message| match &**message {
            ChatMessage::Tool(result) => Some((result.name.clone()?, result.content.to_text())),
            _ => None,
        })
        .collect();
    let plan = DemoPlan {
        words,
        time: newest.time,
        tools: &request.tools,
        results: &results,
    };
    match plan.next(&intent) {
        DemoStep::Call { tool, arguments } => call(messages.len(), tool, arguments),
        DemoStep::Say(text) => stream_text(&format!("{} {text}", words.label())),
    }
}

/// A user message, split into its text and the time from its runtime context block.
#[derive(Clone, Debug, Default)]
struct RecentQuestion {
    text: String,
    time: Option<String>,
}

impl RecentQuestion {
    fn read(message: &str) -> Self {
        // The runtime context follows the text, so its line is the last one with this prefix.
        let time = message
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("Current Time:"));
        let time = time.map(|time| time.trim().to_owned());
        let text = match message.split_once("[Runtime Context") {
            // In older histories the runtime context precedes the text and has no closing tag.
            Some((before, note)) if before.trim().is_empty() => note
                .split_once("\n\n")
                .map(|(_, text)| text)
                .unwrap_or_default(),
            Some((before, _)) => before,
            None => message,
        };
        Self {
            text: text.trim().to_owned(),
            time,
        }
    }
}

fn call(position: usize, tool: &'static str, arguments: String) -> Vec<StreamEvent> {
    vec![
        StreamEvent::ToolCall {
            index: 0,
            // Nine letters and digits, unique for each position in the conversation.
            id: Some(format!("demo{position:05}")),
            name: Some(tool.to_owned()),
            arguments,
            extra: Map::new(),
            function_extra: Map::new(),
        },
        StreamEvent::Finished(FinishReason::ToolCalls),
    ]
}

fn stream_text(text: &str) -> Vec<StreamEvent> {
    let chars: Vec<char> = text.chars().collect();
    let pieces = chars
        .chunks(PIECE)
        .map(|piece| StreamEvent::Text(piece.iter().collect()));
    pieces
        .chain([StreamEvent::Finished(FinishReason::Stop)])
        .collect()
}
