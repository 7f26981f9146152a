"""tenon serve with API keys and TLS, with the real clients."""
import contextlib
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from end_to_end.serving import serve
from support import build_model
from support.command import tenon

INFER, ADMIN = "infer-key-0123456789", "admin-key-0123456789"
ASK = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    build_model.small_net(folder / "net.onnx")
    return folder


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# those who ask\n{INFER}\n\n{ADMIN} admin\n")
    return path


def given(client):
    tensor = client.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.array([[1, 2, 3, 4]], np.float32))
    return tensor


def test_keys_and_roles(model, keys):
    with serve("--models", model, "--model-control", "explicit", "--load", "net", "--api-keys", keys) as server:
        def status(path, document=None, key=None, header=None):
            data = None if document is None else json.dumps(document).encode()
            return server.request(path, data, header or (bearer(key) if key else {}))[0]

        assert status("/v2/health/live") == status("/health") == status("/metrics") == status("/") == status("/openapi.json") == 200
        for path, document in (("/v2", None), ("/v2/models/net", None), ("/v2/models/net/infer", ASK), ("/infer/net", {"x": [[1, 2, 3, 4]]}),
                               ("/status", None), ("/nothing", None), ("/v2/models/net/infer?x=1", ASK), ("/v2/models/net/infer/", ASK)):
            assert status(path, document) == 401, path
            assert status(path, document, "no-such-key-0123456789") == 401, path
            for odd in (INFER, f"Basic {INFER}", f"Bearer{INFER}", f"Bearer {INFER[:-1]}", "Bearer ", "Bearer", f"Bearer {INFER} {INFER}"):
                assert status(path, document, header={"Authorization": odd}) == 401, odd
            assert status(path, document, INFER) == status(path, document, ADMIN) == (404 if path == "/nothing" else 200), path
        assert status("/v2/models/net/infer", ASK, header={"Authorization": f"bearer {INFER}"}) == 200   # the scheme has no case
        for path in ("/v2/repository/models/net/load", "/v2/repository/models/net/unload", "/v2/devices/g"):
            assert status(path, {}) == 401 and status(path, {}, INFER) == 403, path
        assert status("/v2/repository/models/net/load", {}, ADMIN) == 200
        code, headers, body = server.request("/v2")
        assert code == 401 and headers["WWW-Authenticate"] == "Bearer" and "API key" in json.loads(body)["error"]
        security = json.loads(server.request("/openapi.json")[2])["paths"]
        assert security["/v2"]["get"]["security"] == [{"key": []}] and security["/health"]["get"]["security"] == []


def test_a_body_without_a_key_is_not_read(model, keys):
    with serve("--models", model, "--api-keys", keys) as server:
        host, port = server.http.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=30) as s:
            s.sendall(b"POST /v2/models/net/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
            assert s.recv(1000).startswith(b"HTTP/1.1 401")   # long before the body has come


def test_keys_for_health_and_metrics(model, keys):
    with serve("--models", model, "--api-keys", keys, "--open", "none") as server:
        assert server.request("/health")[0] == 401 and server.request("/health", headers=bearer(INFER))[0] == 200
        for path in ("/metrics", "/v2/health/live"):
            request = urllib.request.Request(f"http://{server.metrics_address}{path}")
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            assert refused.value.code == 401
            request.add_header("Authorization", f"Bearer {INFER}")
            assert urllib.request.urlopen(request).status == 200


def test_triton_clients_with_keys(model, keys):
    with serve("--models", model, "--model-control", "explicit", "--load", "net", "--api-keys", keys) as server:
        with triton_http.InferenceServerClient(server.http) as client:
            with pytest.raises(Exception, match="API key"):
                client.infer("net", [given(triton_http)])
            assert client.infer("net", [given(triton_http)], headers=bearer(INFER)).as_numpy("y").shape == (1, 3)
        with triton_grpc.InferenceServerClient(server.grpc) as client:
            metadata = {"authorization": f"Bearer {INFER}"}
            assert client.is_server_live() and client.is_model_ready("net")
            calls = (lambda **o: client.infer("net", [given(triton_grpc)], **o), lambda **o: client.get_server_metadata(**o),
                     lambda **o: client.get_model_metadata("net", **o), lambda **o: client.get_model_config("net", **o),
                     lambda **o: client.get_inference_statistics("net", **o), lambda **o: client.get_model_repository_index(**o),
                     lambda **o: client.get_system_shared_memory_status(**o), lambda **o: client.unregister_system_shared_memory(**o))
            for call in calls:
                with pytest.raises(Exception) as refused:
                    call()
                assert "UNAUTHENTICATED" in str(refused.value.status())
                call(headers=metadata)
            with pytest.raises(Exception) as refused:
                client.load_model("net", headers=metadata)
            assert "PERMISSION_DENIED" in str(refused.value.status())
            client.load_model("net", headers={"authorization": f"Bearer {ADMIN}"})
            for headers, good in ((None, False), (metadata, True)):
                answers = []
                client.start_stream(lambda result, error: answers.append(error), headers=headers)
                with contextlib.nullcontext() if good else contextlib.suppress(InferenceServerException):   # refused already, perhaps
                    client.async_stream_infer("net", [given(triton_grpc)])
                until = time.time() + 20
                while not answers and time.time() < until:
                    time.sleep(0.01)
                client.stop_stream()
                assert (answers[0] is None) == good
        channel = grpc.insecure_channel(server.grpc)
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"") == b"\x08\x01"


def test_keys_are_read_again_on_sighup(model, keys):
    with serve("--models", model, "--api-keys", keys) as server:
        def wait_for(key, code):
            until = time.time() + 20
            while server.request("/v2", headers=bearer(key))[0] != code and time.time() < until:
                time.sleep(0.02)
            assert server.request("/v2", headers=bearer(key))[0] == code

        wait_for(INFER, 200)
        keys.write_text("a-new-key-0123456789\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for("a-new-key-0123456789", 200)
        wait_for(INFER, 401)
        keys.write_text("short\n")
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        wait_for("a-new-key-0123456789", 200)   # a file that cannot be used changes nothing


@pytest.mark.parametrize("text, reason", [
    ("", "holds no key"), ("# nothing\n", "holds no key"), ("short\n", "line 1.*5 characters"), (f"{INFER} root\n", "role 'root'"),
    (f"{INFER}\n{INFER} admin\n", "line 2.*before"), (f"{INFER} admin now\n", "KEY ROLE"), ("k\u00e9y-0123456789-0123456789\n", "ASCII"),
    ("k" * 600 + "\n", "600 characters")])
def test_key_files_that_cannot_be_used(model, keys, text, reason):
    keys.write_text(text)
    done = tenon("serve", "--models", model, "--api-keys", keys, "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    assert done.returncode == 3
    assert re.search(reason, done.stderr) and INFER not in done.stderr


def make_certificates(folder):
    """ca.pem, server.pem (signed by it, for 127.0.0.1), client.pem, other.pem (signed by nobody), and their keys NAME.key."""
    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 30, "-subj", f"/CN={name}",
                "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem")
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("server", "client"):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr")
        openssl("x509", "-req", "-in", folder / f"{name}.csr", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial",
                "-days", 30, "-extfile", folder / "san", "-out", folder / f"{name}.pem")
    openssl("pkey", "-in", folder / "server.key", "-aes128", "-passout", "pass:x", "-out", folder / "locked.key")
    return folder


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("tls"))


def tls_options(folder):
    return ["--tls-cert", folder / "server.pem", "--tls-key", folder / "server.key"]


def test_tls_for_http_grpc_and_metrics(model, certificates):
    ca = certificates / "ca.pem"
    with serve("--models", model, *tls_options(certificates)) as server:
        with triton_http.InferenceServerClient(server.http, ssl=True, ssl_options={"ca_certs": str(ca)}) as client:
            assert client.infer("net", [given(triton_http)]).as_numpy("y").shape == (1, 3)
        with triton_grpc.InferenceServerClient(server.grpc, ssl=True, root_certificates=str(ca)) as client:
            assert client.infer("net", [given(triton_grpc)]).as_numpy("y").shape == (1, 3)
        context = ssl.create_default_context(cafile=ca)
        host, port = server.http.rsplit(":", 1)
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
        data = np.random.default_rng(0).random((200000, 4), np.float32)
        header = json.dumps({"inputs": [{"name": "x", "shape": list(data.shape), "datatype": "FP32", "parameters": {"binary_data_size": data.nbytes}}],
                             "parameters": {"binary_data_output": True}}).encode()
        for _ in range(3):   # one connection, bodies of many records
            connection.request("POST", "/v2/models/net/infer", header + data.tobytes(), {"Inference-Header-Content-Length": str(len(header))})
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200 and len(body) > 200000 * 3 * 4
        connection.close()
        done = subprocess.run(["curl", "-sS", "--cacert", ca, f"https://{server.http}/v2/health/ready", "-o", "/dev/null", "-w", "%{http_code}"],
                              capture_output=True, text=True)
        assert done.stdout == "200", done.stderr
        assert b"tenon_ready" in urllib.request.urlopen(f"https://{server.metrics_address}/metrics", context=context).read()
        old = subprocess.run(["curl", "-sS", "--cacert", ca, "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0", f"https://{server.http}/v2"],
                             capture_output=True)
        assert old.returncode != 0
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(f"http://{server.http}/v2")
        for junk in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", bytes(5000)):
            with socket.create_connection((host, int(port))) as s:
                s.sendall(junk)
        assert urllib.request.urlopen(f"https://{server.http}/v2/health/live", context=context).status == 200


def serial(address, ca):
    """Of the certificate that the server shows to a new connection."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        context = ssl.create_default_context(cafile=ca)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with context.wrap_socket(plain, server_hostname=host) as secure:
            return secure.getpeercert()["serialNumber"]


def test_new_certificates_on_sighup(model, tmp_path):
    folder, ca = make_certificates(tmp_path), tmp_path / "ca.pem"
    with serve("--models", model, *tls_options(folder)) as server:
        ports = (server.http, server.grpc, server.metrics_address)
        old = {serial(port, ca) for port in ports}
        assert len(old) == 1
        context = ssl.create_default_context(cafile=ca)
        host, port = server.http.rsplit(":", 1)
        standing = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
        standing.request("GET", "/v2")
        assert standing.getresponse().read()

        def reload_and_see(expected):
            server.process.send_signal(signal.SIGHUP)
            until = time.time() + 20
            while time.time() < until and any((serial(p, ca) not in old) != expected for p in ports):
                time.sleep(0.05)
            return [serial(p, ca) not in old for p in ports]

        (folder / "server.pem").write_text("no certificate\n")
        time.sleep(0.1)
        assert reload_and_see(False) == [False] * 3   # what cannot be used changes nothing
        subprocess.run(["openssl", "x509", "-req", "-in", folder / "server.csr", "-CA", ca, "-CAkey", folder / "ca.key", "-CAcreateserial",
                        "-days", "30", "-extfile", folder / "san", "-out", folder / "server.pem"], check=True, capture_output=True)
        assert reload_and_see(True) == [True] * 3
        standing.request("GET", "/v2")
        assert standing.getresponse().status == 200   # the connection that stood
        with triton_grpc.InferenceServerClient(server.grpc, ssl=True, root_certificates=str(ca)) as client:
            assert client.infer("net", [given(triton_grpc)]).as_numpy("y").shape == (1, 3)


def test_device_over_tls(model, certificates):
    ca = certificates / "ca.pem"

    def device(server, *options, host="127.0.0.1"):
        return tenon("device", "list", "--json", "--server", f"https://{host}:{server.http.rsplit(':', 1)[1]}", *options)

    with serve("--models", model, *tls_options(certificates)) as server:
        for options in (("--cacert", ca), ("--insecure",), ("-k",)):
            done = device(server, *options)
            assert done.returncode == 0 and json.loads(done.stdout)["serving"], done.stderr
        assert json.loads(device(server, "--cacert", ca, host="localhost").stdout)["serving"]
        # Not: no server, so the machine alone.
        for options, reason in (((), "not trusted"), (("--cacert", certificates / "other.pem"), "not trusted"),
                                (("--cacert", certificates / "ca.key"), "no certificate"), (("--cacert", "nothing"), "no certificate"),
                                (("--cacert", ca, "--cert", certificates / "client.pem", "--key", certificates / "server.key"), "fits")):
            done = device(server, *options)
            assert done.returncode == 2 and reason in done.stderr, (options, done.stderr)
    other = certificates / "other.pem"
    with serve("--models", model, "--tls-cert", other, "--tls-key", certificates / "other.key") as server:
        elsewhere = device(server, "--cacert", other)   # signed by whom we trust, for another host
        assert elsewhere.returncode == 2 and "mismatch" in elsewhere.stderr, elsewhere.stderr
    with serve("--models", model, *tls_options(certificates), "--tls-client-ca", ca) as server:
        mine = ("--cert", certificates / "client.pem", "--key", certificates / "client.key")
        assert json.loads(device(server, "--cacert", ca, *mine).stdout)["serving"]
        both = certificates / "both.pem"
        both.write_bytes((certificates / "client.pem").read_bytes() + (certificates / "client.key").read_bytes())
        assert json.loads(device(server, "--cacert", ca, "--cert", both).stdout)["serving"]


def test_v05_a_tls_client_that_vanishes_is_cancelled(tmp_path, certificates):
    build_model.rounds_model(tmp_path / "rounds.onnx")
    with serve(tmp_path / "rounds.onnx", *tls_options(certificates)) as server:
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        host, port = server.http.rsplit(":", 1)

        def metric(name):
            text = urllib.request.urlopen(f"https://{server.metrics_address}/metrics", context=context).read().decode()
            return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

        for orderly in (True, False):
            before = metric('tenon_requests_total{model="rounds",version="1",outcome="cancelled"}')
            body = json.dumps({"inputs": [{"name": "x", "shape": [4], "datatype": "FP32", "data": [0] * 4},
                                          {"name": "rounds", "shape": [], "datatype": "INT64", "data": [build_model.ENDLESS]}]}).encode()
            client = context.wrap_socket(socket.create_connection((host, int(port))), server_hostname="127.0.0.1")
            client.sendall(b"POST /v2/models/rounds/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            until = time.time() + 30
            while metric("tenon_requests_in_flight") < 1 and time.time() < until:
                time.sleep(0.02)
            if orderly:
                client.settimeout(5)
                try:
                    client.unwrap()
                except OSError:
                    pass
            client.close()
            while metric("tenon_requests_in_flight") > 0 and time.time() < until:
                time.sleep(0.02)
            assert metric('tenon_requests_total{model="rounds",version="1",outcome="cancelled"}') == before + 1


def test_client_certificates(model, certificates):
    ca = str(certificates / "ca.pem")
    with serve("--models", model, *tls_options(certificates), "--tls-client-ca", ca) as server:
        def ask(address, name, path="/v2"):
            context = ssl.create_default_context(cafile=ca)
            if name:
                context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
            return urllib.request.urlopen(f"https://{address}{path}", context=context, timeout=30).status

        assert ask(server.http, "client") == 200
        assert ask(server.metrics_address, None, "/metrics") == 200   # open: whoever collects metrics needs no certificate
        for name in (None, "other"):
            with pytest.raises((OSError, http.client.HTTPException)):
                ask(server.http, name)
        good = dict(root_certificates=ca, private_key=str(certificates / "client.key"), certificate_chain=str(certificates / "client.pem"))
        with triton_grpc.InferenceServerClient(server.grpc, ssl=True, **good) as client:
            assert client.infer("net", [given(triton_grpc)]).as_numpy("y").shape == (1, 3)
        with triton_grpc.InferenceServerClient(server.grpc, ssl=True, root_certificates=ca) as client:
            with pytest.raises(Exception):
                client.is_server_live(client_timeout=5)


@pytest.mark.parametrize("options, code, reason", [
    (["--tls-cert", "server.pem"], 2, "--tls-key"),
    (["--tls-client-ca", "ca.pem"], 2, "--tls-cert"),
    (["--tls-cert", "nothing.pem", "--tls-key", "server.key"], 3, "nothing.pem"),
    (["--tls-cert", "server.pem", "--tls-key", "nothing.key"], 3, "nothing.key"),
    (["--tls-cert", "server.key", "--tls-key", "server.key"], 3, "server.key' holds no certificate"),
    (["--tls-cert", "server.pem", "--tls-key", "server.pem"], 3, "server.pem' holds no key"),
    (["--tls-cert", "server.pem", "--tls-key", "locked.key"], 3, "password"),
    (["--tls-cert", "server.pem", "--tls-key", "other.key"], 3, "is not that of the certificate"),
    (["--tls-cert", "server.pem", "--tls-key", "server.key", "--tls-client-ca", "ca.key"], 3, "ca.key' holds no certificate")])
def test_certificates_that_cannot_be_used(model, certificates, options, code, reason):
    arguments = [option if option.startswith("--") else certificates / option for option in options]
    done = tenon("serve", "--models", model, *arguments, "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    assert done.returncode == code and reason in done.stderr, done.stderr
