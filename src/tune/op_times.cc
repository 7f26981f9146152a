#include "tune/op_times.h"

#include <algorithm>
#include <map>

#include "guard/statistics.h"

namespace tenon::tune {
namespace {

// Operators of one session by name and type, in the order in which they ran first.
class Ops final : public StepObserver {
 public:
  struct Row {
    std::string name, op, kernel, shapes;
    std::vector<StepDetails> calls;   // of the described run
    double run_us = 0;
    std::vector<double> us;
  };

  bool WantsShapes() const override { return describing_; }
  bool WantsDetails() const override { return describing_; }
  void OnStep(const StepRecord& r) override {
    const auto [it, fresh] = index_.emplace(std::pair(std::string(r.name), std::string(r.op)), rows_.size());
    if (fresh) {
      rows_.emplace_back();
      rows_.back().name = r.name;
      rows_.back().op = r.op;
    }
    Row& row = rows_[it->second];
    if (describing_) {
      row.kernel = r.kernel;
      row.shapes = r.shapes;
      row.calls.push_back(*r.details);
    }
    row.run_us += static_cast<double>(r.duration_ns) / 1e3;
  }
  void EndRun() {
    for (Row& row : rows_) {
      if (!describing_) row.us.push_back(row.run_us);
      row.run_us = 0;
    }
    describing_ = false;
  }
  const std::vector<Row>& rows() const { return rows_; }
  const Row* Find(const std::string& name, const std::string& op) const {
    const auto it = index_.find({name, op});
    return it == index_.end() ? nullptr : &rows_[it->second];
  }
  /// The operator of this name where there is one only, whatever its type.
  const Row* FindByName(const std::string& name) const {
    const Row* found = nullptr;
    for (auto it = index_.lower_bound({name, ""}); it != index_.end() && it->first.first == name; ++it) {
      if (found != nullptr) return nullptr;
      found = &rows_[it->second];
    }
    return found;
  }

 private:
  bool describing_ = true;
  std::map<std::pair<std::string, std::string>, size_t> index_;
  std::vector<Row> rows_;
};

OpTime TimeOf(const Ops::Row& row) {
  OpTime t;
  t.us = guard::Median(row.us);
  t.noise = row.us.size() < 2 ? 0 : guard::MedianNoise(row.us);
  t.kernel = row.kernel.empty() ? "-" : row.kernel;
  t.shapes = row.shapes;
  return t;
}

void AddRoof(const Ops::Row& row, int threads, const hw::Peaks& peaks, hw::IsaMask isa, OpPair* pair) {
  double compute_us = 0;
  for (const StepDetails& d : row.calls) {
    const double flops = peaks.Flops(d.product == DType::kUndefined ? DType::kF32 : d.product, isa, threads);
    const double bandwidth = peaks.Bandwidth(d.bytes, threads);
    const double compute = flops > 0 ? d.flops / flops * 1e6 : 0;
    const double memory = bandwidth > 0 ? d.bytes / bandwidth * 1e6 : 0;
    pair->flops += d.flops;
    pair->bytes += d.bytes;
    pair->roof_us += std::max(compute, memory);
    compute_us += compute > memory ? compute : 0;
  }
  pair->compute_bound = compute_us > pair->roof_us / 2;
}

Status RunBoth(Session& before, Session& after, const std::vector<HostTensor>& inputs, int rounds, const RunOptions& run, Ops* a,
               Ops* b) {
  for (int round = -1; round < rounds; ++round) {   // the first describes
    for (int k = 0; k < 2; ++k) {
      const bool first = (k == 0) == (round % 2 == 0);
      RunOptions observed = run;
      observed.observer = first ? a : b;
      TENON_RETURN_IF_ERROR((first ? before : after).Run(inputs, observed).status());
      (first ? a : b)->EndRun();
    }
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<OpPair>> CompareOps(Session& before, Session& after, const std::vector<HostTensor>& inputs, int rounds,
                                       const hw::Peaks& peaks, hw::IsaMask isa, const RunOptions& run) {
  Ops a;
  Ops b;
  TENON_RETURN_IF_ERROR(RunBoth(before, after, inputs, rounds, run, &a, &b));
  std::vector<OpPair> pairs;
  std::vector<const Ops::Row*> matched;
  for (const Ops::Row& row : b.rows()) {
    OpPair pair{row.name, row.op, {}, TimeOf(row)};
    AddRoof(row, after.threads(), peaks, isa, &pair);
    const Ops::Row* other = a.Find(row.name, row.op);
    if (other == nullptr && b.FindByName(row.name) != nullptr) other = a.FindByName(row.name);
    if (other != nullptr) {
      pair.before = TimeOf(*other);
      matched.push_back(other);
    }
    pairs.push_back(std::move(pair));
  }
  for (const Ops::Row& row : a.rows()) {
    if (std::find(matched.begin(), matched.end(), &row) == matched.end()) pairs.push_back({row.name, row.op, TimeOf(row), {}});
  }
  return pairs;
}

}  // namespace tenon::tune
