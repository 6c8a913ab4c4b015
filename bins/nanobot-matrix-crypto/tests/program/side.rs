//! A device with a running program.

use std::path::Path;

use nanobot_matrix_crypto::{CryptoError, CryptoProcess, HomeserverRequest, OpenStore};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::homeserver::{Device, Homeserver};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_nanobot-matrix-crypto");

pub(crate) const ROOM: &str = "!room:server";

/// A device, its program and its store.
pub(crate) struct Side {
    pub(crate) device: Device,
    pub(crate) process: CryptoProcess,
    pub(crate) folder: TempDir,
}

pub(crate) fn store_in(folder: &Path, device: &Device) -> OpenStore {
    OpenStore {
        user_id: device.0.clone(),
        device_id: device.1.clone(),
        folder: folder.join("store"),
    }
}

impl Side {
    /// Starts the program of a new device, and uploads its keys.
    pub(crate) async fn new(server: &mut Homeserver, user: &str, device: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = (user.to_owned(), device.to_owned());
        let store = store_in(folder.path(), &device);
        let process = CryptoProcess::start(Path::new(PROGRAM), &store)
            .await
            .unwrap();
        let side = Self {
            device,
            process,
            folder,
        };
        side.pump(server).await;
        side
    }

    pub(crate) fn store(&self) -> OpenStore {
        store_in(self.folder.path(), &self.device)
    }

    /// Ends the program and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.process.close().await;
        self.process = CryptoProcess::start(Path::new(PROGRAM), &self.store())
            .await
            .unwrap();
    }

    /// Syncs once, and sends what is to be sent. Returns the rooms with new keys.
    pub(crate) async fn pump(&self, server: &mut Homeserver) -> Vec<String> {
        let changes = server.sync(&self.device);
        let outcome = self.process.receive_sync(changes).await.unwrap();
        for _ in 0..10 {
            let requests = self.process.outgoing().await.unwrap();
            if requests.is_empty() {
                return outcome.rooms_with_new_keys;
            }
            self.send(server, requests).await;
        }
        panic!("there is always something to send");
    }

    pub(crate) async fn send(&self, server: &mut Homeserver, requests: Vec<HomeserverRequest>) {
        for request in requests {
            let (status, body) = server.handle(&self.device, &request);
            self.process
                .answered(&request.id, status, body)
                .await
                .unwrap();
        }
    }

    /// Shares the key of the room.
    pub(crate) async fn share(&self, server: &mut Homeserver, members: &[&str]) {
        self.share_by(server, members, &encryption()).await;
    }

    pub(crate) async fn share_by(
        &self,
        server: &mut Homeserver,
        members: &[&str],
        encryption: &Value,
    ) {
        let members: Vec<String> = members.iter().map(|member| (*member).to_owned()).collect();
        for _ in 0..10 {
            let requests = self
                .process
                .share_room_key(ROOM, &members, encryption)
                .await
                .unwrap();
            if requests.is_empty() {
                return;
            }
            self.send(server, requests).await;
        }
        panic!("the key is never shared");
    }

    /// Encrypts a text for the room, as the event that others receive.
    pub(crate) async fn say(&self, server: &mut Homeserver, text: &str) -> Value {
        let content = json!({ "msgtype": "m.text", "body": text });
        let encrypted = self
            .process
            .encrypt(ROOM, "m.room.message", &content)
            .await
            .unwrap();
        server.event(&self.device, ROOM, &encrypted)
    }

    /// Decrypts a text.
    pub(crate) async fn read(&self, event: &Value) -> Result<String, CryptoError> {
        let decrypted = self.process.decrypt(ROOM, event).await?;
        Ok(decrypted.event["content"]["body"]
            .as_str()
            .unwrap()
            .to_owned())
    }
}

pub(crate) fn encryption() -> Value {
    json!({ "algorithm": "m.megolm.v1.aes-sha2" })
}

/// Syncs until nothing waits for any device.
pub(crate) async fn settle(server: &mut Homeserver, sides: &[&Side]) {
    for _ in 0..20 {
        for side in sides {
            side.pump(server).await;
        }
        if sides.iter().all(|side| server.is_idle(&side.device)) {
            return;
        }
    }
    panic!("the devices always have something to say");
}

pub(crate) const MEMBERS: [&str; 2] = ["@bot:server", "@ann:server"];

/// Starts the bot and Ann.
pub(crate) async fn bot_and_ann(server: &mut Homeserver) -> (Side, Side) {
    let bot = Side::new(server, "@bot:server", "BOT").await;
    let ann = Side::new(server, "@ann:server", "ANN").await;
    (bot, ann)
}
