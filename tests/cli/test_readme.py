"""The README says what is so: outputs, reason codes, options, links."""

from __future__ import annotations

import re

import click
import pytest

from tests.cli.readme import README, ROOT, renewed
from webhook.cli import main

TEXT = README.read_text()


def test_outputs_are_those_of_a_real_run() -> None:
    assert TEXT.count("```console\n") >= 3
    assert renewed(TEXT) == TEXT, "renew it: python -m tests.cli.readme"


@pytest.mark.parametrize("line", re.findall(r"^(?:\$ )?spark-webhook (.*)$", TEXT, re.MULTILINE))
def test_every_command_and_option_exists(line: str) -> None:
    context = click.Context(main)
    words = line.split()
    if words[0].startswith("-"):
        assert words == ["--help"]
        return
    command = main.get_command(context, words[0])
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known


def test_every_option_and_make_target_that_is_named_exists() -> None:
    options = {
        option
        for name in main.list_commands(click.Context(main))
        for parameter in main.commands[name].params
        for option in parameter.opts
    }
    assert set(re.findall(r"`(--?[a-z][a-z-]*)\b", TEXT)) <= options
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)(?=[`\s])", re.sub(r"\w make ", "", TEXT))) <= targets


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()
