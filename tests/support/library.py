"""Tenon's C library in this process (include/tenon/tenon.h), with numpy arrays in and out. The library itself is build/release's."""
import ctypes
import json

import ml_dtypes
import numpy as np

from support import paths

STRING = 8
# ONNX TensorProto.DataType to numpy; sub-byte types are packed low bits first at the border of the library.
NUMPY = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16,
         11: np.float64, 12: np.uint32, 13: np.uint64, 14: np.complex64, 15: np.complex128, 16: ml_dtypes.bfloat16,
         17: ml_dtypes.float8_e4m3fn, 18: ml_dtypes.float8_e4m3fnuz, 19: ml_dtypes.float8_e5m2, 20: ml_dtypes.float8_e5m2fnuz,
         21: ml_dtypes.uint4, 22: ml_dtypes.int4, 23: ml_dtypes.float4_e2m1fn, 24: ml_dtypes.float8_e8m0fnu, 25: ml_dtypes.uint2,
         26: ml_dtypes.int2}
ONNX = {np.dtype(numpy): onnx for onnx, numpy in NUMPY.items()}
BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("is_sequence", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_char_p))]


class TenonError(Exception):
    """A failed call: the code (also the command line's exit code) and the message."""

    def __init__(self, code, message):
        super().__init__(f"{message} (code {code})")
        self.code, self.message = code, message


def load():
    library = ctypes.CDLL(str(paths.LIBRARY))
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    shape = ctypes.POINTER(ctypes.c_int64)
    signatures = {
        "tenon_version": (text,), "tenon_last_error_code": (ctypes.c_int,), "tenon_last_error": (text,),
        "tenon_compile": (ctypes.c_int, text, text, text), "tenon_open": (pointer, text, text), "tenon_close": (None, pointer),
        "tenon_input_count": (size, pointer), "tenon_output_count": (size, pointer),
        "tenon_input_info": (ctypes.c_int, pointer, size, ctypes.POINTER(TensorInfo)),
        "tenon_output_info": (ctypes.c_int, pointer, size, ctypes.POINTER(TensorInfo)),
        "tenon_metadata": (text, pointer, text),
        "tenon_tensor": (pointer, ctypes.c_int32, shape, size, pointer, size),
        "tenon_strings": (pointer, shape, size, ctypes.POINTER(text), ctypes.POINTER(size)),
        "tenon_sequence": (pointer, ctypes.c_int32, ctypes.POINTER(pointer), size), "tenon_value_free": (None, pointer),
        "tenon_value_dtype": (ctypes.c_int32, pointer), "tenon_value_is_sequence": (ctypes.c_int32, pointer),
        "tenon_value_rank": (size, pointer), "tenon_value_shape": (shape, pointer),
        "tenon_value_data": (pointer, pointer, ctypes.POINTER(size)),
        "tenon_value_string": (pointer, pointer, size, ctypes.POINTER(size)), "tenon_value_count": (size, pointer),
        "tenon_value_item": (pointer, pointer, size),
        "tenon_run": (ctypes.c_int, pointer, ctypes.POINTER(text), ctypes.POINTER(pointer), size, ctypes.POINTER(pointer)),
        "tenon_cancel": (None, pointer), "tenon_carry_state": (ctypes.c_int, pointer, text, text),
        "tenon_reset_state": (None, pointer), "tenon_trim": (None, pointer),
        "tenon_session_report": (pointer, pointer), "tenon_free": (None, pointer),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


LIB = load()


def fail():
    raise TenonError(LIB.tenon_last_error_code(), (LIB.tenon_last_error() or b"").decode(errors="replace"))


def checked(pointer):
    return pointer if pointer else fail()


def pack(array, bits):
    """Elements of a sub-byte type, low bits first."""
    raw = array.ravel().view(np.uint8) & ((1 << bits) - 1)
    per_byte = 8 // bits
    raw = np.concatenate([raw, np.zeros(-raw.size % per_byte, np.uint8)]).reshape(-1, per_byte)
    return (raw << (np.arange(per_byte, dtype=np.uint8) * bits)).sum(1).astype(np.uint8)


def unpack(data, dtype, count, bits):
    spread = (data[:, None] >> (np.arange(8 // bits, dtype=np.uint8) * bits)) & ((1 << bits) - 1)
    flat = spread.ravel()[:count].astype(np.uint8)
    if np.dtype(dtype).name.startswith("int"):   # the sign belongs into the unused high bits of the byte
        flat = np.where(flat >> (bits - 1) != 0, flat | np.uint8(0xFF << bits & 0xFF), flat).astype(np.uint8)
    return flat.view(dtype)


def to_value(array, keep):
    """A tenon_value of an array, a list of arrays (a sequence) or None (an empty optional). `keep` collects what it borrows."""
    if array is None or isinstance(array, (list, tuple)):
        items = [to_value(item, keep) for item in array or []]
        dtype = LIB.tenon_value_dtype(items[0]) if items else 1
        value = checked(LIB.tenon_sequence(dtype, (ctypes.c_void_p * len(items))(*items), len(items)))
        for item in items:
            LIB.tenon_value_free(item)
        return value
    array = np.asarray(array)
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    if array.dtype.kind in "OUS":
        encoded = [s if isinstance(s, bytes) else str(s).encode() for s in array.ravel()]
        texts = (ctypes.c_char_p * len(encoded))(*encoded)
        return checked(LIB.tenon_strings(shape, array.ndim, texts, (ctypes.c_size_t * len(encoded))(*map(len, encoded))))
    dtype = ONNX[array.dtype]
    data = pack(array, BITS[dtype]) if dtype in BITS else np.ascontiguousarray(array)
    keep.append(data)
    return checked(LIB.tenon_tensor(dtype, shape, array.ndim, data.ctypes.data, data.nbytes))


def from_value(value):
    """A copy of a tenon_value as an array, or a list of arrays."""
    if LIB.tenon_value_is_sequence(value):
        return [from_value(LIB.tenon_value_item(value, i)) for i in range(LIB.tenon_value_count(value))]
    shape = LIB.tenon_value_shape(value)[:LIB.tenon_value_rank(value)]
    dtype = LIB.tenon_value_dtype(value)
    size = ctypes.c_size_t()
    if dtype == STRING:
        strings = []
        for i in range(LIB.tenon_value_count(value)):
            address = LIB.tenon_value_string(value, i, ctypes.byref(size))
            strings.append(ctypes.string_at(address, size.value).decode(errors="replace"))
        return np.array(strings, object).reshape(shape)
    address = LIB.tenon_value_data(value, ctypes.byref(size))
    raw = np.frombuffer(ctypes.string_at(address, size.value) if size.value else b"", np.uint8).copy()
    if dtype in BITS:
        return unpack(raw, NUMPY[dtype], int(np.prod(shape)), BITS[dtype]).reshape(shape)
    return raw.view(NUMPY[dtype]).reshape(shape)


class Bound:
    """A session with its inputs made once, for timing: run() does nothing but run."""

    def __init__(self, session, inputs):
        self.session, self.keep, self.count = session, [], len(session.outputs)
        self.names = (ctypes.c_char_p * len(inputs))(*[name.encode() for name in inputs])
        # An optional is a sequence of at most one at this border.
        optional = {info["name"] for info in session.inputs if info["is_sequence"]}
        listed = [[v] if k in optional and v is not None and not isinstance(v, (list, tuple)) else v for k, v in inputs.items()]
        self.values = (ctypes.c_void_p * len(inputs))(*[to_value(value, self.keep) for value in listed])
        self.results = (ctypes.c_void_p * self.count)()

    def run(self):
        for i in range(self.count):
            if self.results[i]:
                LIB.tenon_value_free(self.results[i])
                self.results[i] = None
        if LIB.tenon_run(self.session.handle, self.names, self.values, len(self.values), self.results):
            fail()

    def outputs(self):
        """{name: array} of the last run."""
        return {info["name"]: from_value(self.results[i]) for i, info in enumerate(self.session.outputs)}

    def close(self):
        for value in [*self.values, *self.results]:
            if value:
                LIB.tenon_value_free(value)
        self.values, self.results, self.count = [], [], 0


class Session:
    def __init__(self, handle):
        self.handle = handle
        self.inputs = self.infos(LIB.tenon_input_count, LIB.tenon_input_info)
        self.outputs = self.infos(LIB.tenon_output_count, LIB.tenon_output_info)

    def infos(self, count, get):
        rows = []
        for index in range(count(self.handle)):
            info = TensorInfo()
            if get(self.handle, index, ctypes.byref(info)):
                fail()
            dims = [info.dims[i].decode() for i in range(info.rank)] if info.rank >= 0 else None
            rows.append({"name": info.name.decode(), "dtype": info.dtype, "is_sequence": bool(info.is_sequence), "dims": dims})
        return rows

    def __enter__(self):
        return self

    def __exit__(self, *_):
        LIB.tenon_close(self.handle)
        self.handle = None

    def bind(self, inputs):
        return Bound(self, inputs)

    def run_named(self, inputs):
        """{output name: array} in the model's order."""
        bound = Bound(self, inputs)
        try:
            bound.run()
            return bound.outputs()
        finally:
            bound.close()

    def run(self, inputs):
        """Outputs in the model's order."""
        return list(self.run_named(inputs).values())

    def carry_state(self, output, input):
        if LIB.tenon_carry_state(self.handle, output.encode(), input.encode()):
            fail()

    def metadata(self, key):
        value = LIB.tenon_metadata(self.handle, key.encode())
        return None if value is None else value.decode()

    def report(self):
        text = checked(LIB.tenon_session_report(self.handle))
        try:
            return json.loads(ctypes.string_at(text))
        finally:
            LIB.tenon_free(text)

    def memory(self):
        return self.report()["memory"]


def options_json(disabled_passes=(), input_shapes=None, **options):
    """Options under the names of include/tenon/*.h, as the C interface spells them."""
    if disabled_passes:
        options["disable_pass"] = list(disabled_passes)
    if input_shapes:
        options["input_shape"] = input_shapes
    return json.dumps(options).encode()


def open_model(path, **options):
    """A Session; options: opt_level, disabled_passes, input_shapes, threads, cores, isa, memory_limit, cache_dir, ..."""
    return Session(checked(LIB.tenon_open(str(path).encode(), options_json(**options))))


def compile_model(path, out, **options):
    if LIB.tenon_compile(str(path).encode(), str(out).encode(), options_json(**options)):
        fail()
