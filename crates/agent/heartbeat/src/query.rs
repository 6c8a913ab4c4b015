//! A small request that is answered by a tool call.

use std::sync::Arc;
use std::time::Duration;

use nanobot_provider::{
    CallAccount, CallContext, CallPurpose, ChatRequest, Generation, ProviderRouter, ToolChoice,
    TurnMemo, handed_over,
};
use nanobot_types::{
    ChatMessage, Effect, FinishReason, LlmResponse, Map, ModelId, SessionKey, ToolSource, ToolSpec,
    TraceId, Transcript,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Time limit for a request.
const DEADLINE: Duration = Duration::from_mins(2);

/// A question and the tool that answers it.
#[derive(Debug)]
pub(crate) struct ToolQuestion<'a> {
    /// Name of the request in traces.
    pub(crate) name: &'static str,
    pub(crate) system: &'a str,
    pub(crate) text: String,
    /// The tool's name, its description, and the schema of its arguments.
    pub(crate) tool: (&'static str, &'static str, Value),
}

/// Sends the question and returns the arguments of the tool call. The tool is forced if the model
/// supports that.
pub(crate) async fn query(
    router: &ProviderRouter,
    question: &ToolQuestion<'_>,
    cancel: &CancellationToken,
) -> Result<Map, String> {
    let forced = call(
        router,
        question,
        ToolChoice::Tool(question.tool.0.into()),
        cancel,
    )
    .await?;
    let response = match forced.finish_reason {
        // Some models reject a forced tool choice.
        FinishReason::Error if !cancel.is_cancelled() => {
            call(router, question, ToolChoice::Auto, cancel).await?
        }
        _ => forced,
    };
    match response.finish_reason {
        FinishReason::Error | FinishReason::ContextOverflow => {
            let words = response
                .content
                .as_deref()
                .unwrap_or("the model did not answer");
            Err(words
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(200)
                .collect())
        }
        _ => handed_over(&response, question.tool.0),
    }
}

async fn call(
    router: &ProviderRouter,
    question: &ToolQuestion<'_>,
    tool_choice: ToolChoice,
    cancel: &CancellationToken,
) -> Result<LlmResponse, String> {
    let (name, description, parameters) = &question.tool;
    let tool = ToolSpec {
        name: (*name).into(),
        description: (*description).to_owned(),
        parameters: parameters.clone(),
        effect: Effect::Pure,
        source: ToolSource::BuiltIn,
    };
    let request = ChatRequest {
        model: ModelId::from(""),
        system: question.system.into(),
        transcript: Transcript::repair([Arc::new(ChatMessage::user(question.text.clone()))])
            .transcript,
        tools: Arc::new([tool]),
        tool_choice,
        generation: Generation::default(),
        cache_key: None,
        estimated_tokens: None,
        memo: TurnMemo::default(),
    };
    let context = CallContext {
        trace: TraceId::from(question.name),
        deltas: None,
        cancel: cancel.child_token(),
        account: CallAccount {
            purpose: CallPurpose::Judgement,
            session: None,
            job: Some(SessionKey::of_heartbeat()),
            is_attended: false,
        },
    };
    tokio::time::timeout(DEADLINE, router.chat_with_failover(request, &context))
        .await
        .map_err(|_elapsed| format!("no answer within {} s", DEADLINE.as_secs()))
}
