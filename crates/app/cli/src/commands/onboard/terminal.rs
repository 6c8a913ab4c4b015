//! The setup conversation on a terminal, with this home and the network.

use std::io;

use nanobot_runtime::{
    ChannelLogin, OfferedProvider, ProviderAnswer, ProviderTrial, Runtime, configured_provider,
    has_open_profile, jobs, offered_servers, offered_vendors, platforms, try_provider,
};

use super::conversation::SetupHost;
use super::dialogue::{Dialogue, Interruption};
use crate::ask;
use crate::commands::channels;
use crate::output::{self, sanitize};
use crate::terminal::fitted_to_terminal;

/// Asks on the terminal.
#[derive(Debug)]
pub(super) struct TerminalDialogue;

impl Dialogue for TerminalDialogue {
    async fn ask(&mut self, question: &str) -> io::Result<Option<String>> {
        ask::line(&fitted(question)).await
    }

    async fn ask_secret(&mut self, question: &str) -> io::Result<Option<String>> {
        ask::secret(&fitted(question)).await
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        output::line(&fitted(text))
    }
}

/// Sanitizes every line, because names of models and errors come from servers, and wraps it.
fn fitted(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(sanitize).collect();
    fitted_to_terminal(&lines.join("\n"))
}

/// This home and the network.
#[derive(Debug)]
pub(super) struct HomeHost<'a> {
    pub(super) runtime: &'a Runtime,
    /// The login of the chosen platform.
    pub(super) login: Option<ChannelLogin>,
    /// Set if no service is to be offered.
    pub(super) setup_only: bool,
}

impl SetupHost for HomeHost<'_> {
    async fn providers(&self) -> Result<Vec<OfferedProvider>, Interruption> {
        let servers = offered_servers(self.runtime).await;
        let mut offers = servers.map_err(|error| Interruption::Failed(error.into()))?;
        offers.extend(offered_vendors(self.runtime));
        Ok(offers)
    }

    fn configured(&self) -> Option<(String, Option<String>)> {
        let (name, model) = configured_provider(self.runtime)?;
        let is_set = |key: &str| self.runtime.config().is_set(key).unwrap_or(false);
        let is_configured =
            is_set(&format!("providers.{name}")) || is_set("agents.defaults.provider");
        is_configured.then_some((name, model))
    }

    async fn try_provider(&self, answer: &ProviderAnswer) -> Result<ProviderTrial, String> {
        try_provider(self.runtime, answer).await
    }

    fn has_open_profile(&self) -> bool {
        has_open_profile(self.runtime.config()).unwrap_or(false)
    }

    fn host_zone(&self) -> String {
        jobs::host_zone().name().to_owned()
    }

    fn zone(&self, name: &str) -> Option<String> {
        let zone = jobs::zone_named(name).ok()?;
        Some(zone.name().to_owned())
    }

    fn platforms(&self) -> Vec<String> {
        platforms(self.runtime)
    }

    async fn log_in(&mut self, platform: &str) -> Result<(), String> {
        let login = ChannelLogin::new(self.runtime, platform, None);
        let mut login = login.map_err(|error| error.to_string())?;
        let checked = channels::ask_and_check(platform, &mut login, true).await;
        // The remedy names an option that this command does not have.
        checked.map_err(|failure| match failure.explanation() {
            Some((what, _)) => what.to_owned(),
            None => failure.to_string(),
        })?;
        self.login = Some(login);
        Ok(())
    }

    fn has_services(&self) -> bool {
        !self.setup_only && matches!(std::env::consts::OS, "linux" | "macos")
    }
}
