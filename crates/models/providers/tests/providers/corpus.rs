//! Every row of the corpus of answers, served byte for byte to the real client and router.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nanobot_provider::{ChatRequest, RetryPolicy};
use nanobot_testkit::corpus::{CorpusRow, rows};
use nanobot_testkit::{ModelServer, Reply};
use nanobot_types::{FinishReason, LlmResponse};

use super::support::{answered, context, hello, impatient, quick, router, watched, words};

/// Calls that are well formed and wrong only for the tool, so that the engine has to handle them.
const CHECKED_IN_ENGINE: &[&str] = &["lr-s-002", "lr-s-004", "lr-s-007"];

/// Properties that the engine adds to rows that pass here: it compacts, reports that a response was
/// cut off, and stores that it was.
const ALSO_CHECKED_IN_ENGINE: &[(&str, &str)] = &[
    ("lr-s-018", "user_told_cut"),
    ("lr-s-018", "stored_with_flag"),
    ("lr-s-026", "no_loop"),
];

const RECOVERED: &str = "recovered";

#[tokio::test]
async fn every_row_ends_as_expected() {
    let rows = rows("llm_responses").unwrap();
    assert_eq!(rows.len(), 40);
    for (id, word) in ALSO_CHECKED_IN_ENGINE {
        assert!(
            rows.iter()
                .any(|row| row.id == *id && row.must().contains(word)),
            "{id} no longer says {word}"
        );
    }
    let mut failed = Vec::new();
    for row in &rows {
        if let Err(why) = check(row).await {
            failed.push(format!("{}: {why}", row.id));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The response when the row is served at every request, and the number of requests.
struct Always {
    response: LlmResponse,
    requests: usize,
}

fn policy(row: &CorpusRow) -> RetryPolicy {
    match row.outcome() {
        // One attempt is enough to see that a line of 10 MB is rejected.
        "error_bounded" => RetryPolicy {
            pauses: Vec::new(),
            ..quick()
        },
        "timeout_then_retry" => impatient(),
        _ => quick(),
    }
}

async fn always(row: &CorpusRow) -> Always {
    let reply = Reply::corpus(row).unwrap();
    let server = ModelServer::answering(move |_| reply.clone())
        .await
        .unwrap();
    let policy = RetryPolicy {
        longest_pause: Duration::from_secs(1),
        ..policy(row)
    };
    let response = router("custom", &server, policy)
        .chat_with_failover(hello(), &context())
        .await;
    Always {
        response,
        requests: server.requests().len(),
    }
}

/// Returns the response when the row is served once, followed by a good answer.
async fn once(row: &CorpusRow) -> (LlmResponse, Duration) {
    let server = ModelServer::scripted([Reply::corpus(row).unwrap(), Reply::text(RECOVERED)])
        .await
        .unwrap();
    let begun = Instant::now();
    let response = router("custom", &server, policy(row))
        .chat_with_failover(hello(), &context())
        .await;
    (response, begun.elapsed())
}

async fn check(row: &CorpusRow) -> Result<(), String> {
    let Always { response, requests } = always(row).await;
    let seen = format!("{requests} requests, {response:?}");
    let require = |holds: bool| if holds { Ok(()) } else { Err(seen.clone()) };
    match row.outcome() {
        "ok" => require(response.finish_reason == FinishReason::Stop && requests == 1)?,
        "ok_or_retry" => require(matches!(
            response.finish_reason,
            FinishReason::Stop | FinishReason::Error
        ))?,
        "ok_run" => {
            require(!response.tool_calls.is_empty() && requests == 1)?;
            require(
                response
                    .tool_calls
                    .iter()
                    .all(|call| call.parsed_arguments().is_ok()),
            )?;
        }
        "tool_error_to_model" => {
            require(!response.tool_calls.is_empty() && requests == 1)?;
            let runnable = CHECKED_IN_ENGINE.contains(&row.id.as_str());
            require(
                response
                    .tool_calls
                    .iter()
                    .all(|call| call.parsed_arguments().is_ok() == runnable),
            )?;
        }
        "partial" => require(
            response.finish_reason == FinishReason::Length && words(&response) == "half an ans",
        )?,
        "error_to_user" => require(is_explained(&response) && requests == 1)?,
        "error_bounded" => {
            require(is_explained(&response) && words(&response).contains("longer than"))?;
        }
        "compact_and_retry_once" => {
            require(response.finish_reason == FinishReason::ContextOverflow && requests == 1)?;
        }
        "retry" | "retry_then_error" | "retry_or_error" | "retry_or_partial"
        | "timeout_then_retry" | "treated_as_stop" => {
            require(is_explained(&response) && response.tool_calls.is_empty())?;
            let (after, elapsed) = once(row).await;
            if words(&after) != RECOVERED || after.finish_reason != FinishReason::Stop {
                return Err(format!("not asked again: {after:?}"));
            }
            if row.must().contains(&"retry_after_honoured") && elapsed < Duration::from_secs(2) {
                return Err(format!("asked again after {elapsed:?}"));
            }
        }
        other => return Err(format!("unknown outcome {other:?}")),
    }
    for word in row.must() {
        must(row, word, &response).await?;
    }
    Ok(())
}

fn is_explained(response: &LlmResponse) -> bool {
    response.finish_reason == FinishReason::Error && words(response).starts_with("custom/model: ")
}

/// Checks a property that goes beyond the outcome.
async fn must(row: &CorpusRow, word: &str, response: &LlmResponse) -> Result<(), String> {
    let holds = match word {
        _ if word.starts_with("text_is_") => words(response) == word.trim_start_matches("text_is_"),
        "ids_made_distinct" | "id_made_up" => {
            let ids: HashSet<&str> = response
                .tool_calls
                .iter()
                .map(|call| call.id.as_str())
                .collect();
            ids.len() == response.tool_calls.len() && !ids.contains("")
        }
        "request_valid_next" | "one_result_per_call" => return next_is_valid(response).await,
        "html_not_shown_to_user" => !words(response).contains('<'),
        "key_not_shown" => !words(response).contains("sk-"),
        "idle_timeout" => words(response).contains("no answer for"),
        "bad_frame_reported" => words(response).contains("not JSON"),
        "not_accepted_as_complete" => {
            let server = ModelServer::scripted([Reply::corpus(row).unwrap()])
                .await
                .unwrap();
            let seen = router("custom", &server, quick())
                .chat_with_failover(hello(), &watched())
                .await;
            seen.finish_reason == FinishReason::Error
                && words(&seen).contains("The answer broke off.")
        }
        // Implied by the outcome, or by getting here.
        "no_panic"
        | "user_told"
        | "tool_not_run"
        | "backoff"
        | "not_retried"
        | "retry_after_honoured"
        | "no_phantom_tool_result"
        | "no_empty_message_sent"
        | "memory_below_64MB" => true,
        "error_names_parameter" | "error_lists_tools" => {
            CHECKED_IN_ENGINE.contains(&row.id.as_str())
        }
        other => ALSO_CHECKED_IN_ENGINE.contains(&(row.id.as_str(), other)),
    };
    if holds {
        Ok(())
    } else {
        Err(format!("{word}: {response:?}"))
    }
}

/// Checks that the next request passes the strict validation of each vendor.
async fn next_is_valid(response: &LlmResponse) -> Result<(), String> {
    for vendor in ["custom", "mistral", "anthropic"] {
        let server = ModelServer::scripted([Reply::text("fine")]).await.unwrap();
        let next: ChatRequest = answered(&hello(), response);
        let answer = router(vendor, &server, quick())
            .chat_with_failover(next, &context())
            .await;
        let violations = server.violations();
        if !violations.is_empty() || words(&answer) != "fine" {
            return Err(format!(
                "{vendor} refuses the next request: {violations:?} {answer:?}"
            ));
        }
    }
    Ok(())
}
