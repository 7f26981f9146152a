#include "guard/ranges.h"

#include <cmath>
#include <limits>

#include "guard/views.h"

namespace tenon::guard {
namespace {

void Widen(const HostTensor& t, Ranges* ranges) {
  if (t.dtype != DType::kF32 || t.is_sequence || t.data == nullptr || t.bytes == 0) return;
  const auto* p = static_cast<const float*>(t.data);
  float low = p[0];
  float high = p[0];
  bool finite = true;
  for (size_t i = 0, n = t.bytes / sizeof(float); i < n; ++i) {
    low = p[i] < low ? p[i] : low;
    high = p[i] > high ? p[i] : high;
    finite = finite && std::isfinite(p[i]);
  }
  if (!finite) high = std::numeric_limits<float>::infinity();
  const auto [it, fresh] = ranges->emplace(t.name, std::pair{low, high});
  if (!fresh) it->second = {std::min(it->second.first, low), std::max(it->second.second, high)};
}

class Widener final : public StepObserver {
 public:
  explicit Widener(Ranges* ranges) : ranges_(ranges) {}
  bool WantsValues() const override { return true; }
  void OnStep(const StepRecord& record) override {
    for (const HostTensor& t : record.outputs) Widen(t, ranges_);
  }

 private:
  Ranges* ranges_;
};

}  // namespace

Result<Ranges> MeasureRanges(Session& session, DataSet& data, std::span<const size_t> samples, const RunOptions& run) {
  Ranges ranges;
  Widener widener(&ranges);
  RunOptions observed = run;
  observed.observer = &widener;
  for (const size_t i : samples) {
    TENON_ASSIGN_OR_RETURN(const Sample sample, data.Load(i));
    for (const HostTensor& t : sample.inputs) Widen(t, &ranges);
    TENON_RETURN_IF_ERROR(session.Run(sample.inputs, observed).status());
  }
  return ranges;
}

void AddViews(const artifact::Program& program, Ranges* ranges) {
  for (const auto& [view, source] : ViewSources(program)) {
    const auto it = ranges->find(source);
    if (it != ranges->end()) ranges->emplace(view, std::pair(it->second));
  }
}

}  // namespace tenon::guard
