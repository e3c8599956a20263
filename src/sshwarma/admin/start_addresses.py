"""The addresses of a server, tried before its start makes or upgrades a world."""

from __future__ import annotations

from sshwarma.admin.bound_addresses import find_obstacle, resolve_addresses
from sshwarma.admin.start_errors import listening_at
from sshwarma.settings import Settings


def check_addresses(settings: Settings) -> None:
    """Check that the server can listen at the addresses of ssh and http.

    Raises:
        OSError: with the one where it cannot, or both if they exclude each other.
    """
    ssh, http = settings.ssh.listen, settings.http.listen
    with listening_at(ssh, "--listen"):
        of_ssh = resolve_addresses("ssh", ssh)
        if (obstacle := find_obstacle(of_ssh, ())) is not None:
            raise obstacle
    if http == "off":
        return
    with listening_at(http, "--http"):
        of_http = resolve_addresses("http", http)
        if (obstacle := find_obstacle(of_http, ())) is not None:
            raise obstacle
    if any(one.clashes_with(other) for one in of_http for other in of_ssh):
        raise OSError(
            f"ssh.listen ({ssh}) and http.listen ({http}) have the same port, and only one server"
            " can listen there. Choose another with --listen HOST:PORT or --http HOST:PORT."
        )
