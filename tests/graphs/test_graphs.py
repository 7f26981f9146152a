"""Random graphs and the small models that once failed, against ONNX Runtime at every level. (--long: 100,000 graphs.)"""
import pathlib

import pytest

from graphs import check, fuzz
from support import library

REPRO = sorted((pathlib.Path(__file__).resolve().parent.parent / "repro").glob("*.onnx"))


@pytest.mark.parametrize("path", REPRO, ids=lambda p: p.stem)
@pytest.mark.parametrize("isa", fuzz.ISAS)
def test_repro(path, isa):
    model, inputs, _ = check.load(path)
    try:
        assert check.check(model, inputs, isa=isa) is None
    except check.PeerRefuses:
        for level in check.LEVELS:
            try:
                library.open_model(path, cache_dir="none", opt_level=level, isa=isa)
            except library.TenonError as error:
                assert error.code in (3, 4, 6)


def test_random_graphs(tmp_path, long_mode):
    # Other seeds than those of long runs by hand would be as good; the same ones every time make a failure repeatable.
    ran, failures, _ = fuzz.fuzz(0, 100_000 if long_mode else 600, 2, str(tmp_path), report=lambda line: print(line))
    assert not failures
    assert ran > 0.98 * (100_000 if long_mode else 600)
