//! A person whose client encrypts, and the program that both sides use.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nanobot_channel::Value;
use nanobot_channel_kit::http::{ProxyMode, client};
use nanobot_channel_matrix_fake::{Account, MatrixFake, Person};
use nanobot_matrix_crypto::{
    CryptoError, CryptoProcess, HomeserverRequest, OpenStore, SyncChanges,
};
use reqwest::{Client, Method, Url};
use serde_json::json;

/// Most syncs in which something has to happen.
const MAX_SYNCS: usize = 40;

/// Returns the encryption program, which is built if it is not there.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let folder = own.parent().and_then(Path::parent).unwrap();
        let name = format!("nanobot-matrix-crypto{}", std::env::consts::EXE_SUFFIX);
        let program = folder.join(name);
        if !program.is_file() {
            let built = Command::new(env!("CARGO"))
                .args(["build", "--locked", "-p", "nanobot-matrix-crypto-program"])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status();
            assert!(built.unwrap().success());
        }
        program
    })
}

/// A client of a person, with encryption.
pub(crate) struct Friend {
    base: String,
    account: Account,
    client: Client,
    pub(crate) crypto: CryptoProcess,
    since: Option<String>,
}

impl Friend {
    pub(crate) async fn log_in(fake: &MatrixFake, person: &Person, folder: &Path) -> Self {
        let account = fake.log_in(person, "FRIENDDEV");
        let store = OpenStore {
            user_id: account.user_id.clone(),
            device_id: account.device_id.clone(),
            folder: folder.to_owned(),
        };
        let mut friend = Self {
            base: fake.url(),
            client: client(&ProxyMode::Direct).build().unwrap(),
            crypto: CryptoProcess::start(program(), &store).await.unwrap(),
            account,
            since: None,
        };
        friend.sync().await;
        friend
    }

    /// Makes a call. Returns the status and the answer.
    async fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let method: Method = method.parse().unwrap();
        let url = format!("{}{path}", self.base);
        let request = self.client.request(method, url);
        let request = request.bearer_auth(&self.account.access_token);
        let request = if body.is_null() {
            request
        } else {
            request.json(body)
        };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    pub(crate) async fn send_requests(&self, requests: Vec<HomeserverRequest>) {
        for request in requests {
            let answer = self.call(&request.method, &request.path, &request.body);
            let (status, answer) = answer.await;
            self.crypto
                .answered(&request.id, status, answer)
                .await
                .unwrap();
        }
    }

    /// Syncs once, without waiting for news. Returns the events of a room.
    pub(crate) async fn sync(&mut self) -> Value {
        let since = self.since.as_ref().map(|since| format!("&since={since}"));
        let path = format!(
            "/_matrix/client/v3/sync?timeout=100{}",
            since.unwrap_or_default()
        );
        let (_, answer) = self.call("GET", &path, &Value::Null).await;
        let next_batch = answer["next_batch"].as_str().unwrap().to_owned();
        let changes = SyncChanges {
            to_device: answer["to_device"]["events"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
            device_lists: answer["device_lists"].clone(),
            one_time_keys_count: answer["device_one_time_keys_count"].clone(),
            unused_fallback_keys: None,
            next_batch: next_batch.clone(),
        };
        self.crypto.receive_sync(changes).await.unwrap();
        self.since = Some(next_batch);
        loop {
            let requests = self.crypto.outgoing().await.unwrap();
            if requests.is_empty() {
                return answer;
            }
            self.send_requests(requests).await;
        }
    }

    /// Encrypts the content of an event for people, whose devices get the key unless it is held
    /// back. Returns the encrypted content, and the requests that give the key.
    pub(crate) async fn encrypt(
        &mut self,
        room: &str,
        members: &[String],
        content: &Value,
    ) -> (Value, Vec<HomeserverRequest>) {
        let settings = json!({"algorithm": "m.megolm.v1.aes-sha2"});
        let mut held = Vec::new();
        for _ in 0..8 {
            let requests = self.crypto.share_room_key(room, members, &settings);
            let requests = requests.await.unwrap();
            if requests.is_empty() {
                break;
            }
            let (keys, others) = requests
                .into_iter()
                .partition(|request: &HomeserverRequest| request.path.contains("sendToDevice"));
            self.send_requests(others).await;
            // The state machine goes on as if they were sent.
            for request in &keys {
                let answer = self.crypto.answered(&request.id, 200, json!({})).await;
                answer.unwrap();
            }
            held.extend(keys);
        }
        let encrypted = self.crypto.encrypt(room, "m.room.message", content).await;
        (encrypted.unwrap(), held)
    }

    /// Gives keys out that were held back.
    pub(crate) async fn give_keys(&self, requests: Vec<HomeserverRequest>) {
        for request in requests {
            let sent = self.call(&request.method, &request.path, &request.body);
            assert_eq!(sent.await.0, 200);
        }
    }

    /// Sends an event.
    pub(crate) async fn send(&self, room: &str, kind: &str, transaction: &str, content: &Value) {
        let mut url = Url::parse(&self.base).unwrap();
        let path = [
            "_matrix",
            "client",
            "v3",
            "rooms",
            room,
            "send",
            kind,
            transaction,
        ];
        url.path_segments_mut().unwrap().pop_if_empty().extend(path);
        let (status, answer) = self.call("PUT", url.path(), content).await;
        assert_eq!(status, 200, "{answer}");
    }

    /// Sends an encrypted text, with its key.
    pub(crate) async fn say(&mut self, room: &str, members: &[String], text: &str) {
        let content = json!({"msgtype": "m.text", "body": text, "m.mentions": {}});
        let (encrypted, keys) = self.encrypt(room, members, &content).await;
        self.give_keys(keys).await;
        self.send(room, "m.room.encrypted", text, &encrypted).await;
    }

    /// Waits for a message of another person that can be decrypted, and for which `is_meant`
    /// holds. Returns its content.
    pub(crate) async fn read(&mut self, room: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
        let mut unread: Vec<Value> = Vec::new();
        for _ in 0..MAX_SYNCS {
            let answer = self.sync().await;
            let timeline = &answer["rooms"]["join"][room]["timeline"]["events"];
            let events = timeline.as_array().cloned().unwrap_or_default();
            unread.extend(events.into_iter().filter(|event| {
                event["type"] == "m.room.encrypted"
                    && event["sender"] != self.account.user_id
                    && event["unsigned"].get("redacted_because").is_none()
            }));
            for event in &unread {
                match self.crypto.decrypt(room, event).await {
                    Ok(clear) if is_meant(&clear.event["content"]) => {
                        return clear.event["content"].clone();
                    }
                    Ok(_) | Err(CryptoError::MissingKey) => {}
                    Err(error) => panic!("{error}: {event}"),
                }
            }
        }
        panic!("no such message came");
    }
}
