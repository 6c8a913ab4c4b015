//! The media repository.

use nanobot_testkit::http::Response;
use serde_json::json;

use crate::account::SERVER_NAME;
use crate::api::{ApiError, ApiResult, Outcome, success};
use crate::params::Params;
use crate::state::MatrixState;

impl MatrixState {
    pub(crate) fn media_config(&mut self, _: &Params) -> ApiResult {
        success(json!({"m.upload.size": self.upload_limit}))
    }

    pub(crate) fn upload(&mut self, params: &Params) -> ApiResult {
        let size = u64::try_from(params.bytes.len()).unwrap_or(u64::MAX);
        if size > self.upload_limit {
            return Err(ApiError::of_code("M_TOO_LARGE"));
        }
        if params.content_type.is_empty() {
            self.complain("upload: no content-type");
        }
        let name = params.queried("filename").map(str::to_owned);
        let url = self.add_media(&params.content_type, name, params.bytes.clone());
        success(json!({"content_uri": url}))
    }

    pub(crate) fn download(&mut self, params: &Params) -> ApiResult {
        let media = self.media.get(params.segment(1));
        let media = media.filter(|_| params.segment(0) == SERVER_NAME);
        let media = media.ok_or_else(|| ApiError::not_found("Media"))?;
        let name = match params.segment(2) {
            "" => media.name.as_deref().unwrap_or_default(),
            name => name,
        };
        // Only such names need no encoding.
        let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let mut disposition = "attachment".to_owned();
        if !name.is_empty() {
            let name = if is_plain(name) { name } else { "file" };
            disposition = format!("attachment; filename={name}");
        }
        let response = Response::bytes(200, &media.mime, media.bytes.clone());
        Ok(Outcome::Whole(
            response
                .with_header("Content-Disposition", disposition)
                .with_header("Content-Security-Policy", "sandbox; default-src 'none'"),
        ))
    }

    pub(crate) fn download_unauthenticated(&mut self, params: &Params) -> ApiResult {
        if self.needs_auth_for_media {
            return Err(ApiError::not_found("Media"));
        }
        self.download(params)
    }
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::http::ResponseStep;
    use serde_json::Value;

    use super::*;
    use crate::handler::Served;
    use crate::probe::Probe;

    #[test]
    fn uploads_are_downloaded_again() {
        let mut probe = Probe::new();
        let (_, answer) = probe.upload("text/plain", b"words");
        let url = answer["content_uri"].as_str().unwrap().to_owned();
        let id = url.strip_prefix("mxc://").unwrap();
        let new = format!("/_matrix/client/v1/media/download/{id}");
        let old = format!("/_matrix/media/v3/download/{id}/b.txt");
        for path in [&new, &old] {
            let Served::Done(response) = probe.serve("GET", path, &Value::Null) else {
                panic!("no response");
            };
            let step = ResponseStep::text("words");
            assert_eq!(
                (response.status, response.steps.as_slice()),
                (200, &[step][..])
            );
        }
        probe.state.needs_auth_for_media = true;
        assert_eq!(probe.code("GET", &old, &Value::Null), "M_NOT_FOUND");
        assert_eq!(
            probe.code("GET", &format!("{new}x"), &Value::Null),
            "M_NOT_FOUND"
        );
        probe.state.upload_limit = 4;
        let (status, answer) = probe.upload("text/plain", b"words");
        assert_eq!((status, &answer["errcode"]), (413, &json!("M_TOO_LARGE")));
        assert_eq!(probe.complaints(), Vec::<String>::new());
        probe.upload("", b"x");
        assert_eq!(probe.complaints(), ["upload: no content-type"]);
    }
}
