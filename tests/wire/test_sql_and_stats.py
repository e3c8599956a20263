"""Reports over the wire: schema, SQL, figures, old words; by ssh, tool and HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.http_api import Api

Named = Callable[[str], str]


class CountingModel(ThreadingHTTPServer):
    """OpenAI-compatible server that answers `pong`: 100 tokens in and 20 out."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), UsageHandler)


class UsageHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        says = {"index": 0, "delta": {"role": "assistant", "content": "pong"}}
        ends = {"index": 0, "delta": {}, "finish_reason": "stop"}
        for more in ({"choices": [says]}, {"choices": [ends]}, {"choices": [], "usage": usage}):
            self.wfile.write(f"data: {json.dumps({**head, **more})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def counting_model() -> Iterator[CountingModel]:
    server = CountingModel()
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@covers("schema")
def test_schema_is_printed_to_every_agent(alice: Person) -> None:
    listed = alice.does("schema")
    for name in ("messages", "session_state", "usage", "tool_calls"):
        assert f"  {name} " in listed
    one = alice.does("schema messages")
    assert "CREATE VIEW messages AS" in one
    assert [column["name"] for column in alice.json("schema messages")["relations"][0]["columns"]][
        :4
    ] == ["id", "session_id", "role", "content"]
    assert alice.run("schema nothing").status == 1


@covers("sql")
def test_sql_prints_a_table_at_a_terminal_and_in_a_pipe(
    alice: Person, bob: Person, room: str
) -> None:
    alice.does("say the first", "say the second")
    here = f"session_id IN (SELECT id FROM chats WHERE name = '{room}')"
    asked = f"sql SELECT role, content FROM messages WHERE {here} AND role = 'user' ORDER BY id"
    assert alice.run(asked).lines == [
        "  role  content",
        "  user  the first",
        "  user  the second",
        "2 rows.",
    ]
    assert alice.json(asked)["rows"] == [["user", "the first"], ["user", "the second"]]
    piped = alice.run("sql", f"SELECT count(*) AS n\nFROM messages -- all\nWHERE {here};\n")
    assert piped.lines[:1] == ["  n"]
    hers = alice.sit(100, 30, room=room)
    hers.enter("/sql SELECT nam FROM tools")
    hers.wait_for("Unknown column nam.")
    hers.wait_for("Did you mean name")
    hers.enter("/sql SELECT content FROM messages WHERE content LIKE '%sec%' ORDER BY id")
    hers.wait_for("the second")


@covers("sql")
def test_sql_hides_private_rows_and_changes_nothing(
    alice: Person, bob: Person, name: Named
) -> None:
    vault, word = name("vault"), name("treasure")
    bob.does(f"create {vault}", "room private", f"say {word}", f"put me:{word} = {word}")
    for statement in (
        "SELECT content FROM messages", "SELECT content FROM rows", "SELECT name FROM chats",
        "SELECT name, content FROM things", "SELECT * FROM exits", "SELECT * FROM tool_calls",
    ):  # fmt: skip
        done = alice.run(f"sql {statement} --json")
        assert done.status == 0
        assert word not in done.out and vault not in done.out
    for statement, status in (
        ("SELECT content FROM main.rows", 1),
        ("WITH rows AS (SELECT * FROM main.rows) SELECT content FROM rows", 1),
        ("SELECT public_key FROM agent_keys", 1),
        ("SELECT sql FROM sqlite_master", 1),
        ("DELETE FROM rows", 2),
        ("WITH x AS (SELECT 1) DELETE FROM main.rows", 1),
        ("PRAGMA writable_schema = 1", 2),
        ("ATTACH '/etc/passwd' AS p", 2),
        ("SELECT 1; DROP TABLE rows", 2),
        ("WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x FROM t) SELECT sum(x) FROM t", 1),
    ):
        done = alice.run(f"sql {statement}")
        assert (done.status, done.out) == (status, ""), statement
        assert word not in done.err and done.err.strip()
    assert bob.json(f"sql SELECT count(*) FROM messages WHERE content = '{word}'")["rows"] == [[1]]


@covers("sql", "run")
def test_sql_works_as_a_tool_and_over_http(alice: Person, room: str) -> None:
    asked = "SELECT name FROM chats WHERE name = 'lobby'"
    call = f"run sshwarma:sql {json.dumps({'text': asked})}"
    refused = alice.run(call)
    assert refused.status == 1 and "is not equipped here" in refused.err
    alice.does("equip room sshwarma:sql")
    ran = alice.json(call)
    assert (ran["ok"], ran["structured"]["rows"]) == (True, [["lobby"]])
    assert "lobby" in ran["text"]
    token = alice.server.operate("token_new", name=alice.name)["token"]
    answer = Api(alice.server, token).run("sql", text=asked)[1]
    assert answer["result"]["rows"] == [["lobby"]]
    assert answer["result"]["columns"] == ["name"]
    refusal = Api(alice.server, token).run("sql", text="SELECT * FROM tokens")[1]
    assert (refusal["error"], refusal["message"]) == ("forbidden", "tokens is not readable.")


@covers("search")
def test_history_search_finds_old_rows_and_leaves_out_undone_ones(
    alice: Person, bob: Person, room: str, name: Named
) -> None:
    word = name("relay")
    alice.does(f"say the {word} is down")
    for number in range(30):
        alice.does(f"say line {number}")
    assert word not in alice.does("history")
    for command in (f"history search {word}", f"search {word}", f'history search "the {word}"'):
        found = alice.json(command)["entries"]
        assert [(entry["room"], entry["text"]) for entry in found] == [
            (room, f"the {word} is down")
        ]
    alice.does("room private")
    assert bob.json(f"history search {word}")["entries"] == []
    assert alice.run("history search").status == 2
    assert alice.run(f"history 5 {word}").status == 2
    hers = alice.sit(100, 30, room=room)
    hers.enter(f"/history search {word} --dropped")
    hers.wait_for("Found 1, newest first:")


@covers("stats")
def test_stats_are_the_same_over_every_door(
    serve: Callable[..., Server], counting_model: CountingModel
) -> None:
    port = counting_model.server_address[1]
    url = f"http://127.0.0.1:{port}/v1"
    models = [
        {"name": one, "kind": "compatible", "model": f"m-{one}", "base_url": url}
        for one in ("ping", "pong")
    ]
    server = serve(models=json.dumps(models))
    ann = server.person("ann")
    ann.does("create den")
    for line in ("@ping one", "@ping two", "@pong three"):
        assert "pong" in ann.run(line).out
    ann.run("run sshwarma:note 'text=kept'")
    over_ssh = ann.json("stats")
    assert [(use["model"], use["agents"], use["answers"]) for use in over_ssh["spent"]] == [
        ("m-ping", ["ping"], 2), ("m-pong", ["pong"], 1),
    ]  # fmt: skip
    total = over_ssh["total"]
    assert (total["prompt_tokens"], total["completion_tokens"]) == (300, 60)
    assert total["total_tokens"] == sum(use["total_tokens"] for use in over_ssh["spent"]) == 360
    assert [(tool["tool"], tool["calls"]) for tool in over_ssh["tools"]] == [("sshwarma:note", 1)]
    token = server.operate("token_new", name="ann")["token"]
    assert Api(server, token).run("stats")[1]["result"] == over_ssh
    by_sql = ann.json("sql SELECT sum(total_tokens), count(DISTINCT turn_id) FROM usage")
    assert by_sql["rows"] == [[360, 3]]
    grouped = ann.json(
        "sql SELECT role, content FROM messages WHERE group_id = (SELECT turn_id FROM usage"
        " ORDER BY id LIMIT 1) ORDER BY id"
    )
    assert grouped["rows"][-1] == ["assistant", "pong"]
    screen = ann.sit(100, 30, room="den")
    screen.enter("/stats")
    screen.wait_for("360 tokens")
    screen.enter("/stats @pong")
    screen.wait_for("Used in den by pong:")
    assert ann.run("stats --all").status == 1
    owner = server.owner
    every = owner.json("stats --all")
    assert [room["room"] for room in every["rooms"]] == ["den"]
    assert every["total"]["total_tokens"] == 360
    for one in (ann, owner):
        one.hang_up()
