//! Files in both directions.

use nanobot_testkit::http::{Request, Response};
use serde_json::{Value, json};

use crate::account::BOT_USER;
use crate::api::{ApiError, ApiResult};
use crate::model::{SentFile, StoredMessage, Upload};
use crate::params::Params;
use crate::state::SlackState;

impl SlackState {
    /// Returns the response to a download: without a valid token a login page, as at Slack.
    pub(crate) fn download(&self, path: &str, is_allowed: bool) -> Response {
        const OFFER: (&str, &str) = ("content-disposition", "attachment");
        let id = path
            .split('/')
            .next()
            .and_then(|ids| ids.split('-').nth(1))
            .unwrap_or_default();
        match self.downloads.get(id) {
            Some(file) if is_allowed => Response::bytes(
                200,
                &file.mime.replace(char::is_control, ""),
                file.bytes.clone(),
            )
            .with_header(OFFER.0, OFFER.1),
            Some(_) => Response::bytes(
                200,
                "text/html; charset=utf-8",
                "<!DOCTYPE html><p>Log in</p>",
            ),
            None => Response::bytes(
                404,
                "text/html; charset=utf-8",
                "<!DOCTYPE html><p>Not found</p>",
            ),
        }
    }

    pub(crate) fn offer_upload(&mut self, params: &Params) -> ApiResult {
        let length = params.number("length").filter(|length| *length > 0);
        let Some(length) = length else {
            return Err(ApiError::because(
                "invalid_arguments",
                "length must be a number above 0",
            ));
        };
        let id = format!("F1{}", self.next());
        let upload = Upload {
            name: params.text("filename").to_owned(),
            length,
            bytes: None,
        };
        self.uploads.insert(id.clone(), upload);
        Ok(json!({"upload_url": format!("{}/upload/v1/{id}", self.base), "file_id": id}))
    }

    /// Stores the bytes of an upload.
    pub(crate) fn upload(&mut self, id: &str, request: &Request) -> Response {
        match self.uploads.get_mut(id) {
            Some(upload) if upload.length == request.body.len() => {
                upload.bytes = Some(request.body.clone());
                Response::bytes(200, "text/plain", format!("OK - {}", upload.length))
            }
            Some(upload) => {
                let complaint = format!(
                    "{} bytes were announced and {} came",
                    upload.length,
                    request.body.len()
                );
                self.complaints.push(complaint);
                Response::bytes(400, "text/plain", "wrong length")
            }
            None => Response::bytes(404, "text/plain", "no such upload"),
        }
    }

    pub(crate) fn complete_upload(&mut self, params: &Params) -> ApiResult {
        let channel = match params.given("channel_id") {
            Some(channel) => Some(self.writable_channel(channel)?),
            None => None,
        };
        let thread = params.given("thread_ts").map(str::to_owned);
        let mut files = Vec::new();
        for file in params
            .json("files")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
        {
            let id = file.get("id").and_then(Value::as_str).unwrap_or_default();
            let upload = self
                .uploads
                .get(id)
                .ok_or_else(|| ApiError::new("file_not_found"))?;
            let Some(bytes) = upload.bytes.clone() else {
                return Err(ApiError::because(
                    "invalid_arguments",
                    "the file was not uploaded yet",
                ));
            };
            let sent = SentFile {
                name: upload.name.clone(),
                bytes,
            };
            files.push(json!({"id": id, "title": file.get("title"), "name": sent.name}));
            self.uploads.remove(id);
            if let Some(channel) = &channel {
                let (user, thread) = (BOT_USER.to_owned(), thread.clone());
                self.store(
                    channel,
                    StoredMessage {
                        user,
                        thread,
                        file: Some(sent),
                        ..StoredMessage::default()
                    },
                )?;
            }
        }
        if files.is_empty() {
            return Err(ApiError::because("invalid_arguments", "there are no files"));
        }
        Ok(json!({"files": files}))
    }
}
