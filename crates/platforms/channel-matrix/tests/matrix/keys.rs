//! Keys of the device before they are needed, the identity of the account, and verifications in
//! rooms.

use std::path::{Path, PathBuf};

use nanobot_channel::{InboundMessage, MediaRef};
use nanobot_channel_matrix_fake::{
    BOT_DEVICE, BOT_ID, BOT_PASSWORD, Fault, Incoming, MatrixFake, Person,
};
use nanobot_matrix_crypto::{CryptoError, CryptoProcess, OpenStore};
use serde_json::{Value, json};

use crate::friend::{Friend, program};
use crate::support::{Running, ann, assistant, channel_in, fake, reply};

fn members() -> [String; 2] {
    [ann().user_id, BOT_ID.to_owned()]
}

fn room() -> String {
    ann().direct()
}

/// Runs a channel with the real program and these keys.
fn run(fake: MatrixFake, keys: &Value, data: &Path) -> Running {
    let mut all = json!({"cryptoProgram": program(), "reactEmoji": ""});
    let keys = keys.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(keys);
    let channel = channel_in(&fake, &all, Some(data));
    Running::of(fake, channel, assistant())
}

/// Returns the folders of the stores.
fn stores(data: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(data.join("matrix-store")) else {
        return Vec::new();
    };
    let folders = entries.map(|entry| entry.unwrap().path());
    folders.filter(|path| path.is_dir()).collect()
}

/// Returns which of some methods were called, in order and without repetitions.
fn calls(fake: &MatrixFake, wanted: &[&str]) -> Vec<String> {
    let calls = fake.calls().into_iter().map(|call| call.method);
    let mut calls: Vec<String> = calls
        .filter(|method| wanted.contains(&method.as_str()))
        .collect();
    calls.dedup();
    calls
}

/// Publishes an identity of cross-signing.
async fn publish_identity(account: &Friend) {
    loop {
        let requests = account.crypto.identity_requests().await.unwrap();
        if requests.is_empty() {
            return;
        }
        account.send_requests(requests).await;
    }
}

#[tokio::test]
async fn keys_are_uploaded_once_at_the_first_start() {
    let (fake, data) = (fake().await, tempfile::tempdir().unwrap());
    let running = run(fake, &json!({}), data.path());
    running.fake.wait_for_waiting_syncs(1).await.unwrap();
    let order = ["keys.upload", "keys.signing", "keys.signatures"];
    assert_eq!(calls(&running.fake, &order), order);
    assert!(running.fake.one_time_keys(BOT_DEVICE) > 0);
    // The program has ended: another one can use the store.
    let folders = stores(data.path());
    let [folder] = folders.as_slice() else {
        panic!("{folders:?}");
    };
    let store = OpenStore {
        user_id: BOT_ID.to_owned(),
        device_id: BOT_DEVICE.to_owned(),
        folder: folder.clone(),
    };
    let other = CryptoProcess::start(program(), &store).await.unwrap();
    other.close().await;
    let (fake, _) = running.halt().await;
    let before = fake.calls_of("keys.upload").len();
    let running = run(fake, &json!({}), data.path());
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    assert_eq!(running.fake.calls_of("keys.upload").len(), before);
    running.stop().await;
}

#[tokio::test]
async fn failed_upload_at_the_first_start_is_repeated() {
    let (fake, data) = (fake().await, tempfile::tempdir().unwrap());
    fake.fail_next("keys.upload", Fault::Status(502));
    let running = run(fake, &json!({}), data.path());
    running.fake.wait_for_calls("keys.upload", 1).await.unwrap();
    running.fake.wait_for_waiting_syncs(1).await.unwrap();
    running.fake.end_syncs();
    let uploads = running.fake.wait_for_calls("keys.upload", 2).await;
    uploads.unwrap();
    running
        .fake
        .wait_for_calls("keys.signatures", 1)
        .await
        .unwrap();
    assert!(running.fake.one_time_keys(BOT_DEVICE) > 0);
    running.stop().await;
}

#[tokio::test]
async fn keys_are_uploaded_before_an_invitation_is_accepted() {
    let (fake, data) = (fake().await, tempfile::tempdir().unwrap());
    let (clear, secret) = ("!clear:fake.test", "!secret:fake.test");
    fake.add_room(secret, &[ann()]);
    fake.encrypt(secret);
    fake.remove_bot(secret, &ann(), "leave");
    // The program is missing at the first start, which is no error.
    let copy = data.path().join("program");
    let running = run(fake, &json!({"cryptoProgram": &copy}), data.path());
    running.fake.wait_for_waiting_syncs(1).await.unwrap();
    assert_eq!(running.assistant.seen().impaired, Vec::<String>::new());
    assert_eq!(running.assistant.seen().degraded, Vec::<String>::new());
    running.fake.invite_direct(clear, &ann());
    let joined = running.fake.wait_for_membership(clear, "join").await;
    joined.unwrap();
    assert!(running.fake.calls_of("keys.upload").is_empty());
    std::fs::copy(program(), &copy).unwrap();
    running.fake.invite_direct(secret, &ann());
    let joined = running.fake.wait_for_membership(secret, "join").await;
    joined.unwrap();
    let mut calls = running.fake.calls().into_iter();
    let first = calls
        .find(|call| call.method == "keys.upload" || call.path.iter().any(|part| part == secret));
    assert_eq!(first.unwrap().method, "keys.upload");
    // The first message after the join can be read.
    let folder = data.path().join("friend");
    let mut friend = Friend::log_in(&running.fake, &ann(), &folder).await;
    friend.say(secret, &members(), "hello").await;
    let inbound = running.assistant.message(1).await.unwrap();
    assert_eq!(inbound.content, "hello");
    running.stop().await;
}

#[tokio::test]
async fn identity_is_published_with_the_password_if_it_is_asked_for() {
    let asks = json!({
        "flows": [{"stages": ["m.login.sso"]}, {"stages": ["m.login.password"]}],
        "params": {}, "session": "S1",
    });
    for (password, expected) in [("", 1), (BOT_PASSWORD, 2)] {
        let (fake, data) = (fake().await, tempfile::tempdir().unwrap());
        fake.fail_next("keys.signing", Fault::Answer(401, asks.clone()));
        let running = run(fake, &json!({"password": password}), data.path());
        running.fake.wait_for_waiting_syncs(1).await.unwrap();
        let uploads = running.fake.calls_of("keys.signing");
        assert_eq!(uploads.len(), expected);
        assert_eq!(uploads[0].body.get("auth"), None);
        let is_signed = !running.fake.calls_of("keys.signatures").is_empty();
        assert_eq!(is_signed, expected == 2);
        if let Some(upload) = uploads.get(1) {
            let auth = json!({
                "type": "m.login.password", "session": "S1", "password": BOT_PASSWORD,
                "identifier": {"type": "m.id.user", "user": BOT_ID},
            });
            assert_eq!(upload.body["auth"], auth);
            assert_eq!(upload.body["master_key"], uploads[0].body["master_key"]);
        }
        // Without an identity the channel works as well.
        running
            .push_and_wait(Incoming::direct(&ann(), "hello"))
            .await;
        assert_eq!(running.arrived(), ["hello"]);
        running.stop().await;
    }
}

#[tokio::test]
async fn identity_of_another_client_is_kept() {
    let (fake, data) = (fake().await, tempfile::tempdir().unwrap());
    // Another session of the account has published an identity.
    let account = Person::new("nanobot");
    let other = Friend::log_in(&fake, &account, &data.path().join("other")).await;
    publish_identity(&other).await;
    let running = run(fake, &json!({}), data.path());
    running.fake.wait_for_waiting_syncs(1).await.unwrap();
    let is_by_bot = |method: &str| {
        let calls = running.fake.calls_of(method);
        calls.iter().any(|call| call.device == BOT_DEVICE)
    };
    assert!(is_by_bot("keys.upload"));
    assert!(!is_by_bot("keys.signing"));
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    assert_eq!(running.arrived(), ["hello"]);
    running.stop().await;
}

#[tokio::test]
async fn verification_in_a_room_is_answered_there() {
    let (fake, data) = (fake().await, tempfile::tempdir().unwrap());
    let mut friend = Friend::log_in(&fake, &ann(), &data.path().join("friend")).await;
    fake.encrypt(&room());
    let running = run(fake, &json!({"sasVerification": true}), data.path());
    running.fake.wait_for_calls("keys.upload", 1).await.unwrap();
    running.fake.wait_for_waiting_syncs(1).await.unwrap();
    // An answer in the room makes the assistant know the devices of its people.
    friend.say(&room(), &members(), "hello").await;
    let inbound = running.assistant.message(1).await.unwrap();
    running.channel.send(&reply(&inbound, "hi")).await.unwrap();
    friend
        .read(&room(), |content| content["body"] == "hi")
        .await;
    let request = json!({
        "msgtype": "m.key.verification.request", "body": "a request", "to": BOT_ID,
        "from_device": "FRIENDDEV", "methods": ["m.sas.v1"],
    });
    let (encrypted, keys) = friend.encrypt(&room(), &members(), &request).await;
    friend.give_keys(keys).await;
    friend
        .send(&room(), "m.room.encrypted", "request", &encrypted)
        .await;
    let is_ready = |content: &Value| content["methods"] == json!(["m.sas.v1"]);
    let ready = friend.read(&room(), is_ready).await;
    assert_eq!(ready["from_device"], BOT_DEVICE);
    assert_eq!(ready["m.relates_to"]["rel_type"], "m.reference");
    // Nothing of it is for the assistant.
    friend.say(&room(), &members(), "thanks").await;
    running.assistant.message(2).await.unwrap();
    assert_eq!(running.arrived(), ["hello", "thanks"]);
    running.stop().await;
}

#[tokio::test]
async fn clear_events_of_verifications_are_not_for_the_assistant() {
    let running = Running::start(json!({"sasVerification": true})).await;
    let request = json!({
        "msgtype": "m.key.verification.request", "body": "a request", "to": BOT_ID,
        "from_device": "FRIENDDEV", "methods": ["m.sas.v1"],
    });
    let start = json!({"from_device": "FRIENDDEV", "method": "m.sas.v1"});
    for (kind, content) in [
        ("m.room.message", request),
        ("m.key.verification.start", start),
    ] {
        let incoming = Incoming::direct(&ann(), "").of_kind(kind, content);
        running.fake.push(incoming);
    }
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    assert_eq!(running.arrived(), ["hello"]);
    running.stop().await;
}

/// Writes a program that says a number of times that the key of the room is not shared.
#[cfg(unix)]
fn forgetful_program(folder: &Path, times: usize) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let content = json!({
        "algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "c", "session_id": "s",
        "sender_key": "k", "device_id": BOT_DEVICE,
    });
    let script = format!(
        r#"#!/bin/sh
failures={times}
while read -r line; do
    id=${{line#*:}}
    id=${{id%%,*}}
    outcome='{{"done":null}}'
    case $line in
    *'"encrypt"'*)
        if [ $failures -gt 0 ]; then
            failures=$((failures - 1))
            outcome='{{"failed":"key_not_shared"}}'
        else
            outcome='{{"done":{content}}}'
        fi ;;
    *'"receive_sync"'*) outcome='{{"done":{{"rooms_with_new_keys":[]}}}}' ;;
    *'"share_room_key"'* | *'"outgoing"'* | *'"verifications"'* | *'"identity_requests"'*)
        outcome='{{"done":[]}}' ;;
    esac
    echo "{{\"id\":$id,\"outcome\":$outcome}}"
done
"#
    );
    let path = folder.join("program.sh");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[cfg(unix)]
#[tokio::test]
async fn key_that_is_due_for_rotation_is_shared_again() {
    for (times, is_sent) in [(2, true), (1000, false)] {
        let (fake, data) = (fake().await, tempfile::tempdir().unwrap());
        fake.encrypt(&room());
        let program = forgetful_program(data.path(), times);
        let running = run(fake, &json!({"cryptoProgram": program}), data.path());
        running.fake.wait_for_waiting_syncs(1).await.unwrap();
        let inbound = InboundMessage::text("matrix", ann().user_id, room(), "hi");
        let sent = running.channel.send(&reply(&inbound, "secret")).await;
        assert_eq!(sent.is_ok(), is_sent, "{sent:?}");
        let kinds = running.fake.sent().into_iter().map(|sent| sent.kind);
        let expected: &[&str] = if is_sent { &["m.room.encrypted"] } else { &[] };
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
        if let Err(error) = sent {
            let text = CryptoError::KeyNotShared.to_string();
            assert!(error.to_string().contains(&text), "{error}");
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn received_file_keeps_the_name_that_its_sender_gave() {
    let running = Running::start(json!({})).await;
    let file = Incoming::direct(&ann(), "").with_file("m.file", "report.csv", "text/csv", "a,b");
    let inbound = running.receive(file).await;
    assert_eq!(inbound.content, "[file: /media/report.csv]");
    assert_eq!(inbound.media, Vec::<MediaRef>::new());
    let kept = running.assistant.seen().kept;
    let found: Vec<_> = kept
        .iter()
        .map(|file| (file.name.as_str(), file.mime.as_deref(), &*file.bytes))
        .collect();
    assert_eq!(found, [("report.csv", Some("text/csv"), &b"a,b"[..])]);
    running.stop().await;
}
