// Compiling models: model file in, artifact out.
#ifndef TENON_COMPILE_H_
#define TENON_COMPILE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/session.h"
#include "tenon/status.h"

namespace tenon {

struct CompileOptions {
  /// Per input, extents as text: "8" fixed, "n" a symbol, "1..8" a range, "-1" or "?" any. Empty: as the model says.
  std::map<std::string, std::vector<std::string>> input_shapes;
  int opt_level = 99;                          ///< 0 none, 1 basic, 2 extended (fusions), 3 layout, 99 all
  std::vector<std::string> disabled_passes;
  bool keep_initializer_inputs = false;        ///< initialisers that are also graph inputs stay overridable
  /// "f32": exactly as the model says. "bf16" or "mixed" (with ATC's words for them): matrix products, convolutions and attention
  /// compute on bf16 numbers with f32 sums, and what stands between them passes bf16 on. Never lowered unless told.
  std::string precision = "f32";
  std::string mixlist;  ///< file in ATC's form that edits the black, white and grey lists of "mixed"
  std::string keep_dtype;  ///< file: names of nodes that stay f32, or OpType::NAME, one a line
  /// Type of the keys and values that a language model keeps of its tokens: "f16", "bf16", "q8_0" (blocks of 32 int8 with a scale
  /// of f16: about half the memory), or "f32", with which attention computes in f32 too.
  std::string kv_cache = "f16";
  /// Weights of a language model: "file", as they lie in its file, or "f32", unpacked when it is read.
  std::string weights = "file";
  /// "high_performance", or "high_precision": no kernel that is faster but less exact (Winograd's convolutions; prompts of
  /// language models in bf16 or eight bits). ATC's name and words.
  std::string op_select_implmode = "high_performance";
  std::vector<std::string> optypelist_for_implmode;  ///< operator types that the mode is for; empty: all
  std::vector<std::string> keep_nodes;  ///< names of nodes that stay f32, as in that file
  bool external_weights = false;  ///< weights in "<out>.weights" beside the artifact
  /// Weights also in the form that the kernels of this machine read, which takes most of the time out of opening the artifact
  /// here and lets processes share them; the file is about twice as large. Machines of other kinds use the weights themselves.
  bool packed_weights = true;
  std::string command_line;  ///< kept in the artifact as provenance
};

struct PassReport {
  std::string name;
  double ms = 0;
  int changes = 0;
  std::map<std::string, int> refusals;  ///< reason -> how often
};

/// A node of the compiled model that computes in less than f32.
struct LoweredOp {
  std::string name;
  std::string op;
  std::string precision;
  bool chosen = false;  ///< for its own sake; else because it stands between chosen ones
};

struct CompileReport {
  std::vector<PassReport> passes;
  int imported_ops = 0;  ///< operators of the model as it was read
  std::map<std::string, int> ops;  ///< operators of the optimised model
  std::vector<LoweredOp> lowered;  ///< in execution order; empty unless asked for
  std::vector<std::string> notes;  ///< what the user should know, a line each
  double import_ms = 0;
  double total_ms = 0;
};

/// Compiles `model` (.onnx) into `out` (.tenon). The file appears whole or not at all.
Result<CompileReport> Compile(const std::string& model, const std::string& out, const CompileOptions& options = {});

/// Opens a model of any kind: `.tenon` directly; others are compiled on the fly and cached below `cache_dir` (empty:
/// $XDG_CACHE_HOME/tenon; "none": compiled in memory, nothing written).
Result<std::unique_ptr<Session>> OpenModel(const std::string& model, const CompileOptions& compile = {},
                                           const SessionOptions& session = {}, const std::string& cache_dir = "");

}  // namespace tenon

#endif  // TENON_COMPILE_H_
