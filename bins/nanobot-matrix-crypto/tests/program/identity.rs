//! The cross-signing identity.

use nanobot_matrix_crypto::CryptoError;

use crate::{
    homeserver::Homeserver,
    side::{MEMBERS, ROOM, Side, bot_and_ann, settle},
};

async fn publish(server: &mut Homeserver, side: &Side) -> Result<(), CryptoError> {
    for _ in 0..10 {
        let requests = side.process.identity_requests().await?;
        if requests.is_empty() {
            return Ok(());
        }
        side.send(server, requests).await;
    }
    panic!("the identity is never published");
}

#[tokio::test]
async fn others_see_that_the_device_belongs_to_its_owner() {
    let mut server = Homeserver::default();
    let (mut bot, ann) = bot_and_ann(&mut server).await;
    publish(&mut server, &bot).await.unwrap();
    bot.restart().await;
    publish(&mut server, &bot).await.unwrap();
    // Ann follows the devices of the members of the room.
    ann.share(&mut server, &MEMBERS).await;
    settle(&mut server, &[&bot, &ann]).await;
    bot.share(&mut server, &MEMBERS).await;
    let event = bot.say(&mut server, "hello").await;
    ann.pump(&mut server).await;
    assert!(ann.process.decrypt(ROOM, &event).await.unwrap().is_verified);
}

#[tokio::test]
async fn an_identity_of_another_client_is_not_replaced() {
    let mut server = Homeserver::default();
    let element = Side::new(&mut server, "@bot:server", "ELEMENT").await;
    publish(&mut server, &element).await.unwrap();
    let bot = Side::new(&mut server, "@bot:server", "BOT").await;
    let error = publish(&mut server, &bot).await.unwrap_err();
    assert!(
        matches!(&error, CryptoError::Refused(why) if why.contains("verify")),
        "{error}"
    );
}

#[tokio::test]
async fn a_homeserver_that_shows_no_identity_is_not_asked_for_ever() {
    let mut server = Homeserver::default();
    let (bot, _ann) = bot_and_ann(&mut server).await;
    let mut error = None;
    for _ in 0..10 {
        match bot.process.identity_requests().await {
            Ok(requests) => {
                for request in requests {
                    let body = if request.path.ends_with("query") {
                        server.handle(&bot.device, &request).1
                    } else {
                        serde_json::json!({ "one_time_key_counts": {} })
                    };
                    bot.process.answered(&request.id, 200, body).await.unwrap();
                }
            }
            Err(refused) => error = Some(refused),
        }
    }
    assert!(matches!(error, Some(CryptoError::Refused(_))), "{error:?}");
}
