"""The node tests of the `onnx` package, through the library and through the command line: each as expected_failures.txt says."""
import json
import subprocess
import sys

import pytest

from conformance import onnx_backend

CASES = onnx_backend.collect()
EXPECTED = onnx_backend.expected_failures()


@pytest.fixture(scope="module")
def results(request, tmp_path_factory):
    """All cases at once, in a process that has not run the library before."""
    path = tmp_path_factory.mktemp("node") / "results.json"
    done = subprocess.run([sys.executable, onnx_backend.__file__, "--json", str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(done.stdout)
    return json.loads(path.read_text())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", onnx_backend.WAYS)
def test_node(results, way, case):
    reason = results[way][case]
    expected = EXPECTED.get((way, case))
    if reason == onnx_backend.INEXPRESSIBLE:
        pytest.skip(reason)
    if expected is None:
        assert reason == onnx_backend.PASS
    else:
        assert reason != onnx_backend.PASS, "passes now: take its row out of expected_failures.txt"
        pytest.xfail(reason)


@pytest.mark.parametrize("way", onnx_backend.WAYS)
def test_gate(results, way):
    assert sum(reason == onnx_backend.PASS for reason in results[way].values()) >= onnx_backend.GATE


def test_nothing_crashes(results):
    bad = ("crash", "timeout", "internal error", "test broke")
    assert [(way, case, reason) for way in results for case, reason in results[way].items() if reason.startswith(bad)] == []
