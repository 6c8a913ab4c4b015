//! The bot of the fake.

/// The bot's App ID.
pub const APP_ID: &str = "102000001";
/// The bot's App Secret.
pub const CLIENT_SECRET: &str = "TESTsecretOfTheQqFake0123456789";
/// The bot's id as a user.
pub const BOT_ID: &str = "7000000000000000001";
/// The bot's name.
pub const BOT_NAME: &str = "nanobot";
/// Prefix of every access token.
pub const TOKEN_PREFIX: &str = "TESTtoken-";
/// Intent of messages in groups and in private chats, and of the news about both.
pub const GROUP_AND_C2C: u64 = 1 << 25;
/// Intent of direct messages of guilds.
pub const DIRECT_MESSAGE: u64 = 1 << 12;
/// Intent of mentions in channels of guilds.
pub const PUBLIC_GUILD_MESSAGES: u64 = 1 << 30;
