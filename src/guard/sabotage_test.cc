// A kernel that is wrong on purpose, for this test program alone: the registry is compiled here once more, so that the one in the
// library is not linked, and a step whose `kernel` is "sabotaged" gets the honest kernel with one element of its output spoilt.
#include "kernels/kernel.h"

#define ChooseRow HonestChooseRow
#include "kernels/registry.cc"
#undef ChooseRow

#include <algorithm>
#include <cmath>

namespace tenon::kernels {
namespace {

class Sabotaged final : public Kernel {
 public:
  explicit Sabotaged(std::unique_ptr<Kernel> honest) : honest_(std::move(honest)) {}
  Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const override {
    return honest_->Configure(in, out);
  }
  size_t PackedBytes() const override { return honest_->PackedBytes(); }
  bool ConsumedConstant(size_t i) const override { return honest_->ConsumedConstant(i); }
  Status Run(const RunArgs& args) const override {
    TENON_RETURN_IF_ERROR(honest_->Run(args));
    const MutView& out = args.out[0];
    const int64_t n = out.num_elements();
    if (out.dtype != DType::kF32 || n == 0) return Internal("only f32 is sabotaged");
    auto* y = out.Data<float>();
    float largest = 0.1f;
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(y[i]));
    y[n / 2] += 0.5f * largest;
    return Status::Ok();
  }

 private:
  std::unique_ptr<Kernel> honest_;
};

Result<std::unique_ptr<Kernel>> MakeSabotaged(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const Choice honest, HonestChooseRow(problem, {}));
  TENON_ASSIGN_OR_RETURN(auto kernel, honest.row->make(problem));
  return {std::make_unique<Sabotaged>(std::move(kernel))};
}

}  // namespace

Result<Choice> ChooseRow(const Problem& problem, std::string_view forced) {
  static const Row row{"sabotaged", hw::kBaseline, nullptr, MakeSabotaged};
  if (forced != "sabotaged") return HonestChooseRow(problem, forced);
  Choice choice;
  choice.row = &row;
  return choice;
}

}  // namespace tenon::kernels
