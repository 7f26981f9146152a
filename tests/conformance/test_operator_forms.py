"""Every operator of onnx in every version and with every type (operator_forms.py): passes, or is explained here."""
import fnmatch
import json
import subprocess
import sys

import pytest

from conformance import operator_forms

HAND = "no case of today can say it; src/import/onnx/old_forms_test.cc and upgrade_test.cc have it"
NO_CASE = "onnx has no node case of it; unit tests of the kernel family do"
UNDEFINED = "onnx leaves the result open: the case's numbers do not fit the type"
ORACLE = "the reference is wrong or gives another type than the schema says"
# (pattern of the key, kind of result, why). A row that explains nothing fails.
VERSIONS = [
    ("BatchNormalization-1", "unmade", HAND), ("Cast-1", "unmade", HAND), ("Loop-1", "unmade", HAND), ("LpPool-1", "unmade", HAND),
    ("Pad-1", "unmade", HAND), ("Tile-1", "unmade", HAND), ("Upsample-1", "unmade", HAND), ("Resize-1[01]", "unmade", HAND),
    ("GlobalLpPool-*", "unmade", NO_CASE), ("MaxRoiPool-*", "unmade", NO_CASE), ("Multinomial-*", "unmade", NO_CASE),
    ("RandomNormal*-*", "unmade", NO_CASE), ("RandomUniform-*", "unmade", NO_CASE), ("RandomUniformLike-1", "unmade", NO_CASE),
    ("ConcatFromSequence-11", "unmade", "its cases use newer operators"), ("SequenceErase-11", "unmade", NO_CASE),
    ("MaxUnpool-*", "wrong value", "ONNX Runtime reads indices in the shape asked for; the case's own result is ours"),
    ("PRelu-[16]", "refused", "the case broadcasts the slope as version 7 does; version 6 has one slope, or one for each channel"),
    ("Scan-8", "refused", "sequence_lens are not supported: no exporter is known to have written them"),
    ("ai.onnx.preview.training.Gradient-1", "unmade", "differentiates the graph around it: tests/conformance/test_gradient.py"),
]
TYPES = [
    ("AffineGrid T1 bfloat16", "wrong dtype", ORACLE), ("LayerNormalization T bfloat16", "wrong dtype", ORACLE),
    ("ReduceSumSquare T uint32", "wrong dtype", ORACLE), ("Det T bfloat16", "wrong dtype", ORACLE),
    ("GridSample T1 *int*", "wrong value", "the reference cuts the weights to integers"),
    ("ai.onnx.preview.training.* T1 double", "wrong dtype", ORACLE), ("MaxUnpool T*", "wrong value", VERSIONS[16][2]),
    ("BitCast T1 *", "refused", "no case has a type of this width on the other side"),
    ("* float6e?m?", "refused", "no element type of Tenon yet: opset 28 has them, no known exporter writes them"),
    ("CastLike T2 *", "wrong value", UNDEFINED), ("QuantizeLinear T3 float8*", "wrong value", UNDEFINED),
    ("DequantizeLinear T1 float4e2m1", "wrong value", UNDEFINED),
    ("DequantizeLinear T2 float8e8m0", "refused", "the result's type is not given and cannot be the scale's"),
    ("Gemm T *int*", "refused", "alpha = 0.25 has no meaning among integers; whole factors are served"),
    ("GridSample T1 *", "refused", "nothing to interpolate between"), ("Resize T1 complex*", "refused", "cubic weights of complex numbers; nearest is served"),
    ("Col2Im T string", "refused", "sums, which strings have not"), ("Unique T complex*", "refused", "complex numbers have no order"),
    ("MelWeightMatrix T1 int64", "refused", UNDEFINED), ("Trilu T string", "wrong value", "what a string's zero is, is open: here the empty one"),
    ("TfIdfVectorizer T string", "refused", "the case's pool is of integers"),
    ("QLinearMatMul T? float8*", "refused", "no kernel: nobody is known to write it, ONNX Runtime does not run it either"),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("forms") / "results.json"
    done = subprocess.run([sys.executable, operator_forms.__file__, "--json", str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(path.read_text())


def unexplained(results, table):
    failures, used = [], set()
    for key, reason in results.items():
        if reason in (operator_forms.PASS, operator_forms.NO_ORACLE):
            continue
        row = next((r for r in table if fnmatch.fnmatchcase(key, r[0]) and reason.startswith(r[1])), None)
        if row is None:
            failures.append(f"{key}: {reason}")
        used.add(row)
    return failures + [f"explains nothing: {row}" for row in table if row not in used]


def test_versions(results):
    assert unexplained(results["versions"], VERSIONS) == []


def test_types(results):
    assert unexplained(results["types"], TYPES) == []


def test_most_are_checked(results):
    """The tables must not hide a defect of the harness."""
    for what, least in ("versions", 590), ("types", 1880):
        assert sum(reason == operator_forms.PASS for reason in results[what].values()) >= least
