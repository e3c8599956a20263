"""The `sshwarma` command."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sshwarma

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sshwarma.settings import ModelSettings

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status: 0 done, 1 it could not be done, 2 wrong usage."""
    parser = _build_parser()
    asked = parser.parse_args(argv)
    run: Callable[[argparse.Namespace], int] | None = getattr(asked, "run", None)
    if run is None:
        parser.print_help()
        return EXIT_USAGE
    try:
        return run(asked)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if not isinstance(error, _expected_errors()):
            raise
        print(f"sshwarma: {error}", file=sys.stderr)
        return EXIT_FAILED


def _expected_errors() -> tuple[type[Exception], ...]:
    """Errors whose words are for the operator. Imported only once something has failed: each
    command starts with the modules it needs and no others."""
    from sshwarma.admin.control_socket import DataDirInUseError
    from sshwarma.ssh.transport.host_key import UnusableKey
    from sshwarma.world.errors import WorldError

    return (WorldError, DataDirInUseError, UnusableKey, OSError, RuntimeError)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sshwarma", description=sshwarma.__doc__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    serve = _add_command(commands, "serve", "run the world", _serve)
    serve.add_argument("--listen", metavar="HOST:PORT", help="where the ssh door listens")
    serve.add_argument("--http", metavar="HOST:PORT|off", help="where /healthz and /metrics are")
    serve.add_argument("--registration", choices=["closed", "invite", "open"])

    keys = commands.add_parser("keys", help="who may log in with which key")
    keys_commands = keys.add_subparsers(required=True, metavar="COMMAND")
    add = _add_command(keys_commands, "add", "let a key log in as NAME", _keys_add)
    add.add_argument("name")
    add.add_argument("file", help="a public key file, such as ~/.ssh/id_ed25519.pub; - for stdin")
    add.add_argument("--role", choices=["owner", "admin", "member", "guest"])
    listed = _add_command(keys_commands, "list", "show keys", _keys_list)
    listed.add_argument("name", nargs="?")
    remove = _add_command(keys_commands, "remove", "take a key away", _keys_remove)
    remove.add_argument("name")
    remove.add_argument("fingerprint", help="SHA256:… or the start of it")

    agents = commands.add_parser("agents", help="who there is and what they may do")
    agents_commands = agents.add_subparsers(required=True, metavar="COMMAND")
    _add_command(agents_commands, "list", "show agents", _agents_list)
    role = _add_command(agents_commands, "role", "give an agent a role", _agents_role)
    role.add_argument("name")
    role.add_argument("role", choices=["owner", "admin", "member", "guest"])
    for word, what in (("disable", "shut an agent out, at once"), ("enable", "let it in again")):
        one = _add_command(agents_commands, word, what, _agents_switch)
        one.add_argument("name")
        one.set_defaults(op=f"agents_{word}")

    invite = _add_command(commands, "invite", "make a one-time code for a newcomer", _invite)
    invite.add_argument("--role", default="member", choices=["admin", "member", "guest"])
    invite.add_argument("--hours", type=float, default=72, help="how long it is good for")

    token = commands.add_parser("token", help="bearer tokens for the HTTP API and MCP")
    token_commands = token.add_subparsers(required=True, metavar="COMMAND")
    new = _add_command(token_commands, "new", "make a token that speaks for an agent", _token_new)
    new.add_argument("name")
    new.add_argument("--label", default="", help="what it is for")
    new.add_argument("--days", type=float, help="how long it is good for; for ever if left out")
    new.add_argument(
        "--scope",
        default="build",
        choices=["read", "act", "build"],
        help="read: look; act: talk and call tools too; build: all that the agent may",
    )
    tokens = _add_command(token_commands, "list", "show tokens that are good", _token_list)
    tokens.add_argument("name", nargs="?")
    revoke = _add_command(token_commands, "revoke", "end a token", _token_revoke)
    revoke.add_argument("id", help="its id, or the start of it")

    backup = _add_command(commands, "backup", "write a copy of the world, while it runs", _backup)
    backup.add_argument("file", type=Path, help="the archive to make; must not exist")
    restore = _add_command(commands, "restore", "make a data directory from a backup", _restore)
    restore.add_argument("file", type=Path)
    restore.add_argument("--force", action="store_true", help="replace a world that is there")

    config = commands.add_parser("config", help="settings")
    config_commands = config.add_subparsers(required=True, metavar="COMMAND")
    _add_command(config_commands, "show", "print the settings in force", _config_show)

    _add_command(commands, "doctor", "check settings, database, ports and keys", _doctor)
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_version)
    return parser


def _add_command(
    commands: Any, name: str, help_text: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    made.add_argument("--config", type=Path, metavar="FILE", help="a sshwarma.toml")
    made.add_argument("--data-dir", type=Path, metavar="DIR", help="where the world is kept")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.set_defaults(run=run)
    return made


def _load_settings(asked: argparse.Namespace) -> Any:
    """The settings in force, with this command's flags on top."""
    from pydantic import ValidationError

    from sshwarma.settings import InvalidSettingsError, load_settings

    flags: dict[str, Any] = {}
    if asked.data_dir is not None:
        flags["data_dir"] = asked.data_dir.absolute()
    for flag, section, key in (
        ("listen", "ssh", "listen"),
        ("http", "http", "listen"),
        ("registration", "registration", "mode"),
    ):
        if getattr(asked, flag, None) is not None:
            flags.setdefault(section, {})[key] = getattr(asked, flag)
    try:
        return load_settings(asked.config, **flags)
    except ValidationError as error:
        lines = [
            f"  {'.'.join(map(str, found['loc']))}: {found['msg']}"
            for found in error.errors(include_url=False)
        ]
        print("sshwarma: the settings are wrong:", *lines, sep="\n", file=sys.stderr)
        raise SystemExit(EXIT_USAGE) from None
    except InvalidSettingsError as error:
        print(f"sshwarma: the settings are wrong:\n  {error}", file=sys.stderr)
        raise SystemExit(EXIT_USAGE) from None


def _serve(asked: argparse.Namespace) -> int:
    from sshwarma.settings.logs import configure_logging

    settings = _load_settings(asked)
    configure_logging(settings.log)
    import uvloop

    return uvloop.run(_serve_until_stopped(settings))


async def _serve_until_stopped(settings: Any) -> int:
    from sshwarma.app import App
    from sshwarma.models.discover import discover_models

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    app = await App.start(settings)
    # What is alive now stays alive: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    try:
        _print_welcome(app, [] if settings.models else await discover_models(os.environ))
        print(f"ready ssh={app.ssh_address} http={app.http_address}", flush=True)
        await stop.wait()
    finally:
        await app.stop()
    return EXIT_OK


def _print_welcome(app: Any, offers: Sequence[ModelSettings]) -> None:
    """Tell the operator who was let in, which models could answer, and how to come in; on stderr,
    beside the log."""
    host, _, port = app.ssh_address.rpartition(":")
    lines = [f"Host key: {app.host_fingerprint()}"]
    who = "NAME"
    identity = app.settings.data_dir / "operator_ed25519"
    if app.admitted is not None:
        who = app.admitted.name
        keys = ", ".join(app.admitted.fingerprints) or "no key"
        lines.append(f"First run: {who} is the owner of this world, with {keys}.")
        if app.admitted.identity is not None:
            lines.append(f"You had no key, so one was made: {identity}")
    else:
        owners = sorted(agent.name for agent in app.world.agents if agent.role == "owner")
        who = owners[0] if owners else who
        if not owners:
            lines.append("Nobody can log in yet: sshwarma keys add NAME FILE --role owner")
    if offers:
        lines.append(
            "Models that could answer here; /model found lists them with the line that adds"
        )
        lines.append("each at once, or put one into sshwarma.toml:")
    for offer in offers:
        table = f'[[models]]\nname = "{offer.name}"\nkind = "{offer.kind}"\nmodel = "{offer.model}"'
        lines += [f"  {text}" for text in table.split("\n")]
    with_key = f"-i {identity} " if identity.exists() else ""
    lines.append(f"Come in:  ssh {with_key}-p {port} {who}@{host}")
    print(*lines, sep="\n", file=sys.stderr, flush=True)


def _run_operation(asked: argparse.Namespace, op: str, **args: Any) -> Any:
    """Carry out an operation: in the running server, or on the database if none is running."""
    from sshwarma.admin import control_socket

    settings = _load_settings(asked)
    try:
        return asyncio.run(control_socket.send_request(settings.data_dir, op, args))
    except (FileNotFoundError, ConnectionRefusedError):
        return asyncio.run(_run_operation_offline(settings, op, args))


async def _run_operation_offline(settings: Any, op: str, args: dict[str, Any]) -> Any:
    from sshwarma.admin import control_socket
    from sshwarma.admin.operations import run_operation
    from sshwarma.app import open_world
    from sshwarma.settings.logs import configure_logging

    configure_logging(settings.log.model_copy(update={"level": "warning"}))
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with control_socket.lock_data_dir(settings.data_dir):
        world = await open_world(settings)
        try:
            return await run_operation(world, op, args)
        finally:
            await world.close()


def _print_result(asked: argparse.Namespace, result: Any, *lines: str) -> int:
    if asked.json:
        print(json.dumps(result, indent=2))
    else:
        for text in lines:
            print(text)
    return EXIT_OK


def _keys_add(asked: argparse.Namespace) -> int:
    text = sys.stdin.read() if asked.file == "-" else Path(asked.file).read_text(encoding="utf-8")
    done = _run_operation(asked, "keys_add", name=asked.name, public_key=text, role=asked.role)
    shown = f"{done['agent']} ({done['role']}) may log in with {done['fingerprint']}"
    return _print_result(asked, done, shown)


def _keys_list(asked: argparse.Namespace) -> int:
    found = _run_operation(asked, "keys_list", name=asked.name)
    return _print_result(
        asked, found, *(f"{key['agent']}  {key['fingerprint']}  {key['comment']}" for key in found)
    )


def _keys_remove(asked: argparse.Namespace) -> int:
    done = _run_operation(asked, "keys_remove", name=asked.name, fingerprint=asked.fingerprint)
    return _print_result(
        asked, done, f"{done['agent']} can no longer log in with {done['fingerprint']}"
    )


def _agents_list(asked: argparse.Namespace) -> int:
    found = _run_operation(asked, "agents_list")
    rows = [
        f"{agent['name']:<32}  {agent['role']:<6}  {agent['kind']:<8}  {agent['keys']} keys  "
        f"{agent['connections']} connected{'  disabled' if agent['disabled'] else ''}"
        for agent in found
    ]
    return _print_result(asked, found, *rows)


def _agents_role(asked: argparse.Namespace) -> int:
    done = _run_operation(asked, "agents_role", name=asked.name, role=asked.role)
    return _print_result(asked, done, f"{done['name']} is {done['role']} now")


def _agents_switch(asked: argparse.Namespace) -> int:
    done = _run_operation(asked, asked.op, name=asked.name)
    state = "disabled" if done["disabled"] else "enabled"
    return _print_result(asked, done, f"{done['name']} is {state}")


def _invite(asked: argparse.Namespace) -> int:
    done = _run_operation(asked, "invite", role=asked.role, hours=asked.hours)
    return _print_result(asked, done, done["code"])


def _token_new(asked: argparse.Namespace) -> int:
    done = _run_operation(
        asked, "token_new", name=asked.name, label=asked.label, days=asked.days, scope=asked.scope
    )
    return _print_result(asked, done, done["token"])


def _token_list(asked: argparse.Namespace) -> int:
    found = _run_operation(asked, "token_list", name=asked.name)
    return _print_result(
        asked,
        found,
        *(
            f"{token['id']}  {token['agent']}  {token['scope']}  {token['label']}"
            for token in found
        ),
    )


def _token_revoke(asked: argparse.Namespace) -> int:
    done = _run_operation(asked, "token_revoke", token_id=asked.id)
    return _print_result(asked, done, f"{done['agent']}'s token {done['id']} is no good any more")


def _backup(asked: argparse.Namespace) -> int:
    from sshwarma.admin import backup

    done = backup.write_backup(_load_settings(asked).database, asked.file)
    return _print_result(
        asked, done, f"Wrote {asked.file}: {done['bytes']} bytes, schema {done['schema']}"
    )


def _restore(asked: argparse.Namespace) -> int:
    from sshwarma.admin import backup

    settings = _load_settings(asked)
    done = backup.restore_backup(asked.file, settings.data_dir, force=asked.force)
    return _print_result(asked, done, f"Restored {settings.database} from {asked.file}")


def _config_show(asked: argparse.Namespace) -> int:
    settings = _load_settings(asked).model_dump(mode="json")
    if asked.json:
        print(json.dumps(settings, indent=2))
        return EXIT_OK
    print("\n".join(_format_toml(settings)))
    return EXIT_OK


def _format_toml(settings: dict[str, Any]) -> Iterator[str]:
    """Settings as the lines of a file: values, then sections, then tables of which there may be
    several. What is not set is left out."""
    sections = {name: value for name, value in settings.items() if isinstance(value, dict)}
    tables = {
        name: value
        for name, value in settings.items()
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    }
    plain = settings.keys() - sections.keys() - tables.keys()
    yield from _format_toml_pairs(
        {name: value for name, value in settings.items() if name in plain}
    )
    for name, section in sections.items():
        yield from ("", f"[{name}]", *_format_toml_pairs(section))
    for name, several in tables.items():
        for one in several:
            yield from ("", f"[[{name}]]", *_format_toml_pairs(one))


def _format_toml_pairs(values: dict[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        if value is not None:
            yield f"{key} = {_format_toml_value(value)}"


def _format_toml_value(value: Any) -> str:
    """A value as TOML has it: as JSON, but for tables within a line."""
    if isinstance(value, dict):
        inside = (
            f"{json.dumps(key)} = {_format_toml_value(inner)}" for key, inner in value.items()
        )
        return f"{{{', '.join(inside)}}}"
    return json.dumps(value)


def _doctor(asked: argparse.Namespace) -> int:
    from sshwarma.admin import doctor

    findings = doctor.run_checks(_load_settings(asked))
    if asked.json:
        print(json.dumps([vars(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.what}: {finding.found}")
            if finding.remedy:
                print(f"      {finding.remedy}")
    return EXIT_OK if all(finding.ok for finding in findings) else EXIT_FAILED


def _version(asked: argparse.Namespace) -> int:
    print(f"sshwarma {sshwarma.__version__}")
    return EXIT_OK
