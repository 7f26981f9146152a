"""Comparison of results. One function, so that no test has its own idea of equal."""
import numpy as np

# Whole real models against another runtime, f32.
RTOL, ATOL = 1e-3, 1e-4


def difference(got, want, rtol, atol):
    """None when equal, else a short reason that begins with "wrong shape", "wrong dtype" or "wrong value"."""
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return f"wrong shape: sequence of {len(got) if isinstance(got, (list, tuple)) else 'no'} for {len(want)}"
        reasons = [difference(g, w, rtol, atol) for g, w in zip(got, want)]
        return next((r for r in reasons if r), None)
    if want is None or got is None:
        return None if want is got else "wrong value: empty optional"
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"wrong shape: {got.shape}, not {want.shape}"
    if want.dtype.kind in "OUS":
        return None if np.array_equal(got.astype(object), want.astype(object)) else "wrong value: strings differ"
    if got.dtype != want.dtype:
        return f"wrong dtype: {got.dtype}, not {want.dtype}"
    if want.dtype.kind not in "fcbiu":  # ml_dtypes: numpy cannot compare them in their own type
        if want.dtype.name == "bfloat16":
            rtol = max(rtol, 2.0**-6)  # two units in the last place, as the ONNX backend runner has it
        got, want = got.astype(np.float32), want.astype(np.float32)
    if np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
        return None
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.complex128) - want) - atol - rtol * np.abs(want.astype(np.complex128))
    worst = np.unravel_index(np.argmax(np.nan_to_num(error.real, nan=np.inf)), want.shape) if want.shape else ()
    return f"wrong value: {got[worst]} for {want[worst]} at {tuple(map(int, worst))}"


def assert_equal(got, want, what, rtol=RTOL, atol=ATOL):
    reason = difference(got, want, rtol, atol)
    assert reason is None, f"{what}: {reason}"
