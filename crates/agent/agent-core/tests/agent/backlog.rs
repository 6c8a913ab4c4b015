//! Backlogs: summarised in bounded memory, in the background, and across restarts.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use nanobot_agent_core::{Agent, AgentLoop, BacklogReport, DirectRequest, LoopSettings, MissEvent};
use nanobot_bus::{Bus as _, MemoryBus, SettleOutcome, Subscription};
use nanobot_provider::ChatRequest;
use nanobot_session::{
    Entry, JsonlStore, ReadFrom, Seq, SessionError, SessionInfo, SessionPaths, SessionStore,
    SessionView,
};
use nanobot_testkit::{Gate, Reply, ScriptedProvider};
use nanobot_types::{InboundMessage, OutboundMessage, SessionKey};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::consolidation::{Home, SESSION, entry, is_summary, save, summing_up};

/// A store that remembers the longest read.
#[derive(Debug)]
struct Longest {
    inner: JsonlStore,
    records: AtomicUsize,
}

#[async_trait]
impl SessionStore for Longest {
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError> {
        self.inner.append(key, head, entries).await
    }

    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError> {
        let view = self.inner.read(key, from).await?;
        self.records.fetch_max(view.records.len(), Ordering::SeqCst);
        Ok(view)
    }

    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        self.inner.list().await
    }
}

/// Writes a session as the Python program leaves it: never summarised. Each message repeats a few
/// words `repeated` times.
fn write_session(folder: &std::path::Path, messages: usize, repeated: usize) -> u64 {
    std::fs::create_dir_all(folder).unwrap();
    let mut file =
        std::io::BufWriter::new(std::fs::File::create(folder.join("cli_direct.jsonl")).unwrap());
    let state = r#"{"_type":"metadata","key":"cli:direct","created_at":"2026-03-01T10:00:00.000000","updated_at":"2026-03-01T10:00:05.000000","metadata":{},"last_consolidated":0}"#;
    writeln!(file, "{state}").unwrap();
    for number in 0..messages {
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        let text = format!("{number} {}", "some words that were said ".repeat(repeated));
        writeln!(
            file,
            r#"{{"role":"{role}","content":"{text}","timestamp":"2026-03-01T10:00:00.000000"}}"#
        )
        .unwrap();
    }
    file.flush().unwrap();
    std::fs::metadata(folder.join("cli_direct.jsonl"))
        .unwrap()
        .len()
}

#[tokio::test]
async fn summarises_a_backlog_in_bounded_reads() {
    const MESSAGES: usize = 30_000;
    let mut home = Home::new(summing_up(|_| save(&entry("old times"))));
    home.settings.window = 60_000;
    home.settings.max_unasked_requests = u32::MAX;
    let folder = home.folder.path().join("sessions");
    let length = write_session(&folder, MESSAGES, 20);
    assert!(length > 16 * 1024 * 1024, "{length}");
    let store = Arc::new(Longest {
        inner: JsonlStore::new(SessionPaths::only(&folder)),
        records: AtomicUsize::new(0),
    });
    home.sessions = store.clone();
    let agent = home.agent();
    agent
        .process_direct(DirectRequest::new("hello"))
        .await
        .unwrap();
    agent.background_idle().await;
    let read = store.inner.bytes_read();
    // Once from the cursor, once to find the beginning, and then part by part.
    assert!(
        read < 12 * length,
        "{read} bytes were read of a file of {length}"
    );
    let longest = store.records.load(Ordering::SeqCst);
    assert!(
        longest < MESSAGES / 2,
        "{longest} records were read at once"
    );
    let asked = home
        .provider
        .requests()
        .into_iter()
        .find(|request| !is_summary(request))
        .unwrap();
    assert!(asked.last_user_text().contains("hello"));
    assert!(
        asked.transcript.messages().len() > 10,
        "the newest of the conversation is sent"
    );

    // All of it is summarised, in order and once.
    let view = home.view().await;
    assert!(view.cursor > Seq(20_000), "{}", view.cursor);
    assert_all_were_summarised(&home, view.cursor.0);
}

/// Returns the numbers of the messages in a request for a summary.
fn numbers(request: &ChatRequest) -> Vec<usize> {
    let number = |line: &str| {
        line.split_once("]")?
            .1
            .split_once(": ")?
            .1
            .split(' ')
            .next()?
            .parse()
            .ok()
    };
    let text = request.last_user_text();
    text.lines().filter_map(number).collect()
}

/// Asserts that the first `count` messages were given to the model for summaries, in order and once.
fn assert_all_were_summarised(home: &Home, count: u64) {
    let shown: Vec<usize> = home.summaries().iter().flat_map(numbers).collect();
    let is_in_order = shown.iter().copied().eq(0..shown.len());
    assert!(is_in_order, "{} messages in another order", shown.len());
    assert_eq!(u64::try_from(shown.len()), Ok(count));
}

/// Asserts that the first `count` messages were given to the model for summaries, each once.
fn assert_each_was_summarised_once(home: &Home, count: u64) {
    let mut shown: Vec<usize> = home.summaries().iter().flat_map(numbers).collect();
    shown.sort_unstable();
    let is_once = shown.iter().copied().eq(0..shown.len());
    assert!(is_once, "{} messages", shown.len());
    assert_eq!(u64::try_from(shown.len()), Ok(count));
}

/// Returns a home with a session of 3,000 messages that was never summarised, and which takes more
/// requests than may be made without consent.
pub(crate) fn waiting_backlog(provider: ScriptedProvider) -> Home {
    let mut home = Home::new(provider);
    let folder = home.folder.path().join("sessions");
    write_session(&folder, 3_000, 20);
    home.sessions = Arc::new(JsonlStore::new(SessionPaths::only(&folder)));
    home
}

/// Records the person's decision, and does the work that it starts.
async fn decide(home: &Home, agent: &Arc<Agent>, agrees: bool) -> BacklogReport {
    let report = agent.summarise_backlog(&SESSION.into(), agrees).await;
    agent.turn_published(&SESSION.into(), home.notices.clone());
    agent.background_idle().await;
    report.unwrap()
}

#[tokio::test]
async fn huge_backlog_waits_for_consent() {
    let home = waiting_backlog(summing_up(|_| save(&entry("old times"))));
    let agent = home.agent();
    home.send(&agent, "hello").await;
    assert_eq!(home.summaries().len(), 0);
    let view = home.view().await;
    let waiting = view.cursor.0;
    assert!((2_000..3_000).contains(&waiting), "{waiting}");
    let notices = home.notices();
    assert!(
        notices[0].contains(&format!("{waiting} older messages"))
            && notices[0].contains("/summarize"),
        "{notices:?}"
    );

    // It may not have been seen, so it is asked once more, and by a later process.
    home.send(&agent, "and now?").await;
    home.send(&agent, "and now?").await;
    assert_eq!(home.notices().len(), 2);
    let agent = home.agent();
    agent.resume_summaries().await;
    agent.background_idle().await;
    home.send(&agent, "still there?").await;
    assert_eq!(home.notices().len(), 4, "{:?}", home.notices());
    assert_eq!(home.summaries().len(), 0);
    let request = home.provider.requests().pop().unwrap();
    let messages = request.transcript.messages();
    assert!(
        messages
            .iter()
            .any(|message| message.text().starts_with("2999 ")),
        "the newest message is sent"
    );

    let report = agent.context_report(&SESSION.into()).await.unwrap();
    let said = format!("{waiting} of them are not summarised; /summarize does that.");
    assert!(report.to_string().contains(&said), "{report}");
    let status = agent.describe(&SESSION.into()).await;
    let said = format!("{waiting} older messages are not summarised; /summarize");
    assert!(status.contains(&said), "{status}");

    let report = decide(&home, &agent, true).await;
    assert_eq!(report, BacklogReport::Begun(waiting));
    assert_all_were_summarised(&home, waiting);
    let notices = home.notices();
    assert!(notices[4].contains("are summarised now"), "{notices:?}");
    let report = agent.context_report(&SESSION.into()).await.unwrap();
    assert_eq!(report.waiting, 0);
    assert_eq!(decide(&home, &agent, true).await, BacklogReport::Nothing);
}

/// Returns the number of requests that a question announces.
fn announced(question: &str) -> usize {
    let (_, rest) = question.split_once("takes about ").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// The limit of a request is reached by its tokens, and by the number of its messages.
#[tokio::test]
async fn question_announces_the_number_of_requests() {
    for (messages, repeated, window) in [(3_000, 20, 8_000), (40_000, 1, 200_000), (30_000, 20, 0)]
    {
        let mut home = Home::new(summing_up(|_| save(&entry("old times"))));
        home.settings.window = window;
        home.settings.memory_window = Some(50);
        let folder = home.folder.path().join("sessions");
        write_session(&folder, messages, repeated);
        home.sessions = Arc::new(JsonlStore::new(SessionPaths::only(&folder)));
        let agent = home.agent();
        home.send(&agent, "hello").await;
        let announced = announced(&home.notices()[0]);
        decide(&home, &agent, true).await;
        let made = home.summaries().len();
        assert!(
            announced.abs_diff(made) * 10 <= made,
            "{announced} announced, {made} made for {messages} messages"
        );
    }
}

#[tokio::test]
async fn new_and_compact_ask_before_many_requests() {
    for command in ["/new", "/compact"] {
        let home = waiting_backlog(summing_up(|_| save(&entry("old times"))));
        let agent = home.agent();
        let bus = Arc::new(MemoryBus::new());
        let mut out = bus.outbound(&"cli".into()).await.unwrap();
        let settings = LoopSettings::default();
        let agent_loop = AgentLoop::new(agent.clone(), bus.clone(), bus.clone(), settings);
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
        bus.publish_inbound(message("1", command)).await.unwrap();
        let answer = next_durable(&mut out).await;
        assert!(answer.contains("/summarize"), "{command}: {answer}");
        assert!(announced(&answer) > 8, "{command}: {answer}");
        agent.background_idle().await;
        assert_eq!(home.summaries().len(), 0, "{command}");

        // The answer has asked.
        let notices = home.notices().len();
        home.send(&agent, "hello").await;
        home.send(&home.agent(), "hello").await;
        assert_eq!(home.notices().len(), notices, "{:?}", home.notices());

        // The work begins without a further message.
        bus.publish_inbound(message("2", "/summarize"))
            .await
            .unwrap();
        let answer = next_durable(&mut out).await;
        assert!(answer.starts_with("Summarising "), "{command}: {answer}");
        let done = next_durable(&mut out).await;
        assert!(done.contains("are summarised now"), "{command}: {done}");
        assert!(home.file("HISTORY.md").contains("old times"));
        cancel.cancel();
        task.await.unwrap();
    }
}

/// Returns the text of the next message that a person gets.
async fn next_durable(out: &mut Subscription<OutboundMessage>) -> String {
    loop {
        let delivery = out.next().await.unwrap();
        delivery.settle(SettleOutcome::Ack).await.unwrap();
        if delivery.message.kind.is_durable() {
            return delivery.message.content.clone();
        }
    }
}

#[tokio::test]
async fn consent_right_after_the_first_reply_counts() {
    let home = waiting_backlog(summing_up(|_| save(&entry("old times"))));
    let agent = home.agent();
    let request = DirectRequest::new("hello").with_observer(home.notices.clone());
    agent.process_direct(request).await.unwrap();
    let report = agent.summarise_backlog(&SESSION.into(), true).await;
    assert!(
        matches!(report, Ok(BacklogReport::Begun(count)) if count > 2_000),
        "{report:?}"
    );
}

#[tokio::test]
async fn failing_model_keeps_a_backlog_and_asks_again() {
    let home = waiting_backlog(summing_up(|_| Reply::error(401, "no such key")));
    let agent = home.agent();
    home.send(&agent, "hello").await;
    let waiting = home.view().await.cursor.0;
    decide(&home, &agent, true).await;
    // The rejected key is not tried again without the forced tool choice.
    assert_eq!(home.summaries().len(), 1);
    home.send(&agent, "are you there?").await;
    agent.turn_published(&SESSION.into(), home.notices.clone());
    agent.background_idle().await;
    assert_eq!(home.summaries().len(), 1, "it pauses after a failure");

    tokio::time::pause();
    tokio::time::sleep(std::time::Duration::from_hours(1)).await;
    tokio::time::resume();
    agent.background_idle().await;
    assert_eq!(
        home.summaries().len(),
        2,
        "three attempts; the answered message ended the cooldown of the first one only"
    );
    assert_eq!(home.file("HISTORY.md"), "");
    let notices = home.notices();
    let last = notices.last().unwrap();
    for part in [
        "has stopped",
        "no such key",
        "/summarize",
        &format!("{waiting} older"),
    ] {
        assert!(last.contains(part), "{notices:?}");
    }
    assert!(
        !notices
            .iter()
            .any(|notice| notice.contains("are summarised now"))
    );

    // The question is stored, so it is not asked again.
    home.send(&agent, "hello").await;
    home.send(&home.agent(), "hello").await;
    assert_eq!(home.notices().len(), notices.len());
    let later = Home {
        provider: Arc::new(summing_up(|_| save(&entry("old times")))),
        ..home
    };
    assert_eq!(
        decide(&later, &later.agent(), true).await,
        BacklogReport::Begun(waiting)
    );
    // The new process does not know the size of the prompt yet, and may begin with the running
    // conversation.
    assert_each_was_summarised_once(&later, later.view().await.cursor.0);
}

/// A command blocks the conversation, and messages with consent may take hours.
#[tokio::test]
async fn compact_leaves_messages_with_consent_to_the_background() {
    let (gate, reached) = (Gate::new(), Arc::new(Notify::new()));
    let (held, reaches) = (gate.clone(), reached.clone());
    let home = waiting_backlog(summing_up(move |request| {
        let reply = save(&entry("old times"));
        match numbers(request).first() {
            Some(1..2_000) => {
                reaches.notify_one();
                reply.after(&held)
            }
            _ => reply,
        }
    }));
    let agent = home.agent();
    home.send(&agent, "hello").await;
    let waiting = home.view().await.cursor.0;
    assert!(waiting >= 2_000, "{waiting}");
    let consent = agent.summarise_backlog(&SESSION.into(), true).await;
    assert_eq!(consent.unwrap(), BacklogReport::Begun(waiting));

    // No task works on them yet, for example after a failure. The command does its own part.
    let report = agent.compact(&SESSION.into()).await.unwrap();
    let own = home.summaries().len();
    assert!(own <= 8, "{own} requests");
    assert!(report.messages > 0, "{report:?}");
    let shown = format!("0 of {waiting} older messages are summarised so far");
    assert!(report.to_string().contains(&shown), "{report}");

    // The background task has done one part and is busy with the next.
    agent.turn_published(&SESSION.into(), home.notices.clone());
    reached.notified().await;
    let report = agent.compact(&SESSION.into()).await.unwrap();
    assert!(report.busy, "{report:?}");
    let progress = report.background.unwrap();
    assert!(
        (1..waiting).contains(&progress.done) && progress.total == waiting,
        "{progress:?}"
    );
    gate.open();
    agent.background_idle().await;
    let notices = home.notices();
    let done = format!("{waiting} older messages are summarised now");
    assert!(notices.last().unwrap().starts_with(&done), "{notices:?}");
    assert_each_was_summarised_once(&home, home.view().await.cursor.0);
}

/// The running conversation outgrows the window while a backlog is summarised.
#[tokio::test]
async fn running_conversation_is_summarised_before_messages_with_consent() {
    let home = waiting_backlog(summing_up(|_| save(&entry("old times"))));
    let agent = home.agent();
    home.send(&agent, "hello").await;
    let waiting = home.view().await.cursor.0;
    let consent = agent.summarise_backlog(&SESSION.into(), true).await;
    assert_eq!(consent.unwrap(), BacklogReport::Begun(waiting));
    let text = "some words that are said ".repeat(800);
    let request = DirectRequest::new(text).with_observer(home.notices.clone());
    agent.process_direct(request).await.unwrap();
    agent.background_idle().await;
    let first = home.summaries().first().map(numbers).unwrap_or_default();
    let first = u64::try_from(*first.first().unwrap()).unwrap();
    assert!(first >= waiting, "{first} comes before {waiting}");
    let done = format!("{waiting} older messages are summarised now");
    let notices = home.notices();
    assert!(notices.last().unwrap().starts_with(&done), "{notices:?}");
}

#[tokio::test]
async fn stopped_backlog_continues_where_it_was() {
    let gate = Gate::new();
    let held = gate.clone();
    let home = waiting_backlog(summing_up(move |request| {
        let numbers = numbers(request);
        let first = numbers.first().copied().unwrap_or_default();
        let reply = save(&entry(&format!(
            "from {first} to {}",
            first + numbers.len()
        )));
        if first == 0 {
            reply
        } else {
            reply.after(&held)
        }
    }));
    let agent = home.agent();
    home.send(&agent, "hello").await;
    let waiting = home.view().await.cursor.0;
    agent
        .summarise_backlog(&SESSION.into(), true)
        .await
        .unwrap();
    agent.turn_published(&SESSION.into(), home.notices.clone());
    written(&home, "from 0 to").await;
    while home.summaries().len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // The second request is under way.
    let report = decide(&home, &agent, false);
    let (report, ()) = tokio::join!(report, async { gate.open() });
    assert!(
        matches!(report, BacklogReport::Stopped(left) if left < waiting),
        "{report:?}"
    );
    assert_eq!(home.summaries().len(), 2);

    decide(&home, &agent, true).await;
    let history = home.file("HISTORY.md");
    let mut expected = 0;
    for line in history.lines().filter(|line| line.contains("from ")) {
        let (_, range) = line.split_once("from ").unwrap();
        let (from, to) = range.split_once(" to ").unwrap();
        assert_eq!(from.parse(), Ok(expected), "{history}");
        expected = to.trim().parse().unwrap();
    }
    assert_eq!(expected, waiting, "{history}");
}

/// Returns a home with a long session that was never summarised. Its budget fits all of it, so the
/// model is never asked for a summary.
fn unsummarised(messages: usize, repeated: usize) -> Home {
    let mut home = Home::new(summing_up(|_| save(&entry("never asked for"))));
    home.settings.window = 100_000_000;
    home.settings.enabled = false;
    let folder = home.folder.path().join("sessions");
    let length = write_session(&folder, messages, repeated);
    assert!(
        length > 8 << 20,
        "{length} bytes are all read at the cursor"
    );
    home.sessions = Arc::new(JsonlStore::new(SessionPaths::only(&folder)));
    home
}

/// Says `text` and returns the resulting request.
async fn request_for(home: &Home, agent: &Agent, text: &str) -> ChatRequest {
    home.send(agent, text).await;
    home.provider.requests().pop().unwrap()
}

fn begins_with(request: &ChatRequest, before: &ChatRequest) -> bool {
    let (messages, earlier) = (request.transcript.messages(), before.transcript.messages());
    request.system == before.system
        && request.tools == before.tools
        && messages.starts_with(earlier)
}

#[tokio::test]
async fn partial_read_requests_extend_the_previous_one() {
    // Messages of half a kilobyte, and of 25 kilobytes; new messages have the same size.
    for (messages, repeated) in [(15_000, 20), (620, 1_000)] {
        let home = unsummarised(messages, repeated);
        let mut agent = home.agent();
        let mut before = request_for(&home, &agent, "question 0").await;
        assert!(
            (10..messages).contains(&before.transcript.messages().len()),
            "a part is sent"
        );
        for number in 1..5 {
            if number == 2 {
                agent = home.agent();
            }
            let request =
                request_for(&home, &agent, &"some words that are said ".repeat(repeated)).await;
            assert!(
                begins_with(&request, &before),
                "question {number} after {messages} messages"
            );
            before = request;
        }
        let report = agent.usage_report(&SESSION.into()).await;
        assert_eq!(
            (report.misses, report.last_miss),
            (0, None),
            "after {messages} messages"
        );
    }
}

/// Messages leave in parts of 1.5 MB.
#[tokio::test]
async fn messages_leaving_a_partial_read_explain_a_cache_miss() {
    let home = unsummarised(40, 16_000);
    let agent = home.agent();
    let mut before = request_for(&home, &agent, "question").await;
    let mut breaks = 0;
    for _ in 0..8 {
        let request = request_for(&home, &agent, &"some words that are said ".repeat(16_000)).await;
        breaks += u64::from(!begins_with(&request, &before));
        before = request;
        let report = agent.usage_report(&SESSION.into()).await;
        assert_eq!(report.misses, breaks);
        assert_eq!(
            report.last_miss.map(|miss| miss.event),
            (breaks > 0).then_some(MissEvent::Compaction)
        );
    }
    assert!(
        (1..=3).contains(&breaks),
        "{breaks} breaks while 3 MB were said"
    );
}

#[tokio::test]
async fn interrupted_summary_is_resumed_by_the_next_process() {
    let home = Home::new(ScriptedProvider::answering(|request| {
        if is_summary(request) {
            Reply::hang()
        } else {
            Reply::text("ok")
        }
    }));
    let agent = home.agent();
    for number in 0..24 {
        let text = format!("fact {number}: {}", "some words about it ".repeat(70));
        agent
            .process_direct(DirectRequest::new(text))
            .await
            .unwrap();
    }
    // The process ends at once.
    agent.shut_down(std::time::Duration::ZERO).await;
    assert_eq!(home.file("HISTORY.md"), "");

    let later = Home {
        provider: Arc::new(summing_up(|_| save(&entry("facts")))),
        ..home
    };
    let agent = later.agent();
    agent.resume_summaries().await;
    agent.background_idle().await;
    assert!(
        later.file("HISTORY.md").contains("facts"),
        "no message was added since"
    );
    assert!(later.view().await.cursor > Seq(0));
}

fn message(id: &str, text: &str) -> InboundMessage {
    InboundMessage {
        id: Some(id.into()),
        ..InboundMessage::text("cli", "user", "direct", text)
    }
}

/// Runs a loop over these messages until each is answered and `then` has finished.
async fn live(agent: Arc<Agent>, messages: &[InboundMessage], then: impl Future<Output = ()>) {
    let bus = Arc::new(MemoryBus::new());
    let mut out = bus.outbound(&"cli".into()).await.unwrap();
    let agent_loop = AgentLoop::new(
        agent,
        bus.clone(),
        bus.clone(),
        LoopSettings {
            grace: std::time::Duration::ZERO,
            ..LoopSettings::default()
        },
    );
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
    for message in messages {
        bus.publish_inbound(message.clone()).await.unwrap();
        loop {
            let delivery = out.next().await.unwrap();
            delivery.settle(SettleOutcome::Ack).await.unwrap();
            if delivery.message.kind.is_durable() {
                break;
            }
        }
    }
    then.await;
    cancel.cancel();
    task.await.unwrap();
}

/// Waits until the history contains `text`.
async fn written(home: &Home, text: &str) {
    let deadline = std::time::Duration::from_secs(60);
    let found = tokio::time::timeout(deadline, async {
        while !home.file("HISTORY.md").contains(text) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    found
        .await
        .unwrap_or_else(|_| panic!("the history has no {text:?}"));
}

#[tokio::test]
async fn abandoned_conversation_is_summarised_without_a_new_message() {
    for command in ["/new", "/reset", "/clear"] {
        let home = Home::new(summing_up(|request| {
            assert!(
                request
                    .last_user_text()
                    .contains("USER: I have a cat called Minka")
            );
            save(&entry("has a cat called Minka"))
        }));
        let messages = [
            message("1", "I have a cat called Minka"),
            message("2", command),
        ];
        live(home.agent(), &messages, written(&home, "Minka")).await;
        assert_eq!(home.summaries().len(), 1, "{command}");
    }
}

#[tokio::test]
async fn abandoned_conversation_is_summarised_after_a_kill() {
    let home = Home::new(ScriptedProvider::answering(|request| {
        if is_summary(request) {
            Reply::hang()
        } else {
            Reply::text("ok")
        }
    }));
    let messages = [
        message("1", "I have a cat called Minka"),
        message("2", "/new"),
    ];
    live(home.agent(), &messages, std::future::ready(())).await;
    assert_eq!(home.file("HISTORY.md"), "");

    // The next process starts without any message.
    let later = Home {
        provider: Arc::new(summing_up(|_| save(&entry("has a cat called Minka")))),
        ..home
    };
    live(later.agent(), &[], written(&later, "Minka")).await;
    let metadata = later
        .sessions
        .read(&SESSION.into(), ReadFrom::Cursor)
        .await
        .unwrap()
        .metadata;
    assert_eq!(metadata.get("_consolidation"), None);
}
