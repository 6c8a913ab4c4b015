//! The candidates asked, the number of attempts, and the messages that the user reads.

use std::sync::Arc;
use std::time::Duration;

use nanobot_provider::{Generation, ProviderError, StreamEvent};
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, FinishReason, ImageUrl, LlmResponse,
    Usage, UserMessage,
};
use tokio::time::Instant;

use super::script::{Play, Scripted, hello, refuse, request, router, text, unwatched, watched};

fn busy(retry_after: Option<u64>) -> ProviderError {
    ProviderError::RateLimited {
        retry_after: retry_after.map(Duration::from_secs),
        message: "slow down".into(),
    }
}

fn down() -> ProviderError {
    ProviderError::Server {
        retry_after: None,
        status: 503,
        message: "upstream".into(),
    }
}

fn content(response: &LlmResponse) -> &str {
    response.content.as_deref().unwrap_or_default()
}

/// `true` if `elapsed` is `expected` plus at most a quarter of jitter.
fn about(elapsed: Duration, expected: Duration) -> bool {
    (expected..=expected.mul_f64(1.25) + Duration::from_millis(50)).contains(&elapsed)
}

#[tokio::test(start_paused = true)]
async fn response_names_its_provider_and_model() {
    let a = Scripted::new("a", [text("hi")]);
    let response = router(&[&a])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(
        response,
        LlmResponse {
            content: Some("hi".into()),
            provider: Some("a".into()),
            model: Some("m".into()),
            ..LlmResponse::default()
        }
    );
    let sent = &a.requests()[0];
    assert_eq!((sent.model.as_str(), sent.generation.max_tokens), ("m", 7));
}

#[tokio::test(start_paused = true)]
async fn request_generation_overrides_the_candidates() {
    let a = Scripted::new("a", [text("hi")]);
    let own = Generation {
        max_tokens: 99,
        ..Generation::default()
    };
    router(&[&a])
        .chat_with_failover(
            nanobot_provider::ChatRequest {
                generation: own.clone(),
                ..hello()
            },
            &unwatched(),
        )
        .await;
    assert_eq!(a.requests()[0].generation, own);
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_retried_with_backoff() {
    let a = Scripted::new(
        "a",
        [refuse(down()), refuse(down()), refuse(down()), text("hi")],
    );
    let (context, shown) = watched();
    let begun = Instant::now();
    let response = router(&[&a]).chat_with_failover(hello(), &context).await;
    assert_eq!(content(&response), "hi");
    assert!(
        about(begun.elapsed(), Duration::from_secs(7)),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(shown.notices().len(), 3);
    assert!(
        shown.notices()[0].starts_with("a/m: server error 503: upstream; trying again in"),
        "{:?}",
        shown.notices()
    );
}

#[tokio::test(start_paused = true)]
async fn explains_the_last_failure() {
    let a = Scripted::new(
        "open_ai",
        std::iter::repeat_n(
            refuse(ProviderError::Network(
                "cannot reach http://127.0.0.1:1".into(),
            )),
            4,
        ),
    );
    let response = router(&[&a])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(response.finish_reason, FinishReason::Error);
    let words = content(&response);
    assert!(
        words.starts_with("open_ai/m: connection failed: cannot reach http://127.0.0.1:1. "),
        "{words}"
    );
    assert!(words.contains("providers.openAi.apiBase"), "{words}");
    assert_eq!(a.requests().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn honours_retry_after() {
    let a = Scripted::new("a", [refuse(busy(Some(20))), text("hi")]);
    let begun = Instant::now();
    let response = router(&[&a])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(content(&response), "hi");
    assert!(
        about(begun.elapsed(), Duration::from_secs(20)),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn excessive_retry_after_fails_at_once() {
    let a = Scripted::new("a", [refuse(busy(Some(3600)))]);
    let begun = Instant::now();
    let response = router(&[&a])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(response.finish_reason, FinishReason::Error);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn fails_over_to_the_next_candidate_with_a_notice() {
    let table = [
        ("wrong key", vec![ProviderError::Auth("bad".into())], 0),
        ("no money", vec![ProviderError::Quota("empty".into())], 0),
        (
            "unknown model",
            vec![ProviderError::BadRequest("no such model".into())],
            0,
        ),
        ("long wait asked for", vec![busy(Some(30))], 0),
        (
            "too long for this one",
            vec![ProviderError::ContextOverflow("8k".into())],
            0,
        ),
        ("too many requests", vec![busy(None)], 0),
        ("down twice", vec![down(); 2], 500),
    ];
    for (case, errors, milliseconds) in table {
        let count = errors.len();
        let a = Scripted::new("a", errors.into_iter().map(refuse));
        let b = Scripted::new("b", [text("from b")]);
        let (context, shown) = watched();
        let begun = Instant::now();
        let response = router(&[&a, &b])
            .chat_with_failover(hello(), &context)
            .await;
        assert_eq!(
            (content(&response), response.provider.clone()),
            ("from b", Some("b".into())),
            "{case}"
        );
        assert!(
            about(begun.elapsed(), Duration::from_millis(milliseconds)),
            "{case}: {:?}",
            begun.elapsed()
        );
        assert_eq!(a.requests().len(), count, "{case}");
        assert!(
            shown
                .notices()
                .last()
                .unwrap()
                .ends_with("; asking b/m instead"),
            "{case}: {:?}",
            shown.notices()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn failed_candidate_returns_after_its_cooldown() {
    let a = Scripted::new("a", [refuse(ProviderError::Quota("empty".into()))]);
    let b = Scripted::new("b", [text("1"), text("2")]);
    let router = router(&[&a, &b]);
    router.chat_with_failover(hello(), &unwatched()).await;
    router.chat_with_failover(hello(), &unwatched()).await;
    assert_eq!((a.requests().len(), b.requests().len()), (1, 2));
    tokio::time::advance(Duration::from_secs(3600)).await;
    a.push(text("back"));
    let response = router.chat_with_failover(hello(), &unwatched()).await;
    assert_eq!(content(&response), "back");
}

#[tokio::test(start_paused = true)]
async fn candidates_are_asked_anyway_if_all_are_cooling_down() {
    let a = Scripted::new(
        "a",
        [refuse(ProviderError::Auth("bad".into())), text("key fixed")],
    );
    let router = router(&[&a]);
    let first = router.chat_with_failover(hello(), &unwatched()).await;
    assert!(content(&first).contains("providers.a.apiKey"), "{first:?}");
    let second = router.chat_with_failover(hello(), &unwatched()).await;
    assert_eq!(content(&second), "key fixed");
}

#[tokio::test(start_paused = true)]
async fn lists_every_failure_if_no_candidate_answers() {
    let a = Scripted::new("a", [refuse(ProviderError::Auth("bad".into()))]);
    let b = Scripted::new("b", [refuse(ProviderError::Quota("empty".into()))]);
    let response = router(&[&a, &b])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(response.finish_reason, FinishReason::Error);
    let words = content(&response);
    assert!(
        words.starts_with("No model answered.\n- a/m: not authorised: bad."),
        "{words}"
    );
    assert!(
        words.contains("\n- b/m: quota exhausted: empty."),
        "{words}"
    );
    let nobody = router_without_candidates().await;
    assert!(
        content(&nobody).starts_with("No model is configured."),
        "{nobody:?}"
    );
}

async fn router_without_candidates() -> LlmResponse {
    router(&[]).chat_with_failover(hello(), &unwatched()).await
}

fn broken() -> Play {
    Play::Events(vec![
        Ok(StreamEvent::Text("half an ".into())),
        Err(ProviderError::Network("reset".into())),
    ])
}

#[tokio::test(start_paused = true)]
async fn answer_that_breaks_off_is_withdrawn_and_asked_for_again() {
    let a = Scripted::new("a", [broken(), broken()]);
    let b = Scripted::new("b", [text("whole")]);
    let (context, shown) = watched();
    let response = router(&[&a, &b])
        .chat_with_failover(hello(), &context)
        .await;
    assert_eq!(
        (content(&response), shown.text().as_str()),
        ("whole", "half an |half an |whole")
    );
}

#[tokio::test(start_paused = true)]
async fn answer_that_breaks_off_four_times_is_kept_in_part() {
    let a = Scripted::new("a", [broken(), broken(), broken(), broken()]);
    let (context, shown) = watched();
    let response = router(&[&a]).chat_with_failover(hello(), &context).await;
    assert_eq!(response.finish_reason, FinishReason::Error);
    let expected = "half an\n\n[The answer broke off. a/m: connection failed: reset.";
    assert!(content(&response).starts_with(expected), "{response:?}");
    assert_eq!(shown.text(), "half an |half an |half an |half an ");

    let a = Scripted::new("a", [broken(), refuse(ProviderError::Auth("bad".into()))]);
    let (context, _) = watched();
    let response = router(&[&a]).chat_with_failover(hello(), &context).await;
    let expected = "half an\n\n[The answer broke off. a/m: not authorised: bad.";
    assert!(content(&response).starts_with(expected), "{response:?}");
}

#[tokio::test(start_paused = true)]
async fn truncated_answer_is_retried() {
    let cut = Play::Events(vec![Ok(StreamEvent::Text("Hel".into()))]);
    let a = Scripted::new("a", [cut, text("Hello")]);
    assert_eq!(
        content(
            &router(&[&a])
                .chat_with_failover(hello(), &unwatched())
                .await
        ),
        "Hello"
    );
}

#[tokio::test(start_paused = true)]
async fn idle_timeout_ends_an_attempt() {
    let a = Scripted::new("a", [Play::Stall(vec![]), Play::Stall(vec![])]);
    let begun = Instant::now();
    let response = router(&[&a])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert!(
        content(&response).contains("no answer for 90 s"),
        "{response:?}"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(185),
        "{:?}",
        begun.elapsed()
    );

    let a = Scripted::new("a", [Play::Stall(vec![])]);
    let b = Scripted::new("b", [text("awake")]);
    let begun = Instant::now();
    let response = router(&[&a, &b])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(
        (content(&response), begun.elapsed()),
        ("awake", Duration::from_secs(90))
    );
}

#[tokio::test(start_paused = true)]
async fn local_model_may_take_minutes_to_begin_but_not_between_events() {
    let reading = Duration::from_secs(600);
    let silence = Duration::from_secs(90);
    let late = || Play::Late(reading);
    let begun_only = Play::Stall(vec![Ok(StreamEvent::Text("be".to_owned()))]);
    for (provider, expected, after) in [
        (Scripted::local("a", [late()]), "late", reading),
        (Scripted::new("a", [late()]), "awake", silence),
        (Scripted::local("a", [begun_only]), "awake", silence),
    ] {
        let other = Scripted::new("b", [text("awake")]);
        let begun = Instant::now();
        let response = router(&[&provider, &other])
            .chat_with_failover(hello(), &unwatched())
            .await;
        assert_eq!((content(&response), begun.elapsed()), (expected, after));
    }
}

#[tokio::test(start_paused = true)]
async fn total_timeout_ends_an_attempt() {
    let a = Scripted::new("a", [Play::Drip(Duration::from_secs(7))]);
    let b = Scripted::new("b", [text("done")]);
    let begun = Instant::now();
    let response = router(&[&a, &b])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(
        (content(&response), begun.elapsed()),
        ("done", Duration::from_secs(300))
    );
}

#[tokio::test(start_paused = true)]
async fn cancellation_ends_at_once_and_keeps_usage() {
    let usage = Usage {
        prompt_tokens: 5,
        ..Usage::default()
    };
    let a = Scripted::new(
        "a",
        [Play::Events(vec![
            Ok(StreamEvent::Usage(usage)),
            Err(down()),
        ])],
    );
    let context = unwatched();
    let router = router(&[&a]);
    let begun = Instant::now();
    let (response, ()) = tokio::join!(router.chat_with_failover(hello(), &context), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        context.cancel.cancel();
    });
    assert_eq!(
        (response.finish_reason, response.usage),
        (FinishReason::Error, Some(usage))
    );
    assert_eq!(
        (response.content.as_deref(), begun.elapsed()),
        (Some("Stopped."), Duration::from_millis(500))
    );
}

#[tokio::test(start_paused = true)]
async fn usage_includes_failed_attempts() {
    let usage = |tokens| Usage {
        prompt_tokens: tokens,
        ..Usage::default()
    };
    let failed = Play::Events(vec![Ok(StreamEvent::Usage(usage(3))), Err(down())]);
    let fine = Play::Events(vec![
        Ok(StreamEvent::Usage(usage(1))),
        Ok(StreamEvent::Usage(usage(4))),
        Ok(StreamEvent::Text("hi".into())),
        Ok(StreamEvent::Finished(FinishReason::Stop)),
    ]);
    let a = Scripted::new("a", [failed, fine]);
    let response = router(&[&a])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(response.usage, Some(usage(7)));
}

#[tokio::test(start_paused = true)]
async fn empty_answers_are_retried_twice() {
    let a = Scripted::new("a", [text(" \n"), text(""), text("at last")]);
    assert_eq!(
        content(
            &router(&[&a])
                .chat_with_failover(hello(), &unwatched())
                .await
        ),
        "at last"
    );
    let a = Scripted::new("a", [text(""), text(""), text("")]);
    let response = router(&[&a])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(response.finish_reason, FinishReason::Error);
    assert!(
        content(&response).contains("the answer was empty"),
        "{response:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn withheld_answer_is_explained_and_not_retried() {
    for (reason, expected) in [
        (FinishReason::ContentFilter, "content filter"),
        (FinishReason::Length, "maxTokens"),
    ] {
        let a = Scripted::new("a", [Play::Events(vec![Ok(StreamEvent::Finished(reason))])]);
        let response = router(&[&a])
            .chat_with_failover(hello(), &unwatched())
            .await;
        assert_eq!(response.finish_reason, FinishReason::Error);
        assert!(content(&response).contains(expected), "{response:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn context_overflow_has_its_own_finish_reason() {
    let a = Scripted::new(
        "a",
        [refuse(ProviderError::ContextOverflow("8192 tokens".into()))],
    );
    let response = router(&[&a])
        .chat_with_failover(hello(), &unwatched())
        .await;
    assert_eq!(response.finish_reason, FinishReason::ContextOverflow);
    assert!(content(&response).contains("/new"), "{response:?}");
    assert_eq!(a.requests().len(), 1);
}

fn picture() -> ChatMessage {
    let blocks = vec![
        ContentBlock::ImageUrl {
            image_url: ImageUrl {
                url: "data:image/png;base64,AA==".into(),
            },
        },
        ContentBlock::Text {
            text: "what is it?".into(),
        },
    ];
    ChatMessage::User(UserMessage {
        content: Content::Blocks(blocks),
        media: Vec::new(),
    })
}

#[tokio::test(start_paused = true)]
async fn unsupported_images_are_omitted_once() {
    let refusals = [
        ProviderError::ImagesUnsupported("text only".into()),
        ProviderError::BadRequest("content[0]".into()),
    ];
    for refusal in refusals {
        let a = Scripted::new("a", [refuse(refusal.clone()), text("a cat?")]);
        let (context, shown) = watched();
        let response = router(&[&a])
            .chat_with_failover(request(vec![picture()]), &context)
            .await;
        assert_eq!(content(&response), "a cat?");
        assert_eq!(
            a.requests()[1].transcript.messages()[0].text(),
            "[image omitted]\nwhat is it?"
        );
        assert!(
            shown.notices()[0].ends_with("asking again without images"),
            "{:?}",
            shown.notices()
        );

        let a = Scripted::new("a", [refuse(refusal.clone()), refuse(refusal.clone())]);
        router(&[&a])
            .chat_with_failover(request(vec![picture()]), &unwatched())
            .await;
        assert_eq!(a.requests().len(), 2);
        let a = Scripted::new("a", [refuse(refusal)]);
        router(&[&a])
            .chat_with_failover(hello(), &unwatched())
            .await;
        assert_eq!(a.requests().len(), 1, "there was no image to leave out");
    }
}

#[tokio::test(start_paused = true)]
async fn reasoning_is_sent_only_to_its_provider() {
    let thought = |provider: Option<&str>| {
        ChatMessage::Assistant(AssistantMessage {
            content: Some("answer".into()),
            reasoning_content: Some("because".into()),
            thinking_blocks: vec![serde_json::json!({"type": "thinking"})],
            provider: provider.map(Into::into),
            ..AssistantMessage::default()
        })
    };
    let messages = vec![
        ChatMessage::user("q"),
        thought(Some("a")),
        thought(Some("b")),
        thought(None),
    ];
    let a = Scripted::new("a", [text("hi")]);
    router(&[&a])
        .chat_with_failover(request(messages.clone()), &unwatched())
        .await;
    let sent: Vec<Arc<ChatMessage>> = a.requests()[0].transcript.messages().to_vec();
    let stripped = ChatMessage::Assistant(AssistantMessage {
        content: Some("answer".into()),
        provider: Some("b".into()),
        ..AssistantMessage::default()
    });
    let expected = [
        messages[0].clone(),
        messages[1].clone(),
        stripped,
        messages[3].clone(),
    ];
    assert_eq!(
        sent.iter()
            .map(|message| (**message).clone())
            .collect::<Vec<_>>(),
        expected
    );
}
