//! The script of a day: who writes what, and what is broken at that time.

/// A chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A direct chat of Ann or Bob.
    Telegram(i64),
    /// A group, where the bot is mentioned.
    TelegramGroup,
    Discord,
    /// A channel of the server, where the bot is mentioned.
    DiscordRoom,
    Slack,
    /// A channel, where the bot is mentioned; every mention begins a thread.
    SlackRoom,
    /// One of two clients.
    WebSocket(usize),
    Mail(&'static str),
}

impl Place {
    pub(super) const ALL: [Self; 11] = [
        Self::Telegram(7),
        Self::Telegram(8),
        Self::TelegramGroup,
        Self::Discord,
        Self::DiscordRoom,
        Self::Slack,
        Self::SlackRoom,
        Self::WebSocket(0),
        Self::WebSocket(1),
        Self::Mail("ann@people.test"),
        Self::Mail("bob@people.test"),
    ];

    fn platform(self) -> Platform {
        match self {
            Self::Telegram(_) | Self::TelegramGroup => Platform::Telegram,
            Self::Discord | Self::DiscordRoom => Platform::Discord,
            Self::Slack | Self::SlackRoom => Platform::Slack,
            Self::WebSocket(_) => Platform::WebSocket,
            Self::Mail(_) => Platform::Mail,
        }
    }

    /// `true` if all messages of the chat belong to one conversation.
    pub(super) fn is_one_conversation(self) -> bool {
        self != Self::SlackRoom
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Platform {
    Telegram,
    Discord,
    Slack,
    WebSocket,
    Mail,
}

/// A failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlannedFault {
    TelegramDown,
    TelegramSilent,
    TelegramBusy,
    TelegramBroken,
    TelegramCutsSends,
    /// Updates arrive twice and out of order.
    TelegramRepeats,
    /// The token is unknown for a while; afterwards the gateway is killed and started again.
    TelegramRevoked,
    DiscordDown,
    DiscordSilent,
    DiscordBusy,
    DiscordCutsSends,
    DiscordReconnects,
    SlackDown,
    SlackSilent,
    SlackBusy,
    SlackCutsSends,
    SlackRepeats,
    WebSocketCuts,
    MailDown,
    MailSilent,
    MailCutsSends,
    ModelSlow,
    ModelBroken,
    /// The gateway is killed in the middle of everything, and started again.
    Killed,
}

impl PlannedFault {
    /// `true` if the gateway is killed at its end.
    pub(super) fn kills(self) -> bool {
        matches!(self, Self::TelegramRevoked | Self::Killed)
    }

    /// `true` if the answers in a chat may have to wait for its end.
    pub(super) fn is_about(self, place: Place) -> bool {
        let platform = match self {
            Self::TelegramDown
            | Self::TelegramSilent
            | Self::TelegramBusy
            | Self::TelegramBroken
            | Self::TelegramCutsSends
            | Self::TelegramRepeats
            | Self::TelegramRevoked => Platform::Telegram,
            Self::DiscordDown
            | Self::DiscordSilent
            | Self::DiscordBusy
            | Self::DiscordCutsSends
            | Self::DiscordReconnects => Platform::Discord,
            Self::SlackDown
            | Self::SlackSilent
            | Self::SlackBusy
            | Self::SlackCutsSends
            | Self::SlackRepeats => Platform::Slack,
            Self::WebSocketCuts => Platform::WebSocket,
            Self::MailDown | Self::MailSilent | Self::MailCutsSends => Platform::Mail,
            Self::ModelSlow | Self::ModelBroken => return false,
            Self::Killed => return true,
        };
        place.platform() == platform
    }
}

/// A part of the day.
#[derive(Debug)]
pub(super) struct Hour {
    pub(super) troubles: Vec<PlannedFault>,
    pub(super) messages: Vec<Message>,
}

/// A message that a person writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) place: Place,
    pub(super) number: u32,
}

/// Number of messages in an hour.
const MESSAGES: usize = 9;

/// Makes the day of a seed: every trouble occurs, two or three at a time.
pub(super) fn day(seed: u64) -> Vec<Hour> {
    use PlannedFault as T;
    let mut random = Random(seed.max(1));
    // Each list has the troubles of one platform one after the other, so that several platforms are
    // in trouble at a time and none has two troubles.
    let mut telegram = [
        T::TelegramDown,
        T::TelegramSilent,
        T::TelegramBusy,
        T::TelegramBroken,
        T::TelegramCutsSends,
        T::TelegramRepeats,
        T::TelegramRevoked,
    ];
    let mut discord = [
        T::DiscordDown,
        T::DiscordSilent,
        T::DiscordBusy,
        T::DiscordCutsSends,
        T::DiscordReconnects,
    ];
    let mut slack = [
        T::SlackDown,
        T::SlackSilent,
        T::SlackBusy,
        T::SlackCutsSends,
        T::SlackRepeats,
    ];
    let mut others = [
        T::WebSocketCuts,
        T::MailDown,
        T::ModelSlow,
        T::MailSilent,
        T::ModelBroken,
        T::MailCutsSends,
    ];
    random.shuffle(&mut telegram);
    random.shuffle(&mut discord);
    random.shuffle(&mut slack);
    random.shuffle(&mut others);
    let mut number = 0;
    let mut hour = |troubles: Vec<PlannedFault>, places: Vec<Place>| {
        let message = |place| {
            number += 1;
            Message { place, number }
        };
        Hour {
            troubles,
            messages: places.into_iter().map(message).collect(),
        }
    };
    let mut somewhere = || {
        (0..MESSAGES)
            .map(|_| random.one_of(&Place::ALL))
            .collect::<Vec<_>>()
    };
    // First everyone writes once.
    let mut hours = vec![hour(Vec::new(), Place::ALL.to_vec())];
    for index in 0..telegram.len() {
        let lists: [&[PlannedFault]; 4] = [&telegram, &discord, &slack, &others];
        let troubles = lists
            .iter()
            .filter_map(|list| list.get(index).copied())
            .collect();
        hours.push(hour(troubles, somewhere()));
        if index == 1 || index == 4 {
            hours.push(hour(vec![PlannedFault::Killed], somewhere()));
        }
    }
    hours.push(hour(Vec::new(), somewhere()));
    hours
}

/// Pseudo-random numbers (xorshift64*); the same seed gives the same numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next()).unwrap() % bound
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}
