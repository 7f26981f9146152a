/* The C interface of Tenon: stable names, opaque handles, no exceptions. Thread-safe across sessions; one run at a time each.
 *
 * Functions that can fail return a code (0 = done; the values of tenon::Code, which are also the command line's exit codes), or a
 * null pointer; tenon_last_error() then tells what happened on this thread. Options are JSON objects; unknown keys are errors. */
#ifndef TENON_TENON_H_
#define TENON_TENON_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_session tenon_session;
typedef struct tenon_value tenon_value; /* a tensor, or a sequence of tensors */

/* Version of the library, "0.1.0". */
const char* tenon_version(void);
/* Code and message of the last failure on this thread; valid until the next call on this thread. */
int tenon_last_error_code(void);
const char* tenon_last_error(void);

/* Compiles a model file into an artifact. `options_json` (may be null):
 *   {"opt_level": 99, "disable_pass": ["NAME"], "input_shape": {"x": ["n", "3", "1..640", "-1"]}, "external_weights": false,
 *    "packed_weights": true, "keep_initializer_inputs": false, "precision": "f32", "kv_cache": "f16", "weights": "file",
 *    "op_select_implmode": "high_performance"} */
int tenon_compile(const char* model, const char* out, const char* options_json);

/* Opens a model: .tenon directly, .onnx compiled on the fly. `options_json` (may be null): the keys of tenon_compile (for models
 * that need compiling) and {"threads": 0, "cores": [0, 1], "memory_limit": 0, "isa": "", "max_cached_shapes": 16, "cache_dir":
 * ""} with "cache_dir": "none" to write nothing. Null on failure. */
tenon_session* tenon_open(const char* model, const char* options_json);
void tenon_close(tenon_session* session);

typedef struct tenon_tensor_info {
  const char* name;         /* valid as long as the session */
  int32_t dtype;            /* ONNX TensorProto.DataType */
  int32_t is_sequence;
  int32_t rank;             /* -1: unknown */
  const char* const* dims;  /* `rank` texts: a number, a symbol or an expression */
} tenon_tensor_info;

size_t tenon_input_count(const tenon_session* session);
size_t tenon_output_count(const tenon_session* session);
int tenon_input_info(const tenon_session* session, size_t index, tenon_tensor_info* info);
int tenon_output_info(const tenon_session* session, size_t index, tenon_tensor_info* info);
/* Value of the model's metadata `key`, or null. Valid as long as the session. */
const char* tenon_metadata(const tenon_session* session, const char* key);

/* Values. tenon_tensor borrows `data` (dense, row-major, `bytes` long); the other constructors copy. Free each with
 * tenon_value_free. Null on failure. */
tenon_value* tenon_tensor(int32_t dtype, const int64_t* shape, size_t rank, const void* data, size_t bytes);
tenon_value* tenon_strings(const int64_t* shape, size_t rank, const char* const* strings, const size_t* lengths);
tenon_value* tenon_sequence(int32_t dtype, const tenon_value* const* items, size_t count);
void tenon_value_free(tenon_value* value);

int32_t tenon_value_dtype(const tenon_value* value);
int32_t tenon_value_is_sequence(const tenon_value* value);
size_t tenon_value_rank(const tenon_value* value);
const int64_t* tenon_value_shape(const tenon_value* value);
/* Elements of a tensor other than strings. Results of tenon_run point into the session's memory: valid until its next run. */
const void* tenon_value_data(const tenon_value* value, size_t* bytes);
/* Element `index` of a string tensor (not zero-terminated when it holds zeros: see `length`). */
const char* tenon_value_string(const tenon_value* value, size_t index, size_t* length);
/* Number of strings of a string tensor, or of tensors of a sequence. */
size_t tenon_value_count(const tenon_value* value);
/* Tensor `index` of a sequence; belongs to the sequence. */
const tenon_value* tenon_value_item(const tenon_value* value, size_t index);

/* Runs once. `outputs` receives one new value per output of the model, in its order. On failure `outputs` is left alone. */
int tenon_run(tenon_session* session, const char* const* input_names, const tenon_value* const* inputs, size_t num_inputs,
              tenon_value** outputs);
/* Stops the session's current or next run; any thread may call it. */
void tenon_cancel(tenon_session* session);

/* From now on `output` of one run is `input` of the next, unless the caller feeds it. */
int tenon_carry_state(tenon_session* session, const char* output, const char* input);
void tenon_reset_state(tenon_session* session);
/* Gives back memory not needed for the weights. */
void tenon_trim(tenon_session* session);

/* JSON: {"memory": {...}, "kernels": [...], "threads": n}. Free with tenon_free. */
char* tenon_session_report(const tenon_session* session);
void tenon_free(char* text);

#ifdef __cplusplus
}
#endif

#endif /* TENON_TENON_H_ */
