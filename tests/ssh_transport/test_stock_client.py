"""The stock OpenSSH client at our door: shell, commands, pipes, rekeying."""

from __future__ import annotations

import re
from typing import Any, cast

from asyncssh import SSHKey

from sshwarma.ssh.transport.server import SshServer
from support.ssh_server import Connect, Serve, Ssh, World, finish, within
from support.waiting import until


async def test_a_shell_has_a_terminal_and_echoes(server: SshServer, ssh: Ssh, world: World) -> None:
    client = await ssh(server, "-tt", "", env={"TERM": "xterm-256color"})
    assert client.stdin
    assert client.stdout
    assert await within(client.stdout.readline()) == b"alice xterm-256color 80x24\r\n"
    client.stdin.write("żółw 🐢".encode())
    assert await within(client.stdout.readexactly(12)) == "żółw 🐢".encode()
    world.programs[0].channel.exit(0)
    assert (await finish(client)).status == 0


async def test_peer_is_identified_by_its_key(
    server: SshServer, ssh: Ssh, world: World, key: SSHKey
) -> None:
    assert (await finish(await ssh(server, "exit 0"))).status == 0
    (peer,) = world.entered
    assert peer.fingerprint == key.get_fingerprint()
    assert peer.public_key.split() == key.export_public_key().decode().split()[:2]
    assert (peer.address, peer.username) == ("127.0.0.1", "alice")
    assert peer.client.startswith("OpenSSH_")


async def test_short_command_reports_its_exit_status(server: SshServer, ssh: Ssh) -> None:
    done = await finish(await ssh(server, "exit 7"))
    assert (done.status, done.out) == (7, b"bye\n")


async def test_piped_input_is_echoed_completely(server: SshServer, ssh: Ssh) -> None:
    text = b"".join(b"line %d\n" % number for number in range(100_000))
    done = await finish(await ssh(server, "cat"), text)
    assert done.status == 0
    assert done.out == text


async def test_refused_command_prints_the_reason_to_stderr(server: SshServer, ssh: Ssh) -> None:
    done = await finish(await ssh(server, "refuse"))
    assert (done.status, done.out) == (1, b"")
    assert b"not that one" in done.err


async def test_command_over_the_limit_is_refused(serve: Serve, ssh: Ssh) -> None:
    done = await finish(await ssh(await serve(max_command_bytes=100), "cat " + "x" * 200))
    assert done.status == 1
    assert b"at most 100 bytes" in done.err


async def test_frequent_rekeying_loses_no_data(serve: Serve, ssh: Ssh) -> None:
    server = await serve(max_rekey_burst=10_000)
    text = bytes(range(256)) * 400
    done = await finish(await ssh(server, "-v", "-o", "RekeyLimit=1K", "cat"), text)
    assert (done.status, done.out) == (0, text)
    assert done.err.count(b"SSH2_MSG_NEWKEYS received") > 3


async def test_excessive_rekeying_is_throttled(serve: Serve, ssh: Ssh) -> None:
    server = await serve(max_rekey_burst=1, max_rekeys_per_second=50)
    done = await finish(await ssh(server, "-o", "RekeyLimit=1K", "cat"), bytes(20_000))
    assert (done.status, done.out) == (0, bytes(20_000))


async def test_server_rekeys_after_its_byte_limit(serve: Serve, connect: Connect) -> None:
    server = await serve(max_rekey_burst=10_000)
    async with await connect(server) as client:
        process = await client.create_process(encoding=None)
        await within(process.stdout.readline())
        (visitor,) = cast("set[Any]", server.clients)
        visitor._conn._rekey_bytes = 1
        for number in range(20):
            process.stdin.write(b"%4d" % number)
            assert await within(process.stdout.readexactly(4)) == b"%4d" % number


async def test_client_without_gcm_gets_ctr(server: SshServer, connect: Connect) -> None:
    client = await connect(server, encryption_algs=["aes256-ctr"])
    done = await within(client.run("cat", input="plain enough"))
    assert (done.exit_status, done.stdout) == (0, "plain enough")


async def test_openssh_gets_gcm_and_never_chacha(server: SshServer, ssh: Ssh) -> None:
    done = await finish(await ssh(server, "-v", "exit 0"))
    assert b"server->client cipher: aes128-gcm@openssh.com" in done.err


async def test_only_allowed_environment_variables_arrive(server: SshServer, ssh: Ssh) -> None:
    sent = {
        "LANG": "pl_PL.UTF-8",
        "LD_PRELOAD": "/tmp/x.so",
        "NO_COLOR": "1",
        "COLORTERM": "x" * 999,
    }
    done = await finish(await ssh(server, "-o", f"SendEnv={' '.join(sent)}", "env", env=sent))
    assert done.out == b"{'LANG': 'pl_PL.UTF-8', 'NO_COLOR': '1'}"


async def test_handler_is_notified_of_the_disconnect_once(
    server: SshServer, ssh: Ssh, world: World
) -> None:
    client = await ssh(server, "-tt", "")
    await until(lambda: world.programs)
    client.kill()
    (program,) = world.programs
    await until(lambda: program.count("closed"))
    await until(lambda: server.connections == 0)
    assert program.count("closed") == 1
    program.channel.write(b"to nobody")
    program.channel.exit(0)


async def test_stock_client_is_offered_no_curve_of_nist(server: SshServer, ssh: Ssh) -> None:
    done = await finish(await ssh(server, "-vv", "exit 0"))
    offer = done.err.decode().partition("peer server KEXINIT proposal")[2]
    exchanges, host_keys = re.findall(r"(?:KEX|host key) algorithms: (\S+)", offer)[:2]
    names = [name for name in exchanges.split(",") if not name.startswith(("ext-info", "kex-"))]
    assert "curve25519-sha256" in names and all("25519" in name for name in names)
    assert host_keys == "ssh-ed25519"
    refused = await finish(await ssh(server, "-o", "KexAlgorithms=ecdh-sha2-nistp256", "exit 0"))
    assert refused.status == 255 and b"no matching key exchange method" in refused.err


async def test_client_with_the_algorithms_of_dropbear_logs_in(
    server: SshServer, connect: Connect
) -> None:
    client = await connect(
        server,
        kex_algs="curve25519-sha256",
        encryption_algs="aes256-ctr",
        mac_algs="hmac-sha2-256",
        server_host_key_algs="ssh-ed25519",
    )
    assert (await within(client.run("exit 0"))).exit_status == 0
