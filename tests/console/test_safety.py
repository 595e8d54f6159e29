"""Who gets in, and what hostile records, names and addresses do: nothing."""

from __future__ import annotations

import json
from functools import partial
from urllib.parse import quote

import pytest

from ottla import Consumer, TopicPartition
from tests.console.consoles import Client, Console, rows, until

SCRIPT = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


def test_nobody_gets_in_without_the_token(console):
    stranger = Client(console.base)
    for path in ("/", "/topics", "/topics/orders/messages?format=json", "/events", "/homecare"):
        answer = stranger.get(path)
        assert answer.status == 403 and "orders" not in answer.text
    assert stranger.get("/?token=guess").status == 403
    assert stranger.post("/do/create-topic", {"name": "x"}).status == 403


def test_a_token_works_once_and_is_not_kept_in_the_address(console):
    address = console.login().removeprefix(console.base)
    first, second = Client(console.base), Client(console.base)
    answer = first.get(address)
    assert answer.status == 303 and answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert second.get(address).status == 403
    assert first.get(address).status == 303  # the browser that used it may open it again


def test_another_host_name_is_refused(console):
    client = console.client()
    assert client.get("/topics", Host="evil.example").status == 421
    assert client.get("/topics", Host=f"evil.example:{console.base.rpartition(':')[2]}").status == 421
    port = console.base.rpartition(":")[2]
    assert client.get("/topics", Host=f"localhost:{port}").status in (
        200,
        403,
    )  # its cookie is of another name


def test_a_forged_change_is_refused(client, broker):
    csrf = client.csrf()
    wanted = {"name": "forged", "csrf": csrf}
    assert client.post("/do/create-topic", {"name": "forged"}).status == 403
    assert client.post("/do/create-topic", {**wanted, "csrf": "x"}).status == 403
    assert client.post("/do/create-topic", wanted, Origin="http://evil.example").status == 403
    assert client.post("/do/create-topic", wanted, Sec_Fetch_Site="cross-site").status == 403
    assert client.get("/topics/forged").status == 404


def test_a_form_does_not_lead_elsewhere(client):
    for back in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        answer = client.change("set-topic", topic="orders", setting="no.such.setting", value="1", back=back)
        assert answer.status == 303 and answer.headers["location"] == "/"


@pytest.mark.parametrize(
    "form", [{f"f{number}": "x" for number in range(200)}, {"name": "x" * 3_000_000}], ids=["fields", "bytes"]
)
def test_a_form_beyond_a_bound_is_refused_and_nothing_else_goes_wrong(client, form):
    answer = client.post("/do/create-topic", form)
    assert answer.status == 400 and "more than" in answer.text
    assert client.get("/topics").status == 200


def test_every_answer_has_the_strict_headers(client):
    for path in ("/", "/topics?format=json", "/static/console.js", "/nowhere", "/topics?format=csv"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/topics/none",
        "/topics/none/messages",
        "/group?id=none",
        "/group",
        "/brokers/77",
        "/brokers/x",
        "/transaction?id=none",
        "/pipeline?id=none",
        "/topics?filter=/(/",
        "/topics?page=x",
        "/topics/orders/messages?partition=99",
        "/topics/orders/messages?from=time&time=yesterday",
        "/topics/orders/messages?at=0:x",
        "/topics/orders/messages?limit=0",
        "/topics/orders/search?q=(&mode=pattern",
        "/topics/orders/search?q=x&part=nose",
        "/topics/%ff%fe",
        "/?seconds=1e9",
        f"/topics/{quote(SCRIPT, safe='')}",
    ],
)
def test_bad_input_is_an_answer_that_says_so(client, path):
    answer = client.get(path)
    assert answer.status in (400, 404)
    assert "<script>window" not in answer.text
    assert len(answer.text.split('class="notes"')[1].split("</ul>")[0]) > 40


def test_hostile_records_are_shown_as_text_and_never_run(window, broker):
    broker.create_topic("hostile", 1)
    broker.send("hostile", SCRIPT, SCRIPT, headers=[(SCRIPT, SCRIPT.encode())])
    broker.send("hostile", json.dumps({SCRIPT: [SCRIPT]}), "json")
    broker.send("hostile", b"\xff\xfe\x00broken\xc3", b"\xc3\x28")
    broker.send("hostile", "x" * 1_000_000, "large")
    broker.send("hostile", "'\"><svg onload=alert(1)>", "a\u202eb")
    with Consumer(bootstrap_servers=broker.bootstrap, group_id=SCRIPT, client_id=SCRIPT) as consumer:
        consumer.subscribe(["hostile"])
        until(lambda: consumer.poll(0.5) or consumer.assignment(), "the member has joined")
        consumer.commit({TopicPartition("hostile", 0): 1})
        for path in (
            "/topics/hostile/messages",
            "/topics/hostile/groups",
            "/groups",
            f"/group?id={quote(SCRIPT, safe='')}",
            f"/topics/hostile/search?q={quote('<script>', safe='')}",
            f"/topics?filter={quote(SCRIPT, safe='')}",
        ):
            window.goto(path)
            window.page.locator("h1").wait_for()
            for each in window.page.locator("details.record").all()[:10]:
                each.evaluate("each => { each.open = true }")
            if "search" in path:
                window.page.locator(".record").first.wait_for()
            assert window.page.evaluate("window.hacked === undefined")
            assert (
                window.page.evaluate(
                    "document.querySelectorAll('main script, main img, main [onerror], main svg[onload]').length"
                )
                == 0
            )
        window.goto("/topics/hostile/messages?live=1")
        window.page.locator("[data-tail][data-ready]").wait_for(state="attached")
        broker.send("hostile", SCRIPT, "live one")
        window.page.get_by_text("live one").first.wait_for()
        assert window.page.evaluate("window.hacked === undefined")


def test_a_large_value_is_cut_on_the_page_and_whole_in_the_download(client, broker):
    broker.create_topic("large", 1)
    broker.send("large", "y" * 1_000_000, "k")
    page = client.get("/topics/large/messages")
    assert len(page.text) < 200_000 and "977 KB" in page.text
    download = client.get("/topics/large/messages?format=jsonl")
    assert json.loads(download.text)["value"] == "y" * 1_000_000


def test_a_formula_in_a_record_is_a_text_in_the_download(client, broker):
    broker.create_topic("formulas", 1)
    broker.send("formulas", "=HYPERLINK(1)", "+1")
    answer = client.get("/topics/formulas/messages?format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "'=HYPERLINK(1)" in answer.text and "'+1" in answer.text


def test_masked_fields_are_hidden_everywhere_also_from_searches(broker):
    with Console(
        broker.bootstrap, "--mask", "orders:value.patient.name", "--mask", "orders:header.trace"
    ) as console:
        client = console.client()
        page = client.get("/topics/orders/messages")
        assert "Ada" not in page.text and "•••" in page.text
        assert "Ada" not in client.get("/topics/orders/messages?format=jsonl&limit=100").text
        assert "Ada" not in client.get("/topics/orders/messages?format=csv").text
        for query, wanted in (("q=Ada", 0), ("q=t5&part=header", 0), ("q=number", 60)):
            path = f"/topics/orders/search?{query}&run=1"
            until(partial(_outcome, client, path), "the search ends")
            progress = next(b for b in client.json(path)["blocks"] if b.get("key") == "search")
            assert f"{wanted} match" in progress["text"], (query, progress)


def _outcome(client: Client, path: str):
    return [block for block in client.json(path)["blocks"] if block.get("key") == "end"]


def test_beyond_loopback_it_needs_a_login_and_tls(broker):
    import subprocess
    import sys

    def refused(*options: str) -> str:
        command = [
            sys.executable,
            "-m",
            "ottla",
            "console",
            "--bootstrap",
            broker.bootstrap,
            "--port",
            "0",
            *options,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        return done.stderr

    assert "--login" in refused("--host", "0.0.0.0", "--login", "token")
    assert "--certificate" in refused("--host", "0.0.0.0")
    assert "--users" in refused("--host", "0.0.0.0", "--insecure")
    assert "SASL" in refused("--login", "kafka")
    assert "is not a mask" in refused("--mask", "nonsense")


def test_a_login_with_a_password_over_tls(broker, tmp_path):
    import base64
    import ssl

    import trustme

    from ottla.security.passwords import hash_password

    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    (tmp_path / "cert.pem").write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
    (tmp_path / "key.pem").write_bytes(certificate.private_key_pem.bytes())
    (tmp_path / "users").write_text(f"ada:{hash_password('open sesame', b'salt')}\n")
    options = ["--login", "basic", "--users", str(tmp_path / "users")]
    options += ["--certificate", str(tmp_path / "cert.pem"), "--key", str(tmp_path / "key.pem")]
    with Console(broker.bootstrap, *options) as console:
        assert console.base.startswith("https://")
        context = ssl.create_default_context()
        authority.configure_trust(context)
        client = Client(console.base, context)
        assert client.get("/topics").headers["location"] == "/login"
        assert client.post("/login", {"name": "ada", "password": "guess"}).status == 403
        assert client.post("/login", {"name": "nobody", "password": ""}).status == 403
        entered = client.post("/login", {"name": "ada", "password": "open sesame"})
        assert entered.status == 303 and "secure" in entered.headers["set-cookie"].lower()
        assert {row["topic"] for row in rows(client.json("/topics"), "topics")} >= {"orders"}
        program = Client(console.base, context)
        header = "Basic " + base64.b64encode(b"ada:open sesame").decode()
        assert program.get("/topics?format=json", Authorization=header).status == 200
        assert program.get("/topics?format=json", Authorization="Basic AAAA").status == 401
