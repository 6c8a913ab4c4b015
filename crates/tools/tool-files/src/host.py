"""Runs one tool file: answers each request, a line of JSON, with a line of JSON.

It is started in a sandbox, which is what confines a tool; nothing here is a security boundary. The
first request is `load`, each further one a `call`. Answers repeat the id of their request. Works
with Python 3.9 and the standard library alone.
"""

import ast
import inspect
import json
import os
import sys
import types

# Maximum size of a text result, in characters.
MAX_RESULT = 1_000_000
# Maximum number of places that the scan reports.
MAX_FINDINGS = 20


class Tool:
    """The class that a tool file derives from. The module is `tool_api`."""

    name = ""
    description = ""
    parameters = {"type": "object", "properties": {}}
    # What running it a second time does: "pure", "idempotent" or "irreversible".
    effect = "irreversible"
    # Time limit of a call in seconds; None for that of the configuration.
    timeout = None
    # Folders that the tool may write, as absolute paths.
    allowed_dirs = ()
    # The workspace, which the tool may read; the current folder.
    workspace = ""

    def __init__(self, allowed_dirs=None):
        if allowed_dirs is not None:
            self.allowed_dirs = allowed_dirs

    async def execute(self, **arguments):
        """Runs the tool. The result is a text; other values are returned as JSON."""
        raise NotImplementedError("execute is missing")

    def read_text(self, path):
        """Returns the text of a file in the workspace."""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def write_text(self, path, text):
        """Replaces the text of a file in one of `allowed_dirs`."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


BY_TOOL = "commands are run by the exec tool"
BY_FILES = "files are read and written by read_text and write_text of the tool, or by the file tools"
BY_WEB = "a tool file has no network unless the operator grants it"
DYNAMIC = "code that is made or loaded at run time cannot be checked"

# Modules with the class Tool; the second one is its place in the Python program.
SOURCES = ("tool_api", "nanobot.agent.tools.base")

# What the scan reports, by the name of a module.
MODULES = {
    "subprocess": BY_TOOL,
    "importlib": DYNAMIC,
    "ctypes": "calls of C code cannot be checked",
    "socket": BY_WEB,
}
# The same by the full name of a function or class.
NAMES = {
    "os.system": BY_TOOL,
    "os.popen": BY_TOOL,
    "os.remove": BY_FILES,
    "os.unlink": BY_FILES,
    "os.rmdir": BY_FILES,
    "shutil.rmtree": BY_FILES,
    "pathlib.Path": BY_FILES,
    "builtins.open": BY_FILES,
    "builtins.eval": DYNAMIC,
    "builtins.exec": DYNAMIC,
    "builtins.compile": DYNAMIC,
    "builtins.__import__": DYNAMIC,
}
# The same by the beginning of a full name.
PREFIXES = {"os.exec": BY_TOOL, "os.spawn": BY_TOOL}


class Scan(ast.NodeVisitor):
    """Finds names in the syntax tree that a tool file should not use. Comments and texts do not
    matter, and an import under another name is followed. It is advice: what is made up at run time
    passes it."""

    def __init__(self, tree):
        self.findings = []
        self.aliases = {}
        self.own = set()
        for node in ast.walk(tree):
            self.learn(node)
        self.visit(tree)

    def learn(self, node):
        """Notes the names that the file defines."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                self.aliases[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.own.add(node.name)
        elif isinstance(node, ast.arg):
            self.own.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self.own.add(node.id)

    def full_name(self, node):
        """Returns the full name of an expression such as `o.system`; None if it has none."""
        if isinstance(node, ast.Attribute):
            base = self.full_name(node.value)
            return base and f"{base}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.aliases:
            return self.aliases[node.id]
        is_built_in = node.id not in self.own and f"builtins.{node.id}" in NAMES
        return f"builtins.{node.id}" if is_built_in else node.id

    def report(self, node, name):
        reason = NAMES.get(name) or MODULES.get(name.split(".")[0])
        for prefix, why in PREFIXES.items():
            if name.startswith(prefix):
                reason = why
        if reason and len(self.findings) < MAX_FINDINGS:
            shown = name[len("builtins."):] if name.startswith("builtins.") else name
            finding = f"line {node.lineno}: {shown}: {reason}"
            if finding not in self.findings:
                self.findings.append(finding)

    def visit_Import(self, node):
        for alias in node.names:
            self.report(node, alias.name)

    def visit_ImportFrom(self, node):
        for alias in node.names:
            self.report(node, f"{node.module}.{alias.name}")

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load) and node.id not in self.aliases:
            self.report(node, self.full_name(node))

    def visit_Attribute(self, node):
        name = self.full_name(node)
        if name:
            self.report(node, name)
        else:
            self.generic_visit(node)


def imports_tool(node):
    if isinstance(node, ast.Import):
        return any(alias.name in SOURCES for alias in node.names)
    return isinstance(node, ast.ImportFrom) and node.module in SOURCES


class Refused(Exception):
    """A file that is not used, with the reason."""


class Host:
    """A loaded tool file."""

    def __init__(self):
        self.tool = None
        self.file = ""

    def load(self, request):
        self.file = request["file"]
        try:
            tree = ast.parse(request["source"], self.file)
        except SyntaxError as error:
            raise Refused(f"line {error.lineno}: {error.msg}") from error
        except ValueError as error:
            raise Refused(str(error)) from error
        if not any(imports_tool(node) for node in ast.walk(tree)):
            # A script, which is not to be run.
            return {"is_tool": False}
        findings = Scan(tree).findings
        if findings and request["refuses"]:
            return {"is_tool": True, "findings": findings}
        module = types.ModuleType(os.path.splitext(self.file)[0])
        module.__file__ = self.file
        sys.modules[module.__name__] = module
        exec(compile(tree, self.file, "exec"), module.__dict__)
        self.tool = self.create(module, request)
        return {"is_tool": True, "findings": findings, "definition": self.definition()}

    def create(self, module, request):
        """Makes the first tool of the file."""
        for kind in vars(module).values():
            is_tool = isinstance(kind, type) and issubclass(kind, Tool)
            if is_tool and kind.__module__ == module.__name__:
                break
        else:
            raise Refused("it has no class that derives from Tool of tool_api")
        folders = list(request["allowed_dirs"])
        accepted = inspect.signature(kind.__init__).parameters.values()
        takes_folders = any(
            one.name == "allowed_dirs" or one.kind is one.VAR_KEYWORD for one in accepted
        )
        tool = kind(allowed_dirs=folders) if takes_folders else kind()
        tool.allowed_dirs = folders
        tool.workspace = request["workspace"]
        return tool

    def definition(self):
        definition = {
            key: getattr(self.tool, key)
            for key in ("name", "description", "parameters", "effect", "timeout")
        }
        try:
            json.dumps(definition, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise Refused(f"its definition is no JSON: {error}") from error
        return definition

    def call(self, request):
        result = self.tool.execute(**request["arguments"])
        if inspect.isawaitable(result):
            import asyncio  # Half of the time of a start.

            result = asyncio.run(waited(result))
        text = as_text(result)
        if len(text) > MAX_RESULT:
            raise Refused(f"its result has {len(text)} characters, more than {MAX_RESULT}")
        return {"output": text}

    def describe(self, error):
        """Returns an exception as one line, with the line of the tool file that raised it."""
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        line, trace = None, error.__traceback__
        while trace:
            if trace.tb_frame.f_code.co_filename == self.file:
                line = trace.tb_lineno
            trace = trace.tb_next
        return f"line {line}: {text}" if line else text

    def answer(self, request):
        try:
            answer = getattr(self, {"load": "load", "call": "call"}[request["op"]])(request)
        except Refused as refusal:
            answer = {"is_tool": True, "error": str(refusal)}
        except BaseException as error:  # The file decides what it raises, SystemExit for one.
            answer = {"is_tool": True, "error": self.describe(error)}
        answer["id"] = request["id"]
        return answer


async def waited(result):
    return await result


def as_text(result):
    if result is None:
        return ""
    if isinstance(result, bytes):
        return result.decode("utf-8", "replace")
    if not isinstance(result, str):
        return json.dumps(result, ensure_ascii=False, default=str)
    return result


def provide(name, **members):
    """Adds a module that tool files can import."""
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    else:
        module.__path__ = []


def own_pipe():
    """Takes the pipes of the protocol away from the tool: it has no input, and what it prints is
    error output. Returns the file for answers."""
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return answers


def serve(requests):
    answers = own_pipe()
    for source in SOURCES:
        parts = source.split(".")
        for count in range(1, len(parts)):
            provide(".".join(parts[:count]))
        provide(source, Tool=Tool)
    host = Host()
    for line in requests:
        answer = json.dumps(host.answer(json.loads(line)), ensure_ascii=False)
        sys.stdout.flush()
        # A half of a surrogate pair is no text.
        answers.write(answer.encode("utf-8", "replace") + b"\n")
        answers.flush()


serve(REQUESTS)  # The file that this program was read from.
