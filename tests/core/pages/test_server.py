"""The server gives pages of its folder to this machine, and nothing else to nobody."""

from __future__ import annotations

import http.client
from threading import Thread

import pytest

from infrascope_core.pages.server import server


@pytest.fixture
def ask(tmp_path):
    folder = tmp_path / "pages"
    (folder / "runs").mkdir(parents=True)
    (folder / "index.html").write_text("the index")
    (folder / "runs" / "a run.html").write_text("a run")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.html").symlink_to(tmp_path / "secret.txt")
    (folder / "out").symlink_to(tmp_path)
    serving = server(folder, 0)
    thread = Thread(target=serving.serve_forever, daemon=True)
    thread.start()

    def get(path: str, method: str = "GET", host: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", serving.server_address[1], timeout=10)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{serving.server_address[1]}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    yield get
    serving.shutdown()
    serving.server_close()


def test_pages_are_served(ask):
    assert ask("/") == (200, "the index")
    assert ask("/runs/a%20run.html") == (200, "a run")
    assert ask("/index.html", "HEAD") == (200, "")


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt", "/..%2fsecret.txt", "/%2e%2e/secret.txt", "/runs/../../secret.txt", "/link.html",
        "/out/secret.txt", "//etc/passwd", "/etc/passwd", "/runs/", "/nothing.html", "/%00", "/..\\secret.txt",
    ],
)  # fmt: skip
def test_nothing_outside_of_the_folder_is(ask, path):
    status, text = ask(path)
    assert status in {400, 404}
    assert "secret" not in text.replace(path, "")


def test_other_methods_and_other_names_of_this_machine_are_refused(ask):
    assert ask("/", "POST")[0] == 501
    assert ask("/", "PUT")[0] == 501
    assert ask("/", host="evil.example:8070")[0] == 403
    assert ask("/", host="localhost")[0] == 200
