//! The account of the fake.

/// User name of the only account.
pub const USER: &str = "bot@bot.test";
/// Its initial password.
pub const PASSWORD: &str = "Secret-of-the-fake 1";
