//! Checks the channels: whether they can be made, who may use them, and what that exposes.

use nanobot_channels::AccessRules;
use nanobot_tools::ToolsConfig;

use super::{FindingLevel, FindingList};
use crate::Runtime;
use crate::assembly::channels::{BuiltChannels, ConfiguredChannel, build_all, configured_channels};
use crate::error::chain;

pub(super) async fn examine(list: &mut FindingList, runtime: &Runtime) {
    let config = runtime.config();
    let channels: BuiltChannels = match configured_channels(runtime) {
        Ok(configured) => build_all(configured),
        Err(error) => return list.fault("channels.usable", chain(&error), error.remedy()),
    };
    if channels.is_empty() {
        let remedy = "Run `nanobot channels login telegram`, or set channels.<name>.enabled, to be reached in a chat.";
        list.note(
            FindingLevel::Note,
            "channels.usable",
            "no channel is enabled",
            Some(remedy.to_owned()),
        );
    }
    let tools: ToolsConfig = config.section("tools").unwrap_or_default();
    for (name, (configured, built)) in channels {
        let key = format!("channels.{name}");
        let built = match built {
            Ok(built) => built,
            Err(why) => {
                let remedy =
                    format!("Correct {key} in the configuration, or set its enabled to false.");
                list.fault(
                    "channels.usable",
                    format!("{key} cannot run: {why}"),
                    remedy,
                );
                continue;
            }
        };
        list.good("channels.usable", format!("{key} is set up"));
        short_token(list, &key, &configured);
        if let Ok(settings) = configured.settings() {
            for notice in settings.access.notices(&name) {
                let severity = if notice.is_warning() {
                    FindingLevel::Warning
                } else {
                    FindingLevel::Note
                };
                let what = format!("{} {}", notice.key, notice.what);
                list.note(
                    severity,
                    "channels.access",
                    what,
                    Some(format!("{}.", notice.remedy)),
                );
            }
            let is_open_by_default = runtime.extensions().is_open_by_default(&configured.kind);
            exposure(list, &key, &settings.access, &tools, is_open_by_default);
            #[cfg(feature = "email")]
            if configured.kind == "email"
                && let Ok(config) =
                    nanobot_channel_email::EmailConfig::from_section(&configured.raw.section)
            {
                super::mail::examine(list, &key, &config, &settings.delivery);
            }
        }
        if !list.doctor.probe {
            continue;
        }
        let Some(probe) = built.managed.channel().probe() else {
            continue;
        };
        match probe.probe().await {
            Ok(who) => list.good("channels.answers", format!("{key} is {who}")),
            Err(error) => {
                let remedy = format!("`nanobot channels login {name}` puts in new credentials.");
                list.fault(
                    "channels.answers",
                    format!("{key}: {}", chain(&error)),
                    remedy,
                );
            }
        }
    }
}

/// Warns about a token that can be guessed. Only the WebSocket channel checks tokens of clients.
fn short_token(list: &mut FindingList, key: &str, configured: &ConfiguredChannel) {
    const LENGTH: usize = 16;
    let token = configured
        .raw
        .section
        .get("token")
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default();
    if configured.kind == "websocket" && !token.is_empty() && token.chars().count() < LENGTH {
        let what = format!("{key}.token is shorter than {LENGTH} characters: it can be guessed");
        let remedy = format!(
            "Put a long random text into {key}.token, for example from `openssl rand -hex 32`."
        );
        list.warn("channels.token", what, remedy);
    }
}

/// Reports what everyone with access to an open channel can do on this computer. If the platform is
/// open by default (`is_open_by_default`), its token decides who may connect.
fn exposure(
    list: &mut FindingList,
    key: &str,
    rules: &AccessRules,
    tools: &ToolsConfig,
    is_open_by_default: bool,
) {
    if !rules.allow_from.contains("*") {
        return;
    }
    let reach = match tools.restrict_to_workspace {
        true => "have commands run and read and write files of the workspace",
        false => "have commands run and read and write every file of this user",
    };
    if is_open_by_default {
        let what = format!("{key}.allowFrom has \"*\": anyone who can connect may {reach}");
        let remedy =
            format!("Keep {key}.token to yourself, and its host to this computer where you can.");
        list.note(FindingLevel::Note, "channels.exposed", what, Some(remedy));
        return;
    }
    list.warn(
        "channels.exposed",
        format!("{key}.allowFrom has \"*\": everyone who finds the bot may {reach}"),
        format!("List ids in {key}.allowFrom, or remove the key so that people are paired."),
    );
}
