"""Whole real models against ONNX Runtime: several shapes each, at every level, without each pass, on every instruction set."""
import pytest

from support import command, compare, library, models

SMALL = [*models.ppocr(), *models.magika(), *models.silero()]
CASES = [*SMALL, *models.light(), *models.exported()]
LEVELS = (0, 1, 2, 3, 99)
ISAS = ("baseline", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx", "native")

# What exercises every pass between them: convolutions with SE blocks, hard swish and attention; an LSTM behind an If; an embedding.
VARIED = [case for case in SMALL if case.name in ("det-1x3x64x64", "rec-1x3x48x32", "cls-1x3x48x192", "silero_vad", "magika-1")]
VARIED += [case for case in models.exported() if case.name in ("minilm_dynamo-1x16", "efficientnet_lite0_dynamo-1", "vit_b_16-1")]


def check(case, got):
    want = models.reference(case.path, case.inputs())
    assert list(got) == list(want)
    for name in want:
        compare.assert_equal(got[name], want[name], f"{case}, output {name}")


def run(case, **options):
    with library.open_model(case.path, cache_dir="none", **options) as session:
        return session.run_named(case.inputs())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_onnx_runtime(case):
    check(case, run(case))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", VARIED, ids=str)
def test_every_level(case, level):
    check(case, run(case, opt_level=level))


def passes():
    return [row["name"] for row in command.tenon_json("inspect", VARIED[0].path, "--stage", "optimized")["passes"]]


@pytest.mark.parametrize("case", VARIED, ids=str)
def test_without_each_pass(case):
    names = sorted(set(passes()))
    assert names
    for name in names:
        check(case, run(case, disabled_passes=[name]))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("case", VARIED, ids=str)
def test_every_isa(case, isa, tmp_path):
    command.skip_unless_cpu_has(isa)
    done, got = command.run_model(case.path, case.inputs(), tmp_path, "--cache-dir", "none", env={"TENON_ISA": isa})
    assert done.returncode == 0, done.stderr
    check(case, got)


@pytest.mark.parametrize("threads", (1, 2, 3))
@pytest.mark.parametrize("case", VARIED[:2], ids=str)
def test_threads(case, threads):
    check(case, run(case, threads=threads))
