"""Lines that verbs refuse, and that change nothing.

Longer than 400 lines, because it has a line for each verb.
"""

from __future__ import annotations

import pytest
import pytest_asyncio

from sshwarma.verbs.called_verb import find_typed
from sshwarma.verbs.registry import every_verb
from sshwarma.world.world import World
from support.people import Someone, arrive, refused

REFUSALS = """
/relay [] hello
/build
/build = x
/build --encoded ü
/export folder nosuch
/lua return (
/trigger list nothing
/trigger new alarm = return 1
/trigger edit A!
/trigger log nothing
/trigger test nothing
/tool state nothing
/tool state sshwarma:look
/trigger on nothing
/trigger off nothing
/trigger remove nothing
/history of sshwarma:look
/history diff nothing
/revert nothing
/rename nothing other
/rename room lobby
/dig north lobby
/hook list nothing
/hook add a ftp://example.org/ --on row
/hook in a
/hook log nothing
/hook test nothing
/hook on nothing
/hook off nothing
/hook remove nothing
/env nothing
/mem nothing
/mem project
/mem project get nothing
/mem project set key
/mem project list --project 
/mem project delete nothing
/mem project search nothing (
/mem project history nothing
/mem project diff nothing
/mem project restore nothing
/mem project members --project 
/mem project member nobody owner
/mem project edit 
/mem session history nothing
/mem session diff nothing
/mem session restore nothing
/mem session edit 
/mem session get nothing
/mem session set
/mem session delete nothing
/mem session list --limit -1
/mem session append  = x
/mem session concat nothing nothing third
/mem session copy nothing other
/mem session search nothing (
/mem session lines nothing
/mem session chars nothing 5 3
/mem session insert nothing 1 = x
/mem session replace nothing 1 1 = x
/mem session cut nothing 1 1
/mem session patch nothing = x
/mem session length nothing
/mem session count nothing
/mem session eol nothing
/mem session normalize nothing lf
/mem session indent nothing
/mem session reindent nothing tabs
/files nothing
/gc files --now
/file show nothing
/file get nothing
/file put ../outside = x
/shell make
/toolset show nothing
/toolset import
/toolset import = x
/toolset import --encoded ü
/toolset export nothing
/toolset enable nothing
/toolset disable nothing
/toolset uninstall nothing
/toolset link /nowhere
/plugins reload
/plugins list now
/tools info now
/toolset link kit
/events nowhere-at-all
/allow
/deny 3
/file put /etc/passwd = x
/file put nothing
/file replace nothing old new
/file edit ../outside
/file rm nothing
/file mv nothing there
/file mkdir ../outside
/file history nothing
/file version nothing
/file search (
/file patch = nothing
/file diff nothing
/file restore nothing
/run nothing:here
/stop
/stop @nobody
/expand 9
/expand nine
/attachment
/attachment 9
/render
/render 9
/audit --agent zzz
/audit --verb logn
/audit --since yesterday
/broadcast
/wrap @nobody
/wrap @nobody diff
/wrap
/context show @nobody
/context window many
/context rebuild bob
/context rebuild
/notes
/notes show gone
/notes clear
/state clear
/state gone
/state list all
/message show
/message drop ffffff
/message list 0
/message restore ffffff
/undo
/retry
/branch list all
/branch switch
/branch switch ffffff
/clone nowhere
/clone lobby lobby
/load
/load nowhere
/unload nowhere
/namespaces too many
/namespace list all
/namespace show nowhere
/namespace new Über
/namespace set global keywords
/namespace set nowhere keywords a
/namespace set global nothing a
/namespace remove global
/state add Über
/state remove
/state directory relative
/skill list all
/skill show
/skill show nothing
/skill new Über = x
/skill new empty
/skill activate nothing
/skill edit nothing
/skill rename nothing new
/skill remove nothing
/skill deactivate nothing
/wrap bob
/models too many
/model list all
/model show
/model show qwen
/model add
/model add qwen ollama
/model add alice ollama qwen3:8b
/model set bob
/model set bob prompt
/model set bob prompt You are terse.
/model remove bob
/model enable bob
/model disable bob
/model test bob
/model found too
/model nonsense
/mcp list too
/mcp nonsense
/mcp add
/mcp add holler
/mcp add holler example.org
/mcp list --sse
/mcp show
/mcp show holler
/mcp show holler too
/mcp remove holler
/mcp refresh holler
/mcp enable holler
/mcp disable holler
/mcp approve holler
/mcp log holler
/mcp login holler
/mcp logout holler
/answer
/answer --decline
/answer me
/stats too many
/stats --days 0
/trace 0
/stats @nobody
/schema nothing
/schema too many
/sql
/sql DROP TABLE rows
/sql SELECT * FROM agent_keys
/sql SELECT 1; SELECT 2
/sql SELECT nothing FROM messages
/history 20 words
/history search
/history search !!
/look nowhere
/examine @nobody
/examine home:nothing
/leave workshop
/join nowhere
/go north
/create lobby
/create Über
/create system
/fork nowhere
/fork lobby lobby
/route nowhere
/nav sideways
/nav show me
/nav on off
/nav off now
/exits here
/portal north nowhere
/portal n!rth home
/portal hatch home --both
/unportal north
/tool sing
/tool show
/tool show nothing
/tool show lobby
/tool new dice
/tool new dice =
/tool new Dice = return 1
/tool new dice = -- @param sides die How many
/tool edit sshwarma:look
/tool test sshwarma:look
/tool enable nothing
/tool disable nothing
/tool list two patterns
/tool describe sshwarma:look
/tool remove sshwarma:look
/tool set sshwarma:look colour red
/tool set sshwarma:look approval maybe
/tool set sshwarma:look name
/tool set sshwarma:look renderer {"type": "code", "content": "x"}
/put
/put bad/name = x
/put note
/edit @bob
/edit sshwarma:look
/link note
/link note nothing
/drop room nothing
/drop home nothing
/restore nothing
/move nothing home
/move @bob home
/move sshwarma:look me
/equip room
/equip chair sshwarma:look
/equip @nobody sshwarma:look
/equip room nothing:*
/unequip room nothing
/unequip room global:help
/inv chair
/inv @nobody
/inv defaults too
/say
/me
/tell nobody hi
/tell alice to myself
/reply hi
/note
/idea
/milestone
/decide  
/journal gossip
/journal note 0
/history 0
/history @nobody
/history @bob
/history --row 99
/history --row 1 --tools
/history stats 5
/search
/search !!
/room show lobby
/room builder
/room builder nobody
/room owner
/room owner nobody
/room member
/room member nobody
/room remove
/room remove nobody
/room open bob
/room invite
/room private
/room models nosuch
/room delete
/room delete other
/room delete lobby
/room restore nosuch
/kick nobody
/kick alice
/kick bob
/mute alice
/mute bob soon
/mute bob 5 --off
/unmute bob
/ban nobody
/unban bob
/map 0
/export world
/export room --before 0
/invite
/invite --role owner
/invite --hours 0
/invite list all
/invite revoke
/invite revoke ""
/invite revoke nothing
/gc everything
/gc list everything
/gc purge -1
/gc orphans now
/gc stale -1
/help nothing-like-it
/set nothing on
/set plain maybe
/alias look = x
/alias nothing
/version 2
/quit now
/who me
/rooms all
/vibe %(long)s
/describe %(long)s
/keys list mine
/keys add
/keys add nonsense
/keys remove
/keys remove SHA256:nothing
/token list mine
/token new
/token new ""
/token revoke
/token revoke ""
/token revoke nothing
/token sideways
/web
/web sideways
/web link now
/web end
/web end nothing
/nonsense
""".strip().split("\n")  # fmt: skip # noqa: W291


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owner(shared_world: World) -> Someone:
    await arrive(shared_world, "bob")
    return await arrive(shared_world, "alice", role="owner")


@pytest.mark.parametrize("line", REFUSALS)
@pytest.mark.process
@pytest.mark.asyncio(loop_scope="module")
async def test_refusal_changes_nothing(owner: Someone, line: str) -> None:
    refusal = await refused(owner, line.replace("%(long)s", "x" * 4001))
    assert refusal.message.endswith((".", "?", "!")), refusal.message
    assert refusal.message.isprintable()


def test_every_verb_has_a_refusal_test() -> None:
    tried = {typed[0].name for line in REFUSALS if (typed := find_typed(line)) is not None}
    # Any words are a query of /find, so it is refused by rights alone: see the next test.
    assert {verb.name for verb in every_verb()} - tried == {
        "approvals",
        "find",
        "mem projects",
        "mem show",
        "toolset list",
        "web list",
    }, "add a line that the verb refuses to REFUSALS; a verb that refuses nothing goes beside find"


async def test_url_that_is_too_long_is_not_called_no_url(alice: Someone) -> None:
    refusal = await refused(alice, f"/link page https://example.org/{'x' * 2_000}")
    assert refusal.message == "uri: must have at most 2000 characters (got 2020)."


async def test_command_of_a_server_without_two_dashes_shows_the_form(alice: Someone) -> None:
    error = await refused(alice, "/mcp add files '/usr/bin/python3 server.py'")
    assert "/usr/bin/python3 server.py is neither a URL nor -- and a command." in str(error)
    assert "/mcp add files -- COMMAND" in str(error)
