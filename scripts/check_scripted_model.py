"""Drives the scripted model through the vendors' clients and checks their results.

usage: check_scripted_model.py PATH-TO-THE-EXAMPLE-BINARY
"""

import json
import subprocess
import sys

import anthropic
import openai

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def check_openai(client):
    assert client.models.list().data[0].id == "scripted-model"
    messages = [{"role": "user", "content": "hello"}]
    whole = client.chat.completions.create(model="m", messages=messages)
    assert (whole.choices[0].message.content, whole.usage.total_tokens) == ("You said: hello", 15)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(model="m", messages=messages, **options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert (text, chunks[-1].usage.total_tokens) == ("You said: hello", 15)
    tools = [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}]
    messages = [{"role": "user", "content": 'call read {"path": "a"}'}]
    with client.chat.completions.stream(model="m", messages=messages, tools=tools) as stream:
        message = stream.get_final_completion().choices[0].message
    call = message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"path": "a"}
    sent = {"id": call.id, "type": "function", "function": {"name": "read", "arguments": call.function.arguments}}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [sent]},
        {"role": "tool", "tool_call_id": call.id, "content": "42"},
    ]
    final = client.chat.completions.create(model="m", messages=messages, tools=tools)
    assert final.choices[0].message.content == "The tool said: 42"
    try:
        client.chat.completions.create(model="m", messages=messages[:2])
    except openai.BadRequestError as error:
        assert "has no result" in error.body["message"], error.body
    else:
        raise AssertionError("an unpaired call was accepted")


def check_anthropic(client):
    messages = [{"role": "user", "content": "hello"}]
    whole = client.messages.create(model="m", max_tokens=9, messages=messages)
    kinds = [(block.type, getattr(block, "text", "")) for block in whole.content]
    assert kinds == [("thinking", ""), ("text", "You said: hello")], kinds
    tools = [{"name": "read", "input_schema": SCHEMA}]
    messages = [{"role": "user", "content": 'call read {"path": "a"}'}]
    with client.messages.stream(model="m", max_tokens=9, messages=messages, tools=tools) as stream:
        message = stream.get_final_message()
    (use,) = message.content
    assert (message.stop_reason, use.name, use.input) == ("tool_use", "read", {"path": "a"})
    assert (message.usage.input_tokens, message.usage.output_tokens) == (10, 5)
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "42"}
    messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    final = client.messages.create(model="m", max_tokens=9, messages=messages, tools=tools)
    assert final.content[0].text == "The tool said: 42"
    try:
        client.messages.create(model="m", max_tokens=9, messages=messages[:2])
    except anthropic.BadRequestError as error:
        assert error.body["error"]["type"] == "invalid_request_error", error.body
    else:
        raise AssertionError("an unpaired call was accepted")


def main(binary):
    model = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    base = json.loads(model.stdout.readline())["base_url"]
    check_openai(openai.OpenAI(base_url=base, api_key="k", max_retries=0))
    print("ok openai")
    check_anthropic(anthropic.Anthropic(base_url=base.removesuffix("/v1"), api_key="k", max_retries=0))
    print("ok anthropic")
    model.stdin.write("\n")
    model.stdin.flush()
    violations = json.loads(model.stdout.readline())
    # Exactly the two requests that should be refused.
    assert len(violations) == 2, violations
    model.stdin.close()
    assert model.wait(timeout=10) == 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
