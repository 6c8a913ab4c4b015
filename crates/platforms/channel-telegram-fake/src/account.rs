//! The bot of the fake.

/// The token the fake accepts.
pub const TOKEN: &str = "123456789:TEST-token_of_the_fake";
/// The bot's user id.
pub const BOT_ID: i64 = 123_456_789;
/// The bot's user name, without `@`.
pub const BOT_USERNAME: &str = "nanobot_test_bot";
