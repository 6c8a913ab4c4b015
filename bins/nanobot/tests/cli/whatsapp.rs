//! `nanobot channels login whatsapp`: the installation of the bridge, its QR code, and its end.
//!
//! Stand-ins for Node.js and npm are in the `PATH`, and the bridge's address is that of a fake in
//! the test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nanobot_channel_whatsapp_fake::WhatsAppFake;
use nix::sys::signal::{Signal, killpg};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::prompt::Screen;
use crate::support::{DEADLINE, Home, assert_says, until};

/// Opens the pipe by which the test learns of its end, writes its token, prints the line that the
/// test chose, and notes the end of its input.
const BRIDGE: &str = r#"
cd "$HOME" || exit 1
exec 9> alive
printf %s "$BRIDGE_TOKEN" > token.part && mv token.part token
while [ ! -f line ]; do sleep 0.02; done
cat line
cat > /dev/null
echo closed > bridge-end
"#;
/// Rows and columns of a terminal.
const SIZE: (u16, u16) = (60, 100);

/// A home with stand-ins for Node.js and npm.
struct Computer {
    home: Home,
}

impl Computer {
    /// Returns it with the end of the bridge and of all that it starts.
    fn new() -> (Self, oneshot::Receiver<Vec<u8>>) {
        let computer = Self { home: Home::new() };
        fs::create_dir(computer.place("bin")).unwrap();
        for name in ["node", "npm"] {
            let script = format!("../../crates/platforms/whatsapp-bridge/tests/programs/{name}.sh");
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
            symlink(script, computer.place("bin").join(name)).unwrap();
        }
        for (name, text) in [
            ("node-version", "v20.1.0\n"),
            ("npm.sh", "mkdir node_modules"),
            ("bridge.sh", BRIDGE),
        ] {
            fs::write(computer.place(name), text).unwrap();
        }
        let pipe = computer.place("alive");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let (ends, ended) = oneshot::channel();
        // A thread that does not keep the test program from ending.
        std::thread::spawn(move || {
            let read = fs::read(pipe).unwrap();
            // A failed test does not listen any more.
            ends.send(read).ok();
        });
        (computer, ended)
    }

    /// Returns the path of a file in the folder that is `HOME`.
    fn place(&self, name: &str) -> PathBuf {
        self.home.path().parent().unwrap().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.place(name)).unwrap()
    }

    /// Begins the login on a terminal.
    fn log_in(&self) -> Screen {
        let path = self.place("bin").to_str().unwrap().to_owned();
        let login = ["channels", "login", "whatsapp"];
        Screen::open_with(&self.home, &login, SIZE, &[("PATH", &path)])
    }

    /// Waits for the bridge, and lets it listen at a fake without a linked device.
    async fn fake(&self) -> WhatsAppFake {
        let token = self.place("token");
        until("the bridge starts", async || token.is_file()).await;
        let fake = WhatsAppFake::start_with_token(&self.read("token"))
            .await
            .unwrap();
        fake.unlink();
        let line = format!("{{\"listening\":\"{}\",\"protocol\":2}}\n", fake.url());
        fs::write(self.place("line.part"), line).unwrap();
        fs::rename(self.place("line.part"), self.place("line")).unwrap();
        fake
    }
}

/// Waits until no process of the bridge runs.
async fn wait_for_end(ended: oneshot::Receiver<Vec<u8>>, fake: &WhatsAppFake) {
    let ended = tokio::time::timeout(DEADLINE, ended).await;
    assert_eq!(ended.expect("the bridge ends").unwrap(), b"");
    fake.wait_for_open_connections(0).await.unwrap();
}

/// Waits until a QR code is shown.
fn wait_for_code(screen: &mut Screen) {
    let is_drawn = |row: &String| row.chars().filter(|each| "▀▄█".contains(*each)).count() > 10;
    screen.wait_until(|rows| rows.iter().filter(|row| is_drawn(row)).count() > 10);
}

#[tokio::test]
async fn login_installs_the_bridge_and_shows_its_code() {
    let (computer, ended) = Computer::new();
    let mut screen = computer.log_in();
    let (sender, code) = oneshot::channel();
    // The terminal blocks its thread, and the fake has to answer at the same time.
    let person = tokio::task::spawn_blocking(move || {
        screen.wait_for("The WhatsApp bridge is installed.");
        screen.wait_for("Linked devices > Link a device");
        wait_for_code(&mut screen);
        sender.send(()).unwrap();
        screen.wait_for("+4915000000001 (nanobot)");
        screen.wait_for("channel whatsapp is on");
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        screen.text.clone()
    });
    let fake = computer.fake().await;
    code.await.unwrap();
    fake.link();
    let text = person.await.unwrap();
    wait_for_end(ended, &fake).await;
    assert_eq!(computer.read("bridge-end"), "closed\n");
    assert!(!text.contains(&computer.read("token")), "{text}");
    assert!(!text.contains("no credentials"), "{text}");
    assert_says(&computer.read("npm-arguments"), &["--omit=peer"]);
    let config: Value = serde_json::from_str(&computer.home.read("config.json")).unwrap();
    assert_eq!(config["channels"]["whatsapp"]["enabled"], true);
    assert_eq!(fake.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn interrupted_login_ends_the_bridge() {
    let (computer, ended) = Computer::new();
    let mut screen = computer.log_in();
    let person = tokio::task::spawn_blocking(move || {
        wait_for_code(&mut screen);
        // As a terminal does on Ctrl-C.
        killpg(screen.pid(), Signal::SIGINT).unwrap();
        let code = screen.end();
        (code, screen.text.clone())
    });
    let fake = computer.fake().await;
    let (code, text) = person.await.unwrap();
    assert_eq!(code, Some(130), "{text}");
    wait_for_end(ended, &fake).await;
    assert!(!computer.home.path().join("config.json").exists());
}
