//! A save loses nothing and never leaves a partial file.

use std::fs;

use chrono::{DateTime, TimeZone as _, Utc};
use nanobot_config::{ConfigError, Loader, SavedConfig};
use serde_json::json;

use crate::home::{Home, schema};

fn noon() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 16, 12, 0, 0).unwrap()
}

const OLD: &str = r#"{
    "zebra": {"b_c": [1, {"x_y": null}], "ä": "é"},
    "agents": {"defaults": {"memory_window": 50, "max_tokens": 5, "model": "${MODEL}", "dream": {"model": "d"}}},
    "tools": {"exec": {"restrictToWorkspace": false, "timeout": 60}, "my_enabled": true},
    "channels": {"transcription_provider": "groq", "telegram": {"allow_from": ["1"], "room_names": {"a_b": 1}}}
}"#;

#[test]
fn save_migrates_and_keeps_the_remaining_layout() {
    let home = Home::with(OLD);
    let config = home.load().unwrap();
    let mut draft = config.draft();
    draft.set("gateway.port", &json!(8080)).unwrap();
    draft.set("agents.defaults.max-tokens", &json!(6)).unwrap();
    draft
        .fill("channels.telegram", &json!({"allowFrom": [], "token": ""}))
        .unwrap();
    let backup = home
        .directory
        .path()
        .join("config.json.bak-20260316T120000Z");
    let saved = draft.save(noon()).unwrap();
    assert_eq!(
        saved,
        SavedConfig::Written {
            backup: Some(backup.clone())
        }
    );
    assert_eq!(fs::read_to_string(&backup).unwrap(), OLD);
    let new = r#"{
  "zebra": {
    "b_c": [
      1,
      {
        "x_y": null
      }
    ],
    "ä": "é"
  },
  "agents": {
    "defaults": {
      "memoryWindow": 50,
      "maxTokens": 6,
      "model": "${MODEL}",
      "dream": {
        "modelOverride": "d"
      }
    }
  },
  "tools": {
    "exec": {
      "timeout": 60
    },
    "restrictToWorkspace": false,
    "my": {
      "enable": true
    }
  },
  "channels": {
    "telegram": {
      "allowFrom": [
        "1"
      ],
      "room_names": {
        "a_b": 1
      },
      "token": ""
    }
  },
  "transcription": {
    "provider": "groq"
  },
  "gateway": {
    "port": 8080
  }
}
"#;
    assert_eq!(fs::read_to_string(home.file()).unwrap(), new);

    let again = home.load().unwrap().draft();
    assert_eq!(again.save(noon()).unwrap(), SavedConfig::Unchanged);
    let mut third = home.load().unwrap().draft();
    assert!(third.remove("zebra").unwrap());
    assert!(!third.remove("zebra").unwrap());
    let second_backup = home
        .directory
        .path()
        .join("config.json.bak-20260316T120000Z-2");
    assert_eq!(
        third.save(noon()).unwrap(),
        SavedConfig::Written {
            backup: Some(second_backup)
        }
    );
}

#[test]
fn save_excludes_environment_and_command_line() {
    let home = Home::empty()
        .variable("NANOBOT_GATEWAY__PORT", "1")
        .option("gateway.host", "h");
    let mut draft = home.load().unwrap().draft();
    draft.set("agents.defaults.model", &json!("m")).unwrap();
    assert_eq!(
        draft.save(noon()).unwrap(),
        SavedConfig::Written { backup: None }
    );
    assert_eq!(
        fs::read_to_string(home.file()).unwrap(),
        "{\n  \"$schema\": \"./config.schema.json\",\n  \"agents\": {\n    \"defaults\": {\n      \"model\": \"m\"\n    }\n  }\n}\n"
    );
}

#[test]
fn new_names_keep_their_spelling() {
    let home = Home::empty();
    let mut draft = home.load().unwrap().draft();
    let value = json!("v");
    draft.set("providers.azure_openai.api_key", &value).unwrap();
    draft
        .set("providers.my_lab.extra_headers.x_trace_id", &value)
        .unwrap();
    draft
        .fill("modelPresets", &json!({"gpt-4.1 \"new\"": {"model": "m"}}))
        .unwrap();
    draft
        .fill(
            "modelPresets",
            &json!({"gpt-4.1 \"new\"": {"model": "n", "maxTokens": 1}}),
        )
        .unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&draft.text()).unwrap(),
        json!({
            "$schema": "./config.schema.json",
            "providers": {
                "azureOpenai": {"apiKey": "v"},
                "my_lab": {"extraHeaders": {"x_trace_id": "v"}},
            },
            "modelPresets": {"gpt-4.1 \"new\"": {"model": "m", "maxTokens": 1}},
        })
    );
}

#[test]
fn first_run_lasts_until_state_exists() {
    let home = Home::with("{}");
    let config = home.load().unwrap();
    assert!(
        !config.is_first_run(),
        "a file alone is not a home of the Python program"
    );
    fs::create_dir_all(home.paths().data_dir.join("cron")).unwrap();
    assert!(config.is_first_run());
    let backup = config.back_up(noon()).unwrap().unwrap();
    assert_eq!(fs::read_to_string(backup).unwrap(), "{}");
    fs::write(home.paths().state_db, "").unwrap();
    assert!(!config.is_first_run());
    let nobody = Home::empty().load().unwrap();
    assert!(!nobody.is_first_run());
    assert_eq!(nobody.back_up(noon()).unwrap(), None);
}

#[test]
fn replaced_file_is_kept_as_a_backup() {
    let home = Home::with("this is not JSON");
    assert!(home.load().is_err());
    let loader = Loader::new(schema(), home.paths(), home.environment());
    let config = loader.replaces_file().load().unwrap();
    let saved = config.draft().save(noon()).unwrap();
    let SavedConfig::Written {
        backup: Some(backup),
    } = saved
    else {
        panic!("{saved:?}");
    };
    assert_eq!(fs::read_to_string(backup).unwrap(), "this is not JSON");
    assert_eq!(fs::read_to_string(home.file()).unwrap().trim(), "{}");
}

#[test]
fn save_refuses_a_file_changed_on_disk() {
    let home = Home::with("{}");
    let mut draft = home.load().unwrap().draft();
    draft.set("gateway.port", &json!(1)).unwrap();
    fs::write(home.file(), "{\"gateway\": {}}").unwrap();
    let error = draft.save(noon()).unwrap_err();
    assert!(
        matches!(error, ConfigError::ChangedOnDisk { .. }),
        "{error}"
    );
    assert_eq!(
        fs::read_to_string(home.file()).unwrap(),
        "{\"gateway\": {}}"
    );
    assert_eq!(fs::read_dir(home.directory.path()).unwrap().count(), 1);
}

#[test]
fn set_refuses_to_replace_a_scalar_by_an_object() {
    let home = Home::with(r#"{"tools": {"my": 1, "myEnabled": true}, "gateway": {"port": 1}}"#);
    let mut draft = home.load().unwrap().draft();
    let error = draft.set("gateway.port.x", &json!(1)).unwrap_err();
    assert!(matches!(error, ConfigError::BadKey { .. }), "{error}");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&draft.text()).unwrap(),
        json!({"tools": {"my": 1, "myEnabled": true}, "gateway": {"port": 1}})
    );
}

#[cfg(unix)]
#[test]
fn saved_files_are_private_and_links_are_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let home = Home::empty();
    let elsewhere = home.directory.path().join("dotfiles.json");
    fs::write(&elsewhere, "{}").unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o644)).unwrap();
    symlink(&elsewhere, home.file()).unwrap();
    let mut draft = home.load().unwrap().draft();
    draft.set("gateway.port", &json!(1)).unwrap();
    let SavedConfig::Written {
        backup: Some(backup),
    } = draft.save(noon()).unwrap()
    else {
        panic!("nothing was written");
    };
    assert!(home.file().is_symlink());
    for file in [&elsewhere, &backup] {
        assert_eq!(
            fs::metadata(file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

#[test]
fn schema_is_written_beside_files_that_name_it() {
    let home = Home::with("{}");
    let schema = home.directory.path().join("config.schema.json");
    let config = home.load().unwrap();
    assert_eq!(config.refresh_schema().unwrap(), None);
    assert!(!schema.exists(), "a file of the user names no schema");
    assert_eq!(config.write_schema().unwrap(), (schema.clone(), true));
    assert_eq!(config.write_schema().unwrap(), (schema.clone(), false));
    let written = fs::read_to_string(&schema).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(parsed, config.json_schema());
    assert_eq!(fs::read_to_string(home.file()).unwrap(), "{}");

    // An older one is refreshed, whether the file names it or not.
    fs::write(&schema, "{\"title\": \"nanobot configuration\"}").unwrap();
    assert_eq!(config.refresh_schema().unwrap(), Some(schema.clone()));
    assert_eq!(fs::read_to_string(&schema).unwrap(), written);
    assert_eq!(config.refresh_schema().unwrap(), None);

    // Another file of that name is the user's.
    for other in ["{\"title\": \"mine\"}", "not JSON", "[]", ""] {
        fs::write(&schema, other).unwrap();
        assert_eq!(config.refresh_schema().unwrap(), None, "{other}");
        let error = config.write_schema().unwrap_err();
        assert!(matches!(error, ConfigError::NotOurs { .. }), "{error}");
        assert_eq!(fs::read_to_string(&schema).unwrap(), other);
    }
}

#[test]
fn only_a_new_file_names_its_schema() {
    for (content, names_it) in [
        (None, true),
        (Some("{\"$schema\": \"config.schema.json\"}"), true),
        (
            Some("{\"$schema\": \"https://example.com/mine.json\"}"),
            false,
        ),
        (Some("{\"$schema\": null}"), false),
        (Some("{\"gateway\": {}}"), false),
        (Some("{}"), false),
        (Some(""), false),
    ] {
        let home = content.map_or_else(Home::empty, Home::with);
        let mut draft = home.load().unwrap().draft();
        draft.set("gateway.port", &json!(1)).unwrap();
        draft.save(noon()).unwrap();
        let written = home.load().unwrap();
        assert_eq!(written.names_schema(), names_it, "{content:?}");
        assert_eq!(written.findings(), [], "{content:?}");
        let text = fs::read_to_string(home.file()).unwrap();
        let begins = text.starts_with("{\n  \"$schema\": \"./config.schema.json\",\n");
        assert_eq!(begins, content.is_none(), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn schema_file_is_private_and_its_link_is_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let home = Home::with("{}");
    let elsewhere = home.directory.path().join("elsewhere.json");
    fs::write(&elsewhere, "{\"title\": \"nanobot configuration\"}").unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o644)).unwrap();
    let link = home.directory.path().join("config.schema.json");
    symlink(&elsewhere, &link).unwrap();
    assert_eq!(
        home.load().unwrap().write_schema().unwrap(),
        (link.clone(), true)
    );
    assert!(link.is_symlink());
    let mode = fs::metadata(&elsewhere).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[cfg(unix)]
#[test]
fn content_of_the_newest_backup_is_not_copied_again() {
    let home = Home::empty();
    let folder = home.directory.path().join("dotfiles");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("config.json"), "{}").unwrap();
    std::os::unix::fs::symlink(folder.join("config.json"), home.file()).unwrap();
    let copy = |suffix: &str| folder.join(format!("config.json.bak-20260316T120000Z{suffix}"));
    // Neither is a backup of this program.
    fs::write(folder.join("config.json.bak-mine"), "{}").unwrap();
    fs::create_dir(folder.join("config.json.bak-20990316T120000Z")).unwrap();
    let config = home.load().unwrap();
    let backup = config.back_up(noon()).unwrap();
    assert_eq!(backup.as_ref(), Some(&copy("")));
    let set = |port: u16| {
        let mut draft = home.load().unwrap().draft();
        draft.set("gateway.port", &json!(port)).unwrap();
        draft.save(noon()).unwrap()
    };
    assert_eq!(set(1), SavedConfig::Written { backup });
    for (port, suffix) in [(2, "-2"), (1, "-3"), (2, "-4")] {
        let backup = Some(copy(suffix));
        assert_eq!(set(port), SavedConfig::Written { backup });
    }
    assert_eq!(fs::read_to_string(copy("")).unwrap(), "{}");
    assert_eq!(
        fs::read_to_string(copy("-2")).unwrap(),
        fs::read_to_string(copy("-4")).unwrap()
    );
}
