//! Conversations at a terminal: one message, a prompt, or lines of a pipe.

mod edit;
mod input;
mod json;
mod live;
mod one_shot;
mod piped;
mod printer;
mod prompt;
mod render;
mod screen;
mod status;
mod view;

pub(crate) use input::MessageInput;
pub(crate) use json::print_failure;
pub(crate) use one_shot::ask_once;
pub(crate) use piped::answer_lines;
pub(crate) use printer::OutputFormat;
pub(crate) use prompt::converse;

use nanobot_runtime::types::TERMINAL_CHANNEL;
use nanobot_runtime::{ModelChoice, ModelSource, is_command};

use crate::failure::CommandFailure;
use crate::output;

/// `true` if a line ends the conversation at a prompt or in a pipe.
fn is_farewell(line: &str) -> bool {
    let word = line.trim();
    ["exit", "quit", "/exit", "/quit", ":q"]
        .iter()
        .any(|farewell| word.eq_ignore_ascii_case(farewell))
}

/// Returns the whole key of a session: a key without a channel belongs to the terminal.
fn full_key(session: &str) -> String {
    match session.contains(':') {
        true => session.to_owned(),
        false => format!("{TERMINAL_CHANNEL}:{session}"),
    }
}

/// Returns text whose lines are broken between words at the width of the terminal, for questions and
/// hints. Spaces at the end are kept.
pub(crate) fn fitted_to_terminal(text: &str) -> String {
    match output::screen_size() {
        Some((width, _)) if output::is_terminal() => fitted(text, usize::from(width)),
        _ => text.to_owned(),
    }
}

fn fitted(text: &str, columns: usize) -> String {
    let spaces = text.chars().rev().take_while(|letter| *letter == ' ');
    let end = " ".repeat(spaces.count());
    render::wrapped(text, columns) + &end
}

/// Tells the user which model answers; `None` if it is the configured one.
fn model_notice(model: &ModelChoice) -> Option<String> {
    match &model.source {
        ModelSource::Configured | ModelSource::Gateway | ModelSource::Nobody { .. } => None,
        ModelSource::Default { others } if others.is_empty() => None,
        ModelSource::Default { others } => Some(format!(
            "No model is named, and several providers are set up. {} is used before {}: the configuration comes \
             before the environment, and Anthropic, OpenAI and OpenRouter before the others. `nanobot onboard` \
             chooses another.",
            model.provider,
            others.join(", ")
        )),
        ModelSource::Listed => Some(format!(
            "No model is named; using {}, which {} lists. `nanobot config set agents.defaults.model NAME` names another.",
            model.model, model.provider
        )),
        ModelSource::Local { base } => Some(format!(
            "No model is configured; using {} at {base}.",
            model.model
        )),
        ModelSource::Demo { why } => Some(format!(
            "Demo model: {why}. It understands a handful of requests and runs real tools, but it is no language \
             model.\n`nanobot onboard` asks for a provider and its key (providers.<name>.apiKey); or start a \
             local model server (Ollama, LM Studio, vLLM, llama.cpp)."
        )),
    }
}

/// Returns the failure for an assistant that ended by itself.
fn ended() -> CommandFailure {
    CommandFailure::new("the assistant ended", "Start again with --logs to see why.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_not_commands() {
        for (line, expected) in [
            ("/stop", true),
            (" /Help ", true),
            ("/frobnicate", true),
            ("/etc/hosts", false),
            ("/a b", true),
            ("/stop now", true),
            ("a", false),
        ] {
            assert_eq!(is_command(line), expected, "{line:?}");
        }
    }

    #[test]
    fn questions_are_wrapped_and_keep_their_last_space() {
        assert_eq!(
            fitted("\nWhat shall I call you? ", 12),
            "\nWhat shall I\ncall you? "
        );
        assert_eq!(fitted("你好世界 [Y/n] ", 8), "你好世界\n[Y/n] ");
        assert_eq!(fitted("> ", 40), "> ");
    }

    #[test]
    fn farewells_match_whole_lines_only() {
        for (line, expected) in [
            ("exit", true),
            (" :Q ", true),
            ("/QUIT", true),
            ("exit now", false),
            ("", false),
        ] {
            assert_eq!(is_farewell(line), expected, "{line:?}");
        }
    }
}
