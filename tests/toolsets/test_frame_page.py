"""Pages that a renderer `frame` embeds."""

from __future__ import annotations

import pytest

from sshwarma.toolsets.frame_page import find_embedding_problem, find_frame_url, make_frame_page

HOSTS = ("Grafana.example.org", "wiki.example.org:8443", "[2001:db8::1]:3000")


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/", "http://LOCALHOST:9/x", "http://127.0.0.1:80", "http://127.9.9.9/",
        "https://[::1]:8000/", "http://app.localhost:5000/", "https://grafana.example.org/d/1",
        "http://grafana.example.org:3000/", "https://wiki.example.org:8443/",
        "http://[2001:db8::1]:3000/",
    ],
)  # fmt: skip
def test_pages_of_this_machine_and_named_hosts_are_embedded(url: str) -> None:
    assert find_embedding_problem(url, HOSTS) == ""


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org/", "example.org"),
        ("https://a.grafana.example.org/", "a.grafana.example.org"),
        ("https://grafana.example.org.evil.test/", "grafana.example.org.evil.test"),
        ("https://localhost.evil.test/", "localhost.evil.test"),
        ("https://wiki.example.org/", "wiki.example.org"),
        ("http://[2001:db8::1]/", "[2001:db8::1]"),
        ("http://0.0.0.0/", "0.0.0.0"),
        ("http://169.254.169.254/", "169.254.169.254"),
    ],
)
def test_pages_of_other_hosts_are_not_embedded(url: str, host: str) -> None:
    problem = find_embedding_problem(url, HOSTS)
    assert problem == f"Pages of {host} are not embedded: http.frame_hosts does not name it."


def test_port_is_one_of_the_servers_machine() -> None:
    assert find_frame_url({"port": 8080}) == "http://localhost:8080/"
    assert find_frame_url({"port": None}) is find_frame_url({"url": None}) is None


def test_address_cannot_leave_its_attribute() -> None:
    page = make_frame_page("http://localhost:1/\"><script>alert('x')</script>").decode()
    assert "<script" not in page and "&quot;&gt;&lt;script&gt;" in page
