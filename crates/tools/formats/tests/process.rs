//! The helper process against hostile documents.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::{
    fs,
    io::{Read as _, Write as _},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use nanobot_extract::{
    Extract, ExtractError, ExtractRequest, ExtractResponse, Extractor, HelperProcess, PageRequest,
    TextMode,
};
use nanobot_testkit::pdf;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nanobot-extract-helper");

fn helper() -> Arc<dyn Extract> {
    Arc::new(HelperProcess::at(PROGRAM.into()))
}

fn page(body: impl Into<Vec<u8>>, content_type: &str) -> PageRequest {
    PageRequest {
        url: "http://x.example/".to_owned(),
        content_type: content_type.to_owned(),
        mode: TextMode::Markdown,
        body: body.into(),
    }
}

fn article() -> String {
    let text = "Boil the water, let it cool a little, pour it over the leaves. ".repeat(12);
    format!(
        "<html><head><title>Tea</title></head><body><article><p>{text}</p></article></body></html>"
    )
}

async fn still_reads(helper: &Arc<dyn Extract>) {
    let read = helper.page(page(article(), "text/html")).await.unwrap();
    assert_eq!(read.extractor, Extractor::Readability);
    assert!(read.text.starts_with("# Tea\n\nBoil"), "{}", read.text);
}

#[tokio::test]
async fn survives_pages_that_exhaust_stack_or_time() {
    let helper = helper();
    for (name, body) in [
        (
            "12 KB of nested elements",
            format!("<html><body>{}text", "<div>".repeat(2400)),
        ),
        (
            "16,000 nested elements",
            format!("<html><body>{}text", "<div>".repeat(16_000)),
        ),
        (
            "scripts without an end",
            format!("<html><body>{}", "<script>".repeat(16_000)),
        ),
        ("4 MB of tags", "<b>".repeat(1 << 20)),
    ] {
        match helper.page(page(body, "text/html")).await {
            Ok(read) => {
                assert!(read.text.len() <= 9 << 20, "{name}");
            }
            Err(error) => {
                assert!(
                    matches!(error, ExtractError::OutOfMemory | ExtractError::OutOfTime),
                    "{name}: {error:?}"
                );
                assert!(error.blames_input(), "{name}");
            }
        }
        still_reads(&helper).await;
    }
}

/// The parser keeps nested mails as nested values, and dropping them recurses.
#[tokio::test]
async fn stack_overflow_ends_only_the_helper() {
    let helper = helper();
    let deep = "Content-Type:(;)message/rfc822\r\n\r\n".repeat(550_000);
    let error = helper
        .mail(deep.into_bytes())
        .await
        .map(|read| read.files.len())
        .unwrap_err();
    assert!(matches!(error, ExtractError::OutOfMemory), "{error:?}");
    assert_eq!(error.to_string(), "the reader ran out of memory or stack");
    still_reads(&helper).await;
}

#[tokio::test]
async fn survives_hostile_mails() {
    let helper = helper();
    let nested = |header: &str| format!("{header}\r\n\r\n").repeat(100_000);
    for (name, mail) in [
        (
            "a blank in the name",
            nested("Con tent-Type : message/rfc822"),
        ),
        ("a comment", nested("Content-Type: (a)message/rfc822")),
        (
            "a comment with a line end",
            nested("Content-Type: (;)message/(\r\n )rfc822"),
        ),
        ("a leading colon", nested(":Content-Type: message/rfc822")),
        (
            "a colon after a tab",
            nested("Content-Type\t: message/rfc822"),
        ),
        (
            "100,000 parameters",
            format!(
                "Content-Type: text/plain{}\r\n\r\nx",
                "; a*0*=utf-8''b".repeat(100_000)
            ),
        ),
        ("100,000 named ones", {
            let list: String = (0..100_000)
                .map(|number| format!(";\r\n a*{number}=b"))
                .collect();
            format!("Content-Type: text/plain{list}\r\n\r\nx")
        }),
        (
            "3.3 MB of all of them",
            ["Content- Type : ", ":Content-Type: ", "Content-Type: (a)"]
                .map(|header| format!("{header}message/rfc822\r\n\r\n"))
                .concat()
                .repeat(33_000),
        ),
        (
            "many parts",
            format!(
                "Content-Type: multipart/mixed; boundary=b\r\n\r\n{}",
                "--b\r\n\r\nx\r\n".repeat(300_000)
            ),
        ),
    ] {
        for request in [
            ExtractRequest::MailHeader(mail.clone().into_bytes()),
            ExtractRequest::Mail(mail.into_bytes()),
        ] {
            if let Err(error) = helper.extract(request).await {
                let is_limit = matches!(error, ExtractError::OutOfMemory | ExtractError::OutOfTime);
                assert!(
                    is_limit || matches!(error, ExtractError::Unreadable(_)),
                    "{name}: {error:?}"
                );
            }
        }
        let read = helper
            .mail(b"Subject: x\r\n\r\nstill here".to_vec())
            .await
            .unwrap();
        assert_eq!(read.text, "still here", "{name}");
    }
}

#[tokio::test]
async fn reads_four_megabytes_of_json_in_bounded_memory() {
    let helper = helper();
    for (body, expected) in [
        (format!("[{}1]", "1,".repeat(400_000)), Extractor::Json),
        (
            format!("[[[{}1]]]", "{},".repeat((4 << 20) / 3 - 2)),
            Extractor::Raw,
        ),
        ("[".repeat(4 << 20), Extractor::Raw),
    ] {
        let read = helper.page(page(body, "application/json")).await.unwrap();
        assert_eq!(read.extractor, expected);
    }
}

#[tokio::test]
async fn reads_concurrently_and_ends_dropped_requests() {
    let helper = helper();
    let slow = format!("<html><body>{}text", "<ul><li>".repeat(30_000));
    {
        let reading = helper.page(page(slow.clone(), "text/html"));
        let dropped = tokio::time::timeout(Duration::from_millis(200), reading).await;
        drop(dropped);
    }
    let pages = (0..6).map(|_| {
        let helper = Arc::clone(&helper);
        async move { still_reads(&helper).await }
    });
    let mut set = tokio::task::JoinSet::new();
    pages.for_each(|page| drop(set.spawn(page)));
    set.join_all().await;
}

#[tokio::test]
async fn a_document_that_is_too_large_is_not_sent() {
    let error = helper()
        .extract(ExtractRequest::Mail(vec![0; (64 << 20) + 1]))
        .await
        .unwrap_err();
    assert!(matches!(error, ExtractError::TooLarge { .. }), "{error:?}");
}

#[tokio::test]
async fn large_attachments_arrive_whole() {
    let line = format!("{}\r\n", "QUJD".repeat(19));
    let mail = format!(
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nsee\r\n--b\r\nContent-Type: image/png; name=a.png\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{}--b--\r\n",
        line.repeat(250_000)
    );
    let read = helper().mail(mail.into_bytes()).await.unwrap();
    let [file] = read.files.as_slice() else {
        panic!("one file")
    };
    assert_eq!(
        (file.name.as_str(), file.bytes.len()),
        ("a.png", 250_000 * 57)
    );
}

#[tokio::test]
async fn programs_that_are_not_helpers_are_errors() {
    for program in ["/bin/true", "/bin/false", "/nowhere/at/all"] {
        let other = HelperProcess::at(program.into());
        let error = other
            .extract(ExtractRequest::Mail(Vec::new()))
            .await
            .unwrap_err();
        assert!(
            matches!(error, ExtractError::Ended(_) | ExtractError::Start(_)),
            "{program}: {error:?}"
        );
        assert!(!error.blames_input(), "{program}");
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _, path::Path};

    use super::*;

    /// A helper whose processes are recorded.
    struct RecordedHelper {
        folder: tempfile::TempDir,
        helper: Arc<dyn Extract>,
    }

    impl RecordedHelper {
        /// Prepares a helper and waits until its process has started.
        async fn prepared() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (program, starts) = (folder.path().join("helper"), folder.path().join("starts"));
            let script = format!(
                "#!/bin/sh\necho $$ >> '{}'\nexec '{PROGRAM}' \"$@\"\n",
                starts.display()
            );
            fs::write(&program, script).unwrap();
            fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
            let helper: Arc<dyn Extract> = Arc::new(HelperProcess::at(program));
            while !fs::read_to_string(&starts).is_ok_and(|ids| ids.ends_with('\n')) {
                // Only the first call starts a helper, unless a child of another test still holds
                // the script open.
                helper.prepare();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Self { folder, helper }
        }

        /// Returns the process ids so far, in the order of their starts.
        fn process_ids(&self) -> Vec<String> {
            let ids = fs::read_to_string(self.folder.path().join("starts")).unwrap();
            ids.lines().map(str::to_owned).collect()
        }
    }

    #[tokio::test]
    async fn helper_has_no_environment_and_resource_limits() {
        let mut child = Command::new(PROGRAM)
            .arg("__read-documents-2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .env_clear()
            .spawn()
            .unwrap();
        // The first response comes after the limits are set.
        let facts = br#""Mail""#;
        let document = b"\r\n\r\nx";
        let mut frame = Vec::new();
        frame.extend(2_u32.to_le_bytes());
        frame.extend(u32::try_from(facts.len()).unwrap().to_le_bytes());
        frame.extend(u32::try_from(document.len()).unwrap().to_le_bytes());
        frame.extend(facts);
        frame.extend(document);
        child.stdin.as_mut().unwrap().write_all(&frame).unwrap();
        let mut count = [0; 4];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut count)
            .unwrap();
        assert_eq!(count, 2_u32.to_le_bytes());
        let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
        let limit = |name: &str| {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            let words: Vec<&str> = line.trim_start_matches(name).split_whitespace().collect();
            (words[0].to_owned(), words[1].to_owned())
        };
        for name in ["Max file size", "Max core file size", "Max processes"] {
            assert_eq!(limit(name), ("0".to_owned(), "0".to_owned()), "{name}");
        }
        assert_eq!(limit("Max open files"), ("3".to_owned(), "3".to_owned()));
        for name in ["Max cpu time", "Max address space"] {
            let (soft, hard) = limit(name);
            assert!(
                soft.parse::<u64>().unwrap() < hard.parse().unwrap(),
                "{name}: {soft} {hard}"
            );
        }
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[tokio::test]
    async fn prepared_helper_serves_the_next_request() {
        let recorded = RecordedHelper::prepared().await;
        still_reads(&recorded.helper).await;
        assert_eq!(recorded.process_ids().len(), 1);
    }

    /// The next document may find the killed process dead, or still ending.
    #[tokio::test]
    async fn killed_idle_helper_is_replaced() {
        let recorded = RecordedHelper::prepared().await;
        still_reads(&recorded.helper).await;
        for round in 1..20 {
            let ids = recorded.process_ids();
            assert_eq!(ids.len(), round);
            let last = ids.last().unwrap();
            let killed = Command::new("kill").args(["-9", last]).status().unwrap();
            assert!(killed.success());
            still_reads(&recorded.helper).await;
        }
    }

    /// A file that the parent left open is closed before anything is read, which its other end
    /// notices.
    #[test]
    fn inherited_files_are_closed() {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            r#"exec 9>&1 >/dev/null; exec "$0" __read-documents-2"#,
            PROGRAM,
        ]);
        let mut child = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut rest = Vec::new();
        // This returns while the helper waits for a request.
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_to_end(&mut rest)
            .unwrap();
        assert_eq!((rest, child.try_wait().unwrap()), (Vec::new(), None));
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[tokio::test]
    async fn idle_and_dropped_helpers_end() {
        for is_dropped in [false, true] {
            let recorded = RecordedHelper::prepared().await;
            still_reads(&recorded.helper).await;
            let ids = recorded.process_ids();
            let helper = Some(recorded.helper).filter(|_| !is_dropped);
            let ended = async {
                while ids.iter().any(|id| Path::new("/proc").join(id).exists()) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let ended = tokio::time::timeout(Duration::from_secs(120), ended).await;
            assert!(ended.is_ok(), "{is_dropped}");
            drop(helper);
        }
    }

    #[tokio::test]
    async fn one_pool_serves_several_requests_in_a_row() {
        let own: Arc<dyn Extract> = Arc::new(HelperProcess::at(PROGRAM.into()));
        for _ in 0..3 {
            let answer = own
                .extract(ExtractRequest::Mail(b"\r\n\r\nx".to_vec()))
                .await
                .unwrap();
            assert!(matches!(answer, ExtractResponse::Mail(_)));
        }
    }
}

/// Documents that loop, nest deeply, or keep the parser busy.
#[tokio::test]
async fn hostile_pdf_breaks_only_the_helper() {
    let helper = helper();
    let catalog = "<</Type/Catalog/Pages 2 0 R>>";
    let kids = "<</Type/Pages/Count 1/Kids[3 0 R]>>";
    let page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</XObject<</X 4 0 R>>>>>>";
    let stream = |keys: &str, content: &str| {
        format!(
            "<<{keys}/Length {}>>stream\n{content}\nendstream",
            content.len()
        )
    };
    let form = "/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 4 0 R>>>>";
    let (nested, busy) = ("[".repeat(1 << 20), "q 1 0 0 1 0 0 cm ".repeat(230_000));
    for (name, objects) in [
        ("no pages", vec![catalog.to_owned()]),
        (
            "a page tree that contains itself",
            vec![
                catalog.to_owned(),
                "<</Type/Pages/Count 9/Kids[2 0 R 2 0 R]>>".to_owned(),
            ],
        ),
        (
            "a parent that is its own parent",
            vec![
                catalog.to_owned(),
                "<</Type/Pages/Count 1/Kids[3 0 R]/Parent 2 0 R>>".to_owned(),
                "<</Type/Page/Parent 2 0 R>>".to_owned(),
            ],
        ),
        (
            "a form that draws itself",
            vec![
                catalog.to_owned(),
                kids.to_owned(),
                page.to_owned(),
                stream(form, "/X Do"),
            ],
        ),
        (
            "nested arrays",
            vec![catalog.to_owned(), kids.to_owned(), page.to_owned(), nested],
        ),
        (
            "endless operators",
            vec![
                catalog.to_owned(),
                kids.to_owned(),
                page.to_owned(),
                stream("", &busy),
            ],
        ),
        (
            "a picture of ten billion pixels",
            vec![
                catalog.to_owned(),
                kids.to_owned(),
                page.to_owned(),
                stream(
                    "/Type/XObject/Subtype/Image/Width 100000/Height 100000/ColorSpace/DeviceRGB/BitsPerComponent 8",
                    "/X Do",
                ),
            ],
        ),
        (
            "forms that draw others ten times each",
            [catalog, kids, page]
                .map(str::to_owned)
                .into_iter()
                .chain((4..20).map(|object| {
                    let next = object + 1;
                    let resources = format!(
                        "/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X {next} 0 R>>>>"
                    );
                    stream(&resources, &"/X Do ".repeat(10))
                }))
                .chain([stream(form, "0 0 9 9 re f")])
                .collect(),
        ),
    ] {
        match helper.pdf(pdf(&objects)).await {
            Ok(read) => assert!(read.text.len() <= 9 << 20, "{name}"),
            // A busy machine may not grant the processor time in time.
            Err(error) => assert!(
                error.blames_input() || matches!(error, ExtractError::TimedOut),
                "{name}: {error:?}"
            ),
        }
        still_reads(&helper).await;
        match helper.pdf_page(pdf(&objects), 1).await {
            Ok(picture) => assert!(picture.len() <= 9 << 20, "{name}"),
            Err(error) => assert!(
                error.blames_input() || matches!(error, ExtractError::TimedOut),
                "{name}: {error:?}"
            ),
        }
        still_reads(&helper).await;
    }
}
