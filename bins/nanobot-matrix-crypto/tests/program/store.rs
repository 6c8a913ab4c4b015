//! The store: its folder, its lock, its account.

use std::path::Path;

use nanobot_matrix_crypto::{CryptoError, CryptoProcess, OpenStore};

use crate::{
    homeserver::Homeserver,
    side::{MEMBERS, PROGRAM, bot_and_ann, store_in},
};

async fn refusal(store: &OpenStore) -> String {
    match CryptoProcess::start(Path::new(PROGRAM), store).await {
        Err(CryptoError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_restart_continues() {
    let mut server = Homeserver::default();
    let (mut bot, mut ann) = bot_and_ann(&mut server).await;
    ann.share(&mut server, &MEMBERS).await;
    let first = ann.say(&mut server, "one").await;
    bot.pump(&mut server).await;
    bot.restart().await;
    ann.restart().await;
    assert_eq!(bot.read(&first).await.unwrap(), "one");
    ann.share(&mut server, &MEMBERS).await;
    let second = ann.say(&mut server, "two").await;
    assert_eq!(
        first["content"]["session_id"],
        second["content"]["session_id"]
    );
    assert_eq!(bot.read(&second).await.unwrap(), "two");
}

#[tokio::test]
async fn one_process_has_the_store_open() {
    let mut server = Homeserver::default();
    let (bot, _ann) = bot_and_ann(&mut server).await;
    let expected = "another process has the store of Matrix encryption open";
    assert_eq!(refusal(&bot.store()).await, expected);
    bot.process.close().await;
    let process = CryptoProcess::start(Path::new(PROGRAM), &bot.store())
        .await
        .unwrap();
    assert_eq!(process.verifications().await.unwrap(), []);
    let error = bot.process.verifications().await.unwrap_err();
    assert_eq!(error, CryptoError::Program("has ended".to_owned()));
}

#[tokio::test]
async fn a_store_belongs_to_one_device() {
    let mut server = Homeserver::default();
    let (bot, _ann) = bot_and_ann(&mut server).await;
    bot.process.close().await;
    let devices = [("@bot:server", "OTHER"), ("@ann:server", "BOT")];
    for (user, device) in devices {
        let device = (user.to_owned(), device.to_owned());
        let why = refusal(&store_in(bot.folder.path(), &device)).await;
        let expected = "the store belongs to device BOT of @bot:server";
        assert!(why.starts_with(expected), "{why}");
    }
    let mut relative = bot.store();
    relative.folder = "store".into();
    assert_eq!(
        refusal(&relative).await,
        "the folder of the store is not an absolute path"
    );
    let mut nobody = bot.store();
    nobody.user_id = "bot".to_owned();
    assert!(refusal(&nobody).await.starts_with("the user id is invalid"));
}

#[tokio::test]
async fn a_damaged_store_is_refused() {
    let mut server = Homeserver::default();
    let (bot, _ann) = bot_and_ann(&mut server).await;
    bot.process.close().await;
    let store = bot.store();
    std::fs::write(
        store.folder.join("matrix-sdk-crypto.sqlite3"),
        b"not a database",
    )
    .unwrap();
    assert!(
        refusal(&store)
            .await
            .starts_with("the store cannot be opened")
    );
}

#[cfg(unix)]
#[tokio::test]
async fn others_cannot_read_the_store() {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut server = Homeserver::default();
    let (mut bot, _ann) = bot_and_ann(&mut server).await;
    let folder = bot.store().folder;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&folder, open).unwrap();
    bot.restart().await;
    assert_eq!(mode(&folder), 0o700);
    let mut names = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
        names.push(entry.file_name().into_string().unwrap());
    }
    for name in ["lock", "matrix-sdk-crypto.sqlite3", "nanobot-seen.sqlite3"] {
        assert!(names.iter().any(|other| other == name), "{names:?}");
    }
}
