"""JSON Pointers: the one part of a patch that no legal pod reaches in full, since no key may hold a `~`."""

from __future__ import annotations

import pytest
from jsonpointer import JsonPointer

from webhook.patch import escape


@pytest.mark.parametrize("key", ["", "plain", "example.com/team", "a~b", "~1", "a/b~c/~", "~~//"])
def test_an_escaped_key_is_found_again(key: str) -> None:
    assert JsonPointer("/" + escape(key)).parts == [key]
