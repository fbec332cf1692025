"""Where a policy server is, as people type it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.policies.openpi_connection import parse_address


@pytest.mark.parametrize(
    ("where", "url"),
    [
        ("gpu", "ws://gpu:8000"),
        ("gpu.lab.example:9", "ws://gpu.lab.example:9"),
        ("10.0.0.7:8001", "ws://10.0.0.7:8001"),
        ("[::1]", "ws://[::1]:8000"),
        ("[fe80::1%eth0]:080", "ws://[fe80::1%eth0]:80"),
        ("ws://gpu:8002", "ws://gpu:8002"),
        ("wss://policy.example/pi0", "wss://policy.example/pi0"),
    ],
)
def test_what_is_typed_is_an_address(where: str, url: str) -> None:
    address = parse_address("openpi", where, 8000)
    assert (str(address), address.model) == (url, f"openpi:{where}")


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("gpu:", "'' is not a port number (1 to 65535)"),
        ("gpu:eighty", "'eighty' is not a port number"),
        ("gpu:0", "'0' is not a port number"),
        ("gpu:65536", "'65536' is not a port number"),
        ("gpu:٣", "is not a port number"),
        ("gpu/x", "write openpi:HOST:PORT"),
        ("::1", "an IPv6 address in brackets"),
        (":8000", "write openpi:HOST:PORT"),
        ("gpu one", "write openpi:HOST:PORT"),
        ("gpu\n:8000", "write openpi:HOST:PORT"),
        ("http://gpu:8000", "write openpi:HOST:PORT or openpi:ws://HOST:PORT"),
        ("ws://", "write openpi:HOST:PORT"),
        ("ws://gpu:99999", "write openpi:HOST:PORT"),
        ("ws://[::1:8000", "write openpi:HOST:PORT"),
    ],
)
def test_what_is_none_is_refused_with_how_to_write_it(where: str, complaint: str) -> None:
    with pytest.raises(VlaError) as refused:
        parse_address("openpi", where, 8000)
    assert complaint in str(refused.value)
    assert str(refused.value).startswith("--vla-model=openpi:")


@pytest.mark.parametrize(
    "where", ["ws://me:secret@gpu", "ws://gpu?token=secret", "me:secret@gpu:80", "ws://gpu#secret"]
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(where: str) -> None:
    with pytest.raises(VlaError, match="PYTEST_VLA_POLICY_KEY") as refused:
        parse_address("openpi", where, 8000)
    assert "secret" not in str(refused.value)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_refused(where: str) -> None:
    try:
        url = parse_address("openpi", where, 8000).url
    except VlaError:
        return
    assert url.startswith(("ws://", "wss://"))
    assert url.isprintable()
