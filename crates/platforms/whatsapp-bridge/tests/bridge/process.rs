//! The running process and its end.

use crate::fixture::{BEGIN, Computer, patient};

const ADDRESS: &str = r#"echo '{"listening":"ws://127.0.0.1:40123","protocol":2}'"#;

#[tokio::test]
async fn end_is_reported_with_the_last_lines_each_time() {
    let computer = Computer::new();
    let script = format!("{ADDRESS}; echo first >&2; echo '' >&2; echo last >&2; exit 1");
    let mut running = computer.script(&script).start().await.unwrap();
    let expected = "the WhatsApp bridge ended with exit code 1:\nfirst\nlast";
    for _ in 0..2 {
        assert_eq!(patient(running.ended()).await.to_string(), expected);
    }
    running.stop().await;
}

#[tokio::test]
async fn much_output_does_not_block_the_bridge() {
    let computer = Computer::new();
    let much = "head -c 200000 /dev/zero | tr '\\0' '\\n'; head -c 3000000 /dev/zero | tr '\\0' x";
    let script = format!("{ADDRESS}; {much}; ({much}) >&2; echo >&2; echo end >&2; exit 3");
    let mut running = computer.script(&script).start().await.unwrap();
    let text = patient(running.ended()).await.to_string();
    assert!(text.contains("exit code 3"), "{text}");
    assert!(
        text.ends_with("x\nend") && text.len() < 2_000,
        "{}",
        text.len()
    );
}

#[tokio::test]
async fn wait_for_the_end_can_be_cancelled() {
    let computer = Computer::new();
    let script = format!("{ADDRESS}; until [ -e \"$HOME/go\" ]; do sleep 0.01; done; exit 4");
    let mut running = computer.script(&script).start().await.unwrap();
    tokio::select! {
        biased;
        error = running.ended() => panic!("{error}"),
        () = std::future::ready(()) => {}
    }
    computer.write("go", "");
    let text = patient(running.ended()).await.to_string();
    assert!(text.contains("exit code 4"), "{text}");
}

#[tokio::test]
async fn dropped_bridge_is_killed_with_its_children() {
    let computer = Computer::new();
    let mut life_line = computer.life_line();
    let script = format!("{BEGIN}; {ADDRESS}; sleep 600 & sleep 600");
    let running = computer.script(&script).start().await.unwrap();
    life_line.begun().await;
    drop(running);
    life_line.ended().await;
}

#[tokio::test]
async fn children_of_an_ended_bridge_are_killed() {
    let computer = Computer::new();
    let mut life_line = computer.life_line();
    let script = format!("{BEGIN}; {ADDRESS}; sleep 600 & exit 0");
    let mut running = computer.script(&script).start().await.unwrap();
    life_line.begun().await;
    patient(running.ended()).await;
    life_line.ended().await;
}

#[tokio::test]
async fn bridge_that_does_not_end_is_killed() {
    let computer = Computer::new();
    let mut life_line = computer.life_line();
    let script = format!("{BEGIN}; {ADDRESS}; sleep 600 & sleep 600");
    let running = computer.script(&script).start().await.unwrap();
    life_line.begun().await;
    // The clock jumps to the limit, as nothing else happens.
    tokio::time::pause();
    running.stop().await;
    tokio::time::resume();
    life_line.ended().await;
}
