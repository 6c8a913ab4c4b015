//! Checks token estimates without a vocabulary against a real tokenizer.

use nanobot_context::estimate_tokens;

/// Maximum error of an initial estimate, as a fraction of the real count.
const OFF: f64 = 0.3;

#[test]
fn token_estimates_are_close_for_every_kind_of_text() {
    let texts = [
        (
            "prose",
            "The committee met on Tuesday to discuss the new library. Most members agreed that the building should be \
             finished before winter, although the budget is not yet settled and two of the architects have resigned.",
        ),
        (
            "code",
            "fn main() {\n    let total: usize = items.iter().map(|item| item.len()).sum();\n    println!(\"{total}\");\n}\n",
        ),
        (
            "json",
            r#"{"id":"call_17","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"notes/today.md\",\"offset\":120}"}}"#,
        ),
        (
            "numbers",
            "2026-11-22 10:45:31 192.168.0.17 200 5123 0.0421 1234567890 3.14159",
        ),
        (
            "chinese",
            "委员会星期二开会讨论新图书馆的问题。大多数成员认为，这座建筑应该在冬天之前完工，尽管预算还没有确定。",
        ),
        (
            "japanese",
            "委員会は火曜日に新しい図書館について話し合いました。建物は冬の前に完成するはずですが、予算はまだ決まっていません。",
        ),
        (
            "korean",
            "위원회는 화요일에 새 도서관에 대해 논의했습니다. 건물은 겨울 전에 완공되어야 하지만 예산은 아직 정해지지 않았습니다.",
        ),
        (
            "russian",
            "Комитет собрался во вторник, чтобы обсудить новую библиотеку. Здание должно быть закончено до зимы.",
        ),
        (
            "german",
            "Der Ausschuss traf sich am Dienstag, um über die neue Bücherei zu sprechen. Das Gebäude soll vor dem Winter fertig werden, auch wenn der Haushalt noch nicht beschlossen ist.",
        ),
        (
            "mixed",
            "请把 report-final.pdf 发给 Ann (ann@example.org) before 18:00, danke! 🙏🙏",
        ),
    ];
    let tokenizer = tiktoken_rs::cl100k_base().unwrap();
    let mut wrong = Vec::new();
    for (name, text) in texts {
        let counted = tokenizer.encode_ordinary(text).len();
        let estimated = estimate_tokens(text);
        if (estimated as f64 / counted as f64 - 1.0).abs() > OFF {
            wrong.push(format!("{name}: {estimated} for {counted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join(", "));
}
