//! Tests of the scripted provider, the recording channel and the WebSocket client.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use nanobot_channel::{
    Access, AccessDecision, Admission, Arrival, CancellationToken, Channel as _, ChannelContext,
    ChannelError, ChatId, InboundMessage, Intake, Liveness, MediaError, MediaRef, MediaStore,
    OutboundKey, OutboundKind, OutboundMessage, OutboundPart, Semaphore, SenderId, TaskTracker,
    async_trait,
};
use nanobot_provider::{
    ChatRequest, Generation, Provider as _, ProviderError, StreamEvent, ToolChoice, TurnMemo,
};
use nanobot_testkit::channel::{SendFault, single_part};
use nanobot_testkit::{
    Gate, NoteBook, RecordingChannel, Reply, ScriptedCall, ScriptedProvider, WebSocketClient,
};
use nanobot_types::{
    AssistantMessage, ChatMessage, FinishReason, Map, ToolCall, Transcript, Usage,
};
use serde_json::json;
use tokio::net::TcpListener;

fn request(text: &str) -> ChatRequest {
    ChatRequest {
        model: "m".into(),
        system: "s".into(),
        transcript: Transcript::repair([Arc::new(ChatMessage::user(text))]).transcript,
        tools: Arc::new([]),
        tool_choice: ToolChoice::Auto,
        generation: Generation::default(),
        cache_key: None,
        estimated_tokens: None,
        memo: TurnMemo::default(),
    }
}

async fn events(provider: &ScriptedProvider) -> Vec<Result<StreamEvent, ProviderError>> {
    provider
        .stream(request("hi"))
        .await
        .unwrap()
        .collect()
        .await
}

#[tokio::test]
async fn a_scripted_answer_is_a_stream_of_events() {
    let usage = Usage {
        prompt_tokens: 3,
        ..Usage::default()
    };
    let call = ScriptedCall::new("read_file", &json!({"path": "a"}));
    let reply = Reply::deltas(["a", "b"])
        .and_calls([call])
        .with_reasoning("hm", "sig")
        .with_usage(usage);
    let provider = ScriptedProvider::scripted([reply]).named("p");
    let expected = [
        StreamEvent::Reasoning("hm".to_owned()),
        StreamEvent::ThinkingBlock(
            json!({"type": "thinking", "thinking": "hm", "signature": "sig"}),
        ),
        StreamEvent::Text("a".to_owned()),
        StreamEvent::Text("b".to_owned()),
        StreamEvent::ToolCall {
            index: 0,
            id: Some("call_1_0".to_owned()),
            name: Some("read_file".to_owned()),
            arguments: "{\"path\":\"a\"}".to_owned(),
            extra: Map::new(),
            function_extra: Map::new(),
        },
        StreamEvent::Usage(usage),
        StreamEvent::Finished(FinishReason::ToolCalls),
    ];
    assert_eq!(events(&provider).await, expected.map(Ok));
    assert_eq!(
        (
            provider.name().as_str(),
            provider.requests().len(),
            provider.replies_left()
        ),
        ("p", 1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn endings_and_errors_in_process() {
    let provider = ScriptedProvider::scripted([
        Reply::text("a").then_cut(),
        Reply::text("a").then_fail("overloaded_error", "x"),
        Reply::text("a")
            .with_delay(Duration::from_secs(60))
            .then_stall(),
    ]);
    let last = events(&provider).await.pop().unwrap();
    assert_eq!(
        last,
        Err(ProviderError::Network("connection reset".to_owned()))
    );
    let last = events(&provider).await.pop().unwrap();
    assert_eq!(
        last,
        Err(ProviderError::Server {
            retry_after: None,
            status: 200,
            message: "overloaded_error: x".to_owned()
        })
    );
    let mut stalled = provider.stream(request("hi")).await.unwrap();
    assert_eq!(
        stalled.next().await,
        Some(Ok(StreamEvent::Text("a".to_owned())))
    );
    assert!(
        tokio::time::timeout(Duration::from_secs(3600), stalled.next())
            .await
            .is_err()
    );
    let table = [
        (Reply::error(401, "k"), ProviderError::Auth("k".to_owned())),
        (
            Reply::error_code(429, "insufficient_quota", "q"),
            ProviderError::Quota("q".to_owned()),
        ),
        (
            Reply::error(429, "r").with_header("retry-after", "2"),
            ProviderError::RateLimited {
                retry_after: Some(Duration::from_secs(2)),
                message: "r".to_owned(),
            },
        ),
        (
            Reply::error_code(400, "context_length_exceeded", "c"),
            ProviderError::ContextOverflow("c".to_owned()),
        ),
        (
            Reply::error(400, "b"),
            ProviderError::BadRequest("b".to_owned()),
        ),
        (
            Reply::status(503, "text/plain", "s"),
            ProviderError::Server {
                retry_after: None,
                status: 503,
                message: "s".to_owned(),
            },
        ),
    ];
    for (reply, error) in table {
        provider.push(reply);
        assert_eq!(provider.stream(request("hi")).await.err(), Some(error));
    }
}

#[tokio::test]
async fn gate_delays_the_rest_of_an_answer() {
    let gate = Gate::new();
    let provider = ScriptedProvider::scripted([Reply::deltas(["a", "b"]).holding(&gate)]);
    let mut stream = provider.stream(request("hi")).await.unwrap();
    assert_eq!(
        stream.next().await,
        Some(Ok(StreamEvent::Text("a".to_owned())))
    );
    assert_eq!(stream.next().now_or_never(), None);
    gate.open();
    assert_eq!(
        stream.next().await,
        Some(Ok(StreamEvent::Text("b".to_owned())))
    );
}

#[tokio::test]
async fn a_rule_sees_the_request() {
    let provider = ScriptedProvider::answering(|request| match request.tool_results().as_slice() {
        [] => Reply::call("echo", &json!({"text": request.last_user_text()})),
        results => Reply::text(results.join("+")),
    });
    let event = events(&provider).await.swap_remove(0);
    let Ok(StreamEvent::ToolCall { arguments, .. }) = event else {
        panic!("{event:?}")
    };
    assert_eq!(arguments, "{\"text\":\"hi\"}");
    let call = ToolCall::new("c", "echo", arguments);
    let called = AssistantMessage {
        tool_calls: vec![call.clone()],
        ..AssistantMessage::default()
    };
    let messages = [
        ChatMessage::user("hi"),
        ChatMessage::Assistant(called),
        ChatMessage::tool(&call, "hi"),
    ];
    let next = ChatRequest {
        transcript: Transcript::repair(messages.map(Arc::new)).transcript,
        ..request("")
    };
    let first = provider.stream(next).await.unwrap().next().await;
    assert_eq!(first, Some(Ok(StreamEvent::Text("hi".to_owned()))));
}

/// An access policy that admits everyone and stores nothing.
struct Open;

#[async_trait]
impl Access for Open {
    async fn check(
        &self,
        _sender: &SenderId,
        _chat: &ChatId,
        _arrival: &Arrival,
    ) -> AccessDecision {
        AccessDecision::Allowed
    }
}

#[async_trait]
impl Intake for Open {
    async fn deliver(&self, _message: InboundMessage, _arrival: &Arrival) -> Admission {
        Admission::Accepted
    }
}

impl Liveness for Open {
    fn alive(&self) {}
    fn degraded(&self, _why: &str) {}
    fn impaired(&self, _why: &str) {}
}

#[async_trait]
impl MediaStore for Open {
    fn limit(&self) -> u64 {
        0
    }

    async fn store(
        &self,
        _: &str,
        _: &str,
        _: Option<&str>,
        _: &[u8],
    ) -> Result<MediaRef, MediaError> {
        Err(MediaError::TooLarge { limit: 0 })
    }
}

fn context(cancel: &CancellationToken) -> ChannelContext {
    let open = Arc::new(Open);
    ChannelContext {
        access: open.clone(),
        intake: open.clone(),
        progress: open.clone(),
        media: open,
        notes: Arc::<NoteBook>::default(),
        transcriber: None,
        commands: Arc::default(),
        suspects: Arc::new(Semaphore::new(1)),
        tasks: TaskTracker::new(),
        cancel: cancel.clone(),
    }
}

fn part(text: &str) -> OutboundPart {
    let inbound = InboundMessage::text("test", "1", "2", "q");
    let key = OutboundKey {
        turn: "t".into(),
        position: 0,
    };
    single_part(OutboundMessage::in_reply_to(
        &inbound,
        key,
        OutboundKind::Final,
        text.to_owned(),
    ))
}

#[tokio::test]
async fn the_recording_channel_runs_receives_and_crashes() {
    let channel = RecordingChannel::new("test");
    let cancel = CancellationToken::new();
    let message = InboundMessage::text("test", "1", "2", "hi");
    let (ended, admission) = tokio::join!(channel.run(context(&cancel)), async {
        let admission = channel.receive(message, &Arrival::direct()).await.unwrap();
        cancel.cancel();
        admission
    });
    assert!(ended.is_ok());
    assert_eq!(admission, Admission::Accepted);
    channel.crash(ChannelError::Unavailable("gone".to_owned()));
    let ended = channel.run(context(&CancellationToken::new())).await;
    assert!(matches!(ended, Err(ChannelError::Unavailable(_))));
    channel.wait_for_runs(2).await.unwrap();
}

#[tokio::test]
async fn recording_channel_fails_as_scripted() {
    let channel = RecordingChannel::new("test").without_abilities();
    assert!(channel.drafts().is_none() && channel.typing().is_none());
    channel.fail_next(SendFault::Refuse(ChannelError::Unavailable("x".to_owned())));
    channel.fail_next(SendFault::TakeThenFail(ChannelError::Ambiguous(
        "x".to_owned(),
    )));
    assert!(channel.send(&part("a")).await.is_err());
    assert!(channel.send(&part("b")).await.is_err());
    let sent = channel.send(&part("c")).await.unwrap();
    assert_eq!(sent.message_id, Some("2".into()));
    assert_eq!(
        (channel.texts(), channel.attempts()),
        (vec!["b".to_owned(), "c".to_owned()], 3)
    );
    assert_eq!(channel.wait_for_parts(2).await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_websocket_client_speaks_json() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("ws://{}/?client_id=a", listener.local_addr().unwrap());
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let heard = socket.next().await.unwrap().unwrap();
        socket.send(heard).await.unwrap();
        socket
            .send("{\"event\":\"turn_end\"}".into())
            .await
            .unwrap();
        socket.close(None).await.unwrap();
    };
    let client = async {
        let mut client = WebSocketClient::connect(&url).await.unwrap();
        client
            .send(&json!({"event": "delta", "text": "你"}))
            .await
            .unwrap();
        let events = client.receive_until("turn_end").await.unwrap();
        assert_eq!(
            events,
            [
                json!({"event": "delta", "text": "你"}),
                json!({"event": "turn_end"})
            ]
        );
        assert_eq!(
            client.receive().await.unwrap_err().to_string(),
            "websocket: the peer closed"
        );
    };
    tokio::join!(server, client);
}
