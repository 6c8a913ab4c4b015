//! The bot of the fake.

/// The bot's id.
pub const BOT_ID: &str = "aibTESTbotOfTheWeComFake0001";
/// The secret of the bot's long connection.
pub const SECRET: &str = "TESTsecretOfTheWeComFakeForItsLongConnection";
/// The bot's name, as messages of groups mention it.
pub const BOT_NAME: &str = "nanobot";
