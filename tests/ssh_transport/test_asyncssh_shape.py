"""The parts of asyncssh that our subclasses lean on have not changed.

The subclasses are in _asyncssh.py, which alone uses private names, and in cipher.py, channel.py,
connection.py, guard.py, client_connection.py, session.py and sftp.py.

If this fails after an upgrade: read the change in each part named, adapt our override of it if it
must be, run benchmarks/transport.py, then put the new digest here. Do not skip the reading: these
are the places where a silent change could break who is let in, or reuse a nonce.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import re
from functools import reduce
from types import ModuleType

import pytest
from asyncssh import channel, connection, crypto, encryption, packet, sftp
from asyncssh.channel import SSHServerChannel
from asyncssh.connection import SSHServerConnection, SSHServerConnectionOptions
from asyncssh.sftp import SFTPServerHandler

from sshwarma.ssh.transport import _asyncssh
from sshwarma.ssh.transport.channel import LeanChannel
from sshwarma.ssh.transport.guard import GuardedConnection
from sshwarma.ssh.transport.server import KEX_ALGORITHMS

READ_AT = "2.24.1"

DIGESTS = {
    "connection.SSHConnection.send_packet": "fb9da7bec6dd",
    "connection.SSHConnection.send_newkeys": "0b4123442037",
    "connection.SSHConnection._send_kexinit": "275ddc818b59",
    "connection.SSHConnection._process_kexinit": "439bdf2fc55e",
    "connection.SSHConnection._reset_keepalive_timer": "7a9157707c51",
    "connection.SSHConnection._keepalive_timer_callback": "6d8aa6656cfc",
    "connection.SSHConnection._send": "c6698a37eb80",
    "connection.SSHConnection._send_disconnect": "225d909cfce7",
    "connection.SSHConnection.remove_channel": "d32309b2c6b9",
    "connection.SSHConnection._force_close": "264b4367525f",
    "connection.SSHConnection._cleanup": "ea4cd2aed571",
    "connection.SSHConnection._finish_userauth": "bd2146536318",
    "connection.SSHConnection._process_userauth_request": "9d1a0e42d15a",
    "connection.SSHConnection.send_userauth_success": "812e749ee243",
    "connection.SSHConnection._process_channel_open": "0a1ae759cb6a",
    "connection.SSHConnection._process_global_request": "ab927889d384",
    "connection.SSHServerConnection.send_server_host_keys": "420c0eba4811",
    "connection.SSHServerConnection"
    "._process_hostkeys_prove_00_at_openssh_dot_com_global_request": "d6e86ada990b",
    "connection.SSHServerConnection.validate_public_key": "eb5e22433928",
    "connection.SSHServerConnection._validate_client_public_key": "6a630986a379",
    "connection.SSHServerConnection.create_server_channel": "b008e7eebd09",
    "connection.SSHServerConnection._process_session_open": "5af6eee0340b",
    "connection.SSHServerConnection.reload_config": "d78b0be8399d",
    "auth.ServerAuth": "34b21c8e4279",
    "auth._ServerPublicKeyAuth": "427e3c2d8598",
    "auth.lookup_server_auth": "50d9f6f25ca1",
    "channel.SSHChannel.write": "1045e2000846",
    "channel.SSHChannel._flush_send_buf": "3f11e9dc27c5",
    "channel.SSHChannel._pause_resume_writing": "b05e507ca9fd",
    "channel.SSHChannel.process_open": "6a3a551a99b6",
    "channel.SSHChannel._finish_open_request": "0186fdd53941",
    "channel.SSHChannel._process_request": "fd623107926d",
    "channel.SSHServerChannel.__init__": "00e69c3de18f",
    "channel.SSHServerChannel._process_env_request": "c6847fe60511",
    "channel.SSHServerChannel._process_pty_req_request": "60cb230a9c49",
    "encryption.GCMEncryption": "d255f9e6b1fa",
    "crypto.cipher.GCMCipher": "e389d2b5bed8",
    "sftp.SFTPHandler.__init__": "f4067a8a90ad",
    "sftp.SFTPHandler.send_packet": "0c22ab5cc5f2",
    "sftp.SFTPHandler.recv_packet": "d811faaea31c",
    "sftp.SFTPHandler.recv_packets": "f1c5fb1ba31b",
    "sftp.SFTPServerHandler.__init__": "c6d824a26f61",
    "sftp.SFTPServerHandler._cleanup": "620706aba475",
    "sftp.SFTPServerHandler._get_next_handle": "0ca44c9cb2fe",
    "sftp.SFTPServerHandler._process_packet": "4e7c6b60e5c9",
    "sftp.SFTPServerHandler._process_open": "de593bd0384f",
    "sftp.SFTPServerHandler._process_close": "51ec1a5405ff",
    "sftp.SFTPServerHandler._process_opendir": "edbe8f8a7990",
    "sftp.SFTPServerHandler._process_readdir": "c062f26f6487",
    "sftp.SFTPServerHandler._process_limits": "62a6a3cb0ec8",
    "sftp.SFTPServerHandler.run": "3da2d6cb349e",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_overridden_asyncssh_code_is_unchanged(name: str) -> None:
    module, _, path = name.partition(".")
    while True:  # crypto.cipher is a module too
        try:
            owner = importlib.import_module(f"asyncssh.{module}.{path.partition('.')[0]}")
        except ModuleNotFoundError:
            owner = importlib.import_module(f"asyncssh.{module}")
            break
        module, path = f"{module}.{path.partition('.')[0]}", path.partition(".")[2]
    source = inspect.getsource(reduce(getattr, path.split("."), owner))
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    assert digest == DIGESTS[name], f"asyncssh changed {name} since {READ_AT}; read it first"


def _handlers(kind: type, ending: str) -> set[str]:
    names = (name for name in dir(kind) if re.fullmatch(rf"_process_(?!request$)\w+{ending}", name))
    return {name.removeprefix("_process_").removesuffix(ending) for name in names}


def test_asyncssh_has_no_new_packet_handlers() -> None:
    assert set(GuardedConnection._packet_handlers) == set(SSHServerConnection._packet_handlers)
    assert set(LeanChannel._packet_handlers) == set(SSHServerChannel._packet_handlers)
    assert _handlers(SSHServerConnection, "_open") == {
        *("channel", "direct_streamlocal_at_openssh_dot_com", "direct_tcpip", "session"),
        "tun_at_openssh_dot_com",
    }
    assert _handlers(SSHServerChannel, "_request") == {
        *("auth_agent_req_at_openssh_dot_com", "break", "env", "exec", "pty_req", "shell"),
        *("keepalive_at_openssh_dot_com", "signal", "subsystem", "window_change", "x11_req"),
    }


def test_asyncssh_has_no_new_requests_of_sftp() -> None:
    """A new one may reach the files of the machine: read it before it is offered."""
    extended = {name for name in SFTPServerHandler._packet_handlers if isinstance(name, bytes)}
    assert extended == {
        *(b"copy-data", b"fstatvfs@openssh.com", b"fsync@openssh.com", b"hardlink@openssh.com"),
        *(b"limits@openssh.com", b"lsetstat@openssh.com", b"posix-rename@openssh.com"),
        *(b"ranges@asyncssh.com", b"statvfs@openssh.com"),
    }
    assert len(SFTPServerHandler._packet_handlers) == len(extended) + 21


def _attributes(*modules: ModuleType) -> set[str]:
    """The private names that these modules give to what `self` is, or is made of."""
    sources = "".join(map(inspect.getsource, modules))
    return set(re.findall(r"(?:\bself\.|\bdef |^    )(_[a-z]\w*)", sources, re.MULTILINE))


def test_private_names_we_use_exist_in_asyncssh() -> None:
    theirs = _attributes(channel, connection, packet, crypto.cipher, encryption, sftp)
    tree = ast.parse(inspect.getsource(_asyncssh))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    private = {name for name in used if re.match(r"_[a-z]", name)}
    ours = {
        *("_heard", "_may_seal", "_may_seal_auth_reply", "_replies", "_send_sealed"),
        *("_head", "_max_buffered_bytes", "_check_handles"),
    }
    assert private - theirs == ours


async def test_only_fast_and_strong_key_exchanges_are_known() -> None:
    options = await SSHServerConnectionOptions.construct(
        server_host_keys=[], gss_host="x", kex_algs=KEX_ALGORITHMS
    )
    assert b"curve25519-sha256" in options.kex_algs
    assert all(b"25519" in name for name in options.kex_algs)
