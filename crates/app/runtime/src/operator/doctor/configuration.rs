//! Checks the configuration file: whether it is readable, who else can read it, and which keys have
//! no effect.

use std::path::Path;

use nanobot_config::{Config, ConfigSeverity as Weight};

use super::{FindingLevel, FindingList, data_dir};
use crate::assembly::secrets;
use crate::assembly::without_effect::settings_without_effect;
use crate::error::chain;
use crate::{Runtime, RuntimeError};

/// Returns the configuration, or reports why there is none.
pub(super) fn load_or_report(
    list: &mut FindingList,
    loaded: Result<Runtime, RuntimeError>,
) -> Option<Runtime> {
    loaded
        .map_err(|error| {
            list.note(
                FindingLevel::Fault,
                "config.usable",
                chain(&error),
                error.remedy(),
            );
        })
        .ok()
}

pub(super) fn examine(list: &mut FindingList, config: &Config) {
    let file = &config.paths().config_file;
    if !config.has_file() {
        let remedy = "Run `nanobot onboard` to write one, or go on with the defaults.";
        list.note(
            FindingLevel::Note,
            "config.present",
            format!("{}: there is no configuration file", file.display()),
            Some(remedy.to_owned()),
        );
    } else {
        list.good("config.usable", format!("{} can be read", file.display()));
        check_private(list, "config.private", file, 0o600);
    }
    for finding in config.findings() {
        match finding.severity() {
            Weight::Warning => {
                let remedy =
                    "Correct or remove the key; `nanobot config show` lists those there are.";
                list.warn("config.keys", finding.to_string(), remedy);
            }
            Weight::Note => {
                list.note(FindingLevel::Note, "config.keys", finding.to_string(), None);
            }
        }
    }
    match settings_without_effect(config) {
        Ok(found) => {
            for what in found {
                list.warn(
                    "config.effect",
                    what,
                    "Correct the value, or remove the key.",
                );
            }
        }
        Err(error) => list.note(
            FindingLevel::Fault,
            "config.usable",
            chain(&error),
            error.remedy(),
        ),
    }
    for key in secrets::too_short(config) {
        let remedy = "Use a longer secret, if the service accepts one.";
        list.warn("config.short-secrets", secrets::short_warning(&key), remedy);
    }
    for name in secrets::secret_variables(config) {
        list.warn(
            "config.exec-secrets",
            format!("tools.exec.allowedEnvKeys gives every command of the model {name}"),
            "Remove the variable from the list, unless commands need it.",
        );
    }
    if data_dir(config).is_dir() {
        check_private(list, "home.private", data_dir(config), 0o700);
    }
}

/// Reports a file with keys or conversations that other users may read.
#[cfg(unix)]
fn check_private(list: &mut FindingList, id: &'static str, path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(metadata) = std::fs::metadata(path) else {
        return;
    };
    let found = metadata.permissions().mode() & 0o777;
    if found & 0o077 == 0 {
        return;
    }
    let what = format!(
        "{}: others on this computer may read it (mode {found:o})",
        path.display()
    );
    let repair = || std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    list.fixable(
        FindingLevel::Warning,
        (id, what),
        format!("chmod {mode:o} {}", path.display()),
        repair,
    );
}

/// On other systems a user's files are private by default.
#[cfg(not(unix))]
fn check_private(_chart: &mut FindingList, _id: &'static str, _path: &Path, _mode: u32) {}
