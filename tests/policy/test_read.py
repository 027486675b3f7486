"""Which files are read as policies, and what becomes of those that can't be."""

from __future__ import annotations

from pathlib import Path

from webhook.policy.load import read


def test_a_directory_gives_its_policy_files_by_name(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "d.txt", ".hidden.yaml", "README.md", "b.yaml~"):
        (tmp_path / name).write_text(f"# {name}")
    (tmp_path / "below.yaml").mkdir()
    (tmp_path / "below.yaml" / "e.yaml").write_text("# e")
    texts, problems = read([tmp_path])
    assert texts == [(str(tmp_path / name), f"# {name}") for name in ("a.yml", "b.yaml", "c.json")]
    assert problems == []


def test_a_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    file = tmp_path / "policy.txt"
    file.write_bytes(b"\xef\xbb\xbf# \xc3\xa4")
    assert read([file]) == ([(str(file), "# ä")], [])


def test_files_of_a_mounted_config_map_are_read_once(tmp_path: Path) -> None:
    data = tmp_path / "..2024_01_01"
    data.mkdir()
    (data / "a.yaml").write_text("# a")
    (tmp_path / "..data").symlink_to(data)
    (tmp_path / "a.yaml").symlink_to(tmp_path / "..data" / "a.yaml")
    assert read([tmp_path]) == ([(str(tmp_path / "a.yaml"), "# a")], [])


def test_what_cannot_be_read_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    missing, latin, good = tmp_path / "missing.yaml", tmp_path / "latin.yaml", tmp_path / "good.yaml"
    latin.write_bytes(b"a: b\nc: caf\xe9\n")
    good.write_text("# good")
    texts, problems = read([missing, latin, good])
    assert texts == [(str(good), "# good")]
    assert [str(problem) for problem in problems] == [
        f"{missing}:1:1: can't be read: No such file or directory",
        f"{latin}:2:7: not UTF-8 text: save the file as UTF-8",
    ]


def test_a_link_to_nowhere_in_a_directory_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nothing")
    texts, problems = read([tmp_path])
    assert texts == []
    assert [problem.file for problem in problems] == [str(tmp_path / "gone.yaml")]
