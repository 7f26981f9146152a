// The contract between operators and kernels. One folder per family holds a parameter struct, a table of rows (kernels.inc),
// a reference implementation (the oracle, always the last row) and one file per ISA.
//
// Life of a kernel:
//   shape rule   what comes out, from what is known of the inputs (used by the compiler with symbols, at run time with numbers)
//   can          whether a row serves the problem; a refusal is a short reason from kernels/refusals.h
//   make         parse and validate attributes, pack constant weights; once per step of a session
//   Configure    what depends on concrete shapes (JIT code, blocking); once per shape, kept in a bounded table
//   Run          const, allocates nothing (except outputs whose shape depends on data), takes its team and scratch
#ifndef TENON_KERNELS_KERNEL_H_
#define TENON_KERNELS_KERNEL_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/dim.h"
#include "hw/isa.h"
#include "hw/team.h"
#include "tensor/attrs.h"

namespace tenon::kernels {

struct KvStep;   // kernels/kv_step.h

/// What is known of a value before a run.
struct ValueInfo {
  DType dtype = DType::kUndefined;            ///< kUndefined: absent optional input, or not known (see `present`)
  bool present = false;                       ///< the input or output exists
  bool is_sequence = false;                   ///< sequence or optional of tensors of `dtype`
  SymShape shape;
  const View* data = nullptr;                 ///< contents, when known: a constant, or at run time the real input
  std::optional<std::vector<Dim>> elements;   ///< elements of an integer tensor of rank <= 1, as far as symbols reach
};

/// Integer elements of `v` from its data or its symbols; nullopt when not known.
std::optional<std::vector<Dim>> KnownElements(const ValueInfo& v);
/// The same when all are numbers.
std::optional<std::vector<int64_t>> KnownInts(const ValueInfo& v);

struct ShapeArgs {
  const Attrs& attrs;
  std::span<const ValueInfo> in;   ///< one per input, absent ones with present == false
  std::span<ValueInfo> out;        ///< one per output; `present` is set by the caller, the rule sets the rest

  bool Has(size_t i) const { return i < in.size() && in[i].present; }
};

/// Sets dtype and shape (and `elements` where cheap) of every present output. An extent that depends on data is
/// Dim::Unknown(). Errors: kBadInput with what was given and what is allowed; the caller adds the node's name.
/// Must cope with inputs of unknown rank by leaving outputs at unknown rank.
using ShapeRule = Status (*)(const ShapeArgs& args);

/// Where `make` gets the memory that it packs constant weights into, so that an artifact can carry what was packed.
class PackStore {
 public:
  virtual ~PackStore() = default;
  /// The next piece that the same row once packed for the same problem, with `bytes` bytes; null: it is to be packed.
  virtual std::shared_ptr<Buffer> Take(size_t bytes) = 0;
  /// A piece that was packed now.
  virtual void Keep(const std::shared_ptr<Buffer>& packed) = 0;
};

/// What a row is asked to serve.
struct Problem {
  std::string_view op;                  ///< canonical operator name, as in ops.inc
  const Attrs& attrs;
  std::span<const ValueInfo> in;        ///< symbolic shapes; `data` set for constants, which outlive the kernel
  std::span<const ValueInfo> out;
  hw::IsaMask isa = 0;                  ///< instruction sets the row may use
  int threads = 1;
  PackStore* packs = nullptr;           ///< null: packed weights stay with the kernel

  bool Has(size_t i) const { return i < in.size() && in[i].present; }
  bool IsConst(size_t i) const { return Has(i) && in[i].data != nullptr; }
};

/// Supplies outputs whose shape only the kernel knows.
class OutputAllocator {
 public:
  virtual ~OutputAllocator() = default;
  /// Output `index` with this shape; its data stays valid until the end of the run.
  virtual Result<MutView> Allocate(size_t index, const Shape& shape) = 0;
};

/// Per-shape state of a kernel (JIT primitives, indirection tables). Immutable once made.
class ShapeState {
 public:
  virtual ~ShapeState() = default;
};

struct Configured {
  std::unique_ptr<const ShapeState> state;  ///< may be null
  size_t scratch_bytes = 0;                 ///< handed to Run, 64-byte aligned, contents undefined
};

struct RunArgs {
  std::span<const View> in;        ///< absent optional inputs are !present()
  std::span<MutView> out;          ///< `data` null although present: call `allocator`, then also set out[i]
  const ShapeState* state = nullptr;
  std::byte* scratch = nullptr;
  hw::Team& team;
  OutputAllocator* allocator = nullptr;
  const KvStep* kv = nullptr;      ///< of a language model with a cache; null: no cache

  bool Has(size_t i) const { return i < in.size() && in[i].present(); }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  /// `in` and `out` have concrete shapes but no data (except constants). Default: nothing to prepare.
  virtual Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const;
  virtual Status Run(const RunArgs& args) const = 0;
  /// Bit k set: output 0 may share memory with input k when both have the same size (element i is written after the last
  /// read of element i). Kernels that cannot promise this return 0.
  virtual uint32_t InPlaceInputs() const { return 0; }
  /// Bytes kept for packed weights; charged to the partition.
  virtual size_t PackedBytes() const { return 0; }
  /// True when constant input `i` is not read after `make` (it was packed): its mapped pages can be given back.
  virtual bool ConsumedConstant(size_t /*i*/) const { return false; }
};

/// A reason why a row cannot serve a problem, from kernels/refusals.h; nullptr means it can.
using Refusal = const char*;

struct Row {
  std::string_view name;   ///< e.g. "MatMul_f32_14x32_avx512", "reference"
  hw::IsaMask needs = 0;
  Refusal (*can)(const Problem&) = nullptr;   ///< nullptr: serves everything the operator's contract allows
  Result<std::unique_ptr<Kernel>> (*make)(const Problem&) = nullptr;
};

/// One canonical operator as the kernels see it.
struct OpKernels {
  std::string_view op;
  ShapeRule infer = nullptr;
  std::span<const Row> rows;      ///< in order of preference, reference last
  int min_in = 1;                 ///< inputs [0, min_in) must be present
  int max_in = 1;                 ///< kVariadic: any number
  int min_out = 1;
  int max_out = 1;
  bool is_view = false;  ///< output 0 has the bytes of input 0 (Reshape and kin): the runtime aliases instead of running
  bool is_random = false;  ///< two runs may differ: never evaluated ahead of a run
};

inline constexpr int kVariadic = 1 << 20;

/// `bytes` bytes of packed weights: what problem.packs has, else new ones that `fill` writes (all of them). A function of the
/// problem's constants alone, whatever the number of threads. kResourceLimit when there is no memory.
Result<std::shared_ptr<Buffer>> PackedWeights(const Problem& problem, size_t bytes, const std::function<void(void*)>& fill);

/// Runs the shape rule of `op` after checking the number of inputs and outputs against its contract.
Status InferShapes(std::string_view op, const ShapeArgs& args);

/// All operators of all families; nullptr when none has this name. (kernels/families.inc is the list of families.)
const OpKernels* FindOp(std::string_view op);
std::span<const std::span<const OpKernels>> AllFamilies();

struct Choice {
  const Row* row = nullptr;
  std::vector<std::pair<std::string_view, Refusal>> refused;  ///< rows before it, with reasons
};

/// The first row that serves the problem, or the row named `forced` (empty: no wish). kUnsupported when none does.
Result<Choice> ChooseRow(const Problem& problem, std::string_view forced = {});

/// Names of the rows after `row` that would serve the problem too; without the reference.
std::vector<std::string_view> OtherRows(const Problem& problem, const Row& row);

/// Runs one operator on concrete inputs with its preferred row, allocating the outputs: constant folding, tests.
Result<std::vector<Tensor>> Evaluate(std::string_view op, const Attrs& attrs, std::span<const View> in, int num_outputs,
                                     hw::IsaMask isa, hw::Team& team, std::string_view forced_row = {});

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_KERNEL_H_
