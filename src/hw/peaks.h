// What this machine can do at most, measured: arithmetic by type and instruction set, reading by size of the working set. The
// roof of rooflines. Rates are those of short loops over registers or memory; a real kernel cannot pass them, but may come near.
#ifndef TENON_HW_PEAKS_H_
#define TENON_HW_PEAKS_H_

#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "hw/isa.h"

namespace tenon::hw {

struct Peaks {
  struct Arithmetic {
    std::string name;      ///< "f32 avx512", "bf16 amx"
    DType dtype = DType::kUndefined;
    IsaMask needs = 0;
    double one = 0;        ///< operations per second (a multiply-add is two) of one thread
    double all = 0;        ///< of `threads` threads together
  };
  struct Reading {
    std::string level;     ///< "L2", "L3", "memory"
    uint64_t bytes = 0;    ///< working sets up to this size, of all threads together where the level is shared, else of each
    bool shared = false;
    std::vector<std::pair<int, double>> rates;   ///< threads, bytes per second together; ascending, from one to `threads`
  };

  std::string machine;     ///< what they were measured on, see MachineKey
  int threads = 1;
  double took_ms = 0;
  std::vector<Arithmetic> arithmetic;
  std::vector<Reading> reading;

  /// The best rate for products of `dtype` with these instruction sets: bf16 and int8 by their own units where there are any,
  /// float64 at half the rate of float32, all else at that of float32.
  const Arithmetic* Best(DType dtype, IsaMask isa) const;
  double Flops(DType dtype, IsaMask isa, int team) const;
  /// Bytes per second at which `team` threads read a working set of `bytes`.
  double Bandwidth(double bytes, int team) const;
};

/// Processor, caches, instruction sets, threads: two machines of one key have the same peaks.
std::string MachineKey(int threads);

/// Takes about a quarter of a second.
Peaks MeasurePeaks(int threads);

/// The faster of each rate; both of one machine.
Peaks Faster(Peaks a, const Peaks& b);

/// Lines of text, and back; kBadInput for anything else.
std::string PeaksToText(const Peaks& peaks);
Result<Peaks> PeaksFromText(const std::string& text);

/// From the file in `folder` that an earlier call left there, else measured and left there. A file that is damaged or of another
/// machine is made anew, one that cannot be written does no harm; `folder` empty: no file. `anew`: measured in any case; what was
/// faster before stays, as what disturbs a measurement only slows it.
Peaks PeaksOfThisMachine(const std::string& folder, int threads, bool anew = false);

}  // namespace tenon::hw

#endif  // TENON_HW_PEAKS_H_
