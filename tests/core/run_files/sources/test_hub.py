"""Data sets of the Hub, against a stand-in with its endpoints: what is asked, what is fetched, what goes wrong."""

from __future__ import annotations

import io
import os
import random
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from infrascope_core.errors import InfraScopeError, RunFileError, SourceError
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.run_files.sources import transfer
from infrascope_core.run_files.sources.archive import Member
from infrascope_core.run_files.sources.entry import Listing
from infrascope_core.run_files.sources.hub import HubName, follow, list_hub
from infrascope_core.run_files.sources.transfer import Patience, told_to_wait
from tests.hub import FIRST, REPO, SECOND, Hub, another_etag, cut, serving, stall, status, use, without_ranges
from tests.runs import run_name, write_run

SOURCE = f"hub:{REPO}"
PATIENCE = Patience(tries=2, first_wait_s=0.01, longest_wait_s=0.02, longest_told_s=2.0, grace_s=20.0)


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    monkeypatch.setattr(transfer, "PATIENCE", PATIENCE)
    with serving() as hub:
        use(hub, tmp_path / "home", monkeypatch)
        yield hub


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> bytes:
    """Six runs of which each takes 80 kB packed, and half a megabyte of what nobody wants."""
    folder = tmp_path_factory.mktemp("plain")
    buffer = io.BytesIO()
    noise = random.Random(1)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("__MACOSX/._noise", noise.randbytes(2**19))
        for second in range(6):
            path = write_run(folder, second, samples=5000)
            packed.write(path, f"train_separated/{path.name}")
    return buffer.getvalue()


def listing(tmp_path: Path, source: str = SOURCE) -> Listing:
    return list_hub(source, tmp_path / "pins")


def fault(work: Callable[[], object]) -> str:
    """The one sentence that work ends with."""
    with pytest.raises(SourceError) as caught:
        work()
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 400
    return sentence


def packed_bytes(found: Listing) -> int:
    """What the wanted members take in their archives."""
    return sum(entry.packed_size for entry in found.wanted if isinstance(entry, Member))


def read_all(found: Listing) -> list[int]:
    return [read_run_file(entry).samples for entry in found.wanted]


# -- what is asked and fetched


def test_listing_takes_the_directory_alone_and_once(tmp_path, hub, archive):
    hub.commit(Reveal_CPU__zip=archive, meta_cpu__csv=b"source_file\n", README__md=b"# hello")
    found = listing(tmp_path)
    assert [entry.path for entry in found.entries] == [
        Path(f"{SOURCE}/Reveal_CPU.zip/train_separated/{run_name(second)}") for second in range(6)
    ]
    assert [meta.content for meta in found.metas] == [b"source_file\n"]
    assert (found.commit, found.notices) == (FIRST, ())
    assert hub.sent < 2**19 + 10_000
    asked, sent = len(hub.requests), hub.sent
    assert listing(tmp_path).wanted == found.wanted
    assert (len(hub.requests), hub.sent) == (asked, sent), "all of it is kept"


def test_members_cost_their_bytes_and_little_more(tmp_path, hub, archive):
    hub.commit(Reveal_CPU__zip=archive)
    found = listing(tmp_path, f"{SOURCE}?runs=3")
    before = hub.sent
    with found.ahead(found.wanted):
        assert read_all(found) == [5000] * 3
    members = packed_bytes(found)
    assert members > 200_000
    assert hub.sent - before <= 1.05 * members
    assert hub.sent <= 1.05 * members + 2_000_000
    assert read_all(found) == [5000] * 3, "also when nothing was announced"


def test_a_directory_that_is_larger_than_what_is_asked_for_first(tmp_path, hub, archive, monkeypatch):
    from infrascope_core.run_files.sources import hub as module

    monkeypatch.setattr(module, "_GUESS", 200)
    hub.commit(Reveal_CPU__zip=archive)
    found = listing(tmp_path)
    assert len(found.entries) == 6
    store = [request for request in hub.requests if request.startswith(hub.store.rpartition(":")[2])]
    assert len(store) == 2
    assert hub.sent < 10_000
    assert read_all(found) == [5000] * 6


def test_loose_run_files_and_a_name_that_leads_elsewhere(tmp_path, hub):
    plain = write_run(tmp_path / "plain", 1)
    hub.commit(**{plain.name: plain.read_bytes(), f"../../{run_name(2)}": b"x"})
    found = {entry.path: entry for entry in listing(tmp_path).entries}
    assert list(found) == [Path(f"{SOURCE}/{run_name(2)}"), Path(f"{SOURCE}/{plain.name}")]
    assert read_run_file(found[Path(f"{SOURCE}/{plain.name}")]).samples == 400


def test_labels_and_types_beside_a_file_that_lies_as_it_is(tmp_path, hub):
    plain = write_run(tmp_path / "plain", 1)
    labels = b"start,end,fault,subsystem,metrics\n2026-11-01 10:00:01,2026-11-01 10:00:02,hog,CPU,\n"
    types = b"metric,type,origin\nx[-],counter,\n"
    hub.commit(
        **{plain.name: plain.read_bytes(), f"{plain.stem}.faults.csv": labels, f"{plain.stem}.metrics.csv": types}
    )
    (entry,) = listing(tmp_path).entries
    for beside, content in ((entry.labels, labels), (entry.types, types)):
        with beside.open() as stream:
            assert stream.read() == content
    hub.commit(**{plain.name: plain.read_bytes()})
    follow(SOURCE, tmp_path / "pins")
    (entry,) = listing(tmp_path).entries
    assert (entry.labels, entry.types) == (None, None)


def test_the_token_goes_to_the_hub_and_not_to_the_store(tmp_path, hub, archive, monkeypatch):
    hub.commit(Reveal_CPU__zip=archive)
    hub.token = "hf_secret"
    assert fault(lambda: listing(tmp_path)) == f"{SOURCE}: does not exist, or is private and HF_TOKEN holds no token " \
        "that may read it"  # fmt: skip
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert read_all(listing(tmp_path)) == [5000] * 6


def test_an_archive_in_the_cache_of_the_hub_is_read_there(tmp_path, hub, archive, monkeypatch):
    from huggingface_hub import constants, hf_hub_download

    hub.commit(Reveal_CPU__zip=archive)
    found = listing(tmp_path)
    home = str(tmp_path / "home" / "hub")
    hf_hub_download(REPO, "Reveal_CPU.zip", repo_type="dataset", revision=FIRST, cache_dir=home, endpoint=hub.endpoint)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert read_all(found) == [5000] * 6
    assert read_all(listing(tmp_path)) == [5000] * 6


def test_offline_what_was_downloaded_is_enough(tmp_path, hub, archive, monkeypatch):
    from huggingface_hub import constants, hf_hub_download

    hub.commit(Reveal_CPU__zip=archive, meta_cpu__csv=b"source_file\n", other__md=b"x")
    home = str(tmp_path / "home" / "hub")
    for file in ("Reveal_CPU.zip", "meta_cpu.csv"):
        hf_hub_download(REPO, file, repo_type="dataset", cache_dir=home, endpoint=hub.endpoint)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    asked = len(hub.requests)
    found = listing(tmp_path)
    assert (found.commit, len(found.metas), read_all(found)) == (FIRST, 1, [5000] * 6)
    assert len(hub.requests) == asked
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    assert [entry.fingerprint for entry in listing(tmp_path).entries] == [entry.fingerprint for entry in found.entries]


def test_offline_what_is_kept_is_listed_and_not_read(tmp_path, hub, archive, monkeypatch):
    from huggingface_hub import constants

    hub.commit(Reveal_CPU__zip=archive)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fault(lambda: listing(tmp_path)) == f"{SOURCE}: HF_HUB_OFFLINE is set, and it is not in the cache"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    listing(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    found = listing(tmp_path)
    assert len(found.wanted) == 6
    expected = f"{SOURCE}/Reveal_CPU.zip: HF_HUB_OFFLINE is set, and it is not in the cache"
    assert fault(lambda: read_all(found)) == expected


# -- a branch that moves


def test_a_branch_stays_where_it_was_met_and_a_move_is_said(tmp_path, hub, archive):
    hub.commit(FIRST, Reveal_CPU__zip=archive)
    listing(tmp_path)
    hub.commit(SECOND, readme__md=b"")
    assert listing(tmp_path).notices == (), "it is asked once an hour"
    (pin,) = (tmp_path / "pins").iterdir()
    os.utime(pin, (0, time.time() - 4000))
    for _ in range(2):
        found = listing(tmp_path)
        assert found.commit == FIRST and len(found.entries) == 6
        assert found.notices == (
            f"{SOURCE}: main has moved from {FIRST[:12]} to {SECOND[:12]}; runs are still read at the former, "
            f"`infrascope fetch {SOURCE} --update` takes the latter",
        )
    follow(SOURCE, tmp_path / "pins")
    found = listing(tmp_path)
    assert (found.commit, found.entries, found.notices) == (SECOND, (), ())
    assert len(listing(tmp_path, f"{SOURCE}@{FIRST}").entries) == 6


def test_a_hub_that_cannot_be_asked_is_said_and_the_pin_holds(tmp_path, hub, archive):
    hub.commit(FIRST, Reveal_CPU__zip=archive)
    listing(tmp_path)
    (pin,) = (tmp_path / "pins").iterdir()
    os.utime(pin, (0, time.time() - 4000))
    hub.hub_troubles.extend([status(503)] * 3)
    found = listing(tmp_path)
    assert len(found.entries) == 6
    assert found.notices == (
        f"{SOURCE}: the server answers with status 503; tried 3 times; runs are read at commit {FIRST[:12]}, as before",
    )
    pin.write_text("{")  # a damaged pin is none
    assert listing(tmp_path).notices == ()


def test_a_revision_that_does_not_exist(tmp_path, hub, archive):
    hub.commit(FIRST, Reveal_CPU__zip=archive)
    assert fault(lambda: listing(tmp_path, f"{SOURCE}@v9")) == f"{SOURCE}@v9: there is no such revision"
    other = "hub:lab/other"
    assert fault(lambda: listing(tmp_path, other)) == f"{other}: there is no such data set at the Hub"


# -- troubles that pass


@pytest.mark.parametrize(
    ("where", "troubles"),
    [
        ("store", [cut(30_000)]),
        ("store", [cut(30_000), cut(0), cut(20_000), cut(1), cut(0)]),  # any byte renews the patience
        ("store", [status(500), status(503)]),
        ("hub", [status(502), status(429, Retry_After="0")]),
        ("store", [status(429, Retry_After="1")]),
        ("hub", [status(429, RateLimit='"resolvers";r=0;t=1')]),
        ("store", [status(403), status(400)]),  # the address has expired
    ],
    ids=["cut", "cut again and again", "500", "502 and 429", "Retry-After", "RateLimit", "expired"],
)
def test_what_passes_is_tried_again_and_what_came_is_not_fetched_again(tmp_path, hub, archive, where, troubles):
    hub.commit(Reveal_CPU__zip=archive)
    found = listing(tmp_path, f"{SOURCE}?runs=1")
    before = hub.sent
    (hub.store_troubles if where == "store" else hub.hub_troubles).extend(troubles)
    began = time.monotonic()
    assert read_all(found) == [5000]
    assert hub.sent - before <= 1.05 * packed_bytes(found) + 10_000
    assert not hub.store_troubles and not hub.hub_troubles
    told = any("Retry" in str(t.__closure__) or "Rate" in str(t.__closure__) for t in troubles)
    assert told or time.monotonic() - began < 5


def test_what_the_server_asks_for_is_waited(tmp_path, hub, archive):
    hub.commit(Reveal_CPU__zip=archive)
    found = listing(tmp_path, f"{SOURCE}?runs=1")
    hub.store_troubles.append(status(429, Retry_After="1"))
    began = time.monotonic()
    assert read_all(found) == [5000]
    assert 1 <= time.monotonic() - began < 3


def test_an_address_that_expires_in_the_middle_is_asked_for_anew(tmp_path, hub, archive):
    hub.commit(Reveal_CPU__zip=archive)
    found = listing(tmp_path, f"{SOURCE}?runs=1")
    hub.expired.update(range(hub.signed + 2, hub.signed + 3))
    hub.store_troubles.append(cut(30_000))
    assert read_all(found) == [5000]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"Retry-After": "soon"}, None),
        ({"RateLimit": '"api";r=0;t=55'}, 55),
        ({"RateLimit": '"api";r=4;t=55'}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers, seconds):
    assert told_to_wait(headers) == seconds


# -- troubles that do not pass


NAME = f"{SOURCE}/Reveal_CPU.zip"
LASTING = {
    "404": ("hub", [status(404, X_Error_Code="EntryNotFound")], f"{NAME}: there is no such file"),
    "401": (
        "hub",
        [status(401)],
        f"{NAME}: does not exist, or is private and HF_TOKEN holds no token that may read it",
    ),
    "gated": (
        "hub",
        [status(403, X_Error_Code="GatedRepo")],
        f"{NAME}: its owner asks for consent on its page at the Hub, and for a token in HF_TOKEN",
    ),
    "416": ("store", [status(416)], f"{NAME}: is shorter than it was when it was listed; list it again"),
    "418": ("store", [status(418)], f"{NAME}: the server answers with status 418"),
    "500": ("store", [status(500)] * 3, f"{NAME}: the server answers with status 500; tried 3 times"),
    "expired for good": (
        "store",
        [status(403)] * 3,
        f"{NAME}: the signed address is not valid any more (status 403); tried 3 times",
    ),
    "a long wait": (
        "store",
        [status(429, Retry_After="86400")],
        f"{NAME}: the server answers with status 429 and asks to wait 86,400 seconds; try again later",
    ),
    "no ranges": (
        "store",
        [without_ranges],
        f"{NAME}: the server does not give parts of files (status 200); download the archive and name the file instead",
    ),
    "another ETag": (
        "hub",
        [another_etag],
        f"{NAME}: is another file than when it was listed (its ETag is {'f' * 64})",
    ),
    "cut for good": ("store", [cut(0)] * 3, None),
    "another range": (
        "store",
        [lambda handler: handler.headers.replace_header("Range", "bytes=5-9") or False],
        f"{NAME}: the server answers with another part than was asked for",
    ),
}


@pytest.mark.parametrize("case", LASTING)
def test_what_lasts_is_one_sentence_and_the_next_call_goes_on(tmp_path, hub, archive, case):
    where, troubles, expected = LASTING[case]
    hub.commit(Reveal_CPU__zip=archive)
    found = listing(tmp_path, f"{SOURCE}?runs=1")
    before = hub.sent
    (hub.store_troubles if where == "store" else hub.hub_troubles).extend(troubles)
    sentence = fault(lambda: read_all(found))
    assert sentence == expected or (expected is None and sentence.startswith(f"{NAME}: ") and "tried 3" in sentence)
    given = {"no ranges": len(archive), "another ETag": packed_bytes(found)}  # before the client hangs up
    assert hub.sent - before < 10_000 + given.get(case, 0)
    assert read_all(listing(tmp_path, f"{SOURCE}?runs=1")) == [5000]


def test_a_server_that_hangs_is_given_up(tmp_path, hub, archive, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    hub.commit(Reveal_CPU__zip=archive)
    found = listing(tmp_path, f"{SOURCE}?runs=1")
    hub.store_troubles.extend([stall] * 3)
    began = time.monotonic()
    sentence = fault(lambda: read_all(found))
    assert sentence.startswith(NAME) and sentence.endswith("tried 3 times")
    assert time.monotonic() - began < 5


def test_a_server_that_drips_is_given_up(monkeypatch):
    def drip(file: transfer.RemoteFile, start: int, end: int) -> Iterator[bytes]:
        while True:
            time.sleep(0.01)
            yield b"x"

    monkeypatch.setattr(transfer, "_answer", drip)
    file = transfer.RemoteFile("http://x", "x", 10_000, "")
    slow = Patience(grace_s=0.1, slowest=1e6)
    assert fault(lambda: list(transfer.read_part(file, 0, 10_000, patience=slow))) == (
        "x: comes at less than 1,000,000 bytes a second"
    )


def test_an_unreachable_hub_is_asked_once_for_all_runs(tmp_path, hub, archive):
    hub.commit(Reveal_CPU__zip=archive)
    found = listing(tmp_path)
    hub.store_troubles.extend([status(500)] * 3)
    first, *others = (fault(partial(read_run_file, entry)) for entry in found.wanted)
    assert others == [first] * 5
    assert not hub.store_troubles


def test_nobody_listens(tmp_path, hub):
    from huggingface_hub import constants

    constants.ENDPOINT = "http://127.0.0.1:9"  # the fixture takes it back
    assert fault(lambda: listing(tmp_path)).endswith("tried 3 times")


@pytest.mark.parametrize(
    "answer", [b"[]", b"{}", b'{"id": "x", "sha": "../.."}', b"<html>", b'{"id": "x", "siblings": 3}']
)
def test_an_answer_that_is_not_the_hubs(tmp_path, hub, answer):
    hub.hub_troubles.append(status(200, answer))
    sentence = fault(lambda: listing(tmp_path))
    assert re.match(rf"{SOURCE}: the server does not (answer as the Hub does|say which commit main is)", sentence)


def test_a_damaged_member_is_the_files_fault_and_not_the_hubs(tmp_path, hub, archive):
    raw = bytearray(archive)
    raw[archive.find(b"train_separated/") + 5_000] ^= 0xFF
    hub.commit(Reveal_CPU__zip=bytes(raw))
    first, second = listing(tmp_path).wanted[:2]
    with pytest.raises(RunFileError, match="is damaged in the archive"):
        read_run_file(first)
    assert read_run_file(second).samples == 5000


def test_a_directory_that_is_kept_and_damaged_is_fetched_anew(tmp_path, hub, archive):
    hub.commit(Reveal_CPU__zip=archive)
    listing(tmp_path)
    kept = [*(tmp_path / "home" / "assets").rglob("*.directory"), *(tmp_path / "home" / "assets").rglob("*.json")]
    assert len(kept) == 2
    for file in kept:
        file.write_bytes(file.read_bytes()[:-7])
    assert read_all(listing(tmp_path, f"{SOURCE}?runs=1")) == [5000]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, hub, archive):
    hub.commit(Reveal_CPU__zip=archive)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "assets").write_text("not a folder")
    assert len(listing(tmp_path).entries) == 6


# -- names


def test_the_name_of_a_data_set():
    assert HubName.parse("hub:a/b") == HubName("a/b")
    name = HubName.parse("hub:a/b@v1/x?phase=train&runs=2")
    assert (name.repo_id, name.revision, name.selection.phase, name.selection.runs) == ("a/b", "v1/x", "train", 2)
    assert name.source == "hub:a/b@v1/x"


@pytest.mark.parametrize(
    "text", ["hub:", "hub:a", "hub:a/b/c", "hub:a/..", "hub:a/b@", "hub:a/b--c", "hub:/b", "hub:a b/c"]
)
def test_what_is_no_name(text):
    with pytest.raises(InfraScopeError, match="expected hub:OWNER/NAME, perhaps with @REVISION"):
        HubName.parse(text)


@pytest.mark.parametrize("trouble", [None, status(429, Retry_After="60"), cut(20_000)])
def test_an_interruption_ends_what_is_fetched_ahead(tmp_path, hub, archive, monkeypatch, trouble):
    monkeypatch.setattr(transfer, "PATIENCE", Patience())
    hub.commit(Reveal_CPU__zip=archive)
    found = listing(tmp_path)
    hub.store_troubles.extend([trouble] * 4 if trouble else [])
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), ExitStack() as stack:
        stack.enter_context(found.ahead(found.wanted))
        time.sleep(0.3)
        raise KeyboardInterrupt
    assert time.monotonic() - began < 5
