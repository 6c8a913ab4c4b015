//! The control socket of a gateway, and the commands that use it.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_bus::{
    Bus as _, BusError, EntryState, EventFeed, Ledger as _, LedgerFilter, MemoryBus, Queue,
    SettleOutcome, Subscription,
};
use nanobot_control::{
    ChannelState, Channels, ControlClient, ControlConversation, ControlError, ControlParts,
    ControlServer, ConversationEvent, GatewayInfo, SessionEditError, SessionEditor, ShutdownTokens,
    SubagentName, SubagentNames, TerminalEvent, UndoneExchange, UnseenReplies,
};
use nanobot_types::{
    Event, InboundMessage, OutboundKey, OutboundKind, OutboundMessage, SessionKey, StreamId,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

struct Gateway {
    home: tempfile::TempDir,
    bus: MemoryBus,
    inbound: Subscription<InboundMessage>,
    events: EventFeed,
    tasks: TaskTracker,
    closing: CancellationToken,
    end: CancellationToken,
    ending: ShutdownTokens,
}

/// A fake with fixed results for each session key.
#[derive(Debug)]
struct Scissors;

#[async_trait]
impl SessionEditor for Scissors {
    async fn fork(
        &self,
        session: &str,
        at: Option<u64>,
        to: Option<&str>,
    ) -> Result<String, SessionEditError> {
        match to {
            Some("taken") => Err(SessionEditError::Taken {
                session: "taken".to_owned(),
            }),
            _ => Ok(format!("{session} at {at:?} to {to:?}")),
        }
    }

    async fn rewind(&self, session: &str, to: u64) -> Result<(), SessionEditError> {
        match session {
            "busy" => Err(SessionEditError::AtWork {
                session: session.to_owned(),
            }),
            _ if to > 5 => Err(SessionEditError::OutOfReach {
                session: session.to_owned(),
                position: to,
                first: 0,
                last: 5,
            }),
            _ => Ok(()),
        }
    }

    async fn rename(&self, session: &str, name: Option<&str>) -> Result<(), SessionEditError> {
        match name {
            Some("bad") => Err(SessionEditError::Name {
                why: "no".to_owned(),
            }),
            _ => self.rewind(session, 0).await,
        }
    }

    async fn delete(&self, session: &str) -> Result<(), SessionEditError> {
        self.rewind(session, 0).await
    }

    async fn restore(&self, session: &str) -> Result<(), SessionEditError> {
        Err(SessionEditError::NotDeleted {
            session: session.to_owned(),
        })
    }

    async fn undo(&self, session: &str) -> Result<UndoneExchange, SessionEditError> {
        self.rewind(session, 0).await?;
        Ok(UndoneExchange {
            asked: session.to_owned(),
            effects: vec!["message".to_owned()],
        })
    }

    async fn redo(&self, session: &str) -> Result<(), SessionEditError> {
        self.rewind(session, 0).await
    }
}

/// Two channels, one of which is degraded.
#[derive(Debug)]
struct TwoChannels;

impl Channels for TwoChannels {
    fn states(&self) -> Vec<ChannelState> {
        let since = chrono::DateTime::parse_from_rfc3339("2026-01-02T03:04:05Z").unwrap();
        let state = |name: &str, state: &str, why: Option<&str>, since| ChannelState {
            name: name.into(),
            state: state.to_owned(),
            why: why.map(str::to_owned),
            since,
        };
        vec![
            state("mail", "degraded", Some("no route"), Some(since)),
            state("telegram", "running", None, None),
        ]
    }
}

/// One subagent of the session `cli:a`.
#[derive(Debug)]
struct OneSubagent;

impl SubagentNames for OneSubagent {
    fn of_session(&self, session: &SessionKey) -> Vec<SubagentName> {
        let one = SubagentName {
            id: "0f".to_owned(),
            label: "数 zahl".to_owned(),
        };
        (session.as_str() == "cli:a")
            .then_some(one)
            .into_iter()
            .collect()
    }
}

/// A folder with a short path, for the sockets that these tests create and connect to directly.
fn short_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/tmp")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Keeps no replies.
#[derive(Debug)]
struct Forgetful;

#[async_trait]
impl UnseenReplies for Forgetful {
    async fn keep(&self, _: &OutboundMessage) -> bool {
        false
    }
}

fn about() -> GatewayInfo {
    GatewayInfo {
        version: "1".to_owned(),
        pid: 42,
        model: "a model".to_owned(),
        workspace: PathBuf::from("/w"),
        started_at: None,
    }
}

impl Gateway {
    async fn start() -> Self {
        let home = short_folder();
        let (bus, events) = (MemoryBus::new(), EventFeed::new());
        let inbound = bus.inbound().await.unwrap();
        let (closing, end) = (CancellationToken::new(), CancellationToken::new());
        let ending = ShutdownTokens {
            stop: CancellationToken::new(),
            restart: CancellationToken::new(),
        };
        let parts = ControlParts {
            bus: Arc::new(bus.clone()),
            ledger: Arc::new(bus.clone()),
            channels: Arc::new(TwoChannels),
            session_editor: Arc::new(Scissors),
            subagents: Arc::new(OneSubagent),
            events: events.clone(),
            ending: ending.clone(),
            about: about(),
            unseen: Arc::new(Forgetful),
            media: home.path().join("media"),
        };
        let server = ControlServer::bind(&home.path().join("gateway.sock"))
            .await
            .unwrap();
        let tasks = TaskTracker::new();
        tasks.spawn(
            server
                .prepare(parts, closing.clone())
                .await
                .unwrap()
                .run(end.clone()),
        );
        Self {
            home,
            bus,
            inbound,
            events,
            tasks,
            closing,
            end,
            ending,
        }
    }

    fn socket(&self) -> PathBuf {
        self.home.path().join("gateway.sock")
    }

    async fn client(&self) -> ControlClient {
        ControlClient::reach(&self.socket()).await.unwrap()
    }

    /// Receives and settles the next message.
    async fn heard(&mut self) -> InboundMessage {
        let delivery = self.inbound.next().await.unwrap();
        delivery.settle(SettleOutcome::Ack).await.unwrap();
        delivery.message
    }

    async fn stop(self) {
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        assert!(
            !self.socket().exists(),
            "the socket file is removed with its gateway"
        );
    }
}

fn reply(
    terminal_message: &InboundMessage,
    position: u32,
    kind: OutboundKind,
    text: &str,
) -> OutboundMessage {
    let key = OutboundKey {
        turn: terminal_message.journal_id().unwrap().as_str().into(),
        position,
    };
    OutboundMessage::in_reply_to(terminal_message, key, kind, text.to_owned())
}

fn shown(event: TerminalEvent, is_answer: bool) -> ConversationEvent {
    ConversationEvent::Event {
        event,
        is_answer,
        key: None,
    }
}

/// Waits for the next update, without its key.
async fn next(conversation: &mut ControlConversation) -> ConversationEvent {
    match conversation.next().await.unwrap() {
        ConversationEvent::Event {
            event, is_answer, ..
        } => shown(event, is_answer),
        ConversationEvent::TurnFinished => ConversationEvent::TurnFinished,
    }
}

fn whole(text: &str) -> TerminalEvent {
    TerminalEvent::Reply {
        text: text.to_owned(),
        streamed: false,
        ok: true,
        job: None,
    }
}

async fn say(client: &ControlClient, session: &str, text: &str) -> ControlConversation {
    let mut conversation = client.converse(session).await.unwrap();
    conversation.send(text).await.unwrap();
    conversation
}

#[tokio::test]
async fn conversation_receives_only_events_of_its_session() {
    let mut gateway = Gateway::start().await;
    let client = gateway.client().await;
    assert_eq!(client.about(), &about());
    let mut here = say(&client, "cli:direct", "hello").await;
    let terminal_message = gateway.heard().await;
    assert_eq!(
        (
            terminal_message.content.as_str(),
            terminal_message.session_key().as_str()
        ),
        ("hello", "cli:direct")
    );
    let mut there = say(&client, "telegram:7", "and you?").await;
    let said_there = gateway.heard().await;
    assert_eq!(
        (
            said_there.channel.as_str(),
            said_there.session_key().as_str()
        ),
        ("cli", "telegram:7")
    );

    let stream = || StreamId::from("s");
    gateway.bus.offer(reply(
        &terminal_message,
        0,
        OutboundKind::Delta { stream: stream() },
        "Hel",
    ));
    gateway.bus.offer(reply(
        &terminal_message,
        0,
        OutboundKind::StreamEnd {
            stream: stream(),
            resuming: true,
        },
        "",
    ));
    gateway
        .bus
        .offer(reply(&terminal_message, 0, OutboundKind::ToolHint, "exec"));
    gateway
        .bus
        .publish_outbound(reply(
            &terminal_message,
            3,
            OutboundKind::Final,
            "by the tool",
        ))
        .await
        .unwrap();
    gateway
        .bus
        .publish_outbound(reply(&said_there, 0, OutboundKind::Notice, "no"))
        .await
        .unwrap();
    gateway
        .bus
        .publish_outbound(reply(&terminal_message, 0, OutboundKind::Final, "Hello."))
        .await
        .unwrap();
    for expected in [
        shown(TerminalEvent::Delta("Hel".to_owned()), false),
        shown(TerminalEvent::StreamEnd { resuming: true }, false),
        shown(TerminalEvent::ToolHint("exec".to_owned()), false),
        shown(whole("by the tool"), false),
        shown(whole("Hello."), true),
    ] {
        assert_eq!(next(&mut here).await, expected);
    }
    let refusal = TerminalEvent::Reply {
        text: "no".to_owned(),
        streamed: false,
        ok: false,
        job: None,
    };
    assert_eq!(next(&mut there).await, shown(refusal, true));
    gateway.events.send(Event::TurnFinished {
        session: said_there.session_key(),
        trace: "t".into(),
    });
    assert_eq!(there.next().await.unwrap(), ConversationEvent::TurnFinished);

    gateway.closing.cancel();
    here.send("one more").await.unwrap();
    let closed = TerminalEvent::Reply {
        text: "the bus is closed".to_owned(),
        streamed: false,
        ok: false,
        job: None,
    };
    assert_eq!(next(&mut here).await, shown(closed, true));
    gateway.stop().await;
    assert!(matches!(here.next().await, Err(ControlError::Broken(_))));
}

#[tokio::test]
async fn disconnect_before_the_reply_stops_the_turn() {
    let mut gateway = Gateway::start().await;
    let client = gateway.client().await;
    let conversation = say(&client, "cli:direct", "think").await;
    let terminal_message = gateway.heard().await;
    drop(conversation);
    assert_eq!(gateway.heard().await.content, "/stop");
    gateway
        .bus
        .publish_outbound(reply(&terminal_message, 0, OutboundKind::Final, "too late"))
        .await
        .unwrap();
    let entry = loop {
        let entry = gateway
            .bus
            .list(Queue::Outbound, LedgerFilter::All, 1)
            .await
            .unwrap()
            .remove(0);
        if !entry.state.is_open() {
            break entry;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(entry.state, EntryState::Expired);

    // If the reply has arrived, no stop is sent.
    let mut conversation = say(&client, "cli:direct", "quick").await;
    let terminal_message = gateway.heard().await;
    gateway
        .bus
        .publish_outbound(reply(&terminal_message, 0, OutboundKind::Final, "done"))
        .await
        .unwrap();
    assert_eq!(next(&mut conversation).await, shown(whole("done"), true));
    drop(conversation);
    let _conversation = say(&client, "cli:direct", "next").await;
    assert_eq!(gateway.heard().await.content, "next");
    gateway.stop().await;
}

#[tokio::test]
async fn channel_test_is_sent_through_the_gateway() {
    let gateway = Gateway::start().await;
    let client = gateway.client().await;
    assert_eq!(client.channels().await.unwrap(), TwoChannels.states());
    let unknown = client
        .test_channel(&"slack".into(), &"7".into(), "hi".to_owned())
        .await;
    assert!(matches!(unknown, Err(BusError::Unknown { id }) if id == "slack"));
    let mut queue = gateway.bus.outbound(&"telegram".into()).await.unwrap();
    for (outcome, state) in [
        (SettleOutcome::Ack, EntryState::Sent),
        (
            SettleOutcome::Fail("no such chat".to_owned()),
            EntryState::Failed,
        ),
    ] {
        let send = async {
            let delivery = queue.next().await.unwrap();
            assert_eq!(
                (
                    delivery.message.chat_id.as_str(),
                    delivery.message.content.as_str()
                ),
                ("7", "hi")
            );
            delivery.settle(outcome).await.unwrap();
        };
        let (telegram, chat) = ("telegram".into(), "7".into());
        let test = client.test_channel(&telegram, &chat, "hi".to_owned());
        let (entry, ()) = tokio::join!(test, send);
        assert_eq!(entry.unwrap().state, state);
    }
    // The client has read why, so it is no lost reply.
    let entries = gateway.bus.list(Queue::Outbound, LedgerFilter::All, 10);
    let states: Vec<_> = entries
        .await
        .unwrap()
        .iter()
        .map(|entry| entry.state)
        .collect();
    assert_eq!(states, [EntryState::Expired, EntryState::Sent]);
    gateway.stop().await;
}

#[tokio::test]
async fn end_request_stops_or_restarts() {
    let gateway = Gateway::start().await;
    let client = gateway.client().await;
    client.end(true).await.unwrap();
    assert_eq!(
        (
            gateway.ending.restart.is_cancelled(),
            gateway.ending.stop.is_cancelled()
        ),
        (true, false)
    );
    client.end(false).await.unwrap();
    assert!(gateway.ending.stop.is_cancelled());
}

#[tokio::test]
async fn client_lists_and_changes_the_ledger_of_the_gateway() {
    let mut gateway = Gateway::start().await;
    let client = gateway.client().await;
    for text in ["one", "two"] {
        gateway
            .bus
            .publish_inbound(InboundMessage::text("telegram", "u", "7", text))
            .await
            .unwrap();
    }
    let failing = gateway.inbound.next().await.unwrap();
    failing
        .settle(SettleOutcome::Fail("no luck".to_owned()))
        .await
        .unwrap();
    for filter in [
        LedgerFilter::All,
        LedgerFilter::Failed,
        LedgerFilter::Open,
        LedgerFilter::Uncertain,
    ] {
        let expected = gateway.bus.list(Queue::Inbound, filter, 10).await.unwrap();
        assert_eq!(
            client.list(Queue::Inbound, filter, 10).await.unwrap(),
            expected,
            "{filter:?}"
        );
    }
    let failed = client
        .list(Queue::Inbound, LedgerFilter::Failed, 10)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(client.show(&failed.id).await.unwrap(), failed);
    client.retry(&failed.id).await.unwrap();
    let conflict = client.retry(&failed.id).await.unwrap_err();
    assert!(
        matches!(conflict, BusError::Conflict { id, state: EntryState::Pending } if id == failed.id)
    );
    client.discard(&failed.id).await.unwrap();
    assert_eq!(
        gateway.bus.show(&failed.id).await.unwrap().state,
        EntryState::Dropped
    );
    assert!(matches!(client.show("99").await, Err(BusError::Unknown { id }) if id == "99"));
    gateway.stop().await;
    assert!(matches!(
        client.show("1").await,
        Err(BusError::Store { .. })
    ));
}

#[tokio::test]
async fn socket_is_private_and_only_a_stale_one_is_replaced() {
    let gateway = Gateway::start().await;
    let socket = gateway.socket();
    assert_eq!(
        std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        matches!(
            ControlServer::bind(&socket).await,
            Err(ControlError::Bind { .. })
        ),
        "the socket is in use"
    );
    gateway.client().await;
    gateway.stop().await;

    let home = short_folder();
    let stale = home.path().join("gateway.sock");
    drop(UnixListener::bind(&stale).unwrap());
    assert!(matches!(
        ControlClient::reach(&stale).await,
        Err(ControlError::Unreachable { .. })
    ));
    drop(ControlServer::bind(&stale).await.unwrap());
    assert!(!stale.exists());
    std::fs::write(&stale, "mine").unwrap();
    assert!(matches!(
        ControlServer::bind(&stale).await,
        Err(ControlError::Bind { .. })
    ));
    assert_eq!(std::fs::read_to_string(&stale).unwrap(), "mine");
}

/// The address of a socket is shorter than the longest path.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn socket_works_below_a_long_path() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("a".repeat(200));
    std::fs::create_dir(&folder).unwrap();
    let socket = folder.join("gateway.sock");
    let server = ControlServer::bind(&socket).await.unwrap();
    assert!(socket.exists());
    assert!(
        matches!(
            ControlServer::bind(&socket).await,
            Err(ControlError::Bind { .. })
        ),
        "the socket is in use"
    );
    drop(server);
    assert!(!socket.exists());
    assert!(matches!(
        ControlClient::reach(&socket).await,
        Err(ControlError::Unreachable { .. })
    ));
}

#[tokio::test]
async fn invalid_request_is_refused_and_closes_the_connection() {
    let gateway = Gateway::start().await;
    for bad in [
        b"{\"request\":\"format_disk\"}\n".to_vec(),
        b"hello\n".to_vec(),
        vec![b'x'; 2 << 20],
    ] {
        let mut stream = UnixStream::connect(gateway.socket()).await.unwrap();
        // The gateway disconnects before a line that is too long ends.
        drop(stream.write_all(&bad).await);
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer).await);
        if bad.len() < 100 {
            assert!(
                answer.starts_with(r#"{"answer":"refused","why":"#),
                "{answer}"
            );
        }
    }
    gateway.client().await;
    gateway.stop().await;
}

#[tokio::test]
async fn fork_and_rewind_return_the_error_of_the_gateway() {
    let gateway = Gateway::start().await;
    let client = gateway.client().await;
    assert_eq!(
        client.fork("cli:a", Some(3), Some("cli:b")).await.unwrap(),
        "cli:a at Some(3) to Some(\"cli:b\")"
    );
    assert_eq!(
        client.fork("cli:a", None, None).await.unwrap(),
        "cli:a at None to None"
    );
    let taken = client.fork("cli:a", None, Some("taken")).await;
    assert_eq!(
        taken,
        Err(SessionEditError::Taken {
            session: "taken".to_owned()
        })
    );
    client.rewind("cli:a", 5).await.unwrap();
    let far = SessionEditError::OutOfReach {
        session: "cli:a".to_owned(),
        position: 6,
        first: 0,
        last: 5,
    };
    assert_eq!(client.rewind("cli:a", 6).await, Err(far));
    assert_eq!(
        client.rewind("busy", 1).await,
        Err(SessionEditError::AtWork {
            session: "busy".to_owned()
        })
    );
    gateway.stop().await;
    assert!(matches!(
        client.rewind("cli:a", 1).await,
        Err(SessionEditError::Failed { .. })
    ));
}

#[tokio::test]
async fn session_changes_return_the_answer_of_the_gateway() {
    let gateway = Gateway::start().await;
    let client = gateway.client().await;
    let busy = || SessionEditError::AtWork {
        session: "busy".to_owned(),
    };
    client.rename("cli:a", Some("Trip")).await.unwrap();
    client.rename("cli:a", None).await.unwrap();
    let why = "no".to_owned();
    assert_eq!(
        client.rename("cli:a", Some("bad")).await,
        Err(SessionEditError::Name { why })
    );
    client.delete("cli:a").await.unwrap();
    assert_eq!(client.delete("busy").await, Err(busy()));
    let session = "cli:a".to_owned();
    assert_eq!(
        client.restore("cli:a").await,
        Err(SessionEditError::NotDeleted { session })
    );
    let undone = UndoneExchange {
        asked: "cli:a".to_owned(),
        effects: vec!["message".to_owned()],
    };
    assert_eq!(client.undo("cli:a").await, Ok(undone));
    assert_eq!(client.undo("busy").await, Err(busy()));
    client.redo("cli:a").await.unwrap();
    assert_eq!(client.redo("busy").await, Err(busy()));
    gateway.stop().await;
}

/// Programs of the same user that connect and send nothing, or never end their line.
#[tokio::test]
async fn silent_clients_do_not_block_commands() {
    let gateway = Gateway::start().await;
    let mut silent = Vec::new();
    for number in 0..100 {
        let mut stream = UnixStream::connect(gateway.socket()).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"{\"request\":\"ping\"").await.unwrap();
        }
        silent.push(stream);
    }
    // Every active client is served while the silent ones keep their connections.
    for _ in 0..3 {
        ControlClient::reach(&gateway.socket()).await.unwrap();
    }
    // The oldest connection was evicted first.
    assert_eq!(silent[1].read(&mut [0; 16]).await.unwrap(), 0);
    gateway.stop().await;
}

/// Lines of maximum length, with as many values as fit.
#[test]
fn client_lines_are_read_in_bounded_memory() {
    let units = ["[],", "{},", "0,", "{\"\":0},", "[[[[", "{\"a\":"];
    let lines = units.map(|unit| {
        format!(
            "{{\"request\":\"ping\",\"odd\":[{}",
            unit.repeat((1 << 20) / unit.len() - 100)
        )
    });
    nanobot_testkit::check_bounded("client_lines_are_read_in_bounded_memory", lines, |line| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let gateway = Gateway::start().await;
            let mut clients = Vec::new();
            for _ in 0..30 {
                let mut stream = UnixStream::connect(gateway.socket()).await.unwrap();
                stream.write_all(line.as_bytes()).await.unwrap();
                clients.push(stream);
            }
            for stream in &mut clients {
                // The line is refused, or the connection is closed: then writing fails as well.
                drop(stream.write_all(b"0]}\n").await);
                drop(stream.read(&mut [0; 1024]).await);
            }
            ControlClient::reach(&gateway.socket()).await.unwrap();
            gateway.stop().await;
        });
    })
    .unwrap();
}

#[tokio::test]
async fn watching_conversation_receives_events_without_sending() {
    let mut gateway = Gateway::start().await;
    let client = gateway.client().await;
    let mut watching = client.watch("notes").await.unwrap();
    let mut elsewhere = client.watch("cli:elsewhere").await.unwrap();
    let mut asking = say(&client, "cli:notes", "hello").await;
    let asked = gateway.heard().await;
    let answer = reply(&asked, 0, OutboundKind::Final, "Hello.");
    gateway.bus.publish_outbound(answer.clone()).await.unwrap();
    let expected = ConversationEvent::Event {
        event: whole("Hello."),
        is_answer: true,
        key: Some(answer.key.clone()),
    };
    let said = ConversationEvent::Event {
        event: TerminalEvent::said("hello", 0),
        is_answer: false,
        key: Some(answer.key),
    };
    assert_eq!(watching.next().await.unwrap(), said);
    assert_eq!(watching.next().await.unwrap(), expected);
    // A message is not shown to its sender, and not to a client that does not watch.
    assert_eq!(asking.next().await.unwrap(), expected);
    watching.send("and then?").await.unwrap();
    gateway.heard().await;
    gateway
        .bus
        .publish_outbound(reply(&asked, 1, OutboundKind::Final, "Later."))
        .await
        .unwrap();
    for terminal in [&mut asking, &mut watching] {
        let ConversationEvent::Event { event, .. } = terminal.next().await.unwrap() else {
            panic!("no event");
        };
        assert_eq!(event, whole("Later."));
    }

    // The turn of a client that leaves goes on for a client that watches, and leaving stops nothing.
    drop(asking);
    drop(watching);
    elsewhere.send("and here?").await.unwrap();
    assert_eq!(gateway.heard().await.content, "and here?");
    drop(elsewhere);
    assert_eq!(gateway.heard().await.content, "/stop");
    gateway.stop().await;
}

#[tokio::test]
async fn subagents_of_a_session_are_listed() {
    let gateway = Gateway::start().await;
    let client = gateway.client().await;
    let found = client.subagents("a").await.unwrap();
    assert_eq!(found.first().map(|found| found.id.as_str()), Some("0f"));
    assert_eq!(client.subagents("telegram:7").await.unwrap(), []);
    gateway.stop().await;
}

#[tokio::test]
async fn unusable_session_names_are_not_watched() {
    let gateway = Gateway::start().await;
    let client = gateway.client().await;
    for name in [String::new(), "x".repeat(1025), "\0".repeat(1025)] {
        let refused = client.watch(name).await.unwrap_err();
        assert!(matches!(refused, ControlError::Refused { .. }), "{refused}");
    }
    let refused = client.watch("x".repeat(2 << 20)).await.unwrap_err();
    assert!(matches!(refused, ControlError::TooLong { .. }), "{refused}");
    for name in [
        "../../etc/passwd",
        "\u{1b}[2J",
        "unknown",
        &"界".repeat(341),
    ] {
        client.watch(name).await.unwrap();
    }
    assert!(gateway.home.path().read_dir().unwrap().count() <= 2);
    gateway.stop().await;
}

#[tokio::test]
async fn prepared_message_can_be_sent_again() {
    let mut gateway = Gateway::start().await;
    let client = gateway.client().await;
    let mut first = client.watch("notes").await.unwrap();
    let message = first.prepare("once", Vec::new());
    first.send_prepared(&message).await.unwrap();
    let mut second = client.watch("notes").await.unwrap();
    second.send_prepared(&message).await.unwrap();
    second.send("afterwards").await.unwrap();
    let heard = gateway.heard().await;
    assert_eq!(
        (heard.content.as_str(), heard.turn_id()),
        ("once", message.turn().clone())
    );
    assert_eq!(gateway.heard().await.content, "afterwards");
    gateway.stop().await;
}

/// Many clients that only watch leave a seat for commands.
#[tokio::test]
async fn watching_clients_do_not_block_commands() {
    let gateway = Gateway::start().await;
    let client = gateway.client().await;
    let mut watching = Vec::new();
    for _ in 0..40 {
        watching.push(client.watch("notes").await.unwrap());
    }
    assert_eq!(client.channels().await.unwrap().len(), 2);
    drop(watching);
    gateway.stop().await;
}

/// Plays a gateway that does not know the request: it refuses and disconnects.
#[tokio::test]
async fn older_gateway_is_joined_without_watching() {
    let home = short_folder();
    let socket = home.path().join("gateway.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let tasks = TaskTracker::new();
    let gateway = tasks.spawn(async move {
        let pong = serde_json::json!({
            "answer": "pong", "version": "1", "pid": 42, "model": "m", "workspace": "/w",
        });
        let refused = serde_json::json!({"answer": "refused", "why": "unknown variant `watch`"});
        for answer in [pong, refused] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1024];
            assert!(stream.read(&mut asked).await.unwrap() > 0);
            stream
                .write_all(format!("{answer}\n").as_bytes())
                .await
                .unwrap();
        }
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = vec![0; 1024];
        let length = stream.read(&mut asked).await.unwrap();
        asked.truncate(length);
        let asked: serde_json::Value = serde_json::from_slice(&asked).unwrap();
        assert_eq!(
            (&asked["request"], &asked["text"]),
            (&"say".into(), &"hi".into())
        );
    });
    let client = ControlClient::reach(&socket).await.unwrap();
    let mut conversation = client.watch("notes").await.unwrap();
    conversation.send("hi").await.unwrap();
    gateway.await.unwrap();
}
