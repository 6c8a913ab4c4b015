//! `/budget`: shows what was spent and the caps; raises them, or agrees to use the rest.
//!
//! Decision: everyone who may talk to the assistant may look. Raising a cap spends the owner's
//! money, so it follows the rule of `/pairing`: in private chats only, for senders that a list or
//! an approval names; the terminal belongs to the owner.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{AgentError, Command, CommandContext, CommandReply, CommandTiming};
use nanobot_control::TERMINAL_CHANNEL;
use nanobot_provider::SpendLedger as _;
use nanobot_state::{BudgetRaise, SqliteSpendLedger, StateError};
use nanobot_types::{ChatKind, CommandInfo, InboundMessage};

use crate::assembly::access::HomeAccess;

const USAGE: &str = "/budget shows it; /budget raise 5 adds 5 USD for today and this conversation; \
                     /budget raise 100000 tokens does so for models without a known price; \
                     /budget continue uses the rest without another question.";

const FAILED: &str = "That went wrong; the log says why.";

/// Largest raise in US dollars and in tokens, so that a slip of the finger has bounds.
const MAX_USD: f64 = 1_000.0;
const MAX_TOKENS: u64 = 1_000_000_000;

/// Description of the command.
pub(crate) const INFO: CommandInfo = CommandInfo {
    name: "budget",
    aliases: &[],
    about: "Show what was spent and the caps, or raise them",
    usage: "[raise AMOUNT [tokens]|continue]",
};

/// The `/budget` command.
#[derive(Clone, Debug)]
pub(crate) struct BudgetCommand {
    pub(crate) ledger: Arc<SqliteSpendLedger>,
    pub(crate) access: HomeAccess,
}

#[async_trait]
impl Command for BudgetCommand {
    fn info(&self) -> CommandInfo {
        INFO
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let words: Vec<&str> = context.arguments.split_whitespace().collect();
        if words.is_empty() {
            let report = self.ledger.report(context.session).await;
            return Ok(report.unwrap_or_default().into());
        }
        if let Some(refusal) = self.refusal(context.message).await {
            return Ok(refusal);
        }
        let session = context.session;
        let (done, answer) = match words.as_slice() {
            ["continue"] => (self.ledger.agree(session).await, "Going on".to_owned()),
            ["raise", amount @ ..] => match parse(amount) {
                Some(raise) => (self.ledger.raise(session, raise).await, shown(raise)),
                None => return Ok(CommandReply::refusal(USAGE)),
            },
            _ => return Ok(CommandReply::refusal(USAGE)),
        };
        Ok(match done {
            Ok(()) => {
                let report = self.ledger.report(session).await.unwrap_or_default();
                format!("{answer}. Send your message again, or /retry.\n\n{report}").into()
            }
            Err(error) => failed(&error),
        })
    }
}

impl BudgetCommand {
    /// Returns the answer to a sender who may not change the budget.
    async fn refusal(&self, message: &InboundMessage) -> Option<CommandReply> {
        if message.channel.as_str() == TERMINAL_CHANNEL {
            return None;
        }
        if message.chat != Some(ChatKind::Direct) {
            let text = "The budget is changed in private chats only. Send it to me there.";
            return Some(CommandReply::refusal(text));
        }
        let (access, message) = (self.access.clone(), message.clone());
        let may = move || access.may_approve(&message.channel, &message.sender_id);
        match tokio::task::spawn_blocking(may).await {
            Ok(Ok(true)) => None,
            Ok(Ok(false)) => Some(CommandReply::refusal(
                "Only people who were approved, or are named in allowFrom, may do that.",
            )),
            Ok(Err(error)) => {
                tracing::error!(error = &error as &dyn std::error::Error, "/budget failed");
                Some(CommandReply::refusal(FAILED))
            }
            Err(_panicked) => Some(CommandReply::refusal(FAILED)),
        }
    }
}

/// Logs the error and answers without it: it contains a path, which does not belong in a chat.
fn failed(error: &StateError) -> CommandReply {
    tracing::error!(error = error as &dyn std::error::Error, "/budget failed");
    CommandReply::refusal(FAILED)
}

/// Parses an amount: `5`, `$2.50`, `5 USD`, `100000 tokens`. `None` for anything else, and for an
/// amount that is not positive or too large.
fn parse(words: &[&str]) -> Option<BudgetRaise> {
    let (amount, unit) = match words {
        [amount] => (*amount, ""),
        [amount, unit] => (*amount, *unit),
        _ => return None,
    };
    match unit.to_ascii_lowercase().as_str() {
        "token" | "tokens" => {
            let tokens = amount.replace(['_', ','], "").parse().ok()?;
            (1..=MAX_TOKENS)
                .contains(&tokens)
                .then_some(BudgetRaise::Tokens(tokens))
        }
        "" | "usd" | "$" => {
            let dollars: f64 = amount.trim_start_matches('$').parse().ok()?;
            (dollars > 0.0 && dollars <= MAX_USD).then_some(BudgetRaise::Usd(dollars))
        }
        _ => None,
    }
}

fn shown(raise: BudgetRaise) -> String {
    match raise {
        BudgetRaise::Usd(dollars) => format!("Raised by {dollars:.2} USD"),
        BudgetRaise::Tokens(tokens) => format!("Raised by {tokens} tokens"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed_within_bounds() {
        let parsed = |line: &str| parse(&line.split_whitespace().collect::<Vec<_>>());
        for (line, dollars) in [("5", 5.0), ("$2.50", 2.5), ("0.01 USD", 0.01)] {
            assert_eq!(parsed(line), Some(BudgetRaise::Usd(dollars)), "{line}");
        }
        let tokens = Some(BudgetRaise::Tokens(100_000));
        for line in ["100000 tokens", "100_000 tokens", "100,000 Tokens"] {
            assert_eq!(parsed(line), tokens, "{line}");
        }
        for line in [
            "",
            "0",
            "-5",
            "NaN",
            "inf",
            "1e9",
            "five",
            "0 tokens",
            "2.5 tokens",
            "5 EUR",
            "5 USD now",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}
