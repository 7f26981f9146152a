"""tenon serve over gRPC, with the real tritonclient, blocking, streaming and asyncio."""
import asyncio
import queue
import time

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

from end_to_end.serving import serve
from end_to_end.test_serve_http import TYPES, identity, sample
from support import build_model


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, (_, onnx_type) in TYPES.items():
        identity(folder / f"id_{name}.onnx", onnx_type)
    build_model.small_net(folder / "net.onnx")
    build_model.rounds_model(folder / "rounds.onnx")
    with serve("--models", folder, "--max-queue", 64, "--body-limit", "8M", "--model-control", "explicit", "--load", "*") as served:
        yield served


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.grpc) as connected:
        yield connected


def tensor(data, datatype="FP32", name="x"):
    given = triton.InferInput(name, data.shape, datatype)
    given.set_data_from_numpy(data)
    return given


@pytest.mark.parametrize("name", TYPES)
def test_every_datatype(client, name):
    data = sample(name)
    result = client.infer(f"id_{name}", [tensor(data, name)], request_id="r1")
    got = result.as_numpy("y")
    assert list(got.ravel()) == list(data.ravel()) if name == "BYTES" else np.array_equal(got, data)
    assert result.get_response().id == "r1"


def test_control_plane(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("net")
    assert not client.is_model_ready("none")
    assert client.get_server_metadata().name == "tenon"
    assert list(client.get_model_metadata("net").inputs[0].shape) == [-1, 4]
    assert client.get_model_config("net").config.max_batch_size == 8
    assert {m.name for m in client.get_model_repository_index().models} >= {"net", "rounds"}
    client.infer("net", [tensor(np.zeros((2, 4), np.float32))])
    stats = client.get_inference_statistics("net").model_stats[0]
    assert stats.inference_count >= 2 and stats.inference_stats.success.count >= 1
    assert list(stats.response_stats) == ["0"] and stats.response_stats["0"].success.count == stats.inference_stats.success.count
    client.unload_model("net")
    assert not client.is_model_ready("net")
    with pytest.raises(InferenceServerException, match="not ready"):
        client.infer("net", [tensor(np.zeros((2, 4), np.float32))])
    client.load_model("net")
    assert client.is_model_ready("net")


@pytest.mark.parametrize("shape,datatype,bytes_given,code", [([-1, 4], "FP32", 16, "INVALID_ARGUMENT"), ([1, 5], "FP32", 20, "INVALID_ARGUMENT"),
                                                             ([1, 4], "FP33", 16, "INVALID_ARGUMENT"), ([1, 4], "FP32", 15, "INVALID_ARGUMENT"),
                                                             ([2**40, 2**40], "FP32", 16, "INVALID_ARGUMENT")])
def test_v01_bad_requests(client, shape, datatype, bytes_given, code):
    given = triton.InferInput("x", shape, datatype)
    given._raw_content = bytes(bytes_given)
    with pytest.raises(InferenceServerException) as error:
        client.infer("net", [given])
    assert code in str(error.value.status())
    assert client.is_server_live()


def test_v03_large_messages_are_refused(client):
    with pytest.raises(InferenceServerException) as error:
        client.infer("id_FP32", [tensor(np.zeros((1, 3 << 20), np.float32))])
    assert "RESOURCE_EXHAUSTED" in str(error.value.status())


def test_unknown_model(client):
    with pytest.raises(InferenceServerException) as error:
        client.infer("none", [tensor(np.zeros((1, 4), np.float32))])
    assert "NOT_FOUND" in str(error.value.status())


def test_streaming(client):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for i in range(20):
        client.async_stream_infer("id_FP32", [tensor(np.full((1, 3), i, np.float32))], request_id=str(i))
    client.async_stream_infer("none", [tensor(np.zeros((1, 3), np.float32))], request_id="bad")
    got, failed = {}, 0
    for _ in range(21):
        result, error = answers.get(timeout=30)
        if error is not None:
            failed += 1
        else:
            got[result.get_response().id] = result.as_numpy("y")[0, 0]
    client.stop_stream()
    assert failed == 1 and got == {str(i): i for i in range(20)}


def test_asyncio(server):
    async def main():
        async with triton_aio.InferenceServerClient(server.grpc) as client:
            results = await asyncio.gather(*[client.infer("id_FP32", [tensor(np.full((1, 2), i, np.float32))]) for i in range(16)])
            return [r.as_numpy("y")[0, 0] for r in results]

    assert asyncio.run(main()) == list(range(16))


def test_v05_deadline_and_cancel_stop_the_work(server, client):
    def ended():
        return sum(server.total("tenon_requests_total", model="rounds", outcome=o) for o in ("deadline", "cancelled"))

    def wait(condition):
        until = time.time() + 30
        while not condition() and time.time() < until:
            time.sleep(0.02)
        assert condition()

    before = ended()
    endless = [tensor(np.zeros(4, np.float32)), tensor(np.array(build_model.ENDLESS), "INT64", "rounds")]
    with pytest.raises(InferenceServerException) as error:
        client.infer("rounds", endless, client_timeout=0.5)
    assert "DEADLINE" in str(error.value.status())
    wait(lambda: ended() == before + 1)
    call = client.async_infer("rounds", endless, callback=lambda result, error: None)
    wait(lambda: server.total("tenon_requests_in_flight") == 1)
    call.cancel()
    wait(lambda: ended() == before + 2)
    assert server.total("tenon_requests_in_flight") == 0
    server.check_invariant()


def test_health_and_reflection(server):
    grpc = pytest.importorskip("grpc")
    with grpc.insecure_channel(server.grpc) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"") == b"\x08\x01"   # status: SERVING
        listing = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        answer = next(listing(iter([b"\x3a\x00"])))   # list_services: ""
        assert b"inference.GRPCInferenceService" in answer and b"grpc.health.v1.Health" in answer
