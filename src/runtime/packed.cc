#include "runtime/packed.h"

#include "kernels_digest.h"
#include "runtime/executor.h"

namespace tenon::runtime {
namespace {

constexpr size_t kWorthBytes = size_t{1} << 20;

}  // namespace

std::string PackedFor(hw::IsaMask isa) {
  return fmt::format("{} {}", hw::IsaToString(isa), kKernelsDigest);
}

Status PackWeights(artifact::Program* program, hw::Machine& machine) {
  const artifact::Program shared = *program;   // holds on to constants, which Prepare would give back
  std::vector<PackRecord> records(program->steps.size());
  TENON_RETURN_IF_ERROR(Prepare(shared, machine, 1, records).status());
  size_t bytes = 0;
  for (const PackRecord& r : records) {
    for (const auto& piece : r.pieces) bytes += piece->bytes();
  }
  if (bytes < kWorthBytes) return Status::Ok();
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].pieces.empty()) continue;
    program->steps[i].packed_row = records[i].row;
    program->steps[i].packed = std::move(records[i].pieces);
    for (artifact::ValueIndex v : records[i].consumed) program->values[static_cast<size_t>(v)].packed_away = true;
  }
  return Status::Ok();
}

}  // namespace tenon::runtime
