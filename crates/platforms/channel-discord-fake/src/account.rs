//! The bot and the server (guild) of the fake.

/// The token the fake accepts.
pub const TOKEN: &str = "NTU1NTU1NTU1NTU1NTU1NTU1.GhIjKl.TEST-signature_of_the_fake";
/// The bot's user id.
pub const BOT_ID: u64 = 555_555_555_555_555_555;
/// The bot's user name.
pub const BOT_NAME: &str = "nanobot_test";
/// The application's id.
pub const APPLICATION_ID: u64 = 555_555_555_555_555_000;
/// The id of the one server (guild).
pub const GUILD: u64 = 700_000_000_000_000_000;
/// The ids of its text channels.
pub const CHANNELS: [u64; 2] = [700_000_000_000_000_001, 700_000_000_000_000_002];
