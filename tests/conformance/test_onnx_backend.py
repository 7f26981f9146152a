"""The node tests of the `onnx` package, through the library and through the command line: each as expected_failures.txt says."""
import time

import pytest

from conformance import onnx_backend

CASES = onnx_backend.collect()
EXPECTED = onnx_backend.expected_failures()


@pytest.fixture(scope="module")
def results(request):
    start = time.monotonic()
    results = onnx_backend.run_all(cases=CASES)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        onnx_backend.print_summary(results, time.monotonic() - start)
    return results


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
