// The face of import/: bytes of a model file to an ir::Graph in canonical (newest ONNX) operators.
#ifndef TENON_IMPORT_IMPORT_H_
#define TENON_IMPORT_IMPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tenon {
class GgufFile;   // tensor/gguf.h
}

namespace tenon::import {

struct ImportOptions {
  /// Initialisers that are also graph inputs stay inputs (their values go to ImportReport::input_defaults) instead of
  /// becoming constants. Constants are what optimisation needs, so that is the default.
  bool keep_initializer_inputs = false;
  /// External data files with more than one hard link are refused: such a link may lead out of the model's directory.
  bool allow_hard_links = false;
  /// Largest tensor that is written out where the file holds less than its elements (sparse initialisers).
  size_t max_expanded_bytes = size_t{256} << 20;
  /// Nodes in all graphs together, after functions are inlined.
  int64_t max_nodes = int64_t{1} << 20;
};

struct ImportReport {
  int64_t ir_version = 0;
  std::string producer;                          ///< "pytorch 2.1.0"; empty when the file does not say
  std::map<std::string, int64_t> opsets;         ///< domain ("" is ai.onnx) to version
  std::map<std::string, Tensor> input_defaults;  ///< with keep_initializer_inputs
  std::vector<std::string> notes;                ///< one line each, for the user
};

/// Reads an ONNX model. External data is looked up in the model's directory and nowhere else, and mapped, not copied.
/// Succeeds for models with unknown operators (so that they can be inspected): see CheckSupported.
/// Errors: kBadInput for a missing, damaged or contradictory file, kUnsupported for valid constructs that have no
/// counterpart here, kResourceLimit beyond the options' limits.
Result<ir::Graph> ImportOnnx(const std::string& path, const ImportOptions& options = {}, ImportReport* report = nullptr);

/// The same for a model in memory. `base_dir` is where external data lies; empty: a model with external data is refused.
Result<ir::Graph> ImportOnnxBytes(std::string_view bytes, const std::string& base_dir, const ImportOptions& options = {},
                                  ImportReport* report = nullptr);

struct LanguageModelOptions {
  std::string kv_cache = "f16";   ///< type of the keys and values that are kept: "f16", "bf16", "q8_0", "f32"
  std::string weights = "file";  ///< "file": as they lie in it; "f32": matrices are unpacked, and their products those of ONNX
};

/// A language model in GGUF, as docs/import.md tells. Weights stay where they are in the file, which the constants keep open.
/// kUnsupported for an architecture, or a tensor, that is not known; kUsage for another kv_cache or weights, and for a
/// kv_cache that the heads do not fit.
Result<ir::Graph> ImportGguf(const GgufFile& file, const LanguageModelOptions& options = {});

/// A Hugging Face folder: config.json and model.safetensors, or the parts of it that model.safetensors.index.json names; then
/// what sentence-transformers keeps beside them. The graph's metadata hold the tokenizer ("tenon.tokenizer"). kUnsupported: a
/// model_type that is not known. Encoders: input `input_ids` [batch, seq], output `last_hidden_state`, "tenon.pooling" (cls,
/// mean, max, last), "tenon.normalize" (0, 1), "tenon.max_tokens", and, where the folder has prompts, "tenon.prompt.NAME" and
/// "tenon.default_prompt" (a NAME). Decoders: as ImportGguf makes them.
Result<ir::Graph> ImportHf(const std::string& folder, const LanguageModelOptions& options = {});

/// Every node of the graph, bodies included, in the order of the graph, and whether Tenon has its operator.
struct NodeSupport {
  std::string name, op, domain;  ///< domain "ai.onnx" for the default one
  bool supported = false;
};
std::vector<NodeSupport> Support(const ir::Graph& graph);

/// kUnsupported "node 'x' (Op, domain, opset n): ..." for the first operator, bodies included, that Tenon cannot run;
/// the message counts the others.
Status CheckSupported(const ir::Graph& graph);

}  // namespace tenon::import

#endif  // TENON_IMPORT_IMPORT_H_
