"""Asking a server: chunks, retries, limits; whatever it does ends well or with one clear sentence."""

from __future__ import annotations

import socket
import threading
import time
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers import importing, prometheus
from infrascope_core.importers.importing import Plan, import_prometheus, jobs_of_prometheus
from infrascope_core.importers.jobs import Job, Listing, by_hand
from infrascope_core.importers.mapping import JobLabel, Mapping, load_mapping
from infrascope_core.importers.prometheus import Api, find_series, read_samples, selector_of
from infrascope_core.run_files.reader import read_run_file
from tests.core.importers.standin import StandIn, failed, ok, serving

START = datetime(2026, 11, 20, 10)
RULES = load_mapping("node_exporter").rules
ZERO = 1795168800.0
"""The same, in seconds since 1970."""
HOUR = START + timedelta(hours=1)
UP = {"__name__": "node_load1", "job": "node", "instance": "h1.lab:9100"}


def every(seconds: float, count: int, first: float = 0.25) -> list[tuple[float, str]]:
    return [(ZERO + first + i * seconds, str(i)) for i in range(count)]


@pytest.fixture
def server():
    with serving(StandIn([(UP, every(15, 240))])) as standin:
        yield standin


def api(server: StandIn, **options) -> Api:
    return Api(server.url, wait=lambda seconds: None, **options)


def values(samples) -> list[float]:
    return samples.values.sort("ts")["value"].to_list()


def test_samples_come_in_chunks_without_a_gap_and_once(server, monkeypatch):
    monkeypatch.setattr(prometheus, "_LONGEST_CHUNK", timedelta(minutes=7))
    server.series = [(UP, [(ZERO + i * 15, str(i)) for i in range(241)])]  # also on the bounds of chunks
    found = read_samples(api(server), selector_of(["node_load1"]), START, HOUR, 1)
    assert sorted(set(values(found))) == list(range(241))
    assert sum(path.endswith("query") for path, _ in server.asked) == 9
    assert len(found.series) == 1


def test_a_server_that_limits_samples_is_asked_for_less(server):
    server.most_samples = 100
    found = read_samples(api(server), selector_of(["node_load1"]), START, HOUR, 1)
    assert sorted(set(values(found))) == list(range(240))
    assert len(server.asked) == 1 + 2 + 4


def test_a_server_that_refuses_even_seconds_is_given_up(server):
    server.most_samples = 0
    with pytest.raises(ImportSourceError, match=r"refuses even \d\.\d+ s of the samples of a host .*too many samples"):
        read_samples(api(server), selector_of(["node_load1"]), START, HOUR, 1)


@pytest.mark.parametrize(
    "refusal",
    [
        (413, b"too large"),
        failed(422, "the query hit the max number of series limit (limit: 500)"),
        failed(422, "expanding series: the query exceeded the maximum number of chunks"),
        failed(503, "query timed out in expression evaluation"),
    ],
)
def test_limits_are_worded_differently(server, refusal):
    def misbehave(path, form):
        long = "query" in form and int(form["query"].rpartition("[")[2].removesuffix("ms]")) > 20 * 60_000
        return refusal if long else None

    server.misbehave = misbehave
    found = read_samples(api(server), selector_of(["node_load1"]), START, HOUR, 1)
    assert sorted(set(values(found))) == list(range(240))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(server, status):
    left = [failed(status, "try later"), (status, b"")]
    server.misbehave = lambda path, form: left.pop() if left else None
    assert len(find_series(api(server), ["node_load1"], START, HOUR)) == 1
    assert len(server.asked) == 3


def test_a_server_that_always_fails_ends_in_one_sentence(server):
    server.misbehave = lambda path, form: failed(500, "disk\nfull")
    with pytest.raises(ImportSourceError) as error:
        find_series(api(server), ["node_load1"], START, HOUR)
    assert str(error.value) == f"{server.url}: does not answer after 4 attempts (HTTP 500, disk full)"
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, b""), r"refuses access \(HTTP 401\); give --token-file or --header"),
        ((404, b"<html>"), "answers HTTP 404"),
        (failed(400, "parse error: unexpected"), r"answers HTTP 400 \(parse error: unexpected\)"),
        ((200, b"<html>hello</html>"), "answers something else than the API of Prometheus"),
        ((200, b'{"status":"success"}'), "answers something else than the API of Prometheus"),
        (ok({"resultType": "matrix", "result": []}), "answers something else than the API of Prometheus"),
    ],
)
def test_other_answers_end_in_one_sentence(server, answer, said):
    server.misbehave = lambda path, form: answer
    with pytest.raises(ImportSourceError, match=said) as error:
        find_series(api(server), ["node_load1"], START, HOUR)
    assert str(error.value).startswith(server.url) and "\n" not in str(error.value)
    assert len(server.asked) == 1


def test_a_server_that_hangs_is_given_up_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        hanging = Api(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2, wait=lambda seconds: None)
        with pytest.raises(ImportSourceError, match=r"does not answer after 4 attempts \(no answer in time\)"):
            find_series(hanging, ["x"], START, HOUR)
        assert time.monotonic() - began < 5


def test_a_server_that_trickles_is_given_up_in_time():
    """A byte now and then resets every timeout but that of the whole request."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        over = threading.Event()

        def trickle(connection: socket.socket) -> None:
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while not over.wait(0.02):
                    try:
                        connection.sendall(b"1\r\n{\r\n")
                    except OSError:
                        return

        def accept() -> None:
            while not over.is_set():
                try:
                    connection, _ = listening.accept()
                except OSError:
                    continue
                threading.Thread(target=trickle, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            slow = Api(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout_s=0.3, wait=lambda seconds: None)
            began = time.monotonic()
            with pytest.raises(ImportSourceError, match="no answer in time"):
                find_series(slow, ["x"], START, HOUR)
            assert time.monotonic() - began < 5
        finally:
            over.set()
            thread.join()


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gone = Api(f"http://user:secret@127.0.0.1:{port}", wait=lambda seconds: None)
    with pytest.raises(ImportSourceError, match=r"^http://127.0.0.1:\d+: .*the connection was refused or cut") as error:
        find_series(gone, ["x"], START, HOUR)
    assert "secret" not in str(error.value)


def test_an_answer_without_end_is_not_read_to_its_end(server, monkeypatch):
    monkeypatch.setattr(prometheus, "_MOST_BYTES", 10_000)
    monkeypatch.setattr(prometheus, "_PIECE", 1_000)
    found = read_samples(api(server), selector_of(["node_load1"]), START, HOUR, 1)
    assert len(set(values(found))) == 240  # 240 samples fit
    server.series = [(UP, every(1, 3600))]
    found = read_samples(api(server), selector_of(["node_load1"]), START, HOUR, 1)
    assert sorted(set(values(found))) == list(range(3600))
    assert len(server.asked) > 8


@pytest.mark.parametrize("url", ["localhost:9090", "ftp://x", "http://", "", "file:///etc/passwd"])
def test_what_is_no_address_is_said(url):
    with pytest.raises(ImportSourceError, match="expected an address as http://prometheus:9090"):
        Api(url)


def test_headers_and_pauses(server):
    waits: list[float] = []
    left = [failed(503, "busy")]
    server.misbehave = lambda path, form: left.pop() if left else None
    asked = Api(server.url + "/", {"Authorization": "Bearer t", "X-Scope-OrgID": "lab"}, wait=waits.append)
    find_series(asked, ["node_load1"], START, HOUR)
    assert server.headers[-1]["X-Scope-OrgID"] == "lab" and server.headers[-1]["Authorization"] == "Bearer t"
    assert waits == [0.0, 1.0]
    assert prometheus._asked_to_wait({"Retry-After": "7"}) == 7  # type: ignore[arg-type]
    assert prometheus._asked_to_wait({"Retry-After": "999999999"}) == 30  # type: ignore[arg-type]


# -- from a server to run files


def plan(tmp_path, **options) -> Plan:
    mappings = tuple(map(load_mapping, ("node_exporter", "dcgm_exporter", "cgroup_exporter")))
    return Plan(tmp_path / "runs", mappings, **options)


@pytest.mark.parametrize("status", [302, 307])
def test_a_server_that_sends_on_is_said_unless_nothing_is_lost_by_it(server, status):
    class SendsOn(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Location", f"{server.url}{self.path}")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), SendsOn) as httpd:
        threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
        asked = Api(f"http://127.0.0.1:{httpd.server_port}")
        if status == 307:
            assert len(find_series(asked, ["node_load1"], START, HOUR)) == 1
        else:
            with pytest.raises(ImportSourceError, match=f"sends requests on to '{server.url}/api/v1/series'; give the"):
                find_series(asked, ["node_load1"], START, HOUR)
        httpd.shutdown()


GPU = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "job": "dcgm", "instance": "10.0.0.7:9400", "Hostname": "h1", "gpu": "0"}


def test_a_host_that_exporters_call_differently_is_one_run(server, tmp_path):
    """node_exporter by address with port and domain, dcgm-exporter by its own label."""
    server.series.append((GPU, every(15, 240, first=3)))
    (outcome,) = import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path))
    assert (outcome.status, outcome.samples, outcome.metrics, outcome.interval_s) == ("written", 240, 2, 15)
    run = read_run_file(outcome.path)
    assert (run.name.host, run.platform) == ("h1", "gpu")
    # rows are those of the target that comes first, of two with as many columns
    assert run.telemetry["Procstat:load1[-]"].to_list()[:2] == [0, 1]
    assert run.telemetry["GPU: utilization.gpu.0[%]"].to_list()[:2] == [None, 0]
    assert run.telemetry["ts"][0] == START + timedelta(seconds=0.25)


def test_hostile_names_and_values_end_in_clean_files(server, tmp_path):
    values_ = every(15, 10)
    server.series = [
        ({**UP, "instance": "../../../etc:9100"}, values_),
        ({**UP, "instance": 'a"b\\c\n|.*{}:9100'}, values_),
        ({**UP, "instance": "h1:9100", "__name__": "node_network_up", "device": "x\ny\t" + "z" * 500}, values_),
        ({**UP, "instance": "a-b/c:9100"}, values_),  # as clean as another
        *(({**GPU, "Hostname": "h1", "gpu": str(i)}, values_) for i in range(300)),
    ]
    outcomes = list(import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path)))
    assert sorted(each.path.name.rpartition("_")[2] for each in outcomes) == [
        "a-b-c.tsv",
        "etc.tsv",
        "h1.tsv",
    ]
    assert [len(each.notes) for each in outcomes] == [1, 0, 0]
    for outcome in outcomes:
        assert outcome.path.parent == tmp_path / "runs"
        assert read_run_file(outcome.path).samples == 10
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != tmp_path / "runs"]


def test_an_import_that_was_cut_off_continues(server, tmp_path):
    server.series = [({**UP, "instance": f"h{i}:9100"}, every(15, 20)) for i in range(4)]
    work = import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path))
    assert [next(work).status for _ in range(2)] == ["written", "written"]
    del work
    server.asked.clear()
    again = list(import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path)))
    assert [each.status for each in again] == ["kept", "kept", "written", "written"]
    assert sum(path.endswith("query") for path, _ in server.asked) == 2
    assert [
        each.status for each in import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path, again=True))
    ] == ["written"] * 4


def test_jobs_have_their_own_times_hosts_and_series(server, tmp_path):
    cgroup = {"__name__": "cgroup_memory_rss_bytes", "job": "cgroup", "instance": "h1:9306"}
    server.series += [
        ({**UP, "instance": "h2:9100"}, every(15, 240)),
        ({**cgroup, "cgroup": "/slurm/uid_1/job_7"}, every(15, 240)),
        ({**cgroup, "cgroup": "/slurm/uid_1/job_8"}, every(15, 240)),
    ]
    half = START + timedelta(minutes=30)
    jobs = (Job(START, half, ("h1", "h2.lab"), "7", "bert"), Job(half, HOUR, ("h1",), "8", "bert"))
    outcomes = list(import_prometheus(api(server), Listing(jobs), plan(tmp_path)))
    assert [(each.path.name[:60], each.samples, each.metrics) for each in outcomes] == [
        ("train_bertforUnknown_default_2026-11-20T10-00-00_h1.tsv", 120, 2),
        ("train_bertforUnknown_default_2026-11-20T10-30-00_h1.tsv", 120, 2),
        ("train_bertforUnknown_default_2026-11-20T10-00-00_h2.tsv", 120, 1),
    ]


def test_of_two_jobs_with_one_name_in_one_second_the_first_is_imported(server, tmp_path):
    """Parts of an array job on one host: their run files would have one name, and the same telemetry."""
    jobs = Listing((Job(START, HOUR, ("h1",), "9_1", "sweep"), Job(START, HOUR, ("h1",), "9_2", "sweep")))
    assert [each.status for each in import_prometheus(api(server), jobs, plan(tmp_path))] == ["written", "double"]
    assert [each.status for each in import_prometheus(api(server), jobs, plan(tmp_path))] == ["kept", "double"]


def test_jobs_by_a_label(server, tmp_path):
    first, second = every(15, 240)[:100], every(15, 240)[120:]
    server.series += [({**GPU, "hpc_job": "41"}, first), ({**GPU, "hpc_job": "42"}, second)]
    listing = jobs_of_prometheus(api(server), JobLabel(label="hpc_job"), START, HOUR, plan(tmp_path))
    assert [(job.number, job.hosts, job.start) for job in listing.jobs] == [
        ("41", ("h1",), START + timedelta(seconds=0.25)),
        ("42", ("h1",), START + timedelta(seconds=1800.25)),
    ]
    # all of the last sample's interval, and nothing of what is no longer the job's
    assert listing.jobs[0].end == START + timedelta(seconds=0.25 + 99 * 15 + 14.85)
    outcomes = list(import_prometheus(api(server), listing, plan(tmp_path)))
    assert [(each.samples, each.metrics) for each in outcomes] == [(100, 2), (120, 2)]
    with pytest.raises(ImportSourceError, match="no series has a label 'slurm_job'"):
        jobs_of_prometheus(api(server), JobLabel(label="slurm_job"), START, HOUR, plan(tmp_path))


def test_a_server_that_limits_series_is_asked_for_some_names_at_a_time(server, tmp_path):
    server.series = [
        ({**UP, "__name__": name}, every(15, 3))
        for name in ("node_load1", "node_forks_total", "node_context_switches_total")
    ]
    expected = list(import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path / "a")))
    whole = server.answer

    def limited(path: str, form: dict[str, str]) -> tuple[int, bytes]:
        if path.endswith("series") and whole(path, form)[1].count(b"__name__") > 1:
            return failed(422, "the number of matching timeseries exceeds 1; either narrow down the search")
        return whole(path, form)

    server.answer = limited
    outcomes = list(import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path / "b")))
    assert (
        [(each.metrics, each.samples) for each in outcomes]
        == [(each.metrics, each.samples) for each in expected]
        == [(3, 3)]
    )
    server.series.append(({**UP, "replica": "b"}, every(15, 3)))
    with pytest.raises(ImportSourceError, match=r"has too many series to list \(the number"):
        list(import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path / "c")))


def test_an_empty_server_and_a_job_without_samples(server, tmp_path):
    server.series.append(({**UP, "instance": "h2:9100"}, every(15, 3)))
    late = Listing((Job(START, HOUR, None, "1"), Job(HOUR - timedelta(minutes=1), HOUR, ("h2",), "2")))
    assert [each.status for each in import_prometheus(api(server), late, plan(tmp_path))] == [
        "written",
        "written",
        "empty",
    ]
    server.series = []
    with pytest.raises(ImportSourceError, match=r"has no series between .* that the mapping knows"):
        list(import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path)))


def test_hosts_that_are_called_something_else_are_said(server, tmp_path):
    """Who scrapes addresses has no host of sacct's."""
    server.series = [({**UP, "instance": f"10.0.0.{i}:9100", "node": f"gpu{i}"}, every(15, 3)) for i in range(5)]
    jobs = Listing((Job(START, HOUR, ("gpu1", "gpu2"), "1"),))
    said = (
        r"none of the jobs' 2 hosts \(gpu1, gpu2\) is one of the 5 with samples \(10.0.0.0, 10.0.0.1, 10.0.0.2, ...\); "
        "--host-label says which label names them"
    )
    with pytest.raises(ImportSourceError, match=said):
        list(import_prometheus(api(server), jobs, Plan(tmp_path, (Mapping(host=("instance",), rules=RULES),))))
    by_node = Plan(tmp_path, (Mapping(host=("instance",), rules=RULES),), host_label="node")
    assert [each.status for each in import_prometheus(api(server), jobs, by_node)] == ["written"] * 2


def test_hosts_of_two_domains_that_have_one_name_are_said(server, tmp_path):
    server.series = [({**UP, "instance": f"h1.{lab}:9100"}, every(15, 3)) for lab in ("east", "west")]
    (outcome,) = import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path / "a"))
    assert outcome.notes[-1] == "h1.east, h1.west are taken for one host; --full-names tells them apart"
    whole = plan(tmp_path / "b", full_names=True)
    assert [each.notes for each in import_prometheus(api(server), by_hand(START, HOUR), whole)] == [(), ()]
    server.series[0][0]["instance"] = "h1:9100"  # an exporter whose label is short is of the same host
    (outcome,) = import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path / "c"))
    assert not any("--full-names" in note for note in outcome.notes)


def test_series_that_name_no_host_are_said(server, tmp_path):
    server.series = [({"__name__": "node_load1", "pod": "x"}, every(15, 3))]
    with pytest.raises(ImportSourceError, match=r"nothing says which host 'node_load1' is of; .*\(its labels: pod\)"):
        list(import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path)))
    (outcome,) = import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path, host_label="pod"))
    assert outcome.path.name.endswith("_x.tsv")


def test_a_mapping_of_ones_own_with_a_mistake_is_said_and_needs_no_labels_of_hosts(server, tmp_path):
    power = {"__name__": "site_power", "instance": "h1:9400", "outlet": "a"}
    server.series += [(power, every(15, 3)), ({**power, "__name__": "site_energy"}, every(15, 3))]
    rules = [
        {"source": "site_power", "column": "PDU:power.{outlte}[W]"},
        {"source": "site_energy", "column": "PDU:energy.{outlet}[J]"},
    ]
    site = Mapping.model_validate({"rules": rules})
    (outcome,) = import_prometheus(
        api(server), by_hand(START, HOUR), Plan(tmp_path, (site, load_mapping("node_exporter")))
    )
    assert set(read_run_file(outcome.path).telemetry.columns) >= {"PDU:energy.a[J]", "Procstat:load1[-]"}
    assert outcome.notes == ("site_power lacks the label outlte that its column names, and was left out",)


def test_more_metrics_than_a_run_file_holds_are_refused(server, tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "_MOST_COLUMNS", 50)
    server.series = [({**GPU, "gpu": str(i)}, every(15, 2)) for i in range(51)]
    with pytest.raises(ImportSourceError, match="h1 has 51 metrics, and a run file at most 50"):
        list(import_prometheus(api(server), by_hand(START, HOUR), plan(tmp_path)))
