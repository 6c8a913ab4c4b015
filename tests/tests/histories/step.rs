//! What may happen to an assistant.

use proptest::prelude::*;

/// How many sessions there are.
pub(super) const SESSIONS: usize = 2;
/// External tools that may be connected.
pub(super) const EXTERNAL: usize = 4;

/// How an assistant is, for the whole of a history.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    /// Tokens of a request, so few that conversations have to be shortened; 0 is no limit.
    pub(super) budget: usize,
    /// Images are not remembered from one request to the next.
    pub(super) forgets_images: bool,
    /// The first model takes no images.
    pub(super) blind: bool,
    /// Prompts of other sessions push a session's own out of memory.
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

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Somebody, or a clock, says something.
    Turn {
        session: usize,
        from: From,
        rounds: Vec<Round>,
        thinks: bool,
        picture: bool,
        trouble: Trouble,
    },
    /// The process is killed after so many records of a turn; another one goes on with it.
    Crash {
        session: usize,
        rounds: Vec<Round>,
        appends: usize,
    },
    /// A turn is stopped while the model thinks.
    Stop { session: usize },
    /// Memory is written by something else than a turn.
    Memory,
    /// The note of today grows.
    DayNote,
    /// A skill is added.
    Skill,
    /// A file of the workspace is edited that shapes the assistant.
    Bootstrap,
    /// External tools come, in this order; those that are there stay.
    Connect(Vec<usize>),
    /// An external tool goes.
    Disconnect(usize),
    /// A server of external tools goes and comes back before anybody says something.
    Reconnect(Vec<usize>),
    /// The process ends and another one begins.
    Restart { what: Restart, external: Vec<usize> },
    /// Nobody says anything for hours.
    Silence,
    /// Pictures that were sent are deleted, or come back.
    Pictures { there: bool },
    /// `/new`.
    New { session: usize },
    /// The conversation but its last messages is summarised.
    Consolidate { session: usize },
    /// The last messages are undone.
    Rewind { session: usize, messages: u64 },
}

/// Who makes a turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    Person,
    Cron,
    Heartbeat,
}

/// What goes wrong with the first model call of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    None,
    /// The first model refuses; the other one is asked.
    Refused,
    /// The first model's key is refused; it is left alone for a while.
    Locked,
    /// All models refuse.
    Down,
    /// The conversation is too long for both models.
    TooLong,
    /// The answer breaks off in the middle.
    BrokenOff,
}

/// What another process is like.
#[derive(Clone, Copy, Debug)]
pub(super) enum Restart {
    Same,
    /// The assistant has another name.
    Renamed,
    /// What was kept of prompts is gone.
    Lost,
}

/// One answer of the model that calls tools, and what is said until the results are in.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) calls: Vec<Call>,
    pub(super) meanwhile: Option<String>,
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
        .prop_map(|(calls, meanwhile)| Round { calls, meanwhile });
    prop::collection::vec(round, 0..3)
}

fn external() -> impl Strategy<Value = Vec<usize>> {
    Just((0..EXTERNAL).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_flat_map(|order| {
            (0..=EXTERNAL).prop_map(move |count| order.iter().copied().take(count).collect())
        })
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        20 => Just(Trouble::None),
        2 => Just(Trouble::Refused),
        1 => Just(Trouble::Locked),
        1 => Just(Trouble::Down),
        1 => Just(Trouble::TooLong),
        1 => Just(Trouble::BrokenOff),
    ]
}

fn turn() -> impl Strategy<Value = Step> {
    let from =
        prop_oneof![6 => Just(From::Person), 1 => Just(From::Cron), 1 => Just(From::Heartbeat)];
    let picture = prop::bool::weighted(0.2);
    (
        0..SESSIONS,
        from,
        rounds(),
        any::<bool>(),
        picture,
        trouble(),
    )
        .prop_map(
            |(session, from, rounds, thinks, picture, trouble)| Step::Turn {
                session,
                from,
                rounds,
                thinks,
                picture,
                trouble,
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
