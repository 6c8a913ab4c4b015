//! The app, its bot and the tenant of the fake.

/// The app's id.
pub const APP_ID: &str = "cli_a1b2c3TESTapp";
/// The app's secret.
pub const APP_SECRET: &str = "TESTsecretOfTheFeishuFake0123456";
/// The bot's `open_id`.
pub const BOT_OPEN_ID: &str = "ou_b07b07b07b07b07b07b07b07b07b07b0";
/// The bot's name.
pub const BOT_NAME: &str = "nanobot";
/// The tenant's key.
pub const TENANT_KEY: &str = "7e57000000000000";
/// Prefix of every tenant access token.
pub const TOKEN_PREFIX: &str = "t-TESTtoken";
