"""Lists of networks in the settings, and addresses that are in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sshwarma.common.networks import is_in_networks
from sshwarma.settings import Settings, describe_settings_errors, load_settings

EXAMPLE = "must be an address or a network, such as 10.0.0.5 or 10.0.0.0/24"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[ssh]\nproxy_from = ["balancer"]',
            f"ssh.proxy_from.0: {EXAMPLE} (got balancer)",
        ),
        (
            '[ssh]\nproxy_from = ["10.0.0.5/24"]',
            f"ssh.proxy_from.0: {EXAMPLE} (got 10.0.0.5/24; its network is 10.0.0.0/24)",
        ),
        (
            '[http]\nproxy_from = ["::/0"]',
            "http.proxy_from.0: must not be every address: anybody could name any (got ::/0)",
        ),
        (
            '[ssh]\nproxy_from = "10.0.0.5"',
            'ssh.proxy_from: must be a list, such as ["10.0.0.5"] (got 10.0.0.5)',
        ),
    ],
)
def test_list_of_networks_that_is_wrong_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ValidationError) as caught:
        load_settings(file)
    assert said in "\n".join(describe_settings_errors(caught.value, Settings))


@pytest.mark.parametrize(
    ("address", "is_inside"),
    [
        ("10.0.0.5", True),
        ("10.0.0.6", False),
        ("::ffff:10.0.0.5", True),
        ("192.168.7.200", True),
        ("2001:db8:1::7", True),
        ("2001:db8:2::7", False),
        ("fe80::1%eth0", True),
        ("fe80::2%10.0.0.5", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_address_is_in_a_list_or_not(address: str, is_inside: bool) -> None:
    networks = ("10.0.0.5/32", "192.168.0.0/16", "2001:db8:1::/48", "fe80::1/128")
    assert is_in_networks(address, networks) == is_inside
    assert not is_in_networks(address, ())
