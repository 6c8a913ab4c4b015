//! The bridge that nanobot starts: login, account and supervision, with a program that plays the
//! process of the bridge. The other end of its address is a fake in the test.

#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nanobot_channel::{ChannelError, ChannelName, Measure, SignIn, SignInPrompt, async_trait};
use nanobot_channel_kit::push::receive_pushed;
use nanobot_channel_kit::{BackgroundWork, ChannelBase, DraftBoard, Platform as _, Quarantine};
use nanobot_channel_whatsapp_fake::{Incoming, Person, WhatsAppFake};
use nanobot_testkit::Assistant;
use nanobot_testkit::log::Log;
use nanobot_whatsapp_bridge::Bridge;

use crate::WhatsAppConfig;
use crate::channel::WhatsApp;
use crate::own_bridge::{OwnBridge, start_error};

/// Writes its token, waits for its first line, and ends with its input or with the file `end`.
const PROGRAM: &str = r#"
cd "$0" || exit 1
printf %s "$BRIDGE_TOKEN" > token.part && mv token.part token
while [ ! -f line ]; do sleep 0.02; done
cat line
exec 3<&0
(cat <&3 > /dev/null; kill $$) &
while [ ! -f end ]; do sleep 0.02; done
exit 1
"#;

/// The folder of an older version of the package.
const OLD_VERSION: &str = "whatsapp-bridge/00000000000000aa";

/// The folder of the program.
struct Stage {
    root: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Creates a channel that starts the program.
    fn platform(&self) -> Arc<WhatsApp> {
        let folder = self.root.path().to_str().unwrap().to_owned();
        let arguments = ["-c".to_owned(), PROGRAM.to_owned(), folder];
        Self::platform_of(Bridge::of_program(
            "/bin/sh",
            arguments,
            self.root.path(),
            None,
        ))
    }

    /// Creates a channel whose bridge is the package, of which an older version is installed.
    /// Stand-ins for Node.js and npm run the program and `npm.sh`.
    fn outdated_platform(&self, npm: &str) -> Arc<WhatsApp> {
        std::fs::create_dir(self.path("bin")).unwrap();
        for name in ["node", "npm"] {
            let script = format!("../whatsapp-bridge/tests/programs/{name}.sh");
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
            std::os::unix::fs::symlink(script, self.path("bin").join(name)).unwrap();
        }
        let program = PROGRAM.replace("$0", "$HOME");
        for (name, text) in [
            ("node-version", "v20.1.0\n"),
            ("npm.sh", npm),
            ("bridge.sh", &program),
        ] {
            std::fs::write(self.path(name), text).unwrap();
        }
        let old = self.path(OLD_VERSION).join("node_modules");
        std::fs::create_dir_all(old).unwrap();
        let variables = [("PATH", self.path("bin")), ("HOME", self.path(""))];
        let bridge = Bridge::new(self.root.path(), None).with_environment(variables);
        Self::platform_of(bridge)
    }

    fn platform_of(bridge: Bridge) -> Arc<WhatsApp> {
        let name = ChannelName::from("whatsapp");
        let base = ChannelBase {
            quarantine: Quarantine::new(name.clone()),
            name,
            drafts: DraftBoard::new(Measure::CodePoints, 1),
            background: BackgroundWork::default(),
            data_dir: None,
            opened_networks: Vec::new(),
        };
        let config = WhatsAppConfig {
            request_timeout: 5.0,
            ..WhatsAppConfig::default()
        };
        let mut platform = WhatsApp::new(base, config, None).unwrap();
        platform.own = Some(OwnBridge::of(bridge));
        Arc::new(platform)
    }

    /// Waits until the program has started, and lets it listen at a fake.
    async fn fake(&self) -> WhatsAppFake {
        let token = self.token().await;
        let fake = WhatsAppFake::start_with_token(&token).await.unwrap();
        let line = format!("{{\"listening\":\"{}\",\"protocol\":2}}\n", fake.url());
        std::fs::write(self.path("line.part"), line).unwrap();
        std::fs::rename(self.path("line.part"), self.path("line")).unwrap();
        fake
    }

    async fn token(&self) -> String {
        let path = self.path("token");
        let waiting = async {
            while !path.is_file() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting)
            .await
            .expect("the program starts");
        std::fs::read_to_string(path).unwrap()
    }
}

#[derive(Default)]
struct Terminal {
    codes: Mutex<Vec<String>>,
}

#[async_trait]
impl SignInPrompt for Terminal {
    fn show(&self, _text: &str) {}

    fn show_code(&self, text: &str) {
        self.codes.lock().unwrap().push(text.to_owned());
    }

    async fn confirm(&self, _question: &str) -> bool {
        false
    }
}

#[tokio::test]
async fn login_starts_the_bridge_and_notes_the_account() {
    let (stage, terminal) = (Stage::new(), Terminal::default());
    let platform = stage.platform();
    let person = async {
        let fake = stage.fake().await;
        fake.wait_for_client().await.unwrap();
        fake
    };
    let (account, fake) = tokio::join!(SignIn::sign_in(platform.as_ref(), &terminal), person);
    assert_eq!(account.unwrap(), "+4915000000001 (nanobot)");
    assert!(terminal.codes.lock().unwrap().is_empty());
    fake.wait_for_open_connections(0).await.unwrap();
    let note = platform.own.as_ref().unwrap().bridge.account_note().await;
    assert_eq!(note.as_deref(), Some("+4915000000001 (nanobot)"));
}

#[tokio::test]
async fn bridge_of_another_program_is_left_alone() {
    let (stage, terminal) = (Stage::new(), Terminal::default());
    let (first, second) = (stage.platform(), stage.platform());
    let own = first.own.as_ref().unwrap();
    let (started, fake) = tokio::join!(own.start(), stage.fake());
    let started = started.unwrap();
    let account = second.find_account().await.unwrap();
    assert!(account.starts_with("a linked device"), "{account}");
    own.bridge.note_account("+49 (Ann)").await.unwrap();
    let account = second.find_account().await.unwrap();
    assert_eq!(account, "+49 (Ann) (the running gateway uses the bridge)");
    own.bridge.note_account("").await.unwrap();
    assert!(second.find_account().await.unwrap_err().is_permanent());
    let error = SignIn::sign_in(second.as_ref(), &terminal)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ChannelError::Conflict(why) if why.contains("gateway")),
        "{error}"
    );
    started.stop().await;
    assert_eq!(fake.connections(), 0);
}

#[tokio::test]
async fn probe_starts_and_stops_the_bridge() {
    let stage = Stage::new();
    let platform = stage.platform();
    let (account, fake) = tokio::join!(platform.find_account(), stage.fake());
    assert_eq!(account.unwrap(), "+4915000000001 (nanobot)");
    fake.wait_for_open_connections(0).await.unwrap();
    // Its place is free again, and the address is still there.
    let started = platform.own.as_ref().unwrap().start().await;
    started.unwrap().stop().await;
}

#[tokio::test]
async fn ended_bridge_is_started_again() {
    let stage = Stage::new();
    let platform = stage.platform();
    let assistant = Arc::new(Assistant::new("49666"));
    let context = assistant.context();
    let scene = async {
        let fake = stage.fake().await;
        let ann = Person::new("4915111111111", "Ann");
        fake.push(Incoming::direct(&ann, "hello"));
        assistant.message(1).await.unwrap();
        for name in ["token", "line"] {
            std::fs::remove_file(stage.path(name)).unwrap();
        }
        std::fs::write(stage.path("end"), "").unwrap();
        let first = fake.token();
        assert_ne!(stage.token().await, first);
        std::fs::remove_file(stage.path("end")).unwrap();
        let fake = stage.fake().await;
        // The second fake would begin with the id of the first message.
        let again =
            Incoming::direct(&ann, "again").with_member("id", "3A0000000000000000AA".into());
        fake.push(again);
        assistant.message(2).await.unwrap();
    };
    tokio::select! {
        ended = receive_pushed(&platform, &context) => unreachable!("{ended:?}"),
        () = scene => {}
    }
    context.cancel.cancel();
    context.tasks.close();
    context.tasks.wait().await;
}

#[tokio::test]
async fn outdated_bridge_is_replaced_before_the_channel_receives() {
    let (stage, log) = (Stage::new(), Log::capture().unwrap());
    let platform = stage.outdated_platform("mkdir node_modules");
    let assistant = Arc::new(Assistant::new("49666"));
    let context = assistant.context();
    let scene = async {
        let fake = stage.fake().await;
        let ann = Person::new("4915111111111", "Ann");
        fake.push(Incoming::direct(&ann, "hello"));
        assistant.message(1).await.unwrap();
    };
    tokio::select! {
        ended = receive_pushed(&platform, &context) => unreachable!("{ended:?}"),
        () = scene => {}
    }
    context.cancel.cancel();
    context.tasks.close();
    context.tasks.wait().await;
    assert!(!stage.path(OLD_VERSION).exists());
    let own = platform.own.as_ref().unwrap();
    assert!(own.bridge.is_installed().await);
    let text = log.text();
    assert!(text.contains("bridge is outdated"), "{text}");
    assert!(text.contains("npm fetches its packages"), "{text}");
}

#[tokio::test]
async fn failed_update_of_the_bridge_is_tried_again() {
    let stage = Stage::new();
    let platform = stage.outdated_platform("echo no network >&2; exit 1");
    let failed = platform.update_bridge().await.unwrap_err();
    let error = start_error(failed);
    assert!(!error.is_permanent(), "{error}");
    assert!(
        error.to_string().contains("no network"),
        "the reason is shown: {error}"
    );
    assert!(stage.path(OLD_VERSION).exists());
    std::fs::write(stage.path("npm.sh"), "mkdir node_modules").unwrap();
    platform.update_bridge().await.unwrap();
    let (account, _fake) = tokio::join!(platform.find_account(), stage.fake());
    assert_eq!(account.unwrap(), "+4915000000001 (nanobot)");
}

#[tokio::test]
async fn probe_installs_nothing() {
    let stage = Stage::new();
    let platform = stage.outdated_platform("mkdir node_modules");
    let error = platform.find_account().await.unwrap_err();
    assert!(!error.is_permanent(), "{error}");
    let text = error.to_string();
    assert!(text.contains("another version of nanobot"), "{text}");
    assert!(!stage.path("npm-arguments").exists(), "npm was called");
    assert!(stage.path(OLD_VERSION).exists());
}
