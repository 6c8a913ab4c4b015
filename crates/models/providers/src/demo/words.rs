//! Texts of the demo, in two languages.

/// Language of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    English,
    Chinese,
}

use Language::{Chinese, English};

impl Language {
    /// Returns Chinese for a text with Chinese characters in it, else English.
    pub(super) fn in_language_of(text: &str) -> Self {
        let is_chinese = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
        if text.contains(is_chinese) {
            Chinese
        } else {
            English
        }
    }

    /// Returns the label that each answer begins with.
    pub(super) fn label(self) -> &'static str {
        match self {
            English => "[demo model]",
            Chinese => "[演示模型]",
        }
    }

    pub(super) fn help(self) -> String {
        let skills = match self {
            English => {
                "I am the built-in demo: no real model, just a few fixed skills on the real tools. Try:\n\
                 - what files are here?\n\
                 - read README.md\n\
                 - write a note: buy milk\n\
                 - remember that I like tea\n\
                 - what do you remember?\n\
                 - what time is it?\n\
                 - run `uname -a`\n\n"
            }
            Chinese => {
                "我是内置的演示模型：没有真正的智能，只会通过真实的工具完成几件固定的事。试试：\n\
                 - 这里有什么文件？\n\
                 - 读取 README.md\n\
                 - 记一条笔记：买牛奶\n\
                 - 记住我喜欢喝茶\n\
                 - 你记得什么？\n\
                 - 现在几点？\n\
                 - 运行 `uname -a`\n\n"
            }
        };
        format!("{skills}{}", self.real_model())
    }

    fn real_model(self) -> &'static str {
        match self {
            English => {
                "For a real model, put a key into the configuration, for example \
                 providers.openrouter.apiKey, and a model into agents.defaults.model; `nanobot onboard` shows where."
            }
            Chinese => {
                "要使用真正的模型，请在配置里填写密钥（例如 providers.openrouter.apiKey）和 \
                 agents.defaults.model；`nanobot onboard` 会告诉你配置文件在哪里。"
            }
        }
    }

    pub(super) fn greeting(self) -> String {
        match self {
            English => format!("Hello! {}", self.help()),
            Chinese => format!("你好！{}", self.help()),
        }
    }

    pub(super) fn welcome(self) -> &'static str {
        match self {
            English => "You are welcome.",
            Chinese => "不客气。",
        }
    }

    pub(super) fn unknown(self) -> String {
        match self {
            English => format!("That is beyond me. {}", self.help()),
            Chinese => format!("这个我不会。{}", self.help()),
        }
    }

    pub(super) fn time(self, time: Option<&str>) -> String {
        match (self, time) {
            (English, Some(time)) => format!("It is {time}."),
            (English, None) => {
                "No clock came with this message, so I cannot tell the time.".to_owned()
            }
            (Chinese, Some(time)) => format!("现在是 {time}。"),
            (Chinese, None) => "这条消息没有附带时间，我无法回答。".to_owned(),
        }
    }

    pub(super) fn listed(self, path: &str, result: &str) -> String {
        match self {
            English => format!("I looked into `{path}`:\n\n{result}"),
            Chinese => format!("`{path}` 里有：\n\n{result}"),
        }
    }

    pub(super) fn read(self, path: &str, result: &str) -> String {
        match self {
            English => format!("`{path}` says:\n\n```\n{result}\n```"),
            Chinese => format!("`{path}` 的内容：\n\n```\n{result}\n```"),
        }
    }

    pub(super) fn ran(self, command: &str, result: &str) -> String {
        match self {
            English => format!("I ran `{command}`:\n\n```\n{result}\n```"),
            Chinese => format!("已运行 `{command}`：\n\n```\n{result}\n```"),
        }
    }

    pub(super) fn harmful(self, command: &str, harmless: &[&str]) -> String {
        let list = harmless.join(", ");
        match self {
            English => format!(
                "I do not run `{command}`: the demo only runs simple commands out of {list}."
            ),
            Chinese => format!("我不会运行 `{command}`：演示模型只运行这些简单的命令：{list}。"),
        }
    }

    pub(super) fn noted(self, path: &str) -> String {
        match self {
            English => format!("Done: the note is in `{path}`."),
            Chinese => format!("好了，笔记写在 `{path}` 里。"),
        }
    }

    pub(super) fn remembered(self, line: &str) -> String {
        match self {
            English => format!("I wrote into my memory: {line}"),
            Chinese => format!("已经写进记忆：{line}"),
        }
    }

    pub(super) fn too_long(self, path: &str) -> String {
        match self {
            English => {
                format!(
                    "`{path}` is too long for me to add to it without losing something, so I left it alone."
                )
            }
            Chinese => format!("`{path}` 太长，我怕改坏，所以没有动它。"),
        }
    }

    pub(super) fn failed(self, tool: &str, error: &str) -> String {
        match self {
            English => format!("The tool `{tool}` could not do it: {error}"),
            Chinese => format!("工具 `{tool}` 没有成功：{error}"),
        }
    }

    pub(super) fn no_tool(self, tool: &str) -> String {
        match self {
            English => format!("I would need the tool `{tool}`, which is switched off here."),
            Chinese => format!("我需要工具 `{tool}`，但它没有启用。"),
        }
    }
}
