//! Recognises what the user asks for, as far as the demo understands it.

/// A request that the demo understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Help,
    Greeting,
    Thanks,
    /// Repeats the previous request.
    Again,
    Time,
    List {
        path: String,
    },
    Read {
        path: String,
    },
    /// Adds a line to a notes file.
    Note {
        path: String,
        line: String,
    },
    /// Adds a line to long-term memory.
    Remember {
        line: String,
    },
    /// Shows the contents of long-term memory.
    Recall,
    Run {
        command: String,
    },
    Unknown,
}

pub(super) const MEMORY: &str = "memory/MEMORY.md";

const NOTES: &str = "notes.md";

const RECALL: &[&str] = &[
    "what do you remember",
    "do you remember",
    "what do you know about me",
    "你记得什么",
    "你还记得",
];
const REMEMBER: &[&str] = &[
    "remember that",
    "remember this:",
    "remember:",
    "remember",
    "don't forget that",
    "don't forget",
    "请记住",
    "记住",
    "别忘了",
];
const NOTE: &[&str] = &[
    "write a note that says",
    "write a note saying",
    "write a note",
    "take a note",
    "make a note",
    "add a note",
    "note that",
    "note down",
    "write down",
    "note:",
    "写一条笔记",
    "写一个笔记",
    "写个笔记",
    "写笔记",
    "记一条笔记",
    "记个笔记",
    "做个笔记",
    "记笔记",
    "记下",
    "记一下",
];
const WRITE: &[&str] = &["write", "save", "put", "把", "写入", "保存"];
/// Words between a note's text and its file name.
const JOINTS: &[&str] = &[" to", " into", " in", "写到", "写入", "写进", "保存到"];
const RUN: &[&str] = &[
    "run the command",
    "run command",
    "execute the command",
    "run",
    "execute",
    "运行命令",
    "执行命令",
    "运行",
    "执行",
];
const READ: &[&str] = &[
    "read",
    "show",
    "open",
    "cat",
    "what is in",
    "what's in",
    "print",
    "读",
    "查看",
    "看看",
    "打开",
    "显示",
];
const LIST: &[&str] = &[
    "list",
    "files",
    "folder",
    "directory",
    "ls",
    "dir",
    "列出",
    "哪些文件",
    "什么文件",
    "文件列表",
    "有文件",
    "目录",
    "文件夹",
];
const TIME: &[&str] = &[
    "time",
    "date",
    "clock",
    "what day",
    "几点",
    "时间",
    "星期几",
    "日期",
    "今天",
];
const GREETING: &[&str] = &[
    "hi",
    "hello",
    "hey",
    "good morning",
    "good evening",
    "你好",
    "您好",
    "嗨",
    "早上好",
];
const THANKS: &[&str] = &["thanks", "thank you", "thx", "谢谢", "多谢"];
const HELP: &[&str] = &[
    "help",
    "what can you do",
    "who are you",
    "帮助",
    "你能做什么",
    "你会什么",
    "你是谁",
];
const AGAIN: &[&str] = &["again", "once more", "再来一次", "再试一次", "再说一遍"];

impl Intent {
    pub(super) fn of(text: &str) -> Self {
        let lower = text.to_lowercase();
        let path = path_in(text);
        if text.is_empty() || contains_phrase(&lower, HELP) {
            return Self::Help;
        }
        if contains_phrase(&lower, RECALL) {
            return Self::Recall;
        }
        if let Some(line) = after(text, &lower, REMEMBER) {
            return Self::Remember { line };
        }
        if let Some(line) = after(text, &lower, NOTE) {
            return Self::note(path, line);
        }
        if let (Some(path), Some(words)) = (&path, after(text, &lower, WRITE)) {
            return Self::note(Some(path.clone()), words);
        }
        if let Some(command) = after(text, &lower, RUN) {
            return Self::Run {
                command: command
                    .trim_matches(['`', '"', '\'', '“', '”', ' '])
                    .to_owned(),
            };
        }
        match path {
            Some(path) if path.ends_with('/') => Self::List { path },
            Some(path) if !contains_phrase(&lower, LIST) || contains_phrase(&lower, READ) => {
                Self::Read { path }
            }
            path if contains_phrase(&lower, LIST) => Self::List {
                path: path
                    .or_else(|| folder_in(text))
                    .unwrap_or_else(|| ".".to_owned()),
            },
            _ if contains_phrase(&lower, AGAIN) => Self::Again,
            _ if contains_phrase(&lower, TIME) => Self::Time,
            _ if contains_phrase(&lower, THANKS) => Self::Thanks,
            _ if contains_phrase(&lower, GREETING) => Self::Greeting,
            _ => Self::Unknown,
        }
    }

    /// Builds a note for the file named in the text, without the words that name it.
    fn note(path: Option<String>, words: String) -> Self {
        let Some(path) = path else {
            return Self::Note {
                path: NOTES.to_owned(),
                line: words,
            };
        };
        let mut line = tidy(&words.replace(&path, " "));
        for joint in JOINTS {
            if let Some(rest) = line.strip_suffix(joint) {
                line = tidy(rest);
            }
        }
        Self::Note { path, line }
    }
}

/// Returns `true` if the text contains one of the phrases; Latin phrases match whole words only.
fn contains_phrase(lower: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| find(lower, phrase).is_some())
}

/// Returns the position after a phrase in the text.
fn find(lower: &str, phrase: &str) -> Option<usize> {
    lower.match_indices(phrase).find_map(|(start, found)| {
        let end = start + found.len();
        let before = lower.get(..start)?.chars().next_back();
        let after = lower.get(end..)?.chars().next();
        let latin = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let first_is_latin = latin(phrase.chars().next());
        let last_is_latin = latin(phrase.chars().next_back());
        let inside_a_word = (first_is_latin && latin(before)) || (last_is_latin && latin(after));
        (!inside_a_word).then_some(end)
    })
}

/// Returns the text after the first phrase that occurs in it; `None` if nothing follows.
fn after(text: &str, lower: &str, phrases: &[&str]) -> Option<String> {
    // Lower case may have another length; then the text is taken in lower case.
    let text = if text.len() == lower.len() {
        text
    } else {
        lower
    };
    let end = phrases.iter().find_map(|phrase| find(lower, phrase))?;
    let rest = tidy(text.get(end..)?);
    (!rest.is_empty()).then_some(rest)
}

fn tidy(text: &str) -> String {
    let joints = |c: char| {
        c.is_whitespace() || matches!(c, ':' | '：' | ',' | '，' | '。' | '"' | '“' | '”')
    };
    text.trim_matches(joints).to_owned()
}

/// Splits a text into runs of characters that can be part of a path.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '~');
    text.split(move |c: char| !is_part(c))
        .map(|token| token.trim_end_matches(['.', '-']))
        .filter(|token| !token.is_empty())
}

/// Returns the first word that looks like a path: it has a `/`, or an extension of letters.
fn path_in(text: &str) -> Option<String> {
    let is_path = |token: &&str| {
        let has_ending = token.rsplit_once('.').is_some_and(|(stem, ending)| {
            !ending.is_empty()
                && ending.len() <= 5
                && ending.starts_with(|c: char| c.is_ascii_alphabetic())
                && (stem.len() > 1 || stem.is_empty())
        });
        *token != "/" && (token.contains('/') || has_ending)
    };
    tokens(text).find(is_path).map(str::to_owned)
}

/// Returns the word after "in", "of" or "under": a folder name that does not look like a path.
fn folder_in(text: &str) -> Option<String> {
    let mut words = tokens(text).skip_while(|word| !matches!(*word, "in" | "of" | "under"));
    words.next()?;
    let known = [
        "the",
        "this",
        "here",
        "my",
        "current",
        "your",
        "folder",
        "directory",
        "workspace",
    ];
    words
        .find(|word| !known.contains(&word.to_lowercase().as_str()))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn understands_requests_in_two_languages() {
        let list = |path: &str| Intent::List { path: path.into() };
        let read = |path: &str| Intent::Read { path: path.into() };
        let note = |path: &str, line: &str| Intent::Note {
            path: path.into(),
            line: line.into(),
        };
        let remember = |line: &str| Intent::Remember { line: line.into() };
        let run = |command: &str| Intent::Run {
            command: command.into(),
        };
        let table = [
            ("", Intent::Help),
            ("help", Intent::Help),
            ("What can you do?", Intent::Help),
            ("你能做什么？", Intent::Help),
            ("what files are here?", list(".")),
            ("List the files in src", list("src")),
            ("ls docs/", list("docs/")),
            ("show me the files in this folder", list(".")),
            ("这里有什么文件？", list(".")),
            ("列出 docs/api/ 的文件", list("docs/api/")),
            ("read README.md", read("README.md")),
            ("What is in notes/today.txt?", read("notes/today.txt")),
            ("and src/main.rs?", read("src/main.rs")),
            ("读取 README.md", read("README.md")),
            ("打开memory/MEMORY.md看看", read("memory/MEMORY.md")),
            ("Write a note: buy milk", note("notes.md", "buy milk")),
            (
                "write hello world to todo.txt",
                note("todo.txt", "hello world"),
            ),
            ("记一条笔记：买牛奶", note("notes.md", "买牛奶")),
            ("把 买牛奶 写到 todo.txt", note("todo.txt", "买牛奶")),
            ("写入 todo.txt：买牛奶", note("todo.txt", "买牛奶")),
            ("remember that I like tea", remember("I like tea")),
            (
                "Please remember: my cat is Mimi",
                remember("my cat is Mimi"),
            ),
            ("记住我喜欢喝茶", remember("我喜欢喝茶")),
            ("What do you remember?", Intent::Recall),
            ("what time is it?", Intent::Time),
            ("现在几点了", Intent::Time),
            ("run `uname -a`", run("uname -a")),
            ("execute date", run("date")),
            ("运行 pwd", run("pwd")),
            ("Hi!", Intent::Greeting),
            ("你好", Intent::Greeting),
            ("thanks", Intent::Thanks),
            ("again", Intent::Again),
            ("Compose a symphony", Intent::Unknown),
            ("this is history", Intent::Unknown),
        ];
        for (text, expected) in table {
            assert_eq!(Intent::of(text), expected, "{text}");
        }
    }
}
