//! The script of a day: who writes what, and what is broken at that time.

use nanobot_chat_fakes::{ChatFake, Fault, Place};

/// A failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlannedFault {
    /// A failure of the platform with this name.
    Of(&'static str, Fault),
    ModelSlow,
    ModelBroken,
    /// The gateway is killed in the middle of everything, and started again.
    Killed,
}

impl PlannedFault {
    /// `true` if the gateway is killed at its end.
    pub(super) fn kills(self) -> bool {
        matches!(self, Self::Of(_, Fault::Revoked) | Self::Killed)
    }

    /// `true` if the answers in a chat may have to wait for its end.
    pub(super) fn is_about(self, place: Place) -> bool {
        match self {
            Self::Of(platform, _) => platform == place.platform,
            Self::ModelSlow | Self::ModelBroken => false,
            Self::Killed => true,
        }
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
/// Maximum number of troubles at a time.
const TROUBLES: usize = 4;
/// The hours after which the gateway is killed.
const KILLS: [usize; 2] = [1, 4];

/// Makes the day of a seed: every trouble occurs, several at a time.
pub(super) fn day(seed: u64, platforms: &[Box<dyn ChatFake>]) -> Vec<Hour> {
    let mut random = Random(seed.max(1));
    let places: Vec<Place> = platforms
        .iter()
        .flat_map(|platform| platform.places())
        .collect();
    let tracks = tracks(&mut random, platforms);
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
            .map(|_| random.one_of(&places))
            .collect::<Vec<_>>()
    };
    // First everyone writes once.
    let mut hours = vec![hour(Vec::new(), places.clone())];
    let length = tracks.iter().map(Vec::len).max().unwrap_or_default();
    for index in 0..length {
        let troubles = tracks
            .iter()
            .filter_map(|track| track.get(index).copied())
            .collect();
        hours.push(hour(troubles, somewhere()));
        if KILLS.contains(&index) {
            hours.push(hour(vec![PlannedFault::Killed], somewhere()));
        }
    }
    hours.push(hour(Vec::new(), somewhere()));
    hours
}

/// Returns the troubles that follow one another. Those of one platform are in one track, so that
/// several platforms are in trouble at a time, and none has two troubles.
fn tracks(random: &mut Random, platforms: &[Box<dyn ChatFake>]) -> Vec<Vec<PlannedFault>> {
    let mut tracks = vec![Vec::new(); TROUBLES];
    let of_platforms = platforms.iter().map(|platform| {
        let name = platform.name();
        let faults = platform.faults().into_iter();
        faults.map(|fault| PlannedFault::Of(name, fault)).collect()
    });
    let of_model = vec![PlannedFault::ModelSlow, PlannedFault::ModelBroken];
    let mut lists: Vec<Vec<PlannedFault>> = of_platforms.chain([of_model]).collect();
    lists.sort_by_key(|list| std::cmp::Reverse(list.len()));
    for list in lists {
        let shortest = tracks.iter_mut().min_by_key(|track| track.len());
        shortest.unwrap().extend(list);
    }
    tracks.iter_mut().for_each(|track| random.shuffle(track));
    tracks
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
