//! Which files are loaded, and what is said about others.

use nanobot_tool::{ToolContext, TypedTool as _};
use nanobot_tool_files::{CheckArguments, CheckTools, ToolFileState, ToolFiles, ToolFilesSettings};
use nanobot_types::Effect;
use serde_json::json;

use crate::fixture::{Fixture, call, names, problem, source};

#[tokio::test]
async fn a_definition_is_what_the_class_declares() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let text = "from nanobot.agent.tools.base import Tool\n\n\
                class Helper(Tool):\n    \
                    @property\n    \
                    def name(self): return 'double'\n    \
                    description = 'Doubles.'\n    \
                    effect = 'pure'\n    \
                    parameters = {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}\n    \
                    def __init__(self, allowed_dirs): self.seen = allowed_dirs\n    \
                    def execute(self, n): return n * 2\n\n\
                class Second(Tool):\n    \
                    name = 'second'\n";
    fixture.write("ws/tools/helper.py", text);
    let (_files, registry) = fixture.opened().await;
    let specs = registry.specs();
    assert_eq!(specs.len(), 1);
    assert_eq!(specs[0].name.as_str(), "double");
    assert_eq!(specs[0].effect, Effect::Pure);
    let result = call(&registry, "double", json!({"n": "21"})).await;
    assert_eq!(result.output, "42");
    let result = call(&registry, "double", json!({})).await;
    assert!(
        result.output.contains("missing required n"),
        "{}",
        result.output
    );
}

#[tokio::test]
async fn every_refusal_has_one_clear_line() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let by_files =
        "files are read and written by read_text and write_text of the tool, or by the file tools";
    let table = [
        ("syntax.py", "import tool_api\nx = (".to_owned(), "line 2: "),
        (
            "rude.py",
            "import tool_api\nraise ValueError('a\\nb\\x1b[31m\\u202ec')".to_owned(),
            "line 2: ValueError: a b[31m\\u{202e}c",
        ),
        (
            "script.py",
            "1 / 0".to_owned(),
            "it does not import Tool from tool_api",
        ),
        (
            "none.py",
            "from tool_api import Tool".to_owned(),
            "it has no class that derives from Tool of tool_api",
        ),
        (
            "raises.py",
            "import tool_api\n1 / 0".to_owned(),
            "line 2: ZeroDivisionError: division by zero",
        ),
        (
            "missing.py",
            "import requests, tool_api".to_owned(),
            "line 1: ModuleNotFoundError: No module named 'requests'",
        ),
        (
            "dies.py",
            "import os, tool_api\nos._exit(0)".to_owned(),
            "it ended unexpectedly",
        ),
        (
            "shadows.py",
            source("exec", "pass"),
            "its tool has the name of a built-in one, exec",
        ),
        ("nameless.py", source("", "pass"), "name has to be a letter"),
        (
            "opens.py",
            source("opens", "open('x')"),
            "the scan refuses line 8: open: ",
        ),
        ("links.py", String::new(), "it is a link"),
    ];
    for (name, text, _) in &table {
        fixture.write(&format!("ws/tools/{name}"), text);
    }
    fixture.remove("links.py");
    let link = fixture.path("ws/tools/links.py");
    std::os::unix::fs::symlink("../notes.txt", link).unwrap();
    let (files, registry) = fixture.opened().await;
    assert_eq!(names(&registry), Vec::<String>::new());
    let status = files.status().await;
    for (name, _, expected) in &table {
        let found = problem(&status, name);
        assert!(found.starts_with(expected), "{name}: {found}");
        assert!(!found.contains('\n'), "{name}: {found}");
    }
    assert!(problem(&status, "opens.py").ends_with(by_files));
}

#[tokio::test]
async fn a_script_is_ignored_and_not_run() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fixture.write("ws/data/.keep", "");
    let write = "open('data/ran', 'w').close()";
    fixture.write("ws/tools/script.py", write);
    fixture.write("ws/tools/named.py", &format!("# no tool_api\n{write}"));
    let fixture = fixture.without_scan();
    let (files, _registry) = fixture.opened().await;
    for file in files.status().await {
        assert_eq!(file.state, ToolFileState::Ignored, "{file:?}");
    }
    assert!(!fixture.path("ws/data/ran").exists());
}

#[tokio::test]
async fn requests_have_room_for_so_many_definitions() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    for name in ["a", "b", "c"] {
        let parameters = json!({"title": "x".repeat(15_000)});
        let text = source(name, "pass").replace(
            "    async",
            &format!("    parameters = {parameters}\n    async"),
        );
        fixture.write(&format!("ws/tools/{name}.py"), &text);
    }
    let (files, registry) = fixture.opened().await;
    assert_eq!(names(&registry), ["a", "b"]);
    assert_eq!(
        problem(&files.status().await, "c.py"),
        "the definitions of all tools in files exceed 32 KiB"
    );
}

#[tokio::test]
async fn the_scan_follows_imports_and_leaves_texts_alone() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let table = [
        ("import subprocess", "subprocess"),
        ("import importlib.util", "importlib.util"),
        ("from socket import socket as s", "socket.socket"),
        ("import ctypes as c", "ctypes"),
        ("import os\nos.execv('/bin/sh', [])", "os.execv"),
        ("import os as o\no.spawnlp(0, 'x')", "os.spawnlp"),
        ("from shutil import rmtree", "shutil.rmtree"),
        ("import pathlib as p\np.Path('x')", "pathlib.Path"),
        ("import os\n(os).popen('x')", "os.popen"),
        ("x = [eval]", "eval"),
        ("compile('x', 'y', 'exec')", "compile"),
        ("__import__('os')", "__import__"),
        ("import builtins\nbuiltins.open('x')", "open"),
        ("import re\nre.compile('x')", ""),
        ("def open(): pass\nopen()", ""),
        ("x = 'subprocess open( eval('  # os.system(", ""),
        ("import os\nos.path.join('a', 'b')", ""),
        ("import json as socket\nsocket.dumps(1)", ""),
    ];
    for (index, (code, _)) in table.iter().enumerate() {
        let text = format!("{code}\n{}", source(&format!("t{index}"), "pass"));
        fixture.write(&format!("ws/tools/t{index}.py"), &text);
    }
    let (files, _registry) = fixture.opened().await;
    let status = files.status().await;
    for (index, (code, expected)) in table.iter().enumerate() {
        let found = problem(&status, &format!("t{index}.py"));
        let is_found = found.contains(&format!(": {expected}: "));
        assert!(
            if expected.is_empty() {
                found.is_empty()
            } else {
                is_found
            },
            "{code}: {found}"
        );
    }
}

#[tokio::test]
async fn findings_can_be_warnings() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let fixture = fixture.without_scan();
    fixture.tool("reader", "return open('notes.txt').read()");
    let (files, registry) = fixture.opened().await;
    assert_eq!(
        call(&registry, "reader", json!({})).await.output,
        "one\ntwo\n"
    );
    let [status] = files.status().await.try_into().unwrap();
    assert_eq!(status.state, ToolFileState::Loaded);
    assert!(
        status.findings[0].starts_with("line 8: open: "),
        "{status:?}"
    );
}

#[tokio::test]
async fn the_assistant_can_ask_what_became_of_its_files() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let (files, _registry) = fixture.opened().await;
    let check = CheckTools::new(files);
    let context = ToolContext::detached("cli:direct");
    let text = check.call(CheckArguments::default(), &context).await;
    let guide = text.unwrap();
    assert!(guide.starts_with("There are no tool files in tools/.\n\nHow to write a tool: "));
    // What the guide shows works.
    let example = guide.split("\n\n").skip(2).take(3);
    fixture.write(
        "ws/tools/word_count.py",
        &Vec::from_iter(example).join("\n\n"),
    );
    let manifest = guide.rsplit("\n\n").next().unwrap();
    fixture.write("ws/tools/lines/tool.toml", manifest);
    fixture.write("ws/tools/none.py", "x = 1");
    let text = check.call(CheckArguments::default(), &context).await;
    let status = "lines: loaded as lines; call it by this name or with tool_call\n\
                  none.py: not loaded: it does not import Tool from tool_api\n\
                  word_count.py: loaded as word_count; call it by this name or with tool_call";
    assert_eq!(text.unwrap(), status);
    let text = check.call(CheckArguments { guide: true }, &context).await;
    let (_, rest) = guide.split_once("\n\n").unwrap();
    assert_eq!(text.unwrap(), format!("{status}\n\n{rest}"));
}

#[tokio::test]
async fn without_a_sandbox_or_python_nothing_runs() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.tool("good", "pass");
    fixture.write(
        "ws/tools/count/tool.toml",
        "description = \"x\"\ncommand = [\"true\"]",
    );
    let settings = ToolFilesSettings {
        launcher: Some("/usr/bin/true".into()),
        ..ToolFilesSettings::new(fixture.config.clone(), fixture.policy(), [].into())
    };
    let status = ToolFiles::new(settings).status().await;
    for file in ["good.py", "count"] {
        let problem = problem(&status, file);
        assert!(
            problem.starts_with("tools in files run only in a sandbox: "),
            "{problem}"
        );
    }
    let is_unavailable =
        |file: &nanobot_tool_files::ToolFileStatus| file.state == ToolFileState::Unavailable;
    assert!(status.iter().all(is_unavailable), "{status:?}");
    fixture.config.python = "/usr/bin/no-such-python".to_owned();
    let (files, registry) = fixture.opened().await;
    assert_eq!(names(&registry), ["count"]);
    let problem = problem(&files.status().await, "good.py").to_owned();
    let expected = "there is no python3 for tools in files; tools.toolFiles.python can name one";
    assert_eq!(problem, expected);
}
