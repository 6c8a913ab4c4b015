//! Tests of the Telegram fake with teloxide, whose strict types check the shape of its answers.

use nanobot_channel_telegram_fake::{
    BOT_USERNAME, FileKind, Incoming, Person, SentFile, SentMessage, TOKEN, TelegramFake,
};
use serde_json::json;
use teloxide::net::Download as _;
use teloxide::payloads::{
    DeleteWebhookSetters as _, EditMessageTextSetters as _, GetUpdatesSetters as _,
    SendChatActionSetters as _, SendDocumentSetters as _, SendMessageSetters as _,
    SendPhotoSetters as _, SetMessageReactionSetters as _,
};
use teloxide::prelude::Requester as _;
use teloxide::types::{
    AllowedUpdate, BotCommand, ChatAction, ChatId, InlineKeyboardButton, InlineKeyboardMarkup,
    InputFile, MediaKind, MessageEntityKind, MessageId, MessageKind, ParseMode, ReactionType,
    ReplyParameters, ThreadId, Update, UpdateKind,
};
use teloxide::{ApiError, Bot, RequestError};

const GROUP: i64 = -1_001_234_567_890;

async fn start() -> (TelegramFake, Bot) {
    let fake = TelegramFake::start().await.unwrap();
    let bot = Bot::new(TOKEN).set_api_url(fake.api_base().parse().unwrap());
    (fake, bot)
}

fn ann() -> Person {
    Person::new(7, "Ann", "ann_x")
}

fn message_of(update: &Update) -> &teloxide::types::Message {
    match &update.kind {
        UpdateKind::Message(message) | UpdateKind::EditedMessage(message) => message,
        other => panic!("no message: {other:?}"),
    }
}

#[tokio::test]
async fn client_can_introduce_its_bot() {
    let (fake, bot) = start().await;
    let me = bot.get_me().await.unwrap();
    assert_eq!((me.username(), me.is_bot), (BOT_USERNAME, true));
    assert_eq!(bot.get_webhook_info().await.unwrap().url, None);
    bot.delete_webhook()
        .drop_pending_updates(false)
        .await
        .unwrap();
    bot.set_my_commands([BotCommand::new("new", "A new conversation")])
        .await
        .unwrap();
    assert_eq!(
        fake.commands(),
        json!([{"command": "new", "description": "A new conversation"}])
    );
    assert_eq!(
        bot.get_my_commands().await.unwrap(),
        [BotCommand::new("new", "A new conversation")]
    );
    let refused = bot
        .set_my_commands([BotCommand::new("New-One", "x")])
        .await
        .unwrap_err();
    assert!(
        matches!(refused, RequestError::Api(ApiError::Unknown(text)) if text.contains("BOT_COMMAND_INVALID"))
    );
    let methods: Vec<String> = fake.calls().into_iter().map(|call| call.method).collect();
    let expected = [
        "getMe",
        "getWebhookInfo",
        "deleteWebhook",
        "setMyCommands",
        "getMyCommands",
        "setMyCommands",
    ];
    assert_eq!(methods, expected);
}

#[tokio::test]
async fn every_kind_of_update_parses() {
    let (fake, bot) = start().await;
    let first = fake.push(Incoming::private(&ann(), "hello"));
    fake.push(Incoming::private(&ann(), "/new@nanobot_test_bot now"));
    fake.push(Incoming::group(GROUP, &ann(), format!("😀 @{BOT_USERNAME} hi")).in_topic(5));
    fake.push(Incoming::group(-42, &ann(), "no supergroup"));
    fake.push(Incoming::private(&ann(), "as I said").replying_to(first.message_id));
    fake.push(
        Incoming::private(&ann(), "see")
            .with_file(FileKind::Photo, "a.jpg", "image/jpeg", "JPEG")
            .in_album("9"),
    );
    for kind in [
        FileKind::Document,
        FileKind::Voice,
        FileKind::Audio,
        FileKind::Video,
        FileKind::Animation,
    ] {
        fake.push(Incoming::private(&ann(), "").with_file(
            kind,
            "f.bin",
            "application/x-thing",
            "bytes",
        ));
    }
    fake.edit(7, first.message_id, "hello!").unwrap();
    let updates = bot.get_updates().await.unwrap();
    let kinds: Vec<&MediaKind> = updates
        .iter()
        .map(|update| match &message_of(update).kind {
            MessageKind::Common(common) => &common.media_kind,
            other => panic!("no common message: {other:?}"),
        })
        .collect();
    use MediaKind::{Animation, Audio, Document, Photo, Text, Video, Voice};
    assert!(
        matches!(
            kinds.as_slice(),
            [
                Text(_),
                Text(_),
                Text(_),
                Text(_),
                Text(_),
                Photo(_),
                Document(_),
                Voice(_),
                Audio(_),
                Video(_),
                Animation(_),
                Text(_)
            ]
        ),
        "{kinds:?}"
    );
    let [_, command, topic, small_group, reply, photo, .., edited] = updates.as_slice() else {
        panic!("{updates:?}")
    };
    assert_eq!(
        message_of(command).entities().unwrap()[0].kind,
        MessageEntityKind::BotCommand
    );
    let topic = message_of(topic);
    assert_eq!(topic.entities().unwrap()[0].offset, 3);
    assert_eq!(
        (topic.thread_id, topic.is_topic_message),
        (Some(ThreadId(MessageId(5))), true)
    );
    assert!(topic.chat.is_supergroup());
    assert!(message_of(small_group).chat.is_group());
    assert_eq!(
        message_of(reply).reply_to_message().unwrap().text(),
        Some("hello")
    );
    assert_eq!(message_of(photo).caption(), Some("see"));
    assert_eq!(message_of(photo).media_group_id().unwrap().0, "9");
    assert!(matches!(edited.kind, UpdateKind::EditedMessage(_)));
    assert_eq!(message_of(edited).text(), Some("hello!"));
}

#[tokio::test]
async fn offset_confirms_exactly_the_earlier_updates() {
    let (fake, bot) = start().await;
    let pushed: Vec<_> = (0..3)
        .map(|n| fake.push(Incoming::private(&ann(), format!("{n}"))))
        .collect();
    let ids = |updates: Vec<Update>| {
        updates
            .into_iter()
            .map(|update| i64::from(update.id.0))
            .collect::<Vec<_>>()
    };
    let all: Vec<i64> = pushed
        .iter()
        .map(|pushed| pushed.update_id.unwrap())
        .collect();
    let offset = |id: i64| i32::try_from(id).unwrap();
    assert_eq!(ids(bot.get_updates().await.unwrap()), all);
    assert_eq!(
        ids(bot.get_updates().await.unwrap()),
        all,
        "nothing was confirmed"
    );
    assert_eq!(ids(bot.get_updates().limit(1).await.unwrap()), all[..1]);
    assert!(!fake.is_acknowledged(pushed[0]));
    assert_eq!(
        ids(bot.get_updates().offset(offset(all[1])).await.unwrap()),
        all[1..]
    );
    assert!(fake.is_acknowledged(pushed[0]) && !fake.is_acknowledged(pushed[1]));
    assert_eq!(
        ids(bot.get_updates().offset(offset(all[0])).await.unwrap()),
        all[1..],
        "what is gone stays gone"
    );
    assert_eq!(ids(bot.get_updates().offset(-1).await.unwrap()), all[2..]);
    assert_eq!(
        ids(bot.get_updates().await.unwrap()),
        all[2..],
        "a negative offset forgets what is before it"
    );
    assert_eq!(
        ids(bot.get_updates().offset(offset(all[2] + 1)).await.unwrap()),
        Vec::<i64>::new()
    );
    assert_eq!(
        (fake.acknowledged_offset(), fake.pending().len()),
        (all[2] + 1, 0)
    );
}

#[tokio::test]
async fn allowed_updates_filters_kinds() {
    let (fake, bot) = start().await;
    bot.get_updates()
        .allowed_updates([AllowedUpdate::Message])
        .await
        .unwrap();
    let pushed = fake.push(Incoming::private(&ann(), "x"));
    assert_eq!(
        fake.edit(7, pushed.message_id, "y").unwrap().update_id,
        None
    );
    assert_eq!(bot.get_updates().await.unwrap().len(), 1);
}

#[tokio::test]
async fn long_poll_waits_and_a_second_poller_ends_it() {
    let (fake, bot) = start().await;
    let (updates, pushed) = tokio::join!(
        async { bot.get_updates().timeout(50).await.unwrap() },
        async {
            fake.wait_for_calls("getUpdates", 1).await.unwrap();
            fake.push(Incoming::private(&ann(), "x"))
        }
    );
    assert_eq!(updates.len(), 1);
    let next = i32::try_from(pushed.update_id.unwrap()).unwrap() + 1;
    let (first, second) = tokio::join!(
        async { bot.get_updates().offset(next).timeout(50).await },
        async {
            fake.wait_for_calls("getUpdates", 2).await.unwrap();
            bot.get_updates().offset(next).await
        }
    );
    assert!(
        matches!(
            first,
            Err(RequestError::Api(ApiError::TerminatedByOtherGetUpdates))
        ),
        "{first:?}"
    );
    assert_eq!(second.unwrap().len(), 0);
    assert_eq!(fake.conflicts(), 1);
    fake.wait_for_acknowledged(pushed).await.unwrap();
}

#[tokio::test]
async fn sending_editing_and_deleting() {
    let (fake, bot) = start().await;
    fake.push(Incoming::group(GROUP, &ann(), "hi").in_topic(5));
    let keyboard = InlineKeyboardMarkup::new([[InlineKeyboardButton::callback("Yes", "y")]]);
    let sent = bot
        .send_message(ChatId(GROUP), "<b>one</b> &lt;")
        .parse_mode(ParseMode::Html)
        .message_thread_id(ThreadId(MessageId(5)))
        .reply_parameters(ReplyParameters::new(MessageId(1)))
        .reply_markup(keyboard)
        .await
        .unwrap();
    assert_eq!(
        (sent.text(), sent.thread_id),
        (Some("one <"), Some(ThreadId(MessageId(5))))
    );
    assert_eq!(sent.entities().unwrap()[0].kind, MessageEntityKind::Bold);
    assert_eq!(sent.reply_to_message().unwrap().id, MessageId(1));
    let edited = bot
        .edit_message_text(ChatId(GROUP), sent.id, "two")
        .await
        .unwrap();
    assert_eq!(edited.text(), Some("two"));
    let again = bot
        .edit_message_text(ChatId(GROUP), sent.id, "two")
        .parse_mode(ParseMode::Html)
        .await
        .unwrap_err();
    assert!(
        matches!(again, RequestError::Api(ApiError::MessageNotModified)),
        "{again:?}"
    );
    let expected = SentMessage {
        chat_id: GROUP,
        message_id: 2,
        thread_id: Some(5),
        reply_to: Some(1),
        text: "two".to_owned(),
        entities: Vec::new(),
        source: "two".to_owned(),
        parse_mode: String::new(),
        history: vec!["one <".to_owned()],
        file: None,
        reply_markup: None,
        is_deleted: false,
    };
    assert_eq!(fake.sent(), std::slice::from_ref(&expected));
    bot.delete_message(ChatId(GROUP), sent.id).await.unwrap();
    assert_eq!(
        fake.sent(),
        [SentMessage {
            is_deleted: true,
            ..expected
        }]
    );
    assert_eq!(fake.texts_in(GROUP), Vec::<String>::new());
    let gone = bot
        .delete_message(ChatId(GROUP), sent.id)
        .await
        .unwrap_err();
    assert!(
        matches!(gone, RequestError::Api(ApiError::MessageToDeleteNotFound)),
        "{gone:?}"
    );
}

#[tokio::test]
async fn refusals_match_telegrams_texts() {
    let (fake, bot) = start().await;
    fake.push(Incoming::private(&ann(), "hi"));
    let chat = ChatId(7);
    let send = |text: &str| bot.send_message(chat, text);
    let html = |text: &str| bot.send_message(chat, text).parse_mode(ParseMode::Html);
    let error = |result: Result<teloxide::types::Message, RequestError>| match result {
        Err(RequestError::Api(error)) => error,
        other => panic!("no refusal: {other:?}"),
    };
    assert_eq!(
        error(bot.send_message(ChatId(99), "x").await),
        ApiError::ChatNotFound
    );
    assert_eq!(error(send(" \n ").await), ApiError::MessageTextIsEmpty);
    assert_eq!(
        error(send(&"😀".repeat(2049)).await),
        ApiError::MessageIsTooLong
    );
    assert!(send(&"😀".repeat(2048)).await.is_ok());
    assert!(html(&format!("<b>{}</b>", "x".repeat(4096))).await.is_ok());
    assert!(matches!(
        error(html("a<br>b").await),
        ApiError::CantParseEntities(_)
    ));
    let reply = send("x").reply_parameters(ReplyParameters::new(MessageId(77)));
    assert_eq!(error(reply.await), ApiError::MessageToReplyNotFound);
    let lenient = ReplyParameters::new(MessageId(77)).allow_sending_without_reply();
    assert!(send("x").reply_parameters(lenient).await.is_ok());
    let missing = bot.edit_message_text(chat, MessageId(77), "x").await;
    assert_eq!(error(missing), ApiError::MessageToEditNotFound);
    assert_eq!(
        error(bot.edit_message_text(chat, MessageId(1), "x").await),
        ApiError::MessageCantBeEdited
    );
    assert!(matches!(
        error(send("x").message_thread_id(ThreadId(MessageId(3))).await),
        ApiError::Unknown(text) if text.contains("message thread not found")
    ));
    let long = InlineKeyboardMarkup::new([[InlineKeyboardButton::callback("Yes", "y".repeat(65))]]);
    assert_eq!(
        error(send("x").reply_markup(long).await),
        ApiError::ButtonDataInvalid
    );
    let wrong = Bot::new("1:wrong").set_api_url(fake.api_base().parse().unwrap());
    assert!(matches!(
        wrong.get_me().await,
        Err(RequestError::Api(ApiError::InvalidToken))
    ));
    fake.revoke_token();
    assert!(matches!(
        bot.get_me().await,
        Err(RequestError::Api(ApiError::InvalidToken))
    ));
}

#[tokio::test]
async fn files_are_uploaded_and_downloaded() {
    let (fake, bot) = start().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    fake.push(Incoming::private(&ann(), "").with_file(
        FileKind::Photo,
        "p.jpg",
        "image/jpeg",
        bytes.clone(),
    ));
    let updates = bot.get_updates().await.unwrap();
    let photo = message_of(&updates[0]).photo().unwrap().last().unwrap();
    let file = bot.get_file(photo.file.id.clone()).await.unwrap();
    let mut downloaded = std::io::Cursor::new(Vec::new());
    bot.download_file(&file.path, &mut downloaded)
        .await
        .unwrap();
    assert_eq!(downloaded.into_inner(), bytes);
    let upload = InputFile::memory(bytes.clone()).file_name("tüte \"1\".png");
    bot.send_photo(ChatId(7), upload)
        .caption("<i>c</i>")
        .parse_mode(ParseMode::Html)
        .await
        .unwrap();
    bot.send_document(ChatId(7), InputFile::memory("x").file_name("d.txt"))
        .caption("d")
        .await
        .unwrap();
    bot.send_voice(ChatId(7), InputFile::memory("v").file_name("v.ogg"))
        .await
        .unwrap();
    bot.send_audio(ChatId(7), InputFile::memory("a").file_name("a.mp3"))
        .await
        .unwrap();
    bot.send_photo(ChatId(7), InputFile::file_id(photo.file.id.clone()))
        .await
        .unwrap();
    let sent = fake.wait_for_sent(5).await.unwrap();
    let file = |kind, name: &str, bytes: &[u8]| {
        Some(SentFile {
            kind,
            name: name.to_owned(),
            bytes: bytes.to_vec().into(),
        })
    };
    let expected = [
        ("c", file(FileKind::Photo, "tüte \"1\".png", &bytes)),
        ("d", file(FileKind::Document, "d.txt", b"x")),
        ("", file(FileKind::Voice, "v.ogg", b"v")),
        ("", file(FileKind::Audio, "a.mp3", b"a")),
        ("", file(FileKind::Photo, "p.jpg", &bytes)),
    ];
    for (sent, (text, file)) in sent.iter().zip(expected) {
        assert_eq!((sent.text.as_str(), &sent.file), (text, &file));
    }
    let unknown = bot
        .send_photo(ChatId(7), InputFile::file_id("nope".into()))
        .await
        .unwrap_err();
    assert!(
        matches!(unknown, RequestError::Api(ApiError::WrongFileIdOrUrl)),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn reactions_actions_and_buttons() {
    let (fake, bot) = start().await;
    let pushed = fake.push(Incoming::group(GROUP, &ann(), "hi").in_topic(5));
    let message_id = MessageId(i32::try_from(pushed.message_id).unwrap());
    let eyes = ReactionType::Emoji {
        emoji: "👀".to_owned(),
    };
    bot.set_message_reaction(ChatId(GROUP), message_id)
        .reaction([eyes])
        .await
        .unwrap();
    assert_eq!(fake.reactions(GROUP, pushed.message_id), ["👀"]);
    let odd = ReactionType::Emoji {
        emoji: "🧦".to_owned(),
    };
    assert!(
        bot.set_message_reaction(ChatId(GROUP), message_id)
            .reaction([odd])
            .await
            .is_err()
    );
    bot.set_message_reaction(ChatId(GROUP), message_id)
        .await
        .unwrap();
    assert_eq!(
        fake.reactions(GROUP, pushed.message_id),
        Vec::<String>::new()
    );
    let thread = ThreadId(MessageId(5));
    bot.send_chat_action(ChatId(GROUP), ChatAction::Typing)
        .message_thread_id(thread)
        .await
        .unwrap();
    let expected = json!({"chat_id": GROUP, "action": "typing", "message_thread_id": 5});
    assert_eq!(fake.calls_of("sendChatAction")[0].params, expected);
    let keyboard = InlineKeyboardMarkup::new([[InlineKeyboardButton::callback("Yes", "y")]]);
    let sent = bot
        .send_message(ChatId(GROUP), "ok?")
        .reply_markup(keyboard)
        .await
        .unwrap();
    fake.press(GROUP, i64::from(sent.id.0), &ann(), "y")
        .unwrap();
    let updates = bot.get_updates().offset(-1).await.unwrap();
    let UpdateKind::CallbackQuery(query) = &updates[0].kind else {
        panic!("{updates:?}")
    };
    assert_eq!((query.data.as_deref(), query.from.id.0), (Some("y"), 7));
    assert_eq!(query.regular_message().unwrap().text(), Some("ok?"));
    bot.answer_callback_query(query.id.clone()).await.unwrap();
    let again = bot
        .answer_callback_query(query.id.clone())
        .await
        .unwrap_err();
    assert!(
        matches!(again, RequestError::Api(ApiError::InvalidQueryId)),
        "{again:?}"
    );
}
