//! Events in the life of an assistant.

use proptest::prelude::*;

/// Number of sessions.
pub(super) const SESSIONS: usize = 2;
/// Number of external tools that may be connected.
pub(super) const EXTERNAL: usize = 4;

/// Properties of an assistant that hold for a whole history.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    /// Token budget of a request, so small that conversations have to be shortened; 0 is no limit.
    pub(super) budget: usize,
    /// `true` if images are not remembered from one request to the next.
    pub(super) forgets_images: bool,
    /// `true` if the first model accepts no images.
    pub(super) blind: bool,
    /// `true` if prompts of other sessions evict a session's own from memory.
    pub(super) crowded: bool,
}

pub(super) fn habits() -> impl Strategy<Value = Habits> {
    let rarely = || prop::bool::weighted(0.15);
    (
        prop_oneof![5 => Just(0_usize), 1 => 1500..3000_usize],
        rarely(),
        rarely(),
        rarely(),
    )
        .prop_map(|(budget, forgets_images, blind, crowded)| Habits {
            budget,
            forgets_images,
            blind,
            crowded,
        })
}

/// One event of a history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A message arrives from a user, a cron job or the heartbeat.
    Turn {
        session: usize,
        from: From,
        rounds: Vec<Round>,
        thinks: bool,
        picture: bool,
        fault: ModelFault,
    },
    /// The process is killed after `appends` records of a turn; another one continues it.
    Crash {
        session: usize,
        rounds: Vec<Round>,
        appends: usize,
    },
    /// A turn is stopped while the model is thinking.
    Stop { session: usize },
    /// Memory is written outside a turn.
    Memory,
    /// Today's note grows.
    DayNote,
    /// A skill is added.
    Skill,
    /// A workspace file that is part of the prompt is edited.
    Bootstrap,
    /// External tools are connected in this order; those that are connected already are kept.
    Connect(Vec<usize>),
    /// An external tool is disconnected.
    Disconnect(usize),
    /// A server of external tools disconnects and reconnects before the next message.
    Reconnect(Vec<usize>),
    /// The process ends and another one starts.
    Restart { what: Restart, external: Vec<usize> },
    /// No message arrives for hours.
    Silence,
    /// Pictures that were sent are deleted or restored.
    Pictures { there: bool },
    /// `/new`.
    New { session: usize },
    /// The conversation except its last messages is summarized.
    Consolidate { session: usize },
    /// The last messages are undone.
    Rewind { session: usize, messages: u64 },
}

/// Origin of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    Person,
    Cron,
    Heartbeat,
}

/// Failure of the first model call of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum ModelFault {
    None,
    /// The first model refuses, and the other one is called.
    Refused,
    /// The first model's key is rejected, which starts a cooldown.
    Locked,
    /// All models refuse.
    Down,
    /// The conversation is too long for both models.
    TooLong,
    /// The answer is cut off in the middle.
    BrokenOff,
}

/// Difference between a process and its successor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Restart {
    Same,
    /// The assistant is renamed.
    Renamed,
    /// The stored notes of prompts are lost.
    Lost,
}

/// An answer of the model with tool calls, and a message that arrives before their results.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) calls: Vec<Call>,
    pub(super) steering: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    List,
    /// Writes memory.
    Remember,
    /// Has a long result.
    Read,
    Malformed,
    Unknown,
    External(usize),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => Just(Call::List),
        2 => Just(Call::Remember),
        2 => Just(Call::Read),
        1 => Just(Call::Malformed),
        1 => Just(Call::Unknown),
        1 => (0..EXTERNAL).prop_map(Call::External),
    ]
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let round = (
        prop::collection::vec(call(), 1..3),
        prop::option::of("[a-z你好🐈 ]{1,12}"),
    )
        .prop_map(|(calls, steering)| Round { calls, steering });
    prop::collection::vec(round, 0..3)
}

fn external() -> impl Strategy<Value = Vec<usize>> {
    Just((0..EXTERNAL).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_flat_map(|order| {
            (0..=EXTERNAL).prop_map(move |count| order.iter().copied().take(count).collect())
        })
}

fn fault() -> impl Strategy<Value = ModelFault> {
    prop_oneof![
        20 => Just(ModelFault::None),
        2 => Just(ModelFault::Refused),
        1 => Just(ModelFault::Locked),
        1 => Just(ModelFault::Down),
        1 => Just(ModelFault::TooLong),
        1 => Just(ModelFault::BrokenOff),
    ]
}

fn turn() -> impl Strategy<Value = Step> {
    let from =
        prop_oneof![6 => Just(From::Person), 1 => Just(From::Cron), 1 => Just(From::Heartbeat)];
    let picture = prop::bool::weighted(0.2);
    (0..SESSIONS, from, rounds(), any::<bool>(), picture, fault()).prop_map(
        |(session, from, rounds, thinks, picture, fault)| Step::Turn {
            session,
            from,
            rounds,
            thinks,
            picture,
            fault,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let session = || 0..SESSIONS;
    let restart = prop_oneof![4 => Just(Restart::Same), 2 => Just(Restart::Renamed), 1 => Just(Restart::Lost)];
    prop_oneof![
        20 => turn(),
        2 => (session(), rounds(), 0..7_usize)
            .prop_map(|(session, rounds, appends)| Step::Crash { session, rounds, appends }),
        1 => session().prop_map(|session| Step::Stop { session }),
        2 => Just(Step::Memory),
        1 => Just(Step::DayNote),
        1 => Just(Step::Skill),
        1 => Just(Step::Bootstrap),
        2 => external().prop_map(Step::Connect),
        1 => (0..EXTERNAL).prop_map(Step::Disconnect),
        1 => external().prop_map(Step::Reconnect),
        4 => (restart, external()).prop_map(|(what, external)| Step::Restart { what, external }),
        1 => Just(Step::Silence),
        1 => any::<bool>().prop_map(|there| Step::Pictures { there }),
        1 => session().prop_map(|session| Step::New { session }),
        1 => session().prop_map(|session| Step::Consolidate { session }),
        1 => (session(), 1..6_u64).prop_map(|(session, messages)| Step::Rewind { session, messages }),
    ]
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..16)
}
